//! The proxy on HTTP, in front of a server on HTTP: forwards requests with their headers, answers,
//! and streams as streams. It must not answer for the server except for its own tools and reused
//! results.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{ConnectInfo, Request, State, connect_info::Connected},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts},
    response::{IntoResponse as _, Response},
    serve::IncomingStream,
};
use futures_util::StreamExt as _;
use tokio::net::TcpListener;
use url::Url;

use super::{
    ProxyOptions,
    lines::LINE_BYTES_MAX,
    message,
    state::{AnswerSource, MessageSource, ProxyState},
    upstream::{Upstream, is_stream, read_body},
};
use crate::{
    client::{Client, SseEvents},
    verbs::browser::{FETCH_SITE, is_cross_site, is_loopback},
    wire::rpc::MessageOutline,
};

/// Header with the id of an MCP transport session.
const CONNECTION: &str = "mcp-session-id";
/// Header in which a client names its sessionlog session.
const SESSION: &str = "sessionlog-session";
const HOP_HEADERS: [HeaderName; 8] = [
    header::CONNECTION,
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::ACCEPT_ENCODING,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
];
/// Headers of the request, not of the caller, besides those that start with `mcp-`.
const REQUEST_HEADERS: [&str; 4] = ["accept", "content-type", "last-event-id", SESSION];
const DURABLE_PATIENCE: Duration = Duration::from_secs(10);
const CLOSE_PATIENCE: Duration = Duration::from_secs(10);

struct HttpFront {
    state: ProxyState,
    http: reqwest::Client,
    url: Url,
    durable: bool,
    /// Counter for the names of channels of requests without an MCP session.
    alone: AtomicU64,
}

/// Serves HTTP on a listener and forwards to a server on HTTP, until `stop` completes.
///
/// # Errors
/// The listener fails, or a header is invalid.
pub async fn serve_http(
    listener: TcpListener,
    upstream: &Upstream,
    client: Client,
    options: ProxyOptions,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let front = Arc::new(HttpFront {
        durable: options.durable,
        state: ProxyState::new(client, options),
        http: upstream.build_client()?,
        url: upstream.url.clone(),
        alone: AtomicU64::new(0),
    });
    let router = Router::new().fallback(handle_request).with_state(Arc::clone(&front));
    let serving =
        axum::serve(listener, router.into_make_service_with_connect_info::<ConnectionNumber>());
    tokio::select! {
        served = serving.into_future() => served?,
        () = stop => {}
    }
    front.state.finish();
    front.state.recorder.close(CLOSE_PATIENCE).await;
    Ok(())
}

/// Number of a client's connection, unique in this process.
#[derive(Clone, Copy)]
struct ConnectionNumber(u64);

impl Connected<IncomingStream<'_, TcpListener>> for ConnectionNumber {
    fn connect_info(_: IncomingStream<'_, TcpListener>) -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        Self(MADE.fetch_add(1, Ordering::Relaxed))
    }
}

/// Answers that a client's request waits for. Dropped when the client disconnects: then the proxy
/// stops waiting for them.
struct AwaitedAnswers {
    front: Arc<HttpFront>,
    keys: Vec<String>,
}

impl Drop for AwaitedAnswers {
    fn drop(&mut self) {
        self.front.state.drop_pending(&self.keys);
    }
}

