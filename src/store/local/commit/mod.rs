//! The commit path of a request: it is prepared; under the lock of its session the state is looked
//! up, the rules decide, and the draft is encrypted and queued; then the caller leads the journal
//! or waits for it, and plans again if the answer depends on frames in flight. It must not decide
//! (`store::rules` does) nor write files (the journal does).

mod create;

use std::sync::Arc;

use tokio::{runtime::Handle, sync::oneshot};

use super::{
    catalogue::{oldest_live_key_time, sessions::Sessions},
    context::EngineContext,
    journal::{QueueRefusal, QueuedFrame, VisibilityStep, trouble::write_error},
    removal::Removal,
    segments::{Segments, notes::entry_key},
    session::{LoadedSession, SessionState},
    wait::run_blocking,
};
use crate::{
    env::sync::{Mutex, MutexGuard},
    event::{Batch, Event, Position, Range, limits},
    log::{self, KnownBatch, SegmentEntry, TAG_BYTES, frame::PAYLOAD_BYTES_MAX},
    store::{
        AppendResult, FillDirection, LeaseCall, ReadRequest, StoreError, StoreResult,
        rules::{
            FrameDraft, RepeatedBatch, RequestDecision, RequestFacts, SessionAccess, StoredId,
            WriteKind, WriteRequest, batch_range, decide,
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
pub(super) enum PlannedRequest {
    /// The answer, based on durable bytes.
    Answered(AppendResult),
    /// The frame of the request is queued.
    Queued(QueuedRequest),
    /// The answer depends on frames in flight: wait for the journal's progress, then plan again.
    Wait,
}

/// Queued frame of a request.
pub(super) struct QueuedRequest {
    /// True if the caller must lead the journal.
    pub(super) lead: bool,
    /// Completes when the frame is durable and visible, or void.
    pub(super) done: oneshot::Receiver<StoreResult<VisibilityStep>>,
    /// Answer of the request once the frame is durable.
    pub(super) answer: AppendResult,
}

impl CommitPath {
    /// Prepares a request: see [`WriteRequest::new`].
    pub(super) fn prepare(&self, ask: WriteKind, batch: Batch) -> WriteRequest {
        WriteRequest::new(ask, batch, self.context.env.clock.now(), &*self.context.env.entropy)
    }

    /// Prepares a request without events.
    pub(super) fn prepare_eventless(&self, ask: WriteKind) -> WriteRequest {
        self.prepare(ask, Batch::default())
    }

    /// Looks up the event ids given by the caller among the inherited events of a fork, which do
    /// not change.
    pub(super) fn find_inherited(
        &self,
        session: &Arc<LoadedSession>,
        request: &mut WriteRequest,
    ) -> StoreResult<()> {
        if session.origin.is_none() {
            return Ok(());
        }
        // A deleted fork does not need its parent, which may be deleted with it.
        drop(session.lock_visible()?);
        let find = |name: &StoredId| match name.given_hash() {
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
        session: &Arc<LoadedSession>,
        request: &mut WriteRequest,
    ) -> StoreResult<PlannedRequest> {
        let state = match request.ask.access() {
            SessionAccess::Kept => session.lock_existing()?,
            SessionAccess::Restorable => session.lock_restorable()?,
            SessionAccess::Read => {
                self.segments.open_for_forks(session)?.ok_or_else(|| session.not_found_error())?
            }
            SessionAccess::Visible if request.ask.ignores_damage() => session.lock_visible()?,
            SessionAccess::Visible => self.segments.open_visible(session)?,
        };
        self.plan_locked(session, state, request)
    }

    /// Plans like [`Self::plan`]; the caller holds the lock of the session.
    pub(super) fn plan_locked(
        &self,
        session: &Arc<LoadedSession>,
        mut state: MutexGuard<'_, SessionState>,
        request: &mut WriteRequest,
    ) -> StoreResult<PlannedRequest> {
        // Read under the lock: frames of this epoch can only have been queued before.
        let epoch = self.sessions.journal.epoch();
        let looked = self.look_up_facts(&mut state, request);
        let named = (&session.key.session, session.hash);
        let (entry, ahead) = state.queue_end(epoch);
        let decided = decide(named, entry, ahead, request, looked, &|| self.context.counted_time());
        // Unreadable bytes are read again for the next request.
        match decided.inspect_err(|_| state.close_unread())? {
            RequestDecision::Nothing => {
                Ok(PlannedRequest::Answered(AppendResult::unchanged(state.receipt())))
            }
            RequestDecision::Wait => Ok(PlannedRequest::Wait),
            RequestDecision::Draft(draft) => {
                self.queue(session, &mut state, epoch, *draft, request)
            }
            RequestDecision::Batch(known) => {
                drop(state);
                self.answer_known_batch(session, &request.batch, &known)
                    .map(PlannedRequest::Answered)
            }
            RequestDecision::Events(positions) => {
                drop(state);
                self.answer_known_events(session, &request.batch, &positions)
                    .map(PlannedRequest::Answered)
            }
        }
    }

    /// Looks up the state of the session that a request depends on.
    fn look_up_facts(&self, state: &mut SessionState, request: &WriteRequest) -> RequestFacts {
        let reserve = &self.sessions.reserve;
        let unwritable = state.unwritable.as_ref().filter(|one| one.full);
        let mut looked = RequestFacts {
            unread: state.unread_gaps(),
            cramped: reserve.is_released().then(|| reserve.shortage()),
            unwritable: unwritable.map(|one| one.error.clone()),
            ..RequestFacts::default()
        };
        match request.ask {
            WriteKind::Append => self.look_up_names(state, request, &mut looked),
            WriteKind::Redact(position) => {
                looked.unprovable = is_in_unverifiable_segment(state, position)
            }
            _ => {}
        }
        looked
    }

    fn look_up_names(
        &self,
        state: &mut SessionState,
        request: &WriteRequest,
        looked: &mut RequestFacts,
    ) {
        let Some(opened) = &mut state.opened else { return };
        if let Some(key) = &request.batch.key {
            let live_from = oldest_live_key_time(&self.context.count, &*self.context.env.clock);
            looked.batch = opened.find_batch(key.as_str(), live_from).cloned();
        }
        if looked.batch.is_none() && request.names.iter().any(|name| name.given_hash().is_some()) {
            let inherited = |n: usize| request.inherited.get(n).copied().flatten();
            let mut find = |name: &StoredId| opened.find_event(&name.given_hash()?);
            let names = request.names.iter().enumerate();
            looked.known = names.map(|(n, name)| find(name).or(inherited(n))).collect();
        }
    }

    /// Encrypts the frame of a request and queues it after the frames in flight.
    fn queue(
        &self,
        session: &Arc<LoadedSession>,
        state: &mut SessionState,
        epoch: u64,
        mut draft: FrameDraft,
        request: &mut WriteRequest,
    ) -> StoreResult<PlannedRequest> {
        // A tombstone must be readable without the key that is to be destroyed.
        let cipher = match request.ask {
            WriteKind::Erase => self.context.keys.store_cipher().map(Arc::clone),
            _ => self.segments.client_cipher(session, state)?,
        };
        let plain = draft.take_frame();
        assert_eq!(plain.header.session, session.hash, "a frame goes to the session it is for");
        let bytes = plain.payload.len() + cipher.as_ref().map_or(0, |_| TAG_BYTES);
        if bytes > PAYLOAD_BYTES_MAX {
            let max = PAYLOAD_BYTES_MAX;
            return Err(StoreError::BatchTooLarge { bytes, max });
        }
        let mut next = draft.queued_end(request);
        let (done, wait) = oneshot::channel();
        let owner = Arc::clone(session);
        // Before the queue is locked, so that other requests do not wait for the encryption.
        let stored = self
            .context
            .keys
            .with_encryptor(cipher.as_ref(), |one| one.map(|one| plain.encrypt(one)));
        let names = &mut request.names;
        let queued = self.sessions.journal.enqueue(epoch, plain.header.count, |first| {
            let mut effect = draft.into_effect(first);
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
                state.queue_end(epoch).1.advance(next);
                Ok(PlannedRequest::Queued(QueuedRequest { lead, done: wait, answer }))
            }
            Err(QueueRefusal::Stale) => {
                state.ahead = None;
                Ok(PlannedRequest::Wait)
            }
            Err(refused) => {
                if !state.is_in_flight() {
                    state.ahead = None;
                }
                Err(match refused {
                    QueueRefusal::ReadOnly(reason) => StoreError::ReadOnly { reason },
                    QueueRefusal::Stale | QueueRefusal::Full => StoreError::Busy,
                })
            }
        }
    }

    /// Answers a batch with a known key from the stored events.
    fn answer_known_batch(
        &self,
        session: &Arc<LoadedSession>,
        batch: &Batch,
        known: &KnownBatch,
    ) -> StoreResult<AppendResult> {
        let events = self.read_stored(session, batch_range(batch, known)?, usize::MAX)?;
        Ok(AppendResult::from_stored(&events, session.state().receipt()))
    }

    /// Answers a batch whose event ids are all known, if the content is the same. Adjacent events
    /// are read together, so that each block is decompressed once, up to the size limit of a batch.
    fn answer_known_events(
        &self,
        session: &Arc<LoadedSession>,
        batch: &Batch,
        positions: &[Option<Position>],
    ) -> StoreResult<AppendResult> {
        let mut repeated = RepeatedBatch::new(batch, positions);
        while let Some(run) = repeated.next_run() {
            let events = self.read_stored(session, run, limits::BATCH_BYTES_MAX)?;
            let state = session.state();
            repeated.compare(events, &state.entry.redacted, session.base())?;
        }
        Ok(AppendResult::from_stored(&repeated.finish()?, session.state().receipt()))
    }

    /// Reads stored events: as many as fit into `bytes_max`, and at least one.
    fn read_stored(
        &self,
        session: &Arc<LoadedSession>,
        range: Range,
        bytes_max: usize,
    ) -> StoreResult<Vec<Event>> {
        let read = ReadRequest {
            range,
            events_max: limits::BATCH_EVENTS_MAX.max(range.len() as usize),
            bytes_max,
            fill: FillDirection::Forward,
            allow_gaps: false,
        };
        let events = self.segments.read_slice(session, &read)?.events;
        let is_all = events.len() as u64 == range.len();
        if events.is_empty() || bytes_max == usize::MAX && !is_all {
            // Lost events cannot answer the repeated request.
            return Err(session.damage_error(&session.state()));
        }
        Ok(events)
    }
}

/// Returns true if a position is in a segment with an accepted loss, which can be neither verified
/// nor rewritten.
fn is_in_unverifiable_segment(state: &SessionState, position: Position) -> bool {
    let entry = &state.entry;
    let holds = |one: &&SegmentEntry| one.base <= position.0 && position.0 < one.end;
    let touches = |one: &SegmentEntry| {
        entry.damage.iter().any(|gap| gap.from <= one.end && one.base <= gap.to)
    };
    entry.segments.iter().find(holds).is_some_and(touches)
}

impl CommitPath {
    /// Commits a request and returns its answer.
    pub(super) async fn submit(
        &self,
        session: &Arc<LoadedSession>,
        request: &mut WriteRequest,
    ) -> StoreResult<AppendResult> {
        self.submit_with(|| self.plan(session, request)).await
    }

    /// Plans the request and returns its answer, or leads the journal or waits for it; plans again
    /// after a round if the answer depends on frames in flight.
    pub(super) async fn submit_with(
        &self,
        mut plan: impl FnMut() -> StoreResult<PlannedRequest>,
    ) -> StoreResult<AppendResult> {
        loop {
            let rounds = self.sessions.journal.ended_rounds();
            self.wait_for_space()?;
            match plan()? {
                PlannedRequest::Answered(answer) => return Ok(answer),
                PlannedRequest::Queued(queued) => return self.wait_until_committed(queued).await,
                PlannedRequest::Wait => self.sessions.journal.wait_for_round_after(rounds).await,
            }
        }
    }

    /// Discards a session, also on a full disk: then its space is freed before this returns.
    pub(super) async fn discard(
        &self,
        session: &Arc<LoadedSession>,
        change: log::ChangeRecord,
    ) -> StoreResult<()> {
        self.submit_with_reserve(session, WriteKind::Change(change)).await?;
        let reserve = &self.sessions.reserve;
        if reserve.is_released() || reserve.lacks_space() {
            run_blocking(|| self.removal.free_deleted_space());
        }
        Ok(())
    }

    /// Commits a request that frees space; on a full disk, releases the reserve to it.
    pub(super) async fn submit_with_reserve(
        &self,
        session: &Arc<LoadedSession>,
        ask: WriteKind,
    ) -> StoreResult<()> {
        let mut request = self.prepare_eventless(ask);
        let mut driven = self.submit(session, &mut request).await;
        if matches!(driven, Err(StoreError::DiskFull(_)))
            && run_blocking(|| self.removal.release_reserve())
        {
            driven = self.submit(session, &mut request).await;
        }
        driven.map(drop)
    }

    /// Blocks the writer by a flush while too many journal bytes are unflushed; bounds memory.
    fn wait_for_space(&self) -> StoreResult<()> {
        let pressed =
            || self.sessions.unflushed_bytes() > self.context.options.journal_retained_bytes;
        // With the reserve released only deletions are accepted, and they must not wait for space.
        if !pressed() || self.sessions.reserve.is_released() {
            return Ok(());
        }
        let settled = run_blocking(|| {
            let _turn = self.relief.lock();
            if pressed() { self.removal.flush(false) } else { Ok(()) }
        });
        settled.map_err(|error| write_error("settling the journal", &error))
    }

    async fn wait_until_committed(&self, queued: QueuedRequest) -> StoreResult<AppendResult> {
        if queued.lead {
            let journal = &self.sessions.journal;
            let lead = || journal.lead(1, &*self.sessions);
            match Handle::try_current() {
                Ok(runtime) if journal.leads_in_place(&runtime) => {
                    journal.record_runtime(runtime);
                    lead();
                }
                _ => run_blocking(lead),
            }
        }
        let lost = || StoreError::OutcomeUnknown { reason: "the store was closed".to_owned() };
        if queued.done.await.map_err(|_| lost())?? == VisibilityStep::Show {
            self.sessions.journal.show_last_round(&*self.sessions);
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
            self.sessions.for_each_entry(&scope, &mut |entry| {
                let is_kept = !entry.stage.is_discarded() && !entry.stage.is_reclaimed();
                if entry.work.fence > 0 && is_kept {
                    leased.extend(entry_key(&scope, &entry));
                }
            });
        }
        for key in leased {
            let session = self.sessions.session(&key)?;
            let mut request = self.prepare_eventless(WriteKind::Lease(LeaseCall::Void));
            match self.submit(&session, &mut request).await {
                // Its key is gone: it cannot be written to.
                Ok(_) | Err(StoreError::SessionDamaged { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
