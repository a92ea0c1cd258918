//! A server reached by HTTP, for a proxy whose client is on streams: each message becomes a POST,
//! and the response (JSON, or a stream of server-sent events) becomes lines again. It must not
//! parse a message beyond what the transport needs.

use std::{io, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, StreamExt as _};
use reqwest::{
    Method, Response,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    sync::{Notify, oneshot},
    task::JoinSet,
};
use url::Url;

use super::{
    ProxyOptions,
    lines::{LINE_BYTES_MAX, LinePiece, LineReader},
    message::{self, RpcMessage},
    state::{AnswerSource, MessageSource, ProxyCall, ProxyState},
};
use crate::{
    client::{Client, SseEvents},
    env::sync::Mutex,
    wire::rpc::{self, MessageOutline, RpcPart},
};

const CHANNEL: &str = "stdio";
const SESSION: &str = "mcp-session-id";
const REVISION: &str = "mcp-protocol-version";
const LAST_EVENT: &str = "last-event-id";
const META_REVISION: &str = "io.modelcontextprotocol/protocolVersion";
const STREAM: &str = "text/event-stream";
/// The default wait before a stream that ended is opened again.
const RETRY: Duration = Duration::from_secs(1);
/// The shortest and the longest wait that a server may set.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(60);
/// Maximum number of times a stream is opened again without a new event.
const RETRIES_MAX: u32 = 5;
const CLOSE_PATIENCE: Duration = Duration::from_secs(10);
/// Time limit of pending calls after the client has left, and then of the last request to the
/// server.
const GRACE: Duration = Duration::from_secs(3);
/// Maximum time for which a message that must not be overtaken delays the next one.
const ORDER: Duration = Duration::from_secs(30);
const CONNECT: Duration = Duration::from_secs(10);

/// Address of a server by HTTP.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// URL of the MCP endpoint.
    pub url: Url,
    /// Headers of every request, such as credentials.
    pub headers: Vec<(String, String)>,
}

impl Upstream {
    /// Converts the headers.
    ///
    /// # Errors
    /// A header that cannot be sent.
    pub(super) fn header_map(&self) -> io::Result<HeaderMap> {
        let mut map = HeaderMap::new();
        for (name, value) in &self.headers {
            let name = HeaderName::try_from(name.as_str()).map_err(io::Error::other)?;
            let mut value = HeaderValue::try_from(value.as_str()).map_err(io::Error::other)?;
            value.set_sensitive(true);
            map.insert(name, value);
        }
        Ok(map)
    }

    pub(super) fn build_client(&self) -> io::Result<reqwest::Client> {
        let builder = reqwest::Client::builder().default_headers(self.header_map()?);
        let builder = builder.connect_timeout(CONNECT);
        builder.redirect(reqwest::redirect::Policy::none()).build().map_err(io::Error::other)
    }
}

/// Wraps a server by HTTP for a client on a pair of streams, until the client closes or `stop`
/// completes.
///
/// # Errors
/// The streams of the client break, or a header cannot be sent.
pub async fn wrap_http_server<R, W>(
    streams: (R, W),
    upstream: &Upstream,
    client: Client,
    options: ProxyOptions,
    stop: impl Future<Output = ()>,
) -> io::Result<()>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let link = Arc::new(UpstreamLink {
        durable: options.durable,
        notify: Arc::clone(&options.notify),
        state: ProxyState::new(client, options),
        http: upstream.build_client()?,
        url: upstream.url.clone(),
        to_client: tokio::sync::Mutex::new(streams.1),
        known: Mutex::default(),
        opened: Notify::new(),
    });
    let mut stop = std::pin::pin!(stop.fuse());
    let mut under_way = JoinSet::new();
    let listening = tokio::spawn({
        let link = Arc::clone(&link);
        async move { link.read_server_stream().await }
    });
    let read = tokio::select! {
        read = link.forward_from_client(LineReader::new(streams.0), &mut under_way) => read,
        () = &mut stop => Ok(()),
    };
    let answered = async { while under_way.join_next().await.is_some() {} };
    tokio::select! {
        _ = tokio::time::timeout(GRACE, answered) => {}
        // A second stop ends the wait.
        () = &mut stop => {}
    }
    under_way.shutdown().await;
    listening.abort();
    link.close_connection().await;
    link.state.finish();
    link.state.recorder.close(CLOSE_PATIENCE).await;
    read
}

