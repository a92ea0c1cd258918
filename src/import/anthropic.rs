//! Converts messages of Anthropic's API to events and back; transcripts of agents have the same
//! blocks. A message without such blocks is read as a common chat message. It must not do I/O.

use serde_json::value::RawValue;

use super::{
    members::{JsonMembers, ObjectWriter, parse_list, quote},
    speech::{self, EventRole, ImportedImage},
};
use crate::event::kinds;

/// Types and bodies of the events made from one record.
pub(super) type Bodies = Vec<(&'static str, ObjectWriter)>;

/// Value of an event's `raw_format` for messages of this API.
pub(super) const FORMAT: &str = "anthropic";

/// Returns the events of a message with blocks of this API; `None` for any other.
pub(super) fn message_bodies(message: &JsonMembers) -> Option<Bodies> {
    let role = message.text("role")?;
    let content = message.non_null("content")?;
    let blocks: Vec<JsonMembers> = parse_list(content)?;
    blocks
        .iter()
        .any(|block| BlockKind::from_block(block) != BlockKind::Text)
        .then(|| content_bodies(&role, content))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    /// A part of a message: a text, an image, a document.
    Text,
    Thinking,
    Call,
    Result,
}

impl BlockKind {
    fn from_block(block: &JsonMembers) -> Self {
        match block.text("type").unwrap_or_default() {
            kind if kind.ends_with("tool_use") => Self::Call,
            kind if kind.ends_with("tool_result") => Self::Result,
            kind if kind.ends_with("thinking") => Self::Thinking,
            _ => Self::Text,
        }
    }
}

/// Returns the events of a content, which is a text or blocks; adjacent texts form one event.
pub(super) fn content_bodies(role: &str, content: &RawValue) -> Bodies {
    let kind = match role {
        "assistant" => kinds::AGENT_MESSAGE,
        "user" => kinds::USER_MESSAGE,
        "system" | "developer" => kinds::SYSTEM_MESSAGE,
        _ => return Vec::new(),
    };
    let Some(blocks) = parse_list::<Box<RawValue>>(content) else {
        return vec![(kind, content_body(content.get()))];
    };
    let mut bodies = Vec::new();
    let mut texts: Vec<&str> = Vec::new();
    for block in &blocks {
        let members = JsonMembers::read(block.get()).unwrap_or_default();
        let body = match BlockKind::from_block(&members) {
            BlockKind::Text => {
                texts.push(block.get());
                continue;
            }
            BlockKind::Thinking => (kinds::AGENT_THINKING, thinking_body(&members)),
            BlockKind::Call => (kinds::AGENT_TOOL_USE, call_body(&members)),
            BlockKind::Result => (kinds::AGENT_TOOL_RESULT, result_body(&members)),
        };
        push_text(&mut texts, kind, &mut bodies);
        bodies.push(body);
    }
    if bodies.is_empty() || !texts.is_empty() {
        bodies.push((kind, content_body(&format!("[{}]", texts.join(",")))));
    }
    bodies
}

fn push_text(texts: &mut Vec<&str>, kind: &'static str, bodies: &mut Bodies) {
    if !texts.is_empty() {
        bodies.push((kind, content_body(&format!("[{}]", texts.join(",")))));
        texts.clear();
    }
}

fn content_body(content: &str) -> ObjectWriter {
    let mut body = ObjectWriter::new();
    body.add("content", content);
    body
}

/// Returns the members of a block, renamed from their names here to those in events.
fn renamed_members(block: &JsonMembers, names: &[(&str, &str)]) -> ObjectWriter {
    let mut body = ObjectWriter::new();
    for (from, to) in names {
        if let Some(value) = block.non_null(from) {
            body.add(to, value.get());
        }
    }
    body
}

fn thinking_body(block: &JsonMembers) -> ObjectWriter {
    renamed_members(block, &[("thinking", "content")])
}

fn call_body(block: &JsonMembers) -> ObjectWriter {
    renamed_members(
        block,
        &[("name", "name"), ("input", "input"), ("id", "call_id"), ("server_name", "server")],
    )
}

fn result_body(block: &JsonMembers) -> ObjectWriter {
    let names = [("tool_use_id", "call_id"), ("content", "content"), ("is_error", "is_error")];
    let mut body = renamed_members(block, &names);
    // A tool on the model's server reports an error by the type of its content.
    let content =
        block.non_null("content").and_then(|content| JsonMembers::read(content.get()).ok());
    let kind = content.and_then(|content| content.text("type")).unwrap_or_default();
    if kind.ends_with("_error") && block.non_null("is_error").is_none() {
        body.add("is_error", "true");
    }
    body
}

/// Writes events as messages, imported ones unchanged and the others from their content; also
/// returns the system text.
pub(super) fn write_messages(events: &[JsonMembers]) -> (Vec<String>, Option<String>) {
    let mut made = MessagesBuilder::default();
    for event in events {
        if speech::is_outside_chat(event) {
            continue;
        }
        let foreign = event.text("raw_format").filter(|format| format != FORMAT).is_some();
        if let Some(raw) = event.raw("raw").filter(|raw| !foreign && is_anthropic_message(raw)) {
            made.close();
            made.messages.push(raw.get().to_owned());
        } else if event.raw("raw_in").is_some() && !foreign && !made.chat {
            // A part of the imported message that was written before.
        } else {
            made.chat = event.raw("raw").is_some() || made.chat && event.raw("raw_in").is_some();
            made.add_event(event);
        }
    }
    made.close();
    let system = (!made.system.is_empty()).then(|| format!("[{}]", made.system.join(",")));
    (made.messages, system)
}

/// Returns true if an imported message belongs to this API: not a system message, and without calls
/// or blocks of the other API.
fn is_anthropic_message(raw: &RawValue) -> bool {
    const OPENAI_BLOCKS: [&str; 7] =
        ["image_url", "input_audio", "file", "refusal", "input_text", "input_image", "output_text"];
    let Ok(message) = JsonMembers::read(raw.get()) else { return false };
    let role = message.text("role");
    let Some(content) = message.non_null("content") else { return false };
    let blocks: Vec<JsonMembers> = parse_list(content).unwrap_or_default();
    let is_openai = |block: &JsonMembers| {
        block.text("type").is_some_and(|kind| OPENAI_BLOCKS.contains(&kind.as_str()))
    };
    matches!(role.as_deref(), Some("user" | "assistant"))
        && !blocks.iter().any(is_openai)
        && ["tool_calls", "function_call", "refusal"]
            .iter()
            .all(|name| message.non_null(name).is_none())
}

/// Messages under construction.
#[derive(Default)]
struct MessagesBuilder {
    messages: Vec<String>,
    system: Vec<String>,
    /// Role and blocks of the message that is not finished.
    open: Option<(&'static str, Vec<String>)>,
    /// True if the last message came from another chat format.
    chat: bool,
}

impl MessagesBuilder {
    fn add_event(&mut self, event: &JsonMembers) {
        let content = || convert_blocks(event.non_null("content"));
        match EventRole::from_event(event) {
            EventRole::System => self.system.extend(content()),
            EventRole::User => self.push_blocks("user", content()),
            EventRole::Agent => self.push_blocks("assistant", content()),
            EventRole::Call => {
                let mut block = ObjectWriter::new();
                block.add("type", "\"tool_use\"");
                block.add("id", speech::call_id(event));
                block.add("name", event.non_null("name").map_or("\"\"", RawValue::get));
                block.add("input", event.non_null("input").map_or("{}", RawValue::get));
                self.push_blocks("assistant", vec![block.finish()]);
            }
            EventRole::Result => {
                let mut block = ObjectWriter::new();
                block.add("type", "\"tool_result\"");
                block.add("tool_use_id", speech::call_id(event));
                block.add("content", &format!("[{}]", content().join(",")));
                if let Some(error) = event.non_null("is_error") {
                    block.add("is_error", error.get());
                }
                self.push_blocks("user", vec![block.finish()]);
            }
            EventRole::Summary => {
                let summary = convert_blocks(event.non_null("summary"));
                if !summary.is_empty() {
                    self.push_blocks("user", summary);
                }
            }
            EventRole::Nothing => {}
        }
    }

    fn push_blocks(&mut self, role: &'static str, blocks: Vec<String>) {
        match &mut self.open {
            Some((open, texts)) if *open == role => texts.extend(blocks),
            _ => {
                self.close();
                self.open = Some((role, blocks));
            }
        }
    }

    fn close(&mut self) {
        let Some((role, blocks)) = self.open.take() else { return };
        let mut message = ObjectWriter::new();
        message.add("role", &quote(role));
        message.add("content", &format!("[{}]", blocks.join(",")));
        self.messages.push(message.finish());
    }
}

/// Converts a content to blocks with the names of this API.
fn convert_blocks(content: Option<&RawValue>) -> Vec<String> {
    let block = |(block, raw): (speech::ImportedBlock, String)| match block {
        speech::ImportedBlock::Text(text) => speech::text_block(&text),
        speech::ImportedBlock::Image(image) => {
            let mut source = ObjectWriter::new();
            match image {
                ImportedImage::Url(url) => {
                    source.add("type", "\"url\"");
                    source.add("url", &quote(&url));
                }
                ImportedImage::Data(media_type, data) => {
                    source.add("type", "\"base64\"");
                    source.add("media_type", &quote(&media_type));
                    source.add("data", &quote(&data));
                }
            }
            let mut block = ObjectWriter::new();
            block.add("type", "\"image\"");
            block.add("source", &source.finish());
            block.finish()
        }
        speech::ImportedBlock::Other => raw,
    };
    speech::split_blocks(content).into_iter().map(block).collect()
}
