//! Walks the frames of a region of a file and says where it is not whole. It must not judge: a bad
//! place is torn or damaged by what was durable, which the caller knows.

use bytes::Bytes;

use super::{
    error::{Fault, LogError},
    frame::{
        ALIGN_BYTES, COUNT_AT, Frame, FrameHeader, FrameKind, HEADER_BYTES, KIND_AT, LSN_AT,
        SESSION_AT,
    },
    journal::FRAMES_AT,
    reading::{Holes, Reading, read_around},
};
use crate::{
    env::File,
    event::{Position, SessionHash},
};

/// Watermarks lie at multiples of this many bytes, apart from the sectors of what they vouch for.
pub const WATERMARK_ALIGN_BYTES: u64 = 4096;

/// Content of one place of the region.
#[derive(Clone, Debug)]
pub enum ScanPiece {
    /// A whole frame.
    Frame {
        /// Byte offset of its start in the file.
        byte_offset: u64,
        /// The frame.
        frame: Frame,
    },
    /// Bytes that are no frame although one should be here and a later frame is whole.
    Bad {
        /// Byte offset of their start in the file.
        byte_offset: u64,
        /// Their fault.
        fault: Fault,
        /// The header, when only the payload is wrong.
        header: Option<FrameHeader>,
    },
}

/// A region walked to its end.
#[derive(Clone, Debug)]
pub struct Scan {
    /// In order. A bad piece without a header is always followed by another piece.
    pub pieces: Vec<ScanPiece>,
    /// Byte offset in the file where the last whole frame ended.
    pub end: u64,
    /// Fault behind the last piece, when the region continues: nothing there is a whole frame, or
    /// [`Fault::Unreadable`] where one might begin that the device cannot read.
    pub rest: Option<Fault>,
}

/// Bytes of a file that are read at once.
const WINDOW_BYTES: u64 = 1 << 20;

/// Source of the bytes of a walk.
struct WalkSource<'a> {
    /// File that is read, window by window, up to a byte offset; `None` where the window is all
    /// there is.
    file: Option<(&'a dyn File, u64)>,
    /// Byte offset of the window.
    at: u64,
    window: Bytes,
    /// Pages that the device could not read so far.
    holes: Holes,
}

impl<'a> WalkSource<'a> {
    fn from_file(file: &'a dyn File, to: u64) -> Self {
        Self { file: Some((file, to)), at: 0, window: Bytes::new(), holes: Holes::default() }
    }

    /// Up to so many bytes from a byte offset on, fewer where the region ends. What is within the
    /// last window is not read again.
    fn get(&mut self, from: u64, count: usize) -> Result<Bytes, LogError> {
        let end = from.saturating_add(count as u64);
        if let Some((file, to)) = self.file
            && (from < self.at || end.min(to) > self.at + self.window.len() as u64)
        {
            let until = end.max(from.saturating_add(WINDOW_BYTES)).min(to);
            let Reading { bytes, holes } = read_around(file, from, until)?;
            (self.at, self.window) = (from, bytes);
            self.holes.extend(holes);
        }
        let len = self.window.len();
        let start = usize::try_from(from - self.at).unwrap_or(usize::MAX).min(len);
        Ok(self.window.slice(start..start.saturating_add(count).min(len)))
    }
}

/// Walks `region`, which starts at `base` in its file, with the salt of that file's use.
#[must_use]
pub fn scan(salt: u64, region: &Bytes, base: u64) -> Scan {
    let window = region.clone();
    let mut source = WalkSource { file: None, at: base, window, holes: Holes::default() };
    let walked = collected(salt, base, base + region.len() as u64, &mut source);
    walked.expect("bytes in memory are read without errors")
}

/// Walks the bytes `[from, to)` of a file, which are read piece by piece: of what is between
/// frames nothing stays in memory.
///
/// # Errors
/// Errors of the file system.
pub fn scan_file(file: &dyn File, salt: u64, from: u64, to: u64) -> Result<Scan, LogError> {
    collected(salt, from, to.min(file.len()?), &mut WalkSource::from_file(file, to))
}

