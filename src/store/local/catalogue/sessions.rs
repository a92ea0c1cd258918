//! The sessions of the store in memory, the journal that their frames are written to, and the
//! sessions with work that waits. A round of the journal becomes visible here. It must not read or
//! write a segment.

use std::{collections::VecDeque, sync::Arc};

use tokio::sync::oneshot;

use super::super::{
    context::EngineContext,
    journal::{Journal, QueuedFrame, ShowStep, Sink, error_of, writer::RoundFailure},
    rank,
    session::{Durable, Session, forks::Forks, hash_of},
    wait::Signal,
};
use super::{
    Catalogue,
    backlog::{Backlog, Erasing},
    moving::Moving,
    reserve::Reserve,
    slots::Slots,
};
use crate::{
    env::{
        Short,
        planted::{Defect, planted},
        sync::{
            Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard,
            atomic::{AtomicU64, Ordering},
        },
    },
    event::{Position, SessionHash, SessionId, SessionKey},
    log::Entry,
    store::{StoreError, StoreResult, rules::Effect},
};

/// Most sessions whose files are synced one by one; those of more are synced by one `syncfs`.
pub(crate) const FEW_SESSIONS_MAX: usize = 32;

/// The sessions of the store.
pub(crate) struct Sessions {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) journal: Journal<Arc<Session>>,
    names: RwLock<Catalogue>,
    pub(super) slots: Mutex<Slots>,
    /// Sessions that forks need; locked last, for a moment.
    forks: Mutex<Forks>,
    /// Sessions whose files and names are in memory, the one opened first in front.
    in_use: Mutex<VecDeque<Arc<Session>>>,
    pub(crate) backlog: Backlog,
    pub(crate) reserve: Reserve,
    /// Sessions that changed, for those who follow them.
    pub(crate) moving: Moving,
    /// Wakes the flusher.
    pub(crate) flusher: Signal,
    /// Journal bytes written when the last flush began.
    flushed_written: AtomicU64,
}

impl Sink<Arc<Session>> for Sessions {
    /// Makes the frames of a round visible, or void; then answers the callers that wait.
    fn ended(&self, round: &mut Vec<QueuedFrame<Arc<Session>>>, result: Result<(), RoundFailure>) {
        match result {
            Ok(()) => {
                // A client that went away does not wait any more: the frame stands all the same.
                self.publish(round)
                    .into_iter()
                    .for_each(|done| drop(done.send(Ok(ShowStep::Seen))));
            }
            Err(failure) => {
                let (RoundFailure::Refused(error) | RoundFailure::Unknown(error)) = &failure;
                self.reserve.note(Some(error));
                let epoch = self.journal.epoch();
                for item in round.drain(..) {
                    item.session.state().forget_void(epoch);
                    if item.effect.as_ref().is_some_and(Effect::is_creation) {
                        self.forget(&item.session);
                    } else if planted(Defect::ServePastDurable) {
                        let frame = std::iter::once((item.frame.as_kept(item.plain), item.effect));
                        item.session.publish(frame, self.context.counted());
                    }
                    let _ = item.done.map(|done| done.send(Err(error_of(&failure))));
                }
            }
        }
        if self.is_pressed() {
            self.flusher.wake();
        }
    }
}

