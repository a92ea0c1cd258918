//! Views that are folds, on the wire: usage, compactions, continuations. Lists are never null, an
//! absent member is absent. It must not cut anything: harness has.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    event::Range,
    harness::{Continuation, LeftOut, PlanView, Quote, StepView, Why},
    projection::{Compaction, Level, PlanStep},
    service::{CompactionsView, UsageView},
};

/// How full a model's context window is, as its harness reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsageAnswer {
    /// It is of everything before this position.
    pub position: u64,
    /// Tokens in the context after the last request that was reported; null when none was.
    pub tokens: Option<u64>,
    /// Where that was reported.
    pub reported_position: Option<u64>,
    /// When, RFC 3339.
    pub reported_at: Option<String>,
    /// Tokens that the model takes; 0 when it is not configured.
    pub limit: u64,
    /// Tokens from which on the context should be made smaller.
    pub threshold: u64,
    /// Tokens below the limit that are never used.
    pub margin: u64,
    /// Tokens left before the margin; null without a report.
    pub remaining: Option<u64>,
    /// The reached level: `none`, `threshold` or `limit`.
    pub level: String,
    /// Requests that were reported.
    pub requests: u64,
    /// Tokens that went into them, all together.
    pub input_tokens: u64,
    /// Tokens of these that a cache had.
    pub cached_tokens: u64,
    /// Tokens that came out, all together.
    pub output_tokens: u64,
}

impl From<UsageView> for UsageAnswer {
    fn from(view: UsageView) -> Self {
        let UsageView { usage, monitor, level, position } = view;
        let report = usage.latest;
        Self {
            position: position.0,
            tokens: report.map(|report| report.tokens),
            reported_position: report.map(|report| report.position.0),
            reported_at: report.map(|report| report.at.to_string()),
            limit: monitor.limit,
            threshold: monitor.threshold(),
            margin: monitor.margin,
            remaining: report.map(|report| monitor.full().saturating_sub(report.tokens)),
            level: level.map_or("none", Level::as_str).to_owned(),
            requests: usage.requests,
            input_tokens: usage.input_tokens,
            cached_tokens: usage.cached_tokens,
            output_tokens: usage.output_tokens,
        }
    }
}

/// A compaction of a client's context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CompactionOut {
    /// Where it was recorded.
    pub position: u64,
    /// When, RFC 3339.
    pub at: String,
    /// What caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<String>,
    /// What stayed in the context.
    pub kept: Vec<Range>,
    /// The dropped positions.
    pub dropped: Vec<Range>,
    /// Whether the client named the dropped positions; else all earlier ones that it did not keep.
    pub is_reported: bool,
    /// What the client put in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

impl From<&Compaction> for CompactionOut {
    fn from(one: &Compaction) -> Self {
        Self {
            position: one.position.0,
            at: one.at.to_string(),
            trigger: one.trigger.clone(),
            kept: one.kept.clone(),
            dropped: one.dropped.clone(),
            is_reported: one.is_reported,
            summary: one.summary.clone(),
        }
    }
}

/// What a client's compactions took out of its context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CompactionsAnswer {
    /// It is of everything before this position.
    pub position: u64,
    /// How many there were.
    pub count: u64,
    /// The latest ones, oldest first.
    pub compactions: Vec<CompactionOut>,
    /// What is out of the context now; getEvents reads each range back.
    pub lost: Vec<Range>,
    /// Number of these events.
    pub lost_events: u64,
}

impl From<CompactionsView> for CompactionsAnswer {
    fn from(view: CompactionsView) -> Self {
        let CompactionsView { compactions, position } = view;
        Self {
            position: position.0,
            count: compactions.count(),
            compactions: compactions.latest().map(CompactionOut::from).collect(),
            lost: compactions.out().to_vec(),
            lost_events: compactions.out().iter().map(|range| range.len()).sum(),
        }
    }
}

/// A text that may be shown in part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WordOut {
    /// The text.
    pub text: String,
    /// Position of the event that has it, when one has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// Whether it is cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanStepOut {
    /// What is to be done.
    pub text: String,
    /// How far it is, in the harness's word; empty when it does not say.
    pub state: String,
}

/// A plan; steps that are done are left out first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanOut {
    /// Its steps.
    pub steps: Vec<PlanStepOut>,
    /// The one under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// How many of all are done.
    pub done: u64,
    /// How many there are.
    pub total: u64,
}

/// What a tool answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResultOut {
    /// Where it is, whole.
    pub position: u64,
    /// The tool.
    pub tool: String,
    /// What it was asked.
    pub input: String,
    /// Its answer, cut to a limit.
    pub text: String,
    /// Whether it called that an error.
    pub failed: bool,
    /// Position of the latest change of a file that it shows, if that came after it: what it shows
    /// of the file may be old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<u64>,
}

/// One of the last steps of a research.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastStepOut {
    /// Its number.
    pub number: u64,
    /// Its branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// What was done and found.
    pub description: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// `high`, `medium` or `low`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<String>,
    /// What it ruled out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<String>,
    /// Number of the step that supersedes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<u64>,
    /// Whether text is missing here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

