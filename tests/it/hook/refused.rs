//! Calls that were rejected or interrupted, as hooks and the program's transcript report them: each
//! once, with the user's text, and never as completed work.

use std::fs;

use serde_json::{Value, json};

use super::{SESSION, claude, quiet};
use crate::program::{McpClient, Place};

const REJECTED: &str = "The user doesn't want to proceed with this tool use. The tool use was \
                        rejected (eg. if it was a file edit, the new_string was NOT written to \
                        the file).";
const UNREAD: &str = "<tool_use_error>File has not been read yet. Read it first before writing \
                      to it.</tool_use_error>";

/// An agent whose program writes a transcript.
struct Agent {
    place: Place,
}

impl Agent {
    fn new() -> Self {
        let agent = Self { place: Place::new() };
        agent.tell("SessionStart", json!({ "source": "startup" }));
        agent.tell("UserPromptSubmit", json!({ "prompt": "Mend the harbour", "prompt_id": "p1" }));
        agent
    }

    fn tell(&self, name: &str, mut more: Value) {
        more["transcript_path"] = json!(self.place.path("t.jsonl").to_str().unwrap());
        quiet(&self.place, &claude(name, &more));
    }

    fn write(&self, kind: &str, at: u32, more: Value) {
        let path = self.place.path("t.jsonl");
        let mut line = json!({
            "type": kind, "sessionId": SESSION, "uuid": format!("u{at}"), "isSidechain": false,
            "timestamp": format!("2026-11-20T09:00:{at:02}.000Z"), "cwd": "/home/ada/proj",
        });
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let before = fs::read_to_string(&path).unwrap_or_default();
        fs::write(&path, format!("{before}{line}\n")).unwrap();
    }

    /// Writes the lines of a call and of its result.
    fn lines(&self, at: u32, [id, name]: [&str; 2], input: &Value, said: &str, more: Value) {
        let call = json!({ "type": "tool_use", "id": id, "name": name, "input": input });
        let message = json!({ "id": format!("m{at}"), "role": "assistant", "content": [call] });
        self.write("assistant", at, json!({ "message": message }));
        let answer = json!({
            "type": "tool_result", "tool_use_id": id, "is_error": true, "content": said,
        });
        let mut more = more;
        more["message"] = json!({ "role": "user", "content": [answer] });
        self.write("user", at + 1, more);
    }

    /// Reports a call by hooks, with its result if it has one.
    fn call(&self, id: &str, name: &str, input: Value, response: Option<Value>) {
        let mut call = json!({ "tool_name": name, "tool_use_id": id, "tool_input": input });
        self.tell("PreToolUse", call.clone());
        if let Some(response) = response {
            call["tool_response"] = response;
            self.tell("PostToolUse", call);
        }
    }

    fn of_call(&self, id: &str) -> Vec<Value> {
        let events = self.place.events(SESSION);
        events.into_iter().filter(|event| event["call_id"] == id).collect()
    }

    fn view(&self) -> String {
        self.place.run(&["view", SESSION, "continuation", "--json"]).ok()
    }

    /// Returns how many calls of a tool succeeded, and how many exist.
    fn call_counts(&self, tool: &str) -> Value {
        let mut client = McpClient::start(&self.place, &["--session", SESSION]);
        client.call("get_research_session", &json!({}))["providerStats"][tool].clone()
    }
}

