//! The accept loop. `axum::serve` has no header timeout, no cap on connections, no check of the
//! peer of a socket file, and no stop with a deadline for requests. It must not depend on a route.

use std::{convert::Infallible, io, os::fd::AsFd as _, sync::Arc, time::Duration};

use axum::{Extension, Router, extract::FromRequestParts, http::request::Parts};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{gate::OwnSocket, progress::ProgressStream};
use crate::access::Certificates;

/// Pause after a failed accept, most often for lack of file descriptors. Connections without a
/// request close meanwhile.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Accept pauses without a transfer after which a connection closes to make space for another.
const QUIET_MAX: usize = 10;

/// Bytes that the kernel buffers for each client that does not read; the kernel doubles it.
const UNSENT_BYTES: usize = 128 << 10;

/// Bytes that a connection buffers of unsent answers, or of an unread head, in addition to the part
/// of an answer being sent.
const BUFFER_BYTES: usize = 64 << 10;

/// Source of connections.
pub enum Listener {
    /// A TCP socket.
    Tcp(TcpListener),
    /// A TCP socket with TLS.
    Tls(TcpListener, Arc<Certificates>),
    /// A socket file; only processes of the same user may connect.
    Unix(UnixListener),
}

impl Listener {
    /// Limits the kernel's send buffer of connections, which inherit the limit of the listener.
    fn limit_send_buffer(&self) {
        let socket = match self {
            Self::Tcp(listener) | Self::Tls(listener, _) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        };
        if let Err(error) = rustix::net::sockopt::set_socket_send_buffer_size(socket, UNSENT_BYTES)
        {
            tracing::debug!(%error, "the send buffer of connections stays as it is");
        }
    }
}

/// Settings of the accept loop.
#[derive(Clone, Copy, Debug)]
pub struct ServeOptions {
    /// Maximum time for a request's head, and for an idle connection; default 10 s.
    pub header_timeout: Duration,
    /// Maximum time in which a client reads nothing of a pending answer; default 30 s.
    pub write_timeout: Duration,
    /// Maximum number of concurrent connections; more wait in the backlog. Default 16 384.
    pub connections_max: usize,
    /// Time for which requests may run after a stop; default 10 s.
    pub drain: Duration,
    /// Time without a connection after which the server stops; never by default.
    pub idle: Option<Duration>,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            header_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(30),
            connections_max: 16_384,
            drain: Duration::from_secs(10),
            idle: None,
        }
    }
}

/// Signal to a handler that the server stops; never cancelled if a handler is called without a
/// server.
#[derive(Clone, Default)]
pub(super) struct StopSignal(Arc<CancellationToken>);

impl StopSignal {
    /// Returns a token that is cancelled when the server stops.
    pub(super) fn token(&self) -> CancellationToken {
        CancellationToken::clone(&self.0)
    }
}

impl<S: Sync> FromRequestParts<S> for StopSignal {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}

/// State that all connections share.
#[derive(Clone)]
struct ServerState {
    router: Router,
    options: ServeOptions,
    closing: CancellationToken,
    permits: Arc<Semaphore>,
    open: Arc<watch::Sender<usize>>,
    /// Signal that other connections wait: connections without a request close then.
    crowded: Arc<watch::Sender<()>>,
    tracker: TaskTracker,
}

/// Serves until `stop`, or until no connection has been open for the idle time. Then connections
/// are no longer accepted, streams end with `done`, and running requests have `drain` to finish.
pub async fn serve(
    listeners: Vec<Listener>,
    router: Router,
    options: ServeOptions,
    stop: CancellationToken,
) {
    raise_descriptor_limit();
    listeners.iter().for_each(Listener::limit_send_buffer);
    let closing = CancellationToken::new();
    let (open, watched) = watch::channel(0);
    let server = ServerState {
        router: router.layer(Extension(StopSignal(Arc::new(closing.clone())))),
        options,
        closing: closing.clone(),
        permits: Arc::new(Semaphore::new(options.connections_max)),
        open: Arc::new(open),
        crowded: Arc::new(watch::channel(()).0),
        tracker: TaskTracker::new(),
    };
    for listener in listeners {
        let mut server = server.clone();
        if let Listener::Unix(_) = listener {
            server.router = server.router.layer(Extension(OwnSocket));
        }
        let tracker = server.tracker.clone();
        tracker.spawn(accept_loop(listener, server));
    }
    tokio::select! {
        () = stop.cancelled() => tracing::info!("stopping"),
        () = wait_until_idle(watched, options.idle) => tracing::info!("no connection is open; stopping"),
    }
    closing.cancel();
    server.tracker.close();
    server.tracker.wait().await;
}

