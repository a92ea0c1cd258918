//! The sessions of a workspace, most recently used first, and that of a working directory for a
//! caller without an id. Several agents may work in one directory, so a session is chosen only if
//! it is unambiguous. It must not write, except for the mark that one session continues another.

use super::{
    Caller, ClientIdentity, Code, RESERVED_METADATA, Service, ServiceError, ServiceResult,
    SessionStatus, is_notebook, links::continues_name, notebook::exclude_notebooks,
    store_error::write_error,
};
use crate::{
    event::{Origin, Position, SessionId, SessionKey},
    store::{Listing, ListingOrder, SessionInfo, SessionUpdate, lifetime::micros},
};

/// Maximum number of sessions of a directory considered, latest first.
const SESSIONS_MAX: usize = 8;
/// Maximum number of links of a chain followed.
const LINKS_MAX: usize = 100;

/// A session of the caller's directory.
pub(super) struct LocalSession {
    pub(super) info: SessionInfo,
    /// True if its agent is active: it wrote recently, and nothing ended the session.
    pub(super) live: bool,
    /// Number of its research steps; 0 if it is not live.
    pub(super) steps: usize,
}

/// Session that a caller without an id means in a directory.
pub(super) enum LocalChoice {
    /// An unambiguous session.
    One(SessionId),
    /// Ambiguous: none is chosen.
    Several,
    /// No session found.
    None,
}

/// Returns the metadata name for a session's successor and its number of steps at that time.
fn continued_name() -> String {
    format!("{RESERVED_METADATA}continued")
}

/// Returns the session that continues this one, unless this one has gained steps since.
fn recorded_successor(info: &SessionInfo, steps: usize) -> Option<SessionId> {
    let (session, before) = info.metadata.get(&continued_name())?.rsplit_once('@')?;
    (before.parse() == Ok(steps)).then(|| SessionId::new(session).ok()).flatten()
}

/// Chooses among the sessions of a directory: the only live one with research, or the only live one
/// if none has research. A session that another live one continues is skipped.
pub(super) fn choose_local(locals: &[LocalSession]) -> LocalChoice {
    let live = |session: &SessionId| {
        locals.iter().any(|local| local.live && local.info.key.session == *session)
    };
    let superseded = |local: &LocalSession| {
        recorded_successor(&local.info, local.steps).is_some_and(|s| live(&s))
    };
    let open = || locals.iter().filter(|local| local.live && !superseded(local));
    let some = open().any(|local| local.steps > 0);
    let mut wanted = open().filter(|local| !some || local.steps > 0);
    match (wanted.next(), wanted.next()) {
        (Some(one), None) => LocalChoice::One(one.info.key.session.clone()),
        (Some(_), Some(_)) => LocalChoice::Several,
        (None, _) => LocalChoice::None,
    }
}

/// Returns the only live session without steps: its agent has not started research yet.
pub(super) fn find_idle_session(locals: &[LocalSession]) -> Option<&SessionId> {
    let mut empty = locals.iter().filter(|local| local.live && local.steps == 0);
    let one = empty.next()?;
    empty.next().is_none().then_some(&one.info.key.session)
}

impl Service {
    /// Returns true if a session belongs to a workspace.
    pub async fn is_in_workspace(
        &self,
        caller: &Caller,
        workspace: &str,
        session: &SessionId,
    ) -> bool {
        let info = self.store.info(&caller.key(session)).await;
        info.is_ok_and(|info| info.workspace.as_deref() == Some(workspace))
    }

    /// Returns the sessions last written to in the caller's directory and its parents within its
    /// repository, latest first. Temporary sessions are excluded.
    pub(super) async fn local_sessions(
        &self,
        caller: &Caller,
        via: &ClientIdentity,
    ) -> ServiceResult<Vec<LocalSession>> {
        let mut found = Vec::new();
        for workspace in via.workspaces() {
            found.extend(self.list_latest(caller, Some(&workspace), SESSIONS_MAX).await?);
        }
        found.retain(|info| info.ttl_seconds.is_none_or(|seconds| seconds == 0));
        found.sort_by_key(|info| std::cmp::Reverse((info.worked_at(), info.created_at)));
        let mut locals = Vec::new();
        for info in found.into_iter().take(SESSIONS_MAX) {
            let live = self.is_live(&info).await;
            // A damaged session has no step to continue.
            let steps = if live { self.count_steps(&info.key).await.unwrap_or(0) } else { 0 };
            locals.push(LocalSession { info, live, steps });
        }
        Ok(locals)
    }

    /// Returns the `count` most recently used sessions of a working directory or of the whole
    /// scope, without notebooks.
    pub(super) async fn list_latest(
        &self,
        caller: &Caller,
        workspace: Option<&String>,
        count: usize,
    ) -> ServiceResult<Vec<SessionInfo>> {
        let listing = Listing {
            limit: count,
            order: ListingOrder::Worked,
            workspace: workspace.cloned(),
            only: Some(exclude_notebooks()),
            ..Listing::default()
        };
        Ok(self.store.list(&caller.scope, listing).await?.sessions)
    }

