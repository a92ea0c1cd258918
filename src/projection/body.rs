//! Bodies of the research events and of checkpoints, read and written in one place so that both
//! stay equal. Reading ignores unknown members and is strict about known ones: a body that does not
//! fit is `None`, never a panic. It must not depend on positions or sessions.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{
    api::step::Confidence,
    event::{Position, Range, json},
};

/// `research.goal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoalBody {
    /// Aim of the research.
    pub goal: String,
    /// The step that brought it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// That step's branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_id: Option<String>,
}

/// `research.step`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepBody {
    /// 1-based number on its line.
    pub number: u64,
    /// Work of the step and its result.
    pub description: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// Confidence of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// Attempts and considerations that were ruled out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<String>,
    /// Revision flag, if the caller set it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_revision: bool,
    /// Number of the step it supersedes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revises: Option<u64>,
    /// The branch it is on; absent on the main line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_id: Option<String>,
    /// The step its branch left from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_from: Option<u64>,
    /// Number of steps the caller expects in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_steps_estimate: Option<u64>,
    /// True if the caller marks it as the last.
    #[serde(default, rename = "final", skip_serializing_if = "is_false")]
    pub is_final: bool,
}

/// `research.gap_opened` and `research.gap_closed`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapBody {
    /// Name of the gap, unique in the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_id: Option<String>,
    /// The open question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The step that opened or closed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// That step's branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_id: Option<String>,
}

/// `research.summary`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryBody {
    /// The caller's words.
    pub summary: String,
    /// The step that brought it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// That step's branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_id: Option<String>,
}

/// The `found_by` of a source that the server found in a result of a tool.
pub const BY_SERVER: &str = "server";

/// `source.found`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceBody {
    /// Its address.
    pub url: String,
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its kind, for example `scraped` or `academic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The step that met it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Recorder: `server` or `model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_by: Option<String>,
    /// The tool whose result names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Positions of the call and the result in which the server found it: it goes with each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<u64>,
}

impl SourceBody {
    /// True if the server found it in a result of a tool.
    #[must_use]
    pub fn is_by_server(&self) -> bool {
        self.found_by.as_deref() == Some(BY_SERVER)
    }
}

/// Ranges of positions in the clients' notations: `{"from": 1, "to": 5}` or `[1, 5]`, one or a
/// list. Anything else is skipped.
#[must_use]
pub fn ranges(json: &str) -> Vec<Range> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum RangeForm {
        Named { from: u64, to: u64 },
        Pair(u64, u64),
        Other(serde::de::IgnoredAny),
    }
    let range = |one: RangeForm| match one {
        RangeForm::Named { from, to } | RangeForm::Pair(from, to) => {
            Some(Range::new(Position(from), Position(to))).filter(|range| !range.is_empty())
        }
        RangeForm::Other(_) => None,
    };
    let Some(json) = json::tree(json) else { return Vec::new() };
    let one = || serde_json::from_str::<RangeForm>(json).ok().and_then(range);
    if let Some(range) = one() {
        return vec![range];
    }
    let list: Vec<RangeForm> = serde_json::from_str(json).unwrap_or_default();
    list.into_iter().filter_map(range).collect()
}

/// `context.threshold`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThresholdBody {
    /// Tokens in the context.
    pub tokens: u64,
    /// The model's limit.
    pub limit: u64,
    /// Level that was crossed: `threshold` or `limit`.
    pub level: String,
}

/// `outcome.recorded`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeBody {
    /// Attempts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<String>,
    /// Attempts that worked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worked: Vec<String>,
    /// Attempts that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
    /// Next things to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<String>,
}

/// A range of positions in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeBody {
    /// First position in the range.
    pub from: u64,
    /// First position after it.
    pub to: u64,
}

impl From<Range> for RangeBody {
    fn from(range: Range) -> Self {
        Self { from: range.from.0, to: range.to.0 }
    }
}

/// `memory.item`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryBody {
    /// `episodic`, `semantic`, `procedural` or `working`.
    pub kind: String,
    /// The text to remember.
    pub text: String,
    /// Its tags, for lookups.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Its topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// 1 to 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub importance: Option<u8>,
    /// Its name: an item of the same name supersedes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Id of the item that it supersedes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<String>,
    /// The positions of the events it replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positions: Option<RangeBody>,
    /// Place it was written from, when that is another session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<PlaceBody>,
}

/// A place in a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceBody {
    /// Id of the session.
    pub session: String,
    /// The position of its next event then.
    pub position: u64,
}

/// `memory.paged_in`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PagedInBody {
    /// Blocks given to a model.
    pub blocks: Vec<PagedBlockBody>,
    /// Tokens of it, about.
    pub tokens: u64,
    /// By what: `model`, which asked for it, `window` or `hook`.
    pub by: String,
    /// The words it was found by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
}

/// A block that a model was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PagedBlockBody {
    /// Its session, when that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Its positions.
    pub positions: RangeBody,
    /// Id of the item of memory that it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
}

