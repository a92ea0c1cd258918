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

/// What a store keeps of its count of time over a stop.
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

/// Where the clocks stood together.
struct Anchor {
    counted: i64,
    wall: i64,
    monotonic: i64,
    /// The largest count given out.
    latest: i64,
    seen: i64,
    /// What a crash would leave of the count.
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
            seen: see(told.seen.0, wall),
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

    /// What to keep of it.
    #[must_use]
    pub fn state(&self, clock: &dyn Clock) -> CountState {
        let (wall, monotonic) = (clock.now().0, micros(clock.monotonic()));
        let mut anchor = self.anchor();
        let walked = wall.saturating_sub(anchor.wall);
        let lived = monotonic.saturating_sub(anchor.monotonic).max(0);
        let counted = anchor.counted.saturating_add(walked.clamp(0, lived));
        anchor.latest = anchor.latest.max(counted);
        anchor.seen = see(anchor.seen, wall);
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
fn see(seen: i64, wall: i64) -> i64 {
    let small_step_back = wall < seen && seen.saturating_sub(wall) <= OFF_MICROS_MAX;
    if small_step_back { seen } else { wall }
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use super::*;
    use crate::env::sim::ManualClock;

    const HOUR: i64 = 3_600 * 1_000_000;
    const YEARS: i64 = 10 * 365 * 24 * HOUR;

    fn hours(count: u64) -> Duration {
        Duration::from_secs(count * 3_600)
    }

    fn jump(clock: &ManualClock, by: i64) {
        clock.set(clock.now().plus_micros(by));
    }

    /// Hours counted of some steps: `+n` hours pass, `~n` hours pass unseen by the monotonic clock
    /// (the wall clock was set, or the machine slept), `|` a stop and a start.
    fn counted(steps: &str) -> i64 {
        let clock = ManualClock::default();
        let began = clock.now().0;
        let mut count = Count::begin(&clock);
        for step in steps.split_whitespace() {
            match step.split_at(1) {
                ("+", number) => clock.advance(hours(number.parse().expect("hours"))),
                ("~", number) => jump(&clock, number.parse::<i64>().expect("hours") * HOUR),
                _ => count = Count::resume(&clock, count.state(&clock), &[]),
            }
            let _ = count.now(&clock);
        }
        (count.now(&clock).0 - began) / HOUR
    }

    #[test]
    fn only_time_that_was_lived_through_counts_while_a_store_runs() {
        for (steps, expected) in [
            ("", 0),
            ("+5", 5),
            ("+5 +700", 705),
            ("~87600", 0),
            ("~87600 +5", 5),
            ("+5 ~87600 +5 ~-87600 +5", 15),
            ("~-87600 +5", 5),
            ("+1 ~-87600 +2 ~87600 +3", 6),
            ("~1 +5", 5),
            ("~-1 +5", 5),
            ("~8 +1 ~-8 +1 ~8 +1 ~-8 +1", 4),
        ] {
            assert_eq!(counted(steps), expected, "{steps:?}");
        }
    }

    #[test]
    fn of_time_switched_off_a_day_counts_and_a_clock_that_swings_counts_once() {
        let off = |by: i64| {
            let clock = ManualClock::default();
            let count = Count::begin(&clock);
            let told = count.state(&clock);
            jump(&clock, by);
            let after = Count::resume(&clock, told, &[]).now(&clock);
            after.0 - told.counted.0
        };
        for (by, expected) in [
            (0, 0),
            (HOUR, HOUR),
            (24 * HOUR, 24 * HOUR),
            (24 * HOUR + 1, 0),
            (YEARS, 0),
            (-HOUR, 0),
            (-YEARS, 0),
        ] {
            assert_eq!(off(by), expected, "{by}");
        }
        // Two systems on one machine that disagree about its time zone.
        let clock = ManualClock::default();
        let mut told = Count::begin(&clock).state(&clock);
        let began = told.counted;
        for _ in 0..100 {
            for by in [8 * HOUR, -8 * HOUR] {
                jump(&clock, by);
                told = Count::resume(&clock, told, &[]).state(&clock);
            }
        }
        assert_eq!(told.counted.0 - began.0, 8 * HOUR);
    }

    #[test]
    fn a_clock_that_was_years_ahead_counts_again_when_it_is_right() {
        let clock = ManualClock::default();
        let count = Count::begin(&clock);
        jump(&clock, YEARS);
        let told = count.state(&clock);
        jump(&clock, -YEARS);
        let count = Count::resume(&clock, told, &[]);
        clock.advance(hours(3));
        let told = count.state(&clock);
        jump(&clock, 5 * HOUR);
        let counted = Count::resume(&clock, told, &[]).now(&clock);
        assert_eq!(counted.0 - ManualClock::default().now().0, 8 * HOUR);
    }

    #[test]
    fn what_was_written_within_a_day_that_was_lived_through_is_within_it_however_clocks_jump() {
        const DAY: i64 = 24 * HOUR;
        let clock = ManualClock::default();
        let mut count = Count::begin(&clock);
        let (mut written, mut before) = (Vec::new(), Vec::new());
        // Hours that pass, hours that the wall clock jumps, and whether a stop comes with it.
        let steps = [(5, 0), (1, 87_600), (20, 0), (3, -3), (1, 100), (2, 8), (2, -8), (30, 0)];
        for (n, (pass, by)) in steps.iter().cycle().take(40).enumerate() {
            clock.advance(hours(*pass));
            let counted = count.now(&clock).0;
            written.push((counted, clock.now().0));
            before.push((counted, clock.now().0));
            jump(&clock, by * HOUR);
            if n % 3 == 1 {
                count = Count::resume(&clock, count.state(&clock), &before);
            }
            let (now, from) = (count.now(&clock).0, count.earliest(&clock, DAY).0);
            for (at, wall) in &written {
                assert!(now - at > DAY || *wall >= from, "step {n}: written at {at}, it is {now}");
            }
        }
        clock.advance(hours(48));
        assert_eq!(count.earliest(&clock, DAY).0, clock.now().0 - DAY, "without jumps it is a day");
    }
}
