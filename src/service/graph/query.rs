//! Queries on the graph of a workspace: entities that callers wrote, that sessions name, and that
//! are derived from the log. It must not write.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde_json::Map;

use super::{
    checks::{check_type, relation_content, to_json_text},
    filter::{Row, RowFilter},
    names::{self, EntityCounts, OpenIndex},
    rows::{EntityRow, RelationRow},
    saved,
};
use crate::{
    api::graph::{
        EntityList, EntityQueryRequest, Filter, GraphSource, RelationQueryRequest,
        RelationshipList, Sort,
    },
    event::limits,
    harness::TRUST,
    projection::{Graph, GraphEntity, Relation},
    search::EntityKind,
    service::{
        Caller, Service, ServiceError, ServiceResult, facts::PinnedFacts, links::continues_name,
        page::page_limit, values::check_workspace,
    },
    store::{Criterion, Listing, SessionInfo},
};

/// Maximum number of types in a query.
const TYPES_MAX: usize = 100;
/// Type of the relation from a session to the one that it continues.
const SESSION_CONTINUES: &str = "SESSION_CONTINUES";
/// Maximum number of continuing sessions of a workspace that are read.
const CONTINUED_MAX: usize = 10_000;

/// Types of the wanted rows, their order and page.
struct RowQuery {
    /// Wanted types; empty for all.
    types: HashSet<String>,
    selection: RowFilter,
    limit: usize,
    offset: usize,
    /// Approximate bytes of properties on a page, which always has at least one row.
    bytes_max: usize,
}

struct RowPage<R> {
    rows: Vec<R>,
    /// Number of rows on all pages.
    total: usize,
    next_offset: Option<u64>,
}

impl Service {
    /// Returns entities of a workspace: those that callers wrote and those that its sessions name.
    /// A page has about `bytes_max` bytes of properties.
    ///
    /// # Errors
    /// `invalid_request`, naming the member; those of the engine.
    pub async fn query_entities(
        &self,
        caller: &Caller,
        workspace: &str,
        asked: EntityQueryRequest,
        bytes_max: usize,
    ) -> ServiceResult<EntityList> {
        let EntityQueryRequest { types, filters, sort, .. } = asked;
        let source = asked.source.as_deref().map_or(Ok(None), parse_source)?;
        let wait = names::check_wait(asked.wait_ms)?;
        let page = (asked.limit, asked.offset, bytes_max);
        let query = RowQuery::parse::<EntityRow>(workspace, types, (filters, sort), page)?;
        let is_wanted = |kind: &EntityKind| query.allows_type(kind.as_str());
        let kinds: Vec<EntityKind> = EntityKind::ALL.into_iter().filter(is_wanted).collect();
        let index = match source {
            Some(GraphSource::Told) => None,
            _ if kinds.is_empty() => None,
            _ => self.open_index(caller, workspace, wait).await,
        };
        if index.is_none() && source == Some(GraphSource::Extracted) && !kinds.is_empty() {
            return Err(names::search_disabled_error("source"));
        }
        let (written, left, _pinned) = match source {
            Some(GraphSource::Extracted) => (Vec::new(), 0, Vec::new()),
            _ => self.read_written_entities(caller, workspace, &query).await?,
        };
        let saved = match source {
            Some(GraphSource::Told) => saved::SavedGraph::default(),
            _ if !saved::ENTITIES.into_iter().any(|kind| query.allows_type(kind)) => {
                saved::SavedGraph::default()
            }
            _ => self.read_saved_graph(caller, workspace).await?,
        };
        let (handed_bytes, is_cut) = (saved.bytes, saved.is_cut);
        let mut saved = saved.entities;
        saved.retain(|entity| query.allows_type(&entity.kind));
        let (names, bytes) = index.as_ref().map_or((0, 0), OpenIndex::weight);
        let rows = written.len() + saved.len() + names;
        let bytes = bytes + handed_bytes + query.selection.memory_bytes::<EntityRow>(rows);
        let _memory = self.reserve_memory(&caller.scope.tenant, bytes).await?;
        let found = match &index {
            Some(index) => self.count_names(index, kinds, None).await?,
            None => crate::search::NamedEntities::default(),
        };
        let limited = found.limited || is_cut;
        let of: Arc<str> = workspace.into();
        let mut page = self
            .compute(&caller.scope.tenant, move || {
                let rows = join_entities(written, saved, names::counts_by_name(found), &of);
                query.build_page(rows)
            })
            .await?;
        if let Some(index) = index.as_ref().filter(|_| asked.include_sessions) {
            self.add_naming_sessions(index, workspace, &mut page.rows).await?;
        }
        Ok(EntityList {
            entities: page.rows.into_iter().map(EntityRow::into_entity).collect(),
            total: page.total as u64,
            next_offset: page.next_offset,
            left_out: left,
            complete: index.as_ref().map(OpenIndex::coverage),
            limited,
            trust: TRUST.to_owned(),
        })
    }

