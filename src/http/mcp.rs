//! Bodies of MCP, whose library builds trees of whatever it is sent: read and judged before it sees
//! them. It must not know the protocol beyond where a call has its tool's name.

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

/// Around the route of MCP, whose library builds trees of every body: the body is read and judged
/// first. Only the tools that carry an event or a state take more than the others.
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
    // The answer may be a stream that begins before the call is carried out.
    match room {
        Some(room) => until_its_end(response, room),
        None => response,
    }
}
