//! What a session costs that nobody uses: its files are closed, what it left open on disk is
//! sealed, and of it only its packed entry stays in memory. It must not touch a session that
//! somebody uses.

use std::{io, sync::Arc, time::Duration};

use super::{Shared, catalogue::keys_live_from, lock, session::Session};
use crate::{
    env::sync::atomic::Ordering,
    event::SessionKey,
    log::{Entry, SegmentEntry},
};

/// A session is idle when nobody wrote to it, and its files are closed when nobody opened them, for
/// so long.
const IDLE_AFTER: Duration = Duration::from_secs(300);
/// So many sessions keep their files and names in memory, beside those with frames in flight.
const OPEN_SESSIONS_MAX: usize = 10_000;
/// Sessions that go to rest while the catalogue is locked once.
const REST_AT_ONCE: usize = 256;
/// Sessions at rest that are looked at in one round of sealing.
const LOOKED_AT_MAX: usize = 2_000;
/// Sessions sealed in one round, and bytes: what a settling may have to wait for.
const SEALED_MAX: usize = 256;
const SEALED_BYTES_MAX: u64 = 32 << 20;
/// Blocks of the file system: a smaller file takes no less.
const BLOCK_BYTES: u64 = 4096;
/// So much is sealed by itself; less waits for more, or for the next start.
const WORTH_BYTES: u64 = 32 << 10;

impl Shared {
    /// Brings to rest what is idle.
    pub(super) fn rest(&self) {
        self.unlink_replaced();
        self.close_unused();
        self.rest_unused();
        let quiet = self.pressure() <= self.options.journal_retained_bytes / 16;
        if quiet && let Err(error) = self.seal_resting() {
            tracing::warn!(%error, "idle sessions are not sealed");
        }
    }

    /// Forgets the files and names of sessions that nobody used for long, or that were opened
    /// longest ago when they are too many; the next caller opens them again.
    fn close_unused(&self) {
        let since = self.env.clock.monotonic().saturating_sub(IDLE_AFTER);
        // Whoever opens a session holds its lock when he comes for this one.
        let mut open = std::mem::take(&mut *lock(&self.in_use));
        let mut over = open.len().saturating_sub(OPEN_SESSIONS_MAX);
        open.retain(|session| {
            let mut state = session.state();
            let used = state.opened.as_ref().is_some_and(|opened| opened.used_at > since);
            let close = (over > 0 || !used) && state.unsettled.is_empty() && state.ahead.is_none();
            if close {
                over = over.saturating_sub(1);
                state.opened = None;
            }
            !close
        });
        let mut in_use = lock(&self.in_use);
        open.append(&mut in_use);
        *in_use = open;
    }

    /// Packs the entries of sessions of which nothing else is known.
    fn rest_unused(&self) {
        let live = keys_live_from(self.env.clock.now());
        let mut after: Option<SessionKey> = None;
        loop {
            after = self.catalogue_mut().rest(after.as_ref(), REST_AT_ONCE, live);
            if after.is_none() {
                return;
            }
        }
    }

    /// Seals what sessions at rest left open, some of them in each round.
    fn seal_resting(&self) -> io::Result<()> {
        if self.frozen.load(Ordering::Acquire) || self.closed.load(Ordering::Acquire) {
            return Ok(());
        }
        let idle_micros = i64::try_from(IDLE_AFTER.as_micros()).unwrap_or(i64::MAX);
        let before = self.env.clock.now().plus_micros(-idle_micros);
        let start = self.journal.start();
        let wanted = |entry: Entry| {
            let bytes_max = self.options.segment_bytes_max;
            entry.updated_at < before.0
                && entry.damage.is_empty()
                && worth_sealing(&entry.segments, start, bytes_max).is_some()
        };
        let found = {
            let mut after = lock(&self.looked_to);
            let catalogue = self.catalogue();
            let (found, stopped) =
                catalogue.find_resting(after.as_ref(), LOOKED_AT_MAX, SEALED_MAX, &wanted);
            *after = stopped;
            found
        };
        self.seal_idle(found.iter().filter_map(|key| self.session(key).ok()).collect())
    }

    /// Seals what the sessions in use left open, before the owner leaves: as much as one round
    /// takes, so that a stop stays short. A stop is clean without it.
    pub(super) fn seal_leaving(&self) {
        if self.frozen.load(Ordering::Acquire) {
            return;
        }
        let awake = self.catalogue().awake_all();
        if let Err(error) = self.seal_idle(awake) {
            tracing::warn!(%error, "what was left open is not sealed");
        }
    }

    fn seal_idle(&self, sessions: Vec<Arc<Session>>) -> io::Result<()> {
        let _settling = lock(&self.settling);
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
        self.seal_runs(runs)
    }

