//! Header of a journal file, written in two copies at each use of the file. It must not choose the
//! next file of the ring; the store does.
//!
//! ```text
//!   0  magic "SLJOURN1"      8  version u32   12  checksum u32 of bytes 16..192
//!  16  store id 16          32  salt u64      40  order u64      48  start u64
//!  56  first lsn u64        64  previous end u64 (byte offset)   72  previous end lsn u64
//!  80  previous order u64   88  opens u8      89  zero          96  file bytes u64
//! 104  zero to 4096
//! the same again at 4096; frames from 8192
//! ```

use bytes::Bytes;

use super::{
    bytes::{FieldReader, file_header, open_file_header},
    error::{Fault, LogError},
    reading::{FileReading, read_with_holes},
};
use crate::{env::File, event::Lsn};

/// Byte offset of the first frame of a journal file.
pub const FRAMES_AT: u64 = 8192;
/// Distance between the two copies of the header, in bytes.
const COPY_BYTES: usize = 4096;
const HEADER_BYTES: usize = 192;
const MAGIC: [u8; 8] = *b"SLJOURN1";
const VERSION: u32 = 1;

/// Header of one use of a journal file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalHeader {
    /// Id of the store.
    pub store: [u8; 16],
    /// Salt of every checksum of this use.
    pub salt: u64,
    /// Ordinal of this use among all uses of all journal files, from 1. A use that failed before
    /// any of its frames was acknowledged is skipped by the next one's `previous_order`.
    pub order: u64,
    /// Number of the start that wrote it.
    pub start: u64,
    /// Log sequence number of the first record that is not in an earlier file.
    pub first_lsn: Lsn,
    /// Order of the previous use; 0 for the first.
    pub previous_order: u64,
    /// Byte offset where the frames of the previous use end.
    pub previous_end: u64,
    /// Log sequence number after the last record of the previous use; smaller than `first_lsn` if
    /// writes of records failed in between.
    pub previous_end_lsn: Lsn,
    /// True if it is the first use of its start: the open mark.
    pub opens: bool,
    /// Size of the file in bytes; a shorter file was truncated. 0 if not recorded.
    pub file_bytes: u64,
}

impl JournalHeader {
    /// Encodes both copies, as stored before the frames.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(HEADER_BYTES);
        body.extend_from_slice(&self.store);
        let numbers = [self.salt, self.order, self.start, self.first_lsn.0];
        let previous = [self.previous_end, self.previous_end_lsn.0, self.previous_order];
        for number in numbers.into_iter().chain(previous) {
            body.extend_from_slice(&number.to_le_bytes());
        }
        body.push(u8::from(self.opens));
        body.extend_from_slice(&[0; 7]);
        body.extend_from_slice(&self.file_bytes.to_le_bytes());
        body.resize(HEADER_BYTES - 16, 0);
        let mut copy = file_header(MAGIC, VERSION, &body);
        assert_eq!(copy.len(), HEADER_BYTES, "the fields of a header have fixed widths");
        copy.resize(COPY_BYTES, 0);
        copy.extend_from_within(..);
        debug_assert_eq!(copy.len() as u64, FRAMES_AT);
        copy
    }

    /// Decodes one copy of the header.
    ///
    /// # Errors
    /// The fault of the copy; [`Fault::Zeros`] if the file was never used.
    pub fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let header = bytes.get(..HEADER_BYTES).ok_or(Fault::Short)?;
        if header.iter().all(|byte| *byte == 0) {
            return Err(Fault::Zeros);
        }
        Self::decode_fields(open_file_header(MAGIC, VERSION, header)?).ok_or(Fault::Short)
    }

    fn decode_fields(mut fields: FieldReader<'_>) -> Option<Self> {
        Some(Self {
            store: fields.array()?,
            salt: fields.u64()?,
            order: fields.u64()?,
            start: fields.u64()?,
            first_lsn: Lsn(fields.u64()?),
            previous_end: fields.u64()?,
            previous_end_lsn: Lsn(fields.u64()?),
            previous_order: fields.u64()?,
            opens: fields.array::<8>()?.first() != Some(&0),
            file_bytes: fields.u64()?,
        })
    }

    /// Reads the header of a file from the first copy that is whole.
    ///
    /// # Errors
    /// The fault of one copy if neither is whole; [`Fault::Zeros`] only if both are zeros.
    pub fn read(file: &dyn File) -> Result<Self, LogError> {
        let [first, second] = read_copies(file)?;
        first.or_else(|fault| {
            second.map_err(|other| {
                // One copy is zeros and neither is whole: the first write to this file was torn.
                let fault = if other == Fault::Zeros { other } else { fault };
                LogError::Fault { byte_offset: 0, fault }
            })
        })
    }
}

/// Reads both copies of a file's header; a copy that is not whole is `None`.
///
/// # Errors
/// Errors of the file system.
pub fn read_header_copies(file: &dyn File) -> Result<[Option<JournalHeader>; 2], LogError> {
    Ok(read_copies(file)?.map(Result::ok))
}

/// Reads both copies of the header, each with its own fault: an unreadable copy does not hide the
/// other one.
fn read_copies(file: &dyn File) -> Result<[Result<JournalHeader, Fault>; 2], LogError> {
    let FileReading { bytes, holes } = read_with_holes(file, 0, FRAMES_AT)?;
    Ok([0, COPY_BYTES].map(|at| {
        if holes.overlaps(at as u64, (at + HEADER_BYTES) as u64) {
            return Err(Fault::Unreadable);
        }
        JournalHeader::decode(bytes.get(at..).unwrap_or_default())
    }))
}

/// Reads `[from, to)` of a file if all of it is in the page cache.
#[must_use]
pub fn read_cached(file: &dyn File, from: u64, to: u64) -> Option<Bytes> {
    let mut buffer = vec![0; usize::try_from(to.checked_sub(from)?).ok()?];
    let read = file.read_cached(from, &mut buffer).ok()?;
    (read == buffer.len()).then(|| buffer.into())
}

/// Reads `[from, to)` of a file, or as much as exists, for a caller that needs all of it.
///
/// # Errors
/// Errors of the file system; [`Fault::Unreadable`] if the device cannot read a part.
pub fn read(file: &dyn File, from: u64, to: u64) -> Result<Bytes, LogError> {
    let FileReading { bytes, holes } = read_with_holes(file, from, to)?;
    if holes.has_pages() {
        return Err(LogError::Fault { byte_offset: from, fault: Fault::Unreadable });
    }
    Ok(bytes)
}
