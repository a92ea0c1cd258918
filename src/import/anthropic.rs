//! Messages of Anthropic's API to events and back, and the blocks that they share with agents'
//! transcripts. A message without such blocks is read as a common chat message. It must not do I/O.

use serde_json::value::RawValue;

use super::{
    members::{Members, Object, listed, quote},
    speech::{self, EventRole, Image},
};
use crate::event::kinds;

/// Types and bodies of events.
pub(super) type Bodies = Vec<(&'static str, Object)>;

/// The name of the format in an event's `raw_format`.
pub(super) const FORMAT: &str = "anthropic";

/// Returns the events of a message with blocks of this API; `None` for any other.
pub(super) fn message(message: &Members) -> Option<Bodies> {
    let role = message.text("role")?;
    let content = message.non_null("content")?;
    let blocks: Vec<Members> = listed(content)?;
    blocks
        .iter()
        .any(|block| BlockKind::from_block(block) != BlockKind::Said)
        .then(|| bodies(&role, content))
}

/// Kind of a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    /// Part of a text: a text, an image, a document.
    Said,
    Thought,
    Call,
    Answer,
}

impl BlockKind {
    fn from_block(block: &Members) -> Self {
        match block.text("type").unwrap_or_default() {
            kind if kind.ends_with("tool_use") => Self::Call,
            kind if kind.ends_with("tool_result") => Self::Answer,
            kind if kind.ends_with("thinking") => Self::Thought,
            _ => Self::Said,
        }
    }
}

/// Returns the events of a content: a text, or blocks. Texts between calls stay together.
pub(super) fn bodies(role: &str, content: &RawValue) -> Bodies {
    let kind = match role {
        "assistant" => kinds::AGENT_MESSAGE,
        "user" => kinds::USER_MESSAGE,
        "system" | "developer" => kinds::SYSTEM_MESSAGE,
        _ => return Vec::new(),
    };
    let Some(blocks) = listed::<Box<RawValue>>(content) else {
        return vec![(kind, content_of(content.get()))];
    };
    let mut bodies = Vec::new();
    let mut said: Vec<&str> = Vec::new();
    for block in &blocks {
        let members = Members::read(block.get()).unwrap_or_default();
        let body = match BlockKind::from_block(&members) {
            BlockKind::Said => {
                said.push(block.get());
                continue;
            }
            BlockKind::Thought => (kinds::AGENT_THINKING, thought_body(&members)),
            BlockKind::Call => (kinds::AGENT_TOOL_USE, call_body(&members)),
            BlockKind::Answer => (kinds::AGENT_TOOL_RESULT, answer_body(&members)),
        };
        close(&mut said, kind, &mut bodies);
        bodies.push(body);
    }
    if bodies.is_empty() || !said.is_empty() {
        bodies.push((kind, content_of(&format!("[{}]", said.join(",")))));
    }
    bodies
}

fn close(said: &mut Vec<&str>, kind: &'static str, bodies: &mut Bodies) {
    if !said.is_empty() {
        bodies.push((kind, content_of(&format!("[{}]", said.join(",")))));
        said.clear();
    }
}

fn content_of(content: &str) -> Object {
    let mut body = Object::new();
    body.add("content", content);
    body
}

/// Returns the members of a block under their names in events.
fn renamed_members(block: &Members, names: &[(&str, &str)]) -> Object {
    let mut body = Object::new();
    for (theirs, ours) in names {
        if let Some(value) = block.non_null(theirs) {
            body.add(ours, value.get());
        }
    }
    body
}

fn thought_body(block: &Members) -> Object {
    renamed_members(block, &[("thinking", "content")])
}

fn call_body(block: &Members) -> Object {
    renamed_members(
        block,
        &[("name", "name"), ("input", "input"), ("id", "call_id"), ("server_name", "server")],
    )
}

fn answer_body(block: &Members) -> Object {
    let names = [("tool_use_id", "call_id"), ("content", "content"), ("is_error", "is_error")];
    let mut body = renamed_members(block, &names);
    // A tool on the model's server reports an error by the type of its content.
    let content = block.non_null("content").and_then(|content| Members::read(content.get()).ok());
    let kind = content.and_then(|content| content.text("type")).unwrap_or_default();
    if kind.ends_with("_error") && block.non_null("is_error").is_none() {
        body.add("is_error", "true");
    }
    body
}

