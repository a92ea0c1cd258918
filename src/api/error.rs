//! An error as every interface reports it, and what to do about it. It must not word either.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::events::Gap;
use crate::event::Range;

/// Any error, on any route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// Always `error`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What went wrong.
    pub error: ErrorDetail,
    /// The request, as in `x-request-id` and in the server's log.
    pub request_id: Option<String>,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorDetail {
    /// One of the closed list of codes.
    #[serde(rename = "type")]
    pub code: String,
    /// A sentence for a person.
    pub message: String,
    /// What to do.
    #[serde(default)]
    pub recovery_hint: RecoveryHint,
}

/// What to do about an error, in facts; absent ones are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RecoveryHint {
    /// What to do next, one sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Whether the same call may succeed later, unchanged.
    pub retryable: bool,
    /// After how many seconds, when that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
    /// The field that was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The position the next event will get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<u64>,
    /// What is whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub whole: Vec<Range>,
    /// What is missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Gap>,
    /// The last step of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_step: Option<u64>,
    /// The number the refused step may have instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_step: Option<u64>,
    /// Sessions to choose from: those of the caller's own workspace first, then the latest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
    /// The tool call to make next, where the refused one was a tool's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<NextCall>,
}

/// A tool call that leads out of a refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NextCall {
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// `unchanged`: send the refused call's other arguments with them. Absent: these are all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_arguments: Option<String>,
}

/// A session that a caller without an id may mean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// Its id.
    pub session: String,
    /// Its goal or title.
    pub title: Option<String>,
    /// What it belongs to, for example a project's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Its tail.
    pub tail: u64,
    /// When it was last written to, RFC 3339.
    pub updated_at: String,
}
