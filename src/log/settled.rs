//! A settled file: the flushed state of every session, as a header and chunks of entries. A
//! generation is one or more chunks, valid once its last one is whole. It is read and written chunk
//! by chunk, so that a million entries are not in memory twice. It must not choose between two
//! settled files; the store does.
//!
//! ```text
//! settled   0  magic "SLSETTL1"   8  version u32  12  checksum u32 of 16..64  16  store id 16
//!          32  salt u64          40  version again u32    44  cipher u8
//!          45  zero              64  chunks
//! chunk     0  length u32         4  checksum u32 of the rest   8  generation u64
//!          16  bincode of ChunkV2, zero-padded to a multiple of 8; with a cipher a nonce 24 and
//!              that, encrypted, bound to salt, generation and the chunk's byte offset
//! ```

use bincode::{Decode, Encode};
use bytes::Bytes;

use super::{
    bytes::{FieldReader, checksum, file_header, open_file_header},
    cipher::{Cipher, Encryptor, NONCE_BYTES, TAG_BYTES, XCHACHA20_POLY1305},
    encoding::{PAYLOAD_BYTES_MAX, decode_front, encode_value},
    entry::Entry,
    error::{Fault, LogError},
    frame,
};

const MAGIC: [u8; 8] = *b"SLSETTL1";
/// The only supported version. Lower numbers belong to layouts of builds before the first release,
/// and are not reused.
const VERSION: u32 = 4;
const HEADER_BYTES: usize = 64;
const CHUNK_HEADER_BYTES: u64 = 16;
/// Bytes at which a chunk is closed, so that it stays far below the decoding limit.
const CHUNK_BYTES: usize = 4 << 20;
/// Maximum bytes of a stored chunk, without its header.
const CHUNK_STORED_MAX: usize = PAYLOAD_BYTES_MAX + NONCE_BYTES + TAG_BYTES;

/// One generation of a settled file: a change of entries, or the base.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Delta {
    /// True if the owner stopped cleanly: the journal has no later records.
    pub(crate) clean: bool,
    /// Number of the start that wrote it.
    pub(crate) start: u64,
    /// Location in the journal before which everything is flushed: file order, byte offset and log
    /// sequence number.
    pub(crate) order: u64,
    pub(crate) byte_offset: u64,
    pub(crate) lsn: u64,
    /// Time of the write, by the store's clock.
    pub(crate) at: i64,
    /// Time of the write, by the store's count of time (store::lifetime).
    pub(crate) counted: i64,
    /// Latest reading of that clock; reset by a large step back.
    pub(crate) seen: i64,
    /// Entries of the sessions that changed since this file's previous generation.
    pub(crate) entries: Vec<Entry>,
}

#[derive(Encode, Decode)]
struct ChunkV2 {
    /// True if more chunks of this generation follow.
    more: bool,
    delta: Delta,
}

/// Function that reads a byte range of a settled file, or as much of it as exists.
type Source<'a> = &'a dyn Fn(u64, u64) -> Result<Bytes, LogError>;

/// Encodes the header of a settled file.
#[must_use]
pub fn settled_header(store: [u8; 16], salt: u64, encrypted: bool) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend_from_slice(&store);
    body.extend_from_slice(&salt.to_le_bytes());
    body.extend_from_slice(&VERSION.to_le_bytes());
    body.push(if encrypted { XCHACHA20_POLY1305 } else { 0 });
    body.resize(HEADER_BYTES - 16, 0);
    file_header(MAGIC, VERSION, &body)
}

/// Byte offset of the first chunk of a settled file.
pub const SETTLED_AT: u64 = HEADER_BYTES as u64;

/// Encodes the chunks of one generation, to be appended to a settled file at a byte offset.
#[must_use]
pub fn encode_delta(
    (salt, at): (u64, u64),
    generation: u64,
    delta: &Delta,
    encryptor: Option<Encryptor<'_>>,
) -> Vec<u8> {
    let mut out = Vec::new();
    let mut chunks = GenerationEncoder::new((salt, at), generation, delta, encryptor);
    for entry in &delta.entries {
        chunks.push(&entry.encode(), &mut out);
    }
    chunks.finish(&mut out);
    out
}

/// Encoder of a generation whose entries are added one by one.
pub struct GenerationEncoder<'a> {
    salt: u64,
    /// Byte offset of the next chunk.
    at: u64,
    encryptor: Option<Encryptor<'a>>,
    generation: u64,
    delta: Delta,
    count: u64,
    entries: Vec<u8>,
}

