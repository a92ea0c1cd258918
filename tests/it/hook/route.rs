//! Other contents that hooks read in a transcript: the order of a turn, prompts that the user typed
//! during a turn, and points to which the user took the agent back.

use std::{cell::RefCell, fs};

use serde_json::{Value, json};

use super::{SESSION, claude, kinds, quiet};
use crate::program::Place;

struct Talk {
    place: Place,
    lines: RefCell<Vec<Value>>,
}

impl Talk {
    fn new() -> Self {
        Self { place: Place::new(), lines: RefCell::default() }
    }

    fn tell(&self, name: &str, mut more: Value) {
        let path = self.place.path("t.jsonl");
        let text: Vec<String> = self.lines.borrow().iter().map(|line| line.to_string()).collect();
        fs::write(&path, text.join("\n") + "\n").unwrap();
        more["transcript_path"] = json!(path.to_str().unwrap());
        quiet(&self.place, &claude(name, &more));
    }

    /// Adds a line after another one; returns its id.
    fn line(&self, parent: Option<&str>, mut line: Value) -> String {
        let count = self.lines.borrow().len();
        let uuid = format!("u{count}");
        line["uuid"] = json!(uuid);
        line["parentUuid"] = json!(parent);
        line["sessionId"] = json!(SESSION);
        line["timestamp"] =
            json!(format!("2026-09-14T08:{:02}:{:02}.000Z", count / 60, count % 60));
        self.lines.borrow_mut().push(line);
        uuid
    }

    fn says(&self, parent: &str, message: &str, block: Value) -> String {
        let usage = json!({ "input_tokens": 3, "output_tokens": 1 });
        let message = json!({ "id": message, "role": "assistant", "model": "m", "usage": usage,
            "content": [block] });
        self.line(Some(parent), json!({ "type": "assistant", "message": message }))
    }

    /// Adds a turn: a prompt, a call, the response; returns the id of its last line.
    fn turn(&self, parent: Option<&str>, n: u32, typed: &str) -> String {
        let user = json!({ "type": "user", "message": { "role": "user", "content": typed } });
        self.tell("UserPromptSubmit", json!({ "prompt": typed }));
        let prompt = self.line(parent, user);
        let text = |text: String| json!({ "type": "text", "text": text });
        let id = format!("t{n}");
        let said = self.says(&prompt, &format!("m{n}a"), text(format!("I look for {n}.")));
        let call = self.says(&said, &format!("m{n}a"), json!({ "type": "tool_use", "id": id }));
        let made =
            json!({ "tool_name": "Bash", "tool_use_id": id, "tool_input": { "command": "ls" } });
        self.tell("PreToolUse", made.clone());
        let mut done = made;
        done["tool_response"] = json!({ "stdout": "there", "stderr": "" });
        self.tell("PostToolUse", done);
        let result = json!([{ "type": "tool_result", "tool_use_id": id, "content": "there" }]);
        let message = json!({ "role": "user", "content": result });
        let result = self.line(Some(&call), json!({ "type": "user", "message": message }));
        let last = self.says(&result, &format!("m{n}b"), text(format!("Done with {n}.")));
        self.tell("Stop", json!({ "last_assistant_message": format!("Done with {n}.") }));
        last
    }

    fn view(&self, name: &str) -> Value {
        self.place.run(&["view", SESSION, name, "--json"]).json()
    }

    fn typed(&self) -> Vec<String> {
        let view = self.view("continuation");
        let rest = view["instructions"].as_array().into_iter().flatten();
        let words = [&view["task"]].into_iter().chain(rest);
        words.filter_map(|word| word["text"].as_str().map(str::to_owned)).collect()
    }
}

