//! Rows of events whose texts are hostile, or whose numbers no parser holds.

use serde_json::{Value, json};

use super::rows::{emit, events_of, page, rows_of};
use crate::http::house::House;

#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_hostile_text_is_one_short_line_without_control_characters() {
    let house = House::plain().await;
    let texts = [
        "\u{1b}[2J\u{1b}]0;title\u{7}",
        "<script>alert(1)</script>\r\n<img src=x onerror=alert(1)>",
        "\u{0}\u{8}\u{7f}\u{9b}31m",
        &"\u{202e}e\u{301}".repeat(300),
        &"👨‍👩‍👧".repeat(200),
        "\\ud800 \" ' ` ${x} {{x}}",
        &"\n".repeat(5_000),
        "../../etc/passwd\u{2028}x",
    ];
    let members = |text: &str| {
        json!({"content": text, "name": text, "input": {"command": text, "file_path": text},
            "text": text, "what": text, "goal": text, "description": text, "summary": text,
            "error": {"message": text}, "steps": [text], "url": text, "title": text,
            "session_thread_id": text, "call_id": "c", "topic": text, "level": text})
    };
    let kinds = [
        "user.message",
        "agent.message",
        "agent.thinking",
        "agent.tool_use",
        "agent.tool_result",
        "context.injected",
        "context.compacted",
        "session.error",
        "plan.updated",
        "research.goal",
        "research.step",
        "source.found",
        "memory.item",
        "context.threshold",
        "acme.note",
    ];
    let events: Vec<Value> = texts
        .iter()
        .flat_map(|text| kinds.iter().map(move |kind| (kind, text)))
        .map(|(kind, text)| {
            let mut event = members(text);
            event["type"] = json!(kind);
            event
        })
        .collect();
    emit(&house, "s", &events).await;
    let rows = rows_of(&house, "s", "", 500).await;
    assert_eq!(rows.len(), events_of(&house, "s").await.len());
    for row in &rows {
        for name in ["line", "tool", "thread", "path", "outcome", "call_id"] {
            let text = row[name].as_str().unwrap_or_default();
            assert!(text.chars().count() <= 300, "{name} {row}");
            assert!(!text.contains(char::is_control), "{name} {row}");
        }
        assert!(row["line"].as_str().unwrap().chars().count() <= 160, "{row}");
    }
    let strip = house.get("/v1/sessions/s/views/strip").await;
    assert_eq!(strip.status, 200, "{}", strip.text);
    for mark in strip.json()["marks"].as_array().unwrap() {
        let label = mark["label"].as_str().unwrap();
        assert!(label.chars().count() <= 80 && !label.contains(char::is_control), "{label:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_no_parser_holds_hides_no_other_text_of_its_event() {
    let house = House::plain().await;
    let text = r#"{"events": [
        {"type": "user.message", "content": "the question", "raw": {"n": 1e999}, "n": 1e999},
        {"type": "agent.tool_use", "call_id": "c", "name": "look", "input": {"n": 1e999}},
        {"type": "agent.tool_result", "call_id": "c", "content": "the answer", "m": -1e999}]}"#;
    let reply = house.post_text("/v1/sessions/s/events?create=true", text).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let rows = page(&house, "s", "").await;
    let lines: Vec<&str> =
        rows["rows"].as_array().unwrap().iter().map(|row| row["line"].as_str().unwrap()).collect();
    assert_eq!((lines[0], lines[2]), ("the question", "the answer"), "{rows}");
    assert!(lines[1].starts_with("look"), "{rows}");
    assert_eq!(page(&house, "s", "q=QUESTION").await["rows"].as_array().unwrap().len(), 1);
}
