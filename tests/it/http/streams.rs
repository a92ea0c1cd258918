//! Tails: live, resumed, ended; and the limit of readers.

use std::{pin::Pin, time::Duration};

use futures_util::{Stream, StreamExt as _};
use serde_json::{Value, json};
use sessionlog::env::Clock as _;

use super::house::{House, PATIENCE, Plan, over_every_engine};

const STREAM: &str = "/v1/sessions/s/events/stream";

/// One frame: event name, id, content.
#[derive(Debug)]
struct Frame {
    event: String,
    id: Option<u64>,
    data: Value,
}

/// A client of a stream.
struct Tail {
    bytes: Pin<Box<dyn Stream<Item = reqwest::Result<bytes::Bytes>> + Send>>,
    text: String,
}

impl Tail {
    async fn open(house: &House, query: &str, headers: &[(&str, &str)]) -> Self {
        let answer = house.send("GET", &format!("{STREAM}{query}"), headers, None).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        assert_eq!(answer.headers()["x-accel-buffering"], "no");
        assert_eq!(answer.headers()["cache-control"], "no-store, no-transform");
        Self { bytes: answer.bytes_stream().boxed(), text: String::new() }
    }

    /// Reads the next frame; `None` at the end of the stream.
    async fn frame(&mut self) -> Option<Frame> {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let (frame, rest) = (parse(frame), rest.to_owned());
                self.text = rest;
                return Some(frame);
            }
            let next = tokio::time::timeout(PATIENCE, self.bytes.next()).await.expect("a frame");
            self.text.push_str(std::str::from_utf8(&next?.unwrap()).unwrap());
        }
    }

    /// Reads the next event, skipping heartbeats.
    async fn event(&mut self) -> Frame {
        loop {
            let frame = self.frame().await.expect("an event");
            if frame.event != "ping" {
                return frame;
            }
        }
    }
}

fn parse(text: &str) -> Frame {
    let field = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
    };
    Frame {
        event: field("event:").expect("every frame is named"),
        id: field("id:").map(|id| id.parse().unwrap()),
        data: serde_json::from_str(&field("data:").unwrap()).unwrap(),
    }
}

