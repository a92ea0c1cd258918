//! Events that no hook reports: the agent's messages between calls, refused calls, and the usage of
//! its model. They are read from the program's transcript, from the offset where the last read
//! ended, and recorded with the hook's event, which stores the new offset. It must not open the
//! transcript, nor parse its lines.

use std::{collections::VecDeque, io};

use serde_json::{Map, Value, json, value::to_raw_value};

use super::{Payload, context::fetch_latest, delivery::Delivery, payload::HookAgent};
use crate::{
    client::Client,
    event::{HOOK_ID, SessionId, Timestamp, kinds},
    secrets::MaskedText,
    wire::extract_typed_text,
};

/// The member of a hook's event that records how far the transcript was read: `bytes` is an offset,
/// `check` a hash of times and ids of lines before it, `again` the reason for a read from the
/// start, `unread` the number of recorded agent messages that were not in it yet.
const NOTE: &str = "transcript";
/// Number of latest events searched for the record of the last read; and the number if they have
/// none, or if the transcript is read from its beginning.
const EVENTS_FEW: usize = 64;
const EVENTS_MAX: usize = 1_000;
/// Maximum number of latest calls and results compared.
const CALLS_MAX: usize = 500;
/// Maximum number of recorded messages that may be missing from a transcript.
const UNREAD_MAX: usize = 8;

/// Part of a transcript after an offset.
#[derive(Clone, Debug, Default)]
pub struct TranscriptTail {
    /// State up to which it was read, for the next read.
    pub place: Map<String, Value>,
    /// The branch of the repository.
    pub branch: Option<MaskedText>,
    /// Events, each with an id.
    pub events: Vec<Value>,
    /// The prompts of the transcript, if one replaced an earlier one; true for each prompt that was
    /// withdrawn.
    pub prompts: Vec<(String, bool)>,
    /// True if the call that was asked about failed, and its exit code.
    pub outcome: Option<(bool, Option<i64>)>,
    /// The compaction that was asked for.
    pub compaction: Option<FoundCompaction>,
}

/// A compaction in a transcript.
#[derive(Clone, Debug, Default)]
pub struct FoundCompaction {
    /// The summary.
    pub summary: Option<String>,
    /// Texts of the prompts that stay in the context, oldest first.
    pub prompts: Vec<String>,
}

