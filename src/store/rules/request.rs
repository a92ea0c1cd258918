//! Request to a session, with everything that does not depend on its position in the session: ids,
//! salts, digests and encoded records. Preparing is most of the work of an append, and it is done
//! before the session is locked. It must not read the session.

use super::{StoredId, names::mint_event_id};
use crate::{
    env::Entropy,
    event::{Batch, NewNote, Position, Timestamp},
    log::{
        AcceptedLoss, ChangeRecord, Control, CreateRecord, Entry, LeaseRecord, LifetimeChange,
        NoteRecord, RecordHead, RedactRecord, Tombstone, body_digest, segment::name_hash,
    },
    store::{LeaseCall, PlacedEvent, SessionLease, SessionUpdate},
};

#[derive(Debug)]
pub(crate) enum WriteKind {
    /// Create the session, with its first events.
    Create(Box<CreateRecord>),
    /// Append events, a note, or both.
    Append,
    /// Change the properties of the session.
    Change(ChangeRecord),
    /// Accept the loss of damaged ranges.
    GiveUp(AcceptedLoss),
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
pub(crate) enum SessionAccess {
    /// Sessions visible to readers.
    Visible,
    /// Sessions visible to readers, and expired or deleted ones that can be restored.
    Restorable,
    /// Sessions visible to readers, and those that their forks read.
    Read,
    /// All sessions whose files exist.
    Kept,
}

impl WriteKind {
    /// Returns the sessions that the request may access.
    pub(crate) fn access(&self) -> SessionAccess {
        match self {
            Self::Change(change) if change.life.restore || change.is_discard() => {
                SessionAccess::Restorable
            }
            Self::Lease(LeaseCall::Void) => SessionAccess::Restorable,
            Self::Create(_) | Self::Expire | Self::Erase => SessionAccess::Kept,
            Self::Redact(_) => SessionAccess::Read,
            _ => SessionAccess::Visible,
        }
    }

    /// Returns true if it leaves the events of the session unchanged, so that damage does not block
    /// it.
    pub(crate) fn ignores_damage(&self) -> bool {
        match self {
            Self::Change(change) => change.is_repair(),
            Self::Lease(call) => matches!(call, LeaseCall::Release { .. } | LeaseCall::Void),
            Self::GiveUp(_) | Self::Expire | Self::Erase => true,
            Self::Create(_) | Self::Append | Self::Redact(_) => false,
        }
    }

    /// Returns true if an archived session accepts it.
    pub(super) fn is_allowed_when_archived(&self) -> bool {
        match self {
            Self::Append => false,
            Self::Lease(call) => matches!(call, LeaseCall::Void),
            _ => true,
        }
    }
}

/// Prepared request to a session.
pub(crate) struct WriteRequest {
    pub(crate) ask: WriteKind,
    pub(crate) batch: Batch,
    /// Time at which the store received it.
    pub(super) at: Timestamp,
    /// The answer for each event, except for its position.
    pub(crate) placed: Vec<PlacedEvent>,
    pub(crate) names: Vec<StoredId>,
    /// Positions of its events that were known before the session was locked: among those that a
    /// fork reads of its ancestors, and by the times in their ids; empty when none was looked up.
    pub(crate) inherited: Vec<Option<Position>>,
    pub(super) digests: Vec<SaltedDigest>,
    /// The records of its events as of `at`; empty once they are in a frame.
    pub(super) payload: Vec<u8>,
    /// Salts of the control records.
    pub(super) salts: [[u8; 16]; 2],
    /// Salt of the record of the batch's metadata.
    pub(super) metadata_salt: [u8; 16],
    /// The lease after the request, for a lease request.
    pub(crate) lease: Option<SessionLease>,
}

/// A salted hash of a body, with its salt.
pub(super) struct SaltedDigest {
    salt: [u8; 16],
    pub(super) digest: [u8; 32],
}

/// Source of randomness for a request.
pub(crate) trait Draw {
    /// Draws the random bits of an event id.
    fn draw_id(&self) -> [u8; 10];
    fn draw_salt(&self) -> [u8; 16];
}

impl Draw for dyn Entropy + '_ {
    fn draw_id(&self) -> [u8; 10] {
        let mut bits = [0; 10];
        self.fill(&mut bits);
        bits
    }

    fn draw_salt(&self) -> [u8; 16] {
        let mut bits = [0; 16];
        self.fill(&mut bits);
        bits
    }
}

