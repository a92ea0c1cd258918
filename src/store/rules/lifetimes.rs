//! Lifetimes of sessions: the limits, the current one, and the next step of an unused session. It
//! must not count time (`store::lifetime` does), nor take a step.

use std::time::Duration;

use crate::{
    event::{SessionId, Timestamp},
    log::{EndReason, Entry},
    store::{ExpiringSession, KeepReason, Stage, TenantUsage, lifetime::micros},
};

/// The last use is recorded no finer than this fraction of the current limit.
const GRAINS: u32 = 16;
/// Maximum granularity of the recorded last use.
const GRAIN_MAX: Duration = Duration::from_secs(3_600);

/// The next step of an unused session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LifetimeStep {
    /// It expires.
    Expire,
    /// Its grace has ended: it can no longer be restored.
    GiveUp,
    /// Its files are removed, and its id is free.
    Reclaim,
}

/// Settings of an operator for idle sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// Idle time after which a session's facts leave memory and it is no longer offered to callers
    /// without an id; by id it is still served. Default 4 h, 0 for never.
    pub hot: Duration,
    /// Idle time after which a session without its own limit expires. Default 30 days, 0 keeps it
    /// without end.
    pub retention: Duration,
    /// Time in which an expired session without its own limit can be restored; then its files are
    /// removed. Default 0: without end.
    pub purge: Duration,
    /// The same for an expired session with its own limit, and the time for which the id of a
    /// deleted session is not reused. Default 7 days.
    pub grace: Duration,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Lifetimes {
    /// Default settings.
    pub const DEFAULT: Self = Self {
        hot: Duration::from_secs(4 * 3_600),
        retention: Duration::from_secs(30 * 24 * 3_600),
        purge: Duration::ZERO,
        grace: Duration::from_secs(7 * 24 * 3_600),
    };

    /// Returns the current limit of a session, given its own; `None` keeps it without end.
    #[must_use]
    pub fn limit(&self, ttl_seconds: Option<u64>) -> Option<Duration> {
        let limit = ttl_seconds.map_or(self.retention, Duration::from_secs);
        Some(limit).filter(|limit| !limit.is_zero())
    }

    /// Returns the precision of the recorded last use. It is added to every limit.
    #[must_use]
    pub fn grain(&self, ttl_seconds: Option<u64>) -> Duration {
        let hot = Some(self.hot).filter(|hot| !hot.is_zero());
        let finest = self.limit(ttl_seconds).into_iter().chain(hot).min();
        finest.map_or(GRAIN_MAX, |limit| GRAIN_MAX.min(limit / GRAINS))
    }

    /// Returns when a session that was last used at `used_at` expires, unless it is used again.
    #[must_use]
    pub fn expires_at(&self, ttl_seconds: Option<u64>, used_at: Timestamp) -> Option<Timestamp> {
        let limit = self.limit(ttl_seconds)?.saturating_add(self.grain(ttl_seconds));
        Some(used_at.plus_micros(micros(limit)))
    }

    /// Returns when the files of a session deleted at `used_at` are removed.
    #[must_use]
    pub fn deleted_reclaim_at(&self, used_at: Timestamp) -> Timestamp {
        used_at.plus_micros(micros(self.grace))
    }

    /// Returns when the files of a session that expired at `used_at` are removed; `None` keeps them
    /// without end. Its own limit makes a session a temporary one.
    #[must_use]
    pub fn expired_reclaim_at(
        &self,
        ttl_seconds: Option<u64>,
        used_at: Timestamp,
    ) -> Option<Timestamp> {
        let temporary = ttl_seconds.is_some_and(|seconds| seconds > 0);
        let after = if temporary { self.grace } else { self.purge };
        (temporary || !after.is_zero()).then(|| used_at.plus_micros(micros(after)))
    }

    /// Returns true if a session last used at `used_at` is offered to callers without an id.
    #[must_use]
    pub fn is_hot(&self, ttl_seconds: Option<u64>, used_at: Timestamp, now: Timestamp) -> bool {
        let limit = self.hot.saturating_add(self.grain(ttl_seconds));
        self.hot.is_zero() || now <= used_at.plus_micros(micros(limit))
    }

    /// Returns the next step of a session with that entry, at that count of time; `is_needed`
    /// returns whether forks read from it.
    pub(crate) fn next_step(
        &self,
        entry: &Entry,
        counted: Timestamp,
        is_needed: impl FnOnce() -> bool,
    ) -> Option<LifetimeStep> {
        if entry.stage.is_reclaimed() {
            return Some(LifetimeStep::Reclaim);
        }
        let used_at = entry.used_at();
        let end = entry.stage.end();
        let deleted = end.is_some_and(|end| end.how != EndReason::Expired);
        if !deleted && keep_reason(entry).is_some() {
            return None;
        }
        if end.is_some() {
            // Its forks read from it; otherwise an erasure would never finish.
            let waits = entry.stage.is_erasing() || is_needed();
            let goes_at = match deleted {
                true => Some(self.deleted_reclaim_at(used_at)),
                false => self.expired_reclaim_at(entry.ttl_seconds, used_at),
            };
            let goes = goes_at.is_some_and(|at| counted >= at) && !waits;
            return goes.then_some(LifetimeStep::GiveUp);
        }
        let expires = self.expires_at(entry.ttl_seconds, used_at);
        expires.is_some_and(|at| counted > at).then_some(LifetimeStep::Expire)
    }

    /// Returns the end of a session's current stage; `None` for one that is kept without end.
    pub(crate) fn aging(&self, entry: &Entry) -> Option<ExpiringSession> {
        let used_at = entry.used_at();
        let stage = match entry.stage.end().map(|end| end.how) {
            None => Stage::Alive,
            Some(EndReason::Expired) => Stage::Expired,
            Some(_) => Stage::Deleted,
        };
        let ends_at = match stage {
            Stage::Alive => Some(self.expires_at(entry.ttl_seconds, used_at)?),
            Stage::Expired => self.expired_reclaim_at(entry.ttl_seconds, used_at),
            Stage::Deleted => Some(self.deleted_reclaim_at(used_at)),
        };
        Some(ExpiringSession {
            session: SessionId::new(&entry.session).ok()?,
            title: entry.title.clone(),
            stage,
            used_at,
            ends_at,
            ttl_seconds: entry.ttl_seconds,
            kept: keep_reason(entry).filter(|_| stage != Stage::Deleted),
        })
    }
}

