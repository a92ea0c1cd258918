//! Transcripts of agents' programs through the real program: in, out, again, and what readers see.
//! The files are written after the programs' contracts; nobody's session is in them.

use serde_json::{Value, json};

use crate::program::{Place, lines};

const CLAUDE: &str = include_str!("../fixtures/transcripts/claude-code.jsonl");
const CODEX: &str = include_str!("../fixtures/transcripts/codex.jsonl");
const CLAUDE_SESSION: &str = "3f0c1d9e-52a7-4b8e-9c33-0d5f6a7b8c91";
const CODEX_SESSION: &str = "0199f2a4-77aa-7c10-8f3e-2b1c0d9e8f70";

/// What an import of one text reports.
fn imported(place: &Place, name: &str, text: &str, more: &[&str]) -> (i32, Value) {
    let file = place.write(name, text);
    let ran = place.run(&[&["import", "--json", file.to_str().unwrap()], more].concat());
    (ran.code, lines(&ran.out).pop().unwrap_or_else(|| panic!("{ran:?}")))
}

#[test]
fn a_transcript_grows_is_repeated_and_comes_back_as_it_was() {
    let place = Place::new();
    for (name, text, session, format) in [
        (format!("{CLAUDE_SESSION}.jsonl"), CLAUDE, CLAUDE_SESSION, "claude-code"),
        (format!("rollout-2026-{CODEX_SESSION}.jsonl"), CODEX, CODEX_SESSION, "codex"),
    ] {
        // Its program is in the middle of a line.
        let (code, torn) = imported(&place, &name, &text[..text.len() / 2], &[]);
        assert_eq!((code, &torn["torn"], &torn["bad_lines"]), (0, &json!(true), &json!([])));
        let (_, grown) = imported(&place, &name, text, &[]);
        assert_eq!((&grown["known"], &grown["torn"]), (&torn["added"], &json!(false)), "{grown}");
        let added = |report: &Value| report["added"].as_u64().unwrap();
        let all = added(&grown) + added(&torn);
        let (_, again) = imported(&place, &name, text, &[]);
        assert_eq!((&again["added"], &again["known"]), (&json!(0), &json!(all)), "{again}");
        assert_eq!(place.run(&["export", session, "--format", format]).ok(), text);
        // A file that goes on from it repeats it, as another session's.
        let more = text.lines().last().unwrap().replace("2026-11-20", "2026-11-21");
        let moved = format!("{}{more}\n", text.replace(session, "another-session"));
        let (_, resumed) = imported(&place, "resumed.jsonl", &moved, &["--session", session]);
        let new = u64::from(more != text.lines().last().unwrap());
        assert!(
            resumed["added"].as_u64().unwrap() <= 2 && resumed["bad_lines"] == json!([]),
            "{resumed}"
        );
        assert!(resumed["added"].as_u64().unwrap() >= new, "{resumed}");
    }
}

#[test]
fn views_understand_an_imported_session() {
    let place = Place::new();
    // This reader of JSON has no number as large as one of the lines has.
    imported(&place, "talk.jsonl", &CLAUDE.replace("1e400", "1e40"), &[]);
    let events = place.events(CLAUDE_SESSION);
    let said = events.iter().find(|event| event["type"] == "user.message").unwrap();
    assert_eq!((&said["origin"], said["created_at"].is_string()), (&json!("import"), true));
    assert!(said["created_at"].as_str().unwrap().starts_with("2026-11-20T09:00"));
    let view = |name: &str| place.run(&["view", CLAUDE_SESSION, name, "--json"]).json();
    let compactions = view("compactions").to_string();
    assert!(compactions.contains("manual") && compactions.contains("starts at the Museum"));
    let window = place.run(&["view", CLAUDE_SESSION, "window", "--format", "anthropic", "--json"]);
    let window = window.json().to_string();
    for word in ["Plan a walk", "WebSearch", "The canteen of the museum", "starts at the Museum"] {
        assert!(window.contains(word), "{word}: {window}");
    }
    assert!(!window.contains("One mill is left.\"}],\"role\":\"assistant"), "a subagent's words");
    assert!(view("summary").to_string().contains("Plan a walk"));
    let listed = place.run(&["sessions", "--json"]).json().to_string();
    assert!(listed.contains("Plan a walk past old machines"), "{listed}");
    assert!(listed.contains("/home/ada/ghent"), "{listed}");
}

#[test]
fn messages_of_anthropics_api_come_back_and_are_written_from_any_session() {
    let place = Place::new();
    let talk = json!({
        "id": "talk", "system": "be brief", "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "t", "signature": "s"},
                {"type": "text", "text": "I look"},
                {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "ok", "is_error": false},
                {"type": "text", "text": "and?"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
        ],
    });
    let (code, _) = imported(&place, "talk.jsonl", &talk.to_string(), &[]);
    assert_eq!(code, 0);
    let (_, again) = imported(&place, "talk.jsonl", &talk.to_string(), &[]);
    assert_eq!(again["added"], json!(0), "{again}");
    let export = |session: &str, format: &str| place.run(&["export", session, "--format", format]);
    assert_eq!(export("talk", "anthropic").json(), talk);
    let kinds: Vec<Value> =
        place.events("talk").iter().map(|event| event["type"].clone()).collect();
    let expected = [
        "user.message",
        "agent.thinking",
        "agent.message",
        "agent.tool_use",
        "agent.tool_result",
        "user.message",
        "agent.message",
    ];
    assert_eq!(kinds, expected);
    let chat = export("talk", "openai").json();
    assert_eq!(chat["messages"][1]["tool_calls"][0]["id"], "t1", "{chat}");
    assert_eq!(chat["messages"][2]["role"], "tool", "{chat}");
    imported(&place, "rollout.jsonl", CODEX, &[]);
    let made = export(CODEX_SESSION, "anthropic").json();
    assert_eq!(made["messages"][0]["content"][0]["text"], "Count the mills", "{made}");
    assert!(made["system"].to_string().contains("sandbox rules"), "{made}");
    assert_eq!(export("talk", "codex").code, 2, "nothing of it came from there");
}

#[test]
fn a_transcript_is_not_put_into_a_session_of_something_else() {
    let place = Place::new();
    imported(&place, "own.jsonl", "{\"type\":\"user.message\",\"content\":\"x\"}\n", &[]);
    let (code, report) = imported(&place, "talk.jsonl", CLAUDE, &["--session", "own"]);
    assert_eq!((code, &report["added"]), (1, &json!(0)), "{report}");
    assert!(report["bad_lines"][0]["problem"].as_str().unwrap().contains("own"), "{report}");
    assert_eq!(place.events("own").len(), 1);
}
