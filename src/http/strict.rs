//! Checks the names in a request: members of a body against its type, query parameters against the
//! published description. An unknown name is refused, with the nearest known one. The client of the
//! Managed Agents wire may send members that are not stored. It must not check a value.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::LazyLock,
};

use axum::http::{HeaderMap, Method, Uri};
use serde::{
    de::{DeserializeOwned, Deserializer, Visitor, value::Error as PlainError},
    forward_to_deserialize_any,
};
use serde_json::{Value, value::RawValue};

use super::{document::build_document, refuse::HttpError};
use crate::wire::nearest_name;

/// Headers that the official client of the Managed Agents wire sends with every request.
const HOSTED_HEADERS: [&str; 2] = ["anthropic-beta", "anthropic-version"];
/// Routes that exist only in the Managed Agents wire.
const HOSTED_ROUTES: [&str; 2] =
    ["/v1/sessions/{session}/threads", "/v1/sessions/{session}/resources"];
/// Suffixes of the parameters of a time window.
const TIMES: [&str; 4] = ["[gte]", "[gt]", "[lt]", "[lte]"];

/// Returns true if a request is of the Managed Agents wire, whose clients may send members that are
/// not stored.
pub(super) fn is_managed_agents_request(headers: &HeaderMap, uri: &Uri) -> bool {
    let asks_beta = |query: &str| query.split('&').any(|pair| pair == "beta=true");
    HOSTED_HEADERS.iter().any(|name| headers.contains_key(*name))
        || uri.query().is_some_and(asks_beta)
}

/// Names of the query parameters of each method, by route.
type QueryNames = HashMap<String, BTreeMap<String, Vec<String>>>;

/// The names of the published description, read at the first request with a query.
static QUERY_NAMES: LazyLock<QueryNames> = LazyLock::new(|| {
    let members = |value: &Value| value.as_object().cloned().into_iter().flatten();
    let names = |operation: &Value| {
        let all = operation["parameters"].as_array().into_iter().flatten();
        let of_query = all.filter(|one| one["in"] == "query");
        of_query.filter_map(|one| Some(one["name"].as_str()?.to_owned())).collect()
    };
    let methods = |item: &Value| {
        members(item).map(|(method, operation)| (method.to_uppercase(), names(&operation)))
    };
    let document = build_document();
    let paths = document.get("paths").unwrap_or(&Value::Null);
    members(paths).map(|(path, item)| (path, methods(&item).collect())).collect()
});

/// Refuses a query parameter that the route does not have.
pub(super) fn check_query(
    method: &Method,
    route: &str,
    headers: &HeaderMap,
    uri: &Uri,
) -> Result<(), HttpError> {
    let Some(query) = uri.query().filter(|query| !query.is_empty()) else { return Ok(()) };
    let hosted = HOSTED_ROUTES.iter().any(|prefix| route.starts_with(prefix));
    if hosted || !route.starts_with("/v1/") || is_managed_agents_request(headers, uri) {
        return Ok(());
    }
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    let Some(known) = QUERY_NAMES.get(route).and_then(|methods| methods.get(method)) else {
        return Ok(());
    };
    let pairs = url::form_urlencoded::parse(query.as_bytes());
    let stranger =
        pairs.map(|(name, _)| name).find(|name| !known.iter().any(matches_parameter(name)));
    match stranger {
        None => Ok(()),
        Some(name) => Err(unknown_name(&name, "parameter", known.iter().map(String::as_str))),
    }
}

/// Returns a test that a declared parameter matches `name`: lists have optional brackets, time
/// windows four suffixes.
fn matches_parameter(name: &str) -> impl Fn(&String) -> bool {
    move |known| match known.split_once('[') {
        None => known == name,
        Some((bare, "]")) => name.strip_suffix("[]").unwrap_or(name) == bare,
        Some((bare, _)) => name.strip_prefix(bare).is_some_and(|rest| TIMES.contains(&rest)),
    }
}

/// Refuses members of a body that its type does not have.
pub(super) fn check_members<T: DeserializeOwned>(text: &str) -> Result<(), HttpError> {
    let Some(known) = field_names::<T>() else { return Ok(()) };
    // Input that is not an object, or has an invalid value, is refused by the decoder.
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).unwrap_or_default();
    match members.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(unknown_name(name, "member", known.iter().copied())),
    }
}

/// Returns the names of a struct's fields; `None` for other types.
fn field_names<T: DeserializeOwned>() -> Option<&'static [&'static str]> {
    let mut found = None;
    // Deserialization always fails: it only reports the fields that the type requests.
    drop(T::deserialize(FieldRecorder(&mut found)));
    found
}

/// Deserializer without a value, which records the fields that a type requests.
struct FieldRecorder<'a>(&'a mut Option<&'static [&'static str]>);

impl<'de> Deserializer<'de> for FieldRecorder<'_> {
    type Error = PlainError;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, PlainError> {
        *self.0 = Some(fields);
        self.deserialize_any(visitor)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, PlainError> {
        Err(serde::de::Error::custom("there is no value"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Creates the error for an unknown name, with the nearest known one.
pub(super) fn unknown_name<'a>(
    name: &str,
    what: impl fmt::Display,
    known: impl Iterator<Item = &'a str>,
) -> HttpError {
    let meant = nearest_name(name, known).map(|meant| format!("; did you mean {meant}?"));
    let name: String = name.chars().take(NAME_CHARS_MAX).collect();
    HttpError::invalid(&name, format!("there is no such {what}{}", meant.unwrap_or_default()))
}

/// Maximum number of characters of an unknown name that are repeated in the refusal.
const NAME_CHARS_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_accepted_in_each_of_its_spellings() {
        for (known, name, expected) in [
            ("limit", "limit", true),
            ("limit", "limit[]", false),
            ("types[]", "types", true),
            ("types[]", "types[]", true),
            ("types[]", "typess", false),
            ("created_at[gte]", "created_at[lt]", true),
            ("created_at[gte]", "created_at", false),
            ("created_at[gte]", "created_at[ge]", false),
        ] {
            assert_eq!(matches_parameter(name)(&known.to_owned()), expected, "{known} {name}");
        }
    }
}
