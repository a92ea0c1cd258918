//! Layers around every route: request ids, host and origin, logs and counts without bodies, and the
//! writing of refusals. It must not read a body.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use axum::{
    body::Body,
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header, uri::Authority},
    middleware::Next,
    response::IntoResponse,
};
use futures_util::{FutureExt as _, StreamExt as _};

use super::{
    HttpOptions, Server, Shared,
    body::{content_length, with_drained_body},
    gate::{AuditedRequest, NO_ROUTE},
    memory::Reservation,
    refuse::{HttpError, answer_panic},
    strict::check_query,
};
use crate::{
    service::{Code, ServiceError},
    verbs::{
        Verb as _,
        browser::{FETCH_SITE, is_cross_site, is_loopback},
        events::AppendStream,
        tools::MCP,
    },
};

/// Header with the id of a request, in requests and answers.
const REQUEST_ID: &str = "x-request-id";
/// Header with the same id in answers, for clients of Managed Agents.
const REQUEST_ID_HOSTED: &str = "request-id";
/// Maximum bytes of a request id of a client.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// Size below which a request's body takes no more memory than a connection's buffers.
const BODY_BYTES_SMALL: usize = 64 << 10;
/// Size from which the allocator uses a separate block for a text, and the block size.
const BLOCK_FROM: usize = 8 << 20;
const BLOCK_BYTES: usize = 32 << 20;

/// Id of a request, for answers written after the handler has returned.
#[derive(Clone)]
pub(super) struct RequestId(HeaderValue);

impl RequestId {
    pub(super) fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }
}

/// Wraps every route: see [`handle_request`]. Completes and logs an audited call even if its client
/// disconnects.
pub(super) async fn guard_route(
    State(server): Shared,
    route: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response<Body> {
    let path = route.as_ref().map_or(NO_ROUTE, MatchedPath::as_str);
    let is_audited = server.is_audited(request.method(), path);
    let guarded = handle_request(server, route, request, next);
    if !is_audited {
        return guarded.await;
    }
    let answered = tokio::spawn(guarded).await;
    answered.unwrap_or_else(|error| answer_panic(Box::new(error.to_string())))
}

/// Sets the request's id, refuses foreign hosts and origins, counts and logs the request, and
/// writes refusals. A panic of a handler is answered too.
async fn handle_request(
    server: Arc<Server>,
    route: Option<MatchedPath>,
    mut request: Request,
    next: Next,
) -> Response<Body> {
    let id = request_id(&server, request.headers());
    request.extensions_mut().insert(id.clone());
    let method = request.method().clone();
    let route = route.as_ref().map_or(NO_ROUTE, MatchedPath::as_str);
    let began = server.app.service.monotonic();
    let options = &server.app.options;
    let checked = check_host_and_origin(options, &request).map_err(HttpError::from);
    let authorized =
        checked.and_then(|()| server.admit_request(route, &mut request)).and_then(|who| {
            check_query(&method, route, request.headers(), request.uri())?;
            let streams = route == MCP.path && method == Method::GET;
            let reader = streams.then(|| server.admit_reader(&who.who)).transpose()?;
            Ok((who, reader))
        });
    let mut reader = None;
    let admitted = match authorized {
        Ok((who, reads)) => {
            reader = reads;
            reserve_body_memory(&server, route, request.headers()).await.map(|room| (who, room))
        }
        Err(refusal) => Err(refusal),
    };
    let who = admitted.as_ref().ok().map(|(admitted, _)| Arc::clone(&admitted.who));
    let path = options.access.is_some().then(|| request.uri().path().to_owned());
    let request = with_drained_body(request, options.body_bytes_max);
    let mut response = match admitted {
        Ok(_until_answered) => {
            let answered = AssertUnwindSafe(next.run(request)).catch_unwind().await;
            answered.unwrap_or_else(answer_panic)
        }
        Err(refusal) => {
            drop(request);
            refusal.into_response()
        }
    };
    let refusal = response.extensions_mut().remove::<HttpError>();
    let refusal = refusal.or_else(|| framework_refusal(route, &response));
    if let Some(path) = &path {
        let (who, refusal, status) = (who.as_deref(), refusal.as_ref(), response.status());
        let (method, request) = (&method, id.as_str());
        let session = path.strip_prefix("/v1/sessions/").and_then(|rest| rest.split('/').next());
        server
            .write_audit(AuditedRequest { who, refusal, method, route, session, status, request })
            .await;
    }
    let code = refusal.as_ref().map_or("", |refusal| refusal.code().as_str());
    if let Some(refusal) = &refusal {
        response = refusal.to_response(id.as_str());
    }
    let took = server.app.service.monotonic().saturating_sub(began);
    let status = response.status();
    server.metrics.count_request(&method, route, status.as_u16(), took);
    log_request(id.as_str(), &method, route, status, code, took);
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID_HOSTED, id.0.clone());
    headers.insert(REQUEST_ID, id.0);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    match reader {
        Some(reader) => hold_until_body_ends(response, reader),
        None => response,
    }
}

