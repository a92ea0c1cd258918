//! Control records: changes of a session's own state, apart from its events, and the encoding of
//! each kind. Frozen: another layout gets another kind. It must not judge whether a record may
//! follow another.

use std::collections::BTreeMap;

use bincode::{Decode, Encode};
use bytes::Bytes;

use super::{
    chain::ChainValue,
    encoding::{decode_value, encode_value},
    record::{KIND_EVENT, Record, RecordBody},
    work::{LeaseRecord, NoteRecord},
};
use crate::event::{
    Incarnation, NewEvent, Position, Scope, SessionHash, SessionId, SessionKey, TenantId,
    Timestamp, UserId,
};

// The ordinals are stored on disk: docs/format.md lists them, and none is reused.
const KIND_CREATE: u8 = 16;
const KIND_CHANGE: u8 = 17;
const KIND_BATCH: u8 = 18;
const KIND_LOSS: u8 = 19;
const KIND_LINEAGE: u8 = 20;
const KIND_LIFE: u8 = 21;
const KIND_ERASE: u8 = 22;
const KIND_NOTE: u8 = 23;
const KIND_LEASE: u8 = 24;
const KIND_REDACT: u8 = 26;
const KIND_UNARCHIVE: u8 = 27;

/// Content of a control record, which takes no position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// Creation of the session: its first record.
    Create(CreateRecord),
    /// Change of title, metadata, archive state or lifetime.
    Change(ChangeRecord),
    /// Key of a batch: written after the batch's events, in the same frame.
    Batch(KnownBatch),
    /// Damage that an operator accepted as lost.
    Loss(AcceptedLoss),
    /// Erasure of the session: its last record.
    Erase(Tombstone),
    /// Redaction of the body of an event.
    Redact(RedactRecord),
    /// Note at a position: a cursor or a checkpoint.
    Note(NoteRecord),
    /// Lease: the exclusive right to write to the session.
    Lease(LeaseRecord),
    /// Kind that a later version wrote: stored, and ignored here.
    Unknown(u8),
}

impl Control {
    /// Returns the bytes that the client supplied, which count towards the session's size.
    #[must_use]
    pub fn client_bytes(&self) -> u64 {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let bytes = match self {
            Self::Create(new) => {
                let pairs = new.metadata.iter().map(|(name, value)| name.len() + value.len());
                text(&new.title) + text(&new.workspace) + pairs.sum::<usize>()
            }
            Self::Change(change) => {
                let pairs = change.metadata.iter().map(|(name, value)| name.len() + text(value));
                change.title.as_ref().map_or(0, text) + pairs.sum::<usize>()
            }
            Self::Note(note) => note.name.len() + note.body.len(),
            _ => 0,
        };
        bytes as u64
    }
}

/// Identity of a session, and the title and metadata of its creator. The record of a fork has a
/// separate kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateRecord {
    pub(crate) tenant: String,
    pub(crate) user: String,
    pub(crate) session: String,
    pub(crate) incarnation: [u8; 16],
    pub(crate) title: Option<String>,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) workspace: Option<String>,
    pub(crate) ttl_seconds: Option<u64>,
    /// `Idempotency-Key` of the creating request.
    pub(crate) key: Option<String>,
    /// Point that a fork continues from; `None` for other sessions.
    pub(crate) lineage: Option<ForkParent>,
}

/// Point that a fork continues from: a position of another session of its scope, and the event
/// chain there.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ForkParent {
    pub(crate) parent: String,
    pub(crate) incarnation: [u8; 16],
    pub(crate) position: u64,
    pub(crate) chain: [u8; 32],
}

/// Fields of a creation without its lineage, in encoding order.
type CreateFields = (
    String,
    String,
    String,
    [u8; 16],
    Option<String>,
    BTreeMap<String, String>,
    Option<String>,
    Option<u64>,
    Option<String>,
);

impl CreateRecord {
    fn encode(&self, out: &mut Vec<u8>) -> u8 {
        let Self { tenant, user, session, incarnation, title, metadata, workspace, .. } = self;
        let names = (tenant, user, session, incarnation);
        encode_value(&(names, (title, metadata, workspace, &self.ttl_seconds, &self.key)), out);
        match &self.lineage {
            None => KIND_CREATE,
            Some(lineage) => {
                encode_value(lineage, out);
                KIND_LINEAGE
            }
        }
    }

    fn decode(fields: CreateFields, lineage: Option<ForkParent>) -> Self {
        let (tenant, user, session, incarnation, title, metadata, workspace, ttl_seconds, key) =
            fields;
        Self {
            tenant,
            user,
            session,
            incarnation,
            title,
            metadata,
            workspace,
            ttl_seconds,
            key,
            lineage,
        }
    }

