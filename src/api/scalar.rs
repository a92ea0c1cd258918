//! Values of `event` in JSON: ids and types as their text, positions as numbers, times as RFC 3339,
//! costs as US dollars, ranges as their two ends. Their schemas are those of a plain string and of
//! a plain number. It must not accept a text that the value's own parser refuses.

use std::{borrow::Cow, fmt::Display};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use super::cursor::{PageCursor, ViewList};
use crate::event::{Cost, EventId, EventType, Origin, Position, Range, SessionId, Timestamp};

/// Deserializes a text with a value's own parser.
fn deserialize_text<'de, D: Deserializer<'de>, T, E: Display>(
    from: D,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    let text = Cow::<str>::deserialize(from)?;
    parse(&text).map_err(D::Error::custom)
}

/// Implements the JSON form of a value: the text of its `Display`.
macro_rules! text {
    ($name:ident, $parse:expr) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                deserialize_text(from, $parse)
            }
        }

        schema_of!($name, String);
    };
}

/// Implements the schema of a plain type.
macro_rules! schema_of {
    ($name:ident, $plain:ty) => {
        impl ::schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                <$plain as ::schemars::JsonSchema>::schema_name()
            }

            fn json_schema(generator: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                <$plain as ::schemars::JsonSchema>::json_schema(generator)
            }
        }
    };
}

pub(super) use schema_of;

text!(SessionId, Self::new);
text!(EventId, Self::new);
// A stored type is read unchanged: a rule added later must not refuse it.
text!(EventType, |text| Ok::<_, std::convert::Infallible>(Self::from_stored(text)));
text!(PageCursor, |text| Self::parse(text).ok_or("a cursor of an answer is wanted"));
text!(Timestamp, |text| Self::parse(text).ok_or(Self::EXPECTED));

impl Serialize for Position {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Position {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        u64::deserialize(from).map(Self)
    }
}

schema_of!(Position, u64);

text!(Origin, |text| Self::parse(text).ok_or("an origin is wanted"));

/// A value of an enumeration in an answer. One that a newer server added is kept as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OpenEnum<T> {
    /// A value that this version knows.
    Known(T),
    /// A value of a later version.
    Unknown(String),
}

impl<T: Copy> OpenEnum<T> {
    /// Returns the value if this version knows it.
    #[must_use]
    pub fn as_known(&self) -> Option<T> {
        match self {
            Self::Known(word) => Some(*word),
            Self::Unknown(_) => None,
        }
    }

    /// Returns the text; `name` returns that of a known value.
    #[must_use]
    pub fn text(&self, name: impl FnOnce(T) -> &'static str) -> &str {
        match self {
            Self::Known(word) => name(*word),
            Self::Unknown(text) => text,
        }
    }
}

impl<T> From<T> for OpenEnum<T> {
    fn from(word: T) -> Self {
        Self::Known(word)
    }
}

impl<T: PartialEq> PartialEq<T> for OpenEnum<T> {
    fn eq(&self, other: &T) -> bool {
        matches!(self, Self::Known(word) if word == other)
    }
}

impl<T> JsonSchema for OpenEnum<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        String::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

/// Half-open range `[from, to)` of positions.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Range")]
#[schemars(rename = "Range")]
struct RangeEnds {
    /// First position in the range.
    from: Position,
    /// First position after the range.
    to: Position,
}

impl Serialize for Range {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        RangeEnds::serialize(self, to)
    }
}

impl<'de> Deserialize<'de> for Range {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // Reversed ends are an empty range, as in `Range::new`.
        RangeEnds::deserialize(from).map(|range| Self::new(range.from, range.to))
    }
}

impl JsonSchema for Range {
    fn schema_name() -> Cow<'static, str> {
        RangeEnds::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        RangeEnds::json_schema(generator)
    }
}

schema_of!(ViewList, String);

impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.usd().serialize(to)
    }
}

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        f64::deserialize(from).map(Self::from_usd)
    }
}

schema_of!(Cost, f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_values_round_trip_through_json() {
        let time = Timestamp::parse("2026-11-28T05:30:00.123456Z").expect("a time");
        let session = SessionId::new("s-1").expect("an id");
        let range = Range::new(Position(1), Position(7));
        let all = (session, Position(7), time, range, Origin::Web);
        let text = serde_json::to_string(&all).expect("JSON");
        let expected = r#"["s-1",7,"2026-11-28T05:30:00.123456Z",{"from":1,"to":7},"web"]"#;
        assert_eq!(text, expected);
        assert_eq!(
            serde_json::from_str::<(SessionId, Position, Timestamp, Range, Origin)>(&text).ok(),
            Some(all)
        );
    }

    #[test]
    fn an_unknown_enumeration_value_round_trips_as_its_text() {
        let read = |text: &str| serde_json::from_str::<OpenEnum<Origin>>(text).ok();
        assert!(read(r#""web""#).is_some_and(|word| word == Origin::Web));
        let later = read(r#""sensor""#).expect("a text");
        assert_eq!((later.as_known(), later.text(Origin::as_str)), (None, "sensor"));
        assert_eq!(serde_json::to_string(&later).ok().as_deref(), Some(r#""sensor""#));
        assert_eq!(read("1"), None);
    }

    #[test]
    fn an_invalid_id_time_or_position_is_rejected() {
        assert!(serde_json::from_str::<SessionId>(r#""../a""#).is_err());
        assert!(serde_json::from_str::<Timestamp>(r#""yesterday""#).is_err());
        assert!(serde_json::from_str::<Position>("-1").is_err());
    }
}
