//! The sessions of the store in memory, the journal that their frames are written to, and the
//! sessions with work that waits. A round of the journal becomes visible here. It must not read or
//! write a segment.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::Arc,
};

use tokio::sync::oneshot;

use super::super::{
    base::Base,
    journal::{Item, Journal, Shown, Sink, error_of, writer::Failure},
    rank,
    session::{Durable, Session, forks::Forks, hash_of},
};
use super::{Catalogue, slots::Slots};
use crate::{
    env::{
        Short,
        planted::{Defect, planted},
        short_of,
        sync::{
            Condvar, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard,
            atomic::{AtomicBool, AtomicU64, Ordering},
        },
    },
    event::{Position, SessionHash, SessionId, SessionKey},
    log::Entry,
    store::{StoreError, StoreResult, rules::Effect},
};

/// Up to so many sessions are few: their files are synced one by one; more of them by one `syncfs`.
pub(crate) const FEW_SESSIONS_MAX: usize = 32;

/// Wakes a thread of the engine.
pub(crate) struct Signal {
    pub(crate) state: Mutex<Wanted>,
    pub(crate) changed: Condvar,
}

impl Signal {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(rank::LAST, Wanted::default()), changed: Condvar::new() }
    }
}

#[derive(Default)]
pub(crate) struct Wanted {
    pub(crate) wanted: bool,
    pub(crate) stop: bool,
}

/// Sessions whose files are to be unlinked, each with the generation of `settled/` that may not
/// know of its deletion yet.
pub(crate) type Deleted = BTreeMap<SessionHash, (Arc<Session>, u64)>;

/// Where the room kept back is.
pub(crate) struct Reserve {
    /// Held while it is given or kept again.
    pub(crate) turn: Mutex<()>,
    /// All of its files are there.
    pub(crate) kept: AtomicBool,
    /// It was given to deletions, and there was no room for another since.
    pub(crate) given: AtomicBool,
    /// The last write that needed room found none.
    pub(crate) cramped: AtomicBool,
    /// It was an inode that was missing then.
    inodes: AtomicBool,
}

impl Default for Reserve {
    fn default() -> Self {
        Self {
            turn: Mutex::new(rank::RESERVE, ()),
            kept: AtomicBool::new(false),
            given: AtomicBool::new(false),
            cramped: AtomicBool::new(false),
            inodes: AtomicBool::new(false),
        }
    }
}

impl Reserve {
    /// Whether nothing but deletions may be written.
    pub(crate) fn is_given(&self) -> bool {
        self.given.load(Ordering::Acquire)
    }

    /// Notes how a write ended that may need room.
    pub(crate) fn note(&self, error: Option<&io::Error>) {
        let short = error.and_then(short_of);
        if error.is_none() || short.is_some() {
            self.inodes.store(short == Some(Short::Inodes), Ordering::Release);
            self.cramped.store(short.is_some(), Ordering::Release);
        }
    }

    /// What was missing when a write last found no room.
    pub(crate) fn short(&self) -> Short {
        if self.inodes.load(Ordering::Acquire) { Short::Inodes } else { Short::Space }
    }
}

pub(crate) fn is_full(error: &io::Error) -> bool {
    short_of(error).is_some()
}

/// A session of which something may be left.
pub(crate) struct Erasing {
    pub(crate) session: Arc<Session>,
    /// Backups that began before its key was destroyed, or its tombstone written, have ended. Those
    /// that begin later have nothing of it, however long the rest may take.
    pub(crate) taken: bool,
}

/// Sessions and files with work that waits for the next settling or for a round of upkeep.
pub(crate) struct Backlog {
    /// Sessions with frames that wait to be settled.
    pub(crate) dirty: Mutex<Vec<Arc<Session>>>,
    /// Sessions whose settled entry changed since the last settling.
    pub(crate) touched: Mutex<Vec<Arc<Session>>>,
    /// Sessions with full segments that wait to be sealed.
    pub(crate) full: Mutex<BTreeMap<SessionHash, Arc<Session>>>,
    /// Replaced files, each with the generation of `settled/` that may still name it.
    pub(crate) retired: Mutex<BTreeMap<String, u64>>,
    /// Sessions whose files are to be unlinked.
    pub(crate) deleted: Mutex<Deleted>,
    /// Sessions whose tombstone is durable and of which bytes may be left.
    pub(crate) erasing: Mutex<Vec<Erasing>>,
    /// Sessions with a redacted event whose body may be left in a file.
    pub(crate) redacting: Mutex<Vec<Arc<Session>>>,
}

