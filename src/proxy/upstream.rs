//! A server that is reached by HTTP, for a proxy whose client is on streams: each message becomes a
//! POST, what comes back (JSON, or a stream of server-sent events) becomes lines again. It must not
//! look at a message beyond what the transport asks for.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::StreamExt as _;
use reqwest::{
    Method, Response,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    task::JoinSet,
};
use url::Url;

use super::{
    Options,
    desk::{Decision, Desk, Toward},
    lines::{Lines, Piece},
    sse::Events,
};
use crate::client::Client;

const CHANNEL: &str = "stdio";
const SESSION: &str = "mcp-session-id";
const REVISION: &str = "mcp-protocol-version";
const LAST_EVENT: &str = "last-event-id";
const META_REVISION: &str = "io.modelcontextprotocol/protocolVersion";
const STREAM: &str = "text/event-stream";
/// How long to wait before a stream that ended is taken up again, when the server does not say.
const RETRY: Duration = Duration::from_secs(1);
/// Times a stream is taken up again without anything new.
const RETRIES_MAX: u32 = 5;
const LAST_WORDS: Duration = Duration::from_secs(10);
const GRACE: Duration = Duration::from_secs(3);

/// A server by HTTP.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// Where it is.
    pub url: Url,
    /// Headers for every request, such as credentials.
    pub headers: Vec<(String, String)>,
}

impl Upstream {
    /// The headers.
    ///
    /// # Errors
    /// One that cannot be sent.
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
        builder.redirect(reqwest::redirect::Policy::none()).build().map_err(io::Error::other)
    }
}

/// Wraps a server by HTTP for a client on a pair of streams, until the client leaves.
///
/// # Errors
/// The streams of the client break, or a header cannot be sent.
pub async fn with_upstream<R, W>(
    streams: (R, W),
    upstream: &Upstream,
    client: Client,
    options: Options,
) -> io::Result<()>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let durable = options.durable;
    let link = Arc::new(Link {
        desk: Desk::new(client, options),
        http: upstream.http()?,
        url: upstream.url.clone(),
        to_client: tokio::sync::Mutex::new(streams.1),
        durable,
        known: Mutex::default(),
    });
    let mut lines = Lines::new(streams.0);
    let mut under_way = JoinSet::new();
    while let Some(piece) = lines.next().await? {
        while under_way.try_join_next().is_some() {}
        let Piece::Line(line) = piece else { continue };
        let text = String::from_utf8_lossy(&line).trim().to_owned();
        if text.is_empty() {
            continue;
        }
        let about = About::of(&text);
        let opens = about.method.as_deref() == Some("initialize");
        if about.waits() {
            link.say(&text, &about).await;
        } else {
            let link = Arc::clone(&link);
            under_way.spawn(async move { link.say(&text, &about).await });
        }
        if opens && link.known().session.is_some() {
            let link = Arc::clone(&link);
            // Ends with the client; a server without such a stream says so at once.
            under_way.spawn(async move { link.listen().await });
        }
    }
    link.goodbye().await;
    under_way.abort_all();
    link.desk.over(CHANNEL);
    link.desk.recorder.close(LAST_WORDS).await;
    Ok(())
}

/// What the transport wants to know of a message.
struct About {
    method: Option<String>,
    id: Option<Value>,
    name: Option<String>,
    revision: Option<String>,
}

impl About {
    fn of(text: &str) -> Self {
        let message: Value = serde_json::from_str(text).unwrap_or_default();
        let at = |path: &str| message.pointer(path).and_then(Value::as_str).map(str::to_owned);
        let meta = message.pointer("/params/_meta").and_then(|meta| meta.get(META_REVISION));
        Self {
            method: at("/method"),
            id: message.get("id").filter(|id| !id.is_null()).cloned(),
            name: at("/params/name").or_else(|| at("/params/uri")),
            revision: meta.and_then(Value::as_str).map(str::to_owned),
        }
    }

    /// Whether what comes after it may not overtake it.
    fn waits(&self) -> bool {
        self.id.is_none() || self.method.is_none() || self.method.as_deref() == Some("initialize")
    }
}

/// What was agreed on with the server.
#[derive(Clone, Default)]
struct Known {
    session: Option<String>,
    revision: Option<String>,
}

struct Link<W> {
    desk: Desk,
    http: reqwest::Client,
    url: Url,
    to_client: tokio::sync::Mutex<W>,
    durable: bool,
    known: Mutex<Known>,
}

