//! The flush of everything acknowledged, and the removal of bytes that were erased, redacted or
//! expired. It must not decide which bytes are removed.

mod erase;
pub(super) mod past;
mod quarantine;
mod redact;
mod reserve;
pub(super) mod steps;
mod zero;

use std::{io, sync::Arc, time::Duration};

use self::steps::StepError;
use super::{
    catalogue::{reserve::is_storage_full, sessions::Sessions},
    context::EngineContext,
    segments::Segments,
};
use crate::env::sync::{Mutex, atomic::Ordering};

/// Shortest pause before a failed step is retried; it doubles with each failure that is not a lack
/// of space, up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_secs(5);
/// Longest pause before a failed step is retried.
const PAUSE_MAX: Duration = Duration::from_secs(3_600);

/// Pause before a failed step is retried.
#[derive(Default)]
pub(super) struct RetryPause {
    /// End of the pause, by the monotonic clock.
    until: Duration,
    length: Duration,
}

impl RetryPause {
    /// Calls `run` unless a pause lasts; each failure starts a longer pause.
    pub(super) fn retry(&mut self, now: Duration, run: impl FnOnce() -> Result<(), StepError>) {
        if now < self.until {
            return;
        }
        self.length = match run() {
            Ok(()) => Duration::ZERO,
            Err(failed) if is_storage_full(&failed.source) => PAUSE_MIN,
            Err(_) => (self.length * 2).clamp(PAUSE_MIN, PAUSE_MAX),
        };
        self.until = now + self.length;
    }
}

/// Removal of bytes: erasures, redactions and expired sessions.
pub(super) struct Removal {
    pub(super) context: Arc<EngineContext>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) segments: Arc<Segments>,
    /// Held while erased or redacted bytes are removed; locked before `flushing`.
    pub(super) turn: Mutex<()>,
    /// Pause before a failed step is retried.
    pub(super) pause: Mutex<RetryPause>,
}

impl Removal {
    /// Flushes everything acknowledged so far, and seals full segments if not under pressure.
    pub(crate) fn flush(&self, clean: bool) -> io::Result<()> {
        let quiet = !(self.context.options.background && self.sessions.needs_flush());
        self.flush_with(clean, quiet)
    }

    /// Flushes everything acknowledged so far; with `quiet`, seals full segments.
    pub(crate) fn flush_with(&self, clean: bool, quiet: bool) -> io::Result<()> {
        if self.context.frozen.load(Ordering::Acquire)
            || self.context.closed.load(Ordering::Acquire)
        {
            return Ok(());
        }
        self.ensure_reserve()?;
        // A failed step does not fail the flush: a later flush, or a start, retries it.
        self.pause.lock().retry(self.context.env.clock.monotonic(), || {
            let erased = self.finish_erasures();
            let redacted = self.finish_redactions();
            let swept = self.segments.derived_files.sweep().map_err(StepError::from);
            erased.and(redacted).and(swept)
        });
        self.segments.flush_frames(clean, quiet)
    }
}