/// Keeps `held`, such as a reader's slot or reserved memory, until the body of the response has
/// ended or is dropped.
pub(super) fn hold_until_body_ends<T: Send + 'static>(
    response: Response<Body>,
    held: T,
) -> Response<Body> {
    response.map(|body| {
        Body::from_stream(body.into_data_stream().inspect(move |_| {
            let _ = &held;
        }))
    })
}

/// Logs a line for a request that was refused or failed. A successful one is counted, and logged
/// only on the level debug: a line would cost more than the append it reports.
fn log_request(
    id: &str,
    method: &Method,
    route: &str,
    status: StatusCode,
    code: &str,
    took: Duration,
) {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    let status_code = status.as_u16();
    if status.is_server_error() {
        tracing::warn!(request = %id, %method, %route, status = status_code, code, micros, "request failed");
    } else if status.is_client_error() {
        tracing::info!(request = %id, %method, %route, status = status_code, code, micros, "request refused");
    } else {
        tracing::debug!(request = %id, %method, %route, status = status_code, micros, "request answered");
    }
}

/// Converts an error of the framework, such as for a path that is not UTF-8, to the API's format.
fn framework_refusal(route: &str, response: &Response<Body>) -> Option<HttpError> {
    let kind = response.headers().get(header::CONTENT_TYPE)?.as_bytes();
    let refused = response.status().is_client_error() && kind.starts_with(b"text/plain");
    let error = || ServiceError::invalid("request", "it is not what this route takes");
    (refused && route.starts_with("/v1/"))
        .then(|| HttpError::with_status(response.status(), error()))
}

/// Returns the request id of the client if it is valid, else a new one.
fn request_id(server: &Server, headers: &HeaderMap) -> RequestId {
    let plain = |value: &&HeaderValue| {
        (1..=REQUEST_ID_BYTES_MAX).contains(&value.len())
            && value
                .as_bytes()
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte))
    };
    let given = headers.get(REQUEST_ID).filter(plain).cloned();
    RequestId(given.unwrap_or_else(|| {
        let number = server.requests.fetch_add(1, Ordering::Relaxed);
        let text = format!("req_{:x}_{number:x}", server.began.0);
        HeaderValue::from_str(&text).expect("hex digits may stand in a header")
    }))
}

/// Refuses requests from other sites: another host's name (DNS rebinding), another site's page
/// (forged requests of a browser).
fn check_host_and_origin(options: &HttpOptions, request: &Request) -> Result<(), ServiceError> {
    check_host(request.uri(), request.headers(), &options.allowed_hosts)?;
    check_origin(request.headers(), &options.allowed_origins)?;
    check_site(request.headers())
}

/// Reserves memory for a request that announces a large or unknown size, until it is answered. One
/// that will be refused for its size does not wait, and an append stream is read as it arrives: it
/// is never in memory whole.
async fn reserve_body_memory(
    server: &Server,
    route: &str,
    headers: &HeaderMap,
) -> Result<Option<Reservation>, HttpError> {
    let bytes_max = server.app.options.body_bytes_max;
    let bytes = match content_length(headers) {
        Some(bytes) => bytes,
        None if headers.contains_key(header::TRANSFER_ENCODING) => bytes_max as u64,
        None => 0,
    };
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    if bytes <= BODY_BYTES_SMALL || bytes > bytes_max || route == AppendStream::ROUTE.path {
        return Ok(None);
    }
    // Until the answer, its text, its events, and the frame with them are in memory.
    let block = if bytes < BLOCK_FROM { bytes } else { bytes.next_multiple_of(BLOCK_BYTES) };
    Ok(Some(server.bodies.reserve(3 * block).await?))
}

