//! A lookup by words in a session, and the index view, of which it is a form. It must not truncate
//! or order anything: `service` does.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::overview::{OverviewAnswer, PageAnswer};
use crate::event::Position;

/// A passage that matches the words of a query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatchLine {
    /// Kind of the passage: `step`, `reason`, `rejected`, `gap`, `source`, `call`, `result`,
    /// `instruction`, `answer` or `event`.
    pub kind: String,
    /// Number of the step that the passage belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_number: Option<u64>,
    /// Branch of that step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_id: Option<String>,
    /// Position of the event.
    pub position: Position,
    /// Matching sentence or lines, as recorded.
    pub text: String,
    /// Words of the query that the text contains, as they are written there.
    pub matched: Vec<String>,
    /// Relevance: more than 0, and 1 for the best match.
    pub score: f64,
    /// Number of the step that supersedes that step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<u64>,
    /// For a gap: true if it is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<bool>,
}

/// Passages of a session that match the words of a query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FindAnswer {
    /// The answer covers all events before this position.
    pub position: Position,
    /// Words of the query, truncated if there are many.
    pub query: String,
    /// Matching passages, the best first.
    pub matches: Vec<MatchLine>,
    /// The most informative sentences, gaps, rejected approaches and sources that are neither in
    /// the overview nor in `matches`, the best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
    /// First position that was searched; 0 if all were.
    pub searched_from: Position,
    /// True if more events match than are returned.
    pub truncated: bool,
}

/// The index view: the overview; with `cursor` a page of one of its lists; with `find` the matching
/// passages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum IndexAnswer {
    /// Overview, without `find` and `cursor`.
    Overview(Box<OverviewAnswer>),
    /// Matching passages, with `find`.
    Found(FindAnswer),
    /// Page of a list, with `cursor`.
    Page(PageAnswer),
}
