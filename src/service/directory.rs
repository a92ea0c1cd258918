//! The sessions of a workspace, those worked in last first, and the one of a working directory for
//! a caller without an id. Several agents may work in one directory, so a session is chosen only if
//! it is unambiguous. It must not write, except for the mark that one session continues another.

use super::{
    Caller, Code, RESERVED_METADATA, Service, ServiceError, ServiceResult, Status, Via,
    is_notebook, links::continues, notebook::no_notebook, store_error::unwritten,
};
use crate::{
    event::{Origin, Position, SessionId, SessionKey},
    store::{Change, Listing, ListingOrder, SessionInfo, lifetime::micros},
};

/// The latest sessions of a directory that are considered.
const SESSIONS_MAX: usize = 8;
/// Sessions of one chain that are followed.
const LINKS_MAX: usize = 100;

/// A session of the caller's directory.
pub(super) struct Local {
    pub(super) info: SessionInfo,
    /// True if its agent is at work: it wrote lately, and nothing ended the session.
    pub(super) live: bool,
    /// Research steps it holds; 0 for one that is not live.
    pub(super) steps: usize,
}

/// The session of a directory for a caller without an id.
pub(super) enum Meant {
    /// That one.
    One(SessionId),
    /// Ambiguous: none is chosen.
    Several,
    /// There is none.
    None,
}

/// Metadata of a session that names the one that continues it, and how many steps it had then.
fn continued() -> String {
    format!("{RESERVED_METADATA}continued")
}

/// The session that continues this one, unless this one has more steps since.
fn successor(info: &SessionInfo, steps: usize) -> Option<SessionId> {
    let (session, before) = info.metadata.get(&continued())?.rsplit_once('@')?;
    (before.parse() == Ok(steps)).then(|| SessionId::new(session).ok()).flatten()
}

/// Chooses among the sessions of a directory: the only live one with research, or the only live one
/// if none has research. A session that another live one continues is skipped.
pub(super) fn meant(locals: &[Local]) -> Meant {
    let live = |session: &SessionId| {
        locals.iter().any(|local| local.live && local.info.key.session == *session)
    };
    let superseded = |local: &Local| successor(&local.info, local.steps).is_some_and(|s| live(&s));
    let open = || locals.iter().filter(|local| local.live && !superseded(local));
    let some = open().any(|local| local.steps > 0);
    let mut wanted = open().filter(|local| !some || local.steps > 0);
    match (wanted.next(), wanted.next()) {
        (Some(one), None) => Meant::One(one.info.key.session.clone()),
        (Some(_), Some(_)) => Meant::Several,
        (None, _) => Meant::None,
    }
}

/// The only live session without steps: its agent has begun no research yet.
pub(super) fn without_research(locals: &[Local]) -> Option<&SessionId> {
    let mut empty = locals.iter().filter(|local| local.live && local.steps == 0);
    let one = empty.next()?;
    empty.next().is_none().then_some(&one.info.key.session)
}

impl Service {
    /// True if a session belongs to a workspace.
    pub async fn is_in_workspace(
        &self,
        caller: &Caller,
        workspace: &str,
        session: &SessionId,
    ) -> bool {
        let info = self.store.info(&caller.key(session)).await;
        info.is_ok_and(|info| info.workspace.as_deref() == Some(workspace))
    }

    /// The sessions written to last in the caller's directory and the directories above it within
    /// its repository, the latest first. Temporary ones are left out.
    pub(super) async fn locals(&self, caller: &Caller, via: &Via) -> ServiceResult<Vec<Local>> {
        let mut found = Vec::new();
        for workspace in via.workspaces() {
            found.extend(self.latest(caller, Some(&workspace), SESSIONS_MAX).await?);
        }
        found.retain(|info| info.ttl_seconds.is_none_or(|seconds| seconds == 0));
        found.sort_by_key(|info| std::cmp::Reverse((info.worked_at(), info.created_at)));
        let mut locals = Vec::new();
        for info in found.into_iter().take(SESSIONS_MAX) {
            let live = self.is_live(&info).await;
            // A damaged session has no step that could be continued.
            let steps = if live { self.steps_of(&info.key).await.unwrap_or(0) } else { 0 };
            locals.push(Local { info, live, steps });
        }
        Ok(locals)
    }

    /// The `count` sessions worked in last, in a working directory or in the whole scope, without
    /// notebooks.
    pub(super) async fn latest(
        &self,
        caller: &Caller,
        workspace: Option<&String>,
        count: usize,
    ) -> ServiceResult<Vec<SessionInfo>> {
        let listing = Listing {
            limit: count,
            order: ListingOrder::Worked,
            workspace: workspace.cloned(),
            only: Some(no_notebook()),
            ..Listing::default()
        };
        Ok(self.store.list(&caller.scope, listing).await?.sessions)
    }

