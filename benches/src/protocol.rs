//! Finds the end of a response in the protocols of the servers compared: all three are read by the
//! same few lines, so that no client library makes a server look slow. It must not interpret more
//! of a response than its completeness, a refusal, and the tail.

use std::io;

use serde_json::Value;

/// Protocol of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// HTTP/1.1, `Content-Length` or chunked.
    Http,
    /// Redis' RESP2.
    Resp,
    /// PostgreSQL's version 3: a response ends with `ReadyForQuery`.
    Postgres,
}

impl Protocol {
    /// Returns the length of the first response in `bytes`, once it is complete.
    ///
    /// Returns an error for a refusal: a benchmark of refusals measures nothing.
    pub(super) fn end(self, bytes: &[u8]) -> io::Result<Option<usize>> {
        match self {
            Self::Http => http_end(bytes),
            Self::Resp => resp_end(bytes),
            Self::Postgres => postgres_end(bytes),
        }
    }
}

fn refusal_error(bytes: &[u8]) -> io::Error {
    let shown = bytes.get(..600).unwrap_or(bytes);
    io::Error::other(format!("refused: {}", String::from_utf8_lossy(shown)))
}

/// Returns the offset of `wanted` in `bytes`, from `from` on.
fn find(bytes: &[u8], from: usize, wanted: &[u8]) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.windows(wanted.len()).position(|window| window == wanted).map(|at| from + at)
}

fn utf8_range(bytes: &[u8], from: usize, to: usize) -> &str {
    bytes.get(from..to).and_then(|part| std::str::from_utf8(part).ok()).unwrap_or_default().trim()
}

/// Returns the start of an HTTP response's body and its length; `None` for a chunked one.
pub(super) fn http_head(bytes: &[u8]) -> io::Result<Option<(usize, Option<usize>)>> {
    let Some(end) = find(bytes, 0, b"\r\n\r\n") else { return Ok(None) };
    let head = utf8_range(bytes, 0, end);
    let header = |wanted: &str| {
        let mut lines = head.split("\r\n").filter_map(|line| line.split_once(':'));
        lines.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
    };
    if !head.starts_with("HTTP/1.1 2") {
        return Err(refusal_error(bytes));
    }
    Ok(Some((end + 4, header("content-length").and_then(|length| length.parse().ok()))))
}

fn http_end(bytes: &[u8]) -> io::Result<Option<usize>> {
    let Some((start, length)) = http_head(bytes)? else { return Ok(None) };
    if let Some(length) = length {
        return Ok(Some(start + length).filter(|end| *end <= bytes.len()));
    }
    let mut at = start;
    loop {
        let Some(chunk) = chunk(bytes, at)? else { return Ok(None) };
        at = chunk.next;
        if chunk.to == chunk.from {
            return Ok(Some(at));
        }
    }
}

/// A chunk of a chunked body: the range of its bytes, and the start of the next chunk. The last one
/// has no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) next: usize,
}

/// Parses the chunk that starts at `at`, once it is complete.
pub(super) fn chunk(bytes: &[u8], at: usize) -> io::Result<Option<Chunk>> {
    let Some(line) = find(bytes, at, b"\r\n") else { return Ok(None) };
    let length = usize::from_str_radix(utf8_range(bytes, at, line), 16)
        .map_err(|_| io::Error::other("a chunk of an answer has no length"))?;
    let from = line + 2;
    let next = from + length + 2;
    Ok((next <= bytes.len()).then_some(Chunk { from, to: from + length, next }))
}

fn resp_end(bytes: &[u8]) -> io::Result<Option<usize>> {
    let (mut at, mut wanted) = (0, 1_i64);
    while wanted > 0 {
        let Some(line) = find(bytes, at, b"\r\n") else { return Ok(None) };
        let kind = bytes.get(at).copied().unwrap_or_default();
        let count: i64 = utf8_range(bytes, at + 1, line).parse().unwrap_or(-1);
        at = line + 2;
        match kind {
            b'-' => return Err(refusal_error(bytes)),
            b'*' => wanted += count.max(0),
            b'$' if count >= 0 => at += usize::try_from(count).unwrap_or_default() + 2,
            _ => {}
        }
        wanted -= 1;
    }
    Ok(Some(at).filter(|end| *end <= bytes.len()))
}

fn postgres_end(bytes: &[u8]) -> io::Result<Option<usize>> {
    let (mut at, mut error) = (0, None);
    while let Some((kind, body, next)) = postgres_message(bytes, at) {
        match kind {
            b'E' => error = error.or(Some(body)),
            b'Z' => return error.map_or(Ok(Some(next)), |body| Err(refusal_error(body))),
            _ => {}
        }
        at = next;
    }
    // An error while a connection starts is followed by its end, not by `ReadyForQuery`.
    Ok(None)
}

/// Returns kind, body and end of the message at `at`, once it is complete.
pub(super) fn postgres_message(bytes: &[u8], at: usize) -> Option<(u8, &[u8], usize)> {
    let kind = *bytes.get(at)?;
    let length: [u8; 4] = bytes.get(at + 1..at + 5)?.try_into().ok()?;
    let next = at + 1 + usize::try_from(u32::from_be_bytes(length)).ok()?;
    Some((kind, bytes.get(at + 5..next)?, next))
}

/// Returns the body of a complete response. The server sends these responses in one piece.
pub(super) fn body(answer: &[u8]) -> Option<&[u8]> {
    let (start, _) = http_head(answer).ok()??;
    answer.get(start..)
}

/// Parses the body as JSON.
pub(super) fn json(answer: &[u8]) -> Option<Value> {
    serde_json::from_slice(body(answer)?).ok()
}

/// Returns the tail in a response of getEvents.
pub(super) fn tail(answer: &[u8]) -> Option<u64> {
    json(answer)?.get("tail")?.as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that every proper prefix is incomplete and that bytes after the response are ignored.
    fn check(protocol: Protocol, answer: &[u8]) {
        for end in 0..answer.len() {
            assert_eq!(protocol.end(&answer[..end]).expect("no refusal"), None, "{end}");
        }
        let more = [answer, b"HTTP/1.1 200 OK"].concat();
        assert_eq!(protocol.end(&more).expect("no refusal"), Some(answer.len()));
    }

    #[test]
    fn an_answer_ends_at_the_end_defined_by_its_protocol() {
        check(Protocol::Http, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        check(Protocol::Http, b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n");
        let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        check(Protocol::Http, chunked);
        check(Protocol::Resp, b"+PONG\r\n");
        check(Protocol::Resp, b":12\r\n");
        check(Protocol::Resp, b"$-1\r\n");
        check(Protocol::Resp, b"*2\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\ne\r\n$2\r\n\r\n\r\n+OK\r\n");
        check(Protocol::Postgres, b"C\0\0\0\x0dINSERT 0\0Z\0\0\0\x05I");
    }

    #[test]
    fn a_refusal_is_an_error_in_every_protocol() {
        for (protocol, answer) in [
            (
                Protocol::Http,
                b"HTTP/1.1 404 Not ProbeResult\r\ncontent-length: 0\r\n\r\n".as_slice(),
            ),
            (Protocol::Resp, b"-ERR unknown command\r\n"),
            (Protocol::Resp, b"*2\r\n+OK\r\n-ERR no\r\n"),
            (Protocol::Postgres, b"E\0\0\0\x0bSERROR\0Z\0\0\0\x05I"),
        ] {
            assert!(protocol.end(answer).is_err(), "{protocol:?}");
        }
    }
}
