//! Members of JSON objects with their original text, by one pass of serde over raw values: it takes
//! at most half the time of the scanner that it replaced (decision 0048). Nesting is checked
//! separately, because serde does not bound it in raw values. It must not know what a member means.

use std::{borrow::Cow, fmt};

use serde::{
    Deserializer as _,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Deserializer, value::RawValue};

use super::invalid_json;
use crate::{
    event::{json::measure, limits},
    service::ServiceResult,
};

/// White space in JSON.
const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];
/// Name of the member that is a list of events.
const EVENTS: &str = "events";

/// A member of an object.
pub(super) struct Member<'a> {
    /// Unescaped bytes of the name.
    pub(super) name: Cow<'a, [u8]>,
    /// Text of the name, quotes included.
    key: &'a str,
    /// Text of the value.
    pub(super) value: &'a str,
}

impl<'a> Member<'a> {
    /// Returns the member with the white space around it: the text between two commas of `text`,
    /// which must contain the member.
    pub(super) fn with_surrounding_space(&self, text: &'a str) -> &'a str {
        let at = |part: &str| part.as_ptr() as usize - text.as_ptr() as usize;
        let (from, to) = (at(self.key), at(self.value) + self.value.len());
        let before = text.get(..from).unwrap_or_default().trim_end_matches(SPACE).len();
        let after = text.get(to..).unwrap_or_default();
        let end = text.len() - after.trim_start_matches(SPACE).len();
        text.get(before..end).unwrap_or_default()
    }
}

/// Members of an object, as far as it was parsed.
#[derive(Default)]
pub(super) struct ParsedObject<'a> {
    /// Members in order; of a request, without the events.
    pub(super) members: Vec<Member<'a>>,
    /// Events of a request, each by its members: at most one more than a batch may have.
    pub(super) events: Option<Vec<Vec<Member<'a>>>>,
    /// True if `events` comes twice.
    pub(super) twice: bool,
    /// True if the member `events` is read as a list of objects.
    is_request: bool,
}

/// Reason for which a text does not have the expected shape.
pub(super) enum ShapeError {
    /// The text is JSON, but not an object.
    Object,
    /// `events` is not a list.
    List,
    /// The event of this index is not an object.
    Event(usize),
}

impl<'a> ParsedObject<'a> {
    /// Parses an object.
    ///
    /// # Errors
    /// `invalid_json`.
    pub(super) fn parse(text: &'a str) -> ServiceResult<Result<Self, ShapeError>> {
        let mut object = Self::default();
        Ok(object.fill(text)?.map(|()| object))
    }

    /// Parses the object of a request, whose events are parsed by their members.
    ///
    /// # Errors
    /// `invalid_json`.
    pub(super) fn parse_request(text: &'a str) -> ServiceResult<Result<Self, ShapeError>> {
        let mut object = Self { is_request: true, ..Self::default() };
        Ok(object.fill(text)?.map(|()| object))
    }

    /// Parses as much of an object as possible.
    pub(super) fn parse_prefix(text: &'a str) -> Self {
        let mut object = Self::default();
        // Members before an error are kept.
        let _ = object.fill(text);
        object
    }

    fn fill(&mut self, text: &'a str) -> ServiceResult<Result<(), ShapeError>> {
        if !text.trim_start_matches(SPACE).starts_with('{') {
            return check_json(text).map(|()| Err(ShapeError::Object));
        }
        let mut source = Deserializer::from_str(text);
        let read = (&mut *self).deserialize(&mut source).and_then(|()| source.end());
        let Err(error) = read else { return Ok(Ok(())) };
        if !error.is_data() {
            return Err(invalid_json(text, &error));
        }
        check_json(text)?;
        Ok(Err(match &self.events {
            None => ShapeError::List,
            Some(events) => ShapeError::Event(events.len()),
        }))
    }
}

