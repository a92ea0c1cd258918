//! The verbs on whole sessions, and the redaction of one event. They must not know how a session
//! is stored.

#![allow(missing_docs, reason = "ABOUT says what a verb does")]

use std::io;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    BodyUse, EventPath, JsonText, NoParams, NoQuery, RequiredGrant, Route, Serve, SessionPath,
    Verb, VerbCall, Visit,
    tools::{Argument, CallContext, ServeTool, Tool, ToolCall, Toolset, check_bounds},
};
use crate::{
    api::{
        events::EventRedacted,
        sessions::{
            CreateSession, Session, SessionDeleted, SessionErased, SessionList, UpdateSession,
        },
    },
    service::{MetadataPair, ServiceError, ServiceResult, SessionQuery, agent_filter, values},
    wire::{
        json,
        tools::lists::{SessionOut, SessionsAnswer},
    },
};

pub(super) fn visit_all(visit: &mut impl Visit) {
    visit.visit_verb::<Create>();
    visit.visit_verb::<ListSessions>();
    visit.visit_verb::<GetSession>();
    visit.visit_verb::<Update>();
    visit.visit_verb::<Delete>();
    visit.visit_verb::<Archive>();
    visit.visit_verb::<Unarchive>();
    visit.visit_verb::<Erase>();
    visit.visit_verb::<Redact>();
}

pub struct Create;

impl Verb for Create {
    const ROUTE: Route = Route::post("/v1/sessions", "createSession", RequiredGrant::WRITE);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str = "Creates a session, with its first events: all or nothing.";
    const ASKS: BodyUse = BodyUse::Maybe("Its title, metadata, lifetime and first events");
    const KEY: Option<&'static str> =
        Some("A retry with the same key within 24 h returns the same session");
    const STATUS: u16 = 201;
    const ANSWERS: &'static str = "The session, durable";
    type Params = NoParams;
    type Query = NoQuery;
    type Body = CreateSession;
    type Answer = Session;

    /// Writes the body without its events, which are compared in the store and may be redacted.
    fn write_key_content(body: &Self::Body, to: impl io::Write) -> serde_json::Result<()> {
        let CreateSession {
            id,
            title,
            metadata,
            workspace,
            ttl_seconds,
            initial_events,
            agent,
            environment_id,
            title_of,
        } = body;
        let events = initial_events.as_ref().map(Vec::len);
        let said = (id, title, metadata, workspace, ttl_seconds, agent, environment_id);
        match title_of {
            Some(position) => serde_json::to_writer(to, &(said, events, position)),
            None => serde_json::to_writer(to, &(said, events)),
        }
    }
}

impl Serve for Create {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<Session> {
        let VerbCall { service, caller, body, key, .. } = call;
        let mut events = Vec::new();
        for (index, text) in body.initial_events.iter().flatten().enumerate() {
            let event = json::parse_event(text.get(), caller.origin);
            let path = || format!("initial_events[{index}]");
            events.push(event.map_err(|error| prefix_field(&path(), error))?);
        }
        service.begin_session(&caller, body, events, key).await
    }
}

/// Prefixes the field that an error names with the event's path.
fn prefix_field(path: &str, mut error: ServiceError) -> ServiceError {
    error.message = format!("{path}.{}", error.message);
    error.hint.field = error.hint.field.map(|field| format!("{path}.{field}"));
    error
}

pub struct ListSessions;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ListQuery {
    /// Maximum number of sessions: 100 by default, 1 000 at most
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<usize>,
    /// next_page of the previous answer
    pub page: Option<String>,
    /// Order: desc (the newest first) or asc
    pub order: Option<String>,
    /// Sort key: created, or updated (the time of the last write)
    pub sort: Option<String>,
    /// Only sessions of this workspace
    pub workspace: Option<String>,
    /// Also include archived sessions
    pub include_archived: bool,
    /// Only sessions of these statuses
    #[serde(rename = "statuses[]")]
    #[schemars(length(max = 100))]
    pub statuses: Vec<String>,
    /// Only sessions created at or after this time; also gt, lt, lte
    #[serde(rename = "created_at[gte]")]
    pub created_gte: Option<String>,
    #[serde(rename = "created_at[gt]")]
    #[schemars(skip)]
    pub created_gt: Option<String>,
    #[serde(rename = "created_at[lte]")]
    #[schemars(skip)]
    pub created_lte: Option<String>,
    #[serde(rename = "created_at[lt]")]
    #[schemars(skip)]
    pub created_lt: Option<String>,
    /// Only sessions with these pairs of metadata, each NAME=VALUE
    #[serde(rename = "metadata[]")]
    #[schemars(length(max = 100))]
    pub metadata: Vec<String>,
    /// Only sessions created for this agent
    pub agent_id: Option<String>,
    /// With agent_id: only sessions created for this version of it
    pub agent_version: Option<u64>,
    // Managed Agents clients send these; a stored session has neither.
    #[schemars(skip)]
    pub deployment_id: Option<String>,
    #[schemars(skip)]
    pub memory_store_id: Option<String>,
}

