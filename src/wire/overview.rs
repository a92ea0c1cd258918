//! The overview of a session and a step of it on HTTP. Lists are never null, an absent member is
//! absent. It must not cut anything: harness has.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::views::{PlanOut, WhyOut, WordOut, left_out};
pub use crate::harness::{Cursor, Level};
use crate::{
    harness::{GapLine, IndexLine, Levelled, Overview, PhaseView, SourceLine, StepView},
    service::{ListPage, Recovered},
};

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
    pub confidence: Option<String>,
    /// Number of the step that supersedes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<u64>,
}

impl From<IndexLine> for StepLine {
    fn from(line: IndexLine) -> Self {
        Self {
            number: line.number,
            branch_id: line.branch_id,
            line: line.line,
            confidence: line.confidence.map(|sure| sure.as_str().to_owned()),
            superseded_by: line.superseded_by,
        }
    }
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
    pub confidence: Option<String>,
    /// What was ruled out.
    pub rejected: Vec<String>,
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
    pub position: u64,
    /// When it was recorded, RFC 3339.
    pub at: String,
    /// Whether text is missing here.
    pub truncated: bool,
}

impl From<StepView> for StepOfView {
    fn from(step: StepView) -> Self {
        Self {
            number: step.number,
            description: step.description,
            reasoning: step.reasoning,
            confidence: step.confidence.map(|sure| sure.as_str().to_owned()),
            rejected: step.rejected,
            revises: step.revises,
            superseded_by: step.superseded_by,
            branch_id: step.branch_id,
            branch_from: step.branch_from,
            is_final: step.is_final,
            position: step.position.0,
            at: step.at.to_string(),
            truncated: step.truncated,
        }
    }
}

/// One step of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepAnswer {
    /// The step.
    pub step: StepOfView,
    /// Cursor of the rest of its text: send it as `cursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl StepAnswer {
    /// The step that was recovered; nothing when something else was.
    #[must_use]
    pub fn of(recovered: Recovered) -> Option<Self> {
        let Recovered::Step(step, next) = recovered else { return None };
        let next_cursor = next.map(|cursor: Cursor| cursor.to_string());
        Some(Self { step: (*step).into(), next_cursor })
    }
}

/// A page of a list of the overview.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageAnswer {
    /// The list it is a page of: `steps`, `sources`, `gaps` or `rejected`.
    pub list: String,
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
    pub rejected: Vec<String>,
    /// Where the list continues: send it as `cursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl PageAnswer {
    /// The page; `None` when something else was recovered.
    #[must_use]
    pub fn of(recovered: Recovered) -> Option<Self> {
        let Recovered::Page(page, next) = recovered else { return None };
        let next_cursor = next.map(|cursor| cursor.to_string());
        let mut made = Self { next_cursor, ..Self::default() };
        let list = match page {
            ListPage::Steps(lines) => {
                made.steps = lines.into_iter().map(StepLine::from).collect();
                "steps"
            }
            ListPage::Sources(lines) => {
                made.sources = lines.into_iter().map(SourceOfView::from).collect();
                "sources"
            }
            ListPage::Gaps(lines) => {
                made.gaps = lines.into_iter().map(OpenGap::from).collect();
                "gaps"
            }
            ListPage::Rejected(lines) => {
                made.rejected = lines.into_iter().map(|line| line.text).collect();
                "rejected"
            }
        };
        made.list.push_str(list);
        Some(made)
    }
}

/// A cursor of an earlier answer.
#[must_use]
pub fn cursor(text: &str) -> Option<Cursor> {
    Cursor::parse(text)
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
}

impl From<GapLine> for OpenGap {
    fn from(gap: GapLine) -> Self {
        Self { id: gap.id, description: gap.description, step: gap.step }
    }
}

impl From<SourceLine> for SourceOfView {
    fn from(source: SourceLine) -> Self {
        let SourceLine { url, title, kind, step, .. } = source;
        Self { url, title, kind, step }
    }
}

/// Something that else was recorded, in a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventLine {
    /// Where.
    pub position: u64,
    /// What type of event.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its text.
    pub text: String,
    /// When, RFC 3339.
    pub at: String,
}

