//! Verbs of operators: verify, backup, repair, recovery report, health, counters. Damage is part of
//! a response, never an error. It must not accept a loss without an operator's request.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
};

use bytes::Bytes;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::{
    Caller, Code, IndexCounts, Service, ServiceError, ServiceResult, convert::hex,
    store_error::write_error,
};
use crate::{
    api::{
        admin::{
            Damage, HeadAnswer, KeysAnswer, RecoveryReport, RepairAnswer, ScrubReport, SharedStore,
            StoreNode, VerifyAnswer,
        },
        backup::{BackupMade, BackupPart},
        events::Gap,
    },
    env,
    event::{Position, Scope, SessionId, SessionKey, TenantId},
    store::{
        self, BackupInfo, ChainReceipt, Health, KeyReport, ReceiptState, Recovery, RepairResult,
        StoreError, StoreResult, VerifyResult,
    },
};

/// Number of keys rewrapped before progress is reported.
const KEYS_AT_ONCE: usize = 4096;

/// Counters of operations through the verbs since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationCounts {
    /// Number of appended batches.
    pub appends: u64,
    /// Number of appended events.
    pub events: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Number of expired sessions.
    pub expired: u64,
    /// Number of sessions whose files were removed after their grace period.
    pub reclaimed: u64,
    /// Counters of the index.
    pub index: IndexCounts,
}

impl Service {
    /// Reads every frame of one session, or of all of the caller's, and checks checksums and
    /// chains.
    ///
    /// # Errors
    /// `session_not_found`, `session_deleted`; `limit_reached` if too many computations of the
    /// tenant wait.
    pub async fn verify(
        &self,
        caller: &Caller,
        session: Option<&SessionId>,
    ) -> ServiceResult<VerifyAnswer> {
        let (store, scope, session) =
            (Arc::clone(&self.store), caller.scope.clone(), session.cloned());
        let verify = async move { store.verify(&scope, session.as_ref()).await };
        Ok(verify_answer(self.verify_in_slot(&caller.scope.tenant, verify).await?, &caller.scope))
    }

    /// Checks checksums and chains of every session of every tenant.
    ///
    /// # Errors
    /// Those of the engine.
    pub async fn verify_store(&self, caller: &Caller) -> ServiceResult<VerifyAnswer> {
        Ok(verify_answer(self.store.verify_scopes().await?, &caller.scope))
    }

    /// Checks one session as [`Self::verify`] does and compares it with a receipt of the caller.
    ///
    /// # Errors
    /// Those of [`Self::verify`].
    pub async fn verify_head(
        &self,
        caller: &Caller,
        session: &SessionId,
        expected: ChainReceipt,
    ) -> ServiceResult<VerifyAnswer> {
        let (store, key) = (Arc::clone(&self.store), caller.key(session));
        let verify = async move { store.verify_head(&key, expected).await };
        let (verified, head) = self.verify_in_slot(&caller.scope.tenant, verify).await?;
        let is_damaged = verified.damage.iter().chain(&verified.accepted);
        let is_damaged =
            is_damaged.map(|(_, gap)| gap.range.from).any(|from| from < expected.position);
        let head = Some(head_answer(expected.position, head, is_damaged));
        Ok(VerifyAnswer { head, ..verify_answer(verified, &caller.scope) })
    }

    /// Verifies in a compute slot of the tenant, released between segments; without a slot on a
    /// single-threaded runtime, which cannot wait in between.
    async fn verify_in_slot<T: Send + 'static>(
        &self,
        tenant: &TenantId,
        verify: impl Future<Output = StoreResult<T>> + Send + 'static,
    ) -> ServiceResult<T> {
        let serving = Handle::current();
        if serving.runtime_flavor() == RuntimeFlavor::CurrentThread {
            return Ok(verify.await?);
        }
        Ok(self.compute(tenant, move || serving.block_on(verify)).await??)
    }

    /// Returns the losses of a session, or of the store without a session; with `accept` they are
    /// accepted permanently.
    ///
    /// # Errors
    /// `session_not_found`, `session_deleted`, and those of an append.
    pub async fn repair(
        &self,
        caller: &Caller,
        session: Option<&SessionId>,
        accept: bool,
    ) -> ServiceResult<RepairAnswer> {
        let Some(session) = session else {
            return Ok(self.store.repair_store(accept).await?.into());
        };
        let key = caller.key(session);
        let repaired =
            self.await_durable(self.store.repair(&key, accept)).await.map_err(write_error)?;
        self.facts.evict(&key);
        Ok(repaired.into())
    }

    /// Returns the required and the available master keys.
    ///
    /// # Errors
    /// Those of the engine.
    pub async fn keys(&self) -> ServiceResult<KeysAnswer> {
        Ok(self.store.keys().await?.into())
    }

    /// Continues the rotation to the current master key.
    ///
    /// # Errors
    /// `invalid_request` in plaintext, and those of the engine: a retry continues the rotation.
    pub async fn rotate_keys(&self) -> ServiceResult<KeysAnswer> {
        let rotated = self.await_durable(self.store.rotate_keys(KEYS_AT_ONCE)).await;
        Ok(Some(rotated.map_err(write_error)?).into())
    }

    /// Writes a consistent copy of the whole store with all tenants. It blocks while `take` does.
    ///
    /// # Errors
    /// Those of the engine; `invalid_request` for an engine with its own means of backup.
    pub fn backup(
        &self,
        take: &mut dyn FnMut(BackupPart, Bytes) -> io::Result<()>,
    ) -> ServiceResult<BackupMade> {
        let mut part = |store::FilePart { path, bytes }| {
            take(BackupPart { path, bytes: bytes.len() as u64 }, bytes)
        };
        self.store.backup(&mut part).map(BackupMade::from).map_err(|error| match error {
            StoreError::Io { ref source, .. } if !env::is_out_of_descriptors(source) => {
                let mut error = ServiceError::new(Code::StoreReadOnly, error.to_string())
                    .action("nothing of it may be used: make it again");
                error.hint.retryable = true;
                error
            }
            other => other.into(),
        })
    }

    /// Returns the results of the last start's recovery.
    #[must_use]
    pub fn recovery_report(&self) -> RecoveryReport {
        self.store.recovery().into()
    }

    /// Returns the health of the store: whether it accepts reads and writes now.
    #[must_use]
    pub fn health(&self) -> Health {
        self.store.health()
    }

    /// Returns the database and its nodes, if several nodes share it as the store.
    #[must_use]
    pub fn shared(&self) -> Option<SharedStore> {
        self.store.shared().map(SharedStore::from)
    }

    /// Returns the counters of operations through the verbs since the process started.
    #[must_use]
    pub fn counts(&self) -> OperationCounts {
        OperationCounts {
            appends: self.counters.appends.load(Ordering::Relaxed),
            events: self.counters.events.load(Ordering::Relaxed),
            bytes: self.counters.bytes.load(Ordering::Relaxed),
            expired: self.counters.expired.load(Ordering::Relaxed),
            reclaimed: self.counters.reclaimed.load(Ordering::Relaxed),
            index: self.indexing.counts(),
        }
    }
}

