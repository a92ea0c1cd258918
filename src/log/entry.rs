//! What is durable where, session by session: the entries of `settled/` and how one rests in
//! memory, and the file `STORE`. It must not read a settled file; `settled` does.
//!
//! ```text
//! STORE     0  magic "SLSTORE1"   8  version u32  12  checksum u32 of 16..256  16  store id 16
//!          32  created at i64    40  cipher u8    41  zero 7    48  the store's own key 96
//!         144  the same under the master key before, during a rotation   240  zero to 256
//! key       0  key id 8           8  check 16    24  nonce 24    48  wrapped 48
//! ```

use std::collections::BTreeMap;

use bincode::{Decode, Encode};

use super::{
    bytes::{Fields, file_header, open_file_header},
    cipher::XCHACHA20_POLY1305,
    damage::Damage,
    error::Fault,
    keyring::{STORED_BYTES, StoredKey},
    record::{Lineage, decode_front, decode_value, encode_value},
    work::Work,
};

/// Newest format of a data directory that this version reads and writes.
pub const FORMAT: u32 = 1;
/// The largest number that is taken from disk: counting on from it does not overflow.
const COUNT_MAX: u64 = u64::MAX >> 1;
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
    /// Since when a person holds it: it neither expires nor goes.
    pub(crate) held_at: Option<i64>,
    /// When it had been idle for too long.
    pub(crate) expired_at: Option<i64>,
    /// Whole seconds from `updated_at` to when it was used last, by the store's count of time
    /// (store::lifetime); rounded up, so that nothing expires early. Negative where the clock was
    /// ahead of that count.
    pub(crate) used_after: i64,
    /// Its grace has ended: it is only here until its files are gone.
    pub(crate) reclaimed: bool,
    pub(crate) tail: u64,
    /// The number after the session's last record: a replay skips what is below.
    pub(crate) end_lsn: u64,
    pub(crate) chain: [u8; 32],
    pub(crate) control_chain: [u8; 32],
    pub(crate) bytes: u64,
    pub(crate) segments: Vec<SegmentEntry>,
    pub(crate) damage: Vec<Damage>,
    /// Number of its key in `keys/`; 0 in a plaintext store.
    pub(crate) key: u64,
    /// When it was erased: whatever bytes of it come back, nobody is served them.
    pub(crate) erased_at: Option<i64>,
    /// Events whose bodies are never served again, in order.
    pub(crate) redacted: Vec<Redaction>,
    /// What is known of the work on it.
    pub(crate) work: Work,
    /// Where it continues from, when it is a fork.
    pub(crate) lineage: Option<Lineage>,
}

/// An event that was redacted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Redaction {
    pub(crate) position: u64,
    /// Whether no file has its body any more.
    pub(crate) cleared: bool,
}

/// An entry of a settled file of version 3: of a store that knew no checkpoints, leases and forks.
#[derive(Decode)]
pub(super) struct EntryV3 {
    tenant: String,
    user: String,
    session: String,
    incarnation: [u8; 16],
    title: Option<String>,
    metadata: BTreeMap<String, String>,
    workspace: Option<String>,
    ttl_seconds: Option<u64>,
    create_key: Option<String>,
    created_at: i64,
    updated_at: i64,
    archived_at: Option<i64>,
    deleted_at: Option<i64>,
    held_at: Option<i64>,
    expired_at: Option<i64>,
    used_after: i64,
    reclaimed: bool,
    tail: u64,
    end_lsn: u64,
    chain: [u8; 32],
    control_chain: [u8; 32],
    bytes: u64,
    segments: Vec<SegmentEntry>,
    damage: Vec<Damage>,
    key: u64,
    erased_at: Option<i64>,
    redacted: Vec<Redaction>,
}

impl From<EntryV3> for Entry {
    fn from(v3: EntryV3) -> Self {
        Self {
            tenant: v3.tenant,
            user: v3.user,
            session: v3.session,
            incarnation: v3.incarnation,
            title: v3.title,
            metadata: v3.metadata,
            workspace: v3.workspace,
            ttl_seconds: v3.ttl_seconds,
            create_key: v3.create_key,
            created_at: v3.created_at,
            updated_at: v3.updated_at,
            archived_at: v3.archived_at,
            deleted_at: v3.deleted_at,
            held_at: v3.held_at,
            expired_at: v3.expired_at,
            used_after: v3.used_after,
            reclaimed: v3.reclaimed,
            tail: v3.tail,
            end_lsn: v3.end_lsn,
            chain: v3.chain,
            control_chain: v3.control_chain,
            bytes: v3.bytes,
            segments: v3.segments,
            damage: v3.damage,
            key: v3.key,
            erased_at: v3.erased_at,
            redacted: v3.redacted,
            work: Work::default(),
            lineage: None,
        }
    }
}

