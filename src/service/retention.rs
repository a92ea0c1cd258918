//! Verbs on lifetimes: hold, release, restore, due dates, and the owner's periodic sweep. It must
//! not decide when a session expires; the store does.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{
    Caller, Service, ServiceResult, page::page_limit, spawn_and_wait, store_error::write_error,
};
use crate::{
    api::{
        retention::{Restored, RetentionAnswer, RetentionRow},
        sessions::Session,
    },
    event::{SessionId, SessionKey, Timestamp},
    store::{
        ExpiringSession, KeepReason, Lifetimes, SessionInfo, SessionUpdate, Stage, StoreError,
        SweepResult,
    },
};

/// Maximum number of rounds in one sweep by an operator.
const ROUNDS_MAX: usize = 10_000;

impl Service {
    /// Sets or releases the hold of a session, which prevents its expiry and deletion.
    ///
    /// # Errors
    /// `session_not_found`, `session_deleted`, `session_expired`, and those of the engine.
    pub async fn hold_session(
        &self,
        caller: &Caller,
        session: &SessionId,
        hold: bool,
    ) -> ServiceResult<Session> {
        let key = caller.key(session);
        let info = self.store.info(&key).await?;
        if info.held_at.is_some() == hold {
            return Ok(info.into());
        }
        let change = SessionUpdate { hold: Some(hold), ..SessionUpdate::default() };
        let changed = self.await_durable(self.store.change(&key, change)).await;
        Ok(changed.map_err(write_error)?.into())
    }

    /// Restores an expired session, or a deleted one within its grace period; returns true if it
    /// was restored. For a live session it counts as a use, and writes nothing.
    ///
    /// # Errors
    /// `session_not_found`, `session_deleted` if its bytes were removed immediately, and those of
    /// the engine.
    pub async fn undelete_session(
        &self,
        caller: &Caller,
        session: &SessionId,
    ) -> ServiceResult<Restored> {
        let key = caller.key(session);
        let before = self.store.info(&key).await;
        let hidden = matches!(
            before,
            Err(StoreError::SessionExpired { .. } | StoreError::SessionDeleted { .. })
        );
        if !hidden {
            let session = self.store.use_session(&key).await?.into();
            return Ok(Restored { session, restored: false });
        }
        let change = SessionUpdate { restore: true, ..SessionUpdate::default() };
        let store = Arc::clone(&self.store);
        let restored = async move { store.change(&key, change).await.map_err(write_error) };
        let session = self.run_to_completion(restored).await?.into();
        Ok(Restored { session, restored: true })
    }

    /// Returns the due dates of the caller's sessions. Changes nothing.
    ///
    /// # Errors
    /// `invalid_request` for a limit out of bounds.
    pub async fn retention(
        &self,
        caller: &Caller,
        limit: Option<usize>,
    ) -> ServiceResult<RetentionAnswer> {
        self.build_report(caller, limit, SweepResult::default()).await
    }

    /// Returns the due dates of the caller's sessions, and the results of a sweep.
    async fn build_report(
        &self,
        caller: &Caller,
        limit: Option<usize>,
        swept: SweepResult,
    ) -> ServiceResult<RetentionAnswer> {
        let limit = page_limit(limit)?;
        let mut aging = self.store.list_aging(&caller.scope, limit).await?;
        for one in aging.iter_mut().filter(|one| one.title.is_none()) {
            one.title = self.read_title(&caller.key(&one.session)).await;
        }
        let lifetimes = self.store.lifetimes();
        let (counted, now) = (self.store.counted_time(), self.clock.now());
        let ids = |keys: Vec<SessionKey>| {
            keys.into_iter().map(|key| key.session.to_string()).collect::<Vec<_>>()
        };
        let rows = aging.into_iter().map(|one| build_row(one, &lifetimes, (counted, now)));
        Ok(RetentionAnswer {
            data: rows.collect(),
            expired: ids(swept.expired),
            reclaimed: ids(swept.reclaimed),
            failed: swept.failed,
            ttl_seconds: lifetimes.hot.as_secs(),
            retention_seconds: lifetimes.retention.as_secs(),
            purge_after_seconds: lifetimes.purge.as_secs(),
            grace_seconds: lifetimes.grace.as_secs(),
            behind_seconds: now.0.saturating_sub(counted.0) / 1_000_000,
        })
    }

