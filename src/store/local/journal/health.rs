//! Health of the disk behind the journal: recent failures, the probe that ends a refusal, space for
//! the next append, silence. It must not refuse what the disk would take.

use std::{io, time::Duration};

use super::{Journal, ring};
use crate::{env::sync::atomic::Ordering, store::Health};

/// Time without an answer after which the disk counts as not ready.
const SILENCE_MAX: Duration = Duration::from_secs(5);

impl<S> Journal<S> {
    /// Notes how a write went. Readiness reports the last one; after several failed syncs no more
    /// writes are taken until [`Self::probe`] succeeds.
    pub(super) fn note(&self, error: Option<&io::Error>) {
        let now = self.env.clock.monotonic();
        let mut writer = self.writer.lock();
        let mut trouble = self.trouble.lock();
        let refused = trouble.note(now, error, writer.failures());
        writer.set_careful(trouble.is_recent());
        if let Some(reason) = writer.foreign() {
            self.refuse(reason);
        } else if let Some(reason) = refused {
            self.refuse_for(reason, true);
        }
    }

    /// Tries the disk again when it is time to, with a file of its own and never with one that
    /// failed, and takes appends again when that file can be synced.
    pub(crate) fn probe(&self) {
        let now = self.env.clock.monotonic();
        if !self.trouble.lock().is_probe_due(now) {
            return;
        }
        let tried = ring::probe(&self.env);
        if let Err(error) = &tried {
            tracing::warn!(%error, "the disk still fails; the store stays read-only");
        }
        let mut writer = self.writer.lock();
        if !self.trouble.lock().probed(now, &tried) {
            return;
        }
        writer.reset_failures();
        if self.queue.lock().refuse.take_if(|refusal| refusal.passes).is_some() {
            tracing::info!("the disk syncs again; the store takes writes");
        }
    }

    /// Looks whether the next append has room; where it had none, it makes the file of the ring
    /// that the append would need. So readiness is what the next append meets, and heals without
    /// one.
    pub(crate) fn look_for_room(&self) {
        let now = self.env.clock.monotonic();
        if self.refusing().is_some() || !self.trouble.lock().is_room_due(now) {
            return;
        }
        let mut writer = self.writer.lock();
        let known = self.trouble.lock().missing();
        let found = if known.is_some() { writer.find_room() } else { writer.expect_room() };
        match (known, &found) {
            (None, Ok(())) => return,
            (None, Err(error)) => tracing::warn!(%error, "there is no room for the next append"),
            (Some(_), Ok(())) => tracing::info!("there is room again: appends are taken"),
            (Some(_), Err(error)) => tracing::debug!(%error, "there is still no room"),
        }
        self.trouble.lock().note_room(now, found.as_ref().err());
    }

    /// Runs what writes and syncs, and lets [`Self::silence`] tell how long it takes.
    pub(super) fn busy<T>(&self, write: impl FnOnce() -> T) -> T {
        let micros = self.env.clock.monotonic().as_micros();
        let micros = u64::try_from(micros).unwrap_or(u64::MAX).max(1);
        self.busy_since.store(micros, Ordering::Relaxed);
        let written = write();
        self.busy_since.store(0, Ordering::Relaxed);
        written
    }

    /// Reason of the last failed write, if that was recent.
    fn trouble(&self) -> Option<String> {
        self.trouble.lock().reason(self.env.clock.monotonic())
    }

    /// Health of appends, as far as is known.
    pub(crate) fn health(&self) -> Health {
        if let Some(reason) = self.refusing() {
            return Health::ReadOnly(reason);
        }
        if let Some(short) = self.trouble.lock().missing() {
            return Health::Full(short);
        }
        if let Some(reason) = self.trouble() {
            return Health::ReadOnly(reason);
        }
        let silence = self.silence();
        if silence < SILENCE_MAX { Health::Ready } else { Health::Silent(silence) }
    }

    /// Time for which the disk has owed an answer to a write or a sync.
    fn silence(&self) -> Duration {
        match self.busy_since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            micros => self.env.clock.monotonic().saturating_sub(Duration::from_micros(micros)),
        }
    }
}