fn verify_answer(verified: VerifyResult, own: &Scope) -> VerifyAnswer {
    let foreign = |key: &SessionKey, name: &dyn std::fmt::Display| {
        (key.scope != *own).then(|| name.to_string())
    };
    let damage = |(key, gap): (SessionKey, store::SessionGap)| Damage {
        session: key.session.to_string(),
        tenant: foreign(&key, &key.scope.tenant),
        user: foreign(&key, &key.scope.user),
        from: gap.range.from,
        to: gap.range.to,
        reason: gap.reason,
    };
    VerifyAnswer {
        sessions: verified.sessions,
        events: verified.events,
        bytes: verified.bytes,
        damage: verified.damage.into_iter().map(damage).collect(),
        accepted: verified.accepted.into_iter().map(damage).collect(),
        head: None,
    }
}

/// Compares a session with a receipt; `is_damaged` if events before its position are lost.
fn head_answer(position: Position, head: ReceiptState, is_damaged: bool) -> HeadAnswer {
    let (state, tail, chain) = match head {
        ReceiptState::Holds if is_damaged => ("damaged", None, None),
        ReceiptState::Holds => ("holds", None, None),
        ReceiptState::Shorter { tail } => ("shorter", Some(tail), None),
        ReceiptState::Differs { chain } => ("differs", None, Some(hex(&chain))),
        ReceiptState::Lost => ("lost", None, None),
    };
    let (holds, state) = (state == "holds", state.to_owned());
    HeadAnswer { holds, state, position, tail, chain }
}

impl From<Option<KeyReport>> for KeysAnswer {
    fn from(report: Option<KeyReport>) -> Self {
        let Some(report) = report else {
            return Self { opens: true, ..Self::default() };
        };
        Self {
            encrypted: true,
            current: Some(report.current.to_string()),
            previous: report.previous.map(|id| id.to_string()),
            given: report.given.iter().map(ToString::to_string).collect(),
            opens: report.opens,
            keys: report.keys,
            behind: report.behind,
            destroyed: report.destroyed,
            unreadable: report.unreadable,
        }
    }
}

impl From<RepairResult> for RepairAnswer {
    fn from(repaired: RepairResult) -> Self {
        Self {
            accepted: repaired.accepted,
            events_lost: repaired.gaps.iter().map(|gap| gap.range.len()).sum(),
            gaps: repaired.gaps.iter().map(Gap::from).collect(),
            unnamed: repaired.unnamed,
            copies: repaired.copies,
        }
    }
}

impl From<store::ScrubResult> for ScrubReport {
    fn from(scrub: store::ScrubResult) -> Self {
        let store::ScrubResult { rounds, sessions, bytes, found } = scrub;
        Self { rounds, sessions, bytes, found }
    }
}

impl From<store::Sharing> for SharedStore {
    fn from(shared: store::Sharing) -> Self {
        let nodes = shared.nodes.into_iter().map(|node| StoreNode {
            place: node.place,
            version: node.version,
            silent_ms: u64::try_from(node.silent.as_millis()).unwrap_or(u64::MAX),
            alike: node.is_alike,
        });
        Self { durability: shared.durability.to_owned(), nodes: nodes.collect() }
    }
}

impl From<Recovery> for RecoveryReport {
    fn from(recovery: Recovery) -> Self {
        Self {
            clean: recovery.clean,
            sessions: recovery.sessions,
            frames_replayed: recovery.frames_replayed,
            torn_bytes: recovery.torn_bytes,
            made_good: recovery.made_good,
            damage: recovery.damage,
            quarantined: recovery.quarantined,
            micros: recovery.micros,
            scrub: recovery.scrub.into(),
        }
    }
}

impl From<BackupInfo> for BackupMade {
    fn from(backup: BackupInfo) -> Self {
        Self {
            store: hex(&backup.store),
            at: backup.at.to_string(),
            at_micros: backup.at.0,
            sessions: backup.sessions,
            damaged: backup.damaged,
            key: backup.key.map(|id| hex(&id)),
        }
    }
}
