//! Turning a request into one frame: idempotency, preconditions and limits first, then positions,
//! chain and encoding. What cannot be decided on durable bytes waits for those in flight. It must
//! not write; the journal does.

use std::{collections::HashSet, io, sync::Arc};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::{
    Shared,
    catalogue::keys_live_from,
    journal::{Item, Refused, Told},
    session::{Ahead, Session, State},
};
use crate::{
    event::{Batch, Event, Lsn, NewNote, Position, Range, SessionHash, Timestamp, limits},
    log::{
        Chain, Change, Control, Encryptor, Frame, FrameHeader, FrameKind, Head, KnownBatch,
        LeaseRecord, Loss, NoteRecord, REDACTED, Record, TAG_BYTES, body_digest,
        frame::PAYLOAD_BYTES_MAX,
        record::{self, batch_digest},
        segment::name_hash,
    },
    store::{
        Appended, Fill, Lease, LeaseCall, Placed, Read, Receipt, StoreError, StoreResult,
        rules::{
            Effect, Name,
            entry::{is_redacted, work_of},
            given, key_hash, mint,
        },
    },
};

/// What became of a request so far.
pub(super) enum Planned {
    /// It is answered, on durable bytes.
    Answered(Appended),
    /// Its frame is queued.
    Queued(Queued),
    /// The answer depends on frames in flight: wait for the journal's progress, then plan again.
    Wait,
}

/// A queued frame.
pub(super) struct Queued {
    /// Whether the caller must lead the journal.
    pub(super) lead: bool,
    /// Told when the frame is durable and visible, or void.
    pub(super) done: oneshot::Receiver<StoreResult<Told>>,
    /// The answer, should it become durable.
    pub(super) answer: Appended,
}

/// What one frame is to hold.
pub(super) struct Request<'a> {
    /// What it says of the session itself.
    pub(super) control: Option<Control>,
    pub(super) batch: &'a mut Prepared,
}

/// A batch with everything about it that does not depend on its place, so that little is left to
/// do under the lock of its session.
pub(super) struct Prepared {
    batch: Batch,
    /// When the store took it.
    at: Timestamp,
    /// What is answered of each event, its position aside.
    placed: Vec<Placed>,
    names: Vec<Name>,
    /// Where its events are known in what a fork reads of others; empty where nobody looked.
    inherited: Vec<Option<Position>>,
    digests: Vec<Digest>,
    /// The records of its events as of `at`; empty once they are in a frame.
    payload: Vec<u8>,
}

/// The salt of a body, and both hashed.
struct Digest {
    salt: [u8; 16],
    digest: [u8; 32],
}

