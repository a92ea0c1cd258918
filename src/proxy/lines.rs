//! Reads lines of any length from a stream. Returns a line up to a bound whole, a longer one in
//! parts, so that no peer can exhaust memory. It must not interpret a line.

use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// Maximum bytes of a message that is inspected; a longer one is forwarded uninspected.
pub(super) const LINE_BYTES_MAX: usize = 32 << 20;
const READ_BYTES: usize = 64 << 10;

/// Line or part of a line of a stream, including the newline.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LinePiece {
    /// A whole line; the last one of a stream may have no newline.
    Line(Vec<u8>),
    /// A part of a line that is too long; `true` for the last part.
    Part(Vec<u8>, bool),
}

pub(super) struct LineReader<R> {
    input: BufReader<R>,
    in_long_line: bool,
    bytes_max: usize,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(input: R) -> Self {
        Self::with_limit(input, LINE_BYTES_MAX)
    }

    fn with_limit(input: R, bytes_max: usize) -> Self {
        Self { input: BufReader::with_capacity(READ_BYTES, input), in_long_line: false, bytes_max }
    }

    /// Returns the next line or part; `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> io::Result<Option<LinePiece>> {
        let mut line = Vec::new();
        loop {
            let read = self.input.fill_buf().await?;
            if read.is_empty() {
                let in_long_line = std::mem::take(&mut self.in_long_line);
                return Ok(match line.is_empty() {
                    true => None,
                    false if in_long_line => Some(LinePiece::Part(line, true)),
                    false => Some(LinePiece::Line(line)),
                });
            }
            let end = read.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(read.len(), |at| at + 1);
            line.extend_from_slice(read.get(..taken).unwrap_or_default());
            self.input.consume(taken);
            if end.is_some() {
                let in_long_line = std::mem::take(&mut self.in_long_line);
                return Ok(Some(if in_long_line {
                    LinePiece::Part(line, true)
                } else {
                    LinePiece::Line(line)
                }));
            }
            if self.in_long_line || line.len() >= self.bytes_max {
                self.in_long_line = true;
                return Ok(Some(LinePiece::Part(line, false)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_returned_whole_and_oversized_ones_in_parts() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let long = "x".repeat(200_000);
            let text = format!("a\n\n{long}\nb\r\nlast");
            let mut lines = LineReader::with_limit(text.as_bytes(), 100_000);
            let mut seen = (Vec::new(), Vec::new());
            while let Some(piece) = lines.next().await.expect("memory") {
                match piece {
                    LinePiece::Line(line) => {
                        seen.0.push(String::from_utf8(line.clone()).expect("text"));
                        seen.1.extend(line);
                    }
                    LinePiece::Part(part, _) => seen.1.extend(part),
                }
            }
            assert_eq!(seen.0, ["a\n", "\n", "b\r\n", "last"]);
            assert_eq!(seen.1, text.as_bytes(), "every byte, in order");
        });
    }
}
