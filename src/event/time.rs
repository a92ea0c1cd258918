//! Instants as the store keeps them: microseconds since 1970, UTC. It reads no clock (env does).

use std::fmt;

/// An instant in microseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Parses RFC 3339, for example `2026-11-21T10:00:00Z`; `None` when the text is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(|instant| Self(instant.as_microsecond()))
    }

    /// The instant `micros` later, saturating.
    #[must_use]
    pub fn plus_micros(self, micros: i64) -> Self {
        Self(self.0.saturating_add(micros))
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 with six digits of a second and `Z`: sortable as text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(instant) => write!(f, "{instant:.6}"),
            Err(_) => write!(f, "{}us", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_reads_back_what_it_prints() {
        for micros in [0, 1, 1_732_183_200_123_456] {
            let printed = Timestamp(micros).to_string();
            assert_eq!(Timestamp::parse(&printed), Some(Timestamp(micros)), "{printed}");
        }
        assert_eq!(Timestamp::parse("yesterday"), None);
    }
}
