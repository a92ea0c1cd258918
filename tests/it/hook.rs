//! `hook` as Claude Code and Codex run it: each event is recorded with its event type, no failure
//! of an owner or a disk disturbs the agent or loses an event, and a model that lost its context,
//! resumes or starts receives the state of the work.

pub mod answered;
mod archived;
mod days;
mod events;
mod given;
mod gone;
mod install;
mod kept;
mod made;
mod masked;
mod merged;
mod outcomes;
mod private;
mod refused;
mod rollout;
mod route;
mod said;
mod told;
mod trouble;

use std::process::Stdio;

use serde_json::{Value, json};

use crate::program::{Place, Ran};

/// A session id as both programs generate them.
pub const SESSION: &str = "0198c5d2-f0a0-7a1b-8c3d-4e5f60718293";

/// Returns an event of Claude Code.
pub fn claude(name: &str, more: &Value) -> Value {
    told(
        json!({
            "session_id": SESSION, "transcript_path": "/home/ada/.claude/projects/-p/t.jsonl",
            "cwd": "/home/ada/proj", "hook_event_name": name, "permission_mode": "default",
        }),
        more,
    )
}

/// Returns an event of Codex.
pub fn codex(name: &str, more: &Value) -> Value {
    told(
        json!({
            "session_id": SESSION, "cwd": "/home/ada/proj", "hook_event_name": name,
            "transcript_path": "/home/ada/.codex/sessions/2026/11/22/rollout-1.jsonl",
            "model": "gpt-5", "turn_id": "turn-1", "permission_mode": "default",
        }),
        more,
    )
}

fn told(mut event: Value, more: &Value) -> Value {
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event
}

/// Returns the same event in another session.
pub fn of(session: &str, mut event: Value) -> Value {
    event["session_id"] = json!(session);
    event
}

/// A long wait for slow machines; a test of a shorter wait sets another value.
pub const PATIENT: &str = "60s";

/// Runs the hook, which must exit with 0 in every case.
#[track_caller]
pub fn hook(place: &Place, event: &Value) -> Ran {
    waiting_for(place, event, PATIENT)
}

/// Runs the hook, with an agent that waits this long.
#[track_caller]
pub fn waiting_for(place: &Place, event: &Value, wait: &str) -> Ran {
    let ran = place.run_with(&["hook", "--hook-wait", wait], &event.to_string());
    assert_eq!(ran.code, 0, "{}\n{}", ran.out, ran.err);
    ran
}

/// Runs the hook, which must print nothing.
#[track_caller]
pub fn quiet(place: &Place, event: &Value) {
    let ran = hook(place, event);
    assert_eq!((&*ran.out, &*ran.err), ("", ""), "{event}");
}

/// Runs the hook; returns the context that it prints for the model, and the content of its frame.
#[track_caller]
pub fn told_to_model(place: &Place, event: &Value) -> (String, String) {
    let ran = hook(place, event);
    assert_eq!(ran.err, "", "{event}");
    let answer: Value =
        serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}", ran.out));
    let output = &answer["hookSpecificOutput"];
    assert_eq!(output["hookEventName"], event["hook_event_name"]);
    let text = output["additionalContext"].as_str().unwrap().to_owned();
    let (_, inner) =
        text.split_once("\n<sessionlog trust=\"untrusted-external-content\">\n").unwrap();
    let (inner, _) = inner.rsplit_once("\n</sessionlog>\n").unwrap();
    let inner = inner.to_owned();
    for mark in ["{\"", "\":", "\\n", "\\\""] {
        assert!(!inner.contains(mark), "JSON in a text ({mark}): {inner}");
    }
    (text, inner)
}

/// Returns the types of a session's events, in order.
pub fn kinds(place: &Place, session: &str) -> Vec<String> {
    let kind = |event: &Value| event["type"].as_str().unwrap().to_owned();
    place.events(session).iter().map(kind).collect()
}

/// Starts hooks at once and waits for all of them.
pub fn at_once(place: &Place, events: &[Value]) -> Vec<Ran> {
    use std::io::Write as _;
    let start = |event: &Value| {
        let mut child =
            place.command(&["hook", "--hook-wait", PATIENT]).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(event.to_string().as_bytes()).unwrap();
        child
    };
    let children: Vec<_> = events.iter().map(start).collect();
    children.into_iter().map(crate::program::ran).collect()
}
