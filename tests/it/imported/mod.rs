//! Import of a transcript of Claude Code: each text of a user and of the agent is in the views
//! once, and the file is exported byte for byte.

mod failed;
mod large;
mod lines;
mod named;
mod queued;
mod rewound;
mod rewritten;
mod subagents;

use std::cell::RefCell;

use serde_json::{Value, json};

use crate::program::{Place, lines as json_lines};

/// Session id of a transcript, which names its file.
pub const SESSION: &str = "5b1d7c0e-93aa-4f21-8d64-0c2e7f9a6b13";

/// A transcript under construction: each line follows the previous one.
#[derive(Default)]
pub struct Transcript {
    lines: RefCell<Vec<String>>,
    last: RefCell<Option<String>>,
    count: RefCell<u32>,
}

impl Transcript {
    fn time(&self) -> String {
        *self.count.borrow_mut() += 1;
        let count = *self.count.borrow();
        format!("2026-09-14T08:{:02}:{:02}.000Z", count / 60, count % 60)
    }

    /// Adds a line unchanged.
    pub fn raw(&self, line: &Value) {
        self.lines.borrow_mut().push(line.to_string());
    }

    /// Adds a line that follows the last one; returns its id.
    pub fn add(&self, mut line: Value) -> String {
        let time = self.time();
        let uuid = format!("n{}", self.count.borrow());
        let parent = self.last.replace(Some(uuid.clone()));
        let common = json!({
            "parentUuid": parent, "isSidechain": false, "cwd": "/home/ada/mill",
            "sessionId": SESSION, "version": "2.1.204", "uuid": uuid, "timestamp": time,
        });
        for (name, value) in common.as_object().unwrap() {
            line.as_object_mut().unwrap().entry(name).or_insert_with(|| value.clone());
        }
        self.raw(&line);
        uuid
    }

    pub fn user(&self, content: impl Into<Value>) -> String {
        self.add(
            json!({ "type": "user", "message": { "role": "user", "content": content.into() } }),
        )
    }

    pub fn agent(&self, message: &str, content: Value) -> String {
        self.add(json!({ "type": "assistant", "message": {
            "id": message, "type": "message", "role": "assistant", "model": "claude-opus-5-5",
            "content": [content],
        }}))
    }

    pub fn says(&self, message: &str, text: &str) -> String {
        self.agent(message, json!({ "type": "text", "text": text }))
    }

    pub fn calls(&self, message: &str, id: &str) -> String {
        let input = json!({ "command": "cargo test" });
        let call = json!({ "type": "tool_use", "id": id, "name": "Bash", "input": input });
        self.agent(message, call)
    }

    pub fn result(&self, id: &str, content: impl Into<Value>) -> String {
        let content = content.into();
        let block = json!({ "type": "tool_result", "tool_use_id": id, "content": content });
        self.user(json!([block]))
    }

    /// Makes the next line follow the given one.
    pub fn back_to(&self, uuid: Option<&str>) {
        self.last.replace(uuid.map(str::to_owned));
    }

    pub fn queue(&self, operation: &str, content: Option<&str>) {
        let mut line = json!({
            "type": "queue-operation", "operation": operation, "timestamp": self.time(),
            "sessionId": SESSION,
        });
        content.into_iter().for_each(|text| line["content"] = json!(text));
        self.raw(&line);
    }

    pub fn text(&self) -> String {
        self.lines.borrow().iter().map(|line| line.clone() + "\n").collect()
    }
}

/// Imports a transcript; returns the exit code and the report.
pub fn import(place: &Place, text: &str) -> (i32, Value) {
    let file = place.write(&format!("{SESSION}.jsonl"), text);
    let ran = place.run(&["import", "--json", file.to_str().unwrap()]);
    (ran.code, json_lines(&ran.out).pop().unwrap_or_else(|| panic!("{ran:?}")))
}

/// Imports a transcript; checks that it is accepted whole and exported unchanged.
pub fn taken(transcript: &Transcript) -> Place {
    let (place, text) = (Place::new(), transcript.text());
    let (code, report) = import(&place, &text);
    assert_eq!((code, &report["bad_lines"]), (0, &json!([])), "{report}");
    let back = place.run(&["export", SESSION, "--format", "claude-code"]).ok();
    assert!(back == text, "it does not come back as it was");
    place
}

pub fn view(place: &Place, name: &str) -> Value {
    place.run(&["view", SESSION, name, "--json"]).json()
}

/// Returns the window as messages, and the exports as messages of either API.
pub fn messages(place: &Place) -> Vec<String> {
    let window = |format: &str| {
        let asked = ["view", SESSION, "window", "--tokens-max", "20000", "--format", format];
        place.run(&[&asked[..], &["--json"]].concat()).json()["messages"].to_string()
    };
    let export = |format: &str| place.run(&["export", SESSION, "--format", format]).ok();
    vec![window("anthropic"), window("openai"), export("anthropic"), export("openai")]
}

/// Returns the texts that a user typed, as the continuation shows them.
pub fn typed(place: &Place) -> Vec<String> {
    let view = view(place, "continuation");
    let words =
        [&view["task"]].into_iter().chain(view["instructions"].as_array().into_iter().flatten());
    words.filter_map(|word| word["text"].as_str().map(str::to_owned)).collect()
}
