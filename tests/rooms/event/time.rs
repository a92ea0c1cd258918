//! Times in RFC 3339, parsed and printed.

use sessionlog::event::Timestamp;

#[test]
fn a_timestamp_prints_as_its_calendar_date() {
    // Every day of 800 years, at a varying hour, against a calendar library.
    for day in -146_097..146_097 * 2_i64 {
        let micros = day * 86_400_000_000 + day.rem_euclid(86_399) * 1_000_003;
        let instant = jiff::Timestamp::from_microsecond(micros).expect("in range");
        let printed = Timestamp(micros).to_string();
        assert_eq!(printed, format!("{instant:.6}"));
    }
    for (micros, text) in [
        (-62_167_219_200_000_000, "0000-01-01T00:00:00.000000Z"),
        (253_402_300_799_999_999, "9999-12-31T23:59:59.999999Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (i64::MAX, "9999-12-31T23:59:59.999999Z"),
        (i64::MIN, "0000-01-01T00:00:00.000000Z"),
    ] {
        assert_eq!(Timestamp(micros).to_string(), text);
    }
}

#[test]
fn a_printed_timestamp_round_trips() {
    let ends = [Timestamp::MIN.0, Timestamp::MAX.0];
    for micros in [0, 1, 1_732_183_200_123_456].into_iter().chain(ends) {
        let printed = Timestamp(micros).to_string();
        assert_eq!(Timestamp::parse(&printed), Some(Timestamp(micros)), "{printed}");
    }
    assert_eq!(Timestamp::parse("yesterday"), None);
}

#[test]
fn a_time_of_one_meaning_is_parsed_and_any_other_text_is_refused() {
    let same = "2026-11-29T10:00:00.000000Z";
    for (text, expected) in [
        ("2026-11-29T10:00:00Z", Some(same)),
        ("2026-11-29t10:00:00z", Some(same)),
        ("2026-11-29 10:00:00Z", Some(same)),
        ("2026-11-29T10:00Z", Some(same)),
        ("2026-11-29T10:00:00,0Z", Some(same)),
        ("2026-11-29T10:00:00.0000000000001Z", Some(same)),
        ("2026-11-29T12:30:00+02:30", Some(same)),
        ("2026-11-29T12:30:00+0230", Some(same)),
        ("2026-11-29 08:00:00-02", Some(same)),
        ("2026-11-29T10:00:00-00:00", Some(same)),
        ("2026-11-29T10:00:00.1234567Z", Some("2026-11-29T10:00:00.123456Z")),
        ("2026-12-31T23:59:60Z", Some("2026-12-31T23:59:59.000000Z")),
        ("9999-12-31T23:59:59Z", Some("9999-12-31T23:59:59.000000Z")),
        ("0000-01-01T00:00:00Z", Some("0000-01-01T00:00:00.000000Z")),
        ("9999-12-31T23:59:59-00:01", None),
        ("0000-01-01T00:00:00+00:01", None),
        ("-000001-01-01T00:00:00Z", None),
        ("+010000-01-01T00:00:00Z", None),
        ("2026-11-29T10:00:00+25:00", None),
        ("2026-11-29T10:00:00+02:60", None),
        ("2026-11-29T10:00:00+2:00", None),
        ("2026-11-29T10:00:00+01:", None),
        ("2026-11-29T10:00:00.Z", None),
        ("2026-11-29T10:00:00.1x2Z", None),
        ("2026-11-29T10:00:00Z[UTC]", None),
        ("2026-11-29T10:00:00", None),
        ("2026-11-29T24:00:00Z", None),
        ("2026-02-29T10:00:00Z", None),
        ("2026-11-01T10Z", None),
        ("20261101T100000Z", None),
        ("2026-11-20", None),
        ("2026-11-2\u{e9}T10:00:00Z", None),
        ("\u{ff12}026-11-29T10:00:00Z", None),
        ("Z", None),
        ("-", None),
        ("", None),
    ] {
        let found = Timestamp::parse(text).map(|at| at.to_string());
        assert_eq!(found.as_deref(), expected, "{text:?}");
    }
}
