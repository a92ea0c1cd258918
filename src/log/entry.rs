//! Durable state of each session: the entries of `settled/`, their packed form in memory while a
//! session is evicted, and the file `STORE`. It must not read a settled file; `settled` does.
//!
//! ```text
//! STORE     0  magic "SLSTORE1"   8  version u32  12  checksum u32 of 16..256  16  store id 16
//!          32  created at i64    40  cipher u8    41  zero 7    48  the store's own key 96
//!         144  the same under the master key before, during a rotation   240  zero to 256
//! key       0  key id 8           8  check 16    24  nonce 24    48  wrapped 48
//! ```

use std::{collections::BTreeMap, sync::Arc};

use bincode::{
    BorrowDecode, Decode, Encode,
    de::{BorrowDecoder, Decoder},
    enc::Encoder,
    error::{DecodeError, EncodeError},
};

use super::{
    bytes::{FieldReader, file_header, open_file_header},
    cipher::XCHACHA20_POLY1305,
    control::ForkParent,
    damage::LostRange,
    encoding::{decode_front, decode_text, decode_value, encode_value},
    error::Fault,
    keyring::{STORED_BYTES, StoredKey},
    stage::{LifeStage, StageV4},
    work::WorkSummary,
};

/// Newest format of a data directory that this version reads and writes.
pub const FORMAT: u32 = 1;
/// Largest number accepted from disk: counting up from it does not overflow.
const COUNT_MAX: u64 = u64::MAX >> 1;
const STORE_MAGIC: [u8; 8] = *b"SLSTORE1";
const STORE_BYTES: usize = 256;

/// Entry of a session in the catalogue. Its encoding is frozen: another layout needs another
/// version of the settled file.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Time since which an operator holds the session: it neither expires nor is deleted.
    pub(crate) held_at: Option<i64>,
    pub(crate) stage: LifeStage,
    /// Whole seconds from `updated_at` to its last use, by the store's count of time
    /// (store::lifetime); rounded up, so that nothing expires early. Negative if the clock was
    /// ahead of that count.
    pub(crate) used_after: i64,
    pub(crate) tail: u64,
    /// Log sequence number after the session's last record: a replay skips lower ones.
    pub(crate) end_lsn: u64,
    pub(crate) chain: [u8; 32],
    pub(crate) control_chain: [u8; 32],
    pub(crate) bytes: u64,
    pub(crate) segments: Vec<SegmentEntry>,
    pub(crate) damage: Vec<LostRange>,
    /// Number of its key in `keys/`; 0 in a plaintext store.
    pub(crate) key: u64,
    /// Redacted events, in order of position; empty once the session was erased.
    pub(crate) redacted: Vec<Redaction>,
    /// Summary of the session's notes and leases.
    pub(crate) work: WorkSummary,
    /// Point that a fork continues from; `None` for other sessions.
    pub(crate) lineage: Option<ForkParent>,
}

/// Redaction of an event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Redaction {
    pub(crate) position: u64,
    /// True once no file contains the body of the event.
    pub(crate) cleared: bool,
}

/// Segment of a session, and how much of it is known to be durable.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct SegmentEntry {
    pub(crate) base: u64,
    pub(crate) start: u64,
    pub(crate) sealed: bool,
    /// Bytes known to be durable; bytes beyond are not evidence of damage.
    pub(crate) bytes: u64,
    /// Position after the last durable event.
    pub(crate) end: u64,
}

impl SegmentEntry {
    /// Returns true if the segment has no event: with control records alone its end equals its
    /// base, and the next segment of the same start would get the same name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.base == self.end
    }
}

/// Value encoded instead of an erased session's redactions while a file may hold its bytes.
const UNFINISHED: [Redaction; 1] = [Redaction { position: u64::MAX, cleared: false }];

