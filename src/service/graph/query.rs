//! Queries of the graph of a workspace: what callers wrote, what the sessions name, what the log
//! shows. It must not write.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use serde_json::Map;

use super::{
    checks::{check_type, check_workspace, content_of, text_of},
    filter::{GraphFilter, GraphSort, Row, Sieve},
    handed,
    order::Member,
    seen::{self, Looked, Seen},
};
use crate::{
    event::limits,
    projection::{Entity, Graph, Relation},
    search::EntityKind,
    service::{
        Caller, Coverage, Service, ServiceError, ServiceResult, directory::continues,
        facts::Pinned, sessions::page_limit,
    },
    store::{Listing, Only, SessionInfo},
};

/// Types that a query names.
const TYPES_MAX: usize = 100;
/// The type of the relation of a session to the one that it continues.
const SESSION_CONTINUES: &str = "SESSION_CONTINUES";
/// Sessions of a workspace that continue another and are looked at.
const CONTINUED_MAX: usize = 10_000;

/// Which entities or relations are wanted.
#[derive(Clone, Debug, Default)]
pub struct GraphQuery {
    /// Only of these types; empty for all.
    pub types: Vec<String>,
    /// All of them must hold.
    pub filters: Vec<GraphFilter>,
    /// The first counts most; without one as they were written, the oldest first, and then what is
    /// named in most sessions.
    pub sort: Vec<GraphSort>,
    /// 100 by default, 1 000 at most.
    pub limit: Option<usize>,
    /// How many to pass over.
    pub offset: usize,
    /// Bytes of properties on a page, about; one is always on it.
    pub bytes_max: usize,
}

/// The ends of wanted relations; none for all.
#[derive(Clone, Debug, Default)]
pub struct Ends {
    /// Id of the entity at either end.
    pub either: Option<String>,
    /// Id of the entity that they begin at.
    pub from: Option<String>,
    /// Id of the entity that they lead to.
    pub to: Option<String>,
}

/// Which entities are wanted.
#[derive(Clone, Debug, Default)]
pub struct EntityQuery {
    /// Their types, filters, order and page.
    pub query: GraphQuery,
    /// Only those that are known so; none for all.
    pub source: Option<GraphSource>,
    /// Whether the sessions are named that name an entity.
    pub with_sessions: bool,
    /// How long to wait for what is not in the index yet, beyond the usual.
    pub wait: Duration,
}

/// How something of a graph is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphSource {
    /// A caller wrote it.
    Told,
    /// The log shows it.
    Extracted,
}

impl GraphSource {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            // A value of the wire, no word of a text.
            Self::Told => stringify!(told),
            Self::Extracted => "extracted",
        }
    }
}

impl GraphSource {
    /// The source of that name; `all` is none.
    ///
    /// # Errors
    /// `invalid_request`.
    pub fn named(name: &str) -> ServiceResult<Option<Self>> {
        let known = [Self::Told, Self::Extracted].into_iter().find(|one| one.as_str() == name);
        if known.is_none() && name != "all" {
            let expected = [Self::Told, Self::Extracted].map(Self::as_str).join(" or ");
            let problem = format!("all, {expected} is expected");
            return Err(ServiceError::invalid("source", problem));
        }
        Ok(known)
    }
}

/// An entity that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityRow {
    /// Its type.
    pub kind: Arc<str>,
    /// Its id.
    pub id: Arc<str>,
    /// What a caller wrote of it, or what a save shows of it.
    pub written: Option<Arc<Entity>>,
    /// Whether a save shows it, and no caller wrote it.
    pub is_handed: bool,
    /// How it is named in sessions.
    pub seen: Option<Seen>,
}

impl EntityRow {
    /// How it is known; what a caller wrote may be named, too.
    #[must_use]
    pub fn source(&self) -> GraphSource {
        match self.written.is_some() && !self.is_handed {
            true => GraphSource::Told,
            false => GraphSource::Extracted,
        }
    }
}

/// A relation that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelationRow {
    /// The relation.
    pub relation: Arc<Relation>,
    /// How it is known.
    pub source: GraphSource,
}

/// A page of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphPage<R> {
    /// The rows.
    pub rows: Vec<R>,
    /// How many there are on all pages.
    pub total: usize,
    /// The offset of the next page, if there is one.
    pub next_offset: Option<usize>,
    /// Events that had no room in the graph.
    pub left: u64,
}

/// A page of entities.
#[derive(Clone, Debug)]
pub struct EntityPage {
    /// The page.
    pub page: GraphPage<EntityRow>,
    /// What the index lacks, and whether it is known what was written before; none when it was not
    /// asked.
    pub complete: Option<(Coverage, bool)>,
    /// Whether sessions name more than is counted, or there are more saves than were looked at.
    pub limited: bool,
}

