//! Events that the server adds after a batch: sources named in results of tools. Their cost for the
//! response, and their effect on clients that count positions.

use std::sync::Arc;

use serde_json::{Value, json};
use sessionlog::{
    event::{Batch, EventType, NewEvent, Origin, Scope, SessionId},
    service::{Caller, EventQuery, Service},
    store::Store,
};

use super::{
    gate::Gate,
    house::{House, over_every_engine},
};
use crate::engines;

fn caller(origin: Origin) -> Caller {
    Caller { scope: Scope::local(), origin, fence: None }
}

fn event(origin: Origin, kind: &str, body: &Value) -> NewEvent {
    let kind = EventType::new(kind).unwrap();
    NewEvent { kind, origin, ..engines::event(&body.to_string()) }
}

fn search_event(origin: Origin, id: &str) -> NewEvent {
    event(origin, "agent.tool_use", &json!({"name": "web_search", "call_id": id, "input": {}}))
}

fn result_event(origin: Origin, id: &str, page: &str) -> NewEvent {
    event(origin, "agent.tool_result", &json!({"call_id": id, "content": page}))
}

/// The service over a store that counts reads, and a session in it.
struct Desk {
    gate: Arc<Gate>,
    service: Service,
    session: SessionId,
}

impl Desk {
    async fn new() -> Self {
        let engine = engines::all().into_iter().next().unwrap();
        let gate = Arc::new(Gate::new(engine.store));
        engines::create(&*gate, "s").await;
        let service = Service::new(Arc::clone(&gate) as Arc<dyn Store>, engine.clock);
        Self { gate, service, session: SessionId::new("s").unwrap() }
    }

    async fn emit(&self, events: Vec<NewEvent>) -> u64 {
        let batch = Batch { events: events.into(), ..Batch::default() };
        let caller = caller(Origin::Harness);
        let emitted = self.service.emit(&caller, &self.session, batch, false).await.unwrap();
        emitted.appended.next_position.0
    }

    /// Returns the addresses of the recorded sources.
    async fn told(&self) -> Vec<String> {
        let types = vec![EventType::new("source.found").unwrap()];
        let query = EventQuery { types, ..EventQuery::default() };
        let caller = caller(Origin::User);
        let slice = self.service.get_events(&caller, &self.session, &query).await.unwrap();
        let url = |body: &[u8]| serde_json::from_slice::<Value>(body).unwrap()["url"].clone();
        slice.events.iter().map(|event| url(&event.body).as_str().unwrap().to_owned()).collect()
    }
}

#[tokio::test]
async fn the_first_result_after_a_restart_does_not_wait_for_reading_the_session() {
    const EVENTS: usize = 100_000;
    let desk = Desk::new().await;
    desk.emit(vec![search_event(Origin::Harness, "early")]).await;
    for _ in 0..EVENTS / 1_000 {
        desk.emit(vec![event(Origin::User, "user.message", &json!({"content": "x"})); 1_000]).await;
    }
    desk.service.evict_facts();
    desk.gate.read_since();
    let results = ["a", "b"].map(|page| {
        let text = format!("http://{page}.org");
        vec![search_event(Origin::Harness, page), result_event(Origin::Harness, page, &text)]
    });
    let early = vec![result_event(Origin::Harness, "early", "[Early](http://early.org)")];
    for (batch, ends) in results.into_iter().chain([early]).zip([3, 5, 6]) {
        assert_eq!(desk.emit(batch).await, (EVENTS + ends) as u64);
        if ends == 3 {
            let read = desk.gate.read_since();
            assert!(read <= 2_000, "the answer waited for {read} events");
        }
    }
    let tail = EVENTS + 6 + 3;
    while desk.gate.info(&engines::key("s")).await.unwrap().tail.0 < tail as u64 {
        tokio::task::yield_now().await;
    }
    let read = desk.gate.read_since();
    assert!(read <= EVENTS + 5_000, "the session was read once, not {read} events");
    assert_eq!(desk.told().await, ["http://a.org", "http://b.org", "http://early.org"]);
    desk.gate.read_since();
    // From now on the facts are cached.
    let batch = vec![
        search_event(Origin::Harness, "c"),
        result_event(Origin::Harness, "c", "http://c.org"),
    ];
    assert_eq!(desk.emit(batch).await, (tail + 3) as u64, "told before the answer");
    assert!(desk.gate.read_since() < 20);
}

