//! Lines of a Codex rollout to events. The items of the conversation are read; the program's
//! display events about them (`event_msg`) are kept, not read twice. It must not name events.

use serde_json::value::RawValue;

use super::{
    anthropic::Bodies,
    members::{Members, Object, quote, text_of},
};
use crate::event::kinds;

/// How messages begin that the program puts before the first one of the user.
const PREAMBLES: [&str; 5] = [
    "<environment_context>",
    "<user_instructions>",
    "<permissions",
    "# AGENTS.md",
    "<INSTRUCTIONS>",
];

/// The events of a line; empty when it has no meaning for a reader of the session.
pub(super) fn bodies(line: &Members) -> Bodies {
    let payload = line.some("payload").and_then(|payload| Members::read(payload.get()).ok());
    let Some(payload) = payload else { return Vec::new() };
    match line.text("type").as_deref() {
        Some("response_item") => item(&payload),
        Some("compacted") => {
            let mut body = Object::new();
            body.add("trigger", "\"auto\"");
            if let Some(summary) = payload.some("message") {
                body.add("summary", summary.get());
            }
            vec![(kinds::CONTEXT_COMPACTED, body)]
        }
        _ => Vec::new(),
    }
}

fn item(item: &Members) -> Bodies {
    let kind = item.text("type").unwrap_or_default();
    let body = match kind.as_str() {
        "message" => match message(item) {
            Some(body) => body,
            None => return Vec::new(),
        },
        "reasoning" => {
            let mut body = Object::new();
            let thought = item.some("content").or_else(|| item.some("summary"));
            body.add("content", thought.map_or("[]", RawValue::get));
            (kinds::AGENT_THINKING, body)
        }
        kind if kind.ends_with("_output") => (kinds::AGENT_TOOL_RESULT, output(item)),
        kind if kind.ends_with("_call") => (kinds::AGENT_TOOL_USE, call(item, kind)),
        _ => return Vec::new(),
    };
    vec![body]
}

fn message(item: &Members) -> Option<(&'static str, Object)> {
    let content = item.some("content")?;
    let kind = match item.text("role").as_deref()? {
        "assistant" => kinds::AGENT_MESSAGE,
        "user"
            if PREAMBLES.iter().any(|begin| text_of(content).trim_start().starts_with(begin)) =>
        {
            kinds::SYSTEM_MESSAGE
        }
        "user" => kinds::USER_MESSAGE,
        "system" | "developer" => kinds::SYSTEM_MESSAGE,
        _ => return None,
    };
    let mut body = Object::new();
    body.add("content", content.get());
    Some((kind, body))
}

fn call(item: &Members, kind: &str) -> Object {
    let mut body = Object::new();
    let name = item.some("name").map(|name| name.get().to_owned());
    body.add("name", &name.unwrap_or_else(|| quote(kind.trim_end_matches("_call"))));
    // Arguments are a text that holds JSON; what does not parse is an input all the same.
    let input = match item.text("arguments") {
        Some(text) if serde_json::from_str::<&RawValue>(text.trim()).is_ok() => {
            text.trim().to_owned()
        }
        Some(text) => quote(&text),
        None => {
            let input = item.some("input").or_else(|| item.some("action"));
            input.map_or_else(|| "{}".to_owned(), |input| input.get().to_owned())
        }
    };
    body.add("input", &input);
    if let Some(id) = item.some("call_id").or_else(|| item.some("id")) {
        body.add("call_id", id.get());
    }
    body
}

fn output(item: &Members) -> Object {
    let mut body = Object::new();
    if let Some(id) = item.some("call_id") {
        body.add("call_id", id.get());
    }
    let Some(output) = item.some("output") else { return body };
    // Older rollouts have the status beside the content.
    let parts = Members::read(output.get()).ok();
    let content = parts.as_ref().and_then(|parts| parts.some("content")).unwrap_or(output);
    body.add("content", content.get());
    if parts.is_some_and(|parts| parts.raw("success").is_some_and(|said| said.get() == "false")) {
        body.add("is_error", "true");
    }
    body
}
