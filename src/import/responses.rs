//! Converts items of OpenAI's Responses API to events: messages, reasoning, calls and outputs,
//! alone or in lines of Codex. It must not keep state between items, nor parse a program's lines.

use serde_json::value::RawValue;

use super::{
    anthropic::Bodies,
    members::{JsonMembers, ObjectWriter, content_text, parse_list, quote},
};
use crate::{
    event::kinds,
    wire::{extract_typed_text, parse_refusal},
};

/// Members that list the kind of each block of a message, and the prefix of the user's kinds.
const KINDS: &str = "content_item_kinds";
const ABOUT_KINDS: [&str; 2] = ["internal_chat_message_metadata_passthrough", "metadata"];
const OF_A_PERSON: &str = "user.";

/// Calls that the client runs even if they have no `call_id`.
const OF_THE_CLIENT: [&str; 2] = ["local_shell_call", "function_call"];

/// Prefixes of the output of a call that failed before it ran, or was stopped.
const FAILURES: [&str; 6] = [
    "apply_patch verification failed",
    "exec_command failed",
    "CreateProcess failed",
    "failed to parse function arguments",
    "aborted",
    "Script failed",
];

/// Members that hold the result of a call that ran on the model's server.
const RESULT_MEMBERS: [&str; 5] = ["error", "output", "outputs", "results", "tools"];

/// Returns true if a line without a role is an item of the Responses API.
pub(super) fn is_item(line: &JsonMembers) -> bool {
    let kind = line.text("type").unwrap_or_default();
    let has_any = |names: &[&str]| names.iter().any(|name| line.raw(name).is_some());
    match kind.as_str() {
        "reasoning" => has_any(&["summary", "content", "encrypted_content"]),
        kind if kind.ends_with("_call_output") => has_any(&["call_id"]),
        kind if kind.ends_with("_call") => has_any(&["call_id", "status"]),
        _ => false,
    }
}

