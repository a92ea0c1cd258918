//! The only clock. It must not be read anywhere else: `Instant::now` and `SystemTime::now` are
//! confined to this file by tests/tidy.rs.

#![expect(clippy::disallowed_methods, reason = "the one file that reads the clock")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::Clock;
use crate::event::Timestamp;

/// Wall clock and monotonic clock of the machine.
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// Creates a clock whose monotonic time starts now.
    #[must_use]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}
