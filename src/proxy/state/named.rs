//! Files that a call's arguments name, and whether they are as they were when the call was made
//! before. It must not read a file, nor take a directory for unchanged: what is below it is unseen.

use std::path::Path;

use serde_json::Value;

use crate::env::files;

/// Most texts of one input that are looked at; a call with more is not answered from the log.
const TEXTS_MAX: usize = 64;

/// Files that the texts of an input named when it was looked at, in their order: the state of a
/// file, or `None` where nothing has that name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NamedFiles(Vec<Option<files::FileStamp>>);

impl NamedFiles {
    /// Looks at what an input names; `None` when a change of it could not be seen: it names a
    /// directory, a place in a home directory, or too much.
    pub(super) fn from_input(input: &Value) -> Option<Self> {
        let mut named = Vec::new();
        let mut left = vec![input];
        while let Some(value) = left.pop() {
            match value {
                Value::String(text) if named.len() == TEXTS_MAX || text.starts_with('~') => {
                    return None;
                }
                Value::String(text) => {
                    let path = text.strip_prefix("file://").unwrap_or(text);
                    let state = files::state(Path::new(path));
                    if state.as_ref().is_some_and(|state| !state.is_file) {
                        return None;
                    }
                    named.push(state);
                }
                Value::Array(values) => left.extend(values),
                Value::Object(members) => left.extend(members.values()),
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
        Some(Self(named))
    }

    /// True if the input has no text, so that it names no file.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
