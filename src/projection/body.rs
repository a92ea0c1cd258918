//! Bodies of research events, checkpoints and other events that the server writes, with one reader
//! and one writer. Reading ignores unknown members; a body with a wrong known member is `None`,
//! never a panic. It must not depend on positions or sessions.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{
    api::step::Confidence,
    event::{Position, Range, json},
};

/// Body of `research.goal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoalBody {
    /// Goal of the research.
    pub goal: String,
    /// Number of the step that recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Branch of that step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_id: Option<String>,
}

/// Body of `research.step`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepBody {
    /// 1-based number of the step on its branch or the main line.
    pub number: u64,
    /// Description of the work and its result.
    pub description: String,
    /// Reasoning of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// Confidence of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// Approaches that were ruled out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<String>,
    /// True if the caller marks the step as a revision.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_revision: bool,
    /// Number of the step it supersedes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revises: Option<u64>,
    /// Branch of the step; absent on the main line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_id: Option<String>,
    /// Number of the step from which its branch starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_from: Option<u64>,
    /// Number of steps that the caller expects in total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_steps_estimate: Option<u64>,
    /// True if the caller marks it as the last step.
    #[serde(default, rename = "final", skip_serializing_if = "is_false")]
    pub is_final: bool,
}

/// Body of `research.gap_opened` and `research.gap_closed`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapBody {
    /// Name of the gap, unique in the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_id: Option<String>,
    /// Open question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Number of the step that opened or closed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Branch of that step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_id: Option<String>,
}

/// Body of `research.summary`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryBody {
    /// Text of the caller's summary.
    pub summary: String,
    /// Number of the step that recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Branch of that step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_id: Option<String>,
}

/// Value of `found_by` for a source that the server found in a tool's result.
pub const BY_SERVER: &str = "server";

/// Body of `source.found`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceBody {
    /// URL of the source.
    pub url: String,
    /// Title of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Kind of the source, for example `scraped` or `academic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Number of the step that found it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Recorder: `server` or `model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_by: Option<String>,
    /// Tool whose result contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Positions of the call and the result in which the server found it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<u64>,
}

impl SourceBody {
    /// Returns true if the server found it in a tool's result.
    #[must_use]
    pub fn is_by_server(&self) -> bool {
        self.found_by.as_deref() == Some(BY_SERVER)
    }
}

/// Parses ranges of positions in the clients' notations: `{"from": 1, "to": 5}` or `[1, 5]`, one or
/// a list. Anything else is skipped.
#[must_use]
pub fn parse_ranges(json: &str) -> Vec<Range> {
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
    let Some(json) = json::check(json) else { return Vec::new() };
    let one = || serde_json::from_str::<RangeForm>(json).ok().and_then(range);
    if let Some(range) = one() {
        return vec![range];
    }
    let list: Vec<RangeForm> = serde_json::from_str(json).unwrap_or_default();
    list.into_iter().filter_map(range).collect()
}

/// Body of `context.threshold`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThresholdBody {
    /// Number of tokens in the context.
    pub tokens: u64,
    /// Context limit of the model, in tokens.
    pub limit: u64,
    /// Level that was crossed: `threshold` or `limit`.
    pub level: String,
}

/// Body of `outcome.recorded`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeBody {
    /// Approaches that were tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<String>,
    /// Approaches that worked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worked: Vec<String>,
    /// Approaches that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
    /// Next steps.
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

/// Body of `memory.item`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryBody {
    /// `episodic`, `semantic`, `procedural` or `working`.
    pub kind: String,
    /// Text to remember.
    pub text: String,
    /// Tags for lookups.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Topic of the item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Importance, 1 to 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub importance: Option<u8>,
    /// Name of the item; a later item with the same name supersedes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Id of the item that it supersedes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<String>,
    /// Positions of the events that it replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positions: Option<RangeBody>,
    /// Session and position from which it was written, if in another session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<PositionBody>,
}

/// A position in a named session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PositionBody {
    /// Id of the session.
    pub session: String,
    /// Position of the session's next event at that time.
    pub position: u64,
}

/// Body of `memory.paged_in`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PagedInBody {
    /// Blocks that a model received.
    pub blocks: Vec<PagedBlockBody>,
    /// Estimated number of tokens of the blocks.
    pub tokens: u64,
    /// Reason: `model` (it requested them), `window` or `hook`.
    pub by: String,
    /// Query that found them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
}

/// A block that a model received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PagedBlockBody {
    /// Session of the block, if another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Positions of the block.
    pub positions: RangeBody,
    /// Id of the memory item, if the block is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
}

