//! VERBS: the operations that a client can call, each declared once. A declaration says how a verb
//! is reached (method, path, operation id), what its caller needs, and the types of its input and
//! answer; every interface reads it from here. It must not know HTTP's types, MCP or a terminal.

pub mod admin;
pub mod browser;
pub mod changes;
pub mod embedding;
pub mod events;
pub mod forks;
pub mod graph;
pub mod handoff;
pub mod hosted;
mod json_text;
pub mod memory;
mod params;
mod query;
pub mod research;
pub mod retention;
pub mod rows;
pub mod search;
pub mod sessions;
pub mod tools;
pub mod views;
pub mod work;

use std::{collections::HashMap, future::Future, io};

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use tokio_util::sync::CancellationToken;

pub use json_text::JsonText;
pub use params::{
    CheckpointPath, CursorPath, EntityPath, EventPath, MemoryItemPath, NoParams, ParamPairs,
    PathParams, RelationPath, SessionPath, StepPath, ThreadPath, ToolPath, WorkspacePath,
};
pub use query::{NoQuery, read as read_query, write as write_query};

use self::tools::Tool;
use crate::{
    access::{Grant, Principal},
    api::admin::Owner,
    event::BatchKey,
    service::{Caller, Service, ServiceResult},
};

/// A verb: its route, its input and its answer. Path, query and body have separate types, so that
/// each refuses the names it does not have.
pub trait Verb: Send + Sync + Sized + 'static {
    /// Method, path, operation id and required credential.
    const ROUTE: Route;
    /// Group in the published description.
    const TAG: &'static str;
    /// Published description of the verb.
    const ABOUT: &'static str;
    /// Body that the verb takes.
    const ASKS: BodyUse = BodyUse::Nothing;
    /// Published effect of an idempotency key on a retry; `None` if the verb takes no key.
    const KEY: Option<&'static str> = None;
    /// Use of the fencing token of a lease.
    const FENCE: Fencing = Fencing::No;
    /// HTTP status of success.
    const STATUS: u16 = 200;
    /// HTTP status of `invalid_request`, if it differs from the status of that code.
    const INVALID_STATUS: Option<u16> = None;
    /// Published description of the answer.
    const ANSWERS: &'static str;
    /// Media types of the body.
    const TAKES: &'static [Media] = &[Media::Json];
    /// Media types of the answer.
    const GIVES: &'static [Media] = &[Media::Json];
    /// Headers that it takes besides those of the key and of the token.
    const HEADERS: &'static [RequestHeader] = &[];
    /// Tool by which models call the verb.
    const TOOL: Option<Tool> = None;
    /// Parameters of the path.
    type Params: PathParams;
    /// Parameters of the query.
    type Query: Serialize + DeserializeOwned + Default + Send + JsonSchema;
    /// Body of the request; `()` if the verb [asks](Self::ASKS) for nothing.
    type Body: Serialize + DeserializeOwned + Send + JsonSchema;
    /// Answer of the verb.
    type Answer: Serialize + DeserializeOwned + Send + JsonSchema;

    /// Returns the bytes that the response may take in memory. The interface reserves them before
    /// it serves the call; `None` for a verb with small responses.
    fn answer_bytes(_: &Self::Query) -> Option<usize> {
        None
    }

    /// Returns the Markdown text that replaces a response requested with `format=text`.
    fn text(_: &Self::Answer) -> Option<&str> {
        None
    }

    /// Writes the part of the body that an idempotency key covers.
    ///
    /// # Errors
    /// The error of the writer.
    fn write_key_content(body: &Self::Body, to: impl io::Write) -> serde_json::Result<()> {
        serde_json::to_writer(to, body)
    }
}

/// Returns the key of a verb's call: calls that differ in verb, path, query or body have different
/// keys.
#[must_use]
pub fn derive_call_key<V: Verb>(
    key: BatchKey,
    params: &V::Params,
    query: &V::Query,
    body: &V::Body,
) -> BatchKey {
    let asked = ("verb", V::ROUTE.id, params.to_pairs(), query);
    let derived = key.with_request_digest(|mut to| {
        serde_json::to_writer(&mut to, &asked)?;
        V::write_key_content(body, to)
    });
    derived.expect("a call is JSON")
}

