//! Members of a JSON object in their source form, with order, numbers and escapes. It must not
//! parse a value before it is used.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _, MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

use crate::event::{Timestamp, json, limits};

/// Names and values of one object, in source order.
#[derive(Clone, Debug, Default)]
pub struct JsonMembers(Vec<(String, Box<RawValue>)>);

impl JsonMembers {
    /// Parses an object.
    ///
    /// # Errors
    /// The reason for which the text is not a JSON object.
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Returns the JSON text of a member.
    #[must_use]
    pub fn raw(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    /// Returns the text of a member that is a string.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        parse_string(self.raw(name)?)
    }

    /// Parses a member's value; `None` also when it has too many values for a tree.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<Value> {
        serde_json::from_str(json::check(self.raw(name)?.get())?).ok()
    }

    /// Returns the time of a transcript's line.
    pub(super) fn time(&self) -> Option<Timestamp> {
        self.text("timestamp").as_deref().and_then(Timestamp::parse)
    }

    /// Returns the JSON text of a member, unless it is absent or null.
    pub(super) fn non_null(&self, name: &str) -> Option<&RawValue> {
        self.raw(name).filter(|value| value.get() != "null")
    }

    /// Returns the names and values, in order.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), &**value))
    }

    /// Returns the object without the named members, as JSON text.
    #[must_use]
    pub fn without(&self, names: &[&str]) -> String {
        let mut object = ObjectWriter::new();
        for (name, value) in &self.0 {
            if !names.contains(&name.as_str()) {
                object.add(name, value.get());
            }
        }
        object.finish()
    }
}

impl<'de> Deserialize<'de> for JsonMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = JsonMembers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonMembers, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    if members.len() == limits::JSON_VALUES_MAX {
                        return Err(A::Error::custom("it has too many members"));
                    }
                    members.push(member);
                }
                Ok(JsonMembers(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

/// Writer of the JSON text of an object, member by member.
pub(super) struct ObjectWriter(String);

impl ObjectWriter {
    pub(super) fn new() -> Self {
        Self("{".to_owned())
    }

    /// Creates a writer that continues the text of a finished object.
    pub(super) fn from_text(mut text: String) -> Self {
        text.pop();
        Self(text)
    }

    /// Adds a member whose value is JSON text.
    pub(super) fn add(&mut self, name: &str, json: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push_str(&quote(name));
        self.0.push(':');
        self.0.push_str(json);
    }

    /// Adds the members of another object.
    pub(super) fn add_all(&mut self, members: &JsonMembers) {
        members.0.iter().for_each(|(name, value)| self.add(name, value.get()));
    }

    pub(super) fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// Parses the elements of a list; `None` for another value, and for a list whose elements and
/// members exceed the limit.
pub(super) fn parse_list<T: DeserializeOwned>(list: &RawValue) -> Option<Vec<T>> {
    serde_json::from_str(json::check_levels(list.get(), 2)?).ok()
}

/// Decodes a JSON string; an unpaired surrogate becomes U+FFFD.
pub(super) fn parse_string(value: &RawValue) -> Option<String> {
    value
        .get()
        .starts_with('"')
        .then(|| serde_json::from_str(&json::replace_lone_surrogates(value.get())).ok())?
}

/// Merges the members of two JSON objects into one.
pub(super) fn merge(one: &str, other: &str) -> String {
    match (one, other) {
        ("{}", text) | (text, "{}") => text.to_owned(),
        _ => {
            let (one, other) = (one.strip_suffix('}'), other.strip_prefix('{'));
            format!("{},{}", one.unwrap_or("{"), other.unwrap_or("}"))
        }
    }
}

/// Returns true if a member is `true`.
pub(super) fn is_true(line: &JsonMembers, name: &str) -> bool {
    line.raw(name).is_some_and(|value| value.get() == "true")
}

/// Returns the text of a content: a string, or text blocks joined by newlines.
pub(super) fn content_text(content: &RawValue) -> String {
    if let Some(text) = parse_string(content) {
        return text;
    }
    let blocks: Vec<JsonMembers> = parse_list(content).unwrap_or_default();
    let texts: Vec<String> = blocks.iter().filter_map(|block| block.text("text")).collect();
    texts.join("\n")
}

/// Returns a text as a JSON string.
pub(super) fn quote(text: &str) -> String {
    Value::from(text).to_string()
}

/// Returns the canonical form of a JSON text; `None` when it is invalid or too large for a tree.
pub(super) fn canonical_text(text: &str) -> Option<String> {
    serde_json::from_str(json::check(text)?).ok().as_ref().map(canonical)
}

/// Returns JSON text with sorted names and without spaces, equal for equivalent values.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let mut names: Vec<&String> = members.keys().collect();
            names.sort();
            let mut object = ObjectWriter::new();
            for name in names {
                object.add(name, &members.get(name).map(canonical).unwrap_or_default());
            }
            object.finish()
        }
        Value::Array(values) => {
            let texts: Vec<String> = values.iter().map(canonical).collect();
            format!("[{}]", texts.join(","))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_order_numbers_and_escapes() {
        let members =
            JsonMembers::read(r#"{"b": 1e400, "a": "\u00e9", "b2":12345678901234567890123}"#)
                .expect("an object");
        assert_eq!(members.without(&["a"]), r#"{"b":1e400,"b2":12345678901234567890123}"#);
        assert_eq!(members.text("a").as_deref(), Some("é"));
        assert!(JsonMembers::read("[1]").is_err());
    }

    #[test]
    fn equivalent_texts_have_one_canonical_form() {
        let of = |text| canonical(&serde_json::from_str(text).expect("JSON"));
        assert_eq!(
            of(r#"{"b":[1, {"d":null,"c":"\u0041"}],"a":1.50}"#),
            r#"{"a":1.5,"b":[1,{"c":"A","d":null}]}"#
        );
    }
}
