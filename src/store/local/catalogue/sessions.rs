//! The sessions of the store in memory, the journal that their frames are written to, and the
//! sessions with pending work. Makes rounds of the journal visible. It must not read or write a
//! segment.

use std::{collections::VecDeque, sync::Arc};

use tokio::sync::oneshot;

use super::super::{
    context::EngineContext,
    journal::{Journal, QueuedFrame, Sink, VisibilityStep, error_of, writer::RoundFailure},
    rank,
    session::{EntryState, LoadedSession, forks::Forks, hash_of},
    wait::ThreadSignal,
};
use super::{
    Catalogue,
    backlog::{Backlog, ErasedSession},
    moving::ChangeTracker,
    reserve::ReservedSpace,
    slots::SettledFiles,
};
use crate::{
    env::{
        DiskShortage,
        planted::{Defect, is_planted},
        sync::{
            Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard,
            atomic::{AtomicU64, Ordering},
        },
    },
    event::{Position, SessionHash, SessionId, SessionKey},
    log::Entry,
    store::{StoreError, StoreResult, rules::FrameEffect},
};

/// Maximum number of sessions whose files are synced one by one; for more, one `syncfs` is used.
pub(crate) const FEW_SESSIONS_MAX: usize = 32;

/// Sessions of the store, the journal and pending work.
pub(crate) struct Sessions {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) journal: Journal<Arc<LoadedSession>>,
    names: RwLock<Catalogue>,
    pub(super) slots: Mutex<SettledFiles>,
    /// Sessions that forks need; locked last and briefly.
    forks: Mutex<Forks>,
    /// Sessions whose files and names are in memory, the one opened first at the front.
    in_use: Mutex<VecDeque<Arc<LoadedSession>>>,
    pub(crate) backlog: Backlog,
    pub(crate) reserve: ReservedSpace,
    /// Queue of changed sessions, for the caller that follows them.
    pub(crate) moving: ChangeTracker,
    /// Wakes the flush thread.
    pub(crate) flusher: ThreadSignal,
    /// Journal bytes written when the last flush started.
    flushed_written: AtomicU64,
}

impl Sink<Arc<LoadedSession>> for Sessions {
    /// Makes the frames of a round visible, or void; then notifies the waiting callers.
    fn finish_round(
        &self,
        round: &mut Vec<QueuedFrame<Arc<LoadedSession>>>,
        result: Result<(), RoundFailure>,
    ) {
        match result {
            Ok(()) => {
                // The client may have gone away; the frame is stored regardless.
                self.publish(round)
                    .into_iter()
                    .for_each(|done| drop(done.send(Ok(VisibilityStep::Seen))));
            }
            Err(failure) => {
                let (RoundFailure::Refused(error) | RoundFailure::Unknown(error)) = &failure;
                self.reserve.record_write(Some(error));
                let epoch = self.journal.epoch();
                for item in round.drain(..) {
                    item.session.state().drop_void_frames(epoch);
                    if item.effect.as_ref().is_some_and(FrameEffect::is_creation) {
                        self.remove_failed_creation(&item.session);
                    } else if is_planted(Defect::ServePastDurable) {
                        let frame =
                            std::iter::once((item.frame.with_plaintext(item.plain), item.effect));
                        item.session.publish(frame, self.context.counted_time());
                    }
                    let _ = item.done.map(|done| done.send(Err(error_of(&failure))));
                }
            }
        }
        if self.needs_flush() {
            self.flusher.wake();
        }
    }
}

impl Sessions {
    /// Creates the sessions from the state that a start recovered.
    pub(crate) fn new(
        context: Arc<EngineContext>,
        journal: Journal<Arc<LoadedSession>>,
        (catalogue, slots): (Catalogue, SettledFiles),
        forks: Forks,
        backlog: Backlog,
    ) -> Self {
        Self {
            context,
            journal,
            names: RwLock::new(rank::NAMES, catalogue),
            slots: Mutex::new(rank::SLOTS, slots),
            forks: Mutex::new(rank::FORKS, forks),
            in_use: Mutex::new(rank::IN_USE, VecDeque::new()),
            backlog,
            reserve: ReservedSpace::default(),
            moving: ChangeTracker::new(),
            flusher: ThreadSignal::new(),
            flushed_written: AtomicU64::new(0),
        }
    }

