//! MCP over streamable HTTP, in the owner's process. Revisions before 2026-07-28 have connections,
//! named by a header; later ones are stateless. It must not check credentials: the layers of `http`
//! cover this route.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::any,
};
use rmcp::{
    ServerHandler,
    model::ClientJsonRpcMessage,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use tokio_util::sync::CancellationToken;

use super::{
    backend::LocalBackend,
    connections::{ConnectionTable, Connections},
    handler::Handler,
    message_check::{CheckedMessage, check_message},
};
use crate::{
    access::Principal,
    env::sync::Mutex,
    event::{Scope, TenantId, limits},
    service::{ClientIdentity, Service},
    verbs::{OwnerInfo, tools::Toolset},
    wire::{
        SSE,
        rpc::{self, MessageOutline},
    },
};

const JSON: &str = "application/json";

/// Time after which an idle connection is closed: longer than a user pauses.
const IDLE_CONNECTION: Duration = Duration::from_secs(3_600);

/// Maximum number of scopes whose connections are kept; the least recently used is dropped first.
const SCOPES_MAX: usize = 10_000;

/// Settings of MCP over HTTP.
#[derive(Clone, Debug)]
pub struct McpHttpOptions {
    /// Toolsets offered if the URL names none (`/mcp?toolsets=research,events`).
    pub toolsets: Vec<Toolset>,
    /// Hosts that a request may name, besides the loopback names.
    pub allowed_hosts: Vec<String>,
    /// Origins that a browser's request may come from, besides the loopback ones.
    pub allowed_origins: Vec<String>,
    /// The process that owns the data directory.
    pub owner: OwnerInfo,
    /// Cancelled to end every connection.
    pub stop: CancellationToken,
}

impl Default for McpHttpOptions {
    fn default() -> Self {
        Self {
            toolsets: vec![Toolset::Research],
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            owner: OwnerInfo::default(),
            stop: CancellationToken::new(),
        }
    }
}

/// Creates the router of the route `/mcp`.
pub fn http_router_with(service: Service, options: McpHttpOptions) -> Router {
    http_router_around(service, options, |handler| handler)
}

/// Creates the router of `/mcp` with every connection's handler wrapped by `around`: so the
/// conformance suite adds its fixtures on the shipped transport.
pub fn http_router_around<H, F>(service: Service, options: McpHttpOptions, around: F) -> Router
where
    H: ServerHandler,
    F: Fn(Handler) -> H + Clone + Send + Sync + 'static,
{
    let backend = Arc::new(LocalBackend { service, owner: options.owner });
    let toolsets = options.toolsets;
    let handler = move || {
        let toolsets = toolsets.clone();
        Ok(around(Handler::new(
            Arc::clone(&backend) as Arc<_>,
            toolsets,
            ClientIdentity::default(),
        )))
    };
    let loopback = ["localhost", "127.0.0.1", "[::1]", "::1"].map(str::to_owned);
    let origins = ["http", "https"].into_iter().flat_map(|scheme| {
        ["localhost", "127.0.0.1", "[::1]"].map(|host| format!("{scheme}://{host}:*"))
    });
    let mut config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(loopback.into_iter().chain(options.allowed_hosts))
        .with_allowed_origins(origins.chain(options.allowed_origins));
    config.cancellation_token = options.stop;
    // Arguments that were rewritten as one string have at most twice the bytes.
    config.max_request_body_bytes = 2 * limits::MCP_CARRIER_BYTES_MAX;
    let all = Arc::new(ConnectionTable::new());
    let open = move |tenant: Option<TenantId>| {
        let mut connections = LocalSessionManager::default();
        connections.session_config.keep_alive = Some(IDLE_CONNECTION);
        let connections = Connections::new(connections, tenant, Arc::clone(&all));
        StreamableHttpService::new(handler.clone(), Arc::new(connections), config.clone())
    };
    let transports = Arc::new(Transports {
        open,
        table: Mutex::from(TransportTable { by_scope: HashMap::new(), uses: 0 }),
    });
    let serve = move |request: Request| {
        let transport = transports.get_or_open(request.extensions().get::<Arc<Principal>>());
        let ends = request.method() == Method::DELETE;
        async move {
            let forms = AcceptedMedia::from_headers(request.headers());
            let request = match prepare_request(request, forms).await {
                Ok(request) => request,
                Err(refusal) => return refusal,
            };
            let mut answer = transport.handle(request).await.map(Body::new);
            if forms.json && !forms.stream {
                answer = last_as_json(answer).await;
            }
            // Clients read 200 and 204 as the end of a connection, and 202 as a failure.
            if ends && answer.status() == StatusCode::ACCEPTED {
                *answer.status_mut() = StatusCode::NO_CONTENT;
            }
            answer
        }
    };
    Router::new().route("/mcp", any(serve))
}

/// Media types that a client accepts.
#[derive(Clone, Copy)]
struct AcceptedMedia {
    json: bool,
    stream: bool,
}

impl AcceptedMedia {
    /// Parses `Accept`; the most specific range decides (RFC 9110, 12.5.1).
    fn from_headers(headers: &HeaderMap) -> Self {
        let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|one| one.to_str().ok());
        let ranges: Vec<(String, bool)> = accepted
            .flat_map(|text| text.split(','))
            .map(|range| {
                let mut parts = range.split(';').map(|part| part.trim().to_ascii_lowercase());
                let name = parts.next().unwrap_or_default();
                let refused = parts.any(|part| {
                    let weight = part.strip_prefix("q=").and_then(|text| text.parse().ok());
                    weight.is_some_and(|weight: f32| weight <= 0.0)
                });
                (name, !refused)
            })
            .collect();
        let takes = |names: [&str; 3]| {
            let exact = names.iter().find_map(|name| ranges.iter().find(|(of, _)| of == name));
            exact.is_some_and(|(_, taken)| *taken)
        };
        Self { json: takes([JSON, "application/*", "*/*"]), stream: takes([SSE, "text/*", "*/*"]) }
    }
}

