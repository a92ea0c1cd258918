//! emitEvent and getEvents, in JSON and in protobuf. It must not interpret events.

use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, header},
    response::{IntoResponse as _, Response},
};

use super::{
    Shared,
    body::{AppendConditions, PathSession, RequestBody, RequestCaller, wants_protobuf},
    gate::RequestPrincipal,
    params::QueryParams,
    refuse::HttpError,
    serve::StopSignal,
};
use crate::{
    event::{Batch, NewEvent, Origin, limits},
    service::{EventQuery, EventSlice, ServiceResult},
    verbs::events::{EmitQuery, EventsQuery},
    wire::{PROTOBUF, answer, json, protobuf},
};

/// Appends a batch, all or nothing; it is durable before the answer.
pub(super) async fn emit_events(
    State(server): Shared,
    RequestCaller(caller): RequestCaller,
    PathSession(session): PathSession,
    QueryParams(EmitQuery { create }): QueryParams<EmitQuery>,
    conditions: AppendConditions,
    headers: HeaderMap,
    payload: RequestBody,
) -> Result<Response, HttpError> {
    let AppendConditions { if_position, key } = conditions;
    let events = decode_events(&payload, caller.origin)?;
    let takes_protobuf = wants_protobuf(&headers, payload.protobuf);
    // The request text is not needed while the events are written.
    drop(payload);
    let batch = Batch { events: events.into(), if_position, key, ..Batch::default() };
    let emitted = server.app.service.emit(&caller, &session, batch, create).await?;
    Ok(if takes_protobuf {
        encoded_response(PROTOBUF, protobuf::encode_emitted(&emitted))
    } else {
        encoded_response("application/json", answer::format_emitted(&emitted))
    })
}

fn decode_events(payload: &RequestBody, origin: Origin) -> ServiceResult<Vec<NewEvent>> {
    if payload.protobuf {
        protobuf::parse_events(payload.bytes.clone(), origin)
    } else {
        json::parse_events(json::check_utf8(&payload.bytes)?, origin, payload.hosted)
    }
}

fn encoded_response(media_type: &'static str, body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, media_type)], body.into()).into_response()
}

/// Returns a slice of a session, by position, point, time or type.
pub(super) async fn get_events(
    State(server): Shared,
    RequestPrincipal(who): RequestPrincipal,
    RequestCaller(caller): RequestCaller,
    PathSession(session): PathSession,
    QueryParams(query): QueryParams<EventsQuery>,
    headers: HeaderMap,
    stopping: StopSignal,
) -> Result<Response, HttpError> {
    let mut query = query.parse()?;
    let wait = std::mem::take(&mut query.wait);
    let most = page_memory_bytes_max(query.limit);
    let mut held = server.room.reserve(most.min(PAGE_BYTES_USUAL)).await?;
    let mut slice = server.app.service.get_events(&caller, &session, &query).await?;
    if !server.room.try_grow(&mut held, slice_memory_bytes(&slice)) {
        // A page without reserved memory is dropped, and read again once memory is reserved.
        drop((slice, held));
        held = server.room.reserve(most).await?;
        slice = server.app.service.get_events(&caller, &session, &query).await?;
    }
    if slice.events.is_empty() && !wait.is_zero() {
        // A long poll reserves no memory; the page that it waits for is small.
        drop(held);
        let _reader = server.admit_reader(&who)?;
        let (waiting, stop) = (EventQuery { wait, ..query.clone() }, stopping.token());
        slice = tokio::select! {
            slice = server.app.service.get_events(&caller, &session, &waiting) => slice?,
            () = stop.cancelled() => {
                server.app.service.get_events(&caller, &session, &query).await?
            }
        };
        held = server.room.reserve(slice_memory_bytes(&slice)).await?;
    }
    Ok(if wants_protobuf(&headers, false) {
        encoded_response(PROTOBUF, held.into_response(protobuf::encode_slice(&slice)))
    } else {
        encoded_response("application/json", held.into_response(answer::format_slice(&slice)))
    })
}

/// Memory reserved at first for a page, in bytes: enough for most pages.
const PAGE_BYTES_USUAL: usize = 256 << 10;

/// Returns the memory of a slice in bytes: its events and their encoding.
fn slice_memory_bytes(slice: &EventSlice) -> usize {
    2 * slice.events.iter().map(|event| event.body.len()).sum::<usize>()
}

/// Returns the maximum memory of a page in bytes.
fn page_memory_bytes_max(limit: Option<usize>) -> usize {
    let events = limit.unwrap_or(limits::PAGE_EVENTS_DEFAULT);
    2 * events.saturating_mul(limits::EVENT_BYTES_MAX).min(limits::PAGE_BYTES_MAX)
}
