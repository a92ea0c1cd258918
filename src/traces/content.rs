//! Extracts the texts of a message's or a result's `content`. It must not interpret them.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::event::json;

/// Returns the text of a `content`: a string, or the texts of its blocks joined by spaces.
#[must_use]
pub fn content_text(content: &RawValue) -> String {
    content_texts(content).join(" ")
}

/// Returns the texts of a `content`: a string, or the texts of its blocks.
#[must_use]
pub fn content_texts(content: &RawValue) -> Vec<String> {
    if let Some(text) = parse_string(content) {
        return vec![text];
    }
    let blocks = json::check_levels(content.get(), 1);
    match blocks.and_then(|text| serde_json::from_str::<Vec<TextBlock>>(text).ok()) {
        Some(blocks) => blocks.into_iter().filter_map(|block| block.text).collect(),
        None => vec![content.get().to_owned()],
    }
}

/// Parses a JSON string; `None` for any other value.
#[must_use]
pub(crate) fn parse_string(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

#[derive(Deserialize)]
struct TextBlock {
    text: Option<String>,
}
