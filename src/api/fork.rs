//! Forks and differences as clients ask for them and read them: the lineage of a session, and what
//! came between two of its points. It must not compare anything.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::{Position, Range};

/// A fork to be made.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ForkRequest {
    /// The point it begins at: events before it belong to both sessions, with a step that it names.
    #[serde(deserialize_with = "crate::api::point::text")]
    #[schemars(schema_with = "crate::api::point::schema")]
    pub at: String,
    /// The client's id for it; the server gives one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"))]
    pub id: Option<String>,
    /// A line for people; the parent's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// Who has positions in common with a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lineage {
    /// The session.
    pub session: String,
    /// The sessions it reads from, its parent first; 1 000 at most.
    pub ancestors: Vec<Kin>,
    /// How many there are.
    pub depth: u64,
    /// Its forks, by their ids; 1 000 at most.
    pub children: Vec<Kin>,
    /// How many there are. When the session is erased they lose what they have of it.
    pub forks: u64,
}

/// A session that another one reads from, or that reads from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Kin {
    /// Its id.
    pub id: String,
    /// A line for people, while it answers.
    pub title: Option<String>,
    /// `alive`; `expired` or `deleted`, and its forks read from it all the same; or `erased`.
    pub stage: String,
    /// The position at which the younger of the two begins.
    pub position: u64,
    /// The position its next event will get.
    pub tail: u64,
    /// Bytes of its own records.
    pub bytes: u64,
}

/// What came between two points of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffAnswer {
    /// The earlier point.
    pub from: Position,
    /// The later one.
    pub to: Position,
    /// The events between them; getEvents with the same `from` and `to` has them in full.
    pub events: EventsDiff,
    /// What the facts have more at the later point.
    pub facts: FactsChange,
    /// What a model sees at one of the points and not at the other.
    pub window: WindowChange,
}

/// The windows of two points, compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WindowChange {
    /// The budget of both.
    pub tokens_max: usize,
    /// By whose count: `o200k_base` or `claude`.
    pub tokenizer: String,
    /// The window of the earlier point.
    pub from: WindowSize,
    /// The window of the later one.
    pub to: WindowSize,
    /// What the later window shows and the earlier does not.
    pub entered: Places,
    /// What the earlier window shows and the later does not: getEvents reads it back.
    pub left: Places,
    /// What the earlier window shows in full and the later in part.
    pub shortened: Places,
}

/// How large a window is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WindowSize {
    /// Events it shows.
    pub events: u64,
    /// What it costs at most.
    pub tokens: usize,
}

/// Positions as ranges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Places {
    /// The ranges, in order; 1 000 at most.
    pub data: Vec<Range>,
    /// How many positions there are in all.
    pub events: u64,
}

/// The events between two points.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventsDiff {
    /// How many.
    pub count: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// How many of each type; 200 types at most.
    pub types: BTreeMap<String, u64>,
    /// How many of other types.
    pub others: u64,
}

/// What the facts of the later point have that those of the earlier one have not. A list holds what
/// fits the answer, the oldest first; its `total` counts all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FactsChange {
    /// What the session is for, when that changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<TextChange>,
    /// The caller's summary, when that changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<TextChange>,
    /// Whether its latest step said it was the last, when that changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete: Option<bool>,
    /// Steps recorded.
    pub steps: StepNews,
    /// Steps that were there and that a later one revised.
    pub superseded: StepNews,
    /// Gaps opened.
    pub gaps_opened: GapNews,
    /// Gaps closed.
    pub gaps_closed: GapNews,
    /// Sources met for the first time.
    pub sources: SourceNews,
    /// Approaches ruled out.
    pub rejected: RejectedNews,
}

/// A text that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextChange {
    /// What it was.
    pub from: Option<String>,
    /// What it is.
    pub to: Option<String>,
}

/// Lists of what is new, which differ in what they list.
macro_rules! news {
    ($($(#[$doc:meta])* $name:ident of $item:ident,)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
            pub struct $name {
                /// What fits.
                pub data: Vec<$item>,
                /// How many there are.
                pub total: u64,
            }

            impl From<(Vec<$item>, u64)> for $name {
                fn from((data, total): (Vec<$item>, u64)) -> Self {
                    Self { data, total }
                }
            }
        )*
    };
}

news! {
    /// Steps.
    StepNews of DiffStep,
    /// Gaps.
    GapNews of DiffGap,
    /// Sources.
    SourceNews of DiffSource,
    /// Approaches ruled out.
    RejectedNews of DiffRejected,
}

/// A step in a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffStep {
    /// Its number.
    pub step: u64,
    /// Its branch.
    pub branch: Option<String>,
    /// Its description.
    pub line: String,
    /// The step that revised it.
    pub superseded_by: Option<u64>,
}

/// A gap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffGap {
    /// Its name.
    pub id: String,
    /// What is not known.
    pub description: String,
    /// The step that opened it.
    pub step: Option<u64>,
}

/// A source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffSource {
    /// Where it is.
    pub url: String,
    /// What it is called.
    pub title: Option<String>,
    /// The step that met it first.
    pub step: Option<u64>,
}

/// An approach that was ruled out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffRejected {
    /// The approach.
    pub text: String,
    /// The step that ruled it out.
    pub step: Option<u64>,
}
