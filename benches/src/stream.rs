//! The append stream: one request a connection with many batches in flight, each acknowledged once
//! it is durable. Written from docs/http.md, like a client in another language. It must not share
//! code with the server.

use std::{collections::VecDeque, io, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    cell::{Cell, Group, Limits, Prepare, Prepared, Round},
    http::{count_of, create_sessions, session_of},
    network::{Client, Manner, Network},
    protocol::{chunk, http_head},
    sample::Samples,
    site::Site,
};
use sessionlog::env::Clock;

pub(super) const CELLS: &[Cell] = &[
    cell("http.stream.1", "1 append stream, 16 batches of 1 event under way", 1, 16, one),
    cell("http.stream.64", "64 append streams, 16 batches of 1 event under way", 64, 1024, one),
    cell(
        "http.stream.64.batch",
        "64 append streams, 4 batches of 100 events",
        64,
        256,
        prepare_hundred,
    ),
];

const fn cell(
    id: &'static str,
    what: &'static str,
    clients: usize,
    in_flight: u64,
    prepare: Prepare,
) -> Cell {
    Cell::durable(Group::Http, id, what, clients, in_flight, prepare)
}

const HEAD: &[u8] = b"POST /v1/append HTTP/1.1\r\nhost: localhost\r\n\
    content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n";
const END: &[u8] = b"0\r\n\r\n";
/// Time limit of an acknowledgement.
const PATIENCE: Duration = Duration::from_secs(60);

fn one(site: &mut Site, cell: &Cell) -> Prepared {
    prepare(site, cell, 16, 1)
}

fn prepare_hundred(site: &mut Site, cell: &Cell) -> Prepared {
    prepare(site, cell, 4, 100)
}

fn prepare(site: &mut Site, cell: &Cell, under_way: usize, events: usize) -> Prepared {
    let (manner, _) = create_sessions(site, cell, cell.clients)?;
    let writers = (0..cell.clients).map(|connection| {
        let session = session_of(cell, connection);
        let count = [count_of(&session, "")];
        let samples = site.samples.starting_at(connection);
        Writer { session, count, samples, events, under_way }
    });
    let manner = Manner { events: events as u64, ..manner };
    Ok(Some(Box::new(Network::new(manner, writers.collect(), &site.clock))))
}

/// Appender of one connection.
struct Writer {
    session: String,
    /// Request for the session's number of events.
    count: [Vec<u8>; 1],
    samples: Samples,
    /// Number of events of a batch.
    events: usize,
    /// Number of batches sent before the first acknowledgement.
    under_way: usize,
}

impl Writer {
    /// Writes one batch as one line in one chunk.
    fn batch(&mut self, out: &mut Vec<u8>) {
        let mut line = format!(r#"{{"session":"{}","events":["#, self.session).into_bytes();
        for number in 0..self.events {
            if number > 0 {
                line.push(b',');
            }
            line.extend_from_slice(&self.samples.next().json);
        }
        line.extend_from_slice(b"]}\n");
        out.extend_from_slice(format!("{:x}\r\n", line.len()).as_bytes());
        out.extend_from_slice(&line);
        out.extend_from_slice(b"\r\n");
    }
}

impl Client for Writer {
    type Open = TcpStream;

    async fn open(&self, manner: Manner) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(manner.address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Sends a batch for every acknowledgement, then waits for the remaining ones.
    async fn drive(
        &mut self,
        stream: &mut TcpStream,
        manner: Manner,
        clock: &dyn Clock,
        limits: &Limits,
    ) -> io::Result<Round> {
        let mut round = Round::default();
        let mut answer = Answer::default();
        let began = clock.monotonic();
        let mut out = HEAD.to_vec();
        let mut sent = VecDeque::new();
        let mut wanted = self.under_way;
        loop {
            let asked = clock.monotonic();
            for _ in 0..wanted {
                self.batch(&mut out);
                sent.push_back(asked);
            }
            if !out.is_empty() {
                stream.write_all(&out).await?;
                out.clear();
            }
            let acknowledged = answer.lines(stream).await?;
            let now = clock.monotonic();
            for asked in sent.drain(..acknowledged.min(sent.len())) {
                round.add(manner.events, now.saturating_sub(asked));
            }
            wanted = if limits.over(now.saturating_sub(began)) { 0 } else { acknowledged };
            if sent.is_empty() && wanted == 0 {
                stream.write_all(END).await?;
                return Ok(round);
            }
        }
    }

    fn count(&self) -> (&[Vec<u8>], &[Vec<u8>]) {
        (&[], &self.count)
    }
}

/// The received part of a response.
#[derive(Default)]
struct Answer {
    bytes: Vec<u8>,
    /// True once its head was read.
    begun: bool,
    /// Bytes of an incomplete line.
    line: Vec<u8>,
}

impl Answer {
    /// Waits for more bytes; returns the number of complete lines.
    async fn lines(&mut self, stream: &mut TcpStream) -> io::Result<usize> {
        self.bytes.reserve(64 << 10);
        let read = tokio::time::timeout(PATIENCE, stream.read_buf(&mut self.bytes)).await;
        if read.map_err(|_| io::ErrorKind::TimedOut)?? == 0 {
            let said = String::from_utf8_lossy(&self.bytes).into_owned();
            return Err(io::Error::other(format!("the append stream ended: {said}")));
        }
        self.take()
    }

    /// Consumes the complete lines of the received bytes.
    fn take(&mut self) -> io::Result<usize> {
        let mut at = 0;
        if !self.begun {
            let Some((start, _)) = http_head(&self.bytes)? else { return Ok(0) };
            (self.begun, at) = (true, start);
        }
        while let Some(found) = chunk(&self.bytes, at)? {
            if found.from == found.to {
                return Err(io::Error::other("the append stream was ended by the server"));
            }
            self.line.extend_from_slice(self.bytes.get(found.from..found.to).unwrap_or_default());
            at = found.next;
        }
        self.bytes.drain(..at);
        let Some(end) = self.line.iter().rposition(|byte| *byte == b'\n') else { return Ok(0) };
        let whole: Vec<u8> = self.line.drain(..=end).collect();
        let lines = whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let mut count = 0;
        for line in lines {
            count += 1;
            if line.windows(8).any(|part| part == br#""error":"#) {
                let said = String::from_utf8_lossy(line).into_owned();
                return Err(io::Error::other(format!("refused: {said}")));
            }
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_are_counted_at_any_split_of_the_bytes() {
        let whole = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
            a\r\n{\"ref\":1}\n\r\n5\r\n{\"ref\r\nf\r\n\":2}\n{\"ref\":3}\n\r\n";
        for step in 1..whole.len() {
            let mut answer = Answer::default();
            let mut found = 0;
            for part in whole.chunks(step) {
                answer.bytes.extend_from_slice(part);
                found += answer.take().expect("no refusal");
            }
            assert_eq!(found, 3, "in pieces of {step}");
        }
    }

    #[test]
    fn a_batch_that_is_refused_ends_the_round() {
        let mut answer = Answer::default();
        let line = "{\"error\":{\"type\":\"x\"}}\n";
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        answer.bytes.extend(format!("{head}{:x}\r\n{line}\r\n", line.len()).into_bytes());
        assert!(answer.take().is_err());
    }
}
