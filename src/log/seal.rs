//! A sealed segment: blocks of about 64 records compressed together, an index of the blocks, the
//! table of event ids, the live batch keys, and a footer at the very end. Immutable. It must not
//! replace or unlink the segments that it is encoded from.
//!
//! ```text
//! header | block frames | index: 48 bytes a block | ids: 24 bytes each, sorted | batches | footer
//!
//! index   byte offset u64  first position u64  first lsn u64  first time i64
//!         stride u32  events u32  count u32  zero 4
//! id      hash 16  position u64
//! batches bincode of a list of (time i64, batch)
//! footer    0  magic "SLSEALF1"   8  checksum u32   12  version u32: 1, or 2 without table of ids
//!          16  blocks u64        24  ids u64        32  index at u64  40  ids at u64
//!          48  batches at u64    56  end position u64   64  last lsn u64   72  records u64
//!          80  event chain 32   112  control chain 32  144  checksum u32 of the tables
//!         148  in version 1 of some builds: 1 without a table of ids; else 0     152  zero
//! ```
//! The checksum of a footer covers bytes 16..192, in version 2 the version before them, too. In an
//! encrypted segment a nonce (24), the encrypted tables and a tag follow from `index at` on; the
//! offsets in the footer are those of the plaintext tables.

use bytes::Bytes;

use super::{
    ChainValue,
    bytes::{FieldReader, checksum},
    cipher::{Cipher, Encryptor, NONCE_BYTES, TAG_BYTES},
    control::{Control, KnownBatch},
    encoding::{decode_value, encode_value},
    error::{Fault, LogError},
    frame::{Frame, FrameHeader, FrameKind, encode_block},
    journal::read,
    record::Record,
    segment::{FRAMES_AT, FrameIndex, SegmentHeader, name_hash},
};
use crate::{
    env::File,
    event::{Lsn, Position, Timestamp},
};

/// Number of records in a block: a single event compresses 1.9 times, 64 together 5.9 times
/// (research/perf.md, 1d).
const BLOCK_RECORDS: usize = 64;
/// Bytes of bodies at which a block is closed early, to bound what one read decompresses.
const BLOCK_BYTES: u64 = 1 << 20;
const FOOTER_BYTES: usize = 192;
/// Number of bytes in a footer from the version to the checksum of the tables.
const FOOTER_AUTHENTICATED_BYTES: usize = 144 - 16;
const INDEX_BYTES: usize = 48;
const ID_BYTES: usize = 24;
const MAGIC: [u8; 8] = *b"SLSEALF1";
/// Version of a footer with a table of ids.
const WITH_IDS: u32 = 1;
/// Version of a footer without a table of ids: a lookup of an id reads the block.
const WITHOUT_IDS: u32 = 2;

/// Decoded tables of a sealed segment.
#[derive(Clone, Debug)]
pub struct SealedTables {
    /// Blocks, in order.
    pub index: Vec<FrameIndex>,
    /// Batch keys that were live when it was sealed, with the time they were written.
    pub batches: Vec<(Timestamp, KnownBatch)>,
    /// Position after the last event.
    pub end: Position,
    /// Log sequence number of the last record.
    pub last_lsn: Lsn,
    /// Event chain after the last record.
    pub chain: ChainValue,
    /// Control chain after the last record.
    pub control_chain: ChainValue,
    /// True if there is no table of ids: a lookup of an id reads the block.
    pub without_ids: bool,
    ids: Bytes,
}

/// Builder of a sealed segment.
struct SealBuilder<'a> {
    header: SegmentHeader,
    compressed: bool,
    encryptor: Option<Encryptor<'a>>,
    out: Vec<u8>,
    index: Vec<u8>,
    blocks: u64,
    ids: Vec<([u8; 16], u64)>,
    batches: Vec<(i64, KnownBatch)>,
    position: Position,
    last_lsn: Lsn,
    records: u64,
    chain: ChainValue,
    control_chain: ChainValue,
}

