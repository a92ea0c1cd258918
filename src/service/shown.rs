//! Text that a person reads of an event that was found: its words, a record by its members, a call
//! of a tool as `$ command -> outcome`, and under what it printed the call that printed it. It must
//! not rank, and must not read a store.

use serde_json::{Map, Value};

use crate::{
    event::{Event, kinds, text::one_line},
    projection::body,
    search::{EventText, Query, Snippet, snippet},
};

/// Characters of a call, and of what came of it.
const CALL_CHARS: usize = 160;
const OUTCOME_CHARS: usize = 120;
/// Between a call and what came of it.
const ARROW: &str = " -> ";
/// Members by which a call names what it is about, the first that is there.
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

/// The part of a piece that matches, in at most so many bytes; `said` is the piece, and among
/// `events` are the calls and results that are near.
pub(super) fn shown(
    query: &Query,
    event: &Event,
    said: &str,
    events: &[Event],
    bytes_max: usize,
) -> Snippet {
    let kind = event.kind.as_str();
    if kinds::is_result(kind) {
        let answered = answered_by(event);
        let is_it =
            |other: &&Event| kinds::is_call(other.kind.as_str()) && id_of(other) == answered;
        let call = answered.as_ref().and_then(|_| events.iter().rev().find(is_it)).and_then(call);
        let found = snippet(query, said, bytes_max);
        return match call {
            Some(call) => after(&format!("{call}{ARROW}"), found),
            None => found,
        };
    }
    let Some(call) = call(event).filter(|_| kinds::is_call(kind)) else {
        return snippet(query, said, bytes_max);
    };
    let id = id_of(event);
    let is_it = |other: &&Event| kinds::is_result(other.kind.as_str()) && answered_by(other) == id;
    let outcome = events.iter().find(is_it).map(outcome).filter(|outcome| !outcome.is_empty());
    let outcome = outcome.map_or_else(String::new, |outcome| format!("{ARROW}{outcome}"));
    let whole = snippet(query, &call, bytes_max);
    let mut found = match whole.marks.is_empty() {
        false => whole,
        true => after(&format!("{call}: "), snippet(query, said, bytes_max)),
    };
    found.text.push_str(&outcome);
    found
}

/// Text of an event that was not looked for, in a line: nothing of one without words.
pub(super) fn beside(event: &Event) -> String {
    let words = shown_text(event);
    let call = call(event).filter(|_| kinds::is_call(event.kind.as_str()) && !words.is_empty());
    call.unwrap_or(words)
}

/// All that an event says.
pub(super) fn shown_text(event: &Event) -> String {
    item_text(event).unwrap_or_else(|| EventText::from_event(event).text.trim().to_owned())
}

/// Words of an event that is a record of members: its text, and the other members by their names;
/// `None` of messages, calls and whatever has words of its own.
pub(super) fn item_text(event: &Event) -> Option<String> {
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
        let said = words_of(value);
        (!said.is_empty()).then(|| format!("{name}: {said}"))
    });
    Some(text.map(str::to_owned).into_iter().chain(named).collect::<Vec<_>>().join("\n"))
}

/// The words of a value, without names.
fn words_of(value: &Value) -> String {
    let all = |values: &mut dyn Iterator<Item = &Value>, between: &str| {
        values.map(words_of).collect::<Vec<_>>().join(between)
    };
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(values) => all(&mut values.iter(), ", "),
        Value::Object(members) => all(&mut members.values(), " "),
        other => other.to_string(),
    }
}

/// A snippet behind a text that was not looked for.
fn after(head: &str, mut found: Snippet) -> Snippet {
    for mark in &mut found.marks {
        *mark = mark.start + head.len()..mark.end + head.len();
    }
    found.text.insert_str(0, head);
    found
}

/// A call in a line: `$ command`, or the tool and what it is about.
fn call(event: &Event) -> Option<String> {
    let body: Value = body::read_tree(&event.body)?;
    let input = body.get("input");
    let member = |name: &str| input.and_then(|input| input.get(name));
    let command = match member("command").or_else(|| member("cmd")) {
        Some(Value::String(line)) => Some(line.clone()),
        Some(Value::Array(words)) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            match words.as_slice() {
                [_, "-c" | "-lc", line] => Some((*line).to_owned()),
                words => Some(words.join(" ")),
            }
        }
        _ => None,
    };
    let line = command.map(|line| format!("$ {line}")).or_else(|| {
        let name = body.get("name").and_then(Value::as_str)?;
        let subject = SUBJECTS.iter().find_map(|name| member(name)?.as_str());
        let subject = subject.or_else(|| input?.as_str());
        Some(format!("{name} {}", subject.unwrap_or_default()))
    })?;
    Some(one_line(&line, CALL_CHARS))
}

/// Outcome of a call, in a line: the last that a tool said, where the result of a run stands.
fn outcome(result: &Event) -> String {
    let said = EventText::from_event(result);
    let last = said.text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    one_line(last, OUTCOME_CHARS)
}

/// The id by which the result of a call names it.
fn id_of(call: &Event) -> Option<String> {
    answered_by(call).or_else(|| Some(call.id.to_string()))
}

/// The id of the call that a result answers.
fn answered_by(result: &Event) -> Option<String> {
    const IDS: [&str; 4] = ["call_id", "tool_use_id", "mcp_tool_use_id", "custom_tool_use_id"];
    let body: Value = body::read_tree(&result.body)?;
    IDS.iter().find_map(|name| body.get(name)?.as_str().map(str::to_owned))
}
