//! Sessions that changed, as a node learned of it, for one follower. It must not read the base.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use tokio::sync::watch;

use super::row::Head;
use crate::{env::sync::Mutex, event::Timestamp, store::base::Hash16};

/// Hints that are kept until the next look.
const HINTED_MAX: usize = 4_096;

/// Sessions that changed, in the order in which this node learned of it.
pub(super) struct ChangeFeed {
    pub(super) state: Mutex<FeedState>,
    watch: watch::Sender<u64>,
}

#[derive(Default)]
pub(super) struct FeedState {
    /// Number of this feed; 0 while there is no follower.
    pub(super) epoch: u64,
    pub(super) number: u64,
    pub(super) queue: BTreeMap<u64, Hash16>,
    pub(super) queued: HashMap<Hash16, u64>,
    /// Life and revision of recently changed sessions, as last seen.
    pub(super) seen: HashMap<Hash16, (Hash16, u64)>,
    pub(super) looked_at: Duration,
    /// The same by the clock of the base.
    pub(super) looked_base: Timestamp,
    pub(super) looked_long_at: Duration,
    /// Sessions that may have changed, by hints.
    pub(super) hinted: HashSet<Hash16>,
    /// Number of removals at the last look.
    pub(super) removals: u64,
}

impl Default for ChangeFeed {
    fn default() -> Self {
        Self { state: Mutex::default(), watch: watch::channel(0).0 }
    }
}

impl FeedState {
    /// Queues a session, if it is in a state that was not seen.
    pub(super) fn see(&mut self, name: Hash16, state: (Hash16, u64)) -> bool {
        let is_new = self.seen.insert(name, state).is_none_or(|before| before != state);
        if is_new {
            self.push(name);
        }
        is_new
    }

    fn push(&mut self, name: Hash16) {
        self.number += 1;
        if let Some(before) = self.queued.insert(name, self.number) {
            self.queue.remove(&before);
        }
        self.queue.insert(self.number, name);
    }
}

impl ChangeFeed {
    /// Records a change that this node committed.
    pub(super) fn record(&self, head: &Head) {
        let mut state = self.state.lock();
        let is_new = state.epoch != 0 && state.see(head.row.name, (head.uid(), head.row.revision));
        drop(state);
        if is_new {
            self.wake();
        }
    }

    /// Wakes the follower.
    pub(super) fn wake(&self) {
        self.watch.send_modify(|count| *count += 1);
    }

    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.watch.subscribe()
    }

    /// Records the hint that a session changed, and wakes the follower.
    pub(super) fn record_hint(&self, name: Hash16) {
        let mut state = self.state.lock();
        if state.epoch != 0 && state.hinted.len() < HINTED_MAX {
            state.hinted.insert(name);
            drop(state);
            self.wake();
        }
    }

    /// Wakes the follower, if there is one, to look for changes whose hint was lost.
    pub(super) fn poll(&self) {
        if self.state.lock().epoch != 0 {
            self.wake();
        }
    }
}