/// `memory.forgotten`, `graph.relationship_removed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgottenBody {
    /// Id of the item, or of the relation.
    pub of: String,
}

/// `event.marked`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkBody {
    /// Id of the event.
    pub of: String,
    /// `important`, `wrong` or `done`.
    pub mark: String,
    /// The position of the event, by which views know what is marked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// 1 to 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub importance: Option<u8>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// `graph.entity_upserted`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntityBody {
    /// Its type.
    pub entity_type: String,
    /// Its id, one of its type.
    pub entity_id: String,
    /// Change of its properties: a merge patch (RFC 7396).
    #[serde(default)]
    pub properties: serde_json::Map<String, serde_json::Value>,
}

/// `graph.relationship_created`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelationBody {
    /// Its type.
    pub relation_type: String,
    /// Id of the entity that it begins at.
    pub from_id: String,
    /// Id of the entity that it leads to.
    pub to_id: String,
    /// Its properties.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub properties: serde_json::Map<String, serde_json::Value>,
}

/// `graph.entity_removed`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntityRemovedBody {
    /// Its type.
    pub entity_type: String,
    /// Its id, one of its type.
    pub entity_id: String,
}

/// `context.item`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextItemBody {
    /// The client's name for it: a later item of that name takes its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_id: Option<String>,
    /// `code`, `file`, `data`, `concept`, `task` or another.
    pub category: String,
    /// Text of the item.
    pub content: String,
    /// 1 to 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub importance: Option<u8>,
}

/// `file.referenced`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileBody {
    /// Its path.
    pub path: String,
    /// Hash of its bytes, as `blake3:` and hexadecimal digits, or in the client's own form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// When it was changed last: RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_at: Option<String>,
    /// Its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// `workspace.state`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StateBody {
    /// Any object.
    pub state: serde_json::Map<String, serde_json::Value>,
}

/// `session.saved`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedBody {
    /// Tokens of the conversation, as the client counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Context items of the same call.
    pub items: u64,
    /// File references of the same call.
    pub files: u64,
    /// The conversation, in the client's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}

/// `session.restored`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredBody {
    /// The session that this one continues, and the position up to which it was read.
    pub from: PlaceBody,
    /// Tokens that the answer might have.
    pub tokens_max: u64,
    /// Parts of it that were given, in the order of choice.
    pub chosen: Vec<GivenBody>,
    /// Weights of its parts.
    pub weights: std::collections::BTreeMap<String, u64>,
}

/// An item that a restore gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenBody {
    /// Its class, and the position or place of it.
    pub id: String,
    /// Its score; 0 for an indispensable item.
    pub score: u64,
    /// `line`, `short`, `bare`, `squeezed` or `whole`.
    pub form: String,
}

/// `context.compacted`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactedBody {
    /// Cause of the compaction.
    pub trigger: String,
    /// Positions that stayed in the context.
    pub kept: Vec<RangeBody>,
    /// Positions that left it.
    pub dropped: Vec<RangeBody>,
    /// The text in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// Cause of a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// The user asked for it.
    #[default]
    Manual,
    /// A tool answered.
    ToolCall,
    /// It was time.
    Timer,
    /// The window was full.
    Limit,
    /// The session was resumed from another checkpoint and continues from there.
    Resume,
}

impl Trigger {
    /// As clients see it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::ToolCall => "tool_call",
            Self::Timer => "timer",
            Self::Limit => "limit",
            Self::Resume => "resume",
        }
    }
}

/// Body of a checkpoint's note. Absent members are those of the previous checkpoint of its thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckpointBody {
    /// Cause of the checkpoint.
    #[serde(rename = "by", skip_serializing_if = "is_manual")]
    pub trigger: Trigger,
    /// Name a person gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The line of work it belongs to; absent for the main one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The checkpoint it follows, when that is not the one before it on its thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Change of the parent's state: a merge patch (RFC 7396).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta: Option<serde_json::Map<String, serde_json::Value>>,
    /// The whole state, so that no reader needs an earlier checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<serde_json::Map<String, serde_json::Value>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_manual(trigger: &Trigger) -> bool {
    *trigger == Trigger::Manual
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(value: &bool) -> bool {
    !value
}

/// The body, if it has that shape.
#[must_use]
pub fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Option<T> {
    serde_json::from_slice(body).ok()
}

/// The body, if it has that shape and a tree of it may be built: for shapes with parts of any form.
#[must_use]
pub fn read_tree<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Option<T> {
    read(json::tree(std::str::from_utf8(body).ok()?)?.as_bytes())
}

/// The body as stored. Equal values give equal bytes, by which a retry is recognised.
#[must_use]
pub fn write<T: Serialize>(body: &T) -> Bytes {
    let text = serde_json::to_vec(body).expect("research bodies hold no map with foreign keys");
    Bytes::from(text)
}
