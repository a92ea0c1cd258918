//! Queue of changed sessions for the change feed, which follows a walk over all sessions. Counting
//! starts with the first request and is invalidated when too many sessions changed: then a new walk
//! returns all of them. It must not access the catalogue, nor block an append.

use std::{collections::VecDeque, sync::Arc};

use tokio::sync::watch;

use super::super::{rank, session::LoadedSession};
use crate::env::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

/// Maximum number of queued changes; after a walk, twice the loaded sessions if that is more.
const WAITING_MAX: usize = 65_536;

/// Queue of changed sessions, for the caller that follows them.
pub(crate) struct ChangeTracker {
    /// Number of the current count; 0 while nothing is counted.
    epoch: AtomicU64,
    /// True during a walk over all sessions: none is evicted then, since the walk could miss it.
    walking: AtomicBool,
    queue: Mutex<ChangeQueue>,
    watch: watch::Sender<u64>,
}

#[derive(Default)]
struct ChangeQueue {
    /// Number of counts started.
    epochs: u64,
    /// Number of changes counted.
    number: u64,
    waiting_max: usize,
    /// Changed sessions, each with the number of its change.
    waiting: VecDeque<(u64, Arc<LoadedSession>)>,
}

impl ChangeTracker {
    pub(super) fn new() -> Self {
        Self {
            epoch: AtomicU64::new(0),
            walking: AtomicBool::new(false),
            queue: Mutex::new(rank::LAST, ChangeQueue::default()),
            watch: watch::channel(0).0,
        }
    }

    /// Returns the number of the current count; 0 while nothing is counted.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Returns true during a walk over all sessions.
    pub(crate) fn is_walking(&self) -> bool {
        self.walking.load(Ordering::Acquire)
    }

    /// Returns a receiver that changes whenever a change is queued.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.watch.subscribe()
    }

    /// Queues a session that changed. The caller has unlocked its state: a read after this call
    /// sees the change.
    pub(super) fn queue_change(&self, session: &Arc<LoadedSession>) {
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

    /// Starts a count and a walk; returns the number of the count.
    pub(super) fn start_count(&self) -> u64 {
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

    /// Ends the walk: queues the loaded sessions, which it did not visit.
    pub(super) fn finish_walk(&self, loaded: &[Arc<LoadedSession>]) {
        self.queue.lock().waiting_max = WAITING_MAX.max(2 * loaded.len());
        loaded.iter().for_each(|session| self.queue_change(session));
        self.walking.store(false, Ordering::Release);
    }

    /// Returns up to `limit` of the changes after a number, and whether more are queued. Removes
    /// those up to that number.
    pub(super) fn changes_after(
        &self,
        behind: u64,
        limit: usize,
    ) -> (Vec<(u64, Arc<LoadedSession>)>, bool) {
        let mut queue = self.queue.lock();
        let done = queue.waiting.partition_point(|(number, _)| *number <= behind);
        let done: Vec<_> = queue.waiting.drain(..done).collect();
        let taken: Vec<_> = queue.waiting.iter().take(limit).cloned().collect();
        // A change from now on is queued again: the caller's read may miss it.
        taken.iter().for_each(|(_, session)| session.noted.store(0, Ordering::Release));
        let more = queue.waiting.len() > taken.len();
        drop(queue);
        drop(done);
        (taken, more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::{Incarnation, Scope, SessionHash, SessionId, SessionKey, Timestamp},
        log::{CreateRecord, Entry},
    };

    fn session(name: &str) -> Arc<LoadedSession> {
        let scope = Scope::local();
        let create = CreateRecord {
            tenant: scope.tenant.to_string(),
            user: scope.user.to_string(),
            session: name.to_owned(),
            incarnation: [7; 16],
            title: None,
            metadata: [].into(),
            workspace: None,
            ttl_seconds: None,
            key: None,
            lineage: None,
        };
        let key = SessionKey { scope, session: SessionId::new(name).expect("an id") };
        let hash = SessionHash::new(&key, Incarnation([7; 16]));
        LoadedSession::from_entry(key, Entry::from_create(&create, hash, Timestamp(0)))
    }

    fn ids(taken: &[(u64, Arc<LoadedSession>)]) -> Vec<&str> {
        taken.iter().map(|(_, session)| session.key.session.as_str()).collect()
    }

    #[test]
    fn a_changed_session_is_queued_once_until_it_is_read_and_changes_again() {
        let moving = ChangeTracker::new();
        let [a, b] = ["a", "b"].map(session);
        moving.queue_change(&a);
        assert_eq!(
            moving.changes_after(0, 10).0.len(),
            0,
            "none is counted before one is asked for"
        );
        moving.start_count();
        moving.finish_walk(&[]);
        [&a, &b, &a].iter().for_each(|session| moving.queue_change(session));
        let (taken, more) = moving.changes_after(0, 1);
        assert_eq!((ids(&taken), more), (vec!["a"], true));
        moving.queue_change(&a);
        let (taken, more) = moving.changes_after(taken[0].0, 10);
        assert_eq!((ids(&taken), more), (vec!["b", "a"], false));
        let (none, _) = moving.changes_after(taken[1].0, 10);
        assert_eq!(ids(&none), Vec::<&str>::new());
        assert!(moving.queue.lock().waiting.is_empty(), "what is done with is let go");
    }

    #[test]
    fn too_many_changes_invalidate_the_count_until_a_new_one_starts() {
        let moving = ChangeTracker::new();
        let epoch = moving.start_count();
        moving.finish_walk(&[]);
        moving.queue.lock().waiting_max = 2;
        let mut watch = moving.watch();
        ["a", "b", "c", "d"].map(session).iter().for_each(|session| moving.queue_change(session));
        assert_eq!(moving.epoch.load(Ordering::Acquire), 0);
        assert!(moving.queue.lock().waiting.is_empty(), "no session is held");
        assert!(watch.has_changed().expect("its sender is there"));
        watch.mark_unchanged();
        let next = moving.start_count();
        assert!(next > epoch && moving.is_walking());
        let a = session("a");
        moving.finish_walk(std::slice::from_ref(&a));
        assert_eq!(ids(&moving.changes_after(0, 10).0), ["a"], "those in use come behind the walk");
    }
}
