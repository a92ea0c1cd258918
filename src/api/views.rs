//! Views that are folds of a session: usage, compactions, the continuation, and the parts that
//! views have in common. Lists are never null, an absent member is left out. It must not truncate
//! anything: `harness` does.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::step::LastStepOut;
use crate::event::{Cost, Position, Range, Timestamp};

/// Fill level of a model's context window, as its harness reports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsageAnswer {
    /// The answer covers all events before this position.
    pub position: Position,
    /// Tokens in the context after the last reported request; null if none was reported.
    pub tokens: Option<u64>,
    /// Position of that report.
    pub reported_position: Option<Position>,
    /// Time of that report, RFC 3339.
    pub reported_at: Option<Timestamp>,
    /// Context limit of the model in tokens; 0 if it is not configured.
    pub limit: u64,
    /// Tokens from which on the context should be reduced.
    pub threshold: u64,
    /// Tokens below the limit that are kept free.
    pub margin: u64,
    /// Tokens left before the margin; null without a report.
    pub remaining: Option<u64>,
    /// Level reached: `none`, `threshold` or `limit`.
    pub level: String,
    /// Totals of the reported requests, those of subagents included.
    #[serde(flatten)]
    pub totals: TokenTotals,
}

/// Tokens of some requests to models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TokenTotals {
    /// Number of requests.
    pub requests: u64,
    /// Input tokens of these requests.
    pub input_tokens: u64,
    /// Input tokens that came from a cache.
    pub cached_tokens: u64,
    /// Output tokens of these requests.
    pub output_tokens: u64,
    /// Cost in US dollars, where the harness reports one with its requests; to the billionth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Cost>,
}

/// Tokens of the requests that have something in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsageShare {
    /// Model, thread, day (UTC, `2026-11-29`), session or workspace. Absent for requests without
    /// one, and for those of the session's own thread; `other` for those beyond the longest list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Tokens of these requests.
    #[serde(flatten)]
    pub totals: TokenTotals,
}

/// Fill level of the model's context window, and what the requests of the session used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionUsage {
    /// Fill level, and the totals of all requests.
    #[serde(flatten)]
    pub context: UsageAnswer,
    /// Tokens by model, in the order in which the models were first used.
    pub by_model: Vec<UsageShare>,
    /// Tokens by thread: the session's own, and one for each subagent.
    pub by_thread: Vec<UsageShare>,
    /// Tokens by day, the oldest first.
    pub by_day: Vec<UsageShare>,
}

/// Tokens that the requests of many sessions used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TotalUsage {
    /// Tokens by what was asked for: the most used first, days the oldest first.
    pub rows: Vec<UsageShare>,
    /// Tokens of all of these requests.
    pub total: TokenTotals,
    /// Number of sessions that were counted.
    pub sessions: u64,
    /// False if there were more sessions than one answer counts: the latest ones were. False, too,
    /// if requests of a session with very many days are left out, as they may be of other days.
    pub complete: bool,
}

/// A subagent of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubagentOut {
    /// Name of its thread: the `session_thread_id` of its events, or, of one that is longer than
    /// 120 characters or no single line, its start and a hash.
    pub thread: String,
    /// Thread of the subagent that called it; absent for one that the session's agent called, and
    /// where the call is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Position of the call that started it, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Position>,
    /// Kind of the subagent, in the harness's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Task that it was given, truncated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// 1 for one that the session's agent called, 2 for one that it called, and so on.
    pub depth: u64,
    /// True between the report of its start and that of its end.
    pub is_running: bool,
    /// Number of its tool calls.
    pub calls: u64,
    /// Number of its failed calls.
    pub failures: u64,
    /// Input and output tokens of its requests to models, as far as they are reported.
    pub tokens: u64,
    /// Position of its first event.
    pub from: Position,
    /// Position after its latest event.
    pub to: Position,
}

/// Subagents of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubagentsAnswer {
    /// The answer covers all events before this position.
    pub position: Position,
    /// Subagents, in the order of their first events; 1 024 at most.
    pub threads: Vec<SubagentOut>,
    /// False if there were more.
    pub complete: bool,
}

