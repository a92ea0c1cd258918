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
    Options,
    lines::LINE_BYTES_MAX,
    message,
    state::{Decision, ProxyState, Whence},
    upstream::{Upstream, is_stream, read_body},
};
use crate::{
    client::{Client, SseEvents},
    verbs::browser::{FETCH_SITE, is_cross_site, is_loopback},
    wire::rpc::Outline,
};

/// Header with the id of an MCP transport session.
const CONNECTION: &str = "mcp-session-id";
/// Header in which a client names its sessionlog session.
const SESSION: &str = "sessionlog-session";
/// Hop-by-hop headers.
const OF_A_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::ACCEPT_ENCODING,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
];
/// Headers that describe the request and not the caller, besides those that start with `mcp-`.
const OF_A_REQUEST: [&str; 4] = ["accept", "content-type", "last-event-id", SESSION];
const DURABLE_PATIENCE: Duration = Duration::from_secs(10);
const LAST_WORDS: Duration = Duration::from_secs(10);

struct Front {
    state: ProxyState,
    http: reqwest::Client,
    url: Url,
    durable: bool,
    /// Counter that names the channels of requests without an MCP session.
    alone: AtomicU64,
}

/// Serves HTTP on a listener in front of a server on HTTP, until `stop` completes.
///
/// # Errors
/// The listener breaks, or a header cannot be sent.
pub async fn in_front_of(
    listener: TcpListener,
    upstream: &Upstream,
    client: Client,
    options: Options,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let front = Arc::new(Front {
        durable: options.durable,
        state: ProxyState::new(client, options),
        http: upstream.http()?,
        url: upstream.url.clone(),
        alone: AtomicU64::new(0),
    });
    let router = Router::new().fallback(handle_request).with_state(Arc::clone(&front));
    let serving = axum::serve(listener, router.into_make_service_with_connect_info::<Connection>());
    tokio::select! {
        served = serving.into_future() => served?,
        () = stop => {}
    }
    front.state.end();
    front.state.recorder.close(LAST_WORDS).await;
    Ok(())
}

/// Number of a client's connection.
#[derive(Clone, Copy)]
struct Connection(u64);

impl Connected<IncomingStream<'_, TcpListener>> for Connection {
    fn connect_info(_: IncomingStream<'_, TcpListener>) -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        Self(MADE.fetch_add(1, Ordering::Relaxed))
    }
}

/// The answers that a client's request waits for; when the client disconnects, it is dropped and
/// they are given up.
struct Expected {
    front: Arc<Front>,
    keys: Vec<String>,
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.front.state.given_up(&self.keys);
    }
}

async fn handle_request(
    State(front): State<Arc<Front>>,
    ConnectInfo(connection): ConnectInfo<Connection>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let headers = &parts.headers;
    let sites = headers.get_all(FETCH_SITE).iter().map(HeaderValue::as_bytes);
    let is_foreign = is_cross_site(sites, headers.contains_key(header::ORIGIN));
    if is_foreign || !is_local(headers, header::HOST) || !is_local(headers, header::ORIGIN) {
        // The server cannot check this: it would see this proxy's name instead of the foreign host.
        return (StatusCode::FORBIDDEN, "this host or origin may not ask here").into_response();
    }
    let Ok(body) = axum::body::to_bytes(body, LINE_BYTES_MAX).await else {
        return (StatusCode::PAYLOAD_TOO_LARGE, "the message is too long").into_response();
    };
    let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let session = text(CONNECTION).map(|name| format!("session-{}", name.replace(' ', "-")));
    let place = session.clone().unwrap_or_else(|| format!("connection-{}", connection.0));
    let lasts = session.is_some();
    let channel =
        session.unwrap_or_else(|| format!("alone-{}", front.alone.fetch_add(1, Ordering::Relaxed)));
    let from = Whence {
        channel: &channel,
        session: text(SESSION),
        place: &place,
        caller: Some(caller(&parts)),
    };
    let noted = front.state.client_says(&from, &String::from_utf8_lossy(&body));
    let mut expected = Expected { front: Arc::clone(&front), keys: noted.keys };
    if let Some(call) = noted.decide {
        match front.state.decide(call, |ask| front.ask(&parts, &channel, ask)).await {
            Decision::Answer(answer) => {
                return ([(header::CONTENT_TYPE, "application/json")], answer).into_response();
            }
            Decision::Nobody => return StatusCode::ACCEPTED.into_response(),
            Decision::Server => {}
        }
    }
    let response = match front.forward_request(&parts, body).send().await {
        Ok(response) => response,
        Err(error) => {
            return (StatusCode::BAD_GATEWAY, format!("the server: {error}")).into_response();
        }
    };
    if parts.method == Method::DELETE && response.status().is_success() {
        front.state.end_channel(&channel);
    }
    if lasts && is_stream(&response) {
        // Another request of the session may resume the stream.
        expected.keys.clear();
    }
    front.forward_answer(response, channel, expected).await
}

