//! The session that an agent works in now. The start hook and the front end both report the
//! processes that they are children of, which identifies the agent. After `/clear` or `/resume` the
//! agent works in another session than its front end was started for. It must not choose between
//! agents: without a start of the caller's own agent nothing is chosen.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use serde::Deserialize;

use super::{
    Caller, ClientIdentity, Code, RESERVED_METADATA, Service, ServiceResult, SessionStatus,
    added::new_event, status::record_status,
};
use crate::{
    env::{parents::MACHINE, sync::Mutex},
    event::{Batch, NewEvent, Origin, Scope, SessionId, Timestamp, kinds, limits},
    projection::body,
    store::{Criterion, Listing, SessionInfo},
};

/// Maximum number of agents whose starts are cached.
const AGENTS_MAX: usize = 10_000;
/// Maximum number of starts examined for one agent and its directory.
const STARTS_MAX: usize = 64;
/// Maximum number of bytes for the process names of a start.
const PROCESS_BYTES_MAX: usize = 256;
/// Time without an event after which an agent whose processes are gone counts as gone.
const QUIET: i64 = 120_000_000;
/// Maximum number of running sessions examined at once for agents that are gone.
const RUNNING_MAX: usize = 1_000;
/// Start kinds that an agent program reports: `clear` restarts in the same process, `MOVES` enter
/// another session, possibly in the same process, and `compact` keeps the session.
const CLEAR: &str = "clear";
const MOVES: [&str; 3] = [CLEAR, "resume", "fork"];
const COMPACT: &str = "compact";

#[derive(Clone, Debug)]
struct AgentStart {
    session: SessionId,
    at: Timestamp,
    /// Kind of the start.
    source: String,
    /// Rank of the matching process of the caller, nearest first; `None` if no process matches.
    rank: Option<usize>,
}

/// Cached starts by scope and processes of the caller.
type StartsByProcess = HashMap<(Scope, String), Arc<Vec<AgentStart>>>;

/// Cache of agent starts.
#[derive(Default)]
pub(super) struct AgentStarts(Mutex<KnownStarts>);

#[derive(Default)]
struct KnownStarts {
    known: StartsByProcess,
    /// Number of invalidations of the cache.
    invalidations: u64,
    /// Number of calls in progress, by scope, that store or move starts; meanwhile the scope is not
    /// cached.
    storing: HashMap<Scope, u64>,
}

/// Returns the metadata name of a session's last start: its processes, time and kind.
fn start_name() -> String {
    format!("{RESERVED_METADATA}agent")
}

/// Members of a start event's body.
#[derive(Deserialize)]
struct StartBody {
    process: Vec<String>,
    source: Option<String>,
}

/// Adds the start that a batch reports to the metadata stored with it; returns true if there is
/// one. Imported starts are ignored: they are from another machine.
pub(super) fn record_start(batch: &mut Batch) -> bool {
    let starts = batch.events.iter().filter(|event| event.origin != Origin::Import);
    let start = starts.filter_map(encode_start).next_back();
    let is_start = start.is_some();
    batch.metadata.extend(start.map(|start| (start_name(), Some(start))));
    is_start
}

fn encode_start(event: &NewEvent) -> Option<String> {
    if event.kind.as_str() != kinds::SESSION_STATUS_RUNNING {
        return None;
    }
    let StartBody { process, source } = body::read(&event.body)?;
    let (process, source) = (process.join(","), source.unwrap_or_default());
    let is_plain = |text: &str| text.len() <= PROCESS_BYTES_MAX && !text.contains('@');
    let at = event.created_at?.0;
    (source != COMPACT && is_plain(&process) && is_plain(&source))
        .then(|| format!("{process}@{at}@{source}"))
}

/// Returns the names of the processes, and of the machine, of a session's last start.
fn names_of_start(info: &SessionInfo) -> Option<impl Iterator<Item = &str>> {
    Some(info.metadata.get(&start_name())?.split('@').next()?.split(','))
}