/// Body of `memory.forgotten` and `graph.relationship_removed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgottenBody {
    /// Id of the item or relation.
    pub of: String,
}

/// Body of `event.marked`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkBody {
    /// Id of the marked event.
    pub of: String,
    /// `important`, `wrong` or `done`.
    pub mark: String,
    /// Position of the marked event, by which views find it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// Importance, 1 to 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub importance: Option<u8>,
    /// Reason for the mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Body of `graph.entity_upserted`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntityBody {
    /// Type of the entity.
    pub entity_type: String,
    /// Id of the entity, unique within its type.
    pub entity_id: String,
    /// Change of its properties: a merge patch (RFC 7396).
    #[serde(default)]
    pub properties: serde_json::Map<String, serde_json::Value>,
}

/// Body of `graph.relationship_created`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelationBody {
    /// Type of the relation.
    pub relation_type: String,
    /// Id of the entity at its start.
    pub from_id: String,
    /// Id of the entity at its end.
    pub to_id: String,
    /// Properties of the relation.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub properties: serde_json::Map<String, serde_json::Value>,
}

/// Body of `graph.entity_removed`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntityRemovedBody {
    /// Type of the entity.
    pub entity_type: String,
    /// Id of the entity, unique within its type.
    pub entity_id: String,
}

/// Body of `context.item`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextItemBody {
    /// Client's name of the item; a later item with the same name replaces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_id: Option<String>,
    /// `code`, `file`, `data`, `concept`, `task` or another.
    pub category: String,
    /// Text of the item.
    pub content: String,
    /// Importance, 1 to 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub importance: Option<u8>,
}

/// Body of `file.referenced`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileBody {
    /// Path of the file.
    pub path: String,
    /// Hash of the contents: `blake3:` and hexadecimal digits, or the client's own format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Time of the last change, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_at: Option<String>,
    /// Size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// Body of `workspace.state`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StateBody {
    /// State of the workspace: any JSON object.
    pub state: serde_json::Map<String, serde_json::Value>,
}

/// Body of `session.saved`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedBody {
    /// Number of tokens of the conversation, as the client counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Number of context items saved by the same call.
    pub items: u64,
    /// Number of file references saved by the same call.
    pub files: u64,
    /// The client's summary of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}

/// Body of `session.restored`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredBody {
    /// Session that this one continues, and the position up to which it was read.
    pub from: PositionBody,
    /// Token budget of the response.
    pub tokens_max: u64,
    /// Items that the response contains, in the order of selection.
    pub chosen: Vec<RestoredItemBody>,
    /// Weights of the parts.
    pub weights: std::collections::BTreeMap<String, u64>,
}

/// An item that a restore returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredItemBody {
    /// Class of the item, and its position or path.
    pub id: String,
    /// Score; 0 for an indispensable item.
    pub score: u64,
    /// Form of the item: `line`, `short`, `bare`, `squeezed` or `whole`.
    pub form: String,
}

/// Body of `context.compacted`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactedBody {
    /// Cause of the compaction.
    pub trigger: String,
    /// Ranges of positions that stayed in the context.
    pub kept: Vec<RangeBody>,
    /// Ranges of positions that were dropped.
    pub dropped: Vec<RangeBody>,
    /// Text that replaces the dropped events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// Cause of a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// The user requested it.
    #[default]
    Manual,
    /// A tool returned a result.
    ToolCall,
    /// A timer elapsed.
    Timer,
    /// The context window was full.
    Limit,
    /// The session was resumed from another checkpoint and continues from there.
    Resume,
}

impl Trigger {
    /// Returns the name that clients see.
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
    /// Label that the user gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Thread that it belongs to; absent for the main one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// Id of the previous checkpoint, if it is not the latest of its thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Change of the parent's state: a merge patch (RFC 7396).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta: Option<serde_json::Map<String, serde_json::Value>>,
    /// Complete state, so that no earlier checkpoint has to be read.
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

/// Parses a body; `None` if it does not have that shape.
#[must_use]
pub fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Option<T> {
    serde_json::from_slice(body).ok()
}

/// Parses a body with members of any JSON type; `None` if its tree is too large or differs.
#[must_use]
pub fn read_tree<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Option<T> {
    read(json::check(std::str::from_utf8(body).ok()?)?.as_bytes())
}

/// Encodes a body for storage. Equal values give equal bytes, so a retry is recognised.
#[must_use]
pub fn write<T: Serialize>(body: &T) -> Bytes {
    let text = serde_json::to_vec(body).expect("research bodies hold no map with foreign keys");
    Bytes::from(text)
}
