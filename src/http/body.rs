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

use super::{Server, gate::RequestPrincipal, memory::Reservation, refuse::HttpError, strict};
use crate::{
    event::{BatchKey, Fence, Origin, Position, SessionId},
    service::{self, Caller, Code, ServiceError},
    wire::{PROTOBUF, coerce::coerce, json, schema},
};

/// Maximum pause of a client while it sends a body.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Bytes of a parsed JSON value, estimated from the sizes of its types for lists of one empty list.
const VALUE_BYTES: usize = 512;
/// Size below which a tree takes no more memory than a connection's buffers.
const TREE_BYTES_SMALL: usize = 64 << 10;

/// The media type of most bodies.
const JSON: &str = "application/json";

/// Header in which a front end names its kind; only the kind `import` has an effect.
const ORIGIN_HEADER: &str = "sessionlog-origin";

/// Caller of a request; its scope comes from the credential alone.
pub(super) struct RequestCaller(pub(super) Caller);

impl FromRequestParts<Arc<Server>> for RequestCaller {
    type Rejection = HttpError;

    async fn from_request_parts(
        parts: &mut Parts,
        server: &Arc<Server>,
    ) -> Result<Self, HttpError> {
        let RequestPrincipal(who) = RequestPrincipal::from_request_parts(parts, server).await?;
        // An import of other programs' transcripts is a client of this interface, and sends this.
        let imports = parts.headers.get(ORIGIN_HEADER).is_some_and(|value| value == "import");
        let origin = if imports { Origin::Import } else { Origin::Harness };
        Ok(Self(Caller { scope: who.scope.clone(), origin, fence: parse_fence(&parts.headers)? }))
    }
}

/// Session that the path names.
pub(super) struct PathSession(pub(super) SessionId);

impl<S: Send + Sync> FromRequestParts<S> for PathSession {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, HttpError> {
        session_id(&path_parameter(parts, state, "session").await?).map(Self)
    }
}

/// Name in the path after the session.
pub(super) struct PathName(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for PathName {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, HttpError> {
        path_parameter(parts, state, "name").await.map(Self)
    }
}

/// Returns the decoded path parameter `wanted`.
async fn path_parameter<S: Send + Sync>(
    parts: &mut Parts,
    state: &S,
    wanted: &str,
) -> Result<String, HttpError> {
    let params = RawPathParams::from_request_parts(parts, state).await;
    let params = params.map_err(|_| HttpError::invalid(wanted, "its name is not UTF-8"))?;
    let text = params.iter().find(|(name, _)| *name == wanted).map(|(_, text)| text);
    Ok(text.unwrap_or_default().to_owned())
}

/// Parses a session's id; the refusal describes the format of an id.
pub(super) fn session_id(text: &str) -> Result<SessionId, HttpError> {
    service::parse_session_id(text).map_err(HttpError::from)
}

/// Bytes of a body, and their format.
pub(super) struct RequestBody {
    pub(super) bytes: Bytes,
    pub(super) protobuf: bool,
    /// True if the client may send members that are not stored.
    pub(super) hosted: bool,
}

impl FromRequest<Arc<Server>> for RequestBody {
    type Rejection = HttpError;

    async fn from_request(request: Request, server: &Arc<Server>) -> Result<Self, HttpError> {
        let protobuf = has_media_type(request.headers(), PROTOBUF);
        if !protobuf && !has_media_type(request.headers(), JSON) {
            return Err(unsupported_media_type());
        }
        let hosted = strict::is_managed_agents_request(request.headers(), request.uri());
        let bytes = read_body(request, server.app.options.body_bytes_max).await?;
        Ok(Self { bytes, protobuf, hosted })
    }
}

/// A JSON body, and the memory reserved for its tree until the request is answered. An empty body
/// without a content type is the empty object.
pub(super) struct JsonBody<T>(pub(super) T, pub(super) Option<Reservation>);

impl<T: DeserializeOwned + JsonSchema> FromRequest<Arc<Server>> for JsonBody<T> {
    type Rejection = HttpError;

    async fn from_request(request: Request, server: &Arc<Server>) -> Result<Self, HttpError> {
        let json = has_media_type(request.headers(), JSON);
        let hosted = strict::is_managed_agents_request(request.headers(), request.uri());
        let bytes = read_body(request, server.app.options.body_bytes_max).await?;
        if bytes.is_empty() {
            return decode_json("{}").map(|body| Self(body, None));
        }
        if !json {
            return Err(unsupported_media_type());
        }
        let text = json::check_utf8(&bytes)?;
        json::check(text)?;
        let reservation = reserve_tree_memory(server, &bytes).await?;
        let text = &*json::replace_lone_surrogates(text);
        if !hosted {
            strict::check_members::<T>(text)?;
        }
        decode_json(text).map(|body| Self(body, reservation))
    }
}

/// Reserves memory for the tree of a JSON text; refuses one with too many values.
pub(super) async fn reserve_tree_memory(
    server: &Server,
    text: &[u8],
) -> Result<Option<Reservation>, HttpError> {
    let bytes = json::count_values(text)?.saturating_mul(VALUE_BYTES);
    if bytes <= TREE_BYTES_SMALL {
        return Ok(None);
    }
    Ok(Some(server.trees.reserve(bytes).await?))
}

/// Decodes checked JSON; the refusal names the member that does not fit.
fn decode_json<T: DeserializeOwned + JsonSchema>(text: &str) -> Result<T, HttpError> {
    // Serde accepts a list for a struct: its elements in the order of the fields.
    if !text.trim_start().starts_with('{') {
        return Err(HttpError::invalid("body", "an object is expected"));
    }
    serde_json::from_str(text).map_err(|error| {
        let problem = error.to_string();
        let missing = |problem: &str| {
            let name = problem.strip_prefix("missing field `")?.split('`').next()?;
            Some(name.to_owned())
        };
        if let Some(name) = missing(&problem) {
            return HttpError::invalid(&name, "it is missing");
        }
        let schema = Value::Object(schema::input::<T>());
        if let Err(mismatch) = coerce(text, &schema) {
            let member = mismatch.field.split(['.', '[']).next().unwrap_or_default();
            return match mismatch.field == member {
                true => HttpError::invalid(member, mismatch.problem),
                false => {
                    HttpError::invalid(member, format!("{}: {}", mismatch.field, mismatch.problem))
                }
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
        HttpError::invalid(wrong.as_deref().unwrap_or("body"), problem)
    })
}

/// Returns true if the `Content-Type` is a media type.
pub(super) fn has_media_type(headers: &HeaderMap, media_type: &str) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let named = value.and_then(|value| value.split(';').next()).unwrap_or_default();
    named.trim().eq_ignore_ascii_case(media_type)
}

/// Creates the error for a body that exceeds its limit.
pub(super) fn too_large_error(bytes_max: usize) -> ServiceError {
    ServiceError::new(Code::BodyTooLarge, format!("the body is larger than {bytes_max} bytes"))
        .action("send less at once, for example the events as several batches")
}

/// Creates the error for a media type that the route does not accept.
fn unsupported_media_type() -> HttpError {
    let error = ServiceError::invalid("content-type", "application/json is expected");
    HttpError::with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, error)
}

/// Parses `Content-Length`.
pub(super) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

pub(super) async fn read_body(request: Request, bytes_max: usize) -> Result<Bytes, HttpError> {
    let content_length = content_length(request.headers());
    if content_length.is_some_and(|bytes| bytes > bytes_max as u64) {
        return Err(too_large_error(bytes_max).into());
    }
    let content_length = content_length.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0);
    let broken = |problem: &str| {
        let mut error = ServiceError::invalid("body", problem).action("send the request again");
        error.hint.retryable = true;
        HttpError::with_status(StatusCode::REQUEST_TIMEOUT, error)
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
                return Err(too_large_error(bytes_max).into());
            }
            Some(Ok(chunk)) if first.is_empty() => first = chunk,
            Some(Ok(chunk)) => {
                if whole.is_empty() {
                    whole.reserve(content_length.max(first.len() + chunk.len()));
                    whole.extend_from_slice(&first);
                }
                whole.extend_from_slice(&chunk);
            }
        }
    }
}

