//! Text shown for a found event: its text, a record by its members, or a tool call as `$ command ->
//! outcome`; output is preceded by its call. It must not rank, nor read a store.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::{
    event::{Event, kinds, text::one_line},
    projection::body,
    search::{EventText, PassageSnippet, Query, extract_snippet},
    traces::{shell_line, subagent_report},
};

/// Maximum characters of a call, and of its outcome.
const CALL_CHARS: usize = 160;
const OUTCOME_CHARS: usize = 120;
/// Separator of a call and its outcome.
const ARROW: &str = " -> ";
/// Members that may name the subject of a call, in order of preference.
const SUBJECTS: [&str; 12] = [
    "file_path",
    "path",
    "notebook_path",
    "url",
    "pattern",
    "query",
    "q",
    "prompt",
    "subject",
    "description",
    "name",
    "id",
];

/// Returns the matching part of a piece, within a number of bytes; `piece` is its text, and
/// `events` include nearby calls and results.
pub(super) fn format_match(
    query: &Query,
    event: &Event,
    piece: &str,
    events: &[Event],
    bytes_max: usize,
) -> PassageSnippet {
    let kind = event.kind.as_str();
    if kinds::is_result(kind) {
        let answered = answered_call_id(event);
        let is_it =
            |other: &&Event| kinds::is_call(other.kind.as_str()) && call_id(other) == answered;
        let call =
            answered.as_ref().and_then(|_| events.iter().rev().find(is_it)).and_then(format_call);
        let piece = subagent_report(piece).unwrap_or(Cow::Borrowed(piece));
        let found = extract_snippet(query, &piece, bytes_max);
        return match call {
            Some(call) => prepend(&format!("{call}{ARROW}"), found),
            None => found,
        };
    }
    let Some(call) = format_call(event).filter(|_| kinds::is_call(kind)) else {
        return extract_snippet(query, piece, bytes_max);
    };
    let id = call_id(event);
    let is_it =
        |other: &&Event| kinds::is_result(other.kind.as_str()) && answered_call_id(other) == id;
    let outcome =
        events.iter().find(is_it).map(format_outcome).filter(|outcome| !outcome.is_empty());
    let outcome = outcome.map_or_else(String::new, |outcome| format!("{ARROW}{outcome}"));
    let whole = extract_snippet(query, &call, bytes_max);
    let mut found = match whole.marks.is_empty() {
        false => whole,
        true => {
            let rest = skip_head(event, piece);
            prepend(&format!("{call}: "), extract_snippet(query, rest, bytes_max))
        }
    };
    found.text.push_str(&outcome);
    found
}

/// Returns the text of an adjacent event in one line; empty for one without text.
pub(super) fn neighbour_text(event: &Event) -> String {
    let words = full_text(event);
    let words = subagent_report(&words).map(Cow::into_owned).unwrap_or(words);
    let call =
        format_call(event).filter(|_| kinds::is_call(event.kind.as_str()) && !words.is_empty());
    call.unwrap_or(words)
}

pub(super) fn full_text(event: &Event) -> String {
    record_text(event).unwrap_or_else(|| EventText::from_event(event).text.trim().to_owned())
}

/// Returns the text of an event that is a record: its text member, and the other members by name;
/// `None` for messages, calls and other events with a text.
pub(super) fn record_text(event: &Event) -> Option<String> {
    const RECORDS: [&str; 5] = [
        kinds::MEMORY_ITEM,
        kinds::CONTEXT_ITEM,
        kinds::SOURCE_FOUND,
        kinds::FILE_REFERENCED,
        kinds::EVENT_MARKED,
    ];
    const TEXTS: [&str; 2] = ["text", "content"];
    const NOT_SHOWN: [&str; 7] =
        ["raw", "redactions", "of", "hash", "bytes", "position", "positions"];
    if !RECORDS.contains(&event.kind.as_str()) {
        return None;
    }
    let members: Map<String, Value> = body::read_tree(&event.body)?;
    let text = TEXTS.iter().find_map(|name| members.get(*name)?.as_str());
    let is_shown = |name: &str| !TEXTS.contains(&name) && !NOT_SHOWN.contains(&name);
    let named = members.iter().filter(|(name, _)| is_shown(name)).filter_map(|(name, value)| {
        let text = value_text(value);
        (!text.is_empty()).then(|| format!("{name}: {text}"))
    });
    Some(text.map(str::to_owned).into_iter().chain(named).collect::<Vec<_>>().join("\n"))
}

/// Returns the text of a value, without member names.
fn value_text(value: &Value) -> String {
    let all = |values: &mut dyn Iterator<Item = &Value>, between: &str| {
        values.map(value_text).collect::<Vec<_>>().join(between)
    };
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(values) => all(&mut values.iter(), ", "),
        Value::Object(members) => all(&mut members.values(), " "),
        other => other.to_string(),
    }
}

fn prepend(head: &str, mut found: PassageSnippet) -> PassageSnippet {
    for mark in &mut found.marks {
        *mark = mark.start + head.len()..mark.end + head.len();
    }
    found.text.insert_str(0, head);
    found
}

/// Formats a call in one line: `$ command`, or the tool and its subject.
fn format_call(event: &Event) -> Option<String> {
    let body: Value = body::read_tree(&event.body)?;
    let line = match command(&body) {
        Some(line) => format!("$ {line}"),
        None => format!("{} {}", tool_name(&body)?, subject(&body).unwrap_or_default()),
    };
    Some(one_line(&line, CALL_CHARS))
}

/// Returns a piece of a call's text without the tool and the subject at its beginning.
fn skip_head<'a>(call: &Event, piece: &'a str) -> &'a str {
    let Some(body) = body::read_tree::<Value>(&call.body) else { return piece };
    let command = command(&body);
    let head = [tool_name(&body), command.as_deref().or_else(|| subject(&body))];
    head.into_iter().flatten().fold(piece, |rest, part| {
        rest.strip_prefix(part).and_then(|rest| rest.strip_prefix('\n')).unwrap_or(rest)
    })
}

fn tool_name(body: &Value) -> Option<&str> {
    body.get("name")?.as_str()
}

/// Returns the command of a call's input, or that of a shell's arguments.
fn command(body: &Value) -> Option<String> {
    let input = body.get("input")?;
    let said = |name: &&str| input.get(*name).filter(|value| !value.is_null());
    shell_line(["command", "cmd"].iter().find_map(said)?)
}

fn subject(body: &Value) -> Option<&str> {
    let input = body.get("input")?;
    let named = SUBJECTS.iter().find_map(|name| input.get(name)?.as_str());
    named.or_else(|| input.as_str())
}

/// Formats the outcome of a call in one line: the last line of output.
fn format_outcome(result: &Event) -> String {
    let output = EventText::from_event(result);
    let text = subagent_report(&output.text).unwrap_or(Cow::Borrowed(&output.text));
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    one_line(last, OUTCOME_CHARS)
}

/// Returns the id by which a result references its call.
fn call_id(call: &Event) -> Option<String> {
    answered_call_id(call).or_else(|| Some(call.id.to_string()))
}

/// Returns the id of the call that a result belongs to.
fn answered_call_id(result: &Event) -> Option<String> {
    const IDS: [&str; 4] = ["call_id", "tool_use_id", "mcp_tool_use_id", "custom_tool_use_id"];
    let body: Value = body::read_tree(&result.body)?;
    IDS.iter().find_map(|name| body.get(name)?.as_str().map(str::to_owned))
}
