//! Base of every part of the engine: the environment, the options, the keys, the count of time, and
//! the switch for writes. It must not know a session.

use std::io;

use super::{keys::EngineKeys, options::Options};
use crate::{
    env::{
        Env,
        sync::atomic::{AtomicBool, Ordering},
    },
    event::Timestamp,
    log::StoreFile,
    store::lifetime::{Count, CountState},
};

/// The count of time that a crash may lose.
const COUNT_LOST_MICROS: i64 = 6 * 3_600 * 1_000_000;

/// State that every part of the engine shares.
pub(super) struct EngineContext {
    pub(super) env: Env,
    pub(super) options: Options,
    pub(super) store: StoreFile,
    pub(super) keys: EngineKeys,
    /// The time that idleness is measured by.
    pub(super) count: Count,
    /// The lock of the data directory is released: nothing may be written any more.
    pub(super) closed: AtomicBool,
    /// Acknowledged records are lost and name no session: the evidence stays as it is.
    pub(super) frozen: AtomicBool,
}

impl EngineContext {
    /// Fails once the store takes no writes: the lock is given back, or losses wait for a person.
    pub(super) fn check_writable(&self) -> io::Result<()> {
        let stopped = self.closed.load(Ordering::Acquire) || self.frozen.load(Ordering::Acquire);
        if stopped { Err(io::Error::other("the store takes no writes")) } else { Ok(()) }
    }

    /// The time that idleness is measured by.
    pub(super) fn counted(&self) -> Timestamp {
        self.count.now(&*self.env.clock)
    }

    /// State of the count that a flush stores.
    pub(super) fn count_state(&self) -> CountState {
        self.count.state(&*self.env.clock)
    }

    /// True if a crash would lose too much of the count.
    pub(super) fn count_is_due(&self) -> bool {
        self.count.at_stake(&*self.env.clock) > COUNT_LOST_MICROS
    }
}