impl<W: AsyncWrite + Send + Unpin> Link<W> {
    fn known(&self) -> Known {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// One message of the client, and everything that comes of it.
    async fn say(&self, text: &str, about: &About) {
        if let Toward::Decide(call) = self.desk.client_says(CHANNEL, None, "", text) {
            let mut decision = self.desk.decide(call.clone()).await;
            if let Decision::Probe(ask) = decision {
                self.post(
                    &ask,
                    &About { method: Some("tools/list".to_owned()), ..About::of(&ask) },
                )
                .await;
                self.desk.probed().await;
                decision = self.desk.decide(call).await;
            }
            match decision {
                Decision::Answer(answer) => return self.tell(&answer).await,
                Decision::Nobody | Decision::Probe(_) => return,
                Decision::Server => {}
            }
        }
        self.post(text, about).await;
    }

    fn request(&self, method: Method, about: Option<&About>) -> reqwest::RequestBuilder {
        let known = self.known();
        let mut request = self.http.request(method, self.url.clone());
        if let Some(session) = known.session {
            request = request.header(SESSION, session);
        }
        let newer = about.and_then(|about| about.revision.as_ref());
        if let Some(revision) = newer.or(known.revision.as_ref()) {
            request = request.header(REVISION, revision);
        }
        if let (Some(about), Some(_)) = (about, newer) {
            if let Some(method) = &about.method {
                request = request.header("mcp-method", method);
            }
            if let Some(name) = &about.name {
                request = request.header("mcp-name", header_text(name));
            }
        }
        request
    }

    async fn post(&self, text: &str, about: &About) {
        let request = self.request(Method::POST, Some(about));
        let request = request
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, format!("application/json, {STREAM}"))
            .body(text.to_owned());
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => return self.failed(about, &format!("the server: {error}")).await,
        };
        if about.method.as_deref() == Some("initialize")
            && let Some(session) = response.headers().get(SESSION).and_then(|it| it.to_str().ok())
        {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.session = Some(session.to_owned());
        }
        let status = response.status();
        if is_stream(&response) {
            return self.follow(response, about).await;
        }
        let body = response.text().await.unwrap_or_default();
        let answers = serde_json::from_str::<Value>(&body).is_ok_and(|body| {
            body.is_array() || body.get("result").is_some() || body.get("error").is_some()
        });
        if answers && about.id.is_some() {
            self.hear(&body, about).await;
        } else if !status.is_success() {
            self.failed(about, &format!("the server answered with HTTP status {status}")).await;
        }
    }

    /// A stream of the server's, until it has answered; one that breaks off is taken up again.
    async fn follow(&self, response: Response, about: &About) {
        let mut events = Events::default();
        let mut answered = self.read(response, &mut events, about).await;
        for _ in 0..RETRIES_MAX {
            let Some(last) = events.last_id.clone().filter(|_| !answered && about.id.is_some())
            else {
                break;
            };
            tokio::time::sleep(events.retry.unwrap_or(RETRY)).await;
            let again = self.request(Method::GET, None).header(ACCEPT, STREAM);
            match again.header(LAST_EVENT, last).send().await {
                Ok(response) if is_stream(&response) => {
                    answered = self.read(response, &mut events, about).await;
                }
                _ => break,
            }
        }
        if !answered {
            self.failed(about, "the server's stream ended without an answer").await;
        }
    }

    /// Reads a stream; whether the answer was in it.
    async fn read(&self, response: Response, events: &mut Events, about: &About) -> bool {
        let mut bytes = response.bytes_stream();
        let mut answered = false;
        while let Some(Ok(chunk)) = bytes.next().await {
            for event in events.push(&chunk) {
                if !event.data.is_empty() {
                    answered |= self.hear(&event.data, about).await;
                }
            }
        }
        answered
    }

    /// What the server says without being asked, for as long as it does.
    async fn listen(&self) {
        let mut events = Events::default();
        let nobody = About { method: None, id: None, name: None, revision: None };
        loop {
            let mut request = self.request(Method::GET, None).header(ACCEPT, STREAM);
            if let Some(last) = &events.last_id {
                request = request.header(LAST_EVENT, last);
            }
            match request.send().await {
                Ok(response) if is_stream(&response) => {
                    self.read(response, &mut events, &nobody).await;
                }
                _ => return,
            }
            tokio::time::sleep(events.retry.unwrap_or(RETRY)).await;
        }
    }

    /// A message of the server; whether it answers the request it came for.
    async fn hear(&self, text: &str, about: &About) -> bool {
        let text = text.replace(['\n', '\r'], " ");
        let message: Value = serde_json::from_str(&text).unwrap_or_default();
        let answers = about.id.is_some()
            && message.get("method").is_none()
            && message.get("id") == about.id.as_ref();
        if answers
            && about.method.as_deref() == Some("initialize")
            && let Some(revision) = message.pointer("/result/protocolVersion")
        {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.revision = revision.as_str().map(str::to_owned);
        }
        let back = self.desk.server_says(CHANNEL, &text);
        if let Some(record) = back.record.filter(|_| self.durable) {
            self.desk.recorder.durable(record, LAST_WORDS).await;
        }
        if !back.ours {
            self.tell(back.changed.as_deref().unwrap_or(&text)).await;
        }
        answers || message.is_array()
    }

    async fn failed(&self, about: &About, reason: &str) {
        let Some(id) = &about.id else { return };
        if about.method.is_none() {
            return;
        }
        let error = json!({ "code": -32000, "message": reason });
        let answer = json!({ "jsonrpc": "2.0", "id": id, "error": error });
        self.hear(&answer.to_string(), about).await;
    }

    async fn tell(&self, line: &str) {
        let mut to = self.to_client.lock().await;
        // A client that is gone is noticed by what it no longer says.
        let _ = to.write_all(format!("{line}\n").as_bytes()).await;
        let _ = to.flush().await;
    }

    async fn goodbye(&self) {
        if self.known().session.is_some() {
            let leave = self.request(Method::DELETE, None).send();
            let _ = tokio::time::timeout(GRACE, leave).await;
        }
    }
}

pub(super) fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    response.status().is_success() && kind.is_some_and(|kind| kind.starts_with(STREAM))
}

/// A name as a header takes it: as it is, or as the protocol writes what is not.
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