async fn handle_request(
    State(front): State<Arc<HttpFront>>,
    ConnectInfo(connection): ConnectInfo<ConnectionNumber>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let headers = &parts.headers;
    let sites = headers.get_all(FETCH_SITE).iter().map(HeaderValue::as_bytes);
    let is_foreign = is_cross_site(sites, headers.contains_key(header::ORIGIN));
    if is_foreign || !is_local(headers, header::HOST) || !is_local(headers, header::ORIGIN) {
        // The server cannot check this: the proxy replaces the name of the foreign host.
        return (StatusCode::FORBIDDEN, "this host or origin may not ask here").into_response();
    }
    let Ok(body) = axum::body::to_bytes(body, LINE_BYTES_MAX).await else {
        return (StatusCode::PAYLOAD_TOO_LARGE, "the message is too long").into_response();
    };
    let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let session = text(CONNECTION).map(|name| format!("session-{}", name.replace(' ', "-")));
    let client = session.clone().unwrap_or_else(|| format!("connection-{}", connection.0));
    let lasts = session.is_some();
    let channel =
        session.unwrap_or_else(|| format!("alone-{}", front.alone.fetch_add(1, Ordering::Relaxed)));
    let from = MessageSource {
        channel: &channel,
        session: text(SESSION),
        client: &client,
        caller: Some(caller_digest(&parts)),
    };
    let decision = front.state.inspect_client_message(&from, &String::from_utf8_lossy(&body));
    let mut expected = AwaitedAnswers { front: Arc::clone(&front), keys: decision.keys };
    if let Some(call) = decision.decide {
        match front.state.decide(call, |ask| front.list_tools(&parts, &channel, ask)).await {
            AnswerSource::Answer(answer) => {
                return ([(header::CONTENT_TYPE, "application/json")], answer).into_response();
            }
            AnswerSource::Cancelled => return StatusCode::ACCEPTED.into_response(),
            AnswerSource::Server => {}
        }
    }
    let response = match front.forward_request(&parts, body).send().await {
        Ok(response) => response,
        Err(error) => {
            return (StatusCode::BAD_GATEWAY, format!("the server: {error}")).into_response();
        }
    };
    if parts.method == Method::DELETE && response.status().is_success() {
        front.state.close_channel(&channel);
    }
    if lasts && is_stream(&response) {
        // Another request of the session may resume the stream.
        expected.keys.clear();
    }
    front.forward_answer(response, channel, expected).await
}

/// Returns a digest of the caller's headers and query, because an answer may depend on them. All
/// callers without credentials have the same digest.
fn caller_digest(parts: &Parts) -> u64 {
    let is_request_header = |name: &HeaderName| {
        HOP_HEADERS.contains(name)
            || REQUEST_HEADERS.contains(&name.as_str())
            || name.as_str().starts_with("mcp-")
    };
    let shown = parts.headers.iter().filter(|(name, _)| !is_request_header(name));
    let mut shown: Vec<_> = shown.map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    shown.sort_unstable();
    let mut hasher = DefaultHasher::new();
    (shown, parts.uri.query()).hash(&mut hasher);
    hasher.finish()
}

/// Returns true if every value of a header names this machine; also if it is absent.
fn is_local(headers: &HeaderMap, name: HeaderName) -> bool {
    headers.get_all(name).iter().all(|value| {
        let text = value.to_str().unwrap_or_default();
        let address = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        Url::parse(&address).is_ok_and(|url| url.host_str().is_some_and(is_loopback))
    })
}

impl HttpFront {
    fn forward_request(&self, parts: &Parts, body: Bytes) -> reqwest::RequestBuilder {
        let mut url = self.url.clone();
        if let Some(query) = parts.uri.query() {
            url.set_query(Some(query));
        }
        let mut headers = parts.headers.clone();
        HOP_HEADERS.iter().for_each(|name| {
            headers.remove(name);
        });
        // The header names this proxy's address, which is meaningless to the server.
        headers.remove(header::ORIGIN);
        self.http.request(parts.method.clone(), url).headers(headers).body(body)
    }

    /// Sends the request `ask` for the server's tools, with the headers of the pending call.
    async fn list_tools(&self, parts: &Parts, channel: &str, ask: String) {
        let mut parts = parts.clone();
        parts.headers.remove("mcp-name");
        if let Some(method) = parts.headers.get_mut("mcp-method") {
            *method = header::HeaderValue::from_static("tools/list");
        }
        if let Ok(response) = self.forward_request(&parts, ask.clone().into()).send().await {
            let (body, _) = read_body(response).await.unwrap_or_default();
            let body = String::from_utf8_lossy(&body).into_owned();
            let mut events = SseEvents::default();
            let mut answers = vec![body.clone()];
            answers.extend(events.push(body.as_bytes()).into_iter().map(|event| event.data));
            answers.iter().for_each(|answer| {
                self.state.inspect_server_message(channel, answer);
            });
        }
        // The response has ended: requests without an answer will not get one.
        let keys = message::parse_messages(&ask).into_iter().filter_map(|message| message.key());
        let keys: Vec<_> = keys.map(|id| format!("{channel} {id}")).collect();
        self.state.drop_pending(&keys);
    }