/// Encodes a sealed segment of `records`, in order; `header` describes the first one. Adds the
/// batches of `known` to the table of batch keys, and omits keys older than `keys_from`. With
/// `compressed`, compresses each block that gets smaller by it.
#[must_use]
pub fn seal(
    header: SegmentHeader,
    records: &[(Lsn, Record)],
    known: Vec<(Timestamp, KnownBatch)>,
    keys_from: Timestamp,
    compressed: bool,
    encryptor: Option<Encryptor<'_>>,
) -> Vec<u8> {
    let header = SegmentHeader { key: encryptor.map(|one| one.cipher.number()), ..header };
    let known = known.into_iter().filter(|(time, _)| *time >= keys_from);
    let mut builder = SealBuilder {
        header,
        compressed,
        encryptor,
        out: header.encode(),
        index: Vec::new(),
        blocks: 0,
        ids: Vec::new(),
        batches: known.map(|(time, batch)| (time.0, batch)).collect(),
        position: header.base,
        last_lsn: header.first_lsn,
        records: 0,
        chain: header.chain,
        control_chain: header.control_chain,
    };
    let mut from = 0;
    while from < records.len() {
        let rest = records.get(from..).unwrap_or_default();
        let mut bytes = 0;
        let fits = |(_, record): &&(Lsn, Record)| {
            let open = bytes < BLOCK_BYTES;
            bytes += record.session_bytes();
            open
        };
        let count = rest.iter().take(BLOCK_RECORDS).take_while(fits).count();
        builder.add_block(rest.get(..count).unwrap_or_default(), keys_from);
        from += count;
    }
    builder.finish()
}

impl SealBuilder<'_> {
    fn add_block(&mut self, records: &[(Lsn, Record)], keys_from: Timestamp) {
        let Some((first_lsn, first)) = records.first() else { return };
        let (payload, compressed) = encode_block(records, self.compressed);
        let events = records.iter().filter(|(_, record)| record.is_event()).count();
        debug_assert!(records.len() <= BLOCK_RECORDS);
        let header = FrameHeader {
            kind: FrameKind::Columns,
            length: u32::try_from(payload.len()).expect("a block is bounded by BLOCK_BYTES"),
            compressed,
            count: records.len() as u32,
            events: events as u32,
            first_lsn: *first_lsn,
            synced_lsn: *first_lsn,
            first_position: self.position,
            session: self.header.session,
            chain: self.chain,
            control_chain: self.control_chain,
            copy_lsn: Lsn(0),
            encrypted: None,
        };
        let frame = Frame { header, payload: payload.into() };
        let Frame { header, payload } = match self.encryptor {
            None => frame,
            Some(encryptor) => frame.encrypt(encryptor),
        };
        let numbers =
            [self.out.len() as u64, self.position.0, first_lsn.0, first.processed_at as u64];
        for number in numbers {
            self.index.extend_from_slice(&number.to_le_bytes());
        }
        for number in [header.stride() as u32, header.events, header.count, 0] {
            self.index.extend_from_slice(&number.to_le_bytes());
        }
        self.blocks += 1;
        header.write(self.header.salt, &payload, &mut self.out);
        for (lsn, record) in records {
            self.add_to_tables(*lsn, record, keys_from);
        }
    }

    fn add_to_tables(&mut self, lsn: Lsn, record: &Record, keys_from: Timestamp) {
        self.last_lsn = lsn;
        self.records += 1;
        if record.is_event() {
            self.ids.push((name_hash(record.id()), self.position.0));
            self.chain = self.chain.with_record(self.position.0, record);
            self.position = self.position.plus(1);
            return;
        }
        self.control_chain = self.control_chain.with_record(lsn.0, record);
        if let Some(Control::Batch(batch)) = record.to_control()
            && record.processed_at() >= keys_from
        {
            self.batches.push((record.processed_at, batch));
        }
    }

    fn finish(mut self) -> Vec<u8> {
        let tables_at = self.out.len();
        self.out.extend_from_slice(&self.index);
        // With a single block, a table of ids costs more than it saves: hashes do not compress.
        let without_ids = self.blocks == 1;
        if without_ids {
            self.ids.clear();
        }
        let ids_at = self.out.len() as u64;
        assert_eq!(self.index.len() as u64, self.blocks * INDEX_BYTES as u64);
        assert!(
            without_ids || self.header.base.plus(self.ids.len() as u64) == self.position,
            "a table of ids has every event"
        );
        self.ids.sort_unstable();
        for (hash, position) in &self.ids {
            self.out.extend_from_slice(hash);
            self.out.extend_from_slice(&position.to_le_bytes());
        }
        let batches_at = self.out.len() as u64;
        encode_value(&self.batches, &mut self.out);
        let mut body = Vec::with_capacity(FOOTER_BYTES);
        let places = [tables_at as u64, ids_at, batches_at];
        let ends = [self.position.0, self.last_lsn.0, self.records];
        for number in [self.blocks, self.ids.len() as u64].into_iter().chain(places).chain(ends) {
            body.extend_from_slice(&number.to_le_bytes());
        }
        body.extend_from_slice(&self.chain.0);
        body.extend_from_slice(&self.control_chain.0);
        let mut tables = self.out.split_off(tables_at);
        if let Some(Encryptor { cipher, nonce }) = self.encryptor {
            tables =
                cipher.seal_with_nonce(nonce(), &tables_aad(cipher, &self.header, &body), tables);
        }
        let tables_checksum = checksum(self.header.salt, &[&tables]);
        self.out.append(&mut tables);
        body.extend_from_slice(&tables_checksum.to_le_bytes());
        assert!(body.len() <= FOOTER_BYTES - 16, "the fields of a footer have fixed widths");
        body.resize(FOOTER_BYTES - 16, 0);
        let version = if without_ids { WITHOUT_IDS } else { WITH_IDS };
        self.out.extend_from_slice(&MAGIC);
        let sum = footer_checksum(self.header.salt, version, &body);
        self.out.extend_from_slice(&sum.to_le_bytes());
        self.out.extend_from_slice(&version.to_le_bytes());
        self.out.extend_from_slice(&body);
        self.out
    }
}

