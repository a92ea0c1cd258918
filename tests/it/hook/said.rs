//! Hooks read the program's transcript: the agent's messages between calls and the usage of its
//! requests, each recorded once over any number of reads.

use std::{cell::RefCell, fs, path::PathBuf};

use serde_json::{Value, json};

use super::{SESSION, at_once, claude, codex, kinds, quiet, waiting_for};
use crate::program::{Place, eventually, signal};

/// An agent whose program writes a transcript.
struct Agent {
    place: Place,
    transcript: PathBuf,
    lines: RefCell<u32>,
}

impl Agent {
    fn new() -> Self {
        let place = Place::new();
        let transcript = place.path("t.jsonl");
        Self { place, transcript, lines: RefCell::new(0) }
    }

    fn event(&self, name: &str, mut more: Value) -> Value {
        more["transcript_path"] = json!(self.transcript.to_str().unwrap());
        claude(name, &more)
    }

    fn tell(&self, name: &str, more: Value) {
        quiet(&self.place, &self.event(name, more));
    }

    fn stop(&self, said: &str) {
        self.tell("Stop", json!({ "last_assistant_message": said }));
    }

    fn write(&self, text: &str) {
        let before = fs::read_to_string(&self.transcript).unwrap_or_default();
        fs::write(&self.transcript, before + text).unwrap();
    }

    /// Writes a line of the agent: a block of one of its messages.
    fn line(&self, message: &str, block: &Value) {
        self.write(&(self.line_of(message, block) + "\n"));
    }

    fn line_of(&self, message: &str, block: &Value) -> String {
        let mut count = self.lines.borrow_mut();
        *count += 1;
        json!({
            "parentUuid": format!("u{}", *count - 1), "isSidechain": false, "sessionId": SESSION,
            "version": "2.1.331", "gitBranch": "columns", "type": "assistant",
            "message": {
                "model": "claude-opus-5-5", "id": message, "type": "message", "role": "assistant",
                "content": [block], "usage": {
                    "input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 900,
                },
            },
            "uuid": format!("u{count}"), "timestamp": format!("2026-11-20T09:{:02}:{:02}.000Z", *count / 60, *count % 60),
        })
        .to_string()
    }

    fn says(&self, message: &str, text: &str) {
        self.line(message, &json!({ "type": "text", "text": text }));
    }

    /// Runs a turn with a message, a call of a tool and a stop.
    fn turn(&self, number: u32, between: &str, last: &str) {
        let id = format!("toolu_{number}");
        self.tell("UserPromptSubmit", json!({ "prompt": "Read it", "prompt_id": id }));
        let call =
            json!({ "tool_name": "Bash", "tool_use_id": id, "tool_input": { "command": "ls" } });
        self.says(&format!("msg_{id}"), between);
        self.line(&format!("msg_{id}"), &json!({ "type": "tool_use", "id": id, "name": "Bash" }));
        self.tell("PreToolUse", call.clone());
        let mut result = call;
        result["tool_response"] = json!({ "stdout": "orders.csv", "stderr": "" });
        self.tell("PostToolUse", result);
        self.says(&format!("msg_{id}_end"), last);
    }

    /// Returns the messages of the agent, in the order of the log.
    fn said(&self) -> Vec<String> {
        let events = self.place.events(SESSION);
        let said = events.iter().filter(|event| event["type"] == "agent.message");
        said.map(|event| event["content"].as_str().unwrap().to_owned()).collect()
    }

    fn view(&self, name: &str) -> Value {
        self.place.run(&["view", SESSION, name, "--json"]).json()
    }
}

const GERMAN: &str = "The file is cp1252 and its 14 columns have German names.";

