//! Release of unused sessions: closes their files, seals their open segments, and keeps only their
//! packed entries in memory. It must not evict a session in use.

use std::{io, sync::Arc, time::Duration};

use super::super::{catalogue::oldest_live_key_time, session::LoadedSession};
use super::Upkeep;
use crate::{
    env::sync::atomic::Ordering,
    log::{Entry, SegmentEntry},
};

/// Time without a write after which a session is idle, and time without use after which its files
/// are closed.
const IDLE_AFTER: Duration = Duration::from_secs(300);
/// Maximum number of sessions with files and names in memory, not counting those in flight.
const OPEN_SESSIONS_MAX: usize = 10_000;
/// Sessions examined for eviction per lock of the catalogue.
const EVICTED_AT_ONCE: usize = 256;
/// Evicted sessions examined in one round of sealing.
const LOOKED_AT_MAX: usize = 2_000;
/// Maximum sessions sealed in one round, and bytes: a flush may have to wait for them.
const SEALED_MAX: usize = 256;
const SEALED_BYTES_MAX: u64 = 32 << 20;

impl Upkeep {
    /// Evicts idle sessions, and probes a disk that failed.
    pub(crate) fn evict(&self) {
        self.sessions.journal.probe();
        self.removal.fill_reserve();
        if !self.sessions.reserve.is_released() {
            self.sessions.journal.check_space();
        }
        self.close_unused();
        self.evict_unused();
        let quiet =
            self.sessions.unflushed_bytes() <= self.context.options.journal_retained_bytes / 16;
        if quiet && let Err(error) = self.seal_evicted() {
            tracing::warn!(%error, "idle sessions are not sealed");
        }
    }

    /// Closes the files of sessions unused for long, and of those opened first if too many are
    /// open; the next caller opens them again.
    fn close_unused(&self) {
        let since = self.context.env.clock.monotonic().saturating_sub(IDLE_AFTER);
        let mut closed = 0;
        self.sessions.retain_opened(&mut |session, open| {
            let over = open.saturating_sub(OPEN_SESSIONS_MAX + closed);
            let mut state = session.state();
            let used = state.opened.as_ref().is_some_and(|opened| opened.used_at > since);
            let waits = state.is_in_flight() || !state.unflushed.is_empty();
            let close = (over > 0 || !used) && !waits;
            if close {
                closed += 1;
                state.opened = None;
            }
            !close
        });
    }

    /// Evicts loaded sessions that have no state besides their entry.
    fn evict_unused(&self) {
        if self.sessions.moving.is_walking() {
            return;
        }
        let live = oldest_live_key_time(&self.context.count, &*self.context.env.clock);
        let mut before = None;
        loop {
            before = self.sessions.catalogue_mut().evict(before.as_ref(), EVICTED_AT_ONCE, live);
            if before.is_none() {
                return;
            }
        }
    }

    /// Seals open segments of evicted sessions, some of them in each round.
    fn seal_evicted(&self) -> io::Result<()> {
        if self.context.frozen.load(Ordering::Acquire)
            || self.context.closed.load(Ordering::Acquire)
        {
            return Ok(());
        }
        let idle_micros = i64::try_from(IDLE_AFTER.as_micros()).unwrap_or(i64::MAX);
        let before = self.context.env.clock.now().plus_micros(-idle_micros);
        let policy = self.segments.policy(true);
        let wanted = |entry: Entry| {
            entry.updated_at < before.0
                && policy.choose_run(&entry.segments, &entry.damage).is_some()
        };
        let found = {
            let mut after = self.looked_to.lock();
            let catalogue = self.sessions.catalogue();
            let (found, stopped) =
                catalogue.find_evicted(after.as_ref(), LOOKED_AT_MAX, SEALED_MAX, &wanted);
            *after = stopped;
            found
        };
        self.seal_sessions(found.iter().filter_map(|key| self.sessions.session(key).ok()).collect())
    }

    /// Seals open segments of loaded sessions before the owner stops: at most one round, so that
    /// the stop stays short. A stop is clean without it.
    pub(crate) fn seal_before_stop(&self) {
        if self.context.frozen.load(Ordering::Acquire) {
            return;
        }
        let loaded = self.sessions.catalogue().all_loaded();
        if let Err(error) = self.seal_sessions(loaded) {
            tracing::warn!(%error, "what was left open is not sealed");
        }
    }

    fn seal_sessions(&self, sessions: Vec<Arc<LoadedSession>>) -> io::Result<()> {
        let _flushing = self.segments.flushing.lock();
        let mut bytes = 0;
        let mut runs = Vec::new();
        for session in sessions {
            let Some(run) = self.idle_run(&session) else { continue };
            bytes += run.iter().map(|one| one.bytes).sum::<u64>();
            if runs.len() >= SEALED_MAX || bytes > SEALED_BYTES_MAX && !runs.is_empty() {
                break;
            }
            runs.push((session, run));
        }
        self.segments.seal_runs(runs)
    }

    /// Returns segments of a flushed session that are worth sealing together.
    fn idle_run(&self, session: &LoadedSession) -> Option<Vec<SegmentEntry>> {
        let state = session.state();
        if !state.unflushed.is_empty()
            || state.entry.stage.is_discarded()
            || state.entry.stage.is_reclaimed()
        {
            return None;
        }
        self.segments.policy(true).choose_run(&state.entry.segments, &state.entry.damage)
    }
}
