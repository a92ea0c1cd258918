//! Changes of sessions for a follower at this node: at first all sessions, then those that changed
//! at any node. A change is found by the time slot of its row, so none is missed if a hint is lost.
//! It must not read a frame.

use std::{collections::HashMap, time::Duration};

use super::{
    feed::FeedState,
    node::Node,
    row::{Head, session_name},
    store_error,
};
use crate::{
    env::Clock,
    store::{
        ChangedSession, ChangedSessions, ChangesSeen, StoreResult,
        base::{Hash16, RowSelection},
        derived::WalkProgress,
    },
};

/// Time before the last look from which rows are looked at again: a commit becomes visible after
/// the time that it is filed under.
const OVERLAP: Duration = Duration::from_secs(20);
/// The same, now and then, for commits that waited for long.
const LONG_OVERLAP: Duration = Duration::from_secs(300);
const LONG_EVERY: Duration = Duration::from_secs(30);
/// Microseconds of one time slot of rows.
const SLOT_MICROS: i64 = 10_000_000;
/// Rows read with one statement.
const ROWS_MAX: usize = 500;

impl Node {
    /// Returns the sessions that changed since `since`, or the next part of a walk over all.
    pub(super) async fn list_changes(
        &self,
        mut since: ChangesSeen,
        limit: usize,
    ) -> StoreResult<ChangedSessions> {
        let limit = limit.max(1);
        {
            let mut state = self.feed.state.lock();
            if state.epoch == 0 || since.epoch != state.epoch {
                let (epoch, now) = (state.epoch + 1, self.real.monotonic());
                let looked_base = self.status().now;
                let begun =
                    FeedState { epoch, looked_at: now, looked_base, ..FeedState::default() };
                *state = FeedState { looked_long_at: now, ..begun };
                since = ChangesSeen { epoch, ..ChangesSeen::default() };
            }
        }
        let mut after = match &since.walked {
            WalkProgress::Begins => None,
            WalkProgress::To(key) => Some(session_name(&self.keys.names, key)),
            WalkProgress::Ended => return self.list_queued(since, limit).await,
        };
        let heads: Vec<Head> = loop {
            let query = RowSelection::All { after };
            let rows = self.base.rows(query, limit.min(ROWS_MAX)).await.map_err(store_error)?;
            let Some(last) = rows.last() else { break Vec::new() };
            after = Some(last.name);
            let heads = rows.into_iter().filter_map(|row| Head::read_row(&self.keys.names, row, 0));
            let heads: Vec<Head> = heads.collect();
            // Damaged rows are left out.
            if !heads.is_empty() {
                break heads;
            }
        };
        let recent =
            self.status().now.0.div_euclid(SLOT_MICROS) - LONG_OVERLAP.as_secs() as i64 / 5;
        {
            let mut state = self.feed.state.lock();
            for row in heads.iter().map(|head| &head.row) {
                if i64::from(row.moved_in) >= recent && !state.queued.contains_key(&row.name) {
                    state.seen.insert(row.name, (row.uid, row.revision));
                }
            }
        }
        since.walked = match heads.last() {
            Some(last) => WalkProgress::To(last.key.clone()),
            None => WalkProgress::Ended,
        };
        let sessions = heads.iter().map(changed_session).collect();
        Ok(ChangedSessions { sessions, since, more: true })
    }

    async fn list_queued(
        &self,
        mut since: ChangesSeen,
        limit: usize,
    ) -> StoreResult<ChangedSessions> {
        self.look_for_changes().await?;
        let (names, more) = {
            let mut state = self.feed.state.lock();
            let rest = state.queue.split_off(&(since.number + 1));
            let done = std::mem::replace(&mut state.queue, rest);
            for (number, name) in done {
                if state.queued.get(&name) == Some(&number) {
                    state.queued.remove(&name);
                }
            }
            let taken: Vec<_> =
                state.queue.iter().take(limit).map(|(n, name)| (*n, *name)).collect();
            (taken, state.queue.len() > limit)
        };
        since.number = names.last().map_or(since.number, |(number, _)| *number);
        let names = names.into_iter().map(|(_, name)| name).collect();
        let heads = self.fetch_heads(names).await?;
        Ok(ChangedSessions { sessions: heads.iter().map(changed_session).collect(), since, more })
    }

    /// Looks for sessions that other nodes changed.
    async fn look_for_changes(&self) -> StoreResult<()> {
        // A removal is confirmed after this look, so it must not be missed.
        let (now, removals) = (self.real.monotonic(), *self.removals.borrow());
        let base_now = self.status().now;
        let seconds = {
            let state = self.feed.state.lock();
            let is_long = now - state.looked_long_at >= LONG_EVERY || state.removals != removals;
            let overlap = if is_long { LONG_OVERLAP } else { OVERLAP };
            // By the clock of the base, too: this machine may have been suspended.
            let away = (base_now.0 - state.looked_base.0).max(0);
            let passed = (now - state.looked_at).max(Duration::from_micros(away as u64));
            (passed + overlap).as_secs() + 1
        };
        let (mut after, mut found) = (None, Vec::new());
        loop {
            let query = RowSelection::Moved { seconds, after };
            let rows = self.base.rows(query, ROWS_MAX).await.map_err(store_error)?;
            let Some(last) = rows.last() else { break };
            after = Some((last.moved_in, last.name));
            let is_last = rows.len() < ROWS_MAX;
            found.extend(rows.into_iter().map(|row| (row.name, (row.uid, row.revision))));
            if is_last {
                break;
            }
        }
        let hinted: Vec<Hash16> = self.feed.state.lock().hinted.drain().collect();
        for names in hinted.chunks(ROWS_MAX) {
            let query = RowSelection::Names(names.to_vec());
            let rows = self.base.rows(query, ROWS_MAX).await.map_err(store_error)?;
            found.extend(rows.into_iter().map(|row| (row.name, (row.uid, row.revision))));
        }
        let mut state = self.feed.state.lock();
        for (name, seen) in &found {
            state.see(*name, *seen);
        }
        // Others are not found again unless they change.
        let recent: HashMap<_, _> = found.into_iter().collect();
        state.seen.retain(|name, _| recent.contains_key(name));
        (state.looked_at, state.looked_base, state.removals) = (now, base_now, removals);
        if seconds >= LONG_OVERLAP.as_secs() {
            state.looked_long_at = now;
        }
        Ok(())
    }
}

fn changed_session(head: &Head) -> ChangedSession {
    head.entry.changed_session(head.key.clone(), head.hash)
}
