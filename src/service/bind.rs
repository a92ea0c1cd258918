//! Finds the session of a call that names none: the one its process was started for, the last one
//! its connection used, or the last one used in its working directory. If none applies, the latest
//! sessions are offered. It must not keep a file: the log records the last use of a directory.

use std::collections::HashMap;

use bytes::Bytes;

use super::{
    BoundBy, Caller, CandidateSession, ClientIdentity, Code, LastUse, NextAction, Service,
    ServiceError, ServiceResult,
    added::new_event,
    directory::{LocalChoice, LocalSession, choose_local},
    is_notebook,
};
use crate::{
    env::sync::{Mutex, MutexGuard},
    event::{Batch, Position, Scope, SessionId, kinds},
    store::SessionInfo,
};

/// Maximum number of connections kept; the least recently used one is dropped first.
const CONNECTIONS_MAX: usize = 10_000;
/// Maximum number of sessions offered to a caller who must choose.
const CANDIDATES_MAX: usize = 5;

/// Last session that each connection used.
#[derive(Default)]
pub(super) struct Bindings {
    table: Mutex<BindingTable>,
}

#[derive(Default)]
struct BindingTable {
    connections: HashMap<(Scope, String), (LastUse, u64)>,
    uses: u64,
}

impl Bindings {
    fn table(&self) -> MutexGuard<'_, BindingTable> {
        self.table.lock()
    }

    fn get(&self, scope: &Scope, via: &ClientIdentity) -> LastUse {
        let remembered = || via.remembered.clone().unwrap_or_default();
        let Some(connection) = &via.connection else { return remembered() };
        let table = self.table();
        let known = table.connections.get(&(scope.clone(), connection.clone()));
        known.map(|(remembered, _)| remembered.clone()).unwrap_or_else(remembered)
    }

    fn set(&self, scope: &Scope, via: &ClientIdentity, remembered: LastUse) {
        let Some(connection) = &via.connection else { return };
        let mut table = self.table();
        table.uses += 1;
        let used = table.uses;
        table.connections.insert((scope.clone(), connection.clone()), (remembered, used));
        if table.connections.len() > CONNECTIONS_MAX {
            let oldest = table.connections.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                table.connections.remove(&oldest);
            }
        }
    }
}

impl Service {
    /// Returns the session of a call and the rule that found it.
    ///
    /// # Errors
    /// `session_required` with the latest sessions of the scope when none is bound.
    pub async fn resolve_session(
        &self,
        caller: &Caller,
        via: &ClientIdentity,
        argument: Option<&SessionId>,
    ) -> ServiceResult<(SessionId, BoundBy)> {
        if let Some(session) = argument {
            return Ok((session.clone(), BoundBy::Argument));
        }
        let remembered = self.last_used_session(caller, via);
        if !remembered.fresh
            && let Some(session) = self.find_started_session(caller, via).await?
            && let Some(session) = self.find_chain_end(caller, &session).await?
        {
            return Ok((session, BoundBy::Started));
        }
        if let Some(session) = remembered.session {
            return Ok((session, BoundBy::Connection));
        }
        let locals = self.local_sessions(caller, via).await?;
        match choose_local(&locals) {
            LocalChoice::One(session) if !remembered.fresh => Ok((session, BoundBy::Directory)),
            _ => Err(self.session_required_error(caller, via, &locals).await?),
        }
    }

    /// Returns the session that the caller's agent works in, or the one the caller was started for.
    pub(super) async fn find_started_session(
        &self,
        caller: &Caller,
        via: &ClientIdentity,
    ) -> ServiceResult<Option<SessionId>> {
        Ok(self.find_agent_session(caller, via).await?.or_else(|| via.session.clone()))
    }

    /// Returns the session that the caller's connection used last. Notebooks are excluded, although
    /// a front end may send one.
    pub(super) fn last_used_session(&self, caller: &Caller, via: &ClientIdentity) -> LastUse {
        let LastUse { session, fresh } = self.bindings.get(&caller.scope, via);
        LastUse { session: session.filter(|session| !is_notebook(session)), fresh }
    }

    /// Records the session that the caller's connection used; ignores notebooks.
    pub fn bind(&self, caller: &Caller, via: &ClientIdentity, session: &SessionId) {
        if is_notebook(session) {
            return;
        }
        let fresh = self.last_used_session(caller, via).fresh;
        let remembered = LastUse { session: Some(session.clone()), fresh };
        self.bindings.set(&caller.scope, via, remembered);
    }

    /// Resets the caller's connection: removes its binding, stops reuse of tool results in its
    /// session, and releases the lease whose token the caller sent. An event in the log records the
    /// reset, unless the session was only chosen as the last one of the directory, which another
    /// caller may be using. Returns the session that the connection was bound to.
    ///
    /// # Errors
    /// `lease_lost`, and those of the store.
    pub async fn clear_session(
        &self,
        caller: &Caller,
        via: &ClientIdentity,
    ) -> ServiceResult<Option<SessionId>> {
        let before = match self.resolve_session(caller, via, None).await {
            Ok(found) => Some(found),
            Err(error) if error.code == Code::SessionRequired => None,
            Err(error) => return Err(error),
        };
        let its_own = before.as_ref().filter(|(_, by)| *by != BoundBy::Directory);
        if let Some((session, _)) = its_own {
            // The connection is unbound even if the session refuses the event.
            if let Err(error) = self.record_reset(caller, session).await {
                tracing::warn!(%session, code = error.code.as_str(), "a fresh start was not recorded");
            }
        }
        let before = before.map(|(session, _)| session);
        if let (Some(session), Some(_)) = (&before, caller.fence) {
            self.release_lease(caller, session).await?;
        }
        self.bindings.set(&caller.scope, via, LastUse { session: None, fresh: true });
        Ok(before)
    }

