//! Parts of the research tools' answers that have more members than those of the views. They must
//! not truncate anything: `harness` does.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    api::{
        cursor::PageCursor,
        overview::{EventLine, RejectedLine, SourceOfView},
        scalar::OpenEnum,
        step::{Confidence, StepOfView},
    },
    event::{Position, Timestamp},
    harness::ConversationView,
};

/// Returns true for `None`, which is left out of an answer.
pub(super) fn none<T>(value: &Option<T>) -> bool {
    value.is_none()
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct StepOut {
    step_number: u64,
    description: String,
    #[serde(skip_serializing_if = "none")]
    reasoning: Option<String>,
    #[serde(skip_serializing_if = "none")]
    confidence: Option<OpenEnum<Confidence>>,
    rejected_approaches: Vec<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_revision: bool,
    #[serde(skip_serializing_if = "none")]
    revises_step: Option<u64>,
    #[serde(skip_serializing_if = "none")]
    superseded_by: Option<u64>,
    #[serde(skip_serializing_if = "none")]
    branch_id: Option<String>,
    #[serde(skip_serializing_if = "none")]
    branch_from_step: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_final: bool,
    timestamp: Timestamp,
    position: Position,
    /// True if the text is truncated here.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

impl From<StepOfView> for StepOut {
    fn from(step: StepOfView) -> Self {
        Self {
            step_number: step.number,
            description: step.description,
            reasoning: step.reasoning,
            confidence: step.confidence,
            rejected_approaches: step.rejected,
            is_revision: step.is_revision,
            revises_step: step.revises,
            superseded_by: step.superseded_by,
            branch_id: step.branch_id,
            branch_from_step: step.branch_from,
            is_final: step.is_final,
            timestamp: step.at,
            position: step.position,
            truncated: step.truncated,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SourceOut {
    url: String,
    #[serde(skip_serializing_if = "none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "none")]
    relevance: Option<String>,
    #[serde(skip_serializing_if = "none")]
    found_in_step: Option<u64>,
    /// server: recorded from a tool's result; model: reported. Absent if only the address of the
    /// source is shown.
    #[serde(skip_serializing_if = "none")]
    found_by: Option<&'static str>,
    /// Tool whose result named it.
    #[serde(skip_serializing_if = "none")]
    tool: Option<String>,
}

impl From<SourceOfView> for SourceOut {
    fn from(source: SourceOfView) -> Self {
        Self {
            url: source.url,
            title: source.title,
            relevance: source.kind,
            found_in_step: source.step,
            found_by: source.by_server.map(|own| if own { "server" } else { "model" }),
            tool: source.tool,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RejectedOut {
    approach: String,
    #[serde(skip_serializing_if = "none")]
    found_in_step: Option<u64>,
}

impl From<RejectedLine> for RejectedOut {
    fn from(line: RejectedLine) -> Self {
        Self { approach: line.text, found_in_step: line.step }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ActivityOut {
    events: u64,
    types: Vec<CountOut>,
    recent: Vec<EventLine>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CountOut {
    r#type: String,
    count: u64,
}

impl ActivityOut {
    pub(super) fn new(talk: ConversationView, recent: Vec<EventLine>) -> Self {
        let count = |(kind, count): (String, u64)| CountOut { r#type: kind, count };
        Self { events: talk.events, types: talk.counts.into_iter().map(count).collect(), recent }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CursorsOut {
    #[serde(skip_serializing_if = "none")]
    steps: Option<PageCursor>,
    #[serde(skip_serializing_if = "none")]
    sources: Option<PageCursor>,
    #[serde(skip_serializing_if = "none")]
    gaps: Option<PageCursor>,
    #[serde(skip_serializing_if = "none")]
    rejected_approaches: Option<PageCursor>,
}

impl CursorsOut {
    /// Converts the cursors of the lists; `None` if all lists are complete.
    pub(super) fn from_map(cursors: &BTreeMap<String, PageCursor>) -> Option<Self> {
        let of = |list: &str| cursors.get(list).copied();
        (!cursors.is_empty()).then(|| Self {
            steps: of("steps"),
            sources: of("sources"),
            gaps: of("gaps"),
            rejected_approaches: of("rejected"),
        })
    }
}
