//! Queries on the graph of a workspace: entities that callers wrote, that sessions name, and that
//! are derived from the log. It must not write.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde_json::Map;

use super::{
    checks::{check_type, content_of, text_of},
    filter::{Row, Sieve},
    handed,
    rows::{EntityRow, RelationRow},
    seen::{self, EntityCounts, ScopeLook},
};
use crate::{
    api::graph::{
        EntityList, EntityQueryRequest, Filter, GraphSource, RelationQueryRequest,
        RelationshipList, Sort,
    },
    event::limits,
    harness::TRUST,
    projection::{Entity, Graph, Relation},
    search::EntityKind,
    service::{
        Caller, Service, ServiceError, ServiceResult, facts::Pinned, links::continues,
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
    sieve: Sieve,
    limit: usize,
    offset: usize,
    /// Approximate bytes of properties on a page, which always has at least one row.
    bytes_max: usize,
}

/// A page of rows.
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
        let source = asked.source.as_deref().map_or(Ok(None), source_named)?;
        let wait = seen::waiting(asked.wait_ms)?;
        let page = (asked.limit, asked.offset, bytes_max);
        let query = RowQuery::read::<EntityRow>(workspace, types, (filters, sort), page)?;
        let is_wanted = |kind: &EntityKind| query.admits(kind.as_str());
        let kinds: Vec<EntityKind> = EntityKind::ALL.into_iter().filter(is_wanted).collect();
        let looked = match source {
            Some(GraphSource::Told) => None,
            _ if kinds.is_empty() => None,
            _ => self.looked(caller, workspace, wait).await,
        };
        if looked.is_none() && source == Some(GraphSource::Extracted) && !kinds.is_empty() {
            return Err(seen::no_index("source"));
        }
        let (written, left, _pinned) = match source {
            Some(GraphSource::Extracted) => (Vec::new(), 0, Vec::new()),
            _ => self.written(caller, workspace, &query).await?,
        };
        let handed = match source {
            Some(GraphSource::Told) => handed::Handed::default(),
            _ if !handed::ENTITIES.into_iter().any(|kind| query.admits(kind)) => {
                handed::Handed::default()
            }
            _ => self.handed(caller, workspace).await?,
        };
        let (handed_bytes, is_cut) = (handed.bytes, handed.is_cut);
        let mut handed = handed.entities;
        handed.retain(|entity| query.admits(&entity.kind));
        let (names, bytes) = looked.as_ref().map_or((0, 0), ScopeLook::weight);
        let rows = written.len() + handed.len() + names;
        let bytes = bytes + handed_bytes + query.sieve.weight::<EntityRow>(rows);
        let _room = self.room(&caller.scope.tenant, bytes).await?;
        let found = match &looked {
            Some(looked) => self.seen(looked, kinds, None).await?,
            None => crate::search::NamedIn::default(),
        };
        let limited = found.limited || is_cut;
        let of: Arc<str> = workspace.into();
        let mut page = self
            .computed(&caller.scope.tenant, move || {
                let rows = join_entities(written, handed, seen::by_name(found), &of);
                query.page(rows)
            })
            .await?;
        if let Some(looked) = looked.as_ref().filter(|_| asked.include_sessions) {
            self.add_sessions(looked, workspace, &mut page.rows).await?;
        }
        Ok(EntityList {
            entities: page.rows.into_iter().map(EntityRow::shown).collect(),
            total: page.total as u64,
            next_offset: page.next_offset,
            left_out: left,
            complete: looked.as_ref().map(ScopeLook::coverage),
            limited,
            trust: TRUST.to_owned(),
        })
    }

    /// Returns the caller-written entities of the wanted types, the number of events that did not
    /// fit, and guards for the graph's reserved memory.
    async fn written(
        &self,
        caller: &Caller,
        workspace: &str,
        query: &RowQuery,
    ) -> ServiceResult<(Vec<Arc<Entity>>, u64, Vec<Pinned>)> {
        let look = |graph: &Graph| {
            let wanted = |one: &&Arc<Entity>| query.admits(&one.kind);
            let found: Vec<Arc<Entity>> = graph.entities().filter(wanted).cloned().collect();
            (found, graph.left())
        };
        let (mut all, mut left, mut pinned) = (Vec::new(), 0, Vec::new());
        let mut known = HashSet::new();
        for session in self.graphs(caller, workspace).await? {
            pinned.push(self.slot(&caller.key(&session)));
            let (mut found, more) = self.with_graph(caller, &session, &look).await?;
            found.retain(|one: &Arc<Entity>| known.insert((one.kind.clone(), one.id.clone())));
            all.extend(found);
            left += more;
        }
        Ok((all, left, pinned))
    }

    /// Adds to each row the sessions that name it.
    async fn add_sessions(
        &self,
        looked: &ScopeLook,
        workspace: &str,
        rows: &mut [EntityRow],
    ) -> ServiceResult<()> {
        let is_seen = |row: &&mut EntityRow| row.seen.is_some();
        let mut rows: Vec<&mut EntityRow> = rows.iter_mut().filter(is_seen).collect();
        let wanted = rows.iter().filter_map(|row| name_of(&row.kind, &row.id, workspace));
        let found = self.naming(looked, wanted.collect()).await?;
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
        let query = RowQuery::read::<RelationRow>(workspace, types, (filters, sort), page)?;
        let is = |wanted: &Option<String>, id: &str| wanted.as_ref().is_none_or(|one| one == id);
        let wanted = |one: &Relation| {
            let is_at_end = is(&entity_id, &one.from) || is(&entity_id, &one.to);
            query.admits(&one.kind) && is_at_end && is(&from_id, &one.from) && is(&to_id, &one.to)
        };
        let mut shown = match query.admits(SESSION_CONTINUES) {
            true => self.chain_links(caller, workspace).await?,
            false => Vec::new(),
        };
        if handed::RELATIONS.into_iter().any(|kind| query.admits(kind)) {
            let handed = self.handed(caller, workspace).await?;
            shown.extend(self.handed_relations(caller, &handed));
        }
        shown.retain(wanted);
        let look = |graph: &Graph| {
            let found = graph.relations().filter(|one| wanted(one));
            (found.cloned().collect::<Vec<Arc<Relation>>>(), graph.left())
        };
        let (mut found, mut left, mut pinned) = (Vec::new(), 0, Vec::new());
        for session in self.graphs(caller, workspace).await? {
            pinned.push(self.slot(&caller.key(&session)));
            let (some, more) = self.with_graph(caller, &session, &look).await?;
            found.extend(some);
            left += more;
        }
        let bytes = query.sieve.weight::<RelationRow>(found.len() + shown.len());
        let _room = self.room(&caller.scope.tenant, bytes).await?;
        let page = self.computed(&caller.scope.tenant, move || {
            found.sort_by_key(|relation| relation.position);
            let ids: HashSet<&str> = shown.iter().map(|one| &*one.id).collect();
            let known = found.iter().filter(|one| ids.contains(&*one.id));
            let known: HashSet<Box<str>> = known.map(|one| one.id.clone()).collect();
            let shown = shown.into_iter().filter(|one| !known.contains(&one.id)).map(Arc::new);
            let row = |source: GraphSource| move |relation| RelationRow { relation, source };
            let rows = found.into_iter().map(row(GraphSource::Told));
            let rows: Vec<RelationRow> =
                rows.chain(shown.map(row(GraphSource::Extracted))).collect();
            query.page(rows)
        });
        let RowPage { rows, total, next_offset } = page.await?;
        Ok(RelationshipList {
            relationships: rows.into_iter().map(RelationRow::shown).collect(),
            total: total as u64,
            next_offset,
            left_out: left,
            trust: TRUST.to_owned(),
        })
    }

    /// Returns the relations of a workspace's sessions to those that they continue, oldest first.
    async fn chain_links(&self, caller: &Caller, workspace: &str) -> ServiceResult<Vec<Relation>> {
        let listing = Listing {
            limit: limits::PAGE_SESSIONS_MAX,
            ascending: true,
            workspace: Some(workspace.to_owned()),
            include_archived: true,
            only: Some(Criterion::Named(continues())),
            ..Listing::default()
        };
        let listed = self.all_listed(caller, listing, CONTINUED_MAX).await?;
        Ok(listed.iter().filter_map(|info| self.relation_to_continued(caller, info)).collect())
    }

    /// Returns the relation of a session to the one that it continues.
    fn relation_to_continued(&self, caller: &Caller, info: &SessionInfo) -> Option<Relation> {
        let (from, to) = (info.key.session.as_str(), info.metadata.get(&continues())?);
        let properties = Map::new();
        let content = content_of(SESSION_CONTINUES, from, to, &properties);
        Some(Relation {
            id: self.relation_id(caller, &content).into(),
            kind: SESSION_CONTINUES.into(),
            from: from.into(),
            to: to.as_str().into(),
            properties: text_of(&properties).into(),
            at: info.created_at,
            position: None,
        })
    }
}

