//! VERBS: what a client can ask for, declared once. A declaration says how a verb is reached
//! (method, path, operation id), what its caller needs, and the types of what it takes and answers;
//! every interface reads it from here. It must not know HTTP's types, MCP or a terminal.

pub mod admin;
pub mod browser;
pub mod changes;
pub mod embedding;
pub mod events;
pub mod forks;
pub mod graph;
pub mod handoff;
pub mod hosted;
pub mod memory;
mod place;
mod query;
pub mod research;
pub mod retention;
pub mod search;
pub mod sessions;
pub mod tools;
pub mod views;
pub mod work;
mod written;

use std::{collections::HashMap, future::Future, io};

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use tokio_util::sync::CancellationToken;

pub use place::{
    AtEntity, AtEvent, AtRelation, AtStep, InCheckpoint, InCursor, InMemory, InSession, InThread,
    InWorkspace, Nowhere, OfTool, Parts, PathParams,
};
pub use query::{NoQuery, read as read_query, write as write_query};
pub use written::Written;

use self::tools::Tool;
use crate::{
    access::{Grant, Principal},
    api::admin::Owner,
    event::BatchKey,
    service::{Caller, Service, ServiceResult},
};

/// A verb: how it is reached, what it takes and what it answers. Place, query and body are three
/// types, so that each refuses the names it does not have.
pub trait Verb: Send + Sync + Sized + 'static {
    /// Method, path, operation id and need.
    const ROUTE: Route;
    /// The group it is published in.
    const TAG: &'static str;
    /// Its description, as published.
    const ABOUT: &'static str;
    /// Purpose of its body.
    const ASKS: Asks = Asks::Nothing;
    /// Effect of an idempotency key on a retry; without it the verb takes no key.
    const KEY: Option<&'static str> = None;
    /// Use of the token of a lease.
    const FENCE: Fencing = Fencing::No;
    /// The HTTP status of success.
    const STATUS: u16 = 200;
    /// The HTTP status of `invalid_request`, where that is not what its code says.
    const INVALID_STATUS: Option<u16> = None;
    /// Description of its answer, as published.
    const ANSWERS: &'static str;
    /// Media types of its body.
    const TAKES: &'static [Media] = &[Media::Json];
    /// Media types of its answer.
    const GIVES: &'static [Media] = &[Media::Json];
    /// Headers that it takes, beside those of its key and its token.
    const HEADERS: &'static [RequestHeader] = &[];
    /// The tool by which models call it.
    const TOOL: Option<Tool> = None;
    /// The parameters of its path.
    type Params: PathParams;
    /// The parameters of its query.
    type Query: Serialize + DeserializeOwned + Default + Send + JsonSchema;
    /// Its body; `()` of a verb that [asks](Self::ASKS) for nothing.
    type Body: Serialize + DeserializeOwned + Send + JsonSchema;
    /// Its answer.
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
    /// That of the writer.
    fn content(body: &Self::Body, to: impl io::Write) -> serde_json::Result<()> {
        serde_json::to_writer(to, body)
    }
}

/// Returns the key of a verb's call: calls that differ in verb, path, query or body have different
/// keys.
#[must_use]
pub fn keyed<V: Verb>(
    key: BatchKey,
    params: &V::Params,
    query: &V::Query,
    body: &V::Body,
) -> BatchKey {
    let asked = ("verb", V::ROUTE.id, params.parts(), query);
    let keyed = key.of_call(|mut to| {
        serde_json::to_writer(&mut to, &asked)?;
        V::content(body, to)
    });
    keyed.expect("a call is JSON")
}

/// Body that a verb takes.
#[derive(Clone, Copy, Debug)]
pub enum Asks {
    /// No body: it is not read.
    Nothing,
    /// A body that may be left out, and what it says.
    Maybe(&'static str),
    /// A body, and what it says.
    Body(&'static str),
}

/// Use of a lease's token by a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fencing {
    /// It does not.
    No,
    /// If a lease is held.
    WhenHeld,
    /// Always.
    Needed,
}

/// A verb that this program can carry out.
pub trait Serve: Verb {
    /// Executes the call.
    fn serve(call: VerbCall<'_, Self>) -> impl Future<Output = ServiceResult<Self::Answer>> + Send;
}

/// One call of a verb.
pub struct VerbCall<'a, V: Verb> {
    /// Service that carries it out.
    pub service: &'a Service,
    /// The process that owns the data directory.
    pub owner: &'a OwnerInfo,
    /// On whose behalf.
    pub caller: Caller,
    /// Grants of its credential.
    pub who: &'a Principal,
    /// The reader of the answer.
    pub reader: AnswerReader,
    /// The idempotency key, of a verb that takes one.
    pub key: Option<BatchKey>,
    /// Parameters of the path.
    pub params: V::Params,
    /// The query.
    pub query: V::Query,
    /// The body.
    pub body: V::Body,
}

/// Reader of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerReader {
    /// A program, or a person.
    Program,
    /// A model, which gets less by default, and waits for what is not in the index yet: mostly at
    /// a first search.
    Model,
}

