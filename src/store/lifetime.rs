//! The clock by which lifetimes of sessions are measured, which never runs early. It must not know
//! how long a session lives (`rules` does), nor depend on an engine.

use std::time::Duration;

use crate::{
    env::{
        Clock,
        sync::{Mutex, MutexGuard, Rank},
    },
    event::Timestamp,
};

/// Maximum downtime that is counted: a longer one cannot be distinguished from a wrong clock, so
/// none of it counts.
const OFF_MICROS_MAX: i64 = 24 * 3_600 * 1_000_000;
/// Divergence of wall and monotonic clock after which one was set, or the machine slept.
const JUMP_MICROS: i64 = 60 * 1_000_000;

/// Converts a duration to microseconds, saturating.
#[must_use]
pub fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// State of the count that a store keeps across a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifetimeClockState {
    /// The counted time.
    pub counted: Timestamp,
    /// The latest wall time seen; a step back of more than a day resets it.
    pub seen: Timestamp,
}

/// Counts the running time of a store: never faster than the monotonic clock while it runs, and
/// across a stop by how far the wall clock exceeds every earlier reading, up to a day. A wall clock
/// that jumps by years does not move it, so nothing measured by it ends early. It may end late:
/// time a machine slept, or was off for longer than a day, does not count.
pub struct LifetimeClock(Mutex<ClockReadings>);

/// Readings of the clocks at one moment.
struct ClockReadings {
    counted: i64,
    wall: i64,
    monotonic: i64,
    /// The largest count returned.
    latest: i64,
    seen: i64,
    /// Count stored last: the one that is left after a crash.
    kept: i64,
    /// Offsets of the wall clock from the count, one for each stretch between two jumps: the count
    /// at its start, and the offset. The oldest first, never empty.
    stretches: Vec<(i64, i64)>,
}

impl LifetimeClock {
    /// Continues a count from its stored state; `before` has earlier counts with the wall time at
    /// each, the oldest first.
    #[must_use]
    pub fn resume(clock: &dyn Clock, stored: LifetimeClockState, before: &[(i64, i64)]) -> Self {
        let wall = clock.now().0;
        let off = wall.saturating_sub(stored.seen.0);
        let believed = if (0..=OFF_MICROS_MAX).contains(&off) { off } else { 0 };
        let counted = stored.counted.0.saturating_add(believed);
        let mut stretches = Vec::new();
        for (counted, wall) in before.iter().copied().chain([(counted, wall)]) {
            record_jump(&mut stretches, counted, wall);
        }
        let anchor = ClockReadings {
            stretches,
            counted,
            wall,
            monotonic: micros(clock.monotonic()),
            latest: counted,
            seen: believed_wall_time(stored.seen.0, wall),
            kept: stored.counted.0,
        };
        Self(Mutex::new(Rank::LAST, anchor))
    }

    /// Starts a count at the current time.
    #[must_use]
    pub fn begin(clock: &dyn Clock) -> Self {
        let now = clock.now();
        Self::resume(clock, LifetimeClockState { counted: now, seen: now }, &[])
    }

    /// Returns the earliest wall time within the last `micros` of the count: records written since
    /// then have no earlier time, regardless of clock jumps.
    #[must_use]
    pub fn earliest_wall_time(&self, clock: &dyn Clock, micros: i64) -> Timestamp {
        let from = self.now(clock).0.saturating_sub(micros);
        let stretches = &mut self.anchor().stretches;
        let over = stretches.partition_point(|(start, _)| *start <= from).saturating_sub(1);
        stretches.drain(..over);
        let times = stretches.iter().map(|(start, ahead)| from.max(*start).saturating_add(*ahead));
        Timestamp(times.min().unwrap_or(from))
    }

    /// Returns the time counted so far.
    #[must_use]
    pub fn now(&self, clock: &dyn Clock) -> Timestamp {
        self.state(clock).counted
    }

    /// Returns its state, to be stored.
    #[must_use]
    pub fn state(&self, clock: &dyn Clock) -> LifetimeClockState {
        let (wall, monotonic) = (clock.now().0, micros(clock.monotonic()));
        let mut anchor = self.anchor();
        let walked = wall.saturating_sub(anchor.wall);
        let lived = monotonic.saturating_sub(anchor.monotonic).max(0);
        let counted = anchor.counted.saturating_add(walked.clamp(0, lived));
        anchor.latest = anchor.latest.max(counted);
        anchor.seen = believed_wall_time(anchor.seen, wall);
        if walked.saturating_sub(lived).saturating_abs() > JUMP_MICROS {
            let counted = anchor.latest;
            (anchor.counted, anchor.wall, anchor.monotonic) = (counted, wall, monotonic);
            record_jump(&mut anchor.stretches, counted, wall);
        }
        LifetimeClockState { counted: Timestamp(anchor.latest), seen: Timestamp(anchor.seen) }
    }

    /// Records that this state was stored.
    pub fn mark_stored(&self, stored: LifetimeClockState) {
        self.anchor().kept = stored.counted.0;
    }

    /// Returns the microseconds that a crash would lose.
    #[must_use]
    pub fn unstored_micros(&self, clock: &dyn Clock) -> i64 {
        let counted = self.now(clock).0;
        counted.saturating_sub(self.anchor().kept)
    }

    fn anchor(&self) -> MutexGuard<'_, ClockReadings> {
        self.0.lock()
    }
}

/// Records the wall time at a count, if the clock jumped.
fn record_jump(stretches: &mut Vec<(i64, i64)>, counted: i64, wall: i64) {
    let ahead = wall.saturating_sub(counted);
    let jumped =
        |(_, last): &(i64, i64)| ahead.saturating_sub(*last).saturating_abs() > JUMP_MICROS;
    if stretches.last().is_none_or(jumped) {
        // Before the first stretch no jump is known.
        let from = if stretches.is_empty() { i64::MIN } else { counted };
        stretches.push((from, ahead));
    }
}

/// Returns the latest wall time to trust after a reading of `wall`.
fn believed_wall_time(seen: i64, wall: i64) -> i64 {
    let small_step_back = wall < seen && seen.saturating_sub(wall) <= OFF_MICROS_MAX;
    if small_step_back { seen } else { wall }
}
