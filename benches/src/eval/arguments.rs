//! Real conversations cut before each call that changes something: counts the calls of which a view
//! contains every argument value, next to a plain window of the same size. It must not judge the
//! text of a view.

use std::path::Path;

use serde_json::{Value, json};

use super::{
    conversation::{self, is_write, list, role},
    desk::Desk,
    rows::Tally,
};
use crate::failure::Outcome;
use sessionlog::event::{SessionId, kinds};

/// Budgets in tokens at which a view and the window are compared.
pub(super) const BUDGETS: [u64; 3] = [2_000, 4_000, 8_000];
/// Views compared with a window without recall: name of the view, and what the window recalls.
const VIEWS: [(&str, Option<&str>); 3] =
    [("continuation", None), ("window", Some("none")), ("window", None)];

/// One conversation as events, and the calls in it that change something.
pub(super) struct Talk {
    pub(super) events: Vec<Value>,
    /// Position of each changing call, and the values of its arguments.
    pub(super) writes: Vec<(u64, Vec<String>)>,
}

/// Counts calls over the conversations of a directory.
pub(super) async fn measure(desk: &Desk, directory: &Path, found: &mut Tally) -> Outcome {
    let mut told = [[0; VIEWS.len()]; BUDGETS.len()];
    let mut calls = 0;
    for (number, talk) in conversation::all(directory)?.iter().enumerate() {
        let talk = events(talk);
        let session = SessionId::new(&format!("arguments-{number}")).expect("a good id");
        desk.create(&session).await?;
        desk.append(&session, &talk.events).await?;
        calls += talk.writes.len() as u64;
        for (at, values) in &talk.writes {
            for (told, tokens) in told.iter_mut().zip(BUDGETS) {
                for (told, (view, recall)) in told.iter_mut().zip(VIEWS) {
                    let answer = desk.view_at(&session, view, tokens, *at, recall).await?;
                    let given = scalars(&answer.value).join("\n");
                    *told += u64::from(values.iter().all(|value| given.contains(value)));
                }
            }
        }
    }
    found.put("arguments.calls", calls);
    for ([view, window, recalled], tokens) in told.into_iter().zip(BUDGETS) {
        found.put(&format!("arguments.{tokens}.told"), view);
        found.put(&format!("arguments.{tokens}.window"), window);
        found.put(&format!("arguments.{tokens}.recalled"), recalled);
        found.put(&format!("arguments.{tokens}.short"), window.saturating_sub(view));
    }
    Ok(())
}

/// Converts a conversation of chat messages to the events that record it.
pub(super) fn events(conversation: &Value) -> Talk {
    let mut made = Talk { events: Vec::new(), writes: Vec::new() };
    for message in list(conversation, "messages") {
        let content = message.get("content").and_then(Value::as_str).unwrap_or_default();
        match role(message) {
            "user" => made.events.push(json!({ "type": kinds::USER_MESSAGE, "content": content })),
            "tool" => made.events.push(json!({
                "type": kinds::AGENT_TOOL_RESULT, "content": content,
                "call_id": message.get("tool_call_id"), "name": message.get("name"),
            })),
            "assistant" => {
                if !content.is_empty() {
                    let event = json!({ "type": kinds::AGENT_MESSAGE, "content": content });
                    made.events.push(event);
                }
                for call in list(message, "tool_calls") {
                    made.call(call);
                }
            }
            _ => {}
        }
    }
    made
}

impl Talk {
    fn call(&mut self, call: &Value) {
        let text = |path: &str| call.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let input: Value = serde_json::from_str(text("/function/arguments")).unwrap_or_default();
        if is_write(text("/function/name")) {
            self.writes.push((self.events.len() as u64, scalars(&input)));
        }
        self.events.push(json!({
            "type": kinds::AGENT_TOOL_USE, "call_id": call.get("id"),
            "name": text("/function/name"), "input": input,
        }));
    }
}

/// Returns every text and number of a value.
pub(super) fn scalars(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Number(number) => vec![number.to_string()],
        Value::Array(values) => values.iter().flat_map(scalars).collect(),
        Value::Object(members) => members.values().flat_map(scalars).collect(),
        Value::Null | Value::Bool(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_cut_before_each_changing_call_with_its_values() {
        let call = |name: &str, input: Value| {
            json!({
                "id": "c", "function": { "name": name, "arguments": input.to_string() },
            })
        };
        let talk = json!({ "messages": [
            { "role": "system", "content": "policy" },
            { "role": "user", "content": "book it" },
            { "role": "assistant", "content": "so be it", "tool_calls": [
                call("get_user", json!({ "id": "u" })),
                call("book_flight", json!({ "id": ["f", { "bags": 2 }], "paid": true })),
            ] },
            { "role": "tool", "content": "done", "tool_call_id": "c" },
        ]});
        let made = events(&talk);
        assert_eq!(made.writes, [(3, vec!["f".to_owned(), "2".to_owned()])]);
        assert_eq!(made.events.len(), 5);
    }
}