    /// Returns the caller-written entities of the wanted types, the number of events that did not
    /// fit, and guards for the graph's reserved memory.
    async fn read_written_entities(
        &self,
        caller: &Caller,
        workspace: &str,
        query: &RowQuery,
    ) -> ServiceResult<(Vec<Arc<GraphEntity>>, u64, Vec<PinnedFacts>)> {
        let look = |graph: &Graph| {
            let wanted = |one: &&Arc<GraphEntity>| query.allows_type(&one.kind);
            let found: Vec<Arc<GraphEntity>> = graph.entities().filter(wanted).cloned().collect();
            (found, graph.dropped_count())
        };
        let (mut all, mut left, mut pinned) = (Vec::new(), 0, Vec::new());
        let mut known = HashSet::new();
        for session in self.graph_notebooks(caller, workspace).await? {
            pinned.push(self.slot(&caller.key(&session)));
            let (mut found, more) = self.with_graph(caller, &session, &look).await?;
            found.retain(|one: &Arc<GraphEntity>| known.insert((one.kind.clone(), one.id.clone())));
            all.extend(found);
            left += more;
        }
        Ok((all, left, pinned))
    }

    async fn add_naming_sessions(
        &self,
        index: &OpenIndex,
        workspace: &str,
        rows: &mut [EntityRow],
    ) -> ServiceResult<()> {
        let is_seen = |row: &&mut EntityRow| row.seen.is_some();
        let mut rows: Vec<&mut EntityRow> = rows.iter_mut().filter(is_seen).collect();
        let wanted = rows.iter().filter_map(|row| counted_name(&row.kind, &row.id, workspace));
        let found = self.list_naming_sessions(index, wanted.collect()).await?;
        for (row, sessions) in rows.iter_mut().zip(found) {
            if let Some(seen) = &mut row.seen {
                seen.named_in = sessions;
            }
        }
        Ok(())
    }

    /// Returns relations of a workspace, including those between continued sessions.
    ///
    /// # Errors
    /// Those of [`Self::query_entities`].
    pub async fn query_relationships(
        &self,
        caller: &Caller,
        workspace: &str,
        asked: RelationQueryRequest,
        bytes_max: usize,
    ) -> ServiceResult<RelationshipList> {
        let RelationQueryRequest { entity_id, from_id, to_id, types, filters, sort, .. } = asked;
        let page = (asked.limit, asked.offset, bytes_max);
        let query = RowQuery::parse::<RelationRow>(workspace, types, (filters, sort), page)?;
        let is = |wanted: &Option<String>, id: &str| wanted.as_ref().is_none_or(|one| one == id);
        let wanted = |one: &Relation| {
            let is_at_end = is(&entity_id, &one.from) || is(&entity_id, &one.to);
            query.allows_type(&one.kind)
                && is_at_end
                && is(&from_id, &one.from)
                && is(&to_id, &one.to)
        };
        let mut shown = match query.allows_type(SESSION_CONTINUES) {
            true => self.list_chain_relations(caller, workspace).await?,
            false => Vec::new(),
        };
        if saved::RELATIONS.into_iter().any(|kind| query.allows_type(kind)) {
            let saved = self.read_saved_graph(caller, workspace).await?;
            shown.extend(self.saved_relations(caller, &saved));
        }
        shown.retain(wanted);
        let look = |graph: &Graph| {
            let found = graph.relations().filter(|one| wanted(one));
            (found.cloned().collect::<Vec<Arc<Relation>>>(), graph.dropped_count())
        };
        let (mut found, mut left, mut pinned) = (Vec::new(), 0, Vec::new());
        for session in self.graph_notebooks(caller, workspace).await? {
            pinned.push(self.slot(&caller.key(&session)));
            let (some, more) = self.with_graph(caller, &session, &look).await?;
            found.extend(some);
            left += more;
        }
        let bytes = query.selection.memory_bytes::<RelationRow>(found.len() + shown.len());
        let _memory = self.reserve_memory(&caller.scope.tenant, bytes).await?;
        let page = self.compute(&caller.scope.tenant, move || {
            found.sort_by_key(|relation| relation.position);
            let ids: HashSet<&str> = shown.iter().map(|one| &*one.id).collect();
            let known = found.iter().filter(|one| ids.contains(&*one.id));
            let known: HashSet<Box<str>> = known.map(|one| one.id.clone()).collect();
            let shown = shown.into_iter().filter(|one| !known.contains(&one.id)).map(Arc::new);
            let row = |source: GraphSource| move |relation| RelationRow { relation, source };
            let rows = found.into_iter().map(row(GraphSource::Told));
            let rows: Vec<RelationRow> =
                rows.chain(shown.map(row(GraphSource::Extracted))).collect();
            query.build_page(rows)
        });
        let RowPage { rows, total, next_offset } = page.await?;
        Ok(RelationshipList {
            relationships: rows.into_iter().map(RelationRow::into_relationship).collect(),
            total: total as u64,
            next_offset,
            left_out: left,
            trust: TRUST.to_owned(),
        })
    }