/// [`scan_file`] for one who keeps no frame: each piece is handed to `take`. Returns where the last
/// whole frame ended, and what is behind the last piece.
///
/// # Errors
/// Errors of the file system.
pub fn walk_file(
    file: &dyn File,
    salt: u64,
    (from, to): (u64, u64),
    take: &mut dyn FnMut(ScanPiece),
) -> Result<(u64, Option<Fault>), LogError> {
    walk(salt, from, to.min(file.len()?), &mut WalkSource::from_file(file, to), take)
}

fn collected(salt: u64, from: u64, to: u64, source: &mut WalkSource<'_>) -> Result<Scan, LogError> {
    let mut pieces = Vec::new();
    let (end, rest) = walk(salt, from, to, source, &mut |piece| pieces.push(piece))?;
    Ok(Scan { pieces, end, rest })
}

fn walk(
    salt: u64,
    from: u64,
    to: u64,
    source: &mut WalkSource<'_>,
    take: &mut dyn FnMut(ScanPiece),
) -> Result<(u64, Option<Fault>), LogError> {
    let (mut at, mut end) = (from, from);
    // Behind a watermark frames continue at once, or not at all.
    let mut idle = false;
    while at < to {
        let head = source.get(at, HEADER_BYTES)?;
        let header = FrameHeader::read(salt, &head).map(|(header, _)| header);
        let whole = match header {
            Ok(header) => {
                Frame::read(salt, &source.get(at, HEADER_BYTES + header.length as usize)?)
            }
            Err(fault) => Err(fault),
        };
        let fault = match whole {
            Ok(frame) => {
                let byte_offset = at;
                at += frame.header.stride();
                end = at;
                idle = frame.header.kind == FrameKind::Watermark;
                take(ScanPiece::Frame { byte_offset, frame });
                continue;
            }
            Err(fault) => fault,
        };
        if let Some((byte_offset, frame)) = watermark_behind(salt, at, source)? {
            at = byte_offset + frame.header.stride();
            (end, idle) = (at, true);
            take(ScanPiece::Frame { byte_offset, frame });
            continue;
        }
        let asked = header.map_or(HEADER_BYTES, |header| HEADER_BYTES + header.length as usize);
        let unread = source.holes.touch(at, at + asked as u64);
        let fault = if unread { Fault::Unreadable } else { fault };
        // What a header says of its length is not believed where the payload is wrong: it may be
        // one of another place, and frames lie where it says its payload does.
        let next = next_whole(salt, at, to, source)?;
        let bad = header.ok();
        let Some(next) = next.or(bad.map(|header| at + header.stride())) else {
            let boundary = at.next_multiple_of(WATERMARK_ALIGN_BYTES);
            let unread = !idle && source.holes.touch(boundary, boundary + HEADER_BYTES as u64);
            return Ok((end, Some(if unread { Fault::Unreadable } else { fault })));
        };
        take(ScanPiece::Bad { byte_offset: at, fault, header: bad });
        at = next;
    }
    Ok((end, None))
}

/// A watermark at the next boundary that says that the frame before ended here.
fn watermark_behind(
    salt: u64,
    here: u64,
    source: &mut WalkSource<'_>,
) -> Result<Option<(u64, Frame)>, LogError> {
    let boundary = here.next_multiple_of(WATERMARK_ALIGN_BYTES);
    let gap = (boundary - here) as usize;
    let bytes = source.get(here, gap + HEADER_BYTES)?;
    let frame = bytes.get(gap..).and_then(|_| Frame::read(salt, &bytes.slice(gap..)).ok());
    let vouches = |frame: &Frame| {
        frame.header.kind == FrameKind::Watermark && frame.header.first_position == Position(here)
    };
    Ok(frame.filter(vouches).map(|frame| (boundary, frame)))
}

