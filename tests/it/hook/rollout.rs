//! Hooks of Codex read its rollout: turns that were rolled back, the copy at the beginning of a
//! fork, and prompts that the user typed during a turn.

use std::cell::RefCell;

use serde_json::{Value, json};

use super::{SESSION, codex, hook, quiet};
use crate::program::{Place, lines};

const PARENT: &str = "0199f2a4-77aa-7c10-8f3e-2b1c0d9e8f01";

struct Rollout {
    place: Place,
    name: String,
    lines: RefCell<Vec<Value>>,
}

impl Rollout {
    fn new() -> Self {
        let rollout =
            Self { place: Place::new(), name: SESSION.to_owned(), lines: RefCell::default() };
        rollout.begin(SESSION, None);
        rollout
    }

    fn begin(&self, session: &str, parent: Option<&str>) {
        let mut meta = json!({ "id": session, "cwd": "/home/ada/proj" });
        parent.into_iter().for_each(|parent| meta["forked_from_id"] = json!(parent));
        self.line("session_meta", meta);
    }

    fn line(&self, kind: &str, payload: Value) {
        let count = self.lines.borrow().len();
        let time = format!("2026-11-20T09:{:02}:{:02}.000Z", count / 60, count % 60);
        let line = json!({ "timestamp": time, "type": kind, "payload": payload });
        self.lines.borrow_mut().push(line);
    }

    fn said(&self, role: &str, text: &str) {
        let kind = if role == "assistant" { "output_text" } else { "input_text" };
        let content = json!([{ "type": kind, "text": text }]);
        self.line("response_item", json!({ "type": "message", "role": role, "content": content }));
    }

    fn text(&self) -> String {
        self.lines.borrow().iter().map(|line| format!("{line}\n")).collect()
    }

    /// Reports an event of the program, whose rollout already has all lines.
    fn hook_event(&self, name: &str, mut more: Value) -> Value {
        let path = self.place.write(&format!("rollout-{}.jsonl", self.name), &self.text());
        more["transcript_path"] = json!(path.to_str().unwrap());
        more["session_id"] = json!(self.name);
        codex(name, &more)
    }

    fn tell(&self, name: &str, more: Value) {
        quiet(&self.place, &self.hook_event(name, more));
    }

    /// Reports a prompt, whose hook runs before its line is written.
    fn prompt(&self, typed: &str) {
        self.tell("UserPromptSubmit", json!({ "prompt": typed, "turn_id": typed }));
        self.said("user", typed);
    }

    fn call(&self, id: &str) {
        let made = json!({ "tool_name": "shell", "tool_use_id": id,
            "tool_input": { "command": ["ls"] } });
        self.line(
            "response_item",
            json!({ "type": "function_call", "name": "shell", "call_id": id,
                "arguments": "{\"command\":[\"ls\"]}" }),
        );
        self.tell("PreToolUse", made.clone());
        let mut done = made;
        done["tool_response"] = json!("there");
        self.tell("PostToolUse", done);
        let output = json!({ "type": "function_call_output", "call_id": id, "output": "there" });
        self.line("response_item", output);
    }

    fn turn(&self, n: u32, typed: &str) {
        self.prompt(typed);
        self.call(&format!("c{n}"));
        self.ends(&format!("Done with {n}."));
    }

    fn ends(&self, said: &str) {
        self.said("assistant", said);
        self.tell("Stop", json!({ "last_assistant_message": said }));
    }

    fn back(&self, turns: u64) {
        let note = json!({ "type": "thread_rolled_back", "num_turns": turns });
        self.line("event_msg", note);
    }

    fn view(&self, name: &str) -> Value {
        self.place.run(&["view", &self.name, name, "--json"]).json()
    }

    fn typed(&self) -> Vec<String> {
        let view = self.view("continuation");
        let rest = view["instructions"].as_array().into_iter().flatten();
        let words = [&view["task"]].into_iter().chain(rest);
        words.filter_map(|word| word["text"].as_str().map(str::to_owned)).collect()
    }

    fn import(&self) -> Value {
        let path = self.place.write(&format!("rollout-{}.jsonl", self.name), &self.text());
        let ran = self.place.run(&["import", "--json", path.to_str().unwrap()]);
        assert_eq!(ran.code, 0, "{ran:?}");
        lines(&ran.out).pop().unwrap()
    }

    fn exported(&self) -> String {
        self.place.run(&["export", &self.name, "--format", "codex"]).ok()
    }
}

