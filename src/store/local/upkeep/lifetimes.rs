//! Expiry of unused sessions: they expire with a control record, and when their grace period has
//! ended their files are removed. Examines some of them in each round, off the path of any request.
//! It must not decide how long a session lives; `store::rules` does.
//!
//! A session is removed in steps, with a crash possible after each: its settled entry is
//! `reclaimed`; once both settled files have that, its files are unlinked (`segments::unlink`);
//! once no replay can read a frame of it, it is removed from the catalogue, and its id is free. A
//! start finds the entry until a base is written without it, and runs the remaining steps.

use std::{collections::HashSet, io, sync::Arc};

use futures_util::future::join_all;

use super::super::{
    commit::PlannedRequest,
    session::{LoadedSession, SessionState},
    wait::run_blocking,
};
use super::Upkeep;
use crate::{
    env::sync::atomic::Ordering,
    event::{Scope, SessionKey, TenantId, Timestamp, UserId},
    log::Entry,
    store::{
        AppendResult, ExpiringSession, SessionInfo, StoreError, StoreResult, SweepResult,
        TenantUsage,
        lifetime::micros,
        rules::{LifetimeStep, WriteKind, WriteRequest},
    },
};

/// Evicted sessions examined in one round, and per lock of the catalogue.
const LOOKS_MAX: usize = 2_000;
const LOOKS_AT_ONCE: usize = 500;
/// Maximum number of sessions advanced in one round.
const STEPS_MAX: usize = 256;
/// Maximum number of sessions advanced concurrently, so that expiries share a sync.
const STEPS_AT_ONCE: usize = 64;

impl Upkeep {
    /// Returns the info of a session and records its use. While its expiry is in flight, waits for
    /// the outcome, so that a session reported as present is not expiring.
    pub(crate) async fn use_session(&self, key: &SessionKey) -> StoreResult<SessionInfo> {
        let session = self.sessions.session(key)?;
        loop {
            let rounds = self.sessions.journal.ended_rounds();
            if let Some(info) = self.try_use(&session)? {
                return Ok(info);
            }
            self.sessions.journal.wait_for_round_after(rounds).await;
        }
    }

    fn try_use(&self, session: &Arc<LoadedSession>) -> StoreResult<Option<SessionInfo>> {
        let counted = self.context.counted_time();
        let mut state = session.lock_visible()?;
        if state.is_ending(self.sessions.journal.epoch()) {
            return Ok(None);
        }
        self.record_use(session, &mut state, counted);
        Ok(Some(session.info(&state)))
    }

    /// Records the use of a session, no finer than its grain; the next flush makes it durable.
    fn record_use(
        &self,
        session: &Arc<LoadedSession>,
        state: &mut SessionState,
        counted: Timestamp,
    ) {
        let grain = self.context.options.lifetimes.grain(state.entry.ttl_seconds);
        if counted >= state.entry.used_at().plus_micros(micros(grain)) {
            state.record_use(counted);
            self.sessions.backlog.add_touched(session);
        }
    }

    /// Returns the next step of a session, unless it is being written to or watched.
    fn due_step(
        &self,
        session: &Arc<LoadedSession>,
        state: &mut SessionState,
        counted: Timestamp,
    ) -> Option<LifetimeStep> {
        if state.is_busy() {
            return None;
        }
        if session.is_watched() && state.entry.stage.is_alive() {
            // A caller that waits for its events counts as a use.
            self.record_use(session, state, counted);
            return None;
        }
        self.due_step_of_entry(&state.entry, counted)
    }

    fn due_step_of_entry(&self, entry: &Entry, counted: Timestamp) -> Option<LifetimeStep> {
        let is_needed = || self.sessions.entry_is_read_by_forks(entry);
        self.context.options.lifetimes.next_step(entry, counted, is_needed)
    }

    /// Advances unused sessions by one step, some in each round.
    pub(crate) async fn sweep(&self) -> StoreResult<SweepResult> {
        let mut swept = SweepResult::default();
        if self.context.frozen.load(Ordering::Acquire)
            || self.context.closed.load(Ordering::Acquire)
        {
            return Ok(swept);
        }
        let (sessions, more) = self.sessions_with_due_step();
        swept.more = more;
        let failed = |source| StoreError::Io { doing: "settling before a sweep", source };
        run_blocking(|| self.flush_uses(!sessions.is_empty())).map_err(failed)?;
        for some in sessions.chunks(STEPS_AT_ONCE) {
            let steps = join_all(some.iter().map(|session| self.advance(session))).await;
            for (session, step) in some.iter().zip(steps) {
                match step {
                    Ok(Some(LifetimeStep::Expire)) => swept.expired.push(session.key.clone()),
                    Ok(Some(LifetimeStep::Reclaim)) => swept.reclaimed.push(session.key.clone()),
                    Ok(Some(LifetimeStep::GiveUp) | None) => {}
                    Err(error) => {
                        swept.failed += 1;
                        tracing::warn!(session = %session.hash, %error, "it stays for now");
                    }
                }
            }
        }
        Ok(swept)
    }

    /// Makes recorded uses durable. With `all`, flushes everything, since steps may depend on it;
    /// else writes only the settled entries.
    fn flush_uses(&self, all: bool) -> io::Result<()> {
        let noted = self.sessions.backlog.has_touched();
        if all && (noted || !self.sessions.settled_is_current()) {
            return self.removal.flush(false);
        }
        if all || !noted || self.sessions.reserve.is_released() {
            return Ok(());
        }
        let _flushing = self.segments.flushing.lock();
        self.context.check_writable()?;
        self.sessions.mark_changed_entries();
        self.sessions.write_settled()
    }

