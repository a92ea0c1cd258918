//! Answers that are sent as they grow: the tail of a session as server-sent events, and a whole
//! session as JSON lines. A stream ends with `done` when the server stops, so that a client can
//! reconnect. It must not buffer more than one step of a reader, nor more of all readers than their
//! memory budget: a client that opens streams and reads none of them does not exhaust memory.

use std::{io, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, header},
    response::{IntoResponse as _, Response},
};
use futures_util::stream;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::{
    Server, Shared,
    body::{PathSession, RequestCaller, last_event_id},
    gate::{RequestPrincipal, acquire_reader_slot, reader_caller},
    guard::RequestId,
    memory::{MemoryBudget, Reservation},
    params::QueryParams,
    refuse::HttpError,
    serve::StopSignal,
};
use crate::{
    access::{Principal, TenantSlot},
    event::{Event, Point, SessionId},
    service::{Code, FollowStep, Follower, ServiceError, SessionGap, values},
    verbs::events::{ExportQuery, FollowQuery},
    wire::{NDJSON, SSE, answer, convert},
};

impl Server {
    /// Admits one more reader, or refuses it at the limit of its tenant or of the server.
    pub(super) fn admit_reader(&self, who: &Principal) -> Result<ReaderSlot, HttpError> {
        let of_tenant = acquire_reader_slot(who)?;
        let of_all = self.acquire_reader_permit()?;
        Ok(ReaderSlot { _of_tenant: of_tenant, _of_all: of_all })
    }

    fn acquire_reader_permit(&self) -> Result<OwnedSemaphorePermit, HttpError> {
        Arc::clone(&self.readers).try_acquire_owned().map_err(|_| {
            let max = self.app.options.readers_max;
            let mut error =
                ServiceError::new(Code::LimitReached, format!("{max} readers are connected"))
                    .action("come back later, or end streams that are not read");
            error.hint.retryable = true;
            error.into()
        })
    }
}

/// A slot among the readers, released on drop.
pub(super) struct ReaderSlot {
    _of_tenant: Option<TenantSlot>,
    _of_all: OwnedSemaphorePermit,
}

/// Maximum bytes of a part without a reservation: readers of small events never wait.
const SMALL_BYTES: usize = 16 << 10;

/// Reader of a session, with the memory budget of parts that the client has not read yet.
struct BoundedFollow {
    follow: Follower,
    room: Arc<MemoryBudget>,
}

/// Step of a reader, and its reserved memory if it is large.
type ReservedStep = (FollowStep, Option<Reservation>);

impl BoundedFollow {
    /// Returns the next step. If its memory cannot be reserved, drops it and reads it again once
    /// memory is reserved, so that waiting takes no memory.
    async fn next_step(&mut self, patience: Duration) -> Result<ReservedStep, ServiceError> {
        let mut held: Option<Reservation> = None;
        loop {
            let step = self.follow.step(patience).await?;
            let FollowStep::Slice { events, .. } = &step else { return Ok((step, None)) };
            let bytes = 2 * events.iter().map(|event| event.body.len()).sum::<usize>();
            if bytes <= SMALL_BYTES {
                return Ok((step, None));
            }
            let fits = match &mut held {
                Some(held) => self.room.try_grow(held, bytes),
                None => {
                    held = self.room.try_reserve(bytes);
                    held.is_some()
                }
            };
            let first = events.first().map(|event| event.position);
            match first.filter(|_| !fits) {
                None => return Ok((step, held)),
                Some(first) => {
                    drop((step, held.take()));
                    self.follow.rewind(first);
                    held = self.room.reserve_without_timeout(bytes).await;
                }
            }
        }
    }
}

/// Converts a part to bytes that release the reserved memory once sent.
fn part_bytes(bytes: Vec<u8>, held: Option<Reservation>) -> Bytes {
    match held {
        Some(held) => held.into_response(bytes),
        None => bytes.into(),
    }
}

/// State of a stream of a session's events to one client.
struct StreamClient {
    session: SessionId,
    source: BoundedFollow,
    heartbeat: Duration,
    stop: CancellationToken,
    request: String,
    begun: bool,
    ended: bool,
    _admitted: ReaderSlot,
}

impl StreamClient {
    /// Returns the next frames; `None` ends the stream. The first is a heartbeat, sent at once, so
    /// that a client knows the position from which it receives every event.
    async fn next_frames(mut self) -> Option<(Result<Bytes, io::Error>, Self)> {
        if self.ended {
            return None;
        }
        if !std::mem::replace(&mut self.begun, true) {
            return Some((Ok(answer::ping_frame(self.source.follow.tail()).into()), self));
        }
        let step = tokio::select! {
            biased;
            () = self.stop.cancelled() => Ok((FollowStep::End, None)),
            step = self.source.next_step(self.heartbeat) => step,
        };
        let (step, held) = match step {
            Ok((step, held)) => (Ok(step), held),
            Err(error) => (Err(error), None),
        };
        let frames = match step {
            Ok(FollowStep::Slice { events, gaps }) => answer::format_frames(&events, &gaps),
            Ok(FollowStep::Quiet(tail)) => answer::ping_frame(tail),
            Ok(FollowStep::End) => {
                self.ended = true;
                answer::done_frame(self.source.follow.next_position())
            }
            Err(error) if error.code == Code::SessionDeleted => {
                self.ended = true;
                answer::deleted_frame(&self.session, self.source.follow.now())
            }
            Err(error) => {
                self.ended = true;
                answer::error_frame(&convert::error_body(&error, Some(&self.request)))
            }
        };
        Some((Ok(part_bytes(frames, held)), self))
    }
}

