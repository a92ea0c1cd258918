//! The proxy on a pair of streams, for a wrapped program or another pair of streams. Lines keep
//! their order; an answer of the proxy is written between two lines of the server. It must not
//! delay a line except to decide how it is answered, nor drop a call when the client closes its
//! side.

use std::{ffi::OsString, io, process::Stdio, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    process::{Child, Command},
    sync::Mutex,
    task::JoinSet,
};

use super::{
    ProxyOptions,
    lines::{LinePiece, LineReader},
    state::{AnswerSource, MessageSource, ProxyCall, ProxyState},
};
use crate::{
    client::{CREDENTIALS, Client},
    wire::rpc::MessageOutline,
};

/// Time limit of undecided calls after the client has left, and then of the server's last output.
const GRACE: Duration = Duration::from_secs(3);
/// Time limit for a program to exit after its streams are closed.
const EXIT_PATIENCE: Duration = Duration::from_secs(1);
/// Time limit for recorded events to become durable at the end.
const CLOSE_PATIENCE: Duration = Duration::from_secs(10);
/// Longest time for which an answer waits for its durable record, if `durable` is set.
const DURABLE_PATIENCE: Duration = Duration::from_secs(10);
/// Name of the only channel of a pair of streams.
const CHANNEL: &str = "stdio";

/// Cause of the end of a wrapped program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramEnd {
    /// The client disconnected first.
    ByClient,
    /// The program exited, with this exit code; `None` for a signal.
    ByItself(Option<i32>),
}

/// Wraps a program that serves MCP on standard input and output, until one side closes or `stop`
/// completes.
///
/// # Errors
/// The program cannot be started, or the streams of the client break.
pub async fn wrap_program<R, W>(
    streams: (R, W),
    command: &[OsString],
    client: Client,
    options: ProxyOptions,
    stop: impl Future<Output = ()>,
) -> io::Result<ProgramEnd>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    for secret in CREDENTIALS {
        command.env_remove(secret);
    }
    let mut child = command.spawn()?;
    let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("the program has no streams"));
    };
    let left = relay_streams(streams, (from, to), client, options, stop).await?;
    let ended = wait_or_kill(&mut child).await?;
    Ok(if left { ProgramEnd::ByClient } else { ProgramEnd::ByItself(ended) })
}

/// Waits for a program whose streams are closed, and kills it after a time limit.
async fn wait_or_kill(child: &mut Child) -> io::Result<Option<i32>> {
    if let Ok(status) = tokio::time::timeout(EXIT_PATIENCE, child.wait()).await {
        return Ok(status?.code());
    }
    child.kill().await?;
    Ok(None)
}

