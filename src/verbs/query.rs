//! Query parameters as plain structs: the server reads a struct from pairs of texts, the client
//! writes it as such. Names that the struct does not have are refused before, by the interface.
//! It must not hold a default.

use std::fmt;

use schemars::JsonSchema;
use serde::{
    Deserialize, Serialize,
    de::{
        DeserializeOwned, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess,
        Visitor, value::SeqDeserializer,
    },
    forward_to_deserialize_any,
};
use serde_json::Value;

use crate::{
    service::{ServiceError, ServiceResult},
    wire::fitted::whole,
};

/// No query parameters.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct NoQuery {}

/// Parses the parameters in the pairs of a query. An empty value counts as absent.
///
/// # Errors
/// `invalid_request`, naming the parameter that is invalid or repeated.
pub fn read<T: DeserializeOwned>(pairs: &[(String, String)]) -> ServiceResult<T> {
    T::deserialize(Pairs(pairs)).map_err(|wrong| ServiceError::invalid(wrong.name, wrong.problem))
}

/// Encodes parameters as pairs; omits absent, empty and false values.
///
/// # Panics
/// Panics if the type is not a struct of texts, numbers, flags and lists of texts.
#[must_use]
pub fn write(query: &impl Serialize) -> Vec<(String, String)> {
    let value = serde_json::to_value(query).expect("a query is a struct of plain values");
    let Value::Object(members) = value else { unreachable!("a query is a struct") };
    let text = |value: Value| match value {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(true) => Some("true".to_owned()),
        _ => None,
    };
    let pairs = members.into_iter().flat_map(|(name, value)| {
        let values = match value {
            Value::Array(values) => values,
            value => vec![value],
        };
        values.into_iter().filter_map(move |value| Some((name.clone(), text(value)?)))
    });
    pairs.collect()
}

/// A parameter that cannot be read.
#[derive(Debug)]
struct Wrong {
    name: &'static str,
    problem: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.name, self.problem)
    }
}

impl std::error::Error for Wrong {}

impl Error for Wrong {
    fn custom<T: fmt::Display>(problem: T) -> Self {
        Self { name: "query", problem: problem.to_string() }
    }
}

/// The pairs of a query, as the source of a struct.
struct Pairs<'a>(&'a [(String, String)]);

impl<'de> Deserializer<'de> for Pairs<'_> {
    type Error = Wrong;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_map(Fields { pairs: self.0, left: fields.iter(), now: None })
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Wrong> {
        Err(Wrong::custom("a query is read into a struct"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// The fields of a struct that the query has values for.
struct Fields<'a> {
    pairs: &'a [(String, String)],
    left: std::slice::Iter<'static, &'static str>,
    now: Option<Values<'a>>,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Wrong;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Wrong> {
        for name in self.left.by_ref() {
            // A list parameter may have brackets or not.
            let is = |known: &str| known == *name || Some(known) == name.strip_suffix("[]");
            let all: Vec<&str> = self
                .pairs
                .iter()
                .filter(|(known, _)| is(known))
                .map(|(_, value)| value.as_str())
                .collect();
            if !all.is_empty() {
                self.now = Some(Values { name, all });
                return seed.deserialize((*name).into_deserializer()).map(Some);
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Wrong> {
        let values = self.now.take().expect("a value follows its name");
        let name = values.name;
        seed.deserialize(values).map_err(|wrong| Wrong { name, ..wrong })
    }
}

/// The values of one parameter.
struct Values<'a> {
    name: &'static str,
    all: Vec<&'a str>,
}

impl<'a> Values<'a> {
    /// Returns the value of a parameter that may occur once.
    fn one(&self) -> Result<&'a str, Wrong> {
        match self.all.as_slice() {
            [one] => Ok(one),
            _ => Err(Wrong::custom("the parameter comes twice")),
        }
    }

    fn number<T: TryFrom<u64>>(&self) -> Result<T, Wrong> {
        let number = whole(self.one()?).and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| Wrong::custom("a whole number is expected"))
    }
}

impl<'de> Deserializer<'de> for Values<'_> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_str(self.one()?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        if self.one()?.is_empty() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.one()? {
            "" | "false" | "False" | "0" => visitor.visit_bool(false),
            "true" | "True" | "1" => visitor.visit_bool(true),
            _ => Err(Wrong::custom("true or false is expected")),
        }
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_u32(self.number()?)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_u64(self.number()?)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_seq(SeqDeserializer::new(self.all.into_iter()))
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct tuple tuple_struct map struct enum identifier ignored_any
    }
}