/// Streams the events of a session as they are appended.
pub(super) async fn tail(
    State(server): Shared,
    RequestPrincipal(who): RequestPrincipal,
    PathSession(session): PathSession,
    QueryParams(query): QueryParams<FollowQuery>,
    headers: HeaderMap,
    stopping: StopSignal,
    axum::Extension(request): axum::Extension<RequestId>,
) -> Result<Response, HttpError> {
    let _admitted = server.admit_reader(&who)?;
    let caller = reader_caller(&who);
    let from = last_event_id(&headers)?
        .map(Point::At)
        .or(values::parse_point("from", query.from.as_deref())?);
    let follow = server.app.service.follow(&caller, &session, from.as_ref(), None).await?;
    let follow = follow.with_types(values::parse_types(&query.types)?)?;
    let heartbeat = server.app.options.heartbeat;
    let (begun, ended) = (false, false);
    let (request, stop) = (request.as_str().to_owned(), stopping.token());
    let source = BoundedFollow { follow, room: Arc::clone(&server.streams) };
    let reader =
        StreamClient { session, source, heartbeat, stop, request, begun, ended, _admitted };
    let headers = [
        (header::CONTENT_TYPE.as_str(), SSE),
        (header::CACHE_CONTROL.as_str(), "no-store, no-transform"),
        ("x-accel-buffering", "no"),
    ];
    Ok((headers, Body::from_stream(stream::unfold(reader, StreamClient::next_frames)))
        .into_response())
}

/// Exports a whole session: as JSON lines, one event each, or in another program's format.
pub(super) async fn export(
    State(server): Shared,
    RequestPrincipal(who): RequestPrincipal,
    RequestCaller(caller): RequestCaller,
    PathSession(session): PathSession,
    QueryParams(ExportQuery { format }): QueryParams<ExportQuery>,
) -> Result<Response, HttpError> {
    let _admitted = server.admit_reader(&who)?;
    let format = format.as_deref().unwrap_or("jsonl");
    let end = server.app.service.resolve_point(&caller, &session, &Point::End).await?;
    let begin = Point::At(crate::event::Position::ZERO);
    let follow = server.app.service.follow(&caller, &session, Some(&begin), Some(end)).await?;
    let source = BoundedFollow { follow, room: Arc::clone(&server.streams) };
    let mut exported = ExportStream { source, first: None, _admitted };
    if format != "jsonl" {
        let bytes = server.app.service.get_session(&caller, &session).await?.bytes;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        // The events and their text are in memory at the same time.
        let held = server.room.reserve(bytes.saturating_mul(2)).await?;
        return exported.export_converted(&server, format, held).await;
    }
    // The first step is read before the answer begins, so that a damaged session is an error.
    exported.first = exported.next_events().await?;
    let lines = Body::from_stream(stream::unfold(exported, ExportStream::next_lines));
    Ok(([(header::CONTENT_TYPE, NDJSON)], lines).into_response())
}

/// State of an export being sent.
struct ExportStream {
    source: BoundedFollow,
    first: Option<ExportPart>,
    _admitted: ReaderSlot,
}

/// Events, the gaps among them, and their reserved memory.
type ExportPart = (Vec<Event>, Vec<SessionGap>, Option<Reservation>);

impl ExportStream {
    /// Returns the next events; `None` at the end.
    async fn next_events(&mut self) -> Result<Option<ExportPart>, ServiceError> {
        match self.source.next_step(Duration::ZERO).await? {
            (FollowStep::Slice { events, gaps }, held) => Ok(Some((events, gaps, held))),
            (FollowStep::Quiet(_) | FollowStep::End, _) => Ok(None),
        }
    }

    /// Returns the next lines. An error breaks off the answer, which the client detects. The next
    /// step is read once these are sent: no export waits for memory that it holds itself.
    async fn next_lines(mut self) -> Option<(Result<Bytes, io::Error>, Self)> {
        let found = match self.first.take() {
            Some(found) => Ok(Some(found)),
            None => self.next_events().await,
        };
        match found {
            Ok(found) => {
                let (events, gaps, held) = found?;
                Some((Ok(part_bytes(answer::format_lines(&events, &gaps), held)), self))
            }
            Err(error) => Some((Err(io::Error::other(error)), self)),
        }
    }

    async fn export_converted(
        mut self,
        server: &Server,
        format: &str,
        held: Reservation,
    ) -> Result<Response, HttpError> {
        let Some(exporter) = server.app.options.exporters.get(format) else {
            let names: Vec<&str> =
                server.app.options.exporters.keys().map(String::as_str).chain(["jsonl"]).collect();
            return Err(HttpError::invalid("format", format!("one of {}", names.join(", "))));
        };
        let mut events = Vec::new();
        while let Some((more, ..)) = self.next_events().await? {
            events.extend(more);
        }
        let text = Body::from(held.into_response(exporter(events)?));
        Ok(([(header::CONTENT_TYPE, NDJSON)], text).into_response())
    }
}
