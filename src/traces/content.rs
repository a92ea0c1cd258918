//! The texts of a `content`: of a message, or of what a tool answered. It must not judge them.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::event::json;

/// The words of a `content`: a text, or the texts among its blocks.
#[must_use]
pub fn words(content: &RawValue) -> String {
    texts(content).join(" ")
}

/// The texts of a `content`: itself, or those among its blocks.
#[must_use]
pub fn texts(content: &RawValue) -> Vec<String> {
    if let Some(text) = string(content) {
        return vec![text];
    }
    let blocks = json::list(content.get(), 1);
    match blocks.and_then(|text| serde_json::from_str::<Vec<TextBlock>>(text).ok()) {
        Some(blocks) => blocks.into_iter().filter_map(|block| block.text).collect(),
        None => vec![content.get().to_owned()],
    }
}

/// The value of a string.
#[must_use]
pub(crate) fn string(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

#[derive(Deserialize)]
struct TextBlock {
    text: Option<String>,
}