    pub(crate) fn catalogue(&self) -> RwLockReadGuard<'_, Catalogue> {
        self.names.read()
    }

    pub(crate) fn catalogue_mut(&self) -> RwLockWriteGuard<'_, Catalogue> {
        self.names.write()
    }

    pub(crate) fn session(&self, key: &SessionKey) -> StoreResult<Arc<LoadedSession>> {
        let unknown = || StoreError::SessionNotFound { session: key.session.clone() };
        let loaded = self.catalogue().get_loaded(key);
        loaded.or_else(|| self.catalogue_mut().get(key)).ok_or_else(unknown)
    }

    /// Returns the entry and the hash of a session, deleted or not.
    pub(crate) fn entry(&self, key: &SessionKey) -> Option<(Entry, SessionHash)> {
        self.catalogue().entry(key)
    }

    /// Makes the frames of a round visible, adjacent ones of a session together. Returns the
    /// waiting callers.
    pub(crate) fn publish(
        &self,
        round: &mut Vec<QueuedFrame<Arc<LoadedSession>>>,
    ) -> Vec<oneshot::Sender<StoreResult<VisibilityStep>>> {
        let counted = self.context.counted_time();
        let frames = round.len();
        let mut waiting = Vec::with_capacity(frames);
        let mut items = round.drain(..).peekable();
        while let Some(item) = items.next() {
            let session = Arc::clone(&item.session);
            let mut next = Some(item);
            let frames = std::iter::from_fn(|| {
                let same =
                    |item: &QueuedFrame<Arc<LoadedSession>>| Arc::ptr_eq(&item.session, &session);
                let item = next.take().or_else(|| items.next_if(same))?;
                waiting.extend(item.done);
                let frame = item.frame.with_plaintext(item.plain);
                #[cfg(feature = "tests")]
                self.check_effect(&frame, item.effect.as_ref());
                Some((frame, item.effect))
            });
            let listed = session.publish(frames, counted);
            self.moving.queue_change(&session);
            if listed {
                self.backlog.add_dirty(session);
            }
        }
        debug_assert!(waiting.len() <= frames, "a frame has one caller at most");
        waiting
    }

    /// Asserts, on the simulated disk, that the effect which a replay reads from a frame's records
    /// is the effect that the request decided on.
    #[cfg(feature = "tests")]
    pub(crate) fn check_effect(&self, frame: &crate::log::Frame, effect: Option<&FrameEffect>) {
        let Some(effect) = effect.filter(|_| !self.context.options.background) else { return };
        let records = frame.records().expect("a frame of this process holds records");
        let read = FrameEffect::from_records(&frame.header, &records);
        assert!(effect.is_same(&read), "decided on {effect:?}, read back {read:?}");
    }

    /// Returns the number of journal bytes written since the last flush.
    pub(crate) fn unflushed_bytes(&self) -> u64 {
        self.journal.written_bytes().saturating_sub(self.flushed_written.load(Ordering::Relaxed))
    }

    /// Records that the first `written` bytes of the journal are flushed.
    pub(crate) fn record_flushed(&self, written: u64) {
        self.flushed_written.store(written, Ordering::Relaxed);
    }

    /// Returns true if the journal must be flushed under load: more than an eighth of its space is
    /// unflushed for few sessions, or half for many. A flush costs time per session, so many share
    /// a large one; the rest of the space is for concurrent appends.
    pub(crate) fn needs_flush(&self) -> bool {
        let (pressure, room) =
            (self.unflushed_bytes(), self.context.options.journal_retained_bytes);
        let few = || self.backlog.count_dirty() <= FEW_SESSIONS_MAX;
        pressure > room / 2 || pressure > room / 8 && few()
    }

    /// Returns the missing resource while appends are refused: the reserve is released to
    /// deletions, or too many bytes are unflushed.
    pub(crate) fn shortage(&self) -> Option<DiskShortage> {
        let waits = || self.unflushed_bytes() > self.context.options.journal_retained_bytes;
        let cramped = self.reserve.lacks_space() && waits();
        (self.reserve.is_released() || cramped).then(|| self.reserve.shortage())
    }

    /// Removes a session whose creation failed, and wakes the callers that wait for it.
    pub(crate) fn remove_failed_creation(&self, session: &LoadedSession) {
        self.catalogue_mut().remove(session);
        self.release_parent(session);
        self.journal.wake_waiters();
    }

    /// Records a fork: its parent stays until it is released.
    pub(crate) fn hold_parent(&self, parent: &LoadedSession, child: &LoadedSession) {
        self.forks.lock().add(parent.hash, child.hash, &child.key.session);
    }

    /// Returns the forks of a session that may still be read.
    pub(crate) fn forks_of(&self, parent: SessionHash) -> Vec<SessionId> {
        self.forks.lock().children(parent).cloned().collect()
    }

    /// Returns true if forks of the session may still be read.
    pub(crate) fn is_read_by_forks(&self, session: SessionHash) -> bool {
        self.forks.lock().has_forks(session)
    }

    /// Calls [`Self::is_read_by_forks`] for a session known only by its entry.
    pub(crate) fn entry_is_read_by_forks(&self, entry: &Entry) -> bool {
        if self.forks.lock().is_empty() {
            return false;
        }
        hash_of(entry).is_some_and(|hash| self.is_read_by_forks(hash))
    }

    /// Rejects the removal of a session's events, or of the event at a position, while a held fork
    /// reads them, directly or through other forks.
    ///
    /// # Errors
    /// [`StoreError::SessionHeld`] with the held fork.
    pub(crate) fn check_held_forks(
        &self,
        writer: &LoadedSession,
        position: Option<Position>,
    ) -> StoreResult<()> {
        let reads = |below: Position| position.map_or(writer.base() < below, |at| at < below);
        let mut writers = vec![writer.hash];
        while let Some(parent) = writers.pop() {
            for id in self.forks_of(parent) {
                let key = SessionKey { scope: writer.key.scope.clone(), session: id };
                let Ok(fork) = self.session(&key) else { continue };
                if !reads(fork.base()) {
                    continue;
                }
                if fork.state().entry.held_at.is_some() {
                    return Err(StoreError::SessionHeld { session: key.session });
                }
                writers.push(fork.hash);
            }
        }
        Ok(())
    }

    /// Returns the session that another one was forked from, unless it is gone.
    pub(crate) fn parent_of(&self, session: &LoadedSession) -> Option<Arc<LoadedSession>> {
        let origin = session.origin.as_ref()?;
        let mut found = origin.found.lock();
        if let Some(known) = found.upgrade() {
            return Some(known);
        }
        let parent = self.session(origin.parent.as_ref()?).ok()?;
        let same = parent.hash == origin.hash;
        same.then(|| {
            *found = Arc::downgrade(&parent);
            parent
        })
    }

    /// Releases a session's parent, and the ancestors that were kept only for it. The caller
    /// flushes, and has dropped the session's own frames.
    pub(crate) fn release_ancestors(&self, child: &LoadedSession) {
        let mut next = self.release(child);
        while let Some(parent) = next.filter(|parent| self.drop_frames(parent)) {
            next = self.release(&parent);
        }
    }

    /// Releases the parent of a fork whose creation failed. If the parent was deleted meanwhile,
    /// the next flush removes it.
    pub(crate) fn release_parent(&self, child: &LoadedSession) {
        let Some(parent) = self.release(child) else { return };
        let idle = {
            let state = parent.state();
            state.entry.stage.is_discarded() && state.unflushed.is_empty()
        };
        if idle {
            self.backlog.add_dirty(parent);
        }
    }

    /// Releases a session's parent, unless the session's own forks need both; returns the parent if
    /// the session was the last that needed it.
    pub(crate) fn release(&self, child: &LoadedSession) -> Option<Arc<LoadedSession>> {
        let origin = child.origin.as_ref()?;
        let last = {
            let mut forks = self.forks.lock();
            !forks.has_forks(child.hash) && forks.release(origin.hash, child.hash)
        };
        if last { self.parent_of(child) } else { None }
    }

    /// Drops the unflushed frames of a discarded session and releases its parent: its settled entry
    /// suffices, since the frames are not read again. Returns false for any other session.
    pub(crate) fn drop_discarded(&self, session: &Arc<LoadedSession>) -> bool {
        let dropped = self.drop_frames(session);
        if dropped {
            self.release_ancestors(session);
        }
        dropped
    }

    /// Drops the unflushed frames of a discarded session, unless forks need them and it is not
    /// erased. Returns whether it did.
    pub(crate) fn drop_frames(&self, session: &Arc<LoadedSession>) -> bool {
        let mut state = session.state();
        let needed = || !state.entry.stage.is_erased() && self.is_read_by_forks(session.hash);
        if !state.entry.stage.is_discarded() || !state.exists() || needed() {
            return false;
        }
        state.unflushed.clear();
        state.durable = EntryState::Settled;
        state.unwritable = None;
        state.listed = false;
        if state.entry.stage.is_erasing() {
            // The caller that erased it may have gone away before the next step.
            self.queue_erasure(session);
        }
        drop(state);
        self.schedule_reclaim(session);
        true
    }

    /// Schedules the flush of a deleted session's entry, and the unlinking of its files after that.
    pub(crate) fn schedule_reclaim(&self, session: &Arc<LoadedSession>) {
        let generation = self.slots.lock().generation();
        self.backlog.add_deleted(session, generation);
        self.backlog.add_touched(session);
    }

    /// Schedules the unlinking of files of a session once both settled files name the new ones.
    pub(crate) fn schedule_unlink(
        &self,
        session: &Arc<LoadedSession>,
        paths: impl Iterator<Item = String>,
    ) {
        // After the change of the entry: a later generation does not name the replaced files. Not
        // under the session's lock: the holder of the slots may be reading them from the disk.
        let generation = self.slots.lock().generation();
        self.backlog.add_retired(paths, generation);
        self.backlog.add_touched(session);
    }

    /// Queues an erased session whose bytes are not all removed yet.
    pub(crate) fn queue_erasure(&self, session: &Arc<LoadedSession>) {
        self.backlog
            .add_pending_erasure(ErasedSession { session: Arc::clone(session), taken: false });
    }

    /// Records that the files and names of a session are in memory.
    pub(crate) fn record_opened(&self, session: &Arc<LoadedSession>) {
        self.in_use.lock().push_back(Arc::clone(session));
    }

    /// Calls `keep` with each session whose files are in memory, in the order of opening, and with
    /// the number of them. Sessions for which it returns false were closed by it and are removed.
    pub(crate) fn retain_opened(&self, keep: &mut dyn FnMut(&LoadedSession, usize) -> bool) {
        // A thread that opens a session holds the session's lock when it takes this one.
        let mut open = std::mem::take(&mut *self.in_use.lock());
        let count = open.len();
        open.retain(|session| keep(session, count));
        let mut in_use = self.in_use.lock();
        open.append(&mut in_use);
        *in_use = open;
    }
}
