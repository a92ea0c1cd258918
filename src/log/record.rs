//! What a frame's payload consists of: `bincode` of the frozen `RecordV1`, bodies as opaque bytes.
//! The only room that names bincode. It must not change the shape of a `…V1` type: another shape is
//! another codec id in the frame header (docs/format.md, Codecs).

use std::collections::BTreeMap;

use bincode::{BorrowDecode, Decode, Encode, config};
use bytes::Bytes;

use super::{
    chain::Chain,
    columns,
    frame::PAYLOAD_BYTES_MAX,
    work::{LeaseRecord, NoteRecord},
};
use crate::event::{
    Event, EventId, EventType, Incarnation, NewEvent, Origin, Position, Range, Scope, SessionHash,
    SessionId, SessionKey, TenantId, Timestamp, UserId,
};

/// Variable-length little-endian integers, and a limit before anything is allocated.
const CONFIG: config::Configuration<
    config::LittleEndian,
    config::Varint,
    config::Limit<PAYLOAD_BYTES_MAX>,
> = config::standard().with_limit::<PAYLOAD_BYTES_MAX>();

/// What a redacted body is served as.
pub const REDACTED: &[u8] = br#"{"redacted":true}"#;

const KIND_EVENT: u8 = 1;
const KIND_CREATE: u8 = 16;
const KIND_CHANGE: u8 = 17;
const KIND_BATCH: u8 = 18;
const KIND_LOSS: u8 = 19;
const KIND_LINEAGE: u8 = 20;
const KIND_LIFE: u8 = 21;
const KIND_ERASE: u8 = 22;
const KIND_REDACT: u8 = 26;
const KIND_NOTE: u8 = 23;
const KIND_LEASE: u8 = 24;

/// A record as the engine handles it: an event (takes a position) or a control record (takes none).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub(super) kind: u8,
    pub(super) origin: u8,
    pub(super) created_at: Option<i64>,
    pub(super) processed_at: i64,
    pub(super) name: String,
    pub(super) id: String,
    /// The body, or what a redaction left of it.
    pub body: RecordBody,
}

/// A record's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordBody {
    /// As it was written.
    Whole {
        /// Random, so that the digest tells nothing of a short body.
        salt: [u8; 16],
        /// An event's JSON text, or a control record's own encoding.
        body: Bytes,
    },
    /// Body and salt are gone, place and chain stay.
    Redacted {
        /// `blake3(salt ‖ body)` of what was there.
        digest: [u8; 32],
    },
}

/// Frozen: both ways of one layout.
#[derive(Encode, BorrowDecode)]
pub(super) struct RecordV1<'a> {
    pub(super) kind: u8,
    pub(super) origin: u8,
    pub(super) created_at: Option<i64>,
    pub(super) processed_at: i64,
    pub(super) name: &'a str,
    pub(super) id: &'a str,
    pub(super) redacted: Option<[u8; 32]>,
    pub(super) salt: [u8; 16],
    pub(super) body: &'a [u8],
}

/// How the records of a payload lie in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// One record behind the other.
    Rows,
    /// What is alike together.
    Columns,
}

/// A record but for its body, borrowed from whatever holds it.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    pub(super) kind: u8,
    pub(super) origin: u8,
    pub(super) created_at: Option<i64>,
    pub(super) processed_at: i64,
    pub(super) name: &'a str,
    pub(super) id: &'a str,
}

impl<'a> Head<'a> {
    /// That of an event which the store takes at `now`.
    #[must_use]
    pub fn event(event: &'a NewEvent, id: &'a EventId, now: Timestamp) -> Self {
        Self {
            kind: KIND_EVENT,
            origin: origin_ordinal(event.origin),
            created_at: event.created_at.map(|time| time.0),
            processed_at: now.0,
            name: event.kind.as_str(),
            id: id.as_str(),
        }
    }

    /// Appends the encoding of the record with this body.
    pub fn encode(self, salt: [u8; 16], body: &[u8], out: &mut Vec<u8>) {
        self.write(None, salt, body, out);
    }

    fn write(self, redacted: Option<[u8; 32]>, salt: [u8; 16], body: &[u8], out: &mut Vec<u8>) {
        let Self { kind, origin, created_at, processed_at, name, id } = self;
        let v1 =
            RecordV1 { kind, origin, created_at, processed_at, name, id, redacted, salt, body };
        encode_value(&v1, out);
    }
}

/// Appends the encoding of a record.
pub fn encode(record: &Record, out: &mut Vec<u8>) {
    match &record.body {
        RecordBody::Whole { salt, body } => record.head().encode(*salt, body, out),
        RecordBody::Redacted { digest } => record.head().write(Some(*digest), [0; 16], &[], out),
    }
}

