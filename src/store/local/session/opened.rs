//! In-memory state of a session's open files: its segments, each with the index of its frames, and
//! the names of its events. It must not open a file.

use std::time::Duration;

use bytes::Bytes;

use super::names::SessionNames;
use crate::{
    env::File,
    event::{Position, Range, SessionHash, Timestamp},
    log::{
        Cipher, Fault, Frame, FrameHeader, KnownBatch, LogError, SegmentEntry,
        frame::HEADER_BYTES,
        journal::read as read_bytes,
        scan::{ScanPiece, scan},
        seal::{self, SealedTables},
        segment::{FRAMES_AT, FrameIndex, SegmentHeader},
    },
    store::SessionGap,
};

/// Segments and names of a session in use.
pub(crate) struct OpenedSession {
    pub(crate) segments: Vec<OpenSegment>,
    /// Names in open segments, in sealed ones without a table of ids, and in unflushed frames.
    pub(crate) names: SessionNames,
    /// Time of the last use by a caller, by the monotonic clock.
    pub(crate) used_at: Duration,
    /// Unreadable positions of its files; the next opening may be able to read them.
    pub(crate) unread: Vec<SessionGap>,
}

/// Unreadable or damaged positions of a session.
pub(crate) struct UnreadableRange {
    pub(crate) range: Range,
    pub(crate) reason: String,
    /// True if the device could not read them; a later read may succeed.
    pub(crate) unread: bool,
}

impl UnreadableRange {
    pub(crate) fn into_gap(self) -> SessionGap {
        SessionGap { range: self.range, reason: self.reason, accepted_at: None }
    }
}

/// Segment that can be read.
pub(crate) struct OpenSegment {
    pub(crate) file: SegmentEntry,
    pub(crate) path: String,
    pub(crate) salt: u64,
    pub(crate) index: Vec<FrameIndex>,
    pub(crate) sealed: Option<SealedTables>,
}

impl OpenSegment {
    pub(crate) fn from_sealed(
        file: SegmentEntry,
        path: String,
        salt: u64,
        sealed: SealedTables,
    ) -> Self {
        Self { file, path, salt, index: sealed.index.clone(), sealed: Some(sealed) }
    }
}

impl OpenedSession {
    /// Returns the salt of a segment, if it is in memory.
    pub(crate) fn salt_of(&self, segment: &SegmentEntry) -> Option<u64> {
        let known = self.segments.iter().rev().find(|open| open.file == *segment);
        known.map(|open| open.salt)
    }

    /// Creates the state of a session without files, used at `now`.
    pub(crate) fn new(now: Duration) -> Self {
        let (segments, unread) = (Vec::new(), Vec::new());
        Self { segments, names: SessionNames::default(), used_at: now, unread }
    }

    /// Replaces a run of segments by a sealed one; removes their names if it has a table of ids.
    pub(crate) fn replace_by_sealed(&mut self, run: &[SegmentEntry], sealed: OpenSegment) {
        let at = self.segments.iter().position(|segment| Some(&segment.file) == run.first());
        let Some(at) = at.filter(|at| at + run.len() <= self.segments.len()) else { return };
        let range = Range::new(Position(sealed.file.base), Position(sealed.file.end));
        if sealed.sealed.as_ref().is_some_and(|sealed| !sealed.without_ids) {
            self.names.remove_ids(range);
        }
        self.segments.splice(at..at + run.len(), [sealed]);
    }

    /// Returns the position of the event with that id hash.
    pub(crate) fn find_event(&mut self, hash: &[u8; 16]) -> Option<Position> {
        let sealed = self.segments.iter().rev().filter_map(|segment| segment.sealed.as_ref());
        let known = self.names.find(hash);
        known.or_else(|| sealed.into_iter().find_map(|sealed| sealed.find_id(hash)))
    }

    /// Returns the batch with that key, if it was written at or after `from`.
    pub(crate) fn find_batch(&self, key: &str, from: Timestamp) -> Option<&KnownBatch> {
        let sealed = self.segments.iter().filter_map(|segment| segment.sealed.as_ref());
        let sealed = sealed.flat_map(|sealed| &sealed.batches);
        let known = self.names.batches.get(key).map(|(time, batch)| (time, batch));
        known
            .into_iter()
            .chain(sealed.map(|(time, batch)| (time, batch)))
            .find(|(time, batch)| batch.key == key && **time >= from)
            .map(|(_, batch)| batch)
    }

    /// Adds flushed frames to a new or existing segment.
    pub(crate) fn add_flushed(
        &mut self,
        file: &SegmentEntry,
        path: &str,
        salt: u64,
        new: &[FrameIndex],
    ) {
        let known = self.segments.last_mut().filter(|segment| segment.path == path);
        match known {
            Some(segment) => {
                let end = segment.index.last().map_or(FRAMES_AT, FrameIndex::next_offset);
                debug_assert!(
                    new.first().is_none_or(|first| end <= first.byte_offset),
                    "a segment grows at its end"
                );
                segment.file = file.clone();
                segment.index.extend_from_slice(new);
            }
            None => self.segments.push(OpenSegment {
                file: file.clone(),
                path: path.to_owned(),
                salt,
                index: new.to_vec(),
                sealed: None,
            }),
        }
    }
}

/// Returns the index entry of a frame at a byte offset.
pub(crate) fn index_entry(
    byte_offset: u64,
    header: &FrameHeader,
    first_time: Timestamp,
) -> FrameIndex {
    FrameIndex {
        byte_offset,
        stride: u32::try_from(header.stride()).unwrap_or(u32::MAX),
        first_position: header.first_position,
        events: header.events,
        count: header.count,
        first_lsn: header.first_lsn,
        first_time,
    }
}

/// Reads and decrypts all frames of a segment; fails if one is not whole.
pub(crate) fn read_whole_frames(
    file: &dyn File,
    header: &SegmentHeader,
    entry: &SegmentEntry,
    cipher: Option<&Cipher>,
) -> Result<Vec<Frame>, LogError> {
    let end = match entry.sealed {
        false => entry.bytes,
        true => seal::frames_end(file, header, entry.bytes)?,
    };
    let region = read_bytes(file, FRAMES_AT, end)?;
    let found = scan(header.salt, &region, FRAMES_AT);
    if let Some(fault) = found.rest {
        return Err(LogError::Fault { byte_offset: found.end, fault });
    }
    let whole = |piece| match piece {
        ScanPiece::Frame { frame, byte_offset } => {
            frame.decrypt(cipher).map_err(|fault| LogError::Fault { byte_offset, fault })
        }
        ScanPiece::Bad { byte_offset, fault, .. } => Err(LogError::Fault { byte_offset, fault }),
    };
    found.pieces.into_iter().map(whole).collect()
}

/// Decodes and decrypts one frame from bytes that start at `from` in its file.
pub(crate) fn decode_frame(
    (session, cipher): (SessionHash, Option<&Cipher>),
    salt: u64,
    index: &FrameIndex,
    from: u64,
    bytes: &Bytes,
) -> Result<Frame, Fault> {
    let start = usize::try_from(index.byte_offset - from).map_err(|_| Fault::Short)?;
    if start + HEADER_BYTES > bytes.len() {
        return Err(Fault::Short);
    }
    let frame = Frame::read(salt, &bytes.slice(start..))?;
    let range = Range::new(index.first_position, index.end_position());
    if frame.header.session != session || frame.header.range() != range {
        return Err(Fault::Misplaced);
    }
    frame.decrypt(cipher)
}
