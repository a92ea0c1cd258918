//! What is durable where: the entries of `settled/` and the file `STORE`. A settled file is a
//! header and chunks; a generation counts once its last chunk is whole. It must not choose between
//! two settled files: the store does.
//!
//! ```text
//! settled   0  magic "SLSETTL1"   8  version u32  12  checksum u32 of 16..64  16  store id 16
//!          32  salt u64          40  zero         64  chunks
//! chunk     0  length u32         4  checksum u32 of the rest   8  generation u64
//!          16  bincode of DeltaV1, zero-padded to a multiple of 8
//! STORE     0  magic "SLSTORE1"   8  version u32  12  checksum u32 of 16..256  16  store id 16
//!          32  created at i64    40  key ids and check values, zero in a plaintext store   256
//! ```

use std::collections::BTreeMap;

use bincode::{Decode, Encode};
use bytes::Bytes;

use super::{
    bytes::{Fields, checksum, file_header, open_file_header},
    error::Fault,
    frame,
    record::{decode_value, encode_value},
};

/// Newest format of a data directory that this version reads and writes.
pub const FORMAT: u32 = 1;
const SETTLED_MAGIC: [u8; 8] = *b"SLSETTL1";
const SETTLED_HEADER_BYTES: usize = 64;
const CHUNK_HEADER_BYTES: usize = 16;
/// A chunk takes no further entry once it has so many bytes, so that it stays far below the limit
/// of what is decoded.
const CHUNK_BYTES: usize = 4 << 20;
const STORE_MAGIC: [u8; 8] = *b"SLSTORE1";
const STORE_BYTES: usize = 256;

/// A session as the catalogue keeps it. Frozen: another shape is another settled version.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Entry {
    pub(crate) tenant: String,
    pub(crate) user: String,
    pub(crate) session: String,
    pub(crate) incarnation: [u8; 16],
    pub(crate) title: Option<String>,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) workspace: Option<String>,
    pub(crate) ttl_seconds: Option<u64>,
    pub(crate) create_key: Option<String>,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
    pub(crate) archived_at: Option<i64>,
    pub(crate) deleted_at: Option<i64>,
    pub(crate) tail: u64,
    /// The number after the session's last record: a replay skips what lies below.
    pub(crate) end_lsn: u64,
    pub(crate) chain: [u8; 32],
    pub(crate) control_chain: [u8; 32],
    pub(crate) bytes: u64,
    pub(crate) segments: Vec<SegmentEntry>,
    pub(crate) damage: Vec<(u64, u64, String)>,
}

/// A segment as far as it is believed.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct SegmentEntry {
    pub(crate) base: u64,
    pub(crate) start: u64,
    pub(crate) sealed: bool,
    /// Bytes believed; what lies beyond accuses nobody.
    pub(crate) bytes: u64,
    /// The position after its last believed event.
    pub(crate) end: u64,
}

/// One generation's change of a settled file, or its base.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Delta {
    /// The owner stopped cleanly: the journal holds nothing more.
    pub(crate) clean: bool,
    /// The start that wrote it.
    pub(crate) start: u64,
    /// Everything before this place of the journal is settled: file order, byte offset, and the
    /// log sequence number there.
    pub(crate) order: u64,
    pub(crate) byte_offset: u64,
    pub(crate) lsn: u64,
    /// The store's clock.
    pub(crate) at: i64,
    /// Sessions touched since this file's generation before.
    pub(crate) entries: Vec<Entry>,
}

#[derive(Encode, Decode)]
struct DeltaV1 {
    /// More chunks of this generation follow.
    more: bool,
    delta: Delta,
}

/// Header of a settled file.
#[must_use]
pub fn settled_header(store: [u8; 16], salt: u64) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend_from_slice(&store);
    body.extend_from_slice(&salt.to_le_bytes());
    body.resize(SETTLED_HEADER_BYTES - 16, 0);
    file_header(SETTLED_MAGIC, FORMAT, &body)
}

/// Chunks of one generation, to be appended to a settled file with that salt.
#[must_use]
pub fn encode_delta(salt: u64, generation: u64, delta: &Delta) -> Vec<u8> {
    let mut out = Vec::new();
    let chunks = chunks(&delta.entries);
    for (index, entries) in chunks.iter().enumerate() {
        let v1 = DeltaV1 {
            more: index + 1 < chunks.len(),
            delta: Delta { entries: entries.to_vec(), ..delta.without_entries() },
        };
        let mut payload = generation.to_le_bytes().to_vec();
        encode_value(&v1, &mut payload);
        let length = u32::try_from(payload.len() - 8).expect("a chunk holds bounded entries");
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&checksum(salt, &[&length.to_le_bytes(), &payload]).to_le_bytes());
        out.extend_from_slice(&payload);
        out.resize(frame::align(out.len() as u64) as usize, 0);
    }
    out
}

/// Entries as they are spread over chunks; one empty chunk when there are none.
fn chunks(entries: &[Entry]) -> Vec<&[Entry]> {
    let mut chunks = Vec::new();
    let mut rest = entries;
    loop {
        let mut bytes = Vec::new();
        let fits = |entry: &&Entry| {
            let open = bytes.len() < CHUNK_BYTES;
            encode_value(*entry, &mut bytes);
            open
        };
        let count = rest.iter().take_while(fits).count();
        let (chunk, behind) = rest.split_at(count);
        chunks.push(chunk);
        rest = behind;
        if rest.is_empty() {
            return chunks;
        }
    }
}

impl Delta {
    fn without_entries(&self) -> Self {
        Self { entries: Vec::new(), ..*self }
    }
}