/// Returns the start in a session's metadata, as seen by a caller with these processes.
fn parse_start(info: &SessionInfo, process: &[String]) -> Option<AgentStart> {
    let names: Vec<&str> = names_of_start(info)?.collect();
    let mut parts = info.metadata.get(&start_name())?.split('@').skip(1);
    let at = Timestamp(parts.next()?.parse().ok()?);
    let source = parts.next()?.to_owned();
    let rank = process.iter().position(|own| names.contains(&own.as_str()));
    Some(AgentStart { session: info.key.session.clone(), at, source, rank })
}

impl AgentStarts {
    /// Drops the cached starts of a scope, since a new one may exist.
    fn evict_scope(&self, scope: &Scope) {
        let mut all = self.0.lock();
        all.invalidations += 1;
        all.known.retain(|(of, _), _| of != scope);
    }

    /// Suspends caching for a scope until [`Self::resume_caching`] is called at the end of the
    /// write, which never happens if the caller was cancelled.
    pub(super) fn suspend_caching(&self, scope: &Scope) {
        self.evict_scope(scope);
        *self.0.lock().storing.entry(scope.clone()).or_default() += 1;
    }

    /// Ends the suspension once the outcome of a write is known; does nothing if it is unknown.
    pub(super) fn resume_caching<T>(&self, scope: &Scope, outcome: &ServiceResult<T>) {
        if outcome.as_ref().is_err_and(|error| error.code == Code::OutcomeUnknown) {
            return;
        }
        self.evict_scope(scope);
        let mut all = self.0.lock();
        if let Some(count) = all.storing.get_mut(scope) {
            *count -= 1;
        }
        all.storing.retain(|_, count| *count > 0);
    }
}

impl Service {
    /// Returns the session that the caller's agent works in, if its starts give better evidence
    /// than the session the caller was started for.
    pub(super) async fn find_agent_session(
        &self,
        caller: &Caller,
        via: &ClientIdentity,
    ) -> ServiceResult<Option<SessionId>> {
        if via.process.is_empty() {
            return Ok(None);
        }
        let first = match &via.session {
            Some(session) => self.store.info(&caller.key(session)).await.ok(),
            None => None,
        };
        let ended = first.as_ref().is_some_and(is_ended);
        let first = first.filter(|info| !is_ended(info));
        let (mut own, mut here) = (Vec::new(), Vec::new());
        // Each reported end accounts for one clear of its process.
        let (mut clears, mut ends) = (0, 0);
        for one in self.list_starts(caller, via).await?.iter() {
            let Ok(info) = self.store.info(&caller.key(&one.session)).await else { continue };
            clears += usize::from(one.rank.is_some() && one.source == CLEAR);
            ends += usize::from(one.rank.is_some() && is_ended(&info));
            if !is_ended(&info) {
                if one.rank.is_some() { &mut own } else { &mut here }.push(one.clone());
            }
        }
        if ended {
            // The session that the agent moved to; if its process names differ, the only session in
            // its directory that an agent moved to.
            let moved = |one: &AgentStart| MOVES.contains(&&*one.source);
            let nearest = own.into_iter().find(&moved);
            here.retain(moved);
            let alone = here.pop().filter(|_| here.is_empty());
            return Ok(nearest.or(alone).map(|one| one.session));
        }
        let several = own.len() > 1;
        let last = own.into_iter().next().filter(|last| {
            // The process may host several agents: a clear shows that a session was left, unless it
            // was another agent's clear.
            let is_first = first.as_ref().is_some_and(|info| info.key.session == last.session);
            last.source == CLEAR && clears > ends || is_first || first.is_none() && !several
        });
        Ok(last.map(|last| last.session))
    }