/// Decodes exactly `count` records that fill `payload`; bodies share its memory.
#[must_use]
pub fn decode(payload: &Bytes, count: usize) -> Option<Vec<Record>> {
    decode_laid(Layout::Rows, payload, count)
}

/// [`decode`] of records that lie in any way.
pub(super) fn decode_laid(layout: Layout, payload: &Bytes, count: usize) -> Option<Vec<Record>> {
    let mut records = Vec::new();
    each(layout, payload, count, |v1| {
        let body = match v1.redacted {
            Some(digest) => RecordBody::Redacted { digest },
            None => RecordBody::Whole { salt: v1.salt, body: payload.slice_ref(v1.body) },
        };
        records.push(Record {
            kind: v1.kind,
            origin: v1.origin,
            created_at: v1.created_at,
            processed_at: v1.processed_at,
            name: v1.name.to_owned(),
            id: v1.id.to_owned(),
            body,
        });
        Some(())
    })?;
    Some(records)
}

/// Takes the events of the positions `wanted` out of exactly `count` records that fill `payload`
/// and of which the first event is at `first`; bodies share its memory. What is not wanted costs
/// no more than stepping over it.
#[must_use]
pub(super) fn events(
    layout: Layout,
    payload: &Bytes,
    count: usize,
    first: Position,
    wanted: Range,
    events: &mut Vec<Event>,
) -> Option<()> {
    let mut next = first;
    each(layout, payload, count, |v1| {
        if v1.kind != KIND_EVENT {
            return Some(());
        }
        let position = next;
        next = next.plus(1);
        if !wanted.contains(position) {
            return Some(());
        }
        let known = events.last().filter(|last| last.kind.as_str() == v1.name);
        events.push(Event {
            position,
            id: EventId::new(v1.id).ok()?,
            kind: known.map_or_else(|| EventType::kept(v1.name), |last| last.kind.clone()),
            origin: origin_of(v1.origin)?,
            created_at: v1.created_at.map(Timestamp),
            processed_at: Timestamp(v1.processed_at),
            body: match v1.redacted {
                Some(_) => Bytes::from_static(REDACTED),
                None => payload.slice_ref(v1.body),
            },
        });
        Some(())
    })
}

/// Visits exactly `count` records that fill `payload`.
fn each<'a>(
    layout: Layout,
    payload: &'a [u8],
    count: usize,
    mut visit: impl FnMut(RecordV1<'a>) -> Option<()>,
) -> Option<()> {
    if layout == Layout::Columns {
        return columns::each(payload, count, visit);
    }
    let mut rest = payload;
    for _ in 0..count {
        let (v1, used) = bincode::borrow_decode_from_slice(rest, CONFIG).ok()?;
        rest = rest.get(used..)?;
        visit(v1)?;
    }
    rest.is_empty().then_some(())
}

/// Appends the encoding of one of this room's frozen types.
pub(super) fn encode_value<T: Encode>(value: &T, out: &mut Vec<u8>) {
    let written = bincode::encode_into_std_write(value, out, CONFIG);
    written.expect("a vector takes every byte, and the limit applies to reading");
}

/// Decodes one of this room's frozen types; the bytes must hold it and nothing else.
pub(super) fn decode_value<T: Decode<()>>(bytes: &[u8]) -> Option<T> {
    let (value, used) = bincode::decode_from_slice(bytes, CONFIG).ok()?;
    (used == bytes.len()).then_some(value)
}

/// Decodes a value of one of this room's frozen types, or its first fields, at the front of
/// `bytes`; answers also how many bytes it took.
pub(super) fn decode_front<'a, T: BorrowDecode<'a, ()>>(bytes: &'a [u8]) -> Option<(T, usize)> {
    bincode::borrow_decode_from_slice(bytes, CONFIG).ok()
}

/// A record without a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// The session's first record.
    Create(Create),
    /// It says something else about itself.
    Change(Change),
    /// A batch had a key: written behind the batch's events, in their frame.
    Batch(KnownBatch),
    /// A person gave up what was damaged.
    Loss(Loss),
    /// It is erased: its last record.
    Erase(Tombstone),
    /// The body of an event is taken away.
    Redact(Redact),
    /// A note of a place in it.
    Note(NoteRecord),
    /// Who may write to it.
    Lease(LeaseRecord),
    /// Written by a later version: kept, and folded to nothing.
    Unknown(u8),
}

impl Control {
    /// Whether it is said beside the session: it does not count as writing to it.
    #[must_use]
    pub fn is_aside(&self) -> bool {
        matches!(self, Self::Note(_) | Self::Lease(_))
    }
}

