//! Tools for models: their declarations, the list of them, and the call of a tool by its name. It
//! must not hold a rule of a session.

mod arguments;
mod declaration;
mod next_call;
mod prepared;
mod serving;
mod table;

use std::{borrow::Cow, sync::LazyLock};

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use self::next_call::RefusedArguments;
pub(crate) use self::serving::{CallContext, ServeTool};
pub use self::{
    arguments::check_bounds,
    declaration::{FrontEndPart, Tool},
    table::Argument,
};
use super::{
    BodyUse, Media, NoQuery, OwnerInfo, RequestHeader, RequiredGrant, Route, Serve, ToolPath, Verb,
    Visit,
};
use crate::{
    access::Principal,
    event::{BatchKey, Fence, SessionId},
    service::{AuditEntry, Caller, ClientIdentity, Code, Service, ServiceError, ServiceResult},
};

/// The MCP endpoint. Each tool that is called needs a grant of its own.
pub const MCP: Route = Route::any("/mcp", "mcp", RequiredGrant::Credential);

pub(super) fn visit_all(visit: &mut impl Visit) {
    visit.visit_custom_verb::<CallTool>();
}

/// Milliseconds that a model waits for events not indexed yet: mostly at a first search.
pub const MODEL_WAIT_MS: u64 = 2_000;

/// Tools that an installed agent is offered, and the arguments listed for each: a model pays for
/// every schema with each request. They recover, search, remember, record a step, read a range and
/// make a checkpoint. Other arguments of these tools are accepted as well.
const OF_AGENT: [(&str, &[&str]); 6] = [
    ("get_research_session", &["sessionId", "stepId", "cursor", "find"]),
    ("memory_search", &["query", "sessionId", "limit", "around", "cursor"]),
    ("memory_insert", &["text", "kind", "topic", "name", "supersedes"]),
    (
        "sequential_search",
        &[
            "searchStep",
            "stepNumber",
            "nextStepNeeded",
            "sessionId",
            "knowledgeGap",
            "closesGap",
            "researchGoal",
            "reasoning",
            "rejectedApproaches",
            "sessionSummary",
        ],
    ),
    ("get_events", &["sessionId", "from", "to", "around", "limit", "types"]),
    ("checkpoint", &["label", "state", "final"]),
];

/// A group of tools that is offered as a whole, to keep the cost of schemas small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Toolset {
    /// A few tools of all other toolsets, for an installed agent.
    Agent,
    /// Research sessions; offered by default.
    Research,
    /// Events as they are.
    Events,
    /// Memory that outlives a context window.
    Memory,
    /// Entities and relations of a workspace.
    Graph,
    /// Handoffs from one session to the next.
    Workspace,
}

impl Toolset {
    /// Every toolset that has tools of its own.
    pub const ALL: [Self; 5] =
        [Self::Research, Self::Events, Self::Memory, Self::Graph, Self::Workspace];
    /// Name that selects all of them.
    pub const EVERY: &'static str = "all";

    /// Returns the name of the toolset.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Research => "research",
            Self::Events => "events",
            Self::Memory => "memory",
            Self::Graph => "graph",
            Self::Workspace => "workspace",
        }
    }

    /// Parses toolsets from a comma-separated list; `all` selects every one.
    ///
    /// # Errors
    /// The name that is not a toolset.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, String> {
        let mut sets = Vec::new();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let mut named = Self::ALL.to_vec();
            if name != Self::EVERY {
                named.push(Self::Agent);
                named.retain(|set| set.as_str() == name);
            }
            if named.is_empty() {
                return Err(name.to_owned());
            }
            named.retain(|set| !sets.contains(set));
            sets.append(&mut named);
        }
        Ok(sets)
    }

    /// Returns true if the toolset contains a tool.
    #[must_use]
    pub fn contains(self, tool: &Tool) -> bool {
        self == tool.toolset || self == Self::Agent && tool.agent_arguments().is_some()
    }
}

/// Returns the tools of some toolsets, in listing order.
pub fn in_toolsets(toolsets: &[Toolset]) -> impl Iterator<Item = &'static Tool> {
    tools().iter().filter(move |tool| toolsets.iter().any(|set| set.contains(tool)))
}

/// All tools that [`visit_all`](super::visit_all) visits, sorted by toolset.
static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    let mut all = ToolCollector(Vec::new());
    super::visit_all(&mut all);
    all.0.sort_by_key(|tool| tool.toolset);
    all.0
});

struct ToolCollector(Vec<Tool>);

impl Visit for ToolCollector {
    fn visit_verb<V: Serve>(&mut self) {
        self.0.extend(V::TOOL);
    }