#[test]
fn an_edit_rejected_by_the_program_is_a_failed_call_without_a_change() {
    let agent = Agent::new();
    let path = |name: &str| json!({ "file_path": format!("/home/ada/proj/{name}.rs") });
    for at in 0..6 {
        agent.call(&format!("e{at}"), "Edit", path("quay"), Some(json!({ "success": true })));
    }
    // No hook reports it: the program validates the input before.
    agent.lines(10, ["e6", "Edit"], &path("crane"), UNREAD, json!({}));
    agent.tell("Stop", json!({ "last_assistant_message": "The crane is mended." }));
    agent.tell("Stop", json!({ "last_assistant_message": "The crane is mended." }));
    agent.tell("UserPromptSubmit", json!({ "prompt": "Go on", "prompt_id": "p2" }));
    let refused = agent.of_call("e6");
    let kinds: Vec<&Value> = refused.iter().map(|event| &event["type"]).collect();
    assert_eq!(kinds, ["agent.tool_use", "agent.tool_result"], "{refused:?}");
    assert_eq!(refused[0]["created_at"], "2026-11-20T09:00:10.000000Z");
    assert_eq!((&refused[1]["is_error"], &refused[1]["content"]), (&json!(true), &json!(UNREAD)));
    let view = agent.view();
    assert!(view.contains("quay.rs") && !view.contains("\"crane.rs"), "{view}");
    let fared = agent.call_counts("Edit");
    assert_eq!((&fared["successes"], &fared["attempts"]), (&json!(6), &json!(7)), "{fared}");
}

#[test]
fn a_rejected_call_is_closed_and_the_users_reply_is_an_instruction() {
    let words = "The quay is swept, use the broom of the north wall";
    for (at, ends) in [("Stop", json!({})), ("UserPromptSubmit", json!({ "prompt": "Next" }))] {
        let agent = Agent::new();
        let input = json!({ "command": "git stash" });
        agent.call("b1", "Bash", input.clone(), None);
        let said = format!("{REJECTED} To tell you how to proceed, the user said:\n{words}");
        let more = json!({ "toolUseResult": format!("Error: {said}") });
        agent.lines(10, ["b1", "Bash"], &input, &said, more);
        agent.tell(at, ends.clone());
        agent.tell("SessionEnd", json!({ "reason": "other" }));
        let of_call = agent.of_call("b1");
        assert_eq!(of_call.len(), 2, "{at}: {of_call:?}");
        assert_eq!(of_call[1]["refused"], "user", "{at}");
        let events = agent.place.events(SESSION);
        let said = events.iter().filter(|event| event["content"] == words);
        assert_eq!(said.map(|event| &event["type"]).collect::<Vec<_>>(), ["user.message"], "{at}");
        let view: Value = serde_json::from_str(&agent.view()).unwrap();
        assert!(view["instructions"].to_string().contains(words), "{at}: {view}");
        assert!(!view["changes"].to_string().contains("stash"), "{at}: {view}");
        assert!(!view["failures"].to_string().contains("stash"), "{at}: {view}");
    }
}

#[test]
fn a_call_without_a_result_stays_open_until_its_turn_ends() {
    for (name, more) in [
        ("PreToolUse", json!({ "tool_name": "Read", "tool_use_id": "r1" })),
        ("Stop", json!({})),
        ("StopFailure", json!({ "error": "rate_limit" })),
        ("UserPromptSubmit", json!({ "prompt": "Leave it", "prompt_id": "p2" })),
        ("SessionEnd", json!({ "reason": "other" })),
    ] {
        let agent = Agent::new();
        agent.call("b1", "Bash", json!({ "command": "git push --force" }), None);
        agent.tell(name, more);
        let is_under_way = name == "PreToolUse";
        let woken = agent.place.run(&["wake", SESSION, "--json"]).ok();
        assert_eq!(woken.contains("\"b1\""), is_under_way, "{name}: {woken}");
        let view = agent.view();
        assert_eq!(view.contains("git push"), is_under_way, "{name}: {view}");
    }
}

#[test]
fn a_result_after_the_next_prompt_closes_its_call() {
    let agent = Agent::new();
    let input = json!({ "command": "git push origin quay" });
    agent.call("b1", "Bash", input.clone(), None);
    agent.tell("UserPromptSubmit", json!({ "prompt": "And then?", "prompt_id": "p2" }));
    let response = json!({ "stdout": "pushed", "stderr": "" });
    agent.tell(
        "PostToolUse",
        json!({ "tool_name": "Bash", "tool_use_id": "b1", "tool_input": input,
            "tool_response": response }),
    );
    assert!(agent.view().contains("git push origin quay"), "{}", agent.view());
    assert_eq!(agent.call_counts("Bash")["attempts"], 1);
}

