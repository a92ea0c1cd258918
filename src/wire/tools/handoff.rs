//! Answers of the tools about one session. They must not truncate anything: `harness` does.

use schemars::JsonSchema;
use serde::Serialize;

use super::parts::none;
use crate::{
    api::views::UsageAnswer,
    event::{SessionId, Timestamp},
    service::{ChainLink, SessionSummary},
};

/// Details of a session.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionDetails {
    session_id: String,
    #[serde(skip_serializing_if = "none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "none")]
    workspace_id: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// Number of events.
    events: u64,
    /// Tokens of the conversation, as saved.
    #[serde(skip_serializing_if = "none")]
    token_count: Option<u64>,
    /// Goal or task of the session.
    goal: String,
    /// State of the session.
    summary: String,
    /// Id of the session that it continues.
    #[serde(skip_serializing_if = "none")]
    continues: Option<String>,
    /// Ids of the sessions that continue it.
    continued_by: Vec<String>,
    /// Position of its last save.
    #[serde(skip_serializing_if = "none")]
    saved_at: Option<u64>,
    /// Fill level of its model's context, if reported.
    #[serde(skip_serializing_if = "none")]
    context_usage: Option<UsageAnswer>,
}

impl SessionDetails {
    pub(crate) fn new(
        link: &ChainLink,
        past: SessionSummary,
        tokens: Option<u64>,
        usage: UsageAnswer,
    ) -> Self {
        let info = &link.info;
        Self {
            session_id: info.key.session.to_string(),
            title: info.title.clone(),
            workspace_id: info.workspace.clone(),
            created_at: info.created_at,
            updated_at: info.worked_at(),
            events: info.tail.0,
            token_count: tokens,
            goal: past.goal,
            summary: past.summary,
            continues: link.continues.as_ref().map(|(session, _)| session.to_string()),
            continued_by: link.continued_by.iter().map(ToString::to_string).collect(),
            saved_at: link.saved_at.map(|at| at.0),
            context_usage: Some(usage).filter(|usage| usage.tokens.is_some()),
        }
    }
}

/// Answer to the deletion of a session.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionDeletedOut {
    session_id: String,
    deleted: bool,
    /// Time until which a person can restore it.
    #[serde(skip_serializing_if = "none")]
    restorable_until: Option<Timestamp>,
}

impl SessionDeletedOut {
    pub(crate) fn new(session: &SessionId, until: Option<Timestamp>) -> Self {
        Self { session_id: session.to_string(), deleted: true, restorable_until: until }
    }
}
