//! The commit path of a request: it is prepared; under the lock of its session the state is looked
//! up, the rules decide, and the draft is encrypted and queued; then the caller leads the journal
//! or waits for it, and plans again if the answer depends on frames in flight. It must not decide
//! (`store::rules` does) nor write files (the journal does).

mod create;

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{
    catalogue::{keys_live_from, sessions::Sessions},
    context::EngineContext,
    journal::{NotQueued, QueuedFrame, ShowStep, trouble::write_error},
    removal::Removal,
    segments::{Segments, notes::key_of},
    session::{Session, SessionState},
    wait::blocking,
};
use crate::{
    env::{
        Env,
        sync::{Mutex, MutexGuard},
    },
    event::{Batch, Event, Position, Range, limits},
    log::{self, KnownBatch, SegmentEntry, TAG_BYTES, frame::PAYLOAD_BYTES_MAX},
    store::{
        Appended, Fill, LeaseCall, Read, StoreError, StoreResult,
        rules::{
            Ask, Decision, Draft, Draw, LookedUp, Repeated, Sees, StoredId, WriteRequest,
            batch_range, decide,
        },
    },
};

/// Commit path of all requests that write.
pub(super) struct CommitPath {
    pub(super) context: Arc<EngineContext>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) segments: Arc<Segments>,
    pub(super) removal: Arc<Removal>,
    /// Held by the one writer that flushes while the journal is full.
    pub(super) relief: Mutex<()>,
    /// Held while a fork is put on hold, and while an erasure or redaction removes bytes that forks
    /// may read, so that it sees every acknowledged hold.
    pub(super) holds: tokio::sync::Mutex<()>,
}

/// Result of planning a request.
pub(super) enum Planned {
    /// The answer, based on durable bytes.
    Answered(Appended),
    /// The frame of the request is queued.
    Queued(Queued),
    /// The answer depends on frames in flight: wait for the journal's progress, then plan again.
    Wait,
}

/// Queued frame of a request.
pub(super) struct Queued {
    /// True if the caller must lead the journal.
    pub(super) lead: bool,
    /// Completes when the frame is durable and visible, or void.
    pub(super) done: oneshot::Receiver<StoreResult<ShowStep>>,
    /// Answer of the request once the frame is durable.
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

impl CommitPath {
    /// Prepares a request: see [`WriteRequest::new`].
    pub(super) fn request(&self, ask: Ask, batch: Batch) -> WriteRequest {
        WriteRequest::new(ask, batch, self.context.env.clock.now(), &self.context.env)
    }

    /// Prepares a request without events.
    pub(super) fn ask(&self, ask: Ask) -> WriteRequest {
        self.request(ask, Batch::default())
    }

    /// Looks up the event ids given by the caller among the inherited events of a fork, which do
    /// not change.
    pub(super) fn find_inherited(
        &self,
        session: &Arc<Session>,
        request: &mut WriteRequest,
    ) -> StoreResult<()> {
        if session.origin.is_none() {
            return Ok(());
        }
        // A deleted fork does not need its parent, which may be deleted with it.
        drop(session.visible()?);
        let find = |name: &StoredId| match name.given() {
            Some(hash) => {
                let found = self.segments.find_inherited(session, &hash)?;
                Ok(found.map(|(_, at)| at))
            }
            None => Ok(None),
        };
        request.inherited = request.names.iter().map(find).collect::<StoreResult<_>>()?;
        Ok(())
    }

    /// Plans a request to an existing session.
    pub(super) fn plan(
        &self,
        session: &Arc<Session>,
        request: &mut WriteRequest,
    ) -> StoreResult<Planned> {
        let state = match request.ask.sees() {
            Sees::Kept => session.kept_whole()?,
            Sees::Restorable => session.restorable()?,
            Sees::Read => self.segments.opened_kept(session)?.ok_or_else(|| session.not_found())?,
            Sees::Visible if request.ask.is_repair() => session.visible()?,
            Sees::Visible => self.segments.opened(session)?,
        };
        self.plan_in(session, state, request)
    }

