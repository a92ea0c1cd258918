//! How long sessions live: the limits, which of them is in force, and the time they are measured
//! by, which never runs early. Pure but for the clock it is handed; it must not know an engine.

use std::time::Duration;

use crate::{
    env::{
        Clock,
        sync::{Mutex, MutexGuard, Rank},
    },
    event::Timestamp,
};

/// The last use is known no finer than this part of the limit in force.
const GRAINS: u32 = 16;
/// Nor coarser than this.
const GRAIN_MAX: Duration = Duration::from_secs(3_600);
/// Time switched off counts up to this; longer, and nothing tells a long rest from a clock that is
/// wrong, so none of it counts.
const OFF_MICROS_MAX: i64 = 24 * 3_600 * 1_000_000;
/// Wall and monotonic clock part by this much when one of them was set, or the machine slept.
const JUMP_MICROS: i64 = 60 * 1_000_000;

/// What an operator decides about idle sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// Idle for longer, a session's facts leave memory and it is no longer offered to callers
    /// without an id; by id it answers. Default 4 h, 0 for never.
    pub hot: Duration,
    /// Idle for longer, a session expires, unless it has a limit of its own. Default 30 days, 0
    /// keeps it without end.
    pub retention: Duration,
    /// How long an expired session without a limit of its own can be restored; then its files are
    /// removed. Default 0: without end.
    pub purge: Duration,
    /// The same for an expired session with a limit of its own, and how long the id of a deleted
    /// session is not given again. Default 7 days.
    pub grace: Duration,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Lifetimes {
    /// What holds unless a setting says otherwise.
    pub const DEFAULT: Self = Self {
        hot: Duration::from_secs(4 * 3_600),
        retention: Duration::from_secs(30 * 24 * 3_600),
        purge: Duration::ZERO,
        grace: Duration::from_secs(7 * 24 * 3_600),
    };

    /// The limit in force for a session, given its own; `None` keeps it without end.
    #[must_use]
    pub fn limit(&self, ttl_seconds: Option<u64>) -> Option<Duration> {
        let limit = ttl_seconds.map_or(self.retention, Duration::from_secs);
        Some(limit).filter(|limit| !limit.is_zero())
    }

    /// How coarse the last use of a session is noted. It is added to every limit.
    #[must_use]
    pub fn grain(&self, ttl_seconds: Option<u64>) -> Duration {
        let hot = Some(self.hot).filter(|hot| !hot.is_zero());
        let finest = self.limit(ttl_seconds).into_iter().chain(hot).min();
        finest.map_or(GRAIN_MAX, |limit| GRAIN_MAX.min(limit / GRAINS))
    }

    /// When a session expires that was used last at `used_at`, unless it is used again.
    #[must_use]
    pub fn expires_at(&self, ttl_seconds: Option<u64>, used_at: Timestamp) -> Option<Timestamp> {
        let limit = self.limit(ttl_seconds)?.saturating_add(self.grain(ttl_seconds));
        Some(used_at.plus_micros(micros(limit)))
    }

    /// When the files of a session are removed that was deleted at `used_at`.
    #[must_use]
    pub fn deleted_goes_at(&self, used_at: Timestamp) -> Timestamp {
        used_at.plus_micros(micros(self.grace))
    }

    /// When the files of a session are removed that expired at `used_at`; `None` keeps them
    /// without end. A limit of its own makes a session a temporary one.
    #[must_use]
    pub fn expired_goes_at(
        &self,
        ttl_seconds: Option<u64>,
        used_at: Timestamp,
    ) -> Option<Timestamp> {
        let temporary = ttl_seconds.is_some_and(|seconds| seconds > 0);
        let after = if temporary { self.grace } else { self.purge };
        (temporary || !after.is_zero()).then(|| used_at.plus_micros(micros(after)))
    }

    /// Whether a session used last at `used_at` is offered to callers without an id.
    #[must_use]
    pub fn is_hot(&self, ttl_seconds: Option<u64>, used_at: Timestamp, now: Timestamp) -> bool {
        let limit = self.hot.saturating_add(self.grain(ttl_seconds));
        self.hot.is_zero() || now <= used_at.plus_micros(micros(limit))
    }
}

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
