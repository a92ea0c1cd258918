//! The parts of a conversation in an event: text, a call, a result, in each of the shapes that
//! clients write. An image stays one; any other block that is no text becomes a line with its type
//! and position. It must not order, pair or cut.

use std::fmt::Write as _;

use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};

use crate::{
    event::{Event, EventType, Position, Range, Timestamp, json, kinds, text::one_line},
    projection::body,
};

/// Characters of a foreign block that are shown as they are.
const FOREIGN_CHARS_MAX: usize = 2_000;

/// Something a model can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentBlock {
    /// Words.
    Text(String),
    /// A picture.
    Image(Image),
}

/// Source of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// At an address.
    Url(String),
    /// Here: its media type, and its bytes in base64.
    Data(String, String),
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolUse {
    /// The id by which its result names it; empty when it has none.
    pub id: String,
    /// The tool.
    pub name: String,
    /// JSON text of its arguments.
    pub input: String,
}

/// Answer of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// The call it answers; empty when the result names none.
    pub call_id: String,
    /// The tool, where the result names it.
    pub name: Option<String>,
    /// Its content.
    pub blocks: Vec<ContentBlock>,
    /// True if the tool called it an error.
    pub is_error: bool,
}

/// A message by its speaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Speech {
    /// Instructions to the model.
    System(Vec<ContentBlock>),
    /// A person, or the harness on its behalf.
    User(Vec<ContentBlock>),
    /// The model.
    Assistant(Vec<ContentBlock>),
    /// The model calls a tool.
    Call(ToolUse),
    /// The tool answers.
    Result(ToolResult),
    /// A client's summary of events that it dropped from its own context.
    Summary(String, Vec<Range>),
    /// Nothing that a model reads as a message.
    Nothing,
}

/// One event's part of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaidEvent {
    /// Position of the event.
    pub position: Position,
    /// Type of the event.
    pub kind: EventType,
    /// Time of the event, by the store's clock.
    pub at: Timestamp,
    /// Message of the event.
    pub speech: Speech,
    /// Index of its event; `None` for a line of the window itself.
    pub event: Option<usize>,
    /// True if a transform changed it.
    pub changed: bool,
    /// True if words of it are left out.
    pub cut: bool,
}

/// Members of the events of a conversation, under each of their names.
#[derive(Deserialize)]
struct ConversationBody<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    call_id: Option<String>,
    tool_use_id: Option<String>,
    mcp_tool_use_id: Option<String>,
    custom_tool_use_id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    is_error: Option<bool>,
    summary: Option<String>,
    #[serde(borrow)]
    dropped: Option<&'a RawValue>,
    session_thread_id: Option<IgnoredAny>,
    within: Option<IgnoredAny>,
}

/// The types of events that a model reads as messages.
pub const READ_TYPES: [&str; 11] = [
    kinds::USER_MESSAGE,
    kinds::AGENT_MESSAGE,
    kinds::SYSTEM_MESSAGE,
    kinds::AGENT_TOOL_USE,
    kinds::AGENT_MCP_TOOL_USE,
    kinds::AGENT_CUSTOM_TOOL_USE,
    kinds::AGENT_TOOL_RESULT,
    kinds::AGENT_MCP_TOOL_RESULT,
    kinds::USER_TOOL_RESULT,
    kinds::USER_CUSTOM_TOOL_RESULT,
    kinds::CONTEXT_COMPACTED,
];

/// The content of the `index`-th event.
#[must_use]
pub(super) fn said(index: usize, event: &Event) -> SaidEvent {
    SaidEvent {
        position: event.position,
        kind: event.kind.clone(),
        at: event.processed_at,
        speech: speech(event).unwrap_or(Speech::Nothing),
        event: Some(index),
        changed: false,
        cut: false,
    }
}

fn speech(event: &Event) -> Option<Speech> {
    let kind = event.kind.as_str();
    if !matches!(kind.split('.').next(), Some("user" | "agent" | "system" | "context")) {
        return None;
    }
    let body: ConversationBody<'_> = body::read(&event.body)?;
    if body.session_thread_id.is_some() || body.within.is_some() {
        // What a subagent does is its own conversation; what a call ran, its model did not see.
        return None;
    }
    let blocks = |content: Option<&RawValue>| {
        content.map(|content| blocks(content, event.position)).unwrap_or_default()
    };
    Some(match kind {
        kinds::USER_MESSAGE => Speech::User(blocks(body.content)),
        kinds::AGENT_MESSAGE => Speech::Assistant(blocks(body.content)),
        kinds::SYSTEM_MESSAGE => Speech::System(blocks(body.content)),
        kind if kinds::is_call(kind) => Speech::Call(ToolUse {
            id: body.call_id.unwrap_or_else(|| event.id.to_string()),
            name: body.name.unwrap_or_default(),
            input: body.input.map_or("{}", RawValue::get).to_owned(),
        }),
        kind if kinds::is_result(kind) => Speech::Result(ToolResult {
            call_id: body
                .call_id
                .or(body.tool_use_id)
                .or(body.mcp_tool_use_id)
                .or(body.custom_tool_use_id)
                .unwrap_or_default(),
            name: body.name,
            blocks: blocks(body.content),
            is_error: body.is_error.unwrap_or(false),
        }),
        kinds::CONTEXT_COMPACTED => {
            let dropped = body.dropped.map(|raw| body::ranges(raw.get())).unwrap_or_default();
            Speech::Summary(body.summary.filter(|text| !text.trim().is_empty())?, dropped)
        }
        _ => return None,
    })
}

