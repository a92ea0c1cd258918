//! Marks of a search hit, and warnings about outdated hits.

use std::sync::Arc;

use serde_json::{Value, json};
use sessionlog::service::Service;

use super::{search, session};
use crate::{
    engines,
    http::house::{House, Plan, over_every_engine},
};

/// Thousands of events that a search reads to compare its hits with later events.
const READS_MAX: usize = 20;

/// Appends events and returns their ids.
async fn append(house: &House, id: &str, events: Value) -> Vec<String> {
    let sent = house.post(&format!("/v1/sessions/{id}/events"), &json!({"events": events})).await;
    assert_eq!(sent.status, 200, "{}", sent.text);
    let data = sent.json()["data"].as_array().unwrap().clone();
    data.iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect()
}

/// Returns the hit at a position.
fn hit_at(found: &Value, position: u64) -> &Value {
    let hits = found["hits"].as_array().unwrap();
    hits.iter().find(|hit| hit["position"] == position).unwrap_or_else(|| panic!("{found}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_hit_shows_the_marks_of_its_event() {
    over_every_engine(async |house| {
        session(house, "one", "w").await;
        let messages = json!([
            {"type": "agent.message", "content": "The heron nests in March"},
            {"type": "agent.message", "content": "The heron nests in May"},
        ]);
        let ids = append(house, "one", messages).await;
        let mark = async |event: &str, body: Value| {
            house.post(&format!("/v1/sessions/one/events/{event}/mark"), &body).await
        };
        let wrong = json!({"mark": "wrong", "note": "it is May"});
        let marked = mark(&ids[0], wrong).await;
        assert_eq!(marked.status, 200, "{}", marked.text);
        assert_eq!(marked.json()["event"], ids[0].as_str());
        mark(&ids[0], json!({"mark": "important", "importance": 3})).await;
        let both = mark(&ids[0], json!({"mark": "important", "importance": 9})).await.json();
        let expected = json!([
            {"mark": "wrong", "position": 2, "origin": "harness", "note": "it is May"},
            {"mark": "important", "position": 4, "origin": "harness", "importance": 9},
        ]);
        assert_eq!(both["marks"], expected);
        let found = search(house, json!({"q": "heron nests"})).await;
        assert_eq!(hit_at(&found, 0)["marks"], expected, "{found}");
        assert_eq!(hit_at(&found, 1).get("marks"), None, "{found}");
        let asked = json!({"query": "heron nests", "around": 0});
        let blocks = house.post("/v1/tools/memory_search", &asked).await.json();
        assert!(blocks.to_string().contains("it is May"), "{blocks}");
        for (event, body, code) in [
            (ids[0].as_str(), json!({"mark": "splendid"}), "invalid_request"),
            (ids[0].as_str(), json!({"mark": "done", "importance": 0}), "invalid_request"),
            (ids[0].as_str(), json!({"mark": "done", "note": "x".repeat(401)}), "invalid_request"),
            ("none", json!({"mark": "done"}), "event_not_found"),
        ] {
            let refused = mark(event, body).await;
            assert_eq!(refused.code(), code, "{}", refused.text);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hit_of_a_rejected_approach_is_marked_as_rejected() {
    over_every_engine(async |house| {
        session(house, "one", "w").await;
        let step = json!([{"type": "research.step", "number": 1,
            "description": "We keep passages in sorted files and merge them",
            "rejected": ["tantivy needs an encrypted directory of its own"]}]);
        append(house, "one", step).await;
        let found = search(house, json!({"q": "tantivy encrypted directory"})).await;
        assert_eq!(hit_at(&found, 0)["stale"], json!({"rejected": true}), "{found}");
        // An approach that was rejected only in part: the step keeps the rest.
        let step = json!([{"type": "research.step", "number": 2,
            "description": "We use sqlite in WAL mode on a local disk",
            "rejected": ["sqlite in WAL mode on a network disk"]}]);
        append(house, "one", step).await;
        let found = search(house, json!({"q": "sqlite WAL mode"})).await;
        assert_eq!(hit_at(&found, 1).get("stale"), None, "{found}");
        for words in ["sorted files merge", "merge tantivy"] {
            let found = search(house, json!({"q": words})).await;
            assert_eq!(hit_at(&found, 0).get("stale"), None, "{words}: {found}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hit_of_a_mended_failure_is_marked_until_it_fails_again() {
    over_every_engine(async |house| {
        session(house, "one", "w").await;
        let run = |id: &str, output: &str, failed: bool| {
            json!([
                {"type": "agent.tool_use", "name": "Bash", "call_id": id,
                    "input": {"command": "cargo build -p ledger"}},
                {"type": "agent.tool_result", "call_id": id, "is_error": failed,
                    "content": [{"type": "text", "text": output}]},
            ])
        };
        append(house, "one", run("c1", "error[E0382]: use of moved value quokka", true)).await;
        let stale = async || {
            let found = search(house, json!({"q": "moved value quokka"})).await;
            hit_at(&found, 1).get("stale").cloned()
        };
        assert_eq!(stale().await, None, "it fails still");
        append(house, "one", run("c2", "Finished in 2 s", false)).await;
        assert_eq!(stale().await, Some(json!({"mended_at": 3})));
        let found = search(house, json!({"q": "Finished"})).await;
        assert_eq!(hit_at(&found, 3).get("stale"), None, "a success is not mended: {found}");
        append(house, "one", run("c3", "error: it is back", true)).await;
        assert_eq!(stale().await, None, "it fails again");
        append(house, "one", run("c4", "Ended after 3 s", false)).await;
        assert_eq!(stale().await, Some(json!({"mended_at": 7})));
        let found = search(house, json!({"q": "Finished"})).await;
        assert_eq!(
            hit_at(&found, 3).get("stale"),
            None,
            "an earlier success is not mended: {found}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hit_names_the_files_that_changed_later() {
    over_every_engine(async |house| {
        session(house, "one", "w").await;
        let events = json!([
            {"type": "agent.message", "content": "The lock is lost in src/ledger.rs, I think"},
            {"type": "agent.tool_use", "name": "Edit", "call_id": "e1",
                "input": {"file_path": "src/ledger.rs", "old_string": "a", "new_string": "b"}},
            {"type": "agent.tool_result", "call_id": "e1",
                "content": [{"type": "text", "text": "The file was updated."}]},
            {"type": "agent.message", "content": "Now src/ledger.rs keeps the lock"},
            {"type": "user.message", "content": "Never lock src/audit.rs, it is theirs"},
            {"type": "agent.tool_use", "name": "Edit", "call_id": "e2",
                "input": {"file_path": "src/audit.rs", "old_string": "a", "new_string": "b"}},
            {"type": "agent.tool_result", "call_id": "e2",
                "content": [{"type": "text", "text": "The file was updated."}]},
        ]);
        append(house, "one", events).await;
        let found = search(house, json!({"q": "lock"})).await;
        let changed = json!({"files_changed": [{"path": "src/ledger.rs", "position": 2}]});
        assert_eq!(hit_at(&found, 0)["stale"], changed, "{found}");
        assert_eq!(hit_at(&found, 3).get("stale"), None, "{found}");
        let found = search(house, json!({"q": "ledger.rs"})).await;
        assert_eq!(hit_at(&found, 1).get("stale"), None, "its own edit: {found}");
        let found = search(house, json!({"q": "audit.rs theirs"})).await;
        assert_eq!(hit_at(&found, 4).get("stale"), None, "what a user asks holds: {found}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hit_in_a_long_session_is_unchecked_until_a_later_search() {
    // Folded facts are the same over every engine.
    for engine in engines::all().into_iter().take(1) {
        let service = Service::new(Arc::clone(&engine.store), engine.clock.clone());
        let plan = Plan { service: Some(service.clone()), ..Plan::default() };
        let house = &House::over(engine.store, engine.clock, plan).await;
        session(house, "one", "w").await;
        let event = json!([{"type": "agent.message", "content": "The heron nests in March"}]);
        let ids = append(house, "one", event).await;
        let path = format!("/v1/sessions/one/events/{}/mark", ids[0]);
        assert_eq!(house.post(&path, &json!({"mark": "wrong"})).await.status, 200);
        for batch in 0..READS_MAX {
            let event = |n: usize| json!({"type": "user.message", "n": batch * 1_000 + n});
            append(house, "one", (0..1_000).map(event).collect()).await;
        }
        let found = search(house, json!({"q": "heron nests"})).await;
        assert_eq!(
            hit_at(&found, 0)["marks"][0]["mark"],
            "wrong",
            "the facts are in memory: {found}"
        );
        service.evict_facts();
        let found = search(house, json!({"q": "heron nests"})).await;
        assert_eq!(hit_at(&found, 0)["unchecked"], true, "{found}");
        assert_eq!(hit_at(&found, 0).get("marks"), None, "{found}");
        let found = search(house, json!({"q": "heron nests"})).await;
        assert_eq!(hit_at(&found, 0).get("unchecked"), None, "{found}");
        assert_eq!(hit_at(&found, 0)["marks"][0]["mark"], "wrong", "{found}");
    }
}
