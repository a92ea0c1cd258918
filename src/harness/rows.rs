//! Rows of a session for a person: an event in one line, a call together with its result. The only
//! place where an event becomes a row. It must not read events, nor choose among them.

use std::{
    collections::{BTreeMap, HashSet},
    fmt::Write as _,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use indexmap::IndexMap;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Map, Value, value::RawValue};

use super::{
    call_text::{COMMAND, format_call},
    results::{RecurringNames, strip_wrapper},
};
use crate::{
    api::{
        rows::{Row, RowKind},
        views::PlanStepOut,
    },
    event::{
        Event, Position, Timestamp, json, kinds, pace,
        text::{head, one_line},
    },
    projection::{
        DroppedRanges, EventTimes, PAIR_REACH, ReportedRequest, body, extract_typed_text,
        introduced_summary, is_done, parse_withdrawn, read_compaction, row_kind,
    },
    traces::{CallOutcome, OpenCalls, ToolEvent, TracedCall, content_text, read_thread},
};

/// Most characters of a row's line, and of a name in a row.
pub const LINE_CHARS_MAX: usize = 160;
const NAME_CHARS_MAX: usize = 120;
/// Most bytes of an event's text that are read for a line.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// Members of a body that name something else or say how it was recorded, and have no text for a
/// reader.
const NOT_READ: [&str; 31] = [
    "id",
    "type",
    "role",
    "raw",
    "raw_in",
    "raw_before",
    "raw_after",
    "raw_format",
    "call_id",
    "tool_use_id",
    "mcp_tool_use_id",
    "custom_tool_use_id",
    "message_id",
    "prompt_id",
    "turn_id",
    "agent_id",
    "session_thread_id",
    "within",
    "cwd",
    "git_branch",
    "signature",
    "redactions",
    "media_type",
    "data",
    "transcript",
    "transcript_path",
    "recorded_from",
    "permission_mode",
    "process",
    "uuid",
    "parent_uuid",
];
/// Text of a row without any.
const NO_TEXT: &str = "(no text)";

/// Calls and results of consecutive events, each with its counterpart.
#[derive(Debug)]
pub struct CallPairs {
    calls: OpenCalls,
    root: Option<String>,
    parts: BTreeMap<Position, PairPart>,
    times: EventTimes,
    /// Times of events that have none of their own.
    inherited: BTreeMap<Position, Timestamp>,
}

/// A call, or the result of one, as its row shows it.
#[derive(Clone, Debug, Default)]
struct PairPart {
    tool: String,
    line: String,
    path: Option<String>,
    lines: Option<(u64, Option<u64>)>,
    /// Position of the call's result, or of the result's call.
    other: Option<Position>,
    outcome: CallOutcome,
    duration_ms: Option<u64>,
    created_at: Option<Timestamp>,
}

impl CallPairs {
    /// Creates the state before the first event. `root` is the directory of the session.
    #[must_use]
    pub fn new(workspace: Option<&str>, root: Option<&str>) -> Self {
        Self {
            calls: OpenCalls::within_reach(workspace, root, PAIR_REACH),
            root: root.or(workspace).map(str::to_owned),
            parts: BTreeMap::new(),
            times: EventTimes::default(),
            inherited: BTreeMap::new(),
        }
    }

    /// Folds the next event: its time, and a call or a result.
    pub fn fold(&mut self, event: &Event) {
        let event = &*event.with_paired_surrogates();
        pace::steps(1 + event.body.len() / 256);
        let (created_at, at) = (event.created_at, self.times.fold(event));
        if at != event.happened_at() {
            self.inherited.insert(event.position, at);
        }
        let (position, part) = match self.calls.fold(event) {
            Some(ToolEvent::Call(call, _)) => {
                let part = PairPart { created_at, ..describe_call(call, self.root.as_deref()) };
                (call.position, part)
            }
            Some(ToolEvent::Result(call, answer)) => {
                let outcome = CallOutcome::judge(&call, &answer);
                let duration_ms = read_duration(event);
                let mut part = PairPart { outcome, duration_ms, ..PairPart::default() };
                part.tool = call.tool.to_string();
                let blocks = match answer.text.trim() {
                    "" => read_members(&event.body).map(|members| describe_blocks(&members)),
                    _ => None,
                };
                let text = blocks.as_deref().unwrap_or(&answer.text);
                part.line = describe_result(&call, &part.outcome, text);
                if let Some(known) = self.parts.get_mut(&call.position) {
                    let took = known.created_at.zip(created_at);
                    let took = took.and_then(|(from, to)| u64::try_from(to.0 - from.0).ok());
                    let took = took.map(|micros| micros / 1_000).filter(|millis| *millis > 0);
                    part.duration_ms = part.duration_ms.or(took);
                    known.other = Some(answer.position);
                    known.outcome = part.outcome.clone();
                    known.duration_ms = part.duration_ms;
                    part.other = Some(call.position);
                    (part.path, part.lines) = (known.path.clone(), known.lines);
                }
                (answer.position, part)
            }
            None => return,
        };
        self.parts.insert(position, part);
    }

