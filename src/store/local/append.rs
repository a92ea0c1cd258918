//! From a request to a queued frame, under the lock of its session: what is known is looked up, the
//! rules decide, the draft is encrypted and queued. What depends on frames in flight waits for
//! them. It must not decide (`store::rules` does), and must not write; the journal does.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{
    Shared,
    catalogue::keys_live_from,
    journal::{Item, Refused, Told},
    session::{Session, State},
};
use crate::{
    env::{Env, sync::MutexGuard},
    event::{Batch, Event, Position, Range, limits},
    log::{KnownBatch, REDACTED, SegmentEntry, TAG_BYTES, frame::PAYLOAD_BYTES_MAX},
    store::{
        Appended, Fill, Read, StoreError, StoreResult,
        rules::{
            Ask, Decision, Draft, Draw, Looked, Name, Request, Sees, decide, entry::is_redacted,
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
    /// Completes when the frame is durable and visible, or void.
    pub(super) done: oneshot::Receiver<StoreResult<Told>>,
    /// The answer, should it become durable.
    pub(super) answer: Appended,
}

impl Draw for Env {
    fn id(&self) -> [u8; 10] {
        self.random()
    }

    fn salt(&self) -> [u8; 16] {
        self.random()
    }
}

impl Shared {
    /// Prepares a request: see [`Request::new`].
    pub(super) fn request(&self, ask: Ask, batch: Batch) -> Request {
        Request::new(ask, batch, self.env.clock.now(), &self.env)
    }

    /// Prepares a request without events.
    pub(super) fn ask(&self, ask: Ask) -> Request {
        self.request(ask, Batch::default())
    }

    /// Looks for the ids that a caller gave among the events that a fork reads of its ancestors:
    /// what is stored there stays.
    pub(super) fn inherit(&self, session: &Arc<Session>, request: &mut Request) -> StoreResult<()> {
        if session.origin.is_none() {
            return Ok(());
        }
        // A deleted fork does not need its parent, which may be deleted with it.
        drop(session.visible()?);
        let find = |name: &Name| match name.given() {
            Some(hash) => self.find_inherited(session, &hash),
            None => Ok(None),
        };
        request.inherited = request.names.iter().map(find).collect::<StoreResult<_>>()?;
        Ok(())
    }

    /// Plans a request to an existing session.
    pub(super) fn plan(
        &self,
        session: &Arc<Session>,
        request: &mut Request,
    ) -> StoreResult<Planned> {
        let state = match request.ask.sees() {
            Sees::Kept => session.kept_whole()?,
            Sees::Restorable => session.restorable()?,
            Sees::Visible if request.ask.mends() => session.visible()?,
            Sees::Visible => self.opened(session)?,
        };
        self.plan_in(session, state, request)
    }

    /// [`Self::plan`] for a caller that holds the lock of the session.
    pub(super) fn plan_in(
        &self,
        session: &Arc<Session>,
        mut state: MutexGuard<'_, State>,
        request: &mut Request,
    ) -> StoreResult<Planned> {
        // Read under the lock: frames of this epoch can only have been queued before.
        let epoch = self.journal.epoch();
        let looked = self.look(&mut state, request);
        let named = (&session.key.session, session.hash);
        let (entry, ahead) = state.end(epoch);
        let decided = decide(named, entry, ahead, request, looked, &|| self.counted());
        // What the device did not give is read again for the next request.
        match decided.inspect_err(|_| state.doubt())? {
            Decision::Nothing => Ok(Planned::Answered(Appended::nothing(state.receipt()))),
            Decision::Wait => Ok(Planned::Wait),
            Decision::Draft(draft) => self.queue(session, &mut state, epoch, *draft, request),
            Decision::Batch(known) => {
                drop(state);
                self.repeat_batch(session, &request.batch, &known).map(Planned::Answered)
            }
            Decision::Events(positions) => {
                drop(state);
                self.repeat_events(session, &request.batch, &positions).map(Planned::Answered)
            }
        }
    }

    /// What is known of a session that a request depends on.
    fn look(&self, state: &mut State, request: &Request) -> Looked {
        let unwritable = state.unwritable.as_ref().filter(|one| one.full);
        let mut looked = Looked {
            unread: state.unread(),
            cramped: self.reserve.is_given(),
            unwritable: unwritable.map(|one| one.error.clone()),
            ..Looked::default()
        };
        match request.ask {
            Ask::Append => self.look_up_names(state, request, &mut looked),
            Ask::Redact(position) => looked.unprovable = is_unprovable(state, position),
            _ => {}
        }
        looked
    }

    fn look_up_names(&self, state: &mut State, request: &Request, looked: &mut Looked) {
        let Some(opened) = &mut state.opened else { return };
        if let Some(key) = &request.batch.key {
            let live_from = keys_live_from(&self.count, &*self.env.clock);
            looked.batch = opened.batch(key.as_str(), live_from).cloned();
        }
        if looked.batch.is_none() && request.names.iter().any(|name| name.given().is_some()) {
            let inherited = |n: usize| request.inherited.get(n).copied().flatten();
            let mut find = |name: &Name| opened.find(&name.given()?);
            let names = request.names.iter().enumerate();
            looked.known = names.map(|(n, name)| find(name).or(inherited(n))).collect();
        }
    }

    /// Encrypts the frame of a request and queues it behind what is in flight.
    fn queue(
        &self,
        session: &Arc<Session>,
        state: &mut State,
        epoch: u64,
        mut draft: Draft,
        request: &mut Request,
    ) -> StoreResult<Planned> {
        // A tombstone must be readable without the key that is to be destroyed.
        let cipher = match request.ask {
            Ask::Erase => self.keys.own().map(Arc::clone),
            _ => self.key_of(session, state)?,
        };
        let plain = draft.take_frame();
        let bytes = plain.payload.len() + cipher.as_ref().map_or(0, |_| TAG_BYTES);
        if bytes > PAYLOAD_BYTES_MAX {
            let max = PAYLOAD_BYTES_MAX;
            return Err(StoreError::BatchTooLarge { bytes, max });
        }
        let mut next = draft.next(request);
        let (done, wait) = oneshot::channel();
        let owner = Arc::clone(session);
        // Before the queue is locked: other requests do not wait for this one's cipher.
        let stored = self.keys.with(cipher.as_ref(), |one| one.map(|one| plain.encrypt(one)));
        let names = &mut request.names;
        let queued = self.journal.enqueue(epoch, plain.header.count, |first| {
            let mut effect = draft.effect(first);
            next.control_chain = effect.control_chain;
            effect.names = std::mem::take(names);
            let payload = stored.is_some().then(|| plain.payload.clone());
            let mut frame = stored.unwrap_or(plain);
            frame.header.first_lsn = first;
            debug_assert_eq!(frame.header.end_lsn(), effect.end_lsn, "numbers follow records");
            Item { session: owner, frame, plain: payload, effect: Some(effect), done: Some(done) }
        });
        match queued {
            Ok(lead) => {
                let answer = next.answer(request);
                state.end(epoch).1.advance(next);
                Ok(Planned::Queued(Queued { lead, done: wait, answer }))
            }
            Err(Refused::Stale) => {
                state.ahead = None;
                Ok(Planned::Wait)
            }
            Err(refused) => {
                if !state.is_in_flight() {
                    state.ahead = None;
                }
                Err(match refused {
                    Refused::ReadOnly(reason) => StoreError::ReadOnly { reason },
                    Refused::Stale | Refused::Full => StoreError::Busy,
                })
            }
        }
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
        Ok(Appended::repeated(&events, session.state().receipt()))
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
        Ok(Appended::repeated(&stored, session.state().receipt()))
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

/// Whether a position is in a segment of which a part was given up: it cannot be proven any more,
/// nor written anew.
fn is_unprovable(state: &State, position: Position) -> bool {
    let entry = &state.entry;
    let holds = |one: &&SegmentEntry| one.base <= position.0 && position.0 < one.end;
    let touches = |one: &SegmentEntry| {
        entry.damage.iter().any(|gap| gap.from <= one.end && one.base <= gap.to)
    };
    entry.segments.iter().find(holds).is_some_and(touches)
}
