//! Counts and the description of the API. It must not know what is counted.

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse as _, Response},
};

use super::Shared;

/// Counts in the Prometheus text format.
pub(super) async fn metrics(State(door): Shared) -> Response {
    let free = door.readers.available_permits();
    let readers = door.app.options.readers_max.saturating_sub(free);
    let scrub = door.app.service.recovery_report().scrub;
    let text = door.metrics.render(door.app.service.counts(), readers, &scrub);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

/// This description of the API.
pub(super) async fn openapi(State(door): Shared) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], door.document.clone()).into_response()
}
