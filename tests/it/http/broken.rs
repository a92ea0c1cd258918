//! A failing disk, as a client sees it: typed errors, intact ranges, other sessions unaffected.

use std::sync::Arc;

use prost::Message as _;
use serde_json::{Value, json};
use sessionlog::{
    event::{Origin, Scope, Timestamp},
    service::{Caller, Code, Quotas, Service},
    store::{
        NewSession, Store,
        local::{LocalStore, StoreOptions},
    },
    wire::pb,
};
use sessionlog_sim::{Fault, ManualClock, Op, Sim};

use super::{
    gate::Gate,
    house::{House, Plan, numbers},
};
use crate::engines::{self, append, batch, create, event, key, named, small};

const EVENTS: &str = "/v1/sessions/s/events";

async fn house(sim: &Sim, options: StoreOptions) -> House {
    let store: Arc<dyn Store> = LocalStore::open(&sim.env(), options).unwrap();
    House::over(store, Arc::new(ManualClock::default()), Plan::default()).await
}

/// Returns a machine whose session `s` has a sealed segment with a flipped bit, and `t` none.
async fn damaged() -> Sim {
    let sim = Sim::new(5);
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    for session in ["s", "t"] {
        create(&store, session).await;
    }
    for n in 0..80_u32 {
        let body = format!("{{\"n\":{n},\"text\":\"{}\"}}", "lorem ipsum ".repeat(40));
        append(&store, &key("s"), batch([named(&format!("e{n}"), &body)])).await.unwrap();
    }
    append(&store, &key("t"), batch([named("e", "{\"n\":0}")])).await.unwrap();
    store.flush().unwrap();
    store.close().await;
    sim.power_loss();
    drop(store);
    let sealed = sim.files().into_iter().find(|path| path.ends_with(".sealed")).unwrap();
    let bytes = sim.read_durable(&sealed).unwrap().len() as u64;
    sim.flip(&sealed, bytes / 2, 3);
    sim
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_session_reports_its_intact_ranges_and_serves_them_on_request() {
    let sim = damaged().await;
    let house = house(&sim, small()).await;
    let refused = house.get(EVENTS).await;
    assert_eq!((refused.status, refused.code()), (423, "session_damaged".to_owned()));
    let hint = &refused.json()["error"]["recovery_hint"];
    let ranges = |name: &str| -> Vec<(u64, u64)> {
        let list = hint[name].as_array().unwrap();
        list.iter().map(|r| (r["from"].as_u64().unwrap(), r["to"].as_u64().unwrap())).collect()
    };
    let (whole, missing) = (ranges("whole"), ranges("missing"));
    let mut covered = [whole.clone(), missing.clone()].concat();
    covered.sort_unstable();
    let joined = covered.windows(2).all(|pair| pair[0].1 == pair[1].0);
    assert!(joined && covered[0].0 == 0 && covered.last().unwrap().1 == 80, "{covered:?}");
    assert!(hint["missing"][0]["reason"].is_string());

    for (from, to) in &whole {
        let slice = house.get(&format!("{EVENTS}?from={from}&to={to}")).await.json();
        assert_eq!(numbers(&slice), (*from..*to).collect::<Vec<_>>());
    }
    let gapped = house.get(&format!("{EVENTS}?allow_gaps=true")).await.json();
    let lost = |n: &u64| missing.iter().any(|(from, to)| (*from..*to).contains(n));
    assert_eq!(numbers(&gapped), (0..80).filter(|n| !lost(n)).collect::<Vec<_>>());
    assert_eq!(gapped["gaps"].as_array().unwrap().len(), missing.len());
    assert_eq!(gapped["next_position"], 80);

    assert_eq!(house.get("/v1/sessions/s/export").await.status, 423);
    assert_eq!(house.get("/v1/sessions/s/views/index?find=lorem").await.status, 423);
    let found = house.post("/v1/admin/verify", &json!({})).await.json();
    assert_eq!(found["damage"][0]["session"], "s");
    assert_ne!(house.get("/v1/sessions/s").await.json()["damage"], json!([]));
    assert_eq!(numbers(&house.get("/v1/sessions/t/events").await.json()), [0]);
    let more = json!({"events": [{"type": "a.b", "n": 1}]});
    assert_eq!(house.post("/v1/sessions/t/events", &more).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_returns_a_typed_error_and_keeps_acknowledged_events() {
    let sim = Sim::new(6);
    let house = house(&sim, small()).await;
    house.session("s", 3).await;
    sim.set_capacity(Some(sim.used()));
    let event = json!({"events": [{"type": "a.b", "n": 9, "text": "x".repeat(8 << 10)}]});
    let mut refused = None;
    // Space allocated before accepts some more.
    for _ in 0..200 {
        let reply = house.post(EVENTS, &event).await;
        if reply.status != 200 {
            refused = Some(reply);
            break;
        }
    }
    let refused = refused.expect("a disk ends");
    assert_eq!((refused.status, refused.code()), (507, "disk_full".to_owned()));
    assert_eq!(numbers(&house.get(&format!("{EVENTS}?to=3")).await.json()), [0, 1, 2]);
    sim.set_capacity(None);
    assert_eq!(house.post(EVENTS, &event).await.status, 200, "space came back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_not_ready_until_an_append_succeeds() {
    let sim = Sim::new(19);
    let store = Arc::new(LocalStore::open_local(&sim.env(), small()).unwrap());
    let clock = Arc::new(ManualClock::default());
    let house = House::over(store.clone(), clock, Plan::default()).await;
    house.session("s", 3).await;
    sim.set_capacity(Some(sim.used()));
    let event = json!({"events": [{"type": "a.b", "n": 9, "text": "x".repeat(8 << 10)}]});
    while house.post(EVENTS, &event).await.status == 200 {}
    let later = |seconds| {
        sim.clock().advance(std::time::Duration::from_secs(seconds));
        // As the store does in the background.
        let _ = store.flush();
    };
    // Nothing is written meanwhile, and the disk stays full.
    for seconds in [0, 60, 3_600] {
        later(seconds);
        let ready = house.get("/readyz").await;
        assert_eq!((ready.status, ready.code()), (507, "disk_full".to_owned()), "{}", ready.text);
        let action = ready.json()["error"]["recovery_hint"]["action"].to_string();
        assert!(action.contains("free space"), "{action}");
    }
    sim.set_capacity(None);
    later(60);
    assert_eq!(house.get("/readyz").await.status, 200);
    assert_eq!(house.post(EVENTS, &event).await.status, 200, "it was ready");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_outcome_is_resolved_by_a_retry_with_the_same_id() {
    let sim = Sim::new(7);
    let house = house(&sim, small()).await;
    house.session("s", 3).await;
    sim.fail_next(Op::Sync, Fault::Io, false);
    let event = json!({"events": [{"type": "a.b", "id": "x", "n": 3}]});
    let unknown = house.post(EVENTS, &event).await;
    assert_eq!((unknown.status, unknown.code()), (503, "outcome_unknown".to_owned()));
    assert_eq!(unknown.json()["error"]["recovery_hint"]["retryable"], true);
    assert_eq!(unknown.header("retry-after"), "1");
    assert_eq!(house.post(EVENTS, &event).await.status, 200);
    assert_eq!(numbers(&house.get(EVENTS).await.json()), [0, 1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failed_sync_reads_still_work() {
    let sim = Sim::new(9);
    let house = house(&sim, small()).await;
    house.session("s", 3).await;
    sim.fail_next(Op::Sync, Fault::Io, true);
    let event = json!({"events": [{"type": "a.b", "id": "x", "n": 3}]});
    let mut codes = Vec::new();
    for _ in 0..5 {
        let reply = house.post(EVENTS, &event).await;
        assert_eq!(reply.status, 503, "{}", reply.text);
        assert_eq!(reply.json()["error"]["recovery_hint"]["retryable"], true);
        codes.push(reply.code());
    }
    assert_eq!((&codes[0][..], &codes[4][..]), ("outcome_unknown", "store_read_only"));
    assert_eq!(house.get("/healthz").await.status, 200);
    assert_eq!(numbers(&house.get(EVENTS).await.json()), [0, 1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retried_creation_returns_the_same_session() {
    let sim = Sim::new(8);
    let house = house(&sim, small()).await;
    let headers = [("content-type", "application/json"), ("idempotency-key", "k")];
    let asked = |id: Option<&str>| Some(json!({ "id": id }).to_string().into_bytes());
    let first = house.call("POST", "/v1/sessions", &headers, asked(None)).await.json();
    let again = house.call("POST", "/v1/sessions", &headers, asked(None)).await.json();
    assert_eq!(first["id"], again["id"]);
    let headers = [headers[0], ("idempotency-key", "l")];
    for _ in 0..2 {
        let named = house.call("POST", "/v1/sessions", &headers, asked(Some("mine"))).await;
        assert_eq!((named.status, &named.json()["id"]), (201, &json!("mine")));
    }
    let other = house.post("/v1/sessions", &json!({"id": "mine"})).await;
    assert_eq!((other.status, other.code()), (409, "session_exists".to_owned()));
    assert_eq!(house.get("/v1/sessions").await.json()["data"].as_array().unwrap().len(), 2);
}

/// Checks that gaps are reported at their positions, in each format.
async fn check_gaps_everywhere(house: &House, slice: &Value) {
    let mut gap = slice["gaps"][0].clone();
    let from = gap["from"].as_u64().unwrap();
    gap["type"] = json!("gap");
    let told = |lines: Vec<Value>| {
        let at = lines.iter().position(|line| *line == gap).expect("the gap is named");
        let before = &lines[at - 1]["position"];
        assert_eq!(*before, from - 1, "it stands where the events were");
        assert_eq!(lines.len(), numbers(slice).len() + 1, "and nothing else is there");
    };
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let export = house.get("/v1/sessions/s/export").await;
    told(export.text.lines().map(read).collect());
    let path = "/v1/sessions/s/events/stream?from=0";
    let mut stream = house.send("GET", path, &[], None).await;
    let last = format!("id: {}\n", slice["tail"].as_u64().unwrap() - 1);
    let mut text = String::new();
    while !(text.contains(&last) && text.ends_with("\n\n")) {
        text.push_str(std::str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap());
    }
    let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).map(read);
    told(data.filter(|data| data["type"] != "ping").collect());
    let accepts = [("accept", "application/x-protobuf")];
    let answer = house.send("GET", EVENTS, &accepts, None).await.bytes().await.unwrap();
    let answer = pb::EventsAnswer::decode(answer).unwrap();
    let accepted_at = gap["accepted_at"].as_str().and_then(Timestamp::parse).map(|time| time.0);
    assert!(accepted_at.is_some());
    assert_eq!((answer.gaps[0].from, answer.gaps[0].accepted_at_micros), (from, accepted_at));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_session_is_writable_once_an_operator_accepts_the_loss() {
    let sim = damaged().await;
    let house = house(&sim, small()).await;
    let more = json!({"events": [{"type": "a.b", "n": 1}]});
    let refused = house.post(EVENTS, &more).await;
    // It was not read yet: the first request finds the damage.
    let looked = house.post("/v1/admin/repair", &json!({"session": "s"})).await.json();
    assert_eq!(looked["accepted"], false);
    let lost = looked["events_lost"].as_u64().unwrap();
    assert!(lost > 0 && looked["gaps"][0]["reason"].is_string(), "{looked}");
    let refused = if refused.status == 200 { house.post(EVENTS, &more).await } else { refused };
    assert_eq!((refused.status, refused.code()), (423, "session_damaged".to_owned()));
    let action = refused.json()["error"]["recovery_hint"]["action"].to_string();
    assert!(action.contains("sessionlog repair SESSION --accept-loss"), "{action}");
    for wrong in [json!({}), json!({"session": "s", "store": true}), json!({"session": "no"})] {
        assert!(house.post("/v1/admin/repair", &wrong).await.status >= 400, "{wrong}");
    }
    let accept = json!({"session": "s", "accept_loss": true});
    let repaired = house.post("/v1/admin/repair", &accept).await.json();
    assert_eq!((&repaired["accepted"], &repaired["gaps"]), (&json!(true), &looked["gaps"]));
    let answer = house.post(EVENTS, &more).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let slice = house.get(EVENTS).await.json();
    assert!(slice["gaps"][0]["accepted_at"].is_string(), "{}", slice["gaps"]);
    let tail = slice["tail"].as_u64().unwrap();
    assert_eq!(numbers(&slice).len() as u64, tail - lost);
    check_gaps_everywhere(&house, &slice).await;
    let verified = house.post("/v1/admin/verify", &json!({"session": "s"})).await.json();
    assert_eq!(verified["damage"], json!([]));
    assert_eq!(verified["accepted"][0]["session"], "s");
    let again = house.post("/v1/admin/repair", &accept).await.json();
    assert_eq!((&again["accepted"], &again["gaps"]), (&json!(false), &json!([])));
    let store = house.post("/v1/admin/repair", &json!({"store": true})).await.json();
    assert_eq!((&store["accepted"], &store["unnamed"]), (&json!(false), &json!([])));
}

/// Returns a machine whose session `s` has a cursor at 1 and then at 3 and two checkpoints, and
/// whose last notes are damaged, or its segment deleted.
async fn machine_with_damaged_notes(gone: bool) -> Sim {
    let sim = Sim::new(15);
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let house = House::over(store.clone(), Arc::new(ManualClock::default()), Plan::default()).await;
    house.session("s", 3).await;
    for (at, v) in [(1, 1), (3, 2)] {
        let cursor = json!({ "position": at }).to_string().into_bytes();
        let headers = [("content-type", "application/json")];
        let put = house.call("PUT", "/v1/sessions/s/cursors/me", &headers, Some(cursor)).await;
        assert_eq!(put.status, 200, "{}", put.text);
        let made = house.post("/v1/sessions/s/checkpoints", &json!({"state": {"v": v}})).await;
        assert_eq!(made.status, 201, "{}", made.text);
        sim.clock().advance(std::time::Duration::from_secs(1));
    }
    store.close().await;
    drop(house);
    sim.power_loss();
    let segment = sim.files().into_iter().find(|path| path.starts_with("segments/")).unwrap();
    let bytes = sim.read_durable(&segment).unwrap().len() as u64;
    match gone {
        true => sim.env().storage.remove(&segment).unwrap(),
        false => [40, 2].iter().for_each(|back| sim.flip(&segment, bytes - back, 3)),
    }
    sim
}

#[tokio::test(flavor = "multi_thread")]
async fn notes_after_damage_are_an_error_and_uncertain_once_the_loss_is_accepted() {
    for gone in [false, true] {
        let sim = machine_with_damaged_notes(gone).await;
        let house = house(&sim, small()).await;
        let paths = ["cursors/me", "cursors", "checkpoints", "checkpoints/none"];
        let paths = paths.map(|path| format!("/v1/sessions/s/{path}"));
        for path in &paths {
            let refused = house.get(path).await;
            assert_eq!(
                (refused.status, refused.code()),
                (423, "session_damaged".to_owned()),
                "{path}"
            );
        }
        sim.clock().advance(std::time::Duration::from_secs(1));
        let accept = json!({"session": "s", "accept_loss": true});
        let repaired = house.post("/v1/admin/repair", &accept).await;
        assert_eq!(repaired.json()["accepted"], true, "{}", repaired.text);
        let cursor = house.get(&paths[0]).await;
        let listed = house.get(&paths[2]).await.json();
        let all = listed["data"].as_array().unwrap();
        assert!(all.len() < 2, "the last is lost: {listed}");
        assert!(all.iter().all(|one| one["uncertain"] == true), "{listed}");
        match gone {
            true => {
                assert_eq!(cursor.status, 404);
                assert!(
                    cursor.text.contains("a loss of this session was accepted"),
                    "{}",
                    cursor.text
                );
            }
            false => assert_eq!(cursor.json()["uncertain"], true, "{}", cursor.text),
        }
        sim.clock().advance(std::time::Duration::from_secs(1));
        let headers = [("content-type", "application/json")];
        let at = cursor.json()["position"].as_u64().unwrap_or(1);
        let body = json!({ "position": at }).to_string().into_bytes();
        let put = house.call("PUT", &paths[0], &headers, Some(body)).await;
        assert_eq!((put.status, &put.json()["uncertain"]), (200, &Value::Null), "{}", put.text);
        let made = house.post("/v1/sessions/s/checkpoints", &json!({"state": {"v": 3}})).await;
        assert_eq!((made.status, &made.json()["uncertain"]), (201, &Value::Null), "{}", made.text);
        let id = made.json()["id"].as_str().unwrap().to_owned();
        let read = house.get(&format!("/v1/sessions/s/checkpoints/{id}")).await.json();
        assert_eq!(
            (&read["state"], &read["uncertain"]),
            (&json!({"v": 3}), &Value::Null),
            "{read}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_interrupted_by_a_full_disk_is_reported_and_finished_later() {
    let body = |sim: &Sim, text: &str| {
        let holds = |path: &String| {
            let bytes = sim.read_durable(path).unwrap_or_default();
            bytes.windows(text.len()).any(|part| part == text.as_bytes())
        };
        sim.files().iter().any(holds)
    };
    for (path, gone) in [("s/events/x/redact", false), ("s/erase", true)] {
        let sim = Sim::new(16);
        let store = Arc::new(LocalStore::open_local(&sim.env(), small()).unwrap());
        let house =
            House::over(store.clone(), Arc::new(ManualClock::default()), Plan::default()).await;
        for session in ["s", "t"] {
            house.session(session, 3).await;
        }
        let event = json!({"events": [{"type": "a.b", "id": "x", "text": "the secret"}]});
        assert_eq!(house.post(EVENTS, &event).await.status, 200);
        sim.fail_writing("segments", Fault::Full);
        let path = format!("/v1/sessions/{path}");
        let refused = house.post(&path, &json!({})).await;
        assert_eq!(
            (refused.status, refused.code()),
            (503, "not_finished".to_owned()),
            "{}",
            refused.text
        );
        assert!(!refused.text.contains("nothing was kept"), "{}", refused.text);
        assert!(
            refused.json()["error"]["message"].to_string().contains("accepted"),
            "{}",
            refused.text
        );
        assert!(body(&sim, "the secret"), "{path}: it is left");
        let served = house.get(&format!("{EVENTS}?from=3&to=4")).await;
        match gone {
            true => assert_eq!(served.status, 410),
            false => assert_eq!(served.json()["data"][0]["redacted"], true, "{}", served.text),
        }
        sim.heal();
        sim.clock().advance(std::time::Duration::from_secs(60));
        store.flush().unwrap();
        assert!(!body(&sim, "the secret"), "{path}: it went without another request");
        let again = house.post(&path, &json!({})).await;
        assert_eq!(again.status, 200, "{}", again.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_storage_returns_a_typed_error_until_it_recovers() {
    let engine = engines::all().into_iter().next().unwrap();
    let gate = Arc::new(Gate::new(engine.store));
    create(&*gate, "s").await;
    append(&*gate, &key("s"), batch([event("{\"n\":0}")])).await.unwrap();
    let quotas = Quotas { sessions_max: 9, ..Quotas::default() };
    let service = Service::new(gate.clone(), engine.clock.clone()).with_quotas(quotas);
    let plan = Plan { service: Some(service.clone()), ..Plan::default() };
    let house = House::over(gate.clone(), engine.clock, plan).await;
    let more = json!({"events": [{"type": "a.b", "id": "e", "n": 1}]});
    let every = std::time::Duration::from_secs(600);
    gate.cut(true);
    for refused in [
        house.post(EVENTS, &more).await,
        house.post("/v1/sessions", &json!({"id": "t"})).await,
        house.post("/v1/sessions/s/fork", &json!({"at": "end"})).await,
        house.get(EVENTS).await,
        house.get("/v1/sessions").await,
        house.get("/v1/sessions/s/views/index").await,
    ] {
        let found = (refused.status, refused.code());
        assert_eq!(found, (503, "store_unreachable".to_owned()), "{}", refused.text);
        assert_eq!(refused.json()["error"]["recovery_hint"]["retryable"], true);
        assert_eq!(
            (refused.header("x-should-retry"), refused.header("retry-after")),
            ("true", "1")
        );
    }
    assert_eq!(service.checkpoint_changed(every).await, 0);
    gate.cut(false);
    assert_eq!(house.post(EVENTS, &more).await.status, 200);
    assert_eq!(numbers(&house.get(EVENTS).await.json()), [0, 1]);
    assert_eq!(service.checkpoint_changed(every).await, 1);
}

#[tokio::test]
async fn a_tenant_of_unknown_usage_is_counted_before_its_next_write() {
    let engine = engines::all().into_iter().next().unwrap();
    let gate = Arc::new(Gate::new(engine.store));
    create(&*gate, "s").await;
    let quotas = Quotas { sessions_max: 2, ..Quotas::default() };
    let service = Service::new(gate.clone(), engine.clock).with_quotas(quotas);
    let caller = Caller { scope: Scope::local(), origin: Origin::User, fence: None };
    gate.cut(true);
    let refused = service.emit(&caller, &key("s").session, batch([event("{}")]), false).await;
    assert_eq!(refused.unwrap_err().code, Code::StoreUnreachable);
    gate.cut(false);
    let begin = async || service.create_session(&caller, NewSession::default()).await;
    begin().await.unwrap();
    assert_eq!(begin().await.unwrap_err().code, Code::QuotaExceeded, "the one before counts");
}