impl<'a> GenerationEncoder<'a> {
    /// Creates the encoder of a generation with the fields of `delta`, without its entries. Its
    /// first chunk goes to the byte offset `at`.
    #[must_use]
    pub fn new(
        (salt, at): (u64, u64),
        generation: u64,
        delta: &Delta,
        encryptor: Option<Encryptor<'a>>,
    ) -> Self {
        let delta = delta.without_entries();
        Self { salt, at, encryptor, generation, delta, count: 0, entries: Vec::new() }
    }

    /// Adds an entry encoded by [`Entry::encode`]. A full chunk is appended to `out` first.
    pub fn push(&mut self, entry: &[u8], out: &mut Vec<u8>) {
        if self.entries.len() >= CHUNK_BYTES {
            self.write_chunk(true, out);
        }
        self.entries.extend_from_slice(entry);
        self.count += 1;
    }

    /// Finishes the generation: appends its last chunk to `out`.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        self.write_chunk(false, out);
    }

    fn write_chunk(&mut self, more: bool, out: &mut Vec<u8>) {
        let mut value = Vec::with_capacity(self.entries.len() + 256);
        encode_value(&ChunkV2 { more, delta: self.delta.clone() }, &mut value);
        // The list of entries is the last field; an empty list is encoded as one byte.
        assert_eq!(value.pop(), Some(0), "an empty list ends the delta");
        encode_value(&std::mem::take(&mut self.count), &mut value);
        value.append(&mut self.entries);
        if let Some(Encryptor { cipher, nonce }) = self.encryptor {
            let aad = chunk_aad(cipher, self.salt, self.generation, self.at);
            value = cipher.seal_with_nonce(nonce(), &aad, value);
        }
        let mut payload = self.generation.to_le_bytes().to_vec();
        payload.append(&mut value);
        assert!(payload.len() - 8 <= CHUNK_STORED_MAX, "a reader refuses a longer chunk");
        let length = u32::try_from(payload.len() - 8).expect("a chunk holds bounded entries");
        let before = out.len();
        out.extend_from_slice(&length.to_le_bytes());
        let sum = checksum(self.salt, &[&length.to_le_bytes(), &payload]);
        out.extend_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(&payload);
        let end = frame::align((out.len() - before) as u64);
        out.resize(before + end as usize, 0);
        debug_assert!(self.at.is_multiple_of(frame::ALIGN_BYTES), "a chunk starts aligned");
        self.at += end;
    }
}

fn chunk_aad(cipher: &Cipher, salt: u64, generation: u64, at: u64) -> Vec<u8> {
    let fields = [salt, generation, at].map(u64::to_le_bytes);
    let [salt, generation, at] = &fields;
    cipher.associated_data("sessionlog v1 settled", &[salt, generation, at])
}

impl Delta {
    fn without_entries(&self) -> Self {
        Self { entries: Vec::new(), ..*self }
    }
}

/// Index of the whole generations of a settled file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettledIndex {
    /// Salt of the chunks' checksums.
    pub salt: u64,
    /// Number of the last whole generation; 0 for none.
    pub generation: u64,
    /// Last generation, without its entries.
    pub last: Option<Delta>,
    /// Byte offset where the last whole generation starts.
    pub last_at: u64,
    /// Byte offset where the first whole generation, its base, ends.
    pub base_end: u64,
    /// Byte offset after the last whole generation, where the next one is appended.
    pub end: u64,
    /// For each generation, the store's count of time and the wall clock at its write.
    pub times: Vec<(i64, i64)>,
}

impl SettledIndex {
    /// Finds the generations of a settled file up to the first one that is not whole.
    /// [`Self::for_each_entry`] reads the entries.
    ///
    /// # Errors
    /// Errors of the file system, or the fault of the header.
    pub fn read(
        store: [u8; 16],
        cipher: Option<&Cipher>,
        read: Source<'_>,
    ) -> Result<Self, LogError> {
        let wrong = |fault| LogError::Fault { byte_offset: 0, fault };
        let header = read(0, HEADER_BYTES as u64)?;
        let (salt, encrypted) = decode_header(store, &header).map_err(wrong)?;
        match (encrypted, cipher) {
            (true, None) => return Err(wrong(Fault::Encrypted)),
            (false, Some(_)) => return Err(wrong(Fault::Plaintext)),
            _ => {}
        }
        let first = HEADER_BYTES as u64;
        let mut settled = Self { salt, last_at: first, end: first, ..Self::default() };
        let (mut at, mut from) = (first, first);
        while let Some(chunk) = SettledChunk::read(salt, at, cipher, read)? {
            at = chunk.next;
            if chunk.more {
                continue;
            }
            if settled.last.is_none() {
                settled.base_end = at;
            }
            settled.generation = chunk.generation;
            settled.times.push((chunk.delta.counted, chunk.delta.at));
            settled.last = Some(chunk.delta);
            (settled.last_at, settled.end) = (from, at);
            from = at;
        }
        Ok(settled)
    }

