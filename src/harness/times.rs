//! Times formatted for a reader. It must not know a time zone: all times are UTC.

use crate::event::Timestamp;

/// Number of characters of a time up to the minute.
const TIME_CHARS: usize = 16;

/// Formats a time, to the minute.
#[must_use]
pub fn format_minute(at: Timestamp) -> String {
    let at: String = at.to_string().chars().take(TIME_CHARS).collect();
    format!("{} UTC", at.replace('T', " "))
}
