//! Members of an event besides its type: its program, its thread, the failure of a tool, cut or
//! removed parts; and reports about spooled events. It must not test responses of a store.

use std::path::Path;

use serde_json::{Value, json};
use sessionlog::{
    env::entropy::SystemEntropy,
    hook::Spool,
    secrets::{MaskingReport, Recogniser},
};

use super::{PATIENT, SESSION, answered::created, claude, codex, of, quiet};
use crate::program::{Place, Ran};

fn bytes(event: &Value) -> Vec<u8> {
    event.to_string().into_bytes()
}

/// Returns the log events made of one hook event.
fn made(event: &Value) -> Vec<Value> {
    created(bytes(event), None)["initial_events"].as_array().unwrap().clone()
}

#[test]
fn an_event_records_its_agent_and_whether_it_failed() {
    let call = json!({ "tool_name": "mcp__web__fetch", "tool_use_id": "t", "agent_id": "a7" });
    let agent = json!({
        "agent_id": "a7", "agent_type": "Explore", "last_assistant_message": "found it",
    });
    let failed = |name: &str| {
        let answer = json!({ name: true, "content": [{ "type": "text", "text": "404" }] });
        claude("PostToolUse", &json!({ "tool_name": "x", "tool_response": answer }))
    };
    for (event, member, expected) in [
        (claude("PreToolUse", &call), "session_thread_id", json!("a7")),
        (claude("SubagentStop", &agent), "session_thread_id", json!("a7")),
        (claude("SubagentStop", &agent), "agent_name", json!("Explore")),
        (claude("SubagentStop", &agent), "content", json!("found it")),
        (failed("isError"), "is_error", json!(true)),
        (failed("is_error"), "is_error", json!(true)),
        (failed("other"), "is_error", json!(false)),
    ] {
        assert_eq!(made(&event)[0][member], expected, "{member} of {event}");
    }
}

#[test]
fn a_session_records_its_program_and_directory() {
    // Codex reports no turn before its first one.
    let mut start = codex("SessionStart", &json!({ "source": "startup" }));
    start.as_object_mut().unwrap().remove("turn_id");
    assert_eq!(created(bytes(&start), None)["metadata"]["client"], "codex");
    let start = claude("SessionStart", &json!({ "source": "startup" }));
    assert_eq!(created(bytes(&start), None)["metadata"]["client"], "claude-code");
    assert_eq!(created(bytes(&start), None)["workspace"], "/home/ada/proj");
    assert_eq!(created(bytes(&start), Some("/project"))["workspace"], "/project");
    // A directory whose name is too long for the store is left out, not the event.
    let long = format!("/{}", "d".repeat(600));
    assert_eq!(created(bytes(&start), Some(&long))["workspace"], Value::Null);
}

#[test]
fn equal_call_ids_with_different_inputs_have_different_event_ids() {
    let id = |input: &str| {
        let call = json!({ "tool_name": "x", "tool_use_id": "t", "tool_input": { "a": input } });
        made(&claude("PreToolUse", &call))[0]["id"].clone()
    };
    assert_eq!(id("one"), id("one"));
    assert_ne!(id("one"), id("two"));
}

#[test]
fn a_cut_text_is_marked_and_removed_secrets_are_counted_once() {
    let long = claude("PostToolUse", &json!({ "tool_response": "x".repeat(5 << 20) }));
    let event = &made(&long)[0];
    assert!(event["content"].as_str().unwrap().ends_with("x…"), "{event:.300}");
    let torn = format!(
        r#"{{"session_id":"{SESSION}","hook_event_name":"Notification","message":"ghp_{}"#,
        "0123456789abcdefghijABCDEFGHIJ012345 and"
    );
    let event = &created(torn.into_bytes(), None)["initial_events"][0];
    assert_eq!(event["redactions"], json!({ "github-token": 1 }), "{event}");
}

