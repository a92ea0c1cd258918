//! The overview of a session, its summary on each level, and pages of its lists. Lists are never
//! null, an absent member is left out. It must not truncate anything: `harness` does.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    cursor::{PageCursor, ViewList},
    scalar::{OpenEnum, schema_of},
    step::{StepLine, StepOfView},
    views::{PlanOut, WhyOut, WordOut},
};
use crate::event::{EventType, Position, Timestamp};

/// Level of detail of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SummaryLevel {
    /// Every step that fits, and the items of most worth.
    Step,
    /// A text for each phase.
    Phase,
    /// One text for the whole session.
    Session,
    /// The most detailed of these levels that leaves nothing out.
    Auto,
}

schema_of!(SummaryLevel, String);

impl SummaryLevel {
    /// Parses the name of a level.
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

/// An open gap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenGap {
    /// Id of the gap.
    pub id: String,
    /// Description of what is not known.
    pub description: String,
    /// Number of the step that opened it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
}

/// A recorded source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourceOfView {
    /// URL of the source.
    pub url: String,
    /// Title of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Kind of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Number of the step that recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// True if the server recorded it itself; absent from a shortened line. Only the tools return
    /// it.
    #[serde(skip)]
    pub by_server: Option<bool>,
    /// Tool whose result contained it; only the tools return it.
    #[serde(skip)]
    pub tool: Option<String>,
}

/// An approach that was ruled out; in JSON its text alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RejectedLine {
    /// Text of the approach.
    pub text: String,
    /// Number of the step that ruled it out; only the tools return it.
    #[serde(skip)]
    pub step: Option<u64>,
}

schema_of!(RejectedLine, String);

/// Another recorded event, shortened to a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventLine {
    /// Position of the event.
    pub position: Position,
    /// Type of the event.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// Text of the event.
    pub text: String,
    /// Time of the event, RFC 3339.
    pub at: Timestamp,
}

/// The overview of a session: the index view, or without its lists the summary view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OverviewAnswer {
    /// The answer covers all events before this position.
    pub position: Position,
    /// Goal of the research; without research the request of the user.
    pub goal: String,
    /// Request of the user, if the goal is another text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<WordOut>,
    /// Later messages of the user, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<WordOut>,
    /// Current plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanOut>,
    /// Next actions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<String>,
    /// Calls without a result so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub begun: Vec<String>,
    /// Commands and tests that failed and have not succeeded since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// Files that were changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Calls that changed something other than a file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// Number of recorded steps.
    pub steps_total: u64,
    /// True if the latest step is marked as the last one.
    pub is_complete: bool,
    /// Start time, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// Time of the last event, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
    /// State of the work, in recorded sentences.
    pub summary: String,
    /// Newest steps, one line each, ascending; absent from the summary view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<StepLine>>,
    /// Last three steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_steps: Option<Vec<StepOfView>>,
    /// Newest open gaps.
    pub gaps: Vec<OpenGap>,
    /// Newest sources; absent from the summary view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<Vec<SourceOfView>>,
    /// Newest approaches that were ruled out.
    pub rejected: Vec<RejectedLine>,
    /// Latest other events; absent from the summary view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recent: Option<Vec<EventLine>>,
    /// Cursors of incomplete lists: send one to `get_research_session` as `cursor`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cursors: BTreeMap<String, PageCursor>,
    /// Number of items of each list that are not shown.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<String, u64>,
    /// True if anything was truncated or left out.
    pub truncated: bool,
    /// Reason why each item is shown, if requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<WhyOut>,
    /// The overview as one text in Markdown, if requested: then it is the whole answer.
    #[serde(skip)]
    pub text: Option<String>,
}

/// A phase of work: between two instructions of a user, finished steps of a plan, compactions, or
/// an hour without events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseOut {
    /// First position of the phase.
    pub from: Position,
    /// First position after the phase.
    pub to: Position,
    /// Start time of the phase, RFC 3339.
    pub began_at: Timestamp,
    /// Time of its last event, RFC 3339.
    pub last_at: Timestamp,
    /// Cause of its end: `instruction`, `plan_step`, `compaction` or `quiet`; absent for the
    /// current phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<String>,
    /// Number of research steps recorded in the phase.
    pub steps: u64,
    /// Requests, results, findings and messages of the phase, one sentence a line.
    pub text: String,
}

/// The summary of a session on one of its levels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SummaryAnswer {
    /// Level: `step`, `phase` or `session`.
    pub level: OpenEnum<SummaryLevel>,
    /// Phases, the oldest first; only on the level `phase`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<Vec<PhaseOut>>,
    /// Overview without the parts that the summary replaces.
    #[serde(flatten)]
    pub overview: OverviewAnswer,
}

/// A page of a list of the overview.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageAnswer {
    /// List that is paged: `steps`, `sources`, `gaps` or `rejected`.
    pub list: ViewList,
    /// Steps, if the list is `steps`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepLine>,
    /// Sources, if the list is `sources`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceOfView>,
    /// Open gaps, if the list is `gaps`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<OpenGap>,
    /// Approaches that were ruled out, if the list is `rejected`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<RejectedLine>,
    /// Cursor of the rest of the list: send it as `cursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<PageCursor>,
}