/// Message being sent to the server, with the members that the transport needs.
#[derive(Default)]
struct OutgoingMessage {
    method: Option<String>,
    id: Option<Value>,
    name: Option<String>,
    revision: Option<String>,
    /// Dropped to let the next message be sent.
    gate: Option<oneshot::Sender<()>>,
}

impl OutgoingMessage {
    fn parse(text: &str) -> Self {
        let mut messages = message::parse_messages(text);
        let message = messages.pop().filter(|_| !text.trim_start().starts_with('['));
        let Some(message) = message else { return Self::default() };
        let param = |name: &str| message::get_member(message.params?, name);
        let text = |name: &str| param(name).and_then(message::parse_string);
        let meta = param("_meta").and_then(|meta| message::get_member(meta, META_REVISION));
        Self {
            method: message.method(),
            id: message.id(),
            name: text("name").or_else(|| text("uri")),
            revision: meta.and_then(message::parse_string),
            gate: None,
        }
    }

    fn without_request() -> Self {
        Self::parse("")
    }

    /// Returns true for `initialize`: later messages must name the connection that it opens.
    fn is_initialize(&self) -> bool {
        self.method.as_deref() == Some("initialize")
    }

    /// Returns true if the server must answer the message.
    fn is_answered(&self) -> bool {
        self.id.is_some() && self.method.is_some()
    }

    /// Returns true if later messages must wait until the server has received this one.
    fn blocks_next(&self) -> bool {
        self.is_initialize() || !self.is_answered()
    }

    /// Lets the next message be sent.
    fn release_next(&mut self) {
        self.gate.take();
    }
}

/// The session and the protocol revision agreed with the server.
#[derive(Clone, Default)]
struct UpstreamSession {
    session: Option<String>,
    revision: Option<String>,
}

struct UpstreamLink<W> {
    state: ProxyState,
    http: reqwest::Client,
    url: Url,
    to_client: tokio::sync::Mutex<W>,
    durable: bool,
    notify: super::Notify,
    known: Mutex<UpstreamSession>,
    /// Signalled once a connection has a stream to read.
    opened: Notify,
}

