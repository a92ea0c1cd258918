//! Formats an event as text for a reader: known types as sentences, other types with their members
//! by name. It must not print JSON, nor shorten.

use serde_json::{Map, Value};

pub(in crate::cli) use super::members::{format_members, member_label};
use crate::cli::times::format_duration;
use crate::event::kinds;

/// Members that locate an event and describe its recording, not its content.
const ENVELOPE: [&str; 15] = [
    "id",
    "type",
    "position",
    "processed_at",
    "created_at",
    "origin",
    "raw",
    "raw_in",
    "raw_before",
    "raw_after",
    "call_id",
    "tool_use_id",
    "mcp_tool_use_id",
    "custom_tool_use_id",
    "redacted",
];
/// Maximum characters of a call on one line.
pub(super) const CALL_CHARS: usize = 72;

/// Returns a text member; empty if it is absent.
pub(in crate::cli) fn text_of<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a numeric member.
pub(in crate::cli) fn number_of(value: &Value, name: &str) -> Option<u64> {
    value.get(name).and_then(Value::as_u64)
}

/// Returns the items of a list member; none if it is absent.
pub(in crate::cli) fn list_of<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns true if a member is the JSON value `true`.
pub(in crate::cli) fn is_true(value: &Value, name: &str) -> bool {
    value.get(name).and_then(Value::as_bool) == Some(true)
}

