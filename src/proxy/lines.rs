//! Lines of a stream, of any length. A line up to a bound is returned whole, a longer one in parts,
//! so that no peer can exhaust memory. It must not interpret a line.

use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// Most bytes of a message that is inspected; a longer one is forwarded uninspected.
pub(super) const LINE_BYTES_MAX: usize = 32 << 20;
const READ_BYTES: usize = 64 << 10;

/// A piece of a stream, including the newline.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A whole line; the last one of a stream may have no newline.
    Line(Vec<u8>),
    /// A part of a line that is too long; `true` for the last part.
    Part(Vec<u8>, bool),
}

/// Reader of lines.
pub(super) struct Lines<R> {
    from: BufReader<R>,
    within: bool,
    bytes_max: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(from: R) -> Self {
        Self::bounded(from, LINE_BYTES_MAX)
    }

    fn bounded(from: R, bytes_max: usize) -> Self {
        Self { from: BufReader::with_capacity(READ_BYTES, from), within: false, bytes_max }
    }

    /// Returns the next line or part; `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> io::Result<Option<Piece>> {
        let mut line = Vec::new();
        loop {
            let read = self.from.fill_buf().await?;
            if read.is_empty() {
                let within = std::mem::take(&mut self.within);
                return Ok(match line.is_empty() {
                    true => None,
                    false if within => Some(Piece::Part(line, true)),
                    false => Some(Piece::Line(line)),
                });
            }
            let end = read.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(read.len(), |at| at + 1);
            line.extend_from_slice(read.get(..taken).unwrap_or_default());
            self.from.consume(taken);
            if end.is_some() {
                let within = std::mem::take(&mut self.within);
                return Ok(Some(if within { Piece::Part(line, true) } else { Piece::Line(line) }));
            }
            if self.within || line.len() >= self.bytes_max {
                self.within = true;
                return Ok(Some(Piece::Part(line, false)));
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
            let mut lines = Lines::bounded(text.as_bytes(), 100_000);
            let mut seen = (Vec::new(), Vec::new());
            while let Some(piece) = lines.next().await.expect("memory") {
                match piece {
                    Piece::Line(line) => {
                        seen.0.push(String::from_utf8(line.clone()).expect("text"));
                        seen.1.extend(line);
                    }
                    Piece::Part(part, _) => seen.1.extend(part),
                }
            }
            assert_eq!(seen.0, ["a\n", "\n", "b\r\n", "last"]);
            assert_eq!(seen.1, text.as_bytes(), "every byte, in order");
        });
    }
}