#[test]
fn turns_rolled_back_are_withdrawn_by_any_hook_that_reads_it_first() {
    for first in ["the next prompt", "the next call", "the end"] {
        let rollout = Rollout::new();
        rollout.turn(1, "Rebuild the wheel");
        rollout.turn(2, "Paint it red");
        rollout.turn(3, "Gild the hub");
        rollout.back(2);
        let mut wanted = vec!["Rebuild the wheel"];
        match first {
            "the end" => rollout.tell("SessionEnd", json!({ "reason": "other" })),
            "the next call" => {
                // The hook of the prompt ran before the rollback was written.
                let note = rollout.lines.borrow_mut().pop().unwrap();
                rollout.prompt("Paint it green");
                let prompt = rollout.lines.borrow_mut().pop().unwrap();
                rollout.lines.borrow_mut().extend([note, prompt]);
                rollout.call("c4");
                rollout.ends("It is green.");
                wanted.push("Paint it green");
            }
            _ => {
                rollout.turn(4, "Paint it green");
                wanted.push("Paint it green");
            }
        }
        assert_eq!(rollout.typed(), wanted, "{first}");
        let seen = rollout.place.run(&["view", SESSION, "window", "--format", "openai", "--json"]);
        let seen = seen.json()["messages"].to_string();
        for (words, is_seen) in [("Done with 1", true), ("Done with 2", false), ("Gild", false)] {
            assert_eq!(seen.contains(words), is_seen, "{first}, {words}: {seen}");
        }
        // Read again, and rolled back again.
        rollout.turn(5, "Add a bell");
        rollout.back(1);
        rollout.turn(6, "Oil the axle");
        wanted.push("Oil the axle");
        assert_eq!(rollout.typed(), wanted, "{first}");
        rollout.import();
        assert_eq!(rollout.typed(), wanted, "{first}: the import says the same");
        assert_eq!(rollout.exported(), rollout.text(), "{first}");
    }
}

