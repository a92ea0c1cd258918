//! Answers of the research tools: views in the names their clients know. Lists are never null, an
//! absent member is absent. It must not cut anything: harness has.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{NOTICE, TRUST, research::Depth};
use crate::{
    event::{SessionId, Timestamp},
    harness::{
        BranchLine, Coverage, Cursor, GapLine, IndexLine, More, OutcomesView, Overview,
        PatternLine, ProviderLine, RejectedLine, SourceLine, StepView, TalkView, fit,
    },
    projection::Confidence,
    service::{BoundBy, ListPage, Past, Recovered, SessionInfo, StepAnswer},
};

fn none<T>(value: &Option<T>) -> bool {
    value.is_none()
}

fn sure(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::High => "high",
        Confidence::Medium => "medium",
        Confidence::Low => "low",
    }
}

/// By what the session was found, for a model.
pub(super) fn bound_by(by: BoundBy) -> &'static str {
    match by {
        BoundBy::Argument => "argument",
        BoundBy::Started => "started",
        BoundBy::Connection => "connection",
        BoundBy::Directory => "directory",
        BoundBy::New => "new",
    }
}

fn time(at: Timestamp) -> String {
    at.to_string()
}

/// A session, a step of it, or the rest of a list.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResearchAnswer {
    session_id: String,
    /// full, summary, delta, step or page.
    response_mode: &'static str,
    /// How the session was found: argument, started, connection, directory or new.
    bound_by: &'static str,
    #[serde(skip_serializing_if = "none")]
    research_goal: Option<String>,
    #[serde(skip_serializing_if = "none")]
    current_step: Option<u64>,
    #[serde(skip_serializing_if = "none")]
    step_count: Option<u64>,
    /// 0 when nobody said.
    #[serde(skip_serializing_if = "none")]
    total_steps_estimate: Option<u64>,
    #[serde(skip_serializing_if = "none")]
    is_complete: Option<bool>,
    #[serde(skip_serializing_if = "none")]
    started_at: Option<String>,
    #[serde(skip_serializing_if = "none")]
    updated_at: Option<String>,
    #[serde(skip_serializing_if = "none")]
    completed_at: Option<String>,
    /// The position the next event of the session will get.
    #[serde(skip_serializing_if = "none")]
    position: Option<u64>,
    /// Whether this step was recorded before.
    #[serde(skip_serializing_if = "none")]
    repeated: Option<bool>,
    #[serde(skip_serializing_if = "none")]
    summary: Option<String>,
    /// The newest steps in a line each (full mode).
    #[serde(skip_serializing_if = "none")]
    steps: Option<Vec<IndexOut>>,
    /// The newest steps in a line each (other modes).
    #[serde(skip_serializing_if = "none")]
    step_index: Option<Vec<IndexOut>>,
    #[serde(skip_serializing_if = "none")]
    last_steps: Option<Vec<StepOut>>,
    /// Open gaps.
    #[serde(skip_serializing_if = "none")]
    gaps: Option<Vec<GapOut>>,
    #[serde(skip_serializing_if = "none")]
    sources: Option<Vec<SourceOut>>,
    #[serde(skip_serializing_if = "none")]
    rejected_approaches: Option<Vec<RejectedOut>>,
    #[serde(skip_serializing_if = "none")]
    branches: Option<Vec<BranchOut>>,
    /// Failures of tools of a kind that came three times or more.
    #[serde(skip_serializing_if = "none")]
    error_patterns: Option<Vec<PatternOut>>,
    /// How tools fared lately, by name.
    #[serde(skip_serializing_if = "none")]
    provider_stats: Option<BTreeMap<String, ProviderOut>>,
    /// What else was recorded in the session.
    #[serde(skip_serializing_if = "none")]
    activity: Option<ActivityOut>,
    #[serde(skip_serializing_if = "none")]
    step: Option<StepOut>,
    #[serde(skip_serializing_if = "none")]
    gap_opened: Option<GapOut>,
    #[serde(skip_serializing_if = "none")]
    gap_closed: Option<GapOut>,
    /// standard or thorough, when asked for.
    #[serde(skip_serializing_if = "none")]
    depth: Option<&'static str>,
    /// What the sources cover.
    #[serde(skip_serializing_if = "none")]
    coverage: Option<CoverageOut>,
    /// What to look for next.
    #[serde(skip_serializing_if = "none")]
    refinement_queries: Option<Vec<String>>,
    /// Where lists that did not fit go on: send one to get_research_session as cursor.
    #[serde(skip_serializing_if = "none")]
    cursors: Option<CursorsOut>,
    /// Where this page goes on.
    #[serde(skip_serializing_if = "none")]
    next_cursor: Option<String>,
    /// Whether anything was cut or left out.
    truncated: bool,
    trust: &'static str,
    notice: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CoverageOut {
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

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct IndexOut {
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
            confidence: line.confidence.map(sure),
            superseded_by: line.superseded_by,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct StepOut {
    step_number: u64,
    description: String,
    #[serde(skip_serializing_if = "none")]
    reasoning: Option<String>,
    #[serde(skip_serializing_if = "none")]
    confidence: Option<&'static str>,
    rejected_approaches: Vec<String>,
    is_revision: bool,
    #[serde(skip_serializing_if = "none")]
    revises_step: Option<u64>,
    #[serde(skip_serializing_if = "none")]
    superseded_by: Option<u64>,
    #[serde(skip_serializing_if = "none")]
    branch_id: Option<String>,
    #[serde(skip_serializing_if = "none")]
    branch_from_step: Option<u64>,
    is_final: bool,
    timestamp: String,
    position: u64,
    truncated: bool,
}

impl From<StepView> for StepOut {
    fn from(step: StepView) -> Self {
        Self {
            step_number: step.number,
            description: step.description,
            reasoning: step.reasoning,
            confidence: step.confidence.map(sure),
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
struct GapOut {
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
struct SourceOut {
    url: String,
    #[serde(skip_serializing_if = "none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "none")]
    relevance: Option<String>,
    #[serde(skip_serializing_if = "none")]
    found_in_step: Option<u64>,
    /// server: recorded from a tool's result; model: reported.
    found_by: &'static str,
}

impl From<SourceLine> for SourceOut {
    fn from(source: SourceLine) -> Self {
        Self {
            url: source.url,
            title: source.title,
            relevance: source.kind,
            found_in_step: source.step,
            found_by: if source.by_server { "server" } else { "model" },
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RejectedOut {
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
struct BranchOut {
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
struct PatternOut {
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
struct ProviderOut {
    attempts: u64,
    successes: u64,
}

fn providers(lines: Vec<ProviderLine>) -> BTreeMap<String, ProviderOut> {
    let named = |line: ProviderLine| {
        (line.name, ProviderOut { attempts: line.attempts, successes: line.successes })
    };
    lines.into_iter().map(named).collect()
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ActivityOut {
    events: u64,
    types: Vec<CountOut>,
    recent: Vec<RecentOut>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CountOut {
    r#type: String,
    count: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RecentOut {
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
struct CursorsOut {
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
    fn of(more: &More) -> Option<Self> {
        let text = |cursor: Option<Cursor>| cursor.map(|cursor| cursor.to_string());
        (*more != More::default()).then(|| Self {
            steps: text(more.steps),
            sources: text(more.sources),
            gaps: text(more.gaps),
            rejected_approaches: text(more.rejected),
        })
    }
}

fn list<T, U: From<T>>(items: Vec<T>) -> Option<Vec<U>> {
    Some(items.into_iter().map(U::from).collect())
}

impl ResearchAnswer {
    fn new(session: &SessionId, by: BoundBy, response_mode: &'static str) -> Self {
        Self {
            session_id: session.to_string(),
            response_mode,
            bound_by: bound_by(by),
            trust: TRUST,
            notice: NOTICE,
            ..Self::default()
        }
    }

    fn heads(mut self, view: &Overview) -> Self {
        self.research_goal = Some(view.goal.text.clone());
        self.step_count = Some(view.steps);
        self.total_steps_estimate = Some(view.estimate.unwrap_or(0));
        self.is_complete = Some(view.completed_at.is_some());
        self.started_at = view.started_at.map(time);
        self.completed_at = view.completed_at.map(time);
        self.position = Some(view.position.0);
        self
    }

    fn overview(self, view: Overview, full: bool) -> Self {
        let mut answer = self.heads(&view);
        answer.updated_at = view.updated_at.map(time);
        if full {
            answer.steps = list(view.index);
        } else {
            answer.summary = Some(view.summary);
            answer.step_index = list(view.index);
        }
        answer.last_steps = list(view.last_steps);
        answer.gaps = list(view.gaps);
        answer.sources = list(view.sources);
        answer.rejected_approaches = list(view.rejected);
        answer.branches = list(view.branches);
        let OutcomesView { patterns, providers: fared, .. } = view.outcomes;
        answer.error_patterns = list(patterns).filter(|all| !all.is_empty());
        answer.provider_stats = Some(providers(fared)).filter(|all| !all.is_empty());
        answer.activity = view.talk.map(ActivityOut::from);
        answer.cursors = CursorsOut::of(&view.more);
        answer.truncated = view.truncated;
        answer
    }

    /// What a recorded step answers: the session, or only what the step changed.
    pub(super) fn of_step(answer: StepAnswer, delta: bool, depth: Option<Depth>) -> Self {
        let mode = match (delta, answer.full) {
            (true, _) => "delta",
            (false, true) => "full",
            (false, false) => "summary",
        };
        let mut made = Self::new(&answer.session, answer.bound_by, mode);
        made = if delta {
            made.heads(&answer.overview)
        } else {
            made.overview(answer.overview, answer.full)
        };
        if delta {
            made.research_goal = None;
        }
        made.current_step = Some(answer.number);
        made.repeated = Some(answer.repeated);
        made.gap_opened = answer.gap_opened.map(GapOut::from);
        made.gap_closed = answer.gap_closed.map(GapOut::from);
        if let Some(coverage) = answer.coverage {
            made.depth = depth.map(Depth::as_str);
            made.refinement_queries = Some(coverage.queries.clone());
            made.coverage = Some(coverage.into());
        }
        made
    }

    /// What a reader gets back.
    pub(super) fn of_recovered(session: &SessionId, by: BoundBy, recovered: Recovered) -> Self {
        match recovered {
            Recovered::Overview(view) => Self::new(session, by, "summary").overview(*view, false),
            Recovered::Step(step, next) => {
                let mut made = Self::new(session, by, "step");
                made.truncated = step.truncated;
                made.step = Some((*step).into());
                made.next_cursor = next.map(|cursor| cursor.to_string());
                made
            }
            Recovered::Page(page, next) => {
                let mut made = Self::new(session, by, "page");
                match page {
                    ListPage::Steps(lines) => made.step_index = list(lines),
                    ListPage::Sources(lines) => made.sources = list(lines),
                    ListPage::Gaps(lines) => made.gaps = list(lines),
                    ListPage::Rejected(lines) => made.rejected_approaches = list(lines),
                }
                made.truncated = next.is_some();
                made.next_cursor = next.map(|cursor| cursor.to_string());
                made
            }
        }
    }
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

/// What became of reported sources.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SourcesAnswer {
    pub(super) session_id: String,
    pub(super) bound_by: &'static str,
    /// Sources that were not known before.
    pub(super) added: u64,
    /// Sources of the session.
    pub(super) source_count: u64,
}

/// A fresh start.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClearAnswer {
    /// The session this connection was bound to.
    #[serde(skip_serializing_if = "none")]
    pub(super) cleared_session_id: Option<String>,
    pub(super) message: &'static str,
}

/// Sessions, the newest first.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionsAnswer {
    pub(super) sessions: Vec<SessionOut>,
    #[serde(skip_serializing_if = "none")]
    pub(super) next_cursor: Option<String>,
    pub(super) trust: &'static str,
    pub(super) notice: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionOut {
    session_id: String,
    #[serde(skip_serializing_if = "none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "none")]
    workspace: Option<String>,
    created_at: String,
    updated_at: String,
    /// How many events it has.
    events: u64,
}

/// Sessions written to last.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct HistoryAnswer {
    pub(super) sessions: Vec<PastOut>,
    pub(super) trust: &'static str,
    pub(super) notice: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PastOut {
    session_id: String,
    research_goal: String,
    summary: String,
    step_count: u64,
    open_gaps: u64,
    is_complete: bool,
    created_at: String,
    updated_at: String,
    #[serde(skip_serializing_if = "none")]
    workspace: Option<String>,
}

impl From<Past> for PastOut {
    fn from(past: Past) -> Self {
        let workspace = past.info.workspace.as_ref();
        Self {
            session_id: past.info.key.session.to_string(),
            research_goal: past.goal,
            summary: past.summary,
            step_count: past.steps,
            open_gaps: past.gaps_open,
            is_complete: past.complete,
            created_at: time(past.info.created_at),
            updated_at: time(past.info.updated_at),
            workspace: workspace.map(|text| fit(text, NAME_BYTES_MAX).text),
        }
    }
}

/// Bytes of a title or a workspace in a list.
const NAME_BYTES_MAX: usize = 240;

impl From<&SessionInfo> for SessionOut {
    fn from(info: &SessionInfo) -> Self {
        let short =
            |text: &Option<String>| text.as_ref().map(|text| fit(text, NAME_BYTES_MAX).text);
        Self {
            session_id: info.key.session.to_string(),
            title: short(&info.title),
            workspace: short(&info.workspace),
            created_at: time(info.created_at),
            updated_at: time(info.updated_at),
            events: info.tail.0,
        }
    }
}
