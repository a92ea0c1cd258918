//! Lines of a Claude Code transcript to events. It must not make ids, and must not drop a line: the
//! caller stores a line without events whole.

use serde_json::value::RawValue;

use super::{
    anthropic::{self, Bodies},
    members::{Members, Object, listed, quote},
    queue::{self, PromptQueue},
    refusal,
};
use crate::event::kinds;

pub(super) use super::members::{is_true, text_of};

/// State of earlier lines that later lines need.
#[derive(Clone, Debug, Default)]
pub(super) struct Claude {
    /// The trigger of the compaction whose summary follows.
    trigger: Option<String>,
    /// Lines that this compaction keeps in the context.
    preserved: Vec<Preserved>,
    /// Positions of the lines that this compaction keeps.
    kept: Vec<(u64, u64)>,
    queue: PromptQueue,
    /// True if a later line has the text that leaves the queue with the next one.
    repeated: bool,
}

/// A run of lines that a compaction leaves in the context, by the `uuid`s of its ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Preserved {
    pub(super) head: String,
    pub(super) tail: String,
}

impl Claude {
    /// Returns the events of a line; empty when it has no meaning for a reader of the session.
    pub(super) fn bodies(&mut self, line: &Members) -> Bodies {
        let message =
            line.non_null("message").and_then(|message| Members::read(message.get()).ok());
        let content = message.as_ref().and_then(|message| message.non_null("content"));
        let says = |name: &str| is_true(line, name);
        let leaving = self.leaving(line).filter(|_| !std::mem::take(&mut self.repeated));
        self.queue.take(line);
        let bodies = match (line.text("type").as_deref(), content) {
            (Some("user"), Some(content)) if says("isCompactSummary") => {
                vec![(kinds::CONTEXT_COMPACTED, self.compaction_body(content))]
            }
            (Some("user"), Some(content)) if says("isMeta") => anthropic::bodies("system", content),
            (Some("user"), Some(content)) => {
                refusal::marked(line, anthropic::bodies("user", content))
            }
            (Some("assistant"), Some(content)) => anthropic::bodies("assistant", content),
            (Some("attachment"), _) => {
                let prompt = queue::attached(line);
                let prompt = prompt.as_ref().and_then(|attached| attached.non_null("prompt"));
                prompt.map(|prompt| anthropic::bodies("user", prompt)).unwrap_or_default()
            }
            (Some("queue-operation"), _) => {
                leaving.map(|text| user_message(&text)).into_iter().collect()
            }
            (Some("system"), _) => {
                self.note_boundary(line);
                Vec::new()
            }
            _ => Vec::new(),
        };
        if says("isSidechain") {
            bodies.into_iter().map(|body| thread_message(line, body)).collect()
        } else {
            bodies
        }
    }

    /// Returns the user's text that leaves the queue with a line.
    pub(super) fn leaving(&self, line: &Members) -> Option<String> {
        self.queue.leaving(line)
    }

    /// Marks the text that leaves the queue with the next line as delivered by a later line.
    pub(super) fn repeat(&mut self) {
        self.repeated = true;
    }

    /// Remembers trigger and kept lines of a compaction; its summary follows.
    fn note_boundary(&mut self, line: &Members) {
        if line.text("subtype").as_deref() == Some("compact_boundary") {
            let about =
                line.non_null("compactMetadata").and_then(|about| Members::read(about.get()).ok());
            let about = about.unwrap_or_default();
            self.trigger = about.text("trigger");
            self.preserved = preserved(&about);
        }
    }

    /// Returns the lines that a compaction keeps in the context, once, with its summary.
    pub(super) fn preserved(&mut self, line: &Members) -> Vec<Preserved> {
        let is_summary = is_true(line, "isCompactSummary") && !is_true(line, "isSidechain");
        if is_summary { std::mem::take(&mut self.preserved) } else { Vec::new() }
    }

    /// Sets the positions of these lines.
    pub(super) fn keep(&mut self, kept: Vec<(u64, u64)>) {
        self.kept = kept;
    }

    fn compaction_body(&mut self, content: &RawValue) -> Object {
        let mut body = Object::new();
        let trigger = self.trigger.take().unwrap_or_else(|| "auto".to_owned());
        body.add("trigger", &quote(&trigger));
        let kept = std::mem::take(&mut self.kept);
        let range = |(from, to): &(u64, u64)| format!("{{\"from\":{from},\"to\":{to}}}");
        if !kept.is_empty() {
            let kept: Vec<String> = kept.iter().map(range).collect();
            body.add("kept", &format!("[{}]", kept.join(",")));
        }
        body.add("summary", &quote(&text_of(content)));
        body
    }
}

fn user_message(text: &str) -> (&'static str, Object) {
    let mut body = Object::new();
    body.add("content", &quote(text));
    (kinds::USER_MESSAGE, body)
}

/// Returns the lines that a boundary keeps: each one of a list, or all of a segment.
fn preserved(about: &Members) -> Vec<Preserved> {
    let read = |name: &str| Members::read(about.non_null(name)?.get()).ok();
    let uuids =
        read("preservedMessages").and_then(|kept| listed::<String>(kept.non_null("uuids")?));
    if let Some(uuids) = uuids.filter(|uuids| !uuids.is_empty()) {
        let one = |uuid: String| Preserved { head: uuid.clone(), tail: uuid };
        return uuids.into_iter().map(one).collect();
    }
    let segment = read("preservedSegment").and_then(|segment| {
        Some(Preserved { head: segment.text("headUuid")?, tail: segment.text("tailUuid")? })
    });
    segment.into_iter().collect()
}

/// Marks an event as a subagent's. Its messages are not part of the conversation with the user; its
/// calls and results are work like any other.
fn thread_message(
    line: &Members,
    (kind, mut body): (&'static str, Object),
) -> (&'static str, Object) {
    let thread = line.text("agentId").unwrap_or_else(|| "sidechain".to_owned());
    body.add("session_thread_id", &quote(&thread));
    let kind = match kind {
        kinds::USER_MESSAGE | kinds::SYSTEM_MESSAGE => kinds::AGENT_THREAD_MESSAGE_SENT,
        kinds::AGENT_MESSAGE => kinds::AGENT_THREAD_MESSAGE_RECEIVED,
        other => other,
    };
    (kind, body)
}

/// First characters of a result that is kept in a separate file.
pub(super) const APART: &str = "<persisted-output>";

/// Returns the path of a result of which the line has only the beginning.
pub(super) fn kept_apart(line: &Members) -> Option<String> {
    let message = Members::read(line.non_null("message")?.get()).ok()?;
    let blocks: Vec<Members> = listed(message.non_null("content")?)?;
    blocks.iter().find_map(|block| {
        let text = text_of(
            block
                .non_null("content")
                .filter(|_| block.text("type").as_deref() == Some("tool_result"))?,
        );
        let told = text.trim_start().strip_prefix(APART)?;
        let (_, path) = told.split_once("saved to: ")?;
        path.lines().next().map(|path| path.trim().to_owned())
    })
}
