//! The proxy on HTTP, in front of a server on HTTP: what comes goes on with its headers, what comes
//! back comes back, streams as streams. It must not answer for the server but where a tool of ours
//! or a remembered answer is asked for.

use std::{
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
    extract::{Request, State},
    http::{HeaderMap, HeaderName, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use futures_util::StreamExt as _;
use tokio::net::TcpListener;
use url::Url;

use super::{
    Options,
    desk::{Decision, Desk, Toward},
    lines::LINE_BYTES_MAX,
    sse::Events,
    upstream::{Upstream, is_stream},
};
use crate::client::Client;

/// Header of a connection.
const CONNECTION: &str = "mcp-session-id";
/// Header by which a client says which session of ours it is in.
const SESSION: &str = "sessionlog-session";
/// Headers that are of one hop.
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
const DURABLE_PATIENCE: Duration = Duration::from_secs(10);
const LAST_WORDS: Duration = Duration::from_secs(10);

struct Front {
    desk: Desk,
    http: reqwest::Client,
    url: Url,
    durable: bool,
    /// Names for requests that belong to no connection.
    alone: AtomicU64,
}

/// Serves HTTP on a listener in front of a server on HTTP, until told to stop.
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
        desk: Desk::new(client, options),
        http: upstream.http()?,
        url: upstream.url.clone(),
        alone: AtomicU64::new(0),
    });
    let router = Router::new().fallback(pass).with_state(Arc::clone(&front));
    let serving = axum::serve(listener, router);
    tokio::select! {
        served = serving.into_future() => served?,
        () = stop => {}
    }
    front.desk.recorder.close(LAST_WORDS).await;
    Ok(())
}

async fn pass(State(front): State<Arc<Front>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if !is_local(&parts.headers, header::HOST) || !is_local(&parts.headers, header::ORIGIN) {
        // The server behind would see our name where a stranger's stands.
        return (StatusCode::FORBIDDEN, "this host or origin may not ask here").into_response();
    }
    let Ok(body) = axum::body::to_bytes(body, LINE_BYTES_MAX).await else {
        return (StatusCode::PAYLOAD_TOO_LARGE, "the message is too long").into_response();
    };
    let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let connection = text(CONNECTION).map(|name| name.replace(' ', "-"));
    let place = connection.clone().unwrap_or_default();
    let channel = connection
        .unwrap_or_else(|| format!("alone-{}", front.alone.fetch_add(1, Ordering::Relaxed)));
    let said = std::str::from_utf8(&body).unwrap_or_default();
    let toward = front.desk.client_says(&channel, text(SESSION), &place, said);
    if let Toward::Decide(call) = toward {
        let mut decision = front.desk.decide(call.clone()).await;
        if let Decision::Probe(ask) = decision {
            front.probe(&parts, &channel, ask).await;
            front.desk.probed().await;
            decision = front.desk.decide(call).await;
        }
        match decision {
            Decision::Answer(answer) => {
                return ([(header::CONTENT_TYPE, "application/json")], answer).into_response();
            }
            Decision::Nobody | Decision::Probe(_) => return StatusCode::ACCEPTED.into_response(),
            Decision::Server => {}
        }
    }
    match front.forward(&parts, body).send().await {
        Ok(response) => front.back(response, channel).await,
        Err(error) => (StatusCode::BAD_GATEWAY, format!("the server: {error}")).into_response(),
    }
}

/// Whether a header names this machine, or is not there.
fn is_local(headers: &HeaderMap, name: HeaderName) -> bool {
    let Some(value) = headers.get(name) else { return true };
    let text = value.to_str().unwrap_or_default();
    let address = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let host = Url::parse(&address).ok().and_then(|url| url.host_str().map(str::to_owned));
    host.is_some_and(|host| matches!(&*host, "localhost" | "127.0.0.1" | "[::1]"))
}

impl Front {
    fn forward(&self, parts: &axum::http::request::Parts, body: Bytes) -> reqwest::RequestBuilder {
        let mut url = self.url.clone();
        if let Some(query) = parts.uri.query() {
            url.set_query(Some(query));
        }
        let mut headers = parts.headers.clone();
        OF_A_HOP.iter().for_each(|name| {
            headers.remove(name);
        });
        // It means our address to the client, and nothing to the server.
        headers.remove(header::ORIGIN);
        self.http.request(parts.method.clone(), url).headers(headers).body(body)
    }

    /// Asks the server for its tools, as the client whose call waits for that.
    async fn probe(&self, parts: &axum::http::request::Parts, channel: &str, ask: String) {
        let mut parts = parts.clone();
        parts.headers.remove("mcp-name");
        if let Some(method) = parts.headers.get_mut("mcp-method") {
            *method = header::HeaderValue::from_static("tools/list");
        }
        if let Ok(response) = self.forward(&parts, ask.into()).send().await {
            let body = response.text().await.unwrap_or_default();
            let mut events = Events::default();
            let mut answers = vec![body.clone()];
            answers.extend(events.push(body.as_bytes()).into_iter().map(|event| event.data));
            answers.iter().for_each(|answer| {
                self.desk.server_says(channel, answer);
            });
        }
    }

    /// What the server answers, on its way to the client.
    async fn back(self: Arc<Self>, response: reqwest::Response, channel: String) -> Response {
        let status = response.status();
        let mut headers = response.headers().clone();
        OF_A_HOP.iter().for_each(|name| {
            headers.remove(name);
        });
        let body = if is_stream(&response) {
            self.stream(response, channel)
        } else {
            let Ok(body) = response.bytes().await else {
                return StatusCode::BAD_GATEWAY.into_response();
            };
            Body::from(self.look(&channel, &body).await.map_or(body, Bytes::from))
        };
        (status, headers, body).into_response()
    }

    /// Looks at a message of the server; what goes on instead of it.
    async fn look(&self, channel: &str, message: &[u8]) -> Option<String> {
        let back = self.desk.server_says(channel, std::str::from_utf8(message).ok()?);
        if let Some(record) = back.record.filter(|_| self.durable) {
            self.desk.recorder.durable(record, DURABLE_PATIENCE).await;
        }
        back.changed
    }

    fn stream(self: Arc<Self>, response: reqwest::Response, channel: String) -> Body {
        let bytes = response.bytes_stream();
        let state = (self, channel, bytes, Events::default());
        let chunks = futures_util::stream::unfold(Some(state), |state| async move {
            let (front, channel, mut bytes, mut events) = state?;
            match bytes.next().await {
                Some(Ok(chunk)) => {
                    let mut out = Vec::new();
                    for event in events.push(&chunk) {
                        match front.look(&channel, event.data.as_bytes()).await {
                            Some(changed) => out.extend(event.with(&changed)),
                            None => out.extend(&event.raw),
                        }
                    }
                    Some((Ok(Bytes::from(out)), Some((front, channel, bytes, events))))
                }
                Some(Err(error)) => Some((Err(io::Error::other(error)), None)),
                None => {
                    let rest = events.rest();
                    Some((Ok(Bytes::from(rest)), None))
                }
            }
        });
        Body::from_stream(chunks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_may_be_named() {
        for (value, expected) in [
            ("localhost:8080", true),
            ("127.0.0.1", true),
            ("[::1]:1", true),
            ("http://localhost:3000", true),
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
