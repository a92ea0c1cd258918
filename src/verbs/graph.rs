//! The verbs on the graph of a workspace, on HTTP and as tools. They must not decide what an entity
//! is.

#![allow(missing_docs, reason = "ABOUT says what a verb does")]

use std::io;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    AnswerReader, BodyUse, EntityPath, NoQuery, RelationPath, RequiredGrant, Route, Serve, Verb,
    VerbCall, Visit, WorkspacePath,
    tools::{Argument, CallContext, MODEL_WAIT_MS, ServeTool, Tool, ToolCall, Toolset},
};
use crate::{
    api::graph::{
        AnalyticsAnswer, EntityList, EntityQueryRequest, RelateRequest, RelationQueryRequest,
        RelationshipList, RemoveRequest, UpsertRequest, Written,
    },
    service::{ServiceResult, values::parse_time},
    wire::tools::names::NameChange,
};

/// Maximum bytes of an answer in memory: a page of properties, as values.
const ANSWER_BYTES: usize = 16 << 20;

/// Returns the approximate bytes of properties on a page; fewer for a model.
fn page_bytes(reader: AnswerReader) -> usize {
    match reader {
        AnswerReader::Program => 4 << 20,
        AnswerReader::Model => 32 << 10,
    }
}

pub(super) fn visit_all(visit: &mut impl Visit) {
    visit.visit_verb::<PutEntity>();
    visit.visit_verb::<CreateRelation>();
    visit.visit_verb::<RemoveEntity>();
    visit.visit_verb::<RemoveRelation>();
    visit.visit_tool(as_graph_write(REMOVE));
    visit.visit_verb::<FindEntities>();
    visit.visit_verb::<FindRelationships>();
    visit.visit_verb::<AnalyseWorkspace>();
}

/// Marks a tool as repeatable. Its key is that of the written event, whose content is compared.
const fn as_graph_write(tool: Tool) -> Tool {
    let tool = tool
        .with_name_changes(&[("session", NameChange::Named("sessionId"))])
        .without_trust_marker();
    tool.repeatable().with_plain_key()
}

/// Workspace argument of these tools.
const WORKSPACE: Argument = Argument::workspace(
    "workspace",
    "Left out: the workspace of the bound session, else of your directory.",
);

pub struct PutEntity;

impl Verb for PutEntity {
    const ROUTE: Route = Route::put(
        "/v1/workspaces/{workspace}/entities/{type}/{id}",
        "upsertEntity",
        RequiredGrant::WRITE,
    );
    const TAG: &'static str = "graph";
    const ABOUT: &'static str = "Creates an entity of a workspace, or changes its properties by a \
                                 merge patch. It is kept in the notebook of the workspace.";
    const ASKS: BodyUse = BodyUse::Maybe("Changes of its properties");
    const KEY: Option<&'static str> = Some("A retry with the same key writes it once");
    const ANSWERS: &'static str = "Location of the entity, durable";
    const TOOL: Option<Tool> = Some(as_graph_write(
        Tool::for_verb::<Self>("upsert_entity", "Create or change an entity", Toolset::Graph)
            .with_about(
                "Keep a thing of this workspace with its properties: a file, a decision, a task, a \
                 person. The same type and id again change the properties that are sent.",
            )
            .with_arguments(&[
                Argument::new(
                    "type",
                    "session, conversation, context_item, file_reference, workspace_state or any \
                     other name.",
                ),
                Argument::new("id", "Its id, one of its type."),
                Argument::new(
                    "properties",
                    "What changes: a merge patch; null removes a property.",
                ),
                WORKSPACE,
                Argument::FENCE,
            ]),
    ));
    type Params = EntityPath;
    type Query = NoQuery;
    type Body = UpsertRequest;
    type Answer = Written;

    /// Writes nothing: the event's content is compared instead, and may be redacted.
    fn write_key_content(_: &UpsertRequest, _: impl io::Write) -> serde_json::Result<()> {
        Ok(())
    }
}

impl Serve for PutEntity {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<Written> {
        let EntityPath { workspace, kind, id } = &call.params;
        let entity = (kind.as_str(), id.as_str());
        call.service.upsert_entity(&call.caller, workspace, entity, call.body, call.key).await
    }
}

pub struct CreateRelation;