/// Returns the associated data of a segment's tables: its header and its footer.
fn tables_aad(cipher: &Cipher, header: &SegmentHeader, footer: &[u8]) -> Vec<u8> {
    let header = header.encode();
    let header = header.get(16..).unwrap_or_default();
    let footer = footer.get(..FOOTER_AUTHENTICATED_BYTES).unwrap_or_default();
    cipher.associated_data("sessionlog v1 tables", &[header, footer])
}

struct SealFooter {
    /// Bytes as stored, from byte 16 to the checksum of the tables.
    authenticated: Bytes,
    blocks: u64,
    ids: u64,
    index_at: u64,
    ids_at: u64,
    batches_at: u64,
    end: Position,
    last_lsn: Lsn,
    chain: ChainValue,
    control_chain: ChainValue,
    tables_checksum: u32,
    without_ids: bool,
}

fn decode_footer(salt: u64, bytes: &Bytes) -> Option<Result<SealFooter, Fault>> {
    let mut fields = FieldReader(bytes);
    if fields.array()? != MAGIC {
        return Some(Err(Fault::Magic));
    }
    let (stored, version) = (fields.u32()?, fields.u32()?);
    if !matches!(version, WITH_IDS | WITHOUT_IDS) {
        return Some(Err(Fault::Unknown { what: "footer version", value: version }));
    }
    if footer_checksum(salt, version, fields.0) != stored {
        return Some(Err(Fault::HeaderChecksum));
    }
    let [blocks, ids, index_at, ids_at, batches_at, end, last_lsn, _records] =
        [(); 8].map(|()| fields.u64().unwrap_or_default());
    Some(Ok(SealFooter {
        authenticated: bytes.slice(16..16 + FOOTER_AUTHENTICATED_BYTES),
        blocks,
        ids,
        index_at,
        ids_at,
        batches_at,
        end: Position(end),
        last_lsn: Lsn(last_lsn),
        chain: ChainValue(fields.array()?),
        control_chain: ChainValue(fields.array()?),
        tables_checksum: fields.u32()?,
        without_ids: version == WITHOUT_IDS || fields.u32()? != 0,
    }))
}

/// Returns a footer's checksum; in version 2 it covers the version, so that the two cannot be mixed
/// up.
fn footer_checksum(salt: u64, version: u32, body: &[u8]) -> u32 {
    match version {
        WITH_IDS => checksum(salt, &[body]),
        _ => checksum(salt, &[&version.to_le_bytes(), body]),
    }
}

impl SealFooter {
    /// Reads the footer of a sealed segment of `length` bytes; also returns its byte offset.
    fn read(file: &dyn File, header: &SegmentHeader, length: u64) -> Result<(Self, u64), LogError> {
        let footer_at = length.saturating_sub(FOOTER_BYTES as u64);
        let wrong = |fault| LogError::Fault { byte_offset: footer_at, fault };
        let bytes = read(file, footer_at, length)?;
        let found =
            decode_footer(header.salt, &bytes).ok_or(wrong(Fault::Short))?.map_err(wrong)?;
        let more = header.key.map_or(0, |_| NONCE_BYTES + TAG_BYTES) as u64;
        let ordered = FRAMES_AT <= found.index_at
            && found.blocks.checked_mul(INDEX_BYTES as u64)
                == found.ids_at.checked_sub(found.index_at)
            && found.ids.checked_mul(ID_BYTES as u64) == found.batches_at.checked_sub(found.ids_at)
            && found.batches_at.checked_add(more).is_some_and(|end| end <= footer_at);
        if !ordered {
            return Err(wrong(Fault::Payload));
        }
        Ok((found, footer_at))
    }
}

