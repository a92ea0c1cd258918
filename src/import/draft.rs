//! An event that an import will append. It must not depend on the program that wrote the source.

use super::members::{Members, Object, quote};
use crate::{
    event::{OfContent, kinds, limits},
    secrets::Report,
    wire::typed_by_person,
};

/// Name of the member with the counts of removed text.
const REDACTIONS: &str = "redactions";

/// An event to be appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Its id, made from the content and everything before it, so that a repeated import finds it.
    /// The store keeps it under another id.
    pub id: String,
    /// The whole event as JSON.
    pub text: String,
    /// Input of the id.
    pub named: NamedBy,
}

/// Name of the events made from one record.
#[derive(Clone, Debug)]
pub(super) struct RecordName {
    /// Prefix of the name, such as `line-`.
    pub(super) name: String,
    /// A hash of the record.
    pub(super) hash: String,
}

impl RecordName {
    /// Returns the id of one of the events, with a separator before its part number.
    pub(super) fn part(&self, sign: char, part: usize) -> String {
        let part = if part == 0 { String::new() } else { format!("{sign}{part}") };
        OfContent { name: &self.name, hash: &self.hash, part: &part }.sent()
    }
}

/// Input of the id of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// The event and everything before it.
    AllBefore,
    /// Its content, and the number of earlier occurrences.
    Content,
    /// An id in the source.
    Given,
}

impl Draft {
    /// Returns its type.
    pub(super) fn kind(&self) -> &str {
        let (_, rest) = self.text.split_once("\"type\":\"").unwrap_or_default();
        rest.split('"').next().unwrap_or_default()
    }

    /// Adds the counts of text removed from it, unless it has counts already.
    pub(super) fn redacted(&mut self, report: &Report) {
        let counts =
            |text: &str| Members::read(text).is_ok_and(|members| members.raw(REDACTIONS).is_some());
        if !report.is_empty() && !counts(&self.text) && self.text.pop().is_some() {
            self.text.push_str(&format!(",\"{REDACTIONS}\":{}}}", report.to_json()));
        }
    }

    /// Returns the hash of the line that it is made of.
    pub(super) fn line_hash(&self) -> Option<&str> {
        let hash = self.id.strip_prefix("line-~")?.split('~').next()?;
        hash.split('-').next()
    }

    /// Returns true if an earlier event holds its line.
    pub(super) fn is_part(&self) -> bool {
        self.text.contains("\"raw_in\":true")
    }

    /// Returns true if it is a message with text that the user typed.
    pub(super) fn is_prompt(&self) -> bool {
        let event = Members::read(&self.text).unwrap_or_default();
        event.text("type").as_deref() == Some(kinds::USER_MESSAGE)
            && event.non_null("content").is_some_and(|content| !typed_by_person(content).is_empty())
    }

    /// Returns the reason for which every store would reject it; `None` when it fits.
    #[must_use]
    pub fn too_much(&self) -> Option<String> {
        if self.text.len() > limits::EVENT_BYTES_MAX {
            let (bytes, max) = (self.text.len(), limits::EVENT_BYTES_MAX);
            return Some(format!("it makes an event of {bytes} bytes, {max} are allowed"));
        }
        let max = limits::JSON_DEPTH_MAX;
        (depth(&self.text) > max).then(|| format!("it is nested deeper than {max} levels"))
    }
}

/// Returns the depth of nested arrays and objects in a JSON text.
fn depth(json: &str) -> usize {
    let (mut level, mut deepest) = (0_usize, 0);
    let (mut inside, mut escaped) = (false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if inside => escaped = true,
            b'"' => inside = !inside,
            b'[' | b'{' if !inside => {
                level += 1;
                deepest = deepest.max(level);
            }
            b']' | b'}' if !inside => level = level.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

pub(super) fn event(id: &str, kind: &str, body: &str) -> Draft {
    let mut object = Object::new();
    object.add("id", &quote(id));
    object.add("type", &quote(kind));
    let mut text = object.finish();
    if let Some(rest) = body.strip_prefix('{').filter(|rest| *rest != "}") {
        text.pop();
        text.push(',');
        text.push_str(rest);
    }
    Draft { id: id.to_owned(), text, named: NamedBy::AllBefore }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_nested_too_deep_is_reported_before_it_is_sent() {
        for (text, expected) in [(r#"{"a":"[[[\\\"[","b":[1,{"c":[]}]}"#, 4), ("[]", 1), ("7", 0)] {
            assert_eq!(depth(text), expected, "{text}");
        }
        for (levels, fits) in [(120, true), (200, false)] {
            let text = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            let draft = Draft { id: String::new(), text, named: NamedBy::AllBefore };
            assert_eq!(draft.too_much().is_none(), fits, "{levels}");
        }
    }
}