impl TenantUsage {
    /// Counts a session; `is_needed` returns whether forks read from it.
    pub(crate) fn add(&mut self, entry: &Entry, is_needed: impl FnOnce() -> bool) {
        self.sessions += u64::from(entry.stage.is_alive());
        // A session that can be restored, or is kept for forks, still takes space.
        let stays = !entry.stage.is_discarded() && !entry.stage.is_reclaimed();
        if stays || is_needed() {
            self.bytes += entry.bytes;
        }
    }
}

/// Returns the reason for which a session does not expire.
fn keep_reason(entry: &Entry) -> Option<KeepReason> {
    match entry.held_at {
        Some(at) => Some(KeepReason::Hold(Timestamp(at))),
        // Only an operator accepts the loss of unreadable content.
        None => entry.is_degraded().then_some(KeepReason::Damage),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600 * 1_000_000;

    #[test]
    fn the_limit_of_a_session_replaces_the_default_and_the_grain_is_added_to_it() {
        let lifetimes = Lifetimes::default();
        let start = Timestamp(0);
        let expires = |ttl| lifetimes.expires_at(ttl, start).map(|at| at.0);
        assert_eq!(expires(None), Some(720 * HOUR + HOUR / 4));
        assert_eq!(expires(Some(0)), None);
        assert_eq!(expires(Some(3_600)), Some(HOUR + HOUR / 16));
        assert_eq!(expires(Some(u64::MAX)), Some(i64::MAX));
        let for_ever = Lifetimes { retention: Duration::ZERO, ..lifetimes };
        assert_eq!(for_ever.expires_at(None, start), None);
        assert_eq!(for_ever.expires_at(Some(16), start), Some(Timestamp(17_000_000)));
        for (idle, hot) in [(0, true), (4 * HOUR + HOUR / 4, true), (5 * HOUR, false)] {
            assert_eq!(lifetimes.is_hot(None, start, Timestamp(idle)), hot, "{idle}");
        }
        let goes =
            |lifetimes: Lifetimes, ttl| lifetimes.expired_reclaim_at(ttl, start).map(|at| at.0);
        assert_eq!(goes(lifetimes, None), None, "an expired session stays without end");
        assert_eq!(goes(lifetimes, Some(0)), None);
        assert_eq!(goes(lifetimes, Some(60)), Some(168 * HOUR), "a temporary one does not");
        let purged = Lifetimes { purge: Duration::from_secs(2 * 3_600), ..lifetimes };
        assert_eq!(goes(purged, None), Some(2 * HOUR));
        let never = Lifetimes { hot: Duration::ZERO, ..lifetimes };
        assert!(never.is_hot(None, start, Timestamp(i64::MAX)));
    }
}