impl WriteRequest {
    /// Draws ids and salts of events, hashes their bodies and encodes them.
    pub(crate) fn new(
        ask: WriteKind,
        batch: Batch,
        at: Timestamp,
        draw: &(impl Draw + ?Sized),
    ) -> Self {
        let count = batch.events.len();
        let controls =
            batch.key.is_some() || batch.note.is_some() || !matches!(ask, WriteKind::Append);
        let mut request = Self {
            ask,
            at,
            placed: Vec::with_capacity(count),
            names: Vec::with_capacity(count),
            inherited: Vec::new(),
            digests: Vec::with_capacity(count),
            payload: Vec::new(),
            salts: if controls { [draw.draw_salt(), draw.draw_salt()] } else { [[0; 16]; 2] },
            metadata_salt: if batch.metadata.is_empty() { [0; 16] } else { draw.draw_salt() },
            lease: None,
            batch,
        };
        for event in request.batch.events.iter() {
            let (id, name) = match &event.id {
                Some(id) => (id.clone(), StoredId::Given(name_hash(id.as_str()))),
                None => mint_event_id(at, draw.draw_id()),
            };
            let salt = draw.draw_salt();
            request.digests.push(SaltedDigest { salt, digest: body_digest(&salt, &event.body) });
            request.placed.push(PlacedEvent { id, position: Position::ZERO, processed_at: at });
            request.names.push(name);
        }
        let mut payload = Vec::with_capacity(request.estimated_bytes());
        request.encode_events(at, &mut payload);
        request.payload = payload;
        request
    }

    /// Sets the time of its events to `now`, if that is later, and mints their ids anew, so that
    /// the time in a minted id is that of its event: an engine without a table of minted ids finds
    /// one by its time.
    #[cfg(feature = "nodes")]
    pub(crate) fn raise_time(&mut self, now: Timestamp, draw: &(impl Draw + ?Sized)) {
        let minted = |name: &StoredId| matches!(name, StoredId::Minted(_));
        if now <= self.at || !self.names.iter().any(minted) {
            return;
        }
        self.at = now;
        self.payload.clear();
        let named = self.placed.iter_mut().zip(&mut self.names).filter(|(_, name)| minted(name));
        for (placed, name) in named {
            (placed.id, *name) = mint_event_id(now, draw.draw_id());
        }
    }

    /// Appends the records of its events, processed at `now`.
    pub(super) fn encode_events(&self, now: Timestamp, payload: &mut Vec<u8>) {
        for ((event, placed), one) in self.batch.events.iter().zip(&self.placed).zip(&self.digests)
        {
            RecordHead::from_event(event, &placed.id, now).encode(one.salt, &event.body, payload);
        }
    }

    /// Estimates the bytes of its records: bodies, ids and types, and the fixed fields.
    fn estimated_bytes(&self) -> usize {
        let events = self.batch.events.iter().zip(&self.placed);
        let bytes = events.map(|(event, placed)| {
            event.body.len() + event.kind.as_str().len() + placed.id.as_str().len() + 64
        });
        bytes.sum()
    }

    /// Returns true if it writes to the session: a lease of another writer would block it.
    pub(super) fn needs_lease(&self) -> bool {
        let WriteKind::Append = self.ask else { return false };
        match &self.batch.note {
            None => true,
            Some(note) => {
                let checkpoint = note.kind.is_checkpoint() && !self.batch.is_idle_note();
                !self.batch.events.is_empty() || checkpoint
            }
        }
    }

    /// Returns the control record that precedes its events; `end` is the tail after them.
    pub(super) fn control_record(&self, entry: &Entry, end: Position) -> Option<Control> {
        Some(match &self.ask {
            WriteKind::Create(create) => Control::Create((**create).clone()),
            WriteKind::Append => Control::Note(note_record(self.batch.note.as_ref()?, end)),
            WriteKind::Change(change) => Control::Change(change.clone()),
            WriteKind::GiveUp(loss) => Control::Loss(loss.clone()),
            WriteKind::Lease(_) => {
                let lease = self.lease?;
                let until = lease.until.map(|until| until.0);
                Control::Lease(LeaseRecord { fence: lease.fence.0, until, key: lease.key })
            }
            WriteKind::Expire => {
                let life = LifetimeChange { expire: true, ..LifetimeChange::default() };
                Control::Change(ChangeRecord { life, ..ChangeRecord::default() })
            }
            WriteKind::Redact(position) => Control::Redact(RedactRecord { position: position.0 }),
            WriteKind::Erase => Control::Erase(Tombstone {
                tenant: entry.tenant.clone(),
                user: entry.user.clone(),
                session: entry.session.clone(),
                incarnation: entry.incarnation,
                key: entry.key,
            }),
        })
    }
}

impl From<SessionUpdate> for ChangeRecord {
    fn from(change: SessionUpdate) -> Self {
        Self {
            title: change.title,
            metadata: change.metadata,
            archive: change.archive,
            delete: change.delete || change.discard,
            life: LifetimeChange {
                hold: change.hold,
                // A session that is deleted and expired at once can be restored like an expired
                // one.
                expire: change.delete && !change.discard,
                restore: change.restore,
            },
        }
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