    /// Runs a full sweep, and returns the later due dates. The returned counts include the caller's
    /// own sessions only.
    ///
    /// # Errors
    /// Those of [`Self::retention`] and of [`Self::sweep`].
    pub async fn sweep_all(
        &self,
        caller: &Caller,
        limit: Option<usize>,
    ) -> ServiceResult<RetentionAnswer> {
        let mut swept = SweepResult::default();
        for _ in 0..ROUNDS_MAX {
            let service = self.clone();
            let round = spawn_and_wait(async move { service.sweep().await }).await?;
            swept.expired.extend(round.expired);
            swept.reclaimed.extend(round.reclaimed);
            swept.failed += round.failed;
            if !round.more {
                break;
            }
        }
        swept.expired.retain(|key| key.scope == caller.scope);
        swept.reclaimed.retain(|key| key.scope == caller.scope);
        self.build_report(caller, limit, swept).await
    }

    /// Runs one round of the owner's maintenance: expires unused sessions, removes the files of
    /// deleted ones, and evicts unused facts.
    ///
    /// # Errors
    /// Those of the engine.
    pub async fn sweep(&self) -> ServiceResult<SweepResult> {
        let hot = self.store.lifetimes().hot;
        if !hot.is_zero() {
            self.facts.evict_unused(self.clock.monotonic().saturating_sub(hot));
        }
        let swept = self.store.sweep().await?;
        for key in &swept.expired {
            self.facts.evict(key);
            tracing::info!(session = %key.session, "expired: it was not used for longer than its limit");
        }
        for key in &swept.reclaimed {
            tracing::info!(session = %key.session, "its grace has ended: its files are gone");
        }
        let count = |keys: usize| keys as u64;
        self.counters.expired.fetch_add(count(swept.expired.len()), Ordering::Relaxed);
        self.counters.reclaimed.fetch_add(count(swept.reclaimed.len()), Ordering::Relaxed);
        Ok(swept)
    }

    /// Returns true if a session is offered to callers without an id.
    pub(super) fn is_offered(&self, info: &SessionInfo) -> bool {
        let counted = self.store.counted_time();
        self.store.lifetimes().is_hot(info.ttl_seconds, info.used_at, counted)
    }
}

/// Builds the row of a session with a due date, from the store's time and the clock.
fn build_row(
    one: ExpiringSession,
    lifetimes: &Lifetimes,
    (counted, now): (Timestamp, Timestamp),
) -> RetentionRow {
    let idle = counted.0.saturating_sub(one.used_at.0).max(0);
    let left = one.ends_at.map(|at| at.0.saturating_sub(counted.0));
    let limit = lifetimes.limit(one.ttl_seconds).unwrap_or(Duration::ZERO);
    let whose = if one.ttl_seconds.is_some() { "its own limit" } else { "the store's limit" };
    let next = match (one.stage, one.kept) {
        (_, Some(_)) => "none",
        (Stage::Alive, None) => "expire",
        (Stage::Expired | Stage::Deleted, None) if left.is_none() => "none",
        (Stage::Expired | Stage::Deleted, None) => "reclaim",
    };
    let why = match (one.kept, one.stage) {
        (Some(KeepReason::Hold(at)), _) => format!("held since {at}"),
        (Some(KeepReason::Damage), _) => "it is damaged, and the loss was not accepted".to_owned(),
        (None, Stage::Alive) => format!("{whose} is {} s idle", limit.as_secs()),
        (None, Stage::Expired) if left.is_none() => {
            "it expired and can be restored at any time".to_owned()
        }
        (None, Stage::Expired) => "it expired and can be restored until then".to_owned(),
        (None, Stage::Deleted) => "it was deleted; its id is free then".to_owned(),
    };
    RetentionRow {
        session: one.session.to_string(),
        title: one.title,
        stage: match one.stage {
            Stage::Alive => "alive",
            Stage::Expired => "expired",
            Stage::Deleted => "deleted",
        }
        .to_owned(),
        idle_seconds: u64::try_from(idle / 1_000_000).unwrap_or(0),
        ttl_seconds: one.ttl_seconds,
        next: next.to_owned(),
        at: left.map(|left| now.plus_micros(left).to_string()),
        due: left.is_some_and(|left| left < 0) && one.kept.is_none(),
        why,
    }
}