/// Returns the messages of events: imported ones unchanged, the others built from their content;
/// and the system text.
pub(super) fn messages(events: &[Members]) -> (Vec<String>, Option<String>) {
    let mut made = MadeMessages::default();
    for event in events {
        if speech::is_aside(event) {
            continue;
        }
        let foreign = event.text("raw_format").filter(|format| format != FORMAT).is_some();
        if let Some(raw) = event.raw("raw").filter(|raw| !foreign && is_of_this_api(raw)) {
            made.close();
            made.messages.push(raw.get().to_owned());
        } else if event.raw("raw_in").is_some() && !foreign && !made.chat {
            // Part of the message written already.
        } else {
            made.chat = event.raw("raw").is_some() || made.chat && event.raw("raw_in").is_some();
            made.take(event);
        }
    }
    made.close();
    let system = (!made.system.is_empty()).then(|| format!("[{}]", made.system.join(",")));
    (made.messages, system)
}

/// Returns true if an imported message belongs to this API: not a system message, and without calls
/// or blocks of the other API.
fn is_of_this_api(raw: &RawValue) -> bool {
    const THEIRS: [&str; 7] =
        ["image_url", "input_audio", "file", "refusal", "input_text", "input_image", "output_text"];
    let Ok(message) = Members::read(raw.get()) else { return false };
    let role = message.text("role");
    let Some(content) = message.non_null("content") else { return false };
    let blocks: Vec<Members> = listed(content).unwrap_or_default();
    let theirs =
        |block: &Members| block.text("type").is_some_and(|kind| THEIRS.contains(&kind.as_str()));
    matches!(role.as_deref(), Some("user" | "assistant"))
        && !blocks.iter().any(theirs)
        && ["tool_calls", "function_call", "refusal"]
            .iter()
            .all(|name| message.non_null(name).is_none())
}

/// Messages under construction.
#[derive(Default)]
struct MadeMessages {
    messages: Vec<String>,
    system: Vec<String>,
    /// The role and the blocks of the open message.
    open: Option<(&'static str, Vec<String>)>,
    /// True if the last message came from another chat format.
    chat: bool,
}

impl MadeMessages {
    fn take(&mut self, event: &Members) {
        let content = || blocks(event.non_null("content"));
        match EventRole::from_event(event) {
            EventRole::System => self.system.extend(content()),
            EventRole::User => self.push_blocks("user", content()),
            EventRole::Agent => self.push_blocks("assistant", content()),
            EventRole::Call => {
                let mut block = Object::new();
                block.add("type", "\"tool_use\"");
                block.add("id", speech::call_id(event));
                block.add("name", event.non_null("name").map_or("\"\"", RawValue::get));
                block.add("input", event.non_null("input").map_or("{}", RawValue::get));
                self.push_blocks("assistant", vec![block.finish()]);
            }
            EventRole::Answer => {
                let mut block = Object::new();
                block.add("type", "\"tool_result\"");
                block.add("tool_use_id", speech::call_id(event));
                block.add("content", &format!("[{}]", content().join(",")));
                if let Some(error) = event.non_null("is_error") {
                    block.add("is_error", error.get());
                }
                self.push_blocks("user", vec![block.finish()]);
            }
            EventRole::Summary => {
                let summary = blocks(event.non_null("summary"));
                if !summary.is_empty() {
                    self.push_blocks("user", summary);
                }
            }
            EventRole::Nothing => {}
        }
    }

    fn push_blocks(&mut self, role: &'static str, blocks: Vec<String>) {
        match &mut self.open {
            Some((open, said)) if *open == role => said.extend(blocks),
            _ => {
                self.close();
                self.open = Some((role, blocks));
            }
        }
    }

    fn close(&mut self) {
        let Some((role, blocks)) = self.open.take() else { return };
        let mut message = Object::new();
        message.add("role", &quote(role));
        message.add("content", &format!("[{}]", blocks.join(",")));
        self.messages.push(message.finish());
    }
}

/// Returns a content as blocks with the names of this API.
fn blocks(content: Option<&RawValue>) -> Vec<String> {
    let block = |(block, raw): (speech::ContentBlock, String)| match block {
        speech::ContentBlock::Text(text) => speech::text_block(&text),
        speech::ContentBlock::Image(image) => {
            let mut source = Object::new();
            match image {
                Image::Url(url) => {
                    source.add("type", "\"url\"");
                    source.add("url", &quote(&url));
                }
                Image::Data(media_type, data) => {
                    source.add("type", "\"base64\"");
                    source.add("media_type", &quote(&media_type));
                    source.add("data", &quote(&data));
                }
            }
            let mut block = Object::new();
            block.add("type", "\"image\"");
            block.add("source", &source.finish());
            block.finish()
        }
        speech::ContentBlock::Other => raw,
    };
    speech::blocks(content).into_iter().map(block).collect()
}
