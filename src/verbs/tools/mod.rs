//! Tools for models: what each is declared as, the list of them, and the one call of a tool by its
//! name. It must not hold a rule of a session.

mod arguments;
mod declared;
mod derived;
mod prepared;
mod table;
mod way_out;

use std::{borrow::Cow, sync::LazyLock};

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

pub(crate) use self::derived::{CallContext, ServeTool};
use self::way_out::RefusedCall;
pub use self::{
    arguments::bounded,
    declared::{AtFront, Tool},
    table::Argument,
};
use super::{
    Asks, Media, Need, NoQuery, OfTool, OwnerInfo, RequestHeader, Route, Serve, Verb, Visit,
};
use crate::{
    access::Principal,
    event::{BatchKey, Fence, SessionId},
    service::{Audit, Caller, Code, Service, ServiceError, ServiceResult, Via},
};

/// The MCP endpoint. Each tool that is called needs a grant of its own.
pub const MCP: Route = Route::any("/mcp", "mcp", Need::Credential);

pub(super) fn each(visit: &mut impl Visit) {
    visit.by_hand::<CallTool>();
}

/// Milliseconds that a model waits for what is not in the index yet: mostly at a first search.
pub const MODEL_WAIT_MS: u64 = 2_000;

/// The tools that an installed agent is offered, and of each the arguments that are listed: a model
/// pays for every schema with each request. They recover, look up, remember, save a step, read a
/// range and mark a place. Other arguments of theirs are taken all the same.
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
    /// A few of all the others, for an agent that was set up.
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
    /// The name that stands for all of them.
    pub const EVERY: &'static str = "all";

    /// Its name.
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
    pub fn has(self, tool: &Tool) -> bool {
        self == tool.toolset || self == Self::Agent && tool.listed_for_agent().is_some()
    }
}

/// Returns the tools of some toolsets, in listing order.
pub fn offered(toolsets: &[Toolset]) -> impl Iterator<Item = &'static Tool> {
    tools().iter().filter(move |tool| toolsets.iter().any(|set| set.has(tool)))
}

/// The tools of everything that [`each`](super::each) lists, toolset by toolset.
static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    let mut all = Collected(Vec::new());
    super::each(&mut all);
    all.0.sort_by_key(|tool| tool.toolset);
    all.0
});

struct Collected(Vec<Tool>);

impl Visit for Collected {
    fn verb<V: Serve>(&mut self) {
        self.0.extend(V::TOOL);
    }

    fn by_hand<V: Verb>(&mut self) {
        self.0.extend(V::TOOL);
    }

    fn tool(&mut self, tool: Tool) {
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
pub fn published() -> Value {
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

/// Returns true if an MCP request calls a tool that carries an event or a state.
#[must_use]
pub fn carries(request: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Request {
        params: Params,
    }
    #[derive(Deserialize)]
    struct Params {
        name: String,
    }
    let called = serde_json::from_slice::<Request>(request);
    called.is_ok_and(|request| tool(&request.params.name).is_some_and(|tool| tool.carries))
}

/// The one argument of a request from [`with_text`]: the text of those that were sent.
pub const TEXT: &str = "sessionlog/arguments";

/// Encodes the arguments of an MCP request for one of our tools as one text: a library that parsed
/// them would change numbers outside the range of doubles. `None` for other messages.
#[must_use]
pub fn with_text(request: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Request<'a> {
        method: Cow<'a, str>,
        #[serde(borrow)]
        params: Params<'a>,
    }
    #[derive(Deserialize)]
    struct Params<'a> {
        name: Cow<'a, str>,
        #[serde(borrow)]
        arguments: &'a RawValue,
    }
    let Request { method, params } = serde_json::from_str(request).ok()?;
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

/// A call of a tool: who makes it, and what carries it out.
#[derive(Clone, Copy)]
pub struct ToolCall<'a> {
    /// Service that carries it out.
    pub service: &'a Service,
    /// The process that owns the data directory.
    pub owner: &'a OwnerInfo,
    /// On whose behalf.
    pub caller: &'a Caller,
    /// Grants of its credential.
    pub who: &'a Principal,
    /// By what the caller is known.
    pub via: &'a Via,
    /// Names the call: a retry with the same key does not happen twice.
    pub key: Option<&'a BatchKey>,
}

impl ToolCall<'_> {
    /// Returns the caller with the fencing token of its lease.
    pub(super) fn holding(&self, token: Option<u64>) -> Caller {
        Caller { fence: token.map(Fence).or(self.caller.fence), ..self.caller.clone() }
    }

