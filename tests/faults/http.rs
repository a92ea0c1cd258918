//! An HTTP client without retries or a pool, with a timeout on every wait. It must not interpret a
//! response.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::Value;

/// A response.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    /// The head, in lower case.
    pub head: String,
    pub body: String,
}

impl Reply {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    /// Returns the error's code; empty without an error.
    pub fn code(&self) -> String {
        let json: Value = serde_json::from_str(&self.body).unwrap_or_default();
        json["error"]["type"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns status and code.
    pub fn verdict(&self) -> (u16, String) {
        (self.status, self.code())
    }
}

/// One connection, opened on demand.
pub struct Wire {
    pub address: SocketAddr,
    pub patience: Duration,
    stream: Option<BufReader<TcpStream>>,
}

impl Wire {
    pub fn new(address: SocketAddr) -> Self {
        Self { address, patience: Duration::from_secs(30), stream: None }
    }

    pub fn patient(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    pub fn get(&mut self, path: &str) -> io::Result<Reply> {
        self.call("GET", path, &[], "")
    }

    pub fn post(&mut self, path: &str, body: &str) -> io::Result<Reply> {
        self.call("POST", path, &[], body)
    }

    /// Sends one request and reads its response. After an error the next call reconnects.
    pub fn call(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<Reply> {
        let answered = self.exchange(method, path, headers, body);
        if answered.is_err() {
            self.stream = None;
        }
        answered
    }

    fn exchange(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<Reply> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect_timeout(&self.address, self.patience)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(self.patience))?;
                stream.set_write_timeout(Some(self.patience))?;
                BufReader::new(stream)
            }
        };
        let mut request = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.address);
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        if method != "GET" {
            let length = body.len();
            request += &format!("content-type: application/json\r\ncontent-length: {length}\r\n");
        }
        request += "\r\n";
        request += body;
        stream.get_mut().write_all(request.as_bytes())?;
        let reply = read_reply(&mut stream)?;
        if !reply.head.contains("connection: close") {
            self.stream = Some(stream);
        }
        Ok(reply)
    }
}

fn read_reply(stream: &mut BufReader<TcpStream>) -> io::Result<Reply> {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line == "\r\n" {
            break;
        }
        head += &line.to_ascii_lowercase();
    }
    let status = head.split(' ').nth(1).and_then(|text| text.parse().ok());
    let status = status.ok_or(io::ErrorKind::InvalidData)?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    let body = String::from_utf8(body).map_err(io::Error::other)?;
    Ok(Reply { status, head, body })
}
