//! Parser of an event's part of a conversation: text, call or result, in each format that clients
//! write. Images are kept; any other block without text becomes a line with its type and position.
//! It must not order, pair or cut.

use std::fmt::Write as _;

use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};

use crate::{
    event::{Event, EventType, Position, Range, Timestamp, json, kinds, text::one_line},
    projection::body,
};

/// Most characters of an unknown block that is shown verbatim.
const FOREIGN_CHARS_MAX: usize = 2_000;

/// A block that a model can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentBlock {
    /// Text of the block.
    Text(String),
    /// An image.
    Image(Image),
}

/// Source of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// URL of the image.
    Url(String),
    /// Media type, and contents in base64.
    Data(String, String),
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolUse {
    /// Id by which its result refers to it; empty without one.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments as JSON text.
    pub input: String,
}

/// Result of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// Id of the call; empty if the result has none.
    pub call_id: String,
    /// Name of the tool, if the result contains it.
    pub name: Option<String>,
    /// Content of the result.
    pub blocks: Vec<ContentBlock>,
    /// True if the tool reported an error.
    pub is_error: bool,
}

/// A message by its speaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Speech {
    /// Instructions to the model.
    System(Vec<ContentBlock>),
    /// The user, or the harness on the user's behalf.
    User(Vec<ContentBlock>),
    /// The model.
    Assistant(Vec<ContentBlock>),
    /// A tool call by the model.
    Call(ToolUse),
    /// The result of a tool call.
    Result(ToolResult),
    /// A client's summary of events that it dropped from its own context.
    Summary(String, Vec<Range>),
    /// Not a message that a model reads.
    Nothing,
}

/// An event's part of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationEvent {
    /// Position of the event.
    pub position: Position,
    /// Type of the event.
    pub kind: EventType,
    /// Time of the event, by the store's clock.
    pub at: Timestamp,
    /// Message of the event.
    pub speech: Speech,
    /// Index of its event; `None` for a line that the window added.
    pub event: Option<usize>,
    /// True if a transform changed the message.
    pub changed: bool,
    /// True if some of its text is left out.
    pub cut: bool,
}

/// Members of the events of a conversation, under all of their names.
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

/// Types of events that a model reads as messages.
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

/// Parses the `index`-th event.
#[must_use]
pub(super) fn parse_event(index: usize, event: &Event) -> ConversationEvent {
    ConversationEvent {
        position: event.position,
        kind: event.kind.clone(),
        at: event.happened_at(),
        speech: parse_speech(event).unwrap_or(Speech::Nothing),
        event: Some(index),
        changed: false,
        cut: false,
    }
}

fn parse_speech(event: &Event) -> Option<Speech> {
    let kind = event.kind.as_str();
    if !matches!(kind.split('.').next(), Some("user" | "agent" | "system" | "context")) {
        return None;
    }
    let body: ConversationBody<'_> = body::read(&event.body)?;
    if body.session_thread_id.is_some() || body.within.is_some() {
        // A subagent has a separate conversation, and the model did not see calls inside a call.
        return None;
    }
    let blocks = |content: Option<&RawValue>| {
        content.map(|content| parse_blocks(content, event.position)).unwrap_or_default()
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
            let dropped = body.dropped.map(|raw| body::parse_ranges(raw.get())).unwrap_or_default();
            Speech::Summary(body.summary.filter(|text| !text.trim().is_empty())?, dropped)
        }
        _ => return None,
    })
}

/// Parses the blocks of a `content`: a string, a list of blocks, or other JSON verbatim.
fn parse_blocks(content: &RawValue, position: Position) -> Vec<ContentBlock> {
    let read = json::check(content.get()).and_then(|text| serde_json::from_str(text).ok());
    let blocks = match read {
        Some(Value::String(text)) => vec![ContentBlock::Text(text)],
        Some(Value::Array(blocks)) => {
            blocks.into_iter().map(|block| parse_block(block, position)).collect()
        }
        Some(Value::Null) => Vec::new(),
        Some(_) | None => vec![ContentBlock::Text(content.get().to_owned())],
    };
    let says =
        |block: &ContentBlock| !matches!(block, ContentBlock::Text(text) if text.trim().is_empty());
    blocks.into_iter().filter(says).collect()
}

fn parse_block(block: Value, position: Position) -> ContentBlock {
    let text = |name: &str| block.get(name).and_then(Value::as_str);
    if let Some(words) = text("text").or(block.as_str()) {
        return ContentBlock::Text(words.to_owned());
    }
    let kind = text("type").unwrap_or("unknown");
    if kinds::is_picture(kind)
        && let Some(image) = parse_image(&block)
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

fn parse_image(block: &Value) -> Option<Image> {
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

impl ConversationEvent {
    /// Creates a line that the window adds, with the position and time of `like`.
    #[must_use]
    pub fn with_speech(like: &Self, speech: Speech) -> Self {
        Self { speech, event: None, changed: true, ..like.clone() }
    }

    /// Returns its blocks for changes, if it has any.
    pub fn blocks_mut(&mut self) -> Option<&mut Vec<ContentBlock>> {
        match &mut self.speech {
            Speech::System(blocks) | Speech::User(blocks) | Speech::Assistant(blocks) => {
                Some(blocks)
            }
            Speech::Result(result) => Some(&mut result.blocks),
            Speech::Call(_) | Speech::Summary(..) | Speech::Nothing => None,
        }
    }

    /// Returns its blocks; empty if it has none.
    #[must_use]
    pub fn blocks(&self) -> &[ContentBlock] {
        match &self.speech {
            Speech::System(blocks) | Speech::User(blocks) | Speech::Assistant(blocks) => blocks,
            Speech::Result(result) => &result.blocks,
            Speech::Call(_) | Speech::Summary(..) | Speech::Nothing => &[],
        }
    }

    /// Returns true if it can become a message.
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

    /// Replaces its texts by the results of `rewrite`; `None` leaves a text unchanged.
    pub fn rewrite_texts(&mut self, rewrite: impl Fn(&str) -> Option<String>) {
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

/// Converts a result without a call to text.
#[must_use]
pub(super) fn orphan_result_blocks(result: &ToolResult) -> Vec<ContentBlock> {
    let mut head = "A tool answered".to_owned();
    if let Some(name) = &result.name {
        let _ = write!(head, " ({})", one_line(name, 80));
    }
    head.push_str(if result.is_error { " with an error:" } else { ":" });
    std::iter::once(ContentBlock::Text(head)).chain(result.blocks.iter().cloned()).collect()
}
