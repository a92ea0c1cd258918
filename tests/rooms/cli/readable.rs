//! Readable views of JSON results, as snapshots.

use insta::assert_snapshot;
use serde_json::{Value, json};
use sessionlog::{cli::format_answer, event::Timestamp};

/// Renders a result on 60 columns, at noon.
fn shown(name: &str, answer: &Value) -> String {
    let now = Timestamp::parse("2026-11-23T12:00:00Z").unwrap();
    let text = format_answer(name, "trip", answer, 60, now).unwrap();
    assert!(
        text.lines().all(|line| line.chars().count() <= 60 || line.contains("sessionlog ")),
        "{text}"
    );
    text
}

#[test]
fn an_index_is_printed_in_order_without_empty_sections() {
    let index = json!({
        "position": 63, "goal": "why do hares sleep with open eyes", "steps_total": 12,
        "is_complete": false, "started_at": "2026-11-23T10:00:00.123456Z",
        "updated_at": "2026-11-23T11:58:30Z", "truncated": true,
        "summary": "Two theories are left.",
        "steps": [
            {"number": 2, "line": "asked the library", "confidence": "low", "superseded_by": 12},
            {"number": 12, "branch_id": "field", "confidence": "high",
             "line": "watched three hares for a night and counted how often they blinked"},
        ],
        "last_steps": [{
            "number": 12, "description": "watched three hares\nfor a night", "reasoning": "to see",
            "confidence": "high", "rejected": ["cameras"], "branch_id": "field", "branch_from": 2,
            "is_final": true, "position": 57, "at": "2026-11-23T11:00:00Z", "truncated": false,
        }],
        "gaps": [{"id": "g1", "description": "do they dream", "step": 12}],
        "sources": [{"url": "https://a.org", "title": "Hares", "kind": "web", "step": 2}],
        "rejected": ["they do not sleep"],
        "recent": [{"position": 62, "type": "user.message", "text": "go on", "at": "x"}],
        "files": [], "next": [],
        "left_out": {"sources": 12, "gaps": 1}, "cursors": {"sources": "c9"},
        "surprise": {"a_b": 1}, "odd": [{"x": 1, "y": "z"}],
    });
    assert_snapshot!(shown("index", &index));
}

#[test]
fn a_continuation_has_the_plan_as_boxes_and_results_with_their_calls() {
    let view = json!({
        "position": 1234, "tokens": 1590, "tokens_max": 2000, "truncated": false,
        "task": {"text": "book a flight", "position": 0, "truncated": true},
        "goal": "book a flight",
        "instructions": [
            {"text": "not on a Friday", "position": 4},
            {"text": "and cheap", "position": 1200, "truncated": true},
        ],
        "plan": {
            "steps": [
                {"text": "look", "state": "completed"}, {"text": "choose", "state": "in_progress"},
                {"text": "pay", "state": ""}, {"text": "fly", "state": "cancelled"},
            ],
            "current": "choose", "done": 3, "total": 6,
        },
        "next": ["call the airline"], "failures": ["[40] cargo test"], "files": ["src/a.rs (3 times)"],
        "changes": ["[41-44] booked HAT123"], "findings": ["[12] the 7 o'clock flight is full"],
        "steps": [{"number": 3, "description": "looked", "reasoning": "must", "rejected": ["bus"]}],
        "rejected": [], "gaps": ["which seat"], "sources": ["https://b.org"], "done": ["looked"],
        "tried": ["train"], "failed": ["train"], "summary": "",
        "results": [
            {"position": 60, "tool": "find", "input": "{\"to\":\"GNE\"}", "text": "two flights",
             "failed": false},
            {"position": 61, "tool": "", "input": "", "text": "boom", "failed": true},
        ],
        "why": [{"class": "finding", "position": 12, "form": "line", "score": 43210,
                 "why": "rare words"}],
    });
    assert_snapshot!(shown("continuation", &view));
}