impl Prepared {
    /// Appends the records of its events as of `now`.
    fn encode(&self, now: Timestamp, payload: &mut Vec<u8>) {
        for ((event, placed), one) in self.batch.events.iter().zip(&self.placed).zip(&self.digests)
        {
            Head::event(event, &placed.id, now).encode(one.salt, &event.body, payload);
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
}

impl Shared {
    /// Gives events their ids and salts, hashes their bodies and encodes them.
    pub(super) fn prepare(&self, batch: Batch) -> Prepared {
        let (at, count) = (self.env.clock.now(), batch.events.len());
        let mut prepared = Prepared {
            at,
            placed: Vec::with_capacity(count),
            names: Vec::with_capacity(count),
            inherited: Vec::new(),
            digests: Vec::with_capacity(count),
            payload: Vec::new(),
            batch,
        };
        for event in &prepared.batch.events {
            let (id, name) = match &event.id {
                Some(id) => (id.clone(), Name::Given(name_hash(id.as_str()))),
                None => mint(at, self.env.random()),
            };
            let salt = self.env.random();
            prepared.digests.push(Digest { salt, digest: body_digest(&salt, &event.body) });
            prepared.placed.push(Placed { id, position: Position::ZERO, processed_at: at });
            prepared.names.push(name);
        }
        let mut payload = Vec::with_capacity(prepared.bytes());
        prepared.encode(at, &mut payload);
        prepared.payload = payload;
        prepared
    }

    /// Looks for the ids that a client gave in what a fork reads of others: what lies there stays.
    pub(super) fn inherit(
        &self,
        session: &Arc<Session>,
        prepared: &mut Prepared,
    ) -> StoreResult<()> {
        if session.origin.is_none() {
            return Ok(());
        }
        // One that is gone needs its parent no more, which may be gone with it.
        drop(session.visible()?);
        let find = |name: &Name| match name {
            Name::Given(hash) => self.find_inherited(session, hash),
            Name::Minted(_) => Ok(None),
        };
        prepared.inherited = prepared.names.iter().map(find).collect::<StoreResult<_>>()?;
        Ok(())
    }

    /// Plans an append to an existing session.
    pub(super) fn plan(
        &self,
        session: &Arc<Session>,
        prepared: &mut Prepared,
    ) -> StoreResult<Planned> {
        let known = {
            let mut state = self.opened(session)?;
            // Read under the lock: frames of this epoch can only have been queued before.
            let epoch = self.journal.epoch();
            let live_from = || keys_live_from(&self.count, &*self.env.clock);
            match known(&mut state, epoch, prepared, &live_from)? {
                Known::Wait => return Ok(Planned::Wait),
                Known::Nothing => {
                    let note = prepared.batch.note.as_ref();
                    let control = note.map(|note| Control::Note(note_record(note)));
                    let request = Request { control, batch: prepared };
                    return self.queue(session, &mut state, epoch, request);
                }
                Known::Batch(known) => known,
                Known::Events(positions) => {
                    drop(state);
                    let repeated = self.repeat_events(session, &prepared.batch, &positions);
                    return repeated.map(Planned::Answered);
                }
            }
        };
        self.repeat_batch(session, &prepared.batch, &known).map(Planned::Answered)
    }

    /// Plans a change of the session itself.
    pub(super) fn plan_change(
        &self,
        session: &Arc<Session>,
        change: &Change,
    ) -> StoreResult<Planned> {
        let discards = change.delete && !change.life.expire;
        let hidden = change.life.restore || discards;
        let mut state = if hidden { session.restorable()? } else { self.opened(session)? };
        let epoch = self.journal.epoch();
        if state.end(epoch).barrier {
            return Ok(Planned::Wait);
        }
        if change.delete && state.entry.held_at.is_some() {
            return Err(StoreError::SessionHeld { session: session.key.session.clone() });
        }
        self.queue_control(session, &mut state, epoch, Control::Change(change.clone()))
    }

    /// Plans the record that a person gave up what is damaged.
    pub(super) fn plan_loss(&self, session: &Arc<Session>, loss: &Loss) -> StoreResult<Planned> {
        let mut state = session.visible()?;
        let epoch = self.journal.epoch();
        if state.end(epoch).barrier {
            return Ok(Planned::Wait);
        }
        self.queue_control(session, &mut state, epoch, Control::Loss(loss.clone()))
    }

    /// Plans what becomes of a session's lease, and says so in `lease`.
    pub(super) fn plan_lease(
        &self,
        session: &Arc<Session>,
        call: LeaseCall,
        lease: &mut Option<Lease>,
    ) -> StoreResult<Planned> {
        let mut state = match call {
            LeaseCall::Void => session.restorable()?,
            _ => self.opened(session)?,
        };
        let epoch = self.journal.epoch();
        if state.end(epoch).barrier {
            return Ok(Planned::Wait);
        }
        let work = work_of(&state.entry.work);
        let (found, changes) = work.call(&session.key.session, call, self.counted())?;
        *lease = Some(found);
        if !changes {
            return Ok(Planned::Answered(nothing(state.receipt())));
        }
        let until = found.until.map(|until| until.0);
        let said = Control::Lease(LeaseRecord { fence: found.fence.0, until, key: found.key });
        self.queue_control(session, &mut state, epoch, said)
    }

    /// Queues what is said of a session itself, without events.
    pub(super) fn queue_control(
        &self,
        session: &Arc<Session>,
        state: &mut State,
        epoch: u64,
        control: Control,
    ) -> StoreResult<Planned> {
        let batch = &mut self.prepare(Batch::default());
        self.queue(session, state, epoch, Request { control: Some(control), batch })
    }

    /// Whether a session as it stands takes a request of that kind.
    fn takes(&self, session: &Session, state: &State, request: &Request<'_>) -> StoreResult<()> {
        let (change, loses) = match &request.control {
            // Whatever else is wrong with it.
            Some(Control::Erase(_)) => return Ok(()),
            Some(Control::Change(change)) => (Some(change), false),
            Some(Control::Loss(_)) => (None, true),
            _ => (None, false),
        };
        let takes_away = loses || matches!(request.control, Some(Control::Redact(_)));
        let deletes = change.is_some_and(|change| change.delete);
        if self.reserve.is_given() && !deletes {
            return Err(StoreError::DiskFull);
        }
        // Nobody writes by a lease that ends.
        let ends = |lease: &LeaseRecord| lease.until.is_none();
        let ends = matches!(&request.control, Some(Control::Lease(lease)) if ends(lease));
        let mends = loses || ends || change.is_some_and(Change::mends);
        if state.is_degraded() && !mends {
            return Err(session.damaged(state));
        }
        if state.entry.archived_at.is_some() && change.is_none() && !takes_away {
            return Err(StoreError::SessionArchived { session: session.key.session.clone() });
        }
        if let Some(unwritable) = state.unwritable.as_ref().filter(|one| one.full) {
            let source = io::Error::other(unwritable.error.clone());
            return Err(StoreError::Io { doing: "writing the session's segment", source });
        }
        Ok(())
    }

    /// Whether who asks may write, while somebody has the session for himself.
    fn admits(&self, session: &Session, state: &State, request: &Request<'_>) -> StoreResult<()> {
        let batch = &request.batch.batch;
        let writes = match &request.control {
            None => true,
            Some(Control::Note(_)) => {
                let checkpoint = batch.note.as_ref().is_some_and(|note| note.kind.is_checkpoint());
                !batch.events.is_empty() || checkpoint && !batch.is_idle()
            }
            Some(_) => false,
        };
        let work = &state.entry.work;
        if !writes || work.until.is_none() && batch.fence.is_none() {
            return Ok(());
        }
        work_of(work).admit(&session.key.session, batch.fence, self.counted())
    }

    /// Builds the frame of a request and queues it behind what is in flight.
    pub(super) fn queue(
        &self,
        session: &Arc<Session>,
        state: &mut State,
        epoch: u64,
        mut request: Request<'_>,
    ) -> StoreResult<Planned> {
        // What the device did not give it is asked for again by the next.
        self.takes(session, state, &request).inspect_err(|_| state.doubt())?;
        self.admits(session, state, &request)?;
        // A tombstone must be readable without the key that is to be destroyed.
        let cipher = match request.control {
            Some(Control::Erase(_)) => self.keys.own().map(Arc::clone),
            _ => self.key_of(session, state)?,
        };
        let durable = state.receipt();
        let ahead = state.end(epoch);
        let batch = &request.batch.batch;
        let empty = batch.events.is_empty();
        if let Some(expected) = conflict(batch, ahead.tail) {
            // What is in flight may yet fail, but never takes back what is durable.
            let decided = ahead.frames == 0 || expected < durable.position;
            let tail = durable.position;
            let refused = StoreError::PositionConflict { expected, tail };
            return if decided { Err(refused) } else { Ok(Planned::Wait) };
        }
        let control = request.control.is_some();
        // A note says nothing that a later request depends on.
        let bars = request.control.as_ref().is_some_and(|said| !matches!(said, Control::Note(_)));
        if empty && !control {
            let wait = ahead.frames > 0 && batch.if_position.is_some();
            return Ok(if wait { Planned::Wait } else { Planned::Answered(nothing(durable)) });
        }
        let draft = self.draft(session.hash, ahead, &mut request);
        let bytes = draft.payload.len() + cipher.as_ref().map_or(0, |_| TAG_BYTES);
        if bytes > PAYLOAD_BYTES_MAX {
            let max = PAYLOAD_BYTES_MAX;
            return Err(StoreError::BatchTooLarge { bytes, max });
        }
        let (first_position, next) =
            (draft.before.0, NextEnd::of(&draft.effect, &request.batch.names));
        let (done, wait) = oneshot::channel();
        let mut control_chain = ahead.control_chain;
        let owner = Arc::clone(session);
        // Before the queue: who waits for that one waits for nobody's cipher.
        let (plain, draft) = draft.frame();
        let encrypted = |one: Option<Encryptor<'_>>| one.map(|one| plain.encrypt(one));
        let stored = self.keys.with(cipher.as_ref(), encrypted);
        let names = &mut request.batch.names;
        let queued = self.journal.enqueue(epoch, plain.header.count, |first| {
            let item = draft.finish(first, (plain, stored), std::mem::take(names), owner, done);
            control_chain = item.effect.as_ref().map_or(control_chain, |end| end.control_chain);
            item
        });
        match queued {
            Ok(lead) => {
                let answer = request.batch.answer(first_position, &next);
                ahead.frames += 1;
                ahead.control_chain = control_chain;
                ahead.barrier |= bars;
                next.move_to(ahead);
                Ok(Planned::Queued(Queued { lead, done: wait, answer }))
            }
            Err(Refused::Stale) => {
                state.ahead = None;
                Ok(Planned::Wait)
            }
            Err(refused) => {
                if state.ahead.as_ref().is_some_and(|ahead| ahead.frames == 0) {
                    state.ahead = None;
                }
                Err(match refused {
                    Refused::ReadOnly(reason) => StoreError::ReadOnly { reason },
                    Refused::Stale | Refused::Full => StoreError::Busy,
                })
            }
        }
    }

    /// Gives the request's records their fields, positions and chain.
    fn draft(&self, hash: SessionHash, ahead: &Ahead, request: &mut Request<'_>) -> Draft {
        let prepared = &mut *request.batch;
        let now = prepared.at.max(ahead.updated_at);
        let batch_key = prepared.batch.key.as_ref().filter(|_| !prepared.placed.is_empty());
        let batch = batch_key.map(|key| KnownBatch {
            key: key.as_str().to_owned(),
            first_position: ahead.tail.0,
            events: prepared.placed.len() as u32,
            digest: batch_digest(&prepared.batch.events),
        });
        let said = request.control.take();
        let alone = prepared.placed.is_empty();
        let is_idle = |said: &Control| matches!(said, Control::Note(note) if note.idle);
        let mut draft = Draft {
            hash,
            payload: Vec::new(),
            count: 0,
            before: (ahead.tail, ahead.chain, ahead.control_chain),
            controls: Vec::new(),
            effect: Effect {
                tail: ahead.tail,
                chain: ahead.chain,
                control_chain: ahead.control_chain,
                end_lsn: Lsn(0),
                at: now,
                aside: alone && said.as_ref().is_some_and(Control::is_aside),
                idle: alone && said.as_ref().is_some_and(is_idle),
                weight: 0,
                controls: Vec::new(),
                names: Vec::new(),
            },
        };
        if let Some(mut said) = said {
            if let Control::Note(note) = &mut said {
                let behind = ahead.tail.plus(prepared.placed.len() as u64);
                note.position = note.position.min(behind.0);
            }
            draft.control(said, self.env.random());
        }
        draft.events(prepared, now);
        if let Some(batch) = batch {
            draft.control(Control::Batch(batch), self.env.random());
        }
        draft
    }

    /// Answers a batch whose key is known from what was stored then.
    fn repeat_batch(
        &self,
        session: &Arc<Session>,
        batch: &Batch,
        known: &KnownBatch,
    ) -> StoreResult<Appended> {
        if !known.answers(&batch.events) {
            return Err(StoreError::IdempotencyConflict {
                what: known.key.clone(),
                position: Some(Position(known.first_position)),
            });
        }
        let from = Position(known.first_position);
        let range = Range::new(from, from.plus(u64::from(known.events)));
        let events = self.stored(session, range, usize::MAX)?;
        Ok(repeated(&events, session.state().receipt()))
    }

    /// Answers a batch whose event ids are all known, if their content is the same.
    fn repeat_events(
        &self,
        session: &Arc<Session>,
        batch: &Batch,
        positions: &[Option<Position>],
    ) -> StoreResult<Appended> {
        let known: Vec<Position> = positions.iter().flatten().copied().collect();
        let mut runs = known.as_slice();
        let mut olds = Vec::new().into_iter();
        let mut stored = Vec::new();
        let mut news = 0;
        for (new, position) in batch.events.iter().zip(positions) {
            let conflict = |position| StoreError::IdempotencyConflict {
                what: new.id.as_ref().map(ToString::to_string).unwrap_or_default(),
                position,
            };
            let Some(at) = *position else {
                news += 1;
                continue;
            };
            if olds.as_slice().is_empty() {
                // What lies side by side is read at once, for a block is opened once for all it
                // holds; but no more at a time than a batch may hold.
                let run = runs.chunk_by(|one, next| one.plus(1) == *next).next();
                let run = Range::new(at, at.plus(run.map_or(1, <[_]>::len) as u64));
                olds = self.stored(session, run, limits::BATCH_BYTES_MAX)?.into_iter();
            }
            let Some(old) = olds.next() else { return Err(conflict(Some(at))) };
            runs = runs.get(1..).unwrap_or_default();
            // Of what it has of others nobody but its writer knows whether it is redacted.
            let redacted = is_redacted(&session.state().entry.redacted, at)
                || at < session.base() && old.body == REDACTED;
            if !redacted && (&old.kind, &old.body) != (&new.kind, &new.body) {
                return Err(conflict(Some(at)));
            }
            stored.push(old);
        }
        if let Some(first) = stored.first().filter(|_| news > 0) {
            let (known, position) = (first.id.clone(), first.position);
            return Err(StoreError::KnownInPart { known, position });
        }
        Ok(repeated(&stored, session.state().receipt()))
    }

    /// Events as they are kept: all of them, or as many as have so many bytes, and at least one.
    fn stored(
        &self,
        session: &Arc<Session>,
        range: Range,
        bytes_max: usize,
    ) -> StoreResult<Vec<Event>> {
        let read = Read {
            range,
            events_max: limits::BATCH_EVENTS_MAX.max(range.len() as usize),
            bytes_max,
            fill: Fill::Forward,
            allow_gaps: false,
        };
        let events = self.slice(session, &read)?.events;
        let is_all = events.len() as u64 == range.len();
        if events.is_empty() || bytes_max == usize::MAX && !is_all {
            // What was given up is no answer to who sent it.
            return Err(session.damaged(&session.state()));
        }
        Ok(events)
    }
}

/// The record of a note; the place of one that names none is found when it is queued.
fn note_record(note: &NewNote) -> NoteRecord {
    NoteRecord {
        kind: NoteRecord::ordinal(note.kind),
        position: note.position.map_or(u64::MAX, |position| position.0),
        name: note.name.clone(),
        body: note.body.to_vec(),
        idle: note.idle,
    }
}

/// What of a batch is known already.
enum Known {
    Nothing,
    Batch(KnownBatch),
    /// The position of every event, where it is known.
    Events(Vec<Option<Position>>),
    Wait,
}

fn known(
    state: &mut State,
    epoch: u64,
    prepared: &Prepared,
    live_from: &dyn Fn() -> Timestamp,
) -> StoreResult<Known> {
    let batch = &prepared.batch;
    let ahead = state.end(epoch);
    if ahead.barrier {
        return Ok(Known::Wait);
    }
    let in_flight = |name: &[u8; 16]| ahead.names.contains(name);
    if batch.key.as_ref().is_some_and(|key| in_flight(&key_hash(key.as_str()))) {
        return Ok(Known::Wait);
    }
    let mut seen = HashSet::new();
    for (placed, name) in prepared.placed.iter().zip(&prepared.names) {
        let Some(hash) = name.given() else { continue };
        if !seen.insert(hash) {
            return Err(StoreError::DuplicateEventId { id: placed.id.clone() });
        }
        if in_flight(&hash) {
            return Ok(Known::Wait);
        }
    }
    let Some(opened) = &mut state.opened else { return Ok(Known::Nothing) };
    let batch_key = batch.key.as_ref();
    if let Some(known) = batch_key.and_then(|key| opened.batch(key.as_str(), live_from())) {
        return Ok(Known::Batch(known.clone()));
    }
    if seen.is_empty() {
        return Ok(Known::Nothing);
    }
    let inherited = |n: usize| prepared.inherited.get(n).copied().flatten();
    let mut find = |name: &Name| opened.find(&name.given()?);
    let names = prepared.names.iter().enumerate();
    let positions: Vec<_> = names.map(|(n, name)| find(name).or(inherited(n))).collect();
    Ok(if positions.iter().any(Option::is_some) {
        Known::Events(positions)
    } else {
        Known::Nothing
    })
}

/// The position a batch asks for and will not get.
fn conflict(batch: &Batch, tail: Position) -> Option<Position> {
    let wanted = batch.events.iter().enumerate();
    let wanted = wanted.filter_map(|(n, event)| Some((event.position?, tail.plus(n as u64))));
    batch
        .if_position
        .map(|expected| (expected, tail))
        .into_iter()
        .chain(wanted)
        .find(|(expected, next)| expected != next)
        .map(|(expected, _)| expected)
}

pub(super) fn nothing(receipt: Receipt) -> Appended {
    Appended {
        events: Vec::new(),
        first_position: receipt.position,
        next_position: receipt.position,
        receipt,
        repeated: false,
    }
}

pub(super) fn repeated(events: &[Event], receipt: Receipt) -> Appended {
    let placed = |event: &Event| Placed {
        id: event.id.clone(),
        position: event.position,
        processed_at: event.processed_at,
    };
    Appended {
        events: events.iter().map(placed).collect(),
        first_position: events.first().map_or(receipt.position, |event| event.position),
        next_position: events.last().map_or(receipt.position, |event| event.position.plus(1)),
        receipt,
        repeated: true,
    }
}

impl Prepared {
    /// What its client is told, once the frame that begins at `first` is durable.
    fn answer(&mut self, first: Position, next: &NextEnd) -> Appended {
        let mut events = std::mem::take(&mut self.placed);
        for (n, placed) in (0..).zip(&mut events) {
            placed.position = first.plus(n);
            placed.processed_at = next.written_at;
        }
        Appended {
            events,
            first_position: first,
            next_position: next.tail,
            receipt: Receipt { position: next.tail, chain: next.chain.0 },
            repeated: false,
        }
    }
}

/// A frame without its log sequence numbers.
struct Draft {
    hash: SessionHash,
    payload: Vec<u8>,
    count: u32,
    before: (Position, Chain, Chain),
    /// Its control records: their chain needs their numbers.
    controls: Vec<Record>,
    effect: Effect,
}

impl Draft {
    fn control(&mut self, said: Control, salt: [u8; 16]) {
        let record = Record::control(&said, self.effect.at, salt);
        record::encode(&record, &mut self.payload);
        // Its number is its place until the frame has one.
        self.effect.controls.push((Lsn(self.count.into()), said));
        self.controls.push(record);
        self.count += 1;
    }

    /// Adds the events, as taken at `now`.
    fn events(&mut self, prepared: &mut Prepared, now: Timestamp) {
        let end = &mut self.effect;
        let events = prepared.batch.events.iter().zip(&prepared.placed).zip(&prepared.digests);
        for ((event, placed), one) in events {
            let head = Head::event(event, &placed.id, now);
            end.chain = end.chain.link(end.tail.0, head, &one.digest);
            end.tail = end.tail.plus(1);
            end.weight += event.body.len() as u64;
            self.count += 1;
        }
        let encoded = std::mem::take(&mut prepared.payload);
        if encoded.is_empty() || now != prepared.at {
            prepared.encode(now, &mut self.payload);
        } else if self.payload.is_empty() {
            self.payload = encoded;
        } else {
            self.payload.extend_from_slice(&encoded);
        }
    }

    /// Its frame, in plaintext and without a number, and what is left of it.
    fn frame(mut self) -> (Frame, Self) {
        let payload = std::mem::take(&mut self.payload);
        let (first_position, chain, control_chain) = self.before;
        let events = self.effect.tail.0 - first_position.0;
        let header = FrameHeader {
            kind: FrameKind::Request,
            length: u32::try_from(payload.len()).expect("limits keep a batch below 4 GiB"),
            compressed: false,
            count: self.count,
            events: u32::try_from(events).expect("limits keep a batch below 4 G events"),
            first_lsn: Lsn(0),
            synced_lsn: Lsn(0),
            first_position,
            session: self.hash,
            chain,
            control_chain,
            copy_lsn: Lsn(0),
            encrypted: None,
        };
        (Frame { header, payload: Bytes::from(payload) }, self)
    }

    /// Gives the frame, and its encryption if there is one, a number.
    fn finish(
        mut self,
        first: Lsn,
        (plain, stored): (Frame, Option<Frame>),
        names: Vec<Name>,
        session: Arc<Session>,
        done: oneshot::Sender<StoreResult<Told>>,
    ) -> Item<Arc<Session>> {
        for ((number, _), record) in self.effect.controls.iter_mut().zip(&self.controls) {
            number.0 += first.0;
            self.effect.control_chain = self.effect.control_chain.after(number.0, record);
        }
        let payload = stored.is_some().then(|| plain.payload.clone());
        let mut frame = stored.unwrap_or(plain);
        frame.header.first_lsn = first;
        self.effect.end_lsn = frame.header.end_lsn();
        self.effect.names = names;
        Item { session, frame, plain: payload, effect: Some(self.effect), done: Some(done) }
    }
}

/// Where a queued frame moves the end of its session.
struct NextEnd {
    tail: Position,
    chain: Chain,
    written_at: Timestamp,
    aside: bool,
    given: Vec<[u8; 16]>,
}

impl NextEnd {
    fn of(effect: &Effect, names: &[Name]) -> Self {
        Self {
            tail: effect.tail,
            chain: effect.chain,
            written_at: effect.at,
            aside: effect.aside,
            given: given(names, effect.batch()).collect(),
        }
    }

    fn move_to(self, ahead: &mut Ahead) {
        ahead.tail = self.tail;
        ahead.chain = self.chain;
        if !self.aside {
            ahead.updated_at = ahead.updated_at.max(self.written_at);
        }
        ahead.names.extend(self.given);
    }
}