impl<W: AsyncWrite + Send + Unpin + 'static> UpstreamLink<W> {
    fn known(&self) -> UpstreamSession {
        self.known.lock().clone()
    }

    /// Forwards the client's messages until it closes its side.
    async fn forward_from_client<R: AsyncRead + Unpin>(
        self: &Arc<Self>,
        mut lines: LineReader<R>,
        under_way: &mut JoinSet<()>,
    ) -> io::Result<()> {
        while let Some(piece) = lines.next().await? {
            while under_way.try_join_next().is_some() {}
            let line = match piece {
                LinePiece::Line(line) => line,
                LinePiece::Part(part, last) => {
                    self.refuse_long_message(part, last, &mut lines).await?;
                    continue;
                }
            };
            let text = String::from_utf8_lossy(&line).trim().to_owned();
            if text.is_empty() {
                continue;
            }
            if let [RpcPart::Broken(cut)] = rpc::split_messages(&text)[..]
                && let MessageOutline { id: Some(id), is_answer: false, .. } =
                    MessageOutline::from_text(cut)
            {
                let said = "a message that is no JSON was not sent";
                self.write_line(&rpc::error_response(Some(&id), rpc::NOT_JSON, said)).await;
                continue;
            }
            let (gate, through) = oneshot::channel();
            let exchange = OutgoingMessage { gate: Some(gate), ..OutgoingMessage::parse(&text) };
            let blocks_next = exchange.blocks_next();
            let link = Arc::clone(self);
            // In order: a read after a write must not see the state before it.
            let from = MessageSource { channel: CHANNEL, ..MessageSource::default() };
            let call = self.state.inspect_client_message(&from, &text).decide;
            under_way.spawn(async move { link.send_message(&text, call, exchange).await });
            if blocks_next {
                let _ = tokio::time::timeout(ORDER, through).await;
            }
        }
        Ok(())
    }

    /// Answers a message that is too long with an error, after reading all of it.
    async fn refuse_long_message<R: AsyncRead + Unpin>(
        &self,
        mut part: Vec<u8>,
        mut last: bool,
        lines: &mut LineReader<R>,
    ) -> io::Result<()> {
        let mut outline = MessageOutline::default();
        outline.push(&part);
        while !last {
            let Some(LinePiece::Part(next, end)) = lines.next().await? else { break };
            (part, last) = (next, end);
            outline.push(&part);
        }
        let said = format!("a message of more than {LINE_BYTES_MAX} bytes was not sent");
        match outline.id {
            Some(id) if outline.has_method => {
                self.write_line(&rpc::error_response(Some(&id), rpc::NO_REQUEST, &said)).await;
            }
            _ => (self.notify)(&said),
        }
        Ok(())
    }

    /// Sends one message of the client, and handles its response.
    async fn send_message(
        &self,
        text: &str,
        call: Option<Box<ProxyCall>>,
        mut exchange: OutgoingMessage,
    ) {
        if let Some(call) = call {
            let ask = |ask: String| async move {
                self.post_message(&ask, &mut OutgoingMessage::parse(&ask)).await
            };
            match self.state.decide(call, ask).await {
                AnswerSource::Answer(answer) => return self.write_line(&answer).await,
                AnswerSource::Cancelled => return,
                AnswerSource::Server => {}
            }
        }
        self.post_message(text, &mut exchange).await;
    }

    fn build_request(
        &self,
        method: Method,
        exchange: Option<&OutgoingMessage>,
    ) -> reqwest::RequestBuilder {
        let known = self.known();
        let mut request = self.http.request(method, self.url.clone());
        if let Some(session) = known.session {
            request = request.header(SESSION, session);
        }
        let newer = exchange.and_then(|exchange| exchange.revision.as_ref());
        if let Some(revision) = newer.or(known.revision.as_ref()) {
            request = request.header(REVISION, revision);
        }
        if let (Some(exchange), Some(_)) = (exchange, newer) {
            if let Some(method) = &exchange.method {
                request = request.header("mcp-method", method);
            }
            if let Some(name) = &exchange.name {
                request = request.header("mcp-name", encode_header(name));
            }
        }
        request
    }

    async fn post_message(&self, text: &str, exchange: &mut OutgoingMessage) {
        let request = self.build_request(Method::POST, Some(exchange));
        let request = request
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, format!("application/json, {STREAM}"))
            .body(text.to_owned());
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => {
                return self.answer_failure(exchange, &format!("the server: {error}")).await;
            }
        };
        if exchange.is_initialize()
            && let Some(session) = response.headers().get(SESSION).and_then(|it| it.to_str().ok())
        {
            let mut known = self.known.lock();
            known.session = Some(session.to_owned());
        }
        if !exchange.is_answered() {
            // The server has received the message: the next one need not wait, even if the stream
            // stays open.
            exchange.release_next();
        }
        let status = response.status();
        if is_stream(&response) {
            return self.follow_stream(response, exchange).await;
        }
        let (body, rest) = read_body(response).await.unwrap_or_default();
        if rest.is_some() {
            let said = format!("the server's answer is longer than {LINE_BYTES_MAX} bytes");
            return self.answer_failure(exchange, &said).await;
        }
        let body = String::from_utf8_lossy(&body);
        let says = |one: &RpcMessage<'_>| one.result.is_some() || one.error.is_some();
        let answers =
            body.trim_start().starts_with('[') || message::parse_messages(&body).iter().any(says);
        if answers && exchange.id.is_some() {
            self.forward_message(&body, exchange).await;
        } else if exchange.is_answered() || !status.is_success() {
            let said = format!("the server answered with HTTP status {status}");
            self.answer_failure(exchange, &said).await;
        }
    }

    /// Reads a stream of the server until the answer; reopens a stream that breaks off.
    async fn follow_stream(&self, response: Response, exchange: &mut OutgoingMessage) {
        let mut events = SseEvents::default();
        let mut answered = self.read_stream(response, &mut events, exchange).await;
        for _ in 0..RETRIES_MAX {
            let Some(last) = events.last_id.clone().filter(|_| !answered && exchange.is_answered())
            else {
                break;
            };
            tokio::time::sleep(reopen_delay(events.retry)).await;
            let again = self.build_request(Method::GET, None).header(ACCEPT, STREAM);
            match again.header(LAST_EVENT, last).send().await {
                Ok(response) if is_stream(&response) => {
                    answered = self.read_stream(response, &mut events, exchange).await;
                }
                _ => break,
            }
        }
        if !answered {
            self.answer_failure(exchange, "the server's stream ended without an answer").await;
        }
    }

    /// Reads a stream; returns true if it contained the answer.
    async fn read_stream(
        &self,
        response: Response,
        events: &mut SseEvents,
        exchange: &mut OutgoingMessage,
    ) -> bool {
        let mut bytes = response.bytes_stream();
        let mut answered = false;
        while let Some(Ok(chunk)) = bytes.next().await {
            for event in events.push(&chunk) {
                if !event.data.is_empty() {
                    answered |= self.forward_message(&event.data, exchange).await;
                }
            }
        }
        answered
    }

    /// Reads the stream of messages that the server initiates; returns if the server has none.
    async fn read_server_stream(&self) {
        self.opened.notified().await;
        let mut events = SseEvents::default();
        loop {
            let mut request = self.build_request(Method::GET, None).header(ACCEPT, STREAM);
            if let Some(last) = &events.last_id {
                request = request.header(LAST_EVENT, last);
            }
            match request.send().await {
                Ok(response) if is_stream(&response) => {
                    self.read_stream(
                        response,
                        &mut events,
                        &mut OutgoingMessage::without_request(),
                    )
                    .await;
                }
                _ => return,
            }
            tokio::time::sleep(reopen_delay(events.retry)).await;
        }
    }

    /// Forwards a message of the server; returns true if it answers the request.
    async fn forward_message(&self, text: &str, exchange: &mut OutgoingMessage) -> bool {
        let text = text.replace(['\n', '\r'], " ");
        let is_answer = |one: &RpcMessage<'_>| !one.has_method() && one.id() == exchange.id;
        let answer = message::parse_messages(&text).into_iter().next().filter(is_answer);
        let answers = exchange.id.is_some() && answer.is_some();
        if answers && exchange.is_initialize() {
            let revision =
                answer.and_then(|one| message::get_member(one.result?, "protocolVersion"));
            self.known.lock().revision = revision.and_then(message::parse_string);
        }
        let back = self.state.inspect_server_message(CHANNEL, &text);
        for record in back.records.iter().filter(|_| self.durable) {
            self.state.recorder.wait_until_durable(record, CLOSE_PATIENCE).await;
        }
        if !back.answers_proxy {
            self.write_line(back.changed.as_deref().unwrap_or(&text)).await;
        }
        if answers {
            exchange.release_next();
            if exchange.is_initialize() && self.known().session.is_some() {
                // The server's own messages are forwarded after its answer.
                self.opened.notify_one();
            }
        }
        answers || text.trim_start().starts_with('[')
    }

    async fn answer_failure(&self, exchange: &mut OutgoingMessage, reason: &str) {
        let Some(id) = exchange.id.clone().filter(|_| exchange.is_answered()) else { return };
        let error = json!({ "code": -32000, "message": reason });
        let answer = json!({ "jsonrpc": "2.0", "id": id, "error": error });
        self.forward_message(&answer.to_string(), exchange).await;
    }

    async fn write_line(&self, line: &str) {
        let mut to = self.to_client.lock().await;
        // A write error is ignored: the loss of the client ends the read of its input.
        let _ = to.write_all(format!("{line}\n").as_bytes()).await;
        let _ = to.flush().await;
    }

    async fn close_connection(&self) {
        if self.known().session.is_some() {
            let leave = self.build_request(Method::DELETE, None).send();
            let _ = tokio::time::timeout(GRACE, leave).await;
        }
    }
}

