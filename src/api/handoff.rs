//! Handoff of a session to the one that continues it: save, restore, and the chain of both. It must
//! not choose or truncate anything: `harness` does.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{sessions::Session, views::WhyOut};
use crate::event::{Position, SessionId};

/// A context item to save.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewItem {
    /// Your name for the item: a later item with the same name replaces it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Category: code, file, data, concept, task or another
    #[schemars(length(min = 1, max = 120))]
    pub category: String,
    /// Text of the item
    #[schemars(length(min = 1, max = 64000))]
    pub content: String,
    /// Importance from 1 to 10
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10))]
    pub importance: Option<u8>,
}

/// A file that the session refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewFile {
    /// Path of the file: absolute, or below the workspace
    #[schemars(length(min = 1, max = 4096))]
    pub path: String,
    /// Hash of the file's bytes: `blake3:` and hexadecimal digits, or a form of your own
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Time of the last change, RFC 3339
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
    /// Size of the file in bytes
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// Context of a session to save in addition to its log, which has everything else.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SaveRequest {
    /// Id of the session; if omitted: a new one for what is saved here, else the latest with work
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Account of the conversation, in your words
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_context: Option<String>,
    /// Tokens of the conversation, as you count them
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_count: Option<u64>,
    /// Context items that matter; 500 at most
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub context_items: Vec<NewItem>,
    /// Files that the session refers to; 490 at most
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub file_references: Vec<NewFile>,
    /// State of the workspace: any object, 64 KiB at most
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_state: Option<Map<String, Value>>,
}

/// A saved session, durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SavedAnswer {
    /// Id of the session.
    pub session_id: SessionId,
    /// Position after the saved events.
    pub position: Position,
    /// Id of the checkpoint at that position, labelled `saved`.
    pub checkpoint: String,
    /// Number of context items in this call.
    pub items: u64,
    /// Number of files in this call.
    pub files: u64,
    /// True if this call created the session.
    pub is_new: bool,
    /// Workspace of the session.
    pub workspace: String,
    /// Notices about the save: files that are no references, findings of extractors, or why one was
    /// left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

/// Request to restore the work of a session.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RestoreRequest {
    /// Id of the session; if omitted: the one saved last or, if none was, the latest with work
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Id of an existing session that continues it; if omitted, one is created
    #[serde(skip_serializing_if = "Option::is_none")]
    pub successor_id: Option<String>,
    /// Tokens of the answer: 4 000 by default, 600 at least; more than 200 000 is 200 000
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 600))]
    pub tokens_max: Option<usize>,
    /// Minimum importance of a context item: 3 by default
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10))]
    pub priority_threshold: Option<u8>,
    /// Maximum number of context items: 50 by default
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 500))]
    pub max_context_items: Option<usize>,
    /// false: texts are returned whole or not at all
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summarize: Option<bool>,
    /// Criterion of the selection: hybrid (default), recency, importance or vector
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
    /// false: read only; nothing is written, and no session is created
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create: Option<bool>,
    /// Add the reason why each item was selected
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub explain: bool,
}

/// A context item, as returned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContextItem {
    /// Name of the item, or the id of its event.
    pub id: String,
    /// Category of the item.
    pub category: String,
    /// Text of the item.
    pub content: String,
    /// Importance with which it was saved, or that of a higher mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub importance: Option<u8>,
    /// Score from 0 to 100, from importance, similarity to the current requests, recency,
    /// frequency, rarity of its words, category and mark.
    pub score: u64,
    /// Similarity to the current requests, from 0 to 1, if the items are ordered by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub similarity: Option<f64>,
    /// Form of the returned text, if it is not whole: `line`, `short`, `bare` (no comments) or
    /// `squeezed` (no needless white space).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<String>,
    /// Components of the score, if requested.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<String, u64>,
}

/// A file, as returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileReference {
    /// Path of the file.
    pub path: String,
    /// Hash that was saved for the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Time of the last change, as it was saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
    /// Last change by the session: `changed`, `reverted`, `stashed` or `deleted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// Current state compared with the saved hash: `same`, `changed`, `gone`, `denied`, or
    /// `unchecked` if the file was not inspected.
    pub status: String,
    /// Current hash, if the file was inspected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_now: Option<String>,
}

/// A share of the budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BudgetShare {
    /// Share of the budget, in percent.
    pub percent: u64,
    /// Tokens spent on it.
    pub tokens: u64,
}

/// A class of items of which some were left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOutClass {
    /// Name of the class.
    pub class: String,
    /// Number of items left out.
    pub count: u64,
}

/// Share of the essential items of a session that is in the answer: task, goal, instructions,
/// saved items, approaches that were ruled out, open failures and questions, plan.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Preservation {
    /// Number of essential items in the session.
    pub held: u64,
    /// Number of them in the answer, shortened or not.
    pub told: u64,
    /// Share of them in the answer, from 0 to 1, rounded down: a shortened item counts by the part
    /// of its text that is returned.
    pub share: f64,
}