    /// Passes every entry in the order written, with the byte offset of its chunk and its
    /// encoding, to `visit`. Of several entries of a session and incarnation, the last is valid.
    ///
    /// # Errors
    /// Errors of the file system; a fault if the file changed since [`Self::read`].
    pub fn for_each_entry(
        &self,
        cipher: Option<&Cipher>,
        read: Source<'_>,
        visit: &mut dyn FnMut(u64, Entry, &[u8]),
    ) -> Result<(), LogError> {
        let mut at = HEADER_BYTES as u64;
        while at < self.end {
            let wrong = |fault| LogError::Fault { byte_offset: at, fault };
            let chunk = SettledChunk::read(self.salt, at, cipher, read)?
                .ok_or_else(|| wrong(Fault::PayloadChecksum))?;
            let mut rest: &[u8] = &chunk.entries;
            for _ in 0..chunk.count {
                let found: Option<(Entry, usize)> = decode_front(rest);
                let found = found.filter(|(entry, _)| entry.is_sound());
                let (entry, used) = found.ok_or_else(|| wrong(Fault::Payload))?;
                let (bytes, after) = rest.split_at_checked(used).ok_or(wrong(Fault::Payload))?;
                visit(at, entry, bytes);
                rest = after;
            }
            at = chunk.next;
        }
        Ok(())
    }
}

/// Decodes a header. Its version is repeated where the checksum covers it, since an entry must not
/// be decoded in another version's layout. Returns the salt, and whether the chunks are encrypted.
fn decode_header(store: [u8; 16], header: &[u8]) -> Result<(u64, bool), Fault> {
    let header = header.get(..HEADER_BYTES).ok_or(Fault::Short)?;
    let mut fields = open_file_header(MAGIC, VERSION, header)?;
    if fields.array() != Some(store) {
        return Err(Fault::Misplaced);
    }
    let salt = fields.u64().ok_or(Fault::Short)?;
    let again = fields.u32().ok_or(Fault::Short)?;
    if again != VERSION {
        return Err(Fault::Unknown { what: "version", value: again });
    }
    match fields.u8().ok_or(Fault::Short)? {
        0 => Ok((salt, false)),
        XCHACHA20_POLY1305 => Ok((salt, true)),
        other => Err(Fault::Unknown { what: "cipher", value: u32::from(other) }),
    }
}

struct SettledChunk {
    generation: u64,
    more: bool,
    /// Fields of the generation, without entries.
    delta: Delta,
    count: u64,
    entries: Bytes,
    /// Byte offset of the next chunk.
    next: u64,
}

impl SettledChunk {
    /// Reads the chunk at a byte offset; returns `None` if it is not whole.
    fn read(
        salt: u64,
        at: u64,
        cipher: Option<&Cipher>,
        read: Source<'_>,
    ) -> Result<Option<Self>, LogError> {
        let header = read(at, at + CHUNK_HEADER_BYTES)?;
        let mut fields = FieldReader(&header);
        let (Some(length), Some(stored)) = (fields.u32(), fields.u32()) else { return Ok(None) };
        if length as usize > CHUNK_STORED_MAX {
            return Ok(None);
        }
        let end = at + CHUNK_HEADER_BYTES + u64::from(length);
        let payload = read(at + 8, end)?;
        if payload.len() as u64 != end - at - 8
            || checksum(salt, &[&length.to_le_bytes(), &payload]) != stored
        {
            return Ok(None);
        }
        let Some(generation) = FieldReader(&payload).u64() else { return Ok(None) };
        let mut value = payload.slice(8..);
        if let Some(cipher) = cipher {
            match cipher.open_with_nonce(&chunk_aad(cipher, salt, generation, at), &value) {
                Ok(plain) => value = plain.into(),
                Err(_) => return Ok(None),
            }
        }
        Ok(Self::decode_fields(generation, &value, frame::align(end)))
    }

