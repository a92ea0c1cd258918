//! Verbs on the graph of a workspace: entities and relations that callers wrote, kept in its
//! notebook, and those that the log shows by itself. It must not judge what a type means.

mod filter;

use std::{collections::HashSet, sync::Arc};

use serde_json::{Map, Value};

pub use self::filter::{GraphFilter, GraphSort};
use self::filter::{Row, Sieve};
use super::{
    Caller, Code, Service, ServiceError, ServiceResult, added::event, is_notebook,
    sessions::page_limit,
};
use crate::{
    event::{Batch, BatchKey, EventId, Position, SessionId, json, kinds, limits},
    projection::{
        ENTITIES_MAX, Entity, Facts, GRAPH_BYTES_MAX, Graph, RELATIONS_MAX, Relation,
        body::{self, EntityBody, RelationBody},
    },
    store::{Listing, Only, SessionInfo},
};

/// Characters of a type, and of an id: a workspace may be one.
const TYPE_CHARS_MAX: usize = 64;
const ID_CHARS_MAX: usize = limits::WORKSPACE_CHARS_MAX;
/// Bytes of the properties of an entity or a relation, and levels of their lists and objects.
const PROPERTIES_BYTES_MAX: usize = 64 << 10;
const PROPERTIES_DEPTH_MAX: usize = 32;
/// Types that a query names.
const TYPES_MAX: usize = 100;
/// The type of the relation of a session to the one that it continues, and the metadata that says
/// so.
const SESSION_CONTINUES: &str = "SESSION_CONTINUES";
const CONTINUES: &str = "sessionlog.continues";
/// Sessions of a workspace that continue another and are looked at.
const CONTINUED_MAX: usize = 10_000;
/// Hexadecimal digits of the id of a relation.
const ID_DIGITS: usize = 24;

/// An entity to write.
#[derive(Clone, Debug, Default)]
pub struct EntityCall {
    /// Its type.
    pub kind: String,
    /// Its id, one of its type.
    pub id: String,
    /// What changes of its properties: a merge patch.
    pub properties: Map<String, Value>,
    /// A retry with the same key writes nothing more.
    pub key: Option<BatchKey>,
}

/// A relation to write.
#[derive(Clone, Debug, Default)]
pub struct RelationCall {
    /// Its type.
    pub kind: String,
    /// Id of the entity that it begins at.
    pub from: String,
    /// Id of the entity that it leads to.
    pub to: String,
    /// Its properties.
    pub properties: Map<String, Value>,
    /// A retry with the same key writes nothing more.
    pub key: Option<BatchKey>,
}

/// Where something of a graph was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphWritten {
    /// Its id.
    pub id: String,
    /// The notebook of the workspace.
    pub session: SessionId,
    /// Its position there.
    pub position: Position,
}

/// Which entities or relations are wanted.
#[derive(Clone, Debug, Default)]
pub struct GraphQuery {
    /// Only of these types; empty for all.
    pub types: Vec<String>,
    /// All of them must hold.
    pub filters: Vec<GraphFilter>,
    /// The first counts most; without one as they were written, the oldest first.
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

/// An entity that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityRow(pub Arc<Entity>);

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

impl Row for EntityRow {
    const MEMBERS: &'static [&'static str] = &["type", "id", "source", "created_at", "updated_at"];

    fn member(&self, name: &str) -> Option<Value> {
        let entity = &self.0;
        Some(match name {
            "type" => (*entity.kind).into(),
            "id" => (*entity.id).into(),
            "source" => GraphSource::Told.as_str().into(),
            "created_at" => entity.created_at.to_string().into(),
            "updated_at" => entity.updated_at.to_string().into(),
            _ => return None,
        })
    }

    fn properties(&self) -> &str {
        &self.0.properties
    }
}

impl Row for RelationRow {
    const MEMBERS: &'static [&'static str] =
        &["type", "id", "from_id", "to_id", "source", "created_at"];

    fn member(&self, name: &str) -> Option<Value> {
        let relation = &self.relation;
        Some(match name {
            "type" => (*relation.kind).into(),
            "id" => (*relation.id).into(),
            "from_id" => (*relation.from).into(),
            "to_id" => (*relation.to).into(),
            "source" => self.source.as_str().into(),
            "created_at" => relation.at.to_string().into(),
            _ => return None,
        })
    }

    fn properties(&self) -> &str {
        &self.relation.properties
    }
}

