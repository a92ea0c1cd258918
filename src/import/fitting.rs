//! Shrinks events that are too large for a store: a line of text replaces pictures and documents,
//! and the longest texts lose their middle. The source line is stored in other events. It must not
//! change an event that fits.

use serde_json::{Value, json};

use super::{
    draft::EventDraft,
    members::{JsonMembers, ObjectWriter, quote},
};
use crate::event::{json as text, limits};

/// Minimum bytes of a string to be treated as the data of a picture or a document.
const DATA_BYTES: usize = 64 << 10;
/// Prefix of the text that replaces a picture, which marks it as not typed by the user.
const LEFT_OUT: &str = "[left out:";
/// Maximum bytes that an event has of a result in a separate file.
pub(super) const APART_BYTES: usize = 1 << 20;

/// Maximum bytes of a piece of a text that is too large for one event; JSON escapes may double it.
const PIECE_BYTES: usize = 1 << 20;

/// Splits a text into pieces that each fit into an event.
pub(super) fn split_pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

const _: () = assert!(limits::EVENT_BYTES_MAX > 3 * PIECE_BYTES, "a piece fits, escaped");

/// Adds the number of a piece, the count of all pieces, and the piece.
pub(super) fn add_piece(body: &mut ObjectWriter, (part, piece): (usize, &str), count: usize) {
    body.add("piece", &part.to_string());
    body.add("pieces", &count.to_string());
    body.add("text", &quote(piece));
}

/// Shrinks an event if needed; returns `None` if it still does not fit.
pub(super) fn fit_draft(draft: EventDraft) -> Option<EventDraft> {
    if draft.problem().is_none() {
        return Some(draft);
    }
    let mut event: Value =
        serde_json::from_str(&text::replace_lone_surrogates(text::check(&draft.text)?)).ok()?;
    let bytes = draft.text.len();
    replace_data(&mut event);
    event.as_object_mut()?.insert("truncated".to_owned(), json!({ "bytes": bytes }));
    let mut longest = limits::EVENT_BYTES_MAX / 2;
    while event.to_string().len() > limits::EVENT_BYTES_MAX && longest > 64 {
        shorten(&mut event, longest);
        longest /= 4;
    }
    Some(EventDraft { text: event.to_string(), ..draft }).filter(|draft| draft.problem().is_none())
}

/// Replaces the data of pictures and documents in an event with a line of text.
fn replace_data(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(replace_data),
        Value::Object(members) => {
            let of = |source: &Value| {
                let data = ["data", "url"].iter().find_map(|name| source.get(name)?.as_str())?;
                let kind = source.get("media_type").and_then(Value::as_str);
                (data.len() > DATA_BYTES).then(|| {
                    let kind = kind.map(str::to_owned).unwrap_or_else(|| media_type_of(data));
                    format!("{LEFT_OUT} {kind}, {} bytes in base64]", data.len())
                })
            };
            let source = ["source", "image_url"].iter().find_map(|name| of(members.get(*name)?));
            let own = members.get("image_url").and_then(Value::as_str);
            let own = own.filter(|data| data.len() > DATA_BYTES);
            let own = own.map(|data| format!("{LEFT_OUT} {}]", media_type_of(data)));
            match source.or(own) {
                Some(name) => *value = json!({ "type": "text", "text": name }),
                None => members.values_mut().for_each(replace_data),
            }
        }
        _ => {}
    }
}

/// Returns the media type of a data URL, or `data`.
fn media_type_of(address: &str) -> String {
    let kind = address.strip_prefix("data:").and_then(|rest| rest.split([';', ',']).next());
    kind.filter(|kind| kind.len() < 80).unwrap_or("data").to_owned()
}

fn shorten(value: &mut Value, longest: usize) {
    match value {
        Value::String(text) => *text = cut_middle(std::mem::take(text), longest),
        Value::Array(values) => values.iter_mut().for_each(|value| shorten(value, longest)),
        Value::Object(members) => members.values_mut().for_each(|value| shorten(value, longest)),
        _ => {}
    }
}

/// Removes the middle of a text over `longest` bytes; a quarter of the rest is from its start.
fn cut_middle(text: String, longest: usize) -> String {
    if text.len() <= longest {
        return text;
    }
    let head = text.floor_char_boundary(longest / 4);
    let tail = text.ceil_char_boundary(text.len() - longest * 3 / 4);
    let (head, left_out) = (text.get(..head).unwrap_or_default(), tail - head);
    let tail = text.get(tail..).unwrap_or_default();
    format!("{head}\n… {left_out} bytes are left out here …\n{tail}")
}

/// Returns the body of a result with the text of the separate file as its content.
pub(super) fn with_whole_result(body: ObjectWriter, whole: &str) -> String {
    let body = JsonMembers::read(&body.finish()).unwrap_or_default();
    let mut text = body.without(&["content"]);
    let content = quote(&cut_middle(whole.to_owned(), APART_BYTES));
    text.pop();
    let comma = if text == "{" { "" } else { "," };
    format!("{text}{comma}\"content\":{content}}}")
}
