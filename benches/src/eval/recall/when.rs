//! The times of conversations. It must not take what is no time.

use ::sessionlog::event::Timestamp;
use jiff::{civil::DateTime, tz::TimeZone};

/// `1:56 pm on 8 May, 2023` as RFC 3339; what is RFC 3339 stays as it is.
pub(super) fn read(text: &str) -> Option<String> {
    if is_instant(text) {
        return Some(text.to_owned());
    }
    let text = text.replace(',', " ");
    let time = DateTime::strptime("%I:%M %p on %d %B %Y", text).ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp().to_string())
}

/// Whether it is RFC 3339.
pub(super) fn is_instant(text: &str) -> bool {
    Timestamp::parse(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_conversations_are_instants_or_nothing() {
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