    /// Returns the position of the session's first own event, and the chain value before it.
    #[must_use]
    pub fn start_point(&self, session: SessionHash) -> (Position, ChainValue) {
        match &self.lineage {
            None => (Position::ZERO, ChainValue::start_of_events(session)),
            Some(lineage) => (Position(lineage.position), ChainValue(lineage.chain)),
        }
    }

    /// Returns a creation with the fields that a tombstone keeps.
    #[must_use]
    pub fn from_tombstone(tombstone: &Tombstone) -> Self {
        Self {
            tenant: tombstone.tenant.clone(),
            user: tombstone.user.clone(),
            session: tombstone.session.clone(),
            incarnation: tombstone.incarnation,
            title: None,
            metadata: BTreeMap::new(),
            workspace: None,
            ttl_seconds: None,
            key: None,
            lineage: None,
        }
    }

    /// Returns the session's key and incarnation; `None` if one of the ids is invalid.
    #[must_use]
    pub fn identity(&self) -> Option<(SessionKey, Incarnation)> {
        identity(&self.tenant, &self.user, &self.session, self.incarnation)
    }
}

fn identity(
    tenant: &str,
    user: &str,
    session: &str,
    incarnation: [u8; 16],
) -> Option<(SessionKey, Incarnation)> {
    let scope = Scope { tenant: TenantId::new(tenant).ok()?, user: UserId::new(user).ok()? };
    let session = SessionId::new(session).ok()?;
    Some((SessionKey { scope, session }, Incarnation(incarnation)))
}

/// Identity of an erased session: the only data of it that a start can still read.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Tombstone {
    pub(crate) tenant: String,
    pub(crate) user: String,
    pub(crate) session: String,
    pub(crate) incarnation: [u8; 16],
    /// Number of the key to be destroyed; 0 in a plaintext store.
    pub(crate) key: u64,
}

impl Tombstone {
    /// Returns the session's key and incarnation; `None` if one of the ids is invalid.
    #[must_use]
    pub fn identity(&self) -> Option<(SessionKey, Incarnation)> {
        identity(&self.tenant, &self.user, &self.session, self.incarnation)
    }
}

/// Change of a session's title, metadata, archive state or lifetime. One without `life` is encoded
/// as a separate kind; so is one that ends an archiving.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeRecord {
    pub(crate) title: Option<Option<String>>,
    pub(crate) metadata: BTreeMap<String, Option<String>>,
    /// True to archive the session, false to unarchive it; `None` for no change.
    pub(crate) archive: Option<bool>,
    pub(crate) delete: bool,
    pub(crate) life: LifetimeChange,
}

/// Changes of a session's lifetime.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct LifetimeChange {
    /// True to hold the session, false to release it; `None` for no change.
    pub(crate) hold: Option<bool>,
    /// True if the session expires because it was idle for its retention.
    pub(crate) expire: bool,
    /// True if the session is restored.
    pub(crate) restore: bool,
}

impl ChangeRecord {
    /// Returns true if a degraded session accepts the change: it does not depend on events.
    #[must_use]
    pub fn is_repair(&self) -> bool {
        self.delete || self.life != LifetimeChange::default()
    }

    /// Returns true if only title and metadata change, which no other request depends on.
    #[must_use]
    pub fn is_metadata_only(&self) -> bool {
        self.archive.is_none() && !self.is_repair()
    }

    /// Returns true if the change deletes the session so that it cannot be restored.
    #[must_use]
    pub fn is_discard(&self) -> bool {
        self.delete && !self.life.expire
    }

    fn encode(&self, out: &mut Vec<u8>) -> u8 {
        let fields = (&self.title, &self.metadata, self.archive == Some(true), self.delete);
        let kind = match self.archive {
            Some(false) => KIND_UNARCHIVE,
            _ if self.life != LifetimeChange::default() => KIND_LIFE,
            _ => {
                encode_value(&fields, out);
                return KIND_CHANGE;
            }
        };
        encode_value(&(fields, &self.life), out);
        kind
    }

    fn decode((title, metadata, archive, delete): ChangeFields, life: LifetimeChange) -> Self {
        Self { title, metadata, archive: archive.then_some(true), delete, life }
    }
}

/// Fields of a change without its life, in encoding order.
type ChangeFields = (Option<Option<String>>, BTreeMap<String, Option<String>>, bool, bool);

/// Redaction of the body of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct RedactRecord {
    pub(crate) position: u64,
}

