//! MCP on standard input and output: a front end. It answers `initialize`, `server/discover` and
//! `tools/list` itself, so that a client starts at once, and forwards other requests to an owner,
//! which `client` finds or starts. It must not write anything else to standard output.

use std::sync::Arc;

use rmcp::{
    ServiceExt as _,
    service::{QuitReason, ServerInitializeError},
    transport::stdio as streams,
};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    backend::ForwardingBackend, handler::Handler, lines::ClientLines, local::LocalSettings,
};
use crate::{client::Client, event::SessionId, service::ClientIdentity, verbs::tools::Toolset};

/// Identity of this front end for the owner, and the tools that it offers.
#[derive(Clone, Debug, Default)]
pub struct StdioOptions {
    /// `--session`, or the session that the harness names.
    pub session: Option<SessionId>,
    /// Names of the parent processes, unless the user chose the session.
    pub process: Vec<String>,
    /// Name of this connection: random, not guessable.
    pub connection: String,
    /// The working directory; `None` if unrelated programs run in it.
    pub directory: Option<String>,
    /// The root of the repository that contains the directory.
    pub root: Option<String>,
    /// Tools offered; empty for the default.
    pub toolsets: Vec<Toolset>,
    /// Settings of the work on files of the workspace.
    pub local: LocalSettings,
}

/// Reason why a front end ended before its client did.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    /// The client did not open the protocol.
    #[error("the client did not open the protocol: {0}")]
    Opening(String),
    /// The connection's task failed.
    #[error("the connection failed: {0}")]
    Connection(String),
}

/// Serves one client on standard input and output until it closes its end.
///
/// # Errors
/// [`StdioError`]; a client that closes its end, or sends nothing, is not an error.
pub async fn serve_stdio(client: Client, options: StdioOptions) -> Result<(), StdioError> {
    serve_streams(streams(), client, options).await
}

/// Serves one client on any pair of streams until it closes its end.
///
/// # Errors
/// Those of [`serve_stdio`].
pub async fn serve_streams<R, W>(
    streams: (R, W),
    client: Client,
    options: StdioOptions,
) -> Result<(), StdioError>
where
    R: AsyncRead + Send + Sync + Unpin + 'static,
    W: AsyncWrite + Send + Sync + Unpin + 'static,
{
    let StdioOptions { session, process, connection, directory, root, toolsets, local } = options;
    let toolsets = if toolsets.is_empty() { vec![Toolset::Research] } else { toolsets };
    let connection = Some(connection);
    let via = ClientIdentity { session, process, connection, remembered: None, directory, root };
    let handler = Handler::new(Arc::new(ForwardingBackend { client, local }), toolsets, via);
    let (input, output) = streams;
    let running = match handler.serve(ClientLines::new(input, output)).await {
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
