//! Cached outputs of tools: a lookup, its result, and the size of the cache. It must not choose an
//! output: `service` does.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

/// Lookup of a tool call whose output may be cached.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LookupRequest {
    /// Server of the tool, as its calls were recorded.
    #[serde(default)]
    pub server: Option<String>,
    /// Name of the tool.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Input of the call; the order of members is ignored.
    #[serde(default)]
    pub input: Value,
    /// Maximum age of an output in seconds; any age if omitted.
    #[serde(default)]
    pub max_age_seconds: Option<u64>,
    /// Maximum tokens of the cached outputs, the oldest are dropped first; 4 000 if omitted.
    #[serde(default)]
    #[schemars(range(max = 1_000_000))]
    pub tokens_max: Option<usize>,
}

/// Size of the cached tool outputs of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryFigures {
    /// Number of outputs within the budget.
    pub count: usize,
    /// Estimated tokens of these outputs.
    pub tokens: usize,
    /// Token budget.
    pub tokens_max: usize,
    /// Number of outputs that the budget left out, the oldest.
    pub trimmed: usize,
    /// Number of calls that a cached output replaced.
    pub hits: u64,
}

/// A cached output from the log, or the reason why there is none.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct LookupAnswer {
    /// True if a cached output replaces the call.
    pub hit: bool,
    /// Reason without a hit: `unknown`, `too_old`, `trimmed`, or `stale` (an error, not stored
    /// whole, or something was changed at its server since).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Age of the output in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// The `agent.tool_result` event of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<super::events::Event>")]
    pub result: Option<Box<RawValue>>,
    /// Number of calls that it replaced before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hits: Option<u64>,
    /// Size of all cached outputs.
    pub remembered: MemoryFigures,
    /// Marks recorded text as data.
    pub trust: String,
    /// The marker as a sentence.
    pub notice: String,
}

/// A call and its output.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct OutputOut {
    /// Event of the call.
    #[schemars(with = "super::events::Event")]
    pub call: Box<RawValue>,
    /// Event of the result.
    #[schemars(with = "super::events::Event")]
    pub result: Box<RawValue>,
    /// Estimated tokens of the output's text.
    pub tokens: usize,
}

/// Outputs of tools, within a budget.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct OutputsAnswer {
    /// Calls with their outputs, the oldest first.
    pub outputs: Vec<OutputOut>,
    /// Size of all cached outputs.
    pub remembered: MemoryFigures,
    /// Marks recorded text as data.
    pub trust: String,
    /// The marker as a sentence.
    pub notice: String,
}
