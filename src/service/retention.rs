//! Verbs on lifetimes: hold and release, restore, due dates, and the owner's periodic sweep. It
//! must not decide when a session expires; the store does.

use std::sync::{Arc, atomic::Ordering};

use super::{
    Caller, Service, ServiceResult, in_a_task, sessions::page_limit, store_error::unwritten,
};
use crate::{
    event::{SessionId, Timestamp},
    store::{Aging, Change, Lifetimes, SessionInfo, StoreError, Swept},
};

/// Most rounds of one sweep by an operator.
const ROUNDS_MAX: usize = 10_000;

/// Due dates of a scope's sessions, and the rules.
#[derive(Clone, Debug)]
pub struct Retention {
    /// Sessions with an end in sight, the soonest first.
    pub aging: Vec<Aging>,
    /// The rules.
    pub lifetimes: Lifetimes,
    /// The time their times are by.
    pub counted: Timestamp,
    /// Wall time.
    pub now: Timestamp,
    /// What a sweep did just now; nothing for a look.
    pub swept: Swept,
}

impl Service {
    /// Holds a session, so that it neither expires nor is deleted; or lets it go.
    ///
    /// # Errors
    /// `session_not_found`, `session_deleted`, `session_expired`, and those of the engine.
    pub async fn hold_session(
        &self,
        caller: &Caller,
        session: &SessionId,
        hold: bool,
    ) -> ServiceResult<SessionInfo> {
        let key = caller.key(session);
        let info = self.store.info(&key).await?;
        if info.held_at.is_some() == hold {
            return Ok(info);
        }
        let change = Change { hold: Some(hold), ..Change::default() };
        self.durable(self.store.change(&key, change)).await.map_err(unwritten)
    }

    /// Restores an expired session, or a deleted one within its grace period; returns whether it
    /// was restored. For a live session it counts as a use, and writes nothing.
    ///
    /// # Errors
    /// `session_not_found`, `session_deleted` where its bytes were removed at once, and those of
    /// the engine.
    pub async fn undelete_session(
        &self,
        caller: &Caller,
        session: &SessionId,
    ) -> ServiceResult<(SessionInfo, bool)> {
        let key = caller.key(session);
        let before = self.store.info(&key).await;
        let hidden = matches!(
            before,
            Err(StoreError::SessionExpired { .. } | StoreError::SessionDeleted { .. })
        );
        if !hidden {
            return Ok((self.store.used(&key).await?, false));
        }
        let change = Change { restore: true, ..Change::default() };
        let store = Arc::clone(&self.store);
        let restored = async move { store.change(&key, change).await.map_err(unwritten) };
        Ok((self.carried_out(restored).await?, hidden))
    }

    /// Due dates of the caller's sessions. Changes nothing.
    ///
    /// # Errors
    /// `invalid_request` for a limit out of bounds.
    pub async fn retention(
        &self,
        caller: &Caller,
        limit: Option<usize>,
    ) -> ServiceResult<Retention> {
        let limit = page_limit(limit)?;
        let mut aging = self.store.aging(&caller.scope, limit).await?;
        for one in aging.iter_mut().filter(|one| one.title.is_none()) {
            one.title = self.title_by_id(&caller.key(&one.session)).await;
        }
        Ok(Retention {
            aging,
            lifetimes: self.store.lifetimes(),
            counted: self.store.counted(),
            now: self.clock.now(),
            swept: Swept::default(),
        })
    }

    /// Sweeps everything once, and returns what is due later. The counts it returns are of the
    /// caller's own sessions.
    ///
    /// # Errors
    /// Those of [`Self::retention`] and of [`Self::sweep`].
    pub async fn sweep_all(
        &self,
        caller: &Caller,
        limit: Option<usize>,
    ) -> ServiceResult<Retention> {
        let mut swept = Swept::default();
        for _ in 0..ROUNDS_MAX {
            let service = self.clone();
            let round = in_a_task(async move { service.sweep().await }).await?;
            swept.expired.extend(round.expired);
            swept.reclaimed.extend(round.reclaimed);
            swept.failed += round.failed;
            if !round.more {
                break;
            }
        }
        swept.expired.retain(|key| key.scope == caller.scope);
        swept.reclaimed.retain(|key| key.scope == caller.scope);
        Ok(Retention { swept, ..self.retention(caller, limit).await? })
    }

    /// One round of the owner's upkeep: expires unused sessions, removes the files of deleted ones,
    /// and forgets unused facts.
    ///
    /// # Errors
    /// Those of the engine.
    pub async fn sweep(&self) -> ServiceResult<Swept> {
        let hot = self.store.lifetimes().hot;
        if !hot.is_zero() {
            self.facts.forget_unused(self.clock.monotonic().saturating_sub(hot));
        }
        let swept = self.store.sweep().await?;
        for key in &swept.expired {
            self.facts.forget(key);
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

    /// Whether a session is offered to callers without an id.
    pub(super) fn is_offered(&self, info: &SessionInfo) -> bool {
        let counted = self.store.counted();
        self.store.lifetimes().is_hot(info.ttl_seconds, info.used_at, counted)
    }
}
