//! Arguments of the tools that hand a session on, and what they answer about one session. They must
//! not cut anything: harness has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    NOTICE, TRUST,
    parts::{none, time},
};
use crate::{
    api::{
        handoff::{NewFile, NewItem, RestoreRequest, SaveRequest},
        views::UsageAnswer,
    },
    event::{SessionId, Timestamp},
    service::{ChainLink, Past},
};

/// A file that the session refers to.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FileArgument {
    /// Absolute, or below the workspace.
    path: String,
    /// blake3: and hexadecimal digits, or your own.
    hash: Option<String>,
    /// RFC 3339.
    last_modified: Option<String>,
    bytes: Option<u64>,
}

impl From<FileArgument> for NewFile {
    fn from(file: FileArgument) -> Self {
        let FileArgument { path, hash, last_modified, bytes } = file;
        Self { path, hash, last_modified, bytes }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SaveSession {
    /// Left out: the workspace of your directory.
    pub(crate) workspace_id: Option<String>,
    /// Left out: the bound session, else a new one.
    pub(crate) session_id: Option<String>,
    /// Where the work stands, in your words.
    conversation_context: Option<String>,
    /// Tokens of your context.
    token_count: Option<u64>,
    /// What must not be lost.
    #[serde(default)]
    context_items: Vec<NewItem>,
    /// Files that matter.
    #[serde(default)]
    file_references: Vec<FileArgument>,
    /// Any object.
    workspace_state: Option<Map<String, Value>>,
    /// Token of a lease.
    pub(crate) fencing_token: Option<u64>,
}

impl SaveSession {
    pub(crate) fn into_request(self, session: Option<&SessionId>) -> SaveRequest {
        SaveRequest {
            session_id: session.map(ToString::to_string),
            conversation_context: self.conversation_context,
            token_count: self.token_count,
            context_items: self.context_items,
            file_references: self.file_references.into_iter().map(Into::into).collect(),
            workspace_state: self.workspace_state,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RestoreSession {
    /// Left out: the workspace of your directory.
    pub(crate) workspace_id: Option<String>,
    /// Left out: the one saved last, else the latest with work.
    pub(crate) session_id: Option<String>,
    /// Tokens of the answer; default 4000.
    #[schemars(range(min = 600))]
    token_budget: Option<usize>,
    /// Least importance of a context item; default 3.
    #[schemars(range(min = 0, max = 10))]
    priority_threshold: Option<u8>,
    /// Context items at most; default 50.
    #[schemars(range(min = 0, max = 500))]
    max_context_items: Option<usize>,
    /// false: texts whole or not at all.
    summarize: Option<bool>,
    /// hybrid, recency, importance or vector.
    algorithm: Option<String>,
    /// false: only look, begin no session.
    create: Option<bool>,
    /// Say why each item was chosen.
    explain: Option<bool>,
    /// Token of a lease.
    pub(crate) fencing_token: Option<u64>,
}

impl RestoreSession {
    pub(crate) fn into_request(
        self,
        session: Option<&SessionId>,
        successor: Option<&SessionId>,
    ) -> RestoreRequest {
        RestoreRequest {
            session_id: session.map(ToString::to_string),
            successor_id: successor.map(ToString::to_string),
            tokens_max: self.token_budget,
            priority_threshold: self.priority_threshold,
            max_context_items: self.max_context_items,
            summarize: self.summarize,
            algorithm: self.algorithm,
            create: self.create,
            explain: self.explain.unwrap_or_default(),
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GetSession {
    /// Default: your own.
    pub(crate) session_id: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DeleteSession {
    pub(crate) session_id: String,
}

/// A session.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionDetails {
    session_id: String,
    #[serde(skip_serializing_if = "none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "none")]
    workspace_id: Option<String>,
    created_at: String,
    updated_at: String,
    /// How many events it has.
    events: u64,
    /// Tokens of its conversation, as it was saved.
    #[serde(skip_serializing_if = "none")]
    token_count: Option<u64>,
    /// Its goal or task.
    goal: String,
    /// Its state.
    summary: String,
    /// The session that it continues.
    #[serde(skip_serializing_if = "none")]
    continues: Option<String>,
    /// The sessions that continue it.
    continued_by: Vec<String>,
    /// Position at which it was saved last.
    #[serde(skip_serializing_if = "none")]
    saved_at: Option<u64>,
    /// How full its model's context is, where that is reported.
    #[serde(skip_serializing_if = "none")]
    context_usage: Option<ContextUsage>,
    trust: &'static str,
    notice: &'static str,
}

/// How full a model's context is.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContextUsage {
    /// Tokens in it after the last request that was reported.
    tokens: u64,
    /// Tokens that it takes; 0: not known.
    limit: u64,
    /// Tokens from which on it should be made smaller.
    threshold: u64,
    /// Tokens below the limit that stay free.
    margin: u64,
    /// none, threshold or limit.
    level: String,
}

impl SessionDetails {
    pub(crate) fn of(
        link: &ChainLink,
        past: Past,
        tokens: Option<u64>,
        usage: &UsageAnswer,
    ) -> Self {
        let info = &link.info;
        let context_usage = usage.tokens.map(|tokens| ContextUsage {
            tokens,
            limit: usage.limit,
            threshold: usage.threshold,
            margin: usage.margin,
            level: usage.level.clone(),
        });
        Self {
            session_id: info.key.session.to_string(),
            title: info.title.clone(),
            workspace_id: info.workspace.clone(),
            created_at: time(info.created_at),
            updated_at: time(info.updated_at),
            events: info.tail.0,
            token_count: tokens,
            goal: past.goal,
            summary: past.summary,
            continues: link.continues.as_ref().map(|(session, _)| session.to_string()),
            continued_by: link.continued_by.iter().map(ToString::to_string).collect(),
            saved_at: link.saved_at.map(|at| at.0),
            context_usage,
            trust: TRUST,
            notice: NOTICE,
        }
    }
}

/// A deleted session.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionDeleted {
    session_id: String,
    deleted: bool,
    /// Until when a person can restore it.
    #[serde(skip_serializing_if = "none")]
    restorable_until: Option<String>,
}

impl SessionDeleted {
    pub(crate) fn of(session: &SessionId, until: Option<Timestamp>) -> Self {
        Self { session_id: session.to_string(), deleted: true, restorable_until: until.map(time) }
    }
}
