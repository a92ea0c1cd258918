//! Health, counts and the description of the API. It must not decide what healthy means.

use axum::{
    Json,
    extract::State,
    http::header,
    response::{IntoResponse as _, Response},
};

use super::{Shared, describe::Refusals, refuse::Refusal};
use crate::{
    service::{self, Code, Health, ServiceError},
    verbs::routes,
    wire::types,
};

/// Whether the process answers.
#[utoipa::path(
    get, path = routes::GET_HEALTH.path, operation_id = routes::GET_HEALTH.id, tag = "operations",
    responses((status = 200, description = "The process answers", body = types::Condition), Refusals)
)]
pub(super) async fn healthz() -> Json<types::Condition> {
    Json(types::Condition { status: "ok".to_owned() })
}

/// Whether the store reads and writes.
#[utoipa::path(
    get, path = routes::GET_READINESS.path, operation_id = routes::GET_READINESS.id, tag = "operations",
    responses((status = 200, description = "The store reads and writes", body = types::Condition), Refusals)
)]
pub(super) async fn readyz(State(door): Shared) -> Result<Json<types::Condition>, Refusal> {
    match door.app.service.health() {
        Health::Ready => Ok(Json(types::Condition { status: "ready".to_owned() })),
        Health::ReadOnly(reason) => {
            let message = format!("the store is read-only: {reason}");
            let error = ServiceError::new(Code::StoreReadOnly, message)
                .action("reading works; look at the disk, then restart");
            Err(error.into())
        }
        Health::Full(short) => Err(service::without_room(short).into()),
        Health::Silent(silence) => {
            let seconds = silence.as_secs();
            let message = format!("the disk has not answered for {seconds} s; appends wait");
            let mut error = ServiceError::new(Code::StoreReadOnly, message)
                .action("reading works; look at the disk");
            error.hint.retryable = true;
            Err(error.into())
        }
    }
}

/// Counts in the Prometheus text format.
#[utoipa::path(
    get, path = routes::GET_METRICS.path, operation_id = routes::GET_METRICS.id, tag = "operations",
    responses((status = 200, description = "Counts since the process started", body = String, content_type = "text/plain"), Refusals)
)]
pub(super) async fn metrics(State(door): Shared) -> Response {
    let free = door.readers.available_permits();
    let readers = door.app.options.readers_max.saturating_sub(free);
    let scrub = door.app.service.recovery_report().scrub;
    let text = door.metrics.render(door.app.service.counts(), readers, &scrub);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

/// This description of the API.
#[utoipa::path(
    get, path = routes::GET_OPENAPI.path, operation_id = routes::GET_OPENAPI.id, tag = "operations",
    responses((status = 200, description = "An OpenAPI 3.1 document", body = serde_json::Value), Refusals)
)]
pub(super) async fn openapi(State(door): Shared) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], door.document.clone()).into_response()
}
