//! Formats instants and durations for display. It must not read the clock more than once a run.

use jiff::tz::TimeZone;

use super::{
    failure::{CliError, Outcome},
    values::parse_duration,
};
use crate::{
    env::{Clock as _, clock::SystemClock},
    event::Timestamp,
    search::{parse_start_time, rewrite_for_zone},
};

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Format of instants: in UTC as RFC 3339 to the second (the default), or relative and in the
/// machine's time zone.
#[derive(Clone, Debug, Default)]
pub(super) struct TimeFormat {
    local: Option<LocalTime>,
}

#[derive(Clone, Debug)]
struct LocalTime {
    now: Timestamp,
    zone: TimeZone,
}

impl TimeFormat {
    /// Uses the machine's time zone and clock.
    pub(super) fn new_local() -> Self {
        Self::new_at(SystemClock::new().now(), TimeZone::system())
    }

    /// Uses the given zone and time.
    pub(super) fn new_at(now: Timestamp, zone: TimeZone) -> Self {
        Self { local: Some(LocalTime { now, zone }) }
    }

    /// Formats an instant: `2 h ago`, from two days on `2026-11-21 10:00 CET`, without a zone
    /// `2026-11-21T10:00:00Z`. Empty for text that is not an instant.
    pub(super) fn format_when(&self, text: &str) -> String {
        let (Some(at), Some(local)) = (Timestamp::parse(text), &self.local) else {
            return self.format_date(text);
        };
        match local.now.0.saturating_sub(at.0) {
            ahead if ahead < -MINUTE => self.format_date(text),
            now if now < 2 * SECOND => "just now".to_owned(),
            ago if ago < 2 * DAY => format!("{} ago", format_coarse(ago)),
            _ => self.format_date(text),
        }
    }

    /// Formats an instant in a few columns: `2 h ago`, `5 d ago`, after a year its date; as
    /// [`Self::format_date`] where no zone is set.
    pub(super) fn format_short(&self, text: &str) -> String {
        let (Some(at), Some(local)) = (Timestamp::parse(text), &self.local) else {
            return self.format_date(text);
        };
        match local.now.0.saturating_sub(at.0) {
            ago if (2 * DAY..365 * DAY).contains(&ago) => format!("{} ago", format_coarse(ago)),
            ago if (-MINUTE..2 * DAY).contains(&ago) => self.format_when(text),
            _ => self.format_date(text).chars().take(10).collect(),
        }
    }

    /// Formats an instant as date, time and zone.
    pub(super) fn format_date(&self, text: &str) -> String {
        let Some(at) = Timestamp::parse(text) else { return String::new() };
        let Ok(instant) = jiff::Timestamp::from_microsecond(at.0) else { return at.to_string() };
        match &self.local {
            Some(local) => {
                instant.to_zoned(local.zone.clone()).strftime("%Y-%m-%d %H:%M %Z").to_string()
            }
            None => instant.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        }
    }

    /// Formats the date, preceded by the relative time for a recent instant.
    pub(super) fn format_both(&self, text: &str) -> String {
        let (when, date) = (self.format_when(text), self.format_date(text));
        if when == date { date } else { format!("{when} ({date})") }
    }
}

/// Formats a duration in its largest unit.
fn format_coarse(micros: i64) -> String {
    match micros {
        d if d < MINUTE => format!("{} s", d / SECOND),
        d if d < HOUR => format!("{} min", d / MINUTE),
        d if d < 2 * DAY => format!("{} h", d / HOUR),
        d => format!("{} d", d / DAY),
    }
}

/// Formats a duration: `340 ms`, `1.2 s`, `3 min 5 s`, `2 h 10 min`.
pub(super) fn format_duration(micros: i64) -> String {
    match micros.max(0) {
        d if d < SECOND => format!("{} ms", d / 1_000),
        d if d < MINUTE => format!("{}.{} s", d / SECOND, d % SECOND / 100_000),
        d if d < HOUR => format!("{} min {} s", d / MINUTE, d % MINUTE / SECOND),
        d => format!("{} h {} min", d / HOUR, d % HOUR / MINUTE),
    }
}