/// Returns the byte offset where the frames of a sealed segment end and its tables start.
///
/// # Errors
/// Errors of the file system, or the fault of the footer.
pub fn frames_end(file: &dyn File, header: &SegmentHeader, length: u64) -> Result<u64, LogError> {
    SealFooter::read(file, header, length).map(|(footer, _)| footer.index_at)
}

impl SealedTables {
    /// Reads the tables of a sealed segment of `length` bytes.
    ///
    /// # Errors
    /// Errors of the file system, or the fault of footer or tables.
    pub fn read(
        file: &dyn File,
        header: &SegmentHeader,
        length: u64,
        cipher: Option<&Cipher>,
    ) -> Result<Self, LogError> {
        let (found, footer_at) = SealFooter::read(file, header, length)?;
        let wrong = |fault| LogError::Fault { byte_offset: footer_at, fault };
        header.check_key(cipher.map(Cipher::number)).map_err(wrong)?;
        let mut tables = read(file, found.index_at, footer_at)?;
        let damaged = |fault| LogError::Fault { byte_offset: found.index_at, fault };
        if checksum(header.salt, &[&tables]) != found.tables_checksum {
            return Err(damaged(Fault::PayloadChecksum));
        }
        if let Some(cipher) = cipher {
            let aad = tables_aad(cipher, header, &found.authenticated);
            tables = cipher.open_with_nonce(&aad, &tables).map_err(damaged)?.into();
        }
        let sealed = Self::decode_tables(&found, &tables).ok_or(wrong(Fault::Payload))?;
        let whole = sealed.is_contiguous(header.base, found.index_at);
        whole.then_some(sealed).ok_or(damaged(Fault::Payload))
    }

    /// Returns true if the blocks are contiguous from the first frame to the index, and their
    /// positions from `base` to the end: readers that use the index rely on both.
    fn is_contiguous(&self, base: Position, index_at: u64) -> bool {
        let follow = |(at, position): (u64, Position), block: &FrameIndex| {
            let follows = (block.byte_offset, block.first_position) == (at, position)
                && block.events <= block.count;
            follows.then(|| (block.next_offset(), block.end_position()))
        };
        let end = self.index.iter().try_fold((FRAMES_AT, base), follow);
        end == Some((index_at, self.end))
    }

    fn decode_tables(footer: &SealFooter, tables: &Bytes) -> Option<Self> {
        let ids_at = usize::try_from(footer.ids_at - footer.index_at).ok()?;
        let batches_at = usize::try_from(footer.batches_at - footer.index_at).ok()?;
        let mut index = Vec::new();
        let mut fields = FieldReader(tables.get(..ids_at)?);
        for _ in 0..footer.blocks {
            index.push(FrameIndex {
                byte_offset: fields.u64()?,
                first_position: Position(fields.u64()?),
                first_lsn: Lsn(fields.u64()?),
                first_time: Timestamp(fields.i64()?),
                stride: fields.u32()?,
                events: fields.u32()?,
                count: fields.u32()?,
            });
            let _zero = fields.u32()?;
        }
        let batches: Vec<(i64, KnownBatch)> = decode_value(tables.get(batches_at..)?)?;
        Some(Self {
            index,
            batches: batches.into_iter().map(|(time, key)| (Timestamp(time), key)).collect(),
            end: footer.end,
            last_lsn: footer.last_lsn,
            chain: footer.chain,
            control_chain: footer.control_chain,
            without_ids: footer.without_ids,
            ids: tables.slice(ids_at..batches_at),
        })
    }

    /// Finds the position of the event whose id has the hash `hash`.
    #[must_use]
    pub fn find_id(&self, hash: &[u8; 16]) -> Option<Position> {
        let entry = |n: usize| self.ids.get(n * ID_BYTES..(n + 1) * ID_BYTES);
        let (mut low, mut high) = (0, self.ids.len() / ID_BYTES);
        while low < high {
            let middle = low + (high - low) / 2;
            let mut fields = FieldReader(entry(middle)?);
            let found: [u8; 16] = fields.array()?;
            match found.cmp(hash) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return fields.u64().map(Position),
            }
        }
        None
    }
}
