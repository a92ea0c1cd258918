//! Lists sessions, records their use, and expires unused ones. Each node examines some in each
//! round; a step of two nodes at once happens once. It must not decide how long a session lives;
//! `store::rules` does.

use std::{sync::Arc, time::Duration};

use super::{
    lane::WriteAnswer,
    node::Node,
    row::{Head, scope_name, tenant_name, workspace_name},
    store_error,
    verify::Walk,
};
use crate::{
    event::{Batch, Scope, SessionKey, TenantId, Timestamp, UserId},
    store::{
        ExpiringSession, Listing, ListingOrder, ListingPage, ListingPageBuilder, SessionInfo,
        StoreError, StoreResult, SweepResult, TenantUsage,
        base::{ReclaimStep, RowSelection, RowWrite, WriteOutcome},
        lifetime::micros,
        rules::{LifetimeStep, WriteKind, WriteRequest},
    },
};

/// Rows read for a page with one statement: at first, and at most.
const PAGE_ROWS: [usize; 2] = [128, 1_024];
/// Rows by time of change read with one statement.
const ROWS_MAX: usize = 500;
/// Longest wait until a use is recorded.
const USE_MAX: Duration = Duration::from_secs(1);
/// Times that a use is recorded on a session that others change.
const USE_TRIES: usize = 3;
/// Parts of all sessions examined in one round.
const SWEPT_PARTS_MAX: usize = 4;
/// Frames and names deleted with one statement.
const DELETED_MAX: usize = 2_000;
/// Seconds by which clocks may differ, in a search by time of change.
const SKEW_SECONDS: u64 = 30;

impl Node {
    /// Returns the info of a session and records its use.
    pub(super) async fn use_session(&self, key: &SessionKey) -> StoreResult<SessionInfo> {
        let counted = self.counted_time();
        let head = self.fetch_visible(key).await?;
        match self.record_use_soon(head.clone(), counted).await {
            Ok(head) => {
                head.check_visible()?;
                Ok(head.info())
            }
            Err(error) => {
                tracing::warn!(session = %head.hash, %error, "its use is recorded later");
                Ok(head.info())
            }
        }
    }

    /// Records the use of a session, unless the base takes long: a reader does not wait for a
    /// standby.
    pub(super) async fn record_use_soon(
        &self,
        head: Head,
        counted: Timestamp,
    ) -> StoreResult<Head> {
        let recorded = tokio::time::timeout(USE_MAX, self.record_use(head, counted)).await;
        let slow = || StoreError::Unreachable { reason: "the base does not commit".to_owned() };
        recorded.unwrap_or_else(|_| Err(slow()))
    }

    /// Records the use of a session at that count of time, no finer than its grain.
    pub(super) async fn record_use(&self, mut head: Head, counted: Timestamp) -> StoreResult<Head> {
        for _ in 0..USE_TRIES {
            let grain = self.options.lifetimes.grain(head.entry.ttl_seconds);
            if counted < head.entry.used_at().plus_micros(micros(grain)) {
                return Ok(head);
            }
            head.entry.record_use(counted);
            if self.write_row(&mut head, false).await? {
                return Ok(head);
            }
            head = self.fetch_visible(&head.key).await?;
        }
        Ok(head)
    }

    /// Writes the row of a session without a frame; returns false if another node changed it.
    pub(super) async fn write_row(
        &self,
        head: &mut Head,
        changes_entry: bool,
    ) -> StoreResult<bool> {
        let revision = head.row.revision;
        head.row = head.to_row(&self.keys.names);
        if changes_entry {
            head.row.entry = head.entry.encode().into();
        }
        let write = RowWrite {
            revision,
            after: head.row.clone(),
            changes_entry,
            frames: Vec::new(),
            names: Vec::new(),
            absent: Vec::new(),
            touches: Vec::new(),
        };
        let outcomes = self.commit_surely(Arc::new([write]), true).await.map_err(store_error)?;
        let done = outcomes.first() == Some(&WriteOutcome::Done);
        if done {
            head.row.revision += 1;
            self.record_change(head);
        }
        Ok(done)
    }