/// An entry of a settled file of version 2: of a store that knew no keys.
#[derive(Decode)]
pub(super) struct EntryV2 {
    tenant: String,
    user: String,
    session: String,
    incarnation: [u8; 16],
    title: Option<String>,
    metadata: BTreeMap<String, String>,
    workspace: Option<String>,
    ttl_seconds: Option<u64>,
    create_key: Option<String>,
    created_at: i64,
    updated_at: i64,
    archived_at: Option<i64>,
    deleted_at: Option<i64>,
    held_at: Option<i64>,
    expired_at: Option<i64>,
    used_after: i64,
    reclaimed: bool,
    tail: u64,
    end_lsn: u64,
    chain: [u8; 32],
    control_chain: [u8; 32],
    bytes: u64,
    segments: Vec<SegmentEntry>,
    damage: Vec<Damage>,
}

impl From<EntryV2> for EntryV3 {
    fn from(v2: EntryV2) -> Self {
        Self {
            tenant: v2.tenant,
            user: v2.user,
            session: v2.session,
            incarnation: v2.incarnation,
            title: v2.title,
            metadata: v2.metadata,
            workspace: v2.workspace,
            ttl_seconds: v2.ttl_seconds,
            create_key: v2.create_key,
            created_at: v2.created_at,
            updated_at: v2.updated_at,
            archived_at: v2.archived_at,
            deleted_at: v2.deleted_at,
            held_at: v2.held_at,
            expired_at: v2.expired_at,
            used_after: v2.used_after,
            reclaimed: v2.reclaimed,
            tail: v2.tail,
            end_lsn: v2.end_lsn,
            chain: v2.chain,
            control_chain: v2.control_chain,
            bytes: v2.bytes,
            segments: v2.segments,
            damage: v2.damage,
            key: 0,
            erased_at: None,
            redacted: Vec::new(),
        }
    }
}

/// An entry of a settled file of version 1: of a store that knew no lifetimes.
#[derive(Decode)]
pub(super) struct EntryV1 {
    tenant: String,
    user: String,
    session: String,
    incarnation: [u8; 16],
    title: Option<String>,
    metadata: BTreeMap<String, String>,
    workspace: Option<String>,
    ttl_seconds: Option<u64>,
    create_key: Option<String>,
    created_at: i64,
    updated_at: i64,
    archived_at: Option<i64>,
    deleted_at: Option<i64>,
    tail: u64,
    end_lsn: u64,
    chain: [u8; 32],
    control_chain: [u8; 32],
    bytes: u64,
    segments: Vec<SegmentEntry>,
    damage: Vec<Damage>,
}

impl From<EntryV1> for EntryV2 {
    fn from(v1: EntryV1) -> Self {
        Self {
            tenant: v1.tenant,
            user: v1.user,
            session: v1.session,
            incarnation: v1.incarnation,
            title: v1.title,
            metadata: v1.metadata,
            workspace: v1.workspace,
            ttl_seconds: v1.ttl_seconds,
            create_key: v1.create_key,
            created_at: v1.created_at,
            updated_at: v1.updated_at,
            archived_at: v1.archived_at,
            deleted_at: v1.deleted_at,
            held_at: None,
            expired_at: None,
            used_after: 0,
            reclaimed: false,
            tail: v1.tail,
            end_lsn: v1.end_lsn,
            chain: v1.chain,
            control_chain: v1.control_chain,
            bytes: v1.bytes,
            segments: v1.segments,
            damage: v1.damage,
        }
    }
}

/// A segment as far as it is believed.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct SegmentEntry {
    pub(crate) base: u64,
    pub(crate) start: u64,
    pub(crate) sealed: bool,
    /// Bytes believed; bytes beyond are no evidence of damage.
    pub(crate) bytes: u64,
    /// The position after its last believed event.
    pub(crate) end: u64,
}