/// Returns a digest that identifies the caller: of the headers and the query, because an answer may
/// depend on them. All callers without credentials are one.
fn caller(parts: &Parts) -> u64 {
    let of_a_request = |name: &HeaderName| {
        OF_A_HOP.contains(name)
            || OF_A_REQUEST.contains(&name.as_str())
            || name.as_str().starts_with("mcp-")
    };
    let shown = parts.headers.iter().filter(|(name, _)| !of_a_request(name));
    let mut shown: Vec<_> = shown.map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    shown.sort_unstable();
    let mut hasher = DefaultHasher::new();
    (shown, parts.uri.query()).hash(&mut hasher);
    hasher.finish()
}

/// Returns true if a header names this machine, or is absent.
fn is_local(headers: &HeaderMap, name: HeaderName) -> bool {
    headers.get_all(name).iter().all(|value| {
        let text = value.to_str().unwrap_or_default();
        let address = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        Url::parse(&address).is_ok_and(|url| url.host_str().is_some_and(is_loopback))
    })
}

impl Front {
    fn forward_request(&self, parts: &Parts, body: Bytes) -> reqwest::RequestBuilder {
        let mut url = self.url.clone();
        if let Some(query) = parts.uri.query() {
            url.set_query(Some(query));
        }
        let mut headers = parts.headers.clone();
        OF_A_HOP.iter().for_each(|name| {
            headers.remove(name);
        });
        // The header names this proxy's address, which is meaningless to the server.
        headers.remove(header::ORIGIN);
        self.http.request(parts.method.clone(), url).headers(headers).body(body)
    }

    /// Lists the server's tools, on behalf of the client whose call is pending.
    async fn ask(&self, parts: &Parts, channel: &str, ask: String) {
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
                self.state.server_says(channel, answer);
            });
        }
        // Requests without an answer by now will never get one.
        let keys = message::read(&ask).into_iter().filter_map(|message| message.key());
        let keys: Vec<_> = keys.map(|id| format!("{channel} {id}")).collect();
        self.state.given_up(&keys);
    }

    /// Forwards an answer of the server to the client.
    async fn forward_answer(
        self: &Arc<Self>,
        response: reqwest::Response,
        channel: String,
        expected: Expected,
    ) -> Response {
        let status = response.status();
        let mut headers = response.headers().clone();
        OF_A_HOP.iter().for_each(|name| {
            headers.remove(name);
        });
        let body = if is_stream(&response) {
            stream(response, channel, expected)
        } else {
            match read_body(response).await {
                Err(_) => return StatusCode::BAD_GATEWAY.into_response(),
                Ok((begin, Some(rest))) => stream_long_answer(begin, rest, channel, expected),
                Ok((body, None)) => {
                    let changed = self.inspect(&channel, &body).await;
                    Body::from(changed.map_or(body, String::into_bytes))
                }
            }
        };
        (status, headers, body).into_response()
    }

    /// Inspects a message of the server; returns the text that replaces it, if any.
    async fn inspect(&self, channel: &str, message: &[u8]) -> Option<String> {
        let back = self.state.server_says(channel, &String::from_utf8_lossy(message));
        for record in back.records.iter().filter(|_| self.durable) {
            self.state.recorder.durable(record, DURABLE_PATIENCE).await;
        }
        back.changed
    }
}

/// Streams an answer that is too long to be inspected, starting with the part already read.
fn stream_long_answer(
    begin: Vec<u8>,
    rest: reqwest::Response,
    channel: String,
    expected: Expected,
) -> Body {
    let mut outline = Outline::default();
    let begin = futures_util::stream::once(std::future::ready(Ok(Bytes::from(begin))));
    let chunks = begin.chain(rest.bytes_stream()).inspect(move |chunk| {
        let Ok(chunk) = chunk else { return };
        outline.push(chunk);
        if outline.is_whole {
            expected.front.state.server_passed(&channel, &std::mem::take(&mut outline));
        }
    });
    Body::from_stream(chunks)
}

/// Streams the server's events, one by one, until the client disconnects.
fn stream(response: reqwest::Response, channel: String, expected: Expected) -> Body {
    let state = (expected, channel, response.bytes_stream(), SseEvents::default());
    let state = (state, Outline::default());
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
                            expected.front.state.server_passed(&channel, &whole);
                        }
                        out.extend(&event.raw);
                        continue;
                    }
                    long = Outline::default();
                    match expected.front.inspect(&channel, event.data.as_bytes()).await {
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
