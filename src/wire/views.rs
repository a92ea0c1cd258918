//! Views that are folds, on the wire: usage, compactions, how to go on. Lists are never null, an
//! absent member is absent. It must not cut anything: harness has.

use serde::{Deserialize, Serialize};
#[cfg(feature = "http")]
use utoipa::ToSchema;

use super::types::Range;
use crate::{
    event,
    harness::Continuation,
    projection::{Compaction, Level},
    service::{CompactionsView, UsageView},
};

/// How full a model's context window is, by what its harness reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(ToSchema))]
pub struct UsageAnswer {
    /// It is of everything before this position.
    pub position: u64,
    /// Tokens in the context after the last request that was reported; null when none was.
    pub tokens: Option<u64>,
    /// Where that was reported.
    pub reported_position: Option<u64>,
    /// When, RFC 3339.
    pub reported_at: Option<String>,
    /// Tokens the model takes; 0 when nobody set it.
    pub limit: u64,
    /// Tokens from which on the context should be made smaller.
    pub threshold: u64,
    /// Tokens below the limit that are never used.
    pub margin: u64,
    /// Tokens that are left before the margin; null when nothing was reported.
    pub remaining: Option<u64>,
    /// The level that is reached: `none`, `threshold` or `limit`.
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

fn ranges(all: &[event::Range]) -> Vec<Range> {
    all.iter().map(|range| Range { from: range.from.0, to: range.to.0 }).collect()
}

/// A compaction of a client's context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(ToSchema))]
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
    /// What left it.
    pub dropped: Vec<Range>,
    /// Whether the client said what it dropped; else everything before it that it did not keep.
    pub is_told: bool,
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
            kept: ranges(&one.kept),
            dropped: ranges(&one.dropped),
            is_told: one.is_told,
            summary: one.summary.clone(),
        }
    }
}

/// What a client's compactions took out of its context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(ToSchema))]
pub struct CompactionsAnswer {
    /// It is of everything before this position.
    pub position: u64,
    /// How many there were.
    pub count: u64,
    /// The latest ones, oldest first.
    pub compactions: Vec<CompactionOut>,
    /// What is out of the context now; getEvents reads each range back.
    pub lost: Vec<Range>,
    /// How many events that is.
    pub lost_events: u64,
}

impl From<CompactionsView> for CompactionsAnswer {
    fn from(view: CompactionsView) -> Self {
        let CompactionsView { compactions, position } = view;
        Self {
            position: position.0,
            count: compactions.count(),
            compactions: compactions.latest().map(CompactionOut::from).collect(),
            lost: ranges(compactions.out()),
            lost_events: compactions.out().iter().map(|range| range.len()).sum(),
        }
    }
}

/// A text that may be shown in part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(ToSchema))]
#[cfg_attr(feature = "mcp", derive(schemars::JsonSchema))]
pub struct WordOut {
    /// The text.
    pub text: String,
    /// Where it was said, when one event says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// Whether there is more of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(ToSchema))]
#[cfg_attr(feature = "mcp", derive(schemars::JsonSchema))]
pub struct PlanStepOut {
    /// What is to be done.
    pub text: String,
    /// How far it is, in the harness's word; empty when it does not say.
    pub state: String,
}

/// A plan; steps that are done are left out first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(ToSchema))]
#[cfg_attr(feature = "mcp", derive(schemars::JsonSchema))]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(ToSchema))]
#[cfg_attr(feature = "mcp", derive(schemars::JsonSchema))]
pub struct ResultOut {
    /// Where it is, whole.
    pub position: u64,
    /// The tool.
    pub tool: String,
    /// What it was asked.
    pub input: String,
    /// What it answered, as far as it goes.
    pub text: String,
    /// Whether it called that an error.
    pub failed: bool,
}

/// Everything that is needed to go on. The names are of one word, the same on every door.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(ToSchema))]
#[cfg_attr(feature = "mcp", derive(schemars::JsonSchema))]
pub struct Continuing {
    /// It is of everything before this position.
    pub position: u64,
    /// What it is all for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<WordOut>,
    /// What the user said last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest: Option<WordOut>,
    /// The plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanOut>,
    /// What to do next.
    pub next: Vec<String>,
    /// What is done.
    pub done: Vec<String>,
    /// What was tried.
    pub tried: Vec<String>,
    /// What failed.
    pub failed: Vec<String>,
    /// What is not known yet.
    pub gaps: Vec<String>,
    /// Where the session stands.
    pub summary: String,
    /// The last three results of tools.
    pub results: Vec<ResultOut>,
    /// What all of this costs at most.
    pub tokens: u64,
    /// Whether anything was cut or left out.
    pub truncated: bool,
}

impl From<Continuation> for Continuing {
    fn from(view: Continuation) -> Self {
        let task = view.task.map(|(cut, position)| WordOut {
            text: cut.text,
            position: position.map(|position| position.0),
            truncated: cut.truncated,
        });
        let latest = view.latest.map(|(cut, position)| WordOut {
            text: cut.text,
            position: Some(position.0),
            truncated: cut.truncated,
        });
        let plan = view.plan.map(|plan| PlanOut {
            steps: plan
                .steps
                .into_iter()
                .map(|step| PlanStepOut { text: step.text, state: step.state })
                .collect(),
            current: plan.current,
            done: plan.done,
            total: plan.total,
        });
        let results = view.results.into_iter().map(|one| ResultOut {
            position: one.position.0,
            tool: one.tool,
            input: one.input,
            text: one.text,
            failed: one.is_error,
        });
        Self {
            position: view.position.0,
            task,
            latest,
            plan,
            next: view.next,
            done: view.done,
            tried: view.tried,
            failed: view.failed,
            gaps: view.gaps,
            summary: view.summary,
            results: results.collect(),
            tokens: view.tokens as u64,
            truncated: view.truncated,
        }
    }
}

/// How to go on with a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(ToSchema))]
pub struct ContinuationAnswer {
    /// The view.
    #[serde(flatten)]
    pub view: Continuing,
    /// The budget.
    pub tokens_max: u64,
}

impl From<Continuation> for ContinuationAnswer {
    fn from(view: Continuation) -> Self {
        let tokens_max = view.tokens_max as u64;
        Self { view: view.into(), tokens_max }
    }
}
