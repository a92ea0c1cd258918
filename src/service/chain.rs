//! Lists the chain of a session in both directions, and finds the session shown instead of one
//! without a task. It must not write a link.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Caller, Service, ServiceResult,
    links::{
        LINKS_MAX, continued_session, continues_name, restored_from_name, restored_session,
        saved_at,
    },
    notebook::exclude_notebooks,
};
use crate::{
    api::handoff::ChainSession,
    event::{Position, SessionId, SessionKey},
    projection::Facts,
    store::{Criterion, Listing, SessionInfo},
};

/// Maximum number of sessions listed of a chain.
const CHAIN_MAX: usize = 1_000;

/// A session of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainLink {
    /// Session record.
    pub info: SessionInfo,
    /// Session that it continues, and the position up to which it has read that session.
    pub continues: Option<(SessionId, Option<Position>)>,
    /// Sessions that continue it, the earliest first.
    pub continued_by: Vec<SessionId>,
    /// Position of its last save.
    pub saved_at: Option<Position>,
}

impl From<ChainLink> for ChainSession {
    fn from(link: ChainLink) -> Self {
        let (before, at) = link.continues.unzip();
        Self {
            session: link.info.clone().into(),
            continues: before.map(|session| session.to_string()),
            continues_from: at.flatten().map(|at| at.0),
            continued_by: link.continued_by.iter().map(ToString::to_string).collect(),
            saved_at: link.saved_at.map(|at| at.0),
        }
    }
}

impl Service {
    /// Returns the sessions that a session continues and that continue it, earliest first.
    ///
    /// # Errors
    /// `session_not_found`, and those of the engine. The chain ends at a deleted session or at
    /// another workspace.
    pub async fn list_chain(
        &self,
        caller: &Caller,
        session: &SessionId,
    ) -> ServiceResult<Vec<ChainLink>> {
        let own = self.store.use_session(&caller.key(session)).await?;
        let workspace = own.workspace.clone();
        let mut line = vec![own];
        let mut elsewhere = None;
        while let Some((before, _)) = line.last().and_then(continued_session)
            && line.len() < LINKS_MAX
            && !line.iter().any(|info| info.key.session == before)
            && let Ok(info) = self.store.info(&caller.key(&before)).await
        {
            if info.workspace != workspace {
                elsewhere = Some(before);
                break;
            }
            line.push(info);
        }
        line.reverse();
        let followers = self.list_successors(caller, workspace.as_deref()).await?;
        let mut seen: BTreeSet<SessionId> =
            line.iter().map(|info| info.key.session.clone()).collect();
        let mut at = 0;
        while let Some(info) = line.get(at).filter(|_| line.len() < CHAIN_MAX) {
            let next = followers.get(&info.key.session).into_iter().flatten();
            let next: Vec<SessionInfo> =
                next.filter(|info| seen.insert(info.key.session.clone())).cloned().collect();
            line.extend(next);
            at += 1;
        }
        self.add_titles(&mut line).await;
        let link = |info: SessionInfo| {
            let by = followers.get(&info.key.session).into_iter().flatten();
            ChainLink {
                continues: continued_session(&info)
                    .filter(|(of, _)| Some(of) != elsewhere.as_ref()),
                continued_by: by.map(|info| info.key.session.clone()).collect(),
                saved_at: saved_at(&info),
                info,
            }
        };
        Ok(line.into_iter().map(link).collect())
    }

    /// Returns the session shown instead of one without a task and without research, and its end
    /// position: the nearest continued session that has either.
    pub(super) async fn find_stand_in(
        &self,
        key: &SessionKey,
    ) -> ServiceResult<Option<(SessionKey, Position)>> {
        let says = |_: &SessionInfo, facts: &Facts| {
            let research = &facts.research;
            let has_research = research.goal().is_some() || !research.steps().is_empty();
            facts.progress.task().is_some() || has_research
        };
        if restored_session(&self.store.info(key).await?).is_none()
            || self.peek_facts(key, says).await?
        {
            return Ok(None);
        }
        let mut line = self.prior_sessions(key).await?;
        let mut nearest = line.pop();
        while let Some(link) = nearest.take() {
            if line.is_empty() || self.peek_facts(&link.key, says).await? {
                return Ok(Some((link.key, link.to)));
            }
            nearest = line.pop();
        }
        Ok(None)
    }

    /// Returns the sessions of a workspace that continue another, grouped by the continued session.
    pub(super) async fn list_successors(
        &self,
        caller: &Caller,
        workspace: Option<&str>,
    ) -> ServiceResult<BTreeMap<SessionId, Vec<SessionInfo>>> {
        let mut found: BTreeMap<SessionId, Vec<SessionInfo>> = BTreeMap::new();
        let links = [continues_name(), restored_from_name()].map(Criterion::Named);
        let listing = Listing {
            limit: CHAIN_MAX,
            ascending: true,
            workspace: workspace.map(str::to_owned),
            include_archived: true,
            only: Some(Criterion::All(vec![Criterion::Any(links.into()), exclude_notebooks()])),
            ..Listing::default()
        };
        for info in self.list_all_pages(caller, listing, usize::MAX).await? {
            if let Some((before, _)) = continued_session(&info) {
                found.entry(before).or_default().push(info);
            }
        }
        Ok(found)
    }
}