/// Prepares a request for the library: makes it accept both media types, which [`last_as_json`]
/// undoes, and checks and repairs its message.
async fn prepare_request(request: Request, forms: AcceptedMedia) -> Result<Request, Response> {
    let (mut parts, body) = request.into_parts();
    if forms.json || forms.stream {
        let both = HeaderValue::from_static("application/json, text/event-stream");
        parts.headers.insert(header::ACCEPT, both);
    }
    let is_json = parts.headers.get(header::CONTENT_TYPE).is_some_and(|name| {
        let name = name.to_str().unwrap_or_default().split(';').next();
        name.is_some_and(|name| name.trim().eq_ignore_ascii_case(JSON))
    });
    if parts.method != Method::POST || !is_json {
        return Ok(Request::from_parts(parts, body));
    }
    let refused = |answer: String| {
        (StatusCode::BAD_REQUEST, [(header::CONTENT_TYPE, JSON)], answer).into_response()
    };
    let bytes = to_bytes(body, limits::MCP_CARRIER_BYTES_MAX).await;
    let bytes = bytes.map_err(|error| refused(unreadable_refusal(None, &error.to_string())))?;
    let text = rpc::repair_text(&bytes);
    match rpc::split_messages(&text)[..] {
        [part] => match check_message::<ClientJsonRpcMessage>(part) {
            Some(CheckedMessage::Message(_, text)) => {
                Ok(Request::from_parts(parts, Body::from(text)))
            }
            Some(CheckedMessage::Refused(answer)) => Err(refused(answer)),
            None => Err(refused(unreadable_refusal(None, "it is no message of the protocol"))),
        },
        _ => {
            let id = MessageOutline::from_text(&text).id;
            Err(refused(unreadable_refusal(id.as_deref(), "one message a request is expected")))
        }
    }
}

fn unreadable_refusal(id: Option<&str>, problem: &str) -> String {
    rpc::error_response(id, rpc::NOT_JSON, problem)
}

/// Converts a stream to its last message as JSON, for a client that accepts no stream.
async fn last_as_json(answer: Response) -> Response {
    let (mut parts, body) = answer.into_parts();
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if !kind.is_some_and(|kind| kind.starts_with(SSE)) {
        return Response::from_parts(parts, body);
    }
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        return StatusCode::BAD_GATEWAY.into_response();
    };
    let text = String::from_utf8_lossy(&bytes);
    let mut data = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    let last = data.rfind(|data| !data.is_empty()).unwrap_or_default();
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    Response::from_parts(parts, Body::from(last.to_owned()))
}

/// One transport for each scope: the name of a connection is valid only in its scope.
struct Transports<H, F> {
    open: F,
    table: Mutex<TransportTable<H>>,
}

/// The open transports.
struct TransportTable<H> {
    /// The transports, each with the number of its last use.
    by_scope: HashMap<Option<Scope>, (Transport<H>, u64)>,
    uses: u64,
}

type Transport<H> = StreamableHttpService<H, Connections>;

impl<H, F: Fn(Option<TenantId>) -> Transport<H>> Transports<H, F> {
    fn get_or_open(&self, caller: Option<&Arc<Principal>>) -> Transport<H> {
        let scope = caller.map(|caller| caller.scope.clone());
        let mut table = self.table.lock();
        let TransportTable { by_scope, uses } = &mut *table;
        *uses += 1;
        if by_scope.len() >= SCOPES_MAX && !by_scope.contains_key(&scope) {
            let oldest = by_scope.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(oldest) = oldest.map(|(scope, _)| scope.clone()) {
                by_scope.remove(&oldest);
            }
        }
        let tenant = scope.as_ref().map(|scope| scope.tenant.clone());
        let (transport, used) = by_scope.entry(scope).or_insert_with(|| ((self.open)(tenant), 0));
        *used = *uses;
        transport.clone()
    }
}
