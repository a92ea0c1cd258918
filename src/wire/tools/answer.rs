//! The answer of the two research tools: a session, a step of it, the rest of a list, or matches of
//! some words. Lists are never null, an absent member is left out. It must not truncate anything:
//! `harness` does.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    BRIEF_NOTICE, NOTICE, TRUST,
    names::{Changes, NameChange},
    parts::{ActivityOut, CursorsOut, RejectedOut, SourceOut, StepOut, none},
    research::SourceDepth,
};
use crate::{
    api::{
        cursor::{PageCursor, ViewList},
        find::MatchLine,
        overview::{OpenGap, PageAnswer},
        research::{BranchOut, CoverageOut, PatternOut, ProviderOut},
        step::{StepAnswer, StepLine},
        views::{PlanOut, WordOut},
    },
    event::{Position, SessionId, Timestamp},
    harness::Overview,
    service::{BoundBy, RecordedStep, RecoverAnswer, RecoveredSession},
};

/// Returns the name, for a model, of the way in which the session was found.
pub(crate) fn bound_by_name(by: BoundBy) -> &'static str {
    match by {
        BoundBy::Argument => "argument",
        BoundBy::Started => "started",
        BoundBy::Connection => "connection",
        BoundBy::Directory => "directory",
        BoundBy::New => "new",
    }
}

/// Members whose names differ from those of the views in camelCase.
pub(crate) const NAMES: Changes = &[
    ("steps.number", NameChange::Named("stepNumber")),
    ("steps.line", NameChange::Named("oneLiner")),
    ("stepIndex.number", NameChange::Named("stepNumber")),
    ("stepIndex.line", NameChange::Named("oneLiner")),
    ("gaps.id", NameChange::Named("gapId")),
    ("gaps.step", NameChange::Named("foundInStep")),
    ("gapOpened.id", NameChange::Named("gapId")),
    ("gapOpened.step", NameChange::Named("foundInStep")),
    ("gapClosed.id", NameChange::Named("gapId")),
    ("gapClosed.step", NameChange::Named("foundInStep")),
    ("activity.recent.at", NameChange::Named("timestamp")),
];

