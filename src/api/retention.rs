//! Retention as clients read it: which sessions expire, and when. It must not decide when one
//! expires.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sessions::Session;

/// Idle sessions that will expire or be removed, and the limits that apply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetentionAnswer {
    /// Sessions that will expire or be removed, the soonest first.
    pub data: Vec<RetentionRow>,
    /// Ids of sessions that this call expired; empty for a read.
    pub expired: Vec<String>,
    /// Ids of sessions whose files this call removed; empty for a read.
    pub reclaimed: Vec<String>,
    /// Number of sessions whose expiry or removal failed; the owner's log has the reasons.
    pub failed: u64,
    /// Idle seconds after which a session is no longer offered without its id; 0 for never.
    pub ttl_seconds: u64,
    /// Idle seconds after which a session without a limit of its own expires; 0 for never.
    pub retention_seconds: u64,
    /// Seconds for which an expired session without a limit of its own can be restored before its
    /// files are removed; 0: without end.
    pub purge_after_seconds: u64,
    /// The same for a session with a limit of its own; also the time for which the id of a deleted
    /// session is not reused.
    pub grace_seconds: u64,
    /// Seconds by which the measured idle time is behind the clock: jumps of the clock are not
    /// counted.
    pub behind_seconds: i64,
}

/// A session after a restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Restored {
    /// Members of the session.
    #[serde(flatten)]
    pub session: Session,
    /// True if the session was restored; false if there was nothing to restore.
    pub restored: bool,
}

/// A session that will expire or be removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetentionRow {
    /// Id of the session.
    pub session: String,
    /// Title for people.
    pub title: Option<String>,
    /// Stage: `alive`, `expired` or `deleted`.
    pub stage: String,
    /// Seconds since the last use; for an expired or deleted session, since it expired or was
    /// deleted.
    pub idle_seconds: u64,
    /// Retention of its own, in idle seconds; null follows the store.
    pub ttl_seconds: Option<u64>,
    /// Next change: `expire`, `reclaim`, or `none` while something prevents it.
    pub next: String,
    /// Time of that change, RFC 3339, unless the session is used; null if it is kept without end.
    pub at: Option<String>,
    /// True if that time has passed: the next sweep makes the change.
    pub due: bool,
    /// Explanation for a person.
    pub why: String,
}