/// Request for the text of a session that begins, with a limit on its size.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StartRequest {
    /// Id of the session that begins: it is linked to the one that it continues; if omitted,
    /// nothing is written
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Tokens of the text: 700 by default, 400 at least, 20 000 at most
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 400, max = 20_000))]
    pub tokens_max: Option<usize>,
}

/// The text that a session receives when it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StartedAnswer {
    /// Text in Markdown; empty if there is nothing to report.
    pub text: String,
    /// Number of tokens of the text.
    pub tokens: u64,
    /// Id of the session whose work is returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<SessionId>,
    /// Position up to which that session was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// Notices about the selection.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
    /// Always `untrusted-external-content`: the recorded texts are data.
    pub trust: String,
}

/// A restored session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RestoredAnswer {
    /// Id of the session that continues the work: record in it. Absent if nothing was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Id of the session that was read.
    pub continues: SessionId,
    /// Workspace of that session.
    pub workspace: String,
    /// Position up to which that session was read.
    pub position: Position,
    /// Position of its last save.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved_at: Option<Position>,
    /// State of the work, as a text in Markdown. It does not include the context items, the files
    /// and the state of the workspace, which are members of their own.
    pub context: String,
    /// Context items, the most important first.
    pub context_items: Vec<ContextItem>,
    /// Files that were changed or referred to, the latest first.
    pub file_references: Vec<FileReference>,
    /// State of the workspace, as it was saved last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_state: Option<Map<String, Value>>,
    /// Upper bound of the tokens of this answer.
    pub tokens: u64,
    /// Token budget.
    pub tokens_max: u64,
    /// Shares of the budget, by name. An unused part of a share goes to the others.
    pub budget: BTreeMap<String, BudgetShare>,
    /// Classes of items that did not fit the budget.
    pub left_out: Vec<LeftOutClass>,
    /// Share of the essential items that is in the answer.
    pub preservation: Preservation,
    /// Reason why each item was selected, if requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<WhyOut>,
    /// Notices about the selection.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
    /// Always `untrusted-external-content`: the recorded texts are data.
    pub trust: String,
    /// Text alone, if requested: then it is the whole answer.
    #[serde(skip)]
    pub text: Option<String>,
}

/// Inspection by a front end of a file that a restore lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Look {
    /// Path of the file, as the restore returned it
    #[schemars(length(min = 1, max = 4096))]
    pub path: String,
    /// Current state of the file
    pub status: LookStatus,
    /// Hash that was saved for the file
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Current hash of the file
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_now: Option<String>,
}

/// State of a file compared with its saved hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LookStatus {
    /// The hashes are equal
    Same,
    /// The hashes differ
    Changed,
    /// The file does not exist
    Gone,
    /// The file may not be read
    Denied,
    /// There are no two hashes of the same form to compare
    Unchecked,
}

impl LookStatus {
    /// Returns the name used on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Changed => "changed",
            Self::Gone => "gone",
            Self::Denied => "denied",
            Self::Unchecked => "unchecked",
        }
    }
}

/// Inspections of files that a restore lists, to be recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LooksRequest {
    /// Id of the session that the restore created; omitted if it created none
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The inspections
    #[schemars(length(min = 1, max = 1000))]
    pub looks: Vec<Look>,
}

/// Location of recorded inspections, which are durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LooksAnswer {
    /// Session that stores them: the one that the restore created, else the workspace's notebook.
    pub session: SessionId,
    /// Position of the first one in that session.
    pub position: Position,
}

/// Request to move a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MoveRequest {
    /// New name of the workspace: the whole path of the directory, or another name
    #[schemars(length(min = 1, max = 512))]
    pub to: String,
}

/// Result of moving a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MovedAnswer {
    /// Number of sessions that this call moved.
    pub sessions: u64,
    /// Number of notebooks that this call moved; they store memory and graph.
    pub notebooks: u64,
    /// Sessions that were not moved, with the reason; 20 at most. Repeat the call for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<LeftBehind>,
    /// Number of all sessions that were not moved.
    pub left_total: u64,
}

/// A session that was not moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftBehind {
    /// Id of the session.
    pub session: SessionId,
    /// Reason why it was not moved.
    pub problem: String,
}

/// A session of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChainSession {
    /// The session in full.
    pub session: Session,
    /// Id of the session that it continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<String>,
    /// Position up to which it has read that session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues_from: Option<u64>,
    /// Ids of the sessions that continue it, the earliest first.
    pub continued_by: Vec<String>,
    /// Position of its last save.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved_at: Option<u64>,
}

/// A chain of sessions that continue one another, the first one first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Chain {
    /// Sessions of the chain.
    pub data: Vec<ChainSession>,
}
