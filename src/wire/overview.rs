//! The overview of a session and a step of it on HTTP. Lists are never null, an absent member is
//! absent. It must not cut anything: harness has.

use serde::{Deserialize, Serialize};
#[cfg(feature = "http")]
use utoipa::ToSchema;

use crate::{
    harness::{Cursor, IndexLine, Overview, StepView},
    projection::Confidence,
    service::Recovered,
};

fn sure(confidence: Confidence) -> String {
    match confidence {
        Confidence::High => "high",
        Confidence::Medium => "medium",
        Confidence::Low => "low",
    }
    .to_owned()
}

/// A step in one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(ToSchema))]
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
            confidence: line.confidence.map(sure),
            superseded_by: line.superseded_by,
        }
    }
}

/// A step in full, or as much of it as an answer takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(ToSchema))]
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
    /// The step its branch left from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_from: Option<u64>,
    /// Whether it was said to be the last.
    pub is_final: bool,
    /// Where it lies.
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
            confidence: step.confidence.map(sure),
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(ToSchema))]
pub struct StepAnswer {
    /// The step.
    pub step: StepOfView,
    /// Where its text goes on: send it as `cursor`.
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

/// A cursor of an earlier answer.
#[must_use]
pub fn cursor(text: &str) -> Option<Cursor> {
    Cursor::parse(text)
}

/// A gap that is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(ToSchema))]
pub struct OpenGap {
    /// Its name.
    pub id: String,
    /// What is not known.
    pub description: String,
    /// The step that opened it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
}

/// A source that was met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(ToSchema))]
pub struct SourceOfView {
    /// Where it is.
    pub url: String,
    /// What it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The step that met it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
}

/// Something that else was recorded, in a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(ToSchema))]
pub struct EventLine {
    /// Where.
    pub position: u64,
    /// What type of event.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it says.
    pub text: String,
    /// When, RFC 3339.
    pub at: String,
}

/// Where a session stands: its index, or with the summary alone the summary view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(ToSchema))]
pub struct OverviewAnswer {
    /// It is of everything before this position.
    pub position: u64,
    /// What it is for.
    pub goal: String,
    /// Steps recorded.
    pub steps_total: u64,
    /// Whether the latest step said it was the last.
    pub is_complete: bool,
    /// When it began, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When the last event came, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
    /// Where it stands, in sentences that were recorded.
    pub summary: String,
    /// The newest steps in a line each, ascending; left out of the summary view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<StepLine>>,
    /// The last three steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_steps: Option<Vec<StepOfView>>,
    /// Open gaps, the newest.
    pub gaps: Vec<OpenGap>,
    /// Sources, the newest; left out of the summary view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<Vec<SourceOfView>>,
    /// Approaches that were ruled out, the newest.
    pub rejected: Vec<String>,
    /// The latest of what else was recorded; left out of the summary view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recent: Option<Vec<EventLine>>,
    /// Whether anything was cut or left out.
    pub truncated: bool,
}

impl From<Overview> for OverviewAnswer {
    fn from(view: Overview) -> Self {
        let gap = |gap: crate::harness::GapLine| OpenGap {
            id: gap.id,
            description: gap.description,
            step: gap.step,
        };
        let source = |source: crate::harness::SourceLine| SourceOfView {
            url: source.url,
            title: source.title,
            kind: source.kind,
            step: source.step,
        };
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
            steps_total: view.steps,
            is_complete: view.completed_at.is_some(),
            started_at: view.started_at.map(|time| time.to_string()),
            updated_at: view.updated_at.map(|time| time.to_string()),
            summary: view.summary,
            steps: Some(view.index.into_iter().map(StepLine::from).collect()),
            last_steps: Some(view.last_steps.into_iter().map(StepOfView::from).collect()),
            gaps: view.gaps.into_iter().map(gap).collect(),
            sources: Some(view.sources.into_iter().map(source).collect()),
            rejected: view.rejected.into_iter().map(|line| line.text).collect(),
            recent,
            truncated: view.truncated,
        }
    }
}

impl OverviewAnswer {
    /// The same without what the summary stands for.
    #[must_use]
    pub fn summary_alone(self) -> Self {
        Self { steps: None, last_steps: None, sources: None, recent: None, ..self }
    }
}
