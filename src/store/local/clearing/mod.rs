//! The settling of everything acknowledged, and with it of what was erased and redacted: bytes that
//! must go are taken away here. It must not decide that they go.

mod erase;
pub(super) mod past;
mod quarantine;
mod redact;
mod reserve;
pub(super) mod steps;
mod zero;

use std::{io, sync::Arc, time::Duration};

use self::steps::Failed;
use super::{
    catalogue::{reserve::is_full, sessions::Sessions},
    ground::Ground,
    segments::Segments,
};
use crate::env::sync::{Mutex, atomic::Ordering};

/// Shortest pause before a failed step is retried; it doubles with each failure that is not a lack
/// of space, up to...
const PAUSE_MIN: Duration = Duration::from_secs(5);
/// ...so long.
const PAUSE_MAX: Duration = Duration::from_secs(3_600);

/// Time for which a failed step is not retried.
#[derive(Default)]
pub(super) struct Pause {
    /// By the monotonic clock.
    until: Duration,
    length: Duration,
}

impl Pause {
    /// Runs what is due, and retries at growing intervals while it fails.
    pub(super) fn run(&mut self, now: Duration, run: impl FnOnce() -> Result<(), Failed>) {
        if now < self.until {
            return;
        }
        self.length = match run() {
            Ok(()) => Duration::ZERO,
            Err(failed) if is_full(&failed.source) => PAUSE_MIN,
            Err(_) => (self.length * 2).clamp(PAUSE_MIN, PAUSE_MAX),
        };
        self.until = now + self.length;
    }
}

/// Removal of bytes: erasures, redactions and expired sessions.
pub(super) struct Clearing {
    pub(super) ground: Arc<Ground>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) segments: Arc<Segments>,
    /// Held while bytes are taken away that were erased or redacted; locked before `settling`.
    pub(super) turn: Mutex<()>,
    /// When a step that failed is tried again.
    pub(super) pause: Mutex<Pause>,
}

impl Clearing {
    /// Settles everything acknowledged so far, and seals what is full when nothing presses.
    pub(crate) fn settle(&self, clean: bool) -> io::Result<()> {
        let quiet = !(self.ground.options.background && self.sessions.is_pressed());
        self.settle_and(clean, quiet)
    }

    /// Settles everything acknowledged so far; seals what is full when it is `quiet`.
    pub(crate) fn settle_and(&self, clean: bool, quiet: bool) -> io::Result<()> {
        if self.ground.frozen.load(Ordering::Acquire) || self.ground.closed.load(Ordering::Acquire)
        {
            return Ok(());
        }
        self.leave_room()?;
        // A failed step stops nothing: a later settling, or a start, takes it again.
        self.pause.lock().run(self.ground.env.clock.monotonic(), || {
            let erased = self.finish_erasures();
            let redacted = self.finish_redactions();
            let swept = self.segments.shelf.sweep().map_err(Failed::from);
            erased.and(redacted).and(swept)
        });
        self.segments.settle_frames(clean, quiet)
    }
}