#[test]
fn agent_messages_between_calls_are_recorded_once_and_in_the_continuation() {
    let agent = Agent::new();
    agent.tell("SessionStart", json!({ "source": "startup" }));
    agent.turn(1, GERMAN, "Done.");
    agent.stop("Done.");
    assert_eq!(agent.said(), [GERMAN, "Done."]);
    let view = agent.view("continuation");
    // "Done." is not an answer: the message before it is.
    assert!(view["answer"].to_string().contains("cp1252"), "{view}");
    let usage = agent.view("usage");
    assert_eq!((&usage["requests"], &usage["output_tokens"]), (&json!(2), &json!(10)), "{usage}");
    // The next turn, a compaction and the end each add only new messages.
    agent.turn(2, "The decimal comma is a point in column 9.", "Done.");
    agent.tell("PreCompact", json!({ "trigger": "manual" }));
    agent.stop("Done.");
    agent.says("msg_7", "One more word.");
    agent.tell("SessionEnd", json!({ "reason": "other" }));
    agent.tell("SessionEnd", json!({ "reason": "other" }));
    let comma = "The decimal comma is a point in column 9.";
    assert_eq!(agent.said(), [GERMAN, "Done.", comma, "Done.", "One more word."]);
    assert_eq!(agent.view("usage")["requests"], 5);
    let messages = agent.place.events(SESSION);
    let word = messages.iter().find(|event| event["content"] == GERMAN).unwrap();
    assert_eq!(word["created_at"], "2026-11-20T09:00:01.000000Z", "{word}");
    assert_eq!(word["recorded_from"], "transcript");
    // An import of the same file adds its lines, and no duplicate messages.
    let path = agent.transcript.to_str().unwrap().to_owned();
    agent.place.run(&["import", &path]).ok();
    assert_eq!((agent.said().len(), agent.view("usage")["requests"].clone()), (5, json!(5)));
    let written = fs::read_to_string(&path).unwrap();
    assert_eq!(agent.place.run(&["export", SESSION, "--format", "claude-code"]).ok(), written);
}

#[test]
fn a_repeated_or_early_stop_event_records_no_duplicates() {
    let agent = Agent::new();
    agent.turn(1, "First word.", "Done.");
    agent.stop("Done.");
    agent.stop("Done.");
    assert_eq!(agent.said(), ["First word.", "Done."]);
    // Two settings files run the hook concurrently.
    agent.turn(2, "Second word.", "Again.");
    let stop = agent.event("Stop", json!({ "last_assistant_message": "Again." }));
    for ran in at_once(&agent.place, &[stop.clone(), stop]) {
        assert_eq!((ran.code, &*ran.err), (0, ""));
    }
    let mut said = agent.said();
    said.sort();
    assert_eq!(said, ["Again.", "Done.", "First word.", "Second word."]);
    // The last line is written, torn, after the hook ran.
    agent.turn(3, "Third word.", "Third end.");
    agent.stop("Late.");
    let block = json!({ "type": "text", "text": "Late." });
    let late = agent.line_of("msg_late", &block) + "\n";
    let (begins, ends) = late.split_at(90);
    agent.write(begins);
    agent.tell("PreCompact", json!({ "trigger": "auto" }));
    agent.write(ends);
    let block = json!({ "type": "text", "text": "Fourth word." });
    let fourth = agent.line_of("msg_8", &block) + "\n";
    let (begins, ends) = fourth.split_at(90);
    agent.write(begins);
    agent.tell("SessionEnd", json!({ "reason": "other" }));
    agent.write(ends);
    agent.tell("SessionEnd", json!({ "reason": "other" }));
    let said = agent.said();
    assert_eq!(said[4..], ["Third word.", "Third end.", "Late.", "Fourth word."]);
}

#[test]
fn a_truncated_or_rewritten_transcript_is_read_again_without_duplicates() {
    let agent = Agent::new();
    agent.turn(1, "First word.", "Done.");
    agent.stop("Done.");
    let before = fs::read_to_string(&agent.transcript).unwrap();
    let note = |agent: &Agent| agent.place.events(SESSION).pop().unwrap()["transcript"].clone();
    assert_eq!(note(&agent)["bytes"], before.len());
    for (kept, again) in [(1, "shorter"), (3, "rewritten")] {
        // The remaining part of it, and another beginning.
        let rest: Vec<&str> = before.lines().take(kept).collect();
        let filler = if again == "shorter" { 1 } else { 9_000 };
        let head = json!({ "type": "mode", "mode": "x".repeat(filler) });
        fs::write(&agent.transcript, format!("{head}\n{}\n", rest.join("\n"))).unwrap();
        agent.says(again, again);
        agent.tell("SessionEnd", json!({ "reason": "other" }));
        assert_eq!(note(&agent)["again"], again);
        agent.tell("SessionEnd", json!({ "reason": "other" }));
        assert_eq!(note(&agent)["again"], Value::Null);
    }
    assert_eq!(agent.said(), ["First word.", "Done.", "shorter", "rewritten"]);
}

#[test]
fn a_long_turn_is_read_in_parts() {
    let agent = Agent::new();
    for n in 0..600 {
        agent.says("msg_1", &format!("Word {n}."));
    }
    agent.says("msg_2", "End.");
    agent.stop("End.");
    let parts = agent.said().len();
    agent.tell("SessionEnd", json!({ "reason": "other" }));
    let mut said = agent.said();
    assert!(parts < 601 && said.len() == 601, "{parts} {}", said.len());
    said.sort();
    said.dedup();
    assert_eq!(said.len(), 601);
}

