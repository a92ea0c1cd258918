//! Answers that go on: the tail of a session as server-sent events, and a whole session as JSON
//! lines. A stream ends with `done` when the server stops, so that a client knows it may come back.
//! It must not buffer more than one step of a reader.

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
    Door, Shared,
    body::{InPath, Who, last_event_id},
    describe::Refusals,
    gate::{Asking, reader, reading},
    guard::RequestId,
    hold::Held,
    params::Params,
    refuse::Refusal,
    serve::Stopping,
};
use crate::{
    access::{Principal, Reading},
    event::{Event, Point, SessionId},
    service::{Code, Follow, Gap, ServiceError, Step},
    wire::{answer, convert},
};

impl Door {
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
                    .action("come back later, or end streams that nobody reads");
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

/// A client of a stream.
struct Tail {
    session: SessionId,
    follow: Follow,
    heartbeat: Duration,
    stop: CancellationToken,
    request: String,
    begun: bool,
    ended: bool,
    _admitted: Reader,
}

impl Tail {
    /// The next frames; `None` ends the stream. The first is a heartbeat, sent at once, so that a
    /// client knows from which position on it will miss nothing.
    async fn frames(mut self) -> Option<(Result<Bytes, io::Error>, Self)> {
        if self.ended {
            return None;
        }
        if !std::mem::replace(&mut self.begun, true) {
            return Some((Ok(answer::ping(self.follow.tail()).into()), self));
        }
        let step = tokio::select! {
            biased;
            () = self.stop.cancelled() => Ok(Step::End),
            step = self.follow.step(self.heartbeat) => step,
        };
        let frames = match step {
            Ok(Step::Slice { events, gaps }) => answer::frames(&events, &gaps),
            Ok(Step::Quiet(tail)) => answer::ping(tail),
            Ok(Step::End) => {
                self.ended = true;
                answer::done(self.follow.next_position())
            }
            Err(error) if error.code == Code::SessionDeleted => {
                self.ended = true;
                answer::deleted(&self.session, self.follow.now())
            }
            Err(error) => {
                self.ended = true;
                answer::failed(&convert::error(&error, Some(&self.request)))
            }
        };
        Some((Ok(frames.into()), self))
    }
}

/// The session as it grows: live from the tail, unless told from where.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/events/stream", operation_id = "streamEvents", tag = "events",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("from" = Option<String>, Query, description = "Point of the first event; the tail when not said"),
        ("types[]" = Option<Vec<String>>, Query, description = "Only these types"),
        ("Last-Event-ID" = Option<u64>, Header, description = "Position of the last event seen; takes the place of from"),
    ),
    responses(
        (status = 200, description = "Server-sent events: `event` is the type, `id` the position; `ping` carries the tail, `gap` names events that are lost for good, `session.deleted` ends the stream of a session that is deleted, `done` comes before the server ends it", body = String, content_type = "text/event-stream"),
        Refusals
    )
)]
pub(super) async fn tail(
    State(door): Shared,
    Asking(who): Asking,
    InPath(session): InPath,
    params: Params,
    headers: HeaderMap,
    stopping: Stopping,
    axum::Extension(request): axum::Extension<RequestId>,
) -> Result<Response, Refusal> {
    let _admitted = door.admit(&who)?;
    let caller = reading(&who);
    let from = last_event_id(&headers)?.map(Point::At).or(params.point("from")?);
    let follow = door.app.service.follow(&caller, &session, from.as_ref(), None).await?;
    let follow = follow.only(params.types()?);
    let heartbeat = door.app.options.heartbeat;
    let (begun, ended) = (false, false);
    let (request, stop) = (request.as_str().to_owned(), stopping.token());
    let reader = Tail { session, follow, heartbeat, stop, request, begun, ended, _admitted };
    let headers = [
        (header::CONTENT_TYPE.as_str(), "text/event-stream"),
        (header::CACHE_CONTROL.as_str(), "no-store, no-transform"),
        ("x-accel-buffering", "no"),
    ];
    Ok((headers, Body::from_stream(stream::unfold(reader, Tail::frames))).into_response())
}

/// A whole session: as JSON lines, one event each, or in another program's format.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/export", operation_id = "exportSession", tag = "events",
    params(
        ("session" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description = "The session's id"),
        ("format" = Option<String>, Query, description = "jsonl when not said, or another configured format"),
    ),
    responses(
        (status = 200, description = "The events up to the tail as it was when the request came; a line of the type `gap` where some are lost for good", body = String, content_type = "application/x-ndjson"),
        Refusals
    )
)]
pub(super) async fn export(
    State(door): Shared,
    Asking(who): Asking,
    Who(caller): Who,
    InPath(session): InPath,
    params: Params,
) -> Result<Response, Refusal> {
    let _admitted = door.admit(&who)?;
    let format = params.text("format")?.unwrap_or("jsonl");
    let end = door.app.service.resolve(&caller, &session, &Point::End).await?;
    let begin = Point::At(crate::event::Position::ZERO);
    let follow = door.app.service.follow(&caller, &session, Some(&begin), Some(end)).await?;
    let mut exported = Export { follow, next: None, _admitted };
    if format != "jsonl" {
        let bytes = door.app.service.get_session(&caller, &session).await?.bytes;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        // The events and their text are in memory together.
        let held = door.room.ask(bytes.saturating_mul(2)).await?;
        return exported.converted(&door, format, held).await;
    }
    // The first step is taken before the answer begins, so that a damaged session is an error.
    exported.next = exported.step().await?;
    let lines = Body::from_stream(stream::unfold(exported, Export::lines));
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], lines).into_response())
}

/// A session on its way out.
struct Export {
    follow: Follow,
    next: Option<Found>,
    _admitted: Reader,
}

/// Events, and what is lost for good among them.
type Found = (Vec<Event>, Vec<Gap>);

impl Export {
    /// What comes next; `None` at the end.
    async fn step(&mut self) -> Result<Option<Found>, ServiceError> {
        match self.follow.step(Duration::ZERO).await? {
            Step::Slice { events, gaps } => Ok(Some((events, gaps))),
            Step::Quiet(_) | Step::End => Ok(None),
        }
    }

    /// The next lines. A failure breaks the answer off, which the client sees as such.
    async fn lines(mut self) -> Option<(Result<Bytes, io::Error>, Self)> {
        let (events, gaps) = self.next.take()?;
        let lines = answer::lines(&events, &gaps);
        match self.step().await {
            Ok(next) => self.next = next,
            Err(error) => return Some((Err(io::Error::other(error)), self)),
        }
        Some((Ok(lines.into()), self))
    }

    async fn converted(
        mut self,
        door: &Door,
        format: &str,
        held: Held,
    ) -> Result<Response, Refusal> {
        let Some(exporter) = door.app.options.exporters.get(format) else {
            let names: Vec<&str> =
                door.app.options.exporters.keys().map(String::as_str).chain(["jsonl"]).collect();
            return Err(Refusal::invalid("format", format!("one of {}", names.join(", "))));
        };
        let mut events = Vec::new();
        while let Some((more, _)) = self.step().await? {
            events.extend(more);
        }
        let text = Body::from(held.answer(exporter(events)?));
        Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], text).into_response())
    }
}