impl Service {
    /// Writes an entity, or changes its properties by a merge patch; durable when this returns. A
    /// patch that changes nothing is not written, unless it comes with a key.
    ///
    /// # Errors
    /// `invalid_request`, `limit_reached` for one entity too many, and those of the engine.
    pub async fn upsert_entity(
        &self,
        caller: &Caller,
        workspace: &str,
        call: EntityCall,
    ) -> ServiceResult<GraphWritten> {
        let EntityCall { kind, id, properties, key } = call;
        check_workspace(workspace)?;
        check_type("type", &kind)?;
        check_id("id", &id)?;
        check_properties(&text_of(&properties))?;
        let (session, _) = self.notebook(caller, workspace).await?;
        let look = |graph: &Graph| {
            let known = graph.entity(&kind, &id).map(AsRef::as_ref);
            let patched = Entity::patched(known, properties.clone());
            let same = known.filter(|known| known.properties == patched);
            (patched, same.map(|known| known.position), known.is_none() && graph.is_full())
        };
        let (patched, same, is_full) = self.with_graph(caller, &session, look).await?;
        check_properties(&patched)?;
        if let Some(position) = same.filter(|_| key.is_none()) {
            return Ok(GraphWritten { id, session, position });
        }
        if is_full {
            return Err(full("entities", ENTITIES_MAX));
        }
        let (entity_type, entity_id) = (kind, id.clone());
        let body = body::write(&EntityBody { entity_type, entity_id, properties });
        let events = [event(kinds::GRAPH_ENTITY_UPSERTED, caller.origin, body)];
        let batch = Batch { events: events.into(), key, ..Batch::default() };
        self.write_graph(caller, workspace, session, batch, id).await
    }

    /// Writes a relation of two entities; durable when this returns. Its id follows from its
    /// content, so that the same relation is written once.
    ///
    /// # Errors
    /// `invalid_request`, `entity_not_found` for an end that is not there, `limit_reached` for one
    /// relation too many, and those of the engine.
    pub async fn create_relationship(
        &self,
        caller: &Caller,
        workspace: &str,
        call: RelationCall,
    ) -> ServiceResult<GraphWritten> {
        let RelationCall { kind, from, to, properties, key } = call;
        check_workspace(workspace)?;
        check_type("type", &kind)?;
        check_id("from_id", &from)?;
        check_id("to_id", &to)?;
        check_properties(&text_of(&properties))?;
        let id = relation_id(&kind, &from, &to, &properties);
        let (session, _) = self.notebook(caller, workspace).await?;
        let look = |graph: &Graph| {
            let known = graph.relation(&id).and_then(|relation| relation.position);
            (known, [&from, &to].map(|end| graph.has(end)), graph.is_full_of_relations())
        };
        let (known, has, is_full) = self.with_graph(caller, &session, look).await?;
        if let Some(position) = known {
            return Ok(GraphWritten { id, session, position });
        }
        for ((field, end), has) in [("from_id", &from), ("to_id", &to)].into_iter().zip(has) {
            if !has && end != workspace && !self.is_session(caller, end).await {
                return Err(no_entity(field, end, workspace));
            }
        }
        if is_full {
            return Err(full("relations", RELATIONS_MAX));
        }
        let (relation_type, from_id, to_id) = (kind, from, to);
        let body = body::write(&RelationBody { relation_type, from_id, to_id, properties });
        let mut new = event(kinds::GRAPH_RELATIONSHIP_CREATED, caller.origin, body);
        new.id = EventId::new(&id).ok();
        let batch = Batch { events: [new].into(), key, ..Batch::default() };
        self.write_graph(caller, workspace, session, batch, id).await
    }

    async fn write_graph(
        &self,
        caller: &Caller,
        workspace: &str,
        session: SessionId,
        batch: Batch,
        id: String,
    ) -> ServiceResult<GraphWritten> {
        let appended = self.append_to_notebook(caller, &session, workspace, batch).await?;
        let placed = appended.events.into_iter().next();
        let placed = placed.ok_or_else(|| ServiceError::new(Code::InternalError, "no place"))?;
        Ok(GraphWritten { id, session, position: placed.position })
    }

