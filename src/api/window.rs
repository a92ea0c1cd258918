//! A window as it is asked for, and its answer: its form, what it leaves out and why, what it
//! recalls. `wire` writes the messages, in the formats of two model APIs. It must not choose,
//! cut or count anything: harness does.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};

use super::scalar::{Word, schema_of};
use crate::event::{Position, SessionId};

/// The form in which a window shows what it chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// Events as they are kept.
    #[default]
    Events,
    /// Messages of Anthropic's API.
    Anthropic,
    /// Messages of OpenAI's chat API.
    OpenAi,
}

schema_of!(Shape, String);

impl Shape {
    /// The shape of that name.
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

/// Where a window recalls from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecallFrom {
    /// The session, and what it has of its parents.
    #[default]
    Line,
    /// Nowhere.
    #[serde(rename = "none")]
    Nowhere,
    /// Also the other sessions of its workspace: what was said there, and items of memory.
    Workspace,
}

schema_of!(RecallFrom, String);

impl RecallFrom {
    /// The place of that name.
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

/// Why a window recalls nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unrecalled {
    /// Searching is turned off.
    SearchOff,
    /// The index does not have yet what the window leaves out.
    IndexBehind,
    /// Too many searches are under way.
    Busy,
    /// Nothing that is left out speaks of the work in hand, or fits.
    NothingFits,
}

schema_of!(Unrecalled, String);

/// Why positions are not in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// They come before the requested beginning of the window.
    Before,
    /// The budget ended before them.
    Budget,
    /// A transform left them out.
    Filtered,
    /// They have no text for a model.
    NotAMessage,
    /// They are no part of the conversation any more.
    Withdrawn,
}

schema_of!(Reason, String);

/// The parameters of a window, as clients write them.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WindowQuery {
    /// Tokens at most; what the token monitor leaves by default
    #[schemars(range(min = 64, max = 4_000_000))]
    pub tokens_max: Option<usize>,
    #[doc = "What is done on the way, in this order: \
             `compress[:whitespace,comments,elide,keep=N,tokens=N]`, \
             `filter[:types=A|B,drop=A|B,duplicates]`, `reorder[:slack=PERCENT]`, \
             `annotate[:times]`"]
    #[serde(rename = "transforms[]")]
    #[schemars(length(max = 100))]
    pub transforms: Vec<String>,
    /// `events` (the default), `anthropic` or `openai`
    pub format: Option<String>,
    /// Point: nothing before it, for a window that continues an earlier one
    pub from: Option<String>,
    /// The tokenizer: `o200k_base`, or `claude`, which is a bound; that of the format by default
    pub tokenizer: Option<String>,
    /// Point: as of then
    pub at: Option<String>,
    #[doc = "What it gives of what is left out: `line` (the default), a brief and passages of \
             the session; `workspace`, also passages of what was said in other sessions of its \
             workspace, and items of memory; `none`"]
    pub recall: Option<String>,
    #[doc = "Tokens of what is recalled at most, up to half of the budget; by default a third of \
             it, at most 4 000, and none where that is less than 400"]
    pub recall_tokens: Option<usize>,
}

/// Positions that a window does not show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DroppedRange {
    /// First position that is not shown.
    pub from: Position,
    /// First position after them.
    pub to: Position,
    /// `budget`, `filtered`, `not_a_message`, `withdrawn`: no part of the conversation any more, or
    /// `before`: before the requested begin.
    pub reason: Word<Reason>,
}

/// Why a window shows nothing of a session that has events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EmptyWindow {
    /// The types of events that a model reads as messages.
    pub renders: Vec<String>,
    /// The events of this session that were looked at, by their types.
    pub left_out: Vec<TypeCount>,
}

/// How many events are of a type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TypeCount {
    /// The type.
    #[serde(rename = "type")]
    pub kind: String,
    /// How many.
    pub count: u64,
}

/// What a window shows of the rest of the log: a message before the latest one of the user, behind
/// the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WindowRecall {
    /// `line`, or `workspace`.
    pub from: Word<RecallFrom>,
    /// Tokens of it, which are a part of the window's.
    pub tokens: usize,
    /// Tokens of it at most.
    pub tokens_max: usize,
    /// Why no passage is recalled: `nothing_fits`, `index_behind`, `search_off` or `busy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<Word<Unrecalled>>,
    /// The message, with format `events`: no event is made of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A passage that a window recalls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecalledPassage {
    /// Its session, when it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Its position.
    pub position: Position,
    /// How well it fits, beside others of the same session or of other ones.
    pub score: f64,
}

/// The window view of a session.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct WindowAnswer {
    /// `events`, `anthropic` or `openai`.
    pub format: Shape,
    /// It is of everything before this position.
    pub position: Position,
    /// The events; with format `events`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<super::events::Event>>")]
    pub events: Option<Vec<Box<RawValue>>>,
    /// The system prompt; with format `anthropic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<Map<String, Value>>>")]
    pub system: Option<Vec<Value>>,
    /// The conversation, in the format of that API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<Map<String, Value>>>")]
    pub messages: Option<Vec<Value>>,
    /// What it costs at most.
    pub tokens: usize,
    /// The budget.
    pub tokens_max: usize,
    /// By whose count: `o200k_base` or `claude`.
    pub tokenizer: String,
    /// Every position before `position` that is not shown, in order.
    pub dropped: Vec<DroppedRange>,
    /// Positions that are shown in part.
    pub shortened: Vec<Position>,
    /// Why there is no message, where the session has events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty: Option<EmptyWindow>,
    /// What it shows of the rest of the log, where it leaves something out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recall: Option<WindowRecall>,
    /// The passages in that, in the order of the log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recalled: Vec<RecalledPassage>,
}