    /// Returns true if a call at one of the positions may still get its result.
    #[must_use]
    pub fn awaits_result(&self, wanted: &HashSet<Position>) -> bool {
        self.calls.open().any(|call| wanted.contains(&call.position))
    }

    /// Returns true if a result named no call.
    #[must_use]
    pub fn has_unnamed_results(&self) -> bool {
        self.calls.has_unnamed_results()
    }

    /// Returns true if the result at a position shows that its call failed.
    #[must_use]
    pub fn is_failed_result(&self, event: &Event) -> bool {
        let is_result = kinds::is_result(event.kind.as_str());
        let part = self.parts.get(&event.position).filter(|_| is_result);
        part.is_some_and(|part| part.outcome.failed)
    }
}

fn read_duration(event: &Event) -> Option<u64> {
    #[derive(Deserialize)]
    struct DurationBody {
        duration_ms: Option<f64>,
    }
    let millis = body::read::<DurationBody>(&event.body)?.duration_ms?;
    (millis >= 0.0).then_some(millis as u64)
}

fn describe_call(call: &TracedCall, root: Option<&str>) -> PairPart {
    let files: Vec<&str> =
        call.files.iter().map(|(_, path)| &**path).filter(|path| !path.is_empty()).collect();
    let path = match (files.as_slice(), &*call.reads) {
        ([path, ..], _) if call.lines.is_some() || call.command.is_none() => Some(*path),
        ([], [path]) => Some(&**path),
        _ => None,
    };
    let line = match files.as_slice() {
        _ if call.command.is_some() => format_call(&call.tool, &call.input),
        [path] => format!("{} {path}", call.tool),
        [path, more @ ..] => format!("{} {path} and {} more", call.tool, more.len()),
        [] => {
            let line = format_call(&call.tool, &call.input);
            match root.filter(|root| root.len() > 1 && !line.starts_with(COMMAND)) {
                Some(root) => line.replace(&format!("{}/", root.trim_end_matches('/')), ""),
                None => line,
            }
        }
    };
    PairPart {
        tool: call.tool.to_string(),
        line: one_line(&line, LINE_CHARS_MAX),
        path: path.map(str::to_owned),
        lines: call.lines,
        ..PairPart::default()
    }
}

fn describe_result(call: &TracedCall, outcome: &CallOutcome, text: &str) -> String {
    let text = strip_wrapper(head(text, TEXT_BYTES_MAX));
    let line = match &outcome.reason {
        Some(reason) => reason.as_str(),
        None if call.command.is_some() => RecurringNames::default().most_useful_line(text),
        None => "",
    };
    let first = || text.lines().map(str::trim).find(|line| !line.is_empty());
    let line = if line.is_empty() { first().unwrap_or("(no output)") } else { line };
    one_line(line, LINE_CHARS_MAX)
}

