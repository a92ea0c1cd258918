//! Lines of a Claude Code transcript to the events they mean. It must not name events, and must not
//! lose a line: what means nothing here is kept whole by the caller.

use serde_json::value::RawValue;

use super::{
    anthropic::{self, Bodies},
    members::{Members, Object, quote},
};

/// What of earlier lines matters to later ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Claude {
    /// What caused the compaction whose summary is to come.
    trigger: Option<String>,
}

impl Claude {
    /// The events of a line; none when it means nothing to a reader of the session.
    pub(super) fn bodies(&mut self, line: &Members) -> Bodies {
        let message = line.some("message").and_then(|message| Members::read(message.get()).ok());
        let content = message.as_ref().and_then(|message| message.some("content"));
        let says = |name: &str| line.raw(name).is_some_and(|value| value.get() == "true");
        let bodies = match (line.text("type").as_deref(), content) {
            (Some("user"), Some(content)) if says("isCompactSummary") => {
                vec![("context.compacted", self.compacted(content))]
            }
            (Some("user"), Some(content)) if says("isMeta") => anthropic::bodies("system", content),
            (Some("user"), Some(content)) => anthropic::bodies("user", content),
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

    /// The line before a summary says what caused it.
    fn note(&mut self, line: &Members) {
        if line.text("subtype").as_deref() == Some("compact_boundary") {
            let about =
                line.some("compactMetadata").and_then(|about| Members::read(about.get()).ok());
            self.trigger = about.and_then(|about| about.text("trigger"));
        }
    }

    fn compacted(&mut self, content: &RawValue) -> Object {
        let mut body = Object::new();
        let trigger = self.trigger.take().unwrap_or_else(|| "auto".to_owned());
        body.add("trigger", &quote(&trigger));
        body.add("summary", &quote(&text_of(content)));
        body
    }
}

/// What a subagent says and hears is no word of the conversation with the user; what its tools are
/// asked and answer is work like any other.
fn aside(line: &Members, (kind, mut body): (&'static str, Object)) -> (&'static str, Object) {
    let thread = line.text("agentId").unwrap_or_else(|| "sidechain".to_owned());
    body.add("session_thread_id", &quote(&thread));
    let kind = match kind {
        "user.message" | "system.message" => "agent.thread_message_sent",
        "agent.message" => "agent.thread_message_received",
        other => other,
    };
    (kind, body)
}

/// The words of a content.
pub(super) fn text_of(content: &RawValue) -> String {
    if let Ok(text) = serde_json::from_str::<String>(content.get()) {
        return text;
    }
    let blocks: Vec<Members> = serde_json::from_str(content.get()).unwrap_or_default();
    let texts: Vec<String> = blocks.iter().filter_map(|block| block.text("text")).collect();
    texts.join("\n")
}
