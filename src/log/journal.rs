//! Header of a journal file, written anew, twice, at each use. It must not know the ring: the store
//! decides which file comes next.
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
    bytes::{Fields, file_header, open_file_header},
    error::{Fault, LogError},
    reading::{Reading, read_around},
};
use crate::{env::File, event::Lsn};

/// Byte offset of the first frame of a journal file.
pub const FRAMES_AT: u64 = 8192;
/// The two copies of the header lie this far apart.
const COPY_BYTES: usize = 4096;
const HEADER_BYTES: usize = 192;
const MAGIC: [u8; 8] = *b"SLJOURN1";
const VERSION: u32 = 1;

/// Header of one use of a journal file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalHeader {
    /// The store it belongs to.
    pub store: [u8; 16],
    /// Salt of every checksum of this use.
    pub salt: u64,
    /// Place among all uses of all journal files, from 1. A use that failed before anything of it
    /// was acknowledged is skipped by the next one's `previous_order`.
    pub order: u64,
    /// The start of the owner that wrote it.
    pub start: u64,
    /// Log sequence number of the first record that no earlier file has.
    pub first_lsn: Lsn,
    /// The use before this one; 0 before the first.
    pub previous_order: u64,
    /// Byte offset where the frames of the use before end.
    pub previous_end: u64,
    /// The number after the last record of the use before; smaller than `first_lsn` when numbers
    /// were given to records that failed.
    pub previous_end_lsn: Lsn,
    /// True if it is the first of its start: the open mark.
    pub opens: bool,
    /// Size of the file; one that is shorter was cut. 0 where it was not noted.
    pub file_bytes: u64,
}

impl JournalHeader {
    /// Both copies, as they lie in the file before the frames.
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

    /// Reads one copy.
    ///
    /// # Errors
    /// The fault of the copy; zeros are a file never used.
    pub fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let header = bytes.get(..HEADER_BYTES).ok_or(Fault::Short)?;
        if header.iter().all(|byte| *byte == 0) {
            return Err(Fault::Zeros);
        }
        Self::fields(open_file_header(MAGIC, VERSION, header)?).ok_or(Fault::Short)
    }

    fn fields(mut fields: Fields<'_>) -> Option<Self> {
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

    /// Reads the header of a file from whichever copy is whole.
    ///
    /// # Errors
    /// The fault of one of them when neither is; zeros only when both are.
    pub fn read(file: &dyn File) -> Result<Self, LogError> {
        let [first, second] = copies(file)?;
        first.or_else(|fault| {
            second.map_err(|other| {
                // One copy of zeros and none whole: the first write ever to this file was torn.
                let fault = if other == Fault::Zeros { other } else { fault };
                LogError::Fault { byte_offset: 0, fault }
            })
        })
    }
}

/// Both copies of a file's header, each when it is whole.
///
/// # Errors
/// Errors of the file system.
pub fn header_copies(file: &dyn File) -> Result<[Option<JournalHeader>; 2], LogError> {
    Ok(copies(file)?.map(Result::ok))
}

/// Both copies of the header, or the fault of each: an unreadable copy hides the other no more than
/// a damaged one.
fn copies(file: &dyn File) -> Result<[Result<JournalHeader, Fault>; 2], LogError> {
    let Reading { bytes, holes } = read_around(file, 0, FRAMES_AT)?;
    Ok([0, COPY_BYTES].map(|at| {
        if holes.touch(at as u64, (at + HEADER_BYTES) as u64) {
            return Err(Fault::Unreadable);
        }
        JournalHeader::decode(bytes.get(at..).unwrap_or_default())
    }))
}

/// Reads `[from, to)` of a file when all of it can be had without waiting.
#[must_use]
pub fn read_cached(file: &dyn File, from: u64, to: u64) -> Option<Bytes> {
    let mut buffer = vec![0; usize::try_from(to.checked_sub(from)?).ok()?];
    let read = file.read_cached(from, &mut buffer).ok()?;
    (read == buffer.len()).then(|| buffer.into())
}

/// Reads `[from, to)` of a file, or as much as there is, for who needs all of it.
///
/// # Errors
/// Errors of the file system; [`Fault::Unreadable`] where the device cannot read a part.
pub fn read(file: &dyn File, from: u64, to: u64) -> Result<Bytes, LogError> {
    let Reading { bytes, holes } = read_around(file, from, to)?;
    if holes.any() {
        return Err(LogError::Fault { byte_offset: from, fault: Fault::Unreadable });
    }
    Ok(bytes)
}
