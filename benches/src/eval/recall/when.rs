//! The times of conversations. It must not take what is no time.

use ::sessionlog::event::Timestamp;

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// `1:56 pm on 8 May, 2023` as RFC 3339; what is RFC 3339 stays as it is.
pub(super) fn read(text: &str) -> Option<String> {
    if is_instant(text) {
        return Some(text.to_owned());
    }
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let [clock, half, "on", day, month, year] = words[..] else { return None };
    let (hour, minute) = clock.split_once(':')?;
    let (hour, minute): (u8, u8) = (hour.parse().ok()?, minute.parse().ok()?);
    let hour = match half {
        _ if !(1..=12).contains(&hour) => return None,
        "am" => hour % 12,
        "pm" => hour % 12 + 12,
        _ => return None,
    };
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    let (day, year): (u8, u16) = (day.parse().ok()?, year.parse().ok()?);
    let made = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:00Z");
    is_instant(&made).then_some(made)
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
