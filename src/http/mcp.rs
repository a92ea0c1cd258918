//! Checks bodies of MCP before the protocol's library, which builds trees of any input, parses
//! them. It must not know the protocol beyond the position of a tool's name in a call.

use super::{
    Shared,
    body::{read_body, reserve_tree_memory, too_large_error},
    guard::hold_until_body_ends,
    refuse::HttpError,
};
use crate::{event::limits, verbs::tools};
use axum::{
    body::{Body, HttpBody as _},
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

/// Reads and checks the body of an MCP request before the library builds a tree of it. Only the
/// tools that carry an event or a state may have larger bodies than the others.
pub(super) async fn check_mcp_body(
    State(server): Shared,
    request: Request,
    next: Next,
) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let checked = async {
        let head = Request::from_parts(parts.clone(), body);
        let bytes = read_body(head, limits::MCP_CARRIER_BYTES_MAX).await?;
        let reservation = reserve_tree_memory(&server, &bytes).await?;
        if bytes.len() > limits::MCP_BYTES_MAX && !tools::has_large_arguments(&bytes) {
            return Err(HttpError::from(too_large_error(limits::MCP_BYTES_MAX)));
        }
        Ok((bytes, reservation))
    };
    let (bytes, reservation) = match checked.await {
        Ok(checked) => checked,
        Err(refusal) => return refusal.into_response(),
    };
    let response = next.run(Request::from_parts(parts, Body::from(bytes))).await;
    // The answer may be a stream that starts before the call is executed.
    match reservation {
        Some(reservation) => hold_until_body_ends(response, reservation),
        None => response,
    }
}
