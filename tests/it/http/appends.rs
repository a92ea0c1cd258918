//! The append stream: order, invalid lines between valid ones, retries, and clients that send too
//! much, read too little, or disconnect.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use sessionlog::{
    http::{HttpOptions, ServeOptions},
    store::Store,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
};

use super::{
    gate::Gate,
    house::{House, PATIENCE, Plan, Reply, numbers, over_every_engine},
};
use crate::engines;

const LINES: (&str, &str) = ("content-type", "application/x-ndjson");

/// Request head of a stream.
const HEAD: &str = "POST /v1/append HTTP/1.1\r\nhost: localhost\r\n\
                    content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n";

/// Sends a whole stream in one request.
async fn append(house: &House, query: &str, lines: &str) -> Reply {
    let path = format!("/v1/append{query}");
    house.call("POST", &path, &[LINES], Some(lines.as_bytes().to_vec())).await
}

fn answers(reply: &Reply) -> Vec<Value> {
    assert_eq!((reply.status, reply.header("content-type")), (200, LINES.1), "{}", reply.text);
    reply.text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn line(session: &str, n: usize) -> String {
    let event = json!({"type": "user.message", "id": format!("e{n}"), "n": n});
    json!({"session": session, "events": [event], "ref": n}).to_string() + "\n"
}

async fn numbers_of(house: &House, session: &str) -> Vec<u64> {
    numbers(&house.get(&format!("/v1/sessions/{session}/events?limit=10000")).await.json())
}

/// Returns one chunk of a stream.
fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// A stream whose client sends and reads independently.
struct Wire {
    stream: TcpStream,
    read: Vec<u8>,
    /// Text of the response without its head and chunk framing.
    text: String,
    ended: bool,
}

impl Wire {
    async fn open(house: &House) -> Self {
        Self::open_with(house, HEAD).await
    }

    /// Opens a stream whose first bytes are sent with its head, so that it is never idle.
    async fn open_with(house: &House, bytes: &str) -> Self {
        let mut stream = TcpStream::connect(&house.address).await.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        Self { stream, read: Vec::new(), text: String::new(), ended: false }
    }

    async fn send(&mut self, text: &str) {
        self.stream.write_all(chunk(text).as_bytes()).await.unwrap();
    }

    async fn end(&mut self) {
        self.stream.write_all(b"0\r\n\r\n").await.unwrap();
    }

    /// Reads the next response line; `None` at the end of a complete response.
    async fn answer(&mut self) -> Option<Value> {
        loop {
            if let Some((line, rest)) = self.text.split_once('\n') {
                let (line, rest) = (serde_json::from_str(line).unwrap(), rest.to_owned());
                self.text = rest;
                return Some(line);
            }
            if self.ended {
                return None;
            }
            if !self.chunk() {
                let more = self.stream.read_buf(&mut self.read);
                let more = tokio::time::timeout(PATIENCE, more).await.expect("an answer").unwrap();
                assert!(more > 0, "it broke off");
            }
        }
    }

    /// Removes the head or a chunk from the received bytes, if it is complete.
    fn chunk(&mut self) -> bool {
        let find = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).position(|w| w == what);
        if self.read.starts_with(b"HTTP/1.1 200 ") {
            let Some(end) = find(&self.read, b"\r\n\r\n") else { return false };
            self.read.drain(..end + 4);
            return true;
        }
        let Some(end) = find(&self.read, b"\r\n") else { return false };
        let size = usize::from_str_radix(std::str::from_utf8(&self.read[..end]).unwrap(), 16);
        let size = size.unwrap();
        if self.read.len() < end + 2 + size + 2 {
            return false;
        }
        let bytes: Vec<u8> = self.read.drain(..end + 2 + size + 2).collect();
        self.text.push_str(std::str::from_utf8(&bytes[end + 2..end + 2 + size]).unwrap());
        self.ended = size == 0;
        true
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_of_many_sessions_are_acknowledged_in_order_for_each_session() {
    over_every_engine(async |house| {
        let sessions = ["a", "b", "c", "d", "e"];
        let lines: String = (0..500).map(|n| line(sessions[n * 7 % 5], n)).collect();
        let found = answers(&append(house, "?create=true", &lines).await);
        assert_eq!(found.len(), 500);
        let mut seen: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for answer in &found {
            assert_eq!(answer["type"], "appended", "{answer}");
            assert_eq!(answer["line"].as_u64(), answer["ref"].as_u64().map(|n| n + 1));
            assert_eq!(answer["receipt"]["chain"].as_str().unwrap().len(), 64);
            let of_session = seen.entry(answer["session"].as_str().unwrap().to_owned());
            let of_session = of_session.or_default();
            let (first, next) = (&answer["first_position"], &answer["next_position"]);
            assert_eq!((first, next), (&json!(of_session.len()), &json!(of_session.len() + 1)));
            of_session.push(answer["ref"].as_u64().unwrap());
        }
        for (session, refs) in seen {
            assert!(refs.is_sorted(), "{session}: {refs:?}");
            assert_eq!(numbers_of(house, &session).await, refs);
        }
        let again = answers(&append(house, "", &lines).await);
        assert!(again.iter().all(|answer| answer["repeated"] == true), "a retry writes nothing");
        assert_eq!(numbers_of(house, "a").await.len(), 100);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_line_is_rejected_and_the_others_are_appended() {
    over_every_engine(async |house| {
        house.session("s", 2).await;
        let event = r#"{"type":"a.b","n":9}"#;
        let known = r#"{"type":"user.message","id":"e1","n":1}"#;
        let cases: &[(String, &str, &str)] = &[
            (format!(r#"{{"session":"s","events":[{event}],"if_position":2}}"#), "", ""),
            ("nonsense".to_owned(), "invalid_json", ""),
            (format!(r#"{{"events":[{event}]}}"#), "invalid_request", "session"),
            (format!(r#"{{"session":"t","events":[{event}]}}"#), "session_not_found", ""),
            (format!(r#"{{"session":"s","events":[{event}],"if":2}}"#), "invalid_request", "if"),
            (r#"{"session":"s","events":[]}"#.to_owned(), "invalid_request", "events"),
            (
                r#"{"session":"s","events":[{"n":1}]}"#.to_owned(),
                "invalid_request",
                "events[0].type",
            ),
            (
                format!(r#"{{"session":"s","events":[{event}],"if_position":1}}"#),
                "position_conflict",
                "",
            ),
            (
                format!(r#"{{"session":"s","events":[{event},{known}]}}"#),
                "idempotency_conflict",
                "",
            ),
            (format!(r#"{{"session":"s","events":[{known}]}}"#), "", ""),
            (
                r#"{"session":"s","events":[{"type":"a.b","id":"e1"}]}"#.to_owned(),
                "idempotency_conflict",
                "",
            ),
            (format!(r#"{{"session":"s","events":[{event}],"if_position":3}}"#), "", ""),
            (format!(r#"{{"session":"s","events":[{event}],"idempotency_key":"k"}}"#), "", ""),
            (format!(r#"{{"session":"s","events":[{event}],"idempotency_key":"k"}}"#), "", ""),
            (format!(r#"{{"session":"s","events":[{event}],"if_position":5}}"#), "", ""),
        ];
        let text: String = cases.iter().map(|(line, ..)| line.clone() + "\n\r\n").collect();
        let mut found = answers(&append(house, "", &text).await);
        found.sort_by_key(|answer| answer["line"].as_u64());
        assert_eq!(found.len(), cases.len());
        for ((line, code, field), answer) in cases.iter().zip(&found) {
            let error = &answer["error"];
            assert_eq!(error["type"].as_str().unwrap_or_default(), *code, "{line}: {answer}");
            let named = error["recovery_hint"]["field"].as_str().unwrap_or_default();
            assert!(field.is_empty() || named == *field, "{line}: {answer}");
            assert_eq!(answer["type"], if code.is_empty() { "appended" } else { "error" });
            assert_eq!(answer["request_id"].is_string(), !code.is_empty(), "{answer}");
        }
        assert_eq!(found[12]["first_position"], found[13]["first_position"], "one key, one batch");
        assert_eq!(numbers_of(house, "s").await, [0, 1, 9, 9, 9, 9]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_responds_while_the_client_is_still_sending() {
    let house = House::plain().await;
    house.session("s", 0).await;
    let mut wire = Wire::open(&house).await;
    for n in 0..20_u64 {
        let event = json!({"type": "a.b", "n": n});
        let line = json!({"session": "s", "events": [event], "if_position": n}).to_string();
        // Chunk boundaries are independent of line boundaries.
        let (front, back) = line.split_at(7);
        wire.send(front).await;
        wire.send(&format!("{back}\n")).await;
        let answer = wire.answer().await.unwrap();
        assert_eq!((&answer["first_position"], &answer["line"]), (&json!(n), &json!(n + 1)));
        assert!(answer.get("ref").is_none(), "{answer}");
    }
    wire.send(line("s", 20).trim_end()).await;
    wire.end().await;
    assert_eq!(wire.answer().await.unwrap()["ref"], 20, "the last line needs no line break");
    assert!(wire.answer().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disconnected_client_can_retry_without_duplicates() {
    over_every_engine(async |house| {
        house.session("s", 0).await;
        let text: String = (0..200).map(|n| line("s", n)).collect();
        for cut in [1, 40, 2_000, 9_999, text.len() / 2, text.len() - 1] {
            let mut wire = Wire::open(house).await;
            wire.send(&text[..cut]).await;
            let acknowledged = if cut > 2_000 { wire.answer().await } else { None };
            drop(wire);
            let kept = numbers_of(house, "s").await;
            assert!(acknowledged.is_none() || !kept.is_empty());
            assert_eq!(kept, (0..kept.len() as u64).collect::<Vec<_>>(), "whole lines, in order");
        }
        let found = answers(&append(house, "", &text).await);
        assert!(found.iter().all(|answer| answer["type"] == "appended"), "{found:?}");
        assert_eq!(numbers_of(house, "s").await, (0..200).collect::<Vec<_>>());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_closed_connection_keeps_complete_lines_and_drops_a_partial_one() {
    let house = House::plain().await;
    house.session("s", 0).await;
    let mut wire = Wire::open(&house).await;
    wire.send(&(line("s", 0) + &line("s", 1))).await;
    assert!(wire.answer().await.is_some() && wire.answer().await.is_some());
    wire.send(&line("s", 2)[..20]).await;
    wire.stream.shutdown().await.unwrap();
    let mut rest = Vec::new();
    let read = wire.stream.read_to_end(&mut rest);
    let _ = tokio::time::timeout(PATIENCE, read).await.expect("the server closes");
    assert_eq!(numbers_of(&house, "s").await, [0, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oversized_line_is_rejected_and_skipped() {
    let options = HttpOptions { body_bytes_max: 4 << 10, ..HttpOptions::default() };
    let house = House::build(Plan { options, ..Plan::default() }).await;
    house.session("s", 0).await;
    let long = |bytes: usize| line("s", 7).replace("user.message", &"m.".repeat(bytes / 2));
    let text = [line("s", 0), long(5 << 10), line("s", 1), long(1 << 20), line("s", 2)].concat();
    assert!(text.len() > 1 << 20, "a stream may be longer than a line");
    let mut found = answers(&append(&house, "", &text).await);
    found.sort_by_key(|answer| answer["line"].as_u64());
    let kinds: Vec<&str> =
        found.iter().map(|answer| answer["error"]["type"].as_str().unwrap_or("appended")).collect();
    assert_eq!(kinds, ["appended", "body_too_large", "appended", "body_too_large", "appended"]);
    assert_eq!(numbers_of(&house, "s").await, [0, 1, 2]);
}

/// Returns a house whose appends wait at a gate.
async fn gated_house(plan: Plan) -> (House, Arc<Gate>) {
    let engine = engines::all().into_iter().next().unwrap();
    let gate = Arc::new(Gate::new(engine.store));
    let store: Arc<dyn Store> = gate.clone();
    let house = House::over(store, engine.clock, plan).await;
    house.session("s", 0).await;
    (house, gate)
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_appends_of_a_session_are_written_together_and_bounded() {
    // More than the socket buffers hold.
    const LINES_SENT: usize = 5_000;
    let (house, gate) = gated_house(Plan::default()).await;
    gate.close();
    let wire = Wire::open(&house).await;
    let padding = format!("{{\"p\":\"{}\",", "x".repeat(4 << 10));
    let long = move |n: usize| line("s", n).replacen("{\"type", &format!("{padding}\"type"), 1);
    let sent = Arc::new(AtomicUsize::new(0));
    let (mut read, mut write) = wire.stream.into_split();
    let counted = Arc::clone(&sent);
    let writing = tokio::spawn(async move {
        for n in 0..LINES_SENT {
            write.write_all(chunk(&long(n)).as_bytes()).await.unwrap();
            counted.fetch_add(1, Ordering::Relaxed);
        }
        write.write_all(b"0\r\n\r\n").await.unwrap();
        write
    });
    // Only a blocked client makes no progress for so long.
    let (mut before, mut still) = (0, 0);
    while still < 5 {
        let pause = Duration::from_millis(200);
        let _ = tokio::time::timeout(pause, std::future::pending::<()>()).await;
        let now = sent.load(Ordering::Relaxed);
        still = if now == before && now > 0 { still + 1 } else { 0 };
        before = now;
    }
    assert!(before < LINES_SENT, "the server does not read what it cannot take");
    gate.open();
    let mut answered = Vec::new();
    let all = read.read_buf(&mut answered);
    let _ = tokio::time::timeout(PATIENCE, all).await.expect("answers").unwrap();
    while !answered.ends_with(b"\r\n0\r\n\r\n") {
        let more = tokio::time::timeout(PATIENCE, read.read_buf(&mut answered)).await;
        assert!(more.expect("answers").unwrap() > 0, "it broke off");
    }
    drop(writing.await.unwrap());
    let rounds = gate.passed();
    assert!(rounds < LINES_SENT - 500, "{rounds}: what waited at the gate went together");
    let info = house.get("/v1/sessions/s").await.json();
    assert_eq!(info["tail"], LINES_SENT);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_no_responses_is_disconnected_without_lost_events() {
    let write_timeout = Duration::from_millis(100);
    let serving = ServeOptions { write_timeout, ..ServeOptions::default() };
    let house = House::build(Plan { serving, ..Plan::default() }).await;
    house.session("s", 0).await;
    // A small window, so that responses soon block.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 << 10).unwrap();
    let mut stream = socket.connect(house.address.parse().unwrap()).await.unwrap();
    stream.write_all(HEAD.as_bytes()).await.unwrap();
    let write = async {
        for from in (0..).step_by(100) {
            let text: String = (from..from + 100).map(|n| line("s", n)).collect();
            if stream.write_all(chunk(&text).as_bytes()).await.is_err() {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, write).await.expect("the server closes");
    let tail = house.get("/v1/sessions/s").await.json()["tail"].as_u64().unwrap();
    assert!(tail > 0);
    let again = answers(&append(&house, "", &line("s", 0)).await);
    assert_eq!((&again[0]["repeated"], &again[0]["first_position"]), (&json!(true), &json!(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_acknowledges_received_lines_and_ends_the_stream() {
    let (house, gate) = gated_house(Plan::default()).await;
    let mut wire = Wire::open(&house).await;
    wire.send(&line("s", 0)).await;
    assert!(wire.answer().await.is_some());
    gate.close();
    wire.send(&line("s", 1)).await;
    gate.reached().await;
    house.stop.cancel();
    let early = tokio::time::timeout(Duration::from_millis(200), wire.answer()).await;
    assert!(early.is_err(), "what is on its way is waited for");
    gate.open();
    assert_eq!(wire.answer().await.unwrap()["ref"], 1);
    assert!(wire.answer().await.is_none(), "the answer ends whole");
    drop(wire);
    tokio::time::timeout(PATIENCE, house.served).await.expect("it ends").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_append_stream_is_ended() {
    let options = HttpOptions { append_idle: Duration::from_millis(50), ..HttpOptions::default() };
    let (house, gate) = gated_house(Plan { options, ..Plan::default() }).await;
    gate.close();
    let mut wire = Wire::open_with(&house, &(HEAD.to_owned() + &chunk(&line("s", 0)))).await;
    gate.reached().await;
    let early = tokio::time::timeout(Duration::from_millis(200), wire.answer()).await;
    assert!(early.is_err(), "while something is on its way it is not idle");
    gate.open();
    assert_eq!(wire.answer().await.unwrap()["ref"], 0);
    assert!(wire.answer().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_stream_request_is_rejected_before_any_line() {
    let house = House::plain().await;
    let text = line("s", 0);
    let json = [("content-type", "application/json")];
    let refused = house.call("POST", "/v1/append", &json, Some(text.clone().into_bytes())).await;
    assert_eq!((refused.status, refused.code()), (415, "invalid_request".to_owned()));
    let refused = append(&house, "?create=perhaps", &text).await;
    assert_eq!((refused.status, refused.code()), (422, "invalid_request".to_owned()));
    assert_eq!(answers(&append(&house, "", "").await), Vec::<Value>::new());
    let headers = [LINES, ("expect", "100-continue"), ("sessionlog-origin", "import")];
    let body = Some(text.into_bytes());
    let reply = house.call("POST", "/v1/append?create=1", &headers, body).await;
    assert_eq!(answers(&reply)[0]["type"], "appended");
    let kept = house.get("/v1/sessions/s/events").await.json();
    assert_eq!(kept["data"][0]["origin"], "import");
}