#[test]
fn hooks_record_only_new_turns_of_a_forked_rollout_and_leave_its_parent() {
    // Codex reports the start and the resumption of a fork like those of any session.
    for source in ["startup", "resume"] {
        let parent = Rollout { name: PARENT.to_owned(), ..Rollout::new() };
        parent.lines.borrow_mut().clear();
        parent.begin(PARENT, None);
        parent.turn(1, "Rebuild the wheel");
        parent.turn(2, "Paint it red");
        let before = (parent.typed(), parent.place.events(PARENT).len());
        // The fork begins with a copy of its parent's lines, including the head.
        let copy = parent.lines.borrow().clone();
        let name = SESSION.to_owned();
        let fork = Rollout { place: parent.place, name, lines: RefCell::default() };
        fork.begin(SESSION, Some(PARENT));
        fork.lines.borrow_mut().extend(copy);
        // Hooks report neither the objective of a goal nor calls that failed before their hook ran.
        let goal = json!({ "objective": "Sell the cart" });
        fork.line("event_msg", json!({ "type": "thread_goal_updated", "goal": goal }));
        let start = fork.hook_event("SessionStart", json!({ "source": source }));
        // Its model has the copied turns.
        assert_eq!(hook(&fork.place, &start).ok(), "", "{source}");
        fork.back(1);
        fork.turn(3, "Paint it green");
        assert_eq!(fork.typed(), ["Paint it green"], "{source}: what was said in the fork");
        let events = fork.place.events(SESSION);
        let all = |kind: &str, member: &str| -> Vec<String> {
            let of_kind = events.iter().filter(|event| event["type"] == kind);
            of_kind.map(|event| event[member].as_str().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(all("agent.message", "content"), ["Done with 3."], "{source}: {events:?}");
        assert_eq!(all("agent.tool_use", "call_id"), ["c3"], "{source}: {events:?}");
        // The import adds the copied events.
        let report = fork.import();
        assert_eq!(report["session_ids"], json!([SESSION]), "{report}");
        let window = fork.place.run(&["view", SESSION, "window", "--format", "openai", "--json"]);
        let window = window.json()["messages"].to_string();
        for (words, is_seen) in [("Rebuild", true), ("Paint it red", false), ("green", true)] {
            assert_eq!(window.contains(words), is_seen, "{source}, {words}: {window}");
        }
        assert_eq!(fork.exported(), fork.text());
        assert_eq!(fork.import()["added"], 0);
        let events = fork.place.events(PARENT).len();
        let parent = Rollout { name: PARENT.to_owned(), ..fork };
        assert_eq!((parent.typed(), events), before, "{source}");
    }
}

#[test]
fn a_first_turn_of_a_new_rollout_is_read_from_its_beginning() {
    let rollout = Rollout::new();
    let goal = json!({ "objective": "Rebuild the wheel" });
    rollout.line("event_msg", json!({ "type": "thread_goal_updated", "goal": goal }));
    rollout.tell("SessionStart", json!({ "source": "startup" }));
    rollout.call("c1");
    rollout.ends("Done with 1.");
    assert_eq!(rollout.typed(), ["Rebuild the wheel"]);
}

#[test]
fn a_codex_turn_stopped_by_the_user_leaves_no_open_call() {
    // The line of the call is written before or after its hook runs.
    for is_early in [true, false] {
        let rollout = Rollout::new();
        rollout.prompt("Publish the mill");
        let arguments = json!({ "command": ["git", "push"] });
        let call = json!({ "type": "function_call", "name": "shell", "call_id": "c1",
            "arguments": arguments.to_string() });
        let made = json!({ "tool_name": "shell", "tool_use_id": "c1", "tool_input": arguments });
        if is_early {
            rollout.line("response_item", call.clone());
        }
        rollout.tell("PreToolUse", made);
        let changes = rollout.view("continuation")["changes"].to_string();
        assert!(changes.contains("git push") && !changes.contains("interrupted"), "{changes}");
        if !is_early {
            rollout.line("response_item", call);
        }
        rollout.line("event_msg", json!({ "type": "turn_aborted", "reason": "interrupted" }));
        rollout.said("user", "<turn_aborted>\nstopped\n</turn_aborted>");
        rollout.prompt("Leave the push to me");
        // The two lines may have been read separately.
        let changes = rollout.view("continuation")["changes"].to_string();
        assert!(changes.contains("git push") && changes.contains("interrupted"), "{changes}");
        assert!(!changes.contains("fail"), "what it did is not known: {changes}");
        let log = || {
            let events = rollout.place.events(SESSION).into_iter();
            let of_call = events.filter(|event| event["call_id"] == "c1");
            of_call.map(|event| (event["type"].clone(), event["is_error"].clone())).collect()
        };
        let closed: Vec<(Value, Value)> = log();
        let wanted = [("agent.tool_use", Value::Null), ("agent.tool_result", json!(true))];
        assert_eq!(closed, wanted.map(|(kind, is_error)| (json!(kind), is_error)), "{is_early}");
        // The rollout was read to its end.
        rollout.ends("As you wish.");
        rollout.import();
        assert_eq!(log(), closed, "{is_early}");
        assert_eq!(rollout.typed(), ["Publish the mill", "Leave the push to me"], "{is_early}");
        let woken = rollout.place.run(&["wake", SESSION, "--json"]).ok();
        assert!(!woken.contains("\"c1\""), "{is_early}: {woken}");
    }
}

#[test]
fn a_prompt_typed_during_a_codex_turn_is_recorded_once_and_in_order() {
    const WORDS: &str = "Do not force the old lock";
    for is_told in [true, false] {
        let rollout = Rollout::new();
        if is_told {
            rollout.prompt("Find the key");
            rollout.call("c1");
            // The prompt steers the running turn: its line is between a result and the next call.
            rollout.prompt(WORDS);
            rollout.call("c2");
            rollout.ends("Found it.");
        } else {
            rollout.said("user", "Find the key");
            rollout.said("user", WORDS);
            rollout.said("assistant", "Found it.");
        }
        for reading in 0..2 {
            assert!(is_told || reading == 1 || rollout.import()["added"] != 0);
            assert_eq!(rollout.typed(), ["Find the key", WORDS], "{is_told}");
            let events = rollout.place.events(SESSION);
            let kinds = ["user.message", "agent.message"];
            let kept = |event: &&Value| kinds.contains(&event["type"].as_str().unwrap());
            let said: Vec<String> =
                events.iter().filter(kept).map(|event| event["content"].to_string()).collect();
            let place = |words: &str| said.iter().position(|one| one.contains(words));
            assert!(place("Find the key") < place(WORDS) && place(WORDS) < place("Found it."));
            assert_eq!(said.len(), 3, "{said:?}");
            rollout.import();
        }
        assert_eq!(rollout.exported(), rollout.text());
    }
}

#[test]
fn a_failed_command_of_codex_is_recorded_with_the_exit_code_of_its_rollout() {
    let item = |code: i64| {
        let status = if code == 0 { "completed" } else { "failed" };
        let item = json!({ "type": "CommandExecution", "id": "c1", "command": ["bash", "-lc", "x"],
            "status": status, "aggregated_output": "no\n", "exit_code": code });
        ("event_msg", json!({ "type": "item_completed", "item": item }))
    };
    let output = |text: &str| {
        let output = json!({ "type": "function_call_output", "call_id": "c1", "output": text });
        ("response_item", output)
    };
    let cut = "Chunk ID: a0d330\nWall time: 0.0 seconds\nProcess exited with code 3\nOutput:\nno\n";
    let older = json!({ "type": "exec_command_end", "call_id": "c1", "command": ["x"],
        "stdout": "no\n", "exit_code": 2, "status": "failed" });
    for (line, failed, code) in [
        (Some(item(1)), true, json!(1)),
        (Some(item(0)), false, json!(0)),
        (Some(("event_msg", older)), true, json!(2)),
        (Some(output(cut)), true, Value::Null),
        (Some(output("no\n")), false, Value::Null),
        (None, false, Value::Null),
    ] {
        let rollout = Rollout::new();
        rollout.prompt("Deploy it");
        let mut call = json!({ "tool_name": "Bash", "tool_use_id": "c1",
            "tool_input": { "command": "make deploy" } });
        rollout.tell("PreToolUse", call.clone());
        line.clone().into_iter().for_each(|(kind, payload)| rollout.line(kind, payload));
        call["tool_response"] = json!("no\n");
        rollout.tell("PostToolUse", call);
        let events = rollout.place.events(SESSION);
        let result = events.iter().find(|event| event["type"] == "agent.tool_result").unwrap();
        let wanted = (&json!(failed), &code, &json!("no\n"));
        assert_eq!(
            (&result["is_error"], &result["exit_code"], &result["content"]),
            wanted,
            "{line:?}"
        );
        let failures = rollout.view("continuation")["failures"].to_string();
        assert_eq!(failures.contains("make deploy"), failed, "{line:?}: {failures}");
    }
}

const SUMMARY: &str = "The carts were summed from zero.";
const BEFORE_SUMMARY: &str = "Another language model started to solve this problem and produced a \
                              summary of its thinking process:\n";

impl Rollout {
    /// Writes what Codex writes of a compaction that keeps these prompts.
    fn compacts(&self, kept: &[&str]) {
        self.said("assistant", SUMMARY);
        let mut lines = self.lines.borrow_mut();
        lines.last_mut().unwrap()["metadata"] = json!({ "compaction_output": true });
        drop(lines);
        let said = |role: &str, text: &str| {
            let content = json!([{ "type": "input_text", "text": text }]);
            json!({ "type": "message", "role": role, "content": content })
        };
        let program = [
            said("developer", "<permissions instructions>\n</permissions instructions>"),
            said("user", "<environment_context>\n  <cwd>/c</cwd>\n</environment_context>"),
        ];
        let summary = format!("{BEFORE_SUMMARY}{SUMMARY}");
        let kept = kept.iter().map(|text| said("user", text));
        let history: Vec<Value> =
            program.into_iter().chain(kept).chain([said("user", &summary)]).collect();
        self.line("compacted", json!({ "message": summary, "replacement_history": history }));
    }

    /// Returns what the compactions took out, and their summaries.
    fn compactions(&self) -> Vec<(Value, Value)> {
        let view = self.view("compactions");
        let all = view["compactions"].as_array().unwrap().iter();
        all.map(|one| (one["kept"].clone(), one["summary"].clone())).collect()
    }
}

#[test]
fn a_compaction_of_codex_keeps_the_prompts_and_has_the_summary_which_is_no_message() {
    let prompts = ["Sum the carts from zero", "Where were we", "Sum the carts from zero "];
    let (hooks, import) = (Rollout::new(), Rollout::new());
    for (n, typed) in (1..).zip(&prompts) {
        hooks.turn(n, typed);
    }
    hooks.tell("PreCompact", json!({ "trigger": "auto" }));
    hooks.compacts(&prompts[1..]);
    hooks.tell("PostCompact", json!({ "trigger": "auto" }));
    hook(&hooks.place, &hooks.hook_event("SessionStart", json!({ "source": "compact" })));
    hooks.turn(4, "And now");
    // A second one keeps an earlier prompt as well.
    hooks.tell("PreCompact", json!({ "trigger": "auto" }));
    hooks.compacts(&["Where were we", "And now"]);
    hooks.tell("PostCompact", json!({ "trigger": "auto" }));
    import.lines.borrow_mut().clone_from(&hooks.lines.borrow());
    import.import();
    for (by, rollout) in [("hooks", &hooks), ("import", &import)] {
        let events = rollout.place.events(SESSION);
        let is_summary = |event: &&Value| event["content"].to_string().contains(SUMMARY);
        let said = events.iter().filter(is_summary).find(|event| event["type"] == "agent.message");
        assert_eq!(said, None, "{by}");
        let at = |text: &str| {
            let is_it = |event: &&Value| {
                event["type"] == "user.message" && event["content"].to_string().contains(text)
            };
            events.iter().rfind(is_it).unwrap()["position"].as_u64().unwrap()
        };
        let range = |text: &str| json!({ "from": at(text), "to": at(text) + 1 });
        let summary = json!(format!("{BEFORE_SUMMARY}{SUMMARY}"));
        let first = json!([range("Where were we"), range("Sum the carts")]);
        let second = json!([range("Where were we"), range("And now")]);
        let wanted = [(first, summary.clone()), (second, summary)];
        assert_eq!(rollout.compactions(), wanted, "{by}: {events:?}");
    }
    assert_eq!(import.exported(), import.text());
    let before = hooks.compactions();
    hooks.import();
    assert_eq!(hooks.exported(), hooks.text());
    assert_eq!(hooks.compactions(), before);
}
