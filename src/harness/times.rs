//! Times as a reader sees them. It must not know a zone: they are those of UTC.

use crate::event::Timestamp;

/// Characters of a time that are shown: to the minute.
const TIME_CHARS: usize = 16;

/// A time, to the minute.
#[must_use]
pub fn minute(at: Timestamp) -> String {
    let at: String = at.to_string().chars().take(TIME_CHARS).collect();
    format!("{} UTC", at.replace('T', " "))
}