async fn emit(house: &House, n: usize) {
    let body = json!({"events": [{"type": "user.message", "n": n}]});
    assert_eq!(house.post("/v1/sessions/s/events", &body).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tail_is_live_and_reports_its_start() {
    over_every_engine(async |house| {
        house.session("s", 3).await;
        let mut tail = Tail::open(house, "", &[]).await;
        let first = tail.frame().await.unwrap();
        assert_eq!((&first.event[..], first.id, &first.data["tail"]), ("ping", None, &json!(3)));
        emit(house, 3).await;
        let event = tail.event().await;
        assert_eq!((&event.event[..], event.id), ("user.message", Some(3)));
        assert_eq!(event.data, house.get("/v1/sessions/s/events?from=3").await.json()["data"][0]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tail_resumes_after_the_last_event_id_without_loss_or_repetition() {
    over_every_engine(async |house| {
        const EVENTS: usize = 300;
        house.session("s", 0).await;
        let write = async {
            for n in 0..EVENTS {
                emit(house, n).await;
            }
        };
        let read = async {
            let mut seen: Vec<u64> = Vec::new();
            while seen.len() < EVENTS {
                let last = seen.len().checked_sub(1).map(|last| last.to_string());
                let headers: Vec<(&str, &str)> =
                    last.iter().map(|last| ("last-event-id", last.as_str())).collect();
                // The query stays on a reconnect; the header overrides it.
                let mut tail = Tail::open(house, "?from=0", &headers).await;
                for _ in 0..37.min(EVENTS - seen.len()) {
                    let event = tail.event().await;
                    assert_eq!(event.data["position"].as_u64(), event.id);
                    seen.push(event.data["n"].as_u64().unwrap());
                }
            }
            seen
        };
        let ((), seen) = tokio::join!(write, read);
        assert_eq!(seen, (0..EVENTS as u64).collect::<Vec<_>>());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tail_starts_at_a_point_and_filters_by_type() {
    let house = House::plain().await;
    house.session("s", 8).await;
    let query = "?from=event:e2&types[]=agent.message&event_deltas[]=x&beta=true";
    let mut tail = Tail::open(&house, query, &[]).await;
    assert_eq!(tail.event().await.id, Some(3));
    assert_eq!(tail.event().await.id, Some(6));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tail_from_a_future_time_skips_earlier_events() {
    over_every_engine(async |house| {
        house.session("s", 1).await;
        let time = house.clock.now().plus_micros(10_000_000);
        let mut tail = Tail::open(house, &format!("?from=time:{time}"), &[]).await;
        assert_eq!(tail.frame().await.unwrap().event, "ping");
        for n in [1, 2] {
            let body = json!({"events": [{"type": "user.message", "n": n}]});
            assert_eq!(house.post("/v1/sessions/s/events", &body).await.status, 200);
            house.clock.advance(Duration::from_secs(20));
        }
        assert_eq!(tail.event().await.id, Some(2));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_with_line_breaks_is_one_sse_frame() {
    let house = House::plain().await;
    house.session("s", 0).await;
    let body = "{\"events\":[{\r\n\"type\":\"a.b\",\r\n \"x\" :\n [1,\n\n2]\r}]}";
    assert_eq!(house.post_text("/v1/sessions/s/events", body).await.status, 200);
    let mut tail = Tail::open(&house, "?from=0", &[]).await;
    let event = tail.event().await;
    assert_eq!((event.id, &event.data["x"]), (Some(0), &json!([1, 2])));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_stream_sends_its_tail_without_an_id() {
    let mut plan = Plan::default();
    plan.options.heartbeat = Duration::from_millis(10);
    let house = House::build(plan).await;
    house.session("s", 2).await;
    let mut tail = Tail::open(&house, "", &[]).await;
    for _ in 0..3 {
        let ping = tail.frame().await.unwrap();
        assert_eq!((&ping.event[..], ping.id, &ping.data["tail"]), ("ping", None, &json!(2)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tail_of_a_deleted_session_reports_the_deletion_and_ends() {
    let mut plan = Plan::default();
    plan.options.heartbeat = Duration::from_millis(10);
    let house = House::build(plan).await;
    house.session("s", 1).await;
    let mut tail = Tail::open(&house, "", &[]).await;
    house.call("DELETE", "/v1/sessions/s", &[], None).await;
    let event = tail.event().await;
    assert_eq!((&event.event[..], event.id), ("session.deleted", None));
    assert_eq!(
        (&event.data["type"], &event.data["id"]),
        (&json!("session.deleted"), &json!("deleted-s"))
    );
    assert!(event.data["processed_at"].is_string());
    assert!(tail.frame().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_server_ends_streams_with_done_and_answers_pending_requests() {
    over_every_engine(async |house| {
        house.session("s", 2).await;
        let mut tail = Tail::open(house, "?from=0", &[]).await;
        assert_eq!(tail.event().await.id, Some(0));
        assert_eq!(tail.event().await.id, Some(1));
        let poll = house.get("/v1/sessions/s/events?from=end&wait_ms=60000");
        let stop = async {
            // The poll is running once it counts as a reader in addition to the stream.
            while !house.get("/metrics").await.text.contains("sessionlog_readers 2") {
                tokio::task::yield_now().await;
            }
            house.stop.cancel();
        };
        let (poll, ()) = tokio::join!(poll, stop);
        assert_eq!((poll.status, &poll.json()["tail"]), (200, &json!(2)));
        let done = tail.event().await;
        assert_eq!((&done.event[..], done.id), ("done", None));
        assert_eq!(done.data["next_position"], 2);
        assert!(tail.frame().await.is_none());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_over_the_limit_are_rejected_until_one_leaves() {
    let mut plan = Plan::default();
    plan.options.readers_max = 1;
    plan.options.heartbeat = Duration::from_millis(10);
    let house = House::build(plan).await;
    house.session("s", 1).await;
    let tail = Tail::open(&house, "", &[]).await;
    let export = "/v1/sessions/s/export";
    for path in [STREAM, "/v1/sessions/s/events?from=end&wait_ms=1000", export] {
        let refused = house.get(path).await;
        assert_eq!((refused.status, refused.code()), (429, "limit_reached".to_owned()));
        assert_eq!(refused.header("retry-after"), "1");
    }
    assert_eq!(house.get("/v1/sessions/s/events").await.status, 200, "plain reads go on");
    drop(tail);
    let freed = async {
        while house.get("/v1/sessions/s/events?from=end&wait_ms=1").await.status != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, freed).await.expect("a reader that left frees its place");
}
