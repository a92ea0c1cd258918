//! Merges a transcript with the events that hooks recorded of the same session: no event is stored
//! twice, and each line is stored whole for an export. It must not match by position in the file:
//! hooks may have missed a part, or have started later.

use std::collections::HashMap;

use serde_json::Value;

use super::{
    LineDraft, LinePlace,
    draft::{ASIDE, ASIDE_RAW, EventDraft, IdSource, RecordName, new_draft},
    members::{JsonMembers, ObjectWriter, content_text},
};
use crate::{
    client::{Client, ClientError, HttpRequest, session_path},
    event::{SessionId, Timestamp, kinds},
};

/// Maximum events of a session that are read in one request.
const PAGE: usize = 1_000;
/// Maximum microseconds between a line and its recorded event in a session into which lines were
/// imported before: the same text may occur twice there.
const DISTANCE_MICROS_MAX: i64 = 300 * 1_000_000;
/// XML elements in which Claude Code stores a command that the user typed.
const COMMAND: [&str; 2] = ["command-name", "command-args"];

/// Time of a message, if known, and its position.
type TimedPosition = (Option<Timestamp>, u64);

/// Events that hooks recorded of a session, of the types that a transcript also has.
#[derive(Debug, Default)]
pub(super) struct RecordedEvents {
    /// Positions of calls and results, by call id, with true for the call.
    calls: HashMap<(String, bool), u64>,
    /// Times and positions of messages, by type and hash of the text.
    messages: HashMap<(&'static str, blake3::Hash), Vec<TimedPosition>>,
    /// Line numbers, each with the position of an event that hooks recorded of the line.
    found: Vec<(u64, u64)>,
    /// Maximum distance in microseconds; `None` if no lines of a transcript were imported into the
    /// session before.
    distance_max: Option<i64>,
}

/// Types of events that only hooks record.
const REPORTED: [&str; 3] =
    [kinds::SESSION_STATUS_RUNNING, kinds::SESSION_STATUS_IDLE, kinds::SESSION_STATUS_TERMINATED];
/// Types of events that both hooks and an import record.
const KINDS: [&str; 5] = [
    kinds::USER_MESSAGE,
    kinds::AGENT_MESSAGE,
    kinds::AGENT_TOOL_USE,
    kinds::AGENT_TOOL_RESULT,
    kinds::CONTEXT_COMPACTED,
];

/// Types of a subagent's words.
const THREAD_MESSAGES: [&str; 2] =
    [kinds::AGENT_THREAD_MESSAGE_SENT, kinds::AGENT_THREAD_MESSAGE_RECEIVED];

impl RecordedEvents {
    /// Reads the events that hooks recorded of a session; `None` if there are none. `has_lines` is
    /// true if lines of a transcript were imported into it.
    pub(super) async fn read(
        client: &Client,
        session: &SessionId,
        has_lines: bool,
    ) -> Result<Option<Self>, ClientError> {
        // A cheap test first: only hooks report starts and ends.
        let request = HttpRequest::get(session_path(session, "/events")).query("limit", 1);
        let request = REPORTED.iter().fold(request, |request, kind| request.query("types[]", kind));
        let reported = client.json(request).await?;
        let is_empty = |data: &Value| data.as_array().is_none_or(Vec::is_empty);
        if has_lines && reported.get("data").is_none_or(is_empty) {
            return Ok(None);
        }
        let distance_max = has_lines.then_some(DISTANCE_MICROS_MAX);
        let mut recorded = Self { distance_max, ..Self::default() };
        let mut from = 0;
        loop {
            let request = HttpRequest::get(session_path(session, "/events"));
            let request = request.query("from", from).query("limit", PAGE);
            let request =
                KINDS.iter().fold(request, |request, kind| request.query("types[]", kind));
            let answer = client.json(request).await?;
            let events = answer.get("data").and_then(Value::as_array);
            let Some(last) = events.and_then(|events| events.last()) else { break };
            events.into_iter().flatten().for_each(|event| recorded.add_event(event));
            let next = last.get("position").and_then(Value::as_u64).map(|last| last + 1);
            let Some(next) = next.filter(|next| *next > from) else { break };
            from = next;
        }
        let is_empty = recorded.calls.is_empty() && recorded.messages.is_empty();
        Ok((!is_empty).then_some(recorded))
    }

    fn add_event(&mut self, event: &Value) {
        let text = |name: &str| event.get(name).and_then(Value::as_str);
        let position = event.get("position").and_then(Value::as_u64).unwrap_or_default();
        // A hook's event may have the name of its line, as an import's event does; only an import's
        // event has `raw_format`.
        let is_of_hook = event.get("raw_format").is_none()
            && text("id").is_some_and(|id| ["hook_", "line-"].iter().any(|is| id.starts_with(is)));
        let kind = text("type").and_then(|kind| KINDS.into_iter().find(|one| *one == kind));
        let Some(kind) = kind.filter(|_| is_of_hook) else { return };
        if let Some(is_call) = call_or_result(kind) {
            self.calls.extend(text("call_id").map(|id| ((id.to_owned(), is_call), position)));
            return;
        }
        let text_content = match event.get("content") {
            Some(Value::String(text_content)) => text_content.clone(),
            Some(blocks) => serde_json::value::to_raw_value(blocks)
                .map(|raw| content_text(&raw))
                .unwrap_or_default(),
            None => String::new(),
        };
        let at = text("created_at").and_then(Timestamp::parse);
        self.messages.entry(comparison_key(kind, &text_content)).or_default().push((at, position));
    }

