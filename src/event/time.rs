//! Timestamps as stored: microseconds since 1970, UTC. It must not read a clock (env does).

use std::fmt;

/// An instant in microseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Parses RFC 3339, for example `2026-11-21T10:00:00Z`; `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(|instant| Self(instant.as_microsecond()))
    }

    /// Returns the instant `micros` later, saturating.
    #[must_use]
    pub fn plus_micros(self, micros: i64) -> Self {
        Self(self.0.saturating_add(micros))
    }

    /// Formats the instant as [`fmt::Display`] does; `None` for a year without four digits.
    #[must_use]
    pub fn to_rfc3339(self) -> Option<[u8; 27]> {
        const DAY: i64 = 86_400_000_000;
        let (year, month, day) = civil_date(self.0.div_euclid(DAY))?;
        let micros = self.0.rem_euclid(DAY);
        let seconds = u32::try_from(micros / 1_000_000).ok()?;
        let micros = u32::try_from(micros % 1_000_000).ok()?;
        let [year, month, day] = [year, month, day].map(|part| u32::try_from(part).unwrap_or(0));
        let mut text = *b"0000-00-00T00:00:00.000000Z";
        for (at, value) in [
            (0, year / 100),
            (2, year % 100),
            (5, month),
            (8, day),
            (11, seconds / 3_600),
            (14, seconds / 60 % 60),
            (17, seconds % 60),
            (20, micros / 10_000),
            (22, micros / 100 % 100),
            (24, micros % 100),
        ] {
            if let Some([tens, ones]) = text.get_mut(at..at + 2) {
                *tens += (value / 10) as u8;
                *ones += (value % 10) as u8;
            }
        }
        Some(text)
    }
}

/// Returns year, month and day of a day counted from 1970-01-01, in years of four digits. Years
/// begin in March here, so that the day a leap year adds is the last one.
fn civil_date(days: i64) -> Option<(i64, i64, i64)> {
    const ERA_DAYS: i64 = 146_097;
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(ERA_DAYS), shifted.rem_euclid(ERA_DAYS));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let from_march = (5 * day + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    (0..=9_999).contains(&year).then_some((year, month, day - (153 * from_march + 2) / 5 + 1))
}

impl fmt::Display for Timestamp {
    /// Writes RFC 3339 with six digits of a second and `Z`: sortable as text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = self.to_rfc3339() {
            return f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?);
        }
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(instant) => write!(f, "{instant:.6}"),
            Err(_) => write!(f, "{}us", self.0),
        }
    }
}