/// The overview of a session: its index, or with only the summary the summary view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OverviewAnswer {
    /// It is of everything before this position.
    pub position: u64,
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
    pub started_at: Option<String>,
    /// When the last event came, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
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
    pub rejected: Vec<String>,
    /// The latest other events; not in the summary view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recent: Option<Vec<EventLine>>,
    /// Cursors of lists that are not complete: `get_research_session` takes one as `cursor`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cursors: BTreeMap<String, String>,
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

impl From<Overview> for OverviewAnswer {
    fn from(view: Overview) -> Self {
        let recent = view.talk.map(|talk| {
            let line = |line: crate::projection::Line| EventLine {
                position: line.position.0,
                kind: line.kind.to_string(),
                text: line.text,
                at: line.at.to_string(),
            };
            talk.recent.into_iter().map(line).collect()
        });
        Self {
            position: view.position.0,
            goal: view.goal.text,
            task: view.task.map(WordOut::from),
            instructions: view.instructions.into_iter().map(WordOut::from).collect(),
            plan: view.plan.map(PlanOut::from),
            next: view.next,
            failures: view.failures,
            files: view.files,
            changes: view.changes,
            steps_total: view.steps,
            is_complete: view.completed_at.is_some(),
            started_at: view.started_at.map(|time| time.to_string()),
            updated_at: view.updated_at.map(|time| time.to_string()),
            summary: view.summary,
            steps: Some(view.index.into_iter().map(StepLine::from).collect()),
            last_steps: Some(view.last_steps.into_iter().map(StepOfView::from).collect()),
            gaps: view.gaps.into_iter().map(OpenGap::from).collect(),
            sources: Some(view.sources.into_iter().map(SourceOfView::from).collect()),
            rejected: view.rejected.into_iter().map(|line| line.text).collect(),
            recent,
            cursors: view
                .left_out
                .iter()
                .filter_map(|one| Some((one.class.to_owned(), one.cursor?.to_string())))
                .collect(),
            left_out: left_out(&view.left_out),
            truncated: view.truncated,
            why: view.why.into_iter().map(WhyOut::from).collect(),
            text: None,
        }
    }
}

/// A stretch of work: between two instructions of a user, finished steps of a plan, compactions, or
/// an hour of quiet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseOut {
    /// Its first position.
    pub from: u64,
    /// The first position after it.
    pub to: u64,
    /// When it began, RFC 3339.
    pub began_at: String,
    /// When its last event came, RFC 3339.
    pub last_at: String,
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
    pub level: String,
    /// The phases, oldest first, on their level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<Vec<PhaseOut>>,
    /// The overview without what the summary replaces.
    #[serde(flatten)]
    pub overview: OverviewAnswer,
}

impl From<Levelled> for SummaryAnswer {
    fn from(view: Levelled) -> Self {
        let phase = |phase: PhaseView| PhaseOut {
            from: phase.range.0.0,
            to: phase.range.1.0,
            began_at: phase.times.0.to_string(),
            last_at: phase.times.1.to_string(),
            ended_by: phase.ended.map(|ended| ended.as_str().to_owned()),
            steps: phase.steps,
            text: phase.text,
        };
        let is_phases = view.level == Level::Phase;
        let mut overview = OverviewAnswer::from(view.overview).summary_alone(view.level);
        if view.phases_left_out > 0 {
            overview.left_out.insert("phases".to_owned(), view.phases_left_out);
        }
        Self {
            level: view.level.as_str().to_owned(),
            phases: is_phases.then(|| view.phases.into_iter().map(phase).collect()),
            overview,
        }
    }
}

impl OverviewAnswer {
    /// The same without what the summary of that level replaces.
    fn summary_alone(self, level: Level) -> Self {
        let alone = Self { steps: None, last_steps: None, sources: None, recent: None, ..self };
        if level == Level::Step {
            return alone;
        }
        Self {
            task: None,
            instructions: Vec::new(),
            next: Vec::new(),
            failures: Vec::new(),
            files: Vec::new(),
            changes: Vec::new(),
            gaps: Vec::new(),
            rejected: Vec::new(),
            plan: None,
            cursors: BTreeMap::new(),
            left_out: BTreeMap::new(),
            ..alone
        }
    }
}