#[test]
fn list_values_are_redacted_by_their_member_name_except_allowed_ones() {
    let clean = |lines: &str, text: &str| {
        Recogniser::parse("on", lines).unwrap().mask_json(text, &mut MaskingReport::default())
    };
    let mark = "[redacted:secret-member]";
    for (lines, text, expected) in [
        ("", r#"{"api_key":["k1", "k2","k3"]}"#, json!({ "api_key": [mark, mark, mark] })),
        ("allow ^k2$", r#"{"api_key":["k1","k2"]}"#, json!({ "api_key": [mark, "k2"] })),
    ] {
        let clean = clean(lines, text).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&clean).unwrap(), expected);
    }
    assert_eq!(clean("allow ^k1$", r#"{"api_key":"k1"}"#), None);
}

/// Runs the hook with an environment variable.
fn run_hook_with_variable(place: &Place, variable: (&str, &str), event: &Value) -> Ran {
    let mut command = place.command(&["hook", "--hook-wait", PATIENT]);
    command.env(variable.0, variable.1).stdin(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), &bytes(event)).unwrap();
    crate::program::ran(child)
}

#[test]
fn secrets_are_removed_although_rules_cannot_be_read() {
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    for (n, wrong) in
        [("SESSIONLOG_SECRETS", "loud"), ("SESSIONLOG_TTL", "soon")].iter().enumerate()
    {
        let place = Place::new();
        let event = claude("Notification", &json!({ "message": format!("{secret} {n}") }));
        let ran = run_hook_with_variable(&place, *wrong, &event);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let events = place.events(SESSION);
        assert_eq!(events.len(), 1);
        assert!(!events[0].to_string().contains(secret), "{events:?}");
    }
}

#[test]
fn a_session_belongs_to_the_project_that_its_program_names() {
    let place = Place::new();
    let event = claude("SessionStart", &json!({ "source": "startup" }));
    assert_eq!(
        run_hook_with_variable(&place, ("CLAUDE_PROJECT_DIR", "/home/ada/project"), &event).code,
        0
    );
    let shown = place.run(&["show", SESSION, "--json"]).json();
    assert_eq!(shown["workspace"], "/home/ada/project", "{shown}");
}

fn spool(place: &Place) -> Spool {
    let places = vec![place.path("data.spool")];
    Spool::new(places, Box::new(|| Ok(None)), std::sync::Arc::new(SystemEntropy))
}

#[test]
fn a_verb_reports_spooled_and_unreadable_hook_events() {
    let place = Place::new();
    place.write("data", "not a directory");
    let event = of("s", claude("Notification", &json!({})));
    assert_eq!(super::hook(&place, &event).code, 0);
    std::fs::remove_file(place.data_dir()).unwrap();
    let spool = spool(&place);
    let right = spool.try_lock().unwrap().unwrap();
    let ran = place.run(&["sessions"]);
    assert!(ran.code == 0 && ran.err.contains("events of hooks wait in"), "{}", ran.err);
    drop(right);
    std::fs::write(place.path("data.spool").join("1-torn.json"), "{\"session\":").unwrap();
    let ran = place.run(&["sessions"]);
    assert!(
        ran.code == 0
            && ran.err.contains("they were moved to")
            && ran.err.contains("data.spool/refused"),
        "{}",
        ran.err
    );
    assert!(spool.is_empty());
    quiet(&place, &event);
}

#[test]
fn hooks_are_installed_for_every_event_that_a_fold_reads() {
    const BOTH: [&str; 10] = [
        "PostCompact",
        "PostToolUse",
        "PreCompact",
        "PreToolUse",
        "SessionEnd",
        "SessionStart",
        "Stop",
        "SubagentStart",
        "SubagentStop",
        "UserPromptSubmit",
    ];
    for (agent, file, more) in [
        ("claude-code", ".claude/settings.json", Some("PostToolUseFailure")),
        ("codex", ".codex/hooks.json", None),
    ] {
        let place = Place::new();
        place.run(&["install", agent, "--yes"]).ok();
        let text = std::fs::read_to_string(place.path(file)).unwrap();
        let read: Value = serde_json::from_str(&text).unwrap();
        let mut named: Vec<&str> =
            read["hooks"].as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected: Vec<&str> = BOTH.into_iter().chain(more).collect();
        named.sort_unstable();
        expected.sort_unstable();
        assert_eq!(named, expected, "{}", Path::new(file).display());
    }
}
