//! Verbs of operators: verify, backup, repair, the report of the last start, health, counts. Damage
//! is part of an answer, never an error, and nothing is given up without a person's request.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
};

use tokio::runtime::{Handle, RuntimeFlavor};

use super::{
    Caller, Code, IndexCounts, Service, ServiceError, ServiceResult, store_error::unwritten,
};
use crate::{
    env,
    event::{SessionId, TenantId},
    store::{
        Backup, Head, Health, KeyReport, Part, Receipt, Recovery, Repaired, StoreError,
        StoreResult, Verified,
    },
};

/// Keys that are wrapped again before progress is reported.
const KEYS_AT_ONCE: usize = 4096;

/// Counts of appends through the verbs since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Batches appended.
    pub appends: u64,
    /// Events appended.
    pub events: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Sessions that expired.
    pub expired: u64,
    /// Sessions whose files were removed after their grace period.
    pub reclaimed: u64,
    /// What can be searched.
    pub index: IndexCounts,
}

impl Service {
    /// Reads every frame of one session, or of all of the caller's, and checks checksums and
    /// chains.
    ///
    /// # Errors
    /// `session_not_found`, `session_deleted`; `limit_reached` while too many computations of the
    /// tenant wait.
    pub async fn verify(
        &self,
        caller: &Caller,
        session: Option<&SessionId>,
    ) -> ServiceResult<Verified> {
        let (store, scope, session) =
            (Arc::clone(&self.store), caller.scope.clone(), session.cloned());
        let verify = async move { store.verify(&scope, session.as_ref()).await };
        self.verified(&caller.scope.tenant, verify).await
    }

    /// [`Self::verify`] of every session of every tenant.
    ///
    /// # Errors
    /// Those of the engine.
    pub async fn verify_store(&self) -> ServiceResult<Verified> {
        Ok(self.store.verify_scopes().await?)
    }

    /// [`Self::verify`] of one session, and a comparison with a receipt that the caller kept.
    ///
    /// # Errors
    /// Those of [`Self::verify`].
    pub async fn verify_head(
        &self,
        caller: &Caller,
        session: &SessionId,
        expected: Receipt,
    ) -> ServiceResult<(Verified, Head)> {
        let (store, key) = (Arc::clone(&self.store), caller.key(session));
        let verify = async move { store.verify_head(&key, expected).await };
        self.verified(&caller.scope.tenant, verify).await
    }

    /// Verifies in a place of the tenant, which it keeps for a segment at a time; where one thread
    /// serves, which cannot wait for a place in the middle, at once.
    async fn verified<T: Send + 'static>(
        &self,
        tenant: &TenantId,
        verify: impl Future<Output = StoreResult<T>> + Send + 'static,
    ) -> ServiceResult<T> {
        let serving = Handle::current();
        if serving.runtime_flavor() == RuntimeFlavor::CurrentThread {
            return Ok(verify.await?);
        }
        Ok(self.computed(tenant, move || serving.block_on(verify)).await??)
    }

    /// The losses of a session, or of the store where no session is named; with `accept` they are
    /// given up for good.
    ///
    /// # Errors
    /// `session_not_found`, `session_deleted`, and those of an append.
    pub async fn repair(
        &self,
        caller: &Caller,
        session: Option<&SessionId>,
        accept: bool,
    ) -> ServiceResult<Repaired> {
        let Some(session) = session else { return Ok(self.store.repair_store(accept).await?) };
        let key = caller.key(session);
        let repaired = self.durable(self.store.repair(&key, accept)).await.map_err(unwritten)?;
        self.facts.forget(&key);
        Ok(repaired)
    }

    /// The master keys that the store needs and those it has; `None` in plaintext.
    ///
    /// # Errors
    /// Those of the engine.
    pub async fn keys(&self) -> ServiceResult<Option<KeyReport>> {
        Ok(self.store.keys().await?)
    }

    /// Continues the rotation to the current master key.
    ///
    /// # Errors
    /// `invalid_request` in plaintext, and those of the engine: a retry continues the rotation.
    pub async fn rotate_keys(&self) -> ServiceResult<KeyReport> {
        self.durable(self.store.rotate_keys(KEYS_AT_ONCE)).await.map_err(unwritten)
    }

    /// Writes a copy of the whole store, of all tenants, as of one moment. It blocks while `take`
    /// does.
    ///
    /// # Errors
    /// Those of the engine; `invalid_request` for an engine with its own means of backup.
    pub fn backup(&self, take: &mut dyn FnMut(Part) -> io::Result<()>) -> ServiceResult<Backup> {
        self.store.backup(take).map_err(|error| match error {
            StoreError::Io { ref source, .. } if !env::out_of_descriptors(source) => {
                let mut error = ServiceError::new(Code::StoreReadOnly, error.to_string())
                    .action("nothing of it may be used: make it again");
                error.hint.retryable = true;
                error
            }
            other => other.into(),
        })
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

    /// Counts of appends through the verbs since the process started.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            appends: self.counters.appends.load(Ordering::Relaxed),
            events: self.counters.events.load(Ordering::Relaxed),
            bytes: self.counters.bytes.load(Ordering::Relaxed),
            expired: self.counters.expired.load(Ordering::Relaxed),
            reclaimed: self.counters.reclaimed.load(Ordering::Relaxed),
            index: self.indexing.counts(),
        }
    }
}
