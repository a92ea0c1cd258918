//! Remembered answers of tools: which is wanted, and how many there are. It must not choose one:
//! service has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
