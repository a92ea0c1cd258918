//! The verbs on the graph of a workspace, on HTTP and as tools. They must not decide what an entity
//! is.

#![allow(missing_docs, reason = "ABOUT says what a verb does")]

use std::io;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Asks, AtEntity, AtRelation, InWorkspace, Need, NoQuery, Route, Serve, Verb, VerbCall, Visit,
    tools::{ServeTool, Tool, ToolCall, Toolset},
};
use crate::{
    api::graph::{
        AnalyticsAnswer, EntityList, EntityQueryRequest, RelateRequest, RelationQueryRequest,
        RelationshipList, UpsertRequest, Written,
    },
    service::{Code, ServiceError, ServiceResult, values::time},
    wire::tools::graph::{
        CreateRelationship, EntitiesFound, GraphKept, QueryEntities, QueryRelationships,
        RelationshipsFound, RemoveFromGraph, UpsertEntity,
    },
};

/// Bytes that an answer may take in memory: a page of properties, as values.
const ANSWER_BYTES: usize = 16 << 20;
/// Bytes of properties on a page, about; fewer where a model reads them.
const PAGE_BYTES: usize = 4 << 20;
const TOOL_BYTES: usize = 32 << 10;

pub(super) fn each(visit: &mut impl Visit) {
    visit.verb::<PutEntity>();
    visit.verb::<Relate>();
    visit.verb::<RemoveEntity>();
    visit.verb::<Unrelate>();
    visit.verb::<FindEntities>();
    visit.verb::<FindRelationships>();
    visit.verb::<Analyse>();
    visit.tool(written(Tool::own::<UpsertEntity>(
        "upsert_entity",
        "Create or change an entity",
        "Keep a thing of this workspace with its properties: a file, a decision, a task, a person. \
         The same type and id again change the properties that are sent.",
        Toolset::Graph,
        Need::WRITE,
    )));
    visit.tool(written(Tool::own::<CreateRelationship>(
        "create_relationship",
        "Connect two entities",
        "Keep how two entities of this workspace are related. The same again changes nothing.",
        Toolset::Graph,
        Need::WRITE,
    )));
    visit.tool(written(Tool::own::<RemoveFromGraph>(
        "remove_from_graph",
        "Remove an entity or a relation",
        "End what holds no more or was written by mistake: an entity by type and id, with its \
         relations, or a relation by its id. Queries show it no more; the log keeps it.",
        Toolset::Graph,
        Need::WRITE,
    )));
    visit.tool(Tool::own::<QueryEntities>(
        "query_entities",
        "Find entities",
        "Entities of this workspace by type, properties and time, with paging: what was written, \
         and the files, errors, commands and other things that its sessions name.",
        Toolset::Graph,
        Need::READ,
    ));
    visit.tool(Tool::own::<QueryRelationships>(
        "query_relationships",
        "Find relations",
        "Relations of this workspace: entity_id alone gives all edges of an entity. Sessions that \
         continue another are related by SESSION_CONTINUES.",
        Toolset::Graph,
        Need::READ,
    ));
}

/// The same call again changes nothing more, and its key is that of its event, whose content is
/// compared.
const fn written(tool: Tool) -> Tool {
    Tool { plain_key: true, repeatable: true, ..tool }
}

pub struct PutEntity;

impl Verb for PutEntity {
    const ROUTE: Route =
        Route::put("/v1/workspaces/{workspace}/entities/{type}/{id}", "upsertEntity", Need::WRITE);
    const TAG: &'static str = "graph";
    const ABOUT: &'static str = "Creates an entity of a workspace, or changes its properties by a \
                                 merge patch. It is kept in the notebook of the workspace.";
    const ASKS: Asks = Asks::Maybe("What changes of its properties");
    const KEY: Option<&'static str> = Some("A retry with the same key writes it once");
    const ANSWERS: &'static str = "Where it was written, durable";
    type Params = AtEntity;
    type Query = NoQuery;
    type Body = UpsertRequest;
    type Answer = Written;

    /// Nothing: the event that is written is compared, and may be redacted.
    fn content(_: &UpsertRequest, _: impl io::Write) -> serde_json::Result<()> {
        Ok(())
    }
}

impl Serve for PutEntity {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<Written> {
        let AtEntity { workspace, kind, id } = &call.params;
        let entity = (kind.as_str(), id.as_str());
        call.service.upsert_entity(&call.caller, workspace, entity, call.body, call.key).await
    }
}

pub struct Relate;