    /// Records the reset in the session, unless its last event is one.
    async fn record_reset(&self, caller: &Caller, session: &SessionId) -> ServiceResult<()> {
        let key = caller.key(session);
        let tail = self.store.info(&key).await?.tail;
        let last = match tail.0.checked_sub(1) {
            Some(last) => self.read_event(&key, Position(last)).await?,
            None => None,
        };
        if last.is_none_or(|last| last.kind.as_str() != kinds::CONTEXT_CLEARED) {
            let body = Bytes::from_static(br#"{"by":"clear_session"}"#);
            let events = vec![new_event(kinds::CONTEXT_CLEARED, caller.origin, body)];
            let batch = Batch { events: events.into(), ..Batch::default() };
            self.append(caller, session, batch, false).await?;
        }
        Ok(())
    }

    /// Adds the usable sessions to an error about an unusable one.
    pub async fn offer_sessions(
        &self,
        caller: &Caller,
        via: &ClientIdentity,
        mut error: ServiceError,
    ) -> ServiceError {
        if let Some(NextAction::RestoreSession(session)) = error.hint.next.clone() {
            // The caller means the restorable session, so no other one is offered.
            error = error.action(
                "other work begins with sequential_search stepNumber 1 after clear_session; a \
                 person brings this session back",
            );
            error.hint.next = Some(NextAction::RestoreSession(session));
        } else if error.code.is_gone()
            && let Ok(locals) = self.local_sessions(caller, via).await
            && let Ok(candidates) = self.list_candidates(caller, via, &locals).await
        {
            let action = match candidates.iter().any(|candidate| candidate.here) {
                true => {
                    "name one of the candidates of your workspace as sessionId; other work begins \
                     after clear_session"
                }
                false => {
                    "name one of the candidates as sessionId; leave this session with \
                     clear_session and start another with sequential_search stepNumber 1"
                }
            };
            error = error.action(action);
            error.hint.candidates = candidates;
        }
        error
    }

    pub(super) async fn session_required_error(
        &self,
        caller: &Caller,
        via: &ClientIdentity,
        locals: &[LocalSession],
    ) -> ServiceResult<ServiceError> {
        let fresh = self.last_used_session(caller, via).fresh;
        let candidates = self.list_candidates(caller, via, locals).await?;
        let here = candidates.iter().any(|candidate| candidate.here);
        let message = match choose_local(locals) {
            LocalChoice::Several if !fresh => {
                "several live sessions of this directory may be meant"
            }
            _ => "no session is bound to this caller and none was named",
        };
        let mut error = ServiceError::new(Code::SessionRequired, message);
        let hint = &mut *error.hint;
        let older =
            if fresh || here { Vec::new() } else { self.filter_with_research(locals).await };
        hint.workspace = older.into_iter().find_map(|info| info.workspace);
        let placed = !via.workspaces().is_empty();
        hint.may_begin =
            fresh || (!here && hint.workspace.is_none() && (placed || candidates.is_empty()));
        let action = match (hint.may_begin, here, &hint.workspace) {
            (true, ..) if candidates.is_empty() => {
                "start one with sequential_search stepNumber 1; list_sessions names older ones"
            }
            (true, ..) => {
                "start one with sequential_search stepNumber 1; or name one of the candidates as \
                 sessionId"
            }
            (_, true, _) => {
                "name one of the candidates of your workspace as sessionId; other work begins \
                 after clear_session"
            }
            (_, _, Some(_)) => {
                "name a session of this directory as sessionId; list_sessions with its workspace \
                 lists them"
            }
            _ => {
                "send sessionId as an argument with each call: the answer of the first step has \
                 it, as has each candidate; nothing else tells the calls of this client apart"
            }
        };
        hint.action = Some(action.to_owned());
        hint.candidates = candidates;
        Ok(error)
    }

    /// Returns candidates for a caller without a session: those of its workspace first, live ones
    /// before others.
    async fn list_candidates(
        &self,
        caller: &Caller,
        via: &ClientIdentity,
        locals: &[LocalSession],
    ) -> ServiceResult<Vec<CandidateSession>> {
        let fresh = self.last_used_session(caller, via).fresh;
        let (live, rest): (Vec<_>, Vec<_>) = locals.iter().partition(|local| local.live);
        let own = live.into_iter().chain(rest).map(|local| local.info.clone());
        let mut offered: Vec<(SessionInfo, bool)> =
            own.filter(|info| self.is_offered(info)).map(|info| (info, !fresh)).collect();
        // Sessions of other directories are only read if the list is not full.
        if offered.len() < CANDIDATES_MAX {
            let others = self.list_latest(caller, None, CANDIDATES_MAX).await?;
            let is_new = |info: &SessionInfo| locals.iter().all(|local| local.info.key != info.key);
            let others = others.into_iter().filter(is_new);
            offered.extend(others.filter(|info| self.is_offered(info)).map(|info| (info, false)));
        }
        offered.truncate(CANDIDATES_MAX);
        self.add_titles(offered.iter_mut().map(|(info, _)| info)).await;
        Ok(offered.into_iter().map(|(info, here)| to_candidate(info, here)).collect())
    }
}

pub(super) fn to_candidate(info: SessionInfo, here: bool) -> CandidateSession {
    CandidateSession {
        updated_at: info.worked_at(),
        session: info.key.session,
        title: info.title,
        workspace: info.workspace,
        here,
        tail: info.tail,
    }
}
