//! The handler of the protocol, the same on both transports: lists tools, resources and prompts,
//! passes a call to the backend, and returns its answer as content. It must not depend on a tool
//! beyond its name and schema.

use std::sync::Arc;

use axum::http::request::Parts;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
        CustomResult, DiscoverResult, ErrorCode, GetPromptRequestParams, GetPromptResponse,
        GetPromptResult, Implementation, InitializeRequestParams, InitializeResult,
        ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
        PaginatedRequestParams, Prompt, PromptArgument, PromptMessage, ReadResourceRequestParams,
        ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
        Role, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
    },
    service::RequestContext,
};
use serde_json::{Map, Value, json};

use super::{
    backend::{Backend, ToolRequest},
    conversation, resources,
};
use crate::{
    access::Principal,
    env::sync::{Mutex, MutexGuard},
    event::SessionId,
    service::{ClientIdentity, LastUse},
    verbs::tools::{self, Toolset},
    wire::{
        tools::{NOTICE, ToolFailure, via},
        wrap_in_frame,
    },
};

/// Instructions that a model receives before its first call; one part for each offered toolset.
const INSTRUCTIONS: &str = "Durable sessions outside your context window.";
const INSTRUCTIONS_OF: &[(Toolset, &str)] = &[
    (
        Toolset::Research,
        " After losing context, call get_research_session without arguments: it gives back goal, \
         steps, gaps and sources. Record research with sequential_search; every step is durable \
         before the answer.",
    ),
    (
        Toolset::Agent,
        " After a compaction or when you do not know where the work stands, call \
         get_research_session without arguments: it gives back the task, the user's words, plan, \
         failures and changes. memory_search finds what was said or done in any session, \
         get_events reads it word for word. memory_insert keeps what later sessions must know, \
         sequential_search a step, checkpoint a place.",
    ),
    (Toolset::Events, " get_events reads what was recorded, word for word."),
    (
        Toolset::Memory,
        " Call continue_session when the context window is nearly full, or was lost.",
    ),
    (
        Toolset::Graph,
        " upsert_entity and create_relationship keep what is connected with what in this \
         workspace; query_entities and query_relationships find it again.",
    ),
    (
        Toolset::Workspace,
        " restore_session continues earlier work of this workspace; save_session before you stop.",
    ),
];
/// Clients that show a model only the JSON of structured content and leave out the text for it:
/// they get only the text, as found by `tests/agents`.
const TEXT_CLIENTS: [&str; 2] = ["claude-code", "codex-mcp-client"];
/// Key under which a request of the stateless revision names its client.
const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// Member of an answer with the text for models.
const TEXT: &str = "text";
/// Member of an answer with the text of a restored session, which programs read as well.
const CONTEXT: &str = "context";
/// Methods with required parameters.
const SERVED_METHODS: [&str; 4] = ["initialize", "tools/call", "resources/read", "prompts/get"];
/// HTTP header with the id of a connection, for revisions that have connections.
const MCP_SESSION: &str = "mcp-session-id";

/// Handler of one connection, or of every connection of a stateless transport.
pub struct Handler {
    backend: Arc<dyn Backend>,
    toolsets: Vec<Toolset>,
    /// Identity of this connection, and the session it used last, for an owner that restarted.
    state: Mutex<ConnectionState>,
}

struct ConnectionState {
    via: ClientIdentity,
    /// The connection that `via.remembered` belongs to: a client may have several conversations.
    remembered_connection: Option<String>,
}

impl Handler {
    pub(super) fn new(
        backend: Arc<dyn Backend>,
        toolsets: Vec<Toolset>,
        via: ClientIdentity,
    ) -> Self {
        Self {
            backend,
            toolsets,
            state: Mutex::from(ConnectionState { via, remembered_connection: None }),
        }
    }

    fn state(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock()
    }