/// The identity of a session, and what its creator said about it. A fork has a record of its own
/// kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    pub(crate) tenant: String,
    pub(crate) user: String,
    pub(crate) session: String,
    pub(crate) incarnation: [u8; 16],
    pub(crate) title: Option<String>,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) workspace: Option<String>,
    pub(crate) ttl_seconds: Option<u64>,
    /// The client's `Idempotency-Key` of the creation.
    pub(crate) key: Option<String>,
    /// Where it continues from, when it is a fork.
    pub(crate) lineage: Option<Lineage>,
}

/// Where a fork continues from: a position of another session of its scope, and the event chain
/// there.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Lineage {
    pub(crate) parent: String,
    pub(crate) incarnation: [u8; 16],
    pub(crate) position: u64,
    pub(crate) chain: [u8; 32],
}

/// The fields of a creation but for its lineage, in their order.
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

impl Create {
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

    fn decode(fields: CreateFields, lineage: Option<Lineage>) -> Self {
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

    /// Where its events begin: position and chain.
    #[must_use]
    pub fn begin(&self, session: SessionHash) -> (Position, Chain) {
        match &self.lineage {
            None => (Position::ZERO, Chain::events_of(session)),
            Some(lineage) => (Position(lineage.position), Chain(lineage.chain)),
        }
    }

    /// What a tombstone still says of a creation.
    #[must_use]
    pub fn of(tombstone: &Tombstone) -> Self {
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

    /// The session's key and incarnation; `None` when the ids are not ids.
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

/// Whose session was erased, for a start that can read nothing else of it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Tombstone {
    pub(crate) tenant: String,
    pub(crate) user: String,
    pub(crate) session: String,
    pub(crate) incarnation: [u8; 16],
    /// Number of the key that is to be destroyed; 0 in plaintext.
    pub(crate) key: u64,
}

impl Tombstone {
    /// The session's key and incarnation; `None` when the ids are not ids.
    #[must_use]
    pub fn identity(&self) -> Option<(SessionKey, Incarnation)> {
        identity(&self.tenant, &self.user, &self.session, self.incarnation)
    }
}

/// A change of what a session says about itself. One that says nothing of `life` is encoded
/// without it, as a record of its own kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Change {
    pub(crate) title: Option<Option<String>>,
    pub(crate) metadata: BTreeMap<String, Option<String>>,
    pub(crate) archive: bool,
    pub(crate) delete: bool,
    pub(crate) life: Life,
}

/// What becomes of a session's lifetime.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Life {
    /// A person holds it, or lets it go.
    pub(crate) hold: Option<bool>,
    /// It was idle for too long.
    pub(crate) expire: bool,
    /// It is there again.
    pub(crate) restore: bool,
}

impl Change {
    /// Whether a session takes it whatever is lost of it: its events are not touched.
    #[must_use]
    pub fn mends(&self) -> bool {
        self.delete || self.life != Life::default()
    }

    /// Whether it deletes the session for good, rather than so that it can be restored.
    #[must_use]
    pub fn discards(&self) -> bool {
        self.delete && !self.life.expire
    }

    fn encode(&self, out: &mut Vec<u8>) -> u8 {
        if self.life != Life::default() {
            encode_value(self, out);
            return KIND_LIFE;
        }
        encode_value(&(&self.title, &self.metadata, self.archive, self.delete), out);
        KIND_CHANGE
    }

    fn without_life(body: &[u8]) -> Option<Self> {
        let (title, metadata, archive, delete) = decode_value(body)?;
        Some(Self { title, metadata, archive, delete, life: Life::default() })
    }
}

/// Which event's body is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Redact {
    pub(crate) position: u64,
}

/// A batch remembered by its key.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct KnownBatch {
    pub(crate) key: String,
    pub(crate) first_position: u64,
    pub(crate) events: u32,
    /// Digest of what the client sent, so that the same key with other content is a conflict.
    pub(crate) digest: [u8; 32],
}

/// Stands for the digest of a batch of which an event was redacted: it would tell whether a guess
/// at the body is right.
const NO_DIGEST: [u8; 32] = [0; 32];

impl KnownBatch {
    /// Whether the event at that position is one of it.
    #[must_use]
    pub fn holds(&self, position: Position) -> bool {
        let first = Position(self.first_position);
        first <= position && position < first.plus(u64::from(self.events))
    }

    /// The batch without what it says of its content: its key answers any retry from now on.
    #[must_use]
    pub fn without_content(self) -> Self {
        Self { digest: NO_DIGEST, ..self }
    }

    /// Whether nothing is known of its content any more.
    #[must_use]
    pub fn lacks_content(&self) -> bool {
        self.digest == NO_DIGEST
    }

    /// Whether these events are what was sent under its key, as far as that is known.
    #[must_use]
    pub fn answers(&self, events: &[NewEvent]) -> bool {
        self.events as usize == events.len()
            && (self.lacks_content() || self.digest == batch_digest(events))
    }
}

/// Damage that a person accepted: what lay there stays lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Loss {
    /// Positions from and to, and what was found.
    pub(crate) places: Vec<(u64, u64, String)>,
}

