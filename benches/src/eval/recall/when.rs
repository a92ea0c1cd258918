//! Parses the times of conversations. It must not accept a text that is not a time.

use ::sessionlog::event::Timestamp;
use jiff::{civil::DateTime, tz::TimeZone};

/// Converts `1:56 pm on 8 May, 2023` to RFC 3339; returns RFC 3339 unchanged.
pub(super) fn read(text: &str) -> Option<String> {
    if is_instant(text) {
        return Some(text.to_owned());
    }
    let text = text.replace(',', " ");
    let time = DateTime::strptime("%I:%M %p on %d %B %Y", text).ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp().to_string())
}

/// Returns true for an instant of RFC 3339.
pub(super) fn is_instant(text: &str) -> bool {
    Timestamp::parse(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_time_is_converted_to_an_instant_or_rejected() {
        for (text, expected) in [
            ("1:56 pm on 8 May, 2023", Some("2023-05-08T13:56:00Z")),
            ("12:09 am on 13 September, 2023", Some("2023-09-13T00:09:00Z")),
            ("12:30 PM on 1 January, 2024", Some("2024-01-01T12:30:00Z")),
            ("2024-02-29T10:00:00+02:00", Some("2024-02-29T10:00:00+02:00")),
            ("0:30 pm on 1 January, 2024", None),
            ("1:56 pm on 31 June, 2023", None),
            ("1:77 pm on 3 June, 2023", None),
            ("1:56 on 8 May, 2023", None),
            ("8 May, 2023", None),
            ("", None),
        ] {
            assert_eq!(read(text).as_deref(), expected, "{text}");
        }
    }
}
