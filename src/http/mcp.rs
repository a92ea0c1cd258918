//! Checks bodies of MCP before the protocol's library, which builds trees of any input, parses
//! them. It must not know the protocol beyond the position of a tool's name in a call.

use super::{
    Shared,
    body::{read, room_of_tree, too_large},
    guard::until_its_end,
    refuse::Refusal,
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
pub(super) async fn judge(State(server): Shared, request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let judged = async {
        let head = Request::from_parts(parts.clone(), body);
        let bytes = read(head, limits::MCP_CARRIER_BYTES_MAX).await?;
        let room = room_of_tree(&server, &bytes).await?;
        if bytes.len() > limits::MCP_BYTES_MAX && !tools::carries(&bytes) {
            return Err(Refusal::from(too_large(limits::MCP_BYTES_MAX)));
        }
        Ok((bytes, room))
    };
    let (bytes, room) = match judged.await {
        Ok(judged) => judged,
        Err(refusal) => return refusal.into_response(),
    };
    let response = next.run(Request::from_parts(parts, Body::from(bytes))).await;
    // The answer may be a stream that begins before the call is executed.
    match room {
        Some(room) => until_its_end(response, room),
        None => response,
    }
}
