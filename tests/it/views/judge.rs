//! Requests that the two model APIs reject, and the cost of a conversation: written from the APIs'
//! documents and not from the tested code.

use std::collections::HashSet;

use serde_json::Value;
use sessionlog::harness::{Counter as _, Tokenizer};

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("{name} is no text: {value}"))
}

fn check_not_blank(words: &str, whole: &Value) {
    assert!(!words.trim().is_empty(), "an empty text: {whole}");
}

fn check_id(id: &str, max: usize) {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    assert!(!id.is_empty() && id.len() <= max && id.chars().all(plain), "{id:?}");
}

/// Panics on a request that `POST /v1/messages` rejects.
pub fn anthropic(answer: &Value) {
    for block in answer["system"].as_array().unwrap() {
        assert_eq!(block["type"], "text");
        check_not_blank(text(block, "text"), block);
    }
    let messages = answer["messages"].as_array().unwrap();
    let mut called: Vec<String> = Vec::new();
    let mut known = HashSet::new();
    for (index, message) in messages.iter().enumerate() {
        let role = text(message, "role");
        assert_eq!(role, if index % 2 == 0 { "user" } else { "assistant" }, "{answer}");
        let content = message["content"].as_array().unwrap();
        assert!(!content.is_empty(), "a message of nothing: {answer}");
        let mut answered = Vec::new();
        let mut other = false;
        let mut calls = Vec::new();
        for block in content {
            match (text(block, "type"), role) {
                ("text", _) => check_not_blank(text(block, "text"), block),
                ("image", "user") => check_image(block),
                ("tool_use", "assistant") => {
                    let id = text(block, "id");
                    check_id(id, 64);
                    check_id(text(block, "name"), 128);
                    assert!(block["input"].is_object(), "{block}");
                    assert!(known.insert(id.to_owned()), "an id twice: {id}");
                    calls.push(id.to_owned());
                }
                ("tool_result", "user") => {
                    assert!(!other, "results come first: {message}");
                    answered.push(text(block, "tool_use_id").to_owned());
                    let parts = block["content"].as_array().unwrap();
                    assert!(!parts.is_empty(), "{block}");
                    for part in parts {
                        match text(part, "type") {
                            "text" => check_not_blank(text(part, "text"), part),
                            _ => check_image(part),
                        }
                    }
                }
                _ => panic!("not in a message of {role}: {block}"),
            }
            other |= block["type"] != "tool_result";
        }
        answered.sort();
        called.sort();
        assert_eq!(answered, called, "each call is answered by the next message: {answer}");
        called = calls;
    }
    assert!(called.is_empty(), "a call at the end that nobody answers: {answer}");
    if let Some(last) = messages.last().filter(|last| last["role"] == "assistant") {
        let last = last["content"].as_array().unwrap().last().unwrap();
        assert_eq!(text(last, "text"), text(last, "text").trim_end(), "{last}");
    }
}

fn check_image(block: &Value) {
    let source = &block["source"];
    let needed: &[&str] = match text(source, "type") {
        "url" => &["url"],
        _ => &["media_type", "data"],
    };
    assert!(needed.iter().all(|name| source[name].is_string()), "{block}");
}

/// Panics on a request that `POST /v1/chat/completions` rejects.
pub fn openai(answer: &Value) {
    let messages = answer["messages"].as_array().unwrap();
    let mut waiting: Vec<String> = Vec::new();
    let mut begun = false;
    for message in messages {
        let role = text(message, "role");
        if role != "tool" {
            assert!(waiting.is_empty(), "{waiting:?} have no answer: {answer}");
        }
        match role {
            "system" => {
                assert!(!begun, "a system message in the middle: {answer}");
                check_not_blank(text(message, "content"), message);
            }
            "user" => match &message["content"] {
                Value::String(words) => check_not_blank(words, message),
                parts => assert!(!parts.as_array().unwrap().is_empty(), "{message}"),
            },
            "assistant" => {
                assert!(begun, "a person begins: {answer}");
                let calls = message["tool_calls"].as_array();
                match &message["content"] {
                    Value::Null => assert!(calls.is_some(), "{message}"),
                    words => check_not_blank(words.as_str().unwrap(), message),
                }
                for call in calls.into_iter().flatten() {
                    check_id(text(call, "id"), 40);
                    check_id(text(&call["function"], "name"), 64);
                    assert!(call["function"]["arguments"].is_string(), "{call}");
                    waiting.push(text(call, "id").to_owned());
                }
            }
            "tool" => {
                let id = text(message, "tool_call_id");
                let at = waiting.iter().position(|one| one == id);
                waiting.remove(at.unwrap_or_else(|| panic!("{id} was not called: {answer}")));
                check_not_blank(text(message, "content"), message);
            }
            _ => panic!("{message}"),
        }
        begun |= role != "system";
    }
    assert!(waiting.is_empty(), "{waiting:?} have no answer: {answer}");
}

/// Returns the tokens of a conversation by the published rules: every text in it, three for each
/// message and three for the whole; pictures at their highest price.
pub fn price(answer: &Value, tokenizer: Tokenizer) -> usize {
    fn walk(value: &Value, tokenizer: Tokenizer) -> usize {
        match value {
            Value::Object(members)
                if members.get("type").is_some_and(|kind| kind == "image")
                    || members.contains_key("image_url") =>
            {
                1_600
            }
            Value::Object(members) => members
                .iter()
                .filter(|(name, _)| !matches!(name.as_str(), "type" | "is_error"))
                .map(|(name, value)| match (name.as_str(), value) {
                    ("input", input) => tokenizer.count(&input.to_string()),
                    _ => walk(value, tokenizer),
                })
                .sum(),
            Value::Array(all) => all.iter().map(|one| walk(one, tokenizer)).sum(),
            Value::String(text) => tokenizer.count(text),
            _ => 0,
        }
    }
    let messages = answer["messages"].as_array().unwrap();
    let roles = messages.iter().map(|message| tokenizer.count(text(message, "role")));
    let roles: usize = roles.sum();
    let system = walk(&answer["system"], tokenizer);
    3 + system + walk(&answer["messages"], tokenizer) - roles + 4 * messages.len()
}