impl Verb for ListSessions {
    const ROUTE: Route = Route::get("/v1/sessions", "listSessions", RequiredGrant::READ);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str = "Lists sessions, the newest first: by creation, or by when they were \
                                 written to last.";
    const ANSWERS: &'static str = "A page of sessions";
    const TOOL: Option<Tool> = Some(
        Tool::for_request::<RecentRequest>(
            "list_sessions",
            "List sessions",
            Toolset::Research,
            Self::ROUTE.need,
            &[
                Argument::new("limit", "1 to 10.").with_max(PAGE_MAX),
                Argument::new("workspace", "Only of this directory or project."),
                Argument::new("workspaceId", "The same."),
                Argument::new("offset", "Sessions to skip."),
                Argument::new("cursor", "From an earlier answer.").for_member("page"),
            ],
        )
        .with_about("List recorded sessions, the newest first."),
    );
    type Params = NoParams;
    type Query = ListQuery;
    type Body = ();
    type Answer = SessionList;
}

impl Serve for ListSessions {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<SessionList> {
        let asked = call.query;
        let window = values::TimeBounds {
            gte: asked.created_gte.as_deref(),
            gt: asked.created_gt.as_deref(),
            lte: asked.created_lte.as_deref(),
            lt: asked.created_lt.as_deref(),
        };
        let window = window.window()?;
        let unknown = asked.deployment_id.as_deref().or(asked.memory_store_id.as_deref());
        let mut metadata = agent_filter(asked.agent_id.as_deref(), asked.agent_version, unknown);
        for pair in &asked.metadata {
            let Some((name, value)) = pair.split_once('=') else {
                return Err(ServiceError::invalid("metadata[]", "it is not NAME=VALUE"));
            };
            metadata.push(MetadataPair {
                name: name.to_owned(),
                value: value.to_owned(),
                usual: None,
            });
        }
        let query = SessionQuery {
            limit: asked.limit,
            ascending: values::is_reversed(asked.order.as_deref(), "desc")?,
            by_activity: match asked.sort.as_deref() {
                None | Some("created") => false,
                Some("updated") => true,
                Some(_) => {
                    return Err(ServiceError::invalid("sort", "created or updated is expected"));
                }
            },
            include_archived: asked.include_archived,
            statuses: values::split_commas(&asked.statuses).map(str::to_owned).collect(),
            metadata,
            page: asked.page,
            workspace: asked.workspace,
            created_from: window.from,
            created_to: window.to,
        };
        Ok(call.service.list_sessions(&call.caller, query).await?.into())
    }
}

/// Maximum number of sessions on a page of the tool.
const PAGE_MAX: usize = 10;

/// Sessions that a model lists: a page of [`ListQuery`], or by an offset with their total number.
#[derive(Debug, Deserialize, JsonSchema)]
struct RecentRequest {
    #[serde(flatten)]
    listed: ListQuery,
    workspace_id: Option<String>,
    offset: Option<usize>,
}

impl ServeTool for RecentRequest {
    type Answer = SessionsAnswer;

    async fn serve_tool(self, call: ToolCall<'_>, _: CallContext) -> ServiceResult<SessionsAnswer> {
        let Self { listed: ListQuery { limit, page, workspace, .. }, workspace_id, offset } = self;
        let limit = check_bounds("limit", limit, PAGE_MAX, PAGE_MAX)?;
        if workspace.is_some() && workspace_id.is_some() {
            return Err(ServiceError::invalid("workspaceId", "it does not go with workspace"));
        }
        let is_counted = workspace_id.is_some() || offset.is_some();
        let workspace = workspace.or(workspace_id);
        if is_counted && page.is_some() {
            return Err(ServiceError::invalid("page", "it does not go with this call")
                .action("send offset or cursor, and workspace with a cursor"));
        }
        if is_counted {
            let offset = offset.unwrap_or(0);
            let found = call.service.list_and_count_sessions(call.caller, workspace, offset, limit);
            let (sessions, total) = found.await?;
            let sessions = sessions.iter().map(SessionOut::from).collect();
            return Ok(SessionsAnswer { sessions, total: Some(total as u64), next_cursor: None });
        }
        let limit = Some(limit);
        let query = SessionQuery { limit, page, workspace, ..SessionQuery::default() };
        let page = call.service.list_sessions(call.caller, query).await?;
        let sessions = page.sessions.iter().map(SessionOut::from).collect();
        Ok(SessionsAnswer { sessions, total: None, next_cursor: page.next_page })
    }
}

pub struct GetSession;

impl Verb for GetSession {
    const ROUTE: Route = Route::get("/v1/sessions/{session}", "getSession", RequiredGrant::READ);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str = "A session: title, metadata, status, size.";
    const ANSWERS: &'static str = "The session";
    type Params = SessionPath;
    type Query = NoQuery;
    type Body = ();
    type Answer = Session;
}