    /// Returns the relations of a workspace's sessions to those that they continue, oldest first.
    async fn list_chain_relations(
        &self,
        caller: &Caller,
        workspace: &str,
    ) -> ServiceResult<Vec<Relation>> {
        let listing = Listing {
            limit: limits::PAGE_SESSIONS_MAX,
            ascending: true,
            workspace: Some(workspace.to_owned()),
            include_archived: true,
            only: Some(Criterion::Named(continues_name())),
            ..Listing::default()
        };
        let listed = self.list_all_pages(caller, listing, CONTINUED_MAX).await?;
        Ok(listed.iter().filter_map(|info| self.relation_to_continued(caller, info)).collect())
    }

    fn relation_to_continued(&self, caller: &Caller, info: &SessionInfo) -> Option<Relation> {
        let (from, to) = (info.key.session.as_str(), info.metadata.get(&continues_name())?);
        let properties = Map::new();
        let content = relation_content(SESSION_CONTINUES, from, to, &properties);
        Some(Relation {
            id: self.relation_id(caller, &content).into(),
            kind: SESSION_CONTINUES.into(),
            from: from.into(),
            to: to.as_str().into(),
            properties: to_json_text(&properties).into(),
            at: info.created_at,
            position: None,
        })
    }
}

impl RowQuery {
    fn parse<R: Row>(
        workspace: &str,
        types: Vec<String>,
        (filters, sort): (Vec<Filter>, Vec<Sort>),
        (limit, offset, bytes_max): (Option<usize>, usize, usize),
    ) -> ServiceResult<Self> {
        check_workspace(workspace)?;
        if types.len() > TYPES_MAX {
            return Err(ServiceError::invalid("types", format!("at most {TYPES_MAX}")));
        }
        for kind in &types {
            check_type("types", kind)?;
        }
        let limit = page_limit(limit)?;
        let selection = RowFilter::parse::<R>(filters, sort)?;
        Ok(Self { types: types.into_iter().collect(), selection, limit, offset, bytes_max })
    }

    fn allows_type(&self, kind: &str) -> bool {
        self.types.is_empty() || self.types.contains(kind)
    }

    fn build_page<R: Row>(&self, rows: Vec<R>) -> RowPage<R> {
        let (total, mut rows) = self.selection.select_page(rows, (self.offset, self.limit));
        let mut bytes = 0;
        let mut fits = |row: &R| {
            let is_first = bytes == 0;
            bytes += row.properties().len().max(1);
            is_first || bytes <= self.bytes_max
        };
        let count = rows.iter().take_while(|row| fits(row)).count();
        rows.truncate(count);
        let end = self.offset.saturating_add(count);
        RowPage { rows, total, next_offset: (end < total).then_some(end as u64) }
    }
}

/// Returns the source with that name; `None` for `all`.
fn parse_source(name: &str) -> ServiceResult<Option<GraphSource>> {
    let known = GraphSource::ALL.into_iter().find(|one| one.as_str() == name);
    if known.is_none() && name != "all" {
        let expected = GraphSource::ALL.map(GraphSource::as_str).join(" or ");
        let problem = format!("all, {expected} is expected");
        return Err(ServiceError::invalid("source", problem));
    }
    Ok(known)
}

/// Joins entities that callers wrote, that saves show and that are named, without duplicates: first
/// the written ones, oldest first, then those of the newest saves, then the most named.
fn join_entities(
    mut written: Vec<Arc<GraphEntity>>,
    saved: Vec<Arc<GraphEntity>>,
    mut named: HashMap<(EntityKind, String), EntityCounts>,
    workspace: &str,
) -> Vec<EntityRow> {
    written.sort_by_key(|entity| entity.first);
    let mut known: HashSet<(Arc<str>, Arc<str>)> = HashSet::new();
    let all = written.into_iter().zip(std::iter::repeat(false));
    let all = all.chain(saved.into_iter().zip(std::iter::repeat(true)));
    let new = all.filter(|(entity, _)| known.insert((entity.kind.clone(), entity.id.clone())));
    let row = |(entity, is_from_save): (Arc<GraphEntity>, bool)| {
        let name = counted_name(&entity.kind, &entity.id, workspace);
        EntityRow {
            kind: Arc::clone(&entity.kind),
            id: Arc::clone(&entity.id),
            seen: name.and_then(|name| named.remove(&name)),
            written: Some(entity),
            is_from_save,
        }
    };
    let mut rows: Vec<EntityRow> = new.map(row).collect();
    let mut named: Vec<((EntityKind, String), EntityCounts)> = named.into_iter().collect();
    named.sort_by(|(one, of_one), (other, of_other)| {
        let weight = |seen: &EntityCounts| (seen.sessions, seen.count);
        weight(of_other).cmp(&weight(of_one)).then_with(|| one.cmp(other))
    });
    rows.extend(named.into_iter().map(|((kind, name), seen)| EntityRow {
        kind: kind.as_str().into(),
        id: name.into(),
        written: None,
        is_from_save: false,
        seen: Some(seen),
    }));
    rows
}

/// Returns the name under which an entity is counted, if texts can name its kind.
fn counted_name(kind: &str, id: &str, workspace: &str) -> Option<(EntityKind, String)> {
    let kind = EntityKind::from_name(kind)?;
    Some((kind, names::canonical_name(kind, kind.normalize(id), workspace)))
}
