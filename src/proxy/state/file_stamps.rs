//! Stamps of the files that a call's arguments name, to detect changes since an earlier call. It
//! must not read a file, nor treat a directory as unchanged: changes below it are not visible.

use std::path::Path;

use serde_json::Value;

use crate::env::files;

/// Maximum number of strings of an examined input; a call with more is not answered from the log.
const TEXTS_MAX: usize = 64;

/// Stamps of the files that the strings of an input name, in order; `None` for a string that names
/// no file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FileStamps(Vec<Option<files::FileStamp>>);

impl FileStamps {
    /// Reads the stamps; returns `None` if a change might stay undetected: the input names a
    /// directory or a path below `~`, or has too many strings.
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
                    let state = files::file_stamp(Path::new(path));
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

    /// Returns true if the input has no strings and so names no file.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
