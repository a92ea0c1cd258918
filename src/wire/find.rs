//! The result of a look-up by words, on HTTP. It must not cut or order anything: the verb has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    api::overview::{OverviewAnswer, PageAnswer},
    service::{FindResult, FoundLine},
};

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
    pub position: u64,
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

impl From<FoundLine> for MatchLine {
    fn from(line: FoundLine) -> Self {
        Self {
            kind: line.field.as_str().to_owned(),
            step_number: line.step,
            branch_id: line.branch,
            position: line.position.0,
            text: line.text,
            matched: line.matched,
            score: f64::from(line.score) / 100.0,
            superseded_by: line.superseded_by,
            closed: line.closed,
        }
    }
}

/// What words were found in a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FindAnswer {
    /// It is of everything before this position.
    pub position: u64,
    /// The words, shortened where they are many.
    pub query: String,
    /// What matches, the best first.
    pub matches: Vec<MatchLine>,
    /// The most informative sentences, gaps, rejected approaches and sources that neither the
    /// overview nor `matches` show, the best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
    /// The first position that was read; 0 when all were.
    pub searched_from: u64,
    /// Whether more events match than are returned.
    pub truncated: bool,
}

impl From<FindResult> for FindAnswer {
    fn from(found: FindResult) -> Self {
        Self {
            position: found.position.0,
            query: found.query,
            matches: found.matches.into_iter().map(MatchLine::from).collect(),
            findings: found.findings,
            searched_from: found.searched_from.0,
            truncated: found.truncated,
        }
    }
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

impl From<OverviewAnswer> for IndexAnswer {
    fn from(view: OverviewAnswer) -> Self {
        Self::Overview(Box::new(view))
    }
}

impl From<PageAnswer> for IndexAnswer {
    fn from(page: PageAnswer) -> Self {
        Self::Page(page)
    }
}

impl From<FindResult> for IndexAnswer {
    fn from(found: FindResult) -> Self {
        Self::Found(found.into())
    }
}
