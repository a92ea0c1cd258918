//! The token monitor: how full the context window of whoever works in a session is, by what its
//! harness reports. A level that is crossed is told by an event, once for each crossing. It must
//! not guess: who reports nothing hears of nothing.

use super::{Caller, Code, Service, ServiceResult};
use crate::{
    event::{Batch, EventType, NewEvent, Origin, Position, SessionId},
    projection::{
        Facts, Level, Usage,
        body::{self, ThresholdBody},
        usage::{REPORT, THRESHOLD},
    },
};

/// How often it is looked again because somebody else wrote in between.
const ATTEMPTS_MAX: usize = 10;

/// Bounds of a model's context window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Monitor {
    /// Tokens the model takes; default 200 000. Who works with another model changes it.
    pub limit: u64,
    /// Percent of the limit from which on the context should be made smaller; default 75.
    pub threshold_percent: u64,
    /// Tokens below the limit that are never used, because a count may be off; default 100.
    pub margin: u64,
}

impl Default for Monitor {
    fn default() -> Self {
        Self { limit: 200_000, threshold_percent: 75, margin: 100 }
    }
}

impl Monitor {
    /// Tokens from which on the context should be made smaller.
    #[must_use]
    pub fn threshold(&self) -> u64 {
        self.limit.saturating_mul(self.threshold_percent.min(100)) / 100
    }

    /// Tokens from which on nothing more fits.
    #[must_use]
    pub fn full(&self) -> u64 {
        self.limit.saturating_sub(self.margin)
    }

    /// The level that so many tokens reach; none without a limit.
    #[must_use]
    pub fn level(&self, tokens: u64) -> Option<Level> {
        match tokens {
            _ if self.limit == 0 => None,
            tokens if tokens >= self.full() => Some(Level::Limit),
            tokens if tokens >= self.threshold() => Some(Level::Threshold),
            _ => None,
        }
    }

    /// The level that was crossed and not told yet, with the tokens that did it.
    fn untold(&self, usage: &Usage) -> Option<(Level, u64)> {
        let tokens = usage.latest?.tokens;
        let level = self.level(tokens)?;
        let told = usage.told.map(|(told, _)| told);
        // What was told holds until the context has been below it again.
        let below = usage.least_since.map(|least| self.level(least));
        let known = below.map_or(told, |below| told.min(below));
        (known < Some(level)).then_some((level, tokens))
    }

    /// Tokens a window may have when nobody says: it leaves room to go on.
    #[must_use]
    pub fn room(&self) -> usize {
        usize::try_from(self.threshold().min(self.full())).unwrap_or(usize::MAX)
    }
}

/// Whether a batch reports usage.
pub(super) fn reports(batch: &Batch) -> bool {
    batch.events.iter().any(|event| event.kind.as_str() == REPORT)
}

impl Service {
    /// Tells by an event that a level was crossed, after a batch that reported usage; answers the
    /// tail after it. What it costs to tell is nothing that the batch can fail by.
    pub(super) async fn watch_usage(
        &self,
        caller: &Caller,
        session: &SessionId,
        tail: Position,
    ) -> Position {
        let monitor = self.monitor;
        let untold = |facts: &Facts| {
            let told = monitor.untold(&facts.usage).map(|(level, tokens)| {
                let level = level.as_str().to_owned();
                let body = body::write(&ThresholdBody { tokens, limit: monitor.limit, level });
                NewEvent {
                    id: None,
                    kind: EventType::new(THRESHOLD).expect("it keeps to the alphabet"),
                    origin: Origin::Harness,
                    created_at: None,
                    position: None,
                    body,
                }
            });
            told.into_iter().collect()
        };
        self.tell(caller, session, tail, ATTEMPTS_MAX, untold).await.unwrap_or_else(|error| {
            tracing::warn!(%session, code = error.code.as_str(), "a level was not told");
            tail
        })
    }

    /// Appends what the facts of a session say is still to be told, behind a batch that ended at
    /// `tail`; answers the tail after it.
    pub(super) async fn tell(
        &self,
        caller: &Caller,
        session: &SessionId,
        tail: Position,
        attempts_max: usize,
        untold: impl Fn(&Facts) -> Vec<NewEvent> + Sync,
    ) -> ServiceResult<Position> {
        let key = caller.key(session);
        for _ in 0..attempts_max {
            let look = |facts: &Facts| (untold(facts), facts.position);
            let (events, position) = self.with_facts(&key, |_, facts| look(facts)).await?;
            if events.is_empty() {
                return Ok(tail);
            }
            let batch = Batch { events, if_position: Some(position), ..Batch::default() };
            match self.append(caller, session, batch, false).await {
                Ok(appended) if position == tail => return Ok(appended.next_position),
                // Who goes on from there must have seen what others wrote before it.
                Ok(_) => return Ok(tail),
                // Somebody wrote in between, and may have told it.
                Err(error) if error.code == Code::PositionConflict => {}
                Err(error) => return Err(error),
            }
        }
        Ok(tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{event::Timestamp, projection::usage::Report};

    fn usage(told: Option<Level>, least_since: Option<u64>, tokens: u64) -> Usage {
        let report = Report { position: Position(9), at: Timestamp(0), tokens };
        let told = told.map(|level| (level, Position(5)));
        Usage { latest: Some(report), told, least_since, ..Usage::default() }
    }

    #[test]
    fn a_level_is_told_once_until_the_context_was_below_it() {
        let monitor = Monitor { limit: 1_000, threshold_percent: 75, margin: 100 };
        let (low, high) = (Level::Threshold, Level::Limit);
        for (told, least_since, tokens, expected) in [
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
            let found = monitor.untold(&usage(told, least_since, tokens)).map(|(level, _)| level);
            assert_eq!(found, expected, "{told:?} {least_since:?} {tokens}");
        }
        let none = Monitor { limit: 0, ..monitor };
        assert_eq!(none.untold(&usage(None, None, u64::MAX)), None);
    }
}