/// Returns the events of an item; empty for an item without conversation, call or output.
pub(super) fn bodies(item: &JsonMembers) -> Bodies {
    let kind = item.text("type").unwrap_or_default();
    match kind.as_str() {
        "message" => message_bodies(item),
        "reasoning" => {
            let mut body = ObjectWriter::new();
            let thought = item.non_null("content").or_else(|| item.non_null("summary"));
            body.add("content", thought.map_or("[]", RawValue::get));
            vec![(kinds::AGENT_THINKING, body)]
        }
        kind if kind.ends_with("_output") => vec![(kinds::AGENT_TOOL_RESULT, output_body(item))],
        kind if kind.ends_with("_call") => {
            let call = (kinds::AGENT_TOOL_USE, call_body(item, kind));
            let result = has_server_result(item, kind).then(|| server_result(item, kind));
            std::iter::once(call).chain(result).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the call id of a call or an output.
pub(super) fn call_id(item: &JsonMembers) -> Option<&RawValue> {
    item.non_null("call_id").or_else(|| item.non_null("id"))
}

fn message_bodies(item: &JsonMembers) -> Bodies {
    let (Some(content), Some(role)) = (item.non_null("content"), item.text("role")) else {
        return Vec::new();
    };
    let body_with = |kind: &'static str, content: &str| {
        let mut body = ObjectWriter::new();
        body.add("content", content);
        (kind, body)
    };
    match role.as_str() {
        "assistant" => vec![body_with(kinds::AGENT_MESSAGE, content.get())],
        "system" | "developer" => vec![body_with(kinds::SYSTEM_MESSAGE, content.get())],
        "user" => {
            let (program, person) = split_by_writer(item, content);
            let program = program.map(|content| body_with(kinds::SYSTEM_MESSAGE, &content));
            let person = person.map(|content| body_with(kinds::USER_MESSAGE, &content));
            program.into_iter().chain(person).collect()
        }
        _ => Vec::new(),
    }
}

/// Splits a user's content into the blocks that the program wrote and those that the user wrote, by
/// the kinds that the item lists, or else by their text.
fn split_by_writer(item: &JsonMembers, content: &RawValue) -> (Option<String>, Option<String>) {
    let whole = || Some(content.get().to_owned());
    let Some(blocks) = parse_list::<Box<RawValue>>(content) else {
        return if is_typed(content) { (None, whole()) } else { (whole(), None) };
    };
    let kinds = ABOUT_KINDS.iter().find_map(|name| {
        let about = JsonMembers::read(item.non_null(name)?.get()).ok()?;
        parse_list::<String>(about.non_null(KINDS)?)
    });
    let kinds = kinds.unwrap_or_default();
    let is_paired = kinds.len() == blocks.len();
    let any = kinds.iter().any(|kind| kind.starts_with(OF_A_PERSON));
    let is_person = |(at, block): (usize, &str)| match kinds.get(at) {
        Some(kind) if is_paired && kind != "unknown" => kind.starts_with(OF_A_PERSON),
        // If kinds and blocks differ in number, kinds show only if the user wrote any block.
        Some(_) if !is_paired && !any => false,
        _ => is_typed(&json_list([block])),
    };
    let texts = blocks.iter().map(|block| block.get());
    let is_typed: Vec<bool> = texts.enumerate().map(is_person).collect();
    let blocks_of = |wanted: bool| {
        let of = blocks.iter().zip(&is_typed).filter(|(_, is)| **is == wanted);
        let texts: Vec<&str> = of.map(|(block, _)| block.get()).collect();
        (!texts.is_empty()).then(|| json_list(texts).get().to_owned())
    };
    match is_typed.iter().any(|is| *is) {
        true => (blocks_of(false), blocks_of(true)),
        false => (whole(), None),
    }
}

fn json_list<'a>(blocks: impl IntoIterator<Item = &'a str>) -> Box<RawValue> {
    let text = format!("[{}]", blocks.into_iter().collect::<Vec<_>>().join(","));
    RawValue::from_string(text).expect("a list of JSON values is JSON")
}

/// Returns true if the user wrote a part of a content: one without text is the user's attachment, a
/// single element with a compound name is the program's.
fn is_typed(content: &RawValue) -> bool {
    let text = content_text(content);
    let text = text.trim();
    text.is_empty() || !is_element(text) && !extract_typed_text(content).is_empty()
}

/// Returns true if a text is one XML element: `<compound_name …>…</compound_name>`.
fn is_element(text: &str) -> bool {
    let rest = text.strip_prefix('<').unwrap_or_default();
    let is_part = |c: char| c.is_ascii_lowercase() || c == '_' || c == '-';
    let name = rest.split(|c: char| !is_part(c)).next().unwrap_or_default();
    let end = text.strip_suffix('>').and_then(|text| text.strip_suffix(name));
    name.contains(['_', '-']) && end.is_some_and(|text| text.ends_with("</"))
}

fn call_body(item: &JsonMembers, kind: &str) -> ObjectWriter {
    let mut body = ObjectWriter::new();
    let name = item.non_null("name").map(|name| name.get().to_owned());
    body.add("name", &name.unwrap_or_else(|| quote(kind.trim_end_matches("_call"))));
    if let Some(server) = item.non_null("server_label") {
        body.add("server", server.get());
    }
    body.add("input", &call_input(item));
    if let Some(id) = call_id(item) {
        body.add("call_id", id.get());
    }
    body
}

/// Returns a call's input as JSON: arguments that are not valid JSON become a string.
fn call_input(item: &JsonMembers) -> String {
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
fn has_server_result(item: &JsonMembers, kind: &str) -> bool {
    let is_over = item.text("status").is_none_or(|status| status != "in_progress");
    let has_result = RESULT_MEMBERS.iter().any(|name| item.non_null(name).is_some());
    item.non_null("call_id").is_none()
        && !OF_THE_CLIENT.contains(&kind)
        && is_over
        && (item.non_null("status").is_some() || has_result)
}

fn server_result(item: &JsonMembers, kind: &str) -> (&'static str, ObjectWriter) {
    let mut body = ObjectWriter::new();
    match item.non_null("id") {
        Some(id) => body.add("call_id", id.get()),
        None => body.add("name", &quote(kind.trim_end_matches("_call"))),
    }
    let status = item.text("status").unwrap_or_else(|| "completed".to_owned());
    let came = RESULT_MEMBERS.iter().find_map(|name| item.non_null(name));
    body.add("content", &came.map_or_else(|| quote(&status), |came| came.get().to_owned()));
    if status == "failed" || item.non_null("error").is_some() {
        body.add("is_error", "true");
    }
    (kinds::AGENT_TOOL_RESULT, body)
}

fn output_body(item: &JsonMembers) -> ObjectWriter {
    let mut body = ObjectWriter::new();
    if let Some(id) = item.non_null("call_id") {
        body.add("call_id", id.get());
    }
    let Some(output) = item.non_null("output").or_else(|| item.non_null("tools")) else {
        return body;
    };
    // In older rollouts the output is an object with content and status.
    let parts = JsonMembers::read(output.get()).ok();
    let content = parts.as_ref().and_then(|parts| parts.non_null("content")).unwrap_or(output);
    body.add("content", content.get());
    let success = parts.as_ref().and_then(|parts| parts.raw("success"));
    let text = content_text(content);
    let by = parse_refusal(&text).map(|refused| refused.by);
    by.into_iter().for_each(|by| body.add("refused", &quote(by)));
    let is_failed = success.is_some_and(|value| value.get() == "false") || by.is_some();
    if is_failed
        || FAILURES.iter().any(|begins| text.starts_with(begins))
        || has_error_exit_code(&text)
    {
        body.add("is_error", "true");
    }
    body
}

/// Returns true if the head of an output, before the tool's text, has an exit code other than 0.
fn has_error_exit_code(text: &str) -> bool {
    const MARKS: [&str; 2] = ["Exit code: ", "Process exited with code "];
    if text.starts_with('{') {
        let metadata = JsonMembers::read(text).ok().and_then(|whole| {
            JsonMembers::read(whole.non_null("metadata")?.get()).ok()?.value("exit_code")?.as_i64()
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
