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
    body::{InPath, Who, last_event_id},
    gate::{Asking, caller_of, reader},
    guard::RequestId,
    hold::{Held, Room},
    params::QueryParams,
    refuse::Refusal,
    serve::Stopping,
};
use crate::{
    access::{Principal, Reading},
    event::{Event, Point, SessionId},
    service::{Code, Follow, Gap, ServiceError, Step, values},
    verbs::events::{ExportQuery, FollowQuery},
    wire::{NDJSON, SSE, answer, convert},
};

impl Server {
    /// Admits one more reader, or refuses it at the limit of its tenant or of the server.
    pub(super) fn admit(&self, who: &Principal) -> Result<Reader, Refusal> {
        let of_tenant = reader(who)?;
        let of_all = self.acquire_reader()?;
        Ok(Reader { _of_tenant: of_tenant, _of_all: of_all })
    }

    fn acquire_reader(&self) -> Result<OwnedSemaphorePermit, Refusal> {
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
pub(super) struct Reader {
    _of_tenant: Option<Reading>,
    _of_all: OwnedSemaphorePermit,
}

/// Bytes of a part without a reservation: readers of small events never wait for a stuck one.
const SMALL_BYTES: usize = 16 << 10;

/// A reader of a session, and the memory budget of its parts until the client has read them.
struct BoundedFollow {
    follow: Follow,
    room: Arc<Room>,
}

/// The next step of a reader, and its reserved memory if it is large.
type Roomy = (Step, Option<Held>);

impl BoundedFollow {
    /// Returns the next step. If its memory cannot be reserved, it is dropped, and read again once
    /// it can: waiting takes no memory.
    async fn step(&mut self, patience: Duration) -> Result<Roomy, ServiceError> {
        let mut held: Option<Held> = None;
        loop {
            let step = self.follow.step(patience).await?;
            let Step::Slice { events, .. } = &step else { return Ok((step, None)) };
            let bytes = 2 * events.iter().map(|event| event.body.len()).sum::<usize>();
            if bytes <= SMALL_BYTES {
                return Ok((step, None));
            }
            let fits = match &mut held {
                Some(held) => self.room.grow(held, bytes),
                None => {
                    held = self.room.now(bytes);
                    held.is_some()
                }
            };
            let first = events.first().map(|event| event.position);
            match first.filter(|_| !fits) {
                None => return Ok((step, held)),
                Some(first) => {
                    drop((step, held.take()));
                    self.follow.rewind(first);
                    held = self.room.wait(bytes).await;
                }
            }
        }
    }
}

/// Returns the bytes of a part, which release the reserved memory once sent.
fn part_bytes(bytes: Vec<u8>, held: Option<Held>) -> Bytes {
    match held {
        Some(held) => held.answer(bytes),
        None => bytes.into(),
    }
}

/// A client of a stream.
struct Tail {
    session: SessionId,
    source: BoundedFollow,
    heartbeat: Duration,
    stop: CancellationToken,
    request: String,
    begun: bool,
    ended: bool,
    _admitted: Reader,
}

impl Tail {
    /// Returns the next frames; `None` ends the stream. The first is a heartbeat, sent at once, so
    /// that a client knows the position from which it receives every event.
    async fn frames(mut self) -> Option<(Result<Bytes, io::Error>, Self)> {
        if self.ended {
            return None;
        }
        if !std::mem::replace(&mut self.begun, true) {
            return Some((Ok(answer::ping(self.source.follow.tail()).into()), self));
        }
        let step = tokio::select! {
            biased;
            () = self.stop.cancelled() => Ok((Step::End, None)),
            step = self.source.step(self.heartbeat) => step,
        };
        let (step, held) = match step {
            Ok((step, held)) => (Ok(step), held),
            Err(error) => (Err(error), None),
        };
        let frames = match step {
            Ok(Step::Slice { events, gaps }) => answer::frames(&events, &gaps),
            Ok(Step::Quiet(tail)) => answer::ping(tail),
            Ok(Step::End) => {
                self.ended = true;
                answer::done(self.source.follow.next_position())
            }
            Err(error) if error.code == Code::SessionDeleted => {
                self.ended = true;
                answer::deleted(&self.session, self.source.follow.now())
            }
            Err(error) => {
                self.ended = true;
                answer::failed(&convert::error(&error, Some(&self.request)))
            }
        };
        Some((Ok(part_bytes(frames, held)), self))
    }
}

/// Streams the events of a session as they are appended.
pub(super) async fn tail(
    State(server): Shared,
    Asking(who): Asking,
    InPath(session): InPath,
    QueryParams(query): QueryParams<FollowQuery>,
    headers: HeaderMap,
    stopping: Stopping,
    axum::Extension(request): axum::Extension<RequestId>,
) -> Result<Response, Refusal> {
    let _admitted = server.admit(&who)?;
    let caller = caller_of(&who);
    let from =
        last_event_id(&headers)?.map(Point::At).or(values::point("from", query.from.as_deref())?);
    let follow = server.app.service.follow(&caller, &session, from.as_ref(), None).await?;
    let follow = follow.only(values::types(&query.types)?)?;
    let heartbeat = server.app.options.heartbeat;
    let (begun, ended) = (false, false);
    let (request, stop) = (request.as_str().to_owned(), stopping.token());
    let source = BoundedFollow { follow, room: Arc::clone(&server.streams) };
    let reader = Tail { session, source, heartbeat, stop, request, begun, ended, _admitted };
    let headers = [
        (header::CONTENT_TYPE.as_str(), SSE),
        (header::CACHE_CONTROL.as_str(), "no-store, no-transform"),
        ("x-accel-buffering", "no"),
    ];
    Ok((headers, Body::from_stream(stream::unfold(reader, Tail::frames))).into_response())
}

/// Exports a whole session: as JSON lines, one event each, or in another program's format.
pub(super) async fn export(
    State(server): Shared,
    Asking(who): Asking,
    Who(caller): Who,
    InPath(session): InPath,
    QueryParams(ExportQuery { format }): QueryParams<ExportQuery>,
) -> Result<Response, Refusal> {
    let _admitted = server.admit(&who)?;
    let format = format.as_deref().unwrap_or("jsonl");
    let end = server.app.service.resolve(&caller, &session, &Point::End).await?;
    let begin = Point::At(crate::event::Position::ZERO);
    let follow = server.app.service.follow(&caller, &session, Some(&begin), Some(end)).await?;
    let source = BoundedFollow { follow, room: Arc::clone(&server.streams) };
    let mut exported = Export { source, first: None, _admitted };
    if format != "jsonl" {
        let bytes = server.app.service.get_session(&caller, &session).await?.bytes;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        // The events and their text are in memory at the same time.
        let held = server.room.ask(bytes.saturating_mul(2)).await?;
        return exported.export_converted(&server, format, held).await;
    }
    // The first step is read before the answer begins, so that a damaged session is an error.
    exported.first = exported.step().await?;
    let lines = Body::from_stream(stream::unfold(exported, Export::lines));
    Ok(([(header::CONTENT_TYPE, NDJSON)], lines).into_response())
}

/// An export being sent.
struct Export {
    source: BoundedFollow,
    first: Option<Found>,
    _admitted: Reader,
}

/// Events, the gaps among them, and their reserved memory.
type Found = (Vec<Event>, Vec<Gap>, Option<Held>);

impl Export {
    /// Returns the next events; `None` at the end.
    async fn step(&mut self) -> Result<Option<Found>, ServiceError> {
        match self.source.step(Duration::ZERO).await? {
            (Step::Slice { events, gaps }, held) => Ok(Some((events, gaps, held))),
            (Step::Quiet(_) | Step::End, _) => Ok(None),
        }
    }

    /// Returns the next lines. An error breaks off the answer, which the client detects. The next
    /// step is read once these are sent: no export waits for memory that it holds itself.
    async fn lines(mut self) -> Option<(Result<Bytes, io::Error>, Self)> {
        let found = match self.first.take() {
            Some(found) => Ok(Some(found)),
            None => self.step().await,
        };
        match found {
            Ok(found) => {
                let (events, gaps, held) = found?;
                Some((Ok(part_bytes(answer::lines(&events, &gaps), held)), self))
            }
            Err(error) => Some((Err(io::Error::other(error)), self)),
        }
    }

    async fn export_converted(
        mut self,
        server: &Server,
        format: &str,
        held: Held,
    ) -> Result<Response, Refusal> {
        let Some(exporter) = server.app.options.exporters.get(format) else {
            let names: Vec<&str> =
                server.app.options.exporters.keys().map(String::as_str).chain(["jsonl"]).collect();
            return Err(Refusal::invalid("format", format!("one of {}", names.join(", "))));
        };
        let mut events = Vec::new();
        while let Some((more, ..)) = self.step().await? {
            events.extend(more);
        }
        let text = Body::from(held.answer(exporter(events)?));
        Ok(([(header::CONTENT_TYPE, NDJSON)], text).into_response())
    }
}
