//! Input of requests: bodies within their limit, headers, ids in paths. Parsed here once, trusted
//! afterwards. It must not depend on a particular verb.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, BodyDataStream, Bytes, HttpBody as _},
    extract::{FromRequest, FromRequestParts, RawPathParams, Request},
    http::{HeaderMap, StatusCode, header, request::Parts},
};
use futures_util::{FutureExt as _, Stream, StreamExt as _};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, value::RawValue};

use super::{Server, gate::Asking, hold::Held, refuse::Refusal, strict};
use crate::{
    event::{BatchKey, Fence, Origin, Position, SessionId},
    service::{self, Caller, Code, ServiceError},
    wire::{PROTOBUF, fitted::fitted, json, schema},
};

/// Longest pause of a client while it sends a body.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Bytes of a parsed JSON value, estimated from the sizes of its types for lists of one empty list.
const VALUE_BYTES: usize = 512;
/// Size below which a tree takes no more memory than a connection's buffers.
const TREE_BYTES_SMALL: usize = 64 << 10;

/// The media type of most bodies.
const JSON: &str = "application/json";

/// Header in which a front end names its kind; only the kind `import` has an effect.
const ORIGIN_HEADER: &str = "sessionlog-origin";

/// The caller of a request, by its credential alone.
pub(super) struct Who(pub(super) Caller);

impl FromRequestParts<Arc<Server>> for Who {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, server: &Arc<Server>) -> Result<Self, Refusal> {
        let Asking(who) = Asking::from_request_parts(parts, server).await?;
        // An import of other programs' transcripts is a client of this interface, and sends this.
        let imports = parts.headers.get(ORIGIN_HEADER).is_some_and(|value| value == "import");
        let origin = if imports { Origin::Import } else { Origin::Harness };
        Ok(Self(Caller { scope: who.scope.clone(), origin, fence: fence(&parts.headers)? }))
    }
}

/// The session that a path names.
pub(super) struct InPath(pub(super) SessionId);

impl<S: Send + Sync> FromRequestParts<S> for InPath {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        session_id(&path_parameter(parts, state, "session").await?).map(Self)
    }
}

/// The name in a path after its session.
pub(super) struct NameInPath(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for NameInPath {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        path_parameter(parts, state, "name").await.map(Self)
    }
}

/// Returns a part of the path, decoded.
async fn path_parameter<S: Send + Sync>(
    parts: &mut Parts,
    state: &S,
    wanted: &str,
) -> Result<String, Refusal> {
    let params = RawPathParams::from_request_parts(parts, state).await;
    let params = params.map_err(|_| Refusal::invalid(wanted, "its name is not UTF-8"))?;
    let text = params.iter().find(|(name, _)| *name == wanted).map(|(_, text)| text);
    Ok(text.unwrap_or_default().to_owned())
}

/// Parses a session's id; the refusal describes the format of an id.
pub(super) fn session_id(text: &str) -> Result<SessionId, Refusal> {
    service::session_id(text).map_err(Refusal::from)
}

/// The bytes of a body, and whether they are protobuf.
pub(super) struct Payload {
    pub(super) bytes: Bytes,
    pub(super) protobuf: bool,
    /// True if its client may send members that are not stored.
    pub(super) hosted: bool,
}

impl FromRequest<Arc<Server>> for Payload {
    type Rejection = Refusal;

    async fn from_request(request: Request, server: &Arc<Server>) -> Result<Self, Refusal> {
        let protobuf = is_of(request.headers(), PROTOBUF);
        if !protobuf && !is_of(request.headers(), JSON) {
            return Err(unsupported_media_type());
        }
        let hosted = strict::is_hosted(request.headers(), request.uri());
        let bytes = read(request, server.app.options.body_bytes_max).await?;
        Ok(Self { bytes, protobuf, hosted })
    }
}

/// A JSON body, and the memory reserved for its tree until the request is answered. An empty body
/// without a content type is the empty object.
pub(super) struct JsonBody<T>(pub(super) T, pub(super) Option<Held>);

