//! A segment file: one session's records from a base position on. An open segment is a header and
//! request frames in the order written; a sealed one is a header, blocks, tables and a footer
//! (`seal`). It must not decide when a segment ends.
//!
//! ```text
//!   0  magic "SLSEGMT1"    8  version u32   12  checksum u32 of bytes 16..192
//!  16  store id 16        32  salt u64      40  session hash 32
//!  72  base u64           80  start u64     88  first lsn u64
//!  96  event chain at the base 32          128  control chain at the base 32
//! 160  sealed u8        161  cipher u8     162  zero         168  key number u64
//! 176  zero            192  frames
//! ```

use bytes::Bytes;

use super::{
    ChainValue,
    bytes::{FieldReader, file_header, open_file_header},
    cipher::{KeyNumber, XCHACHA20_POLY1305},
    error::{Fault, LogError},
    journal::read,
};
use crate::{
    env::File,
    event::{Lsn, Position, SessionHash, Timestamp},
};

/// Byte offset of the first frame of a segment.
pub const FRAMES_AT: u64 = 192;
const MAGIC: [u8; 8] = *b"SLSEGMT1";
const VERSION: u32 = 1;

/// Header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Id of the store.
    pub store: [u8; 16],
    /// Salt of the frames' checksums.
    pub salt: u64,
    /// Hash of the session that the records belong to.
    pub session: SessionHash,
    /// Position of the first event.
    pub base: Position,
    /// Number of the start that wrote it.
    pub start: u64,
    /// Log sequence number of the first record.
    pub first_lsn: Lsn,
    /// Event chain before the first record.
    pub chain: ChainValue,
    /// Control chain before the first record.
    pub control_chain: ChainValue,
    /// True if the segment is sealed.
    pub sealed: bool,
    /// Number of the key that the segment is encrypted under; `None` in plaintext.
    pub key: Option<KeyNumber>,
}

impl SegmentHeader {
    /// Encodes the header.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(FRAMES_AT as usize);
        body.extend_from_slice(&self.store);
        body.extend_from_slice(&self.salt.to_le_bytes());
        body.extend_from_slice(&self.session.0);
        for number in [self.base.0, self.start, self.first_lsn.0] {
            body.extend_from_slice(&number.to_le_bytes());
        }
        body.extend_from_slice(&self.chain.0);
        body.extend_from_slice(&self.control_chain.0);
        body.push(u8::from(self.sealed));
        body.push(self.key.map_or(0, |_| XCHACHA20_POLY1305));
        body.extend_from_slice(&[0; 6]);
        body.extend_from_slice(&self.key.map_or(0, |key| key.0).to_le_bytes());
        assert!(body.len() <= FRAMES_AT as usize - 16, "a header ends before the frames");
        body.resize(FRAMES_AT as usize - 16, 0);
        file_header(MAGIC, VERSION, &body)
    }

    /// Decodes the header at the front of `bytes`.
    ///
    /// # Errors
    /// The fault of the header.
    pub fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let header = bytes.get(..FRAMES_AT as usize).ok_or(Fault::Short)?;
        Self::decode_fields(open_file_header(MAGIC, VERSION, header)?).ok_or(Fault::Short)?
    }

    fn decode_fields(mut fields: FieldReader<'_>) -> Option<Result<Self, Fault>> {
        let mut header = Self {
            store: fields.array()?,
            salt: fields.u64()?,
            session: SessionHash(fields.array()?),
            base: Position(fields.u64()?),
            start: fields.u64()?,
            first_lsn: Lsn(fields.u64()?),
            chain: ChainValue(fields.array()?),
            control_chain: ChainValue(fields.array()?),
            sealed: fields.u8()? != 0,
            key: None,
        };
        let [cipher, ..] = fields.array::<7>()?;
        let key = KeyNumber(fields.u64()?);
        match cipher {
            0 => {}
            XCHACHA20_POLY1305 => header.key = Some(key),
            other => {
                let value = u32::from(other);
                return Some(Err(Fault::Unknown { what: "cipher", value }));
            }
        }
        Some(Ok(header))
    }

    /// Checks that the segment is encrypted under the given key, or in plaintext for `None`.
    ///
    /// # Errors
    /// The fault that describes the mismatch.
    pub fn check_key(&self, key: Option<KeyNumber>) -> Result<(), Fault> {
        match (key, self.key) {
            (None, Some(_)) => Err(Fault::Encrypted),
            (Some(_), None) => Err(Fault::Plaintext),
            (given, stored) => (given == stored).then_some(()).ok_or(Fault::Misplaced),
        }
    }

    /// Reads the header of a file.
    ///
    /// # Errors
    /// Errors of the file system, or the fault of the header.
    pub fn read(file: &dyn File) -> Result<Self, LogError> {
        let bytes: Bytes = read(file, 0, FRAMES_AT)?;
        Self::decode(&bytes).map_err(|fault| LogError::Fault { byte_offset: 0, fault })
    }
}

/// Returns the directory of a session's segments: one of 256 that all sessions share.
#[must_use]
pub fn directory(session: SessionHash) -> String {
    let [first, ..] = session.0;
    format!("segments/{first:02x}")
}

/// Returns the path of a segment inside the data directory. The name orders a session's segments.
#[must_use]
pub fn path(session: SessionHash, base: Position, start: u64, sealed: bool) -> String {
    let end = if sealed { "sealed" } else { "seg" };
    format!("{}/{session}-{:020}-{start:010}.{end}", directory(session), base.0)
}

/// Parses the name of a segment file: returns its session and start; `None` for any other name.
#[must_use]
pub fn parse_name(name: &str) -> Option<(SessionHash, u64)> {
    let (front, sealed) = match name.strip_suffix(".sealed") {
        Some(front) => (front, true),
        None => (name.strip_suffix(".seg")?, false),
    };
    let mut parts = front.splitn(3, '-');
    let session = SessionHash(*blake3::Hash::from_hex(parts.next()?).ok()?.as_bytes());
    let (base, start) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let own = path(session, Position(base), start, sealed);
    own.ends_with(&format!("/{name}")).then_some((session, start))
}

/// Index entry of a frame in a segment: its byte range, positions and log sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameIndex {
    /// Byte offset of the frame in the file.
    pub byte_offset: u64,
    /// Number of bytes to the next frame.
    pub stride: u32,
    /// Position of the first event.
    pub first_position: Position,
    /// Number of events.
    pub events: u32,
    /// Number of records.
    pub count: u32,
    /// Log sequence number of the first record.
    pub first_lsn: Lsn,
    /// Time at which the store processed the first record.
    pub first_time: Timestamp,
}

impl FrameIndex {
    /// Returns the position after the last event of the frame.
    #[must_use]
    pub fn end_position(&self) -> Position {
        self.first_position.plus(u64::from(self.events))
    }

    /// Returns the byte offset where the next frame may start.
    #[must_use]
    pub fn next_offset(&self) -> u64 {
        self.byte_offset.saturating_add(u64::from(self.stride))
    }
}

/// Returns the first 16 bytes of blake3 of an event id or batch key: the key of id tables. 128
/// bits, so that no client can make two ids collide.
#[must_use]
pub fn name_hash(name: &str) -> [u8; 16] {
    let mut hash = [0; 16];
    blake3::Hasher::new().update(name.as_bytes()).finalize_xof().fill(&mut hash);
    hash
}