/// Stored batch that a retry with the same key is compared with.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct KnownBatch {
    pub(crate) key: String,
    pub(crate) first_position: u64,
    pub(crate) events: u32,
    /// Digest of the request's events, so that the same key with other content is a conflict.
    pub(crate) digest: [u8; 32],
}

/// Placeholder digest of a batch with a redacted event: the real one would confirm a guess at the
/// body.
const NO_DIGEST: [u8; 32] = [0; 32];

impl KnownBatch {
    /// Returns true if the event at `position` belongs to the batch.
    #[must_use]
    pub fn contains_position(&self, position: Position) -> bool {
        let first = Position(self.first_position);
        first <= position && position < first.plus(u64::from(self.events))
    }

    /// Returns the batch without its digest: any retry with its key then matches.
    #[must_use]
    pub fn without_digest(self) -> Self {
        Self { digest: NO_DIGEST, ..self }
    }

    /// Returns true if the digest of the batch was removed.
    #[must_use]
    pub fn has_no_digest(&self) -> bool {
        self.digest == NO_DIGEST
    }

    /// Returns true if these events match the digest, or if the digest was removed.
    #[must_use]
    pub fn matches_events(&self, events: &[NewEvent]) -> bool {
        self.events as usize == events.len()
            && (self.has_no_digest() || self.digest == batch_digest(events))
    }
}

/// Damage that an operator accepted: the events of the damaged ranges stay lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct AcceptedLoss {
    /// Damaged ranges: first position, position after the last, and the fault.
    pub(crate) places: Vec<(u64, u64, String)>,
}

impl Record {
    /// Creates the record of a control, written at `now`.
    ///
    /// # Panics
    /// For [`Control::Unknown`], which is read and never written.
    #[must_use]
    pub fn from_control(control: &Control, now: Timestamp, salt: [u8; 16]) -> Self {
        let mut body = Vec::new();
        let kind = match control {
            Control::Create(create) => create.encode(&mut body),
            Control::Change(change) => change.encode(&mut body),
            Control::Batch(batch) => {
                encode_value(batch, &mut body);
                KIND_BATCH
            }
            Control::Loss(loss) => {
                encode_value(loss, &mut body);
                KIND_LOSS
            }
            Control::Erase(tombstone) => {
                encode_value(tombstone, &mut body);
                KIND_ERASE
            }
            Control::Redact(redact) => {
                encode_value(redact, &mut body);
                KIND_REDACT
            }
            Control::Note(note) => {
                encode_value(note, &mut body);
                KIND_NOTE
            }
            Control::Lease(lease) => {
                encode_value(lease, &mut body);
                KIND_LEASE
            }
            Control::Unknown(kind) => unreachable!("control kind {kind} is read, never written"),
        };
        Self {
            kind,
            origin: 0,
            created_at: None,
            processed_at: now.0,
            name: String::new(),
            id: String::new(),
            body: RecordBody::Whole { salt, body: Bytes::from(body) },
        }
    }

    /// Decodes a control record; returns `None` for an event or an undecodable body.
    #[must_use]
    pub fn to_control(&self) -> Option<Control> {
        let RecordBody::Whole { body, .. } = &self.body else { return None };
        match self.kind {
            KIND_EVENT => None,
            KIND_CREATE => {
                decode_value(body).map(|fields| Control::Create(CreateRecord::decode(fields, None)))
            }
            KIND_LINEAGE => decode_value(body).map(|(fields, lineage)| {
                Control::Create(CreateRecord::decode(fields, Some(lineage)))
            }),
            KIND_CHANGE => decode_value(body).map(|fields| {
                Control::Change(ChangeRecord::decode(fields, LifetimeChange::default()))
            }),
            KIND_LIFE => decode_value(body)
                .map(|(fields, life)| Control::Change(ChangeRecord::decode(fields, life))),
            KIND_UNARCHIVE => decode_value(body).map(|(fields, life)| {
                let change = ChangeRecord::decode(fields, life);
                Control::Change(ChangeRecord { archive: Some(false), ..change })
            }),
            KIND_BATCH => decode_value(body).map(Control::Batch),
            KIND_LOSS => decode_value(body).map(Control::Loss),
            KIND_ERASE => decode_value(body).map(Control::Erase),
            KIND_REDACT => decode_value(body).map(Control::Redact),
            KIND_NOTE => decode_value(body).map(Control::Note),
            KIND_LEASE => decode_value(body).map(Control::Lease),
            other => Some(Control::Unknown(other)),
        }
    }
}

/// Returns the digest of the events of a batch: types and bodies, length-prefixed.
#[must_use]
pub fn batch_digest(events: &[NewEvent]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for event in events {
        for part in [event.kind.as_str().as_bytes(), &event.body] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }
    *hasher.finalize().as_bytes()
}
