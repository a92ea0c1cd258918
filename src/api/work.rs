//! The work on a session, as clients ask for it and read it: cursors, checkpoints, leases, a
//! history. It must not decide anything about them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::sessions::Session;
use crate::event::{Position, Range};

/// Where to put a cursor.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PutCursor {
    /// The next position its reader wants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// A point instead of a position; the tail when neither is given.
    #[serde(
        deserialize_with = "crate::api::point::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "crate::api::point::schema")]
    pub at: Option<String>,
}

/// A cursor: where a reader continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cursor {
    /// Its name, unique in the session.
    pub name: String,
    /// The next position its reader wants.
    pub position: Position,
    /// When it was set, RFC 3339.
    pub updated_at: String,
    /// The position the next event of the session will get.
    pub tail: Position,
    /// Events its reader has not read.
    pub behind: u64,
    /// A later place of it may be lost: a person accepted a loss of the session since it was set.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncertain: bool,
}

/// Every cursor of a session, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CursorList {
    /// The cursors.
    pub data: Vec<Cursor>,
}

/// Answer to a deleted cursor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CursorDeleted {
    /// Its name.
    pub name: String,
    /// Always `cursor_deleted`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// A new checkpoint. Every member is optional.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CreateCheckpoint {
    /// What a person calls it; 128 characters at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The line of work it belongs to; the main one when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// Id or label of the checkpoint it follows; the last of its thread when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The point it names; the tail when absent.
    #[serde(
        deserialize_with = "crate::api::point::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "crate::api::point::schema")]
    pub at: Option<String>,
    /// The agent's whole state. Only changes since the previous checkpoint are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<Map<String, Value>>,
    /// Instead of `state`: its changes, as a merge patch (RFC 7396).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_delta: Option<Map<String, Value>>,
    /// Whether the work is done; the next session of the workspace starts from it.
    #[serde(rename = "final")]
    pub done: bool,
}

/// A checkpoint without its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Checkpoint {
    /// Its name, unique in the session.
    pub id: String,
    /// Always `checkpoint`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The position it names: events before it are part of it.
    pub position: Position,
    /// When it was made, RFC 3339.
    pub created_at: String,
    /// `manual`, `tool_call`, `timer`, `limit` or `resume`.
    pub trigger: String,
    /// What a person calls it.
    pub label: Option<String>,
    /// The line of work it belongs to; null for the main one.
    pub thread: Option<String>,
    /// Id of the one it follows.
    pub parent: Option<String>,
    /// Whether it marks the work as done.
    #[serde(rename = "final")]
    pub done: bool,
    /// A later checkpoint, or a part of this one's state, may be lost: a person accepted a loss of
    /// the session since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncertain: bool,
}

/// A page of checkpoints, the newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointList {
    /// The checkpoints.
    pub data: Vec<Checkpoint>,
    /// Cursor of the next page; null on the last one.
    pub next_page: Option<String>,
    /// The position the next event of the session will get.
    pub tail: Position,
}

/// A checkpoint with the state of the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointState {
    /// The checkpoint.
    #[serde(flatten)]
    pub checkpoint: Checkpoint,
    /// The agent's state as it sent it; empty when it sent none.
    pub state: Map<String, Value>,
    /// Body of the last `plan.updated` before it.
    pub plan: Option<Value>,
    /// The position the next event of the session will get.
    pub tail: Position,
}

/// What continues from a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResumeAnswer {
    /// The checkpoint, with the state there.
    pub checkpoint: CheckpointState,
    /// The checkpoint to continue from: the same, or one of trigger `resume`.
    pub resumed_as: Checkpoint,
    /// Events after the checkpoint, which are not part of its state.
    pub behind: Range,
}

/// How to take a session up.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WakeRequest {
    /// Take the lease from its holder.
    pub steal: bool,
    /// Lifetime of the lease unless it is renewed: 300 s by default, a day at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
}

/// Checkpoint that a model resumes from, and its wish for the lease.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TakeUpRequest {
    /// Id or label of the checkpoint; the last one when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// Take the lease, or with its token extend it.
    pub wake: bool,
    /// With `wake`: take the lease from its holder.
    pub steal: bool,
    /// With `wake`: lifetime of the lease unless it is renewed: 300 s by default, a day at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub ttl_seconds: Option<u64>,
}

/// How long a lease is to hold from now on.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RenewRequest {
    /// 300 s by default, a day at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
}

/// A lease: the right to write to a session alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lease {
    /// What every write must show as `Fencing-Token`; a later lease has a higher one.
    pub fencing_token: u64,
    /// Seconds until it ends, unless it is renewed.
    pub ttl_seconds: u64,
    /// When it ends, RFC 3339.
    pub expires_at: String,
}

/// A lease that was given back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeaseReleased {
    /// The session.
    pub session: String,
    /// Always `lease_released`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// Answer to a harness that wakes a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WakeAnswer {
    /// The session.
    pub session: String,
    /// The right to write to it.
    pub lease: Lease,
    /// Its token.
    pub fencing_token: u64,
    /// The position the next event of the session will get.
    pub tail: Position,
    /// The last checkpoint, with the state there.
    pub last_checkpoint: Option<CheckpointState>,
    /// Work that an earlier harness did not end; null when there is none.
    pub unfinished: Option<Unfinished>,
}

/// Work of a harness that did not mark it as done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unfinished {
    /// Events that no checkpoint covers.
    pub since_checkpoint: Range,
    /// Calls without a result among the last 1 000 events.
    pub open_calls: Vec<OpenCall>,
    /// Its lease was not released.
    pub lease_kept: bool,
}

/// A tool call without a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenCall {
    /// Its id.
    pub call_id: String,
    /// The tool, with its server when it has one.
    pub name: String,
    /// Its position.
    pub position: Position,
}

/// What was done lately.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryAnswer {
    /// The sessions written to last.
    pub data: Vec<PastSession>,
    /// What a next session of the workspace starts from.
    pub start_from: Option<StartFrom>,
    /// Sessions with work that was not ended, the one written to last first.
    pub unfinished: Vec<LeftSession>,
}

/// A session in a history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PastSession {
    /// The session.
    #[serde(flatten)]
    pub session: Session,
    /// What it is for.
    pub goal: String,
    /// The state of its work, in one sentence.
    pub summary: String,
    /// Research steps recorded.
    pub steps: u64,
    /// Gaps that are open.
    pub gaps_open: u64,
    /// Whether its latest step was marked as the last.
    pub complete: bool,
}

/// What a next session starts from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StartFrom {
    /// Whose checkpoint it is.
    pub session: String,
    /// The last checkpoint that marks work as done, or else the last one.
    pub checkpoint: CheckpointState,
}

/// A session whose work was begun and not marked as done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LeftSession {
    /// The session.
    #[serde(flatten)]
    pub session: Session,
    /// Its last checkpoint.
    pub last_checkpoint: Option<Checkpoint>,
    /// Whether its lease is still held.
    pub leased: bool,
}