    /// Identifies a request's caller: by its headers on HTTP, else by this connection; and by the
    /// conversation that the request names.
    fn identify_caller(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<ClientIdentity, ErrorData> {
        let Some(parts) = context.extensions.get::<Parts>() else {
            let state = self.state();
            let mut via = state.via.clone();
            conversation::apply_meta(&mut via, &context.meta);
            if via.connection != state.remembered_connection {
                via.remembered = None;
            }
            return Ok(via);
        };
        let text = |name: &str| parts.headers.get(name)?.to_str().ok().map(str::to_owned);
        let read = via::read(text);
        let mut via = read.map_err(|error| ErrorData::invalid_params(error.message, None))?;
        let named = via.connection.take();
        via.connection = text(MCP_SESSION);
        conversation::apply_meta(&mut via, &context.meta);
        via.connection = named.or(via.connection);
        Ok(via)
    }

    /// Returns the toolsets of a request: those in its URL on HTTP, else those of this connection.
    fn requested_toolsets(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<Vec<Toolset>, ErrorData> {
        let query = context.extensions.get::<Parts>().and_then(|parts| parts.uri.query());
        let asked = query
            .and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("toolsets=")));
        let Some(asked) = asked else { return Ok(self.toolsets.clone()) };
        Toolset::parse_list(&asked.replace("%2C", ",")).map_err(|name| {
            ErrorData::invalid_params(format!("there is no toolset {name:?}"), None)
        })
    }

    /// Returns true if structured content must be omitted, so that the client shows the text.
    fn needs_text_only(&self, context: &RequestContext<RoleServer>) -> bool {
        let in_meta = || context.meta.get(CLIENT_INFO)?.get("name")?.as_str().map(str::to_owned);
        let client = context.peer.peer_info().map(|client| client.client_info.name.clone());
        in_meta().or(client).is_some_and(|name| TEXT_CLIENTS.contains(&&*name))
    }

    /// Stores the session that a call used, for an owner that restarts.
    fn remember_session(&self, tool: &str, by: ClientIdentity, answer: &Value) {
        let session = answer.get("sessionId").and_then(Value::as_str);
        let session = session.and_then(|text| SessionId::new(text).ok());
        let remembered = if tool == "clear_session" {
            LastUse { session: None, fresh: true }
        } else if session.is_some() {
            let fresh = by.remembered.is_some_and(|remembered| remembered.fresh);
            LastUse { session, fresh }
        } else {
            return;
        };
        let mut state = self.state();
        state.via.remembered = Some(remembered);
        state.remembered_connection = by.connection;
    }

    /// Calls a tool and stores the session it used; returns the answer as text, which is the
    /// answer's text for models if it has one, and parsed.
    async fn call_and_remember(&self, asked: ToolRequest) -> Result<(String, Value), ToolFailure> {
        let (name, via) = (asked.name, asked.via.clone());
        let text = self.backend.call(asked).await?;
        let mut value: Value =
            serde_json::from_str(&text).map_err(|error| unreadable_failure(name, &error))?;
        self.remember_session(name, via, &value);
        match value.as_object_mut().and_then(|members| members.shift_remove(TEXT)) {
            Some(Value::String(said)) => Ok((said, value)),
            _ => match value.get(CONTEXT).and_then(Value::as_str) {
                Some(said) => Ok((wrap_in_frame(NOTICE, said, ""), value)),
                None => Ok((text, value)),
            },
        }
    }

    /// Calls a tool without the identity of the connection, so that no session is bound to it.
    async fn call_unbound(
        &self,
        context: &RequestContext<RoleServer>,
        name: &'static str,
        arguments: Value,
    ) -> Result<String, ToolFailure> {
        let (via, who) = (ClientIdentity::default(), authenticated_caller(context));
        let arguments = arguments.to_string();
        self.backend.call(ToolRequest { name, arguments, via, who }).await
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        server_description(&self.toolsets)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let toolsets = self.requested_toolsets(&context).unwrap_or_default();
        context.peer.set_peer_info(request.clone());
        let mut result = self.negotiate_initialize(&request)?;
        result.instructions = server_description(&toolsets).instructions;
        Ok(result)
    }

