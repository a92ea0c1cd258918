//! A frame: a header and the records of one request of one session, stored atomically. The journal,
//! segments and sealed segments (where a frame is a block of about 64 records) all consist of them.
//! It must not depend on its file beyond that file's salt.
//!
//! ```text
//!   0  length u32           4  header checksum u32    8  payload checksum u32
//!  12  kind u8  codec u8  compression u8  cipher u8  16  count u32   20  events u32
//!  24  key id 8            32  nonce 24
//!  56  first lsn u64       64  synced lsn u64        72  first position u64
//!  80  session hash 32    112  event chain before 32 144  control chain before 32
//! 176  copy lsn u64      184  zero 8          192  payload, zero-padded to a multiple of 8
//! ```

use std::io::{self, Write as _};

use bytes::Bytes;

pub use super::encoding::PAYLOAD_BYTES_MAX;
use super::{
    ChainValue,
    bytes::{FieldReader, checksum},
    cipher::{FrameEncryption, KeyNumber, XCHACHA20_POLY1305},
    columns,
    error::Fault,
    payload::{self, Layout},
    record::Record,
};
use crate::{
    env::planted::{Defect, is_planted},
    event::{Event, Lsn, Position, Range, SessionHash},
};

/// Length of a frame header in bytes.
pub const HEADER_BYTES: usize = 192;
/// Byte offset of kind, codec, compression and cipher in a header, a byte each.
pub(super) const KIND_AT: usize = 12;
/// Byte offset of the count of its records in a header.
pub(super) const COUNT_AT: usize = 16;
/// Byte offset of the first log sequence number in a header.
pub(super) const LSN_AT: usize = 56;
/// Byte offset of the hash of its session in a header.
pub(super) const SESSION_AT: usize = 80;
/// Alignment of frames in bytes.
pub const ALIGN_BYTES: u64 = 8;
/// Maximum bytes of a payload before compression.
const PLAIN_BYTES_MAX: usize = 64 << 20;

const CODEC_RECORD_V1: u8 = 1;
const CODEC_COLUMNS_V1: u8 = 2;
const COMPRESSION_NONE: u8 = 0;
const COMPRESSION_ZSTD: u8 = 1;
const CIPHER_NONE: u8 = 0;
const NO_KEY: FrameEncryption = FrameEncryption { key: KeyNumber(0), nonce: [0; 24] };
/// Blocks are written in the background, mostly once: level 5 takes half the time and 3 % more
/// space, level 12 six times the time and 1 % less space (docs/decisions/0021).
const ZSTD_LEVEL: i32 = 9;

const _: () = assert!((HEADER_BYTES as u64).is_multiple_of(ALIGN_BYTES));
const _: () = assert!(crate::event::limits::BATCH_BYTES_MAX < PAYLOAD_BYTES_MAX);

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// Records of one request; their log sequence numbers are consecutive.
    Request,
    /// Watermark: has no record; everything before it was durable when it was written.
    Watermark,
    /// Records of several requests in a sealed segment, in rows, each with its log sequence number:
    /// the layout of earlier versions.
    Block,
    /// Records of several requests in a sealed segment, in columns.
    Columns,
}

impl FrameKind {
    /// Returns the kind and record codec as stored.
    pub(super) const fn ordinals(self) -> [u8; 2] {
        match self {
            Self::Request => [1, CODEC_RECORD_V1],
            Self::Watermark => [2, CODEC_RECORD_V1],
            Self::Block => [3, CODEC_RECORD_V1],
            Self::Columns => [3, CODEC_COLUMNS_V1],
        }
    }

    fn from_ordinals(kind: u8, codec: u8) -> Result<Self, Fault> {
        let unknown = |what, value: u8| Err(Fault::Unknown { what, value: u32::from(value) });
        match (kind, codec) {
            (1, CODEC_RECORD_V1) => Ok(Self::Request),
            (2, CODEC_RECORD_V1) => Ok(Self::Watermark),
            (3, CODEC_RECORD_V1) => Ok(Self::Block),
            (3, CODEC_COLUMNS_V1) => Ok(Self::Columns),
            (1..=3, codec) => unknown("record codec", codec),
            (kind, _) => unknown("frame kind", kind),
        }
    }
}