impl Backlog {
    /// What a start found to be done.
    pub(crate) fn new(
        dirty: Vec<Arc<Session>>,
        touched: Vec<Arc<Session>>,
        redacting: Vec<Arc<Session>>,
    ) -> Self {
        Self {
            dirty: Mutex::new(rank::DIRTY, dirty),
            touched: Mutex::new(rank::BACKLOG, touched),
            full: Mutex::new(rank::FULL, BTreeMap::new()),
            retired: Mutex::new(rank::BACKLOG, BTreeMap::new()),
            deleted: Mutex::new(rank::BACKLOG, Deleted::new()),
            erasing: Mutex::new(rank::BACKLOG, Vec::new()),
            redacting: Mutex::new(rank::BACKLOG, redacting),
        }
    }
}

/// The sessions of the store.
pub(crate) struct Sessions {
    pub(crate) base: Arc<Base>,
    pub(crate) journal: Journal<Arc<Session>>,
    pub(crate) names: RwLock<Catalogue>,
    pub(crate) slots: Mutex<Slots>,
    /// Sessions that forks need; locked last, for a moment.
    pub(crate) forks: Mutex<Forks>,
    /// Sessions whose files and names are in memory, the one opened first in front.
    pub(crate) in_use: Mutex<VecDeque<Arc<Session>>>,
    pub(crate) backlog: Backlog,
    pub(crate) reserve: Reserve,
    /// Wakes the settler.
    pub(crate) settle_now: Signal,
    /// Journal bytes written when the last settling began.
    pub(crate) settled_written: AtomicU64,
}

impl Sink<Arc<Session>> for Sessions {
    /// Makes the frames of a round visible, or void; then answers the callers that wait.
    fn ended(&self, round: &mut Vec<Item<Arc<Session>>>, result: Result<(), Failure>) {
        match result {
            Ok(()) => {
                // A client that went away does not wait any more: the frame stands all the same.
                self.publish(round).into_iter().for_each(|done| drop(done.send(Ok(Shown::Seen))));
            }
            Err(failure) => {
                let (Failure::Refused(error) | Failure::Unknown(error)) = &failure;
                self.reserve.note(Some(error));
                let epoch = self.journal.epoch();
                for item in round.drain(..) {
                    item.session.state().forget_void(epoch);
                    if item.effect.as_ref().is_some_and(Effect::is_creation) {
                        self.forget(&item.session);
                    } else if planted(Defect::ServePastDurable) {
                        let frame = std::iter::once((item.frame.as_kept(item.plain), item.effect));
                        item.session.publish(frame, self.base.counted());
                    }
                    let _ = item.done.map(|done| done.send(Err(error_of(&failure))));
                }
            }
        }
        if self.pressed() {
            self.settle_now.state.lock().wanted = true;
            self.settle_now.changed.notify_one();
        }
    }
}