/// Builds the row of an event from its call or result and the positions that compactions dropped.
/// A message of the user or the agent has its content if its body has at most `content_bytes_max`
/// bytes.
#[must_use]
pub fn build_row(
    event: &Event,
    pairs: &CallPairs,
    dropped: &DroppedRanges,
    content_bytes_max: usize,
) -> Row {
    let whole = event;
    let event = &*event.with_paired_surrogates();
    pace::steps(8 + event.body.len() / 256);
    let (kind, event_type) = (row_kind(event), event.kind.as_str());
    let members = read_members(&event.body);
    let text = |name: &str| members.as_ref()?.get(name)?.as_str();
    let part = pairs.parts.get(&event.position);
    let ids = ["call_id", "tool_use_id", "mcp_tool_use_id", "custom_tool_use_id"];
    let id = match kind {
        RowKind::Call => Some(text("call_id").unwrap_or(event.id.as_str())),
        RowKind::Result => ids.iter().find_map(|name| text(name)),
        _ => None,
    };
    let line = match (part, &members) {
        (Some(part), _) => part.line.clone(),
        (None, Some(members)) => one_line(&describe(event, kind, members), LINE_CHARS_MAX),
        (None, None) => String::new(),
    };
    let other = part.and_then(|part| part.other);
    let is_message = matches!(kind, RowKind::User | RowKind::Agent);
    let has_content = is_message && whole.body.len() <= content_bytes_max;
    let name = |text: &str| one_line(text, NAME_CHARS_MAX);
    Row {
        position: event.position,
        id: event.id.clone(),
        event_type: event_type.to_owned(),
        at: pairs.inherited.get(&event.position).copied().unwrap_or(event.happened_at()),
        kind,
        bookkeeping: is_bookkeeping(event, kind),
        origin: event.origin.as_str().to_owned(),
        thread: thread_of(event),
        line: if line.is_empty() { event_type.to_owned() } else { line },
        bytes: whole.body.len() as u64,
        tool: part.map(|part| part.tool.clone()),
        call_id: id.map(name),
        result: other.filter(|_| kind == RowKind::Call),
        of: other.filter(|_| kind == RowKind::Result),
        outcome: part.and_then(|part| part.outcome.word.clone()),
        duration_ms: part.and_then(|part| part.duration_ms),
        failed: part.is_some_and(|part| part.outcome.failed) || event_type == kinds::SESSION_ERROR,
        added: part.and_then(|part| Some(part.lines?.0)),
        removed: part.and_then(|part| part.lines?.1),
        path: part.and_then(|part| part.path.clone()),
        tokens: ReportedRequest::from_event(event).map(|report| report.tokens),
        dropped: dropped.dropped_by(event.position),
        content: members.filter(|_| has_content).and_then(|mut members| members.remove("content")),
    }
}

/// Parses the members of a body but for the copy of its record. A member that is too large for a
/// tree, or has a number that none can hold, is left out.
fn read_members(body: &[u8]) -> Option<Map<String, Value>> {
    let text = json::check_levels(str::from_utf8(body).ok()?, 1)?;
    let members: IndexMap<String, &RawValue> = serde_json::from_str(text).ok()?;
    let read = members.into_iter().filter(|(name, _)| name != "raw");
    let tree = |raw: &RawValue| serde_json::from_str(json::check(raw.get())?).ok();
    Some(read.filter_map(|(name, raw)| Some((name, tree(raw)?))).collect())
}

/// Returns the name of the thread of the subagent that an event belongs to.
#[must_use]
pub fn thread_of(event: &Event) -> Option<String> {
    #[derive(Deserialize)]
    struct ThreadBody<'a> {
        #[serde(borrow)]
        session_thread_id: Option<&'a RawValue>,
    }
    body::read::<ThreadBody<'_>>(&event.body)?.session_thread_id.and_then(read_thread)
}

/// Returns true for an event that a person usually does not read.
#[must_use]
pub fn is_bookkeeping(event: &Event, kind: RowKind) -> bool {
    match event.kind.as_str() {
        kinds::SESSION_ERROR | kinds::USER_INTERRUPT => false,
        kinds::MEMORY_PAGED_IN
        | kinds::GRAPH_ENTITY_UPSERTED
        | kinds::GRAPH_RELATIONSHIP_CREATED
        | kinds::GRAPH_ENTITY_REMOVED
        | kinds::GRAPH_RELATIONSHIP_REMOVED => true,
        // Programs record a message for calls without words, and thoughts that only they can read.
        kinds::AGENT_MESSAGE | kinds::AGENT_THINKING => is_empty_message(event),
        _ => kind == RowKind::Status,
    }
}

/// Returns true for a message whose content is empty.
fn is_empty_message(event: &Event) -> bool {
    #[derive(Deserialize)]
    struct SaidBody<'a> {
        #[serde(borrow)]
        content: Option<&'a RawValue>,
    }
    let content = body::read::<SaidBody<'_>>(&event.body).and_then(|body| body.content);
    content.is_some_and(|content| matches!(content.get(), "\"\"" | "[]" | "null"))
}