/// Owner of this server, for the front ends of the same machine.
#[derive(Clone, Debug, Default)]
pub struct OwnerInfo {
    /// The answer to a client that asks for it.
    pub about: Owner,
    /// Cancelled when an on-demand owner is asked to step down.
    pub step_down: CancellationToken,
}

/// Something that is done for everything a client can ask for, such as registering it.
pub trait Visit {
    /// Visits a verb that one generic handler serves.
    fn verb<V: Serve>(&mut self);

    /// Visits a verb with a dedicated handler in an interface: it streams, or uses formats other
    /// than JSON.
    fn by_hand<V: Verb>(&mut self);

    /// Visits a tool that does not belong to a verb.
    fn tool(&mut self, tool: Tool);
}

/// Visits everything that a client can call, by group.
pub fn each(visit: &mut impl Visit) {
    research::each(visit);
    sessions::each(visit);
    changes::each(visit);
    retention::each(visit);
    events::each(visit);
    search::each(visit);
    memory::each(visit);
    graph::each(visit);
    forks::each(visit);
    handoff::each(visit);
    work::each(visit);
    views::each(visit);
    hosted::each(visit);
    admin::each(visit);
    research::of_bindings(visit);
    tools::each(visit);
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

/// A header that may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// Its name.
    pub name: &'static str,
    /// Its description, as published.
    pub about: &'static str,
    /// True if its value is a whole number.
    pub is_number: bool,
}

/// The method of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Reads.
    Get,
    /// Does something; a retry carries an idempotency key.
    Post,
    /// Sets something; sent twice it is as sent once.
    Put,
    /// Removes something.
    Delete,
    /// The route answers every method itself.
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
pub enum Need {
    /// No credential: the route says nothing about any tenant.
    Nothing,
    /// Any valid credential. The handler asks for more where more is needed.
    Credential,
    /// A credential with this grant.
    Grant(Grant),
}

impl Need {
    /// Reading.
    pub const READ: Self = Self::Grant(Grant::Read);
    /// Writing.
    pub const WRITE: Self = Self::Grant(Grant::Write);
    /// Deleting, erasing, redacting.
    pub const DELETE: Self = Self::Grant(Grant::Delete);
    /// The tenant's affairs.
    pub const ADMIN: Self = Self::Grant(Grant::Admin);
    /// The server's affairs.
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

/// Method and path of a verb, and what they need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path, its parameters in braces.
    pub path: &'static str,
    /// The operation id of the published description.
    pub id: &'static str,
    /// Credential that the caller needs.
    pub need: Need,
}

impl Route {
    /// Creates a route that reads.
    #[must_use]
    pub const fn get(path: &'static str, id: &'static str, need: Need) -> Self {
        Self { method: Method::Get, path, id, need }
    }

    /// Creates a route that performs an action.
    #[must_use]
    pub const fn post(path: &'static str, id: &'static str, need: Need) -> Self {
        Self { method: Method::Post, path, id, need }
    }

    /// Creates a route that sets something.
    #[must_use]
    pub const fn put(path: &'static str, id: &'static str, need: Need) -> Self {
        Self { method: Method::Put, path, id, need }
    }

    /// Creates a route that removes something.
    #[must_use]
    pub const fn delete(path: &'static str, id: &'static str, need: Need) -> Self {
        Self { method: Method::Delete, path, id, need }
    }

    /// Creates a route that handles every method itself.
    #[must_use]
    pub const fn any(path: &'static str, id: &'static str, need: Need) -> Self {
        Self { method: Method::Any, path, id, need }
    }

    /// Returns true if each call is recorded in the tenant's audit log.
    #[must_use]
    pub fn audited(&self) -> bool {
        self.method != Method::Get && self.need.is_audited()
    }
}

/// The routes that a server has registered, by path.
#[derive(Debug, Default)]
pub struct Registered(HashMap<&'static str, Vec<Route>>);

impl Registered {
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
    pub fn need(&self, method: &str, path: &str) -> Need {
        match self.find(method, path) {
            Some(route) => route.need,
            None if self.0.contains_key(path) => Need::Credential,
            None => Need::Grant(Grant::Operator),
        }
    }
}
