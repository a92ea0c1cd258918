//! Query parameters as plain structs: the server reads a struct from pairs of name and value, the
//! client writes it as pairs. The interface rejects unknown names before. It must not hold a
//! default.

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
    wire::coerce::parse_whole_number,
};

/// No query parameters.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct NoQuery {}

/// Parses the parameters in the pairs of a query. An empty value counts as absent.
///
/// # Errors
/// `invalid_request`, naming the parameter that is invalid or repeated.
pub fn read<T: DeserializeOwned>(pairs: &[(String, String)]) -> ServiceResult<T> {
    T::deserialize(QueryPairs(pairs))
        .map_err(|wrong| ServiceError::invalid(wrong.name, wrong.problem))
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

/// Error of a parameter that cannot be parsed.
#[derive(Debug)]
struct ParameterError {
    name: &'static str,
    problem: String,
}

impl fmt::Display for ParameterError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.name, self.problem)
    }
}

impl std::error::Error for ParameterError {}

impl Error for ParameterError {
    fn custom<T: fmt::Display>(problem: T) -> Self {
        Self { name: "query", problem: problem.to_string() }
    }
}

/// Deserializer of a struct from the pairs of a query.
struct QueryPairs<'a>(&'a [(String, String)]);

impl<'de> Deserializer<'de> for QueryPairs<'_> {
    type Error = ParameterError;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ParameterError> {
        visitor.visit_map(StructFields { pairs: self.0, left: fields.iter(), now: None })
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, ParameterError> {
        Err(ParameterError::custom("a query is read into a struct"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Map access to the fields of a struct that the query has values for.
struct StructFields<'a> {
    pairs: &'a [(String, String)],
    left: std::slice::Iter<'static, &'static str>,
    now: Option<ParamValues<'a>>,
}

impl<'de> MapAccess<'de> for StructFields<'_> {
    type Error = ParameterError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ParameterError> {
        for name in self.left.by_ref() {
            // A list parameter may be sent with or without brackets.
            let is = |known: &str| known == *name || Some(known) == name.strip_suffix("[]");
            let all: Vec<&str> = self
                .pairs
                .iter()
                .filter(|(known, _)| is(known))
                .map(|(_, value)| value.as_str())
                .collect();
            if !all.is_empty() {
                self.now = Some(ParamValues { name, all });
                return seed.deserialize((*name).into_deserializer()).map(Some);
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, ParameterError> {
        let values = self.now.take().expect("a value follows its name");
        let name = values.name;
        seed.deserialize(values).map_err(|wrong| ParameterError { name, ..wrong })
    }
}

struct ParamValues<'a> {
    name: &'static str,
    all: Vec<&'a str>,
}

impl<'a> ParamValues<'a> {
    /// Returns the value of a parameter that may occur once.
    fn single(&self) -> Result<&'a str, ParameterError> {
        match self.all.as_slice() {
            [one] => Ok(one),
            _ => Err(ParameterError::custom("the parameter comes twice")),
        }
    }

    fn parse_number<T: TryFrom<u64>>(&self) -> Result<T, ParameterError> {
        let number = parse_whole_number(self.single()?).and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| ParameterError::custom("a whole number is expected"))
    }
}

impl<'de> Deserializer<'de> for ParamValues<'_> {
    type Error = ParameterError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParameterError> {
        visitor.visit_str(self.single()?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParameterError> {
        if self.single()?.is_empty() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParameterError> {
        match self.single()? {
            "" | "false" | "False" | "0" => visitor.visit_bool(false),
            "true" | "True" | "1" => visitor.visit_bool(true),
            _ => Err(ParameterError::custom("true or false is expected")),
        }
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParameterError> {
        visitor.visit_u32(self.parse_number()?)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParameterError> {
        visitor.visit_u64(self.parse_number()?)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParameterError> {
        visitor.visit_seq(SeqDeserializer::new(self.all.into_iter()))
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct tuple tuple_struct map struct enum identifier ignored_any
    }
}
