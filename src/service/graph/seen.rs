//! Names in the sessions of a workspace, counted from the index: files, errors, commands and other
//! things that no caller wrote as entities. It must not read an event.

use std::{collections::HashMap, sync::Arc, time::Duration};

use crate::{
    api::{graph::NamedInSession, search::Complete},
    event::{Position, Range, SessionId, Timestamp},
    search::{self, Counted, EntityKind, Keep, NamedIn, Part, SessionRef},
    service::{
        Caller, Service, ServiceError, ServiceResult, indexing::ScopeIndex, is_notebook,
        search::CATCH_UP,
    },
};

/// Maximum number of sessions listed that name an entity.
const NAMING_MAX: usize = 20;
/// Maximum milliseconds that a query may wait for the index to catch up.
const WAIT_MS_MAX: u64 = 60_000;

/// Counts of the events that name an entity.
#[derive(Clone, Debug)]
pub(super) struct EntityCounts {
    /// Number of sessions with such events.
    pub(super) sessions: u64,
    /// Number of events.
    pub(super) count: u64,
    /// Time of the first event.
    pub(super) first_at: Timestamp,
    /// Time of the last event.
    pub(super) last_at: Timestamp,
    /// Sessions that name it, latest first; empty unless requested.
    pub(super) named_in: Vec<NamedInSession>,
}

/// Index of a scope, and whether all earlier writes are known to it.
pub(super) struct ScopeLook {
    index: Arc<ScopeIndex>,
    is_noted: bool,
    workspace: Arc<str>,
}

impl ScopeLook {
    /// Returns the part of the recorded events that the index covers.
    pub(super) fn coverage(&self) -> Complete {
        let complete = self.index.coverage();
        Complete { is_complete: self.is_noted && complete.is_complete, ..complete }
    }

    /// Returns the maximum number of counted names, and the bytes needed to count them.
    pub(super) fn weight(&self) -> (usize, usize) {
        search::named_weight(self.index.sizes().0)
    }
}

impl Service {
    /// Returns the index once it covers earlier writes or the time is over; `None` if search is
    /// disabled.
    pub(super) async fn looked(
        &self,
        caller: &Caller,
        workspace: &str,
        wait: Duration,
    ) -> Option<ScopeLook> {
        if !self.indexing.is_enabled() {
            return None;
        }
        let wait = CATCH_UP + wait;
        let caught_up = self.caught_up(&caller.scope, wait, ScopeIndex::is_caught_up);
        let (index, is_noted) = caught_up.await;
        Some(ScopeLook { index, is_noted, workspace: workspace.into() })
    }

    /// Runs `look` over the parts of an index, with a filter for the sessions of the workspace.
    pub(super) async fn over_parts<T: Send + 'static>(
        &self,
        looked: &ScopeLook,
        look: impl Fn(&[Part<'_>], &Keep<'_>) -> T + Send + 'static,
    ) -> ServiceResult<T> {
        let (index, workspace) = (Arc::clone(&looked.index), Arc::clone(&looked.workspace));
        let service = self.clone();
        self.computed(&looked.index.scope.tenant, move || {
            let is_of = |id: &SessionId, of: Option<&str>, _: bool| {
                let is_wanted = of == Some(&*workspace) && !is_notebook(id);
                is_wanted.then_some(Position(u64::MAX))
            };
            let keep = |session: SessionRef<'_>, range: Range| {
                let served = index.served(session.hash, is_of).into_iter().map(|one| one.range);
                let kept = served.map(|of| (of.from.max(range.from), of.to.min(range.to)));
                kept.filter(|(from, to)| from < to).map(|(from, to)| Range::new(from, to)).collect()
            };
            service.over(&index, |parts| {
                let parts = parts.iter().filter_map(|bytes| Part::trusted(bytes).ok());
                look(&parts.collect::<Vec<_>>(), &keep)
            })
        })
        .await
    }

    /// Counts the names of these kinds in sessions of the workspace since a time.
    pub(super) async fn seen(
        &self,
        looked: &ScopeLook,
        kinds: Vec<EntityKind>,
        since: Option<Timestamp>,
    ) -> ServiceResult<NamedIn> {
        let workspace = Arc::clone(&looked.workspace);
        self.over_parts(looked, move |parts, keep| {
            let same = |kind, name| usual(kind, name, &workspace);
            search::named(parts, &kinds, keep, since, &same)
        })
        .await
    }

    /// Counts the events by day since a time.
    pub(super) async fn days(
        &self,
        looked: &ScopeLook,
        since: Option<Timestamp>,
    ) -> ServiceResult<Counted> {
        self.over_parts(looked, move |parts, keep| search::by_day(parts, keep, since)).await
    }

    /// Returns the sessions that name each of these, latest first.
    pub(super) async fn naming(
        &self,
        looked: &ScopeLook,
        wanted: Vec<(EntityKind, String)>,
    ) -> ServiceResult<Vec<Vec<NamedInSession>>> {
        let workspace = Arc::clone(&looked.workspace);
        let wanted: Vec<(EntityKind, Vec<String>)> =
            wanted.into_iter().map(|(kind, name)| (kind, names(kind, name, &workspace))).collect();
        let naming = move |parts: &[Part<'_>], keep: &Keep<'_>| {
            search::naming(parts, &wanted, keep, NAMING_MAX)
        };
        self.over_parts(looked, naming).await
    }
}

/// Returns the name under which an entity is counted: of a workspace's file, the relative path.
pub(super) fn usual(kind: EntityKind, name: String, workspace: &str) -> String {
    match kind {
        EntityKind::File => {
            let rest = name.strip_prefix(&prefix_below(workspace)).filter(|rest| !rest.is_empty());
            rest.map(str::to_owned).unwrap_or(name)
        }
        _ => name,
    }
}

/// Returns the names counted under a canonical one.
fn names(kind: EntityKind, name: String, workspace: &str) -> Vec<String> {
    match kind {
        EntityKind::File => vec![format!("{}{name}", prefix_below(workspace)), name],
        _ => vec![name],
    }
}

/// Returns the prefix of the names of files in a workspace.
fn prefix_below(workspace: &str) -> String {
    format!("{}/", workspace.trim_matches('/').to_lowercase())
}

/// Maps the kinds and names in an index to their counts.
pub(super) fn by_name(found: NamedIn) -> HashMap<(EntityKind, String), EntityCounts> {
    let seen = |one: search::Named| {
        let search::Named { kind, name, sessions, count, first_at, last_at } = one;
        ((kind, name), EntityCounts { sessions, count, first_at, last_at, named_in: Vec::new() })
    };
    found.named.into_iter().map(seen).collect()
}

/// Checks the time that a query waits for the index.
pub(super) fn waiting(wait_ms: u64) -> ServiceResult<Duration> {
    if wait_ms > WAIT_MS_MAX {
        return Err(ServiceError::invalid("wait_ms", format!("at most {WAIT_MS_MAX}")));
    }
    Ok(Duration::from_millis(wait_ms))
}

/// Returns the error of a request that needs the index when search is disabled.
pub(super) fn no_index(field: &str) -> ServiceError {
    ServiceError::invalid(field, "searching is turned off on this server")
        .action("the operator turns it on by the setting search")
}
