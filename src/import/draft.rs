//! An event that an import will append. It must not depend on the program that wrote the source.

use super::members::{JsonMembers, ObjectWriter, quote};
use crate::{
    event::{ContentId, kinds, limits},
    secrets::MaskingReport,
    wire::extract_typed_text,
};

/// Name of the member with the counts of removed text.
const REDACTIONS: &str = "redactions";

/// Prefix of the ids of a subagent's lines that are in a file of its own, and of their texts. The
/// lines of the session's own file are compared with the stored ones by their ids.
pub(super) const ASIDE: &str = "aside-";
pub(super) const ASIDE_RAW: &str = "aside_raw-";

/// An event to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDraft {
    /// Id, derived from the source, so that a repeated import sends the same one. The store assigns
    /// another id.
    pub id: String,
    /// The whole event as JSON.
    pub text: String,
    /// Source of the id.
    pub named: IdSource,
}

/// Common part of the ids of the events that are made from one record.
#[derive(Clone, Debug)]
pub(super) struct RecordName {
    /// Prefix of the name, such as `line-`.
    pub(super) name: String,
    pub(super) hash: String,
}

impl RecordName {
    /// Returns the id of the event number `part`; `sign` separates a part number other than 0.
    pub(super) fn part_id(&self, sign: char, part: usize) -> String {
        let part = if part == 0 { String::new() } else { format!("{sign}{part}") };
        ContentId { name: &self.name, hash: &self.hash, part: &part }.to_sent_id()
    }
}

/// Input of the id of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdSource {
    /// The event and everything before it.
    AllBefore,
    /// Its content, and the number of earlier occurrences.
    Content,
    /// An id in the source.
    Given,
}

impl EventDraft {
    /// Returns the type of the event.
    pub(super) fn kind(&self) -> &str {
        let (_, rest) = self.text.split_once("\"type\":\"").unwrap_or_default();
        rest.split('"').next().unwrap_or_default()
    }

    /// Adds the counts of text that was removed from the event, unless it has counts already.
    pub(super) fn add_redactions(&mut self, report: &MaskingReport) {
        let counts = |text: &str| {
            JsonMembers::read(text).is_ok_and(|members| members.raw(REDACTIONS).is_some())
        };
        if !report.is_empty() && !counts(&self.text) && self.text.pop().is_some() {
            self.text.push_str(&format!(",\"{REDACTIONS}\":{}}}", report.to_json()));
        }
    }

    /// Returns the hash of the line that the event was made from, which is in its id.
    pub(super) fn line_hash(&self) -> Option<&str> {
        let hash = self.id.strip_prefix("line-~")?.split('~').next()?;
        hash.split('-').next()
    }

    /// Returns true if an earlier event stores the line of this one.
    pub(super) fn is_part(&self) -> bool {
        self.text.contains("\"raw_in\":true")
    }

    /// Returns true if the event is a message with text that the user typed.
    pub(super) fn is_prompt(&self) -> bool {
        let event = JsonMembers::read(&self.text).unwrap_or_default();
        event.text("type").as_deref() == Some(kinds::USER_MESSAGE)
            && event
                .non_null("content")
                .is_some_and(|content| !extract_typed_text(content).is_empty())
    }

    /// Returns the reason for which every store would reject the event; `None` if it fits.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        if self.text.len() > limits::EVENT_BYTES_MAX {
            let (bytes, max) = (self.text.len(), limits::EVENT_BYTES_MAX);
            return Some(format!("it makes an event of {bytes} bytes, {max} are allowed"));
        }
        let max = limits::JSON_DEPTH_MAX;
        (json_depth(&self.text) > max).then(|| format!("it is nested deeper than {max} levels"))
    }
}

/// Returns the maximum nesting depth of arrays and objects in a JSON text.
fn json_depth(json: &str) -> usize {
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

pub(super) fn new_draft(id: &str, kind: &str, body: &str) -> EventDraft {
    let mut object = ObjectWriter::new();
    object.add("id", &quote(id));
    object.add("type", &quote(kind));
    let mut text = object.finish();
    if let Some(rest) = body.strip_prefix('{').filter(|rest| *rest != "}") {
        text.pop();
        text.push(',');
        text.push_str(rest);
    }
    EventDraft { id: id.to_owned(), text, named: IdSource::AllBefore }
}

/// Returns the first member of an event that happened at a time, if it is known.
pub(super) fn time_head(at: Option<&str>) -> ObjectWriter {
    let mut head = ObjectWriter::new();
    at.into_iter().for_each(|at| head.add("created_at", &quote(at)));
    head
}

/// Returns the event with the ranges that were withdrawn from the conversation by a time.
pub(super) fn rewound_event(withdrawn: &[(u64, u64)], at: Option<&str>) -> EventDraft {
    let range = |(from, to): &(u64, u64)| format!("{{\"from\":{from},\"to\":{to}}}");
    let ranges = format!("[{}]", withdrawn.iter().map(range).collect::<Vec<_>>().join(","));
    let hash = blake3::hash(ranges.as_bytes()).to_hex().chars().take(24).collect();
    let id = RecordName { name: "rewound-".to_owned(), hash }.part_id('.', 0);
    let mut body = time_head(at);
    body.add("withdrawn", &ranges);
    EventDraft {
        named: IdSource::Content,
        ..new_draft(&id, kinds::CONTEXT_REWOUND, &body.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_returns_a_reason_for_an_event_that_is_nested_too_deep() {
        for (text, expected) in [(r#"{"a":"[[[\\\"[","b":[1,{"c":[]}]}"#, 4), ("[]", 1), ("7", 0)] {
            assert_eq!(json_depth(text), expected, "{text}");
        }
        for (levels, fits) in [(120, true), (200, false)] {
            let text = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            let draft = EventDraft { id: String::new(), text, named: IdSource::AllBefore };
            assert_eq!(draft.problem().is_none(), fits, "{levels}");
        }
    }
}