/// Checks that a text is one JSON value.
///
/// # Errors
/// `invalid_json`.
pub(super) fn check_json(text: &str) -> ServiceResult<()> {
    let read = serde_json::from_str::<&RawValue>(text);
    read.map(drop).map_err(|error| invalid_json(text, &error))
}

/// Returns true if a JSON text is nested no deeper than this number of levels.
pub(super) fn is_within_depth(text: &str, levels: usize) -> bool {
    // Most texts have fewer brackets, which a processor counts in blocks.
    let opens = |block: &[u8]| {
        let count = |sum, byte: &u8| sum + u8::from(matches!(byte, b'{' | b'['));
        usize::from(block.iter().fold(0_u8, count))
    };
    !text.trim_start_matches(SPACE).starts_with(['{', '['])
        || text.as_bytes().chunks(128).map(opens).sum::<usize>() <= levels
        || measure(text.as_bytes(), 0).depth <= levels
}

/// Returns the bytes of a JSON string. Lone halves of surrogate pairs keep a form of their own
/// (three bytes, as in WTF-8), so that different names stay different.
pub(super) fn unescape(string: &str) -> Cow<'_, [u8]> {
    let inner = string.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(string);
    if !inner.contains('\\') {
        return Cow::Borrowed(inner.as_bytes());
    }
    let bytes = Deserializer::from_str(string).deserialize_bytes(Unescaped);
    Cow::Owned(bytes.unwrap_or_else(|_| inner.as_bytes().to_vec()))
}

struct Unescaped;

impl Visitor<'_> for Unescaped {
    type Value = Vec<u8>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a string")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }
}

impl<'de> DeserializeSeed<'de> for &mut ParsedObject<'de> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut ParsedObject<'de> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<&RawValue>()?.map(RawValue::get) {
            let name = unescape(key);
            if !self.is_request || *name != *EVENTS.as_bytes() {
                let value = map.next_value::<&RawValue>()?.get();
                self.members.push(Member { name, key, value });
            } else if self.events.is_none() {
                map.next_value_seed(EventListSeed(&mut self.events))?;
            } else {
                self.twice = true;
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// Deserializes a list of events into this slot.
struct EventListSeed<'p, 'a>(&'p mut Option<Vec<Vec<Member<'a>>>>);

impl<'de> DeserializeSeed<'de> for EventListSeed<'_, 'de> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for EventListSeed<'_, 'de> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let events = self.0.insert(Vec::new());
        while events.len() <= limits::BATCH_EVENTS_MAX {
            let mut event = ParsedObject::default();
            if list.next_element_seed(&mut event)?.is_none() {
                return Ok(());
            }
            events.push(event.members);
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_within_depth_counts_a_million_levels_without_recursion() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(check_json(&nested(1 << 20)).is_ok());
        for levels in [1, 127, 128] {
            assert!(
                is_within_depth(&nested(levels), levels)
                    && !is_within_depth(&nested(levels), levels - 1)
            );
        }
        assert!(is_within_depth(&format!("[\"{}\",[],[],{{}}]", "[{".repeat(500)), 2));
        assert!(!is_within_depth(&format!(" \n{}", nested(129)), 128), "white space has no depth");
        assert!(!is_within_depth(&nested(1 << 20), 128));
    }

    #[test]
    fn unescape_decodes_escapes_and_keeps_lone_surrogates_distinct() {
        for (text, bytes) in [
            (r#""id""#, "id".as_bytes()),
            (r#""\u0069d""#, b"id"),
            (r#""\u00e9""#, "é".as_bytes()),
            (r#""\ud83d\ude00""#, "😀".as_bytes()),
            (r#""\ud83d""#, &[0xed, 0xa0, 0xbd]),
            (r#""\ud83d\u0041""#, &[0xed, 0xa0, 0xbd, b'A']),
            (r#""a\"\\\/\b\f\n\r\t""#, b"a\"\\/\x08\x0c\n\r\t"),
        ] {
            assert_eq!(unescape(text).as_ref(), bytes, "{text}");
        }
    }
}
