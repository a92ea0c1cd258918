//! Health of the journal's disk: recent failures, the probe that ends a refusal of writes, space
//! for the next append, stalled writes. It must not refuse a write that the disk would accept.

use std::{io, time::Duration};

use tokio::runtime::Handle;

use super::{CommitterState, Journal, ring};
use crate::{env::sync::atomic::Ordering, store::Health};

/// Duration of a write or sync after which the disk counts as not ready.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// Mean duration of recent writes and syncs below which a disk is quick: docs/decisions/0097.
pub(super) const QUICK_MAX: Duration = Duration::from_micros(500);
/// Duration of a write in progress from which it stalls the worker that leads in place.
const STALL_MAX: Duration = Duration::from_millis(10);

impl<S> Journal<S> {
    /// Records the result of a write. Readiness reports the last one; after several failed syncs
    /// writes are refused until [`Self::probe`] succeeds.
    pub(super) fn record_write(&self, error: Option<&io::Error>) {
        let now = self.env.clock.monotonic();
        let mut writer = self.writer.lock();
        let mut trouble = self.trouble.lock();
        let refused = trouble.record_write(now, error, writer.failure_counts());
        writer.set_careful(trouble.has_recent_failure());
        if let Some(reason) = writer.foreign_evidence() {
            self.refuse(reason);
        } else if let Some(reason) = refused {
            self.refuse_for(reason, true);
        }
    }

    /// Probes the disk when it is due, with a separate file, never with one that failed, and
    /// accepts appends again if that file can be synced.
    pub(crate) fn probe(&self) {
        let now = self.env.clock.monotonic();
        if !self.trouble.lock().is_probe_due(now) {
            return;
        }
        let tried = ring::probe(&self.env);
        if let Err(error) = &tried {
            tracing::warn!(%error, "the disk still fails; the store stays read-only");
        }
        let mut writer = self.writer.lock();
        if !self.trouble.lock().record_probe(now, &tried) {
            return;
        }
        writer.reset_failures();
        if self.queue.lock().refuse.take_if(|refusal| refusal.passes).is_some() {
            tracing::info!("the disk syncs again; the store takes writes");
        }
    }

    /// Checks that the next append has space; if it had none, creates the ring file that the append
    /// would need. So readiness predicts the next append, and recovers without one.
    pub(crate) fn check_space(&self) {
        let now = self.env.clock.monotonic();
        if self.refusal_reason().is_some() || !self.trouble.lock().is_space_check_due(now) {
            return;
        }
        let mut writer = self.writer.lock();
        let known = self.trouble.lock().shortage();
        let found = if known.is_some() { writer.ensure_file() } else { writer.check_space() };
        match (known, &found) {
            (None, Ok(())) => return,
            (None, Err(error)) => tracing::warn!(%error, "there is no room for the next append"),
            (Some(_), Ok(())) => tracing::info!("there is room again: appends are taken"),
            (Some(_), Err(error)) => tracing::debug!(%error, "there is still no room"),
        }
        self.trouble.lock().record_space(now, found.as_ref().err());
    }

    /// Runs a write or sync; records its start for [`Self::stall_duration`] and its duration for
    /// [`Self::leads_in_place`].
    pub(super) fn run_timed<T>(&self, write: impl FnOnce() -> T) -> T {
        let start = self.monotonic_micros().max(1);
        self.busy_since.store(start, Ordering::Relaxed);
        let written = write();
        self.busy_since.store(0, Ordering::Relaxed);
        let micros = self.monotonic_micros().saturating_sub(start);
        let usual = self.usual_micros.load(Ordering::Relaxed);
        self.usual_micros.store(usual - usual / 8 + micros / 8, Ordering::Relaxed);
        written
    }

    fn monotonic_micros(&self) -> u64 {
        u64::try_from(self.env.clock.monotonic().as_micros()).unwrap_or(u64::MAX)
    }

    /// Returns true if a task may lead in place, on the worker of its runtime: recent writes took
    /// less than [`QUICK_MAX`], another worker can run other tasks, and the committer watches, to
    /// relieve a worker that stalls.
    pub(crate) fn leads_in_place(&self, runtime: &Handle) -> bool {
        let watched = || self.queue.lock().committer == CommitterState::Watching;
        let usual = Duration::from_micros(self.usual_micros.load(Ordering::Relaxed));
        let others = || runtime.metrics().num_workers() > 1;
        self.background && usual < QUICK_MAX && others() && watched()
    }

    /// Records the runtime of a task that leads in place.
    pub(crate) fn record_runtime(&self, runtime: Handle) {
        *self.runtime.lock() = Some(runtime);
    }

    /// Wakes another worker of the leader's runtime if its write stalls. The stalled worker may be
    /// the one that waited for sockets and timers; no other does so unless it is woken.
    pub(super) fn relieve_stalled_leader(&self) {
        if self.stall_duration() >= STALL_MAX
            && let Some(runtime) = &*self.runtime.lock()
        {
            drop(runtime.spawn(async {}));
        }
    }

    /// Returns the reason of the last failed write, if that was recent.
    fn recent_failure(&self) -> Option<String> {
        self.trouble.lock().recent_reason(self.env.clock.monotonic())
    }

    /// Returns whether appends are accepted, by the known state of the disk.
    pub(crate) fn health(&self) -> Health {
        if let Some(reason) = self.refusal_reason() {
            return Health::ReadOnly(reason);
        }
        if let Some(short) = self.trouble.lock().shortage() {
            return Health::Full(short);
        }
        if let Some(reason) = self.recent_failure() {
            return Health::ReadOnly(reason);
        }
        let silence = self.stall_duration();
        if silence < SILENCE_MAX { Health::Ready } else { Health::Silent(silence) }
    }

    /// Returns the duration of the write or sync in progress; zero if none is.
    fn stall_duration(&self) -> Duration {
        match self.busy_since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            micros => self.env.clock.monotonic().saturating_sub(Duration::from_micros(micros)),
        }
    }
}