    /// Parses the session that an argument names.
    pub(super) fn named(&self, text: Option<&str>) -> ServiceResult<Option<SessionId>> {
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
        if who.is_audited && who.tenant.notes(service.monotonic()) {
            audit(service, who, tool, None, Some(Code::Forbidden)).await;
        }
        return Err(lacking.into());
    }
    let asked = RefusedCall::of(name, &arguments);
    let key =
        call.key.map(|key| if tool.plain_key { key.clone() } else { keyed(key, name, &arguments) });
    let call = ToolCall { key: key.as_ref(), ..call };
    let is_audited = who.is_audited && tool.need.is_audited();
    let served = if is_audited {
        audited(call, tool, arguments, asked.session().map(str::to_owned)).await
    } else {
        tool.serve(call, arguments).await
    };
    match served {
        Err(error) => {
            let mut error = call.service.offer(call.caller, call.via, error).await;
            error.hint.call = asked.way_out(&error);
            Err(error)
        }
        answer => answer,
    }
}

/// Executes an audited call as HTTP does: it completes even if its client leaves, and is recorded
/// before the response.
async fn audited(
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
        audit(service, who, tool, session.as_deref(), refused).await;
        answer
    });
    let failed = |error| Err(ServiceError::new(Code::InternalError, format!("{error}")));
    carried_out.await.unwrap_or_else(failed)
}

/// Records a tool call under its HTTP route, regardless of the interface used.
async fn audit(
    service: &Service,
    who: &Principal,
    tool: &Tool,
    session: Option<&str>,
    refused: Option<Code>,
) {
    let route = CallTool::ROUTE.path.replace("{name}", tool.name);
    let line = Audit::call(&who.name, "POST", &route, session, None, refused);
    service.audit(who.tenant.id(), line).await;
}

/// Returns the key of a tool call: calls with other arguments have other keys. The key of
/// `continue_session` includes a digest although it stores events, in the id of its checkpoint: the
/// digest cannot be guessed without the key, which is not stored with it.
fn keyed(key: &BatchKey, name: &str, arguments: &str) -> BatchKey {
    let asked = ("tool", name, arguments);
    key.clone().of_call(|to| serde_json::to_writer(to, &asked)).expect("a call is JSON")
}

/// The call of a tool over HTTP.
pub struct CallTool;

/// Declares a header that identifies a caller without a session id.
const fn known_by(name: &'static str, about: &'static str) -> RequestHeader {
    RequestHeader { name, about, is_number: false }
}

impl Verb for CallTool {
    const ROUTE: Route = Route::post("/v1/tools/{name}", "callTool", Need::Credential);
    const TAG: &'static str = "tools";
    const ABOUT: &'static str = "Calls a tool; proto/mcp/tools.json lists them with their schemas.";
    const ASKS: Asks = Asks::Body("The tool's arguments, camelCase");
    const KEY: Option<&'static str> = Some("A retry with the same key does not happen twice");
    const ANSWERS: &'static str = "The tool's structured content, camelCase";
    const HEADERS: &'static [RequestHeader] = &[
        known_by("Sessionlog-Session", "The session the caller was started for"),
        known_by(
            "Sessionlog-Connection",
            "Name of the caller's connection: without an id it continues the session it used last",
        ),
        known_by(
            "Sessionlog-Connection-Session",
            "The session the front end remembers of that connection",
        ),
        known_by("Sessionlog-Directory", "The caller's working directory, percent-encoded"),
        known_by(
            "Sessionlog-Root",
            "The root of the repository that contains the directory, percent-encoded",
        ),
    ];
    const GIVES: &'static [Media] = &[Media::Json];
    type Params = OfTool;
    type Query = NoQuery;
    type Body = Value;
    type Answer = Value;
}

#[cfg(test)]
mod tests;