    fn decode_fields(generation: u64, value: &Bytes, next: u64) -> Option<Self> {
        type Fixed = (bool, bool, u64, u64, u64, u64, (i64, i64, i64), u64);
        let (fixed, used): (Fixed, usize) = decode_front(value)?;
        let (more, clean, start, order, byte_offset, lsn, (at, counted, seen), count) = fixed;
        let entries = value.slice(used..);
        let delta =
            Delta { clean, start, order, byte_offset, lsn, at, counted, seen, entries: Vec::new() };
        Some(Self { generation, more, delta, count, entries, next })
    }
}

/// Decodes a settled file in memory: its index, and all entries in the order written.
///
/// # Errors
/// The fault of the file.
pub fn decode_settled(
    store: [u8; 16],
    bytes: &Bytes,
) -> Result<(SettledIndex, Vec<Entry>), LogError> {
    let read = |from: u64, to: u64| {
        let clamp = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
        Ok(bytes.slice(clamp(from)..clamp(to)))
    };
    let settled = SettledIndex::read(store, None, &read)?;
    let mut entries = Vec::new();
    settled.for_each_entry(None, &read, &mut |_, entry, _| entries.push(entry))?;
    Ok((settled, entries))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LostRange;
    use crate::log::SegmentEntry;
    use crate::log::{CheckpointMark, EndReason, LifeStage, SessionEnd, WorkSummary};

    fn entry(n: usize) -> Entry {
        let long = "x".repeat(2_000);
        let checkpoint = Some(CheckpointMark { lsn: 6, position: 7, open: true });
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
            held_at: None,
            stage: LifeStage::Reclaimed(SessionEnd { how: EndReason::Deleted, at: 3 }),
            used_after: -2,
            tail: 9,
            end_lsn: 12,
            chain: [1; 32],
            control_chain: [2; 32],
            bytes: 5,
            segments: vec![SegmentEntry { base: 0, start: 1, sealed: true, bytes: 9, end: 9 }],
            damage: vec![LostRange {
                from: 1,
                to: 2,
                reason: "torn".to_owned(),
                accepted_at: None,
            }],
            key: 8,
            redacted: Vec::new(),
            work: WorkSummary {
                fence: 2,
                until: Some(-3),
                key: Some([4; 16]),
                notes: 5,
                checkpoint,
            },
            lineage: None,
        }
    }

    #[test]
    fn a_generation_larger_than_the_decoding_limit_round_trips() {
        let (store, salt) = ([3; 16], 11);
        for count in [0, 1, 1_500] {
            let delta = Delta {
                clean: true,
                start: 2,
                order: 3,
                byte_offset: 8192,
                lsn: 77,
                at: 5,
                counted: -6,
                seen: 7,
                entries: (0..count).map(entry).collect(),
            };
            let mut bytes = settled_header(store, salt, false);
            bytes.extend(encode_delta((salt, SETTLED_AT), 4, &delta, None));
            let length = bytes.len() as u64;
            let (read, entries) = decode_settled(store, &bytes.into()).unwrap();
            assert_eq!((read.generation, read.end), (4, length), "{count}");
            assert_eq!(entries, delta.entries, "{count}");
            assert_eq!(read.last, Some(delta.without_entries()));
        }
    }

    #[test]
    fn a_generation_is_valid_only_if_its_last_chunk_is_whole() {
        let (store, salt) = ([3; 16], 11);
        let delta = |count| Delta {
            clean: false,
            start: 1,
            order: 1,
            byte_offset: 0,
            lsn: 1,
            at: 0,
            counted: 0,
            seen: 0,
            entries: (0..count).map(entry).collect(),
        };
        let mut bytes = settled_header(store, salt, false);
        bytes.extend(encode_delta((salt, SETTLED_AT), 1, &delta(1), None));
        let whole = bytes.len();
        bytes.extend(encode_delta((salt, whole as u64), 2, &delta(400), None));
        for cut in [whole + 5, whole + 5_000_000, bytes.len() - 9] {
            let torn = Bytes::copy_from_slice(&bytes[..cut]);
            let (read, entries) = decode_settled(store, &torn).unwrap();
            assert_eq!((read.generation, read.end, entries.len()), (1, whole as u64, 1));
        }
    }
}