/// A compaction of a client's context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CompactionOut {
    /// Position at which it was recorded.
    pub position: Position,
    /// Time at which it was recorded, RFC 3339.
    pub at: Timestamp,
    /// Cause of the compaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<String>,
    /// Positions that stayed in the context.
    pub kept: Vec<Range>,
    /// Positions that were dropped.
    pub dropped: Vec<Range>,
    /// True if the client named the dropped positions; else they are all earlier ones not kept.
    pub is_reported: bool,
    /// Summary that the client put in their place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// Compactions of a client's context, and what they removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CompactionsAnswer {
    /// The answer covers all events before this position.
    pub position: Position,
    /// Number of compactions.
    pub count: u64,
    /// Latest compactions, the oldest first.
    pub compactions: Vec<CompactionOut>,
    /// Positions that are out of the context now; getEvents returns their events.
    pub lost: Vec<Range>,
    /// Number of these events.
    pub lost_events: u64,
}

/// A text that may be truncated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WordOut {
    /// Text, possibly truncated.
    pub text: String,
    /// Position of the event that contains it, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// True if the text is truncated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanStepOut {
    /// Description of the step.
    pub text: String,
    /// State in the harness's own term; empty if it reports none.
    pub state: String,
}

/// A plan; finished steps are left out first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanOut {
    /// Steps of the plan.
    pub steps: Vec<PlanStepOut>,
    /// Step in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// Number of finished steps.
    pub done: u64,
    /// Number of all steps.
    pub total: u64,
}

/// Result of a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResultOut {
    /// Position of the whole result.
    pub position: Position,
    /// Name of the tool.
    pub tool: String,
    /// Input of the tool call.
    pub input: String,
    /// Output of the tool, truncated to a limit.
    pub text: String,
    /// True if the tool reported an error.
    pub failed: bool,
    /// Position of the latest change of a file that it shows, if that came later: the shown content
    /// may be old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<Position>,
}

/// Reason why an item is in a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WhyOut {
    /// Class of the item, by its name in the view.
    pub class: String,
    /// Position of the event that contains it, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// Beginning of the item.
    pub text: String,
    /// Form in which it is shown: `line`, `short` or `whole`.
    pub form: String,
    /// Score of the item; 0 if it is indispensable.
    pub score: u64,
    /// Explanation in words.
    pub why: String,
}

/// Everything that an agent needs to continue. The names are of one word, the same in every
/// interface; an empty list is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContinuationView {
    /// The answer covers all events before this position.
    pub position: Position,
    /// First request of the user; without one the goal of the research.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<WordOut>,
    /// Goal of the research, if the task is another text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// Messages of the user after the task, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<WordOut>,
    /// Current plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanOut>,
    /// Next actions.
    pub next: Vec<String>,
    /// Calls without a result so far, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub begun: Vec<String>,
    /// Commands and tests that failed and have not succeeded since, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// Commands and tests that failed and succeeded later.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mended: Vec<String>,
    /// Changed files, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Calls that changed something other than a file, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// Last steps of the research.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_steps: Vec<LastStepOut>,
    /// Earlier steps, one line each, as many as fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// Most informative sentences of steps and messages; `[3]` is a step, `@17` a position.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
    /// Approaches that were ruled out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<String>,
    /// Open gaps: what is not known yet.
    pub gaps: Vec<String>,
    /// Recorded sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// Branches of the research.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<String>,
    /// Finished work.
    pub done: Vec<String>,
    /// Approaches that were tried.
    pub tried: Vec<String>,
    /// Failures, in the words of the agent.
    pub failed: Vec<String>,
    /// Last results of tools.
    pub results: Vec<ResultOut>,
    /// Summary by the caller.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// Last message of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<WordOut>,
    /// Earlier messages of the agent, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<WordOut>,
    /// Number of items of each list that are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<String, u64>,
    /// Tokens of the whole view as one text.
    pub tokens: u64,
    /// True if anything was truncated or left out.
    pub truncated: bool,
    /// Reason why each item is shown, if requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<WhyOut>,
}

/// Continuation of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContinuationAnswer {
    /// Members of the view.
    #[serde(flatten)]
    pub view: ContinuationView,
    /// Token budget.
    pub tokens_max: u64,
    /// The whole view as one text in Markdown, if requested: then it is the whole answer.
    #[serde(skip)]
    pub text: Option<String>,
}
