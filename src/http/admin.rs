//! Handlers of the metrics and of the API description. It must not interpret a count.

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse as _, Response},
};

use super::{Shared, document::openapi_document};

/// Returns the counters in the Prometheus text format.
pub(super) async fn get_metrics(State(server): Shared) -> Response {
    let free = server.readers.available_permits();
    let readers = server.app.options.readers_max.saturating_sub(free);
    let scrub = server.app.service.recovery_report().scrub;
    let text = server.metrics.render(server.app.service.counts(), readers, &scrub);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

/// Returns the OpenAPI description of this interface.
pub(super) async fn get_openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], openapi_document()).into_response()
}
