//! The scrubber: reads everything that is settled, from the device and not from the cache, so that
//! rot is found while a copy elsewhere may still be good. It must not write, nor take the disk from
//! those who wait for it.

use std::{sync::Arc, time::Duration};

use super::{Shared, lock};
use crate::{
    env::sync::{PoisonError, atomic::Ordering},
    event::SessionKey,
    store::{Scrub, Verified},
};

/// Bytes a second that a scrub in the background reads at most, over a while.
const BYTES_PER_SECOND: u64 = 16 << 20;

impl Shared {
    /// Reads every session and both settled files once; waits between sessions with `paced`.
    pub(super) fn scrub(&self, paced: bool) {
        let mut round = Scrub::default();
        for what in lock(&self.slots).check(&self.env) {
            tracing::error!(what, "a settled file is damaged; it is written anew");
            round.found.push(what);
        }
        let scopes = self.catalogue().scopes();
        for scope in scopes {
            let sessions = self.catalogue().of_scope(&scope);
            for session in sessions {
                if lock(&self.scrub_now.state).stop || self.closed.load(Ordering::Acquire) {
                    return;
                }
                let mut verified = Verified::default();
                let key = SessionKey { scope: scope.clone(), session };
                // Deleted, or gone meanwhile: there is nothing to read.
                let Ok(session) = self.session(&key) else { continue };
                let Ok(_) = self.verify_session(&session, &mut verified) else { continue };
                round.sessions += verified.sessions;
                round.bytes += verified.bytes;
                for (key, gap) in verified.damage {
                    let (session, range) = (&key.session, gap.range);
                    round.found.push(format!("session {session}, {range}: {}", gap.reason));
                }
                if paced {
                    self.rest_from_scrubbing(verified.bytes);
                }
            }
        }
        round.rounds = lock(&self.scrubbed).rounds + 1;
        tracing::info!(sessions = round.sessions, bytes = round.bytes, "everything was read once");
        *lock(&self.scrubbed) = round;
    }

    /// Waits as long as reading so many bytes may take.
    fn rest_from_scrubbing(&self, bytes: u64) {
        let pause = Duration::from_micros(bytes.saturating_mul(1_000_000) / BYTES_PER_SECOND);
        self.wait_to_scrub(pause);
    }

    /// Waits; answers whether the store goes on.
    fn wait_to_scrub(&self, pause: Duration) -> bool {
        let wanted = lock(&self.scrub_now.state);
        if wanted.stop {
            return false;
        }
        let waited = self.scrub_now.changed.wait_timeout(wanted, pause);
        !waited.unwrap_or_else(PoisonError::into_inner).0.stop
    }

    /// Scrubs once in every interval, the first time when one has passed.
    pub(super) fn scrub_in_background(self: Arc<Self>) {
        while self.wait_to_scrub(self.options.scrub_every) {
            self.scrub(true);
        }
    }
}