/// The blocks of a `content`: a text, a list of blocks, or anything else as it is.
fn blocks(content: &RawValue, position: Position) -> Vec<ContentBlock> {
    let read = json::tree(content.get()).and_then(|text| serde_json::from_str(text).ok());
    let blocks = match read {
        Some(Value::String(text)) => vec![ContentBlock::Text(text)],
        Some(Value::Array(blocks)) => {
            blocks.into_iter().map(|block| read_block(block, position)).collect()
        }
        Some(Value::Null) => Vec::new(),
        Some(_) | None => vec![ContentBlock::Text(content.get().to_owned())],
    };
    let says =
        |block: &ContentBlock| !matches!(block, ContentBlock::Text(text) if text.trim().is_empty());
    blocks.into_iter().filter(says).collect()
}

fn read_block(block: Value, position: Position) -> ContentBlock {
    let text = |name: &str| block.get(name).and_then(Value::as_str);
    if let Some(words) = text("text").or(block.as_str()) {
        return ContentBlock::Text(words.to_owned());
    }
    let kind = text("type").unwrap_or("unknown");
    if kind.contains("image")
        && let Some(image) = image(&block)
    {
        return ContentBlock::Image(image);
    }
    let whole = block.to_string();
    let kind = one_line(kind, 40);
    ContentBlock::Text(match (kind.as_str(), whole.len()) {
        ("redacted", _) => "[redacted]".to_owned(),
        (_, ..=FOREIGN_CHARS_MAX) => whole,
        (_, bytes) => format!("[{kind}, {bytes} bytes; whole at position {position}]"),
    })
}

fn image(block: &Value) -> Option<Image> {
    if let Some(source) = block.get("source") {
        let text = |name: &str| source.get(name).and_then(Value::as_str).map(str::to_owned);
        return match text("type").as_deref() {
            Some("base64") => Some(Image::Data(text("media_type")?, text("data")?)),
            Some("url") => Some(Image::Url(text("url")?)),
            _ => None,
        };
    }
    let address = block.get("image_url")?;
    let address = address.get("url").unwrap_or(address).as_str()?;
    Some(match address.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
        Some((media_type, data)) => Image::Data(media_type.to_owned(), data.to_owned()),
        None => Image::Url(address.to_owned()),
    })
}

impl SaidEvent {
    /// A line of the window itself.
    #[must_use]
    pub fn made(like: &Self, speech: Speech) -> Self {
        Self { speech, event: None, changed: true, ..like.clone() }
    }

    /// Its blocks, when it has some.
    pub fn blocks_mut(&mut self) -> Option<&mut Vec<ContentBlock>> {
        match &mut self.speech {
            Speech::System(blocks) | Speech::User(blocks) | Speech::Assistant(blocks) => {
                Some(blocks)
            }
            Speech::Result(result) => Some(&mut result.blocks),
            Speech::Call(_) | Speech::Summary(..) | Speech::Nothing => None,
        }
    }

    /// Its blocks, when it has some.
    #[must_use]
    pub fn blocks(&self) -> &[ContentBlock] {
        match &self.speech {
            Speech::System(blocks) | Speech::User(blocks) | Speech::Assistant(blocks) => blocks,
            Speech::Result(result) => &result.blocks,
            Speech::Call(_) | Speech::Summary(..) | Speech::Nothing => &[],
        }
    }

    /// True if a message can be made of it.
    #[must_use]
    pub fn is_message(&self) -> bool {
        match &self.speech {
            Speech::System(blocks) | Speech::User(blocks) | Speech::Assistant(blocks) => {
                !blocks.is_empty()
            }
            Speech::Call(_) | Speech::Result(_) | Speech::Summary(..) => true,
            Speech::Nothing => false,
        }
    }

    /// Rewrites its texts; an empty text is dropped, except for a result.
    pub fn rewrite(&mut self, rewrite: impl Fn(&str) -> Option<String>) {
        let mut changed = false;
        if let Some(blocks) = self.blocks_mut() {
            for block in blocks.iter_mut() {
                if let ContentBlock::Text(text) = block
                    && let Some(other) = rewrite(text)
                {
                    *text = other;
                    changed = true;
                }
            }
        }
        self.changed |= changed;
    }
}

/// A result that belongs to no call, as words.
#[must_use]
pub(super) fn orphan(result: &ToolResult) -> Vec<ContentBlock> {
    let mut head = "A tool answered".to_owned();
    if let Some(name) = &result.name {
        let _ = write!(head, " ({})", one_line(name, 80));
    }
    head.push_str(if result.is_error { " with an error:" } else { ":" });
    std::iter::once(ContentBlock::Text(head)).chain(result.blocks.iter().cloned()).collect()
}
