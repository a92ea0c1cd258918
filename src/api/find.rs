//! A look-up by words in a session, and the index view that it is a form of. It must not cut or
//! order anything: service has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::overview::{OverviewAnswer, PageAnswer};
use crate::event::Position;

/// Something that matches the words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatchLine {
    /// `step`, `reason`, `rejected`, `gap`, `source`, `call`, `result`, `instruction`, `answer` or
    /// `event`.
    pub kind: String,
    /// Number of the step it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_number: Option<u64>,
    /// That step's branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_id: Option<String>,
    /// Position of the event.
    pub position: Position,
    /// The sentence or the lines that match, as they were recorded.
    pub text: String,
    /// The words in it that were looked for, as they are written there.
    pub matched: Vec<String>,
    /// How well it fits: 1 for the best match, more than 0.
    pub score: f64,
    /// Number of the step that supersedes the one it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<u64>,
    /// Of a gap: whether it is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<bool>,
}

/// What words were found in a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FindAnswer {
    /// It is of everything before this position.
    pub position: Position,
    /// The words, shortened where they are many.
    pub query: String,
    /// What matches, the best first.
    pub matches: Vec<MatchLine>,
    /// The most informative sentences, gaps, rejected approaches and sources that neither the
    /// overview nor `matches` show, the best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
    /// The first position that was read; 0 when all were.
    pub searched_from: Position,
    /// Whether more events match than are returned.
    pub truncated: bool,
}

/// The index view: the overview, with `cursor` a page of one of its lists, or with `find` what
/// matches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum IndexAnswer {
    /// Without `find`.
    Overview(Box<OverviewAnswer>),
    /// With `find`.
    Found(FindAnswer),
    /// With `cursor`.
    Page(PageAnswer),
}
