//! Converts lines of a Claude Code transcript to events. It must not make ids, nor drop a line: the
//! caller stores a line without events whole.

use serde_json::value::RawValue;

use super::{
    anthropic::{self, Bodies},
    members::{JsonMembers, ObjectWriter, parse_list, quote},
    queue::{self, PromptQueue},
    refusal,
};
use crate::event::kinds;

pub(super) use super::members::{content_text, is_true};

/// State from earlier lines that later lines need.
#[derive(Clone, Debug, Default)]
pub(super) struct ClaudeState {
    /// Trigger of the compaction whose summary follows.
    trigger: Option<String>,
    /// Lines that the compaction keeps in the context.
    preserved: Vec<PreservedRun>,
    /// Positions of the lines that the compaction keeps; set before its summary.
    pub(super) kept: Vec<(u64, u64)>,
    queue: PromptQueue,
    /// True if a later line delivers the text that leaves the queue with the next line.
    is_delivered: bool,
}

/// A run of lines that a compaction leaves in the context, by the `uuid`s of its ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PreservedRun {
    pub(super) head: String,
    pub(super) tail: String,
}

impl ClaudeState {
    /// Returns the events of a line; empty for a line without conversation, call or result. With
    /// `is_aside` it is a subagent's, which has a context of its own.
    pub(super) fn bodies(&mut self, line: &JsonMembers, is_aside: bool) -> Bodies {
        let message =
            line.non_null("message").and_then(|message| JsonMembers::read(message.get()).ok());
        let content = message.as_ref().and_then(|message| message.non_null("content"));
        let is_set = |name: &str| is_true(line, name);
        let dequeued = self.dequeued_text(line).filter(|_| !std::mem::take(&mut self.is_delivered));
        self.queue.apply_line(line);
        let bodies = match (line.text("type").as_deref(), content) {
            (Some("user"), Some(content)) if is_set("isCompactSummary") && !is_aside => {
                vec![(kinds::CONTEXT_COMPACTED, self.compaction_body(content))]
            }
            (Some("user"), Some(content)) if is_set("isMeta") => {
                anthropic::content_bodies("system", content)
            }
            (Some("user"), Some(content)) => {
                let bodies = anthropic::content_bodies("user", content);
                refusal::mark_refused(line, name_subagent(line, bodies))
            }
            (Some("assistant"), Some(content)) => anthropic::content_bodies("assistant", content),
            (Some("attachment"), _) => {
                let prompt = queue::queued_prompt(line).or_else(|| queue::queued_notice(line));
                let prompt = prompt.as_ref().and_then(|attached| attached.non_null("prompt"));
                prompt.map(|prompt| anthropic::content_bodies("user", prompt)).unwrap_or_default()
            }
            (Some("queue-operation"), _) => {
                dequeued.map(|text| user_message(&text)).into_iter().collect()
            }
            (Some("system"), _) if !is_aside => {
                self.record_boundary(line);
                Vec::new()
            }
            _ => Vec::new(),
        };
        let kind = |kind| if is_aside { kind_aside(kind) } else { kind };
        bodies.into_iter().map(|(of, body)| (kind(of), body)).collect()
    }

    /// Returns the queued text that a line removes, unless an earlier line delivered it.
    pub(super) fn dequeued_text(&self, line: &JsonMembers) -> Option<String> {
        self.queue.dequeued_text(line)
    }

    /// Records that a later line delivers the text that leaves the queue with the next line.
    pub(super) fn mark_delivered(&mut self) {
        self.is_delivered = true;
    }

    /// Records trigger and kept lines of a compaction, for its summary, which follows.
    fn record_boundary(&mut self, line: &JsonMembers) {
        if line.text("subtype").as_deref() == Some("compact_boundary") {
            let about = line
                .non_null("compactMetadata")
                .and_then(|about| JsonMembers::read(about.get()).ok());
            let about = about.unwrap_or_default();
            self.trigger = about.text("trigger");
            self.preserved = parse_preserved(&about);
        }
    }

