//! Roles, call ids and content blocks of events, common to all chat formats. It must not depend on
//! the messages of one format.

use serde_json::value::RawValue;

use super::members::{Members, Object, listed, quote};
use crate::event::kinds;

/// Returns true if an event is a subagent's, or of a call that another call ran.
pub(super) fn is_aside(event: &Members) -> bool {
    ["session_thread_id", "within"].iter().any(|name| event.non_null(name).is_some())
}

/// Role of an event in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventRole {
    System,
    User,
    Agent,
    Call,
    Answer,
    Summary,
    Nothing,
}

impl EventRole {
    /// Returns the role of an event, by its type.
    pub(super) fn from_event(event: &Members) -> Self {
        if is_aside(event) {
            return Self::Nothing;
        }
        match event.text("type").unwrap_or_default().as_str() {
            kinds::SYSTEM_MESSAGE => Self::System,
            kinds::USER_MESSAGE => Self::User,
            kinds::AGENT_MESSAGE => Self::Agent,
            kinds::CONTEXT_COMPACTED => Self::Summary,
            kinds::AGENT_TOOL_USE | kinds::AGENT_MCP_TOOL_USE | kinds::AGENT_CUSTOM_TOOL_USE => {
                Self::Call
            }
            kinds::AGENT_TOOL_RESULT
            | kinds::AGENT_MCP_TOOL_RESULT
            | kinds::USER_TOOL_RESULT
            | kinds::USER_CUSTOM_TOOL_RESULT => Self::Answer,
            _ => Self::Nothing,
        }
    }
}

/// Returns the id of a call, from the call or its result: JSON text.
pub(super) fn call_id(event: &Members) -> &str {
    ["call_id", "tool_use_id", "mcp_tool_use_id", "custom_tool_use_id", "id"]
        .iter()
        .find_map(|name| event.non_null(name))
        .map_or("\"\"", RawValue::get)
}

/// A block of content, independent of the format.
pub(super) enum ContentBlock {
    /// A JSON string.
    Text(String),
    /// A URL, or the media type and the bytes in base64.
    Image(Image),
    /// Any other block, unchanged.
    Other,
}

pub(super) enum Image {
    Url(String),
    Data(String, String),
}

/// Splits a content into blocks: a text, or a list of blocks in any format.
pub(super) fn blocks(content: Option<&RawValue>) -> Vec<(ContentBlock, String)> {
    let Some(content) = content else { return Vec::new() };
    match listed::<Box<RawValue>>(content) {
        Some(blocks) => {
            blocks.iter().map(|block| (block_of(block), block.get().to_owned())).collect()
        }
        None => vec![(ContentBlock::Text(text_of(content)), content.get().to_owned())],
    }
}

/// Returns a JSON string unchanged, and quotes any other value.
fn text_of(content: &RawValue) -> String {
    if content.get().starts_with('"') { content.get().to_owned() } else { quote(content.get()) }
}

fn block_of(block: &RawValue) -> ContentBlock {
    let Ok(members) = Members::read(block.get()) else { return ContentBlock::Text(text_of(block)) };
    match members.text("type").unwrap_or_default().as_str() {
        "text" | "input_text" | "output_text" => match members.non_null("text") {
            Some(text) => ContentBlock::Text(text_of(text)),
            None => ContentBlock::Other,
        },
        "image" | "image_url" | "input_image" => {
            image(&members).map_or(ContentBlock::Other, ContentBlock::Image)
        }
        _ => ContentBlock::Other,
    }
}

fn image(block: &Members) -> Option<Image> {
    if let Some(source) = block.non_null("source").and_then(|raw| Members::read(raw.get()).ok()) {
        return match source.text("type")?.as_str() {
            "base64" => Some(Image::Data(source.text("media_type")?, source.text("data")?)),
            "url" => Some(Image::Url(source.text("url")?)),
            _ => None,
        };
    }
    let address = block.non_null("image_url")?;
    let inner = Members::read(address.get()).ok().and_then(|inner| inner.text("url"));
    let address = inner.or_else(|| block.text("image_url"))?;
    Some(match address.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
        Some((media_type, data)) => Image::Data(media_type.to_owned(), data.to_owned()),
        None => Image::Url(address),
    })
}

/// Returns a text block.
pub(super) fn text_block(text: &str) -> String {
    let mut block = Object::new();
    block.add("type", "\"text\"");
    block.add("text", text);
    block.finish()
}
