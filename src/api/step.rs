//! A step of a research: in a line, in full or in part. It must not cut anything: harness does.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    cursor::Cursor,
    scalar::{Word, schema_of},
};
use crate::event::{Position, Timestamp};

/// How sure the caller is of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Sure.
    High,
    /// Not quite.
    Medium,
    /// A guess.
    Low,
}

schema_of!(Confidence, String);

/// A step in one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepLine {
    /// Its number.
    pub number: u64,
    /// Its branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_id: Option<String>,
    /// Its description.
    pub line: String,
    /// `high`, `medium` or `low`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Word<Confidence>>,
    /// Number of the step that supersedes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<u64>,
}

/// A step in full, or as much of it as an answer takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepOfView {
    /// Its number.
    pub number: u64,
    /// What was done and found.
    pub description: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// `high`, `medium` or `low`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Word<Confidence>>,
    /// What was ruled out.
    pub rejected: Vec<String>,
    /// Whether it revises; only the tools say so.
    #[serde(skip)]
    pub is_revision: bool,
    /// Number of the step it supersedes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revises: Option<u64>,
    /// Number of the step that supersedes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<u64>,
    /// Its branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_id: Option<String>,
    /// The step that its branch starts from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_from: Option<u64>,
    /// Whether it was marked as the last.
    pub is_final: bool,
    /// Its position.
    pub position: Position,
    /// When it was recorded, RFC 3339.
    pub at: Timestamp,
    /// Whether text is missing here.
    pub truncated: bool,
}

/// One step of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepAnswer {
    /// The step.
    pub step: StepOfView,
    /// Cursor of the rest of its text: send it as `cursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Cursor>,
}

/// One of the last steps of a research.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastStepOut {
    /// Its number.
    pub number: u64,
    /// Its branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// What was done and found.
    pub description: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// `high`, `medium` or `low`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Word<Confidence>>,
    /// What it ruled out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<String>,
    /// Number of the step that supersedes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<u64>,
    /// Whether text is missing here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}