#[test]
fn text_before_a_call_is_recorded_before_it_and_prompts_in_order() {
    let talk = Talk::new();
    let last = talk.turn(None, 1, "Find the key");
    talk.turn(Some(&last), 2, "Find the lock");
    let turn = [
        "user.message",
        "agent.message",
        "span.model_request_end",
        "agent.tool_use",
        "agent.tool_result",
    ];
    let found = kinds(&talk.place, SESSION);
    assert_eq!(found[..5], turn, "{found:?}");
    assert_eq!(found.iter().filter(|kind| *kind == "agent.message").count(), 4, "{found:?}");
    assert_eq!(talk.view("usage")["requests"], 4);
    let spans: Vec<String> = talk
        .place
        .events(SESSION)
        .iter()
        .filter(|event| event["type"] == "span.model_request_end")
        .map(|event| event["created_at"].as_str().unwrap().to_owned())
        .collect();
    assert!(spans.is_sorted() && spans.len() == 4, "{spans:?}");
}

#[test]
fn a_prompt_typed_during_a_turn_is_recorded_once() {
    const WORDS: &str = "Do not force the old lock";
    let talk = Talk::new();
    let last = talk.turn(None, 1, "Find the key");
    let attached = |prompt: &str, mode: &str| {
        json!({ "type": "attachment", "attachment": {
            "type": "queued_command", "prompt": prompt, "commandMode": mode } })
    };
    let queue = |operation: &str, content: Option<&str>| {
        let mut line = json!({ "type": "queue-operation", "operation": operation });
        content.into_iter().for_each(|content| line["content"] = json!(content));
        talk.lines.borrow_mut().push(line);
    };
    queue("enqueue", Some(WORDS));
    queue("remove", None);
    let waited = talk.line(Some(&last), attached(WORDS, "prompt"));
    let notice = "<task-notification>a job ended</task-notification>";
    let notice = talk.line(Some(&waited), attached(notice, "task-notification"));
    talk.turn(Some(&notice), 2, "Find the lock");
    talk.tell("SessionEnd", json!({ "reason": "other" }));
    assert_eq!(talk.typed(), ["Find the key", WORDS, "Find the lock"]);
    let events = talk.place.events(SESSION);
    let said = events.iter().filter(|event| event["content"] == WORDS);
    assert_eq!(said.count(), 1, "{events:?}");
}

#[test]
fn a_prompt_withdrawn_in_a_running_session_is_withdrawn_in_the_log() {
    let talk = Talk::new();
    let first = talk.turn(None, 1, "Find the key");
    talk.turn(Some(&first), 2, "Break the window open");
    assert!(talk.typed().contains(&"Break the window open".to_owned()));
    let third = talk.turn(Some(&first), 3, "Call the locksmith");
    assert_eq!(talk.typed(), ["Find the key", "Call the locksmith"]);
    for format in ["anthropic", "openai"] {
        let asked = ["view", SESSION, "window", "--format", format, "--json"];
        let window = talk.place.run(&asked).json()["messages"].to_string();
        assert!(!window.contains("Break the window"), "{window}");
        assert!(!window.contains("Done with 2") && window.contains("Done with 1"), "{window}");
    }
    let count = |talk: &Talk| {
        kinds(&talk.place, SESSION).iter().filter(|kind| *kind == "context.rewound").count()
    };
    assert_eq!(count(&talk), 1);
    // The next turn continues, and another one is withdrawn.
    let fourth = talk.turn(Some(&third), 4, "Pay the locksmith");
    assert_eq!(count(&talk), 1);
    talk.turn(Some(&fourth), 5, "Write to the neighbours");
    talk.turn(Some(&fourth), 6, "Lock the door again");
    assert_eq!(
        talk.typed(),
        ["Find the key", "Call the locksmith", "Pay the locksmith", "Lock the door again"]
    );
    // Back to the first prompt.
    talk.turn(None, 7, "Look under the mat");
    assert_eq!(talk.typed(), ["Look under the mat"]);
    assert!(talk.place.run(&["search", "neighbours"]).ok().contains("neighbours"));
}