#[tokio::test]
async fn an_append_reads_only_the_new_events_of_its_session() {
    let desk = Desk::new().await;
    for (id, ends, new) in [("a", 3, 2), ("b", 6, 3), ("c", 9, 3)] {
        desk.gate.read_since();
        let page = format!("http://{id}.org");
        let batch =
            vec![search_event(Origin::Harness, id), result_event(Origin::Harness, id, &page)];
        assert_eq!(desk.emit(batch).await, ends);
        assert_eq!(desk.gate.read_since(), new, "the source before, and the batch");
    }
}

#[tokio::test]
async fn concurrent_results_read_a_session_once() {
    let desk = Desk::new().await;
    desk.emit(vec![event(Origin::User, "user.message", &json!({"content": "x"})); 900]).await;
    desk.gate.read_since();
    let one = |n: usize| {
        let id = n.to_string();
        let page = format!("http://{n}.org");
        desk.emit(vec![
            search_event(Origin::Harness, &id),
            result_event(Origin::Harness, &id, &page),
        ])
    };
    futures_util::future::join_all((0..50).map(one)).await;
    assert_eq!(desk.told().await.len(), 50);
    let read = desk.gate.read_since();
    assert!(read < 10_000, "{read} events for 50 results behind 900 events");
}

#[tokio::test]
async fn a_url_of_an_imported_result_is_not_added_as_a_source() {
    let desk = Desk::new().await;
    let imported =
        [search_event(Origin::Import, "1"), result_event(Origin::Import, "1", "http://old.org")];
    assert_eq!(desk.emit(imported.to_vec()).await, 2);
    let live =
        [search_event(Origin::Harness, "2"), result_event(Origin::Harness, "2", "http://new.org")];
    assert_eq!(desk.emit(live.to_vec()).await, 5);
    assert_eq!(desk.told().await, ["http://new.org"]);
}

fn found(id: &str, pages: usize) -> Value {
    let pages: String = (0..pages).map(|n| format!("http://{id}.org/{n} ")).collect();
    json!([
        {"type": "agent.tool_use", "name": "web_search", "call_id": id, "input": {}},
        {"type": "agent.tool_result", "call_id": id, "content": pages},
    ])
}

