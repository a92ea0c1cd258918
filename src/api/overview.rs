//! The overview of a session, its summary on each level, and pages of its lists. Lists are never
//! null, an absent member is absent. It must not cut anything: harness does.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    cursor::{Cursor, List},
    scalar::{Word, schema_of},
    step::{StepLine, StepOfView},
    views::{PlanOut, WhyOut, WordOut},
};
use crate::event::{EventType, Position, Timestamp};

/// How fine a summary is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Every step that fits, and the items worth most.
    Step,
    /// A text for each phase.
    Phase,
    /// One text.
    Session,
    /// The finest of these that leaves nothing out.
    Auto,
}

schema_of!(Level, String);

impl Level {
    /// The level of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "step" => Some(Self::Step),
            "phase" => Some(Self::Phase),
            "session" => Some(Self::Session),
            "auto" => Some(Self::Auto),
            _ => None,
        }
    }
}

/// A gap that is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenGap {
    /// Its name.
    pub id: String,
    /// What is not known.
    pub description: String,
    /// The step that opened it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
}

/// A recorded source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourceOfView {
    /// Where it is.
    pub url: String,
    /// What it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The step that recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Whether the server recorded it itself; absent from a line that is shortened. Only the tools
    /// say so.
    #[serde(skip)]
    pub by_server: Option<bool>,
    /// The tool whose result contained it; only the tools name it.
    #[serde(skip)]
    pub tool: Option<String>,
}

/// An approach that was ruled out, in JSON its text alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RejectedLine {
    /// The approach.
    pub text: String,
    /// Number of the step that ruled it out; only the tools name it.
    #[serde(skip)]
    pub step: Option<u64>,
}

schema_of!(RejectedLine, String);

/// Something that else was recorded, in a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventLine {
    /// Where.
    pub position: Position,
    /// What type of event.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// Its text.
    pub text: String,
    /// When, RFC 3339.
    pub at: Timestamp,
}

/// The overview of a session: its index, or with only the summary the summary view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OverviewAnswer {
    /// It is of everything before this position.
    pub position: Position,
    /// The goal of the research; without research the request of the user.
    pub goal: String,
    /// What the user asked for, where the goal is another text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<WordOut>,
    /// Later messages of the user, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<WordOut>,
    /// The plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanOut>,
    /// What is to be done next.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<String>,
    /// Commands and tests that failed and were not mended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// Files that were changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Calls that changed something else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// Steps recorded.
    pub steps_total: u64,
    /// Whether the latest step was marked as the last.
    pub is_complete: bool,
    /// When it began, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When the last event came, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
    /// The state of the work, in recorded sentences.
    pub summary: String,
    /// The newest steps, one line each, ascending; not in the summary view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<StepLine>>,
    /// The last three steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_steps: Option<Vec<StepOfView>>,
    /// Open gaps, the newest.
    pub gaps: Vec<OpenGap>,
    /// The newest sources; not in the summary view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<Vec<SourceOfView>>,
    /// Approaches that were ruled out, the newest.
    pub rejected: Vec<RejectedLine>,
    /// The latest other events; not in the summary view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recent: Option<Vec<EventLine>>,
    /// Cursors of lists that are not complete: `get_research_session` takes one as `cursor`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cursors: BTreeMap<String, Cursor>,
    /// How many of each list are not shown.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<String, u64>,
    /// Whether anything was cut or left out.
    pub truncated: bool,
    /// Why each item is shown, when asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<WhyOut>,
    /// All of it as one text in Markdown, when asked for: the answer then is that text.
    #[serde(skip)]
    pub text: Option<String>,
}

/// A stretch of work: between two instructions of a user, finished steps of a plan, compactions, or
/// an hour of quiet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseOut {
    /// Its first position.
    pub from: Position,
    /// The first position after it.
    pub to: Position,
    /// When it began, RFC 3339.
    pub began_at: Timestamp,
    /// When its last event came, RFC 3339.
    pub last_at: Timestamp,
    /// What ended it: `instruction`, `plan_step`, `compaction` or `quiet`; absent for the one that
    /// is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<String>,
    /// Research steps recorded in it.
    pub steps: u64,
    /// Requests, results, findings and messages in it, one sentence a line.
    pub text: String,
}

/// The summary of a session on one of its levels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SummaryAnswer {
    /// The level: `step`, `phase` or `session`.
    pub level: Word<Level>,
    /// The phases, oldest first, on their level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<Vec<PhaseOut>>,
    /// The overview without what the summary replaces.
    #[serde(flatten)]
    pub overview: OverviewAnswer,
}

/// A page of a list of the overview.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageAnswer {
    /// The list it is a page of: `steps`, `sources`, `gaps` or `rejected`.
    pub list: List,
    /// Steps, when the cursor is of the steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepLine>,
    /// Sources, when the cursor is of the sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceOfView>,
    /// Open gaps, when the cursor is of the gaps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<OpenGap>,
    /// Approaches that were ruled out, when the cursor is of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<RejectedLine>,
    /// Where the list continues: send it as `cursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Cursor>,
}
