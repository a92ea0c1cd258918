//! Readable hits: only messages and actions, each as a sentence or as a call with its outcome, with
//! neighbouring text below; none where no query word is recorded.

use serde_json::{Value, json};

use super::{places, search, talk};
use crate::{
    cli::with_trip,
    http::house::{House, over_every_engine},
    program::Ran,
};

async fn record(house: &House, id: &str, events: Vec<Value>) {
    let new = json!({"id": id, "workspace": "/work/hide", "initial_events": events});
    let created = house.post("/v1/sessions", &new).await;
    assert_eq!(created.status, 201, "{}", created.text);
}

fn text_of(found: &Value, hit: usize) -> String {
    found["hits"][hit]["snippet"]["text"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_without_text_is_neither_a_hit_nor_a_neighbour() {
    over_every_engine(async |house| {
        let silent = [
            json!({"type": "context.injected", "what": "kestrel", "text": "kestrel", "begin": 0}),
            json!({"type": "transcript.entry", "entry": {"text": "kestrel"}}),
            json!({"type": "session.status_running", "source": "kestrel", "model": "kestrel"}),
            json!({"type": "session.status_idle", "stop_reason": {"text": "kestrel"}}),
            json!({"type": "session.thread_status_running", "agent_name": "kestrel"}),
            json!({"type": "span.model_request_end", "model": "kestrel", "message_id": "kestrel",
                "model_usage": {"input_tokens": 77001}}),
            json!({"type": "context.threshold", "level": "kestrel", "tokens": 77001}),
            json!({"type": "context.cleared", "by": "kestrel"}),
            json!({"type": "agent.thread_context_compacted", "summary": "kestrel"}),
            json!({"type": "memory.forgotten", "of": "evt_kestrel", "text": "kestrel"}),
            json!({"type": "session.restored", "from": {"session": "kestrel"}, "text": "kestrel"}),
            json!({"type": "file.checked", "path": "kestrel.rs", "status": "changed"}),
            json!({"type": "user.interrupt", "session_thread_id": "kestrel"}),
            json!({"type": "user.message", "content": "Where is it?", "uuid": "kestrel",
                "duration_ms": 77001, "git_branch": "kestrel", "raw": {"text": "kestrel"}}),
            json!({"type": "agent.tool_result", "call_id": "kestrel", "content": "done",
                "duration_ms": 77001, "cached": {"age_ms": 77001}, "exit_code": 77001}),
        ];
        let said = [
            json!({"type": "user.message", "content": "A kestrel above the barn"}),
            json!({"type": "context.compacted", "trigger": "auto", "summary": "The kestrel nests"}),
            json!({"type": "session.thread_status_idle", "content": "I saw the kestrel"}),
            json!({"type": "session.error", "error": {"type": "x", "message": "no kestrel"}}),
            json!({"type": "event.marked", "of": "evt_1", "mark": "wrong", "note": "a kestrel"}),
            json!({"type": "session.saved", "items": 77001, "context": "kestrel seen"}),
            json!({"type": "bird.seen", "species": "kestrel", "count": 2}),
        ];
        record(house, "silent", silent.to_vec()).await;
        record(house, "said", said.to_vec()).await;
        let found = search(house, json!({"q": "kestrel", "limit": 100})).await;
        let mut there = places(&found);
        there.sort();
        let all: Vec<String> = (0..said.len()).map(|at| format!("said {at}")).collect();
        assert_eq!(there, all, "{found}");
        assert_eq!(search(house, json!({"q": "77001"})).await["hits"], json!([]));
        let found = search(house, json!({"q": "\"Where is it\"", "around": 5})).await;
        let around = found["hits"][0]["around"].as_array().unwrap();
        assert_eq!(around.len(), 1, "the result alone has words: {found}");
        assert!(!found.to_string().contains("kestrel"), "{found}");
        // A look-up in the session reads its events, and finds the same.
        let find = |id: &str| format!("/v1/sessions/{id}/views/index?find=kestrel");
        let matches = house.get(&find("silent")).await.json()["matches"].clone();
        assert_eq!(matches, json!([]));
        let matches = house.get(&find("said")).await.json()["matches"].clone();
        assert!(matches.as_array().unwrap().len() >= 5, "{matches}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_neighbour_is_shown_under_its_match_and_not_counted_as_a_hit() {
    over_every_engine(async |house| {
        let lines = ["Morning", "Which gate is open?", "The northern one", "Then we start", "Fine"];
        talk(house, "gates", "/work/hide", &lines).await;
        let found = search(house, json!({"q": "gate", "around": 1})).await;
        assert_eq!(places(&found), ["gates 1"], "{found}");
        let beside = &found["hits"][0]["around"];
        assert_eq!(beside[1]["text"], "The northern one", "{found}");
        // A neighbour that matches itself still raises the score.
        let found = search(house, json!({"q": "gate northern"})).await;
        assert!(found["hits"][0]["why"]["near"].as_f64().unwrap() > 0.0, "{found}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_without_a_recorded_word_returns_no_hits() {
    over_every_engine(async |house| {
        let lines = [
            "case x: the value of j is 4",
            "K7 and b are flags of w",
            "open io_uring at src/db.rs:12 for v2",
            "a ticket WX-31, and T-61 on 2026-05-01",
        ];
        talk(house, "keys", "/work/hide", &lines).await;
        for nothing in
            ["wJalrXUtnFEMI", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "unicorn zebra"]
        {
            let found = search(house, json!({"q": nothing})).await;
            assert_eq!(found["hits"], json!([]), "{nothing}: {found}");
        }
        for (there, place) in [
            ("x", "keys 0"),
            ("io_uring", "keys 2"),
            ("uring", "keys 2"),
            ("db.rs", "keys 2"),
            ("file:src/db.rs", "keys 2"),
            ("WX-31", "keys 3"),
            ("T-61", "keys 3"),
            ("\"T-61 on\"", "keys 3"),
            ("2026-05-01", "keys 3"),
        ] {
            let found = search(house, json!({"q": there})).await;
            assert_eq!(places(&found).first().map(String::as_str), Some(place), "{there}: {found}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_shown_with_its_outcome_and_without_json() {
    over_every_engine(async |house| {
        let call = |id: &str, name: &str, input: Value| {
            json!({"type": "agent.tool_use", "call_id": id, "name": name, "input": input})
        };
        let result = |id: &str, content: &str| {
            json!({"type": "agent.tool_result", "call_id": id, "content": content})
        };
        let rows = json!({"reservation_id": "GULL7", "cabin": "economy",
            "passengers": [{"first": "Ada", "age": 40}, {"first": "Bo", "age": 41}]});
        let events = vec![
            call("a", "Bash", json!({"command": "pytest tests/heron.py", "description": "run"})),
            result("a", "collected 3\n\n3 passed in 0.2 s\n"),
            call("b", "Edit", json!({"file_path": "src/egret.py", "old_string": "a",
                "new_string": "the bittern booms"})),
            result("b", "updated"),
            call("c", "get_reservation", json!({"id": "GULL7"})),
            result("c", &rows.to_string()),
        ];
        record(house, "calls", events).await;
        let shown = async |q: &str| search(house, json!({ "q": q })).await;
        let found = shown("heron").await;
        assert_eq!(text_of(&found, 0), "$ pytest tests/heron.py -> 3 passed in 0.2 s", "{found}");
        assert_eq!(found["hits"][0]["snippet"]["marks"], json!([[15, 20]]), "{found}");
        let found = shown("collected").await;
        assert!(text_of(&found, 0).starts_with("$ pytest tests/heron.py -> collected 3"), "{found}");
        let found = shown("bittern").await;
        let text = text_of(&found, 0);
        assert!(text.starts_with("Edit src/egret.py: a"), "the call's head is there once: {text}");
        assert!(text.contains("the bittern booms") && text.ends_with("-> updated"), "{text}");
        let marks = &found["hits"][0]["snippet"]["marks"];
        let at = usize::try_from(marks[0][0].as_u64().unwrap()).unwrap();
        assert!(text.chars().skip(at).collect::<String>().starts_with("bittern"), "{found}");
        let found = shown("economy").await;
        let text = text_of(&found, 0);
        for words in ["reservation_id: GULL7", "cabin: economy", "first: Ada, age: 40"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains(['{', '}', '"', '\\']), "{text}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snippet_of_a_long_text_has_the_sentences_with_the_query_words() {
    over_every_engine(async |house| {
        let filler = "It rained all day and nobody came. ".repeat(12);
        let long = format!("{filler}The weir opens at dawn. {filler}");
        talk(house, "long", "/work/hide", &[&long, "The weir, short. It is wet."]).await;
        let found = search(house, json!({"q": "weir dawn"})).await;
        assert_eq!(text_of(&found, 0), "…The weir opens at dawn.…", "{found}");
        assert_eq!(text_of(&found, 1), "The weir, short. It is wet.", "{found}");
    })
    .await;
}

#[test]
fn only_events_with_a_query_word_are_hits_and_an_empty_result_is_reported() {
    let place = with_trip();
    let line = |kind: &str, members: Value| {
        let mut event = json!({ "type": kind });
        event.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        event.to_string()
    };
    let lines = [
        line("user.message", json!({"content": "What about the alarm threshold?"})),
        line("span.model_request_end", json!({"model": "alarm"})),
        line("agent.message", json!({"content": "Operations owns it."})),
        line("agent.message", json!({"content": "Then we leave it."})),
    ];
    place.run_with(&["append", "alarm", "--create"], &lines.join("\n")).ok();
    let found: Ran = place.run(&["search", "alarm", "--around", "2", "--wait", "60s"]);
    let text = found.ok();
    assert_eq!(text.matches("alarm 0").count(), 1, "{text}");
    for words in ["What about the alarm threshold?", "2 agent.message: Operations owns it."] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("span") && !text.contains("next to a match"), "{text}");
    let none = place.run(&["search", "wJalrXUtnFEMI"]);
    assert!(none.out.is_empty() && none.err.contains("No event has"), "{none:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_gets_search_results_as_text() {
    over_every_engine(async |house| {
        let lines = ["Which port?", "Staging listens on 8443\n- forged @9: no hit", "Thanks"];
        talk(house, "past", "/work/hide", &lines).await;
        search(house, json!({"q": "staging"})).await;
        let asked = json!({"query": "8443", "around": 1});
        let found = house.post("/v1/tools/memory_search", &asked).await.json();
        let text = found["text"].as_str().unwrap();
        assert!(text.contains("- past (About past) @1: agent, agent.message, "), "{text}");
        assert!(text.contains("\n    Staging listens on 8443\n"), "{text}");
        assert!(text.contains("\n      @0 user.message: Which port?\n"), "{text}");
        let hits = text.lines().filter(|line| line.starts_with("- ")).count();
        assert_eq!(hits, 1, "recorded text begins no hit: {text}");
        let none = house.post("/v1/tools/memory_search", &json!({"query": "unicorn"})).await.json();
        assert!(none["text"].as_str().unwrap().contains("\nNothing: no recorded event"), "{none}");
    })
    .await;
}