    /// Forwards an answer of the server to the client.
    async fn forward_answer(
        self: &Arc<Self>,
        response: reqwest::Response,
        channel: String,
        expected: AwaitedAnswers,
    ) -> Response {
        let status = response.status();
        let mut headers = response.headers().clone();
        HOP_HEADERS.iter().for_each(|name| {
            headers.remove(name);
        });
        let body = if is_stream(&response) {
            stream_events(response, channel, expected)
        } else {
            match read_body(response).await {
                Err(_) => return StatusCode::BAD_GATEWAY.into_response(),
                Ok((begin, Some(rest))) => stream_long_answer(begin, rest, channel, expected),
                Ok((body, None)) => {
                    let changed = self.inspect_answer(&channel, &body).await;
                    Body::from(changed.map_or(body, String::into_bytes))
                }
            }
        };
        (status, headers, body).into_response()
    }

    /// Inspects a message of the server; returns the text that replaces it, if any.
    async fn inspect_answer(&self, channel: &str, message: &[u8]) -> Option<String> {
        let back = self.state.inspect_server_message(channel, &String::from_utf8_lossy(message));
        for record in back.records.iter().filter(|_| self.durable) {
            self.state.recorder.wait_until_durable(record, DURABLE_PATIENCE).await;
        }
        back.changed
    }
}

/// Streams an answer that is too long to be inspected; `begin` is the part already read.
fn stream_long_answer(
    begin: Vec<u8>,
    rest: reqwest::Response,
    channel: String,
    expected: AwaitedAnswers,
) -> Body {
    let mut outline = MessageOutline::default();
    let begin = futures_util::stream::once(std::future::ready(Ok(Bytes::from(begin))));
    let chunks = begin.chain(rest.bytes_stream()).inspect(move |chunk| {
        let Ok(chunk) = chunk else { return };
        outline.push(chunk);
        if outline.is_whole {
            expected.front.state.record_long_message(&channel, &std::mem::take(&mut outline));
        }
    });
    Body::from_stream(chunks)
}

/// Forwards the server's events, one by one, until the client disconnects.
fn stream_events(response: reqwest::Response, channel: String, expected: AwaitedAnswers) -> Body {
    let state = (expected, channel, response.bytes_stream(), SseEvents::default());
    let state = (state, MessageOutline::default());
    let chunks = futures_util::stream::unfold(Some(state), |state| async move {
        let ((expected, channel, mut bytes, mut events), mut long) = state?;
        match bytes.next().await {
            Some(Ok(chunk)) => {
                let mut out = Vec::new();
                for event in events.push(&chunk) {
                    if event.data.is_empty() {
                        // A part of an event too long to be inspected, or an event without data.
                        long.push(&event.raw);
                        if long.is_whole {
                            let whole = std::mem::take(&mut long);
                            expected.front.state.record_long_message(&channel, &whole);
                        }
                        out.extend(&event.raw);
                        continue;
                    }
                    long = MessageOutline::default();
                    match expected.front.inspect_answer(&channel, event.data.as_bytes()).await {
                        Some(changed) => out.extend(event.with_data(&changed)),
                        None => out.extend(&event.raw),
                    }
                }
                Some((Ok(Bytes::from(out)), Some(((expected, channel, bytes, events), long))))
            }
            Some(Err(error)) => Some((Err(io::Error::other(error)), None)),
            None => Some((Ok(Bytes::from(events.take_rest())), None)),
        }
    });
    Body::from_stream(chunks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hosts_and_origins_of_this_machine_are_accepted() {
        for (value, expected) in [
            ("localhost:8080", true),
            ("127.0.0.1", true),
            ("[::1]:1", true),
            ("http://localhost:3000", true),
            ("LOCALHOST:1", true),
            ("127.0.0.2:1", true),
            ("evil.example.com", false),
            ("http://evil.example.com", false),
            ("localhost.evil.com", false),
            ("127.0.0.1@evil.com", false),
            ("null", false),
            ("", false),
        ] {
            let value = header::HeaderValue::from_str(value).expect("a header");
            let headers = HeaderMap::from_iter([(header::HOST, value.clone())]);
            assert_eq!(is_local(&headers, header::HOST), expected, "{value:?}");
        }
        assert!(is_local(&HeaderMap::new(), header::ORIGIN));
    }
}
