//! MCP over streamable HTTP, in the owner's process. Revisions before 2026-07-28 get connections
//! with a header of their own; later ones are stateless. It must not check who knocks: the HTTP
//! door's layers cover this route.

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

use super::{backend::InProcess, handler::Handler};
use crate::{
    access::Principal,
    env::sync::Mutex,
    event::{Scope, limits},
    service::{Service, Via},
    wire::tools::Toolset,
};

/// How long a connection nobody uses is kept: a pause of a person's, not a client that is gone.
const IDLE_CONNECTION: Duration = Duration::from_secs(3_600);

/// Scopes whose connections are kept; those of the least recently used go first.
const SCOPES_MAX: usize = 10_000;

/// What an operator may change about MCP over HTTP.
#[derive(Clone, Debug)]
pub struct McpHttpOptions {
    /// Tools offered when the URL does not ask (`/mcp?toolsets=research,events`).
    pub toolsets: Vec<Toolset>,
    /// Hosts a request may name, beside the loopback names.
    pub allowed_hosts: Vec<String>,
    /// Origins a browser's request may come from, beside the loopback ones.
    pub allowed_origins: Vec<String>,
    /// Ends every connection.
    pub stop: CancellationToken,
}

impl Default for McpHttpOptions {
    fn default() -> Self {
        Self {
            toolsets: vec![Toolset::Research],
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            stop: CancellationToken::new(),
        }
    }
}

/// The route `/mcp` with what suits a machine of one's own.
pub fn http_router(service: Service) -> Router {
    http_router_with(service, McpHttpOptions::default())
}

/// The route `/mcp`.
pub fn http_router_with(service: Service, options: McpHttpOptions) -> Router {
    http_router_around(service, options, |handler| handler)
}

/// The route `/mcp` with every connection's handler inside another: what the conformance suite
/// wants beside the tools is mounted so, on the transport that is shipped.
pub fn http_router_around<H, F>(service: Service, options: McpHttpOptions, around: F) -> Router
where
    H: ServerHandler,
    F: Fn(Handler) -> H + Clone + Send + Sync + 'static,
{
    let backend = Arc::new(InProcess { service });
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
    config.max_request_body_bytes = limits::BATCH_BYTES_MAX;
    let open = move || {
        let mut connections = LocalSessionManager::default();
        connections.session_config.keep_alive = Some(IDLE_CONNECTION);
        StreamableHttpService::new(handler.clone(), Arc::new(connections), config.clone())
    };
    let halls =
        Arc::new(Halls { open, table: Mutex::new(Table { by_scope: HashMap::new(), uses: 0 }) });
    let serve = move |request: Request| {
        let hall = halls.of(request.extensions().get::<Arc<Principal>>());
        let ends = request.method() == Method::DELETE;
        async move {
            let mut answer = hall.handle(request).await.map(Body::new);
            // Clients take 200 and 204 for the end of a connection, and 202 for a failure.
            if ends && answer.status() == StatusCode::ACCEPTED {
                *answer.status_mut() = StatusCode::NO_CONTENT;
            }
            answer
        }
    };
    Router::new().route("/mcp", any(serve))
}

/// A transport of its own for each scope: the connections of another are not there, so that their
/// names are worth nothing to who learns one.
struct Halls<H, F> {
    open: F,
    table: Mutex<Table<H>>,
}

/// The halls that are open.
struct Table<H> {
    /// Each with the number of its last use.
    by_scope: HashMap<Option<Scope>, (Hall<H>, u64)>,
    uses: u64,
}

type Hall<H> = StreamableHttpService<H, LocalSessionManager>;

impl<H, F: Fn() -> Hall<H>> Halls<H, F> {
    fn of(&self, who: Option<&Arc<Principal>>) -> Hall<H> {
        let scope = who.map(|who| who.scope.clone());
        let mut table = self.table.lock();
        let Table { by_scope, uses } = &mut *table;
        *uses += 1;
        if by_scope.len() >= SCOPES_MAX && !by_scope.contains_key(&scope) {
            let oldest = by_scope.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(oldest) = oldest.map(|(scope, _)| scope.clone()) {
                by_scope.remove(&oldest);
            }
        }
        let (hall, used) = by_scope.entry(scope).or_insert_with(|| ((self.open)(), 0));
        *used = *uses;
        hall.clone()
    }
}
