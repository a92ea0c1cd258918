//! Arguments and answers of the tools of a graph, under the names of the reference: `from_id` and
//! `to_id`. They must not cut anything.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{NOTICE, parts::none};
use crate::{
    api::graph::{
        Entity, EntityList, EntityQueryRequest, Filter, RelateRequest, RelationQueryRequest,
        Relationship, RelationshipList, Sort, Written,
    },
    api::search::Complete,
    event::{Position, SessionId},
};

/// Milliseconds that a model waits for what is not in the index yet: mostly at a first query.
const WAIT_MS: u64 = 2_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpsertEntity {
    /// session, conversation, context_item, file_reference, workspace_state or any other name.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// Its id, one of its type.
    pub(crate) id: String,
    /// What changes: a merge patch; null removes a property.
    #[serde(default)]
    pub(crate) properties: Map<String, Value>,
    /// Left out: the workspace of the bound session, else of your directory.
    #[serde(alias = "workspaceId")]
    pub(crate) workspace: Option<String>,
    /// Token of a lease.
    #[serde(rename = "fencingToken")]
    pub(crate) fencing_token: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateRelationship {
    /// Id of the entity it begins at; sessions and the workspace are there without being written.
    #[serde(alias = "fromId")]
    from_id: String,
    /// Id of the entity it leads to.
    #[serde(alias = "toId")]
    to_id: String,
    /// Such as SESSION_CONTINUES or CONVERSATION_REFERENCES_FILE.
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    properties: Map<String, Value>,
    /// Left out: the workspace of the bound session, else of your directory.
    #[serde(alias = "workspaceId")]
    pub(crate) workspace: Option<String>,
    /// Token of a lease.
    #[serde(rename = "fencingToken")]
    pub(crate) fencing_token: Option<u64>,
}

impl CreateRelationship {
    pub(crate) fn into_request(self) -> RelateRequest {
        let Self { kind, from_id, to_id, properties, .. } = self;
        RelateRequest { kind, from_id, to_id, properties }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemoveFromGraph {
    /// Type of the entity; left out: a relation is removed.
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    /// Id of the entity, or of the relation.
    pub(crate) id: String,
    /// Left out: the workspace of the bound session, else of your directory.
    #[serde(alias = "workspaceId")]
    pub(crate) workspace: Option<String>,
    /// Token of a lease.
    #[serde(rename = "fencingToken")]
    pub(crate) fencing_token: Option<u64>,
}

/// What was written.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GraphKept {
    id: String,
    /// The notebook of the workspace.
    session_id: SessionId,
    position: Position,
}

impl From<Written> for GraphKept {
    fn from(written: Written) -> Self {
        let Written { id, session, position } = written;
        Self { id, session_id: session, position }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueryEntities {
    /// Left out: all types.
    #[serde(default)]
    types: Vec<String>,
    /// All of them hold. A field is type, id, created_at, sessions, count, last_at or a property.
    #[serde(default)]
    filters: Vec<Filter>,
    #[serde(default)]
    sort: Vec<Sort>,
    /// Default 100.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
    #[serde(default)]
    offset: usize,
    /// What callers wrote, what sessions name (file, url, symbol, error, command, person, package),
    /// or all.
    #[schemars(extend("enum" = ["all", "told", "extracted"]))]
    source: Option<String>,
    /// Name the sessions that name an entity.
    #[serde(default, rename = "includeSessions")]
    include_sessions: bool,
    /// Left out: the workspace of the bound session, else of your directory.
    #[serde(alias = "workspaceId")]
    pub(crate) workspace: Option<String>,
}

impl QueryEntities {
    pub(crate) fn into_request(self) -> EntityQueryRequest {
        let Self { types, filters, sort, limit, offset, source, include_sessions, .. } = self;
        EntityQueryRequest {
            types,
            filters,
            sort,
            limit,
            offset,
            source,
            include_sessions,
            wait_ms: WAIT_MS,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueryRelationships {
    /// Edges of this entity in either direction.
    #[serde(alias = "entityId")]
    entity_id: Option<String>,
    /// Only edges that begin here.
    #[serde(alias = "fromId")]
    from_id: Option<String>,
    /// Only edges that lead here.
    #[serde(alias = "toId")]
    to_id: Option<String>,
    /// Left out: all types.
    #[serde(default)]
    types: Vec<String>,
    /// All of them hold. A field is type, id, from_id, to_id, created_at or a property.
    #[serde(default)]
    filters: Vec<Filter>,
    #[serde(default)]
    sort: Vec<Sort>,
    /// Default 100.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
    #[serde(default)]
    offset: usize,
    /// Left out: the workspace of the bound session, else of your directory.
    #[serde(alias = "workspaceId")]
    pub(crate) workspace: Option<String>,
}

impl QueryRelationships {
    pub(crate) fn into_request(self) -> RelationQueryRequest {
        let Self { entity_id, from_id, to_id, types, filters, sort, limit, offset, .. } = self;
        RelationQueryRequest { entity_id, from_id, to_id, types, filters, sort, limit, offset }
    }
}

/// Entities that were found.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EntitiesFound {
    entities: Vec<Entity>,
    /// On all pages.
    total: u64,
    /// offset of the next page.
    #[serde(rename = "nextOffset", skip_serializing_if = "none")]
    next_offset: Option<u64>,
    /// What was not looked at yet, of the sessions that name entities.
    #[serde(skip_serializing_if = "none")]
    complete: Option<Complete>,
    trust: String,
    notice: &'static str,
}

impl From<EntityList> for EntitiesFound {
    fn from(page: EntityList) -> Self {
        let EntityList { entities, total, next_offset, complete, trust, .. } = page;
        Self { entities, total, next_offset, complete, trust, notice: NOTICE }
    }
}

/// Relations that were found.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RelationshipsFound {
    relationships: Vec<Relationship>,
    /// On all pages.
    total: u64,
    /// offset of the next page.
    #[serde(rename = "nextOffset", skip_serializing_if = "none")]
    next_offset: Option<u64>,
    trust: String,
    notice: &'static str,
}

impl From<RelationshipList> for RelationshipsFound {
    fn from(page: RelationshipList) -> Self {
        let RelationshipList { relationships, total, next_offset, trust, .. } = page;
        Self { relationships, total, next_offset, trust, notice: NOTICE }
    }
}
