//! MCP over streamable HTTP, in the owner's process. Revisions before 2026-07-28 have connections,
//! named by a header; later ones are stateless. It must not check credentials: the layers of `http`
//! cover this route.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{Method, StatusCode},
    routing::any,
};
use rmcp::{
    ServerHandler,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use tokio_util::sync::CancellationToken;

use super::{
    backend::InProcess,
    connections::{ConnectionTable, Connections},
    handler::Handler,
};
use crate::{
    access::Principal,
    env::sync::Mutex,
    event::{Scope, TenantId, limits},
    service::{Service, Via},
    verbs::{OwnerInfo, tools::Toolset},
};

/// How long an unused connection is kept: longer than a person pauses.
const IDLE_CONNECTION: Duration = Duration::from_secs(3_600);

/// Most scopes whose connections are kept; the least recently used is dropped first.
const SCOPES_MAX: usize = 10_000;

/// What an operator may change about MCP over HTTP.
#[derive(Clone, Debug)]
pub struct McpHttpOptions {
    /// Toolsets offered when the URL names none (`/mcp?toolsets=research,events`).
    pub toolsets: Vec<Toolset>,
    /// Hosts that a request may name, besides the loopback names.
    pub allowed_hosts: Vec<String>,
    /// Origins that a browser's request may come from, besides the loopback ones.
    pub allowed_origins: Vec<String>,
    /// The process that owns the data directory.
    pub owner: OwnerInfo,
    /// Ends every connection.
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

/// The route `/mcp`.
pub fn http_router_with(service: Service, options: McpHttpOptions) -> Router {
    http_router_around(service, options, |handler| handler)
}

/// The route `/mcp` with every connection's handler wrapped by `around`: the conformance suite adds
/// its fixtures this way, on the transport that is shipped.
pub fn http_router_around<H, F>(service: Service, options: McpHttpOptions, around: F) -> Router
where
    H: ServerHandler,
    F: Fn(Handler) -> H + Clone + Send + Sync + 'static,
{
    let backend = Arc::new(InProcess { service, owner: options.owner });
    let toolsets = options.toolsets;
    let handler = move || {
        let toolsets = toolsets.clone();
        Ok(around(Handler::new(Arc::clone(&backend) as Arc<_>, toolsets, Via::default())))
    };
    let loopback = ["localhost", "127.0.0.1", "[::1]", "::1"].map(str::to_owned);
    let origins = ["http", "https"].into_iter().flat_map(|scheme| {
        ["localhost", "127.0.0.1", "[::1]"].map(|host| format!("{scheme}://{host}:*"))
    });
    let mut config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(loopback.into_iter().chain(options.allowed_hosts))
        .with_allowed_origins(origins.chain(options.allowed_origins));
    config.cancellation_token = options.stop;
    config.max_request_body_bytes = limits::MCP_CARRIER_BYTES_MAX;
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
        let transport = transports.of(request.extensions().get::<Arc<Principal>>());
        let ends = request.method() == Method::DELETE;
        async move {
            let mut answer = transport.handle(request).await.map(Body::new);
            // Clients read 200 and 204 as the end of a connection, and 202 as a failure.
            if ends && answer.status() == StatusCode::ACCEPTED {
                *answer.status_mut() = StatusCode::NO_CONTENT;
            }
            answer
        }
    };
    Router::new().route("/mcp", any(serve))
}

/// One transport for each scope: the name of a connection is unknown in every other scope.
struct Transports<H, F> {
    open: F,
    table: Mutex<TransportTable<H>>,
}

/// The open transports.
struct TransportTable<H> {
    /// Each with the number of its last use.
    by_scope: HashMap<Option<Scope>, (Transport<H>, u64)>,
    uses: u64,
}

type Transport<H> = StreamableHttpService<H, Connections>;

impl<H, F: Fn(Option<TenantId>) -> Transport<H>> Transports<H, F> {
    fn of(&self, caller: Option<&Arc<Principal>>) -> Transport<H> {
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