impl Row for EntityRow {
    const MEMBERS: &'static [&'static str] = &[
        "type",
        "id",
        "source",
        "created_at",
        "updated_at",
        "sessions",
        "count",
        "first_at",
        "last_at",
    ];

    fn member(&self, name: &str) -> Option<Member<'_>> {
        let (written, seen) = (self.written.as_ref(), self.seen.as_ref());
        match name {
            "type" => Some(Member::Text(&self.kind)),
            "id" => Some(Member::Text(&self.id)),
            "source" => Some(Member::Text(self.source().as_str())),
            "created_at" => Some(Member::At(written?.created_at)),
            "updated_at" => Some(Member::At(written?.updated_at)),
            "sessions" => Some(Member::Count(seen?.sessions)),
            "count" => Some(Member::Count(seen?.count)),
            "first_at" => Some(Member::At(seen?.first_at)),
            "last_at" => Some(Member::At(seen?.last_at)),
            _ => None,
        }
    }

    fn properties(&self) -> &str {
        self.written.as_ref().map_or("{}", |entity| &entity.properties)
    }
}

impl Row for RelationRow {
    const MEMBERS: &'static [&'static str] =
        &["type", "id", "from_id", "to_id", "source", "created_at"];

    fn member(&self, name: &str) -> Option<Member<'_>> {
        let relation = &self.relation;
        Some(match name {
            "type" => Member::Text(&relation.kind),
            "id" => Member::Text(&relation.id),
            "from_id" => Member::Text(&relation.from),
            "to_id" => Member::Text(&relation.to),
            "source" => Member::Text(self.source.as_str()),
            "created_at" => Member::At(relation.at),
            _ => return None,
        })
    }

    fn properties(&self) -> &str {
        &self.relation.properties
    }
}

