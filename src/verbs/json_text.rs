//! An answer that is already JSON text, because it contains bodies of events, which are returned as
//! they are stored. It must not change the text.

use std::{borrow::Cow, marker::PhantomData};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::value::RawValue;

/// JSON text of the shape `T`.
#[derive(Clone, Debug)]
pub struct JsonText<T> {
    text: Box<RawValue>,
    shape: PhantomData<fn() -> T>,
}

impl<T> JsonText<T> {
    /// Wraps a response that `wire` has written.
    ///
    /// # Panics
    /// Panics if the text is not JSON.
    #[must_use]
    pub fn new(text: impl Into<Vec<u8>>) -> Self {
        let text = String::from_utf8(text.into()).expect("wire writes UTF-8");
        let text = RawValue::from_string(text).expect("wire writes JSON");
        Self { text, shape: PhantomData }
    }

    /// Returns the text.
    #[must_use]
    pub fn text(&self) -> &str {
        self.text.get()
    }
}

impl<T: DeserializeOwned> JsonText<T> {
    /// Parses the text.
    ///
    /// # Errors
    /// Returns an error if the text does not have the shape.
    pub fn parse(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.text())
    }
}

impl<T> Serialize for JsonText<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(to)
    }
}

impl<'de, T> Deserialize<'de> for JsonText<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Self { text: Box::deserialize(from)?, shape: PhantomData })
    }
}

impl<T: JsonSchema> JsonSchema for JsonText<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}