    /// What of a session that is settled is worth sealing together.
    fn idle_run(&self, session: &Session) -> Option<Vec<SegmentEntry>> {
        let state = session.state();
        if !state.entry.damage.is_empty() || !state.unsettled.is_empty() {
            return None;
        }
        let bytes_max = self.options.segment_bytes_max;
        worth_sealing(&state.entry.segments, self.journal.start(), bytes_max)
    }
}

/// The segments that are worth sealing together when nothing is added to them: open ones side by
/// side, and sealed ones of earlier starts before them that are not much larger, so that a session
/// has few segments and each byte is sealed a few times at most. A segment sealed in this start is
/// never sealed again: the new one would have its name.
fn worth_sealing(
    segments: &[SegmentEntry],
    start: u64,
    bytes_max: u64,
) -> Option<Vec<SegmentEntry>> {
    let first_time = segments.iter().all(|one| !one.sealed || one.start != start);
    let mut rest = segments;
    while let Some(sealed) = rest.iter().position(|one| !one.sealed) {
        let before = segments.len() - rest.len() + sealed;
        let (before, behind) = segments.split_at_checked(before)?;
        let mut open = 0;
        let fits = |one: &&SegmentEntry| {
            let first = open == 0;
            open += one.bytes;
            // The next segment of this start would have the name of one without an event.
            let named_again = one.start == start && one.end == one.base;
            !one.sealed && !named_again && (first || open <= bytes_max)
        };
        let run = behind.iter().take_while(fits).count();
        let (run, behind) = behind.split_at_checked(run)?;
        let open: u64 = run.iter().map(|one| one.bytes).sum();
        let mut bytes = open;
        let joins = |one: &&SegmentEntry| {
            let small = one.bytes <= 2 * bytes && bytes + one.bytes <= bytes_max;
            bytes += one.bytes;
            one.sealed && one.start != start && small
        };
        let joined = before.iter().rev().take_while(joins).count();
        let run = [before.get(before.len() - joined..).unwrap_or_default(), run].concat();
        let blocks: u64 = run.iter().map(|one| one.bytes.div_ceil(BLOCK_BYTES)).sum();
        let events = run.last()?.end > run.first()?.base;
        if events && (open >= WORTH_BYTES || (first_time && blocks > 1)) {
            return Some(run);
        }
        rest = behind;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments written as `o` or `s` for open or sealed, start, and KiB.
    fn segments(text: &str) -> Vec<SegmentEntry> {
        let one = |(n, text): (u64, &str)| {
            let (kind, numbers) = text.split_at(1);
            let (start, kib) = numbers.split_once(':').unwrap();
            let bytes = kib.parse::<u64>().unwrap() << 10;
            let start = start.parse().unwrap();
            SegmentEntry { base: n, start, sealed: kind == "s", bytes, end: n + 1 }
        };
        (0..).zip(text.split_whitespace()).map(one).collect()
    }

    #[test]
    fn what_is_sealed_together_grows_with_what_is_added() {
        for (text, expected) in [
            ("", ""),
            ("o7:4", ""),
            ("o7:5", "o7:5"),
            ("o6:1 o7:1", "o6:1 o7:1"),
            // It was sealed in this start: not again for little.
            ("s7:8 o7:8", ""),
            ("s7:8 o7:32", "o7:32"),
            ("s6:9 o7:5", "s6:9 o7:5"),
            // It is much larger than what is added.
            ("s6:90 o7:9", "o7:9"),
            ("s4:20 s5:9 s6:4 o7:5", "s4:20 s5:9 s6:4 o7:5"),
            ("s4:900 s5:9 s6:4 o7:5", "s5:9 s6:4 o7:5"),
            ("s4:900 s5:9 s6:4", ""),
            // What is sealed together stays within a segment's size.
            ("s4:5000 s5:3000 o7:2000", "s5:3000 o7:2000"),
            ("o7:9000", "o7:9000"),
            ("o6:8000 o7:900", "o6:8000"),
            ("s6:8000 o7:900", "o7:900"),
            // What is not worth it does not stand in the way of what is.
            ("o5:2 s7:9 o7:40", "o7:40"),
        ] {
            let found = worth_sealing(&segments(text), 7, 8 << 20).unwrap_or_default();
            let shape = |one: &SegmentEntry| (one.start, one.sealed, one.bytes);
            let found: Vec<_> = found.iter().map(shape).collect();
            let wanted: Vec<_> = segments(expected).iter().map(shape).collect();
            assert_eq!(found, wanted, "{text}");
        }
    }

    #[test]
    fn a_segment_whose_name_comes_again_is_not_sealed() {
        let mut entries = segments("o6:9 o7:1");
        if let Some(last) = entries.last_mut() {
            last.end = last.base;
        }
        let found = worth_sealing(&entries, 7, 8 << 20).unwrap_or_default();
        assert_eq!(found, entries.get(..1).unwrap_or_default());
        let later = worth_sealing(&entries, 8, 8 << 20).unwrap_or_default();
        assert_eq!(later, entries, "a later start gives other names");
    }
}
