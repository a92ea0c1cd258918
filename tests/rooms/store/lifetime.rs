//! Lifetimes of sessions, and the count of time that they are measured by.

use std::time::Duration;

use sessionlog::{
    env::Clock as _,
    event::Timestamp,
    store::{Lifetimes, lifetime::LifetimeClock},
};
use sessionlog_sim::ManualClock;

const HOUR: i64 = 3_600 * 1_000_000;
const YEARS: i64 = 10 * 365 * 24 * HOUR;

fn hours(count: u64) -> Duration {
    Duration::from_secs(count * 3_600)
}

fn jump_clock(clock: &ManualClock, by: i64) {
    clock.set(clock.now().plus_micros(by));
}

/// Returns the hours counted over some steps: `+n` hours pass, `~n` hours pass unseen by the
/// monotonic clock (the wall clock was set, or the machine slept), `|` a stop and a start.
fn counted(steps: &str) -> i64 {
    let clock = ManualClock::default();
    let began = clock.now().0;
    let mut count = LifetimeClock::begin(&clock);
    for step in steps.split_whitespace() {
        match step.split_at(1) {
            ("+", number) => clock.advance(hours(number.parse().expect("hours"))),
            ("~", number) => jump_clock(&clock, number.parse::<i64>().expect("hours") * HOUR),
            _ => count = LifetimeClock::resume(&clock, count.state(&clock), &[]),
        }
        let _ = count.now(&clock);
    }
    (count.now(&clock).0 - began) / HOUR
}

#[test]
fn a_running_store_counts_only_its_running_time() {
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
fn at_most_a_day_of_downtime_is_counted_and_clock_swings_once() {
    let off = |by: i64| {
        let clock = ManualClock::default();
        let count = LifetimeClock::begin(&clock);
        let told = count.state(&clock);
        jump_clock(&clock, by);
        let after = LifetimeClock::resume(&clock, told, &[]).now(&clock);
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
    let mut told = LifetimeClock::begin(&clock).state(&clock);
    let began = told.counted;
    for _ in 0..100 {
        for by in [8 * HOUR, -8 * HOUR] {
            jump_clock(&clock, by);
            told = LifetimeClock::resume(&clock, told, &[]).state(&clock);
        }
    }
    assert_eq!(told.counted.0 - began.0, 8 * HOUR);
}

#[test]
fn counting_resumes_after_a_clock_years_ahead_is_corrected() {
    let clock = ManualClock::default();
    let count = LifetimeClock::begin(&clock);
    jump_clock(&clock, YEARS);
    let told = count.state(&clock);
    jump_clock(&clock, -YEARS);
    let count = LifetimeClock::resume(&clock, told, &[]);
    clock.advance(hours(3));
    let told = count.state(&clock);
    jump_clock(&clock, 5 * HOUR);
    let counted = LifetimeClock::resume(&clock, told, &[]).now(&clock);
    assert_eq!(counted.0 - ManualClock::default().now().0, 8 * HOUR);
}

#[test]
fn the_earliest_wall_time_covers_the_last_counted_day_despite_clock_jumps() {
    const DAY: i64 = 24 * HOUR;
    let clock = ManualClock::default();
    let mut count = LifetimeClock::begin(&clock);
    let (mut written, mut before) = (Vec::new(), Vec::new());
    // Elapsed hours, hours that the wall clock jumps, and true for a stop.
    let steps = [(5, 0), (1, 87_600), (20, 0), (3, -3), (1, 100), (2, 8), (2, -8), (30, 0)];
    for (n, (pass, by)) in steps.iter().cycle().take(40).enumerate() {
        clock.advance(hours(*pass));
        let counted = count.now(&clock).0;
        written.push((counted, clock.now().0));
        before.push((counted, clock.now().0));
        jump_clock(&clock, by * HOUR);
        if n % 3 == 1 {
            count = LifetimeClock::resume(&clock, count.state(&clock), &before);
        }
        let (now, from) = (count.now(&clock).0, count.earliest_wall_time(&clock, DAY).0);
        for (at, wall) in &written {
            assert!(now - at > DAY || *wall >= from, "step {n}: written at {at}, it is {now}");
        }
    }
    clock.advance(hours(48));
    assert_eq!(
        count.earliest_wall_time(&clock, DAY).0,
        clock.now().0 - DAY,
        "without jumps it is a day"
    );
}

#[test]
fn the_limit_of_a_session_replaces_the_default_and_the_grain_is_added_to_it() {
    let lifetimes = Lifetimes::default();
    let start = Timestamp(0);
    let expires = |ttl| lifetimes.expires_at(ttl, start).map(|at| at.0);
    assert_eq!(expires(None), Some(720 * HOUR + HOUR / 4));
    assert_eq!(expires(Some(0)), None);
    assert_eq!(expires(Some(3_600)), Some(HOUR + HOUR / 16));
    assert_eq!(expires(Some(u64::MAX)), Some(i64::MAX));
    let for_ever = Lifetimes { retention: Duration::ZERO, ..lifetimes };
    assert_eq!(for_ever.expires_at(None, start), None);
    assert_eq!(for_ever.expires_at(Some(16), start), Some(Timestamp(17_000_000)));
    for (idle, hot) in [(0, true), (4 * HOUR + HOUR / 4, true), (5 * HOUR, false)] {
        assert_eq!(lifetimes.is_hot(None, start, Timestamp(idle)), hot, "{idle}");
    }
    let goes = |lifetimes: Lifetimes, ttl| lifetimes.expired_reclaim_at(ttl, start).map(|at| at.0);
    assert_eq!(goes(lifetimes, None), None, "an expired session stays without end");
    assert_eq!(goes(lifetimes, Some(0)), None);
    assert_eq!(goes(lifetimes, Some(60)), Some(168 * HOUR), "a temporary one does not");
    let purged = Lifetimes { purge: hours(2), ..lifetimes };
    assert_eq!(goes(purged, None), Some(2 * HOUR));
    let never = Lifetimes { hot: Duration::ZERO, ..lifetimes };
    assert!(never.is_hot(None, start, Timestamp(i64::MAX)));
}
