//! Validates names, types and properties of a graph, and builds the content from which a relation's
//! id is derived. It must not read a graph.

use serde_json::{Map, Value};

use crate::{
    event::{json, limits},
    service::{ServiceError, ServiceResult},
};

/// Maximum number of characters of a type, and of an id, which may be a workspace.
const TYPE_CHARS_MAX: usize = 64;
const ID_CHARS_MAX: usize = limits::WORKSPACE_CHARS_MAX;
/// Maximum bytes of the properties of an entity or a relation, and their nesting depth.
const PROPERTIES_BYTES_MAX: usize = 64 << 10;
const PROPERTIES_DEPTH_MAX: usize = 32;
/// Number of hexadecimal digits in the relation ids of an earlier version.
const ID_DIGITS: usize = 24;

pub(super) fn check_type(field: &str, name: &str) -> ServiceResult<()> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let fits = name.len() <= TYPE_CHARS_MAX
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(is_name);
    if fits {
        Ok(())
    } else {
        Err(ServiceError::invalid(field, "[A-Za-z][A-Za-z0-9_]{0,63} is expected"))
    }
}

pub(super) fn check_id(field: &str, id: &str) -> ServiceResult<()> {
    let chars = id.chars().count();
    if chars == 0 || chars > ID_CHARS_MAX || id.chars().any(char::is_control) {
        let problem = format!("1 to {ID_CHARS_MAX} characters, none of which controls a terminal");
        return Err(ServiceError::invalid(field, problem));
    }
    Ok(())
}

pub(super) fn check_properties(text: &str) -> ServiceResult<()> {
    if text.len() > PROPERTIES_BYTES_MAX {
        let problem = format!("{} bytes; {PROPERTIES_BYTES_MAX} are allowed", text.len());
        return Err(ServiceError::invalid("properties", problem)
            .action("keep large contents in a file or an event, and name the place"));
    }
    if json::measure(text.as_bytes(), usize::MAX).depth > PROPERTIES_DEPTH_MAX {
        let problem = format!("{PROPERTIES_DEPTH_MAX} levels are allowed");
        return Err(ServiceError::invalid("properties", problem));
    }
    Ok(())
}

pub(super) fn to_json_text(properties: &Map<String, Value>) -> String {
    serde_json::to_string(properties).expect("an object of JSON values is JSON")
}

/// Returns the content from which a relation's id is derived, independent of property order.
pub(super) fn relation_content(
    kind: &str,
    from: &str,
    to: &str,
    properties: &Map<String, Value>,
) -> Vec<u8> {
    let mut properties = Value::Object(properties.clone());
    properties.sort_all_objects();
    serde_json::to_vec(&(kind, from, to, properties)).expect("texts are JSON")
}

/// Returns the content of a relation that was removed this often before: writing it again is
/// another event, and an event id is used only once.
pub(super) fn rewritten_content(content: &[u8], removed: usize) -> Vec<u8> {
    match removed {
        0 => content.to_vec(),
        times => [content, format!("#{times}").as_bytes()].concat(),
    }
}

/// Returns the relation id of an earlier version, still valid for the relations it wrote.
pub(super) fn former_id(content: &[u8]) -> String {
    let context = "sessionlog v1 id of a relation";
    let hash = blake3::Hasher::new_derive_key(context).update(content).finalize();
    let digits: String = hash.to_hex().chars().take(ID_DIGITS).collect();
    format!("rel_{digits}")
}
