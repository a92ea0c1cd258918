//! Parts of the research tools' answers: each view in the names its clients know. They must not
//! cut anything: harness has.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    event::Timestamp,
    harness::{
        BranchLine, Coverage, Cursor, GapLine, IndexLine, More, PatternLine, ProviderLine,
        RejectedLine, SourceLine, StepView, TalkView,
    },
    projection::Confidence,
    service::FoundLine,
};

/// Left out of an answer.
pub(super) fn none<T>(value: &Option<T>) -> bool {
    value.is_none()
}

/// A time on the wire.
pub(super) fn time(at: Timestamp) -> String {
    at.to_string()
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct IndexOut {
    step_number: u64,
    #[serde(skip_serializing_if = "none")]
    branch_id: Option<String>,
    one_liner: String,
    #[serde(skip_serializing_if = "none")]
    confidence: Option<&'static str>,
    #[serde(skip_serializing_if = "none")]
    superseded_by: Option<u64>,
}

impl From<IndexLine> for IndexOut {
    fn from(line: IndexLine) -> Self {
        Self {
            step_number: line.number,
            branch_id: line.branch_id,
            one_liner: line.line,
            confidence: line.confidence.map(Confidence::as_str),
            superseded_by: line.superseded_by,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct StepOut {
    step_number: u64,
    description: String,
    #[serde(skip_serializing_if = "none")]
    reasoning: Option<String>,
    #[serde(skip_serializing_if = "none")]
    confidence: Option<&'static str>,
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
    timestamp: String,
    position: u64,
    /// Whether text is missing here.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

impl From<StepView> for StepOut {
    fn from(step: StepView) -> Self {
        Self {
            step_number: step.number,
            description: step.description,
            reasoning: step.reasoning,
            confidence: step.confidence.map(Confidence::as_str),
            rejected_approaches: step.rejected,
            is_revision: step.is_revision,
            revises_step: step.revises,
            superseded_by: step.superseded_by,
            branch_id: step.branch_id,
            branch_from_step: step.branch_from,
            is_final: step.is_final,
            timestamp: time(step.at),
            position: step.position.0,
            truncated: step.truncated,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct GapOut {
    gap_id: String,
    description: String,
    #[serde(skip_serializing_if = "none")]
    found_in_step: Option<u64>,
}

impl From<GapLine> for GapOut {
    fn from(gap: GapLine) -> Self {
        Self { gap_id: gap.id, description: gap.description, found_in_step: gap.step }
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
    /// server: recorded from a tool's result; model: reported. Absent from a source that is shown
    /// by its address alone.
    #[serde(skip_serializing_if = "none")]
    found_by: Option<&'static str>,
    /// The tool whose result named it.
    #[serde(skip_serializing_if = "none")]
    tool: Option<String>,
}

impl From<SourceLine> for SourceOut {
    fn from(source: SourceLine) -> Self {
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
pub(super) struct MatchOut {
    /// step, reason, rejected, gap, source, call, result, instruction, answer or event.
    kind: &'static str,
    /// The step it belongs to.
    #[serde(skip_serializing_if = "none")]
    step_number: Option<u64>,
    #[serde(skip_serializing_if = "none")]
    branch_id: Option<String>,
    position: u64,
    /// The sentence or the lines that match.
    text: String,
    /// The words in it that were looked for.
    matched: Vec<String>,
    /// 1 for the best match.
    score: f64,
    #[serde(skip_serializing_if = "none")]
    superseded_by: Option<u64>,
    /// Of a gap.
    #[serde(skip_serializing_if = "none")]
    closed: Option<bool>,
}

impl From<FoundLine> for MatchOut {
    fn from(line: FoundLine) -> Self {
        Self {
            kind: line.field.as_str(),
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

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BranchOut {
    branch_id: String,
    #[serde(skip_serializing_if = "none")]
    from_step: Option<u64>,
    last_step: u64,
}

impl From<BranchLine> for BranchOut {
    fn from(branch: BranchLine) -> Self {
        Self { branch_id: branch.id, from_step: branch.from, last_step: branch.last }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PatternOut {
    kind: &'static str,
    count: u64,
    affected_urls: Vec<String>,
    suggestion: &'static str,
    last_seen: String,
}

impl From<PatternLine> for PatternOut {
    fn from(line: PatternLine) -> Self {
        Self {
            kind: line.trouble.as_str(),
            count: line.count,
            affected_urls: line.urls,
            suggestion: line.suggestion,
            last_seen: time(line.last_at),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProviderOut {
    attempts: u64,
    successes: u64,
}

/// Providers by name.
pub(super) fn providers(lines: Vec<ProviderLine>) -> BTreeMap<String, ProviderOut> {
    let named = |line: ProviderLine| {
        (line.name, ProviderOut { attempts: line.attempts, successes: line.successes })
    };
    lines.into_iter().map(named).collect()
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ActivityOut {
    events: u64,
    types: Vec<CountOut>,
    recent: Vec<RecentOut>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CountOut {
    r#type: String,
    count: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecentOut {
    position: u64,
    r#type: String,
    text: String,
    timestamp: String,
}

impl From<TalkView> for ActivityOut {
    fn from(talk: TalkView) -> Self {
        let count = |(kind, count): (String, u64)| CountOut { r#type: kind, count };
        let recent = talk.recent.into_iter().map(|line| RecentOut {
            position: line.position.0,
            r#type: line.kind.to_string(),
            text: line.text,
            timestamp: time(line.at),
        });
        Self {
            events: talk.events,
            types: talk.counts.into_iter().map(count).collect(),
            recent: recent.collect(),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CursorsOut {
    #[serde(skip_serializing_if = "none")]
    steps: Option<String>,
    #[serde(skip_serializing_if = "none")]
    sources: Option<String>,
    #[serde(skip_serializing_if = "none")]
    gaps: Option<String>,
    #[serde(skip_serializing_if = "none")]
    rejected_approaches: Option<String>,
}

impl CursorsOut {
    pub(super) fn of(more: &More) -> Option<Self> {
        let text = |cursor: Option<Cursor>| cursor.map(|cursor| cursor.to_string());
        (*more != More::default()).then(|| Self {
            steps: text(more.steps),
            sources: text(more.sources),
            gaps: text(more.gaps),
            rejected_approaches: text(more.rejected),
        })
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CoverageOut {
    source_count: u64,
    unique_domains: u64,
    /// Domains a source, 0 to 1.
    domain_spread: f64,
    /// The domain most sources are from.
    #[serde(skip_serializing_if = "none")]
    dominant_domain: Option<String>,
    /// How many of each kind.
    source_types: BTreeMap<String, u64>,
    /// What is lacking.
    gaps: Vec<String>,
}

impl From<Coverage> for CoverageOut {
    fn from(coverage: Coverage) -> Self {
        Self {
            source_count: coverage.sources,
            unique_domains: coverage.domains,
            #[allow(clippy::cast_precision_loss)]
            domain_spread: coverage.spread_percent as f64 / 100.0,
            dominant_domain: coverage.dominant,
            source_types: coverage.kinds.into_iter().collect(),
            gaps: coverage.lacks,
        }
    }
}