#[test]
fn an_oversized_line_is_reported_once_and_later_lines_are_recorded() {
    let agent = Agent::new();
    agent.turn(1, "First word.", "Done.");
    agent.stop("Done.");
    let offset = fs::metadata(&agent.transcript).unwrap().len();
    let long = json!({ "type": "text", "text": "x".repeat(9 << 20) });
    let long = agent.line_of("msg_long", &long) + "\n";
    // It is not complete yet, though it is already too long.
    let (begins, ends) = long.split_at(5 << 20);
    agent.write(begins);
    agent.tell("PreCompact", json!({ "trigger": "auto" }));
    let named = || {
        let events = agent.place.events(SESSION);
        let errors = events.into_iter().filter(|event| event["type"] == "session.error");
        errors.map(|event| event["error"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(named(), [json!(null); 0]);
    agent.write(ends);
    agent.says("msg_after", "Word behind it.");
    for _ in 0..3 {
        agent.tell("SessionEnd", json!({ "reason": "other" }));
    }
    assert_eq!(agent.said(), ["First word.", "Done.", "Word behind it."]);
    let [error] = &named()[..] else { panic!("{:?}", named()) };
    assert_eq!((&error["type"], &error["bytes"]), (&json!("line_skipped"), &json!(long.len())));
    assert_eq!(error["at"], offset);
    assert!(error["message"].as_str().unwrap().contains("import the transcript"), "{error}");
    // The action that the message names is possible.
    agent.place.run(&["import", agent.transcript.to_str().unwrap()]).ok();
    let written = fs::read_to_string(&agent.transcript).unwrap();
    assert_eq!(agent.place.run(&["export", SESSION, "--format", "claude-code"]).ok(), written);
}

#[test]
fn messages_sent_while_the_owner_is_down_are_recorded_at_its_return() {
    let agent = Agent::new();
    agent.turn(1, "First word.", "Done.");
    let owner = eventually("an owner", || agent.place.owner_pid());
    signal(owner, rustix::process::Signal::STOP);
    let stop = agent.event("Stop", json!({ "last_assistant_message": "Done." }));
    waiting_for(&agent.place, &stop, "100ms");
    signal(owner, rustix::process::Signal::CONT);
    fs::remove_file(agent.place.path("data.spool").join("failed")).ok();
    agent.turn(2, "Second word.", "Done again.");
    agent.stop("Done again.");
    let mut said = agent.said();
    said.sort();
    assert_eq!(said, ["Done again.", "Done.", "First word.", "Second word."]);
}

#[test]
fn a_session_reads_no_other_transcript_no_secret_and_no_special_file() {
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let agent = Agent::new();
    // A fork begins with a copy of the other session's transcript.
    agent.says("msg_other", "Said elsewhere.");
    agent.tell("SessionStart", json!({ "source": "fork" }));
    agent.says("msg_1", &format!("The token is {secret}."));
    agent.write("not JSON\n{\"type\":\"assistant\"}\n[]\n");
    agent.tell("SessionEnd", json!({ "reason": "other" }));
    assert_eq!(agent.said(), ["The token is [redacted:github-token]."]);
    let events = agent.place.events(SESSION);
    let word = events.iter().find(|event| event["type"] == "agent.message").unwrap();
    assert_eq!(word["redactions"], json!({ "github-token": 1 }), "{word}");
    for path in ["/dev/zero", "/", "/none/t.jsonl"] {
        let end = claude("SessionEnd", &json!({ "transcript_path": path }));
        quiet(&agent.place, &end);
    }
    assert_eq!(agent.said().len(), 1);
}

#[test]
fn messages_of_codex_are_read_from_its_rollout() {
    let place = Place::new();
    let path = place.path("rollout-1.jsonl");
    let line = |kind: &str, payload: Value| {
        json!({ "timestamp": "2026-11-20T09:00:01.001Z", "type": kind, "payload": payload })
            .to_string()
    };
    let said = |text: &str| {
        let content = json!([{ "type": "output_text", "text": text }]);
        line("response_item", json!({ "type": "message", "role": "assistant", "content": content }))
    };
    let usage = json!({
        "input_tokens": 40, "cached_input_tokens": 30, "output_tokens": 2, "total_tokens": 42,
    });
    let info = json!({ "total_token_usage": usage, "last_token_usage": usage });
    // After a compaction Codex repeats the total, with an estimate in place of a request.
    let none = json!({ "input_tokens": 0, "output_tokens": 0, "total_tokens": 6_931 });
    let repeated = json!({ "total_token_usage": usage, "last_token_usage": none });
    let [usage, repeated] = [info, repeated]
        .map(|info| line("event_msg", json!({ "type": "token_count", "info": info })));
    let lines = [said("I look at the list."), usage.clone(), usage, repeated, said("Three mills.")];
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    let more = json!({
        "transcript_path": path.to_str().unwrap(), "last_assistant_message": "Three mills.",
    });
    quiet(&place, &codex("Stop", &more));
    let expected =
        ["agent.message", "span.model_request_end", "agent.message", "session.status_idle"];
    assert_eq!(kinds(&place, SESSION), expected);
    let usage = place.run(&["view", SESSION, "usage", "--json"]).json();
    assert_eq!((&usage["requests"], &usage["cached_tokens"]), (&json!(1), &json!(30)), "{usage}");
}

#[test]
fn failures_and_code_mode_calls_are_read_once_from_the_codex_rollout() {
    let place = Place::new();
    // An owner runs: the first hook's messages are in the log before the next one reads.
    place.run(&["sessions"]).ok();
    let path = place.path("rollout-2.jsonl");
    let line = |kind: &str, payload: Value| {
        let line =
            json!({ "timestamp": "2026-11-20T09:00:01.001Z", "type": kind, "payload": payload });
        format!("{line}\n")
    };
    let item = |item: Value| line("response_item", item);
    let call = |kind: &str, id: &str, name: &str, input: &str| {
        item(
            json!({ "type": kind, "call_id": id, "name": name, "input": input, "arguments": input }),
        )
    };
    let patch = "*** Begin Patch\n*** Update File: src/hub.rs\n@@\n-a\n+b\n*** End Patch";
    let ran = json!({ "type": "CommandExecution", "id": "exec-1", "status": "failed",
        "command": ["sh", "-lc", "pytest -q"], "exit_code": 1,
        "aggregated_output": "FAILED tests/test_hub.py::test_hub - assert 1 == 2\n1 failed" });
    let mut text = line(
        "event_msg",
        json!({ "type": "thread_goal_updated", "goal": { "objective": "Mend the hub" } }),
    );
    text += &call("custom_tool_call", "p1", "apply_patch", patch);
    fs::write(&path, &text).unwrap();
    let tell = |name: &str, mut more: Value| {
        more["transcript_path"] = json!(path.to_str().unwrap());
        quiet(&place, &codex(name, &more));
    };
    // A hook reports the call of the patch, but not its result.
    let patched = json!({ "command": patch });
    tell(
        "PreToolUse",
        json!({ "tool_name": "apply_patch", "tool_use_id": "p1", "tool_input": patched }),
    );
    text += &item(json!({ "type": "custom_tool_call_output", "call_id": "p1",
        "output": "apply_patch verification failed: no such line" }));
    text += &call("function_call", "r1", "shell", r#"{"command":["ls"]}"#);
    text += &item(json!({ "type": "function_call_output", "call_id": "r1",
        "output": "exec command rejected by user" }));
    for (id, why) in [("r2", "`git push` rejected: Ask first."), ("r3", "Failed to create it")] {
        let why = format!("CreateProcess {{ message: {:?} }}", format!("Rejected({why:?})"));
        text += &call("function_call", id, "exec_command", r#"{"cmd":"git push"}"#);
        text += &item(json!({ "type": "function_call_output", "call_id": id,
            "output": format!("exec_command failed: {why}") }));
    }
    text += &call("custom_tool_call", "c1", "exec", "run()");
    text += &line("event_msg", json!({ "type": "item_completed", "item": ran }));
    text += &item(json!({ "type": "custom_tool_call_output", "call_id": "c1", "output": "done" }));
    fs::write(&path, &text).unwrap();
    tell("Stop", json!({ "last_assistant_message": "Half done." }));
    tell("Stop", json!({ "last_assistant_message": "Half done." }));
    let events = place.events(SESSION);
    for id in ["p1", "r1", "r2", "r3", "exec-1"] {
        for kind in ["agent.tool_use", "agent.tool_result"] {
            let is = |event: &&Value| event["type"] == kind && event["call_id"] == id;
            assert_eq!(events.iter().filter(is).count(), 1, "{kind} {id}: {events:?}");
        }
    }
    let refused: Vec<&Value> = events
        .iter()
        .filter(|one| one.get("refused").is_some())
        .map(|one| &one["call_id"])
        .collect();
    assert_eq!(refused, ["r1", "r2"]);
    let now = place.run(&["view", SESSION, "continuation", "--json"]).json();
    assert_eq!(now["task"]["text"], "Mend the hub");
    let failures = now["failures"].to_string();
    assert!(failures.contains("test_hub") && !failures.contains("ls"), "{failures}");
    assert!(!now["files"].to_string().contains("hub.rs"), "{now}");
    assert!(!place.run(&["wake", SESSION]).out.contains("open call"));
}