impl Verb for CreateRelation {
    const ROUTE: Route = Route::post(
        "/v1/workspaces/{workspace}/relationships",
        "createRelationship",
        RequiredGrant::WRITE,
    );
    const TAG: &'static str = "graph";
    const ABOUT: &'static str = "Creates a relation of two entities of a workspace. Its id follows \
                                 from its type, ends and properties: the same again is the same. \
                                 The workspace itself and its sessions are entities.";
    const ASKS: BodyUse = BodyUse::Body("The relation");
    const KEY: Option<&'static str> = Some("A retry with the same key writes it once");
    const ANSWERS: &'static str = "Location of the relation, durable";
    const TOOL: Option<Tool> = Some(as_graph_write(
        Tool::for_verb::<Self>("create_relationship", "Connect two entities", Toolset::Graph)
            .with_about(
                "Keep how two entities of this workspace are related. The same again changes \
                 nothing.",
            )
            .with_arguments(&[
                Argument::new(
                    "from_id",
                    "Id of the entity it begins at; sessions and the workspace are there without \
                     being written.",
                ),
                Argument::new("to_id", "Id of the entity it leads to."),
                Argument::new("type", "Such as SESSION_CONTINUES or CONVERSATION_REFERENCES_FILE."),
                Argument::new("properties", ""),
                WORKSPACE,
                Argument::FENCE,
            ]),
    ));
    type Params = WorkspacePath;
    type Query = NoQuery;
    type Body = RelateRequest;
    type Answer = Written;

    /// Writes nothing: the event's content is compared instead, and may be redacted.
    fn write_key_content(_: &RelateRequest, _: impl io::Write) -> serde_json::Result<()> {
        Ok(())
    }
}

impl Serve for CreateRelation {
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
        RequiredGrant::WRITE,
    );
    const TAG: &'static str = "graph";
    const ABOUT: &'static str = "Removes an entity that a caller wrote, and its relations: queries \
                                 show them no more. Their events stay in the notebook: redact \
                                 those to remove their bytes. A repeated call does nothing.";
    const ANSWERS: &'static str = "Location of the removal, durable";
    type Params = EntityPath;
    type Query = NoQuery;
    type Body = ();
    type Answer = Written;
}

impl Serve for RemoveEntity {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<Written> {
        let EntityPath { workspace, kind, id } = &call.params;
        let entity = (kind.as_str(), id.as_str());
        call.service.remove_entity(&call.caller, workspace, entity).await
    }
}

pub struct RemoveRelation;

impl Verb for RemoveRelation {
    const ROUTE: Route = Route::delete(
        "/v1/workspaces/{workspace}/relationships/{relation}",
        "removeRelationship",
        RequiredGrant::WRITE,
    );
    const TAG: &'static str = "graph";
    const ABOUT: &'static str = "Removes a relation that a caller wrote: queries show it no more. \
                                 Its event stays in the notebook: redact that to remove its bytes. \
                                 A repeated call does nothing; a relation that is written \
                                 again is another one.";
    const ANSWERS: &'static str = "Location of the removal, durable";
    type Params = RelationPath;
    type Query = NoQuery;
    type Body = ();
    type Answer = Written;
}

impl Serve for RemoveRelation {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<Written> {
        let RelationPath { workspace, relation } = &call.params;
        call.service.remove_relationship(&call.caller, workspace, relation).await
    }
}

pub struct FindEntities;

impl Verb for FindEntities {
    const ROUTE: Route = Route::post(
        "/v1/workspaces/{workspace}/entities/query",
        "queryEntities",
        RequiredGrant::READ,
    );
    const TAG: &'static str = "graph";
    const ABOUT: &'static str = "Entities of a workspace by their types, members and properties: \
                                 what callers wrote, and the files, addresses, symbols, errors, \
                                 commands, persons and packages that its sessions name.";
    const ASKS: BodyUse = BodyUse::Maybe("Filters and order of the entities");
    const ANSWERS: &'static str = "The entities, and their total number";
    const TOOL: Option<Tool> = Some(
        Tool::for_verb::<Self>("query_entities", "Find entities", Toolset::Graph)
            .with_about(
                "Entities of this workspace by type, properties and time, with paging: what was \
                 written, and the files, errors, commands and other things that its sessions name.",
            )
            .with_arguments(&[
                Argument::new("types", "Left out: all types."),
                Argument::new(
                    "filters",
                    "All of them hold. A field is type, id, created_at, sessions, count, last_at \
                     or a property.",
                ),
                Argument::new("sort", ""),
                Argument::new("limit", "Default 100."),
                Argument::new("offset", ""),
                Argument::new(
                    "source",
                    "What callers wrote, what sessions name (file, url, symbol, error, command, \
                     person, package), or all.",
                ),
                Argument::new("includeSessions", "Name the sessions that name an entity."),
                WORKSPACE,
            ])
            .with_name_changes(&[("entities", NameChange::Kept), ("complete", NameChange::Kept)]),
    );
    type Params = WorkspacePath;
    type Query = NoQuery;
    type Body = EntityQueryRequest;
    type Answer = EntityList;

    fn answer_bytes(_: &NoQuery) -> Option<usize> {
        Some(ANSWER_BYTES)
    }
}

