//! Watches on the tails of sessions that readers follow at this node. It must not read the base.

use std::collections::HashMap;

use tokio::sync::watch;

use crate::{
    env::sync::Mutex,
    event::Position,
    store::{Watch, base::Hash16},
};

/// The followed sessions.
#[derive(Default)]
pub(super) struct Hub(Mutex<HashMap<Hash16, watch::Sender<Position>>>);

impl Hub {
    /// Returns a watch on the tail of a session, which is at least at `tail`.
    pub(super) fn watch(&self, name: Hash16, tail: Position) -> Watch {
        let mut followed = self.0.lock();
        followed.retain(|_, sender| sender.receiver_count() > 0);
        let sender = followed.entry(name).or_insert_with(|| watch::channel(tail).0);
        let receiver = sender.subscribe();
        sender.send_if_modified(|known| {
            let moved = tail > *known;
            *known = tail.max(*known);
            moved
        });
        receiver
    }

    /// Returns the names of followed sessions.
    pub(super) fn followed(&self) -> Vec<Hash16> {
        let mut followed = self.0.lock();
        followed.retain(|_, sender| sender.receiver_count() > 0);
        followed.keys().copied().collect()
    }

    pub(super) fn is_followed(&self, name: Hash16) -> bool {
        self.0.lock().get(&name).is_some_and(|sender| sender.receiver_count() > 0)
    }

    /// Wakes readers of a session whose tail rose, or that ended.
    pub(super) fn announce(&self, name: Hash16, tail: Position, ended: bool) {
        let followed = self.0.lock();
        let Some(sender) = followed.get(&name) else { return };
        sender.send_if_modified(|known| {
            let moved = tail > *known;
            *known = tail.max(*known);
            moved || ended
        });
    }

    /// Wakes readers of a session that is gone.
    pub(super) fn announce_end(&self, name: Hash16) {
        if let Some(sender) = self.0.lock().get(&name) {
            sender.send_modify(|_| {});
        }
    }
}
