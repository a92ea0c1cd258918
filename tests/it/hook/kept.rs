//! Texts that hooks give to models are stored whole in the log: users can read them there, searches
//! do not find them and models never receive them again. They may repeat any event of the session
//! and its project, so a redaction or an erasure removes them, too.

use serde_json::{Value, json};

use super::{SESSION, claude, hook, of, quiet};
use crate::program::{McpClient, Place};

const LATER: &str = "0198c5d2-f0a0-7a1b-8c3d-4e5f60718294";

fn start(source: &str) -> Value {
    claude("SessionStart", &json!({ "source": source }))
}

/// Records a session in which the user typed a word, and which ended.
fn record_work(place: &Place, word: &str) {
    quiet(place, &start("startup"));
    let prompt = json!({ "prompt": format!("Count every {word} on the pier") });
    quiet(place, &claude("UserPromptSubmit", &prompt));
    let said = json!({ "last_assistant_message": "There are nine of them today." });
    quiet(place, &claude("Stop", &said));
}

/// Returns the text that the hook of an event gives to the model.
fn text_given(place: &Place, event: &Value) -> String {
    let ran = hook(place, event);
    let answer: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"));
    answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap().to_owned()
}

fn injected(place: &Place, session: &str) -> Vec<Value> {
    let mut events = place.events(session);
    events.retain(|event| event["type"] == "context.injected");
    events
}

#[test]
fn an_injected_text_is_stored_whole_and_shown_to_users_only() {
    let place = Place::new();
    record_work(&place, "cormorant");
    let text = text_given(&place, &start("compact"));
    assert!(text.contains("cormorant"), "{text}");
    let kept = injected(&place, SESSION);
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(kept[0]["text"], text);
    let position = kept[0]["position"].as_u64().unwrap();
    let shown = place.run(&["replay", SESSION, "--from", &position.to_string()]).ok();
    assert!(shown.contains("Given to the model") && shown.contains("cormorant"), "{shown}");
    // Searches do not find it, and no model receives it again.
    let found = place.run(&["search", "cormorant", "--json", "--wait", "60s"]).json();
    let kinds: Vec<&Value> =
        found["hits"].as_array().unwrap().iter().map(|hit| &hit["type"]).collect();
    assert_eq!(kinds, ["user.message"], "{found}");
    let mut model = McpClient::start(&place, &["--toolsets", "all"]);
    let from = position.to_string();
    for (tool, asked) in [
        ("get_events", json!({ "sessionId": SESSION, "from": from })),
        ("get_events", json!({ "sessionId": SESSION, "types": ["context.injected"] })),
        (
            "memory_page",
            json!({ "direction": "in", "sessionId": SESSION,
            "ranges": [{ "from": position, "to": position + 1 }] }),
        ),
    ] {
        let params = json!({ "name": tool, "arguments": asked });
        let answer = model.ask("tools/call", &params);
        assert!(!answer.to_string().contains("cormorant"), "{tool}: {answer}");
    }
    let window = place.run(&["view", SESSION, "window", "--format", "events", "--json"]);
    let window = window.out;
    assert_eq!(window.matches("cormorant").count(), 1, "its own event alone: {window}");
}

#[test]
fn a_redaction_redacts_texts_injected_later_in_the_project() {
    let place = Place::new();
    record_work(&place, "razorbill");
    quiet(&place, &claude("PreCompact", &json!({ "trigger": "manual" })));
    assert!(text_given(&place, &start("compact")).contains("razorbill"));
    quiet(&place, &claude("SessionEnd", &json!({ "reason": "other" })));
    let told = text_given(&place, &of(LATER, start("startup")));
    assert!(told.contains("razorbill"), "{told}");
    let events = place.events(SESSION);
    let said = events.iter().find(|event| event["type"] == "user.message").unwrap();
    let redacted = place.run(&["redact", SESSION, said["id"].as_str().unwrap(), "--yes", "--json"]);
    let copies = redacted.json()["copies"].clone();
    assert!(copies.to_string().contains(LATER), "it names the other session: {copies}");
    for session in [SESSION, LATER] {
        let left = place.run(&["events", session]).ok();
        assert!(!left.contains("razorbill"), "{session}: {left}");
        assert_eq!(injected(&place, session).len(), 1, "its place stays");
    }
    // A context that has it does not receive it twice.
    quiet(&place, &start("resume"));
}

#[test]
fn an_erasure_redacts_texts_of_the_session_injected_elsewhere() {
    let place = Place::new();
    record_work(&place, "guillemot");
    quiet(&place, &claude("SessionEnd", &json!({ "reason": "other" })));
    let told = text_given(&place, &of(LATER, start("startup")));
    assert!(told.contains("guillemot"), "{told}");
    place.run(&["erase", SESSION, "--yes"]).ok();
    let left = place.run(&["events", LATER]).ok();
    assert!(!left.contains("guillemot"), "{left}");
    assert_eq!(injected(&place, LATER).len(), 1, "its place stays");
}