/// Body that a verb takes.
#[derive(Clone, Copy, Debug)]
pub enum BodyUse {
    /// No body: it is not read.
    Nothing,
    /// An optional body, with its description.
    Maybe(&'static str),
    /// A required body, with its description.
    Body(&'static str),
}

/// Use of a lease's fencing token by a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fencing {
    /// The token is not used.
    No,
    /// The token is required if a lease is held.
    WhenHeld,
    /// The token is always required.
    Needed,
}

/// A verb that this program can execute.
pub trait Serve: Verb {
    /// Executes the call.
    fn serve(call: VerbCall<'_, Self>) -> impl Future<Output = ServiceResult<Self::Answer>> + Send;
}

/// One call of a verb.
pub struct VerbCall<'a, V: Verb> {
    /// Service that executes the call.
    pub service: &'a Service,
    /// Process that owns the data directory.
    pub owner: &'a OwnerInfo,
    /// Caller on whose behalf the verb runs.
    pub caller: Caller,
    /// Principal with the grants of the credential.
    pub who: &'a Principal,
    /// Reader of the answer.
    pub reader: AnswerReader,
    /// Idempotency key, if the verb takes one.
    pub key: Option<BatchKey>,
    /// Parameters of the path.
    pub params: V::Params,
    /// Parameters of the query.
    pub query: V::Query,
    /// Body of the request.
    pub body: V::Body,
}

/// Reader of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerReader {
    /// A program, or a person.
    Program,
    /// A model, which receives less by default, and waits for events that are not indexed yet:
    /// mostly at a first search.
    Model,
}

/// Owner of this server, as reported to front ends of the same machine.
#[derive(Clone, Debug, Default)]
pub struct OwnerInfo {
    /// Answer to a client that asks for the owner.
    pub about: Owner,
    /// Cancelled when an on-demand owner is asked to step down.
    pub step_down: CancellationToken,
}

/// Visitor of every verb and tool that a client can call, for example to register routes.
pub trait Visit {
    /// Visits a verb that one generic handler serves.
    fn visit_verb<V: Serve>(&mut self);

    /// Visits a verb with a dedicated handler in an interface: it streams, or uses formats other
    /// than JSON.
    fn visit_custom_verb<V: Verb>(&mut self);

    /// Visits a tool that does not belong to a verb.
    fn visit_tool(&mut self, tool: Tool);
}

/// Visits everything that a client can call, by group.
pub fn visit_all(visit: &mut impl Visit) {
    research::visit_all(visit);
    sessions::visit_all(visit);
    changes::visit_all(visit);
    retention::visit_all(visit);
    events::visit_all(visit);
    search::visit_all(visit);
    memory::visit_all(visit);
    graph::visit_all(visit);
    forks::visit_all(visit);
    handoff::visit_all(visit);
    work::visit_all(visit);
    views::visit_all(visit);
    rows::visit_all(visit);
    hosted::visit_all(visit);
    admin::visit_all(visit);
    research::visit_binding_tools(visit);
    tools::visit_all(visit);
}

/// Media type of a body or an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// JSON of the declared type.
    Json,
    /// Text of a media type.
    Text(&'static str),
    /// Bytes of a media type.
    Bytes(&'static str),
}

/// A request header that a verb reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// Name of the header.
    pub name: &'static str,
    /// Published description of the header.
    pub about: &'static str,
    /// True if its value is a whole number.
    pub is_number: bool,
}

/// Method of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Reads.
    Get,
    /// Performs an action; a retry carries an idempotency key.
    Post,
    /// Sets something; a repetition has no further effect.
    Put,
    /// Removes something.
    Delete,
    /// The route handles every method itself.
    Any,
}

impl Method {
    /// Returns the method's name on the wire; `None` for [`Method::Any`].
    #[must_use]
    pub fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Get => Some("GET"),
            Self::Post => Some("POST"),
            Self::Put => Some("PUT"),
            Self::Delete => Some("DELETE"),
            Self::Any => None,
        }
    }

    /// Returns true if this method serves a request's method; a GET route also serves HEAD.
    fn serves(self, requested: &str) -> bool {
        let requested = if requested == "HEAD" { "GET" } else { requested };
        self.as_str().is_none_or(|name| name == requested)
    }
}

