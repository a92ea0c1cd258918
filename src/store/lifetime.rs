//! The time by which lives of sessions are measured, which never runs early. It must not know how
//! long a session lives (`rules` does), nor an engine.

use std::time::Duration;

use crate::{
    env::{
        Clock,
        sync::{Mutex, MutexGuard, Rank},
    },
    event::Timestamp,
};

/// Time switched off counts up to this; longer, and nothing tells a long rest from a clock that is
/// wrong, so none of it counts.
const OFF_MICROS_MAX: i64 = 24 * 3_600 * 1_000_000;
/// Wall and monotonic clock part by this much when one of them was set, or the machine slept.
const JUMP_MICROS: i64 = 60 * 1_000_000;

/// A duration in microseconds, saturating.
#[must_use]
pub fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// State of the count of time that a store keeps over a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountState {
    /// The count.
    pub counted: Timestamp,
    /// The latest the wall clock said; a step back of more than a day forgets it.
    pub seen: Timestamp,
}

/// Counts the time a store has lived through: never faster than the monotonic clock while it runs,
/// and over a stop what the wall clock says beyond all it ever said, up to a day. A wall clock that
/// jumps by years moves it by nothing, so what is measured by it never ends early. It may end
/// late: time a machine slept, or was off for longer than a day, does not count.
pub struct Count(Mutex<Anchor>);

/// Readings of the clocks at one moment.
struct Anchor {
    counted: i64,
    wall: i64,
    monotonic: i64,
    /// The largest count given out.
    latest: i64,
    seen: i64,
    /// The count as a crash would leave it.
    kept: i64,
    /// Between two jumps of the wall clock it is ahead of the count by as much: from which count
    /// on, and how far. The oldest first, never empty.
    stretches: Vec<(i64, i64)>,
}

impl Count {
    /// A count that continues from what was kept; `before` has counts and what the wall clock said
    /// at each, the oldest first.
    #[must_use]
    pub fn resume(clock: &dyn Clock, told: CountState, before: &[(i64, i64)]) -> Self {
        let wall = clock.now().0;
        let off = wall.saturating_sub(told.seen.0);
        let believed = if (0..=OFF_MICROS_MAX).contains(&off) { off } else { 0 };
        let counted = told.counted.0.saturating_add(believed);
        let mut stretches = Vec::new();
        for (counted, wall) in before.iter().copied().chain([(counted, wall)]) {
            stretch(&mut stretches, counted, wall);
        }
        let anchor = Anchor {
            stretches,
            counted,
            wall,
            monotonic: micros(clock.monotonic()),
            latest: counted,
            seen: believed_wall_time(told.seen.0, wall),
            kept: told.counted.0,
        };
        Self(Mutex::new(Rank::LAST, anchor))
    }

    /// A count that begins now.
    #[must_use]
    pub fn begin(clock: &dyn Clock) -> Self {
        let now = clock.now();
        Self::resume(clock, CountState { counted: now, seen: now }, &[])
    }

    /// The earliest that the wall clock said within the last `micros` of the count: what was
    /// written then has no earlier time, however the clock jumped since.
    #[must_use]
    pub fn earliest(&self, clock: &dyn Clock, micros: i64) -> Timestamp {
        let from = self.now(clock).0.saturating_sub(micros);
        let stretches = &mut self.anchor().stretches;
        let over = stretches.partition_point(|(start, _)| *start <= from).saturating_sub(1);
        stretches.drain(..over);
        let said = stretches.iter().map(|(start, ahead)| from.max(*start).saturating_add(*ahead));
        Timestamp(said.min().unwrap_or(from))
    }

    /// The time counted so far.
    #[must_use]
    pub fn now(&self, clock: &dyn Clock) -> Timestamp {
        self.state(clock).counted
    }

    /// State to keep of it.
    #[must_use]
    pub fn state(&self, clock: &dyn Clock) -> CountState {
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
            stretch(&mut anchor.stretches, counted, wall);
        }
        CountState { counted: Timestamp(anchor.latest), seen: Timestamp(anchor.seen) }
    }

    /// Notes that this was kept.
    pub fn keep(&self, told: CountState) {
        self.anchor().kept = told.counted.0;
    }

    /// The microseconds that a crash would lose.
    #[must_use]
    pub fn at_stake(&self, clock: &dyn Clock) -> i64 {
        let counted = self.now(clock).0;
        counted.saturating_sub(self.anchor().kept)
    }

    fn anchor(&self) -> MutexGuard<'_, Anchor> {
        self.0.lock()
    }
}

/// Notes what the wall clock said at a count, where it jumped.
fn stretch(stretches: &mut Vec<(i64, i64)>, counted: i64, wall: i64) {
    let ahead = wall.saturating_sub(counted);
    let jumped =
        |(_, last): &(i64, i64)| ahead.saturating_sub(*last).saturating_abs() > JUMP_MICROS;
    if stretches.last().is_none_or(jumped) {
        // Before the first nothing is known to have jumped.
        let from = if stretches.is_empty() { i64::MIN } else { counted };
        stretches.push((from, ahead));
    }
}

/// The latest wall time believed, after the clock said `wall`.
fn believed_wall_time(seen: i64, wall: i64) -> i64 {
    let small_step_back = wall < seen && seen.saturating_sub(wall) <= OFF_MICROS_MAX;
    if small_step_back { seen } else { wall }
}
