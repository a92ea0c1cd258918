//! emitEvent and getEvents, in JSON and in protobuf. It must not interpret events.

use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, header},
    response::{IntoResponse as _, Response},
};

use super::{
    Shared,
    body::{Conditions, InPath, Payload, Who, wants_protobuf},
    gate::Asking,
    params::QueryParams,
    refuse::Refusal,
    serve::Stopping,
};
use crate::{
    event::{Batch, NewEvent, Origin, limits},
    service::{EventQuery, EventSlice, ServiceResult},
    verbs::events::{EmitQuery, EventsQuery},
    wire::{PROTOBUF, answer, json, protobuf},
};

/// Appends a batch, all or nothing; it is durable before the answer.
pub(super) async fn emit(
    State(server): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    QueryParams(EmitQuery { create }): QueryParams<EmitQuery>,
    conditions: Conditions,
    headers: HeaderMap,
    payload: Payload,
) -> Result<Response, Refusal> {
    let Conditions { if_position, key } = conditions;
    let events = decode(&payload, caller.origin)?;
    let takes_protobuf = wants_protobuf(&headers, payload.protobuf);
    // Its text is not needed while the events are written.
    drop(payload);
    let batch = Batch { events: events.into(), if_position, key, ..Batch::default() };
    let emitted = server.app.service.emit(&caller, &session, batch, create).await?;
    Ok(if takes_protobuf {
        encoded_response(PROTOBUF, protobuf::emitted(&emitted))
    } else {
        encoded_response("application/json", answer::emitted(&emitted))
    })
}

fn decode(payload: &Payload, origin: Origin) -> ServiceResult<Vec<NewEvent>> {
    if payload.protobuf {
        protobuf::events(payload.bytes.clone(), origin)
    } else {
        json::events(json::utf8(&payload.bytes)?, origin, payload.hosted)
    }
}

fn encoded_response(media_type: &'static str, body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, media_type)], body.into()).into_response()
}

/// Returns a slice of a session, by position, point, time or type.
pub(super) async fn get(
    State(server): Shared,
    Asking(who): Asking,
    Who(caller): Who,
    InPath(session): InPath,
    QueryParams(query): QueryParams<EventsQuery>,
    headers: HeaderMap,
    stopping: Stopping,
) -> Result<Response, Refusal> {
    let mut query = query.read()?;
    let wait = std::mem::take(&mut query.wait);
    let most = page_bytes(query.limit);
    let mut held = server.room.ask(most.min(PAGE_BYTES_USUAL)).await?;
    let mut slice = server.app.service.get_events(&caller, &session, &query).await?;
    if !server.room.grow(&mut held, page_bytes_of(&slice)) {
        // A page without reserved memory is dropped, and read again once memory is reserved.
        drop((slice, held));
        held = server.room.ask(most).await?;
        slice = server.app.service.get_events(&caller, &session, &query).await?;
    }
    if slice.events.is_empty() && !wait.is_zero() {
        // A long poll reserves no memory; the page that it waits for is small.
        drop(held);
        let _reader = server.admit(&who)?;
        let (waiting, stop) = (EventQuery { wait, ..query.clone() }, stopping.token());
        slice = tokio::select! {
            slice = server.app.service.get_events(&caller, &session, &waiting) => slice?,
            () = stop.cancelled() => {
                server.app.service.get_events(&caller, &session, &query).await?
            }
        };
        held = server.room.ask(page_bytes_of(&slice)).await?;
    }
    Ok(if wants_protobuf(&headers, false) {
        encoded_response(PROTOBUF, held.answer(protobuf::slice(&slice)))
    } else {
        encoded_response("application/json", held.answer(answer::slice(&slice)))
    })
}

/// Bytes of memory of most pages.
const PAGE_BYTES_USUAL: usize = 256 << 10;

/// Returns the bytes of memory of a page: its events and their text.
fn page_bytes_of(slice: &EventSlice) -> usize {
    2 * slice.events.iter().map(|event| event.body.len()).sum::<usize>()
}

/// Returns the most bytes of memory of a page.
fn page_bytes(limit: Option<usize>) -> usize {
    let events = limit.unwrap_or(limits::PAGE_EVENTS_DEFAULT);
    2 * events.saturating_mul(limits::EVENT_BYTES_MAX).min(limits::PAGE_BYTES_MAX)
}