/// Credential that the caller of a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredGrant {
    /// No credential: the route reveals nothing about any tenant.
    Nothing,
    /// Any valid credential. The handler checks for further grants where they are needed.
    Credential,
    /// A credential with this grant.
    Grant(Grant),
}

impl RequiredGrant {
    /// Needs the grant to read.
    pub const READ: Self = Self::Grant(Grant::Read);
    /// Needs the grant to write.
    pub const WRITE: Self = Self::Grant(Grant::Write);
    /// Needs the grant to delete, erase and redact.
    pub const DELETE: Self = Self::Grant(Grant::Delete);
    /// Needs the grant to administer a tenant.
    pub const ADMIN: Self = Self::Grant(Grant::Admin);
    /// Needs the grant to operate the server.
    pub const OPERATOR: Self = Self::Grant(Grant::Operator);

    /// Returns the grants that the credential must have.
    #[must_use]
    pub fn grants(&self) -> &[Grant] {
        match self {
            Self::Nothing | Self::Credential => &[],
            Self::Grant(grant) => std::slice::from_ref(grant),
        }
    }

    /// Returns true if each changing call is recorded in the tenant's audit log: those that need
    /// more than read and write grants.
    #[must_use]
    pub fn is_audited(&self) -> bool {
        self.grants().iter().any(|grant| !matches!(grant, Grant::Read | Grant::Write))
    }
}

/// Method and path of a verb, and the credential that its caller needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Method of the route.
    pub method: Method,
    /// Path, with its parameters in braces.
    pub path: &'static str,
    /// Operation id in the published description.
    pub id: &'static str,
    /// Credential that the caller needs.
    pub need: RequiredGrant,
}

impl Route {
    /// Creates a route that reads.
    #[must_use]
    pub const fn get(path: &'static str, id: &'static str, need: RequiredGrant) -> Self {
        Self { method: Method::Get, path, id, need }
    }

    /// Creates a route that performs an action.
    #[must_use]
    pub const fn post(path: &'static str, id: &'static str, need: RequiredGrant) -> Self {
        Self { method: Method::Post, path, id, need }
    }

    /// Creates a route that sets something.
    #[must_use]
    pub const fn put(path: &'static str, id: &'static str, need: RequiredGrant) -> Self {
        Self { method: Method::Put, path, id, need }
    }

    /// Creates a route that removes something.
    #[must_use]
    pub const fn delete(path: &'static str, id: &'static str, need: RequiredGrant) -> Self {
        Self { method: Method::Delete, path, id, need }
    }

    /// Creates a route that handles every method itself.
    #[must_use]
    pub const fn any(path: &'static str, id: &'static str, need: RequiredGrant) -> Self {
        Self { method: Method::Any, path, id, need }
    }

    /// Returns true if each call is recorded in the tenant's audit log.
    #[must_use]
    pub fn is_audited(&self) -> bool {
        self.method != Method::Get && self.need.is_audited()
    }
}

/// Routes that a server has registered, by path.
#[derive(Debug, Default)]
pub struct RouteTable(HashMap<&'static str, Vec<Route>>);

impl RouteTable {
    /// Adds a route.
    ///
    /// # Panics
    /// Panics if its method and path are registered already.
    pub fn add(&mut self, route: Route) {
        let same = self.0.entry(route.path).or_default();
        let twice = same.iter().any(|known| known.method == route.method);
        assert!(!twice, "{} is registered twice", route.id);
        same.push(route);
    }

    /// Returns the route for a request's method and matched path.
    #[must_use]
    pub fn find(&self, method: &str, path: &str) -> Option<&Route> {
        self.0.get(path)?.iter().find(|route| route.method.serves(method))
    }

    /// Returns the credential that a request needs. An unsupported method of a registered path
    /// needs any credential: the router rejects it. An undeclared path needs an operator, so a
    /// missing declaration grants no access.
    #[must_use]
    pub fn need(&self, method: &str, path: &str) -> RequiredGrant {
        match self.find(method, path) {
            Some(route) => route.need,
            None if self.0.contains_key(path) => RequiredGrant::Credential,
            None => RequiredGrant::Grant(Grant::Operator),
        }
    }
}
