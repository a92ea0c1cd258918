//! A coding session as the hooks of Claude Code and Codex report it: one payload for each event, in
//! each program's format. It must not decide the events of a session.

use serde_json::{Map, Value, json};

use super::coding::{Act, Coding, State};

/// The project's directory in every payload.
pub(super) const PROJECT: &str = "/home/ada/proj";

/// A program that runs an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    ClaudeCode,
    Codex,
}

/// Returns the payloads of a session up to a compaction.
pub(super) fn payloads(program: Program, session: &str, made: &Coding) -> Vec<Value> {
    let mut teller = Teller { program, session, turn: 0, call: 0, payloads: Vec::new() };
    teller.event("SessionStart", json!({ "source": "startup", "model": "m-1" }));
    for act in &made.acts {
        teller.act(act);
    }
    teller.event("PreCompact", json!({ "trigger": "auto", "custom_instructions": "" }));
    teller.payloads
}

/// Returns the hook payload after a compaction, whose response restores context to the model.
pub(super) fn after_compaction(program: Program, session: &str) -> Value {
    let mut teller = Teller { program, session, turn: 0, call: 0, payloads: Vec::new() };
    teller.event("SessionStart", json!({ "source": "compact", "model": "m-1" }));
    teller.payloads.pop().unwrap_or_default()
}

struct Teller<'a> {
    program: Program,
    session: &'a str,
    /// Number of prompts so far.
    turn: usize,
    /// Number of calls so far.
    call: usize,
    payloads: Vec<Value>,
}