/// Header of a frame, without its checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Kind of the frame.
    pub kind: FrameKind,
    /// Length of the payload as stored, in bytes.
    pub length: u32,
    /// True if the payload is a zstd frame.
    pub compressed: bool,
    /// Number of records in the payload.
    pub count: u32,
    /// Number of events among the records.
    pub events: u32,
    /// Log sequence number of the first record.
    pub first_lsn: Lsn,
    /// Log sequence number below which every record was durable when the frame was written.
    pub synced_lsn: Lsn,
    /// Position of the first event; in a watermark, the byte offset where the previous frame ends.
    pub first_position: Position,
    /// Hash of the session that the records belong to.
    pub session: SessionHash,
    /// Event chain before the first record.
    pub chain: ChainValue,
    /// Control chain before the first record.
    pub control_chain: ChainValue,
    /// Log sequence number that a copied frame takes in the journal, so that its loss leaves a gap
    /// in the numbers. 0 for every other frame.
    pub copy_lsn: Lsn,
    /// Encryption of the payload, if any.
    pub encrypted: Option<FrameEncryption>,
}

impl FrameHeader {
    /// Returns the positions of the frame's events.
    #[must_use]
    pub fn range(&self) -> Range {
        let from = self.first_position;
        Range::new(from, from.plus(u64::from(self.events)))
    }

    /// Returns the log sequence number after the frame's records (not meaningful for a block, whose
    /// records carry their own).
    #[must_use]
    pub fn end_lsn(&self) -> Lsn {
        Lsn(self.first_lsn.0.saturating_add(u64::from(self.count)))
    }

    /// Returns the range `[from, to)` of log sequence numbers that the frame takes in the journal:
    /// those of its records, or the single number of a copy.
    #[must_use]
    pub fn lsn_range(&self) -> (Lsn, Lsn) {
        match self.copy_lsn {
            Lsn(0) => (self.first_lsn, self.end_lsn()),
            Lsn(own) => (Lsn(own), Lsn(own.saturating_add(1))),
        }
    }

    /// Returns the number of bytes from this frame's start to the next one's.
    #[must_use]
    pub fn stride(&self) -> u64 {
        align(HEADER_BYTES as u64 + u64::from(self.length))
    }

    /// Appends header, payload and padding to `out`, as stored in a file with that salt.
    ///
    /// # Panics
    /// If the payload's length differs from the header's, or exceeds [`PAYLOAD_BYTES_MAX`].
    pub fn write(&self, salt: u64, payload: &[u8], out: &mut Vec<u8>) {
        assert_eq!(self.length as usize, payload.len(), "a header describes its own payload");
        assert!(payload.len() <= PAYLOAD_BYTES_MAX, "a reader refuses a longer payload");
        let at = out.len();
        out.reserve(self.stride() as usize);
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&checksum(salt, &[payload]).to_le_bytes());
        let compression = if self.compressed { COMPRESSION_ZSTD } else { COMPRESSION_NONE };
        let [kind, codec] = self.kind.ordinals();
        let cipher = self.encrypted.map_or(CIPHER_NONE, |_| XCHACHA20_POLY1305);
        let FrameEncryption { key, nonce } = self.encrypted.unwrap_or(NO_KEY);
        out.extend_from_slice(&[kind, codec, compression, cipher]);
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&self.events.to_le_bytes());
        out.extend_from_slice(&key.0.to_le_bytes());
        out.extend_from_slice(&nonce);
        for number in [self.first_lsn.0, self.synced_lsn.0, self.first_position.0] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for hash in [&self.session.0, &self.chain.0, &self.control_chain.0] {
            out.extend_from_slice(hash);
        }
        out.extend_from_slice(&self.copy_lsn.0.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
        debug_assert_eq!(out.len() - at, HEADER_BYTES);
        if let Some((length, rest)) = out.get_mut(at..).and_then(|new| new.split_at_mut_checked(4))
            && let Some((place, tail)) = rest.split_at_mut_checked(4)
        {
            place.copy_from_slice(&checksum(salt, &[length, tail]).to_le_bytes());
        }
        out.extend_from_slice(payload);
        out.resize(at + self.stride() as usize, 0);
        debug_assert!((out.len() - at).is_multiple_of(ALIGN_BYTES as usize));
    }

    /// Decodes the header at the front of `bytes`; also returns the checksum of its payload.
    ///
    /// # Errors
    /// The first [`Fault`] found; every length is checked before memory is allocated for it.
    pub fn read(salt: u64, bytes: &[u8]) -> Result<(Self, u32), Fault> {
        let header = bytes.get(..HEADER_BYTES).ok_or(Fault::Short)?;
        let mut fields = FieldReader(header);
        let parsed = Self::decode_fields(&mut fields);
        let (length, stored, tail) = parsed.ok_or(Fault::Short)?;
        // Cheap tests first: a scan calls this function at every eighth byte.
        if length as usize > PAYLOAD_BYTES_MAX || !matches!(tail.get(4), Some(1..=3)) {
            let zeros = header.iter().all(|byte| *byte == 0);
            return Err(if zeros { Fault::Zeros } else { Fault::HeaderChecksum });
        }
        if checksum(salt, &[&length.to_le_bytes(), tail]) != stored {
            return Err(Fault::HeaderChecksum);
        }
        Self::decode_body(length, &mut FieldReader(tail)).ok_or(Fault::Short)?
    }

    fn decode_fields<'a>(fields: &mut FieldReader<'a>) -> Option<(u32, u32, &'a [u8])> {
        Some((fields.u32()?, fields.u32()?, fields.0))
    }

    /// Decodes the fields after the header checksum; `None` never happens for a whole header.
    fn decode_body(
        length: u32,
        fields: &mut FieldReader<'_>,
    ) -> Option<Result<(Self, u32), Fault>> {
        let payload_checksum = fields.u32()?;
        let [kind, codec, compression, cipher] = fields.array()?;
        let kind = match FrameKind::from_ordinals(kind, codec) {
            Ok(kind) => kind,
            Err(fault) => return Some(Err(fault)),
        };
        if compression > COMPRESSION_ZSTD {
            return Some(unknown("compression", compression));
        }
        if cipher > XCHACHA20_POLY1305 {
            return Some(unknown("cipher", cipher));
        }
        let (count, events) = (fields.u32()?, fields.u32()?);
        let encrypted = FrameEncryption { key: KeyNumber(fields.u64()?), nonce: fields.array()? };
        let header = Self {
            kind,
            length,
            compressed: compression == COMPRESSION_ZSTD,
            count,
            events,
            first_lsn: Lsn(fields.u64()?),
            synced_lsn: Lsn(fields.u64()?),
            first_position: Position(fields.u64()?),
            session: SessionHash(fields.array()?),
            chain: ChainValue(fields.array()?),
            control_chain: ChainValue(fields.array()?),
            copy_lsn: Lsn(fields.u64()?),
            encrypted: (cipher != CIPHER_NONE).then_some(encrypted),
        };
        Some(header.is_sound().then_some((header, payload_checksum)).ok_or(Fault::Payload))
    }

    /// Returns true if the counts are consistent and no number overflows: before the payload is
    /// read, memory is allocated by the counts, and numbers are counted up from them.
    fn is_sound(&self) -> bool {
        let counted = self.events <= self.count && self.count as usize <= PLAIN_BYTES_MAX;
        let follows = |first: u64, count: u32| first.checked_add(u64::from(count) + 1).is_some();
        counted
            && follows(self.first_lsn.0, self.count)
            && follows(self.first_position.0, self.events)
            && follows(self.copy_lsn.0, 1)
    }
}