    /// Plans like [`Self::plan`]; the caller holds the lock of the session.
    pub(super) fn plan_in(
        &self,
        session: &Arc<Session>,
        mut state: MutexGuard<'_, SessionState>,
        request: &mut WriteRequest,
    ) -> StoreResult<Planned> {
        // Read under the lock: frames of this epoch can only have been queued before.
        let epoch = self.sessions.journal.epoch();
        let looked = self.look_up(&mut state, request);
        let named = (&session.key.session, session.hash);
        let (entry, ahead) = state.end(epoch);
        let decided = decide(named, entry, ahead, request, looked, &|| self.context.counted());
        // Unreadable bytes are read again for the next request.
        match decided.inspect_err(|_| state.close_unread())? {
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

    /// Looks up the state of the session that a request depends on.
    fn look_up(&self, state: &mut SessionState, request: &WriteRequest) -> LookedUp {
        let reserve = &self.sessions.reserve;
        let unwritable = state.unwritable.as_ref().filter(|one| one.full);
        let mut looked = LookedUp {
            unread: state.unread(),
            cramped: reserve.is_given().then(|| reserve.missing()),
            unwritable: unwritable.map(|one| one.error.clone()),
            ..LookedUp::default()
        };
        match request.ask {
            Ask::Append => self.look_up_names(state, request, &mut looked),
            Ask::Redact(position) => looked.unprovable = is_unprovable(state, position),
            _ => {}
        }
        looked
    }

    fn look_up_names(
        &self,
        state: &mut SessionState,
        request: &WriteRequest,
        looked: &mut LookedUp,
    ) {
        let Some(opened) = &mut state.opened else { return };
        if let Some(key) = &request.batch.key {
            let live_from = keys_live_from(&self.context.count, &*self.context.env.clock);
            looked.batch = opened.batch(key.as_str(), live_from).cloned();
        }
        if looked.batch.is_none() && request.names.iter().any(|name| name.given().is_some()) {
            let inherited = |n: usize| request.inherited.get(n).copied().flatten();
            let mut find = |name: &StoredId| opened.find(&name.given()?);
            let names = request.names.iter().enumerate();
            looked.known = names.map(|(n, name)| find(name).or(inherited(n))).collect();
        }
    }

    /// Encrypts the frame of a request and queues it after the frames in flight.
    fn queue(
        &self,
        session: &Arc<Session>,
        state: &mut SessionState,
        epoch: u64,
        mut draft: Draft,
        request: &mut WriteRequest,
    ) -> StoreResult<Planned> {
        // A tombstone must be readable without the key that is to be destroyed.
        let cipher = match request.ask {
            Ask::Erase => self.context.keys.own().map(Arc::clone),
            _ => self.segments.key_of(session, state)?,
        };
        let plain = draft.take_frame();
        assert_eq!(plain.header.session, session.hash, "a frame goes to the session it is for");
        let bytes = plain.payload.len() + cipher.as_ref().map_or(0, |_| TAG_BYTES);
        if bytes > PAYLOAD_BYTES_MAX {
            let max = PAYLOAD_BYTES_MAX;
            return Err(StoreError::BatchTooLarge { bytes, max });
        }
        let mut next = draft.next(request);
        let (done, wait) = oneshot::channel();
        let owner = Arc::clone(session);
        // Before the queue is locked, so that other requests do not wait for the encryption.
        let stored = self
            .context
            .keys
            .with_encryptor(cipher.as_ref(), |one| one.map(|one| plain.encrypt(one)));
        let names = &mut request.names;
        let queued = self.sessions.journal.enqueue(epoch, plain.header.count, |first| {
            let mut effect = draft.effect(first);
            next.control_chain = effect.control_chain;
            effect.names = std::mem::take(names);
            let payload = stored.is_some().then(|| plain.payload.clone());
            let mut frame = stored.unwrap_or(plain);
            frame.header.first_lsn = first;
            debug_assert_eq!(frame.header.end_lsn(), effect.end_lsn, "numbers follow records");
            QueuedFrame {
                session: owner,
                frame,
                plain: payload,
                effect: Some(effect),
                done: Some(done),
            }
        });
        match queued {
            Ok(lead) => {
                let answer = next.answer(request);
                state.end(epoch).1.advance(next);
                Ok(Planned::Queued(Queued { lead, done: wait, answer }))
            }
            Err(NotQueued::Stale) => {
                state.ahead = None;
                Ok(Planned::Wait)
            }
            Err(refused) => {
                if !state.is_in_flight() {
                    state.ahead = None;
                }
                Err(match refused {
                    NotQueued::ReadOnly(reason) => StoreError::ReadOnly { reason },
                    NotQueued::Stale | NotQueued::Full => StoreError::Busy,
                })
            }
        }
    }

    /// Answers a batch with a known key from the stored events.
    fn repeat_batch(
        &self,
        session: &Arc<Session>,
        batch: &Batch,
        known: &KnownBatch,
    ) -> StoreResult<Appended> {
        let events = self.stored(session, batch_range(batch, known)?, usize::MAX)?;
        Ok(Appended::repeated(&events, session.state().receipt()))
    }

    /// Answers a batch whose event ids are all known, if the content is the same. Adjacent events
    /// are read together, so that each block is decompressed once, up to the size limit of a batch.
    fn repeat_events(
        &self,
        session: &Arc<Session>,
        batch: &Batch,
        positions: &[Option<Position>],
    ) -> StoreResult<Appended> {
        let mut repeated = Repeated::new(batch, positions);
        while let Some(run) = repeated.next_run() {
            let events = self.stored(session, run, limits::BATCH_BYTES_MAX)?;
            let state = session.state();
            repeated.compare(events, &state.entry.redacted, session.base())?;
        }
        Ok(Appended::repeated(&repeated.finish()?, session.state().receipt()))
    }

    /// Reads stored events: as many as fit into `bytes_max`, and at least one.
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
        let events = self.segments.slice(session, &read)?.events;
        let is_all = events.len() as u64 == range.len();
        if events.is_empty() || bytes_max == usize::MAX && !is_all {
            // Lost events cannot answer the repeated request.
            return Err(session.damaged(&session.state()));
        }
        Ok(events)
    }
}

/// Returns true if a position is in a segment with an accepted loss, which can be neither verified
/// nor rewritten.
fn is_unprovable(state: &SessionState, position: Position) -> bool {
    let entry = &state.entry;
    let holds = |one: &&SegmentEntry| one.base <= position.0 && position.0 < one.end;
    let touches = |one: &SegmentEntry| {
        entry.damage.iter().any(|gap| gap.from <= one.end && one.base <= gap.to)
    };
    entry.segments.iter().find(holds).is_some_and(touches)
}

impl CommitPath {
    /// Commits a request and returns its answer.
    pub(super) async fn drive(
        &self,
        session: &Arc<Session>,
        request: &mut WriteRequest,
    ) -> StoreResult<Appended> {
        self.drive_by(|| self.plan(session, request)).await
    }