/// Describes an event that is neither a call nor a result.
fn describe(event: &Event, kind: RowKind, members: &Map<String, Value>) -> String {
    let text = |name: &str| members.get(name).and_then(Value::as_str).unwrap_or_default();
    let number = |name: &str| members.get(name).and_then(Value::as_u64);
    let content = || {
        let content = members
            .get("content")
            .and_then(|content| serde_json::value::to_raw_value(content).ok());
        let Some(content) = content else { return readable_text(event) };
        let typed =
            if kind == RowKind::User { extract_typed_text(&content) } else { String::new() };
        let said = if typed.is_empty() { content_text(&content) } else { typed };
        if said.trim().is_empty() { describe_blocks(members) } else { said }
    };
    if let Some(said) = describe_context(event, members) {
        return said;
    }
    match event.kind.as_str() {
        kinds::SPAN_MODEL_REQUEST_END => match ReportedRequest::from_event(event) {
            Some(report) => format!(
                "Model request: {} tokens in the context, {} written",
                report.tokens, report.row.totals.output_tokens
            ),
            None => readable_text(event),
        },
        kinds::PLAN_UPDATED => describe_plan(members),
        kinds::RESEARCH_STEP => {
            format!("Step {}: {}", number("number").unwrap_or_default(), text("description"))
        }
        kinds::EVENT_MARKED => describe_mark(members),
        kinds::SESSION_RESTORED => {
            let from = members.get("from").and_then(|from| from.get("session")?.as_str());
            format!("Continues session {}", from.unwrap_or_default())
        }
        kinds::RESEARCH_GOAL => format!("Goal: {}", text("goal")),
        kinds::RESEARCH_GAP_OPENED => format!("Open question: {}", text("description")),
        kinds::SOURCE_FOUND => {
            format!("Source: {} {}", text("title"), text("url")).replace(":  ", ": ")
        }
        kinds::MEMORY_ITEM if !text("topic").is_empty() => {
            format!("{}: {}", text("topic"), text("text"))
        }
        kinds::TRANSCRIPT_ENTRY => {
            let entry = members.get("entry").and_then(|entry| entry.get("type")?.as_str());
            format!("Record of the program: {}", entry.unwrap_or("unknown"))
        }
        kinds::USER_INTERRUPT => "Interrupted by the user".to_owned(),
        kinds::SESSION_ERROR => {
            let error = members.get("error").unwrap_or(&Value::Null);
            let said = error.get("message").and_then(Value::as_str);
            format!("Error: {}", said.unwrap_or_default())
        }
        name => {
            let said = match kind {
                RowKind::Status => String::new(),
                _ => content(),
            };
            match said.trim() {
                "" if is_empty_message(event) => NO_TEXT.to_owned(),
                "" => describe_by_name(name, members),
                _ => said,
            }
        }
    }
}

fn describe_mark(members: &Map<String, Value>) -> String {
    let text = |name: &str| members.get(name).and_then(Value::as_str).unwrap_or_default();
    let at = members.get("position").and_then(Value::as_u64);
    let of = at.map_or_else(|| text("of").to_owned(), |at| format!("@{at}"));
    let note = Some(text("note")).filter(|note| !note.is_empty());
    let note = note.map(|note| format!(": {note}")).unwrap_or_default();
    format!("Marked {of} as {}{note}", text("mark"))
}

/// Describes what happened to the context of the model; `None` for any other event.
fn describe_context(event: &Event, members: &Map<String, Value>) -> Option<String> {
    let text = |name: &str| members.get(name).and_then(Value::as_str).unwrap_or_default();
    Some(match event.kind.as_str() {
        kinds::CONTEXT_COMPACTED | kinds::AGENT_THREAD_CONTEXT_COMPACTED => {
            let made = read_compaction(event)?;
            let lost: u64 = made.dropped.iter().map(|range| range.len()).sum();
            let by = made.trigger.map(|by| format!(" ({by})")).unwrap_or_default();
            let summary = made.summary.as_deref().map(introduced_summary);
            let summary = summary.map(|text| format!(": {text}")).unwrap_or_default();
            format!("Context compacted{by}, {} dropped{summary}", count_of(lost, "event"))
        }
        kinds::CONTEXT_CLEARED => "Context cleared".to_owned(),
        kinds::CONTEXT_REWOUND => {
            let ranges = parse_withdrawn(event).unwrap_or_default();
            let taken = ranges.ranges().iter().map(|range| range.len()).sum();
            format!("Went back: {} withdrawn", count_of(taken, "event"))
        }
        kinds::CONTEXT_INJECTED => {
            let what = Some(text("what")).filter(|what| !what.is_empty()).unwrap_or("text");
            format!("Given to the model ({what}): {}", text("text"))
        }
        kinds::CONTEXT_THRESHOLD => {
            let tokens = members.get("tokens").and_then(Value::as_u64).unwrap_or_default();
            format!("Context at its {}: {tokens} tokens", text("level"))
        }
        _ => return None,
    })
}

