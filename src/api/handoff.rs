//! What is handed from a session to the one that continues it: saved, restored, and the chain of
//! both. It must not choose or cut anything: harness has.

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
    /// Your name for it: a later item of that name takes its place
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// code, file, data, concept, task or another
    #[schemars(length(min = 1, max = 120))]
    pub category: String,
    /// What it says
    #[schemars(length(min = 1, max = 64000))]
    pub content: String,
    /// From 1 to 10
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10))]
    pub importance: Option<u8>,
}

/// A file that the session refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewFile {
    /// Its path: absolute, or below the workspace
    #[schemars(length(min = 1, max = 4096))]
    pub path: String,
    /// Hash of its bytes: `blake3:` and hexadecimal digits, or one of your own
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// When it was changed last: RFC 3339
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
    /// Its size
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// What to save of a session beside its log, which has everything else.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SaveRequest {
    /// The session; left out: a new one for what is saved here, else the latest with work
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The conversation, in your words
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_context: Option<String>,
    /// Its tokens, as you count them
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_count: Option<u64>,
    /// What matters; 500 at most
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub context_items: Vec<NewItem>,
    /// Files that it refers to; 490 at most
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub file_references: Vec<NewFile>,
    /// The state of the workspace: any object, 64 KiB at most
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_state: Option<Map<String, Value>>,
}

/// A saved session, durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SavedAnswer {
    /// The session.
    pub session_id: SessionId,
    /// The position after what was saved.
    pub position: Position,
    /// The checkpoint there, labelled `saved`.
    pub checkpoint: String,
    /// Context items of this call.
    pub items: u64,
    /// Files of this call.
    pub files: u64,
    /// Whether the session was begun with this call.
    pub is_new: bool,
    /// Its workspace.
    pub workspace: String,
    /// What to know of it: files that are no references, what extractors found, or why one is left
    /// out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

/// What to restore, and how much of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RestoreRequest {
    /// The session; left out: the one saved last or, where none was saved, the latest with work
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The session that continues it, which is there already; left out: one is made
    #[serde(skip_serializing_if = "Option::is_none")]
    pub successor_id: Option<String>,
    /// Tokens of the answer: 4 000 by default, 600 at least; more than 200 000 is 200 000
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 600))]
    pub tokens_max: Option<usize>,
    /// The least importance of a context item: 3 by default
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10))]
    pub priority_threshold: Option<u8>,
    /// Context items at most: 50 by default
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 500))]
    pub max_context_items: Option<usize>,
    /// false: texts are given whole or not at all
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summarize: Option<bool>,
    /// By what is chosen: hybrid (default), recency, importance or vector
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
    /// false: only look; nothing is written, and no session is made
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create: Option<bool>,
    /// Say why each item was chosen
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub explain: bool,
}

/// A context item, as it is given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContextItem {
    /// Its name, or the id of its event.
    pub id: String,
    /// Its category.
    pub category: String,
    /// What it says.
    pub content: String,
    /// The importance that it was saved with, or that of a higher mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub importance: Option<u8>,
    /// Its score, from 0 to 100: importance, likeness to what is asked, recency, frequency, rarity
    /// of its words, category, mark.
    pub score: u64,
    /// How alike it is to what is asked, from 0 to 1, where the items are in the order of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub similarity: Option<f64>,
    /// How much of it is given, where it is not all: `line`, `short`, `bare` (no comments) or
    /// `squeezed` (no needless white space).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<String>,
    /// What the score is made of, when asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<String, u64>,
}

/// A file, as it is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileReference {
    /// Its path.
    pub path: String,
    /// The hash that was saved of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// When it was changed last, as it was saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
    /// What the session did to it last: `changed`, `reverted`, `stashed` or `deleted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// What it is now, compared with the hash: `same`, `changed`, `gone`, `denied`, or `unchecked`
    /// where nothing looked.
    pub status: String,
    /// Its hash now, where it was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_now: Option<String>,
}

/// A share of the budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BudgetShare {
    /// Its part of the budget, in percent.
    pub percent: u64,
    /// What was spent on it.
    pub tokens: u64,
}

/// A class of items of which some are not given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOutClass {
    /// The class.
    pub class: String,
    /// How many.
    pub count: u64,
}

