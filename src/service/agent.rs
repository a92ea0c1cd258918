//! The session that an agent works in now. The hook of a start says which processes it is a child
//! of, and so does a front end: both are children of one agent. After `/clear` or `/resume` the
//! agent works in another session than its front end was started for. It must not choose between
//! agents: without a start of the caller's own agent nothing is chosen.

use std::{cmp::Reverse, collections::HashMap, sync::Arc};

use serde::Deserialize;

use super::{Caller, Code, RESERVED_METADATA, Service, ServiceResult, Status, Via};
use crate::{
    env::sync::Mutex,
    event::{Batch, NewEvent, Origin, Scope, SessionId, Timestamp, kinds, limits},
    projection::body,
    store::{Criterion, Listing, SessionInfo},
};

/// Agents whose starts are kept in memory.
const AGENTS_MAX: usize = 10_000;
/// Starts of one agent, and of its directory, that are looked at.
const STARTS_MAX: usize = 64;
/// Bytes of the processes of a start.
const PROCESS_BYTES_MAX: usize = 256;
/// Names by which an agent's program says that it begins anew in the same process, that it enters
/// another session, perhaps in the same process, and that it keeps its session.
const CLEAR: &str = "clear";
const MOVES: [&str; 3] = [CLEAR, "resume", "fork"];
const COMPACT: &str = "compact";

/// A start of an agent.
#[derive(Clone, Debug)]
struct AgentStart {
    session: SessionId,
    at: Timestamp,
    /// Kind of the start.
    source: String,
    /// Rank of the caller's process that it names, the nearest first; none of another agent.
    rank: Option<usize>,
}

/// Starts that were looked up, the scope and the processes of the caller.
type Known = HashMap<(Scope, String), Arc<Vec<AgentStart>>>;

/// Starts that were looked up before.
#[derive(Default)]
pub(super) struct Agents(Mutex<KnownStarts>);

#[derive(Default)]
struct KnownStarts {
    known: Known,
    /// Number of times that some were forgotten.
    forgotten: u64,
    /// Calls of each scope that store or move starts, or may at any later time: nothing is kept of
    /// it meanwhile.
    storing: HashMap<Scope, u64>,
}

/// Metadata of a session with its last start: the processes, the time, how it began.
fn name() -> String {
    format!("{RESERVED_METADATA}agent")
}

/// The members of a start.
#[derive(Deserialize)]
struct StartBody {
    process: Vec<String>,
    source: Option<String>,
}

/// Has the start that a batch reports stored with its events; whether it reports one. An imported
/// start is none of this machine.
pub(super) fn keep(batch: &mut Batch) -> bool {
    let starts = batch.events.iter().filter(|event| event.origin != Origin::Import);
    let said = starts.filter_map(said).next_back();
    let is_start = said.is_some();
    batch.metadata.extend(said.map(|start| (name(), Some(start))));
    is_start
}