    /// Returns a page of the sessions of a scope.
    pub(super) async fn list(&self, scope: &Scope, listing: &Listing) -> StoreResult<ListingPage> {
        self.check_open()?;
        let mut page = ListingPageBuilder::new(listing);
        let by_creation = listing.order == ListingOrder::Created;
        let ascending = listing.ascending && by_creation;
        let workspace =
            listing.workspace.as_deref().map(|name| workspace_name(&self.keys.names, name));
        let after = listing.after.as_ref().filter(|_| by_creation).map(|(time, _)| *time);
        // Sessions of one microsecond are sorted by id here, so a page begins with all of them.
        let mut place = match ascending {
            true => {
                let start = after.into_iter().chain(listing.created_from).max();
                start.map(|time| (time.plus_micros(-1), [u8::MAX; 16]))
            }
            false => {
                let start = after.into_iter().chain(listing.created_to).min();
                start.map(|time| (time.plus_micros(1), [0; 16]))
            }
        };
        let (mut limit, scope) = (PAGE_ROWS[0], scope_name(&self.keys.names, scope));
        let mut same: Vec<Head> = Vec::new();
        loop {
            let query = RowSelection::Page { scope, workspace, after: place, ascending };
            let rows = self.base.rows(query, limit).await.map_err(store_error)?;
            let is_last = rows.len() < limit;
            place = rows.last().map(|row| (row.created_at, row.name));
            for row in rows {
                self.see_removals(row.removals);
                let created_at = row.created_at;
                let ends = same.last().is_some_and(|last| last.row.created_at != created_at);
                if ends && !examine(&mut page, listing, &mut same) {
                    return Ok(page.into_page());
                }
                if !ascending && listing.created_from.is_some_and(|from| created_at < from) {
                    return Ok(page.into_page());
                }
                same.extend(Head::read_row(&self.keys.names, row, 0));
            }
            if is_last {
                examine(&mut page, listing, &mut same);
                return Ok(page.into_page());
            }
            limit = PAGE_ROWS[1];
            tokio::task::yield_now().await;
        }
    }

    /// Returns the sessions of a scope with unfinished work, the last written first.
    pub(super) async fn list_unfinished(
        &self,
        scope: &Scope,
        workspace: Option<&str>,
        limit: usize,
    ) -> StoreResult<Vec<SessionInfo>> {
        self.check_open()?;
        let query = RowSelection::Unfinished {
            scope: scope_name(&self.keys.names, scope),
            workspace: workspace.map(|name| workspace_name(&self.keys.names, name)),
        };
        // Some more, for those of one microsecond.
        let rows = self.base.rows(query, limit.saturating_add(64)).await.map_err(store_error)?;
        let mut heads: Vec<Head> =
            rows.into_iter().filter_map(|row| Head::read_row(&self.keys.names, row, 0)).collect();
        heads.retain(|head| head.entry.is_unfinished(workspace));
        heads.sort_by(|a, b| {
            let [a, b] = [a, b].map(|head| (head.row.updated_at, &head.key.session));
            b.cmp(&a)
        });
        Ok(heads.iter().take(limit).map(Head::info).collect())
    }

    /// Returns sessions of all scopes with events after their last checkpoint.
    pub(super) async fn list_unmarked(
        &self,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<SessionKey>> {
        let (mut found, mut after) = (Vec::new(), None);
        let age = self.clock.now().0.saturating_sub(since.0).max(0);
        let seconds = (age as u64).div_ceil(1_000_000).saturating_add(SKEW_SECONDS);
        while found.len() < limit {
            let query = RowSelection::Moved { seconds, after };
            let rows = self.base.rows(query, ROWS_MAX).await.map_err(store_error)?;
            let Some(last) = rows.last() else { break };
            after = Some((last.moved_in, last.name));
            for row in rows {
                let Some(head) = Head::read_row(&self.keys.names, row, 0) else { continue };
                if head.entry.has_events_to_mark(since) && found.len() < limit {
                    found.push(head.key);
                }
            }
        }
        Ok(found)
    }

    /// Returns the sessions of a scope that will expire or be removed, the soonest first.
    pub(super) async fn list_aging(
        &self,
        scope: &Scope,
        limit: usize,
    ) -> StoreResult<Vec<ExpiringSession>> {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let Walk { heads, is_last, .. } = self.walk_rows(Some(scope), &mut after).await?;
            if is_last {
                break;
            }
            found.extend(heads.iter().filter_map(|head| self.options.lifetimes.aging(&head.entry)));
            if found.len() > limit.saturating_mul(4) {
                found.sort_by(ExpiringSession::compare_end);
                found.truncate(limit);
            }
        }
        found.sort_by(ExpiringSession::compare_end);
        found.truncate(limit);
        Ok(found)
    }

    /// Returns the usage of a tenant without that of one user.
    pub(super) async fn usage(&self, tenant: &TenantId, but: &UserId) -> StoreResult<TenantUsage> {
        let scope = Scope { tenant: tenant.clone(), user: but.clone() };
        self.base
            .usage(tenant_name(&self.keys.names, tenant), scope_name(&self.keys.names, &scope))
            .await
            .map_err(store_error)
    }