    async fn discover(
        &self,
        context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        let toolsets = self.requested_toolsets(&context).unwrap_or_default();
        let versions = self.supported_protocol_versions().into_owned();
        Ok(DiscoverResult::from_server_info(versions, server_description(&toolsets)))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let toolsets = self.requested_toolsets(&context)?;
        let is_text = self.needs_text_only(&context);
        let offered =
            tools::in_toolsets(&toolsets).map(|tool| describe_tool(tool, &toolsets, is_text));
        Ok(ListToolsResult::with_all_items(offered.collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let toolsets = self.requested_toolsets(&context)?;
        let tool = tools::in_toolsets(&toolsets).find(|tool| tool.name == request.name);
        let Some(tool) = tool else {
            let problem = format!("there is no tool {:?} here", request.name);
            return Err(ErrorData::invalid_params(problem, None));
        };
        let mut arguments = request.arguments.unwrap_or_default();
        let arguments = match arguments.remove(tools::TEXT) {
            Some(Value::String(text)) => text,
            _ => Value::Object(arguments).to_string(),
        };
        let (via, who) = (self.identify_caller(&context)?, authenticated_caller(&context));
        let asked = ToolRequest { name: tool.name, arguments, via, who };
        let answered = tokio::select! {
            answered = self.call_and_remember(asked) => answered,
            // The client cancels the call, or closed its connection: the computation ends.
            () = context.ct.cancelled() => {
                return Err(ErrorData::internal_error("the call was cancelled", None));
            }
        };
        match answered {
            Ok((text, value)) => {
                let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
                result.structured_content = (!self.needs_text_only(&context)).then_some(value);
                Ok(result.into())
            }
            Err(failure) => {
                let offered = |name: &str| {
                    let is_in = |tool| toolsets.iter().any(|set| set.contains(tool));
                    tools::tool(name).is_none_or(is_in)
                };
                let text = failure.without_hidden_tools(offered).text();
                Ok(CallToolResult::error(vec![ContentBlock::text(text)]).into())
            }
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // The library reports a request with invalid parameters as one of a custom method.
        if SERVED_METHODS.contains(&&*request.method) {
            let problem = format!("these are no parameters of {}", request.method);
            return Err(ErrorData::invalid_params(problem, None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None))
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let arguments = match request.and_then(|page| page.cursor) {
            Some(cursor) => json!({ "cursor": cursor }),
            None => json!({}),
        };
        let page = self.call_unbound(&context, "list_sessions", arguments).await;
        let page = page.map_err(|error| error_from_failure(&error))?;
        let page: Value = serde_json::from_str(&page)
            .map_err(|error| error_from_failure(&unreadable_failure("list_sessions", &error)))?;
        let sessions = page.get("sessions").and_then(Value::as_array);
        let listed = sessions.into_iter().flatten().filter_map(|session| {
            let text = |name: &str| session.get(name).and_then(Value::as_str);
            let id = text("sessionId")?;
            let title = text("title").unwrap_or(id);
            let resource = Resource::new(resources::index_uri(id), format!("{id} index"));
            // A title is recorded text; a list has no other field for the notice.
            let about = format!("Where a session stands. {NOTICE}");
            let resource = resource.with_title(title).with_description(about);
            Some(resource.with_mime_type("application/json"))
        });
        let mut result = ListResourcesResult::with_all_items(listed.collect());
        let next = page.get("nextCursor").and_then(Value::as_str);
        result.next_cursor = next.map(str::to_owned);
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = |uri: &str, name: &str, description: &str| {
            ResourceTemplate::new(uri, name)
                .with_description(description)
                .with_mime_type("application/json")
        };
        Ok(ListResourceTemplatesResult::with_all_items(vec![
            template(
                resources::INDEX_TEMPLATE,
                "session index",
                "A session's goal, summary, index of steps, last steps, open gaps and sources",
            ),
            template(
                resources::EVENTS_TEMPLATE,
                "session events",
                "A session's events from one position to before another",
            ),
        ]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let unknown = || {
            let data = json!({ "uri": request.uri });
            ErrorData::resource_not_found(format!("no resource {}", request.uri), Some(data))
        };
        let (tool, arguments) = resources::parse_uri(&request.uri).ok_or_else(unknown)?;
        let answer = match self.call_unbound(&context, tool, arguments).await {
            Ok(answer) => answer,
            Err(failure) if matches!(&*failure.code, "session_not_found" | "invalid_request") => {
                return Err(unknown());
            }
            Err(failure) => return Err(error_from_failure(&failure)),
        };
        let contents =
            ResourceContents::text(answer, request.uri.clone()).with_mime_type("application/json");
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let argument = PromptArgument::new("sessionId")
            .with_description("Left out: the bound session")
            .with_required(false);
        let prompt = Prompt::new(
            "continue",
            Some("Continue a session where it was left"),
            Some(vec![argument]),
        );
        Ok(ListPromptsResult::with_all_items(vec![prompt.with_title("Continue a session")]))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if request.name != "continue" {
            let problem = format!("there is no prompt {:?}", request.name);
            return Err(ErrorData::invalid_params(problem, None));
        }
        let session = request.arguments.as_ref().and_then(|given| given.get("sessionId")).cloned();
        let named = session.map_or_else(Map::new, |id| Map::from_iter([("sessionId".into(), id)]));
        let (via, who) = (self.identify_caller(&context)?, authenticated_caller(&context));
        let mut asked = named.clone();
        asked.insert("pageOut".to_owned(), Value::Bool(false));
        let ask = |name, arguments: Map<String, Value>| {
            let arguments = Value::Object(arguments).to_string();
            self.call_and_remember(ToolRequest {
                name,
                arguments,
                via: via.clone(),
                who: who.clone(),
            })
        };
        let answer = match ask("continue_session", asked).await {
            // A caller that may only read gets the overview instead.
            Err(failure) if &*failure.code == "forbidden" => {
                ask("get_research_session", named).await
            }
            answer => answer,
        };
        let (answer, _) = answer.map_err(|failure| {
            ErrorData::invalid_params(failure.text(), Some(json!({ "kind": failure.code })))
        })?;
        let text = format!(
            "Continue this work where it was left; do not start again. {NOTICE} What is not \
             shown here is in the session's log and can be read back.\n\n{answer}"
        );
        let message = PromptMessage::new_text(Role::User, text);
        let result = GetPromptResult::new(vec![message]);
        Ok(result.with_description("Where the session stands").into())
    }
}

/// Returns the caller that `http` authenticated; none on stdio, where the owner authenticates the
/// front end.
fn authenticated_caller(context: &RequestContext<RoleServer>) -> Option<Arc<Principal>> {
    context.extensions.get::<Parts>()?.extensions.get().cloned()
}

/// Returns the description of the server for a client with these toolsets.
fn server_description(toolsets: &[Toolset]) -> ServerConfig {
    let capabilities =
        ServerCapabilities::builder().enable_tools().enable_resources().enable_prompts().build();
    let server =
        Implementation::new("sessionlog", env!("CARGO_PKG_VERSION")).with_title("sessionlog");
    let offered = INSTRUCTIONS_OF.iter().filter(|(set, _)| toolsets.contains(set));
    let text = offered.fold(INSTRUCTIONS.to_owned(), |text, (_, more)| text + more);
    ServerConfig::new(capabilities).with_server_info(server).with_instructions(text)
}

/// Returns the failure of a call whose answer is not JSON.
fn unreadable_failure(name: &str, error: &serde_json::Error) -> ToolFailure {
    let problem = format!("the answer of {name} is not JSON: {error}");
    ToolFailure::without_hint("internal_error", &problem, false)
}

fn describe_tool(tool: &tools::Tool, toolsets: &[Toolset], is_text: bool) -> Tool {
    let [reads, destroys, repeats, opens] = tool.hints().map(|(_, hint)| Some(hint));
    let annotations =
        ToolAnnotations::from_raw(Some(tool.title.to_owned()), reads, destroys, repeats, opens);
    let described = Tool::new(tool.name, tool.about, Arc::new(tool.schema_for(toolsets)))
        .with_title(tool.title)
        .with_annotations(annotations);
    match is_text {
        true => described,
        false => described.with_raw_output_schema(Arc::new(tool.output_schema())),
    }
}

fn error_from_failure(failure: &ToolFailure) -> ErrorData {
    ErrorData::internal_error(failure.text(), Some(json!({ "kind": failure.code })))
}
