//! A window: its parameters, and its answer with its format, what it leaves out and why, and what
//! it recalls. `wire` writes the messages, in the formats of two model APIs. It must not choose,
//! truncate or count anything: `harness` does.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};

use super::scalar::{OpenEnum, schema_of};
use crate::event::{Position, SessionId};

/// Format of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WindowShape {
    /// Events as they are stored.
    #[default]
    Events,
    /// Messages of Anthropic's API.
    Anthropic,
    /// Messages of OpenAI's chat API.
    OpenAi,
}

schema_of!(WindowShape, String);

impl WindowShape {
    /// Parses the name of a format.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "events" => Some(Self::Events),
            "anthropic" => Some(Self::Anthropic),
            "openai" => Some(Self::OpenAi),
            _ => None,
        }
    }
}

/// Scope from which a window recalls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecallFrom {
    /// The session, and what it shares with its parents.
    #[default]
    Line,
    /// No recall.
    #[serde(rename = "none")]
    Nowhere,
    /// Also other sessions of its workspace: what was said there, and items of memory.
    Workspace,
}

schema_of!(RecallFrom, String);

impl RecallFrom {
    /// Parses the name of a scope.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "line" => Some(Self::Line),
            "none" => Some(Self::Nowhere),
            "workspace" => Some(Self::Workspace),
            _ => None,
        }
    }
}

/// Reason why a window recalls nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoRecallReason {
    /// Searching is turned off.
    SearchOff,
    /// The index does not have what the window leaves out yet.
    IndexBehind,
    /// Too many searches are running.
    Busy,
    /// Nothing left out relates to the current work, or fits.
    NothingFits,
}

schema_of!(NoRecallReason, String);

/// Reason why positions are not in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OmissionReason {
    /// They come before the requested beginning of the window.
    Before,
    /// The budget was used up before them.
    Budget,
    /// A transform removed them.
    Filtered,
    /// They have no text for a model.
    NotAMessage,
    /// They are no longer part of the conversation.
    Withdrawn,
}

schema_of!(OmissionReason, String);

/// Parameters of a window.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WindowQuery {
    /// Maximum tokens; by default what the token monitor leaves
    #[schemars(range(min = 64, max = 4_000_000))]
    pub tokens_max: Option<usize>,
    #[doc = "Transforms, applied in this order: \
             `compress[:whitespace,comments,elide,keep=N,tokens=N]`, \
             `filter[:types=A|B,drop=A|B,duplicates]`, `reorder[:slack=PERCENT]`, \
             `annotate[:times]`"]
    #[serde(rename = "transforms[]")]
    #[schemars(length(max = 100))]
    pub transforms: Vec<String>,
    /// Format: `events` (the default), `anthropic` or `openai`
    pub format: Option<String>,
    /// Point before which nothing is shown, for a window that continues an earlier one
    pub from: Option<String>,
    /// Tokenizer: `o200k_base`, or `claude`, which is a bound; that of the format by default
    pub tokenizer: Option<String>,
    /// Point as of which the window is built
    pub at: Option<String>,
    #[doc = "Recall of what is left out: `line` (the default), a brief and passages of \
             the session; `workspace`, also passages of what was said in other sessions of its \
             workspace, and items of memory; `none`"]
    pub recall: Option<String>,
    #[doc = "Maximum tokens of the recall, up to half of the budget; by default a third of \
             it, at most 4 000, and none if that is less than 400"]
    pub recall_tokens: Option<usize>,
}

/// Positions that a window does not show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DroppedRange {
    /// First position that is not shown.
    pub from: Position,
    /// First position after these.
    pub to: Position,
    /// Reason: `budget`, `filtered`, `not_a_message`, `withdrawn` (no longer part of the
    /// conversation), or `before` (before the requested begin).
    pub reason: OpenEnum<OmissionReason>,
}

/// Reason why a window shows nothing of a session that has events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EmptyWindow {
    /// Types of events that a model reads as messages.
    pub renders: Vec<String>,
    /// Events of this session that were inspected, counted by type.
    pub left_out: Vec<TypeCount>,
}

/// Number of events of a type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TypeCount {
    /// Type of the events.
    #[serde(rename = "type")]
    pub kind: String,
    /// Number of events.
    pub count: u64,
}

/// Recall from the rest of the log: a message after the first one and before the latest one of the
/// user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WindowRecall {
    /// Scope of the recall: `line` or `workspace`.
    pub from: OpenEnum<RecallFrom>,
    /// Tokens of the message, included in those of the window.
    pub tokens: usize,
    /// Maximum tokens of the message.
    pub tokens_max: usize,
    /// Reason why no passage is recalled: `nothing_fits`, `index_behind`, `search_off` or `busy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<OpenEnum<NoRecallReason>>,
    /// Text of the message, with format `events`: it is not an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A passage that a window recalls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecalledPassage {
    /// Session of the passage, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Position of the passage.
    pub position: Position,
    /// Relevance, compared with other passages of the same session or of other ones.
    pub score: f64,
}

/// The window view of a session.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct WindowAnswer {
    /// Format: `events`, `anthropic` or `openai`.
    pub format: WindowShape,
    /// The answer covers all events before this position.
    pub position: Position,
    /// Events, with format `events`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<super::events::Event>>")]
    pub events: Option<Vec<Box<RawValue>>>,
    /// System prompt, with format `anthropic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<Map<String, Value>>>")]
    pub system: Option<Vec<Value>>,
    /// Conversation, in the format of that API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<Map<String, Value>>>")]
    pub messages: Option<Vec<Value>>,
    /// Upper bound of the window's tokens.
    pub tokens: usize,
    /// Token budget.
    pub tokens_max: usize,
    /// Tokenizer that counted: `o200k_base` or `claude`.
    pub tokenizer: String,
    /// Positions before `position` that are not shown, in order.
    pub dropped: Vec<DroppedRange>,
    /// Positions that are shown in part.
    pub shortened: Vec<Position>,
    /// Reason why there is no message, if the session has events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty: Option<EmptyWindow>,
    /// Recall from the rest of the log, if the window leaves something out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recall: Option<WindowRecall>,
    /// Recalled passages, in the order of the log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recalled: Vec<RecalledPassage>,
}