    /// The sessions of all pages of a listing, until there are so many.
    pub(super) async fn all_listed(
        &self,
        caller: &Caller,
        mut listing: Listing,
        count: usize,
    ) -> ServiceResult<Vec<SessionInfo>> {
        let (mut found, mut place) = (Vec::new(), None);
        loop {
            place = Some(self.places.turn(&caller.scope.tenant, place).await?);
            let page = self.store.list(&caller.scope, listing.clone()).await?;
            found.extend(page.sessions);
            listing.after = page.next;
            if listing.after.is_none() || found.len() >= count {
                return Ok(found);
            }
        }
    }

    /// A session of work of a workspace, as a use of it: its notebook is none.
    pub(super) async fn in_workspace(
        &self,
        caller: &Caller,
        workspace: &str,
        session: &SessionId,
    ) -> ServiceResult<SessionInfo> {
        let info = self.store.used(&caller.key(session)).await?;
        if info.workspace.as_deref() != Some(workspace) || is_notebook(session) {
            return Err(Self::none_in(workspace, Some(session)));
        }
        Ok(info)
    }

    /// True if an agent wrote to a session within the hot time and nothing ended it. An import is
    /// no work of an agent, and what a fork has of its parent is not its own.
    async fn is_live(&self, info: &SessionInfo) -> bool {
        if Status::from_info(info) == Status::Terminated {
            return false;
        }
        let last = info.tail.0.checked_sub(1).map(Position);
        if info.forked_from.as_ref().is_some_and(|point| last.is_none_or(|last| last < point.at)) {
            return false;
        }
        let last = match last {
            Some(last) => self.event_at(&info.key, last).await.unwrap_or_default(),
            None => None,
        };
        let imported = last.as_ref().is_some_and(|event| event.origin == Origin::Import);
        let written_at = last.map_or(info.created_at, |event| event.processed_at);
        let hot = self.store.lifetimes().hot;
        !imported && (hot.is_zero() || self.now() <= written_at.plus_micros(micros(hot)))
    }

    /// Those of the directory's sessions that hold research, live or not.
    pub(super) async fn sessions_with_research_steps(&self, locals: &[Local]) -> Vec<SessionInfo> {
        let mut found = Vec::new();
        for local in locals {
            if local.steps > 0 || self.steps_of(&local.info.key).await.is_ok_and(|steps| steps > 0)
            {
                found.push(local.info.clone());
            }
        }
        found
    }

    /// How many research steps a session holds.
    async fn steps_of(&self, key: &SessionKey) -> ServiceResult<usize> {
        self.peek_facts(key, |_, facts| facts.research.steps().len()).await
    }

    /// The last of the sessions that continue one another from this one on; `None` when this one
    /// does not exist in any state.
    pub(super) async fn end_of_line(
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
            if !info.metadata.contains_key(&continued()) {
                break;
            }
            match successor(&info, self.steps_of(&key).await?) {
                Some(next) if self.store.info(&caller.key(&next)).await.is_ok() => end = next,
                _ => break,
            }
        }
        Ok(Some(end))
    }

    /// True if the session exists, in any state.
    async fn exists(&self, caller: &Caller, session: &SessionId) -> ServiceResult<bool> {
        match self.store.info(&caller.key(session)).await.map_err(ServiceError::from) {
            Ok(_) => Ok(true),
            Err(error) if error.code == Code::SessionNotFound => Ok(false),
            Err(error) if error.code.is_gone() => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Marks in both sessions that `next` continues `before`. Of two workspaces only the earlier
    /// one is marked, by which its caller is bound to the other.
    pub(super) async fn link(
        &self,
        caller: &Caller,
        before: &SessionId,
        next: &SessionId,
    ) -> ServiceResult<()> {
        let steps = self.steps_of(&caller.key(before)).await?;
        let [of_next, of_before] = [next, before].map(|session| caller.key(session));
        let (next_info, before_info) =
            (self.store.info(&of_next).await?, self.store.info(&of_before).await?);
        let is_of_one = next_info.workspace == before_info.workspace;
        let pairs = [
            (next_info, continues(), is_of_one.then(|| before.to_string())),
            (before_info, continued(), Some(format!("{next}@{steps}"))),
        ];
        for (SessionInfo { key, metadata, .. }, name, value) in pairs {
            let Some(value) = value.filter(|value| metadata.get(&name) != Some(value)) else {
                continue;
            };
            let change = Change { metadata: [(name, Some(value))].into(), ..Change::default() };
            self.durable(self.store.change(&key, change)).await.map_err(unwritten)?;
        }
        Ok(())
    }
}
