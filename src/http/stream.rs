//! Answers that are sent as they grow: the tail of a session as server-sent events, and a whole
//! session as JSON lines. A stream ends with `done` when the server stops, so that a client knows
//! it may come back.
//! It must not buffer more than one step of a reader, nor more of all readers than there is room
//! for: a client that opens streams and reads none of them does not fill the memory.

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
    /// Admits one more reader, or says that there are too many: of its tenant's, or of all.
    pub(super) fn admit(&self, who: &Principal) -> Result<Reader, Refusal> {
        let of_tenant = reader(who)?;
        let of_all = self.one_of_all()?;
        Ok(Reader { _of_tenant: of_tenant, _of_all: of_all })
    }

    fn one_of_all(&self) -> Result<OwnedSemaphorePermit, Refusal> {
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

/// A place among the readers, given back when dropped.
pub(super) struct Reader {
    _of_tenant: Option<Reading>,
    _of_all: OwnedSemaphorePermit,
}

/// Bytes of a part that needs no room: readers of small events never wait for one that is stuck.
const SMALL_BYTES: usize = 16 << 10;

/// A reader of a session, and the room that its parts take until the client has taken them.
struct BoundedFollow {
    follow: Follow,
    room: Arc<Room>,
}

/// The next step of a reader, and the room for it where it is large.
type Roomy = (Step, Option<Held>);

impl BoundedFollow {
    /// The next step. Where there is no room for it, it is dropped, and read again once there is:
    /// waiting takes no memory.
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

/// The bytes of a part, with the room they take.
fn part(bytes: Vec<u8>, held: Option<Held>) -> Bytes {
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
    /// The next frames; `None` ends the stream. The first is a heartbeat, sent at once, so that a
    /// client knows from which position on it misses nothing.
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
        Some((Ok(part(frames, held)), self))
    }
}

/// The session as it grows.
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

/// A whole session: as JSON lines, one event each, or in another program's format.
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
        // The events and their text are in memory together.
        let held = server.room.ask(bytes.saturating_mul(2)).await?;
        return exported.converted(&server, format, held).await;
    }
    // The first step is taken before the answer begins, so that a damaged session is an error.
    exported.first = exported.step().await?;
    let lines = Body::from_stream(stream::unfold(exported, Export::lines));
    Ok(([(header::CONTENT_TYPE, NDJSON)], lines).into_response())
}

/// A session on its way out.
struct Export {
    source: BoundedFollow,
    first: Option<Found>,
    _admitted: Reader,
}

/// Events, what is lost for good among them, and the room they take.
type Found = (Vec<Event>, Vec<Gap>, Option<Held>);

impl Export {
    /// Next events; `None` at the end.
    async fn step(&mut self) -> Result<Option<Found>, ServiceError> {
        match self.source.step(Duration::ZERO).await? {
            (Step::Slice { events, gaps }, held) => Ok(Some((events, gaps, held))),
            (Step::Quiet(_) | Step::End, _) => Ok(None),
        }
    }

    /// The next lines. A failure breaks the answer off, which the client sees as such. The next
    /// step is read once these are taken: no export waits for room that it holds itself.
    async fn lines(mut self) -> Option<(Result<Bytes, io::Error>, Self)> {
        let found = match self.first.take() {
            Some(found) => Ok(Some(found)),
            None => self.step().await,
        };
        match found {
            Ok(found) => {
                let (events, gaps, held) = found?;
                Some((Ok(part(answer::lines(&events, &gaps), held)), self))
            }
            Err(error) => Some((Err(io::Error::other(error)), self)),
        }
    }

    async fn converted(
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
