//! Faults of the environment that once lost events, connections or memory, against the real
//! program: a deleted lock file, a standard error without a reader, stream clients that never read.
//! It must not use internals of the engine.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    process::Stdio,
};

use serde_json::json;

use crate::program::{Place, Server, eventually};

/// Sends a request and returns the whole response; the server closes the connection.
fn send_request(server: &Server, method: &str, path: &str, body: &str) -> String {
    let address = server.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn a_second_server_is_rejected_although_the_lock_file_was_deleted() {
    let place = Place::new();
    let server = place.serve();
    let event = r#"{"events":[{"type":"user.message","content":"kept"}]}"#;
    let stored = send_request(&server, "POST", "/v1/sessions/s/events?create=true", event);
    assert!(stored.starts_with("HTTP/1.1 200"), "{stored}");
    fs::remove_file(place.data_dir().join("LOCK")).unwrap();
    let second = place.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.code, 1, "{second:?}");
    assert!(second.err.contains(&server.child.id().to_string()), "{second:?}");
    let stored = send_request(&server, "POST", "/v1/sessions/s/events", event);
    assert!(stored.starts_with("HTTP/1.1 200"), "{stored}");
    server.kill();
    assert_eq!(place.events("s").len(), 2);
}

#[test]
fn a_closed_standard_error_loses_no_response() {
    let place = Place::new();
    let (reader, writer) = std::io::pipe().unwrap();
    let server = place.serve_to(&["--log", "debug"], Stdio::from(writer));
    drop(reader);
    for path in ["/v1/sessions/none", "/nowhere", "/v1/sessions/none/events?limt=1"] {
        for _ in 0..10 {
            let answer = send_request(&server, "GET", path, "");
            assert!(answer.starts_with("HTTP/1.1 4"), "{path}: {answer:?}");
        }
    }
    assert_eq!(server.stop(), Some(0));
}

/// Returns the maximum memory that the server used, in MiB.
fn peak_memory_mib(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib >> 10
}

#[test]
fn clients_that_never_read_use_bounded_memory() {
    const READERS: usize = 120;
    const EVENT_BYTES: usize = 4_000_000;
    /// Memory for unsent parts of streams, and as much again for parts being made.
    const GROWTH_MIB_MAX: u64 = 200;
    let place = Place::new();
    let server = place.serve();
    for number in 0..4 {
        let content = number.to_string().repeat(EVENT_BYTES);
        let body = json!({"events": [{"type": "user.message", "content": content}]}).to_string();
        let stored = send_request(&server, "POST", "/v1/sessions/large/events?create=true", &body);
        assert!(stored.starts_with("HTTP/1.1 200"), "{}", &stored[..stored.len().min(300)]);
    }
    let small = r#"{"events":[{"type":"user.message","content":"small"}]}"#;
    let stored = send_request(&server, "POST", "/v1/sessions/small/events?create=true", small);
    assert!(stored.starts_with("HTTP/1.1 200"), "{stored}");
    let before = peak_memory_mib(&server);
    let address = server.url.trim_start_matches("http://");
    let open = |path: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    let stuck: Vec<TcpStream> =
        (0..READERS).map(|_| open("/v1/sessions/large/events/stream?from=0")).collect();
    // Each received a response, so each has requested its first part.
    for stream in &stuck {
        let mut byte = [0];
        (&*stream).read_exact(&mut byte).unwrap();
    }
    // A reader of small events overtakes them.
    let mut lively = open("/v1/sessions/small/events/stream?from=0");
    let mut heard = Vec::new();
    eventually("the small event", || {
        let mut part = [0; 4096];
        let read = lively.read(&mut part).unwrap();
        heard.extend_from_slice(&part[..read]);
        String::from_utf8_lossy(&heard).contains("small").then_some(())
    });
    let grown = peak_memory_mib(&server) - before;
    assert!(grown < GROWTH_MIB_MAX, "{READERS} readers took {grown} MiB");
    assert!(send_request(&server, "GET", "/healthz", "").starts_with("HTTP/1.1 200"));
}