/// A settled file as far as it is whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Salt of its chunks.
    pub salt: u64,
    /// Its last whole generation; 0 for none.
    pub generation: u64,
    /// What the last generation says of the store, its entries left out.
    pub last: Option<Delta>,
    /// The last entry of every session, by tenant, user, session and incarnation.
    pub entries: BTreeMap<(String, String, String, [u8; 16]), Entry>,
    /// Bytes up to the end of the last whole generation: where the next is appended.
    pub end: u64,
}

/// Reads a settled file: its generations up to the first that is not whole.
///
/// # Errors
/// What is wrong with the header.
pub fn decode_settled(store: [u8; 16], bytes: &Bytes) -> Result<Settled, Fault> {
    let header = bytes.get(..SETTLED_HEADER_BYTES).ok_or(Fault::Short)?;
    let mut fields = open_file_header(SETTLED_MAGIC, FORMAT, header)?;
    if fields.array() != Some(store) {
        return Err(Fault::Misplaced);
    }
    let salt = fields.u64().ok_or(Fault::Short)?;
    let end = SETTLED_HEADER_BYTES as u64;
    let mut settled = Settled { salt, end, ..Settled::default() };
    let mut at = SETTLED_HEADER_BYTES;
    let mut waiting = Vec::new();
    while let Some((generation, v1, stride)) = decode_delta(salt, bytes.get(at..).unwrap_or(&[])) {
        at += stride;
        waiting.extend(v1.delta.entries.iter().cloned());
        if v1.more {
            continue;
        }
        for entry in waiting.drain(..) {
            let names = (entry.tenant.clone(), entry.user.clone(), entry.session.clone());
            settled.entries.insert((names.0, names.1, names.2, entry.incarnation), entry);
        }
        settled.generation = generation;
        settled.last = Some(v1.delta.without_entries());
        settled.end = at as u64;
    }
    Ok(settled)
}

fn decode_delta(salt: u64, bytes: &[u8]) -> Option<(u64, DeltaV1, usize)> {
    let mut fields = Fields(bytes);
    let (length, stored) = (fields.u32()?, fields.u32()?);
    let payload = fields.bytes(8 + length as usize)?;
    if checksum(salt, &[&length.to_le_bytes(), payload]) != stored {
        return None;
    }
    let mut inner = Fields(payload);
    let generation = inner.u64()?;
    let v1 = decode_value(inner.0)?;
    let stride = frame::align((CHUNK_HEADER_BYTES + length as usize) as u64);
    Some((generation, v1, stride as usize))
}

/// The file `STORE`: what makes a directory a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreFile {
    /// Random, in every file of the store.
    pub id: [u8; 16],
    /// When it was made, microseconds.
    pub created_at: i64,
}

impl StoreFile {
    /// The file's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = self.id.to_vec();
        body.extend_from_slice(&self.created_at.to_le_bytes());
        body.resize(STORE_BYTES - 16, 0);
        file_header(STORE_MAGIC, FORMAT, &body)
    }

    /// Reads the file's bytes.
    ///
    /// # Errors
    /// [`Fault::Unknown`] with the format found when it is newer; else what is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let header = bytes.get(..bytes.len().min(STORE_BYTES)).unwrap_or_default();
        let mut fields = open_file_header(STORE_MAGIC, FORMAT, header)?;
        let mut body = || Some(Self { id: fields.array()?, created_at: fields.i64()? });
        body().ok_or(Fault::Short)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(n: usize) -> Entry {
        let long = "x".repeat(2_000);
        Entry {
            tenant: "default".to_owned(),
            user: "local".to_owned(),
            session: format!("s{n}"),
            incarnation: [7; 16],
            title: Some(long.clone()),
            metadata: (0..16).map(|key| (format!("k{key}"), long.clone())).collect(),
            workspace: None,
            ttl_seconds: Some(0),
            create_key: None,
            created_at: 1,
            updated_at: -1,
            archived_at: None,
            deleted_at: Some(3),
            tail: 9,
            end_lsn: 12,
            chain: [1; 32],
            control_chain: [2; 32],
            bytes: 5,
            segments: vec![SegmentEntry { base: 0, start: 1, sealed: true, bytes: 9, end: 9 }],
            damage: vec![(1, 2, "torn".to_owned())],
        }
    }

    #[test]
    fn a_generation_larger_than_the_decoding_limit_reads_back() {
        let (store, salt) = ([3; 16], 11);
        for count in [0, 1, 1_500] {
            let delta = Delta {
                clean: true,
                start: 2,
                order: 3,
                byte_offset: 8192,
                lsn: 77,
                at: 5,
                entries: (0..count).map(entry).collect(),
            };
            let mut bytes = settled_header(store, salt);
            bytes.extend(encode_delta(salt, 4, &delta));
            let length = bytes.len() as u64;
            let read = decode_settled(store, &bytes.into()).unwrap();
            assert_eq!((read.generation, read.end), (4, length), "{count}");
            assert_eq!(read.entries.len(), count);
            assert_eq!(read.last, Some(delta.without_entries()));
        }
    }

    #[test]
    fn a_generation_counts_only_when_its_last_chunk_is_whole() {
        let (store, salt) = ([3; 16], 11);
        let delta = |count| Delta {
            clean: false,
            start: 1,
            order: 1,
            byte_offset: 0,
            lsn: 1,
            at: 0,
            entries: (0..count).map(entry).collect(),
        };
        let mut bytes = settled_header(store, salt);
        bytes.extend(encode_delta(salt, 1, &delta(1)));
        let whole = bytes.len();
        bytes.extend(encode_delta(salt, 2, &delta(400)));
        for cut in [whole + 5, whole + 5_000_000, bytes.len() - 9] {
            let torn = Bytes::copy_from_slice(&bytes[..cut]);
            let read = decode_settled(store, &torn).unwrap();
            assert_eq!((read.generation, read.end, read.entries.len()), (1, whole as u64, 1));
        }
    }
}
