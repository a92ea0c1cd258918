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
        (253_402_207_199_999_999, "9999-12-30T21:59:59.999999Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (i64::MAX, "9223372036854775807us"),
        (i64::MIN, "-9223372036854775808us"),
    ] {
        assert_eq!(Timestamp(micros).to_string(), text);
    }
}

#[test]
fn a_printed_timestamp_round_trips() {
    for micros in [0, 1, 1_732_183_200_123_456] {
        let printed = Timestamp(micros).to_string();
        assert_eq!(Timestamp::parse(&printed), Some(Timestamp(micros)), "{printed}");
    }
    assert_eq!(Timestamp::parse("yesterday"), None);
}
