//! Arguments of tools: read into their types, and values in them. One that does not fit is refused
//! by its name. It must not know a tool.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{
    service::{ServiceError, ServiceResult},
    wire::fitted::Misfit,
};

/// Advice of a refusal of arguments.
pub(super) const LOOK: &str = "look at the tool's input schema";

/// The problem of an argument that was left out.
pub(super) const MISSING: &str = "it is missing";

/// Checks a number from 1 to a maximum, or returns the default.
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

/// Builds the error of an argument with the wrong form.
pub(super) fn refused(misfit: Misfit) -> ServiceError {
    ServiceError::invalid(&misfit.field, misfit.problem).action(LOOK)
}

/// Parses the arguments, or returns an error that names the invalid one.
pub(super) fn judged<T: DeserializeOwned>(arguments: &str) -> ServiceResult<T> {
    let error = match serde_json::from_str(arguments) {
        Ok(parsed) => return Ok(parsed),
        Err(error) => said(&error),
    };
    let members: Map<String, Value> = serde_json::from_str(arguments)
        .map_err(|_| ServiceError::invalid("arguments", &error).action(LOOK))?;
    let members = &members;
    // The invalid argument is the one without which the error changes. A required one comes last,
    // because without it the error always changes.
    let without = |name: &str| {
        let mut without = members.clone();
        // Keeps the order: the error is about the first invalid argument.
        without.shift_remove(name);
        complaint::<T>(without)
    };
    let others = members.keys().map(|name| (name, without(name)));
    let other: Vec<_> = others.filter(|(_, other)| other.as_ref() != Some(&error)).collect();
    let is_required = |name: &str, other: Option<&String>| {
        other.is_some_and(|other| *other == format!("missing field `{name}`"))
    };
    let culprit = other.iter().find(|(name, other)| !is_required(name, other.as_ref()));
    let culprit = culprit.or(other.first()).map(|(name, _)| *name);
    let field = culprit.map_or("arguments", String::as_str);
    Err(ServiceError::invalid(field, &error).action(LOOK))
}

/// Returns the error for these arguments, if any.
fn complaint<T: DeserializeOwned>(members: Map<String, Value>) -> Option<String> {
    let text = Value::Object(members).to_string();
    serde_json::from_str::<T>(&text).err().map(|error| said(&error))
}

/// Returns an error's message without its position in a text that the caller did not write.
fn said(error: &serde_json::Error) -> String {
    let said = error.to_string();
    said.split(" at line ").next().unwrap_or_default().to_owned()
}
