//! Remembered answers of tools: which is wanted, which were found, and how many there are. It must
//! not choose one: service has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

/// A call that need not be made again, perhaps.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LookupRequest {
    /// The tool's server, as its calls were recorded.
    #[serde(default)]
    pub server: Option<String>,
    /// The tool.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Its input; the order of members is ignored.
    #[serde(default)]
    pub input: Value,
    /// How old an answer may be; any age when not said.
    #[serde(default)]
    pub max_age_seconds: Option<u64>,
    /// Tokens of answers that are remembered, the oldest forgotten first; 4 000 when not said.
    #[serde(default)]
    #[schemars(range(max = 1_000_000))]
    pub tokens_max: Option<usize>,
}

/// What is remembered of a session's tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryFigures {
    /// Answers within the budget.
    pub count: usize,
    /// About how many tokens they take.
    pub tokens: usize,
    /// The budget.
    pub tokens_max: usize,
    /// Answers that the budget left out, the oldest.
    pub trimmed: usize,
    /// How often an answer stood for a call.
    pub hits: u64,
}

/// An answer from the log, or why there is none.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct LookupAnswer {
    /// Whether a remembered answer is used for the call.
    pub hit: bool,
    /// Without a hit: `unknown`, `too_old`, `trimmed`, or `stale` (an error, not kept whole, or
    /// something was changed at its server since).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How old the answer is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// The `agent.tool_result` event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<super::events::Event>")]
    pub result: Option<Box<RawValue>>,
    /// How often it stood for a call before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hits: Option<u64>,
    /// What is remembered in all.
    pub remembered: MemoryFigures,
    /// Marks recorded text as data.
    pub trust: String,
    /// The same in words.
    pub notice: String,
}

/// A call and its answer.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct OutputOut {
    /// The event of the call.
    #[schemars(with = "super::events::Event")]
    pub call: Box<RawValue>,
    /// The event of the result.
    #[schemars(with = "super::events::Event")]
    pub result: Box<RawValue>,
    /// About how many tokens its text takes.
    pub tokens: usize,
}

/// What tools answered, within a budget.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct OutputsAnswer {
    /// Calls with their answers, the oldest first.
    pub outputs: Vec<OutputOut>,
    /// What is remembered in all.
    pub remembered: MemoryFigures,
    /// Marks recorded text as data.
    pub trust: String,
    /// The same in words.
    pub notice: String,
}
