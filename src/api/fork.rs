//! Forks and differences, as clients request and read them: the lineage of a session, and the
//! changes between two of its points. It must not compare anything.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::{Position, Range};

/// Request for a fork.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ForkRequest {
    /// Point of the fork: earlier events, and a step that it names, belong to both sessions.
    #[serde(deserialize_with = "crate::api::point::text")]
    #[schemars(schema_with = "crate::api::point::schema")]
    pub at: String,
    /// Client's id for the fork; the server generates one if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"))]
    pub id: Option<String>,
    /// Title for people; the parent's if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// Sessions that share positions with a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lineage {
    /// Id of the session.
    pub session: String,
    /// Sessions that it reads events from, its parent first; 1 000 at most.
    pub ancestors: Vec<Kin>,
    /// Number of all ancestors.
    pub depth: u64,
    /// Forks of the session, by id; 1 000 at most.
    pub children: Vec<Kin>,
    /// Number of all forks. If the session is erased, they lose the events that they share.
    pub forks: u64,
}

/// A session that another one reads from, or that reads from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Kin {
    /// Id of the session.
    pub id: String,
    /// Title for people, while the session can be read.
    pub title: Option<String>,
    /// `alive`; `expired` or `deleted`, which forks still read from; or `erased`.
    pub stage: String,
    /// Position at which the younger of the two begins.
    pub position: u64,
    /// Position that its next event will get.
    pub tail: u64,
    /// Bytes of its own records, without inherited ones.
    pub bytes: u64,
}

/// Difference between two points of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffAnswer {
    /// Position of the earlier point.
    pub from: Position,
    /// Position of the later point.
    pub to: Position,
    /// Events between them; getEvents with the same `from` and `to` returns them in full.
    pub events: EventsDiff,
    /// Facts that exist only at the later point.
    pub facts: FactsChange,
    /// Events that a model sees at one of the points and not at the other.
    pub window: WindowChange,
}

/// Comparison of the windows at two points.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WindowChange {
    /// Token budget of both windows.
    pub tokens_max: usize,
    /// Tokenizer that counted: `o200k_base` or `claude`.
    pub tokenizer: String,
    /// Size of the window at the earlier point.
    pub from: WindowSize,
    /// Size of the window at the later point.
    pub to: WindowSize,
    /// Positions that only the later window shows.
    pub entered: Places,
    /// Positions that only the earlier window shows; getEvents returns them.
    pub left: Places,
    /// Positions that the earlier window shows in full and the later one in part.
    pub shortened: Places,
}

/// Size of a window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WindowSize {
    /// Number of events in the window.
    pub events: u64,
    /// Upper bound of its tokens.
    pub tokens: usize,
}

/// Positions as ranges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Places {
    /// Ranges of positions, in order; 1 000 at most.
    pub data: Vec<Range>,
    /// Number of all positions.
    pub events: u64,
}

/// The events between two points.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventsDiff {
    /// Number of events.
    pub count: u64,
    /// Bytes of their bodies in total.
    pub bytes: u64,
    /// Number of events of each type; 200 types at most.
    pub types: BTreeMap<String, u64>,
    /// Number of events of the other types.
    pub others: u64,
}

/// Facts of the later point that the earlier one lacks. Each list has as many items as fit the
/// answer, the oldest first; its `total` counts all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FactsChange {
    /// Goal of the session, if it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<TextChange>,
    /// Summary by the caller, if it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<TextChange>,
    /// True if the latest step is marked as the last one; absent if that did not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete: Option<bool>,
    /// Steps recorded between the points.
    pub steps: StepNews,
    /// Earlier steps that were revised between the points.
    pub superseded: StepNews,
    /// Gaps opened between the points.
    pub gaps_opened: GapNews,
    /// Gaps closed between the points.
    pub gaps_closed: GapNews,
    /// Sources recorded for the first time.
    pub sources: SourceNews,
    /// Approaches ruled out between the points.
    pub rejected: RejectedNews,
}

/// A text that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextChange {
    /// Text at the earlier point.
    pub from: Option<String>,
    /// Text at the later point.
    pub to: Option<String>,
}

/// Declares lists of new items, one type for each kind of item.
macro_rules! news {
    ($($(#[$doc:meta])* $name:ident of $item:ident,)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
            pub struct $name {
                /// Items that fit the answer.
                pub data: Vec<$item>,
                /// Number of all items.
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
    /// New or revised steps.
    StepNews of DiffStep,
    /// New or closed gaps.
    GapNews of DiffGap,
    /// New sources.
    SourceNews of DiffSource,
    /// Newly rejected approaches.
    RejectedNews of DiffRejected,
}

/// A step, shortened to a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffStep {
    /// Number of the step.
    pub step: u64,
    /// Branch of the step.
    pub branch: Option<String>,
    /// Description of the step.
    pub line: String,
    /// Number of the step that revised it.
    pub superseded_by: Option<u64>,
}

/// A gap: something that is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffGap {
    /// Id of the gap.
    pub id: String,
    /// Description of what is not known.
    pub description: String,
    /// Number of the step that opened it.
    pub step: Option<u64>,
}

/// A source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffSource {
    /// URL of the source.
    pub url: String,
    /// Title of the source.
    pub title: Option<String>,
    /// Number of the step that first recorded it.
    pub step: Option<u64>,
}

/// An approach that was ruled out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffRejected {
    /// Text of the approach.
    pub text: String,
    /// Number of the step that ruled it out.
    pub step: Option<u64>,
}
