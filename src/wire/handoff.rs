//! Shapes of what is handed from a session to the one that continues it: saved, restored, and the
//! chain of both. They must not choose or cut anything: harness has.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::TRUST;
use crate::api::sessions::Session;
pub use crate::harness::RESTORE_TOKENS_MIN;
use crate::{
    api::views::WhyOut,
    harness::{GivenFile, GivenItem, Preserved},
    projection::{
        FileState,
        body::{ContextItemBody, FileBody, LookBody},
    },
    service::{
        ChainLink, Relocated, RestoreCall, RestoredSession, SaveCall, SavedSession, Started,
    },
};

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

impl From<NewItem> for ContextItemBody {
    fn from(item: NewItem) -> Self {
        let NewItem { id, category, content, importance } = item;
        Self { item_id: id, category, content, importance }
    }
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

impl From<NewFile> for FileBody {
    fn from(file: NewFile) -> Self {
        let NewFile { path, hash, last_modified, bytes } = file;
        Self { path, hash, modified_at: last_modified, bytes }
    }
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

impl From<SaveRequest> for SaveCall {
    fn from(asked: SaveRequest) -> Self {
        Self {
            session: None,
            context: asked.conversation_context,
            tokens: asked.token_count,
            items: asked.context_items.into_iter().map(Into::into).collect(),
            files: asked.file_references.into_iter().map(Into::into).collect(),
            state: asked.workspace_state,
            key: None,
        }
    }
}

/// A saved session, durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SavedAnswer {
    /// The session.
    pub session_id: String,
    /// The position after what was saved.
    pub position: u64,
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

impl From<SavedSession> for SavedAnswer {
    fn from(saved: SavedSession) -> Self {
        Self {
            session_id: saved.session.to_string(),
            position: saved.position.0,
            checkpoint: saved.checkpoint,
            items: saved.items as u64,
            files: saved.files as u64,
            is_new: saved.is_new,
            workspace: saved.workspace,
            notices: saved.notices,
        }
    }
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

impl From<RestoreRequest> for RestoreCall {
    fn from(asked: RestoreRequest) -> Self {
        Self {
            session: None,
            successor: None,
            tokens_max: asked.tokens_max,
            threshold: asked.priority_threshold,
            items_max: asked.max_context_items,
            is_whole: asked.summarize == Some(false),
            algorithm: asked.algorithm,
            only_look: asked.create == Some(false),
            explain: asked.explain,
            is_text: false,
            key: None,
        }
    }
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

impl From<Preserved> for Preservation {
    fn from(Preserved { held, told, percent }: Preserved) -> Self {
        Self { held, told, share: fraction(percent, 100) }
    }
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
    pub continues: Option<String>,
    /// Up to where it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// What to know of the choice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
    /// Always `untrusted-external-content`: the recorded texts are data.
    pub trust: String,
}

impl From<Started> for StartedAnswer {
    fn from(started: Started) -> Self {
        let (continues, position) = started.from.unzip();
        Self {
            text: started.text,
            tokens: started.tokens as u64,
            continues: continues.map(|session| session.to_string()),
            position: position.map(|at| at.0),
            notices: started.notices,
            trust: TRUST.to_owned(),
        }
    }
}

fn fraction(part: u64, of: u32) -> f64 {
    f64::from(u32::try_from(part).unwrap_or(of)) / f64::from(of)
}

/// A restored session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RestoredAnswer {
    /// The session that continues it: record in it. Absent when nothing was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The session that was read.
    pub continues: String,
    /// Its workspace.
    pub workspace: String,
    /// Up to where it was read.
    pub position: u64,
    /// Where it was saved last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved_at: Option<u64>,
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

impl RestoredAnswer {
    /// The answer of a call.
    #[must_use]
    pub fn of(made: RestoredSession, explain: bool) -> Self {
        let given = made.restored;
        let state = given.state.as_deref().and_then(|text| serde_json::from_str(text).ok());
        let share = |one: crate::harness::Spent| {
            let (percent, tokens) = (one.percent as u64, one.tokens as u64);
            (one.name.to_owned(), BudgetShare { percent, tokens })
        };
        let left = |one: crate::harness::LeftOut| LeftOutClass {
            class: one.class.to_owned(),
            count: one.count,
        };
        Self {
            session_id: made.session.map(|session| session.to_string()),
            continues: made.from.to_string(),
            workspace: made.workspace,
            position: made.position.0,
            saved_at: made.saved_at.map(|at| at.0),
            context: given.context,
            context_items: given.items.into_iter().map(|one| item(one, explain)).collect(),
            file_references: given.files.into_iter().map(Into::into).collect(),
            workspace_state: state,
            tokens: given.tokens as u64,
            tokens_max: given.tokens_max as u64,
            budget: given.shares.into_iter().map(share).collect(),
            left_out: given.left_out.into_iter().map(left).collect(),
            preservation: given.preserved.into(),
            why: given.why,
            notices: made.notices,
            trust: TRUST.to_owned(),
            text: None,
        }
    }
}

/// What a front end saw of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeenFile {
    /// It is there, with this hash.
    Hash(String),
    /// It is there.
    NotHashed,
    /// It is not there.
    Gone,
    /// It may not be looked at.
    Denied,
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
    fn as_str(self) -> &'static str {
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

impl From<Look> for LookBody {
    fn from(look: Look) -> Self {
        let Look { path, status, hash, hash_now } = look;
        Self { path, status: status.as_str().to_owned(), hash, hash_now }
    }
}

/// Where looks were recorded, durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LooksAnswer {
    /// The session: the one that the restore made, else the notebook of the workspace.
    pub session: String,
    /// The position of the first one there.
    pub position: u64,
}

/// Says of each file of a restored answer what a front end sees of it now; returns these looks.
/// `camel`: the answer is that of a tool.
pub fn look_at(
    answer: &mut Value,
    camel: bool,
    look: &mut dyn FnMut(&str) -> SeenFile,
) -> Vec<Look> {
    let (list, now) =
        if camel { ("fileReferences", "hashNow") } else { ("file_references", "hash_now") };
    let files = answer.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
    let mut looks = Vec::new();
    for file in files.filter_map(Value::as_object_mut) {
        let text = |name: &str| file.get(name).and_then(Value::as_str).map(str::to_owned);
        let (Some(path), hash) = (text("path"), text("hash")) else { continue };
        let (status, hash_now) = match look(&path) {
            SeenFile::Hash(now) => (compared(hash.as_deref(), &now), Some(now)),
            SeenFile::NotHashed => (LookStatus::Unchecked, None),
            SeenFile::Gone => (LookStatus::Gone, None),
            SeenFile::Denied => (LookStatus::Denied, None),
        };
        file.insert("status".to_owned(), status.as_str().into());
        if let Some(hash) = &hash_now {
            file.insert(now.to_owned(), hash.clone().into());
        }
        looks.push(Look { path, status, hash, hash_now });
    }
    looks
}

/// What a file is now, by the hash that was saved of it; hashes of other forms are not compared.
fn compared(hash: Option<&str>, now: &str) -> LookStatus {
    let form = |hash: &str| hash.split_once(':').map(|(form, _)| form.to_owned());
    match hash {
        Some(hash) if hash == now => LookStatus::Same,
        Some(hash) if form(hash) == form(now) => LookStatus::Changed,
        _ => LookStatus::Unchecked,
    }
}

/// What a call that saves says in words. `camel`: the call is that of a tool.
#[must_use]
pub fn saved_texts(asked: &Value, camel: bool) -> Vec<&str> {
    let (context, items) = match camel {
        true => ("conversationContext", "contextItems"),
        false => ("conversation_context", "context_items"),
    };
    let items = asked.get(items).and_then(Value::as_array).into_iter().flatten();
    let contents = items.filter_map(|item| item.get("content"));
    asked.get(context).into_iter().chain(contents).filter_map(Value::as_str).collect()
}

/// Gives each file of a call that saves the hash that a front end sees, where the client gave
/// none. `camel`: the call is that of a tool.
pub fn hash_files(asked: &mut Value, camel: bool, look: &mut dyn FnMut(&str) -> SeenFile) {
    let list = if camel { "fileReferences" } else { "file_references" };
    let files = asked.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
    for file in files.filter_map(Value::as_object_mut) {
        let path = file.get("path").and_then(Value::as_str).map(str::to_owned);
        let Some(path) = path.filter(|_| !file.contains_key("hash")) else { continue };
        if let SeenFile::Hash(hash) = look(&path) {
            file.insert("hash".to_owned(), hash.into());
        }
    }
}

fn item(given: GivenItem, explain: bool) -> ContextItem {
    let parts = given.parts;
    let named = [
        ("importance", parts.importance),
        ("relevance", parts.relevance),
        ("recency", parts.recency),
        ("frequency", parts.frequency),
        ("specificity", parts.specificity),
        ("category", parts.category),
        ("mark", parts.mark),
    ];
    let named = named.into_iter().filter(|(name, part)| explain && (*name != "mark" || *part > 0));
    let is_whole = given.form == crate::harness::Form::Whole;
    ContextItem {
        id: given.name.unwrap_or_else(|| given.id.to_string()),
        category: given.category,
        content: given.content,
        importance: given.importance,
        score: parts.sum() as u64,
        similarity: given.similarity.map(|alike| fraction(alike as u64, 1_000)),
        form: (!is_whole).then(|| given.form.as_str().to_owned()),
        parts: named.map(|(name, part)| (name.to_owned(), part as u64)).collect(),
    }
}

impl From<GivenFile> for FileReference {
    fn from(file: GivenFile) -> Self {
        let change = file.change.map(|(state, _)| match state {
            FileState::Changed => "changed",
            FileState::Reverted => "reverted",
            FileState::Stashed => "stashed",
            FileState::Deleted => "deleted",
        });
        Self {
            path: file.path,
            hash: file.hash,
            last_modified: file.modified_at,
            change: change.map(str::to_owned),
            status: "unchecked".to_owned(),
            hash_now: None,
        }
    }
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

impl From<ChainLink> for ChainSession {
    fn from(link: ChainLink) -> Self {
        let (before, at) = link.continues.unzip();
        Self {
            session: link.info.clone().into(),
            continues: before.map(|session| session.to_string()),
            continues_from: at.flatten().map(|at| at.0),
            continued_by: link.continued_by.iter().map(ToString::to_string).collect(),
            saved_at: link.saved_at.map(|at| at.0),
        }
    }
}

/// Where a workspace is moved to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MoveRequest {
    /// Its new name: the whole path of the directory, or another name
    #[schemars(length(min = 1, max = 512))]
    pub to: String,
}

/// What was moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    pub session: String,
    /// Why.
    pub problem: String,
}

impl From<Relocated> for MovedAnswer {
    fn from(moved: Relocated) -> Self {
        let left = moved.left.into_iter().map(|(session, error)| LeftBehind {
            session: session.to_string(),
            problem: error.to_string(),
        });
        Self {
            sessions: moved.sessions,
            notebooks: moved.notebooks,
            left: left.collect(),
            left_total: moved.left_count,
        }
    }
}

/// Sessions that continue one another, the first one first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Chain {
    /// The sessions.
    pub data: Vec<ChainSession>,
}