/// Forwards between two pairs of streams until one side closes, or `stop` completes because the
/// client disconnected; returns true if the client disconnected first.
///
/// # Errors
/// A stream of the client breaks other than by being closed.
pub async fn relay_streams<R, W, S, T>(
    client_side: (R, W),
    server_side: (S, T),
    client: Client,
    options: ProxyOptions,
    stop: impl Future<Output = ()>,
) -> io::Result<bool>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
    S: AsyncRead + Send + Unpin + 'static,
    T: AsyncWrite + Send + Unpin + 'static,
{
    let relay = Arc::new(Relay {
        durable: options.durable,
        state: ProxyState::new(client, options),
        to_client: Mutex::new(client_side.1),
        to_server: Mutex::new(Some(server_side.1)),
    });
    let mut stop = std::pin::pin!(stop.fuse());
    let mut downward = std::pin::pin!(relay.forward_from_server(LineReader::new(server_side.0)));
    let mut deciding = JoinSet::new();
    // After any error, earlier messages are still recorded.
    let lines = LineReader::new(client_side.0);
    let (left, read) = tokio::select! {
        read = relay.forward_from_client(lines, &mut deciding) => (true, read),
        read = &mut downward => (false, read),
        () = &mut stop => (true, Ok(())),
    };
    if left {
        let closing = async {
            let decided = async { while deciding.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(GRACE, decided).await;
            deciding.shutdown().await;
            // The server reads the end of its input, and sends the rest of its output.
            relay.to_server.lock().await.take();
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            () = closing => {}
            _ = &mut downward => {}
            // A second stop ends the wait.
            () = &mut stop => {}
        }
    }
    relay.state.finish();
    relay.state.recorder.close(CLOSE_PATIENCE).await;
    read.map(|()| left)
}

struct Relay<W, T> {
    state: ProxyState,
    to_client: Mutex<W>,
    /// `None` once the server's input is closed.
    to_server: Mutex<Option<T>>,
    durable: bool,
}

impl<W, T> Relay<W, T>
where
    W: AsyncWrite + Send + Unpin + 'static,
    T: AsyncWrite + Send + Unpin + 'static,
{
    /// Forwards the client's lines until it closes its side; calls in `deciding` continue.
    async fn forward_from_client<R: AsyncRead + Unpin>(
        self: &Arc<Self>,
        mut lines: LineReader<R>,
        deciding: &mut JoinSet<()>,
    ) -> io::Result<()> {
        let from = MessageSource { channel: CHANNEL, ..MessageSource::default() };
        while let Some(piece) = lines.next().await? {
            while deciding.try_join_next().is_some() {}
            match piece {
                LinePiece::Line(line) => {
                    let text = String::from_utf8_lossy(&line);
                    match self.state.inspect_client_message(&from, &text).decide {
                        Some(call) => {
                            let relay = Arc::clone(self);
                            deciding
                                .spawn(async move { relay.answer_or_forward(call, &line).await });
                        }
                        None => self.send_to_server(&line).await,
                    }
                }
                LinePiece::Part(part, last) => {
                    let mut server = self.to_server.lock().await;
                    if let Some(server) = &mut *server {
                        // A write error is ignored: the loss of the server ends the read of its
                        // output.
                        let _ = forward_parts(
                            server,
                            part,
                            last,
                            &mut lines,
                            &mut MessageOutline::default(),
                        )
                        .await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Answers a call, or forwards it to the server.
    async fn answer_or_forward(&self, call: Box<ProxyCall>, line: &[u8]) {
        let ask =
            |ask: String| async move { self.send_to_server(format!("{ask}\n").as_bytes()).await };
        match self.state.decide(call, ask).await {
            AnswerSource::Answer(answer) => {
                // A write error is ignored: the loss of the client ends the read of its input.
                let _ = write_and_flush(
                    &mut *self.to_client.lock().await,
                    format!("{answer}\n").as_bytes(),
                )
                .await;
            }
            AnswerSource::Server => self.send_to_server(line).await,
            AnswerSource::Cancelled => {}
        }
    }

    async fn send_to_server(&self, line: &[u8]) {
        if let Some(server) = &mut *self.to_server.lock().await {
            let _ = write_and_flush(server, line).await;
        }
    }

    async fn forward_from_server<S: AsyncRead + Unpin>(
        &self,
        mut lines: LineReader<S>,
    ) -> io::Result<()> {
        while let Some(piece) = lines.next().await? {
            match piece {
                LinePiece::Line(line) => {
                    let text = String::from_utf8_lossy(&line);
                    let back = self.state.inspect_server_message(CHANNEL, &text);
                    for record in back.records.iter().filter(|_| self.durable) {
                        self.state.recorder.wait_until_durable(record, DURABLE_PATIENCE).await;
                    }
                    if !back.answers_proxy {
                        let changed = back.changed.as_deref().map(str::as_bytes);
                        let mut client = self.to_client.lock().await;
                        write_and_flush(&mut *client, changed.unwrap_or(&line)).await?;
                    }
                }
                LinePiece::Part(part, last) => {
                    let mut outline = MessageOutline::default();
                    let mut client = self.to_client.lock().await;
                    forward_parts(&mut *client, part, last, &mut lines, &mut outline).await??;
                    self.state.record_long_message(CHANNEL, &outline);
                }
            }
        }
        Ok(())
    }
}

/// Forwards a line that is too long to be inspected, and outlines it; returns the read error
/// outside and the write error inside.
async fn forward_parts<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    to: &mut W,
    mut part: Vec<u8>,
    mut last: bool,
    lines: &mut LineReader<R>,
    outline: &mut MessageOutline,
) -> io::Result<io::Result<()>> {
    outline.push(&part);
    let mut written = to.write_all(&part).await;
    while !last {
        let Some(LinePiece::Part(next, end)) = lines.next().await? else { break };
        (part, last) = (next, end);
        outline.push(&part);
        written = written.and(to.write_all(&part).await);
    }
    Ok(written.and(to.flush().await))
}

async fn write_and_flush<W: AsyncWrite + Unpin>(to: &mut W, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes).await?;
    to.flush().await
}
