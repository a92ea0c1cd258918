//! Work on a session, as clients request and read it: cursors, checkpoints, leases, a history. It
//! must not decide anything about them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::sessions::Session;
use crate::event::{Position, Range};

/// Request to set a cursor.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PutCursor {
    /// Next position that its reader will read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// Point instead of a position; the tail if both are omitted.
    #[serde(
        deserialize_with = "crate::api::point::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "crate::api::point::schema")]
    pub at: Option<String>,
}

/// A cursor: the position at which a reader continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cursor {
    /// Name of the cursor, unique in the session.
    pub name: String,
    /// Next position that its reader will read.
    pub position: Position,
    /// Time at which it was set, RFC 3339.
    pub updated_at: String,
    /// Position that the next event of the session will get.
    pub tail: Position,
    /// Number of events that its reader has not read.
    pub behind: u64,
    /// True if a later value may be lost: a person accepted a loss of the session since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncertain: bool,
}

/// Every cursor of a session, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CursorList {
    /// Cursors of the session.
    pub data: Vec<Cursor>,
}

/// Answer to the deletion of a cursor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CursorDeleted {
    /// Name of the cursor.
    pub name: String,
    /// Always `cursor_deleted`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// A new checkpoint. Every member is optional.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CreateCheckpoint {
    /// Label for people; 128 characters at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Line of work that it belongs to; the main one if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// Id or label of the checkpoint that it follows; the last of its thread if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Point that it names; the tail if omitted.
    #[serde(
        deserialize_with = "crate::api::point::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "crate::api::point::schema")]
    pub at: Option<String>,
    /// Whole state of the agent. Only changes since the previous checkpoint are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<Map<String, Value>>,
    /// Changes of the state, instead of `state`, as a merge patch (RFC 7396).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_delta: Option<Map<String, Value>>,
    /// True if the work is done; the next session of the workspace starts from it.
    #[serde(rename = "final")]
    pub done: bool,
}

/// A checkpoint without its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Checkpoint {
    /// Id of the checkpoint, unique in the session.
    pub id: String,
    /// Always `checkpoint`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Position that it names: events before it are covered.
    pub position: Position,
    /// Creation time, RFC 3339.
    pub created_at: String,
    /// Trigger: `manual`, `tool_call`, `timer`, `limit` or `resume`.
    pub trigger: String,
    /// Label for people.
    pub label: Option<String>,
    /// Line of work that it belongs to; null for the main one.
    pub thread: Option<String>,
    /// Id of the checkpoint that it follows.
    pub parent: Option<String>,
    /// True if it marks the work as done.
    #[serde(rename = "final")]
    pub done: bool,
    /// True if a later checkpoint, or a part of this one's state, may be lost: a person accepted a
    /// loss of the session since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncertain: bool,
}

/// A page of checkpoints, the newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointList {
    /// Checkpoints of this page.
    pub data: Vec<Checkpoint>,
    /// Cursor of the next page; null on the last page.
    pub next_page: Option<String>,
    /// Position that the next event of the session will get.
    pub tail: Position,
}

/// A checkpoint with the state of the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointState {
    /// Members of the checkpoint.
    #[serde(flatten)]
    pub checkpoint: Checkpoint,
    /// State of the agent, as it was sent; empty if none was sent.
    pub state: Map<String, Value>,
    /// Body of the last `plan.updated` event before it.
    pub plan: Option<Value>,
    /// Position that the next event of the session will get.
    pub tail: Position,
}

/// Answer to a resume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResumeAnswer {
    /// Checkpoint, with the state there.
    pub checkpoint: CheckpointState,
    /// Checkpoint to continue from: the same, or one with the trigger `resume`.
    pub resumed_as: Checkpoint,
    /// Events after the checkpoint, which its state does not cover.
    pub behind: Range,
}

/// Request to wake a session.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WakeRequest {
    /// True to take the lease from its holder.
    pub steal: bool,
    /// Lifetime of the lease in seconds, unless it is renewed: 300 by default, a day at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
}

/// Checkpoint that a model resumes from, and an optional request for the lease.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ResumeRequest {
    /// Id or label of the checkpoint; the last one if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// True to acquire the lease, or to renew it if its token is sent.
    pub wake: bool,
    /// With `wake`: true to take the lease from its holder.
    pub steal: bool,
    /// With `wake`: lifetime of the lease in seconds unless renewed; 300 by default, a day at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub ttl_seconds: Option<u64>,
}

/// Request to renew a lease.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RenewRequest {
    /// New lifetime in seconds: 300 by default, a day at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
}

/// A lease: the exclusive right to write to a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lease {
    /// Token that every write must send as `Fencing-Token`; a later lease has a higher one.
    pub fencing_token: u64,
    /// Seconds until it ends, unless it is renewed.
    pub ttl_seconds: u64,
    /// End time, RFC 3339.
    pub expires_at: String,
}

/// Answer to the release of a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeaseReleased {
    /// Id of the session.
    pub session: String,
    /// Always `lease_released`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// Answer to a harness that wakes a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WakeAnswer {
    /// Id of the session.
    pub session: String,
    /// Lease of the session.
    pub lease: Lease,
    /// Fencing token of the lease.
    pub fencing_token: u64,
    /// Position that the next event of the session will get.
    pub tail: Position,
    /// Last checkpoint, with the state there.
    pub last_checkpoint: Option<CheckpointState>,
    /// Work that an earlier harness left unfinished; null if there is none.
    pub unfinished: Option<Unfinished>,
}

/// Unfinished work of an earlier harness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unfinished {
    /// Positions that no checkpoint covers.
    pub since_checkpoint: Range,
    /// Calls without a result among the last 1 000 events.
    pub open_calls: Vec<OpenCall>,
    /// True if its lease was not released.
    pub lease_kept: bool,
}

/// A tool call without a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenCall {
    /// Id of the call.
    pub call_id: String,
    /// Name of the tool, with its server if it has one.
    pub name: String,
    /// Position of the call.
    pub position: Position,
}

/// Recent sessions, and what to continue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryAnswer {
    /// Sessions written to last.
    pub data: Vec<PastSession>,
    /// Starting point for the next session of the workspace.
    pub start_from: Option<StartFrom>,
    /// Sessions with unfinished work, the one written to last first.
    pub unfinished: Vec<LeftSession>,
}

/// A session in a history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PastSession {
    /// Members of the session.
    #[serde(flatten)]
    pub session: Session,
    /// Goal of the session.
    pub goal: String,
    /// State of its work, in one sentence.
    pub summary: String,
    /// Number of recorded research steps.
    pub steps: u64,
    /// Number of open gaps.
    pub gaps_open: u64,
    /// True if its latest step is marked as the last one.
    pub complete: bool,
}

/// Starting point for the next session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StartFrom {
    /// Id of the session that has the checkpoint.
    pub session: String,
    /// Last checkpoint that marks work as done, or else the last one.
    pub checkpoint: CheckpointState,
}

/// A session whose work was begun and not marked as done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LeftSession {
    /// Members of the session.
    #[serde(flatten)]
    pub session: Session,
    /// Last checkpoint of the session.
    pub last_checkpoint: Option<Checkpoint>,
    /// True if its lease is still held.
    pub leased: bool,
}
