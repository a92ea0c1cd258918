//! Walks the frames of a region of a file and reports bad ranges. It must not decide whether a bad
//! range is torn or damaged: that depends on the durable point, which the caller knows.

use bytes::Bytes;

use super::{
    error::{Fault, LogError},
    frame::{
        ALIGN_BYTES, COUNT_AT, Frame, FrameHeader, FrameKind, HEADER_BYTES, KIND_AT, LSN_AT,
        SESSION_AT,
    },
    journal::FRAMES_AT,
    reading::{FileReading, UnreadablePages, read_with_holes},
};
use crate::{
    env::File,
    event::{Position, SessionHash},
};

/// Alignment of watermarks in bytes, so that they share no sector with the frames they cover.
pub const WATERMARK_ALIGN_BYTES: u64 = 4096;

/// Frame or bad range of a region.
#[derive(Clone, Debug)]
pub enum ScanPiece {
    /// A whole frame.
    Frame {
        /// Byte offset of its start in the file.
        byte_offset: u64,
        /// The frame.
        frame: Frame,
    },
    /// Bytes at a frame boundary that are not a whole frame, followed by a later whole frame.
    Bad {
        /// Byte offset of their start in the file.
        byte_offset: u64,
        /// Fault of the bytes.
        fault: Fault,
        /// Header of the frame, if only the payload is wrong.
        header: Option<FrameHeader>,
    },
}

/// Result of walking a region to its end.
#[derive(Clone, Debug)]
pub struct RegionScan {
    /// Pieces in order. A bad piece without a header is always followed by another piece.
    pub pieces: Vec<ScanPiece>,
    /// Byte offset in the file of the end of the last whole frame.
    pub end: u64,
    /// Fault after the last piece, if the region continues without a whole frame;
    /// [`Fault::Unreadable`] if a frame might start in an unreadable page.
    pub rest: Option<Fault>,
}

/// Bytes of a file read at once.
const WINDOW_BYTES: u64 = 1 << 20;

/// Source of the bytes of a walk.
struct WalkSource<'a> {
    /// File read window by window, and the byte offset of its end; `None` if the window is the
    /// whole region.
    file: Option<(&'a dyn File, u64)>,
    /// Byte offset of the window.
    at: u64,
    window: Bytes,
    /// Pages that the device could not read so far.
    holes: UnreadablePages,
}

impl<'a> WalkSource<'a> {
    fn from_file(file: &'a dyn File, to: u64) -> Self {
        Self {
            file: Some((file, to)),
            at: 0,
            window: Bytes::new(),
            holes: UnreadablePages::default(),
        }
    }

    /// Returns up to `count` bytes from a byte offset on, fewer at the end of the region. Bytes
    /// within the last window are not read again.
    fn get(&mut self, from: u64, count: usize) -> Result<Bytes, LogError> {
        let end = from.saturating_add(count as u64);
        if let Some((file, to)) = self.file
            && (from < self.at || end.min(to) > self.at + self.window.len() as u64)
        {
            let until = end.max(from.saturating_add(WINDOW_BYTES)).min(to);
            let FileReading { bytes, holes } = read_with_holes(file, from, until)?;
            (self.at, self.window) = (from, bytes);
            self.holes.extend(holes);
        }
        let len = self.window.len();
        let start = usize::try_from(from - self.at).unwrap_or(usize::MAX).min(len);
        Ok(self.window.slice(start..start.saturating_add(count).min(len)))
    }
}

/// Walks `region`, which starts at `base` in its file; `salt` is that of the file's use.
#[must_use]
pub fn scan(salt: u64, region: &Bytes, base: u64) -> RegionScan {
    let window = region.clone();
    let mut source = WalkSource { file: None, at: base, window, holes: UnreadablePages::default() };
    let walked = collect_scan(salt, base, base + region.len() as u64, &mut source);
    walked.expect("bytes in memory are read without errors")
}

/// Walks the bytes `[from, to)` of a file, read window by window, so that bytes between frames do
/// not stay in memory.
///
/// # Errors
/// Errors of the file system.
pub fn scan_file(file: &dyn File, salt: u64, from: u64, to: u64) -> Result<RegionScan, LogError> {
    collect_scan(salt, from, to.min(file.len()?), &mut WalkSource::from_file(file, to))
}

/// Walks like [`scan_file`], but passes each piece to `visit`. Returns the end of the last whole
/// frame, and the fault after the last piece.
///
/// # Errors
/// Errors of the file system.
pub fn walk_file(
    file: &dyn File,
    salt: u64,
    (from, to): (u64, u64),
    visit: &mut dyn FnMut(ScanPiece),
) -> Result<(u64, Option<Fault>), LogError> {
    walk(salt, from, to.min(file.len()?), &mut WalkSource::from_file(file, to), visit)
}

