//! Output about a session on the command line: headings and facts instead of JSON, no control
//! character, and a message where nothing can be shown. A picture is named.

use serde_json::{Value, json};

use super::rows::{emit, rows_of};
use crate::{http::house::House, program::Place};

/// Text of which every part acts on a terminal.
const HOSTILE: &str = "ha\u{1b}[2Jre\u{9b}31m \u{202e}olleh\u{2066}\u{61c}\u{feff}\u{7f}";

fn create_session(place: &Place) {
    let line = |event: Value| format!("{event}\n");
    let events: String = [
        json!({"type": "user.message", "content": format!("mend the lock, {HOSTILE}")}),
        json!({"type": "plan.updated", "steps": [
            {"text": "look", "state": "done"}, {"text": HOSTILE, "state": "in_progress"}, "paint",
        ]}),
        json!({"type": "agent.tool_use", "name": "look", "call_id": "c",
               "input": {"where": HOSTILE, "deep": {"list": [1, 2]}}}),
        json!({"type": "agent.tool_result", "call_id": "c", "content": HOSTILE}),
        json!({"type": "research.goal", "goal": HOSTILE}),
        json!({"type": "research.step", "number": 1, "description": format!("looked {HOSTILE}"),
               "confidence": "high", "rejected": [HOSTILE]}),
        json!({"type": "source.found", "url": "https://a.org", "title": HOSTILE}),
        json!({"type": "outcome.recorded", "next": [HOSTILE], "failed": ["glue"]}),
        json!({"type": "x.own", HOSTILE: {"a": HOSTILE}}),
        json!({"type": "context.compacted", "dropped": [[1, 3]], "trigger": HOSTILE}),
        json!({"type": "span.model_request_end", "model_usage": {"input_tokens": 90}}),
    ]
    .map(line)
    .concat();
    place.run_with(&["append", "--create", "s"], &events).ok();
    let forked = ["fork", "s", "--at", "end", "--id", "f", "--title", HOSTILE];
    place.run(&forked).ok();
    place.run(&["checkpoints", "s", "--create", "--label", HOSTILE]).ok();
}