    /// Advances unused sessions by one step, some in each round.
    pub(super) async fn sweep(self: &Arc<Self>) -> StoreResult<SweepResult> {
        let mut swept = SweepResult::default();
        if self.check_open().is_err() {
            return Ok(swept);
        }
        let mut after = *self.swept_to.lock();
        for _ in 0..SWEPT_PARTS_MAX {
            let Walk { heads, is_last, .. } = self.walk_rows(None, &mut after).await?;
            swept.more = !is_last;
            for head in heads {
                if let Err(error) = self.advance(&head, &mut swept).await {
                    swept.failed += 1;
                    tracing::warn!(session = %head.hash, %error, "it stays for now");
                }
            }
            if !swept.more {
                break;
            }
        }
        *self.swept_to.lock() = after.filter(|_| swept.more);
        Ok(swept)
    }

    async fn advance(self: &Arc<Self>, head: &Head, swept: &mut SweepResult) -> StoreResult<()> {
        let (entry, counted) = (&head.entry, self.counted_time());
        if entry.stage.is_erasing() {
            // The node that erased it did not finish.
            return self.finish_erasure(head.clone()).await;
        }
        let step = self.options.lifetimes.next_step(entry, counted, || false);
        match step {
            Some(LifetimeStep::Expire) if self.hub.is_followed(head.row.name) => {
                // A caller that waits for its events counts as a use.
                self.record_use(head.clone(), counted).await?;
            }
            Some(LifetimeStep::Expire) => {
                let now = self.clock.now();
                let request =
                    WriteRequest::new(WriteKind::Expire, Batch::default(), now, &*self.entropy);
                let answer = self.submit(&head.key, request, false).await?;
                let wrote = matches!(answer, WriteAnswer::Done { wrote: true, .. });
                swept.expired.extend(wrote.then(|| head.key.clone()));
            }
            Some(LifetimeStep::GiveUp | LifetimeStep::Reclaim) => {
                let gone = self.reclaim(head).await?;
                swept.reclaimed.extend(gone.then(|| head.key.clone()));
            }
            None if entry.stage.is_discarded() => self.free_discarded(head).await?,
            None => {}
        }
        Ok(())
    }

    /// Removes a session whose grace has ended, unless forks read from it; returns true if it is
    /// gone.
    async fn reclaim(&self, head: &Head) -> StoreResult<bool> {
        let (name, uid, revision) = (head.row.name, head.uid(), head.row.revision);
        if !self.needed_forks(uid).await?.is_empty() {
            return Ok(false);
        }
        if !head.entry.stage.is_reclaimed() {
            let step = ReclaimStep::Mark { name, uid, revision };
            if self.base.reclaim(step).await.map_err(store_error)? == 0 {
                return Ok(false);
            }
            self.lane(self.lane_index(name)).mark_moved(name);
            // A fork may have been created before the mark.
            if !self.needed_forks(uid).await?.is_empty() {
                return Ok(false);
            }
        }
        self.delete_frames(head).await?;
        self.files.withdraw_session(head.hash, None);
        let gone = self.base.reclaim(ReclaimStep::Free { name, uid }).await;
        self.base.hint(vec![name]);
        Ok(gone.map_err(store_error)? > 0)
    }

    /// Deletes the frames and names of a session.
    pub(super) async fn delete_frames(&self, head: &Head) -> StoreResult<()> {
        loop {
            let step = ReclaimStep::Delete { uid: head.uid(), rows: DELETED_MAX };
            if self.base.reclaim(step).await.map_err(store_error)? == 0 {
                return Ok(());
            }
        }
    }

    /// Deletes the frames of a discarded session, unless forks read from it.
    pub(super) async fn free_discarded(&self, head: &Head) -> StoreResult<()> {
        if !head.entry.stage.is_discarded() {
            return Ok(());
        }
        // A fork that was being created when it was discarded is there after this.
        let step = ReclaimStep::AwaitForks { name: head.row.name, uid: head.uid() };
        let ended = self.base.reclaim(step).await.map_err(store_error)? > 0;
        if ended && self.needed_forks(head.uid()).await?.is_empty() {
            self.delete_frames(head).await?;
        }
        Ok(())
    }
}

/// Examines sessions of one microsecond in the order of a listing; returns true if the page needs
/// another.
fn examine(page: &mut ListingPageBuilder<'_>, listing: &Listing, same: &mut Vec<Head>) -> bool {
    same.sort_by(|a, b| {
        let [a, b] = [a, b].map(|head| (head.row.created_at, head.key.session.as_str()));
        listing.compare_by_creation(a, b)
    });
    same.drain(..).all(|head| {
        let entry = &head.entry;
        let (session, archived) = (head.key.session.clone(), entry.archived_at.is_some());
        let workspace = entry.workspace.as_deref();
        let created_at = head.row.created_at;
        !listing.may_select(created_at, session.as_str(), workspace, archived)
            || page.examine((created_at, session), Some(head.info()))
    })
}