    fn visit_custom_verb<V: Verb>(&mut self) {
        self.0.extend(V::TOOL);
    }

    fn visit_tool(&mut self, tool: Tool) {
        self.0.push(tool);
    }
}

/// Returns all tools, in listing order.
#[must_use]
pub fn tools() -> &'static [Tool] {
    &TOOLS
}

/// Returns the tool with that name.
#[must_use]
pub fn tool(name: &str) -> Option<&'static Tool> {
    tools().iter().find(|tool| tool.name == name)
}

/// Returns the published list of tools (`proto/mcp/tools.json`).
#[must_use]
pub fn published_list() -> Value {
    let all = tools().iter().map(|tool| {
        json!({
            "name": tool.name,
            "title": tool.title,
            "description": tool.about,
            "toolset": tool.toolset.as_str(),
            "annotations": tool.annotations(),
            "inputSchema": tool.input_schema(),
            "outputSchema": tool.output_schema(),
        })
    });
    json!({ "tools": all.collect::<Vec<_>>() })
}

/// Returns true if an MCP request calls a tool whose arguments contain an event or a state.
#[must_use]
pub fn has_large_arguments(request: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct NamedCall {
        params: CallName,
    }
    #[derive(Deserialize)]
    struct CallName {
        name: String,
    }
    let called = serde_json::from_slice::<NamedCall>(request);
    called.is_ok_and(|request| {
        tool(&request.params.name).is_some_and(|tool| tool.has_large_arguments)
    })
}

/// Only argument in a request from [`encode_arguments_as_text`]: the sent arguments as text.
pub const TEXT: &str = "sessionlog/arguments";

/// Encodes the arguments of an MCP request for one of our tools as one text: a library that parsed
/// them would change numbers outside the range of doubles. `None` for other messages.
#[must_use]
pub fn encode_arguments_as_text(request: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct ToolsCall<'a> {
        method: Cow<'a, str>,
        #[serde(borrow)]
        params: ToolsCallParams<'a>,
    }
    #[derive(Deserialize)]
    struct ToolsCallParams<'a> {
        name: Cow<'a, str>,
        #[serde(borrow)]
        arguments: &'a RawValue,
    }
    let ToolsCall { method, params } = serde_json::from_str(request).ok()?;
    let arguments = params.arguments.get();
    // A model may send the object as a string.
    let inside = serde_json::from_str::<String>(arguments).ok();
    let text = inside.as_deref().unwrap_or(arguments);
    let is_object = text.trim_start().starts_with('{');
    if method != "tools/call" || !is_object || tool(&params.name).is_none() {
        return None;
    }
    let at = arguments.as_ptr().addr().checked_sub(request.as_ptr().addr())?;
    let (before, rest) = request.split_at_checked(at)?;
    let after = rest.strip_prefix(arguments)?;
    Some(format!("{before}{}{after}", json!({ TEXT: text })))
}

/// A call of a tool, with its caller and the service that executes it.
#[derive(Clone, Copy)]
pub struct ToolCall<'a> {
    /// Service that executes the call.
    pub service: &'a Service,
    /// Process that owns the data directory.
    pub owner: &'a OwnerInfo,
    /// Caller on whose behalf the tool runs.
    pub caller: &'a Caller,
    /// Principal with the grants of the credential.
    pub who: &'a Principal,
    /// Identification of the caller without a session id.
    pub via: &'a ClientIdentity,
    /// Idempotency key: a retry with the same key does not happen twice.
    pub key: Option<&'a BatchKey>,
}

impl ToolCall<'_> {
    /// Returns the caller with the fencing token of its lease.
    pub(super) fn caller_with_fence(&self, token: Option<u64>) -> Caller {
        Caller { fence: token.map(Fence).or(self.caller.fence), ..self.caller.clone() }
    }

    /// Parses the session that an argument names.
    pub(super) fn parse_session(&self, text: Option<&str>) -> ServiceResult<Option<SessionId>> {
        let checked = text.map(SessionId::new).transpose();
        checked.map_err(|error| {
            ServiceError::invalid("sessionId", error)
                .action("leave sessionId out for the bound session, or send one of list_sessions")
        })
    }
}