/// Byte offset of the first whole frame behind a bad one, or of the first whole header.
fn next_whole(
    salt: u64,
    bad: u64,
    to: u64,
    source: &mut WalkSource<'_>,
) -> Result<Option<u64>, LogError> {
    let mut at = bad + ALIGN_BYTES;
    while at + HEADER_BYTES as u64 <= to {
        let window = source.get(at, WINDOW_BYTES as usize)?;
        let mut start = 0;
        while let Some(head) = window.get(start..start + HEADER_BYTES) {
            // kind, codec, compression and cipher of any frame this version writes.
            let likely =
                matches!(head.get(KIND_AT..KIND_AT + 4), Some([1..=3, 1..=2, 0..=1, 0..=1]));
            if likely && FrameHeader::read(salt, head).is_ok() {
                return Ok(Some(at + start as u64));
            }
            start += ALIGN_BYTES as usize;
        }
        if start == 0 {
            // The file is shorter than it was.
            return Ok(None);
        }
        at += start as u64;
    }
    Ok(None)
}

/// Byte offset up to which the frames of a journal file are whole, each behind the other, in the
/// use with this salt.
#[must_use]
pub fn whole_to(bytes: &Bytes, salt: u64) -> u64 {
    let region = bytes.slice(bytes.len().min(FRAMES_AT as usize)..);
    let Scan { pieces, end, .. } = scan(salt, &region, FRAMES_AT);
    let bad = pieces.iter().find_map(|piece| match piece {
        ScanPiece::Bad { byte_offset, .. } => Some(*byte_offset),
        ScanPiece::Frame { .. } => None,
    });
    bad.unwrap_or(end)
}

/// Byte ranges of the payloads of a session's requests in a journal file, whatever salt their
/// checksums have, whole or not, where `wanted` takes the log sequence numbers of their records:
/// the first, and the one after the last.
#[must_use]
pub fn payloads_of(
    bytes: &[u8],
    session: SessionHash,
    wanted: &dyn Fn(u64, u64) -> bool,
) -> Vec<(usize, usize)> {
    let [request, _] = FrameKind::Request.ordinals();
    let mut found = Vec::new();
    let field = |at: usize, width: usize| bytes.get(at..at + width);
    let u32_at = |at: usize| {
        let field = field(at, 4).and_then(|field| field.try_into().ok());
        field.map_or(0, u32::from_le_bytes)
    };
    for at in (FRAMES_AT as usize..bytes.len()).step_by(ALIGN_BYTES as usize) {
        let named = field(at + SESSION_AT, session.0.len()) == Some(session.0.as_slice());
        if !named || field(at + KIND_AT, 1) != Some(&[request]) {
            continue;
        }
        let lsn = field(at + LSN_AT, 8).and_then(|field| field.try_into().ok());
        let first = lsn.map_or(0, u64::from_le_bytes);
        let end = first.saturating_add(u64::from(u32_at(at + COUNT_AT)));
        let from = at + HEADER_BYTES;
        let to = from.saturating_add(u32_at(at) as usize).min(bytes.len());
        if from < to && wanted(first, end) {
            found.push((from, to));
        }
    }
    found
}

/// Byte ranges that earlier uses left in a journal file in front of the watermarks of the use with
/// this salt: from the end of the frame before to the watermark. No header names the session of
/// these bytes.
#[must_use]
pub fn gaps_of(bytes: &[u8], salt: u64) -> Vec<(usize, usize)> {
    let boundaries = (FRAMES_AT as usize..bytes.len()).step_by(WATERMARK_ALIGN_BYTES as usize);
    let gap = |at: usize| {
        let (header, _) = FrameHeader::read(salt, bytes.get(at..)?).ok()?;
        let from = header.first_position.0 as usize;
        let is_gap =
            header.kind == FrameKind::Watermark && (FRAMES_AT as usize..at).contains(&from);
        is_gap.then_some((from, at))
    };
    boundaries.filter_map(gap).collect()
}
