//! A failing store: its cost, what it delays, and the reports. It must not use a real store.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use sessionlog::proxy::ProxyOptions;
use sessionlog_sim::ManualClock;

use super::{
    scripted::{Asked, Scripted, json_text},
    wrapped::{Store, Wrapped, options, session, tools},
};
use crate::program::Place;

fn refusal(status: StatusCode, code: &str) -> Response {
    let error = json!({"type": "error", "error": {"type": code, "message": code}});
    (status, [("content-type", "application/json")], error.to_string()).into_response()
}

/// Returns every event that a store received for a session.
fn received_events(store: &Scripted, session: &str) -> Vec<Value> {
    let asked = store.asked.lock().unwrap();
    let path = format!("/v1/sessions/{session}/events");
    let batches = asked.iter().filter(|one| one.path == path);
    batches.flat_map(|one| one.message["events"].as_array().unwrap().clone()).collect()
}

fn wrapped(store: &Scripted, options: ProxyOptions) -> Wrapped {
    let url = store.url.trim_end_matches("mcp").to_owned();
    Wrapped::new(&url, options, Box::new(tools()))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_rejected_by_one_session_blocks_no_other_session() {
    let script = |asked: Asked| {
        async move {
            match asked.path.contains("/full/") {
                true => refusal(StatusCode::TOO_MANY_REQUESTS, "quota_exceeded"),
                false => json_text("{}".to_owned()),
            }
        }
        .boxed()
    };
    let store = Scripted::start(script).await;
    let mut wrapped = wrapped(&store, ProxyOptions { durable: true, ..options() });
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "wait", "_meta": {"session_id": "full"}}});
    wrapped.say(&call.to_string()).await;
    wrapped.call_with("plain", json!({}), json!({"session_id": "free"})).await;
    assert_eq!(received_events(&store, "free").len(), 2, "the answer waited for both");
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_events_are_counted_and_reported() {
    let refuses = Arc::new(AtomicBool::new(true));
    let refusing = Arc::clone(&refuses);
    let script = move |asked: Asked| {
        let refuses = refusing.load(Ordering::SeqCst) && asked.path.ends_with("/events");
        async move {
            match refuses {
                true => refusal(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request"),
                false => json_text("{}".to_owned()),
            }
        }
        .boxed()
    };
    let store = Scripted::start(script).await;
    let said: Arc<Mutex<Vec<String>>> = Arc::default();
    let hears = Arc::clone(&said);
    let notify = Arc::new(move |text: &str| hears.lock().unwrap().push(text.to_owned()));
    let named = ProxyOptions { session: Some(session("s")), durable: true, notify, ..options() };
    let mut wrapped = wrapped(&store, named);
    wrapped.call("plain", json!({})).await;
    wrapped.call("plain", json!({})).await;
    assert_eq!(said.lock().unwrap().len(), 1, "the first is told at once: {said:?}");
    refuses.store(false, Ordering::SeqCst);
    wrapped.call("plain", json!({})).await;
    wrapped.leave().await;
    let gap =
        received_events(&store, "s").into_iter().find(|event| event["type"] == "session.error");
    assert_eq!(gap.unwrap()["error"]["events"], 4);
    assert_eq!(said.lock().unwrap()[1], "recording continues; 4 events were not recorded");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unresponsive_store_is_not_called_for_a_while() {
    let script = |_: Asked| std::future::pending().boxed();
    let store = Scripted::start(script).await;
    let clock = Arc::new(ManualClock::default());
    let patience = Duration::from_millis(20);
    let session = Some(session("s"));
    let named = ProxyOptions { session, patience, clock: clock.clone(), ..options() };
    let mut wrapped = wrapped(&store, named);
    wrapped.tools().await;
    let looked = || {
        let asked = store.asked.lock().unwrap();
        asked.iter().filter(|one| one.path.ends_with("/tool-cache/lookup")).count()
    };
    for n in 0..20 {
        wrapped.call("read", json!({ "n": n })).await;
    }
    assert_eq!(looked(), 1, "one call waited for it");
    clock.advance(Duration::from_secs(6));
    wrapped.call("read", json!({"n": 20})).await;
    assert_eq!(looked(), 2, "it may answer again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_cancelled_during_the_log_lookup_is_not_forwarded() {
    let store = Scripted::start(|_: Asked| std::future::pending().boxed()).await;
    let patience = Duration::from_millis(200);
    let named = ProxyOptions { session: Some(session("s")), patience, ..options() };
    let mut wrapped = wrapped(&store, named);
    wrapped.tools().await;
    let call =
        json!({"jsonrpc": "2.0", "id": 70, "method": "tools/call", "params": {"name": "read"}});
    wrapped.say(&call.to_string()).await;
    let cancelled = json!({"method": "notifications/cancelled", "params": {"requestId": 70}});
    wrapped.say(&cancelled.to_string()).await;
    drop(wrapped.take_to());
    assert_eq!(wrapped.hear().await, None, "nobody answers it");
    assert_eq!(wrapped.calls("read"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_has_its_time_and_a_session_that_may_have_expired_is_replaced() {
    let store = Store::start().await;
    let clock = Arc::new(ManualClock::default());
    let mut wrapped = Wrapped::of(&store, ProxyOptions { clock: clock.clone(), ..options() });
    wrapped.call("plain", json!({"n": 1})).await;
    clock.advance(Duration::from_secs(60 * 60));
    wrapped.call("plain", json!({"n": 2})).await;
    clock.advance(Duration::from_secs(24 * 60 * 60));
    wrapped.call("plain", json!({"n": 3})).await;
    wrapped.leave().await;
    let (first, second) = (store.events("tmp-p0-0").await, store.events("tmp-p0-1").await);
    assert_eq!((first.len(), second.len()), (4, 2), "nobody used the first for a day");
    let at = |event: &Value| event["created_at"].as_str().unwrap().to_owned();
    assert_eq!(at(&first[0])[..16], at(&first[1])[..16]);
    assert_eq!((&at(&first[0])[11..16], &at(&first[2])[11..16]), ("00:00", "01:00"));
}

#[test]
fn an_unread_standard_error_blocks_no_call() {
    let place = Place::new();
    let server = r#"while read -r line; do
echo '{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'
done"#;
    let proxy = ["proxy", "--session", "s", "--", "sh", "-c", server];
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#;
    place.run_with(&proxy, &format!("{call}\n")).ok();
    place.run(&["delete", "s", "--yes"]).ok();
    let (reader, mut full) = std::io::pipe().unwrap();
    full.write_all(&[b'x'; 65_536]).unwrap();
    let mut proxy = place.command(&proxy);
    let mut proxy = proxy.stdin(Stdio::piped()).stderr(full).spawn().unwrap();
    let mut to = proxy.stdin.take().unwrap();
    let mut from = BufReader::new(proxy.stdout.take().unwrap()).lines();
    let (answered, answers) = std::sync::mpsc::channel();
    let talking = std::thread::spawn(move || {
        for _ in 0..100 {
            writeln!(to, "{call}").unwrap();
            answered.send(from.next().unwrap().unwrap()).unwrap();
        }
    });
    // A proxy that cannot record reports it on standard error, which is not read here.
    for _ in 0..100 {
        answers.recv_timeout(Duration::from_secs(60)).unwrap();
    }
    talking.join().unwrap();
    assert_eq!(proxy.wait().unwrap().code(), Some(0));
    drop(reader);
}