impl Encode for Entry {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        let StageV4 { deleted_at, expired_at, reclaimed, erased_at, redacted } = self.stage.into();
        let redacted = if redacted { &UNFINISHED[..] } else { &self.redacted };
        let Self { tenant, user, session, incarnation, title, metadata, workspace, .. } = self;
        (tenant, user, session, incarnation, title, metadata, workspace).encode(encoder)?;
        (&self.ttl_seconds, &self.create_key, self.created_at, self.updated_at).encode(encoder)?;
        (self.archived_at, deleted_at, self.held_at, expired_at).encode(encoder)?;
        (self.used_after, reclaimed).encode(encoder)?;
        (self.tail, self.end_lsn, self.chain, self.control_chain, self.bytes).encode(encoder)?;
        (&self.segments, &self.damage, self.key, erased_at, redacted).encode(encoder)?;
        (self.work, &self.lineage).encode(encoder)
    }
}

impl<Context> Decode<Context> for Entry {
    fn decode<D: Decoder<Context = Context>>(decoder: &mut D) -> Result<Self, DecodeError> {
        let (tenant, user, session, incarnation, title, metadata, workspace) =
            Decode::decode(decoder)?;
        let (ttl_seconds, create_key, created_at, updated_at) = Decode::decode(decoder)?;
        let (archived_at, deleted_at, held_at, expired_at) = Decode::decode(decoder)?;
        let (used_after, reclaimed) = Decode::decode(decoder)?;
        let (tail, end_lsn, chain, control_chain, bytes) = Decode::decode(decoder)?;
        let (segments, damage, key, erased_at, mut redacted): (_, _, _, Option<i64>, Vec<_>) =
            Decode::decode(decoder)?;
        let (work, lineage) = Decode::decode(decoder)?;
        let unfinished = erased_at.is_some() && !redacted.is_empty();
        let stage =
            StageV4 { deleted_at, expired_at, reclaimed, erased_at, redacted: unfinished }.stage();
        let stage = stage.ok_or(DecodeError::Other("a living session is reclaimed"))?;
        if stage.is_erased() {
            redacted.clear();
        }
        Ok(Self {
            tenant,
            user,
            session,
            incarnation,
            title,
            metadata,
            workspace,
            ttl_seconds,
            create_key,
            created_at,
            updated_at,
            archived_at,
            held_at,
            stage,
            used_after,
            tail,
            end_lsn,
            chain,
            control_chain,
            bytes,
            segments,
            damage,
            key,
            redacted,
            work,
            lineage,
        })
    }
}

impl<'de, Context> BorrowDecode<'de, Context> for Entry {
    fn borrow_decode<D: BorrowDecoder<'de, Context = Context>>(
        decoder: &mut D,
    ) -> Result<Self, DecodeError> {
        Decode::decode(decoder)
    }
}

impl Entry {
    /// Encodes the entry for a settled file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_value(self, &mut bytes);
        bytes
    }

    /// Decodes an entry; `None` if it is damaged.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        decode_value(bytes).filter(Self::is_sound)
    }

    /// Returns true if all numbers are at most `COUNT_MAX`, so that counting up does not overflow.
    pub(super) fn is_sound(&self) -> bool {
        let below = |number: u64| number <= COUNT_MAX;
        let whole = |one: &SegmentEntry| one.base <= one.end && below(one.end) && below(one.bytes);
        self.segments.iter().all(whole)
            && [self.tail, self.end_lsn, self.bytes].into_iter().all(below)
            && [self.work.fence, self.work.notes].into_iter().all(below)
    }

    /// Returns true if some damage is not accepted by an operator: the session rejects appends.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.damage.iter().any(|damage| damage.accepted_at.is_none())
    }
}

/// Packed entry of an evicted session: its encoding without tenant and user, which many sessions
/// share. Clones share the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedEntry(Arc<[u8]>);

/// Fields of an entry that a listing needs, borrowed from a packed entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListingFields<'a> {
    /// Id of the session.
    pub session: &'a str,
    /// Workspace of the session.
    pub workspace: Option<&'a str>,
    /// Time of creation, in microseconds.
    pub created_at: i64,
    /// True if the session is archived.
    pub archived: bool,
    /// True if the session was deleted or has expired.
    pub gone: bool,
}

