//! A step of research: in a line, in full or in part. It must not truncate: `harness` does.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    cursor::PageCursor,
    scalar::{OpenEnum, schema_of},
};
use crate::event::{Position, Timestamp};

/// Confidence of the caller in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Certain.
    High,
    /// Not quite certain.
    Medium,
    /// A guess.
    Low,
}

schema_of!(Confidence, String);

/// A step in one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepLine {
    /// Number of the step.
    pub number: u64,
    /// Branch of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_id: Option<String>,
    /// Description of the step.
    pub line: String,
    /// Confidence: `high`, `medium` or `low`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<OpenEnum<Confidence>>,
    /// Number of the step that supersedes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<u64>,
}

/// A step in full, or as much of it as fits the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepOfView {
    /// Number of the step.
    pub number: u64,
    /// Actions and findings of the step.
    pub description: String,
    /// Reasons for the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// Confidence: `high`, `medium` or `low`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<OpenEnum<Confidence>>,
    /// Approaches that the step ruled out.
    pub rejected: Vec<String>,
    /// True if it revises another step; only the tools return it.
    #[serde(skip)]
    pub is_revision: bool,
    /// Number of the step that it supersedes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revises: Option<u64>,
    /// Number of the step that supersedes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<u64>,
    /// Branch of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_id: Option<String>,
    /// Number of the step that its branch starts from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_from: Option<u64>,
    /// True if it is marked as the last step.
    pub is_final: bool,
    /// Position of the step's event.
    pub position: Position,
    /// Time at which it was recorded, RFC 3339.
    pub at: Timestamp,
    /// True if its text is truncated here.
    pub truncated: bool,
}

/// One step of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepAnswer {
    /// The requested step.
    pub step: StepOfView,
    /// Cursor of the rest of its text: send it as `cursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<PageCursor>,
}

/// One of the last steps of a research.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastStepOut {
    /// Number of the step.
    pub number: u64,
    /// Branch of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Actions and findings of the step.
    pub description: String,
    /// Reasons for the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// Confidence: `high`, `medium` or `low`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<OpenEnum<Confidence>>,
    /// Approaches that the step ruled out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<String>,
    /// Number of the step that supersedes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<u64>,
    /// True if its text is truncated here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}
