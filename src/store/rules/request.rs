//! Request to a session, with everything about it that does not depend on its place in the session:
//! ids, salts, digests and encoded records. Preparing is most of the work of an append, and it is
//! done before the session is locked. It must not look at the session.

use super::{StoredId, names::mint};
use crate::{
    event::{Batch, NewNote, Position, Timestamp},
    log::{
        Change, Control, Create, Entry, LeaseRecord, Life, Loss, NoteRecord, RecordHead, Redact,
        Tombstone, body_digest, segment::name_hash,
    },
    store::{Lease, LeaseCall, PlacedEvent},
};

/// Kind of a request.
#[derive(Debug)]
pub(crate) enum Ask {
    /// To create the session, with its first events.
    Create(Box<Create>),
    /// To append events, to note something, or both.
    Append,
    /// To change what the session says about itself.
    Change(Change),
    /// To give up what is damaged.
    GiveUp(Loss),
    /// To take, renew or give back the lease.
    Lease(LeaseCall),
    /// To expire: no caller used the session for too long.
    Expire,
    /// To take away the body of the event at a position.
    Redact(Position),
    /// To erase the session.
    Erase,
}

/// Sessions that a request may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sees {
    /// Those that readers see.
    Visible,
    /// Those that readers see, and expired or deleted ones that can be restored.
    Restorable,
    /// Those that readers see, and those that forks of them read.
    Read,
    /// All whose files are there.
    Kept,
}

impl Ask {
    /// Sessions that the request may see.
    pub(crate) fn sees(&self) -> Sees {
        match self {
            Self::Change(change) if change.life.restore || change.discards() => Sees::Restorable,
            Self::Lease(LeaseCall::Void) => Sees::Restorable,
            Self::Create(_) | Self::Expire | Self::Erase => Sees::Kept,
            Self::Redact(_) => Sees::Read,
            _ => Sees::Visible,
        }
    }

    /// True if it leaves the events of the session as they are, so that damage is no obstacle.
    pub(crate) fn is_repair(&self) -> bool {
        match self {
            Self::Change(change) => change.is_repair(),
            Self::Lease(call) => matches!(call, LeaseCall::Release { .. } | LeaseCall::Void),
            Self::GiveUp(_) | Self::Expire | Self::Erase => true,
            Self::Create(_) | Self::Append | Self::Redact(_) => false,
        }
    }

    /// True if an archived session takes it.
    pub(super) fn suits_archived(&self) -> bool {
        match self {
            Self::Append => false,
            Self::Lease(call) => matches!(call, LeaseCall::Void),
            _ => true,
        }
    }
}

/// A request.
pub(crate) struct WriteRequest {
    pub(crate) ask: Ask,
    pub(crate) batch: Batch,
    /// When the store took it.
    pub(super) at: Timestamp,
    /// The answer for each event, its position aside.
    pub(crate) placed: Vec<PlacedEvent>,
    pub(crate) names: Vec<StoredId>,
    /// Known positions of its events among those that a fork reads of its ancestors; empty when
    /// none was looked for.
    pub(crate) inherited: Vec<Option<Position>>,
    pub(super) digests: Vec<Digest>,
    /// The records of its events as of `at`; empty once they are in a frame.
    pub(super) payload: Vec<u8>,
    /// Salts of the control records.
    pub(super) salts: [[u8; 16]; 2],
    /// Salt of the record of the batch's metadata.
    pub(super) metadata_salt: [u8; 16],
    /// The lease as it is after the request, when that was asked.
    pub(crate) lease: Option<Lease>,
}

/// The salt of a body, and both hashed.
pub(super) struct Digest {
    salt: [u8; 16],
    pub(super) digest: [u8; 32],
}

/// Source of randomness for a request.
pub(crate) trait Draw {
    /// Random bits of an event id.
    fn id(&self) -> [u8; 10];
    /// A salt.
    fn salt(&self) -> [u8; 16];
}

