//! Arguments of tools: read into their types, and values in them. One that does not fit is refused
//! by its name. It must not know a tool.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{
    event::Point,
    service::{ServiceError, ServiceResult},
    wire::tools::camel_name,
};

/// What a refusal of arguments advises.
const LOOK: &str = "look at the tool's input schema";

/// A point.
///
/// # Errors
/// `invalid_request`, naming the argument.
pub fn point(field: &str, text: Option<&str>) -> ServiceResult<Option<Point>> {
    let parsed = text.map(Point::parse).transpose();
    parsed.map_err(|error| ServiceError::invalid(field, error))
}

/// A number from 1 to a bound, or the usual one.
///
/// # Errors
/// `invalid_request`, naming the argument.
pub fn bounded(
    field: &str,
    given: Option<usize>,
    usual: usize,
    max: usize,
) -> ServiceResult<usize> {
    let number = given.unwrap_or(usual);
    if number == 0 || number > max {
        return Err(ServiceError::invalid(field, format!("from 1 to {max}")));
    }
    Ok(number)
}

/// An error of a verb that names a parameter by the name that tools have for it.
pub fn renamed(mut error: ServiceError) -> ServiceError {
    error.hint.field = error.hint.field.as_deref().map(camel_name);
    error
}

/// The arguments, or which of them does not fit.
pub(super) fn read<T: DeserializeOwned>(arguments: Value) -> ServiceResult<T> {
    let arguments = if arguments.is_null() { Value::Object(Map::new()) } else { arguments };
    let error = match T::deserialize(&arguments) {
        Ok(parsed) => return Ok(parsed),
        Err(error) => error.to_string(),
    };
    let Value::Object(members) = &arguments else {
        return Err(ServiceError::invalid("arguments", "an object is expected"));
    };
    let missing = || error.strip_prefix("missing field `")?.split('`').next();
    if let Some(name) = missing().filter(|name| is_lacking::<T>(members, name)) {
        return Err(ServiceError::invalid(name, "it is missing").action(LOOK));
    }
    // The argument without which the complaint is another one is the one complained about.
    let culprit = members.keys().find(|name| {
        let mut without = members.clone();
        // In their order: the complaint is about the first that does not fit.
        without.shift_remove(*name);
        !matches!(T::deserialize(&Value::Object(without)), Err(other) if other.to_string() == error)
    });
    let field = culprit.map_or("arguments", String::as_str);
    Err(ServiceError::invalid(field, &error).action(LOOK))
}

/// Whether a tool's own argument is missing, not a member of one: with it the complaint is another.
fn is_lacking<T: DeserializeOwned>(members: &Map<String, Value>, name: &str) -> bool {
    let mut with = members.clone();
    let lacking = with.insert(name.to_owned(), Value::Null).is_none();
    let complaint = T::deserialize(&Value::Object(with)).err().map(|error| error.to_string());
    lacking && !complaint.is_some_and(|error| error.starts_with("unknown field"))
}