fn unknown<T>(what: &'static str, value: u8) -> Result<T, Fault> {
    Err(Fault::Unknown { what, value: u32::from(value) })
}

/// Returns the next frame boundary at or after a byte offset.
#[must_use]
pub fn align(byte_offset: u64) -> u64 {
    byte_offset.next_multiple_of(ALIGN_BYTES)
}

/// Frame read from a file, with checksums verified.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Decoded header.
    pub header: FrameHeader,
    /// Payload as stored: possibly compressed and encrypted.
    pub payload: Bytes,
}

impl Frame {
    /// Reads the frame at the front of `bytes`.
    ///
    /// # Errors
    /// The first [`Fault`] found. With [`Fault::PayloadChecksum`] the header is whole:
    /// [`FrameHeader::read`] returns it.
    pub fn read(salt: u64, bytes: &Bytes) -> Result<Self, Fault> {
        let (header, payload_checksum) = FrameHeader::read(salt, bytes)?;
        let end = HEADER_BYTES + header.length as usize;
        if bytes.len() < end {
            return Err(Fault::Short);
        }
        let payload = bytes.slice(HEADER_BYTES..end);
        if checksum(salt, &[&payload]) != payload_checksum
            && !is_planted(Defect::HeaderOnlyChecksum)
        {
            return Err(Fault::PayloadChecksum);
        }
        Ok(Self { header, payload })
    }