fn forbidden_error(problem: &str, action: &str) -> ServiceError {
    ServiceError::new(Code::Forbidden, problem).action(action)
}

fn check_host(uri: &Uri, headers: &HeaderMap, allowed: &[String]) -> Result<(), ServiceError> {
    let refused = |problem| {
        Err(forbidden_error(problem, "use a loopback name, or allow the host in the configuration"))
    };
    let mut named = headers.get_all(header::HOST).iter();
    let (Some(value), None) = (named.next(), named.next()) else {
        return refused("exactly one Host header is expected");
    };
    let fits = |authority: &Authority| {
        is_loopback(authority.host())
            || allowed.iter().any(|name| {
                name.eq_ignore_ascii_case(authority.as_str())
                    || name.eq_ignore_ascii_case(authority.host())
            })
    };
    let host = value.to_str().ok().and_then(|text| text.parse::<Authority>().ok());
    let plain = |authority: &Authority| !authority.as_str().contains('@') && fits(authority);
    if !host.as_ref().is_some_and(plain) || !uri.authority().is_none_or(plain) {
        return refused("this server does not go by that host name");
    }
    Ok(())
}

fn check_origin(headers: &HeaderMap, allowed: &[String]) -> Result<(), ServiceError> {
    for value in headers.get_all(header::ORIGIN) {
        let text = value.to_str().unwrap_or_default();
        let uri = text.parse::<Uri>().ok();
        let loopback = uri.as_ref().is_some_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.host().is_some_and(is_loopback)
        });
        if !loopback && !allowed.iter().any(|name| name.eq_ignore_ascii_case(text)) {
            let action = "call from a program, or allow the origin in the configuration";
            return Err(forbidden_error("pages of that origin may not call this server", action));
        }
    }
    Ok(())
}

/// Refuses a browser's request for a page of another site. A page that may call names its origin,
/// which was checked before.
fn check_site(headers: &HeaderMap) -> Result<(), ServiceError> {
    let sites = headers.get_all(FETCH_SITE).iter().map(HeaderValue::as_bytes);
    if is_cross_site(sites, headers.contains_key(header::ORIGIN)) {
        let action = "call from a program, or open the address by itself";
        return Err(forbidden_error("pages of other sites may not call this server", action));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(&name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn only_loopback_and_configured_hosts_are_accepted() {
        let allowed = ["logs.example".to_owned(), "b.example:80".to_owned()];
        let uri = Uri::from_static("/");
        for good in [
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1:7717",
            "[::1]:7717",
            "logs.example:9",
            "b.example:80",
        ] {
            assert!(check_host(&uri, &headers(header::HOST, &[good]), &allowed).is_ok(), "{good}");
        }
        for bad in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "b.example:81",
            "10.0.0.1",
            "",
            "localhost@evil.example",
            "0.0.0.0:7717",
            "evil.example#localhost",
        ] {
            assert!(check_host(&uri, &headers(header::HOST, &[bad]), &allowed).is_err(), "{bad}");
        }
        assert!(check_host(&uri, &headers(header::HOST, &[]), &allowed).is_err());
        assert!(
            check_host(&uri, &headers(header::HOST, &["localhost", "localhost"]), &allowed)
                .is_err()
        );
        let absolute = Uri::from_static("http://evil.example/");
        assert!(check_host(&absolute, &headers(header::HOST, &["localhost"]), &allowed).is_err());
    }

    #[test]
    fn only_loopback_and_configured_origins_are_accepted() {
        let allowed = ["https://page.example".to_owned()];
        for good in ["http://localhost:3000", "https://127.0.0.1", "https://page.example"] {
            assert!(check_origin(&headers(header::ORIGIN, &[good]), &allowed).is_ok(), "{good}");
        }
        for bad in [
            "null",
            "https://evil.example",
            "http://localhost.evil.example",
            "file://localhost",
            "https://page.example.evil.example",
            "",
        ] {
            assert!(check_origin(&headers(header::ORIGIN, &[bad]), &allowed).is_err(), "{bad}");
        }
        assert!(check_origin(&HeaderMap::new(), &allowed).is_ok());
    }
}
