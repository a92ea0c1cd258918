//! Names of subagents' threads, as every view shows them and every filter takes them. Two ids must
//! not have one name.

use serde_json::value::RawValue;

use crate::event::{json, short_hash, text::one_line};

/// Maximum characters of a name.
const NAME_CHARS_MAX: usize = 120;
/// Characters of the mark and the hash behind the start of an id.
const HASH_CHARS: usize = 17;

/// Returns the name of the thread with an id: the id if it is one line of at most 120 characters,
/// else its start and a hash. The name of a name is the name itself.
#[must_use]
pub fn thread_name(id: &str) -> String {
    let name = one_line(id, NAME_CHARS_MAX);
    if name == id {
        return name;
    }
    let hash = u128::from_be_bytes(short_hash("sessionlog v1 thread name", &[id])) >> 64;
    format!("{}~{hash:016x}", one_line(id, NAME_CHARS_MAX - HASH_CHARS))
}

/// Returns the name of the thread whose id is the value of a member; `None` for `null`.
pub(crate) fn read_thread(id: &RawValue) -> Option<String> {
    let text = serde_json::from_str::<String>(&json::replace_lone_surrogates(id.get()));
    (id.get() != "null").then(|| thread_name(text.as_deref().unwrap_or(id.get())))
}
