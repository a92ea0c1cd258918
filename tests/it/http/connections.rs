//! Accepted connections, their cost, and the stop of the server.

use std::time::Duration;

use sessionlog::http::{HttpOptions, Listener, ServeOptions, serve};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UnixListener, UnixStream},
};
use tokio_util::sync::CancellationToken;

use super::house::{House, PATIENCE, Plan};

/// Every route, and one that another module adds.
const ROUTES: &[(&str, &str)] = &[
    ("GET", "/v1/sessions"),
    ("POST", "/v1/sessions"),
    ("GET", "/v1/sessions/s"),
    ("POST", "/v1/sessions/s"),
    ("DELETE", "/v1/sessions/s"),
    ("POST", "/v1/sessions/s/archive"),
    ("GET", "/v1/sessions/s/events"),
    ("POST", "/v1/sessions/s/events"),
    ("GET", "/v1/sessions/s/events/stream"),
    ("GET", "/v1/sessions/s/export"),
    ("PUT", "/v1/sessions/s/cursors/c"),
    ("GET", "/v1/sessions/s/cursors/c"),
    ("DELETE", "/v1/sessions/s/cursors/c"),
    ("GET", "/v1/sessions/s/cursors"),
    ("POST", "/v1/sessions/s/checkpoints"),
    ("GET", "/v1/sessions/s/checkpoints"),
    ("GET", "/v1/sessions/s/checkpoints/c"),
    ("POST", "/v1/sessions/s/checkpoints/c/resume"),
    ("POST", "/v1/sessions/s/wake"),
    ("POST", "/v1/sessions/s/lease/renew"),
    ("DELETE", "/v1/sessions/s/lease"),
    ("GET", "/v1/history"),
    ("POST", "/v1/append"),
    ("GET", "/v1/admin/owner"),
    ("POST", "/v1/admin/step-down"),
    ("POST", "/v1/admin/verify"),
    ("GET", "/v1/admin/recovery-report"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
    ("GET", "/more"),
    ("GET", "/nowhere"),
    ("PATCH", "/healthz"),
];

async fn guarded_house() -> House {
    let more = axum::Router::new().route("/more", axum::routing::get(|| async { "more" }));
    let options = HttpOptions {
        allowed_hosts: vec!["logs.example".to_owned()],
        allowed_origins: vec!["https://page.example".to_owned()],
        ..HttpOptions::default()
    };
    House::build(Plan { options, more, on_demand: true, ..Plan::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_rejects_other_hosts_and_origins() {
    let house = guarded_house().await;
    house.session("s", 1).await;
    for (method, path) in ROUTES {
        for (name, value) in
            [("host", "evil.example"), ("origin", "https://evil.example"), ("origin", "null")]
        {
            let refused = house.call(method, path, &[(name, value)], None).await;
            assert_eq!(
                (refused.status, refused.code()),
                (403, "forbidden".to_owned()),
                "{method} {path} {name}"
            );
        }
        if *method == "GET" && !path.ends_with("stream") {
            let allowed = [("host", "logs.example"), ("origin", "https://page.example")];
            assert_ne!(house.call(method, path, &allowed, None).await.status, 403, "{path}");
        }
    }
    assert_eq!(house.get("/v1/sessions/s").await.status, 200, "nothing was done meanwhile");
    assert!(!house.step_down.is_cancelled());
    for head in [
        "GET /healthz HTTP/1.1\r\n",
        "GET http://evil.example/healthz HTTP/1.1\r\nhost: localhost\r\n",
    ] {
        let answer = house.raw(format!("{head}connection: close\r\n\r\n").as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_keeps_its_request_id_or_receives_a_new_one() {
    let house = guarded_house().await;
    let given = house.call("GET", "/more", &[("x-request-id", "my-1")], None).await;
    assert_eq!((given.header("x-request-id"), given.header("cache-control")), ("my-1", "no-store"));
    let first = house.get("/healthz").await.header("x-request-id").to_owned();
    let second = house.get("/healthz").await.header("x-request-id").to_owned();
    assert!(first.starts_with("req_") && first != second, "{first} {second}");
    let odd = house.call("GET", "/more", &[("x-request-id", "a b\"c")], None).await;
    assert!(
        odd.header("x-request-id").starts_with("req_"),
        "what could forge a log line is not kept"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_sends_its_headers_too_slowly_is_disconnected() {
    // Longer than a complete request takes on a busy machine.
    let serving =
        ServeOptions { header_timeout: Duration::from_secs(2), ..ServeOptions::default() };
    let house = House::build(Plan { serving, ..Plan::default() }).await;
    let answer = house.raw(b"GET /healthz HTTP/1.1\r\nhost: local").await;
    assert!(!answer.contains("200 OK"), "{answer}");
    assert_eq!(house.get("/healthz").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_beyond_the_limit_wait_for_a_free_slot() {
    let serving = ServeOptions { connections_max: 1, ..ServeOptions::default() };
    let house = House::build(Plan { serving, ..Plan::default() }).await;
    // A running request is not closed for another one.
    let mut first = TcpStream::connect(&house.address).await.unwrap();
    first.write_all(b"GET /healthz HTTP/1.1\r\nhost: local").await.unwrap();
    let ask = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let second = house.raw(ask);
    tokio::pin!(second);
    let early = tokio::time::timeout(Duration::from_millis(50), second.as_mut()).await;
    assert!(early.is_err(), "the second waits while the first is open");
    first.write_all(b"host\r\nconnection: close\r\n\r\n").await.unwrap();
    assert!(second.await.starts_with("HTTP/1.1 200 OK"));
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_are_closed_for_a_pending_one() {
    let header_timeout = Duration::from_secs(100_000);
    let serving = ServeOptions { connections_max: 2, header_timeout, ..ServeOptions::default() };
    let house = House::build(Plan { serving, ..Plan::default() }).await;
    // One that was used once, and one that was never used.
    let used = TcpStream::connect(&house.address).await.unwrap();
    let used =
        receive_one_response(used, b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let unused = TcpStream::connect(&house.address).await.unwrap();
    let ask = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert!(house.raw(ask).await.starts_with("HTTP/1.1 200 OK"));
    drop((used, unused));
}

/// Returns the stream after it received one response.
async fn receive_one_response(mut stream: TcpStream, ask: &[u8]) -> TcpStream {
    stream.write_all(ask).await.unwrap();
    let mut seen = [0; 64];
    assert!(stream.read(&mut seen).await.unwrap() > 0);
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn an_on_demand_server_exits_when_no_client_is_connected() {
    let serving = ServeOptions { idle: Some(Duration::from_millis(50)), ..ServeOptions::default() };
    let house = House::build(Plan { serving, ..Plan::default() }).await;
    let open = TcpStream::connect(&house.address).await.unwrap();
    let open =
        receive_one_response(open, b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let mut served = house.served;
    let early = tokio::time::timeout(Duration::from_millis(200), &mut served).await;
    assert!(early.is_err(), "somebody is connected");
    drop(open);
    tokio::time::timeout(PATIENCE, served).await.expect("it leaves").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_request_is_answered_before_the_server_stops() {
    let (entered, mut inside) = tokio::sync::mpsc::channel::<()>(1);
    let (release, gate) = tokio::sync::watch::channel(false);
    let slow = axum::routing::get(move || async move {
        entered.send(()).await.unwrap();
        gate.clone().wait_for(|open| *open).await.unwrap();
        "finished"
    });
    let more = axum::Router::new().route("/slow", slow);
    let house = House::build(Plan { more, ..Plan::default() }).await;
    let stop = async {
        inside.recv().await.unwrap();
        house.stop.cancel();
        release.send(true).unwrap();
    };
    let (reply, ()) = tokio::join!(house.get("/slow"), stop);
    assert_eq!((reply.status, &reply.text[..]), (200, "finished"));
    house.served.await.unwrap();
    assert!(TcpStream::connect(&house.address).await.is_err(), "nobody listens any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_exceeds_the_drain_time_is_aborted() {
    let stuck = axum::routing::get(std::future::pending::<()>);
    let more = axum::Router::new().route("/stuck", stuck);
    let serving = ServeOptions { drain: Duration::from_millis(50), ..ServeOptions::default() };
    let house = House::build(Plan { more, serving, ..Plan::default() }).await;
    let mut stream = TcpStream::connect(&house.address).await.unwrap();
    stream.write_all(b"GET /stuck HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    // Another request's response shows that the server has accepted connections by now.
    assert_eq!(house.get("/healthz").await.status, 200);
    house.stop.cancel();
    tokio::time::timeout(PATIENCE, house.served).await.expect("it ends").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn http_on_a_unix_socket_is_served_as_on_tcp() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("owner.sock");
    let listener = Listener::Unix(UnixListener::bind(&path).unwrap());
    let more = axum::Router::new().route("/more", axum::routing::get(|| async { "more" }));
    let stop = CancellationToken::new();
    let served = tokio::spawn(serve(vec![listener], more, ServeOptions::default(), stop.clone()));
    let mut stream = UnixStream::connect(&path).await.unwrap();
    stream
        .write_all(b"GET /more HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("more"), "{answer}");
    stop.cancel();
    served.await.unwrap();
}

/// Returns a house with a session whose events exceed the socket buffers, and memory for one such
/// response at a time.
async fn house_with_little_memory(answers_bytes_max: usize, serving: ServeOptions) -> House {
    let options = HttpOptions {
        answers_bytes_max,
        answers_patience: Duration::from_millis(10),
        ..HttpOptions::default()
    };
    let house = House::build(Plan { options, serving, ..Plan::default() }).await;
    house.session("s", 0).await;
    let text = "x".repeat(3 << 20);
    for n in 0..5 {
        let event = serde_json::json!({"events": [{"type": "a.b", "n": n, "text": text}]});
        assert_eq!(house.post("/v1/sessions/s/events", &event).await.status, 200);
    }
    house
}

/// Requests this many events and reads only the beginning of the response.
async fn request_unread(house: &House, limit: usize) -> TcpStream {
    let mut stream = TcpStream::connect(&house.address).await.unwrap();
    let ask =
        format!("GET /v1/sessions/s/events?limit={limit} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut begun = [0; 12];
    stream.read_exact(&mut begun).await.unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200");
    stream
}

/// Waits until memory for a response is free again.
async fn room(house: &House) {
    let freed = async {
        while house.get("/v1/sessions/s/events?limit=1").await.status != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, freed).await.expect("room for an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_responses_use_bounded_memory() {
    let house = house_with_little_memory(8 << 20, ServeOptions::default()).await;
    let stream = request_unread(&house, 1_000).await;
    for path in ["/v1/sessions/s/events", "/v1/sessions/s/events?wait_ms=1"] {
        let refused = house.get(path).await;
        assert_eq!((refused.status, refused.code()), (429, "limit_reached".to_owned()), "{path}");
        assert_eq!(refused.header("retry-after"), "1");
    }
    assert_eq!(house.get("/v1/sessions/s").await.status, 200, "small answers go on");
    drop(stream);
    room(&house).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_larger_than_the_free_response_memory_waits() {
    let house = house_with_little_memory(26 << 20, ServeOptions::default()).await;
    let stream = request_unread(&house, 3).await;
    let refused = house.get("/v1/sessions/s/events").await;
    assert_eq!((refused.status, refused.code()), (429, "limit_reached".to_owned()));
    assert_eq!(house.get("/v1/sessions/s/events?limit=1").await.status, 200, "a small one fits");
    drop(stream);
    let freed = async {
        while house.get("/v1/sessions/s/events").await.status != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, freed).await.expect("room for all of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_nothing_is_disconnected() {
    let write_timeout = Duration::from_millis(50);
    let house = house_with_little_memory(
        8 << 20,
        ServeOptions { write_timeout, ..ServeOptions::default() },
    )
    .await;
    let stream = request_unread(&house, 1_000).await;
    room(&house).await;
    drop(stream);
}

/// Returns the head of a batch of this many bytes, and a part of its body.
async fn send_partial_batch(house: &House, bytes: usize, framing: &str) -> TcpStream {
    let mut stream = TcpStream::connect(&house.address).await.unwrap();
    let head = format!(
        "POST /v1/sessions/s/events HTTP/1.1\r\nhost: localhost\r\n\
         content-type: application/json\r\n{framing}\r\n\r\n"
    );
    stream.write_all(head.replace("BYTES", &bytes.to_string()).as_bytes()).await.unwrap();
    stream
}

fn a_batch(bytes: usize) -> Vec<u8> {
    let text = "x".repeat(bytes - 64);
    let mut batch = format!(r#"{{"events":[{{"type":"a.b","text":"{text}"}}]}}"#).into_bytes();
    batch.resize(bytes, b' ');
    batch
}

#[tokio::test(flavor = "multi_thread")]
async fn incomplete_requests_use_bounded_memory() {
    const BYTES: usize = 256 << 10;
    for framing in ["content-length: BYTES", "transfer-encoding: chunked"] {
        let options = HttpOptions {
            body_bytes_max: 2 * BYTES,
            bodies_bytes_max: 4 * BYTES,
            bodies_patience: Duration::from_millis(10),
            ..HttpOptions::default()
        };
        let house = House::build(Plan { options, ..Plan::default() }).await;
        house.session("s", 0).await;
        let stream = send_partial_batch(&house, BYTES, framing).await;
        let json = [("content-type", "application/json")];
        let send = async |bytes: usize| {
            house.call("POST", "/v1/sessions/s/events", &json, Some(a_batch(bytes))).await
        };
        // The running request may be read only after the first of these.
        let refused = async {
            loop {
                let reply = send(BYTES).await;
                if reply.status != 200 {
                    return reply;
                }
            }
        };
        let refused = tokio::time::timeout(PATIENCE, refused).await.expect("a refusal");
        assert_eq!((refused.status, refused.code()), (429, "limit_reached".to_owned()));
        assert_eq!(refused.header("retry-after"), "1");
        assert_eq!(send(4 << 10).await.status, 200, "small requests go on");
        let too_large = send(4 * BYTES).await;
        assert_eq!((too_large.status, too_large.code()), (413, "body_too_large".to_owned()));
        drop(stream);
        let freed = async {
            while send(BYTES).await.status != 200 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, freed).await.expect("room for a large request again");
    }
}
