//! Maintenance, in the background or on request: flushing in time, sweeps, scrubbing, repairs,
//! backups, the end. It must not answer a request for events.

pub(super) mod backup;
pub(super) mod erase;
pub(super) mod evict;
pub(super) mod lifetimes;
pub(super) mod repair;
pub(super) mod scrub;
pub(super) mod strays;

use std::{ops::Range, sync::Arc};

use bytes::Bytes;

use super::{
    catalogue::sessions::Sessions,
    commit::CommitPath,
    context::EngineContext,
    removal::Removal,
    segments::Segments,
    wait::{Signal, Waited},
};
use crate::{
    env::sync::Mutex,
    event::SessionKey,
    store::{Recovery, Scrub},
};

/// Losses that a start found and no person gave up yet.
#[derive(Default)]
pub(super) struct UnresolvedLosses {
    /// Copies to be kept: name and bytes.
    pub(super) copies: Vec<(String, Bytes)>,
    /// Losses that name no session: while there are any, the store takes no writes.
    pub(super) unnamed: Vec<String>,
    /// Files of the ring that are not what they were.
    pub(super) ring: Vec<Range<u32>>,
}

/// Maintenance of a store.
pub(super) struct Upkeep {
    pub(super) context: Arc<EngineContext>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) segments: Arc<Segments>,
    pub(super) removal: Arc<Removal>,
    pub(super) commit: Arc<CommitPath>,
    /// Places where the last rounds over evicted sessions stopped.
    pub(super) looked_to: Mutex<Option<SessionKey>>,
    pub(super) swept_to: Mutex<Option<SessionKey>>,
    /// Ends the scrubber.
    pub(super) scrubber: Signal,
    /// Result of the last scrub.
    pub(super) scrubbed: Mutex<Scrub>,
    /// Held by a repair of the store or a rotation of keys, and by the close that ends all of them.
    pub(super) repairing: Mutex<()>,
    pub(super) refused: Mutex<UnresolvedLosses>,
    /// Report of the start.
    pub(super) recovery: Recovery,
}

impl Upkeep {
    /// Flushes when the waiting bytes exceed the threshold, or when no caller wrote for a while: a
    /// sync of segments between two of the journal is time that a writer waits.
    pub(super) fn flush_in_background(&self) {
        self.removal.keep_reserve();
        self.sessions.journal.look_for_room();
        let mut written = 0;
        loop {
            let woken = match self.sessions.flusher.work(self.context.options.settle_after) {
                Waited::Stopped => return,
                waited => waited == Waited::Woken,
            };
            let before = std::mem::replace(&mut written, self.sessions.journal.written());
            let flush = self.sessions.is_pressed() || !woken && before == written;
            if flush {
                // A failure is logged there; the next try comes with the timer.
                let _ = self.removal.flush(false);
            }
            if flush || !woken {
                self.evict();
            }
        }
    }

    /// Ends all writing, flushes into both files, and says that the stop was clean.
    pub(super) fn close(&self) {
        self.sessions.journal.refuse("the store is closed");
        self.sessions.journal.drain(&*self.sessions);
        let settled = self.removal.flush(false).and_then(|()| {
            self.seal_leaving();
            (0..2).try_for_each(|_| self.removal.flush(false))
        });
        let clean = settled.and_then(|()| (0..2).try_for_each(|_| self.removal.flush(true)));
        if let Err(error) = clean {
            tracing::warn!(%error, "the store could not be flushed while closing; a start replays");
        }
    }
}