    /// Returns the starts of the caller's agent, matched by the nearest common process, and those
    /// of its directory, latest first.
    async fn list_starts(
        &self,
        caller: &Caller,
        via: &ClientIdentity,
    ) -> ServiceResult<Arc<Vec<AgentStart>>> {
        let known = (caller.scope.clone(), format!("{:?} {:?}", via.process, via.workspaces()));
        let invalidations = {
            let all = self.agents.0.lock();
            if let Some(starts) = all.known.get(&known) {
                return Ok(Arc::clone(starts));
            }
            all.invalidations
        };
        let workspaces = via.workspaces();
        let of_process = |one: &String| Criterion::Contains(start_name(), one.clone());
        let near = via.process.iter().map(of_process);
        let here = workspaces.iter().cloned().map(Some).map(Criterion::Workspace);
        let listing = Listing {
            limit: limits::LIST_EXAMINED_MAX,
            only: Some(Criterion::All(vec![
                Criterion::Named(start_name()),
                Criterion::Any(near.chain(here).collect()),
            ])),
            ..Listing::default()
        };
        let listed = self.store.list(&caller.scope, listing).await?.sessions;
        let start = |info: &SessionInfo| {
            let is_here = info.workspace.as_ref().is_some_and(|own| workspaces.contains(own));
            parse_start(info, &via.process).filter(|start| start.rank.is_some() || is_here)
        };
        let mut starts: Vec<AgentStart> = listed.iter().filter_map(start).collect();
        let nearest = starts.iter().filter_map(|one| one.rank).min();
        starts.retain(|one| one.rank.is_none() || one.rank == nearest);
        starts.sort_by_key(|one| (one.rank.is_none(), Reverse(one.at)));
        starts.truncate(STARTS_MAX);
        let starts = Arc::new(starts);
        let mut all = self.agents.0.lock();
        // A start stored concurrently may be missing, so the result is not cached.
        if all.invalidations == invalidations && !all.storing.contains_key(&known.0) {
            if all.known.len() >= AGENTS_MAX {
                all.known.clear();
            }
            all.known.insert(known, Arc::clone(&starts));
        }
        Ok(starts)
    }

    /// Reports the sessions of this machine's own user as idle whose agent's processes are not
    /// among the running ones, which include the machine's name: the agent was killed. Returns how
    /// many. `running` is only called if there is such a session; `None` decides nothing.
    ///
    /// # Errors
    /// Errors of the engine. A session that is written to meanwhile is left alone.
    pub async fn stop_gone_agents(
        &self,
        running: impl FnOnce() -> Option<BTreeSet<String>>,
    ) -> ServiceResult<u64> {
        let only = Some(SessionStatus::Running.criterion());
        let listing = Listing { limit: RUNNING_MAX, only, ..Listing::default() };
        let quiet_since = self.clock.now().plus_micros(-QUIET);
        let mut quiet = self.store.list(&Scope::local(), listing).await?.sessions;
        quiet.retain(|info| info.updated_at <= quiet_since && names_of_start(info).is_some());
        let Some(running) = (!quiet.is_empty()).then(running).flatten() else { return Ok(0) };
        let mut stopped = 0;
        for info in quiet {
            let names = names_of_start(&info).into_iter().flatten();
            let (machine, processes): (Vec<&str>, Vec<&str>) =
                names.partition(|name| name.starts_with(MACHINE));
            let is_running = |names: &[&str]| names.iter().any(|name| running.contains(*name));
            if !is_running(&machine) || is_running(&processes) {
                continue;
            }
            let body = body::write(&serde_json::json!({ "stop_reason": { "type": "agent_gone" } }));
            let idle = new_event(kinds::SESSION_STATUS_IDLE, Origin::Harness, body);
            let mut batch = Batch {
                events: [idle].into(),
                metadata: info.kept_work_time(1),
                if_position: Some(info.tail),
                ..Batch::default()
            };
            record_status(&mut batch);
            match self.store.append(&info.key, batch).await {
                Ok(_) => stopped += 1,
                Err(error) => tracing::debug!(session = %info.key.session, %error, "not stopped"),
            }
        }
        Ok(stopped)
    }
}

fn is_ended(info: &SessionInfo) -> bool {
    SessionStatus::from_info(info) == SessionStatus::Terminated
}