impl WriteRequest {
    /// Gives events their ids and salts, hashes their bodies and encodes them.
    pub(crate) fn new(ask: Ask, batch: Batch, at: Timestamp, draw: &impl Draw) -> Self {
        let count = batch.events.len();
        let controls = batch.key.is_some() || batch.note.is_some() || !matches!(ask, Ask::Append);
        let mut request = Self {
            ask,
            at,
            placed: Vec::with_capacity(count),
            names: Vec::with_capacity(count),
            inherited: Vec::new(),
            digests: Vec::with_capacity(count),
            payload: Vec::new(),
            salts: if controls { [draw.salt(), draw.salt()] } else { [[0; 16]; 2] },
            metadata_salt: if batch.metadata.is_empty() { [0; 16] } else { draw.salt() },
            lease: None,
            batch,
        };
        for event in request.batch.events.iter() {
            let (id, name) = match &event.id {
                Some(id) => (id.clone(), StoredId::Given(name_hash(id.as_str()))),
                None => mint(at, draw.id()),
            };
            let salt = draw.salt();
            request.digests.push(Digest { salt, digest: body_digest(&salt, &event.body) });
            request.placed.push(PlacedEvent { id, position: Position::ZERO, processed_at: at });
            request.names.push(name);
        }
        let mut payload = Vec::with_capacity(request.bytes());
        request.encode(at, &mut payload);
        request.payload = payload;
        request
    }

    /// Appends the records of its events as of `now`.
    pub(super) fn encode(&self, now: Timestamp, payload: &mut Vec<u8>) {
        for ((event, placed), one) in self.batch.events.iter().zip(&self.placed).zip(&self.digests)
        {
            RecordHead::event(event, &placed.id, now).encode(one.salt, &event.body, payload);
        }
    }

    /// Bytes of its records, about: bodies, ids and types, and the fixed fields.
    fn bytes(&self) -> usize {
        let events = self.batch.events.iter().zip(&self.placed);
        let bytes = events.map(|(event, placed)| {
            event.body.len() + event.kind.as_str().len() + placed.id.as_str().len() + 64
        });
        bytes.sum()
    }

    /// True if it writes to the session: a lease keeps others from that.
    pub(super) fn writes(&self) -> bool {
        let Ask::Append = self.ask else { return false };
        match &self.batch.note {
            None => true,
            Some(note) => {
                let checkpoint = note.kind.is_checkpoint() && !self.batch.is_idle();
                !self.batch.events.is_empty() || checkpoint
            }
        }
    }

    /// The control record that it puts in front of its events; `end` is the tail behind them.
    pub(super) fn control(&self, entry: &Entry, end: Position) -> Option<Control> {
        Some(match &self.ask {
            Ask::Create(create) => Control::Create((**create).clone()),
            Ask::Append => Control::Note(note_record(self.batch.note.as_ref()?, end)),
            Ask::Change(change) => Control::Change(change.clone()),
            Ask::GiveUp(loss) => Control::Loss(loss.clone()),
            Ask::Lease(_) => {
                let lease = self.lease?;
                let until = lease.until.map(|until| until.0);
                Control::Lease(LeaseRecord { fence: lease.fence.0, until, key: lease.key })
            }
            Ask::Expire => {
                let life = Life { expire: true, ..Life::default() };
                Control::Change(Change { life, ..Change::default() })
            }
            Ask::Redact(position) => Control::Redact(Redact { position: position.0 }),
            Ask::Erase => Control::Erase(Tombstone {
                tenant: entry.tenant.clone(),
                user: entry.user.clone(),
                session: entry.session.clone(),
                incarnation: entry.incarnation,
                key: entry.key,
            }),
        })
    }
}

/// The record of a note. One that names no place is about the end.
fn note_record(note: &NewNote, end: Position) -> NoteRecord {
    NoteRecord {
        kind: NoteRecord::ordinal(note.kind),
        position: note.position.map_or(end, |position| position.min(end)).0,
        name: note.name.clone(),
        body: note.body.to_vec(),
        idle: note.idle,
    }
}