    /// Returns true if hooks recorded an event of a line; each recorded message matches once.
    fn match_recorded(&mut self, line: LinePlace, members: &JsonMembers) -> bool {
        let kind = members.text("type").unwrap_or_default();
        let Some(kind) = KINDS.into_iter().find(|one| *one == kind) else {
            // Hooks record no other type of a line; of a subagent's words only the last ones.
            return !THREAD_MESSAGES.contains(&&*kind);
        };
        let position = self.find_position(kind, members);
        let own = position.filter(|_| line.file == 0);
        self.found.extend(own.map(|position| (line.number, position)));
        position.is_some()
    }

    /// Returns the positions of the events that hooks recorded of a run of lines.
    pub(super) fn positions_of_lines(
        &self,
        (first, last): (u64, u64),
    ) -> impl Iterator<Item = (u64, u64)> {
        let inside = self.found.iter().filter(move |(line, _)| (first..=last).contains(line));
        inside.map(|(_, position)| (*position, position + 1))
    }

    fn find_position(&mut self, kind: &'static str, members: &JsonMembers) -> Option<u64> {
        if let Some(is_call) = call_or_result(kind) {
            let id = members.text("call_id").unwrap_or_default();
            return self.calls.get(&(id, is_call)).copied();
        }
        let text_content = members.non_null("content").map(content_text).unwrap_or_default();
        let at = members.text("created_at").as_deref().and_then(Timestamp::parse);
        let times = self.messages.get_mut(&comparison_key(kind, &text_content))?;
        let distance = |(time, _): &(Option<Timestamp>, u64)| match (time, at) {
            (Some(time), Some(at)) => time.0.abs_diff(at.0),
            _ => 0,
        };
        let nearest = (0..times.len()).min_by_key(|at| times.get(*at).map(distance));
        let nearest = nearest.filter(|at| {
            let distance = times.get(*at).map_or(0, distance);
            self.distance_max.is_none_or(|max| distance <= max.unsigned_abs())
        });
        nearest.map(|at| times.swap_remove(at).1)
    }

    /// Returns the drafts that hooks did not record. If hooks recorded some events of a line, one
    /// event stores the line's text, and the others are its new events.
    pub(super) fn remove_recorded(&mut self, drafts: Vec<LineDraft>) -> Vec<LineDraft> {
        let mut merged = Vec::with_capacity(drafts.len());
        let is_of_line =
            |(one, _): &LineDraft, (other, draft): &LineDraft| one == other && draft.is_part();
        for line in drafts.chunk_by(is_of_line) {
            let known: Vec<(JsonMembers, bool)> = line
                .iter()
                .map(|(place, draft)| {
                    let members = JsonMembers::read(&draft.text).unwrap_or_default();
                    let is_known = self.match_recorded(*place, &members);
                    (members, is_known)
                })
                .collect();
            let raw = known.first().and_then(|(first, _)| first.raw("raw").or(first.raw("entry")));
            let (Some(raw), true) = (raw, known.iter().any(|(_, is_known)| *is_known)) else {
                // The other events of a line in pieces follow the pieces.
                let new = line.iter().zip(&known);
                let new = new.filter(|((_, draft), (_, is_known))| !(draft.is_part() && *is_known));
                merged.extend(new.map(|(sent, _)| sent.clone()));
                continue;
            };
            let first = line.first().zip(known.first());
            merged.extend(first.map(|((place, draft), (first, _))| {
                (*place, line_event(first, raw.get(), &draft.id))
            }));
            for ((place, draft), (members, is_known)) in line.iter().zip(&known) {
                if !is_known {
                    let mut text = ObjectWriter::from_text(members.without(&["raw", "raw_before"]));
                    if members.raw("raw_in").is_none() {
                        text.add("raw_in", "true");
                    }
                    merged.push((*place, EventDraft { text: text.finish(), ..draft.clone() }));
                }
            }
        }
        merged
    }
}

/// Returns the event that stores the text of a line, for an export, by its first event.
fn line_event(first: &JsonMembers, raw: &str, id: &str) -> EventDraft {
    let mut body = ObjectWriter::new();
    let of_line = "created_at session_thread_id raw_format raw_before raw_joined redactions";
    for name in of_line.split(' ') {
        first.non_null(name).into_iter().for_each(|value| body.add(name, value.get()));
    }
    body.add("raw", raw);
    let name = if id.starts_with(ASIDE) { ASIDE_RAW } else { "raw-" };
    let hash = blake3::hash(id.as_bytes()).to_hex().chars().take(24).collect();
    let id = RecordName { name: name.to_owned(), hash }.part_id('.', 0);
    let draft = new_draft(&id, kinds::TRANSCRIPT_ENTRY, &body.finish());
    EventDraft { named: IdSource::Content, ..draft }
}

/// Returns true for a call's type, false for a result's; `None` for any other.
fn call_or_result(kind: &str) -> Option<bool> {
    let is_call = kinds::is_call(kind);
    (is_call || kinds::is_result(kind)).then_some(is_call)
}

/// Returns the key by which messages are compared: the type, and a hash of the text without markup
/// of typed commands and extra blanks. All compactions have the same key.
fn comparison_key(kind: &'static str, text_content: &str) -> (&'static str, blake3::Hash) {
    let element = |name: &str| {
        let (_, rest) = text_content.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(inner, _)| inner)
    };
    let [name, rest] = COMMAND.map(element);
    let typed = match name {
        Some(name) => format!("{name} {}", rest.unwrap_or_default()),
        None if kind == kinds::CONTEXT_COMPACTED => String::new(),
        None => text_content.to_owned(),
    };
    let typed: Vec<&str> = typed.split_whitespace().collect();
    (kind, blake3::hash(typed.join(" ").as_bytes()))
}
