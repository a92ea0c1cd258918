//! The answer of the two research tools: a session, a step of it, or the rest of a list. Lists are
//! never null, an absent member is absent. It must not cut anything: harness has.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    NOTICE, TRUST,
    parts::{
        ActivityOut, BranchOut, CoverageOut, CursorsOut, GapOut, IndexOut, PatternOut, ProviderOut,
        RejectedOut, SourceOut, StepOut, none, providers, time,
    },
    research::Depth,
};
use crate::{
    event::SessionId,
    harness::{OutcomesView, Overview},
    service::{BoundBy, ListPage, Recovered, StepAnswer},
};

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