impl PackedEntry {
    /// Packs an entry whose encoding is `bytes`.
    #[must_use]
    pub fn from_entry(entry: &Entry, bytes: &[u8]) -> Self {
        let names = encode_scope(&entry.tenant, &entry.user);
        match bytes.strip_prefix(names.as_slice()) {
            Some(rest) => Self(rest.into()),
            // A length read from disk may be encoded in more bytes than necessary.
            None => Self(entry.encode().get(names.len()..).unwrap_or_default().into()),
        }
    }

    /// Returns the encoding of the entry in the given scope.
    #[must_use]
    pub fn encode(&self, tenant: &str, user: &str) -> Vec<u8> {
        let mut bytes = encode_scope(tenant, user);
        bytes.extend_from_slice(&self.0);
        bytes
    }

    /// Decodes the entry in the given scope.
    ///
    /// # Panics
    /// Never: a packed entry always decodes.
    #[must_use]
    pub fn entry(&self, tenant: &str, user: &str) -> Entry {
        decode_value(&self.encode(tenant, user)).expect("what was packed is an entry")
    }

    /// Returns the session's id.
    ///
    /// # Panics
    /// Never: a packed entry always decodes.
    #[must_use]
    pub fn session_id(&self) -> &str {
        decode_text(&self.0).expect("what was packed begins with an id")
    }

    /// Returns the session's id and incarnation.
    ///
    /// # Panics
    /// Never: a packed entry always decodes.
    #[must_use]
    pub fn identity(&self) -> (&str, [u8; 16]) {
        let (life, _) = decode_front(&self.0).expect("what was packed begins with these");
        life
    }

    /// Reads the fields that a listing needs.
    ///
    /// # Panics
    /// Never: a packed entry always decodes.
    #[must_use]
    pub fn listing_fields(&self) -> ListingFields<'_> {
        type Pairs<'a> = Vec<(&'a str, &'a str)>;
        type Front<'a> = (&'a str, [u8; 16], Option<&'a str>, Pairs<'a>, Option<&'a str>);
        type Times<'a> = (Option<u64>, Option<&'a str>, i64, i64, Option<i64>);
        type Ends = (Option<i64>, Option<i64>, Option<i64>);
        let ((front, times, ends), _): ((Front<'_>, Times<'_>, Ends), usize) =
            decode_front(&self.0).expect("what was packed is an entry behind its scope");
        let (session, _, _, _, workspace) = front;
        let (_, _, created_at, _, archived_at) = times;
        let (deleted_at, _, expired_at) = ends;
        let (archived, gone) = (archived_at.is_some(), deleted_at.or(expired_at).is_some());
        ListingFields { session, workspace, created_at, archived, gone }
    }
}

/// Encodes the first fields of an entry: tenant and user.
fn encode_scope(tenant: &str, user: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_value(&(tenant, user), &mut bytes);
    bytes
}

/// The store's own key, wrapped under the current master key and, during a rotation, under the
/// previous one too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreKeys {
    /// Key wrapped under the current master key.
    pub current: StoredKey,
    /// Key wrapped under the previous master key.
    pub previous: Option<StoredKey>,
}

/// Content of the file `STORE`, which identifies a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreFile {
    /// Random id, repeated in every file of the store.
    pub id: [u8; 16],
    /// Time of the store's creation, in microseconds.
    pub created_at: i64,
    /// The store's own key; `None` for a plaintext store.
    pub keys: Option<StoreKeys>,
}

