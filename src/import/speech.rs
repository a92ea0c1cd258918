//! Roles, call ids and content blocks of events, which all chat formats share. It must not depend
//! on the messages of one format.

use serde_json::value::RawValue;

use super::members::{JsonMembers, ObjectWriter, parse_list, quote};
use crate::event::kinds;

/// Returns true if an event is a subagent's, or belongs to a call that another call made.
pub(super) fn is_outside_chat(event: &JsonMembers) -> bool {
    ["session_thread_id", "within"].iter().any(|name| event.non_null(name).is_some())
}

/// Role of an event in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventRole {
    System,
    User,
    Agent,
    Call,
    Result,
    Summary,
    Nothing,
}

impl EventRole {
    /// Returns the role of an event, by its type.
    pub(super) fn from_event(event: &JsonMembers) -> Self {
        if is_outside_chat(event) {
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
            | kinds::USER_CUSTOM_TOOL_RESULT => Self::Result,
            _ => Self::Nothing,
        }
    }
}

/// Returns the call id of a call or a result, as JSON text.
pub(super) fn call_id(event: &JsonMembers) -> &str {
    ["call_id", "tool_use_id", "mcp_tool_use_id", "custom_tool_use_id", "id"]
        .iter()
        .find_map(|name| event.non_null(name))
        .map_or("\"\"", RawValue::get)
}

/// A block of content, independent of the format.
pub(super) enum ImportedBlock {
    /// JSON text of a string.
    Text(String),
    /// A URL, or the media type and the bytes in base64.
    Image(ImportedImage),
    /// Any other block, unchanged.
    Other,
}

pub(super) enum ImportedImage {
    Url(String),
    Data(String, String),
}

/// Splits a content, a text or a list of blocks in any format, into blocks and their JSON texts.
pub(super) fn split_blocks(content: Option<&RawValue>) -> Vec<(ImportedBlock, String)> {
    let Some(content) = content else { return Vec::new() };
    match parse_list::<Box<RawValue>>(content) {
        Some(blocks) => {
            blocks.iter().map(|block| (parse_block(block), block.get().to_owned())).collect()
        }
        None => vec![(ImportedBlock::Text(quoted_text(content)), content.get().to_owned())],
    }
}

/// Returns a JSON string unchanged; quotes the text of any other value.
fn quoted_text(content: &RawValue) -> String {
    if content.get().starts_with('"') { content.get().to_owned() } else { quote(content.get()) }
}

fn parse_block(block: &RawValue) -> ImportedBlock {
    let Ok(members) = JsonMembers::read(block.get()) else {
        return ImportedBlock::Text(quoted_text(block));
    };
    match members.text("type").unwrap_or_default().as_str() {
        "text" | "input_text" | "output_text" => match members.non_null("text") {
            Some(text) => ImportedBlock::Text(quoted_text(text)),
            None => ImportedBlock::Other,
        },
        kind if kinds::is_picture(kind) => {
            parse_image(&members).map_or(ImportedBlock::Other, ImportedBlock::Image)
        }
        _ => ImportedBlock::Other,
    }
}

fn parse_image(block: &JsonMembers) -> Option<ImportedImage> {
    if let Some(source) = block.non_null("source").and_then(|raw| JsonMembers::read(raw.get()).ok())
    {
        return match source.text("type")?.as_str() {
            "base64" => Some(ImportedImage::Data(source.text("media_type")?, source.text("data")?)),
            "url" => Some(ImportedImage::Url(source.text("url")?)),
            _ => None,
        };
    }
    let address = block.non_null("image_url")?;
    let inner = JsonMembers::read(address.get()).ok().and_then(|inner| inner.text("url"));
    let address = inner.or_else(|| block.text("image_url"))?;
    Some(match address.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
        Some((media_type, data)) => ImportedImage::Data(media_type.to_owned(), data.to_owned()),
        None => ImportedImage::Url(address),
    })
}

/// Returns a text block with a JSON string as its text.
pub(super) fn text_block(text: &str) -> String {
    let mut block = ObjectWriter::new();
    block.add("type", "\"text\"");
    block.add("text", text);
    block.finish()
}
