//! A client of the append stream with endless retries: it keeps lines in flight, reads their
//! responses in order, and after every failure resends unacknowledged lines, with the same event
//! ids or the same key. It must not judge; the ledger does.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::Value;

use super::{ledger, machine::pause, writers::Board};

/// Maximum lines in flight.
const WINDOW: u64 = 24;
const PATIENCE: Duration = Duration::from_secs(10);

/// One append stream, in both directions.
struct Lines {
    stream: BufReader<TcpStream>,
    /// Unread responses, the last of them perhaps incomplete.
    text: Vec<u8>,
    begun: bool,
}

impl Lines {
    fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut lines = Self { stream: BufReader::new(stream), text: Vec::new(), begun: false };
        let head = format!(
            "POST /v1/append?create=true HTTP/1.1\r\nhost: {address}\r\n\
             content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        lines.stream.get_mut().write_all(head.as_bytes())?;
        Ok(lines)
    }

    fn send(&mut self, line: &str) -> io::Result<()> {
        let chunk = format!("{:x}\r\n{line}\n\r\n", line.len() + 1);
        self.stream.get_mut().write_all(chunk.as_bytes())
    }

    /// Reads the next response.
    fn answer(&mut self) -> io::Result<Value> {
        loop {
            if let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                return serde_json::from_slice(&line).map_err(io::Error::other);
            }
            if !std::mem::replace(&mut self.begun, true) {
                let status = self.text_line()?;
                if !status.starts_with("HTTP/1.1 200 ") {
                    return Err(io::Error::other(status));
                }
                while !self.text_line()?.is_empty() {}
            }
            self.chunk()?;
        }
    }

    fn chunk(&mut self) -> io::Result<()> {
        let size = usize::from_str_radix(&self.text_line()?, 16).map_err(io::Error::other)?;
        let mut bytes = vec![0; size];
        self.stream.read_exact(&mut bytes)?;
        self.text.extend_from_slice(&bytes);
        self.text_line()?;
        if size == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    fn text_line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}

/// Returns one line: even writers give their events ids, odd ones give their batch a key.
fn line(session: &str, writer: u64, request: u64) -> String {
    let ids = writer.is_multiple_of(2);
    let body = ledger::body(writer, request, ids);
    let events = body.strip_prefix('{').unwrap();
    let key = format!(r#""idempotency_key":"w{writer}r{request}","#);
    let key = if ids { "" } else { &key };
    format!(r#"{{"session":"{session}","ref":{request},{key}{events}"#)
}

impl Board {
    /// Streams requests of `writer` to `session` until the board stops.
    pub fn stream(&self, session: &str, writer: u64) {
        let mut next = 0;
        while let Some(address) = self.address() {
            if self.run_stream(address, session, writer, &mut next).is_err() {
                self.tally.lock().unwrap().retries += 1;
                pause(Duration::from_millis(2));
            }
        }
    }

    /// Runs one stream until it fails; `next` is the first unacknowledged request.
    fn run_stream(
        &self,
        address: SocketAddr,
        session: &str,
        writer: u64,
        next: &mut u64,
    ) -> io::Result<()> {
        let mut lines = Lines::open(address)?;
        let mut sent = *next;
        while !self.stopped() {
            while sent < *next + WINDOW {
                self.with(session, |ledger, _| ledger.sends(writer, sent));
                lines.send(&line(session, writer, sent))?;
                sent += 1;
            }
            let answer = lines.answer()?;
            let in_order = answer["ref"] == *next && answer["session"] == session;
            match answer["first_position"].as_u64().filter(|_| in_order) {
                Some(first) => self.with(session, |ledger, tally| {
                    ledger.acknowledged(writer, *next, first, tally);
                }),
                None => {
                    let told = format!("an answer to line {next} of writer {writer}: {answer}");
                    self.tally.lock().unwrap().complain(told);
                    return Err(io::Error::other("it makes no sense to go on"));
                }
            }
            *next += 1;
        }
        Ok(())
    }
}