/// Raises the limit of file descriptors to its maximum: each connection needs one, and the usual
/// soft limit of 1 024 is far below the cap on connections.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::debug!(%error, "the limit of file descriptors stays");
    }
}

/// Waits until no connection has been open for `limit`; without a limit it never returns.
async fn wait_until_idle(mut open: watch::Receiver<usize>, limit: Option<Duration>) {
    let Some(limit) = limit else { return std::future::pending().await };
    loop {
        let empty = *open.borrow_and_update() == 0;
        let changed = open.changed();
        if !empty {
            let _ = changed.await;
        } else if tokio::time::timeout(limit, changed).await.is_err() {
            return;
        }
    }
}

async fn accept_loop(listener: Listener, server: ServerState) {
    loop {
        let permit = tokio::select! {
            () = server.closing.cancelled() => return,
            permit = acquire_permit(&server) => permit,
        };
        let Some(permit) = permit else { return };
        let accepted = tokio::select! {
            () = server.closing.cancelled() => return,
            accepted = accept_connection(&listener, &server, permit) => accepted,
        };
        if let Err(error) = accepted {
            tracing::warn!(%error, "a connection was not accepted");
            server.crowded.send_replace(());
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }
}

/// Acquires a permit for one connection, closing idle ones meanwhile; `None` after the stop.
async fn acquire_permit(server: &ServerState) -> Option<OwnedSemaphorePermit> {
    loop {
        let permit = Arc::clone(&server.permits).acquire_owned();
        if let Ok(permit) = tokio::time::timeout(ACCEPT_PAUSE, permit).await {
            return permit.ok();
        }
        server.crowded.send_replace(());
    }
}

/// Accepts one connection and spawns its task.
async fn accept_connection(
    listener: &Listener,
    server: &ServerState,
    permit: OwnedSemaphorePermit,
) -> io::Result<()> {
    match listener {
        Listener::Tcp(listener) => {
            let (stream, _) = listener.accept().await?;
            // Answers are small and written whole; waiting to fill a packet only adds latency.
            stream.set_nodelay(true)?;
            server.tracker.spawn(serve_connection(stream, server.clone(), permit));
        }
        Listener::Tls(listener, certificates) => {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let Some(config) = certificates.current() else { return Ok(()) };
            server.tracker.spawn(serve_tls(
                stream,
                TlsAcceptor::from(config),
                server.clone(),
                permit,
            ));
        }
        Listener::Unix(listener) => {
            let (stream, _) = listener.accept().await?;
            if is_same_user(&stream) {
                server.tracker.spawn(serve_connection(stream, server.clone(), permit));
            } else {
                tracing::warn!("a process of another user was refused");
            }
        }
    }
    Ok(())
}

/// Serves a connection over TLS; its handshake has the time limit of a request's head.
async fn serve_tls(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    server: ServerState,
    permit: OwnedSemaphorePermit,
) {
    let shaken = tokio::time::timeout(server.options.header_timeout, acceptor.accept(stream));
    let shaken = tokio::select! {
        shaken = shaken => shaken,
        () = server.closing.cancelled() => return,
    };
    match shaken {
        Ok(Ok(stream)) => serve_connection(stream, server, permit).await,
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

fn is_same_user(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == own)
}

/// Serves one connection until it ends.
async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    server: ServerState,
    _permit: OwnedSemaphorePermit,
) {
    let _open = OpenConnection::new(&server.open);
    let stream = ProgressStream::new(stream, server.options.write_timeout);
    let (transfers, mut crowded) = (stream.transfers(), server.crowded.subscribe());
    let (mut seen, mut quiet) = (0, 0);
    let service = TowerToHyperService::new(server.router.clone());
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(server.options.header_timeout)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = loop {
        tokio::select! {
            // A request that has arrived is read before its connection can count as quiet.
            biased;
            ended = connection.as_mut() => break ended,
            _ = crowded.changed() => {
                let before = std::mem::replace(&mut seen, transfers.count());
                quiet = if before == seen { quiet + 1 } else { 0 };
                match seen {
                    _ if quiet < QUIET_MAX => {}
                    0 => return,
                    // A running request is answered first, and a stream sent to its end.
                    _ => connection.as_mut().graceful_shutdown(),
                }
            }
            () = server.closing.cancelled() => {
                connection.as_mut().graceful_shutdown();
                match tokio::time::timeout(server.options.drain, connection).await {
                    Ok(ended) => break ended,
                    Err(_) => return tracing::warn!("a request did not finish in time: aborted"),
                }
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke off");
    }
}

/// Guard that counts an open connection.
struct OpenConnection(Arc<watch::Sender<usize>>);

impl OpenConnection {
    fn new(open: &Arc<watch::Sender<usize>>) -> Self {
        open.send_modify(|count| *count += 1);
        Self(Arc::clone(open))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
