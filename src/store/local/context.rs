//! Context of every part of the engine: environment, options, keys, count of time, and the switch
//! that stops writes. It must not refer to sessions.

use std::io;

use super::{keys::EngineKeys, options::StoreOptions};
use crate::{
    env::{
        Env,
        sync::atomic::{AtomicBool, Ordering},
    },
    event::Timestamp,
    log::StoreFile,
    store::lifetime::{LifetimeClock, LifetimeClockState},
};

/// Maximum count of time that a crash may lose, in microseconds.
const COUNT_LOST_MICROS: i64 = 6 * 3_600 * 1_000_000;

/// State shared by every part of the engine.
pub(super) struct EngineContext {
    pub(super) env: Env,
    pub(super) options: StoreOptions,
    pub(super) store: StoreFile,
    pub(super) keys: EngineKeys,
    /// Clock that measures idleness; it ignores jumps of the wall clock.
    pub(super) count: LifetimeClock,
    /// True once the lock of the data directory is released: no writes are allowed.
    pub(super) closed: AtomicBool,
    /// True if lost acknowledged records cannot be assigned to a session: no file is changed.
    pub(super) frozen: AtomicBool,
}

impl EngineContext {
    /// Fails if no writes are allowed: the lock is released, or losses await an operator.
    pub(super) fn check_writable(&self) -> io::Result<()> {
        let stopped = self.closed.load(Ordering::Acquire) || self.frozen.load(Ordering::Acquire);
        if stopped { Err(io::Error::other("the store takes no writes")) } else { Ok(()) }
    }

    /// Returns the counted time, which measures idleness.
    pub(super) fn counted_time(&self) -> Timestamp {
        self.count.now(&*self.env.clock)
    }

    /// Returns the state of the count that a flush stores.
    pub(super) fn count_state(&self) -> LifetimeClockState {
        self.count.state(&*self.env.clock)
    }

    /// Returns true if a crash would lose too much of the count.
    pub(super) fn is_count_due(&self) -> bool {
        self.count.unstored_micros(&*self.env.clock) > COUNT_LOST_MICROS
    }
}