    /// Whether an id is that of one of the caller's sessions.
    async fn is_session(&self, caller: &Caller, id: &str) -> bool {
        let Ok(session) = SessionId::new(id) else { return false };
        !is_notebook(&session) && self.store.info(&caller.key(&session)).await.is_ok()
    }

    /// Runs `look` on the graph of a notebook, an empty one when that is not there.
    async fn with_graph<T>(
        &self,
        caller: &Caller,
        notebook: &SessionId,
        look: impl Fn(&Graph) -> T + Send + Sync,
    ) -> ServiceResult<T> {
        let on_facts = |facts: &Facts| look(&facts.graph);
        match self.peek_facts(&caller.key(notebook), |_, facts| on_facts(facts)).await {
            Err(error) if error.code.is_gone() => Ok(look(&Graph::default())),
            found => found,
        }
    }

    /// Entities of a workspace; none where nothing was written yet.
    ///
    /// # Errors
    /// `invalid_request`, naming the member; those of the engine.
    pub async fn query_entities(
        &self,
        caller: &Caller,
        workspace: &str,
        mut query: GraphQuery,
    ) -> ServiceResult<GraphPage<EntityRow>> {
        let sieve = query.checked::<EntityRow>(workspace)?;
        let types: HashSet<String> = query.types.iter().cloned().collect();
        let (session, _) = self.notebook(caller, workspace).await?;
        let look = |graph: &Graph| {
            let wanted = |one: &&Arc<Entity>| types.is_empty() || types.contains(&*one.kind);
            let found: Vec<Arc<Entity>> = graph.entities().filter(wanted).cloned().collect();
            (found, graph.left())
        };
        let (mut found, left) = self.with_graph(caller, &session, look).await?;
        self.sifted(move || {
            found.sort_by_key(|entity| entity.first);
            query.page(sieve.sift(found.into_iter().map(EntityRow).collect()), left)
        })
        .await
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
        shown.retain(wanted);
        let (session, _) = self.notebook(caller, workspace).await?;
        let look = |graph: &Graph| {
            let found = graph.relations().filter(|one| wanted(one));
            (found.cloned().collect::<Vec<Arc<Relation>>>(), graph.left())
        };
        let (mut found, left) = self.with_graph(caller, &session, look).await?;
        self.sifted(move || {
            found.sort_by_key(|relation| relation.position);
            let known: HashSet<Box<str>> = found.iter().map(|one| one.id.clone()).collect();
            let shown = shown.into_iter().filter(|one| !known.contains(&one.id)).map(Arc::new);
            let row = |source: GraphSource| move |relation| RelationRow { relation, source };
            let rows = found.into_iter().map(row(GraphSource::Told));
            let rows = rows.chain(shown.map(row(GraphSource::Extracted))).collect();
            query.page(sieve.sift(rows), left)
        })
        .await
    }

    /// Runs what takes a processor for a while, no more at once than searches.
    async fn sifted<T: Send + 'static>(
        &self,
        sift: impl FnOnce() -> T + Send + 'static,
    ) -> ServiceResult<T> {
        let broken = |error: String| ServiceError::new(Code::InternalError, error);
        let permit = Arc::clone(&self.searches).acquire_owned().await;
        let permit = permit.map_err(|error| broken(error.to_string()))?;
        let sifted = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            sift()
        });
        sifted.await.map_err(|error| broken(error.to_string()))
    }

    /// The relations of sessions of a workspace to those that they continue, the oldest first.
    async fn continued(&self, caller: &Caller, workspace: &str) -> ServiceResult<Vec<Relation>> {
        let mut found: Vec<Relation> = Vec::new();
        let mut after = None;
        loop {
            let only = |info: &SessionInfo| info.metadata.contains_key(CONTINUES);
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
            found.extend(listed.sessions.iter().filter_map(continues));
            after = listed.next;
            if after.is_none() || found.len() >= CONTINUED_MAX {
                return Ok(found);
            }
        }
    }
}