impl SegmentEntry {
    /// Whether it has no event: control records alone leave its end where it began, so the next
    /// segment of its start would have its name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.base == self.end
    }
}

impl Entry {
    /// The entry as a settled file holds it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_value(self, &mut bytes);
        bytes
    }

    /// Whether it was deleted and nothing restores it: its bytes are removed. One that was deleted
    /// and has expired too can be restored until its grace ends.
    #[must_use]
    pub fn is_discarded(&self) -> bool {
        self.deleted_at.is_some() && (self.expired_at.is_none() || self.erased_at.is_some())
    }

    /// Whether its numbers can be true: who counts on by them meets no end of counting.
    pub(super) fn is_sound(&self) -> bool {
        let below = |number: u64| number <= COUNT_MAX;
        let whole = |one: &SegmentEntry| one.base <= one.end && below(one.end) && below(one.bytes);
        self.segments.iter().all(whole)
            && [self.tail, self.end_lsn, self.bytes].into_iter().all(below)
            && [self.work.fence, self.work.notes].into_iter().all(below)
    }

    /// Whether something of the session is lost and no person accepted that: it takes no appends.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.damage.iter().any(|damage| damage.accepted_at.is_none())
    }
}

/// An entry at rest: its encoding without tenant and user, which many sessions share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed(Box<[u8]>);

/// What a listing asks of an entry, read in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed<'a> {
    /// The session's id.
    pub session: &'a str,
    /// What it belongs to.
    pub workspace: Option<&'a str>,
    /// When it was created.
    pub created_at: i64,
    /// Whether it was archived.
    pub archived: bool,
    /// Whether it was deleted, or expired.
    pub gone: bool,
}

impl Packed {
    /// Packs an entry whose encoding is `bytes`.
    #[must_use]
    pub fn of(entry: &Entry, bytes: &[u8]) -> Self {
        let names = names(&entry.tenant, &entry.user);
        match bytes.strip_prefix(names.as_slice()) {
            Some(rest) => Self(rest.into()),
            // A length may be spelled with more bytes than it takes.
            None => Self(entry.encode().get(names.len()..).unwrap_or_default().into()),
        }
    }

    /// The entry's encoding, in the scope it was packed in.
    #[must_use]
    pub fn encode(&self, tenant: &str, user: &str) -> Vec<u8> {
        let mut bytes = names(tenant, user);
        bytes.extend_from_slice(&self.0);
        bytes
    }

    /// The entry, in the scope it was packed in.
    ///
    /// # Panics
    /// Never: what was packed is a whole entry.
    #[must_use]
    pub fn entry(&self, tenant: &str, user: &str) -> Entry {
        decode_value(&self.encode(tenant, user)).expect("what was packed is an entry")
    }

    /// The session's id.
    ///
    /// # Panics
    /// Never: what was packed is a whole entry.
    #[must_use]
    pub fn session(&self) -> &str {
        let (session, _) = decode_front(&self.0).expect("what was packed begins with an id");
        session
    }

    /// The session's id and incarnation.
    ///
    /// # Panics
    /// Never: what was packed is a whole entry.
    #[must_use]
    pub fn life(&self) -> (&str, [u8; 16]) {
        let (life, _) = decode_front(&self.0).expect("what was packed begins with these");
        life
    }

    /// What a listing asks.
    ///
    /// # Panics
    /// Never: what was packed is a whole entry.
    #[must_use]
    pub fn listed(&self) -> Listed<'_> {
        type Pairs<'a> = Vec<(&'a str, &'a str)>;
        type Told<'a> = (&'a str, [u8; 16], Option<&'a str>, Pairs<'a>, Option<&'a str>);
        type Times<'a> = (Option<u64>, Option<&'a str>, i64, i64, Option<i64>);
        type Ends = (Option<i64>, Option<i64>, Option<i64>);
        let ((told, times, ends), _): ((Told<'_>, Times<'_>, Ends), usize) =
            decode_front(&self.0).expect("what was packed is an entry behind its scope");
        let (session, _, _, _, workspace) = told;
        let (_, _, created_at, _, archived_at) = times;
        let (deleted_at, _, expired_at) = ends;
        let (archived, gone) = (archived_at.is_some(), deleted_at.or(expired_at).is_some());
        Listed { session, workspace, created_at, archived, gone }
    }
}