/// Calls a tool with arguments as JSON text and returns its response as JSON text.
///
/// # Errors
/// `forbidden`; `invalid_request` naming the argument, and those of the verb; with the next call to
/// make, if known.
pub async fn call(call: ToolCall<'_>, name: &str, arguments: String) -> ServiceResult<String> {
    let tool = tool(name).ok_or_else(|| {
        ServiceError::invalid("name", format!("there is no tool {name:?}"))
            .action("list the tools for their names")
    })?;
    let ToolCall { service, who, .. } = call;
    if let Err(lacking) = who.require(&tool.grants()) {
        if who.is_audited && who.tenant.should_audit_refusal(service.monotonic()) {
            record_audit(service, who, tool, None, Some(Code::Forbidden)).await;
        }
        return Err(lacking.into());
    }
    let asked = RefusedArguments::parse(name, &arguments);
    let key = call
        .key
        .map(|key| if tool.plain_key { key.clone() } else { derive_key(key, name, &arguments) });
    let call = ToolCall { key: key.as_ref(), ..call };
    let is_audited = who.is_audited && tool.need.is_audited();
    let served = if is_audited {
        serve_audited(call, tool, arguments, asked.session().map(str::to_owned)).await
    } else {
        tool.serve(call, arguments).await
    };
    match served {
        Err(error) => {
            let mut error = call.service.offer_sessions(call.caller, call.via, error).await;
            error.hint.call = asked.next_call(&error);
            Err(error)
        }
        answer => answer,
    }
}

/// Executes an audited call as HTTP does: it completes even if its client leaves, and is recorded
/// before the response.
async fn serve_audited(
    call: ToolCall<'_>,
    tool: &'static Tool,
    given: String,
    session: Option<String>,
) -> ServiceResult<String> {
    let (service, owner, caller) = (call.service.clone(), call.owner.clone(), call.caller.clone());
    let (who, via, key) = (call.who.clone(), call.via.clone(), call.key.cloned());
    let carried_out = tokio::spawn(async move {
        let (service, owner, caller, who, via) = (&service, &owner, &caller, &who, &via);
        let call = ToolCall { service, owner, caller, who, via, key: key.as_ref() };
        let answer = tool.serve(call, given).await;
        let refused = answer.as_ref().err().map(|error| error.code);
        record_audit(service, who, tool, session.as_deref(), refused).await;
        answer
    });
    let failed = |error| Err(ServiceError::new(Code::InternalError, format!("{error}")));
    carried_out.await.unwrap_or_else(failed)
}

/// Records a tool call under its HTTP route, regardless of the interface used.
async fn record_audit(
    service: &Service,
    who: &Principal,
    tool: &Tool,
    session: Option<&str>,
    refused: Option<Code>,
) {
    let route = CallTool::ROUTE.path.replace("{name}", tool.name);
    let line = AuditEntry::from_call(&who.name, "POST", &route, session, None, refused);
    service.audit(who.tenant.id(), line).await;
}

/// Returns the key of a tool call: calls with other arguments have other keys. The key of
/// `continue_session` includes a digest although it stores events, in the id of its checkpoint: the
/// digest cannot be guessed without the key, which is not stored with it.
fn derive_key(key: &BatchKey, name: &str, arguments: &str) -> BatchKey {
    let asked = ("tool", name, arguments);
    key.clone().with_request_digest(|to| serde_json::to_writer(to, &asked)).expect("a call is JSON")
}

/// The call of a tool over HTTP.
pub struct CallTool;

/// Declares a header that identifies a caller without a session id.
const fn caller_header(name: &'static str, about: &'static str) -> RequestHeader {
    RequestHeader { name, about, is_number: false }
}

impl Verb for CallTool {
    const ROUTE: Route = Route::post("/v1/tools/{name}", "callTool", RequiredGrant::Credential);
    const TAG: &'static str = "tools";
    const ABOUT: &'static str = "Calls a tool; proto/mcp/tools.json lists them with their schemas.";
    const ASKS: BodyUse = BodyUse::Body("The tool's arguments, camelCase");
    const KEY: Option<&'static str> = Some("A retry with the same key does not happen twice");
    const ANSWERS: &'static str = "The tool's structured content, camelCase";
    const HEADERS: &'static [RequestHeader] = &[
        caller_header("Sessionlog-Session", "The session the caller was started for"),
        caller_header(
            "Sessionlog-Connection",
            "Name of the caller's connection: without an id it continues the session it used last",
        ),
        caller_header(
            "Sessionlog-Connection-Session",
            "The session the front end remembers of that connection",
        ),
        caller_header("Sessionlog-Directory", "The caller's working directory, percent-encoded"),
        caller_header(
            "Sessionlog-Root",
            "The root of the repository that contains the directory, percent-encoded",
        ),
    ];
    const GIVES: &'static [Media] = &[Media::Json];
    type Params = ToolPath;
    type Query = NoQuery;
    type Body = Value;
    type Answer = Value;
}

#[cfg(test)]
mod tests;