    /// Returns sessions whose next step is due, and whether some were not examined.
    fn sessions_with_due_step(&self) -> (Vec<Arc<LoadedSession>>, bool) {
        let counted = self.context.counted_time();
        let mut found: Vec<Arc<LoadedSession>> = Vec::new();
        let loaded = self.sessions.catalogue().all_loaded();
        for session in loaded {
            let mut state = session.state();
            if found.len() < STEPS_MAX && self.due_step(&session, &mut state, counted).is_some() {
                found.push(Arc::clone(&session));
            }
        }
        let wanted = |entry: Entry| self.due_step_of_entry(&entry, counted).is_some();
        let mut after = self.swept_to.lock();
        for _ in 0..LOOKS_MAX / LOOKS_AT_ONCE {
            let room = STEPS_MAX - found.len();
            let (keys, stopped) = self.sessions.catalogue().find_evicted(
                after.as_ref(),
                LOOKS_AT_ONCE,
                room,
                &wanted,
            );
            *after = stopped;
            found.extend(keys.iter().filter_map(|key| self.sessions.session(key).ok()));
            if after.is_none() {
                break;
            }
        }
        (found, after.is_some())
    }

    async fn advance(&self, session: &Arc<LoadedSession>) -> StoreResult<Option<LifetimeStep>> {
        let counted = self.context.counted_time();
        let step = self.due_step(session, &mut session.state(), counted);
        match step {
            Some(LifetimeStep::Expire) => {
                let mut request = self.commit.prepare_eventless(WriteKind::Expire);
                self.commit.submit_with(|| self.plan_expiry(session, &mut request)).await?;
                let expired = session.state().entry.stage.is_restorable();
                Ok(step.filter(|_| expired))
            }
            Some(LifetimeStep::GiveUp) => {
                let mut state = session.state();
                if self.due_step(session, &mut state, counted) == step {
                    state.entry.stage.reclaim();
                    self.sessions.backlog.add_touched(session);
                }
                Ok(step)
            }
            Some(LifetimeStep::Reclaim) => {
                let gone = run_blocking(|| self.remove_unlinked(session));
                Ok(step.filter(|_| gone))
            }
            None => Ok(None),
        }
    }

    /// Plans the expiry of a session, unless a caller used it meanwhile.
    fn plan_expiry(
        &self,
        session: &Arc<LoadedSession>,
        request: &mut WriteRequest,
    ) -> StoreResult<PlannedRequest> {
        let mut state = session.state();
        state.drop_void_frames(self.sessions.journal.epoch());
        if self.due_step(session, &mut state, self.context.counted_time())
            != Some(LifetimeStep::Expire)
        {
            return Ok(PlannedRequest::Answered(AppendResult::unchanged(state.receipt())));
        }
        self.commit.plan_locked(session, state, request)
    }

    /// Removes a session whose files are gone; returns false if a start could still need its name.
    fn remove_unlinked(&self, session: &Arc<LoadedSession>) -> bool {
        let _flushing = self.segments.flushing.lock();
        // Before the state is locked: the journal locks it while a round becomes visible.
        let place = self.sessions.journal.visible_location();
        let mut state = session.state();
        if !state.is_flushed() {
            return false;
        }
        let Some(behind) = state.leaves_behind else {
            // All of it is flushed, so that the journal gets no further frames or copies of it
            // after this location.
            state.leaves_behind = Some(place.lsn);
            drop(state);
            self.sessions.schedule_reclaim(session);
            return false;
        };
        let unlinked = state.entry.segments.is_empty();
        drop(state);
        let waits = self.sessions.backlog.has_pending_work(session.hash);
        if !unlinked || waits || !self.sessions.both_contain(session.hash, behind) {
            return false;
        }
        self.sessions.backlog.remove_full(session.hash);
        self.sessions.release_ancestors(session);
        self.sessions.catalogue_mut().remove(session);
        true
    }

    /// Returns the sessions of a scope that will expire or be removed, the soonest first.
    pub(crate) fn list_aging(&self, scope: &Scope, limit: usize) -> Vec<ExpiringSession> {
        let mut found: Vec<ExpiringSession> = Vec::new();
        let soonest = |found: &mut Vec<ExpiringSession>| {
            found.sort_by(ExpiringSession::compare_end);
            let mut names = HashSet::new();
            found.retain(|one| names.insert(one.session.clone()));
            found.truncate(limit);
        };
        self.sessions.for_each_entry(scope, &mut |entry| {
            found.extend(self.context.options.lifetimes.aging(&entry));
            if found.len() > limit.saturating_mul(4) {
                soonest(&mut found);
            }
        });
        soonest(&mut found);
        found
    }

    /// Returns the usage of a tenant without that of one user: living sessions, and bytes of all
    /// that can be restored or that forks need. Walks in slices, so that it blocks no caller for
    /// long.
    pub(crate) fn usage(&self, tenant: &TenantId, but: &UserId) -> TenantUsage {
        let scopes = self.sessions.catalogue().scopes();
        let mut usage = TenantUsage::default();
        for scope in scopes.iter().filter(|scope| scope.tenant == *tenant && scope.user != *but) {
            self.sessions.for_each_entry(scope, &mut |entry| {
                usage.add(&entry, || self.sessions.entry_is_read_by_forks(&entry));
            });
        }
        usage
    }
}