    /// Removes and returns the lines that a compaction keeps, if the line is its summary.
    pub(super) fn take_preserved(&mut self, line: &JsonMembers) -> Vec<PreservedRun> {
        let is_summary = is_true(line, "isCompactSummary") && !is_true(line, "isSidechain");
        if is_summary { std::mem::take(&mut self.preserved) } else { Vec::new() }
    }

    fn compaction_body(&mut self, content: &RawValue) -> ObjectWriter {
        let mut body = ObjectWriter::new();
        let trigger = self.trigger.take().unwrap_or_else(|| "auto".to_owned());
        body.add("trigger", &quote(&trigger));
        add_kept(&mut body, &std::mem::take(&mut self.kept));
        body.add("summary", &quote(&content_text(content)));
        body
    }
}

/// Adds the ranges of positions that a compaction keeps.
pub(super) fn add_kept(body: &mut ObjectWriter, kept: &[(u64, u64)]) {
    let range = |(from, to): &(u64, u64)| format!("{{\"from\":{from},\"to\":{to}}}");
    if !kept.is_empty() {
        let kept: Vec<String> = kept.iter().map(range).collect();
        body.add("kept", &format!("[{}]", kept.join(",")));
    }
}

fn user_message(text: &str) -> (&'static str, ObjectWriter) {
    let mut body = ObjectWriter::new();
    body.add("content", &quote(text));
    (kinds::USER_MESSAGE, body)
}

/// Adds the id of the subagent that a call started to its result, if the line has no other result.
fn name_subagent(line: &JsonMembers, mut bodies: Bodies) -> Bodies {
    let about = line.non_null("toolUseResult").filter(|about| about.get().contains("agentId"));
    let about = about.and_then(|about| JsonMembers::read(about.get()).ok());
    let mut results = bodies.iter_mut().filter(|(kind, _)| *kind == kinds::AGENT_TOOL_RESULT);
    if let (Some(id), Some((_, result)), None) =
        (about.and_then(|about| about.text("agentId")), results.next(), results.next())
    {
        result.add("agent_id", &quote(&id));
    }
    bodies
}

/// Returns the runs of lines that a compaction keeps: each line of a list, or one segment.
fn parse_preserved(about: &JsonMembers) -> Vec<PreservedRun> {
    let read = |name: &str| JsonMembers::read(about.non_null(name)?.get()).ok();
    let uuids =
        read("preservedMessages").and_then(|kept| parse_list::<String>(kept.non_null("uuids")?));
    if let Some(uuids) = uuids.filter(|uuids| !uuids.is_empty()) {
        let one = |uuid: String| PreservedRun { head: uuid.clone(), tail: uuid };
        return uuids.into_iter().map(one).collect();
    }
    let segment = read("preservedSegment").and_then(|segment| {
        Some(PreservedRun { head: segment.text("headUuid")?, tail: segment.text("tailUuid")? })
    });
    segment.into_iter().collect()
}

/// Returns the type of a subagent's event. Its messages are not part of the conversation with the
/// user; its calls and results are work like any other.
fn kind_aside(kind: &'static str) -> &'static str {
    match kind {
        kinds::USER_MESSAGE | kinds::SYSTEM_MESSAGE => kinds::AGENT_THREAD_MESSAGE_SENT,
        kinds::AGENT_MESSAGE => kinds::AGENT_THREAD_MESSAGE_RECEIVED,
        other => other,
    }
}

/// Prefix of a result whose whole text is in a separate file.
pub(super) const PERSISTED: &str = "<persisted-output>";

/// Returns the path of the file with the whole result, if the line has only its beginning.
pub(super) fn whole_result_path(line: &JsonMembers) -> Option<String> {
    let message = JsonMembers::read(line.non_null("message")?.get()).ok()?;
    let blocks: Vec<JsonMembers> = parse_list(message.non_null("content")?)?;
    blocks.iter().find_map(|block| {
        let text = content_text(
            block
                .non_null("content")
                .filter(|_| block.text("type").as_deref() == Some("tool_result"))?,
        );
        let output = text.trim_start().strip_prefix(PERSISTED)?;
        let (_, path) = output.split_once("saved to: ")?;
        path.lines().next().map(|path| path.trim().to_owned())
    })
}
