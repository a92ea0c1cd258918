//! The published description of the API, made from the handlers themselves (proto/openapi.json is
//! its copy under version control). It must not describe what no handler does.

use std::{collections::BTreeMap, sync::Arc};

use utoipa::{
    OpenApi,
    openapi::{Content, OpenApi as Document, Ref, RefOr, Response, ResponseBuilder},
};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Door, admin, append, backup, events, forks, retention, sessions, stream, threads, views, work,
};
use crate::wire::{backup::BackupLine, types};

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

/// Every route, with its description.
pub(super) fn routes() -> OpenApiRouter<Arc<Door>> {
    let routes = OpenApiRouter::with_openapi(Base::openapi())
        .routes(routes!(sessions::create, sessions::list))
        .routes(routes!(sessions::get, sessions::update, sessions::delete))
        .routes(routes!(sessions::archive))
        .routes(routes!(sessions::erase))
        .routes(routes!(forks::fork))
        .routes(routes!(forks::lineage))
        .routes(routes!(forks::diff))
        .routes(routes!(retention::hold, retention::release))
        .routes(routes!(retention::restore))
        .routes(routes!(retention::look, retention::sweep))
        .routes(routes!(events::emit, events::get))
        .routes(routes!(events::redact))
        .routes(routes!(work::put_cursor, work::get_cursor, work::delete_cursor))
        .routes(routes!(work::list_cursors))
        .routes(routes!(work::create_checkpoint, work::list_checkpoints))
        .routes(routes!(work::get_checkpoint))
        .routes(routes!(work::resume))
        .routes(routes!(work::wake))
        .routes(routes!(work::renew))
        .routes(routes!(work::release))
        .routes(routes!(work::history))
        .routes(routes!(append::append))
        .routes(routes!(stream::tail))
        .routes(routes!(threads::list))
        .routes(routes!(threads::get))
        .routes(routes!(threads::archive))
        .routes(routes!(threads::list_events))
        .routes(routes!(threads::tail))
        .routes(routes!(threads::list_resources, threads::add_resource))
        .routes(routes!(threads::get_resource, threads::update_resource, threads::delete_resource))
        .routes(routes!(stream::export))
        .routes(routes!(views::index))
        .routes(routes!(views::summary))
        .routes(routes!(views::step))
        .routes(routes!(views::continuation))
        .routes(routes!(views::window))
        .routes(routes!(views::usage))
        .routes(routes!(views::compactions))
        .routes(routes!(admin::owner))
        .routes(routes!(admin::step_down))
        .routes(routes!(admin::verify))
        .routes(routes!(admin::repair))
        .routes(routes!(admin::keys))
        .routes(routes!(admin::rotate_keys))
        .routes(routes!(backup::create))
        .routes(routes!(admin::audit))
        .routes(routes!(admin::recovery_report))
        .routes(routes!(admin::healthz))
        .routes(routes!(admin::readyz))
        .routes(routes!(admin::metrics))
        .routes(routes!(admin::openapi));
    #[cfg(feature = "mcp")]
    let routes = routes
        .routes(routes!(super::tool_cache::lookup))
        .routes(routes!(super::tool_cache::outputs))
        .routes(routes!(super::tools::call));
    routes
}

/// The document as text.
pub(super) fn text(document: &Document) -> String {
    document.to_pretty_json().expect("a document of maps and texts is JSON") + "\n"
}

/// The OpenAPI document this door serves, as published in proto/openapi.json.
#[must_use]
pub fn document() -> String {
    text(&routes().into_openapi())
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
    ("503", "Not now (`outcome_unknown`, `store_read_only`, `owner_unavailable`)"),
    ("507", "The disk is full (`disk_full`)"),
];
