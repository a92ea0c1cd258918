//! Items of OpenAI's Responses API to events: messages, thoughts, calls and their outputs, alone or
//! in the lines of Codex. It must not keep state between items, nor parse a program's lines.

use serde_json::value::RawValue;

use super::{
    anthropic::Bodies,
    members::{Members, Object, listed, quote, text_of},
};
use crate::{
    event::kinds,
    wire::{refused, typed_by_person},
};

/// Members that list the kind of each block of a message, and the prefix of a user's kinds.
const KINDS: &str = "content_item_kinds";
const ABOUT_KINDS: [&str; 2] = ["internal_chat_message_metadata_passthrough", "metadata"];
const OF_A_PERSON: &str = "user.";

/// Calls that the client runs even if they have no `call_id`.
const OF_THE_CLIENT: [&str; 2] = ["local_shell_call", "function_call"];

/// First words of the output of a call that failed before it ran, or was stopped.
const FAILURES: [&str; 6] = [
    "apply_patch verification failed",
    "exec_command failed",
    "CreateProcess failed",
    "failed to parse function arguments",
    "aborted",
    "Script failed",
];

/// Members that hold the result of a call that ran on the model's server.
const CAME_OF_IT: [&str; 5] = ["error", "output", "outputs", "results", "tools"];

/// Returns true if a line without a role is an item of the Responses API.
pub(super) fn is_item(line: &Members) -> bool {
    let kind = line.text("type").unwrap_or_default();
    let says = |names: &[&str]| names.iter().any(|name| line.raw(name).is_some());
    match kind.as_str() {
        "reasoning" => says(&["summary", "content", "encrypted_content"]),
        kind if kind.ends_with("_call_output") => says(&["call_id"]),
        kind if kind.ends_with("_call") => says(&["call_id", "status"]),
        _ => false,
    }
}

