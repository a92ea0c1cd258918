//! Comparison of two sessions, as clients read it: the common beginning, the first difference, and
//! the aligned parts. It must not compare.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rows::Row;
use crate::event::{Position, Range};

/// Comparison of two sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CompareAnswer {
    /// Id of the session.
    pub session: String,
    /// Id of the session that it is compared with.
    pub other: String,
    /// Beginning that both have.
    pub common: CommonBeginning,
    /// First events that differ; absent if none was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_difference: Option<DifferencePlaces>,
    /// Parts of both sessions, in order and without a hole.
    pub hunks: Vec<CompareHunk>,
    /// True if both sessions were compared to their ends.
    pub complete: bool,
}

/// Beginning that two sessions have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommonBeginning {
    /// First position after it, in both.
    pub until: Position,
    /// `lineage`: both read the same stored events there; `content`: their events say the same.
    pub by: String,
}

/// Positions of the first events that differ; the end of the compared part of a session that has
/// no further event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DifferencePlaces {
    /// Position in the session.
    pub a: Position,
    /// Position in the other session.
    pub b: Position,
}

/// Relation of two aligned parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HunkKind {
    /// Both parts say the same.
    Same,
    /// The parts differ.
    Changed,
    /// Only the session has it.
    OnlyA,
    /// Only the other session has it.
    OnlyB,
}

/// A part of one session, and the part of the other one that stands at its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CompareHunk {
    /// Relation of the parts.
    pub kind: HunkKind,
    /// Positions in the session.
    pub a: Range,
    /// Positions in the other session.
    pub b: Range,
    /// Rows that differ, of the session, without bookkeeping; at most 100, and 1 000 of all hunks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows_a: Vec<Row>,
    /// Rows that differ, of the other session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows_b: Vec<Row>,
}
