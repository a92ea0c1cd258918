//! MCP on standard input and output: a front end. It answers `initialize`, `server/discover` and
//! `tools/list` itself, so that a client starts at once, and forwards everything else to an owner,
//! which the client finds, starts and outlives. It must not write anything else to standard output.

use std::sync::Arc;

use rmcp::{
    ServiceExt as _,
    service::{QuitReason, ServerInitializeError},
    transport::stdio as streams,
};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{backend::Forwarded, handler::Handler};
use crate::{client::Client, event::SessionId, service::Via, wire::tools::Toolset};

/// By what this front end is known, and what it offers.
#[derive(Clone, Debug, Default)]
pub struct StdioOptions {
    /// `--session`, or the session the harness says it runs.
    pub session: Option<SessionId>,
    /// Name of this connection: random, unguessable.
    pub connection: String,
    /// The working directory; none where programs of every kind run.
    pub directory: Option<String>,
    /// The root of the repository it lies in.
    pub root: Option<String>,
    /// Tools offered; empty for the default.
    pub toolsets: Vec<Toolset>,
}

/// Why a front end ended before its client did.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    /// The client did not open the protocol.
    #[error("the client did not open the protocol: {0}")]
    Opening(String),
    /// The connection's task failed.
    #[error("the connection failed: {0}")]
    Connection(String),
}

/// Serves one client on standard input and output until it hangs up.
///
/// # Errors
/// [`StdioError`]; a client that hangs up, or that never spoke, is no error.
pub async fn stdio(client: Client, options: StdioOptions) -> Result<(), StdioError> {
    front_end(streams(), client, options).await
}

/// Serves one client on any pair of streams until it hangs up.
///
/// # Errors
/// Those of [`stdio`].
pub async fn front_end<R, W>(
    streams: (R, W),
    client: Client,
    options: StdioOptions,
) -> Result<(), StdioError>
where
    R: AsyncRead + Send + Sync + Unpin + 'static,
    W: AsyncWrite + Send + Sync + Unpin + 'static,
{
    let StdioOptions { session, connection, directory, root, toolsets } = options;
    let toolsets = if toolsets.is_empty() { vec![Toolset::Research] } else { toolsets };
    let via = Via { session, connection: Some(connection), remembered: None, directory, root };
    let handler = Handler::new(Arc::new(Forwarded { client }), toolsets, via);
    let running = match handler.serve(streams).await {
        Ok(running) => running,
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(StdioError::Opening(error.to_string())),
    };
    match running.waiting().await {
        Ok(QuitReason::JoinError(error)) => Err(StdioError::Connection(error.to_string())),
        Ok(_) => Ok(()),
        Err(error) => Err(StdioError::Connection(error.to_string())),
    }
}
