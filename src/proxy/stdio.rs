//! The proxy on a pair of streams, in front of a program or of another pair. What one side says
//! goes to the other line by line, in order; an answer of ours goes between two lines of the
//! server's. It must not hold a line back but to see who answers it.

use std::{ffi::OsString, io, process::Stdio, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    process::{Child, Command},
    sync::Mutex,
    task::JoinSet,
};

use super::{
    Options,
    desk::{Decision, Desk, Toward},
    lines::{Lines, Piece},
};
use crate::client::Client;

/// How long the server may take to end when its client has left.
const GRACE: Duration = Duration::from_secs(3);
/// How long what was recorded may take to be durable at the end.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// How long an answer waits for its record, where answers wait.
const DURABLE_PATIENCE: Duration = Duration::from_secs(10);
/// What lets somebody into our store is none of a wrapped program's business.
const SECRETS: [&str; 3] = ["SESSIONLOG_TOKEN", "SESSIONLOG_KEY", "SESSIONLOG_KEY_PREVIOUS"];
/// All there is on a pair of streams.
const CHANNEL: &str = "stdio";

/// How a wrapped program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its client left first.
    ByClient,
    /// By itself, with this code; `None`: by a signal.
    ByItself(Option<i32>),
}

/// Wraps a program that speaks MCP on standard input and output.
///
/// # Errors
/// The program cannot be started, or the streams of the client break.
pub async fn with_program<R, W>(
    streams: (R, W),
    command: &[OsString],
    client: Client,
    options: Options,
) -> io::Result<Ended>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    for secret in SECRETS {
        command.env_remove(secret);
    }
    let mut child = command.spawn()?;
    let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("the program has no streams"));
    };
    let left = over_streams(streams, (from, to), client, options).await?;
    let ended = end(&mut child).await?;
    Ok(if left { Ended::ByClient } else { Ended::ByItself(ended) })
}

/// Waits for a program whose streams are closed, and ends it when it does not see that.
async fn end(child: &mut Child) -> io::Result<Option<i32>> {
    if let Ok(status) = tokio::time::timeout(GRACE, child.wait()).await {
        return Ok(status?.code());
    }
    child.kill().await?;
    Ok(None)
}

/// Stands between two pairs of streams until one side closes; `true` when it was the client.
///
/// # Errors
/// A stream of the client breaks in another way than by being closed.
pub async fn over_streams<R, W, S, T>(
    client_side: (R, W),
    server_side: (S, T),
    client: Client,
    options: Options,
) -> io::Result<bool>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
    S: AsyncRead + Send + Unpin + 'static,
    T: AsyncWrite + Send + Unpin + 'static,
{
    let durable = options.durable;
    let desk = Arc::new(Desk::new(client, options));
    let to_client = Arc::new(Mutex::new(client_side.1));
    let to_server = Arc::new(Mutex::new(server_side.1));
    let there = Relay {
        desk: Arc::clone(&desk),
        to_client: Arc::clone(&to_client),
        to_server: Arc::clone(&to_server),
    };
    let upward = there.upward(Lines::new(client_side.0));
    let downward = from_server(&desk, Lines::new(server_side.0), &to_client, durable);
    let mut downward = std::pin::pin!(downward);
    let left = tokio::select! {
        read = upward => { read?; true }
        read = &mut downward => { read?; false }
    };
    if left {
        // The server hears that nobody asks any more, and says what it still has to say.
        let _ = to_server.lock().await.shutdown().await;
        let _ = tokio::time::timeout(GRACE, downward).await;
    }
    desk.over(CHANNEL);
    desk.recorder.close(LAST_WORDS).await;
    Ok(left)
}

struct Relay<W, T> {
    desk: Arc<Desk>,
    to_client: Arc<Mutex<W>>,
    to_server: Arc<Mutex<T>>,
}

impl<W, T> Relay<W, T>
where
    W: AsyncWrite + Send + Unpin + 'static,
    T: AsyncWrite + Send + Unpin + 'static,
{
    async fn upward<R: AsyncRead + Unpin>(&self, mut lines: Lines<R>) -> io::Result<()> {
        // What is being decided ends with the client.
        let mut deciding = JoinSet::new();
        while let Some(piece) = lines.next().await? {
            while deciding.try_join_next().is_some() {}
            let (line, more) = match piece {
                Piece::Line(line) => {
                    let text = std::str::from_utf8(&line).unwrap_or_default();
                    if let Toward::Decide(call) = self.desk.client_says(CHANNEL, None, "", text) {
                        let (desk, up) = (Arc::clone(&self.desk), Arc::clone(&self.to_server));
                        let down = Arc::clone(&self.to_client);
                        deciding.spawn(async move {
                            let mut decision = desk.decide(call.clone()).await;
                            if let Decision::Probe(ask) = decision {
                                let _ = write(&up, format!("{ask}\n").as_bytes()).await;
                                desk.probed().await;
                                decision = desk.decide(call).await;
                            }
                            let _ = match decision {
                                Decision::Answer(answer) => {
                                    write(&down, format!("{answer}\n").as_bytes()).await
                                }
                                Decision::Server => write(&up, &line).await,
                                Decision::Nobody | Decision::Probe(_) => Ok(()),
                            };
                        });
                        continue;
                    }
                    (line, false)
                }
                Piece::Part(part, last) => (part, !last),
            };
            let mut server = self.to_server.lock().await;
            // A server that is gone is noticed by what it no longer says.
            let _ = server.write_all(&line).await;
            if more {
                self.rest(&mut *server, &mut lines).await?;
            }
            let _ = server.flush().await;
        }
        Ok(())
    }

    /// The rest of a line that is too long to be looked at, with nothing in between.
    async fn rest<R: AsyncRead + Unpin>(
        &self,
        server: &mut T,
        lines: &mut Lines<R>,
    ) -> io::Result<()> {
        while let Some(Piece::Part(part, last)) = lines.next().await? {
            let _ = server.write_all(&part).await;
            if last {
                break;
            }
        }
        Ok(())
    }
}

async fn write<W: AsyncWrite + Unpin>(to: &Mutex<W>, bytes: &[u8]) -> io::Result<()> {
    let mut to = to.lock().await;
    to.write_all(bytes).await?;
    to.flush().await
}

async fn from_server<S, W>(
    desk: &Desk,
    mut lines: Lines<S>,
    to_client: &Mutex<W>,
    durable: bool,
) -> io::Result<()>
where
    S: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    while let Some(piece) = lines.next().await? {
        match piece {
            Piece::Line(line) => {
                let text = std::str::from_utf8(&line).unwrap_or_default();
                let back = desk.server_says(CHANNEL, text);
                if let Some(record) = back.record.filter(|_| durable) {
                    desk.recorder.durable(record, DURABLE_PATIENCE).await;
                }
                if !back.ours {
                    let changed = back.changed.as_deref().map(str::as_bytes);
                    write(to_client, changed.unwrap_or(&line)).await?;
                }
            }
            Piece::Part(part, mut last) => {
                let mut client = to_client.lock().await;
                client.write_all(&part).await?;
                while !last {
                    let Some(Piece::Part(part, end)) = lines.next().await? else { break };
                    client.write_all(&part).await?;
                    last = end;
                }
                client.flush().await?;
            }
        }
    }
    Ok(())
}
