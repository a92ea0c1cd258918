//! The published description of the API, made from the handlers themselves (proto/openapi.json is
//! its copy under version control). It must not describe what no handler does.

use std::{collections::BTreeMap, sync::Arc};

use utoipa::{
    OpenApi,
    openapi::{Content, OpenApi as Document, Ref, RefOr, Response, ResponseBuilder},
};
use utoipa_axum::{
    router::{OpenApiRouter, UtoipaMethodRouter},
    routes,
};

use super::{Door, admin, append, backup, events, stream, threads, verb};
use crate::{
    verbs::{self, Method, Registered, Route, Serve, Visit, routes},
    wire::{backup::BackupLine, types},
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "sessionlog",
        description = "A durable session store for AI agents: append-only sessions of events. The \
                       session and event routes are a superset of the sessions/events wire of \
                       Anthropic's Managed Agents.",
    ),
    modifiers(&DescribedOnce),
    components(schemas(
        types::ErrorBody, types::NewEvent, types::Event, types::AppendLine, types::LineAppended,
        types::LineRefused, BackupLine,
    )),
    tags(
        (name = "sessions", description = "Whole sessions"),
        (name = "events", description = "Events of a session"),
        (name = "views", description = "What is worth knowing of a session, within a budget"),
        (name = "tools", description = "Tools of models, as MCP offers them"),
        (name = "operations", description = "Health, counts, owners, verification"),
    ),
)]
struct Base;

/// Every route, with its description and its declaration.
pub(super) fn routes() -> Routes {
    let mut routes = Routes::new();
    verbs::each(&mut routes);
    let routes = routes
        .hand(routes::EMIT_EVENT, routes!(events::emit))
        .hand(routes::GET_EVENTS, routes!(events::get))
        .hand(routes::APPEND_STREAM, routes!(append::append))
        .hand(routes::STREAM_EVENTS, routes!(stream::tail))
        .hand(routes::LIST_THREADS, routes!(threads::list))
        .hand(routes::GET_THREAD, routes!(threads::get))
        .hand(routes::ARCHIVE_THREAD, routes!(threads::archive))
        .hand(routes::GET_THREAD_EVENTS, routes!(threads::list_events))
        .hand(routes::STREAM_THREAD, routes!(threads::tail))
        .hand(routes::LIST_RESOURCES, routes!(threads::list_resources))
        .hand(routes::ADD_RESOURCE, routes!(threads::add_resource))
        .hand(routes::GET_RESOURCE, routes!(threads::get_resource))
        .hand(routes::UPDATE_RESOURCE, routes!(threads::update_resource))
        .hand(routes::DELETE_RESOURCE, routes!(threads::delete_resource))
        .hand(routes::EXPORT_SESSION, routes!(stream::export))
        .hand(routes::CREATE_BACKUP, routes!(backup::create))
        .hand(routes::GET_HEALTH, routes!(admin::healthz))
        .hand(routes::GET_READINESS, routes!(admin::readyz))
        .hand(routes::GET_METRICS, routes!(admin::metrics))
        .hand(routes::GET_OPENAPI, routes!(admin::openapi));
    #[cfg(feature = "mcp")]
    let routes = routes.hand(routes::CALL_TOOL, routes!(super::tools::call));
    routes
}

/// The routes that are registered so far. Without a declaration none can be.
pub(super) struct Routes {
    router: OpenApiRouter<Arc<Door>>,
    registered: Registered,
}

impl Routes {
    fn new() -> Self {
        let router = OpenApiRouter::with_openapi(Base::openapi());
        Self { router, registered: Registered::default() }
    }

    /// Registers a handler that describes itself, under the route that it is declared with.
    ///
    /// # Panics
    /// When it describes another route.
    fn hand(mut self, route: Route, handler: UtoipaMethodRouter<Arc<Door>>) -> Self {
        let item = handler.1.paths.get(route.path);
        let operation = item.and_then(|item| match route.method {
            Method::Get => item.get.as_ref(),
            Method::Post => item.post.as_ref(),
            Method::Put => item.put.as_ref(),
            Method::Delete => item.delete.as_ref(),
            Method::Any => None,
        });
        let described = operation.and_then(|operation| operation.operation_id.as_deref());
        assert_eq!(described, Some(route.id), "a handler is registered under another's route");
        self.register(route, handler);
        self
    }

    fn register(&mut self, route: Route, handler: UtoipaMethodRouter<Arc<Door>>) {
        self.registered.add(route);
        self.router = std::mem::take(&mut self.router).routes(handler);
    }

    pub(super) fn into_parts(self) -> (OpenApiRouter<Arc<Door>>, Registered) {
        (self.router, self.registered)
    }
}

impl Visit for Routes {
    fn verb<V: Serve>(&mut self) {
        self.register(V::ROUTE, verb::route::<V>());
    }
}

/// The document as text.
pub(super) fn text(document: &Document) -> String {
    document.to_pretty_json().expect("a document of maps and texts is JSON") + "\n"
}

/// The OpenAPI document this door serves, as published in proto/openapi.json.
#[must_use]
pub fn document() -> String {
    text(&routes().router.into_openapi())
}

/// The answers any route may give instead of its own.
pub(super) struct Refusals;

impl utoipa::IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let refer = |status: &str| Ref::from_response_name(format!("Refusal{status}"));
        REFUSALS.iter().map(|(status, _)| ((*status).to_owned(), refer(status).into())).collect()
    }
}

/// Describes each refusal once, for all routes.
struct DescribedOnce;

impl utoipa::Modify for DescribedOnce {
    fn modify(&self, document: &mut Document) {
        let error = || Content::new(Some(RefOr::Ref(Ref::from_schema_name("ErrorBody"))));
        let components = document.components.get_or_insert_default();
        for (status, text) in REFUSALS {
            let answer = ResponseBuilder::new().description(*text);
            let answer = answer.content("application/json", error()).build();
            components.responses.insert(format!("Refusal{status}"), answer.into());
        }
    }
}

/// Every status of an error, and when it comes.
const REFUSALS: &[(&str, &str)] = &[
    ("400", "Not JSON (`invalid_json`), or not HTTP"),
    ("401", "No valid credential (`unauthenticated`)"),
    ("403", "The host, origin or credential may not do this (`forbidden`)"),
    ("404", "What was asked for is not known (`session_not_found`, `point_not_found`, …)"),
    ("405", "The path does not take this method"),
    ("408", "The body stopped coming"),
    ("409", "It conflicts with what is there (`position_conflict`, `session_exists`, …)"),
    ("410", "It was there (`session_deleted`, `session_expired`, `prefix_erased`)"),
    ("413", "The body is too large (`body_too_large`)"),
    ("415", "The body's media type is not taken"),
    ("422", "JSON, but not what the verb takes (`invalid_request`, naming the field)"),
    ("423", "Damaged or held (`session_damaged`, `session_held`)"),
    ("429", "Too much at once (`rate_limited`, `limit_reached`, `quota_exceeded`)"),
    ("500", "A defect of the server (`internal_error`)"),
    ("503", "Not now (`outcome_unknown`, `not_finished`, `store_read_only`, `owner_unavailable`)"),
    ("507", "The disk is full (`disk_full`)"),
];
