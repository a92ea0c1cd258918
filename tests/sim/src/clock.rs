//! A manual clock and randomness from a seed. It must not read those of the machine.

use std::{
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
    time::Duration,
};

use sessionlog::{
    env::{Clock, Entropy},
    event::Timestamp,
};

/// Start of a manual clock: 2026-01-01T00:00:00Z.
const START_MICROS: i64 = 1_767_225_600_000_000;

/// A clock that advances only when a test advances it.
#[derive(Debug)]
pub struct ManualClock {
    wall_micros: AtomicI64,
    monotonic_nanos: AtomicU64,
}

impl Default for ManualClock {
    fn default() -> Self {
        Self { wall_micros: AtomicI64::new(START_MICROS), monotonic_nanos: AtomicU64::new(0) }
    }
}

impl ManualClock {
    /// Advances both clocks.
    pub fn advance(&self, by: Duration) {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.wall_micros.fetch_add(micros, Ordering::SeqCst);
        self.monotonic_nanos.fetch_add(nanos, Ordering::SeqCst);
    }

    /// Sets the wall clock, forward or back; the monotonic clock continues.
    pub fn set(&self, now: Timestamp) {
        self.wall_micros.store(now.0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.wall_micros.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.monotonic_nanos.load(Ordering::SeqCst))
    }
}

/// Reproducible randomness from a seed.
#[derive(Debug)]
pub struct SeededEntropy {
    state: AtomicU64,
}

/// Odd, so that a counter stepped by it visits every number before it repeats.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl SeededEntropy {
    /// Creates a generator; the same seed gives the same bytes.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed) }
    }

    /// Returns the next number.
    pub fn next(&self) -> u64 {
        mix(self.state.fetch_add(STEP, Ordering::SeqCst).wrapping_add(STEP))
    }
}

/// Computes the output function of SplitMix64.
fn mix(mut state: u64) -> u64 {
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let random = self.next().to_le_bytes();
            chunk.iter_mut().zip(random).for_each(|(byte, new)| *byte = new);
        }
    }

    fn fill_secret(&self, bytes: &mut [u8]) {
        self.fill(bytes);
    }
}

/// Random decisions of the disk.
#[derive(Debug)]
pub(super) struct Dice(SeededEntropy);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(SeededEntropy::new(seed ^ STEP.rotate_left(17)))
    }

    /// Returns a number below `bound`; 0 when `bound` is 0.
    pub(super) fn below(&self, bound: u64) -> u64 {
        self.0.next().checked_rem(bound).unwrap_or(0)
    }

    /// Returns true with a probability of `percent`.
    pub(super) fn chance(&self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