impl Serve for GetSession {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<Session> {
        call.service.get_session(&call.caller, &call.params.session).await
    }
}

pub struct Update;

impl Verb for Update {
    const ROUTE: Route =
        Route::post("/v1/sessions/{session}", "updateSession", RequiredGrant::WRITE);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str = "Changes title and metadata.";
    const ASKS: BodyUse = BodyUse::Maybe("The changes");
    const ANSWERS: &'static str = "The session as changed";
    type Params = SessionPath;
    type Query = NoQuery;
    type Body = UpdateSession;
    type Answer = Session;
}

impl Serve for Update {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<Session> {
        call.service.update_session(&call.caller, &call.params.session, call.body).await
    }
}

pub struct Archive;

impl Verb for Archive {
    const ROUTE: Route =
        Route::post("/v1/sessions/{session}/archive", "archiveSession", RequiredGrant::WRITE);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str = "Archives a session: it can be read, not written.";
    const ANSWERS: &'static str = "The archived session";
    type Params = SessionPath;
    type Query = NoQuery;
    type Body = ();
    type Answer = Session;
}

impl Serve for Archive {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<Session> {
        call.service.archive_session(&call.caller, &call.params.session, true).await
    }
}

#[derive(Debug)]
pub struct Unarchive;

impl Verb for Unarchive {
    const ROUTE: Route =
        Route::post("/v1/sessions/{session}/unarchive", "unarchiveSession", RequiredGrant::WRITE);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str = "Lets an archived session be written to again.";
    const ANSWERS: &'static str = "The session";
    type Params = SessionPath;
    type Query = NoQuery;
    type Body = ();
    type Answer = Session;
}

impl Serve for Unarchive {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<Session> {
        call.service.archive_session(&call.caller, &call.params.session, false).await
    }
}

pub struct Delete;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DeleteQuery {
    #[doc = "Remove its bytes at once: it cannot be restored. Takes an expired session and a \
             deleted one too, and works on a full disk"]
    pub now: bool,
}

impl Verb for Delete {
    const ROUTE: Route =
        Route::delete("/v1/sessions/{session}", "deleteSession", RequiredGrant::DELETE);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str = "Deletes a session: hidden at once. It can be restored until its \
                                 grace ends, when its bytes are removed.";
    const ANSWERS: &'static str = "The session is deleted";
    type Params = SessionPath;
    type Query = DeleteQuery;
    type Body = ();
    type Answer = SessionDeleted;
}

impl Serve for Delete {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<SessionDeleted> {
        let (session, now) = (call.params.session, call.query.now);
        let until = call.service.delete_session(&call.caller, &session, now).await?;
        let kind = "session_deleted".to_owned();
        let restorable_until = until.map(|until| until.to_string());
        Ok(SessionDeleted { id: session.to_string(), kind, restorable_until })
    }
}

pub struct Erase;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EraseQuery {
    #[doc = "Redact first the items of memory that were written from it and are kept in notebooks"]
    pub with_memory: bool,
}

impl Verb for Erase {
    const ROUTE: Route =
        Route::post("/v1/sessions/{session}/erase", "eraseSession", RequiredGrant::DELETE);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str = "Erases a session: when this returns, nothing of it can be read, \
                                 and it cannot be restored.";
    const ANSWERS: &'static str = "The session is erased";
    type Params = SessionPath;
    type Query = EraseQuery;
    type Body = ();
    type Answer = SessionErased;
}

impl Serve for Erase {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<SessionErased> {
        let (session, also) = (call.params.session, call.query.with_memory);
        let memory = call.service.erase_session(&call.caller, &session, also).await?;
        let kind = "session_erased".to_owned();
        Ok(SessionErased { id: session.to_string(), kind, memory })
    }
}

pub struct Redact;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RedactQuery {
    #[doc = "Redact also the items of memory that stand for the event or were written from its \
             session after it"]
    pub with_memory: bool,
}

impl Verb for Redact {
    const ROUTE: Route = Route::post(
        "/v1/sessions/{session}/events/{event}/redact",
        "redactEvent",
        RequiredGrant::DELETE,
    );
    const TAG: &'static str = "events";
    const ABOUT: &'static str = "Removes the body of an event, and the events that the server or a \
                                 recorder made of it: when this returns, no file has it. \
                                 Position, id, type, times and the chain stay.";
    const ANSWERS: &'static str =
        "The event as it is returned from now on, and what was derived from it";
    type Params = EventPath;
    type Query = RedactQuery;
    type Body = ();
    type Answer = JsonText<EventRedacted>;
}

impl Serve for Redact {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<JsonText<EventRedacted>> {
        let (EventPath { session, event }, also) = (call.params, call.query.with_memory);
        let redacted = call.service.redact_event(&call.caller, &session, &event, also).await?;
        let (event, derived) = redacted;
        Ok(JsonText::new(json::event_text_with(&event, &derived)))
    }
}
