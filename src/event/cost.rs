//! Costs in whole billionths of a US dollar, so that a sum less a part of it is exact. It must not
//! know a price.

/// Billionths in a dollar.
const NANOS: f64 = 1e9;

/// Sum of costs that were reported, and their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    nanos: u64,
    reports: u64,
}

impl Cost {
    /// Creates the cost of one report from US dollars, to the nearest billionth.
    #[must_use]
    pub fn from_usd(usd: f64) -> Self {
        Self { nanos: (usd * NANOS).round() as u64, reports: 1 }
    }

    /// Returns the cost in US dollars.
    #[must_use]
    pub fn usd(self) -> f64 {
        self.nanos as f64 / NANOS
    }

    /// Returns the sum of two costs, saturating.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        let reports = self.reports.saturating_add(more.reports);
        Self { nanos: self.nanos.saturating_add(more.nanos), reports }
    }

    /// Returns the cost without a part of it; `None` if the part has all reports.
    #[must_use]
    pub fn minus(self, part: Self) -> Option<Self> {
        let reports = self.reports.checked_sub(part.reports).filter(|left| *left > 0)?;
        Some(Self { nanos: self.nanos.saturating_sub(part.nanos), reports })
    }
}