impl From<StepView> for LastStepOut {
    fn from(step: StepView) -> Self {
        Self {
            number: step.number,
            branch: step.branch_id,
            description: step.description,
            reasoning: step.reasoning,
            confidence: step.confidence.map(|sure| sure.as_str().to_owned()),
            rejected: step.rejected,
            superseded_by: step.superseded_by,
            truncated: step.truncated,
        }
    }
}

/// Why an item is in a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WhyOut {
    /// Its class, by its name in the view.
    pub class: String,
    /// Position of the event that has it, when one has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// Its beginning.
    pub text: String,
    /// How much of it is shown: `line`, `short` or `whole`.
    pub form: String,
    /// Its score; 0 for an indispensable item.
    pub score: u64,
    /// The reason in words.
    pub why: String,
}

impl From<Why> for WhyOut {
    fn from(why: Why) -> Self {
        Self {
            class: why.class.to_owned(),
            position: why.position.map(|position| position.0),
            text: why.text,
            form: why.form.to_owned(),
            score: why.score,
            why: why.why,
        }
    }
}

impl From<Quote> for WordOut {
    fn from(quote: Quote) -> Self {
        Self {
            text: quote.cut.text,
            position: quote.position.map(|position| position.0),
            truncated: quote.cut.truncated,
        }
    }
}

impl From<PlanView> for PlanOut {
    fn from(plan: PlanView) -> Self {
        let step = |step: PlanStep| PlanStepOut { text: step.text, state: step.state };
        Self {
            steps: plan.steps.into_iter().map(step).collect(),
            current: plan.current,
            done: plan.done,
            total: plan.total,
        }
    }
}

/// How many of each class a view does not tell, by its name in the view.
#[must_use]
pub fn left_out(all: &[LeftOut]) -> BTreeMap<String, u64> {
    all.iter().map(|one| (one.class.to_owned(), one.count)).collect()
}

/// Everything that an agent needs to continue. The names are of one word, the same in every
/// interface; a list that is empty is absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Continuing {
    /// It is of everything before this position.
    pub position: u64,
    /// The first request of the user; without one the goal of the research.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<WordOut>,
    /// What the research is for, where the task is another text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// Messages of the user after the task, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<WordOut>,
    /// The plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanOut>,
    /// What to do next.
    pub next: Vec<String>,
    /// Commands and tests that failed and were not mended, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// Those that were mended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mended: Vec<String>,
    /// Files that were changed, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Calls that changed something else, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// The last steps of the research.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_steps: Vec<LastStepOut>,
    /// The steps before these, one line each, as many as fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// Sentences of steps and messages that say most; `[3]` is a step, `@17` a position.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
    /// Approaches that were ruled out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<String>,
    /// What is not known yet.
    pub gaps: Vec<String>,
    /// Sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// Branches of the research.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<String>,
    /// What is done.
    pub done: Vec<String>,
    /// What was tried.
    pub tried: Vec<String>,
    /// What failed, in the words of the agent.
    pub failed: Vec<String>,
    /// The last results of tools.
    pub results: Vec<ResultOut>,
    /// The caller's own summary.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// The last message of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<WordOut>,
    /// Messages of the agent before the last one, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<WordOut>,
    /// How many items of each list are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<String, u64>,
    /// Tokens of all of this as one text.
    pub tokens: u64,
    /// Whether anything was cut or left out.
    pub truncated: bool,
    /// Why each item is shown, when asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<WhyOut>,
}

impl From<Continuation> for Continuing {
    fn from(view: Continuation) -> Self {
        let results = view.results.into_iter().map(|one| ResultOut {
            position: one.position.0,
            tool: one.tool,
            input: one.input,
            text: one.text,
            failed: !one.ended.is_empty(),
            changed_at: one.changed_at.map(|at| at.0),
        });
        Self {
            position: view.position.0,
            task: view.task.map(WordOut::from),
            goal: view.goal.map(|goal| goal.cut.text),
            instructions: view.instructions.into_iter().map(WordOut::from).collect(),
            plan: view.plan.map(PlanOut::from),
            next: view.next,
            failures: view.failures,
            mended: view.mended,
            files: view.files,
            changes: view.changes,
            last_steps: view.last_steps.into_iter().map(LastStepOut::from).collect(),
            steps: view.steps,
            findings: view.findings,
            rejected: view.rejected,
            gaps: view.gaps,
            sources: view.sources,
            branches: view.branches,
            done: view.done,
            tried: view.tried,
            failed: view.failed,
            results: results.collect(),
            summary: view.summary,
            answer: view.answer.map(WordOut::from),
            messages: view.messages.into_iter().map(WordOut::from).collect(),
            left_out: left_out(&view.left_out),
            tokens: view.tokens as u64,
            truncated: view.truncated,
            why: view.why.into_iter().map(WhyOut::from).collect(),
        }
    }
}

/// How to continue a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContinuationAnswer {
    /// The view.
    #[serde(flatten)]
    pub view: Continuing,
    /// The budget.
    pub tokens_max: u64,
    /// All of it as one text in Markdown, when asked for: the answer then is that text.
    #[serde(skip)]
    pub text: Option<String>,
}

impl From<Continuation> for ContinuationAnswer {
    fn from(view: Continuation) -> Self {
        let tokens_max = view.tokens_max as u64;
        Self { view: view.into(), tokens_max, text: None }
    }
}
