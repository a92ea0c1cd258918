//! The token monitor: how full a session's context window is, from the usage that its harness
//! reports. An event records each crossing of a level, once. It must not guess: without reports
//! there are no events.

use std::collections::BTreeMap;

use super::{ServiceError, ServiceResult};
use crate::projection::{ContextLevel, ReportedUsage};

/// Session metadata that overrides the settings, each with a description of its values.
const LIMIT: (&str, &str) = ("token_limit", "a whole number of tokens");
const THRESHOLD: (&str, &str) = ("token_threshold", "a share from 0 to 1, such as 0.75");
const MARGIN: (&str, &str) = ("token_margin", "a whole number of tokens");

/// Limits of a model's context window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextLimits {
    /// Size of the model's context in tokens, unless the harness reports it; default 200 000.
    pub limit: u64,
    /// Percent of the limit from which the context should be reduced; default 75.
    pub threshold_percent: u64,
    /// Tokens below the limit that stay unused, because counts are inexact; default 100.
    pub margin: u64,
}

impl Default for ContextLimits {
    fn default() -> Self {
        Self { limit: 200_000, threshold_percent: 75, margin: 100 }
    }
}

impl ContextLimits {
    /// Returns the limits of a session: those of its metadata, else the size of the context that
    /// its harness reported last, with these as defaults.
    #[must_use]
    pub fn of_session(self, metadata: &BTreeMap<String, String>, reported: Option<u64>) -> Self {
        let value = |(name, _): (&str, &str)| metadata.get(name);
        Self {
            limit: value(LIMIT)
                .and_then(|text| text.parse().ok())
                .or(reported)
                .unwrap_or(self.limit),
            threshold_percent: value(THRESHOLD)
                .and_then(|text| parse_percent(text))
                .unwrap_or(self.threshold_percent),
            margin: value(MARGIN).and_then(|text| text.parse().ok()).unwrap_or(self.margin),
        }
    }

    /// Rejects an invalid value of a metadata pair that sets a limit.
    ///
    /// # Errors
    /// `invalid_request` naming the pair.
    pub(super) fn check_metadata(name: &str, value: &str) -> ServiceResult<()> {
        let wanted = [LIMIT, THRESHOLD, MARGIN].into_iter().find(|(known, _)| *known == name);
        let fits = match name {
            _ if wanted.is_none() => true,
            name if name == THRESHOLD.0 => parse_percent(value).is_some(),
            _ => value.parse::<u64>().is_ok(),
        };
        match wanted {
            Some((name, wanted)) if !fits => Err(ServiceError::invalid(
                &format!("metadata.{name}"),
                format!("it is not {wanted}"),
            )),
            _ => Ok(()),
        }
    }

    /// Returns the number of tokens from which the context should be reduced.
    #[must_use]
    pub fn threshold(&self) -> u64 {
        self.limit.saturating_mul(self.threshold_percent.min(100)) / 100
    }

    /// Returns the number of tokens at which the context is full.
    #[must_use]
    pub fn full_tokens(&self) -> u64 {
        self.limit.saturating_sub(self.margin)
    }

    /// Returns the level reached by a number of tokens; `None` without a limit.
    #[must_use]
    pub fn level(&self, tokens: u64) -> Option<ContextLevel> {
        match tokens {
            _ if self.limit == 0 => None,
            tokens if tokens >= self.full_tokens() => Some(ContextLevel::Limit),
            tokens if tokens >= self.threshold() => Some(ContextLevel::Threshold),
            _ => None,
        }
    }

    /// Returns the level that was crossed but not recorded yet, with the tokens that crossed it.
    pub(super) fn crossed_level(&self, usage: &ReportedUsage) -> Option<(ContextLevel, u64)> {
        let tokens = usage.latest?.tokens;
        let level = self.level(tokens)?;
        let recorded = usage.recorded.map(|(level, _)| level);
        // A recorded level counts until the context has been below it again.
        let below = usage.least_since.map(|least| self.level(least));
        let known = below.map_or(recorded, |below| recorded.min(below));
        (known < Some(level)).then_some((level, tokens))
    }

    /// Returns the default tokens of a window: below the limit, with space for the next response.
    #[must_use]
    pub fn window_tokens(&self) -> usize {
        usize::try_from(self.threshold().min(self.full_tokens())).unwrap_or(usize::MAX)
    }
}

fn parse_percent(text: &str) -> Option<u64> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share))?;
    // Token counts are estimates: a hundredth is precise enough.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
    let percent = (share * 100.0).round() as u64;
    Some(percent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::{Position, Timestamp},
        projection::usage::RequestTokens,
    };

    fn usage(
        recorded: Option<ContextLevel>,
        least_since: Option<u64>,
        tokens: u64,
    ) -> ReportedUsage {
        let report = RequestTokens { position: Position(9), at: Timestamp(0), tokens };
        let recorded = recorded.map(|level| (level, Position(5)));
        ReportedUsage { latest: Some(report), recorded, least_since, ..ReportedUsage::default() }
    }

    #[test]
    fn a_level_is_reported_once_until_the_context_falls_below_it() {
        let monitor = ContextLimits { limit: 1_000, threshold_percent: 75, margin: 100 };
        let (low, high) = (ContextLevel::Threshold, ContextLevel::Limit);
        for (recorded, least_since, tokens, expected) in [
            (None, Some(700), 700, None),
            (None, Some(750), 750, Some(low)),
            (None, Some(900), 900, Some(high)),
            (Some(low), None, 800, None),
            (Some(low), Some(760), 800, None),
            (Some(low), Some(700), 800, Some(low)),
            (Some(low), Some(800), 950, Some(high)),
            (Some(high), Some(850), 880, None),
            (Some(high), Some(800), 950, Some(high)),
            (Some(high), Some(910), 950, None),
        ] {
            let found = monitor
                .crossed_level(&usage(recorded, least_since, tokens))
                .map(|(level, _)| level);
            assert_eq!(found, expected, "{recorded:?} {least_since:?} {tokens}");
        }
        let none = ContextLimits { limit: 0, ..monitor };
        assert_eq!(none.crossed_level(&usage(None, None, u64::MAX)), None);
    }
}