impl StoreFile {
    /// Encodes the file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = self.id.to_vec();
        body.extend_from_slice(&self.created_at.to_le_bytes());
        if let Some(StoreKeys { current, previous }) = &self.keys {
            body.extend_from_slice(&[XCHACHA20_POLY1305, 0, 0, 0, 0, 0, 0, 0]);
            current.encode(&mut body);
            previous.iter().for_each(|previous| previous.encode(&mut body));
        }
        assert!(body.len() <= STORE_BYTES - 16, "two wrapped keys fit into the file");
        body.resize(STORE_BYTES - 16, 0);
        file_header(STORE_MAGIC, FORMAT, &body)
    }

    /// Decodes the file.
    ///
    /// # Errors
    /// [`Fault::Unknown`] with the format found if it is newer; else the fault.
    pub fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let header = bytes.get(..bytes.len().min(STORE_BYTES)).unwrap_or_default();
        let mut fields = open_file_header(STORE_MAGIC, FORMAT, header)?;
        Self::decode_fields(&mut fields).ok_or(Fault::Short)?
    }

    fn decode_fields(fields: &mut FieldReader<'_>) -> Option<Result<Self, Fault>> {
        let (id, created_at) = (fields.array()?, fields.i64()?);
        let [cipher, ..] = fields.array::<8>()?;
        let keys = match cipher {
            0 => None,
            XCHACHA20_POLY1305 => {
                let current = StoredKey::decode(fields)?;
                let previous = fields.bytes(STORED_BYTES)?;
                let there = previous.iter().any(|byte| *byte != 0);
                let previous = StoredKey::decode(&mut FieldReader(previous)).filter(|_| there);
                Some(StoreKeys { current, previous })
            }
            other => {
                let value = u32::from(other);
                return Some(Err(Fault::Unknown { what: "cipher", value }));
            }
        };
        Some(Ok(Self { id, created_at, keys }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{EndReason, SessionEnd};

    /// Returns an entry without optional values.
    fn plain() -> Entry {
        Entry {
            tenant: "t".repeat(128),
            user: "u".to_owned(),
            session: "s".repeat(128),
            incarnation: [7; 16],
            title: None,
            metadata: BTreeMap::new(),
            workspace: None,
            ttl_seconds: None,
            create_key: None,
            created_at: i64::MIN,
            updated_at: 2,
            archived_at: None,
            held_at: None,
            stage: LifeStage::Alive,
            used_after: 0,
            tail: 1,
            end_lsn: 1,
            chain: [1; 32],
            control_chain: [2; 32],
            bytes: 5,
            segments: Vec::new(),
            damage: Vec::new(),
            key: 0,
            redacted: Vec::new(),
            work: WorkSummary::default(),
            lineage: None,
        }
    }

    #[test]
    fn a_packed_entry_has_the_values_of_the_entry() {
        let pairs = [("k", "v"), ("key", "")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let plain = plain();
        let full = Entry {
            title: Some("a line".repeat(100)),
            metadata: pairs.into(),
            workspace: Some("w".to_owned()),
            ttl_seconds: Some(u64::MAX),
            create_key: Some("key".to_owned()),
            created_at: 1_800_000_000_000_000,
            archived_at: Some(3),
            held_at: Some(4),
            used_after: -86_400,
            segments: vec![SegmentEntry { base: 0, start: 1, sealed: true, bytes: 9, end: 9 }],
            damage: vec![LostRange {
                from: 1,
                to: 2,
                reason: "torn".to_owned(),
                accepted_at: Some(9),
            }],
            key: 300,
            redacted: vec![Redaction { position: 7, cleared: true }],
            work: WorkSummary { fence: 300, until: Some(-1), notes: 9, ..WorkSummary::default() },
            lineage: Some(ForkParent {
                parent: "p".repeat(128),
                incarnation: [3; 16],
                position: u64::MAX,
                chain: [4; 32],
            }),
            ..plain.clone()
        };
        let end = |how, at| LifeStage::Ended(SessionEnd { how, at });
        let erased = EndReason::Erased { unfinished: true };
        let erased = Entry { stage: end(erased, -1), ..plain.clone() };
        let expired =
            Entry { stage: end(EndReason::Expired, 7), held_at: Some(1), ..plain.clone() };
        for entry in [plain, full, erased, expired] {
            let packed = PackedEntry::from_entry(&entry, &entry.encode());
            assert_eq!(packed.entry(&entry.tenant, &entry.user), entry);
            assert_eq!(packed.session_id(), entry.session);
            assert_eq!(packed.identity(), (entry.session.as_str(), entry.incarnation));
            let listed = ListingFields {
                session: &entry.session,
                workspace: entry.workspace.as_deref(),
                created_at: entry.created_at,
                archived: entry.archived_at.is_some(),
                gone: !entry.stage.is_alive(),
            };
            assert_eq!(packed.listing_fields(), listed);
        }
    }
}
