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
    bytes::{Fields, checksum},
    error::Fault,
    frame,
    record::{decode_value, encode_value},
};

/// Newest format of a data directory that this version reads and writes.
pub const FORMAT: u32 = 1;
const SETTLED_MAGIC: [u8; 8] = *b"SLSETTL1";
const SETTLED_HEADER_BYTES: usize = 64;
const CHUNK_HEADER_BYTES: usize = 16;
/// Entries per chunk, so that a base of many sessions stays below the decoding limit.
const CHUNK_ENTRIES: usize = 4_096;
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
    let mut out = SETTLED_MAGIC.to_vec();
    out.extend_from_slice(&FORMAT.to_le_bytes());
    out.extend_from_slice(&checksum(0, &[&body]).to_le_bytes());
    out.extend_from_slice(&body);
    out
}

/// Chunks of one generation, to be appended to a settled file with that salt.
#[must_use]
pub fn encode_delta(salt: u64, generation: u64, delta: &Delta) -> Vec<u8> {
    let mut out = Vec::new();
    let chunks = delta.entries.len().div_ceil(CHUNK_ENTRIES).max(1);
    for chunk in 0..chunks {
        let entries = delta.entries.iter().skip(chunk * CHUNK_ENTRIES).take(CHUNK_ENTRIES);
        let v1 = DeltaV1 {
            more: chunk + 1 < chunks,
            delta: Delta { entries: entries.cloned().collect(), ..delta.without_entries() },
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
    let mut fields = Fields(bytes.get(..SETTLED_HEADER_BYTES).ok_or(Fault::Short)?);
    let salt = settled_salt(store, &mut fields).ok_or(Fault::Short)??;
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

fn settled_salt(store: [u8; 16], fields: &mut Fields<'_>) -> Option<Result<u64, Fault>> {
    if fields.array()? != SETTLED_MAGIC {
        return Some(Err(Fault::Magic));
    }
    let version = fields.u32()?;
    if fields.u32()? != checksum(0, &[fields.0]) {
        return Some(Err(Fault::HeaderChecksum));
    }
    if version != FORMAT {
        return Some(Err(Fault::Unknown { what: "settled version", value: version }));
    }
    let found: [u8; 16] = fields.array()?;
    Some(if found == store { Ok(fields.u64()?) } else { Err(Fault::Misplaced) })
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
        let mut out = STORE_MAGIC.to_vec();
        out.extend_from_slice(&FORMAT.to_le_bytes());
        out.extend_from_slice(&checksum(0, &[&body]).to_le_bytes());
        out.extend_from_slice(&body);
        out
    }

    /// Reads the file's bytes.
    ///
    /// # Errors
    /// [`Fault::Unknown`] with the format found when it is newer; else what is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        Self::fields(&mut Fields(bytes)).ok_or(Fault::Short)?
    }

    fn fields(fields: &mut Fields<'_>) -> Option<Result<Self, Fault>> {
        if fields.array()? != STORE_MAGIC {
            return Some(Err(Fault::Magic));
        }
        let (version, stored) = (fields.u32()?, fields.u32()?);
        if version > FORMAT {
            return Some(Err(Fault::Unknown { what: "format", value: version }));
        }
        let body = fields.bytes(STORE_BYTES - 16)?;
        if stored != checksum(0, &[body]) {
            return Some(Err(Fault::HeaderChecksum));
        }
        let mut body = Fields(body);
        Some(Ok(Self { id: body.array()?, created_at: body.i64()? }))
    }
}
