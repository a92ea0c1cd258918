//! The accept loop: our own, because a server of other people's programs needs what `axum::serve`
//! leaves out: a header timeout, a cap on connections, a check of who is at the other end of a
//! socket file, and a stop that lets requests finish. It must not know a route.

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

use super::{gate::OwnSocket, progress::Progress};
use crate::access::Certificates;

/// Pause after a failed accept: most often there are no file descriptors left. Connections without
/// a request give way meanwhile.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Pauses in a row in which a connection that gives way sent and received nothing.
const QUIET_MAX: usize = 10;

/// Bytes that the kernel keeps for each client that does not read; it doubles what it is told.
const UNSENT_BYTES: usize = 128 << 10;

/// Bytes that a connection keeps of answers not taken yet, or of a head not read yet, beside the
/// part of an answer that is being sent.
const BUFFER_BYTES: usize = 64 << 10;

/// Where connections come from.
pub enum Listener {
    /// A TCP socket.
    Tcp(TcpListener),
    /// A TCP socket that speaks TLS.
    Tls(TcpListener, Arc<Certificates>),
    /// A socket file; only processes of the same user are let in.
    Unix(UnixListener),
}

impl Listener {
    /// Bounds what the kernel keeps for a client that does not read; a connection inherits it.
    fn bound_buffers(&self) {
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

/// What an operator may change about the accept loop.
#[derive(Clone, Copy, Debug)]
pub struct ServeOptions {
    /// How long a client may take for a request's head, and leave a connection idle; default 10 s.
    pub header_timeout: Duration,
    /// How long a client may take nothing of what is sent to it; default 30 s.
    pub write_timeout: Duration,
    /// Connections at once; more wait in the backlog. Default 16 384.
    pub connections_max: usize,
    /// How long requests may go on after a stop; default 10 s.
    pub drain: Duration,
    /// Return, too, when no connection has been open for so long.
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

/// Tells a handler that the server stops. Handlers called without a server never hear of it.
#[derive(Clone, Default)]
pub(super) struct Stopping(Arc<CancellationToken>);

impl Stopping {
    /// Cancelled when the server stops.
    pub(super) fn token(&self) -> CancellationToken {
        CancellationToken::clone(&self.0)
    }
}

impl<S: Sync> FromRequestParts<S> for Stopping {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}

/// What every connection shares.
#[derive(Clone)]
struct Floor {
    router: Router,
    options: ServeOptions,
    closing: CancellationToken,
    permits: Arc<Semaphore>,
    open: Arc<watch::Sender<usize>>,
    /// Tells connections that others wait: those without a request end.
    crowded: Arc<watch::Sender<()>>,
    tracker: TaskTracker,
}

/// Serves until `stop`, or until nobody has been connected for the idle time. Then no connection
/// is taken any more, streams end with `done`, and requests under way have `drain` to finish.
pub async fn serve(
    listeners: Vec<Listener>,
    router: Router,
    options: ServeOptions,
    stop: CancellationToken,
) {
    raise_descriptors();
    listeners.iter().for_each(Listener::bound_buffers);
    let closing = CancellationToken::new();
    let (open, watched) = watch::channel(0);
    let floor = Floor {
        router: router.layer(Extension(Stopping(Arc::new(closing.clone())))),
        options,
        closing: closing.clone(),
        permits: Arc::new(Semaphore::new(options.connections_max)),
        open: Arc::new(open),
        crowded: Arc::new(watch::channel(()).0),
        tracker: TaskTracker::new(),
    };
    for listener in listeners {
        let mut floor = floor.clone();
        if let Listener::Unix(_) = listener {
            floor.router = floor.router.layer(Extension(OwnSocket));
        }
        let tracker = floor.tracker.clone();
        tracker.spawn(accept(listener, floor));
    }
    tokio::select! {
        () = stop.cancelled() => tracing::info!("stopping"),
        () = nobody(watched, options.idle) => tracing::info!("nobody is connected; leaving"),
    }
    closing.cancel();
    floor.tracker.close();
    floor.tracker.wait().await;
}

/// Takes as many file descriptors as this process may: each connection is one, and the usual
/// soft limit of 1 024 is far below the cap on connections.
fn raise_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::debug!(%error, "the limit of file descriptors stays");
    }
}

/// Returns when no connection has been open for `idle`; never without a limit.
async fn nobody(mut open: watch::Receiver<usize>, idle: Option<Duration>) {
    let Some(idle) = idle else { return std::future::pending().await };
    loop {
        let empty = *open.borrow_and_update() == 0;
        let changed = open.changed();
        if !empty {
            let _ = changed.await;
        } else if tokio::time::timeout(idle, changed).await.is_err() {
            return;
        }
    }
}

async fn accept(listener: Listener, floor: Floor) {
    loop {
        let permit = tokio::select! {
            () = floor.closing.cancelled() => return,
            permit = place(&floor) => permit,
        };
        let Some(permit) = permit else { return };
        let accepted = tokio::select! {
            () = floor.closing.cancelled() => return,
            accepted = one(&listener, &floor, permit) => accepted,
        };
        if let Err(error) = accepted {
            tracing::warn!(%error, "a connection was not taken");
            floor.crowded.send_replace(());
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }
}

/// A place among the connections; while there is none, idle ones give way. `None` after the end.
async fn place(floor: &Floor) -> Option<OwnedSemaphorePermit> {
    loop {
        let permit = Arc::clone(&floor.permits).acquire_owned();
        if let Ok(permit) = tokio::time::timeout(ACCEPT_PAUSE, permit).await {
            return permit.ok();
        }
        floor.crowded.send_replace(());
    }
}

/// Takes one connection and gives it a task of its own.
async fn one(listener: &Listener, floor: &Floor, permit: OwnedSemaphorePermit) -> io::Result<()> {
    match listener {
        Listener::Tcp(listener) => {
            let (stream, _) = listener.accept().await?;
            // Answers are small and written whole; waiting to fill a packet only adds latency.
            stream.set_nodelay(true)?;
            floor.tracker.spawn(converse(stream, floor.clone(), permit));
        }
        Listener::Tls(listener, certificates) => {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let Some(config) = certificates.current() else { return Ok(()) };
            floor.tracker.spawn(greet(stream, TlsAcceptor::from(config), floor.clone(), permit));
        }
        Listener::Unix(listener) => {
            let (stream, _) = listener.accept().await?;
            if same_user(&stream) {
                floor.tracker.spawn(converse(stream, floor.clone(), permit));
            } else {
                tracing::warn!("a process of another user was turned away");
            }
        }
    }
    Ok(())
}

/// A connection over TLS: its greeting has the time that a request's head has.
async fn greet(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    floor: Floor,
    permit: OwnedSemaphorePermit,
) {
    let greeting = tokio::time::timeout(floor.options.header_timeout, acceptor.accept(stream));
    let greeted = tokio::select! {
        greeted = greeting => greeted,
        () = floor.closing.cancelled() => return,
    };
    match greeted {
        Ok(Ok(stream)) => converse(stream, floor, permit).await,
        Ok(Err(error)) => tracing::debug!(%error, "a connection was not greeted"),
        Err(_) => tracing::debug!("a connection took too long to greet"),
    }
}

fn same_user(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == own)
}

/// One connection, to its end.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    floor: Floor,
    _permit: OwnedSemaphorePermit,
) {
    let _open = Open::new(&floor.open);
    let stream = Progress::new(stream, floor.options.write_timeout);
    let (transfers, mut crowded) = (stream.transfers(), floor.crowded.subscribe());
    let (mut seen, mut quiet) = (0, 0);
    let service = TowerToHyperService::new(floor.router.clone());
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(floor.options.header_timeout)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = loop {
        tokio::select! {
            ended = connection.as_mut() => break ended,
            _ = crowded.changed() => {
                let before = std::mem::replace(&mut seen, transfers.count());
                quiet = if before == seen { quiet + 1 } else { 0 };
                match seen {
                    _ if quiet < QUIET_MAX => {}
                    0 => return,
                    // A request under way is answered before the connection ends, a stream to its
                    // end.
                    _ => connection.as_mut().graceful_shutdown(),
                }
            }
            () = floor.closing.cancelled() => {
                connection.as_mut().graceful_shutdown();
                match tokio::time::timeout(floor.options.drain, connection).await {
                    Ok(ended) => break ended,
                    Err(_) => return tracing::warn!("a request did not finish in time; cut off"),
                }
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke off");
    }
}

/// Counts a connection while it is held.
struct Open(Arc<watch::Sender<usize>>);

impl Open {
    fn new(open: &Arc<watch::Sender<usize>>) -> Self {
        open.send_modify(|count| *count += 1);
        Self(Arc::clone(open))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