/// Formats a count with a space between thousands.
pub(in crate::cli) fn group_digits(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with its noun, in the plural unless it is 1.
pub(in crate::cli) fn count_of(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{} {one}s", group_digits(count)) }
}

/// Formats the positions of a half-open range: `10–63`, or `10`.
pub(in crate::cli) fn format_span(from: u64, to: u64) -> String {
    match to.saturating_sub(1) {
        last if last <= from => from.to_string(),
        last => format!("{from}–{last}"),
    }
}

/// Parses the bounds of a range in the forms that clients use: `{"from":1,"to":5}` or `[1,5]`.
fn parse_bounds(range: &Value) -> Option<(u64, u64)> {
    let pair = match range {
        Value::Array(pair) => (pair.first()?, pair.get(1)?),
        _ => (range.get("from")?, range.get("to")?),
    };
    Some((pair.0.as_u64()?, pair.1.as_u64()?))
}

/// Formats ranges with their count: `10–63, 70 (55 events)`; `None` when there are none.
pub(in crate::cli) fn format_ranges(all: &[Value], of: &str) -> Option<String> {
    let all: Vec<(u64, u64)> = all.iter().filter_map(parse_bounds).collect();
    let count: u64 = all.iter().map(|(from, to)| to.saturating_sub(*from)).sum();
    let spans: Vec<String> = all.iter().map(|(from, to)| format_span(*from, *to)).collect();
    (!spans.is_empty()).then(|| format!("{} ({})", spans.join(", "), count_of(count, of)))
}

/// Describes an event, one fact a line.
pub(in crate::cli) fn describe_event(event: &Value) -> String {
    let kind = text_of(event, "type");
    let lines = match kind {
        kinds::AGENT_TOOL_USE | kinds::AGENT_MCP_TOOL_USE | kinds::AGENT_CUSTOM_TOOL_USE => {
            vec![format_call(event)]
        }
        kinds::AGENT_TOOL_RESULT
        | kinds::AGENT_MCP_TOOL_RESULT
        | kinds::USER_TOOL_RESULT
        | kinds::USER_CUSTOM_TOOL_RESULT => describe_result(event),
        kinds::RESEARCH_STEP => describe_step(event),
        kinds::RESEARCH_GOAL => label_members(event, &[("Goal", "goal")]),
        kinds::RESEARCH_SUMMARY => label_members(event, &[("Summary", "summary")]),
        kinds::RESEARCH_GAP_OPENED => label_members(event, &[("Open question", "description")]),
        kinds::RESEARCH_GAP_CLOSED => describe_gap_closed(event),
        kinds::SOURCE_FOUND => vec![format!("Source: {}", format_source(event))],
        kinds::PLAN_UPDATED => format_check_boxes(event),
        kinds::OUTCOME_RECORDED => describe_outcome(event),
        kinds::MEMORY_ITEM => describe_memory(event),
        kinds::CONTEXT_COMPACTED => describe_compaction(event),
        kinds::CONTEXT_INJECTED => describe_injected_text(event),
        kinds::CONTEXT_THRESHOLD => describe_threshold(event),
        kinds::SPAN_MODEL_REQUEST_END => describe_request(event),
        kinds::SESSION_STATUS_RUNNING
        | kinds::SESSION_STATUS_IDLE
        | kinds::SESSION_STATUS_RESCHEDULED
        | kinds::SESSION_STATUS_TERMINATED => describe_status(kind, event),
        _ => describe_unknown_event(event),
    };
    let lines: Vec<String> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    if lines.is_empty() && kind != "gap" {
        describe_unknown_event(event).join("\n")
    } else {
        lines.join("\n")
    }
}

/// Formats a line that a view made of an event of a type: converts the JSON of a body, or of a
/// call's arguments, to text. A line that was cut is returned unchanged.
pub(in crate::cli) fn format_view_line(kind: &str, line: &str) -> String {
    let object = |text: &str| serde_json::from_str::<Map<String, Value>>(text).ok();
    let call = || {
        let (name, given) = line.split_once(' ')?;
        Some(format_arguments(name, &Value::Object(object(given)?)))
    };
    let body = || {
        let mut body = object(line)?;
        body.insert("type".to_owned(), Value::from(kind));
        Some(describe_event(&Value::Object(body)))
    };
    let words = body().or_else(call).unwrap_or_else(|| line.to_owned());
    words.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

/// Formats members that are texts, each after its label.
fn label_members(event: &Value, labels: &[(&str, &str)]) -> Vec<String> {
    let said = labels.iter().map(|(label, name)| (label, text_of(event, name)));
    said.filter(|(_, text)| !text.is_empty())
        .map(|(label, text)| format!("{label}: {text}"))
        .collect()
}

/// Returns the text of a message, of its blocks, or of the result of a tool.
pub(in crate::cli) fn content_text(content: &Value) -> String {
    match content {
        Value::Array(blocks) => {
            let blocks = blocks.iter().map(format_block).filter(|text| !text.is_empty());
            blocks.collect::<Vec<_>>().join("\n")
        }
        Value::Object(_) => format_block(content),
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Formats a block of a message.
fn format_block(block: &Value) -> String {
    match text_of(block, "type") {
        "tool_use" | "server_tool_use" | "mcp_tool_use" => format_call(block),
        "tool_result" => describe_result(block).join("\n"),
        "thinking" => format!("(thinking) {}", text_of(block, "thinking")),
        kind if kinds::is_picture(kind) => "[image]".to_owned(),
        "document" | "file" => {
            format!("[document] {}", text_of(block, "title")).trim_end().to_owned()
        }
        _ => match block {
            Value::String(text) => text.clone(),
            _ if block.get("text").is_some_and(Value::is_string) => {
                text_of(block, "text").to_owned()
            }
            _ => format_members(block, &["type", "cache_control"]).join("\n"),
        },
    }
}

/// Formats a call of a tool: its name and its arguments.
pub(in crate::cli) fn format_call(call: &Value) -> String {
    let name = Some(text_of(call, "name")).filter(|name| !name.is_empty()).unwrap_or("(no name)");
    let given = call.get("input").or_else(|| call.get("arguments")).unwrap_or(&Value::Null);
    format_arguments(name, given)
}

/// Formats a name and arguments, on one line where they fit it, else one argument a line. Arguments
/// written as JSON text are parsed.
pub(in crate::cli) fn format_arguments(name: &str, given: &Value) -> String {
    let read: Option<Value> = given.as_str().and_then(|text| serde_json::from_str(text).ok());
    let given = read.as_ref().filter(|read| read.is_object()).unwrap_or(given);
    let lines = match given {
        Value::String(text) => text.lines().map(str::to_owned).collect(),
        Value::Null => Vec::new(),
        _ => format_members(given, &[]),
    };
    let one: String = lines.join(", ");
    let flat = !lines.iter().any(|line| line.starts_with(' ') || line.contains('\n'));
    match one.chars().count() {
        0 => name.to_owned(),
        count if flat && count + name.chars().count() <= CALL_CHARS => format!("{name}  {one}"),
        _ => {
            let lines = lines.iter().map(|line| format!("\n  {}", line.replace('\n', "\n    ")));
            format!("{name}{}", lines.collect::<String>())
        }
    }
}

fn describe_result(event: &Value) -> Vec<String> {
    let text = content_text(event.get("content").unwrap_or(&Value::Null));
    let text = if text.is_empty() { "(no output)".to_owned() } else { text };
    vec![if is_true(event, "is_error") { format!("Error: {text}") } else { text }]
}

/// Formats the details of a step: branch, confidence, the step it supersedes.
pub(in crate::cli) fn format_step_details(step: &Value) -> String {
    let branch = Some(text_of(step, "branch_id")).filter(|name| !name.is_empty());
    let from =
        number_of(step, "branch_from").map(|n| format!(" from step {n}")).unwrap_or_default();
    let confidence = Some(text_of(step, "confidence")).filter(|word| !word.is_empty());
    let is_final = is_true(step, "is_final") || is_true(step, "final");
    let said = [
        branch.map(|name| format!("branch {name}{from}")),
        confidence.map(|word| format!("{word} confidence")),
        number_of(step, "revises").map(|n| format!("revises {n}")),
        number_of(step, "superseded_by").map(|n| format!("superseded by {n}")),
        is_final.then(|| "the last".to_owned()),
    ];
    said.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Formats `text (more)`, or the text alone.
pub(in crate::cli) fn with_note(text: &str, more: &str) -> String {
    if more.is_empty() { text.to_owned() } else { format!("{text} ({more})") }
}

fn describe_step(event: &Value) -> Vec<String> {
    let number = number_of(event, "number").unwrap_or_default();
    let mut lines = vec![
        with_note(&format!("Step {number}"), &format_step_details(event)),
        text_of(event, "description").to_owned(),
    ];
    lines.extend(label_members(event, &[("Why", "reasoning")]));
    lines.extend(text_items(event, "rejected").map(|text| format!("Ruled out: {text}")));
    lines
}

/// Returns the texts of a list member.
fn text_items<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    list_of(value, name).iter().filter_map(Value::as_str)
}

fn describe_gap_closed(event: &Value) -> Vec<String> {
    let said = ["resolution", "description"].map(|name| text_of(event, name));
    let said = said.into_iter().find(|text| !text.is_empty()).unwrap_or(text_of(event, "gap_id"));
    vec![format!("Question answered: {said}")]
}

/// Formats a source: its title and its address.
pub(in crate::cli) fn format_source(source: &Value) -> String {
    let (title, url) = (text_of(source, "title"), text_of(source, "url"));
    let named = if title.is_empty() { url.to_owned() } else { format!("{title} — {url}") };
    let kind = Some(text_of(source, "kind")).filter(|kind| !kind.is_empty()).map(str::to_owned);
    let step = number_of(source, "step").map(|step| format!("step {step}"));
    with_note(&named, &kind.into_iter().chain(step).collect::<Vec<_>>().join(", "))
}

/// Returns the check box of a plan's step: done, under way, or still to do.
pub(in crate::cli) fn check_box(state: &str, is_current: bool) -> &'static str {
    match state.to_lowercase().replace(['-', ' '], "_").as_str() {
        "done" | "completed" | "complete" | "finished" => "[x]",
        "in_progress" | "current" | "active" | "doing" | "started" => "[>]",
        "cancelled" | "canceled" | "dropped" | "skipped" => "[-]",
        _ if is_current => "[>]",
        _ => "[ ]",
    }
}

/// Returns the text and the state of a plan's step.
pub(in crate::cli) fn split_plan_step(step: &Value) -> (&str, &str) {
    let named = ["text", "step", "content", "title"].map(|name| text_of(step, name));
    let text = named.into_iter().find(|text| !text.is_empty());
    let state = ["state", "status"].map(|name| text_of(step, name));
    let state = state.into_iter().find(|text| !text.is_empty());
    (text.or_else(|| step.as_str()).unwrap_or_default(), state.unwrap_or_default())
}

/// Formats the steps of a plan, each with its check box.
pub(super) fn format_check_boxes(event: &Value) -> Vec<String> {
    let current = text_of(event, "current");
    let line = |step: &Value| {
        let (text, state) = split_plan_step(step);
        format!("{} {text}", check_box(state, !text.is_empty() && text == current))
    };
    let steps = ["steps", "plan", "todos"].map(|name| list_of(event, name));
    let steps = steps.into_iter().find(|steps| !steps.is_empty()).unwrap_or_default();
    steps.iter().map(line).collect()
}

fn describe_outcome(event: &Value) -> Vec<String> {
    let lists = [("Tried", "tried"), ("Worked", "worked"), ("Failed", "failed"), ("Next", "next")];
    let said = lists.into_iter().flat_map(|(label, name)| {
        text_items(event, name).map(move |text| format!("{label}: {text}"))
    });
    said.collect()
}

fn describe_memory(event: &Value) -> Vec<String> {
    let mut lines = vec![match text_of(event, "topic") {
        "" => text_of(event, "text").to_owned(),
        topic => format!("{topic}: {}", text_of(event, "text")),
    }];
    let places = event.get("positions").and_then(parse_bounds);
    lines.extend(places.map(|(from, to)| format!("Stands for {}", format_span(from, to))));
    lines
}

fn describe_compaction(event: &Value) -> Vec<String> {
    let of = |name: &str| match event.get(name) {
        Some(Value::Array(all)) if parse_bounds(&Value::Array(all.clone())).is_none() => {
            all.clone()
        }
        Some(one) => vec![one.clone()],
        None => Vec::new(),
    };
    let mut lines = vec![with_note("The context was compacted", text_of(event, "trigger"))];
    lines.extend(
        format_ranges(&of("dropped"), "event").map(|said| format!("Left the context: {said}")),
    );
    lines.extend(format_ranges(&of("kept"), "event").map(|said| format!("Kept: {said}")));
    lines.extend(label_members(event, &[("Summary", "summary")]));
    lines
}

/// Formats text that a hook gave to the model, unchanged.
fn describe_injected_text(event: &Value) -> Vec<String> {
    vec![with_note("Given to the model", text_of(event, "what")), text_of(event, "text").to_owned()]
}

fn describe_threshold(event: &Value) -> Vec<String> {
    let (tokens, limit) = (number_of(event, "tokens"), number_of(event, "limit"));
    let said = tokens.zip(limit).map(|(tokens, limit)| format_share(tokens, limit));
    vec![format!("Context at its {}: {}", text_of(event, "level"), said.unwrap_or_default())]
}

/// Formats a share of a limit: `24 000 of 200 000 tokens (12 %)`.
pub(in crate::cli) fn format_share(tokens: u64, limit: u64) -> String {
    match limit {
        0 => count_of(tokens, "token"),
        _ => {
            let percent = u128::from(tokens) * 100 / u128::from(limit);
            format!("{} of {} tokens ({percent} %)", group_digits(tokens), group_digits(limit))
        }
    }
}

fn describe_request(event: &Value) -> Vec<String> {
    let usage = event.get("model_usage").or_else(|| event.get("usage")).unwrap_or(&Value::Null);
    let counts = [
        ("input_tokens", "tokens in"),
        ("prompt_tokens", "tokens in"),
        ("cache_read_input_tokens", "from a cache"),
        ("output_tokens", "out"),
        ("completion_tokens", "out"),
    ];
    let counts = counts.into_iter().filter_map(|(name, label)| {
        number_of(usage, name).map(|count| format!("{} {label}", group_digits(count)))
    });
    let took = number_of(event, "took_ms").and_then(|ms| i64::try_from(ms).ok());
    let took = took.map(|ms| format!("took {}", format_millis(ms)));
    let said: Vec<String> = counts.chain(took).collect();
    if said.is_empty() { Vec::new() } else { vec![format!("Model request: {}", said.join(", "))] }
}

fn format_millis(ms: i64) -> String {
    format_duration(ms.saturating_mul(1_000))
}

/// Formats the state of an agent: `Running (startup, model m)`, `Idle (end_turn)`.
fn describe_status(kind: &str, event: &Value) -> Vec<String> {
    let state = kind.rsplit('_').next().unwrap_or(kind);
    let (first, rest) = state.split_at(state.ceil_char_boundary(1));
    let reason = event.get("stop_reason").unwrap_or(&Value::Null);
    let said = ["source", "reason", "message"].map(|name| text_of(event, name));
    let said = said.into_iter().chain([text_of(reason, "type"), reason.as_str().unwrap_or("")]);
    let model = Some(text_of(event, "model")).filter(|model| !model.is_empty());
    let said = said.filter(|text| !text.is_empty()).map(str::to_owned);
    let said: Vec<String> = said.chain(model.map(|model| format!("model {model}"))).collect();
    vec![with_note(&format!("{}{rest}", first.to_uppercase()), &said.join(", "))]
}

/// Formats an event of an unknown type: its content, else its members.
fn describe_unknown_event(event: &Value) -> Vec<String> {
    let text = event.get("content").map(content_text).unwrap_or_default();
    if !text.is_empty() {
        return vec![text];
    }
    let redacted = event.get("redacted").filter(|value| !matches!(value, Value::Bool(false)));
    let said = format_members(event, &ENVELOPE);
    match redacted {
        Some(_) if said.is_empty() => vec!["(redacted)".to_owned()],
        _ => said,
    }
}

/// Returns the id of a call, or of the call that a result belongs to.
pub(in crate::cli) fn call_id(event: &Map<String, Value>) -> Option<&str> {
    let names = ["call_id", "tool_use_id", "mcp_tool_use_id", "custom_tool_use_id"];
    names.into_iter().find_map(|name| event.get(name).and_then(Value::as_str))
}
