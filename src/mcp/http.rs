//! MCP over streamable HTTP, in the owner's process. Revisions before 2026-07-28 get connections
//! with a header of their own; later ones are stateless. It must not check who knocks: the HTTP
//! door's layers cover this route.

use std::{sync::Arc, time::Duration};

use axum::Router;
use rmcp::{
    ServerHandler,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use tokio_util::sync::CancellationToken;

use super::{backend::InProcess, handler::Handler};
use crate::{
    event::{Origin, Scope, limits},
    service::{Caller, Service, Via},
    wire::tools::Toolset,
};

/// How long a connection nobody uses is kept: a pause of a person's, not a client that is gone.
const IDLE_CONNECTION: Duration = Duration::from_secs(3_600);

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
    F: Fn(Handler) -> H + Send + Sync + 'static,
{
    let caller = Caller { scope: Scope::local(), origin: Origin::Model };
    let backend = Arc::new(InProcess { service, caller });
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
    let mut connections = LocalSessionManager::default();
    connections.session_config.keep_alive = Some(IDLE_CONNECTION);
    let service = StreamableHttpService::new(handler, Arc::new(connections), config);
    Router::new().route_service("/mcp", service)
}