impl<T: DeserializeOwned + JsonSchema> FromRequest<Arc<Server>> for JsonBody<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, server: &Arc<Server>) -> Result<Self, Refusal> {
        let json = is_of(request.headers(), JSON);
        let hosted = strict::is_hosted(request.headers(), request.uri());
        let bytes = read(request, server.app.options.body_bytes_max).await?;
        if bytes.is_empty() {
            return decode("{}").map(|body| Self(body, None));
        }
        if !json {
            return Err(unsupported_media_type());
        }
        let text = json::utf8(&bytes)?;
        json::check(text)?;
        let room = room_of_tree(server, &bytes).await?;
        let text = &*json::paired(text);
        if !hosted {
            strict::members::<T>(text)?;
        }
        decode(text).map(|body| Self(body, room))
    }
}

/// Reserves memory for the tree of a JSON text; refuses one with too many values.
pub(super) async fn room_of_tree(server: &Server, text: &[u8]) -> Result<Option<Held>, Refusal> {
    let bytes = json::values(text)?.saturating_mul(VALUE_BYTES);
    if bytes <= TREE_BYTES_SMALL {
        return Ok(None);
    }
    Ok(Some(server.trees.ask(bytes).await?))
}

/// Decodes checked JSON; the refusal names the member that does not fit.
fn decode<T: DeserializeOwned + JsonSchema>(text: &str) -> Result<T, Refusal> {
    // Serde accepts a list for a struct: its elements in the order of the fields.
    if !text.trim_start().starts_with('{') {
        return Err(Refusal::invalid("body", "an object is expected"));
    }
    serde_json::from_str(text).map_err(|error| {
        let problem = error.to_string();
        let missing = |problem: &str| {
            let name = problem.strip_prefix("missing field `")?.split('`').next()?;
            Some(name.to_owned())
        };
        if let Some(name) = missing(&problem) {
            return Refusal::invalid(&name, "it is missing");
        }
        let schema = Value::Object(schema::input::<T>());
        if let Err(misfit) = fitted(text, &schema) {
            let member = misfit.field.split(['.', '[']).next().unwrap_or_default();
            return match misfit.field == member {
                true => Refusal::invalid(member, misfit.problem),
                false => Refusal::invalid(member, format!("{}: {}", misfit.field, misfit.problem)),
            };
        }
        let members: std::collections::BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(text).unwrap_or_default();
        let alone = |(name, value): &(String, Box<RawValue>)| {
            let name = serde_json::to_string(name).unwrap_or_default();
            let alone = serde_json::from_str::<T>(&format!("{{{name}:{value}}}"));
            alone.is_err_and(|error| missing(&error.to_string()).is_none())
        };
        let wrong = members.into_iter().find(alone).map(|(name, _)| name);
        // Serde's location ("at line 1 column 7") is useless without the text.
        let problem = problem.split(" at line ").next().unwrap_or_default();
        Refusal::invalid(wrong.as_deref().unwrap_or("body"), problem)
    })
}

/// Returns true if the `Content-Type` is a media type.
pub(super) fn is_of(headers: &HeaderMap, media_type: &str) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let named = value.and_then(|value| value.split(';').next()).unwrap_or_default();
    named.trim().eq_ignore_ascii_case(media_type)
}

/// Returns the error of a body that exceeds its limit.
pub(super) fn too_large(bytes_max: usize) -> ServiceError {
    ServiceError::new(Code::BodyTooLarge, format!("the body is larger than {bytes_max} bytes"))
        .action("send less at once, for example the events as several batches")
}

/// Returns the refusal of a body of a media type that the route does not accept.
fn unsupported_media_type() -> Refusal {
    let error = ServiceError::invalid("content-type", "application/json is expected");
    Refusal::with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, error)
}

/// Returns the length in `Content-Length`.
pub(super) fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

pub(super) async fn read(request: Request, bytes_max: usize) -> Result<Bytes, Refusal> {
    let announced = announced(request.headers());
    if announced.is_some_and(|bytes| bytes > bytes_max as u64) {
        return Err(too_large(bytes_max).into());
    }
    let announced = announced.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0);
    let broken = |problem: &str| {
        let mut error = ServiceError::invalid("body", problem).action("send the request again");
        error.hint.retryable = true;
        Refusal::with_status(StatusCode::REQUEST_TIMEOUT, error)
    };
    let mut stream = request.into_body().into_data_stream();
    // Most bodies arrive in one chunk, which is returned without a copy.
    let (mut first, mut whole) = (Bytes::new(), Vec::new());
    loop {
        // A chunk that arrived with the head is ready; a timer is needed only to wait for others.
        let next = match stream.next().now_or_never() {
            Some(next) => next,
            None => tokio::time::timeout(PAUSE_MAX, stream.next())
                .await
                .map_err(|_| broken("it stopped coming"))?,
        };
        match next {
            None if whole.is_empty() => return Ok(first),
            None => return Ok(Bytes::from(whole)),
            Some(Err(_)) => return Err(broken("it broke off")),
            Some(Ok(chunk)) if first.len().max(whole.len()) + chunk.len() > bytes_max => {
                return Err(too_large(bytes_max).into());
            }
            Some(Ok(chunk)) if first.is_empty() => first = chunk,
            Some(Ok(chunk)) => {
                if whole.is_empty() {
                    whole.reserve(announced.max(first.len() + chunk.len()));
                    whole.extend_from_slice(&first);
                }
                whole.extend_from_slice(&chunk);
            }
        }
    }
}

