//! The answer of the two research tools: a session, a step of it, the rest of a list, or what
//! matches some words. Lists are never null, an absent member is absent. It must not cut anything:
//! harness has.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    BRIEF_NOTICE, NOTICE, TRUST,
    names::{Changes, NameChange},
    parts::{ActivityOut, CursorsOut, RejectedOut, SourceOut, StepOut, none},
    research::Depth,
};
use crate::{
    api::{
        cursor::{Cursor, List},
        find::MatchLine,
        overview::{OpenGap, PageAnswer},
        research::{BranchOut, CoverageOut, PatternOut, ProviderOut},
        step::{StepAnswer, StepLine},
        views::{PlanOut, WordOut},
    },
    event::{Position, SessionId, Timestamp},
    harness::Overview,
    service::{BoundBy, RecordedStep, Recovered, RecoveredSession},
};

/// Name, for a model, of the way in which the session was found.
pub(crate) fn bound_by(by: BoundBy) -> &'static str {
    match by {
        BoundBy::Argument => "argument",
        BoundBy::Started => "started",
        BoundBy::Connection => "connection",
        BoundBy::Directory => "directory",
        BoundBy::New => "new",
    }
}

/// Names of parts that are not those of the views in camelCase.
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

/// A session, a step of it, the rest of a list, or what matches some words.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResearchAnswer {
    session_id: String,
    /// full, summary, delta, step, page or find.
    response_mode: &'static str,
    /// How the session was found: argument, started, connection, directory or new.
    bound_by: &'static str,
    /// The session this one continues: with the step that begins another goal, and where nothing
    /// was done in it yet: then all that is shown is of that one.
    #[serde(skip_serializing_if = "none")]
    continues: Option<String>,
    #[serde(skip_serializing_if = "none")]
    research_goal: Option<String>,
    /// What the user asked for, where the goal is another text.
    #[serde(skip_serializing_if = "none")]
    task: Option<WordOut>,
    /// Later messages of the user, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    instructions: Vec<WordOut>,
    #[serde(skip_serializing_if = "none")]
    plan: Option<PlanOut>,
    /// What is to be done next.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    next: Vec<String>,
    /// Commands and tests that failed and were not mended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failures: Vec<String>,
    /// Files that were changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<String>,
    /// Calls that changed something else.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<String>,
    #[serde(skip_serializing_if = "none")]
    current_step: Option<u64>,
    #[serde(skip_serializing_if = "none")]
    step_count: Option<u64>,
    /// 0 when no step had one.
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
    /// The position the next event of the session will get.
    #[serde(skip_serializing_if = "none")]
    position: Option<Position>,
    /// Whether this step was recorded before.
    #[serde(skip_serializing_if = "none")]
    repeated: Option<bool>,
    #[serde(skip_serializing_if = "none")]
    summary: Option<String>,
    /// The newest steps in a line each (full mode).
    #[serde(skip_serializing_if = "none")]
    steps: Option<Vec<StepLine>>,
    /// The newest steps in a line each (other modes).
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
    gap_opened: Option<OpenGap>,
    #[serde(skip_serializing_if = "none")]
    gap_closed: Option<OpenGap>,
    /// standard or thorough, when asked for.
    #[serde(skip_serializing_if = "none")]
    depth: Option<&'static str>,
    /// What the sources cover.
    #[serde(skip_serializing_if = "none")]
    coverage: Option<CoverageOut>,
    /// What to look for next.
    #[serde(skip_serializing_if = "none")]
    refinement_queries: Option<Vec<String>>,
    /// How many of each list are not shown.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    left_out: BTreeMap<String, u64>,
    /// Cursors of lists that did not fit: send one to get_research_session as cursor.
    #[serde(skip_serializing_if = "none")]
    cursors: Option<CursorsOut>,
    /// Cursor of the next page.
    #[serde(skip_serializing_if = "none")]
    next_cursor: Option<Cursor>,
    /// The words that were looked up.
    #[serde(skip_serializing_if = "none")]
    query: Option<String>,
    /// What matches them, the best first.
    #[serde(skip_serializing_if = "none")]
    matches: Option<Vec<MatchLine>>,
    /// The most informative lines that neither the overview nor matches show.
    #[serde(skip_serializing_if = "none")]
    findings: Option<Vec<String>>,
    /// The first position that was read for them; 0 when all were.
    #[serde(skip_serializing_if = "none")]
    searched_from: Option<Position>,
    /// Whether anything was cut or left out.
    truncated: bool,
    trust: &'static str,
    notice: &'static str,
    /// The session as one text in Markdown, for a model.
    #[serde(skip_serializing_if = "none")]
    text: Option<String>,
}

/// The member of an answer that holds a class.
fn member(class: &str) -> &str {
    match class {
        "last_steps" => "lastSteps",
        "steps" => "stepIndex",
        "rejected" => "rejectedApproaches",
        "error_patterns" => "errorPatterns",
        "provider_stats" => "providerStats",
        class => class,
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

    fn overview(self, view: Overview, full: bool) -> Self {
        let mut answer = self.heads(&view);
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
            left_out.map(|(class, count)| (member(&class).to_owned(), count)).collect();
        answer.last_steps = shown.last_steps.and_then(list);
        answer.gaps = Some(shown.gaps);
        answer.sources = shown.sources.and_then(list);
        answer.rejected_approaches = list(shown.rejected);
        answer.branches = Some(branches);
        answer.error_patterns = Some(patterns).filter(|all| !all.is_empty());
        answer.provider_stats = Some(providers).filter(|all| !all.is_empty());
        answer.activity = talk.map(|talk| ActivityOut::of(talk, shown.recent.unwrap_or_default()));
        answer.cursors = CursorsOut::of(&shown.cursors);
        answer.truncated = shown.truncated;
        answer
    }

    /// The answer to a recorded step: the session, or only the changes by the step.
    pub(crate) fn of_step(answer: RecordedStep, delta: bool, depth: Option<Depth>) -> Self {
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
        made.continues = answer.continues.map(|session| session.to_string());
        made.gap_opened = answer.gap_opened;
        made.gap_closed = answer.gap_closed;
        if let Some((coverage, queries)) = answer.coverage {
            made.depth = depth.map(Depth::as_str);
            made.refinement_queries = Some(queries);
            made.coverage = Some(coverage);
        }
        made
    }

    fn page(mut self, page: PageAnswer) -> Self {
        match page.list {
            List::Steps => self.step_index = Some(page.steps),
            List::Sources => self.sources = list(page.sources),
            List::Gaps => self.gaps = Some(page.gaps),
            List::Rejected => self.rejected_approaches = list(page.rejected),
        }
        self.truncated = page.next_cursor.is_some();
        self.next_cursor = page.next_cursor;
        self
    }

    /// Builds the answer from what was recovered.
    pub(crate) fn of_recovered(found: RecoveredSession) -> Self {
        let RecoveredSession { session, by, continues, recovered } = found;
        let session = &session;
        let made = match recovered {
            Recovered::Overview(mut view) => {
                let text = view.shown.text.take();
                let text = text.map(|text| crate::wire::framed(BRIEF_NOTICE, &text, ""));
                Self { text, ..Self::new(session, by, "summary").overview(*view, false) }
            }
            Recovered::Step(found) => {
                let StepAnswer { step, next_cursor } = *found;
                let mut made = Self::new(session, by, "step");
                made.truncated = step.truncated;
                made.step = Some(step.into());
                made.next_cursor = next_cursor;
                made
            }
            Recovered::Page(page) => Self::new(session, by, "page").page(page),
            Recovered::Found(found) => {
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