/// Request body that is read to its end even if the request is refused: a client that is still
/// sending does not read the answer, and closing the connection would lose it. At most four times
/// the limit is read.
struct DrainedBody {
    rest: Option<BodyDataStream>,
    bytes_max: usize,
}

/// Wraps the body in a [`DrainedBody`] unless it is empty or the client waits for `100 Continue`.
pub(super) fn with_drained_body(request: Request, bytes_max: usize) -> Request {
    if request.headers().contains_key(header::EXPECT) || request.body().is_end_stream() {
        return request;
    }
    request.map(|body| {
        Body::from_stream(DrainedBody { rest: Some(body.into_data_stream()), bytes_max })
    })
}

impl Stream for DrainedBody {
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

impl Drop for DrainedBody {
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

/// Conditions of an append, from its headers.
pub(super) struct AppendConditions {
    /// `If-Position`: position that the first event must get.
    pub(super) if_position: Option<Position>,
    /// `Idempotency-Key`: key by which a retry is recognised.
    pub(super) key: Option<BatchKey>,
}

impl<S: Send + Sync> FromRequestParts<S> for AppendConditions {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, HttpError> {
        let key = single_header(&parts.headers, "idempotency-key")?.map(BatchKey::new).transpose();
        Ok(Self {
            if_position: parse_number(&parts.headers, "if-position")?.map(Position),
            key: key.map_err(|error| HttpError::invalid("idempotency-key", error))?,
        })
    }
}

/// Parses the fencing token of the caller's lease.
fn parse_fence(headers: &HeaderMap) -> Result<Option<Fence>, HttpError> {
    Ok(parse_number(headers, "fencing-token")?.map(Fence))
}

/// Parses the whole number of a header that must not be repeated.
fn parse_number(headers: &HeaderMap, name: &str) -> Result<Option<u64>, HttpError> {
    let Some(text) = single_header(headers, name)? else { return Ok(None) };
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = if digits { text.parse().ok() } else { None };
    number.map(Some).ok_or_else(|| HttpError::invalid(name, "a whole number is expected"))
}

/// Returns the text of a header that must not be repeated.
fn single_header<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, HttpError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(HttpError::invalid(name, "the header comes twice"));
    }
    value.to_str().map(Some).map_err(|_| HttpError::invalid(name, "plain ASCII is expected"))
}

/// Parses `Last-Event-ID` to the position after the last event that a client has received.
pub(super) fn last_event_id(headers: &HeaderMap) -> Result<Option<Position>, HttpError> {
    let Some(text) = single_header(headers, "last-event-id")? else { return Ok(None) };
    let seen: Option<u64> = text.parse().ok();
    match seen {
        Some(seen) => Ok(Some(Position(seen).plus(1))),
        None => Err(HttpError::invalid("last-event-id", "the position of an event is expected")),
    }
}

/// Returns true if the client accepts protobuf.
pub(super) fn wants_protobuf(headers: &HeaderMap, sent_protobuf: bool) -> bool {
    let accepts: Vec<&str> =
        headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let named = |name: &str| accepts.iter().any(|value| value.contains(name));
    named(PROTOBUF) || sent_protobuf && !named("json")
}