#[test]
fn a_truncated_step_is_printed_with_the_command_for_the_rest() {
    let step = json!({"step": {
        "number": 7, "description": "long", "rejected": [], "branch_id": "b", "position": 3,
        "at": "2026-11-23T11:59:59Z", "truncated": true, "is_final": false,
    }, "next_cursor": "abc"});
    assert_snapshot!(shown("step", &step));
}

#[test]
fn a_window_of_events_and_of_messages_is_read_as_a_conversation() {
    let size = json!({
        "position": 9, "tokens": 800, "tokens_max": 4000, "tokenizer": "claude",
        "dropped": [{"from": 0, "to": 3, "reason": "budget"}, {"from": 4, "to": 5, "reason": "filtered"}],
        "shortened": [5, 7],
    });
    let of = |member: &str, value: Value| {
        let mut view = size.clone();
        view[member] = value;
        shown("window", &view)
    };
    let events = of(
        "events",
        json!([
            {"type": "user.message", "position": 5, "content": "hello", "raw": {"role": "user"}},
            {"type": "agent.tool_use", "position": 6, "name": "f", "input": {"a": [1, 2]}, "call_id": "c"},
        ]),
    );
    assert_snapshot!("window_of_events", events);
    let messages = of(
        "messages",
        json!([
            {"role": "user", "content": [{"type": "text", "text": "hello"}]},
            {"role": "assistant", "content": [
                {"type": "text", "text": "I look"},
                {"type": "tool_use", "id": "c", "name": "f", "input": {"path": "a\tb", "deep": {"x": [true]}}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c", "is_error": true,
                 "content": [{"type": "text", "text": "not there"}]},
            ]},
        ]),
    );
    assert_snapshot!("window_of_messages", messages);
    let chat = of(
        "messages",
        json!([
            {"role": "system", "content": "be kind"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}},
            ]},
            {"role": "tool", "tool_call_id": "c", "content": "done"},
        ]),
    );
    assert_snapshot!("window_of_a_chat", chat);
}

#[test]
fn usage_is_printed_in_figures_and_compactions_in_ranges() {
    let usage = json!({
        "position": 63, "tokens": 24000, "reported_position": 60,
        "reported_at": "2026-11-23T11:30:00Z", "limit": 200000, "threshold": 150000, "margin": 100,
        "remaining": 175900, "level": "none", "requests": 12, "input_tokens": 240000,
        "cached_tokens": 1000, "output_tokens": 999,
    });
    assert_snapshot!("usage", shown("usage", &usage));
    let none = json!({"tokens": null, "limit": 200000, "threshold": 150000, "level": "none",
        "requests": 0});
    assert_snapshot!("usage_of_none", shown("usage", &none));
    let compactions = json!({
        "position": 80, "count": 3, "compactions": [
            {"position": 64, "at": "2026-11-20T08:00:00Z", "trigger": "auto", "is_reported": false,
             "kept": [{"from": 0, "to": 10}], "dropped": [{"from": 10, "to": 64}],
             "summary": "much was said"},
        ],
        "lost": [{"from": 10, "to": 64}, {"from": 70, "to": 71}], "lost_events": 55,
    });
    assert_snapshot!("compactions", shown("compactions", &compactions));
    assert_eq!(shown("compactions", &json!({"count": 0})), "No compaction was recorded");
}