impl RowQuery {
    fn read<R: Row>(
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
        let sieve = Sieve::read::<R>(filters, sort)?;
        Ok(Self { types: types.into_iter().collect(), sieve, limit, offset, bytes_max })
    }

    fn admits(&self, kind: &str) -> bool {
        self.types.is_empty() || self.types.contains(kind)
    }

    fn page<R: Row>(&self, rows: Vec<R>) -> RowPage<R> {
        let (total, mut rows) = self.sieve.sift(rows, (self.offset, self.limit));
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
fn source_named(name: &str) -> ServiceResult<Option<GraphSource>> {
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
    mut written: Vec<Arc<Entity>>,
    handed: Vec<Arc<Entity>>,
    mut named: HashMap<(EntityKind, String), EntityCounts>,
    workspace: &str,
) -> Vec<EntityRow> {
    written.sort_by_key(|entity| entity.first);
    let mut known: HashSet<(Arc<str>, Arc<str>)> = HashSet::new();
    let all = written.into_iter().zip(std::iter::repeat(false));
    let all = all.chain(handed.into_iter().zip(std::iter::repeat(true)));
    let new = all.filter(|(entity, _)| known.insert((entity.kind.clone(), entity.id.clone())));
    let row = |(entity, is_handed): (Arc<Entity>, bool)| {
        let name = name_of(&entity.kind, &entity.id, workspace);
        EntityRow {
            kind: Arc::clone(&entity.kind),
            id: Arc::clone(&entity.id),
            seen: name.and_then(|name| named.remove(&name)),
            written: Some(entity),
            is_handed,
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
        is_handed: false,
        seen: Some(seen),
    }));
    rows
}

/// Returns the name under which an entity is counted, if texts can name its kind.
fn name_of(kind: &str, id: &str, workspace: &str) -> Option<(EntityKind, String)> {
    let kind = EntityKind::named(kind)?;
    Some((kind, seen::usual(kind, kind.normal(id), workspace)))
}