impl Sessions {
    /// Sessions as a start found them.
    pub(crate) fn new(
        context: Arc<EngineContext>,
        journal: Journal<Arc<Session>>,
        (catalogue, slots): (Catalogue, Slots),
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
            reserve: Reserve::default(),
            moving: Moving::new(),
            flusher: Signal::new(),
            flushed_written: AtomicU64::new(0),
        }
    }

    pub(crate) fn catalogue(&self) -> RwLockReadGuard<'_, Catalogue> {
        self.names.read()
    }

    pub(crate) fn catalogue_mut(&self) -> RwLockWriteGuard<'_, Catalogue> {
        self.names.write()
    }

    pub(crate) fn session(&self, key: &SessionKey) -> StoreResult<Arc<Session>> {
        let unknown = || StoreError::SessionNotFound { session: key.session.clone() };
        let loaded = self.catalogue().in_use(key);
        loaded.or_else(|| self.catalogue_mut().get(key)).ok_or_else(unknown)
    }

    /// The entry of a session, deleted or not, and its number among those of its name.
    pub(crate) fn entry(&self, key: &SessionKey) -> Option<(Entry, SessionHash)> {
        self.catalogue().entry(key)
    }

    /// Makes the frames of a round visible, those of one session together. Returns the callers that
    /// wait.
    pub(crate) fn publish(
        &self,
        round: &mut Vec<QueuedFrame<Arc<Session>>>,
    ) -> Vec<oneshot::Sender<StoreResult<ShowStep>>> {
        let counted = self.context.counted();
        let frames = round.len();
        let mut waiting = Vec::with_capacity(frames);
        let mut items = round.drain(..).peekable();
        while let Some(item) = items.next() {
            let session = Arc::clone(&item.session);
            let mut next = Some(item);
            let frames = std::iter::from_fn(|| {
                let same = |item: &QueuedFrame<Arc<Session>>| Arc::ptr_eq(&item.session, &session);
                let item = next.take().or_else(|| items.next_if(same))?;
                waiting.extend(item.done);
                let frame = item.frame.as_kept(item.plain);
                #[cfg(feature = "tests")]
                self.check_effect(&frame, item.effect.as_ref());
                Some((frame, item.effect))
            });
            let listed = session.publish(frames, counted);
            self.moving.note(&session);
            if listed {
                self.backlog.add_dirty(session);
            }
        }
        debug_assert!(waiting.len() <= frames, "a frame has one caller at most");
        waiting
    }

    /// A replay reads the effect of a frame from its records: on the simulated disk it must be the
    /// effect that the request decided on.
    #[cfg(feature = "tests")]
    pub(crate) fn check_effect(&self, frame: &crate::log::Frame, effect: Option<&Effect>) {
        let Some(effect) = effect.filter(|_| !self.context.options.background) else { return };
        let records = frame.records().expect("a frame of this process holds records");
        let read = Effect::from_records(&frame.header, &records);
        assert!(effect.is_same(&read), "decided on {effect:?}, read back {read:?}");
    }

    /// Journal bytes written since the last flush.
    pub(crate) fn pressure(&self) -> u64 {
        self.journal.written().saturating_sub(self.flushed_written.load(Ordering::Relaxed))
    }

    /// Notes that the first `written` bytes of the journal are flushed.
    pub(crate) fn note_flushed(&self, written: u64) {
        self.flushed_written.store(written, Ordering::Relaxed);
    }

    /// True if the journal must be flushed while others write: more than an eighth of its space is
    /// in use by few sessions, or half of it by many. The cost of flushing is by the session, so a
    /// large flush pays for many; the rest of the space is for appends made meanwhile.
    pub(crate) fn is_pressed(&self) -> bool {
        let (pressure, room) = (self.pressure(), self.context.options.journal_retained_bytes);
        let few = || self.backlog.count_dirty() <= FEW_SESSIONS_MAX;
        pressure > room / 2 || pressure > room / 8 && few()
    }

    /// The missing resource while appends are refused: deletions were given the reserve, or too
    /// much waits to be flushed.
    pub(crate) fn missing(&self) -> Option<Short> {
        let waits = || self.pressure() > self.context.options.journal_retained_bytes;
        let cramped = self.reserve.is_cramped() && waits();
        (self.reserve.is_given() || cramped).then(|| self.reserve.missing())
    }

    /// Takes back a session that never came into being, and wakes the callers that waited for it.
    pub(crate) fn forget(&self, session: &Session) {
        self.catalogue_mut().remove(session);
        self.release_parent(session);
        self.journal.wake_waiters();
    }

    /// Notes a fork: its parent stays until it is released.
    pub(crate) fn hold_parent(&self, parent: &Session, child: &Session) {
        self.forks.lock().add(parent.hash, child.hash, &child.key.session);
    }

    /// The forks of a session that may still be read.
    pub(crate) fn forks_of(&self, parent: SessionHash) -> Vec<SessionId> {
        self.forks.lock().children(parent).cloned().collect()
    }

    /// True if forks of the session may still be read.
    pub(crate) fn is_needed(&self, session: SessionHash) -> bool {
        self.forks.lock().needs(session)
    }

    /// [`Self::is_needed`] for a session that is only known by its entry.
    pub(crate) fn entry_is_needed(&self, entry: &Entry) -> bool {
        if self.forks.lock().is_empty() {
            return false;
        }
        hash_of(entry).is_some_and(|hash| self.is_needed(hash))
    }

    /// Refuses to take away what a session wrote, all of it or the event at a position, while a
    /// fork is held that reads it, directly or through other forks.
    ///
    /// # Errors
    /// [`StoreError::SessionHeld`] with the fork.
    pub(crate) fn check_readers(
        &self,
        writer: &Session,
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

    /// The session that another one was forked from, unless it is gone.
    pub(crate) fn parent_of(&self, session: &Session) -> Option<Arc<Session>> {
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

    /// Forgets that a session needs its parent, and lets go the parents above that were only kept
    /// for it. The caller flushes, and has begun to let it go.
    pub(crate) fn leave_parent(&self, child: &Session) {
        let mut next = self.release(child);
        while let Some(parent) = next.filter(|parent| self.drop_frames(parent)) {
            next = self.release(&parent);
        }
    }

    /// Forgets a fork that never came into being. Its parent may have been deleted meanwhile: the
    /// next flush lets it go.
    pub(crate) fn release_parent(&self, child: &Session) {
        let Some(parent) = self.release(child) else { return };
        let idle = {
            let state = parent.state();
            state.entry.stage.is_discarded() && state.unflushed.is_empty()
        };
        if idle {
            self.backlog.add_dirty(parent);
        }
    }

    /// Releases a session's parent, unless forks of its own need both; returns the parent when it
    /// was the last that needed it.
    pub(crate) fn release(&self, child: &Session) -> Option<Arc<Session>> {
        let origin = child.origin.as_ref()?;
        let last = {
            let mut forks = self.forks.lock();
            !forks.needs(child.hash) && forks.release(origin.hash, child.hash)
        };
        if last { self.parent_of(child) } else { None }
    }

    /// Drops the frames of a deleted session that wait: they are not read again, so no segment
    /// needs them, and its settled entry says all. Returns whether it is one.
    pub(crate) fn forget_frames(&self, session: &Arc<Session>) -> bool {
        let dropped = self.drop_frames(session);
        if dropped {
            self.leave_parent(session);
        }
        dropped
    }

    /// [`Self::forget_frames`] of one session. Forks of it need what it wrote, unless it was
    /// erased.
    pub(crate) fn drop_frames(&self, session: &Arc<Session>) -> bool {
        let mut state = session.state();
        let needed = || !state.entry.stage.is_erased() && self.is_needed(session.hash);
        if !state.entry.stage.is_discarded() || !state.exists() || needed() {
            return false;
        }
        state.unflushed.clear();
        state.durable = Durable::Settled;
        state.unwritable = None;
        state.listed = false;
        if state.entry.stage.is_erasing() {
            // The caller that erased it may have gone away before it took the next step.
            self.note_erasing(session);
        }
        drop(state);
        self.reclaim(session);
        true
    }

    /// Has a deleted session's entry flushed, and its files unlinked once it is.
    pub(crate) fn reclaim(&self, session: &Arc<Session>) {
        let generation = self.slots.lock().generation();
        self.backlog.add_deleted(session, generation);
        self.backlog.touch(session);
    }

    /// Has files of a session unlinked once both settled files name what replaced them.
    pub(crate) fn retire(&self, session: &Arc<Session>, paths: impl Iterator<Item = String>) {
        // Behind the change: a settled file of a later generation does not name what was replaced.
        // And not under the session's lock: who has the slots may be reading them from the disk.
        let generation = self.slots.lock().generation();
        self.backlog.retire(paths, generation);
        self.backlog.touch(session);
    }

    /// Notes a session of which something may be left.
    pub(crate) fn note_erasing(&self, session: &Arc<Session>) {
        self.backlog.add_erasing(Erasing { session: Arc::clone(session), taken: false });
    }

    /// Notes that the files and names of a session are in memory now.
    pub(crate) fn note_opened(&self, session: &Arc<Session>) {
        self.in_use.lock().push_back(Arc::clone(session));
    }

    /// Calls `keep` with each session whose files are in memory, the one opened first in front, and
    /// with their number. One for which it returns false was closed by it.
    pub(crate) fn retain_opened(&self, keep: &mut dyn FnMut(&Session, usize) -> bool) {
        // A thread that opens a session holds its lock when it takes this one.
        let mut open = std::mem::take(&mut *self.in_use.lock());
        let count = open.len();
        open.retain(|session| keep(session, count));
        let mut in_use = self.in_use.lock();
        open.append(&mut in_use);
        *in_use = open;
    }
}
