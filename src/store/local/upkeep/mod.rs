//! Maintenance, in the background or on request: timely flushes, sweeps, scrubbing, repairs,
//! backups, closing. It must not append or read events for clients.

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
    wait::{ThreadSignal, WaitOutcome},
};
use crate::{
    env::sync::Mutex,
    event::SessionKey,
    store::{Recovery, ScrubResult},
};

/// Losses that a start found and no operator accepted yet.
#[derive(Default)]
pub(super) struct UnresolvedLosses {
    /// Copies to be written to quarantine: name and bytes.
    pub(super) copies: Vec<(String, Bytes)>,
    /// Losses that name no session; unless empty, the store refuses writes.
    pub(super) unnamed: Vec<String>,
    /// Numbers of damaged or missing files of the ring.
    pub(super) ring: Vec<Range<u32>>,
}

/// Parts of a store for its maintenance.
pub(super) struct Upkeep {
    pub(super) context: Arc<EngineContext>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) segments: Arc<Segments>,
    pub(super) removal: Arc<Removal>,
    pub(super) commit: Arc<CommitPath>,
    /// Keys at which the last rounds over evicted sessions stopped.
    pub(super) looked_to: Mutex<Option<SessionKey>>,
    pub(super) swept_to: Mutex<Option<SessionKey>>,
    /// Signal that ends the scrub thread.
    pub(super) scrubber: ThreadSignal,
    /// Result of the last scrub.
    pub(super) scrubbed: Mutex<ScrubResult>,
    /// Held by a repair of the store or a rotation of keys, and by closing, which waits for them.
    pub(super) repairing: Mutex<()>,
    pub(super) refused: Mutex<UnresolvedLosses>,
    /// Report on recovery at the start.
    pub(super) recovery: Recovery,
}

impl Upkeep {
    /// Runs the flush thread: flushes when the unflushed bytes exceed the threshold, or when no
    /// caller wrote for a while, since syncs of segments delay writers of the journal.
    pub(super) fn flush_in_background(&self) {
        self.removal.fill_reserve();
        self.sessions.journal.check_space();
        let mut written = 0;
        loop {
            let woken = match self.sessions.flusher.wait_for_work(self.context.options.settle_after)
            {
                WaitOutcome::Stopped => return,
                waited => waited == WaitOutcome::Woken,
            };
            let before = std::mem::replace(&mut written, self.sessions.journal.written_bytes());
            let flush = self.sessions.needs_flush() || !woken && before == written;
            if flush {
                // A failure is logged there; the timer triggers the retry.
                let _ = self.removal.flush(false);
            }
            if flush || !woken {
                self.evict();
            }
        }
    }

    /// Stops all writes, flushes to both settled files, and records a clean stop.
    pub(super) fn close(&self) {
        self.sessions.journal.refuse("the store is closed");
        self.sessions.journal.drain(&*self.sessions);
        let settled = self.removal.flush(false).and_then(|()| {
            self.seal_before_stop();
            (0..2).try_for_each(|_| self.removal.flush(false))
        });
        let clean = settled.and_then(|()| (0..2).try_for_each(|_| self.removal.flush(true)));
        if let Err(error) = clean {
            tracing::warn!(%error, "the store could not be flushed while closing; a start replays");
        }
    }
}