/// A session, a step of it, the rest of a list, or matches of some words.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResearchAnswer {
    session_id: String,
    /// full, summary, delta, step, page or find.
    response_mode: &'static str,
    /// Way in which the session was found: argument, started, connection, directory or new.
    bound_by: &'static str,
    /// Id of the session that this one continues: with the step that begins another goal, and while
    /// this one is empty: then everything shown is of that session.
    #[serde(skip_serializing_if = "none")]
    continues: Option<String>,
    #[serde(skip_serializing_if = "none")]
    research_goal: Option<String>,
    /// Request of the user, if the goal is another text.
    #[serde(skip_serializing_if = "none")]
    task: Option<WordOut>,
    /// Later messages of the user, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    instructions: Vec<WordOut>,
    #[serde(skip_serializing_if = "none")]
    plan: Option<PlanOut>,
    /// Next actions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    next: Vec<String>,
    /// Commands and tests that failed and have not succeeded since.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failures: Vec<String>,
    /// Files that were changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<String>,
    /// Calls that changed something other than a file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<String>,
    #[serde(skip_serializing_if = "none")]
    current_step: Option<u64>,
    #[serde(skip_serializing_if = "none")]
    step_count: Option<u64>,
    /// Estimate of all steps; 0 if no step had one.
    #[serde(skip_serializing_if = "none")]
    total_steps_estimate: Option<u64>,
    #[serde(skip_serializing_if = "none")]
    is_complete: Option<bool>,
    #[serde(skip_serializing_if = "none")]
    started_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "none")]
    updated_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "none")]
    completed_at: Option<Timestamp>,
    /// Position that the next event of the session will get.
    #[serde(skip_serializing_if = "none")]
    position: Option<Position>,
    /// True if this step was recorded before.
    #[serde(skip_serializing_if = "none")]
    repeated: Option<bool>,
    #[serde(skip_serializing_if = "none")]
    summary: Option<String>,
    /// Newest steps, one line each (full mode).
    #[serde(skip_serializing_if = "none")]
    steps: Option<Vec<StepLine>>,
    /// Newest steps, one line each (other modes).
    #[serde(skip_serializing_if = "none")]
    step_index: Option<Vec<StepLine>>,
    #[serde(skip_serializing_if = "none")]
    last_steps: Option<Vec<StepOut>>,
    /// Open gaps.
    #[serde(skip_serializing_if = "none")]
    gaps: Option<Vec<OpenGap>>,
    #[serde(skip_serializing_if = "none")]
    sources: Option<Vec<SourceOut>>,
    #[serde(skip_serializing_if = "none")]
    rejected_approaches: Option<Vec<RejectedOut>>,
    #[serde(skip_serializing_if = "none")]
    branches: Option<Vec<BranchOut>>,
    /// Failures of tools, by kind, that occurred three times or more.
    #[serde(skip_serializing_if = "none")]
    error_patterns: Option<Vec<PatternOut>>,
    /// Recent attempts and successes of tools, by name.
    #[serde(skip_serializing_if = "none")]
    provider_stats: Option<BTreeMap<String, ProviderOut>>,
    /// Other events of the session.
    #[serde(skip_serializing_if = "none")]
    activity: Option<ActivityOut>,
    #[serde(skip_serializing_if = "none")]
    step: Option<StepOut>,
    #[serde(skip_serializing_if = "none")]
    gap_opened: Option<OpenGap>,
    #[serde(skip_serializing_if = "none")]
    gap_closed: Option<OpenGap>,
    /// standard or thorough, if requested.
    #[serde(skip_serializing_if = "none")]
    depth: Option<&'static str>,
    /// Coverage of the sources.
    #[serde(skip_serializing_if = "none")]
    coverage: Option<CoverageOut>,
    /// Suggested queries for the next search.
    #[serde(skip_serializing_if = "none")]
    refinement_queries: Option<Vec<String>>,
    /// Number of items of each list that are not shown.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    left_out: BTreeMap<String, u64>,
    /// Cursors of incomplete lists: send one to get_research_session as cursor.
    #[serde(skip_serializing_if = "none")]
    cursors: Option<CursorsOut>,
    /// Cursor of the next page.
    #[serde(skip_serializing_if = "none")]
    next_cursor: Option<PageCursor>,
    /// Words that were looked up.
    #[serde(skip_serializing_if = "none")]
    query: Option<String>,
    /// Matches of these words, the best first.
    #[serde(skip_serializing_if = "none")]
    matches: Option<Vec<MatchLine>>,
    /// Most informative lines that neither the overview nor matches show.
    #[serde(skip_serializing_if = "none")]
    findings: Option<Vec<String>>,
    /// First position that was searched for them; 0 if all were.
    #[serde(skip_serializing_if = "none")]
    searched_from: Option<Position>,
    /// True if anything was truncated or left out.
    truncated: bool,
    trust: &'static str,
    notice: &'static str,
    /// Session as one text in Markdown, for a model.
    #[serde(skip_serializing_if = "none")]
    text: Option<String>,
}

/// Returns the member of an answer that holds a class.
fn member_name(class: &str) -> &str {
    match class {
        "last_steps" => "lastSteps",
        "steps" => "stepIndex",
        "rejected" => "rejectedApproaches",
        "error_patterns" => "errorPatterns",
        "provider_stats" => "providerStats",
        class => class,
    }
}

fn convert_list<T, U: From<T>>(items: Vec<T>) -> Option<Vec<U>> {
    Some(items.into_iter().map(U::from).collect())
}

impl ResearchAnswer {
    fn new(session: &SessionId, by: BoundBy, response_mode: &'static str) -> Self {
        Self {
            session_id: session.to_string(),
            response_mode,
            bound_by: bound_by_name(by),
            trust: TRUST,
            notice: NOTICE,
            ..Self::default()
        }
    }

    fn with_head(mut self, view: &Overview) -> Self {
        let shown = &view.shown;
        self.research_goal = Some(shown.goal.clone());
        self.step_count = Some(shown.steps_total);
        self.total_steps_estimate = Some(view.estimate.unwrap_or(0));
        self.is_complete = Some(shown.is_complete);
        self.started_at = shown.started_at;
        self.completed_at = view.completed_at;
        self.position = Some(shown.position);
        self
    }