impl Verb for Relate {
    const ROUTE: Route =
        Route::post("/v1/workspaces/{workspace}/relationships", "createRelationship", Need::WRITE);
    const TAG: &'static str = "graph";
    const ABOUT: &'static str = "Creates a relation of two entities of a workspace. Its id follows \
                                 from its type, ends and properties: the same again is the same. \
                                 The workspace itself and its sessions are entities.";
    const ASKS: Asks = Asks::Body("The relation");
    const KEY: Option<&'static str> = Some("A retry with the same key writes it once");
    const ANSWERS: &'static str = "Where it was written, durable";
    type Params = InWorkspace;
    type Query = NoQuery;
    type Body = RelateRequest;
    type Answer = Written;

    /// Nothing: the event that is written is compared, and may be redacted.
    fn content(_: &RelateRequest, _: impl io::Write) -> serde_json::Result<()> {
        Ok(())
    }
}

impl Serve for Relate {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<Written> {
        let workspace = &call.params.workspace;
        call.service.create_relationship(&call.caller, workspace, call.body, call.key).await
    }
}

pub struct RemoveEntity;

impl Verb for RemoveEntity {
    const ROUTE: Route = Route::delete(
        "/v1/workspaces/{workspace}/entities/{type}/{id}",
        "removeEntity",
        Need::WRITE,
    );
    const TAG: &'static str = "graph";
    const ABOUT: &'static str = "Removes an entity that a caller wrote, and its relations: queries \
                                 show them no more. Their events stay in the notebook: redact \
                                 those to remove their bytes. Twice is once.";
    const ANSWERS: &'static str = "Where its removal was written, durable";
    type Params = AtEntity;
    type Query = NoQuery;
    type Body = ();
    type Answer = Written;
}

impl Serve for RemoveEntity {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<Written> {
        let AtEntity { workspace, kind, id } = &call.params;
        let entity = (kind.as_str(), id.as_str());
        call.service.remove_entity(&call.caller, workspace, entity).await
    }
}

pub struct Unrelate;

impl Verb for Unrelate {
    const ROUTE: Route = Route::delete(
        "/v1/workspaces/{workspace}/relationships/{relation}",
        "removeRelationship",
        Need::WRITE,
    );
    const TAG: &'static str = "graph";
    const ABOUT: &'static str = "Removes a relation that a caller wrote: queries show it no more. \
                                 Its event stays in the notebook: redact that to remove its bytes. \
                                 Twice is once; written again it is another relation.";
    const ANSWERS: &'static str = "Where its removal was written, durable";
    type Params = AtRelation;
    type Query = NoQuery;
    type Body = ();
    type Answer = Written;
}

impl Serve for Unrelate {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<Written> {
        let AtRelation { workspace, relation } = &call.params;
        call.service.remove_relationship(&call.caller, workspace, relation).await
    }
}

pub struct FindEntities;

impl Verb for FindEntities {
    const ROUTE: Route =
        Route::post("/v1/workspaces/{workspace}/entities/query", "queryEntities", Need::READ);
    const TAG: &'static str = "graph";
    const ABOUT: &'static str = "Entities of a workspace by their types, members and properties: \
                                 what callers wrote, and the files, addresses, symbols, errors, \
                                 commands, persons and packages that its sessions name.";
    const ASKS: Asks = Asks::Maybe("Which entities, in which order");
    const ANSWERS: &'static str = "The entities, and how many there are";
    type Params = InWorkspace;
    type Query = NoQuery;
    type Body = EntityQueryRequest;
    type Answer = EntityList;

    fn answer_bytes(_: &NoQuery) -> Option<usize> {
        Some(ANSWER_BYTES)
    }
}

impl Serve for FindEntities {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<EntityList> {
        let workspace = &call.params.workspace;
        let asked = call.body;
        call.service.query_entities(&call.caller, workspace, asked, PAGE_BYTES).await
    }
}

pub struct FindRelationships;

impl Verb for FindRelationships {
    const ROUTE: Route = Route::post(
        "/v1/workspaces/{workspace}/relationships/query",
        "queryRelationships",
        Need::READ,
    );
    const TAG: &'static str = "graph";
    const ABOUT: &'static str = "Relations of a workspace by their ends, types and properties. \
                                 `entity_id` alone finds the relations of an entity in either \
                                 direction. A session that continues another is related to it by \
                                 `SESSION_CONTINUES`.";
    const ASKS: Asks = Asks::Maybe("Which relations, in which order");
    const ANSWERS: &'static str = "The relations, and how many there are";
    type Params = InWorkspace;
    type Query = NoQuery;
    type Body = RelationQueryRequest;
    type Answer = RelationshipList;

    fn answer_bytes(_: &NoQuery) -> Option<usize> {
        Some(ANSWER_BYTES)
    }
}

