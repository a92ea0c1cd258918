//! Request to a session, with everything that does not depend on its position in the session: ids,
//! salts, digests and encoded records. Preparing is most of the work of an append, and it is done
//! before the session is locked. It must not read the session.

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
    /// Create the session, with its first events.
    Create(Box<Create>),
    /// Append events, a note, or both.
    Append,
    /// Change the properties of the session.
    Change(Change),
    /// Give up damaged ranges.
    GiveUp(Loss),
    /// Take, renew or release the lease.
    Lease(LeaseCall),
    /// Expire the session: no caller used it for too long.
    Expire,
    /// Remove the body of the event at a position.
    Redact(Position),
    /// Erase the session.
    Erase,
}

/// Sessions that a request may access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sees {
    /// Sessions visible to readers.
    Visible,
    /// Sessions visible to readers, and expired or deleted ones that can be restored.
    Restorable,
    /// Sessions visible to readers, and those that their forks read.
    Read,
    /// All sessions whose files exist.
    Kept,
}

impl Ask {
    /// Returns the sessions that the request may access.
    pub(crate) fn sees(&self) -> Sees {
        match self {
            Self::Change(change) if change.life.restore || change.discards() => Sees::Restorable,
            Self::Lease(LeaseCall::Void) => Sees::Restorable,
            Self::Create(_) | Self::Expire | Self::Erase => Sees::Kept,
            Self::Redact(_) => Sees::Read,
            _ => Sees::Visible,
        }
    }

    /// Returns true if it leaves the events of the session unchanged, so that damage does not block
    /// it.
    pub(crate) fn is_repair(&self) -> bool {
        match self {
            Self::Change(change) => change.is_repair(),
            Self::Lease(call) => matches!(call, LeaseCall::Release { .. } | LeaseCall::Void),
            Self::GiveUp(_) | Self::Expire | Self::Erase => true,
            Self::Create(_) | Self::Append | Self::Redact(_) => false,
        }
    }

    /// Returns true if an archived session accepts it.
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
    /// Time at which the store received it.
    pub(super) at: Timestamp,
    /// The answer for each event, except for its position.
    pub(crate) placed: Vec<PlacedEvent>,
    pub(crate) names: Vec<StoredId>,
    /// Known positions of its events among those that a fork reads of its ancestors; empty when
    /// none was looked up.
    pub(crate) inherited: Vec<Option<Position>>,
    pub(super) digests: Vec<Digest>,
    /// The records of its events as of `at`; empty once they are in a frame.
    pub(super) payload: Vec<u8>,
    /// Salts of the control records.
    pub(super) salts: [[u8; 16]; 2],
    /// Salt of the record of the batch's metadata.
    pub(super) metadata_salt: [u8; 16],
    /// The lease after the request, for a lease request.
    pub(crate) lease: Option<Lease>,
}

/// A salted hash of a body, with its salt.
pub(super) struct Digest {
    salt: [u8; 16],
    pub(super) digest: [u8; 32],
}

/// Source of randomness for a request.
pub(crate) trait Draw {
    /// Draws the random bits of an event id.
    fn id(&self) -> [u8; 10];
    /// Draws a salt.
    fn salt(&self) -> [u8; 16];
}

impl WriteRequest {
    /// Draws ids and salts of events, hashes their bodies and encodes them.
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

    /// Appends the records of its events, processed at `now`.
    pub(super) fn encode(&self, now: Timestamp, payload: &mut Vec<u8>) {
        for ((event, placed), one) in self.batch.events.iter().zip(&self.placed).zip(&self.digests)
        {
            RecordHead::event(event, &placed.id, now).encode(one.salt, &event.body, payload);
        }
    }

    /// Estimates the bytes of its records: bodies, ids and types, and the fixed fields.
    fn bytes(&self) -> usize {
        let events = self.batch.events.iter().zip(&self.placed);
        let bytes = events.map(|(event, placed)| {
            event.body.len() + event.kind.as_str().len() + placed.id.as_str().len() + 64
        });
        bytes.sum()
    }

    /// Returns true if it writes to the session: the lease of another writer blocks it.
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

    /// Returns the control record that precedes its events; `end` is the tail after them.
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

/// Builds the record of a note. Without a position it gets that of the end.
fn note_record(note: &NewNote, end: Position) -> NoteRecord {
    NoteRecord {
        kind: NoteRecord::ordinal(note.kind),
        position: note.position.map_or(end, |position| position.min(end)).0,
        name: note.name.clone(),
        body: note.body.to_vec(),
        idle: note.idle,
    }
}