/// Request for a part of a transcript.
#[derive(Clone, Copy, Debug)]
pub enum TailRequest<'a> {
    /// The part after a state, or all of it.
    After(Option<&'a Value>),
    /// The state of its end, without events.
    End,
    /// The state after the copy of another session's transcript, if it begins with one.
    Copy,
    /// The outcome of a call, without events.
    Outcome(&'a str),
    /// The latest compaction after a state, without events.
    Compaction(Option<&'a Value>),
}

/// A transcript that was found.
pub type Transcript = Box<dyn FnOnce(TailRequest<'_>) -> io::Result<TranscriptTail>>;
/// Finds the transcript at a path, of Codex if true, else of Claude Code; `None` if none exists.
pub type Transcripts = Box<dyn Fn(&str, bool) -> io::Result<Option<Transcript>> + Send + Sync>;

/// Part of the transcript that an event reads: the new lines, none (only the offset is recorded),
/// or the copy that its session begins with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TranscriptPart {
    News,
    Begin,
    Copy,
}

fn needed_part(payload: &Payload) -> Option<TranscriptPart> {
    if payload.get("agent_id").is_some() {
        return None;
    }
    match (payload.name(), payload.text("source")) {
        // Before a call, the message that introduces it is read. No hook reports the end of an
        // interrupted turn, so the next prompt reads it.
        (
            "PreToolUse" | "Stop" | "StopFailure" | "UserPromptSubmit" | "PreCompact"
            | "SessionEnd",
            _,
        ) => Some(TranscriptPart::News),
        // Lines from before the first hook are not recorded: a fork has a copy.
        ("SessionStart", Some(source)) if source != "startup" => Some(TranscriptPart::Begin),
        // Codex reports a fork as a start.
        ("SessionStart", _) if payload.agent() == HookAgent::Codex => Some(TranscriptPart::Copy),
        _ => None,
    }
}

/// Marks the result of a call of Codex that failed: its hook gets the output without the exit code,
/// which a line of the rollout has that is written before.
pub(super) fn add_outcome(
    transcripts: &Transcripts,
    payload: &Payload,
    delivery: &mut Delivery,
) -> Result<(), String> {
    if payload.agent() != HookAgent::Codex || payload.name() != "PostToolUse" {
        return Ok(());
    }
    let named = payload.text("transcript_path").zip(payload.text("tool_use_id"));
    let Some((path, call)) = named else { return Ok(()) };
    let failed = |error: io::Error| format!("the transcript was not read: {error}");
    let Some(transcript) = transcripts(path, true).map_err(failed)? else { return Ok(()) };
    let outcome = transcript(TailRequest::Outcome(call)).map_err(failed)?.outcome;
    let result = delivery.events.iter_mut().find(|event| has_type(event, kinds::AGENT_TOOL_RESULT));
    let result = result.and_then(Value::as_object_mut);
    if let (Some((failed, exit_code)), Some(result)) = (outcome, result) {
        if failed {
            result.insert("is_error".to_owned(), json!(true));
        }
        let code = exit_code.map(|code| ("exit_code".to_owned(), json!(code)));
        result.extend(code);
    }
    Ok(())
}

/// Adds what the compaction that a hook reports left in the context: the texts that hooks gave
/// because of it before its end, and the prompts that Codex keeps; and the summary of Codex.
pub(super) async fn add_kept_events(
    client: &Client,
    transcripts: &Transcripts,
    payload: &Payload,
    delivery: &mut Delivery,
) -> Result<(), String> {
    let session = payload.session();
    let is_compaction = |event: &&mut Value| has_type(event, kinds::CONTEXT_COMPACTED);
    let Some(event) = delivery.events.iter_mut().find(is_compaction) else { return Ok(()) };
    let mut kept = find_given_texts(client, session).await?;
    let path = payload.text("transcript_path");
    if let Some(path) = path.filter(|_| payload.agent() == HookAgent::Codex) {
        let failed = |error: io::Error| format!("the transcript was not read: {error}");
        let note = LoggedEvents::read(client, session, EVENTS_FEW).await?.note;
        let found = match transcripts(path, true).map_err(failed)? {
            Some(transcript) => transcript(TailRequest::Compaction(note.as_ref())),
            None => Ok(TranscriptTail::default()),
        };
        let found = found.map_err(failed)?.compaction.unwrap_or_default();
        kept.extend(find_prompts(client, session, &found.prompts).await?);
        if let Some((summary, members)) = found.summary.zip(event.as_object_mut()) {
            members.entry("summary").or_insert_with(|| json!(summary));
        }
    }
    if let Some(members) = event.as_object_mut().filter(|_| !kept.is_empty()) {
        kept.sort_unstable();
        let ranges = kept.iter().map(|at| json!({ "from": at, "to": at + 1 }));
        members.insert("kept".to_owned(), ranges.collect());
    }
    Ok(())
}

/// Returns the positions of the texts that hooks gave since the start that a compaction reported,
/// if no compaction was recorded since.
async fn find_given_texts(client: &Client, session: &SessionId) -> Result<Vec<u64>, String> {
    const MARKS: [&str; 6] = [
        kinds::SESSION_STATUS_RUNNING,
        kinds::CONTEXT_COMPACTED,
        kinds::CONTEXT_INJECTED,
        // Work ends the search: the start reported an earlier compaction.
        kinds::USER_MESSAGE,
        kinds::AGENT_MESSAGE,
        kinds::AGENT_TOOL_USE,
    ];
    let mut given = Vec::new();
    for event in fetch_latest_logged(client, session, &MARKS, EVENTS_FEW).await? {
        match event.get("source").and_then(Value::as_str) {
            _ if has_type(&event, kinds::CONTEXT_INJECTED) => {
                given.extend(event.get("position").and_then(Value::as_u64));
            }
            // Two settings files may both run the hook of a start.
            Some("compact") if !given.is_empty() => return Ok(given),
            Some("compact") => {}
            _ => break,
        }
    }
    Ok(Vec::new())
}

/// Returns the positions of the messages with the texts of prompts, which are in order.
async fn find_prompts(
    client: &Client,
    session: &SessionId,
    prompts: &[String],
) -> Result<Vec<u64>, String> {
    if prompts.is_empty() {
        return Ok(Vec::new());
    }
    let found = fetch_latest_logged(client, session, &[kinds::USER_MESSAGE], EVENTS_MAX).await?;
    let mut messages = found.iter();
    let positions = prompts.iter().rev().filter_map(|prompt| {
        let is_it = |event: &&Value| {
            let content = event.get("content").and_then(|content| to_raw_value(content).ok());
            content.is_some_and(|words| extract_typed_text(&words).trim() == prompt.trim())
        };
        let event = messages.clone().find(is_it)?;
        let position = event.get("position").and_then(Value::as_u64)?;
        messages.find(|one| one.get("position").and_then(Value::as_u64) == Some(position));
        Some(position)
    });
    Ok(positions.collect())
}

/// Adds the unrecorded events of the transcript to a delivery.
pub(super) async fn add_transcript_events(
    client: &Client,
    transcripts: &Transcripts,
    payload: &Payload,
    delivery: &mut Delivery,
) -> Result<(), String> {
    let Some((reads, path)) = needed_part(payload).zip(payload.text("transcript_path")) else {
        return Ok(());
    };
    let failed = |error: io::Error| format!("the transcript was not read: {error}");
    let is_codex = payload.agent() == HookAgent::Codex;
    let Some(transcript) = transcripts(path, is_codex).map_err(failed)? else { return Ok(()) };
    let mut known = LoggedEvents::read(client, payload.session(), EVENTS_FEW).await?;
    if known.note.is_none() && !known.is_whole {
        known = LoggedEvents::read(client, payload.session(), EVENTS_MAX).await?;
    }
    let tail = match (reads, &known.note) {
        (TranscriptPart::Begin | TranscriptPart::Copy, Some(_)) => return Ok(()),
        (TranscriptPart::Begin, None) => transcript(TailRequest::End),
        (TranscriptPart::Copy, None) => transcript(TailRequest::Copy),
        (TranscriptPart::News, note) => transcript(TailRequest::After(note.as_ref())),
    };
    let mut tail = tail.map_err(failed)?;
    if reads == TranscriptPart::Copy && tail.place.is_empty() {
        return Ok(());
    }
    let is_again = tail.place.contains_key("again");
    if is_again && !known.is_whole {
        known = LoggedEvents::read(client, payload.session(), EVENTS_MAX).await?;
    }
    let mut said = known.unread_messages(is_again);
    let own = payload.text("last_assistant_message").filter(|_| payload.name() == "Stop");
    if let Some(text) = own {
        // Two settings files may both run this hook: the second finds nothing new.
        if known.is_repeat(text, &tail) {
            delivery.events.drain(..delivery.events.len().saturating_sub(1));
        } else {
            said.push_back(text.to_owned());
        }
    }
    remove_known_calls(client, payload.session(), &delivery.events, &mut tail.events).await?;
    let mut own_line = None;
    tail.events.retain(|event| !known.has_prompt(event));
    tail.events.retain(|event| {
        let at = recorded_index(event, &said).filter(|_| !known.has_message(event));
        if let Some(at) = at {
            let is_own = own.is_some() && at + 1 == said.len();
            own_line = Some(event.clone()).filter(|_| is_own);
            // Both are in order: earlier messages are not expected any more.
            said.drain(..=at);
        }
        at.is_none() && !known.has_message(event)
    });
    let message = delivery.events.first_mut().and_then(Value::as_object_mut);
    own_line.zip(message).into_iter().for_each(|(line, message)| copy_identity(message, &line));
    if said.len() > UNREAD_MAX {
        said.drain(..said.len() - UNREAD_MAX);
    }
    if let Some(last) = delivery.events.last_mut().and_then(Value::as_object_mut) {
        if !said.is_empty() {
            tail.place.insert("unread".to_owned(), json!(said.len()));
        }
        last.insert(NOTE.to_owned(), Value::Object(tail.place));
        last.extend(tail.branch.map(|branch| ("git_branch".to_owned(), json!(branch.as_str()))));
    }
    if !tail.prompts.is_empty() {
        let count = tail.events.len() as u64;
        tail.events.extend(rewind_event(client, payload.session(), &tail.prompts, count).await?);
    }
    delivery.events.splice(0..0, tail.events);
    Ok(())
}

/// Removes the calls that the log has, or that this hook reports itself.
async fn remove_known_calls(
    client: &Client,
    session: &SessionId,
    own: &[Value],
    events: &mut Vec<Value>,
) -> Result<(), String> {
    let is_own = |event: &Value| {
        let of = call_key(event);
        of.is_some() && own.iter().any(|own| call_key(own) == of)
    };
    events.retain(|event| !is_own(event));
    if events.iter().any(|event| call_key(event).is_some()) {
        let calls = LoggedCalls::read(client, session).await?;
        events.retain_mut(|event| calls.is_new(event));
    }
    Ok(())
}

/// Sets id and time of the line, so that several hooks report one and the same message.
fn copy_identity(message: &mut Map<String, Value>, line: &Value) {
    for name in ["id", "created_at", "recorded_from"] {
        let member = line.get(name).map(|value| (name.to_owned(), value.clone()));
        message.extend(member);
    }
}

/// Returns the event that withdraws the recorded events of withdrawn prompts, from the first of
/// them to the prompt that replaced it; if none did yet, to the end of the log plus the `unsent`
/// events that precede this one.
async fn rewind_event(
    client: &Client,
    session: &SessionId,
    prompts: &[(String, bool)],
    unsent: u64,
) -> Result<Option<Value>, String> {
    const KINDS: [&str; 2] = [kinds::USER_MESSAGE, kinds::CONTEXT_REWOUND];
    let found = fetch_latest_logged(client, session, &KINDS, EVENTS_MAX).await?;
    if found.is_empty() {
        return Ok(None);
    }
    let mut rewinds = found.iter().filter(|event| has_type(event, kinds::CONTEXT_REWOUND));
    let before = rewinds.next().and_then(|event| event.get("withdrawn")?.as_array());
    let mut ranges: Vec<Value> = before.cloned().unwrap_or_default();
    // Both are in order: from the newest back, each prompt is the next message with the same text.
    let mut messages = found.iter().filter_map(|event| {
        let content = event.get("content")?;
        let words = extract_typed_text(&to_raw_value(content).ok()?);
        Some((words, event.get("position")?.as_u64()?))
    });
    let last = fetch_latest_logged(client, session, &[], 1).await?;
    let last = last.first().and_then(|event| event.get("position")?.as_u64());
    let end = last.map_or(0, |last| last + 1 + unsent);
    let (mut next, mut open): (Option<u64>, Option<(u64, u64)>) = (None, None);
    let mut all = Vec::new();
    for (words, is_gone) in prompts.iter().rev() {
        // The oldest message that the transcript does not have yet.
        let mut newer = None;
        let found = messages.clone().find(|(said, at)| {
            let is_it = said.trim() == words.trim();
            newer = Some(*at).filter(|_| !is_it).or(newer);
            is_it
        });
        let Some((_, at)) = found else { continue };
        messages.by_ref().find(|(_, place)| *place == at);
        let to = next.or(newer).unwrap_or(end);
        if *is_gone {
            open = Some((at, open.map_or(to, |(_, to)| to)));
            next = Some(to);
        } else {
            all.extend(open.take());
            next = Some(at);
        }
    }
    all.extend(open);
    let of = |(from, to): &(u64, u64)| json!({ "from": from, "to": to });
    let new: Vec<Value> = all.iter().rev().map(of).filter(|one| !ranges.contains(one)).collect();
    let Some((from, to)) = all.first().filter(|_| !new.is_empty()) else { return Ok(None) };
    ranges.extend(new);
    Ok(Some(json!({
        "id": format!("hook_rewound-{from}-{to}"), "type": kinds::CONTEXT_REWOUND,
        "withdrawn": ranges, "recorded_from": "transcript",
    })))
}

/// Returns the latest events of the given types, newest first; none if the session does not exist.
async fn fetch_latest_logged(
    client: &Client,
    session: &SessionId,
    types: &[&str],
    limit: usize,
) -> Result<Vec<Value>, String> {
    match fetch_latest(client, session, types, 0, limit).await {
        Err(error) if error.code() == "session_not_found" => Ok(Vec::new()),
        found => found.map_err(|error| error.to_string()),
    }
}

/// Returns the index of the recorded message that an event of the transcript repeats.
fn recorded_index(event: &Value, said: &VecDeque<String>) -> Option<usize> {
    event.get("type").filter(|kind| *kind == kinds::AGENT_MESSAGE)?;
    let text = event.get("content")?.as_str()?.trim();
    said.iter().position(|one| one.trim() == text)
}

fn has_type(event: &Value, kind: &str) -> bool {
    event.get("type").is_some_and(|is| is == kind)
}

/// Returns the type of an event of a call, and the id of the call.
fn call_key(event: &Value) -> Option<(&str, &str)> {
    let text = |name: &str| event.get(name).and_then(Value::as_str);
    let kind = text("type").filter(|kind| kinds::is_call(kind) || kinds::is_result(kind))?;
    Some((kind, text("call_id")?))
}

/// Removes input and content of calls that name an excluded path, and of their results.
pub fn remove_excluded(events: &mut [Value], withholds: &dyn Fn(&Value) -> bool) {
    let is_meant = |event: &&Value| event.get("input").is_some_and(withholds);
    let ids =
        events.iter().filter(is_meant).filter_map(|event| Some(call_key(event)?.1.to_owned()));
    let ids: Vec<String> = ids.collect();
    for event in events {
        let is_its = call_key(event).is_some_and(|(_, call)| ids.iter().any(|id| id == call));
        if let Some(members) = event.as_object_mut().filter(|_| is_its) {
            members.retain(|name, _| !matches!(&**name, "input" | "content"));
            members.insert("withheld".to_owned(), json!("excluded"));
        }
    }
}

/// The calls and results in the log.
struct LoggedCalls(Vec<Value>);

impl LoggedCalls {
    async fn read(client: &Client, session: &SessionId) -> Result<Self, String> {
        const KINDS: [&str; 2] = [kinds::AGENT_TOOL_USE, kinds::AGENT_TOOL_RESULT];
        fetch_latest_logged(client, session, &KINDS, CALLS_MAX).await.map(Self)
    }

    /// Returns true if an event belongs to no call, or to one that is not in the log. The result of
    /// a withheld call loses its content.
    fn is_new(&self, event: &mut Value) -> bool {
        let Some((kind, call)) = call_key(event) else { return true };
        let known = || self.0.iter().filter(|known| call_key(known).is_some_and(|of| of.1 == call));
        let is_known = known().any(|known| call_key(known).is_some_and(|of| of.0 == kind));
        let withheld = known().find_map(|known| known.get("withheld").cloned());
        if let (Some(why), Some(members)) = (withheld, event.as_object_mut()) {
            members.remove("content");
            members.insert("withheld".to_owned(), why);
        }
        !is_known
    }
}

/// Events of the log that the transcript may repeat.
struct LoggedEvents {
    /// The latest record of how far the transcript was read.
    note: Option<Value>,
    /// Messages, newest first; true for those older than `note`.
    events: Vec<(Value, bool)>,
    /// True if no older event was left out.
    is_whole: bool,
}

impl LoggedEvents {
    async fn read(client: &Client, session: &SessionId, limit: usize) -> Result<Self, String> {
        const KINDS: [&str; 7] = [
            kinds::AGENT_MESSAGE,
            kinds::USER_MESSAGE,
            kinds::AGENT_TOOL_USE,
            kinds::SESSION_STATUS_RUNNING,
            kinds::SESSION_STATUS_IDLE,
            kinds::SESSION_STATUS_TERMINATED,
            kinds::TRANSCRIPT_ENTRY,
        ];
        let mut known = Self { note: None, events: Vec::new(), is_whole: true };
        let newest = fetch_latest_logged(client, session, &KINDS, limit).await?;
        known.is_whole = newest.len() < limit;
        for event in newest {
            let is_older = known.note.is_some();
            if let Some(note) = event.get(NOTE).filter(|note| note.is_object() && !is_older) {
                known.note = Some(note.clone());
            }
            if has_type(&event, kinds::AGENT_MESSAGE) || has_type(&event, kinds::USER_MESSAGE) {
                known.events.push((event, is_older));
            }
        }
        Ok(known)
    }

    /// Returns true if another hook recorded the same stop and the transcript did not grow.
    fn is_repeat(&self, text: &str, tail: &TranscriptTail) -> bool {
        let bytes = |place: &Value| place.get("bytes").and_then(Value::as_u64);
        let read = self.note.as_ref().and_then(bytes);
        let mut latest = self.events.iter().map(|(event, _)| event);
        let latest = latest.find(|event| has_type(event, kinds::AGENT_MESSAGE));
        let latest = latest.and_then(|event| event.get("content")?.as_str());
        read.is_some()
            && read == tail.place.get("bytes").and_then(Value::as_u64)
            && latest == Some(text)
    }

    /// Returns true if the log has a line's message, compared by time: the store changes its id.
    fn has_message(&self, event: &Value) -> bool {
        let time = |of: &Value| of.get("created_at")?.as_str().and_then(Timestamp::parse);
        let says = |of: &Value| (time(of), of.get("content").cloned());
        let mut known = self.events.iter().map(|(known, _)| known);
        call_key(event).is_none() && known.any(|known| says(known) == says(event))
    }

    /// Returns true if a hook reported this prompt since the transcript was last read.
    fn has_prompt(&self, event: &Value) -> bool {
        let words = |of: &Value| of.get("content")?.as_str().map(|text| text.trim().to_owned());
        let newer = self.events.iter().filter(|(known, is_older)| {
            !is_older && has_type(known, kinds::USER_MESSAGE) && words(known) == words(event)
        });
        has_type(event, kinds::USER_MESSAGE) && newer.count() > 0
    }

    /// Returns the messages recorded by hooks that the unread part of the transcript should have,
    /// oldest first; all of them if it is read from its beginning.
    fn unread_messages(&self, all: bool) -> VecDeque<String> {
        let unread = self.note.as_ref().and_then(|note| note.get("unread")?.as_u64());
        let mut unread = unread.unwrap_or(0);
        let mut said = VecDeque::new();
        for (event, is_older) in &self.events {
            let is_hook = |id: &str| id.starts_with(HOOK_ID);
            if !has_type(event, kinds::AGENT_MESSAGE) {
                continue;
            }
            if !event.get("id").and_then(Value::as_str).is_some_and(is_hook) {
                continue;
            }
            if *is_older && !all {
                if unread == 0 {
                    break;
                }
                unread -= 1;
            }
            said.extend(event.get("content").and_then(Value::as_str).map(str::to_owned));
        }
        said.into_iter().rev().collect()
    }
}
