//! Results that were recorded as worth remembering.

use serde_json::{Value, json};

use crate::event;
use sessionlog::{
    event::kinds,
    projection::{RememberedResults, reusable_results::digest},
};

/// Maximum remembered results.
const MEMORIES_MAX: usize = 1_000;

fn fold_results(events: &[(&str, Value)]) -> RememberedResults {
    let mut remembered = RememberedResults::default();
    for (position, (kind, body)) in (0..).zip(events) {
        remembered.fold(&event(position, kind, body.to_string()));
    }
    remembered
}

fn call(id: &str, name: &str, more: Value) -> (&'static str, Value) {
    let mut body = json!({"name": name, "input": {"q": 1}, "call_id": id, "server": "s"});
    body.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
    ("agent.tool_use", body)
}

fn result(id: &str, more: Value) -> (&'static str, Value) {
    let mut body = json!({"call_id": id, "content": [{"type": "text", "text": "abcdefgh"}]});
    body.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
    ("agent.tool_result", body)
}

fn answers(events: &[(&str, Value)]) -> bool {
    let found = fold_results(events);
    let memory = found.find(digest(Some("s"), "read", &json!({"q": 1})));
    memory.is_some_and(|memory| memory.answers)
}

#[test]
fn a_remembered_result_is_reused_until_its_server_may_have_changed() {
    let read = || [call("1", "read", json!({"read_only": true})), result("1", json!({}))];
    let with = |more: Vec<(&'static str, Value)>| answers(&[read().to_vec(), more].concat());
    assert!(with(vec![]));
    assert!(!with(vec![call("2", "write", json!({"read_only": false}))]), "a write began");
    assert!(with(vec![call("2", "write", json!({"read_only": false, "server": "t"}))]));
    assert!(with(vec![call("2", "look", json!({"read_only": true}))]));
    assert!(with(vec![call("2", "unknown", json!({}))]), "no call says that it writes");
    assert!(!with(vec![(kinds::CONTEXT_CLEARED, json!({}))]), "a fresh start");
    let overtaken = [
        call("w", "write", json!({"read_only": false})),
        call("1", "read", json!({})),
        result("1", json!({})),
        result("w", json!({})),
    ];
    assert!(!answers(&overtaken), "the write was under way");
    let around = [
        call("1", "read", json!({})),
        call("w", "write", json!({"read_only": false})),
        result("w", json!({})),
        result("1", json!({})),
    ];
    assert!(!answers(&around), "what was read may be older than what was written");
}

#[test]
fn only_a_repeatable_result_is_reused() {
    for (of_call, of_result, expected) in [
        (json!({}), json!({}), true),
        (json!({"read_only": false}), json!({}), false),
        (json!({}), json!({"is_error": true}), false),
        (json!({}), json!({"is_error": false}), true),
        (json!({"redactions": {"jwt": 1}}), json!({}), false),
        (json!({}), json!({"redactions": {"jwt": 1}}), false),
        (json!({}), json!({"truncated": true}), false),
    ] {
        let said = [call("1", "read", of_call.clone()), result("1", of_result.clone())];
        assert_eq!(answers(&said), expected, "{of_call} {of_result}");
    }
}

#[test]
fn the_oldest_remembered_results_are_dropped_first() {
    let mut events = Vec::new();
    for n in 0..1_200 {
        let id = n.to_string();
        events.push(call(&id, "read", json!({"input": {"q": n}})));
        events.push(result(&id, json!({})));
    }
    let remembered = fold_results(&events);
    assert_eq!(remembered.len(), MEMORIES_MAX);
    let one = remembered.fit_newest(0)[0].0.tokens;
    for (tokens_max, kept) in
        [(0, 1), (one - 1, 1), (one, 1), (2 * one, 2), (10 * one, 10), (99_999, 1_000)]
    {
        let within = remembered.fit_newest(tokens_max);
        assert_eq!((within.len(), within[0].0.result.0), (kept, 2_399), "{tokens_max}");
        let tokens: usize = within.iter().map(|(_, tokens)| tokens).sum();
        assert!(tokens <= tokens_max, "{tokens} of {tokens_max}");
    }
}

#[test]
fn a_reused_result_is_counted_and_not_remembered_twice() {
    let remembered = fold_results(&[
        call("1", "read", json!({})),
        result("1", json!({})),
        call("2", "read", json!({"cached": {"position": 1}})),
        result("2", json!({"cached": {"position": 1, "age_ms": 7}})),
    ]);
    assert_eq!((remembered.len(), remembered.hits()), (1, 1));
    assert_eq!(remembered.fit_newest(9)[0].0.hits, 1);
}

#[test]
fn calls_with_equivalent_inputs_have_one_digest() {
    let named = |text: &str| digest(None, "t", &serde_json::from_str(text).expect("JSON"));
    assert_eq!(named(r#"{"a":1,"b":[1,2]}"#), named(r#"{ "b":[1,2], "a":1, "c":null }"#));
    for other in [r#"{"a":1,"b":[2,1]}"#, r#"{"a":"1","b":[1,2]}"#, "{}", r#"[1,2]"#] {
        assert_ne!(named(r#"{"a":1,"b":[1,2]}"#), named(other), "{other}");
    }
    assert_ne!(digest(None, "t", &Value::Null), digest(Some("s"), "t", &Value::Null));
}
