//! Events as JSON text. On input the reserved members are removed and the rest is the body; on
//! output they come first and the stored text follows unchanged: key order, big numbers, escapes
//! and white space survive. One pass, no tree. It must not interpret a body beyond its top-level
//! keys.
//!
//! ```text
//! in    {"type":"t", "content": 1.0, "id":"e"}
//! body  { "content": 1.0}                        members between their commas, joined again
//! out   {"id":"e","type":"t","position":7,…, "content": 1.0}
//! ```

mod line;
mod members;
mod parse;
mod write;

use std::borrow::Cow;

pub use line::{ParsedAppendLine, parse_append_line};
pub use parse::{check_body, parse_event, parse_events};
pub(super) use write::write_number;
pub use write::{event_text, event_text_with, write_event, write_event_line};

use members::{check_json, is_within_depth, unescape};

use crate::{
    event::{
        json::{JsonSize, measure},
        limits,
    },
    service::{Code, ServiceError, ServiceResult},
};

pub use crate::event::json::replace_lone_surrogates;

/// Members that belong to the store and not to the body.
pub const RESERVED: [&str; 6] = ["id", "type", "position", "processed_at", "created_at", "origin"];

/// Maximum nesting inside an event's own braces.
const LEVELS_INSIDE: usize = limits::JSON_DEPTH_MAX - 1;

/// Error in an event's text, before the caller adds the path of the event.
enum EventError {
    Deep,
    Field { name: String, problem: String },
}

fn field_error<T>(name: &str, problem: impl ToString) -> Result<T, EventError> {
    Err(EventError::Field { name: name.to_owned(), problem: problem.to_string() })
}

impl EventError {
    /// Adds the JSON path of the event, such as `events[3]`; empty for a request itself.
    fn into_error(self, path: &str) -> ServiceError {
        match self {
            Self::Deep => too_deep_error(path),
            Self::Field { name, problem } if path.is_empty() => {
                ServiceError::invalid(&name, problem)
            }
            Self::Field { name, problem } if name.is_empty() => {
                ServiceError::invalid(path, problem)
            }
            Self::Field { name, problem } => {
                ServiceError::invalid(&format!("{path}.{name}"), problem)
            }
        }
    }
}

/// Builds the error of a text that serde cannot parse.
fn invalid_json(text: &str, error: &serde_json::Error) -> ServiceError {
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let at = lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
    let said = error.to_string();
    invalid_json_at(at, said.split(" at line ").next().unwrap_or_default())
}

fn invalid_json_at(at: usize, problem: &str) -> ServiceError {
    ServiceError::new(Code::InvalidJson, format!("not JSON at byte {at}: {problem}"))
        .action("send one JSON document in UTF-8")
}

fn too_deep_error(path: &str) -> ServiceError {
    let problem = format!("nested deeper than {} levels", limits::JSON_DEPTH_MAX);
    ServiceError::invalid(if path.is_empty() { "body" } else { path }, problem)
}

/// Checks that the bytes of a body are UTF-8 and returns them as text.
///
/// # Errors
/// `invalid_json`.
pub fn check_utf8(bytes: &[u8]) -> ServiceResult<&str> {
    std::str::from_utf8(bytes).map_err(|error| invalid_json_at(error.valid_up_to(), "not UTF-8"))
}

/// Checks that a text is one JSON value, nested no deeper than the limit.
///
/// # Errors
/// `invalid_json`, or `invalid_request` for a document that is nested too deep.
pub fn check(text: &str) -> ServiceResult<()> {
    if is_within_depth(text, limits::JSON_DEPTH_MAX) {
        check_json(text)
    } else {
        Err(too_deep_error(""))
    }
}

/// Parses recorded text for display: events may contain lone halves of surrogate pairs, which a
/// JSON parser rejects.
///
/// # Errors
/// Fails if the text is not JSON.
pub fn parse_lossy(text: &[u8]) -> serde_json::Result<serde_json::Value> {
    let read = serde_json::from_slice(text);
    match (read, std::str::from_utf8(text)) {
        (Err(_), Ok(text)) => serde_json::from_str(&replace_lone_surrogates(text)),
        (read, _) => read,
    }
}

/// Counts the values of a text, if a tree of it may be built.
///
/// # Errors
/// `invalid_request` if it has too many values, or is nested too deep.
pub fn count_values(text: &[u8]) -> ServiceResult<usize> {
    let JsonSize { values, depth } = measure(text, usize::MAX);
    if depth > limits::JSON_DEPTH_MAX {
        return Err(too_deep_error(""));
    }
    if values > limits::JSON_VALUES_MAX {
        let problem = format!("it has more than {} values", limits::JSON_VALUES_MAX);
        let action = "send large data as events or as one text";
        return Err(ServiceError::invalid("body", problem).action(action));
    }
    Ok(values)
}

/// Parses the text of a string member; `None` for null.
fn parse_text<'a>(name: &str, value: &'a str) -> Result<Option<Cow<'a, str>>, EventError> {
    if value == "null" {
        return Ok(None);
    }
    if !value.starts_with('"') {
        return field_error(name, "a text is expected");
    }
    let text = match unescape(value) {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
        Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
    };
    match text {
        Some(text) => Ok(Some(text)),
        None => field_error(name, "it holds half of a surrogate pair"),
    }
}