/// Describes an event by the last part of its type and its texts: `status_idle: end_turn`.
fn describe_by_name(name: &str, members: &Map<String, Value>) -> String {
    let mut said = String::new();
    members.iter().for_each(|(name, value)| visit_texts(name, value, false, &mut said));
    let name = name.rsplit('.').next().unwrap_or(name).replace('_', " ");
    if said.is_empty() { name } else { format!("{name}: {said}") }
}

/// Names the blocks of a content without text: `[image]`.
fn describe_blocks(members: &Map<String, Value>) -> String {
    let blocks = members.get("content").and_then(Value::as_array);
    let blocks = blocks.into_iter().flatten().filter(|block| block.get("text").is_none());
    let types = blocks.filter_map(|block| block.get("type")?.as_str());
    let name = |kind| if kinds::is_picture(kind) { "image" } else { kind };
    types.map(|kind| format!("[{}]", name(kind))).collect::<Vec<_>>().join(" ")
}

fn describe_plan(members: &Map<String, Value>) -> String {
    let steps = ["steps", "plan", "todos"].iter().find_map(|name| members.get(*name)?.as_array());
    let steps = steps.map(Vec::as_slice).unwrap_or_default();
    let member = |step: &Value, names: &[&str]| {
        let found = names.iter().find_map(|name| step.get(*name)?.as_str().map(str::to_owned));
        found.or_else(|| step.as_str().map(str::to_owned)).unwrap_or_default()
    };
    let step = |step: &Value| PlanStepOut {
        text: member(step, &["text", "title", "step", "content"]),
        state: member(step, &["state", "status"]),
    };
    let steps: Vec<PlanStepOut> = steps.iter().map(step).collect();
    let finished = steps.iter().filter(|step| is_done(step)).count();
    let next = steps.iter().find(|step| !is_done(step));
    let next = next.map(|step| format!("; next: {}", step.text)).unwrap_or_default();
    format!("Plan: {finished} of {} done{next}", steps.len())
}

fn count_of(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

/// Returns the text of an event that a person reads: its texts, one per line, and of a call also
/// the numbers of its arguments; without ids, directories and copies of the record.
#[must_use]
pub fn readable_text(event: &Event) -> String {
    let event = event.with_paired_surrogates();
    let mut text = String::new();
    if event.kind.as_str() == kinds::TRANSCRIPT_ENTRY {
        // Its meaning is in events of their own.
        return text;
    }
    if let Some(members) = read_members(&event.body) {
        members.iter().for_each(|(name, value)| visit_texts(name, value, false, &mut text));
    }
    text
}

fn visit_texts(name: &str, value: &Value, is_input: bool, text: &mut String) {
    if !is_input && NOT_READ.contains(&name) {
        return;
    }
    pace::step();
    let is_input = is_input || name == "input";
    // Writing to a string cannot fail.
    let _ = match value {
        Value::String(one) if one.is_empty() => Ok(()),
        Value::String(one) if text.is_empty() => write!(text, "{one}"),
        Value::String(one) => write!(text, "\n{one}"),
        Value::Number(_) | Value::Bool(_) if is_input => write!(text, "\n{value}"),
        Value::Array(values) => {
            values.iter().for_each(|value| visit_texts("", value, is_input, text));
            Ok(())
        }
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| visit_texts(name, value, is_input, text));
            Ok(())
        }
        _ => Ok(()),
    };
}

/// Returns a number that events have in common if they say the same: of equal type, text and
/// outcome, whatever their ids and times. Of bookkeeping only the type counts.
#[must_use]
pub fn meaning_digest(event: &Event) -> u64 {
    #[derive(Deserialize)]
    struct MeaningBody {
        is_error: Option<bool>,
        session_thread_id: Option<IgnoredAny>,
    }
    let mut hasher = DefaultHasher::new();
    event.kind.as_str().hash(&mut hasher);
    if !is_bookkeeping(event, row_kind(event)) {
        let outcome = body::read::<MeaningBody>(&event.body);
        let is_error = outcome.as_ref().and_then(|body| body.is_error).unwrap_or(false);
        let is_aside = outcome.is_some_and(|body| body.session_thread_id.is_some());
        (is_error, is_aside).hash(&mut hasher);
        let text = readable_text(event);
        if text.is_empty() && read_members(&event.body).is_none() {
            event.body.hash(&mut hasher);
        }
        text.hash(&mut hasher);
    }
    hasher.finish()
}