#[test]
fn a_difference_is_printed_in_sentences() {
    let found = json!({
        "from": 10, "to": 64,
        "events": {"count": 54, "bytes": 2048, "types": {"agent.message": 50, "user.message": 3},
                   "others": 1},
        "facts": {
            "goal": {"from": "old", "to": "new"}, "summary": {"from": null, "to": "stands"},
            "complete": true,
            "steps": {"data": [{"step": 3, "branch": "b", "line": "looked"}], "total": 4},
            "superseded": {"data": [{"step": 1, "line": "x", "superseded_by": 3}], "total": 1},
            "gaps_opened": {"data": [{"id": "g", "description": "why"}], "total": 1},
            "gaps_closed": {"data": [{"id": "h", "description": ""}], "total": 1},
            "sources": {"data": [{"url": "https://a.org", "title": "A", "step": 3}], "total": 1},
            "rejected": {"data": [{"text": "bus", "step": 3}], "total": 3},
        },
        "window": {
            "tokens_max": 4000, "from": {"events": 10, "tokens": 900},
            "to": {"events": 1, "tokens": 1},
            "entered": {"data": [{"from": 60, "to": 64}], "events": 4},
            "left": {"data": [{"from": 0, "to": 9}], "events": 9},
            "shortened": {"data": [], "events": 0},
        },
    });
    assert_snapshot!(shown("diff", &found));
    let nothing = json!({"from": 3, "to": 3, "events": {"count": 0}});
    let said = shown("diff", &nothing);
    assert_eq!(said, "There are no events between 3 and 3.");
}

#[test]
fn a_history_is_printed_with_unfinished_sessions_and_the_session_to_start_from() {
    let told = json!({
        "data": [
            {"id": "trip", "title": "A trip", "tail": 14, "updated_at": "2026-11-23T11:00:00Z",
             "goal": "see Ghent", "summary": "Half of it is seen.", "steps": 5, "gaps_open": 1,
             "complete": false},
            {"id": "old", "title": null, "tail": 1, "updated_at": "2026-11-01T11:00:00Z",
             "goal": "", "summary": "", "steps": 0, "gaps_open": 0, "complete": false},
        ],
        "unfinished": [{"id": "trip", "tail": 14, "updated_at": "2026-11-23T11:00:00Z",
            "last_checkpoint": {"position": 10}, "leased": true}],
        "start_from": {"session": "trip", "checkpoint": {
            "position": 10, "label": "tests pass", "created_at": "2026-11-23T11:00:00Z",
            "state": {"next": "go on", "seen": ["a", "b"]},
            "plan": {"steps": [{"text": "look", "state": "done"}, "paint"]}}},
    });
    assert_snapshot!(shown("history", &told));
    assert_eq!(shown("history", &json!({"data": []})), "No sessions yet.");
}

#[test]
fn a_forked_session_is_printed_with_its_parent_and_its_damaged_ranges() {
    let told = json!({
        "id": "trip", "title": "bad \u{202e}title\u{9b}2J", "status": "idle", "tail": 12345,
        "bytes": 32, "workspace": null, "created_at": "2026-11-23T11:00:00.5Z",
        "updated_at": "2026-11-01T11:00:00Z", "forked_from": {"session": "root", "position": 3},
        "metadata": {"client": "codex"},
        "damage": [{"from": 3, "to": 5, "reason": "checksum"},
                   {"from": 9, "to": 10, "reason": "lost", "accepted_at": "2026-11-23T11:00:00Z"}],
    });
    assert_snapshot!(shown("session", &told));
}

#[test]
fn an_answer_of_unknown_name_is_not_formatted() {
    assert_eq!(format_answer("nothing", "trip", &json!({}), 60, Timestamp(0)), None);
}

#[test]
fn a_line_of_json_that_a_view_made_is_printed_in_words() {
    for (kind, line, expected) in [
        ("agent.tool_use", r#"look {"where": "here", "n": 2}"#, "look  where: here, n: 2"),
        ("x.own", r#"{"a":{"b":1}}"#, "a: b: 1"),
        (
            "span.model_request_end",
            r#"{"model_usage":{"input_tokens":9}}"#,
            "Model request: 9 tokens in",
        ),
        ("agent.tool_use", r#"look {"where": "he…"#, r#"look {"where": "he…"#),
        ("user.message", "say {what}", "say {what}"),
    ] {
        let text = shown("index", &json!({ "recent": [{ "type": kind, "text": line }] }));
        assert_eq!(text, format!("\n\nRecent\n  - {kind}  {expected}"), "{line}");
    }
}