/// How much of what the session holds is in the answer: task, goal, instructions, saved items,
/// approaches that were ruled out, open failures and questions, plan.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Preservation {
    /// How many there are.
    pub held: u64,
    /// How many are in the answer, shortened or not.
    pub told: u64,
    /// The part of them that is, from 0 to 1, rounded down: one that is shortened counts by the
    /// part of its text that is given.
    pub share: f64,
}

/// Which session begins, and how much it receives.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StartRequest {
    /// The session that begins: it is linked to the one that it continues; left out: nothing is
    /// written
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
    /// The text, in Markdown; empty where there is nothing to tell.
    pub text: String,
    /// Its tokens.
    pub tokens: u64,
    /// The session whose work is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<SessionId>,
    /// Up to where it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// What to know of the choice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
    /// Always `untrusted-external-content`: the recorded texts are data.
    pub trust: String,
}

/// A restored session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RestoredAnswer {
    /// The session that continues it: record in it. Absent when nothing was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The session that was read.
    pub continues: SessionId,
    /// Its workspace.
    pub workspace: String,
    /// Up to where it was read.
    pub position: Position,
    /// Where it was saved last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved_at: Option<Position>,
    /// What is known of the work, as a text in Markdown; beside it, and not in it, are the context
    /// items, the files and the state of the workspace.
    pub context: String,
    /// Context items, the ones that matter most first.
    pub context_items: Vec<ContextItem>,
    /// Files that were changed or referred to, the latest first.
    pub file_references: Vec<FileReference>,
    /// The state of the workspace, as it was saved last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_state: Option<Map<String, Value>>,
    /// Tokens of this answer, at most.
    pub tokens: u64,
    /// The budget.
    pub tokens_max: u64,
    /// Its shares. What one does not need goes to the others.
    pub budget: BTreeMap<String, BudgetShare>,
    /// What is not given for want of room.
    pub left_out: Vec<LeftOutClass>,
    /// How much is preserved.
    pub preservation: Preservation,
    /// Why each item was chosen, when asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<WhyOut>,
    /// What to know of the choice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
    /// Always `untrusted-external-content`: the recorded texts are data.
    pub trust: String,
    /// The text alone, when asked for: the answer then is that text.
    #[serde(skip)]
    pub text: Option<String>,
}

/// A look at a file of a restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Look {
    /// Its path, as the restore gave it
    #[schemars(length(min = 1, max = 4096))]
    pub path: String,
    /// What it is now
    pub status: LookStatus,
    /// The hash that was saved of it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Its hash now
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_now: Option<String>,
}

/// What a file is, compared with its saved hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LookStatus {
    /// The hashes are equal
    Same,
    /// The hashes differ
    Changed,
    /// It is not there
    Gone,
    /// It may not be looked at
    Denied,
    /// There are no hashes of one form to compare
    Unchecked,
}

impl LookStatus {
    /// Its name.
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

/// Looks at the files of a restore, to be recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LooksRequest {
    /// The session that the restore made; left out where it made none
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The looks
    #[schemars(length(min = 1, max = 1000))]
    pub looks: Vec<Look>,
}

/// Where looks were recorded, durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LooksAnswer {
    /// The session: the one that the restore made, else the notebook of the workspace.
    pub session: SessionId,
    /// The position of the first one there.
    pub position: Position,
}

/// Where a workspace is moved to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MoveRequest {
    /// Its new name: the whole path of the directory, or another name
    #[schemars(length(min = 1, max = 512))]
    pub to: String,
}

/// What was moved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MovedAnswer {
    /// Sessions that were moved by this call.
    pub sessions: u64,
    /// Notebooks, which keep memory and graph.
    pub notebooks: u64,
    /// Sessions that stay where they are, and why: up to 20 are named. Repeat the call for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<LeftBehind>,
    /// How many those are.
    pub left_total: u64,
}

/// A session that was not moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftBehind {
    /// The session.
    pub session: SessionId,
    /// Why.
    pub problem: String,
}

/// A session of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChainSession {
    /// The session.
    pub session: Session,
    /// The session that it continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<String>,
    /// Up to where it has read that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues_from: Option<u64>,
    /// The sessions that continue it, the earliest first.
    pub continued_by: Vec<String>,
    /// Where it was saved last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved_at: Option<u64>,
}

/// Sessions that continue one another, the first one first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Chain {
    /// The sessions.
    pub data: Vec<ChainSession>,
}
