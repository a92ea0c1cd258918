//! Arguments of tools: parsing into their types, and checks of their values. An error names the
//! invalid argument. It must not know a tool.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{
    service::{ServiceError, ServiceResult},
    wire::coerce::Mismatch,
};

/// Advice in an error about arguments.
pub(super) const ADVICE: &str = "look at the tool's input schema";

/// Problem of a missing argument.
pub(super) const MISSING: &str = "it is missing";

/// Checks a number from 1 to a maximum, or returns the default.
///
/// # Errors
/// `invalid_request`, naming the argument.
pub fn check_bounds(
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

/// Builds the error of an argument with the wrong form.
pub(super) fn mismatch_error(mismatch: Mismatch) -> ServiceError {
    ServiceError::invalid(&mismatch.field, mismatch.problem).action(ADVICE)
}

/// Parses the arguments, or returns an error that names the invalid one.
pub(super) fn parse_arguments<T: DeserializeOwned>(arguments: &str) -> ServiceResult<T> {
    let error = match serde_json::from_str(arguments) {
        Ok(parsed) => return Ok(parsed),
        Err(error) => error_message(&error),
    };
    let members: Map<String, Value> = serde_json::from_str(arguments)
        .map_err(|_| ServiceError::invalid("arguments", &error).action(ADVICE))?;
    let members = &members;
    // The invalid argument is the one without which the error changes. A required one comes last,
    // because without it the error always changes.
    let without = |name: &str| {
        let mut without = members.clone();
        // Keeps the order: the error is about the first invalid argument.
        without.shift_remove(name);
        parse_error::<T>(without)
    };
    let others = members.keys().map(|name| (name, without(name)));
    let other: Vec<_> = others.filter(|(_, other)| other.as_ref() != Some(&error)).collect();
    let is_required = |name: &str, other: Option<&String>| {
        other.is_some_and(|other| *other == format!("missing field `{name}`"))
    };
    let culprit = other.iter().find(|(name, other)| !is_required(name, other.as_ref()));
    let culprit = culprit.or(other.first()).map(|(name, _)| *name);
    let field = culprit.map_or("arguments", String::as_str);
    Err(ServiceError::invalid(field, &error).action(ADVICE))
}

/// Returns the error for these arguments, if any.
fn parse_error<T: DeserializeOwned>(members: Map<String, Value>) -> Option<String> {
    let text = Value::Object(members).to_string();
    serde_json::from_str::<T>(&text).err().map(|error| error_message(&error))
}

/// Returns an error's message without its position in a text that the caller did not write.
fn error_message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}
