//! Lines of a client on standard input, judged before the library of the protocol builds trees of
//! them: a request that is too large is replaced by one that is refused under its id. It must not
//! know a tool.

use std::io;

use bytes::Bytes;
use futures_util::{Stream, stream};
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio_util::io::StreamReader;

use crate::{event::limits, verbs::tools, wire};

/// The method of a request in the place of one that is refused; its parameter says why.
pub(super) const REFUSED: &str = "sessionlog/refused";

/// The same lines, without those that are too much for a tree.
pub(super) fn judged<R: AsyncRead + Send + Sync + Unpin>(
    input: R,
) -> impl AsyncRead + Send + Sync + Unpin {
    StreamReader::new(Box::pin(lines(BufReader::new(input))))
}

fn lines<R: AsyncBufRead + Send + Sync + Unpin>(
    input: R,
) -> impl Stream<Item = io::Result<Bytes>> + Send + Sync {
    stream::try_unfold(input, |mut input| async move {
        let mut line = Vec::new();
        let most = limits::BATCH_BYTES_MAX;
        (&mut input).take(most as u64).read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return Ok(None);
        }
        if line.len() == most && !line.ends_with(b"\n") {
            skip(&mut input).await?;
            // No message: the library says so.
            line = b"{\n".to_vec();
        }
        let line = match problem(&line) {
            Some(problem) => refused(&line, &problem),
            None => line,
        };
        Ok(Some((Bytes::from(line), input)))
    })
}

/// Skips the rest of a line.
async fn skip(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf().await?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let (used, done) = (end.map_or(buffer.len(), |at| at + 1), end.is_some());
        if used == 0 || done {
            input.consume(used);
            return Ok(());
        }
        input.consume(used);
    }
}

/// Why a line is refused.
fn problem(line: &[u8]) -> Option<String> {
    if let Err(error) = wire::json::values(line) {
        return Some(error.to_string());
    }
    let too_large = line.len() > limits::MCP_BYTES_MAX && !tools::carries(line)
        || line.len() > limits::MCP_CARRIER_BYTES_MAX;
    too_large.then(|| format!("the request is larger than {} bytes", limits::MCP_BYTES_MAX))
}

/// A line that is refused under the id of another one; nothing for what has no id.
fn refused(line: &[u8], problem: &str) -> Vec<u8> {
    #[derive(Deserialize)]
    struct Request<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
        #[serde(rename = "method")]
        _method: serde::de::IgnoredAny,
    }
    let Ok(Request { id, .. }) = serde_json::from_slice(line) else { return b"\n".to_vec() };
    let refused = json!({
        "jsonrpc": "2.0", "id": id, "method": REFUSED, "params": { "problem": problem },
    });
    format!("{refused}\n").into_bytes()
}
