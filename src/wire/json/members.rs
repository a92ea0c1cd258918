//! The members of JSON objects as they came, by one pass of serde over raw values: it takes half of
//! the time of the scanner that it replaced, or less (decision 0048). Nesting is counted apart,
//! because serde bounds none of raw values. It must not know what a member means.

use std::{borrow::Cow, fmt};

use serde::{
    Deserializer as _,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Deserializer, value::RawValue};

use super::not_json;
use crate::{
    event::{json::weigh, limits},
    service::ServiceResult,
};

/// White space of JSON.
const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];
/// The member that is a list of events.
const EVENTS: &str = "events";

/// A member of an object.
pub(super) struct Member<'a> {
    /// The bytes that its name stands for.
    pub(super) name: Cow<'a, [u8]>,
    /// The text of the name, quotes included.
    key: &'a str,
    /// The text of its value.
    pub(super) value: &'a str,
}

impl<'a> Member<'a> {
    /// The member with the white space around it: what stands between two commas of `text`, of
    /// which it is a part.
    pub(super) fn in_text(&self, text: &'a str) -> &'a str {
        let at = |part: &str| part.as_ptr() as usize - text.as_ptr() as usize;
        let (from, to) = (at(self.key), at(self.value) + self.value.len());
        let before = text.get(..from).unwrap_or_default().trim_end_matches(SPACE).len();
        let after = text.get(to..).unwrap_or_default();
        let end = text.len() - after.trim_start_matches(SPACE).len();
        text.get(before..end).unwrap_or_default()
    }
}

/// Members of an object, as far as it was read.
#[derive(Default)]
pub(super) struct Object<'a> {
    /// Its members in order; of a request, without the events.
    pub(super) members: Vec<Member<'a>>,
    /// The events of a request, each by its members: at most one more than a batch may have.
    pub(super) events: Option<Vec<Vec<Member<'a>>>>,
    /// True if `events` comes twice.
    pub(super) twice: bool,
    /// True if the member `events` is read as a list of objects.
    is_request: bool,
}

/// Reason for which a text is not read as an object.
pub(super) enum Unlike {
    /// It is JSON of another kind.
    Object,
    /// `events` is no list.
    List,
    /// The event of this index is no object.
    Event(usize),
}

impl<'a> Object<'a> {
    /// Reads an object.
    ///
    /// # Errors
    /// `invalid_json`.
    pub(super) fn read(text: &'a str) -> ServiceResult<Result<Self, Unlike>> {
        let mut object = Self::default();
        Ok(object.fill(text)?.map(|()| object))
    }

    /// Reads the object of a request, whose events are read by their members.
    ///
    /// # Errors
    /// `invalid_json`.
    pub(super) fn request(text: &'a str) -> ServiceResult<Result<Self, Unlike>> {
        let mut object = Self { is_request: true, ..Self::default() };
        Ok(object.fill(text)?.map(|()| object))
    }

    /// Reads as much of an object as can be read.
    pub(super) fn begun(text: &'a str) -> Self {
        let mut object = Self::default();
        // What was read before an error is kept.
        let _ = object.fill(text);
        object
    }

    fn fill(&mut self, text: &'a str) -> ServiceResult<Result<(), Unlike>> {
        if !text.trim_start_matches(SPACE).starts_with('{') {
            return is_json(text).map(|()| Err(Unlike::Object));
        }
        let mut source = Deserializer::from_str(text);
        let read = (&mut *self).deserialize(&mut source).and_then(|()| source.end());
        let Err(error) = read else { return Ok(Ok(())) };
        if !error.is_data() {
            return Err(not_json(text, &error));
        }
        is_json(text)?;
        Ok(Err(match &self.events {
            None => Unlike::List,
            Some(events) => Unlike::Event(events.len()),
        }))
    }
}

/// Checks that a text is one JSON value.
///
/// # Errors
/// `invalid_json`.
pub(super) fn is_json(text: &str) -> ServiceResult<()> {
    let read = serde_json::from_str::<&RawValue>(text);
    read.map(drop).map_err(|error| not_json(text, &error))
}

/// True if a JSON text is nested no deeper than so many levels.
pub(super) fn is_within(text: &str, levels: usize) -> bool {
    // Most texts have fewer brackets, which a processor counts a block at a time.
    let opens = |block: &[u8]| {
        let count = |sum, byte: &u8| sum + u8::from(matches!(byte, b'{' | b'['));
        usize::from(block.iter().fold(0_u8, count))
    };
    !text.trim_start_matches(SPACE).starts_with(['{', '['])
        || text.as_bytes().chunks(128).map(opens).sum::<usize>() <= levels
        || weigh(text.as_bytes(), 0).depth <= levels
}

/// The bytes that a JSON string stands for. Halves of surrogate pairs alone keep a place of their
/// own (three bytes, as in WTF-8), so that different names stay different.
pub(super) fn unescaped(string: &str) -> Cow<'_, [u8]> {
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

impl<'de> DeserializeSeed<'de> for &mut Object<'de> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Object<'de> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<&RawValue>()?.map(RawValue::get) {
            let name = unescaped(key);
            if !self.is_request || *name != *EVENTS.as_bytes() {
                let value = map.next_value::<&RawValue>()?.get();
                self.members.push(Member { name, key, value });
            } else if self.events.is_none() {
                map.next_value_seed(Events(&mut self.events))?;
            } else {
                self.twice = true;
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// Reads a list of events into its place.
struct Events<'p, 'a>(&'p mut Option<Vec<Vec<Member<'a>>>>);

impl<'de> DeserializeSeed<'de> for Events<'_, 'de> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Events<'_, 'de> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let events = self.0.insert(Vec::new());
        while events.len() <= limits::BATCH_EVENTS_MAX {
            let mut event = Object::default();
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
    fn depth_is_counted_without_recursion() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(is_json(&nested(1 << 20)).is_ok());
        for levels in [1, 127, 128] {
            assert!(is_within(&nested(levels), levels) && !is_within(&nested(levels), levels - 1));
        }
        assert!(is_within(&format!("[\"{}\",[],[],{{}}]", "[{".repeat(500)), 2));
        assert!(!is_within(&format!(" \n{}", nested(129)), 128), "white space has no depth");
        assert!(!is_within(&nested(1 << 20), 128));
    }

    #[test]
    fn escaped_keys_name_what_they_spell() {
        for (text, bytes) in [
            (r#""id""#, "id".as_bytes()),
            (r#""\u0069d""#, b"id"),
            (r#""\u00e9""#, "é".as_bytes()),
            (r#""\ud83d\ude00""#, "😀".as_bytes()),
            (r#""\ud83d""#, &[0xed, 0xa0, 0xbd]),
            (r#""\ud83d\u0041""#, &[0xed, 0xa0, 0xbd, b'A']),
            (r#""a\"\\\/\b\f\n\r\t""#, b"a\"\\/\x08\x0c\n\r\t"),
        ] {
            assert_eq!(unescaped(text).as_ref(), bytes, "{text}");
        }
    }
}