fn said(event: &NewEvent) -> Option<String> {
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

/// The start that a session's metadata has, as a caller with these processes sees it.
fn start(info: &SessionInfo, process: &[String]) -> Option<AgentStart> {
    let mut parts = info.metadata.get(&name())?.split('@');
    let names: Vec<&str> = parts.next()?.split(',').collect();
    let at = Timestamp(parts.next()?.parse().ok()?);
    let source = parts.next()?.to_owned();
    let rank = process.iter().position(|own| names.contains(&own.as_str()));
    Some(AgentStart { session: info.key.session.clone(), at, source, rank })
}

impl Agents {
    /// Forgets the starts of a scope: there may be another one.
    fn forget(&self, scope: &Scope) {
        let mut all = self.0.lock();
        all.forgotten += 1;
        all.known.retain(|(of, _), _| of != scope);
    }

    /// Notes that starts are stored or moved until [`Self::stored`] says that this has ended: it
    /// does not where the caller has gone.
    pub(super) fn storing(&self, scope: &Scope) {
        self.forget(scope);
        *self.0.lock().storing.entry(scope.clone()).or_default() += 1;
    }

    /// Notes that starts were stored or moved, or were not; nothing where that is unknown.
    pub(super) fn stored<T>(&self, scope: &Scope, outcome: &ServiceResult<T>) {
        if outcome.as_ref().is_err_and(|error| error.code == Code::OutcomeUnknown) {
            return;
        }
        self.forget(scope);
        let mut all = self.0.lock();
        if let Some(count) = all.storing.get_mut(scope) {
            *count -= 1;
        }
        all.storing.retain(|_, count| *count > 0);
    }
}

impl Service {
    /// The session that the caller's agent works in, where that says more than the session that
    /// the caller was started for.
    pub(super) async fn of_agent(
        &self,
        caller: &Caller,
        via: &Via,
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
        // An end that was reported explains one clear of its process.
        let (mut clears, mut ends) = (0, 0);
        for one in self.starts(caller, via).await?.iter() {
            let Ok(info) = self.store.info(&caller.key(&one.session)).await else { continue };
            clears += usize::from(one.rank.is_some() && one.source == CLEAR);
            ends += usize::from(one.rank.is_some() && is_ended(&info));
            if !is_ended(&info) {
                if one.rank.is_some() { &mut own } else { &mut here }.push(one.clone());
            }
        }
        if ended {
            // The session that it moved to; where its processes are known by other names, the only
            // one of its directory that an agent moved to.
            let moved = |one: &AgentStart| MOVES.contains(&&*one.source);
            let nearest = own.into_iter().find(&moved);
            here.retain(moved);
            let alone = here.pop().filter(|_| here.is_empty());
            return Ok(nearest.or(alone).map(|one| one.session));
        }
        let several = own.len() > 1;
        let last = own.into_iter().next().filter(|last| {
            // Its process may be a host of several agents: a clear says that one was left, unless
            // it was that of another.
            let is_first = first.as_ref().is_some_and(|info| info.key.session == last.session);
            last.source == CLEAR && clears > ends || is_first || first.is_none() && !several
        });
        Ok(last.map(|last| last.session))
    }

    /// Starts of the caller's agent, by the nearest process that it has in common with some, and
    /// those of its directory; the latest first.
    async fn starts(&self, caller: &Caller, via: &Via) -> ServiceResult<Arc<Vec<AgentStart>>> {
        let known = (caller.scope.clone(), format!("{:?} {:?}", via.process, via.workspaces()));
        let forgotten = {
            let all = self.agents.0.lock();
            if let Some(starts) = all.known.get(&known) {
                return Ok(Arc::clone(starts));
            }
            all.forgotten
        };
        let workspaces = via.workspaces();
        let of_process = |one: &String| Criterion::Contains(name(), one.clone());
        let near = via.process.iter().map(of_process);
        let here = workspaces.iter().cloned().map(Some).map(Criterion::Workspace);
        let listing = Listing {
            limit: limits::LISTED_LOOKS_MAX,
            only: Some(Criterion::All(vec![
                Criterion::Named(name()),
                Criterion::Any(near.chain(here).collect()),
            ])),
            ..Listing::default()
        };
        let listed = self.store.list(&caller.scope, listing).await?.sessions;
        let is_here = |info: &SessionInfo| {
            info.workspace.as_ref().is_some_and(|own| workspaces.contains(own))
        };
        let start = |info| start(info, &via.process).map(|start| (start, is_here(info)));
        let starts = listed.iter().filter_map(start);
        let starts = starts.filter(|(start, is_here)| start.rank.is_some() || *is_here);
        let mut starts: Vec<AgentStart> = starts.map(|(start, _)| start).collect();
        let nearest = starts.iter().filter_map(|one| one.rank).min();
        starts.retain(|one| one.rank.is_none() || one.rank == nearest);
        starts.sort_by_key(|one| (one.rank.is_none(), Reverse(one.at)));
        starts.truncate(STARTS_MAX);
        let starts = Arc::new(starts);
        let mut all = self.agents.0.lock();
        // A start that is stored meanwhile may be missing.
        if all.forgotten == forgotten && !all.storing.contains_key(&known.0) {
            if all.known.len() >= AGENTS_MAX {
                all.known.clear();
            }
            all.known.insert(known, Arc::clone(&starts));
        }
        Ok(starts)
    }
}

fn is_ended(info: &SessionInfo) -> bool {
    Status::from_info(info) == Status::Terminated
}