    /// Returns the records with their log sequence numbers. Bodies share the payload's memory where
    /// it is not compressed.
    ///
    /// # Errors
    /// [`Fault::Payload`] if the payload does not match the header.
    pub fn records(&self) -> Result<Vec<(Lsn, Record)>, Fault> {
        let (plain, at) = self.decompressed()?;
        let count = self.header.count as usize;
        let numbers: Vec<Lsn> = match self.header.kind {
            FrameKind::Block => {
                let mut fields = FieldReader(&plain);
                (0..count).map_while(|_| fields.u64()).map(Lsn).collect()
            }
            FrameKind::Columns => columns::decode_lsns(&plain, count).ok_or(Fault::Payload)?,
            FrameKind::Request | FrameKind::Watermark => {
                let first = self.header.first_lsn.0;
                (0..count as u64).map(|n| Lsn(first.saturating_add(n))).collect()
            }
        };
        let records = payload::decode(self.layout(), &plain.slice(at..), count);
        Ok(numbers.into_iter().zip(records.ok_or(Fault::Payload)?).collect())
    }

    /// Appends the events of the positions `wanted` to `events`.
    ///
    /// # Errors
    /// [`Fault::Payload`] as for [`Self::records`]; some may have been appended then.
    pub fn append_events(&self, wanted: Range, events: &mut Vec<Event>) -> Result<(), Fault> {
        let (plain, at) = self.decompressed()?;
        let (count, first) = (self.header.count as usize, self.header.first_position);
        let rest = plain.slice(at..);
        payload::append_events(self.layout(), &rest, count, first, wanted, events)
            .ok_or(Fault::Payload)
    }

    /// Returns the event chain before the position `at`, which is one of the frame's events or the
    /// one after them; `None` for any other position.
    ///
    /// # Errors
    /// [`Fault::Payload`] as for [`Self::records`].
    pub fn chain_before(&self, at: Position) -> Result<Option<ChainValue>, Fault> {
        let (mut position, mut chain) = (self.header.first_position, self.header.chain);
        if at == position {
            return Ok(Some(chain));
        }
        for (_, record) in self.records()? {
            if record.is_event() {
                chain = chain.with_record(position.0, &record);
                position = position.plus(1);
            }
            if position == at {
                return Ok(Some(chain));
            }
        }
        Ok(None)
    }

    fn layout(&self) -> Layout {
        if self.header.kind == FrameKind::Columns { Layout::Columns } else { Layout::Rows }
    }

    /// Returns the decompressed payload, and the offset of its records, after their numbers, if
    /// any. The length is enough for the number of records in the header.
    fn decompressed(&self) -> Result<(Bytes, usize), Fault> {
        if self.header.encrypted.is_some() {
            return Err(Fault::Encrypted);
        }
        let plain = match self.header.compressed {
            true => Bytes::from(
                zstd::bulk::decompress(&self.payload, declared_plain_bytes(&self.payload))
                    .map_err(|_| Fault::Payload)?,
            ),
            false => self.payload.clone(),
        };
        let count = self.header.count as usize;
        let (each, at) = match self.header.kind {
            FrameKind::Block => (8, count.saturating_mul(8)),
            FrameKind::Columns => (columns::RECORD_BYTES_MIN, 0),
            FrameKind::Request | FrameKind::Watermark => (1, 0),
        };
        if plain.len() / each < count { Err(Fault::Payload) } else { Ok((plain, at)) }
    }
}

/// Returns true if a payload matches the checksum in its frame header, in a file with that salt.
#[must_use]
pub fn payload_matches_checksum(salt: u64, payload: &[u8], stored: u32) -> bool {
    checksum(salt, &[payload]) == stored
}

/// Returns the decompressed size that the payload declares, bounded by the maximum: allocating a
/// larger buffer would cost time for unused bytes.
fn declared_plain_bytes(payload: &[u8]) -> usize {
    let declared = zstd::zstd_safe::get_frame_content_size(payload).ok().flatten();
    let declared = declared.and_then(|bytes| usize::try_from(bytes).ok());
    declared.unwrap_or(PLAIN_BYTES_MAX).min(PLAIN_BYTES_MAX)
}

/// Encodes a block's payload in columns, compressed if requested and smaller. Returns the bytes and
/// whether they are compressed.
#[must_use]
pub fn encode_block(records: &[(Lsn, Record)], compressed: bool) -> (Vec<u8>, bool) {
    let parts = columns::encode(records);
    let bytes: usize = parts.iter().map(Vec::len).sum();
    match compressed.then(|| compress(&parts, bytes)) {
        Some(Ok(small)) if small.len() < bytes => (small, true),
        _ => (parts.concat(), false),
    }
}

/// Compresses these parts to one zstd frame, each part in separate zstd blocks: random bytes do not
/// worsen the entropy code of text.
fn compress(parts: &[Vec<u8>], bytes: usize) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
    encoder.set_pledged_src_size(Some(bytes as u64))?;
    for part in parts {
        encoder.write_all(part)?;
        encoder.flush()?;
    }
    encoder.finish()
}
