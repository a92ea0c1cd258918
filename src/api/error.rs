//! An error as every interface reports it, with advice on recovery. It must not word either.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::events::Gap;
use crate::event::Range;

/// An error, on any route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// Always `error`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Code, message and advice.
    pub error: ErrorDetail,
    /// Id of the request, as in `x-request-id` and in the server's log.
    pub request_id: Option<String>,
}

/// Code and message of an error, with advice on recovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorDetail {
    /// Error code, one of a closed list.
    #[serde(rename = "type")]
    pub code: String,
    /// Message for a person, one sentence.
    pub message: String,
    /// Advice on recovery.
    #[serde(default)]
    pub recovery_hint: RecoveryHint,
}

/// Advice on recovery from an error; members that do not apply are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RecoveryHint {
    /// Next action, in one sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// True if the same call may succeed later, unchanged.
    pub retryable: bool,
    /// Seconds to wait before a retry, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
    /// Name of the refused field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Position that the next event will get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<u64>,
    /// Ranges of positions that can be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub whole: Vec<Range>,
    /// Gaps: ranges of positions that cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Gap>,
    /// Number of the last step of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_step: Option<u64>,
    /// Number to use for the refused step instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_step: Option<u64>,
    /// Sessions to choose from: those of the caller's workspace first, then the latest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
    /// Next tool call to make, if the refused call was a tool's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<NextCall>,
}

/// A tool call that resolves a refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NextCall {
    /// Name of the tool.
    pub tool: String,
    /// Arguments of the call.
    pub arguments: Map<String, Value>,
    /// `unchanged`: send the refused call's other arguments too. If absent, these are all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_arguments: Option<String>,
}

/// A session that a caller without a session id may mean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// Id of the session.
    pub session: String,
    /// Goal or title of the session.
    pub title: Option<String>,
    /// Workspace of the session, for example a project's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Tail of the session: the position that its next event will get.
    pub tail: u64,
    /// Time of the last write, RFC 3339.
    pub updated_at: String,
}
