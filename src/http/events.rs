//! emitEvent and getEvents, in JSON and in protobuf. It must not know what an event means.

use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, header},
    response::{IntoResponse as _, Response},
};

use super::{
    Shared,
    body::{Conditions, InPath, Payload, Who, wants_protobuf},
    describe::Refusals,
    gate::Asking,
    params::{Creating, Params, Slicing},
    refuse::Refusal,
    serve::Stopping,
};
use crate::{
    event::{Batch, NewEvent, Origin, limits},
    service::{EventQuery, EventSlice, ServiceResult},
    verbs::routes,
    wire::{answer, json, protobuf, types},
};

/// Appends a batch, all or nothing; the answer is durable.
#[utoipa::path(
    post, path = routes::EMIT_EVENT.path, operation_id = routes::EMIT_EVENT.id, tag = "events",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("create" = Option<bool>, Query, description = "Create an unknown session with the batch"),
        ("If-Position" = Option<u64>, Header, description = "The batch's first event must get this position"),
        ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 128, description = "A retry with the same key within 24 h answers the same positions"),
        ("Fencing-Token" = Option<u64>, Header, description = "Token of the lease, when one is held"),
    ),
    request_body(content(
        (types::EmitRequest = "application/json"),
        (Vec<u8> = "application/x-protobuf"),
    ), description = "1 to 1 000 events, 16 MiB at most; protobuf: EmitRequest of events.proto"),
    responses(
        (status = 200, description = "The events as they are kept", content(
            (types::EmitAnswer = "application/json"),
            (Vec<u8> = "application/x-protobuf"),
        )),
        Refusals
    )
)]
pub(super) async fn emit(
    State(door): Shared,
    Who(caller): Who,
    InPath(session): InPath,
    Params(Creating { create }): Params<Creating>,
    conditions: Conditions,
    headers: HeaderMap,
    payload: Payload,
) -> Result<Response, Refusal> {
    let Conditions { if_position, key } = conditions;
    let events = decode(&payload, caller.origin)?;
    let batch = Batch { events: events.into(), if_position, key, ..Batch::default() };
    let emitted = door.app.service.emit(&caller, &session, batch, create).await?;
    Ok(if wants_protobuf(&headers, payload.protobuf) {
        encoded(protobuf::MEDIA_TYPE, protobuf::emitted(&emitted))
    } else {
        encoded("application/json", answer::emitted(&emitted))
    })
}

fn decode(payload: &Payload, origin: Origin) -> ServiceResult<Vec<NewEvent>> {
    if payload.protobuf {
        protobuf::events(payload.bytes.clone(), origin)
    } else {
        json::events(json::utf8(&payload.bytes)?, origin, payload.hosted)
    }
}

fn encoded(media_type: &'static str, body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, media_type)], body.into()).into_response()
}

/// A slice of a session, by position, point, time or type.
#[utoipa::path(
    get, path = routes::GET_EVENTS.path, operation_id = routes::GET_EVENTS.id, tag = "events",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("from" = Option<String>, Query, description = "Point of the first event; 0 when not said"),
        ("to" = Option<String>, Query, description = "Point after the last event; the tail when not said"),
        ("around" = Option<String>, Query, description = "Instead of from and to: the surroundings of this point"),
        ("before" = Option<u64>, Query, description = "With around: events before it, 5 when not said"),
        ("after" = Option<u64>, Query, description = "With around: events after it, 5 when not said"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 10000, description = "Events at most: 1 000 when not said, 10 000 at most"),
        ("order" = Option<String>, Query, description = "asc, or desc for the newest first"),
        ("types[]" = Option<Vec<String>>, Query, description = "Only these types"),
        ("created_at[gte]" = Option<String>, Query, description = "Processed at or after; also gt, lt, lte"),
        ("page" = Option<String>, Query, description = "next_page of the answer before"),
        ("wait_ms" = Option<u64>, Query, maximum = 60000, description = "Wait so long for an event when there is none, 60 000 at most"),
        ("allow_gaps" = Option<bool>, Query, description = "Serve what is whole of a damaged range and name the gaps"),
    ),
    responses(
        (status = 200, description = "The events, where to go on, and the tail", content(
            (types::EventsAnswer = "application/json"),
            (Vec<u8> = "application/x-protobuf"),
        )),
        Refusals
    )
)]
pub(super) async fn get(
    State(door): Shared,
    Asking(who): Asking,
    Who(caller): Who,
    InPath(session): InPath,
    Params(slicing): Params<Slicing>,
    headers: HeaderMap,
    stopping: Stopping,
) -> Result<Response, Refusal> {
    let mut query = slicing.query()?;
    let wait = std::mem::take(&mut query.wait);
    let most = page_bytes(query.limit);
    let mut held = door.room.ask(most.min(PAGE_BYTES_USUAL)).await?;
    let mut slice = door.app.service.get_events(&caller, &session, &query).await?;
    if !door.room.grow(&mut held, page_bytes_of(&slice)) {
        // Nobody keeps a page in memory that there is no room for.
        drop((slice, held));
        held = door.room.ask(most).await?;
        slice = door.app.service.get_events(&caller, &session, &query).await?;
    }
    if slice.events.is_empty() && !wait.is_zero() {
        // Whoever waits keeps no room; what was waited for is small.
        drop(held);
        let _reader = door.admit(&who)?;
        let (waiting, stop) = (EventQuery { wait, ..query.clone() }, stopping.token());
        slice = tokio::select! {
            slice = door.app.service.get_events(&caller, &session, &waiting) => slice?,
            () = stop.cancelled() => {
                door.app.service.get_events(&caller, &session, &query).await?
            }
        };
        held = door.room.ask(page_bytes_of(&slice)).await?;
    }
    Ok(if wants_protobuf(&headers, false) {
        encoded(protobuf::MEDIA_TYPE, held.answer(protobuf::slice(&slice)))
    } else {
        encoded("application/json", held.answer(answer::slice(&slice)))
    })
}

/// What most pages take.
const PAGE_BYTES_USUAL: usize = 256 << 10;

/// What a page takes: its events and their text.
fn page_bytes_of(slice: &EventSlice) -> usize {
    2 * slice.events.iter().map(|event| event.body.len()).sum::<usize>()
}

/// What a page takes at most.
fn page_bytes(limit: Option<usize>) -> usize {
    let events = limit.unwrap_or(limits::PAGE_EVENTS_DEFAULT);
    2 * events.saturating_mul(limits::EVENT_BYTES_MAX).min(limits::PAGE_BYTES_MAX)
}
