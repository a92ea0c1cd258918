//! Transport for the protocol's library on standard input and output: every request with a readable
//! id is answered, including those that the library could not parse. It must not depend on a
//! particular tool.

use std::{collections::VecDeque, io};

use rmcp::{
    RoleServer,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    sync::mpsc,
    task::JoinHandle,
};

use super::message_check::{CheckedMessage, check_message};
use crate::{
    event::limits,
    wire::rpc::{self, MessageOutline},
};

/// Maximum number of lines queued for the client; senders of more wait.
const WAITING_MAX: usize = 16;

pub(super) struct ClientLines<R> {
    input: BufReader<R>,
    /// The line being read, and its outline once it is too long to be kept.
    line: Vec<u8>,
    long: Option<MessageOutline>,
    is_over: bool,
    /// Messages that were read and not returned yet.
    ready: VecDeque<CheckedMessage<RxJsonRpcMessage<RoleServer>>>,
    output: Option<mpsc::Sender<String>>,
    writer: JoinHandle<()>,
}

impl<R: AsyncRead + Unpin> ClientLines<R> {
    pub(super) fn new<W>(input: R, output: W) -> Self
    where
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, waiting) = mpsc::channel(WAITING_MAX);
        Self {
            input: BufReader::new(input),
            line: Vec::new(),
            long: None,
            is_over: false,
            ready: VecDeque::new(),
            output: Some(sender),
            writer: tokio::spawn(write_lines(output, waiting)),
        }
    }

    /// Reads to the end of a line. Cancel-safe: the bytes read stay in `self`.
    async fn read_line(&mut self) -> io::Result<()> {
        loop {
            let read = self.input.fill_buf().await?;
            let end = read.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(read.len(), |at| at + 1);
            self.is_over = read.is_empty();
            let part = read.get(..used).unwrap_or_default();
            match &mut self.long {
                Some(outline) => outline.push(part),
                None => self.line.extend_from_slice(part),
            }
            self.input.consume(used);
            if self.line.len() > limits::BATCH_BYTES_MAX {
                let line = std::mem::take(&mut self.line);
                self.long.get_or_insert_default().push(&line);
            }
            if end.is_some() || self.is_over {
                return Ok(());
            }
        }
    }

    /// Checks the messages of the line that was read, and queues them.
    fn check_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if let Some(outline) = self.long.take() {
            let problem = format!("the request is larger than {} bytes", limits::BATCH_BYTES_MAX);
            self.ready.extend(CheckedMessage::refuse(&outline, rpc::NO_REQUEST, &problem));
        }
        self.ready.extend(
            rpc::split_messages(&rpc::repair_text(&line)).into_iter().filter_map(check_message),
        );
    }
}

/// Writes lines until the queue is closed, or a write fails.
async fn write_lines(mut output: impl AsyncWrite + Unpin, mut waiting: mpsc::Receiver<String>) {
    while let Some(line) = waiting.recv().await {
        let written = output.write_all(line.as_bytes()).await;
        if written.and(output.flush().await).is_err() {
            return;
        }
    }
}

fn closed_error() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleServer> for ClientLines<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let output = self.output.clone();
        async move {
            let line = serde_json::to_string(&item)? + "\n";
            let output = output.ok_or_else(closed_error)?;
            output.send(line).await.map_err(|_| closed_error())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(CheckedMessage::Refused(_)) = self.ready.front() {
                let permit = self.output.as_ref()?.reserve().await.ok()?;
                if let Some(CheckedMessage::Refused(answer)) = self.ready.pop_front() {
                    permit.send(answer + "\n");
                }
                continue;
            }
            if let Some(CheckedMessage::Message(message, _)) = self.ready.pop_front() {
                return Some(message);
            }
            if self.is_over {
                return None;
            }
            self.read_line().await.ok()?;
            self.check_line();
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.output.take();
        (&mut self.writer).await.map_err(io::Error::other)
    }
}
