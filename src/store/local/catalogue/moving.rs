//! Which sessions changed since they were handed out: a count of changes and the sessions that did,
//! each once, after a walk over all of them. Nothing is counted before one is asked for, nor when
//! too many changed: then all are handed out again. It must not be durable, nor hold up an append.

use std::{cell::RefCell, collections::VecDeque, sync::Arc};

use tokio::sync::watch;

use super::{
    super::{
        rank,
        session::{Session, hash_of},
    },
    sessions::Sessions,
};
use crate::{
    env::sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    event::{Position, SessionHash, SessionKey},
    log::{Ending, Entry},
    store::{Moved, Moves, Since, Survival, derived::Walked},
};

/// Sessions that may wait to be handed out, beside twice those that did when the walk ended.
const WAITING_MAX: usize = 65_536;
/// Sessions at rest that are read while the catalogue is locked once.
const SLICE: usize = 256;

/// The sessions that changed.
pub(crate) struct Moving {
    /// Which count it is; 0 while nothing is counted.
    epoch: AtomicU64,
    /// All sessions are being handed out: none goes to rest, where the walk would pass it by.
    walking: AtomicBool,
    queue: Mutex<Queue>,
    watch: watch::Sender<u64>,
}

#[derive(Default)]
struct Queue {
    /// Counts that were begun.
    epochs: u64,
    /// Changes counted.
    number: u64,
    waiting_max: usize,
    /// The sessions, each with the number of its change.
    waiting: VecDeque<(u64, Arc<Session>)>,
}

impl Moving {
    pub(super) fn new() -> Self {
        Self {
            epoch: AtomicU64::new(0),
            walking: AtomicBool::new(false),
            queue: Mutex::new(rank::LAST, Queue::default()),
            watch: watch::channel(0).0,
        }
    }

    /// Whether all sessions are being handed out.
    pub(crate) fn is_walking(&self) -> bool {
        self.walking.load(Ordering::Acquire)
    }

    /// Changes when a session does that was handed out.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.watch.subscribe()
    }

    /// Notes that a session changed. Its state is unlocked: what is read of it behind this note has
    /// the change.
    pub(super) fn note(&self, session: &Arc<Session>) {
        let epoch = self.epoch.load(Ordering::Acquire);
        if epoch == 0 || session.noted.load(Ordering::Acquire) == epoch {
            return;
        }
        let mut queue = self.queue.lock();
        let epoch = self.epoch.load(Ordering::Acquire);
        if epoch == 0 || session.noted.swap(epoch, Ordering::AcqRel) == epoch {
            return;
        }
        queue.number += 1;
        let number = queue.number;
        queue.waiting.push_back((number, Arc::clone(session)));
        if queue.waiting.len() > queue.waiting_max {
            self.epoch.store(0, Ordering::Release);
            let lost = std::mem::take(&mut queue.waiting);
            drop(queue);
            tracing::debug!(sessions = lost.len(), "too many sessions changed to be counted");
        } else {
            drop(queue);
        }
        self.watch.send_replace(number);
    }

    /// Begins to count, and a walk with it.
    fn begin(&self) -> u64 {
        let mut queue = self.queue.lock();
        queue.epochs += 1;
        queue.waiting_max = WAITING_MAX;
        let before = std::mem::take(&mut queue.waiting);
        self.walking.store(true, Ordering::Release);
        self.epoch.store(queue.epochs, Ordering::Release);
        let epoch = queue.epochs;
        drop(queue);
        drop(before);
        epoch
    }

    /// Ends the walk with the sessions in use, which it did not meet.
    fn end_walk(&self, awake: &[Arc<Session>]) {
        self.queue.lock().waiting_max = WAITING_MAX.max(2 * awake.len());
        awake.iter().for_each(|session| self.note(session));
        self.walking.store(false, Ordering::Release);
    }

    /// Up to `limit` of the sessions behind a number, and whether there are more. Those up to it
    /// are done with.
    fn take(&self, behind: u64, limit: usize) -> (Vec<(u64, Arc<Session>)>, bool) {
        let mut queue = self.queue.lock();
        let done = queue.waiting.partition_point(|(number, _)| *number <= behind);
        let done: Vec<_> = queue.waiting.drain(..done).collect();
        let taken: Vec<_> = queue.waiting.iter().take(limit).cloned().collect();
        // A change from now on counts anew: what is read of them may lack it.
        taken.iter().for_each(|(_, session)| session.noted.store(0, Ordering::Release));
        let more = queue.waiting.len() > taken.len();
        drop(queue);
        drop(done);
        (taken, more)
    }
}

impl Sessions {
    /// Sessions that changed since, or all of them.
    pub(crate) fn moved(&self, mut since: Since, limit: usize) -> Moves {
        let epoch = self.moving.epoch.load(Ordering::Acquire);
        if epoch == 0 || since.epoch != epoch {
            since = Since { epoch: self.moving.begin(), ..Since::default() };
        }
        let after = match &since.walked {
            Walked::Begins => None,
            Walked::To(key) => Some(key),
            Walked::Ended => return self.moved_lately(since, limit),
        };
        let found = RefCell::new(Vec::new());
        let take = |entry: Entry| {
            found.borrow_mut().push(entry);
            true
        };
        let slice = limit.clamp(1, SLICE);
        let (keys, stopped) = self.catalogue().find_resting(after, slice, slice, &take);
        since.walked = match stopped {
            Some(last) => Walked::To(last),
            None => {
                let awake = self.catalogue().awake_all();
                self.moving.end_walk(&awake);
                Walked::Ended
            }
        };
        let met = keys.into_iter().zip(found.into_inner());
        let sessions = met.filter_map(|(key, entry)| Some(moved(key, hash_of(&entry)?, &entry)));
        Moves { sessions: sessions.collect(), since, more: true }
    }

    fn moved_lately(&self, mut since: Since, limit: usize) -> Moves {
        let (taken, more) = self.moving.take(since.number, limit.max(1));
        since.number = taken.last().map_or(since.number, |(number, _)| *number);
        let sessions = taken.iter().filter_map(|(_, session)| {
            let state = session.state();
            state.exists().then(|| moved(session.key.clone(), session.hash, &state.entry))
        });
        Moves { sessions: sessions.collect(), since, more }
    }
}

fn moved(key: SessionKey, hash: SessionHash, entry: &Entry) -> Moved {
    let base = entry.lineage.as_ref().map_or(0, |lineage| lineage.position);
    Moved {
        key,
        hash,
        base: Position(base),
        tail: Position(entry.tail),
        rewritten: entry.rewritten(),
        survival: survival(entry),
    }
}

/// What is left of a session.
pub(crate) fn survival(entry: &Entry) -> Survival {
    match entry.stage.end().map(|end| end.how) {
        None => Survival::Alive,
        Some(Ending::Erased { .. }) => Survival::Erased,
        Some(Ending::Deleted | Ending::Discarded) => Survival::Deleted,
        Some(Ending::Expired) => Survival::Expired,
    }
}