fn steers(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\t')
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[test]
fn every_verb_prints_facts_without_json_or_control_characters() {
    let place = Place::new();
    create_session(&place);
    for (arguments, expected) in [
        (
            &["view", "s", "index"][..],
            &["# Where the work stands (session s, ", "**Goal.** ha", "[1] looked"][..],
        ),
        (&["view", "s", "summary"], &["Goal"]),
        (&["view", "s", "step", "--step", "1"], &["Step 1 (high confidence", "Ruled out: ha"]),
        (
            &["view", "s", "continuation"],
            &["**Task.** mend", "Plan, 1 of 3 done:", "- [x] look", "- [ ] ha", "- [ ] paint"],
        ),
        (&["view", "s", "window"], &["[0] user.message", "mend the lock", "look\n    where: ha"]),
        (&["view", "s", "window", "--format", "openai"], &["User", "→ look"]),
        (&["view", "s", "usage"], &["90 of 200 000 tokens (0 %)"]),
        (&["view", "s", "compactions"], &["1 compaction", "Dropped 1–2 (2 events)"]),
        (&["rewind", "f", "--to", "6"], &["f as of position 6", "Steps"]),
        (&["show", "f"], &["title", "└ at 11: f (this one)", "Plan"]),
        (&["history"], &["Sessions", "f (11 events", "Start from", "[x] look"]),
        (&["diff", "s", "0", "end"], &["Positions 0–10: 11 events", "Step 1 was recorded: looked"]),
        (&["replay", "s"], &["user.message", "[>] ha", "Source: ha", "look\n          where"]),
    ] {
        let text = place.run(arguments).ok();
        for words in expected {
            assert!(text.contains(words), "{words}, {arguments:?}: {text}");
        }
        assert!(!text.contains(steers), "{arguments:?}: {text:?}");
        let recorded = text.contains("\\u202e") || text.contains('\u{fffd}');
        let recorded = recorded || arguments.contains(&"usage");
        assert!(recorded, "{arguments:?}: {text}");
        for json in ["{\"", "\":", "[{", "null"] {
            assert!(!text.contains(json), "{json}, {arguments:?}: {text}");
        }
    }
}

#[test]
fn a_range_without_events_and_a_point_past_the_end_are_reported() {
    let place = Place::new();
    create_session(&place);
    for (arguments, told) in [
        (&["--from", "3", "--to", "2"][..], "the range is empty: it begins at 3 and ends before 2"),
        (&["--from", "3", "--to", "3"], "it begins at 3 and ends before 3"),
        (&["--from", "end"], "the range is empty: no event from end to the end"),
        (&["--types", "x.none"], "no event of type x.none"),
    ] {
        let ran = place.run(&[&["events", "s"], arguments].concat());
        assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{arguments:?}: {ran:?}");
        assert!(ran.err.contains(told), "{arguments:?}: {ran:?}");
    }
    let typo = place.run(&["events", "s", "--types", "user.messag", "--json"]);
    assert!(typo.err.contains("its last events are of these types: "), "{typo:?}");
    assert!(typo.err.contains("user.message"), "{typo:?}");
    for arguments in [&["events", "s"][..], &["events", "s", "--json"]] {
        assert_eq!(place.run(arguments).err, "", "{arguments:?}");
    }
    let rewound = place.run(&["rewind", "s", "--to", "9999"]);
    assert_eq!(rewound.code, 4, "{rewound:?}");
    assert!(rewound.err.contains("position 9999 is out of range (tail is 11)"), "{rewound:?}");
    let json = place.run(&["rewind", "s", "--to", "12", "--json"]);
    assert_eq!(json.refused(4), "point_not_found");
    place.run(&["rewind", "s", "--to", "11"]).ok();
}

#[test]
fn a_range_between_times_is_listed_and_an_invalid_time_is_rejected() {
    let place = Place::new();
    create_session(&place);
    for verb in ["events", "replay"] {
        let wrong = place.run(&[verb, "s", "--since", "soon"]);
        assert_eq!(wrong.code, 2, "{wrong:?}");
        assert!(wrong.err.contains("\"soon\" is not an instant"), "{wrong:?}");
        let both = place.run(&[verb, "s", "--since", "1h", "--from", "0"]);
        assert_eq!(both.code, 2, "{both:?}");
        let replayed = place.run(&["replay", "s", "--lines", "--since", "2100-01-01"]);
        assert!(replayed.out.is_empty(), "{replayed:?}");
    }
}

/// Returns events of agents and their users, and the lines that show them.
fn of_agents() -> Vec<(Value, &'static str)> {
    vec![
        (json!({"type": "user.message", "content": "hi"}), "hi"),
        (
            json!({"type": "agent.message", "content": [
                {"type": "text", "text": "a"}, {"type": "image", "source": {}}, {"x": 1},
            ]}),
            "a\n[image]\nx: 1",
        ),
        (
            json!({"type": "agent.tool_use", "name": "f", "input": {"a": 1, "b": "c"}}),
            "f  a: 1, b: c",
        ),
        (
            json!({"type": "agent.tool_use", "name": "write", "input": {"path": "p", "text": "x\ny"}}),
            "write\n  path: p\n  text: x\n      y",
        ),
        (json!({"type": "agent.tool_use", "name": "f", "input": {}}), "f"),
        (
            json!({"type": "agent.tool_result", "content": "no", "is_error": true, "call_id": "c"}),
            "Error: no",
        ),
        (json!({"type": "agent.tool_result", "content": []}), "(no output)"),
        (
            json!({"type": "agent.tool_result", "call_id": "c", "content": [
                {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="},
            ]}),
            "[image]",
        ),
        (
            json!({"type": "research.step", "number": 3, "description": "looked", "reasoning": "r",
                   "confidence": "high", "rejected": ["x"], "revises": 2, "final": true}),
            "Step 3 (high confidence, revises 2, the last)\nlooked\nWhy: r\nRuled out: x",
        ),
        (json!({"type": "research.goal", "goal": "g"}), "Goal: g"),
        (
            json!({"type": "research.gap_opened", "gap_id": "g", "description": "d"}),
            "Open question: d",
        ),
        (json!({"type": "research.gap_closed", "gap_id": "g"}), "Question answered: g"),
        (
            json!({"type": "source.found", "url": "u", "title": "t", "kind": "web", "step": 2}),
            "Source: t — u (web, step 2)",
        ),
        (
            json!({"type": "plan.updated", "steps": [{"text": "a", "state": "done"}, "b"], "current": "b"}),
            "[x] a\n[>] b",
        ),
        (json!({"type": "outcome.recorded", "tried": ["a"], "next": ["b"]}), "Tried: a\nNext: b"),
        (
            json!({"type": "memory.item", "topic": "t", "text": "x", "positions": {"from": 1, "to": 4}}),
            "t: x\nStands for 1–3",
        ),
        (
            json!({"type": "context.compacted", "trigger": "auto", "dropped": [[1, 3]], "kept": [4, 5]}),
            "The context was compacted (auto)\nLeft the context: 1–2 (2 events)\nKept: 4 (1 event)",
        ),
    ]
}

/// Returns events of harnesses and of unknown types, and the lines that show them.
fn of_harnesses() -> Vec<(Value, &'static str)> {
    vec![
        (
            json!({"type": "context.threshold", "tokens": 150000, "limit": 200000, "level": "threshold"}),
            "Context at its threshold: 150 000 of 200 000 tokens (75 %)",
        ),
        (
            json!({"type": "span.model_request_end", "model_usage": {"input_tokens": 9000},
                   "took_ms": 1200}),
            "Model request: 9 000 tokens in, took 1.2 s",
        ),
        (
            json!({"type": "session.status_running", "source": "startup", "model": null}),
            "Running (startup)",
        ),
        (
            json!({"type": "session.status_running", "model": "m", "process": ["8a75", "3a62"]}),
            "Running (model m)",
        ),
        (
            json!({"type": "session.status_idle", "stop_reason": {"type": "end_turn"}}),
            "Idle (end_turn)",
        ),
        (json!({"type": "session.status_terminated"}), "Terminated"),
        (
            json!({"type": "x.y", "deep": {"list": [{"a": 1}, {"b": {"c": []}}]}, "raw": {"r": 1}}),
            "deep:\n  list:\n    - a: 1",
        ),
        (json!({"type": "x.y", "raw": {"role": "?"}}), ""),
    ]
}

#[test]
fn each_event_is_replayed_as_a_readable_line() {
    let cases = [of_agents(), of_harnesses()].concat();
    let place = Place::new();
    let lines: String = cases.iter().map(|(event, _)| format!("{event}\n")).collect();
    place.run_with(&["append", "--create", "s"], &lines).ok();
    let mut told: Vec<String> = Vec::new();
    for line in place.run(&["replay", "s"]).ok().lines() {
        match (line.strip_prefix("        "), told.last_mut()) {
            (Some(text), Some(event)) => *event += &format!("{text}\n"),
            _ => told.push(String::new()),
        }
    }
    assert_eq!(told.len(), cases.len());
    for ((event, expected), told) in cases.iter().zip(told) {
        assert_eq!(told.trim_end(), *expected, "{event}");
    }
}

#[test]
fn a_replayed_text_keeps_its_blank_lines() {
    let place = Place::new();
    let event = json!({"type": "agent.message", "content": "one\n\n  two\n\n\nthree\n"});
    place.run_with(&["append", "--create", "s"], &format!("{event}\n")).ok();
    let text = place.run(&["replay", "s"]).ok();
    let (_, said) = text.split_once('\n').unwrap();
    assert_eq!(said, "        one\n\n          two\n\n\n        three\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_row_of_a_result_that_is_a_picture_says_so_in_the_format_of_every_program() {
    let house = House::plain().await;
    let data = "iVBORw0KGgo=";
    let url = format!("data:image/png;base64,{data}");
    let source = json!({"type": "base64", "media_type": "image/png", "data": data});
    let blocks = [
        json!([{"type": "input_image", "image_url": url}]),
        json!([{"type": "image", "source": source}]),
        json!([{"type": "image_url", "image_url": {"url": url}}]),
        json!([{"type": "text", "text": ""}, {"type": "image", "source": source}]),
        json!([{"type": "text", "text": ""}]),
    ];
    let events = blocks.iter().flat_map(|blocks| {
        [
            json!({"type": "agent.tool_use", "name": "view_image", "input": {"path": "a.png"}}),
            json!({"type": "agent.tool_result", "name": "view_image", "content": blocks}),
        ]
    });
    emit(&house, "seen", &events.collect::<Vec<_>>()).await;
    let rows = rows_of(&house, "seen", "", 100).await;
    let lines: Vec<&str> =
        rows.iter().skip(1).step_by(2).map(|row| row["line"].as_str().unwrap()).collect();
    assert_eq!(lines, ["[image]", "[image]", "[image]", "[image]", "(no output)"], "{rows:#?}");
}
