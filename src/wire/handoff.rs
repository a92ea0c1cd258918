//! Additions of a front end to an answer of a restore and to a call that saves: looks at files, and
//! their hashes. It must not choose or cut anything: harness has.

use serde_json::Value;

use crate::api::handoff::{Look, LookStatus};

/// State of a file as a front end saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeenFile {
    /// It is there, with this hash.
    Hash(String),
    /// It is there.
    NotHashed,
    /// It is not there.
    Gone,
    /// It may not be looked at.
    Denied,
}

/// Says of each file of a restored answer what a front end sees of it now; returns these looks.
/// `camel`: the answer is that of a tool.
pub fn look_at(
    answer: &mut Value,
    camel: bool,
    look: &mut dyn FnMut(&str) -> SeenFile,
) -> Vec<Look> {
    let (list, now) =
        if camel { ("fileReferences", "hashNow") } else { ("file_references", "hash_now") };
    let files = answer.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
    let mut looks = Vec::new();
    for file in files.filter_map(Value::as_object_mut) {
        let text = |name: &str| file.get(name).and_then(Value::as_str).map(str::to_owned);
        let (Some(path), hash) = (text("path"), text("hash")) else { continue };
        let (status, hash_now) = match look(&path) {
            SeenFile::Hash(now) => (compared(hash.as_deref(), &now), Some(now)),
            SeenFile::NotHashed => (LookStatus::Unchecked, None),
            SeenFile::Gone => (LookStatus::Gone, None),
            SeenFile::Denied => (LookStatus::Denied, None),
        };
        file.insert("status".to_owned(), status.as_str().into());
        if let Some(hash) = &hash_now {
            file.insert(now.to_owned(), hash.clone().into());
        }
        looks.push(Look { path, status, hash, hash_now });
    }
    looks
}

/// State of a file now, by the hash that was saved of it; hashes of other forms are not compared.
fn compared(hash: Option<&str>, now: &str) -> LookStatus {
    let form = |hash: &str| hash.split_once(':').map(|(form, _)| form.to_owned());
    match hash {
        Some(hash) if hash == now => LookStatus::Same,
        Some(hash) if form(hash) == form(now) => LookStatus::Changed,
        _ => LookStatus::Unchecked,
    }
}

/// Texts of a call that saves. `camel`: the call is that of a tool.
#[must_use]
pub fn saved_texts(asked: &Value, camel: bool) -> Vec<&str> {
    let (context, items) = match camel {
        true => ("conversationContext", "contextItems"),
        false => ("conversation_context", "context_items"),
    };
    let items = asked.get(items).and_then(Value::as_array).into_iter().flatten();
    let contents = items.filter_map(|item| item.get("content"));
    asked.get(context).into_iter().chain(contents).filter_map(Value::as_str).collect()
}

/// Gives each file of a call that saves the hash that a front end sees, where the client gave
/// none. `camel`: the call is that of a tool.
pub fn hash_files(asked: &mut Value, camel: bool, look: &mut dyn FnMut(&str) -> SeenFile) {
    let list = if camel { "fileReferences" } else { "file_references" };
    let files = asked.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
    for file in files.filter_map(Value::as_object_mut) {
        let path = file.get("path").and_then(Value::as_str).map(str::to_owned);
        let Some(path) = path.filter(|_| !file.contains_key("hash")) else { continue };
        if let SeenFile::Hash(hash) = look(&path) {
            file.insert("hash".to_owned(), hash.into());
        }
    }
}
