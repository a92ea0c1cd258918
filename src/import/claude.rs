//! Lines of a Claude Code transcript to events. It must not name events, and must not lose a line:
//! the caller keeps a line without events whole.

use serde_json::value::RawValue;

use super::{
    anthropic::{self, Bodies},
    members::{Members, Object, listed, quote, text_of},
    refusal,
};
use crate::event::kinds;

/// What of earlier lines matters to later ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Claude {
    /// The cause of the compaction whose summary follows.
    trigger: Option<String>,
    /// Lines that it keeps in the context.
    preserved: Vec<Preserved>,
    /// Where they are.
    kept: Vec<(u64, u64)>,
}

/// Lines that a compaction leaves in the context, by their `uuid`s: from one to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Preserved {
    pub(super) head: String,
    pub(super) tail: String,
}

impl Claude {
    /// The events of a line; empty when it has no meaning for a reader of the session.
    pub(super) fn bodies(&mut self, line: &Members) -> Bodies {
        let message = line.some("message").and_then(|message| Members::read(message.get()).ok());
        let content = message.as_ref().and_then(|message| message.some("content"));
        let says = |name: &str| says(line, name);
        let bodies = match (line.text("type").as_deref(), content) {
            (Some("user"), Some(content)) if says("isCompactSummary") => {
                vec![(kinds::CONTEXT_COMPACTED, self.compacted(content))]
            }
            (Some("user"), Some(content)) if says("isMeta") => anthropic::bodies("system", content),
            (Some("user"), Some(content)) => {
                refusal::marked(line, anthropic::bodies("user", content))
            }
            (Some("assistant"), Some(content)) => anthropic::bodies("assistant", content),
            (Some("system"), _) => {
                self.note(line);
                Vec::new()
            }
            _ => Vec::new(),
        };
        if says("isSidechain") {
            bodies.into_iter().map(|body| aside(line, body)).collect()
        } else {
            bodies
        }
    }

    /// The line before a summary has its cause.
    fn note(&mut self, line: &Members) {
        if line.text("subtype").as_deref() == Some("compact_boundary") {
            let about =
                line.some("compactMetadata").and_then(|about| Members::read(about.get()).ok());
            let about = about.unwrap_or_default();
            self.trigger = about.text("trigger");
            self.preserved = preserved(&about);
        }
    }

    /// The lines that a compaction keeps in the context, returned once with its summary.
    pub(super) fn preserved(&mut self, line: &Members) -> Vec<Preserved> {
        let is_summary = says(line, "isCompactSummary") && !says(line, "isSidechain");
        if is_summary { std::mem::take(&mut self.preserved) } else { Vec::new() }
    }

    /// Sets the positions of these lines.
    pub(super) fn keep(&mut self, kept: Vec<(u64, u64)>) {
        self.kept = kept;
    }

    fn compacted(&mut self, content: &RawValue) -> Object {
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

pub(super) fn says(line: &Members, name: &str) -> bool {
    line.raw(name).is_some_and(|value| value.get() == "true")
}

/// The lines that a boundary keeps: each one of a list, or all of a segment.
fn preserved(about: &Members) -> Vec<Preserved> {
    let read = |name: &str| Members::read(about.some(name)?.get()).ok();
    let uuids = read("preservedMessages").and_then(|kept| listed::<String>(kept.some("uuids")?));
    if let Some(uuids) = uuids.filter(|uuids| !uuids.is_empty()) {
        let one = |uuid: String| Preserved { head: uuid.clone(), tail: uuid };
        return uuids.into_iter().map(one).collect();
    }
    let segment = read("preservedSegment").and_then(|segment| {
        Some(Preserved { head: segment.text("headUuid")?, tail: segment.text("tailUuid")? })
    });
    segment.into_iter().collect()
}

/// A subagent's messages are not part of the conversation with the user; its calls and results are
/// work like any other.
fn aside(line: &Members, (kind, mut body): (&'static str, Object)) -> (&'static str, Object) {
    let thread = line.text("agentId").unwrap_or_else(|| "sidechain".to_owned());
    body.add("session_thread_id", &quote(&thread));
    let kind = match kind {
        kinds::USER_MESSAGE | kinds::SYSTEM_MESSAGE => kinds::AGENT_THREAD_MESSAGE_SENT,
        kinds::AGENT_MESSAGE => kinds::AGENT_THREAD_MESSAGE_RECEIVED,
        other => other,
    };
    (kind, body)
}