/// Formats the time since a start as a clock: `+0:05`, `+1:02:03`, `+3d 01:02`; with `-` before the
/// start.
pub(super) fn format_elapsed(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "+" };
    let micros = micros.saturating_abs();
    let (minutes, seconds) = (micros % HOUR / MINUTE, micros % MINUTE / SECOND);
    match micros {
        d if d < HOUR => format!("{sign}{minutes}:{seconds:02}"),
        d if d < DAY => format!("{sign}{}:{minutes:02}:{seconds:02}", d / HOUR),
        d => format!("{sign}{}d {:02}:{minutes:02}", d / DAY, d % DAY / HOUR),
    }
}

/// Parses an instant, a day of this machine's zone (its start) or a duration before now; returns it
/// as an instant.
pub(super) fn resolve_instant(text: &str) -> Outcome<String> {
    resolve_instant_in(text, &TimeZone::system())
}

/// Parses as [`resolve_instant`] does, a day in UTC, for an answer that lists days of UTC.
pub(super) fn resolve_utc_day(text: &str) -> Outcome<String> {
    resolve_instant_in(text, &TimeZone::UTC)
}

fn resolve_instant_in(text: &str, zone: &TimeZone) -> Outcome<String> {
    let now = SystemClock::new().now();
    let ago = parse_duration(text).and_then(|ago| {
        let micros = i64::try_from(ago.as_micros()).ok()?;
        Some(Timestamp(now.0.checked_sub(micros)?))
    });
    let wrong = || {
        let wanted = "an instant of RFC 3339, such as 2026-11-24T00:00:00Z, a day, such as \
                      2026-11-24 or yesterday, or a duration, such as 7d";
        CliError::usage(format!("{text:?} is not {wanted}"))
    };
    ago.or_else(|| parse_start_time(text, now, zone)).map(|at| at.to_string()).ok_or_else(wrong)
}

/// Replaces the days in a query by instants of this machine's zone.
pub(super) fn resolve_days(query: &str) -> String {
    rewrite_for_zone(query, SystemClock::new().now(), &TimeZone::system())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_instants_are_relative_and_others_local_or_in_utc_in_a_pipe() {
        let zone = TimeZone::posix("CET-1").expect("a zone");
        let now = Timestamp::parse("2026-11-23T12:00:00Z").expect("an instant");
        let local = TimeFormat::new_at(now, zone);
        for (text, when) in [
            ("2026-11-23T12:00:00.5Z", "just now"),
            ("2026-11-23T11:59:20.9Z", "39 s ago"),
            ("2026-11-23T11:01:00Z", "59 min ago"),
            ("2026-11-22T09:00:00Z", "27 h ago"),
            ("2026-11-20T09:30:00.123456Z", "2026-11-20 10:30 CET"),
            ("2026-12-01T00:00:00Z", "2026-12-01 01:00 CET"),
            ("soon", ""),
        ] {
            assert_eq!(local.format_when(text), when, "{text}");
        }
        assert_eq!(local.format_short("2026-11-18T11:59:00Z"), "5 d ago");
        assert_eq!(local.format_short("2026-11-23T11:01:00Z"), "59 min ago");
        assert_eq!(local.format_short("2024-11-18T11:59:00Z"), "2024-11-18");
        assert_eq!(local.format_both("2026-11-23T10:00:00Z"), "2 h ago (2026-11-23 11:00 CET)");
        assert_eq!(local.format_both("2026-11-01T10:00:00Z"), "2026-11-01 11:00 CET");
        let piped = TimeFormat::default();
        assert_eq!(piped.format_both("2026-11-23T10:00:00.123456Z"), "2026-11-23T10:00:00Z");
    }

    #[test]
    fn a_duration_is_printed_in_the_unit_of_its_magnitude() {
        for (micros, expected) in [
            (0, "0 ms"),
            (340_900, "340 ms"),
            (1_290_000, "1.2 s"),
            (185 * SECOND, "3 min 5 s"),
            (7_800 * SECOND, "2 h 10 min"),
            (-5, "0 ms"),
        ] {
            assert_eq!(format_duration(micros), expected);
        }
        for (micros, expected) in [
            (5 * SECOND, "+0:05"),
            (3_723 * SECOND, "+1:02:03"),
            (3 * DAY + 3_720 * SECOND, "+3d 01:02"),
            (-61 * SECOND, "-1:01"),
        ] {
            assert_eq!(format_elapsed(micros), expected);
        }
    }
}