/// Returns the wait before a stream is opened again, from the server's request if it has one.
fn reopen_delay(asked: Option<Duration>) -> Duration {
    asked.unwrap_or(RETRY).clamp(RETRY_MIN, RETRY_MAX)
}

/// Reads the body of an answer; above the size limit of a message, returns its beginning and the
/// response with the rest.
pub(super) async fn read_body(
    mut response: Response,
) -> reqwest::Result<(Vec<u8>, Option<Response>)> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        body.extend_from_slice(&chunk);
        if body.len() > LINE_BYTES_MAX {
            return Ok((body, Some(response)));
        }
    }
    Ok((body, None))
}

pub(super) fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    response.status().is_success() && kind.is_some_and(|kind| kind.starts_with(STREAM))
}

/// Encodes a name as a header value: unchanged if it is plain, else in base64.
fn encode_header(name: &str) -> String {
    use base64::Engine as _;
    let plain = name.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        && name.trim() == name
        && !name.starts_with("=?base64?");
    if plain {
        return name.to_owned();
    }
    format!("=?base64?{}?=", base64::engine::general_purpose::STANDARD.encode(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reopen_delay_that_a_server_sets_is_clamped() {
        let millis = Duration::from_millis;
        for (asked, waits) in [
            (None, RETRY),
            (Some(Duration::ZERO), RETRY_MIN),
            (Some(millis(1)), RETRY_MIN),
            (Some(millis(2_500)), millis(2_500)),
            (Some(millis(u64::MAX)), RETRY_MAX),
        ] {
            assert_eq!(reopen_delay(asked), waits, "{asked:?}");
        }
    }
}