/// A request's body that is read to its end even if the request is refused: a client that is still
/// sending does not read an answer, and closing the connection would lose the answer. At most four
/// times the limit is read.
struct ToItsEnd {
    rest: Option<BodyDataStream>,
    bytes_max: usize,
}

/// Wraps the request's body so, unless it is empty or the client waits for `100 Continue`.
pub(super) fn to_its_end(request: Request, bytes_max: usize) -> Request {
    if request.headers().contains_key(header::EXPECT) || request.body().is_end_stream() {
        return request;
    }
    request
        .map(|body| Body::from_stream(ToItsEnd { rest: Some(body.into_data_stream()), bytes_max }))
}

impl Stream for ToItsEnd {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
        let next = std::task::ready!(rest.poll_next_unpin(context));
        if !matches!(next, Some(Ok(_))) {
            self.rest = None;
        }
        Poll::Ready(next)
    }
}

impl Drop for ToItsEnd {
    fn drop(&mut self) {
        let Some(mut rest) = self.rest.take() else { return };
        let mut left = self.bytes_max.saturating_mul(4);
        let discard = async move {
            while let Ok(Some(Ok(chunk))) = tokio::time::timeout(PAUSE_MAX, rest.next()).await {
                left = left.saturating_sub(chunk.len());
                if left == 0 {
                    return;
                }
            }
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(discard);
        }
    }
}

/// Conditions in the headers of an append.
pub(super) struct Conditions {
    /// `If-Position`.
    pub(super) if_position: Option<Position>,
    /// `Idempotency-Key`.
    pub(super) key: Option<BatchKey>,
}

impl<S: Send + Sync> FromRequestParts<S> for Conditions {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let key = single_header(&parts.headers, "idempotency-key")?.map(BatchKey::new).transpose();
        Ok(Self {
            if_position: number(&parts.headers, "if-position")?.map(Position),
            key: key.map_err(|error| Refusal::invalid("idempotency-key", error))?,
        })
    }
}

/// Returns the fencing token of the caller's lease.
fn fence(headers: &HeaderMap) -> Result<Option<Fence>, Refusal> {
    Ok(number(headers, "fencing-token")?.map(Fence))
}

/// Parses the whole number of a header that must not be repeated.
fn number(headers: &HeaderMap, name: &str) -> Result<Option<u64>, Refusal> {
    let Some(text) = single_header(headers, name)? else { return Ok(None) };
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = if digits { text.parse().ok() } else { None };
    number.map(Some).ok_or_else(|| Refusal::invalid(name, "a whole number is expected"))
}

/// Returns the text of a header that must not be repeated.
fn single_header<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Refusal::invalid(name, "the header comes twice"));
    }
    value.to_str().map(Some).map_err(|_| Refusal::invalid(name, "plain ASCII is expected"))
}

/// Returns the position after the last event that a stream's client has received.
pub(super) fn last_event_id(headers: &HeaderMap) -> Result<Option<Position>, Refusal> {
    let Some(text) = single_header(headers, "last-event-id")? else { return Ok(None) };
    let seen: Option<u64> = text.parse().ok();
    match seen {
        Some(seen) => Ok(Some(Position(seen).plus(1))),
        None => Err(Refusal::invalid("last-event-id", "the position of an event is expected")),
    }
}

/// Returns true if the client accepts protobuf.
pub(super) fn wants_protobuf(headers: &HeaderMap, sent_protobuf: bool) -> bool {
    let accepts: Vec<&str> =
        headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let named = |name: &str| accepts.iter().any(|value| value.contains(name));
    named(PROTOBUF) || sent_protobuf && !named("json")
}
