//! Bodies of the research events, read and written at one place so that they cannot drift apart.
//! Reading is lenient about what it does not know and strict about what it does: a body that does
//! not fit is `None`, never a panic. It must not know positions or sessions.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Types of the research events.
pub mod kind {
    /// What the research is for.
    pub const GOAL: &str = "research.goal";
    /// A numbered step.
    pub const STEP: &str = "research.step";
    /// Something that is not known yet.
    pub const GAP_OPENED: &str = "research.gap_opened";
    /// It is known now, or no longer matters.
    pub const GAP_CLOSED: &str = "research.gap_closed";
    /// Where the research stands, in the caller's words.
    pub const SUMMARY: &str = "research.summary";
    /// A source that was met.
    pub const SOURCE: &str = "source.found";
}

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

/// `research.goal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoalBody {
    /// What the research is for.
    pub goal: String,
    /// The step that brought it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// That step's branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_id: Option<String>,
}

/// `research.step`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepBody {
    /// 1-based number on its line.
    pub number: u64,
    /// What was done and found.
    pub description: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// How sure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// What was tried or considered and ruled out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<String>,
    /// Whether it revises, when the caller said so.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_revision: bool,
    /// Number of the step it supersedes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revises: Option<u64>,
    /// The branch it lies on; absent on the main line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_id: Option<String>,
    /// The step its branch left from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_from: Option<u64>,
    /// How many steps the caller expects in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_steps_estimate: Option<u64>,
    /// Whether the caller says it is the last.
    #[serde(default, rename = "final", skip_serializing_if = "is_false")]
    pub is_final: bool,
}

/// `research.gap_opened` and `research.gap_closed`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapBody {
    /// Name of the gap, unique in the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_id: Option<String>,
    /// What is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The step that opened or closed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// That step's branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_id: Option<String>,
}

/// `research.summary`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryBody {
    /// The caller's words.
    pub summary: String,
    /// The step that brought it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// That step's branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_id: Option<String>,
}

/// `source.found`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceBody {
    /// Where it is.
    pub url: String,
    /// What it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is, for example `scraped` or `academic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The step that met it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Who says so: `server` or `model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_by: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(value: &bool) -> bool {
    !value
}

/// The body, when it is one of that shape.
#[must_use]
pub fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Option<T> {
    serde_json::from_slice(body).ok()
}

/// The body as it is stored. The same value gives the same bytes, which is how a retry is known.
#[must_use]
pub fn write<T: Serialize>(body: &T) -> Bytes {
    let text = serde_json::to_vec(body).expect("research bodies hold no map with foreign keys");
    Bytes::from(text)
}