/// What the encoding of an entry begins with.
fn names(tenant: &str, user: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_value(&(tenant, user), &mut bytes);
    bytes
}

/// The store's own key, wrapped: under the master key in force and, while a rotation is under way,
/// under the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreKeys {
    /// Under the master key in force.
    pub current: StoredKey,
    /// Under the one before.
    pub previous: Option<StoredKey>,
}

/// The file `STORE`: what makes a directory a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreFile {
    /// Random, in every file of the store.
    pub id: [u8; 16],
    /// When it was made, microseconds.
    pub created_at: i64,
    /// The store's own key; `None` for a store in plaintext.
    pub keys: Option<StoreKeys>,
}

impl StoreFile {
    /// The file's bytes.
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

    /// Reads the file's bytes.
    ///
    /// # Errors
    /// [`Fault::Unknown`] with the format found when it is newer; else what is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let header = bytes.get(..bytes.len().min(STORE_BYTES)).unwrap_or_default();
        let mut fields = open_file_header(STORE_MAGIC, FORMAT, header)?;
        Self::fields(&mut fields).ok_or(Fault::Short)?
    }

    fn fields(fields: &mut Fields<'_>) -> Option<Result<Self, Fault>> {
        let (id, created_at) = (fields.array()?, fields.i64()?);
        let [cipher, ..] = fields.array::<8>()?;
        let keys = match cipher {
            0 => None,
            XCHACHA20_POLY1305 => {
                let current = StoredKey::decode(fields)?;
                let previous = fields.bytes(STORED_BYTES)?;
                let there = previous.iter().any(|byte| *byte != 0);
                let previous = StoredKey::decode(&mut Fields(previous)).filter(|_| there);
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

    /// An entry with nothing in it that may be absent.
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
            deleted_at: None,
            held_at: None,
            expired_at: None,
            used_after: 0,
            reclaimed: false,
            tail: 1,
            end_lsn: 1,
            chain: [1; 32],
            control_chain: [2; 32],
            bytes: 5,
            segments: Vec::new(),
            damage: Vec::new(),
            key: 0,
            erased_at: None,
            redacted: Vec::new(),
            work: Work::default(),
            lineage: None,
        }
    }

    #[test]
    fn a_packed_entry_says_what_the_entry_does() {
        let pairs = [("k", "v"), ("key", "")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let plain = plain();
        let told = Entry {
            title: Some("a line".repeat(100)),
            metadata: pairs.into(),
            workspace: Some("w".to_owned()),
            ttl_seconds: Some(u64::MAX),
            create_key: Some("key".to_owned()),
            created_at: 1_800_000_000_000_000,
            archived_at: Some(3),
            held_at: Some(4),
            used_after: -86_400,
            reclaimed: true,
            segments: vec![SegmentEntry { base: 0, start: 1, sealed: true, bytes: 9, end: 9 }],
            damage: vec![Damage {
                from: 1,
                to: 2,
                reason: "torn".to_owned(),
                accepted_at: Some(9),
            }],
            key: 300,
            redacted: vec![Redaction { position: 7, cleared: true }],
            work: Work { fence: 300, until: Some(-1), notes: 9, ..Work::default() },
            lineage: Some(Lineage {
                parent: "p".repeat(128),
                incarnation: [3; 16],
                position: u64::MAX,
                chain: [4; 32],
            }),
            ..plain.clone()
        };
        let deleted = Entry { deleted_at: Some(-1), erased_at: Some(-1), ..plain.clone() };
        let expired = Entry { expired_at: Some(7), held_at: Some(1), ..plain.clone() };
        for entry in [plain, told, deleted, expired] {
            let packed = Packed::of(&entry, &entry.encode());
            assert_eq!(packed.entry(&entry.tenant, &entry.user), entry);
            assert_eq!(packed.session(), entry.session);
            assert_eq!(packed.life(), (entry.session.as_str(), entry.incarnation));
            let listed = Listed {
                session: &entry.session,
                workspace: entry.workspace.as_deref(),
                created_at: entry.created_at,
                archived: entry.archived_at.is_some(),
                gone: entry.deleted_at.is_some() || entry.expired_at.is_some(),
            };
            assert_eq!(packed.listed(), listed);
        }
    }
}