impl Teller<'_> {
    fn event(&mut self, name: &str, more: Value) {
        let mut payload = json!({
            "session_id": self.session, "hook_event_name": name, "cwd": PROJECT,
            "permission_mode": "default",
        });
        let Some(members) = payload.as_object_mut() else { return };
        let mut put = |name: &str, value: Value| members.insert(name.to_owned(), value);
        match self.program {
            Program::ClaudeCode => {
                put("transcript_path", json!("/home/ada/.claude/projects/-p/t.jsonl"));
                if self.turn > 0 {
                    put("prompt_id", json!(format!("prompt-{}", self.turn)));
                }
            }
            Program::Codex => {
                let path = "/home/ada/.codex/sessions/2026/11/22/rollout-1.jsonl";
                put("transcript_path", json!(path));
                put("model", json!("m-1"));
                put("turn_id", json!(format!("turn-{}", self.turn)));
            }
        }
        if let Value::Object(more) = more {
            members.extend(more);
        }
        self.payloads.push(payload);
    }

    fn act(&mut self, act: &Act) {
        match (act, self.program) {
            (Act::Prompt(text), _) => {
                self.turn += 1;
                self.event("UserPromptSubmit", json!({ "prompt": text }));
            }
            (Act::Answer(text), _) => {
                let body = json!({ "stop_hook_active": false, "last_assistant_message": text });
                self.event("Stop", body);
            }
            (act, Program::ClaudeCode) => self.claude(act),
            (act, Program::Codex) => self.codex(act),
        }
    }

    /// Adds a call and its result; `Err` contains the error of a failed call.
    fn call(&mut self, tool: &str, input: &Value, response: Result<Value, String>) {
        self.call += 1;
        let call = |more: Value| {
            let mut body = json!({
                "tool_name": tool, "tool_use_id": format!("call-{}", self.call),
                "tool_input": input,
            });
            if let (Some(body), Value::Object(more)) = (body.as_object_mut(), more) {
                body.extend(more);
            }
            body
        };
        let (before, after) = (
            call(json!({})),
            match response {
                Ok(response) => ("PostToolUse", call(json!({ "tool_response": response }))),
                Err(error) => {
                    ("PostToolUseFailure", call(json!({ "error": error, "is_interrupt": false })))
                }
            },
        );
        self.event("PreToolUse", before);
        self.event(after.0, after.1);
    }

    fn claude(&mut self, act: &Act) {
        match act {
            Act::Read { path, text } => {
                let file = json!({ "filePath": path, "content": text, "startLine": 1 });
                let response = json!({ "type": "text", "file": file });
                self.call("Read", &json!({ "file_path": path }), Ok(response));
            }
            Act::Search { pattern, hits } => {
                let input = json!({ "pattern": pattern, "output_mode": "content" });
                self.call("Grep", &input, Ok(json!({ "mode": "content", "content": hits })));
            }
            Act::Edit { path, old, new } => {
                let input = json!({ "file_path": path, "old_string": old, "new_string": new });
                let mut response = Map::new();
                response.insert("filePath".to_owned(), json!(path));
                response.insert("structuredPatch".to_owned(), json!([]));
                self.call("Edit", &input, Ok(Value::Object(response)));
            }
            Act::Write { path, text } => {
                let input = json!({ "file_path": path, "content": text });
                self.call("Write", &input, Ok(json!({ "type": "create", "filePath": path })));
            }
            Act::Run { command, output, is_error } => {
                let input = json!({ "command": command, "description": "Run it" });
                let response = match is_error {
                    true => Err(format!("Exit code 1\n{output}")),
                    false => Ok(json!({
                        "stdout": output, "stderr": "", "interrupted": false, "isImage": false,
                    })),
                };
                self.call("Bash", &input, response);
            }
            Act::Plan(items) => {
                let todo = |(item, state): &(String, State)| json!({ "content": item, "status": state.as_str(), "activeForm": item });
                let todos: Vec<Value> = items.iter().map(todo).collect();
                let response = json!({ "newTodos": todos });
                self.call("TodoWrite", &json!({ "todos": todos }), Ok(response));
            }
            Act::Prompt(_) | Act::Answer(_) => {}
        }
    }

    fn codex(&mut self, act: &Act) {
        match act {
            Act::Read { path, text } => {
                self.exec(&format!("sed -n '1,200p' {path}"), text, false);
            }
            Act::Search { pattern, hits } => self.exec(&format!("rg -n {pattern}"), hits, false),
            Act::Edit { path, old, new } => {
                let lines = |mark: char, text: &str| {
                    text.lines().map(|line| format!("{mark}{line}\n")).collect::<String>()
                };
                let (old, new) = (lines('-', old), lines('+', new));
                self.patch("M", path, &format!("*** Update File: {path}\n@@\n{old}{new}"));
            }
            Act::Write { path, text } => {
                let lines: String = text.lines().map(|line| format!("+{line}\n")).collect();
                self.patch("A", path, &format!("*** Add File: {path}\n{lines}"));
            }
            Act::Run { command, output, is_error } => self.exec(command, output, *is_error),
            Act::Plan(items) => {
                let step = |(item, state): &(String, State)| json!({ "step": item, "status": state.as_str() });
                let plan: Vec<Value> = items.iter().map(step).collect();
                self.call("update_plan", &json!({ "plan": plan }), Ok(json!("Plan updated")));
            }
            Act::Prompt(_) | Act::Answer(_) => {}
        }
    }

    fn exec(&mut self, command: &str, output: &str, is_error: bool) {
        let code = u8::from(is_error);
        let response = format!("Exit code: {code}\nWall time: 1 seconds\nOutput:\n{output}");
        let input = json!({ "cmd": command, "workdir": PROJECT });
        self.call("exec_command", &input, Ok(json!(response)));
    }

    fn patch(&mut self, mark: &str, path: &str, hunks: &str) {
        let patch = format!("*** Begin Patch\n{hunks}*** End Patch\n");
        let response = format!(
            "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated the following files:\n\
             {mark} {path}\n"
        );
        self.call("apply_patch", &json!({ "command": patch }), Ok(json!(response)));
    }
}

#[cfg(test)]
mod tests {
    use super::{super::coding::coding, *};

    #[test]
    fn both_programs_report_every_act_of_a_session() {
        let made = coding(3);
        let calls = made.acts.iter().filter(|act| !matches!(act, Act::Prompt(_) | Act::Answer(_)));
        let calls = calls.count();
        for program in [Program::ClaudeCode, Program::Codex] {
            let sent = payloads(program, "s", &made);
            let count =
                |name: &str| sent.iter().filter(|event| event["hook_event_name"] == name).count();
            assert_eq!(count("UserPromptSubmit"), 12);
            assert_eq!(count("PreToolUse"), calls);
            assert_eq!(count("PostToolUse") + count("PostToolUseFailure"), calls);
            let text = Value::Array(sent).to_string();
            for path in &made.edited {
                assert!(text.contains(path.as_str()), "{path}");
            }
        }
    }
}