impl Serve for FindRelationships {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<RelationshipList> {
        let (workspace, asked) = (&call.params.workspace, call.body);
        call.service.query_relationships(&call.caller, workspace, asked, PAGE_BYTES).await
    }
}

pub struct Analyse;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AnalyseQuery {
    /// Only what was written at or after this time
    pub since: Option<String>,
    /// Wait so long for events that are not in the index yet, beyond the usual 50; 60 000 at most
    #[schemars(range(max = 60_000))]
    pub wait_ms: u64,
}

impl Verb for Analyse {
    const ROUTE: Route =
        Route::get("/v1/workspaces/{workspace}/analytics", "analytics", Need::READ);
    const TAG: &'static str = "graph";
    const ABOUT: &'static str = "What was done in a workspace, in numbers: sessions, events, \
                                 tokens, what most sessions name, and each day. Counted are the \
                                 events that say something.";
    const ANSWERS: &'static str = "The numbers";
    type Params = InWorkspace;
    type Query = AnalyseQuery;
    type Body = ();
    type Answer = AnalyticsAnswer;
}

impl Serve for Analyse {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<AnalyticsAnswer> {
        let since = time("since", call.query.since.as_deref())?;
        let (workspace, wait_ms) = (&call.params.workspace, call.query.wait_ms);
        call.service.analytics(&call.caller, workspace, since, wait_ms).await
    }
}

/// The workspace of a call: the one it names, that of the bound session, that of the caller's
/// directory.
async fn workspace_of(call: &ToolCall<'_>, named: Option<String>) -> ServiceResult<String> {
    if let Some(workspace) = named {
        return Ok(workspace);
    }
    let bound = match call.service.bound(call.caller, call.via, None).await {
        Ok((session, _)) => call.service.get_session(call.caller, &session).await?.workspace,
        Err(error) if error.code == Code::SessionRequired => None,
        Err(error) => return Err(error),
    };
    bound.or_else(|| call.via.workspace()).ok_or_else(|| {
        ServiceError::invalid("workspace", "no session with a workspace is bound")
            .action("name the workspace, for example the root of the repository")
    })
}

impl ServeTool for UpsertEntity {
    type Answer = GraphKept;

    async fn serve_tool(self, call: ToolCall<'_>) -> ServiceResult<GraphKept> {
        let Self { kind, id, properties, workspace, fencing_token } = self;
        let workspace = workspace_of(&call, workspace).await?;
        let caller = &call.holding(fencing_token);
        let (asked, key) = (UpsertRequest { properties }, call.key.cloned());
        Ok(call.service.upsert_entity(caller, &workspace, (&kind, &id), asked, key).await?.into())
    }
}

impl ServeTool for CreateRelationship {
    type Answer = GraphKept;

    async fn serve_tool(mut self, call: ToolCall<'_>) -> ServiceResult<GraphKept> {
        let workspace = workspace_of(&call, self.workspace.take()).await?;
        let caller = &call.holding(self.fencing_token);
        let (asked, key) = (self.into_request(), call.key.cloned());
        Ok(call.service.create_relationship(caller, &workspace, asked, key).await?.into())
    }
}

impl ServeTool for RemoveFromGraph {
    type Answer = GraphKept;

    async fn serve_tool(mut self, call: ToolCall<'_>) -> ServiceResult<GraphKept> {
        let workspace = workspace_of(&call, self.workspace.take()).await?;
        let caller = &call.holding(self.fencing_token);
        let removed = match &self.kind {
            Some(kind) => call.service.remove_entity(caller, &workspace, (kind, &self.id)).await,
            None => call.service.remove_relationship(caller, &workspace, &self.id).await,
        };
        Ok(removed?.into())
    }
}

impl ServeTool for QueryEntities {
    type Answer = EntitiesFound;

    async fn serve_tool(mut self, call: ToolCall<'_>) -> ServiceResult<EntitiesFound> {
        let workspace = workspace_of(&call, self.workspace.take()).await?;
        let asked = self.into_request();
        Ok(call.service.query_entities(call.caller, &workspace, asked, TOOL_BYTES).await?.into())
    }
}

impl ServeTool for QueryRelationships {
    type Answer = RelationshipsFound;

    async fn serve_tool(mut self, call: ToolCall<'_>) -> ServiceResult<RelationshipsFound> {
        let workspace = workspace_of(&call, self.workspace.take()).await?;
        let asked = self.into_request();
        let found = call.service.query_relationships(call.caller, &workspace, asked, TOOL_BYTES);
        Ok(found.await?.into())
    }
}
