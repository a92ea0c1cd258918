//! The append stream: reads lines with batches and writes lines with answers, for an unlimited
//! time. Batches in progress are bounded; at the bound nothing is read, so that a client that sends
//! too fast, or reads no answers, waits. It must not order or join batches: service does.

use std::{io, time::Duration};

use axum::{
    body::{Body, BodyDataStream, Bytes},
    extract::{FromRequest, Request, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use bytes::{Buf as _, BytesMut};
use futures_util::{FutureExt as _, StreamExt as _, stream};
use tokio_util::sync::CancellationToken;

use super::{
    Shared,
    body::{RequestCaller, has_media_type},
    gate::{RequestPrincipal, acquire_reader_slot},
    guard::RequestId,
    params::QueryParams,
    refuse::HttpError,
    serve::StopSignal,
};
use crate::{
    access::TenantSlot,
    event::Origin,
    service::{BatchFlow, Code, FlowAnswer, FlowRequest, ServiceError},
    verbs::events::AppendQuery,
    wire::{
        NDJSON,
        answer::{self, LineLabel},
        json,
    },
};

/// Request body that is read as it arrives.
pub(super) struct AppendBody {
    body: BodyDataStream,
    /// Bytes that the client sent before it can receive an answer.
    first: Option<Bytes>,
}

impl<S: Send + Sync> FromRequest<S> for AppendBody {
    type Rejection = HttpError;

    async fn from_request(request: Request, _: &S) -> Result<Self, HttpError> {
        if !has_media_type(request.headers(), NDJSON) {
            let error = ServiceError::invalid("content-type", format!("{NDJSON} is expected"));
            return Err(HttpError::with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, error));
        }
        // A client that expects `100 Continue` gets it once its body is read, which must be before
        // the answer begins.
        let asks = request.headers().contains_key(header::EXPECT);
        let mut body = request.into_body().into_data_stream();
        let first = if asks { body.next().await.and_then(Result::ok) } else { None };
        Ok(Self { body, first })
    }
}

/// Appends batches to many sessions and answers each once it is durable; one answer line for each
/// line, in order for each session.
pub(super) async fn append(
    State(server): Shared,
    RequestPrincipal(who): RequestPrincipal,
    RequestCaller(caller): RequestCaller,
    QueryParams(AppendQuery { create }): QueryParams<AppendQuery>,
    stopping: StopSignal,
    axum::Extension(request): axum::Extension<RequestId>,
    AppendBody { body, first }: AppendBody,
) -> Result<Response, HttpError> {
    let appending = AppendStreamState {
        flow: server.app.service.flow(&caller, create),
        origin: caller.origin,
        body,
        unread: BytesMut::from(first.unwrap_or_default()),
        searched: 0,
        line: 0,
        line_bytes_max: server.app.options.body_bytes_max,
        too_long: false,
        input: InputState::Open,
        idle: server.app.options.append_idle,
        stop: stopping.token(),
        request,
        _reader_slot: acquire_reader_slot(&who)?,
    };
    let answers = Body::from_stream(stream::unfold(appending, AppendStreamState::next_answers));
    let headers = [(header::CONTENT_TYPE.as_str(), NDJSON), ("x-accel-buffering", "no")];
    Ok((headers, answers).into_response())
}

/// Returns the byte offset of the first line break. Scans whole blocks first, then the bytes of
/// one.
fn find_line_break(bytes: &[u8]) -> Option<usize> {
    let blocks = bytes.chunks(256).position(|block| block.contains(&b'\n'))? * 256;
    let rest = bytes.get(blocks..)?.iter();
    rest.enumerate().find(|(_, byte)| **byte == b'\n').map(|(at, _)| blocks + at)
}

/// Number and reference of a line, for its answer.
struct LineTag {
    line: u64,
    reference: Option<Box<str>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum InputState {
    Open,
    /// The body is complete: the bytes after the last line break are a line.
    Whole,
    /// The body broke off, or is no longer read: the bytes after the last line break are dropped.
    Cut,
}

struct AppendStreamState {
    flow: BatchFlow<LineTag>,
    origin: Origin,
    body: BodyDataStream,
    unread: BytesMut,
    /// Bytes at the front of `unread` that hold no line break.
    searched: usize,
    /// Number of lines processed.
    line: u64,
    line_bytes_max: usize,
    /// True if the line at the front was refused for its length; its rest is skipped.
    too_long: bool,
    input: InputState,
    idle: Duration,
    stop: CancellationToken,
    request: RequestId,
    /// Slot among the tenant's readers, held until the stream ends.
    _reader_slot: Option<TenantSlot>,
}

impl AppendStreamState {
    /// Returns the next answers; `None` at the end.
    async fn next_answers(mut self) -> Option<(Result<Bytes, io::Error>, Self)> {
        let mut out = Vec::new();
        loop {
            let more = self.process_lines(&mut out);
            while let Some(Some(answered)) = self.flow.next().now_or_never() {
                self.write_answers(answered, &mut out);
            }
            if !out.is_empty() {
                return Some((Ok(out.into()), self));
            }
            if !more && self.flow.is_empty() {
                if self.input != InputState::Open {
                    return None;
                }
            } else if more && self.flow.has_capacity() {
                continue;
            }
            self.wait(&mut out, !more).await;
        }
    }

    /// Waits for an answer, for input if `may_read`, for the server to stop, or for the idle time.
    async fn wait(&mut self, out: &mut Vec<u8>, may_read: bool) {
        let open = self.input == InputState::Open;
        let quiet = self.flow.is_empty();
        tokio::select! {
            biased;
            Some(answered) = self.flow.next(), if !quiet => self.write_answers(answered, out),
            chunk = self.body.next(), if open && may_read => match chunk {
                Some(Ok(chunk)) => self.unread.extend_from_slice(&chunk),
                Some(Err(_)) => self.input = InputState::Cut,
                None => self.input = InputState::Whole,
            },
            () = self.stop.cancelled(), if open => self.input = InputState::Cut,
            () = tokio::time::sleep(self.idle), if quiet && open => self.input = InputState::Cut,
        }
    }

    /// Processes complete lines while the flow has capacity; returns true if some are left.
    fn process_lines(&mut self, out: &mut Vec<u8>) -> bool {
        loop {
            let rest = self.unread.get(self.searched..).unwrap_or_default();
            let end = find_line_break(rest).map(|at| self.searched + at);
            let Some(end) = end else { break };
            self.searched = end;
            if !self.flow.has_capacity() {
                return true;
            }
            let line = self.unread.split_to(end);
            self.unread.advance(1);
            self.searched = 0;
            self.process_line(&line, out);
        }
        self.searched = self.unread.len();
        if self.input == InputState::Whole && !self.unread.is_empty() {
            if !self.flow.has_capacity() {
                return true;
            }
            let line = std::mem::take(&mut self.unread);
            self.process_line(&line, out);
        } else if self.unread.len() > self.line_bytes_max {
            self.refuse_long_line(out);
            self.unread.clear();
        }
        self.searched = self.unread.len();
        false
    }

    /// Processes one line, without its line break.
    fn process_line(&mut self, line: &[u8], out: &mut Vec<u8>) {
        if line.len() > self.line_bytes_max {
            self.refuse_long_line(out);
        }
        if std::mem::take(&mut self.too_long) {
            return;
        }
        self.line += 1;
        if line.trim_ascii().is_empty() {
            return;
        }
        let number = self.line;
        let text = match json::check_utf8(line) {
            Ok(text) => text,
            Err(error) => {
                let label = LineLabel { number, reference: None, session: None };
                return answer::write_line_refused(out, &label, &error, self.request.as_str());
            }
        };
        let read = json::parse_append_line(text, self.origin);
        match (read.session, read.batch) {
            (Some(session), batch) => {
                let tag = LineTag { line: number, reference: read.reference.map(Box::from) };
                self.flow.push(FlowRequest { tag, session, batch });
            }
            (None, batch) => {
                let error = batch
                    .err()
                    .unwrap_or_else(|| ServiceError::invalid("session", "it is missing"));
                let label = LineLabel { number, reference: read.reference, session: None };
                answer::write_line_refused(out, &label, &error, self.request.as_str());
            }
        }
    }

    /// Refuses a line that exceeds the length limit, once.
    fn refuse_long_line(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.too_long, true) {
            return;
        }
        self.line += 1;
        let message = format!("the line is longer than {} bytes", self.line_bytes_max);
        let error = ServiceError::new(Code::BodyTooLarge, message)
            .action("send the events as several batches");
        let label = LineLabel { number: self.line, reference: None, session: None };
        answer::write_line_refused(out, &label, &error, self.request.as_str());
    }

    fn write_answers(&self, answered: Vec<FlowAnswer<LineTag>>, out: &mut Vec<u8>) {
        for FlowAnswer { tag, session, result } in answered {
            let reference = tag.reference.as_deref();
            let label = LineLabel { number: tag.line, reference, session: Some(&session) };
            match result {
                Ok(appended) => answer::write_appended(out, &label, &appended),
                Err(error) => {
                    answer::write_line_refused(out, &label, &error, self.request.as_str())
                }
            }
        }
    }
}
