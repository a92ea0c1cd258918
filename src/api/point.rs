//! A point in JSON: a text in the grammar of points, or a whole number, which is a position. It
//! must not resolve a point.

use std::fmt;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{
    Deserializer,
    de::{Error, Visitor},
};

/// Deserializes a point as text.
///
/// # Errors
/// The value is neither a text nor a whole number.
pub fn text<'de, D: Deserializer<'de>>(source: D) -> Result<String, D::Error> {
    let text = source.deserialize_any(PointVisitor)?;
    text.ok_or_else(|| D::Error::custom(format!("null is no point: {EXPECTED} is expected")))
}

/// Deserializes a point that may be absent, as text.
///
/// # Errors
/// Those of [`text`].
pub fn option<'de, D: Deserializer<'de>>(source: D) -> Result<Option<String>, D::Error> {
    source.deserialize_any(PointVisitor)
}

const EXPECTED: &str = "a position, or a text such as end, -5 or step:3";

struct PointVisitor;

impl Visitor<'_> for PointVisitor {
    type Value = Option<String>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Option<String>, E> {
        Ok(Some(text.to_owned()))
    }

    fn visit_u64<E: Error>(self, position: u64) -> Result<Option<String>, E> {
        Ok(Some(position.to_string()))
    }

    fn visit_i64<E: Error>(self, before_the_end: i64) -> Result<Option<String>, E> {
        Ok(Some(before_the_end.to_string()))
    }

    fn visit_unit<E: Error>(self) -> Result<Option<String>, E> {
        Ok(None)
    }
}

/// Returns the schema of a point in the published description.
pub fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [{ "type": "string" }, { "type": "integer" }] })
}
