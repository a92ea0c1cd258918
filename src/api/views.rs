//! Views that are folds of a session: usage, compactions, the continuation, and the parts that
//! views have in common. Lists are never null, an absent member is absent. It must not cut
//! anything: harness does.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::step::LastStepOut;
use crate::event::{Position, Range, Timestamp};

/// How full a model's context window is, as its harness reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsageAnswer {
    /// It is of everything before this position.
    pub position: Position,
    /// Tokens in the context after the last request that was reported; null when none was.
    pub tokens: Option<u64>,
    /// Where that was reported.
    pub reported_position: Option<Position>,
    /// When, RFC 3339.
    pub reported_at: Option<Timestamp>,
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

/// A compaction of a client's context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CompactionOut {
    /// Where it was recorded.
    pub position: Position,
    /// When, RFC 3339.
    pub at: Timestamp,
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

/// What a client's compactions took out of its context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CompactionsAnswer {
    /// It is of everything before this position.
    pub position: Position,
    /// How many there were.
    pub count: u64,
    /// The latest ones, oldest first.
    pub compactions: Vec<CompactionOut>,
    /// What is out of the context now; getEvents reads each range back.
    pub lost: Vec<Range>,
    /// Number of these events.
    pub lost_events: u64,
}

/// A text that may be shown in part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WordOut {
    /// The text.
    pub text: String,
    /// Position of the event that has it, when one has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
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
    pub position: Position,
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
    pub changed_at: Option<Position>,
}

/// Why an item is in a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WhyOut {
    /// Its class, by its name in the view.
    pub class: String,
    /// Position of the event that has it, when one has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// Its beginning.
    pub text: String,
    /// How much of it is shown: `line`, `short` or `whole`.
    pub form: String,
    /// Its score; 0 for an indispensable item.
    pub score: u64,
    /// The reason in words.
    pub why: String,
}

/// Everything that an agent needs to continue. The names are of one word, the same in every
/// interface; a list that is empty is absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Continuing {
    /// It is of everything before this position.
    pub position: Position,
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