impl Record {
    /// The record of an event, not yet placed in time: see [`Self::process_at`].
    #[must_use]
    pub fn event(event: &NewEvent, id: &EventId, salt: [u8; 16]) -> Self {
        let head = Head::event(event, id, Timestamp(0));
        Self {
            kind: head.kind,
            origin: head.origin,
            created_at: head.created_at,
            processed_at: head.processed_at,
            name: head.name.to_owned(),
            id: head.id.to_owned(),
            body: RecordBody::Whole { salt, body: event.body.clone() },
        }
    }

    /// Says when the store took it.
    pub fn process_at(&mut self, now: Timestamp) {
        self.processed_at = now.0;
    }

    /// All of it but the body.
    #[must_use]
    pub fn head(&self) -> Head<'_> {
        Head {
            kind: self.kind,
            origin: self.origin,
            created_at: self.created_at,
            processed_at: self.processed_at,
            name: &self.name,
            id: &self.id,
        }
    }

    /// The record of a control.
    ///
    /// # Panics
    /// For [`Control::Unknown`], which is read and never written.
    #[must_use]
    pub fn control(control: &Control, now: Timestamp, salt: [u8; 16]) -> Self {
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

    /// Takes body and salt away; place and chain stay, since only their digest is in the chain.
    pub fn redact(&mut self) {
        self.body = RecordBody::Redacted { digest: self.body.digest() };
    }

    /// Whether body and salt are gone.
    #[must_use]
    pub fn is_redacted(&self) -> bool {
        matches!(self.body, RecordBody::Redacted { .. })
    }

    /// Whether it takes a position.
    #[must_use]
    pub fn is_event(&self) -> bool {
        self.kind == KIND_EVENT
    }

    /// The store's clock when it was written.
    #[must_use]
    pub fn processed_at(&self) -> Timestamp {
        Timestamp(self.processed_at)
    }

    /// An event's type as text; empty for a control record.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// An event's id as text; empty for a control record.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The event at `position`; `None` for a control record, or when a field is not what this
    /// version writes.
    #[must_use]
    pub fn to_event(&self, position: Position) -> Option<Event> {
        if !self.is_event() {
            return None;
        }
        let body = match &self.body {
            RecordBody::Whole { body, .. } => body.clone(),
            RecordBody::Redacted { .. } => Bytes::from_static(REDACTED),
        };
        Some(Event {
            position,
            id: EventId::new(&self.id).ok()?,
            kind: EventType::kept(&self.name),
            origin: origin_of(self.origin)?,
            created_at: self.created_at.map(Timestamp),
            processed_at: Timestamp(self.processed_at),
            body,
        })
    }

    /// The control of a control record; `None` for an event, or when its body does not decode.
    #[must_use]
    pub fn to_control(&self) -> Option<Control> {
        let RecordBody::Whole { body, .. } = &self.body else { return None };
        match self.kind {
            KIND_EVENT => None,
            KIND_CREATE => {
                decode_value(body).map(|fields| Control::Create(Create::decode(fields, None)))
            }
            KIND_LINEAGE => decode_value(body)
                .map(|(fields, lineage)| Control::Create(Create::decode(fields, Some(lineage)))),
            KIND_CHANGE => Change::without_life(body).map(Control::Change),
            KIND_LIFE => decode_value(body).map(Control::Change),
            KIND_BATCH => decode_value(body).map(Control::Batch),
            KIND_LOSS => decode_value(body).map(Control::Loss),
            KIND_ERASE => decode_value(body).map(Control::Erase),
            KIND_REDACT => decode_value(body).map(Control::Redact),
            KIND_NOTE => decode_value(body).map(Control::Note),
            KIND_LEASE => decode_value(body).map(Control::Lease),
            other => Some(Control::Unknown(other)),
        }
    }

    /// Bytes a record counts for in a session's size.
    #[must_use]
    pub fn weight(&self) -> u64 {
        match &self.body {
            RecordBody::Whole { body, .. } => body.len() as u64,
            RecordBody::Redacted { .. } => 0,
        }
    }
}

/// The ordinals are on disk.
fn origin_ordinal(origin: Origin) -> u8 {
    match origin {
        Origin::User => 1,
        Origin::Model => 2,
        Origin::Tool => 3,
        Origin::Web => 4,
        Origin::Harness => 5,
        Origin::Import => 6,
    }
}

fn origin_of(ordinal: u8) -> Option<Origin> {
    Some(match ordinal {
        1 => Origin::User,
        2 => Origin::Model,
        3 => Origin::Tool,
        4 => Origin::Web,
        5 => Origin::Harness,
        6 => Origin::Import,
        _ => return None,
    })
}

/// Digest of what a client sent in a batch: types and bodies, length-prefixed.
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