impl Service {
    /// Entities of a workspace: what callers wrote, and what its sessions name. None where there is
    /// neither.
    ///
    /// # Errors
    /// `invalid_request`, naming the member; those of the engine.
    pub async fn query_entities(
        &self,
        caller: &Caller,
        workspace: &str,
        asked: EntityQuery,
    ) -> ServiceResult<EntityPage> {
        let EntityQuery { mut query, source, with_sessions, wait } = asked;
        let sieve = query.checked::<EntityRow>(workspace)?;
        let types: HashSet<String> = query.types.iter().cloned().collect();
        let is_wanted = |kind: &EntityKind| types.is_empty() || types.contains(kind.as_str());
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
            _ => self.written(caller, workspace, types.clone()).await?,
        };
        let is_asked = |kind: &str| types.is_empty() || types.contains(kind);
        let handed = match source {
            Some(GraphSource::Told) => handed::Handed::default(),
            _ if !handed::ENTITIES.into_iter().any(is_asked) => handed::Handed::default(),
            _ => self.handed(caller, workspace).await?,
        };
        let (handed_bytes, is_cut) = (handed.bytes, handed.is_cut);
        let mut handed = handed.entities;
        handed.retain(|entity| is_asked(&entity.kind));
        let (names, bytes) = looked.as_ref().map_or((0, 0), Looked::weight);
        let rows = written.len() + handed.len() + names;
        let bytes = bytes + handed_bytes + sieve.weight::<EntityRow>(rows);
        let _room = self.room(&caller.scope.tenant, bytes).await?;
        let found = match &looked {
            Some(looked) => self.seen(looked, kinds, None).await?,
            None => crate::search::NamedIn::default(),
        };
        let limited = found.limited || is_cut;
        let of: Arc<str> = workspace.into();
        let mut page = self
            .computed(&caller.scope.tenant, move || {
                let rows = joined(written, handed, seen::by_name(found), &of);
                query.page(&sieve, rows, left)
            })
            .await?;
        if let Some(looked) = looked.as_ref().filter(|_| with_sessions) {
            self.add_sessions(looked, workspace, &mut page.rows).await?;
        }
        let complete = looked.as_ref().map(Looked::coverage);
        Ok(EntityPage { page, complete, limited })
    }

    /// The entities that callers wrote of these types, how many events had no room, and what keeps
    /// the room of the graph.
    async fn written(
        &self,
        caller: &Caller,
        workspace: &str,
        types: HashSet<String>,
    ) -> ServiceResult<(Vec<Arc<Entity>>, u64, Vec<Pinned>)> {
        let look = |graph: &Graph| {
            let wanted = |one: &&Arc<Entity>| types.is_empty() || types.contains(&*one.kind);
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
        looked: &Looked,
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

    /// Relations of a workspace. A session that continues another is related to it.
    ///
    /// # Errors
    /// Those of [`Self::query_entities`].
    pub async fn query_relationships(
        &self,
        caller: &Caller,
        workspace: &str,
        ends: Ends,
        mut query: GraphQuery,
    ) -> ServiceResult<GraphPage<RelationRow>> {
        let sieve = query.checked::<RelationRow>(workspace)?;
        let types: HashSet<String> = query.types.iter().cloned().collect();
        let wanted = |one: &Relation| {
            (types.is_empty() || types.contains(&*one.kind)) && ends.admit(&one.from, &one.to)
        };
        let mut shown = match types.is_empty() || types.contains(SESSION_CONTINUES) {
            true => self.continued(caller, workspace).await?,
            false => Vec::new(),
        };
        if handed::RELATIONS.into_iter().any(|kind| types.is_empty() || types.contains(kind)) {
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
        let bytes = sieve.weight::<RelationRow>(found.len() + shown.len());
        let _room = self.room(&caller.scope.tenant, bytes).await?;
        self.computed(&caller.scope.tenant, move || {
            found.sort_by_key(|relation| relation.position);
            let ids: HashSet<&str> = shown.iter().map(|one| &*one.id).collect();
            let known = found.iter().filter(|one| ids.contains(&*one.id));
            let known: HashSet<Box<str>> = known.map(|one| one.id.clone()).collect();
            let shown = shown.into_iter().filter(|one| !known.contains(&one.id)).map(Arc::new);
            let row = |source: GraphSource| move |relation| RelationRow { relation, source };
            let rows = found.into_iter().map(row(GraphSource::Told));
            let rows = rows.chain(shown.map(row(GraphSource::Extracted))).collect();
            query.page(&sieve, rows, left)
        })
        .await
    }

    /// The relations of sessions of a workspace to those that they continue, the oldest first.
    async fn continued(&self, caller: &Caller, workspace: &str) -> ServiceResult<Vec<Relation>> {
        let mut found: Vec<Relation> = Vec::new();
        let (mut after, mut place) = (None, None);
        loop {
            place = Some(self.places.turn(&caller.scope.tenant, place).await?);
            let only = |info: &SessionInfo| info.metadata.contains_key(&continues());
            let listing = Listing {
                limit: limits::PAGE_SESSIONS_MAX,
                after,
                ascending: true,
                workspace: Some(workspace.to_owned()),
                include_archived: true,
                only: Some(Only(Arc::new(only))),
                ..Listing::default()
            };
            let listed = self.store.list(&caller.scope, listing).await?;
            let relation = |info| self.continuing(caller, info);
            found.extend(listed.sessions.iter().filter_map(relation));
            after = listed.next;
            if after.is_none() || found.len() >= CONTINUED_MAX {
                return Ok(found);
            }
        }
    }

    /// The relation of a session to the one that it continues.
    fn continuing(&self, caller: &Caller, info: &SessionInfo) -> Option<Relation> {
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

impl Ends {
    fn admit(&self, from: &str, to: &str) -> bool {
        let is = |wanted: &Option<String>, id: &str| wanted.as_ref().is_none_or(|one| one == id);
        is(&self.from, from) && is(&self.to, to) && (is(&self.either, from) || is(&self.either, to))
    }
}

impl GraphQuery {
    fn checked<R: Row>(&mut self, workspace: &str) -> ServiceResult<Sieve> {
        check_workspace(workspace)?;
        if self.types.len() > TYPES_MAX {
            return Err(ServiceError::invalid("types", format!("at most {TYPES_MAX}")));
        }
        for kind in &self.types {
            check_type("types", kind)?;
        }
        self.limit = Some(page_limit(self.limit)?);
        Sieve::read::<R>(std::mem::take(&mut self.filters), std::mem::take(&mut self.sort))
    }

    fn page<R: Row>(&self, sieve: &Sieve, rows: Vec<R>, left: u64) -> GraphPage<R> {
        let limit = self.limit.unwrap_or(limits::PAGE_SESSIONS_DEFAULT);
        let (total, mut rows) = sieve.sift(rows, (self.offset, limit));
        let mut bytes = 0;
        let mut fits = |row: &R| {
            let is_first = bytes == 0;
            bytes += row.properties().len().max(1);
            is_first || bytes <= self.bytes_max
        };
        let count = rows.iter().take_while(|row| fits(row)).count();
        rows.truncate(count);
        let end = self.offset.saturating_add(count);
        GraphPage { rows, total, next_offset: (end < total).then_some(end), left }
    }
}

/// What callers wrote, what saves show and what is named, the same thing once: first what is
/// written, the oldest first, then what the newest saves show, then what most sessions name.
fn joined(
    mut written: Vec<Arc<Entity>>,
    handed: Vec<Arc<Entity>>,
    mut named: HashMap<(EntityKind, String), Seen>,
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
    let mut named: Vec<((EntityKind, String), Seen)> = named.into_iter().collect();
    named.sort_by(|(one, of_one), (other, of_other)| {
        let weight = |seen: &Seen| (seen.sessions, seen.count);
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

/// Under which name an entity is counted, when it is of a kind that texts name.
fn name_of(kind: &str, id: &str, workspace: &str) -> Option<(EntityKind, String)> {
    let kind = EntityKind::named(kind)?;
    Some((kind, seen::usual(kind, kind.normal(id), workspace)))
}
