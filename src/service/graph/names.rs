//! Names in the sessions of a workspace, counted from the index: files, errors, commands and other
//! things that no caller wrote as entities. It must not read an event.

use std::{collections::HashMap, sync::Arc, time::Duration};

use crate::{
    api::{graph::NamedInSession, search::Complete},
    env::sync::Mutex,
    event::{Position, Range, SessionId, Timestamp},
    search::{self, EntityKind, EventsByDay, Keep, NamedEntities, Part, SessionRef},
    service::{Caller, Service, ServiceError, ServiceResult, indexing::ScopeIndex, is_notebook},
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

/// Index of a scope; `has_all_changes` is true if it has recorded all earlier writes.
pub(super) struct OpenIndex {
    index: Arc<ScopeIndex>,
    has_all_changes: bool,
    workspace: Arc<str>,
    /// Coverage of the parts that were read; of several reads, the first that was not complete.
    covered: Mutex<Option<Complete>>,
}

impl OpenIndex {
    /// Returns the part of the recorded events that the reads of the index covered.
    pub(super) fn coverage(&self) -> Complete {
        let covered = self.covered.lock().clone();
        let complete = covered.unwrap_or_else(|| self.index.coverage());
        Complete { is_complete: self.has_all_changes && complete.is_complete, ..complete }
    }

    fn record_read(&self, covered: Complete) {
        let mut known = self.covered.lock();
        if known.as_ref().is_none_or(|known| known.is_complete) {
            *known = Some(covered);
        }
    }

    /// Returns the maximum number of counted names, and the bytes needed to count them.
    pub(super) fn weight(&self) -> (usize, usize) {
        search::counting_bounds(self.index.sizes().0)
    }
}

impl Service {
    /// Returns the index once it covers earlier writes or the time is over; `None` if search is
    /// disabled.
    pub(super) async fn open_index(
        &self,
        caller: &Caller,
        workspace: &str,
        wait: Duration,
    ) -> Option<OpenIndex> {
        if !self.indexing.is_enabled() {
            return None;
        }
        let caught_up = self.wait_for_index(&caller.scope, wait, ScopeIndex::is_caught_up);
        let (index, has_all_changes) = caught_up.await;
        let (workspace, covered) = (workspace.into(), Mutex::default());
        Some(OpenIndex { index, has_all_changes, workspace, covered })
    }

    /// Runs `look` over the parts of an index, with a filter for the sessions of the workspace.
    pub(super) async fn read_parts<T: Send + 'static>(
        &self,
        opened: &OpenIndex,
        look: impl Fn(&[Part<'_>], &Keep<'_>) -> T + Send + 'static,
    ) -> ServiceResult<T> {
        let (index, workspace) = (Arc::clone(&opened.index), Arc::clone(&opened.workspace));
        let service = self.clone();
        let computed = self.compute(&opened.index.scope.tenant, move || {
            let is_of = |id: &SessionId, of: Option<&str>, _: bool| {
                let is_wanted = of == Some(&*workspace) && !is_notebook(id);
                is_wanted.then_some(Position(u64::MAX))
            };
            let keep = |session: SessionRef<'_>, range: Range| {
                let served =
                    index.serving_ranges(session.hash, is_of).into_iter().map(|one| one.range);
                let kept = served.map(|of| (of.from.max(range.from), of.to.min(range.to)));
                kept.filter(|(from, to)| from < to).map(|(from, to)| Range::new(from, to)).collect()
            };
            service.with_parts(&index, |parts| {
                let parts = parts.iter().filter_map(|bytes| Part::from_trusted(bytes).ok());
                look(&parts.collect::<Vec<_>>(), &keep)
            })
        });
        let (found, covered) = computed.await?;
        opened.record_read(covered);
        Ok(found)
    }

    pub(super) async fn count_names(
        &self,
        opened: &OpenIndex,
        kinds: Vec<EntityKind>,
        since: Option<Timestamp>,
    ) -> ServiceResult<NamedEntities> {
        let workspace = Arc::clone(&opened.workspace);
        self.read_parts(opened, move |parts, keep| {
            let same = |kind, name| canonical_name(kind, name, &workspace);
            search::count_entities(parts, &kinds, keep, since, &same)
        })
        .await
    }

    pub(super) async fn count_by_day(
        &self,
        opened: &OpenIndex,
        since: Option<Timestamp>,
    ) -> ServiceResult<EventsByDay> {
        self.read_parts(opened, move |parts, keep| search::count_by_day(parts, keep, since)).await
    }

    /// Returns the sessions that name each of these, latest first.
    pub(super) async fn list_naming_sessions(
        &self,
        opened: &OpenIndex,
        wanted: Vec<(EntityKind, String)>,
    ) -> ServiceResult<Vec<Vec<NamedInSession>>> {
        let workspace = Arc::clone(&opened.workspace);
        let wanted: Vec<(EntityKind, Vec<String>)> = wanted
            .into_iter()
            .map(|(kind, name)| (kind, counted_names(kind, name, &workspace)))
            .collect();
        let naming = move |parts: &[Part<'_>], keep: &Keep<'_>| {
            search::find_naming_sessions(parts, &wanted, keep, NAMING_MAX)
        };
        self.read_parts(opened, naming).await
    }
}

/// Returns the name under which an entity is counted: of a workspace's file, the relative path.
pub(super) fn canonical_name(kind: EntityKind, name: String, workspace: &str) -> String {
    match kind {
        EntityKind::File => {
            let rest =
                name.strip_prefix(&workspace_prefix(workspace)).filter(|rest| !rest.is_empty());
            rest.map(str::to_owned).unwrap_or(name)
        }
        _ => name,
    }
}

/// Returns the names counted under a canonical one.
fn counted_names(kind: EntityKind, name: String, workspace: &str) -> Vec<String> {
    match kind {
        EntityKind::File => vec![format!("{}{name}", workspace_prefix(workspace)), name],
        _ => vec![name],
    }
}

fn workspace_prefix(workspace: &str) -> String {
    format!("{}/", workspace.trim_matches('/').to_lowercase())
}

pub(super) fn counts_by_name(found: NamedEntities) -> HashMap<(EntityKind, String), EntityCounts> {
    let seen = |one: search::NamedEntity| {
        let search::NamedEntity { kind, name, sessions, count, first_at, last_at } = one;
        ((kind, name), EntityCounts { sessions, count, first_at, last_at, named_in: Vec::new() })
    };
    found.named.into_iter().map(seen).collect()
}

pub(super) fn check_wait(wait_ms: u64) -> ServiceResult<Duration> {
    if wait_ms > WAIT_MS_MAX {
        return Err(ServiceError::invalid("wait_ms", format!("at most {WAIT_MS_MAX}")));
    }
    Ok(Duration::from_millis(wait_ms))
}

pub(super) fn search_disabled_error(field: &str) -> ServiceError {
    ServiceError::invalid(field, "searching is turned off on this server")
        .action("the operator turns it on by the setting search")
}