/// Returns the events of an item; empty when it has no meaning for a reader of the session.
pub(super) fn bodies(item: &Members) -> Bodies {
    let kind = item.text("type").unwrap_or_default();
    match kind.as_str() {
        "message" => message(item),
        "reasoning" => {
            let mut body = Object::new();
            let thought = item.non_null("content").or_else(|| item.non_null("summary"));
            body.add("content", thought.map_or("[]", RawValue::get));
            vec![(kinds::AGENT_THINKING, body)]
        }
        kind if kind.ends_with("_output") => vec![(kinds::AGENT_TOOL_RESULT, output(item))],
        kind if kind.ends_with("_call") => {
            let call = (kinds::AGENT_TOOL_USE, call(item, kind));
            let result = is_answered(item, kind).then(|| own_result(item, kind));
            std::iter::once(call).chain(result).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the id of the call, from a call or its output.
pub(super) fn call_id(item: &Members) -> Option<&RawValue> {
    item.non_null("call_id").or_else(|| item.non_null("id"))
}

fn message(item: &Members) -> Bodies {
    let (Some(content), Some(role)) = (item.non_null("content"), item.text("role")) else {
        return Vec::new();
    };
    let said = |kind: &'static str, content: &str| {
        let mut body = Object::new();
        body.add("content", content);
        (kind, body)
    };
    match role.as_str() {
        "assistant" => vec![said(kinds::AGENT_MESSAGE, content.get())],
        "system" | "developer" => vec![said(kinds::SYSTEM_MESSAGE, content.get())],
        "user" => {
            let (program, person) = by_writer(item, content);
            let program = program.map(|content| said(kinds::SYSTEM_MESSAGE, &content));
            let person = person.map(|content| said(kinds::USER_MESSAGE, &content));
            program.into_iter().chain(person).collect()
        }
        _ => Vec::new(),
    }
}

/// Splits a user's content into the program's blocks and the user's: by the kinds that the item
/// lists, or else by the text.
fn by_writer(item: &Members, content: &RawValue) -> (Option<String>, Option<String>) {
    let whole = || Some(content.get().to_owned());
    let Some(blocks) = listed::<Box<RawValue>>(content) else {
        return if is_typed(content) { (None, whole()) } else { (whole(), None) };
    };
    let kinds = ABOUT_KINDS.iter().find_map(|name| {
        let about = Members::read(item.non_null(name)?.get()).ok()?;
        listed::<String>(about.non_null(KINDS)?)
    });
    let kinds = kinds.unwrap_or_default();
    let is_paired = kinds.len() == blocks.len();
    let any = kinds.iter().any(|kind| kind.starts_with(OF_A_PERSON));
    let is_person = |(at, block): (usize, &str)| match kinds.get(at) {
        Some(kind) if is_paired && kind != "unknown" => kind.starts_with(OF_A_PERSON),
        // Kinds that do not match the blocks only tell if the user wrote any block.
        Some(_) if !is_paired && !any => false,
        _ => is_typed(&list_of([block])),
    };
    let texts = blocks.iter().map(|block| block.get());
    let said: Vec<bool> = texts.enumerate().map(is_person).collect();
    let those = |wanted: bool| {
        let of = blocks.iter().zip(&said).filter(|(_, is)| **is == wanted);
        let texts: Vec<&str> = of.map(|(block, _)| block.get()).collect();
        (!texts.is_empty()).then(|| list_of(texts).get().to_owned())
    };
    match said.iter().any(|is| *is) {
        true => (those(false), those(true)),
        false => (whole(), None),
    }
}

fn list_of<'a>(blocks: impl IntoIterator<Item = &'a str>) -> Box<RawValue> {
    let text = format!("[{}]", blocks.into_iter().collect::<Vec<_>>().join(","));
    RawValue::from_string(text).expect("a list of JSON values is JSON")
}

/// Returns true if the user wrote some of a content. A content without text is a user's attachment;
/// a single element with a compound name is the program's.
fn is_typed(content: &RawValue) -> bool {
    let text = text_of(content);
    let text = text.trim();
    text.is_empty() || !is_element(text) && !typed_by_person(content).is_empty()
}

/// Returns true if a text is one element, as `<compound_name …>…</compound_name>`.
fn is_element(text: &str) -> bool {
    let rest = text.strip_prefix('<').unwrap_or_default();
    let is_part = |c: char| c.is_ascii_lowercase() || c == '_' || c == '-';
    let name = rest.split(|c: char| !is_part(c)).next().unwrap_or_default();
    let end = text.strip_suffix('>').and_then(|text| text.strip_suffix(name));
    name.contains(['_', '-']) && end.is_some_and(|text| text.ends_with("</"))
}

fn call(item: &Members, kind: &str) -> Object {
    let mut body = Object::new();
    let name = item.non_null("name").map(|name| name.get().to_owned());
    body.add("name", &name.unwrap_or_else(|| quote(kind.trim_end_matches("_call"))));
    if let Some(server) = item.non_null("server_label") {
        body.add("server", server.get());
    }
    body.add("input", &input(item));
    if let Some(id) = call_id(item) {
        body.add("call_id", id.get());
    }
    body
}

/// Returns a call's input: arguments are a text that holds JSON; other text becomes a string.
fn input(item: &Members) -> String {
    match item.text("arguments") {
        Some(text) if serde_json::from_str::<&RawValue>(text.trim()).is_ok() => {
            text.trim().to_owned()
        }
        Some(text) => quote(&text),
        None => {
            let names = ["arguments", "input", "action", "queries", "code", "revised_prompt"];
            let input = names.iter().find_map(|name| item.non_null(name));
            input.map_or_else(|| "{}".to_owned(), |input| input.get().to_owned())
        }
    }
}

/// Returns true if a call ran on the model's server and has no output item.
fn is_answered(item: &Members, kind: &str) -> bool {
    let is_over = item.text("status").is_none_or(|status| status != "in_progress");
    let has_result = CAME_OF_IT.iter().any(|name| item.non_null(name).is_some());
    item.non_null("call_id").is_none()
        && !OF_THE_CLIENT.contains(&kind)
        && is_over
        && (item.non_null("status").is_some() || has_result)
}

fn own_result(item: &Members, kind: &str) -> (&'static str, Object) {
    let mut body = Object::new();
    match item.non_null("id") {
        Some(id) => body.add("call_id", id.get()),
        None => body.add("name", &quote(kind.trim_end_matches("_call"))),
    }
    let status = item.text("status").unwrap_or_else(|| "completed".to_owned());
    let came = CAME_OF_IT.iter().find_map(|name| item.non_null(name));
    body.add("content", &came.map_or_else(|| quote(&status), |came| came.get().to_owned()));
    if status == "failed" || item.non_null("error").is_some() {
        body.add("is_error", "true");
    }
    (kinds::AGENT_TOOL_RESULT, body)
}

fn output(item: &Members) -> Object {
    let mut body = Object::new();
    if let Some(id) = item.non_null("call_id") {
        body.add("call_id", id.get());
    }
    let Some(output) = item.non_null("output").or_else(|| item.non_null("tools")) else {
        return body;
    };
    // Older rollouts have the status next to the content.
    let parts = Members::read(output.get()).ok();
    let content = parts.as_ref().and_then(|parts| parts.non_null("content")).unwrap_or(output);
    body.add("content", content.get());
    let success = parts.as_ref().and_then(|parts| parts.raw("success"));
    let text = text_of(content);
    let by = refused(&text).map(|refused| refused.by);
    by.into_iter().for_each(|by| body.add("refused", &quote(by)));
    let is_failed = success.is_some_and(|said| said.get() == "false") || by.is_some();
    if is_failed || FAILURES.iter().any(|begins| text.starts_with(begins)) || reports_code(&text) {
        body.add("is_error", "true");
    }
    body
}

/// Returns true if the head of an output, before the tool's own, has an exit code other than 0.
fn reports_code(text: &str) -> bool {
    const MARKS: [&str; 2] = ["Exit code: ", "Process exited with code "];
    if text.starts_with('{') {
        let metadata = Members::read(text).ok().and_then(|whole| {
            Members::read(whole.non_null("metadata")?.get()).ok()?.value("exit_code")?.as_i64()
        });
        return metadata.is_some_and(|code| code != 0);
    }
    let head = text.lines().take_while(|line| *line != "Output:").take(6);
    let code = |line: &str| {
        let rest = MARKS.iter().find_map(|mark| line.strip_prefix(mark))?;
        rest.trim().parse::<i64>().ok()
    };
    head.filter_map(code).next().is_some_and(|code| code != 0)
}
