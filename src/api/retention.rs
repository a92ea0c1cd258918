//! Retention as clients read it: which sessions expire, and when. It must not decide when one
//! expires.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sessions::Session;

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