/// The relation of a session to the one that it continues.
fn continues(info: &SessionInfo) -> Option<Relation> {
    let (from, to) = (info.key.session.as_str(), info.metadata.get(CONTINUES)?);
    let properties = Map::new();
    Some(Relation {
        id: relation_id(SESSION_CONTINUES, from, to, &properties).into(),
        kind: SESSION_CONTINUES.into(),
        from: from.into(),
        to: to.as_str().into(),
        properties: text_of(&properties).into(),
        at: info.created_at,
        position: None,
    })
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

    fn page<R: Row>(&self, rows: Vec<R>, left: u64) -> GraphPage<R> {
        let total = rows.len();
        let limit = self.limit.unwrap_or(limits::PAGE_SESSIONS_DEFAULT);
        let mut bytes = 0;
        let fits = |row: &R| {
            let is_first = bytes == 0;
            bytes += row.properties().len().max(1);
            is_first || bytes <= self.bytes_max
        };
        let rows: Vec<R> =
            rows.into_iter().skip(self.offset).take(limit).take_while(fits).collect();
        let end = self.offset.saturating_add(rows.len());
        GraphPage { rows, total, next_offset: (end < total).then_some(end), left }
    }
}

fn check_workspace(workspace: &str) -> ServiceResult<()> {
    let chars = workspace.chars().count();
    if chars == 0 || chars > limits::WORKSPACE_CHARS_MAX {
        let problem = format!("1 to {} characters", limits::WORKSPACE_CHARS_MAX);
        return Err(ServiceError::invalid("workspace", problem));
    }
    Ok(())
}

fn check_type(field: &str, name: &str) -> ServiceResult<()> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let fits = name.len() <= TYPE_CHARS_MAX
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(is_name);
    if fits {
        Ok(())
    } else {
        Err(ServiceError::invalid(field, "[A-Za-z][A-Za-z0-9_]{0,63} is expected"))
    }
}

fn check_id(field: &str, id: &str) -> ServiceResult<()> {
    let chars = id.chars().count();
    if chars == 0 || chars > ID_CHARS_MAX || id.chars().any(char::is_control) {
        let problem = format!("1 to {ID_CHARS_MAX} characters, none of which controls a terminal");
        return Err(ServiceError::invalid(field, problem));
    }
    Ok(())
}

fn check_properties(text: &str) -> ServiceResult<()> {
    if text.len() > PROPERTIES_BYTES_MAX {
        let problem = format!("{} bytes; {PROPERTIES_BYTES_MAX} are allowed", text.len());
        return Err(ServiceError::invalid("properties", problem)
            .action("keep large contents in a file or an event, and name the place"));
    }
    if json::weigh(text.as_bytes(), usize::MAX).depth > PROPERTIES_DEPTH_MAX {
        let problem = format!("{PROPERTIES_DEPTH_MAX} levels are allowed");
        return Err(ServiceError::invalid("properties", problem));
    }
    Ok(())
}

fn text_of(properties: &Map<String, Value>) -> String {
    serde_json::to_string(properties).expect("an object of JSON values is JSON")
}

fn full(of: &str, most: usize) -> ServiceError {
    let mebibytes = GRAPH_BYTES_MAX >> 20;
    let message =
        format!("the graph of a workspace has at most {most} {of}, and {mebibytes} MiB in memory");
    ServiceError::new(Code::LimitReached, message)
        .action("use another workspace, or erase the notebook of this one")
}

fn no_entity(field: &str, id: &str, workspace: &str) -> ServiceError {
    let message = format!("{field}: {workspace} has no entity {id}");
    let mut error = ServiceError::new(Code::EntityNotFound, message).action(
        "write the entity first; sessions and the workspace are there without being written",
    );
    error.hint.field = Some(field.to_owned());
    error
}

/// The id of a relation: of its content, whatever the order of its properties.
fn relation_id(kind: &str, from: &str, to: &str, properties: &Map<String, Value>) -> String {
    let mut properties = Value::Object(properties.clone());
    properties.sort_all_objects();
    let content = serde_json::to_vec(&(kind, from, to, properties)).expect("texts are JSON");
    let context = "sessionlog v1 id of a relation";
    let hash = blake3::Hasher::new_derive_key(context).update(&content).finalize();
    let digits: String = hash.to_hex().chars().take(ID_DIGITS).collect();
    format!("rel_{digits}")
}