impl Serve for FindEntities {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<EntityList> {
        let (workspace, mut asked) = (&call.params.workspace, call.body);
        if call.reader == AnswerReader::Model {
            asked.wait_ms = MODEL_WAIT_MS;
        }
        let bytes = page_bytes(call.reader);
        call.service.query_entities(&call.caller, workspace, asked, bytes).await
    }
}

pub struct FindRelationships;

impl Verb for FindRelationships {
    const ROUTE: Route = Route::post(
        "/v1/workspaces/{workspace}/relationships/query",
        "queryRelationships",
        RequiredGrant::READ,
    );
    const TAG: &'static str = "graph";
    const ABOUT: &'static str = "Relations of a workspace by their ends, types and properties. \
                                 `entity_id` alone finds the relations of an entity in either \
                                 direction. A session that continues another is related to it by \
                                 `SESSION_CONTINUES`.";
    const ASKS: BodyUse = BodyUse::Maybe("Filters and order of the relations");
    const ANSWERS: &'static str = "The relations, and their total number";
    const TOOL: Option<Tool> = Some(
        Tool::for_verb::<Self>("query_relationships", "Find relations", Toolset::Graph)
            .with_about(
                "Relations of this workspace: entity_id alone gives all edges of an entity. \
                 Sessions that continue another are related by SESSION_CONTINUES.",
            )
            .with_arguments(&[
                Argument::new("entity_id", "Edges of this entity in either direction."),
                Argument::new("from_id", "Only edges that begin here."),
                Argument::new("to_id", "Only edges that lead here."),
                Argument::new("types", "Left out: all types."),
                Argument::new(
                    "filters",
                    "All of them hold. A field is type, id, from_id, to_id, created_at or a \
                     property.",
                ),
                Argument::new("sort", ""),
                Argument::new("limit", "Default 100."),
                Argument::new("offset", ""),
                WORKSPACE,
            ])
            .with_name_changes(&[("relationships", NameChange::Kept)]),
    );
    type Params = WorkspacePath;
    type Query = NoQuery;
    type Body = RelationQueryRequest;
    type Answer = RelationshipList;

    fn answer_bytes(_: &NoQuery) -> Option<usize> {
        Some(ANSWER_BYTES)
    }
}

impl Serve for FindRelationships {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<RelationshipList> {
        let (workspace, asked, bytes) =
            (&call.params.workspace, call.body, page_bytes(call.reader));
        call.service.query_relationships(&call.caller, workspace, asked, bytes).await
    }
}

pub struct AnalyseWorkspace;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AnalyseQuery {
    /// Only activity at or after this time
    pub since: Option<String>,
    /// Milliseconds to wait for events not indexed yet, beyond the usual 50; 60 000 at most
    #[schemars(range(max = 60_000))]
    pub wait_ms: u64,
}

impl Verb for AnalyseWorkspace {
    const ROUTE: Route =
        Route::get("/v1/workspaces/{workspace}/analytics", "analytics", RequiredGrant::READ);
    const TAG: &'static str = "graph";
    const ABOUT: &'static str = "Activity in a workspace, in numbers: sessions, events, \
                                 tokens, what most sessions name (files, URLs, errors and \
                                 others), and each day. Only events with text are counted.";
    const ANSWERS: &'static str = "The numbers";
    type Params = WorkspacePath;
    type Query = AnalyseQuery;
    type Body = ();
    type Answer = AnalyticsAnswer;
}

impl Serve for AnalyseWorkspace {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<AnalyticsAnswer> {
        let since = parse_time("since", call.query.since.as_deref())?;
        let (workspace, wait_ms) = (&call.params.workspace, call.query.wait_ms);
        call.service.analytics(&call.caller, workspace, since, wait_ms).await
    }
}

/// Tool that calls one of two verbs: one removes an entity, the other a relation.
const REMOVE: Tool = Tool::for_request::<RemoveRequest>(
    "remove_from_graph",
    "Remove an entity or a relation",
    Toolset::Graph,
    RequiredGrant::WRITE,
    &[
        Argument::new("type", "Type of the entity; left out: a relation is removed."),
        Argument::new("id", "Id of the entity, or of the relation."),
        WORKSPACE,
        Argument::FENCE,
    ],
)
.with_about(
    "End what holds no more or was written by mistake: an entity by type and id, with its \
     relations, or a relation by its id. Queries show it no more; the log keeps it.",
)
.for_workspace();

impl ServeTool for RemoveRequest {
    type Answer = Written;

    async fn serve_tool(self, call: ToolCall<'_>, context: CallContext) -> ServiceResult<Written> {
        let (caller, workspace) = (&context.caller, context.expect_workspace());
        match &self.kind {
            Some(kind) => call.service.remove_entity(caller, workspace, (kind, &self.id)).await,
            None => call.service.remove_relationship(caller, workspace, &self.id).await,
        }
    }
}