impl Sessions {
    pub(crate) fn catalogue(&self) -> RwLockReadGuard<'_, Catalogue> {
        self.names.read()
    }

    pub(crate) fn catalogue_mut(&self) -> RwLockWriteGuard<'_, Catalogue> {
        self.names.write()
    }

    pub(crate) fn session(&self, key: &SessionKey) -> StoreResult<Arc<Session>> {
        let unknown = || StoreError::SessionNotFound { session: key.session.clone() };
        let awake = self.catalogue().awake(key);
        awake.or_else(|| self.catalogue_mut().get(key)).ok_or_else(unknown)
    }

    /// Makes the frames of a round visible, those of one session together. Answers who waits.
    pub(crate) fn publish(
        &self,
        round: &mut Vec<Item<Arc<Session>>>,
    ) -> Vec<oneshot::Sender<StoreResult<Shown>>> {
        let counted = self.base.counted();
        let frames = round.len();
        let mut waiting = Vec::with_capacity(frames);
        let mut items = round.drain(..).peekable();
        while let Some(item) = items.next() {
            let session = Arc::clone(&item.session);
            let mut next = Some(item);
            let frames = std::iter::from_fn(|| {
                let same = |item: &Item<Arc<Session>>| Arc::ptr_eq(&item.session, &session);
                let item = next.take().or_else(|| items.next_if(same))?;
                waiting.extend(item.done);
                let frame = item.frame.as_kept(item.plain);
                #[cfg(feature = "sim")]
                self.check_effect(&frame, item.effect.as_ref());
                Some((frame, item.effect))
            });
            if session.publish(frames, counted) {
                self.backlog.dirty.lock().push(session);
            }
        }
        debug_assert!(waiting.len() <= frames, "a frame has one caller at most");
        waiting
    }

    /// A replay reads the effect of a frame from its records: on the simulated disk it must be the
    /// effect that the request decided on.
    #[cfg(feature = "sim")]
    pub(crate) fn check_effect(&self, frame: &crate::log::Frame, effect: Option<&Effect>) {
        let Some(effect) = effect.filter(|_| !self.base.options.background) else { return };
        let records = frame.records().expect("a frame of this process holds records");
        let read = Effect::of(&frame.header, &records);
        assert!(effect.is_same(&read), "decided on {effect:?}, read back {read:?}");
    }

    /// Journal bytes written since the last settling.
    pub(crate) fn pressure(&self) -> u64 {
        self.journal.written().saturating_sub(self.settled_written.load(Ordering::Relaxed))
    }

    /// Whether so much waits that it is settled while others write: an eighth of the room when it
    /// is of few sessions, half of it when it is of many. A settling costs by the session, so many
    /// are worth a large one; the rest of the room is for what comes meanwhile.
    pub(crate) fn pressed(&self) -> bool {
        let (pressure, room) = (self.pressure(), self.base.options.journal_retained_bytes);
        let few = || self.backlog.dirty.lock().len() <= FEW_SESSIONS_MAX;
        pressure > room / 2 || pressure > room / 8 && few()
    }

    /// What is missing where no append is taken for want of room: deletions have what was kept
    /// back, or too much waits to be settled.
    pub(crate) fn lacks(&self) -> Option<Short> {
        let waits = || self.pressure() > self.base.options.journal_retained_bytes;
        let cramped = self.reserve.cramped.load(Ordering::Acquire) && waits();
        (self.reserve.is_given() || cramped).then(|| self.reserve.short())
    }

    /// Takes back a session that never came into being, and wakes the callers that waited for it.
    pub(crate) fn forget(&self, session: &Session) {
        self.catalogue_mut().remove(session);
        self.release_parent(session);
        self.journal.tell();
    }

    /// Whether forks of a session may still be read.
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
            let forks: Vec<SessionId> = self.forks.lock().children(parent).cloned().collect();
            for id in forks {
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
    /// for it. The caller settles, and has begun to let it go.
    pub(crate) fn part(&self, child: &Session) {
        let mut next = self.release(child);
        while let Some(parent) = next.filter(|parent| self.drop_frames(parent)) {
            next = self.release(&parent);
        }
    }

    /// Forgets a fork that never came into being. Its parent may have been deleted meanwhile: the
    /// next settling lets it go.
    pub(crate) fn release_parent(&self, child: &Session) {
        let Some(parent) = self.release(child) else { return };
        let idle = {
            let state = parent.state();
            state.entry.stage.is_discarded() && state.unsettled.is_empty()
        };
        if idle {
            self.backlog.dirty.lock().push(parent);
        }
    }

    /// Releases a session's parent, unless forks of its own need both; answers the parent when it
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
    /// needs them, and its settled entry says all. Answers whether it is one.
    pub(crate) fn forget_frames(&self, session: &Arc<Session>) -> bool {
        let dropped = self.drop_frames(session);
        if dropped {
            self.part(session);
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
        state.unsettled.clear();
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

    /// Has a deleted session's entry settled, and its files unlinked once it is.
    pub(crate) fn reclaim(&self, session: &Arc<Session>) {
        let generation = self.slots.lock().generation();
        self.backlog.deleted.lock().insert(session.hash, (Arc::clone(session), generation));
        self.backlog.touched.lock().push(Arc::clone(session));
    }

    /// Notes a session of which something may be left.
    pub(crate) fn note_erasing(&self, session: &Arc<Session>) {
        self.note_begun(Erasing { session: Arc::clone(session), taken: false });
    }

    pub(crate) fn note_begun(&self, begun: Erasing) {
        let mut erasing = self.backlog.erasing.lock();
        match erasing.iter_mut().find(|one| Arc::ptr_eq(&one.session, &begun.session)) {
            Some(one) => one.taken |= begun.taken,
            None => erasing.push(begun),
        }
    }
}
