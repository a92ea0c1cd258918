//! Rows of a session for a person, one for each event, and the strip that shows all of a session at
//! a glance. It must not interpret an event: `harness` and `projection` do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{events::Gap, is_zero};
use crate::event::{EventId, Position, Timestamp};

/// Kind of a row.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
    /// A message that a person typed.
    User,
    /// A message of the agent.
    Agent,
    /// Thoughts of the model.
    Thinking,
    /// A call of a tool.
    Call,
    /// The result of a call.
    Result,
    /// Text that a program gave to the model.
    Injected,
    /// A compaction of the context, or another removal from it.
    Compaction,
    /// Work saved for a later session, or restored from an earlier one.
    Checkpoint,
    /// An item of memory.
    Memory,
    /// A plan, a finding, a source, an entity or another recorded change; also an event of a type
    /// that this program does not know.
    Change,
    /// A status, a measure or a note of a program.
    Status,
}

impl RowKind {
    /// Every kind.
    pub const ALL: [Self; 11] = [
        Self::User,
        Self::Agent,
        Self::Thinking,
        Self::Call,
        Self::Result,
        Self::Injected,
        Self::Compaction,
        Self::Checkpoint,
        Self::Memory,
        Self::Change,
        Self::Status,
    ];

    /// Returns the name that clients see.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Agent => "agent",
            Self::Thinking => "thinking",
            Self::Call => "call",
            Self::Result => "result",
            Self::Injected => "injected",
            Self::Compaction => "compaction",
            Self::Checkpoint => "checkpoint",
            Self::Memory => "memory",
            Self::Change => "change",
            Self::Status => "status",
        }
    }

    /// Parses a name that clients see.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// An event as a person reads it in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// Position of the event.
    pub position: Position,
    /// Id of the event.
    pub id: EventId,
    /// Type of the event.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Time of the event: the client's, else that of the append; RFC 3339.
    pub at: Timestamp,
    /// Kind of the row.
    pub kind: RowKind,
    /// True if a person usually does not read it: spans, hooks, most statuses.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bookkeeping: bool,
    /// Origin of the event.
    pub origin: String,
    /// Name of the thread of the subagent that it belongs to; absent for the session's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// Its text in one line of at most 160 characters.
    pub line: String,
    /// Bytes of its body.
    pub bytes: u64,
    /// Name of the tool, of a call and of its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// Position of the call's result, if it follows within 500 positions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Position>,
    /// Position of the result's call, if it precedes it within 500 positions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Position>,
    /// Outcome of the call in a word: tests, exit code, refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Duration of the call in milliseconds, if it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// True if the call failed, or if the event is an error.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: bool,
    /// Lines that an edit adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added: Option<u64>,
    /// Lines that an edit removes; absent where a whole text replaces another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<u64>,
    /// Path of the file that a call reads or changes, relative to the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Tokens in the context after a request to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Position of the compaction that took the event out of the model's context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<Position>,
    /// Content of a message of the user or the agent, where it was asked for and is not too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Value>,
}

/// Rows of a range of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RowsAnswer {
    /// Rows by ascending position: one for each event, or those that the filter selects.
    pub rows: Vec<Row>,
    /// Value of `from` for the next request.
    pub next_position: Position,
    /// Position that the session's next event will get.
    pub tail: Position,
    /// True if the whole range was read; else the limit, or the maximum of examined events, was
    /// reached at `next_position`.
    pub complete: bool,
    /// Positions of the range that cannot be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
}

/// A session at a glance: counts of its events by place, and the places that stand out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StripAnswer {
    /// First position: that of the request, or an earlier one at which a bucket can begin.
    pub from: Position,
    /// First position after the range, like `from` a place where a bucket can end.
    pub to: Position,
    /// Position that the session's next event will get.
    pub tail: Position,
    /// Positions of a bucket.
    pub width: u64,
    /// Buckets from `from` to `to`, without a hole.
    pub buckets: Vec<StripBucket>,
    /// Places that stand out, by position.
    pub marks: Vec<StripMark>,
    /// Context limit of the model in tokens; 0 if it is not configured.
    pub limit: u64,
    /// Tokens from which on the context should be reduced.
    pub threshold: u64,
    /// True if every event and every mark of the range is in the answer.
    pub complete: bool,
}

/// Counts of the events of some positions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StripBucket {
    /// First position of the bucket.
    pub from: Position,
    /// Time of its first event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Messages that a person typed.
    pub user: u64,
    /// Messages and thoughts of the agent.
    pub agent: u64,
    /// Calls of tools.
    pub calls: u64,
    /// Failed calls, at their results, and errors.
    pub failed: u64,
    /// All other events, results included.
    pub other: u64,
    /// Highest number of tokens in the context of the session's own thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Tokens that the model wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
}

/// Kind of a place that stands out.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum StripMarkKind {
    /// The context was compacted.
    Compaction,
    /// A checkpoint was made.
    Checkpoint,
    /// The context was cleared, or a person went back to an earlier message.
    Clear,
    /// The session was forked from another one, or another one from it.
    Fork,
    /// Events cannot be read.
    Gap,
    /// A program gave text to the model.
    Injected,
}

/// A place that stands out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StripMark {
    /// Position of the event, or of the first event after the mark.
    pub position: Position,
    /// Kind of the mark.
    pub kind: StripMarkKind,
    /// Description in a line.
    pub label: String,
}