#[test]
fn a_call_denied_by_a_rule_is_recorded_once_with_the_reason() {
    let agent = Agent::new();
    let input = json!({ "command": "git push --force" });
    agent.call("b1", "Bash", input.clone(), None);
    let why = "Permission for this action has been denied. Reason: it rewrites history";
    let denied = json!({ "tool_name": "Bash", "tool_use_id": "b1", "tool_input": input,
        "reason": why });
    agent.tell("PermissionDenied", denied);
    agent.lines(10, ["b1", "Bash"], &input, why, json!({ "toolDenialKind": "automode-blocked" }));
    agent.tell("Stop", json!({}));
    let of_call = agent.of_call("b1");
    assert_eq!(of_call.len(), 2, "{of_call:?}");
    assert_eq!((&of_call[1]["refused"], &of_call[1]["content"]), (&json!("rule"), &json!(why)));
    let view: Value = serde_json::from_str(&agent.view()).unwrap();
    assert!(!view["changes"].to_string().contains("git push"), "{view}");
}

#[test]
fn a_rejected_call_on_an_excluded_path_records_only_its_tool() {
    let agent = Agent::new();
    agent.place.write("c.toml", "exclude = \"**/vault/**\"\n");
    let path = json!({ "file_path": "/home/ada/proj/vault/key.rs" });
    agent.lines(10, ["e1", "Edit"], &path, "<tool_use_error>vault/key.rs is unread", json!({}));
    let mut stop = claude("Stop", &json!({}));
    stop["transcript_path"] = json!(agent.place.path("t.jsonl").to_str().unwrap());
    let config = agent.place.path("c.toml");
    let arguments = ["hook", "--hook-wait", super::PATIENT, "--config", config.to_str().unwrap()];
    let ran = agent.place.run_with(&arguments, &stop.to_string());
    assert_eq!((ran.code, &*ran.err), (0, ""));
    let events = agent.of_call("e1");
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(!json!(events).to_string().contains("vault"), "{events:?}");
    assert!(events.iter().all(|event| event["withheld"] == "excluded"), "{events:?}");
}

#[test]
fn an_interrupted_turn_leaves_no_open_call_and_no_text_of_the_program() {
    let said = format!("{REJECTED} STOP what you are doing and wait for the user to tell you how.");
    // The program reports a result for a pending call, and not always for a running one.
    for is_answered in [true, false] {
        let agent = Agent::new();
        let input = json!({ "command": "git rebase main" });
        agent.call("b1", "Bash", input.clone(), None);
        if is_answered {
            let more = json!({ "toolUseResult": "User rejected tool use" });
            agent.lines(10, ["b1", "Bash"], &input, &said, more);
        }
        let text = "[Request interrupted by user for tool use]";
        let text = json!([{ "type": "text", "text": text }]);
        agent.write("user", 12, json!({ "message": { "role": "user", "content": text } }));
        agent.tell("UserPromptSubmit", json!({ "prompt": "Only look", "prompt_id": "p2" }));
        let of_call = agent.of_call("b1");
        let by: Vec<&Value> = of_call.iter().skip(1).map(|event| &event["refused"]).collect();
        assert_eq!(by, vec![&json!("user"); usize::from(is_answered)], "{of_call:?}");
        let events = agent.place.events(SESSION);
        let typed = events.iter().filter(|event| event["type"] == "user.message");
        let typed: Vec<&Value> = typed.map(|event| &event["content"]).collect();
        assert_eq!(typed, ["Mend the harbour", "Only look"], "{is_answered}");
        let view: Value = serde_json::from_str(&agent.view()).unwrap();
        for list in ["changes", "failures"] {
            assert!(!view[list].to_string().contains("rebase"), "{is_answered}: {view}");
        }
        assert!(view["instructions"].to_string().contains("Only look"), "{view}");
        let woken = agent.place.run(&["wake", SESSION, "--json"]).ok();
        assert!(!woken.contains("\"b1\""), "{is_answered}: {woken}");
    }
}
