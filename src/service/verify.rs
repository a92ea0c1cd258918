//! Verbs of operators: verify, what the last start found, health, counts. Damage is an answer here,
//! never an error, and nothing is repaired.

use std::sync::atomic::Ordering;

use super::{Caller, Service, ServiceResult};
use crate::{
    event::SessionId,
    store::{Health, Recovery, Verified},
};

/// What was appended through the verbs since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Batches appended.
    pub appends: u64,
    /// Events appended.
    pub events: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
}

impl Service {
    /// Reads every frame of one session, or of all of the caller's, and checks checksums and
    /// chains.
    ///
    /// # Errors
    /// `session_not_found`, `session_deleted`.
    pub async fn verify(
        &self,
        caller: &Caller,
        session: Option<&SessionId>,
    ) -> ServiceResult<Verified> {
        Ok(self.store.verify(&caller.scope, session).await?)
    }

    /// What the last start found and did.
    #[must_use]
    pub fn recovery_report(&self) -> Recovery {
        self.store.recovery()
    }

    /// Whether the store can do its work now.
    #[must_use]
    pub fn health(&self) -> Health {
        self.store.health()
    }

    /// What was appended through the verbs since the process started.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            appends: self.counters.appends.load(Ordering::Relaxed),
            events: self.counters.events.load(Ordering::Relaxed),
            bytes: self.counters.bytes.load(Ordering::Relaxed),
        }
    }
}