fn collect_scan(
    salt: u64,
    from: u64,
    to: u64,
    source: &mut WalkSource<'_>,
) -> Result<RegionScan, LogError> {
    let mut pieces = Vec::new();
    let (end, rest) = walk(salt, from, to, source, &mut |piece| pieces.push(piece))?;
    Ok(RegionScan { pieces, end, rest })
}

fn walk(
    salt: u64,
    from: u64,
    to: u64,
    source: &mut WalkSource<'_>,
    visit: &mut dyn FnMut(ScanPiece),
) -> Result<(u64, Option<Fault>), LogError> {
    let (mut at, mut end) = (from, from);
    // After a watermark, the next frame follows directly, or none does.
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
                visit(ScanPiece::Frame { byte_offset, frame });
                continue;
            }
            Err(fault) => fault,
        };
        if let Some((byte_offset, frame)) = read_watermark_after(salt, at, source)? {
            at = byte_offset + frame.header.stride();
            (end, idle) = (at, true);
            visit(ScanPiece::Frame { byte_offset, frame });
            continue;
        }
        let wanted = header.map_or(HEADER_BYTES, |header| HEADER_BYTES + header.length as usize);
        let unread = source.holes.overlaps(at, at + wanted as u64);
        let fault = if unread { Fault::Unreadable } else { fault };
        // The length in a header is not trusted if the payload is wrong: it may be a header from
        // another offset, with frames within its supposed payload.
        let next = find_next_whole(salt, at, to, source)?;
        let bad = header.ok();
        let Some(next) = next.or(bad.map(|header| at + header.stride())) else {
            let boundary = at.next_multiple_of(WATERMARK_ALIGN_BYTES);
            let unread = !idle && source.holes.overlaps(boundary, boundary + HEADER_BYTES as u64);
            return Ok((end, Some(if unread { Fault::Unreadable } else { fault })));
        };
        visit(ScanPiece::Bad { byte_offset: at, fault, header: bad });
        at = next;
    }
    Ok((end, None))
}

/// Reads the watermark at the next boundary, if it records that the previous frame ended at `here`.
fn read_watermark_after(
    salt: u64,
    here: u64,
    source: &mut WalkSource<'_>,
) -> Result<Option<(u64, Frame)>, LogError> {
    let boundary = here.next_multiple_of(WATERMARK_ALIGN_BYTES);
    let gap = (boundary - here) as usize;
    let bytes = source.get(here, gap + HEADER_BYTES)?;
    let frame = bytes.get(gap..).and_then(|_| Frame::read(salt, &bytes.slice(gap..)).ok());
    let covers = |frame: &Frame| {
        frame.header.kind == FrameKind::Watermark && frame.header.first_position == Position(here)
    };
    Ok(frame.filter(covers).map(|frame| (boundary, frame)))
}

/// Finds the byte offset of the first whole frame header after a bad frame.
fn find_next_whole(
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
            // Checks kind, codec, compression and cipher of a frame that this version writes.
            let likely =
                matches!(head.get(KIND_AT..KIND_AT + 4), Some([1..=3, 1..=2, 0..=1, 0..=1]));
            if likely && FrameHeader::read(salt, head).is_ok() {
                return Ok(Some(at + start as u64));
            }
            start += ALIGN_BYTES as usize;
        }
        if start == 0 {
            // The file was truncated during the walk.
            return Ok(None);
        }
        at += start as u64;
    }
    Ok(None)
}

/// Returns the byte offset where the first run of whole frames of a journal file ends, in the use
/// with this salt.
#[must_use]
pub fn whole_end_offset(bytes: &Bytes, salt: u64) -> u64 {
    let region = bytes.slice(bytes.len().min(FRAMES_AT as usize)..);
    let RegionScan { pieces, end, .. } = scan(salt, &region, FRAMES_AT);
    let bad = pieces.iter().find_map(|piece| match piece {
        ScanPiece::Bad { byte_offset, .. } => Some(*byte_offset),
        ScanPiece::Frame { .. } => None,
    });
    bad.unwrap_or(end)
}

/// Returns the byte ranges of the payloads of a session's requests in a journal file, of any salt,
/// whole or not. `wanted` selects them by the log sequence numbers of their records: the first, and
/// the one after the last.
#[must_use]
pub fn find_payloads(
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

/// Returns the byte ranges in front of the watermarks of the use with this salt: each from the end
/// of the previous frame to the watermark. They may hold bytes of earlier uses, without a header
/// that names their session.
#[must_use]
pub fn find_watermark_gaps(bytes: &[u8], salt: u64) -> Vec<(usize, usize)> {
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