    /// Plans, leads or waits, and plans again if the answer depended on frames in flight.
    pub(super) async fn drive_by(
        &self,
        mut plan: impl FnMut() -> StoreResult<Planned>,
    ) -> StoreResult<Appended> {
        loop {
            let rounds = self.sessions.journal.rounds();
            self.wait_for_space()?;
            match plan()? {
                Planned::Answered(answer) => return Ok(answer),
                Planned::Queued(queued) => return self.wait_committed(queued).await,
                Planned::Wait => self.sessions.journal.round_after(rounds).await,
            }
        }
    }

    /// Discards a session, also on a full disk: then its space is freed before this returns.
    pub(super) async fn discard(
        &self,
        session: &Arc<Session>,
        change: log::Change,
    ) -> StoreResult<()> {
        self.drive_with_reserve(session, Ask::Change(change)).await?;
        let reserve = &self.sessions.reserve;
        if reserve.is_given() || reserve.is_cramped() {
            blocking(|| self.removal.make_room());
        }
        Ok(())
    }

    /// Commits a request that frees space; on a full disk, releases the reserve to it.
    pub(super) async fn drive_with_reserve(
        &self,
        session: &Arc<Session>,
        ask: Ask,
    ) -> StoreResult<()> {
        let mut request = self.ask(ask);
        let mut driven = self.drive(session, &mut request).await;
        if matches!(driven, Err(StoreError::DiskFull(_)))
            && blocking(|| self.removal.give_reserve())
        {
            driven = self.drive(session, &mut request).await;
        }
        driven.map(drop)
    }

    /// Blocks the writer by a flush while too many journal bytes are unflushed; bounds memory.
    fn wait_for_space(&self) -> StoreResult<()> {
        let pressed = || self.sessions.pressure() > self.context.options.journal_retained_bytes;
        // With the reserve released only deletions are accepted, and they must not wait for space.
        if !pressed() || self.sessions.reserve.is_given() {
            return Ok(());
        }
        let settled = blocking(|| {
            let _turn = self.relief.lock();
            if pressed() { self.removal.flush(false) } else { Ok(()) }
        });
        settled.map_err(|error| write_error("settling the journal", &error))
    }

    async fn wait_committed(&self, queued: Queued) -> StoreResult<Appended> {
        if queued.lead {
            blocking(|| self.sessions.journal.lead(1, &*self.sessions));
        }
        let lost = || StoreError::OutcomeUnknown { reason: "the store was closed".to_owned() };
        if queued.done.await.map_err(|_| lost())?? == ShowStep::Show {
            self.sessions.journal.show(&*self.sessions);
        }
        Ok(queued.answer)
    }

    /// Ends every lease of a store restored from a backup: earlier fencing tokens become invalid,
    /// and tokens granted after the backup are not granted again. Includes expired, archived and
    /// damaged sessions, since they may be written to again.
    pub(crate) async fn void_leases(&self) -> StoreResult<()> {
        let mut leased = Vec::new();
        let scopes = self.sessions.catalogue().scopes();
        for scope in scopes {
            self.sessions.each_entry(&scope, &mut |entry| {
                let is_kept = !entry.stage.is_discarded() && !entry.stage.is_reclaimed();
                if entry.work.fence > 0 && is_kept {
                    leased.extend(key_of(&scope, &entry));
                }
            });
        }
        for key in leased {
            let session = self.sessions.session(&key)?;
            let mut request = self.ask(Ask::Lease(LeaseCall::Void));
            match self.drive(&session, &mut request).await {
                // Its key is gone: it cannot be written to.
                Ok(_) | Err(StoreError::SessionDamaged { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