    fn with_overview(self, view: Overview, full: bool) -> Self {
        let mut answer = self.with_head(&view);
        let Overview { shown, branches, patterns, providers, talk, .. } = view;
        answer.updated_at = shown.updated_at;
        if full {
            answer.steps = shown.steps;
        } else {
            answer.summary = Some(shown.summary);
            answer.step_index = shown.steps;
        }
        answer.task = shown.task;
        answer.instructions = shown.instructions;
        answer.plan = shown.plan;
        answer.next = shown.next;
        answer.failures = shown.failures;
        answer.files = shown.files;
        answer.changes = shown.changes;
        let left_out = shown.left_out.into_iter();
        answer.left_out =
            left_out.map(|(class, count)| (member_name(&class).to_owned(), count)).collect();
        answer.last_steps = shown.last_steps.and_then(convert_list);
        answer.gaps = Some(shown.gaps);
        answer.sources = shown.sources.and_then(convert_list);
        answer.rejected_approaches = convert_list(shown.rejected);
        answer.branches = Some(branches);
        answer.error_patterns = Some(patterns).filter(|all| !all.is_empty());
        answer.provider_stats = Some(providers).filter(|all| !all.is_empty());
        answer.activity = talk.map(|talk| ActivityOut::new(talk, shown.recent.unwrap_or_default()));
        answer.cursors = CursorsOut::from_map(&shown.cursors);
        answer.truncated = shown.truncated;
        answer
    }

    /// Builds the answer to a recorded step: the session, or only the changes by the step.
    pub(crate) fn from_step(answer: RecordedStep, delta: bool, depth: Option<SourceDepth>) -> Self {
        let mode = match (delta, answer.full) {
            (true, _) => "delta",
            (false, true) => "full",
            (false, false) => "summary",
        };
        let mut made = Self::new(&answer.session, answer.bound_by, mode);
        made = if delta {
            made.with_head(&answer.overview)
        } else {
            made.with_overview(answer.overview, answer.full)
        };
        if delta {
            made.research_goal = None;
        }
        made.current_step = Some(answer.number);
        made.repeated = Some(answer.repeated);
        made.continues = answer.continues.map(|session| session.to_string());
        made.gap_opened = answer.gap_opened;
        made.gap_closed = answer.gap_closed;
        if let Some((coverage, queries)) = answer.coverage {
            made.depth = depth.map(SourceDepth::as_str);
            made.refinement_queries = Some(queries);
            made.coverage = Some(coverage);
        }
        made
    }

    fn with_page(mut self, page: PageAnswer) -> Self {
        match page.list {
            ViewList::Steps => self.step_index = Some(page.steps),
            ViewList::Sources => self.sources = convert_list(page.sources),
            ViewList::Gaps => self.gaps = Some(page.gaps),
            ViewList::Rejected => self.rejected_approaches = convert_list(page.rejected),
        }
        self.truncated = page.next_cursor.is_some();
        self.next_cursor = page.next_cursor;
        self
    }

    /// Builds the answer from the recovered state.
    pub(crate) fn from_recovered(found: RecoveredSession) -> Self {
        let RecoveredSession { session, by, continues, recovered } = found;
        let session = &session;
        let made = match recovered {
            RecoverAnswer::Overview(mut view) => {
                let text = view.shown.text.take();
                let text = text.map(|text| crate::wire::wrap_in_frame(BRIEF_NOTICE, &text, ""));
                Self { text, ..Self::new(session, by, "summary").with_overview(*view, false) }
            }
            RecoverAnswer::Step(found) => {
                let StepAnswer { step, next_cursor } = *found;
                let mut made = Self::new(session, by, "step");
                made.truncated = step.truncated;
                made.step = Some(step.into());
                made.next_cursor = next_cursor;
                made
            }
            RecoverAnswer::Page(page) => Self::new(session, by, "page").with_page(page),
            RecoverAnswer::Found(found) => {
                let mut made = Self::new(session, by, "find");
                made.position = Some(found.position);
                made.query = Some(found.query);
                made.matches = Some(found.matches);
                made.findings = Some(found.findings);
                made.searched_from = Some(found.searched_from);
                made.truncated = found.truncated;
                made
            }
        };
        Self { continues: continues.map(|session| session.to_string()), ..made }
    }
}
