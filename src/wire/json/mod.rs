//! Events as JSON text. On the way in the reserved members are cut out and what is left is the
//! body; on the way out they come first and the stored text follows, untouched: key order, big
//! numbers, escapes and white space survive. One pass, no tree. It must not interpret a body
//! beyond its top-level keys.
//!
//! ```text
//! in    {"type":"t", "content": 1.0, "id":"e"}
//! body  { "content": 1.0}                        members between their commas, joined again
//! out   {"id":"e","type":"t","position":7,…, "content": 1.0}
//! ```

mod line;
mod members;
mod take;
mod write;

use std::borrow::Cow;

pub use line::{AppendLine, append_line};
pub use take::{bare_body, event, events};
pub(super) use write::write_number;
pub use write::{event_and, event_text, write_event, write_event_line};

use members::{is_json, is_within, unescaped};

use crate::{
    event::{
        json::{Weight, weigh},
        limits,
    },
    service::{Code, ServiceError, ServiceResult},
};

pub use crate::event::json::paired;

/// Members that belong to the store, not to the body.
pub const RESERVED: [&str; 6] = ["id", "type", "position", "processed_at", "created_at", "origin"];

/// Nesting inside an event's own braces.
const LEVELS_INSIDE: usize = limits::JSON_DEPTH_MAX - 1;

/// Refusal of an event's text, before the caller says which event of the batch it is.
enum Refused {
    Deep,
    Field { name: String, problem: String },
}

fn field<T>(name: &str, problem: impl ToString) -> Result<T, Refused> {
    Err(Refused::Field { name: name.to_owned(), problem: problem.to_string() })
}

impl Refused {
    /// `place` is empty or `events[3]`.
    fn into_error(self, place: &str) -> ServiceError {
        match self {
            Self::Deep => too_deep(place),
            Self::Field { name, problem } if place.is_empty() => {
                ServiceError::invalid(&name, problem)
            }
            Self::Field { name, problem } if name.is_empty() => {
                ServiceError::invalid(place, problem)
            }
            Self::Field { name, problem } => {
                ServiceError::invalid(&format!("{place}.{name}"), problem)
            }
        }
    }
}

/// The refusal of a text that serde does not read.
fn not_json(text: &str, error: &serde_json::Error) -> ServiceError {
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let at = lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
    let said = error.to_string();
    not_json_at(at, said.split(" at line ").next().unwrap_or_default())
}

fn not_json_at(at: usize, problem: &str) -> ServiceError {
    ServiceError::new(Code::InvalidJson, format!("not JSON at byte {at}: {problem}"))
        .action("send one JSON document in UTF-8")
}

fn too_deep(place: &str) -> ServiceError {
    let problem = format!("nested deeper than {} levels", limits::JSON_DEPTH_MAX);
    ServiceError::invalid(if place.is_empty() { "body" } else { place }, problem)
}

/// Text of a body, when it is UTF-8.
///
/// # Errors
/// `invalid_json`.
pub fn utf8(bytes: &[u8]) -> ServiceResult<&str> {
    std::str::from_utf8(bytes).map_err(|error| not_json_at(error.valid_up_to(), "not UTF-8"))
}

/// Checks that a text is one JSON value, nested no deeper than the limit.
///
/// # Errors
/// `invalid_json`, or `invalid_request` for a document that is nested too deep.
pub fn check(text: &str) -> ServiceResult<()> {
    if is_within(text, limits::JSON_DEPTH_MAX) { is_json(text) } else { Err(too_deep("")) }
}

/// Reads a recorded text for showing: events keep halves of surrogate pairs, which a reader of JSON
/// refuses.
///
/// # Errors
/// It is not JSON.
pub fn shown(text: &[u8]) -> serde_json::Result<serde_json::Value> {
    let read = serde_json::from_slice(text);
    match (read, std::str::from_utf8(text)) {
        (Err(_), Ok(text)) => serde_json::from_str(&paired(text)),
        (read, _) => read,
    }
}

/// Counts the values of a text when a tree of it may be built.
///
/// # Errors
/// `invalid_request`: it has too many, or is nested too deep.
pub fn values(text: &[u8]) -> ServiceResult<usize> {
    let Weight { values, depth } = weigh(text, usize::MAX);
    if depth > limits::JSON_DEPTH_MAX {
        return Err(too_deep(""));
    }
    if values > limits::JSON_VALUES_MAX {
        let problem = format!("it has more than {} values", limits::JSON_VALUES_MAX);
        let action = "send large data as events or as one text";
        return Err(ServiceError::invalid("body", problem).action(action));
    }
    Ok(values)
}

/// The text of a string member; `None` for null.
fn text<'a>(name: &str, value: &'a str) -> Result<Option<Cow<'a, str>>, Refused> {
    if value == "null" {
        return Ok(None);
    }
    if !value.starts_with('"') {
        return field(name, "a text is expected");
    }
    let text = match unescaped(value) {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
        Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
    };
    match text {
        Some(text) => Ok(Some(text)),
        None => field(name, "it holds half of a surrogate pair"),
    }
}
