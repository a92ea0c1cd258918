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
    Options,
    lines::{LINE_BYTES_MAX, Lines, Piece},
    message::{self, Message},
    state::{Decision, ProxyCall, ProxyState, Whence},
};
use crate::{
    client::{Client, SseEvents},
    env::sync::Mutex,
    wire::rpc::{self, Outline, Part},
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
/// Most times a stream is opened again without a new event.
const RETRIES_MAX: u32 = 5;
const LAST_WORDS: Duration = Duration::from_secs(10);
/// Time limit of pending calls after the client has left, and then of the last request to the
/// server.
const GRACE: Duration = Duration::from_secs(3);
/// Longest time for which a message that must not be overtaken delays the next.
const ORDER: Duration = Duration::from_secs(30);
const CONNECT: Duration = Duration::from_secs(10);

/// Address of a server by HTTP.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// Its address.
    pub url: Url,
    /// Headers of every request, such as credentials.
    pub headers: Vec<(String, String)>,
}

impl Upstream {
    /// Returns the headers.
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

    pub(super) fn http(&self) -> io::Result<reqwest::Client> {
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
pub async fn with_upstream<R, W>(
    streams: (R, W),
    upstream: &Upstream,
    client: Client,
    options: Options,
    stop: impl Future<Output = ()>,
) -> io::Result<()>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let link = Arc::new(Link {
        durable: options.durable,
        notify: Arc::clone(&options.notify),
        state: ProxyState::new(client, options),
        http: upstream.http()?,
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
        read = link.forward_from_client(Lines::new(streams.0), &mut under_way) => read,
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
    link.end_connection().await;
    link.state.end();
    link.state.recorder.close(LAST_WORDS).await;
    read
}

/// A message on its way to the server, with the parts that the transport needs.
#[derive(Default)]
struct Exchange {
    method: Option<String>,
    id: Option<Value>,
    name: Option<String>,
    revision: Option<String>,
    /// Dropped to let the next message be sent.
    gate: Option<oneshot::Sender<()>>,
}

impl Exchange {
    fn parse(text: &str) -> Self {
        let mut messages = message::read(text);
        let message = messages.pop().filter(|_| !text.trim_start().starts_with('['));
        let Some(message) = message else { return Self::default() };
        let param = |name: &str| message::member(message.params?, name);
        let text = |name: &str| param(name).and_then(message::text);
        let meta = param("_meta").and_then(|meta| message::member(meta, META_REVISION));
        Self {
            method: message.method(),
            id: message.id(),
            name: text("name").or_else(|| text("uri")),
            revision: meta.and_then(message::text),
            gate: None,
        }
    }

    fn without_sender() -> Self {
        Self::parse("")
    }

    /// Returns true if it opens a connection: later messages must name that connection.
    fn opens(&self) -> bool {
        self.method.as_deref() == Some("initialize")
    }

    /// Returns true if the server must answer it.
    fn is_answered(&self) -> bool {
        self.id.is_some() && self.method.is_some()
    }

    /// Returns true if later messages must wait for it.
    fn waits(&self) -> bool {
        self.opens() || !self.is_answered()
    }

    /// Lets the next message be sent.
    fn release_next(&mut self) {
        self.gate.take();
    }
}

/// The session and the protocol revision agreed with the server.
#[derive(Clone, Default)]
struct Known {
    session: Option<String>,
    revision: Option<String>,
}

struct Link<W> {
    state: ProxyState,
    http: reqwest::Client,
    url: Url,
    to_client: tokio::sync::Mutex<W>,
    durable: bool,
    notify: super::Notify,
    known: Mutex<Known>,
    /// Signalled once a connection has a stream to read.
    opened: Notify,
}

impl<W: AsyncWrite + Send + Unpin + 'static> Link<W> {
    fn known(&self) -> Known {
        self.known.lock().clone()
    }

    /// Forwards the client's messages until it closes its side.
    async fn forward_from_client<R: AsyncRead + Unpin>(
        self: &Arc<Self>,
        mut lines: Lines<R>,
        under_way: &mut JoinSet<()>,
    ) -> io::Result<()> {
        while let Some(piece) = lines.next().await? {
            while under_way.try_join_next().is_some() {}
            let line = match piece {
                Piece::Line(line) => line,
                Piece::Part(part, last) => {
                    self.refuse_long_message(part, last, &mut lines).await?;
                    continue;
                }
            };
            let text = String::from_utf8_lossy(&line).trim().to_owned();
            if text.is_empty() {
                continue;
            }
            if let [Part::Broken(cut)] = rpc::parts(&text)[..]
                && let Outline { id: Some(id), is_answer: false, .. } = Outline::of(cut)
            {
                let said = "a message that is no JSON was not sent";
                self.write_line(&rpc::refusal(Some(&id), rpc::NOT_JSON, said)).await;
                continue;
            }
            let (gate, through) = oneshot::channel();
            let exchange = Exchange { gate: Some(gate), ..Exchange::parse(&text) };
            let waits = exchange.waits();
            let link = Arc::clone(self);
            // In order: a read after a write must not see the state before it.
            let from = Whence { channel: CHANNEL, ..Whence::default() };
            let call = self.state.client_says(&from, &text).decide;
            under_way.spawn(async move { link.send_message(&text, call, exchange).await });
            if waits {
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
        lines: &mut Lines<R>,
    ) -> io::Result<()> {
        let mut outline = Outline::default();
        outline.push(&part);
        while !last {
            let Some(Piece::Part(next, end)) = lines.next().await? else { break };
            (part, last) = (next, end);
            outline.push(&part);
        }
        let said = format!("a message of more than {LINE_BYTES_MAX} bytes was not sent");
        match outline.id {
            Some(id) if outline.has_method => {
                self.write_line(&rpc::refusal(Some(&id), rpc::NO_REQUEST, &said)).await;
            }
            _ => (self.notify)(&said),
        }
        Ok(())
    }

    /// Sends one message of the client, and handles its response.
    async fn send_message(&self, text: &str, call: Option<Box<ProxyCall>>, mut exchange: Exchange) {
        if let Some(call) = call {
            let ask = |ask: String| async move {
                self.post_message(&ask, &mut Exchange::parse(&ask)).await
            };
            match self.state.decide(call, ask).await {
                Decision::Answer(answer) => return self.write_line(&answer).await,
                Decision::Nobody => return,
                Decision::Server => {}
            }
        }
        self.post_message(text, &mut exchange).await;
    }

    fn request(&self, method: Method, exchange: Option<&Exchange>) -> reqwest::RequestBuilder {
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
                request = request.header("mcp-name", header_text(name));
            }
        }
        request
    }

    async fn post_message(&self, text: &str, exchange: &mut Exchange) {
        let request = self.request(Method::POST, Some(exchange));
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
        if exchange.opens()
            && let Some(session) = response.headers().get(SESSION).and_then(|it| it.to_str().ok())
        {
            let mut known = self.known.lock();
            known.session = Some(session.to_owned());
        }
        if !exchange.is_answered() {
            // The server has received it: the next message need not wait, even if the stream stays
            // open.
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
        let says = |one: &Message<'_>| one.result.is_some() || one.error.is_some();
        let answers = body.trim_start().starts_with('[') || message::read(&body).iter().any(says);
        if answers && exchange.id.is_some() {
            self.forward_message(&body, exchange).await;
        } else if exchange.is_answered() || !status.is_success() {
            let said = format!("the server answered with HTTP status {status}");
            self.answer_failure(exchange, &said).await;
        }
    }

    /// Reads a stream of the server until the answer; reopens one that breaks off.
    async fn follow_stream(&self, response: Response, exchange: &mut Exchange) {
        let mut events = SseEvents::default();
        let mut answered = self.read(response, &mut events, exchange).await;
        for _ in 0..RETRIES_MAX {
            let Some(last) = events.last_id.clone().filter(|_| !answered && exchange.is_answered())
            else {
                break;
            };
            tokio::time::sleep(reopen_wait(events.retry)).await;
            let again = self.request(Method::GET, None).header(ACCEPT, STREAM);
            match again.header(LAST_EVENT, last).send().await {
                Ok(response) if is_stream(&response) => {
                    answered = self.read(response, &mut events, exchange).await;
                }
                _ => break,
            }
        }
        if !answered {
            self.answer_failure(exchange, "the server's stream ended without an answer").await;
        }
    }

    /// Reads a stream; returns true if it contained the answer.
    async fn read(
        &self,
        response: Response,
        events: &mut SseEvents,
        exchange: &mut Exchange,
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

    /// Reads the server's own stream; ends at once if the server has none.
    async fn read_server_stream(&self) {
        self.opened.notified().await;
        let mut events = SseEvents::default();
        loop {
            let mut request = self.request(Method::GET, None).header(ACCEPT, STREAM);
            if let Some(last) = &events.last_id {
                request = request.header(LAST_EVENT, last);
            }
            match request.send().await {
                Ok(response) if is_stream(&response) => {
                    self.read(response, &mut events, &mut Exchange::without_sender()).await;
                }
                _ => return,
            }
            tokio::time::sleep(reopen_wait(events.retry)).await;
        }
    }

    /// Forwards a message of the server; returns true if it answers the request.
    async fn forward_message(&self, text: &str, exchange: &mut Exchange) -> bool {
        let text = text.replace(['\n', '\r'], " ");
        let is_answer = |one: &Message<'_>| !one.has_method() && one.id() == exchange.id;
        let answer = message::read(&text).into_iter().next().filter(is_answer);
        let answers = exchange.id.is_some() && answer.is_some();
        if answers && exchange.opens() {
            let revision = answer.and_then(|one| message::member(one.result?, "protocolVersion"));
            self.known.lock().revision = revision.and_then(message::text);
        }
        let back = self.state.server_says(CHANNEL, &text);
        for record in back.records.iter().filter(|_| self.durable) {
            self.state.recorder.durable(record, LAST_WORDS).await;
        }
        if !back.ours {
            self.write_line(back.changed.as_deref().unwrap_or(&text)).await;
        }
        if answers {
            exchange.release_next();
            if exchange.opens() && self.known().session.is_some() {
                // The server's own messages are forwarded after its answer.
                self.opened.notify_one();
            }
        }
        answers || text.trim_start().starts_with('[')
    }

    async fn answer_failure(&self, exchange: &mut Exchange, reason: &str) {
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

    async fn end_connection(&self) {
        if self.known().session.is_some() {
            let leave = self.request(Method::DELETE, None).send();
            let _ = tokio::time::timeout(GRACE, leave).await;
        }
    }
}

/// Returns the wait before a stream is opened again, from the server's request if it has one.
fn reopen_wait(asked: Option<Duration>) -> Duration {
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

/// Returns a name as a header value: unchanged, or in the encoding of the protocol.
fn header_text(name: &str) -> String {
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
    fn the_reopen_wait_of_a_server_is_clamped() {
        let millis = Duration::from_millis;
        for (asked, waits) in [
            (None, RETRY),
            (Some(Duration::ZERO), RETRY_MIN),
            (Some(millis(1)), RETRY_MIN),
            (Some(millis(2_500)), millis(2_500)),
            (Some(millis(u64::MAX)), RETRY_MAX),
        ] {
            assert_eq!(reopen_wait(asked), waits, "{asked:?}");
        }
    }
}
