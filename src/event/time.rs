//! Timestamps as stored: microseconds since 1970, UTC. It must not read a clock (env does).

use std::fmt;

use jiff::civil::DateTime;

/// An instant in microseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The first instant that has a text, and that a client may give.
    pub const MIN: Self = Self(-62_167_219_200_000_000);
    /// The last such instant.
    pub const MAX: Self = Self(253_402_300_799_999_999);
    /// Problem of a text that is no instant.
    pub const EXPECTED: &str = "an RFC 3339 time is expected, which must lie between \
                                0000-01-01T00:00:00Z and 9999-12-31T23:59:59.999999Z";

    /// Parses RFC 3339, for example `2026-11-21T10:00:00Z`; `None` for any other text. The seconds,
    /// and the colon or the minutes of the offset, may be left out, as other programs do; a comma
    /// may stand before the fraction.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        const FORM: &[u8] = b"0000-00-00T00:00:00";
        const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
        let (local, offset) = split_offset(text)?;
        let (whole, fraction) = local.split_at_checked(FORM.len()).unwrap_or((local, ""));
        let has_form = whole.bytes().zip(FORM).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            b'T' => matches!(byte, b'T' | b't' | b' '),
            _ => byte == *form,
        });
        let digits = fraction.strip_prefix(['.', ',']).unwrap_or(fraction);
        let is_fraction =
            fraction.is_empty() || digits.len() + 1 == fraction.len() && !digits.is_empty();
        let is_time = has_form && matches!(whole.len(), 16 | 19) && is_fraction;
        if !is_time || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        // More than nine digits of a second are valid, but none of them counts.
        let local: DateTime = local.get(..local.len().min(FORM.len() + 10))?.parse().ok()?;
        let micros = i64::try_from(local.duration_since(EPOCH).as_micros()).ok()?;
        Self(micros - offset).in_range()
    }

    /// Returns the instant if a client may give it.
    #[must_use]
    pub fn in_range(self) -> Option<Self> {
        (Self::MIN..=Self::MAX).contains(&self).then_some(self)
    }

    /// Returns the instant `micros` later, saturating.
    #[must_use]
    pub fn plus_micros(self, micros: i64) -> Self {
        Self(self.0.saturating_add(micros))
    }

    /// Formats the instant as [`fmt::Display`] does: one out of range as the nearest within.
    #[must_use]
    pub fn to_rfc3339(self) -> [u8; 27] {
        const DAY: i64 = 86_400_000_000;
        let at = self.clamp(Self::MIN, Self::MAX).0;
        let (year, month, day) = civil_date(at.div_euclid(DAY));
        let (seconds, micros) = (at.rem_euclid(DAY) / 1_000_000, at.rem_euclid(DAY) % 1_000_000);
        let parts = [year, month, day, seconds, micros];
        let [year, month, day, seconds, micros] =
            parts.map(|part| u32::try_from(part).unwrap_or(0));
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
        text
    }
}

/// Splits a text into the local time and its offset from UTC in microseconds.
fn split_offset(text: &str) -> Option<(&str, i64)> {
    if let Some(local) = text.strip_suffix(['Z', 'z']) {
        return Some((local, 0));
    }
    let at = text.rfind(['+', '-'])?;
    let (local, offset) = text.split_at_checked(at)?;
    let (sign, digits) = offset.split_at_checked(1)?;
    let number = |digits: &str, most: i64| {
        let is_number = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|number| is_number && *number <= most)
    };
    let (hours, minutes) = digits.split_at_checked(2)?;
    let minutes = minutes.strip_prefix(':').unwrap_or(minutes);
    let minutes = if digits.len() == 2 { 0 } else { number(minutes, 59)? };
    let offset = (number(hours, 23)? * 60 + minutes) * 60_000_000;
    Some((local, if sign == "-" { -offset } else { offset }))
}

/// Returns year, month and day of a day counted from 1970-01-01. Years begin in March here, so that
/// the day a leap year adds is the last one.
fn civil_date(days: i64) -> (i64, i64, i64) {
    const ERA_DAYS: i64 = 146_097;
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(ERA_DAYS), shifted.rem_euclid(ERA_DAYS));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let from_march = (5 * day + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    (year, month, day - (153 * from_march + 2) / 5 + 1)
}

impl fmt::Display for Timestamp {
    /// Writes RFC 3339 with six digits of a second and `Z`: sortable as text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.to_rfc3339()).map_err(|_| fmt::Error)?)
    }
}