    /// Returns the sessions of all pages of a listing, at most `count`.
    pub(super) async fn list_all_pages(
        &self,
        caller: &Caller,
        mut listing: Listing,
        count: usize,
    ) -> ServiceResult<Vec<SessionInfo>> {
        let (mut found, mut slot) = (Vec::new(), None);
        loop {
            slot = Some(self.compute.yield_or_acquire(&caller.scope.tenant, slot).await?);
            let page = self.store.list(&caller.scope, listing.clone()).await?;
            found.extend(page.sessions);
            listing.after = page.next;
            if listing.after.is_none() || found.len() >= count {
                return Ok(found);
            }
        }
    }

    /// Returns a session of a workspace and records a use of it; notebooks are rejected.
    pub(super) async fn get_in_workspace(
        &self,
        caller: &Caller,
        workspace: &str,
        session: &SessionId,
    ) -> ServiceResult<SessionInfo> {
        let info = self.store.use_session(&caller.key(session)).await?;
        if info.workspace.as_deref() != Some(workspace) || is_notebook(session) {
            return Err(Self::no_session_error(workspace, Some(session)));
        }
        Ok(info)
    }

    /// Returns true if an agent wrote to a session within the hot time and nothing ended it.
    /// Imports and events shared with a fork's parent do not count.
    async fn is_live(&self, info: &SessionInfo) -> bool {
        if SessionStatus::from_info(info) == SessionStatus::Terminated {
            return false;
        }
        let last = info.tail.0.checked_sub(1).map(Position);
        if info.forked_from.as_ref().is_some_and(|point| last.is_none_or(|last| last < point.at)) {
            return false;
        }
        let last = match last {
            Some(last) => self.read_event(&info.key, last).await.unwrap_or_default(),
            None => None,
        };
        let imported = last.as_ref().is_some_and(|event| event.origin == Origin::Import);
        let written_at = last.map_or(info.created_at, |event| event.processed_at);
        let hot = self.store.lifetimes().hot;
        !imported && (hot.is_zero() || self.now() <= written_at.plus_micros(micros(hot)))
    }

    /// Returns the sessions of the directory that have research, live or not.
    pub(super) async fn filter_with_research(&self, locals: &[LocalSession]) -> Vec<SessionInfo> {
        let mut found = Vec::new();
        for local in locals {
            if local.steps > 0
                || self.count_steps(&local.info.key).await.is_ok_and(|steps| steps > 0)
            {
                found.push(local.info.clone());
            }
        }
        found
    }

    async fn count_steps(&self, key: &SessionKey) -> ServiceResult<usize> {
        self.peek_facts(key, |_, facts| facts.research.steps().len()).await
    }

    /// Returns the last session of the chain that starts at this one; `None` if this one does not
    /// exist in any state.
    pub(super) async fn find_chain_end(
        &self,
        caller: &Caller,
        session: &SessionId,
    ) -> ServiceResult<Option<SessionId>> {
        if !self.exists(caller, session).await? {
            return Ok(None);
        }
        let mut end = session.clone();
        for _ in 0..LINKS_MAX {
            let key = caller.key(&end);
            let Ok(info) = self.store.info(&key).await else { break };
            if !info.metadata.contains_key(&continued_name()) {
                break;
            }
            match recorded_successor(&info, self.count_steps(&key).await?) {
                Some(next) if self.store.info(&caller.key(&next)).await.is_ok() => end = next,
                _ => break,
            }
        }
        Ok(Some(end))
    }

    /// Returns true if the session exists, in any state.
    async fn exists(&self, caller: &Caller, session: &SessionId) -> ServiceResult<bool> {
        match self.store.info(&caller.key(session)).await.map_err(ServiceError::from) {
            Ok(_) => Ok(true),
            Err(error) if error.code == Code::SessionNotFound => Ok(false),
            Err(error) if error.code.is_gone() => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Records in both sessions that `next` continues `before`. In different workspaces,
    /// only the earlier one is marked; its caller is bound to the other through the mark.
    pub(super) async fn link_sessions(
        &self,
        caller: &Caller,
        before: &SessionId,
        next: &SessionId,
    ) -> ServiceResult<()> {
        let steps = self.count_steps(&caller.key(before)).await?;
        let [of_next, of_before] = [next, before].map(|session| caller.key(session));
        let (next_info, before_info) =
            (self.store.info(&of_next).await?, self.store.info(&of_before).await?);
        let is_of_one = next_info.workspace == before_info.workspace;
        let pairs = [
            (next_info, continues_name(), is_of_one.then(|| before.to_string())),
            (before_info, continued_name(), Some(format!("{next}@{steps}"))),
        ];
        for (SessionInfo { key, metadata, .. }, name, value) in pairs {
            let Some(value) = value.filter(|value| metadata.get(&name) != Some(value)) else {
                continue;
            };
            let change = SessionUpdate {
                metadata: [(name, Some(value))].into(),
                ..SessionUpdate::default()
            };
            self.await_durable(self.store.change(&key, change)).await.map_err(write_error)?;
        }
        Ok(())
    }
}