async fn emit(house: &House, headers: &[(&str, &str)], events: &Value) -> super::house::Reply {
    let headers = [&[("content-type", "application/json")], headers].concat();
    let body = json!({ "events": events }).to_string().into_bytes();
    house.call("POST", "/v1/sessions/s/events?create=true", &headers, Some(body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_returns_the_position_after_the_added_events() {
    over_every_engine(async |house| {
        for (pages, next) in [(3, 5), (0, 7)] {
            let key = format!("k{pages}");
            let events = found(&key, pages);
            let first = emit(house, &[("idempotency-key", &key)], &events).await.json();
            assert_eq!(first["next_position"], next);
            let again = emit(house, &[("idempotency-key", &key)], &events).await.json();
            assert_eq!((&again["repeated"], &again["next_position"]), (&json!(true), &json!(next)));
        }
        // Events of other writers are not part of it.
        let events = found("k3", 3);
        let again = emit(house, &[("idempotency-key", "k3")], &events).await.json();
        assert_eq!(again["next_position"], 5, "{again}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_added_by_the_server_cause_no_conflict_but_those_of_a_writer_do() {
    over_every_engine(async |house| {
        emit(house, &[], &found("a", 3)).await;
        // Counted without the three sources, in the middle of them, and with them.
        for (expected, begins) in [("2", 5), ("6", 6), ("9", 9)] {
            let events = match expected {
                "6" => found("b", 1),
                _ => json!([{"type": "user.message", "content": expected}]),
            };
            let reply = emit(house, &[("if-position", expected)], &events).await;
            assert_eq!((reply.status, &reply.json()["first_position"]), (200, &json!(begins)));
        }
        for stale in ["2", "5", "8", "9", "11"] {
            let events = json!([{"type": "user.message", "content": "late"}]);
            let reply = emit(house, &[("if-position", stale)], &events).await;
            assert_eq!((reply.status, reply.code()), (409, "position_conflict".to_owned()));
            let error = reply.json();
            assert_eq!(error["error"]["recovery_hint"]["tail"], 10);
            let message = error["error"]["message"].as_str().unwrap();
            assert!(message.contains(stale), "it names what was asked: {message}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_counts_only_its_events_has_no_conflict() {
    let line = |n: u64, at: Option<u64>| -> String {
        let events = found(&format!("n{n}"), 2);
        json!({"session": "s", "events": events, "if_position": at}).to_string() + "\n"
    };
    let own = |n: u64| (n % 5 != 3).then_some(2 * n);
    let stream = async |house: &House, lines: String| -> Vec<Value> {
        let kind = [("content-type", "application/x-ndjson")];
        let reply = house.call("POST", "/v1/append", &kind, Some(lines.into_bytes())).await;
        reply.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    over_every_engine(async |house| {
        house.session("s", 0).await;
        // A wrong precondition at the start and one that skips a line are still reported.
        let mut lines = line(99, Some(7));
        lines.extend((0..20).map(|n| line(n, own(n))));
        lines += &line(98, Some(38));
        let answers = stream(house, lines).await;
        let (first, last) = (&answers[0], &answers[21]);
        for wrong in [first, last] {
            assert_eq!(wrong["error"]["type"], "position_conflict", "{wrong}");
        }
        assert!(answers[1..21].iter().all(|line| line["type"] == "appended"), "{answers:?}");
        let slice = house.get("/v1/sessions/s/events?limit=10000").await.json();
        let events = slice["data"].as_array().unwrap();
        assert_eq!(events.len(), 20 * 4);
        let calls = events.iter().filter_map(|event| event["call_id"].as_str());
        let expected: Vec<String> =
            (0..20).flat_map(|n| [format!("n{n}"), format!("n{n}")]).collect();
        assert_eq!(calls.collect::<Vec<_>>(), expected);
        // A client that reads the responses continues from there.
        let next = answers[20]["next_position"].as_u64();
        assert_eq!(stream(house, line(20, next)).await[0]["type"], "appended");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_conflicts_with_another_writer_after_added_events() {
    over_every_engine(async |house| {
        emit(house, &[], &found("a", 2)).await;
        emit(house, &[], &json!([{"type": "user.message", "content": "another"}])).await;
        let line = json!({"session": "s", "events": found("b", 1), "if_position": 2});
        let kind = [("content-type", "application/x-ndjson")];
        let body = Some(line.to_string().into_bytes());
        let reply = house.call("POST", "/v1/append", &kind, body).await;
        assert_eq!(reply.json()["error"]["type"], "position_conflict");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_with_a_lease_token_receives_the_sources_of_its_results() {
    over_every_engine(async |house| {
        house.session("s", 0).await;
        let woken = house.post("/v1/sessions/s/wake", &json!({})).await.json();
        let token = &woken["fencing_token"];
        let line = json!({"session": "s", "events": found("a", 2), "fencing_token": token});
        let kind = [("content-type", "application/x-ndjson")];
        let body = Some(line.to_string().into_bytes());
        let reply = house.call("POST", "/v1/append", &kind, body).await.json();
        assert_eq!((&reply["type"], &reply["next_position"]), (&json!("appended"), &json!(4)));
    })
    .await;
}
