//! Shapes of retention: which sessions expire, and when. It must not decide when one expires.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::types::Session;
use crate::{
    event::Timestamp,
    service::{Aging, Keeps, Retention, SessionInfo, Stage},
};

/// What is to come of idle sessions, and by which rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetentionAnswer {
    /// Sessions with an end in sight, the soonest first.
    pub data: Vec<RetentionRow>,
    /// Sessions that expired just now; none for a look.
    pub expired: Vec<String>,
    /// Sessions whose files went just now; none for a look.
    pub reclaimed: Vec<String>,
    /// Sessions that could not go just now; the owner's log says why.
    pub failed: u64,
    /// Idle for longer, a session is no longer offered without its id; 0 for never.
    pub ttl_seconds: u64,
    /// Idle for longer, a session without a limit of its own expires; 0 for never.
    pub retention_seconds: u64,
    /// How long an expired session without a limit of its own can be restored before its files are
    /// removed; 0: without end.
    pub purge_after_seconds: u64,
    /// The same for one with a limit of its own, and how long a deleted session's id is not given
    /// again.
    pub grace_seconds: u64,
    /// Seconds by which the count of idle time is behind the clock: jumps of the clock are not
    /// counted.
    pub behind_seconds: i64,
}

/// A session that was asked back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Restored {
    /// The session.
    #[serde(flatten)]
    pub session: Session,
    /// Whether it had expired; false when there was nothing to restore.
    pub restored: bool,
}

/// A session with an end in sight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetentionRow {
    /// Its id.
    pub session: String,
    /// A line for people.
    pub title: Option<String>,
    /// `alive`, `expired` or `deleted`.
    pub stage: String,
    /// Seconds since it was last used; of an expired or deleted one, since it expired or was
    /// deleted.
    pub idle_seconds: u64,
    /// Its own limit, idle seconds; null follows the store.
    pub ttl_seconds: Option<u64>,
    /// What comes next: `expire`, `reclaim`, or `none` while something keeps it.
    pub next: String,
    /// When, RFC 3339, if it is not used until then; null when it is kept without end.
    pub at: Option<String>,
    /// Whether that time has come: the next sweep does it.
    pub due: bool,
    /// Why, for a person.
    pub why: String,
}

impl From<Retention> for RetentionAnswer {
    fn from(found: Retention) -> Self {
        let ids = |keys: &[crate::event::SessionKey]| {
            keys.iter().map(|key| key.session.to_string()).collect()
        };
        Self {
            data: found.aging.iter().map(|one| row(one, &found)).collect(),
            expired: ids(&found.swept.expired),
            reclaimed: ids(&found.swept.reclaimed),
            failed: found.swept.failed,
            ttl_seconds: found.lifetimes.hot.as_secs(),
            retention_seconds: found.lifetimes.retention.as_secs(),
            purge_after_seconds: found.lifetimes.purge.as_secs(),
            grace_seconds: found.lifetimes.grace.as_secs(),
            behind_seconds: found.now.0.saturating_sub(found.counted.0) / 1_000_000,
        }
    }
}

fn row(one: &Aging, found: &Retention) -> RetentionRow {
    let idle = found.counted.0.saturating_sub(one.used_at.0).max(0);
    let left = one.ends_at.map(|at| at.0.saturating_sub(found.counted.0));
    let limit = found.lifetimes.limit(one.ttl_seconds).unwrap_or(Duration::ZERO);
    let whose = if one.ttl_seconds.is_some() { "its own limit" } else { "the store's limit" };
    let next = match (one.stage, one.kept) {
        (_, Some(_)) => "none",
        (Stage::Alive, None) => "expire",
        (Stage::Expired | Stage::Deleted, None) if left.is_none() => "none",
        (Stage::Expired | Stage::Deleted, None) => "reclaim",
    };
    let why = match (one.kept, one.stage) {
        (Some(Keeps::Hold(at)), _) => format!("held since {at}"),
        (Some(Keeps::Damage), _) => "it is damaged, and the loss was not accepted".to_owned(),
        (None, Stage::Alive) => format!("{whose} is {} s idle", limit.as_secs()),
        (None, Stage::Expired) if left.is_none() => {
            "it expired and can be restored at any time".to_owned()
        }
        (None, Stage::Expired) => "it expired and can be restored until then".to_owned(),
        (None, Stage::Deleted) => "it was deleted; its id is free then".to_owned(),
    };
    RetentionRow {
        session: one.session.to_string(),
        title: one.title.clone(),
        stage: match one.stage {
            Stage::Alive => "alive",
            Stage::Expired => "expired",
            Stage::Deleted => "deleted",
        }
        .to_owned(),
        idle_seconds: u64::try_from(idle / 1_000_000).unwrap_or(0),
        ttl_seconds: one.ttl_seconds,
        next: next.to_owned(),
        at: left.map(|left| found.now.plus_micros(left).to_string()),
        due: left.is_some_and(|left| left < 0) && one.kept.is_none(),
        why,
    }
}

/// Since when a session is held, RFC 3339.
pub(super) fn held_at(info: &SessionInfo) -> Option<String> {
    info.held_at.map(|at: Timestamp| at.to_string())
}
