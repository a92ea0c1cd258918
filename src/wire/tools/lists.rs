//! Answers about sessions: lists, a history, a cleared binding, added sources. They must not
//! truncate a list: `service` does.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    parts::none,
    work::{StartOut, UnfinishedSessionOut},
};
use crate::{
    event::Timestamp,
    harness::fit,
    service::{History, SessionInfo, SessionSummary},
};

/// Answer to added sources.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SourcesAnswer {
    pub(crate) session_id: String,
    pub(crate) bound_by: &'static str,
    /// Number of sources that were new.
    pub(crate) added: u64,
    /// Number of sources in the session.
    pub(crate) source_count: u64,
}

/// Answer to a cleared binding.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClearAnswer {
    /// Id of the session that this connection was bound to.
    #[serde(skip_serializing_if = "none")]
    pub(crate) cleared_session_id: Option<String>,
    pub(crate) message: &'static str,
}

/// Sessions, the newest first.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionsAnswer {
    pub(crate) sessions: Vec<SessionOut>,
    /// Number of all sessions; with workspaceId or offset.
    #[serde(skip_serializing_if = "none")]
    pub(crate) total: Option<u64>,
    #[serde(skip_serializing_if = "none")]
    pub(crate) next_cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionOut {
    session_id: String,
    #[serde(skip_serializing_if = "none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "none")]
    workspace: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// Number of events.
    events: u64,
    /// Number of ranges that cannot be read.
    #[serde(skip_serializing_if = "is_zero")]
    damaged: usize,
}

/// Sessions written to last.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PastSessions {
    sessions: Vec<PastOut>,
    /// Starting point: the last checkpoint at which work was done, or else the last one.
    #[serde(skip_serializing_if = "none")]
    start_from: Option<StartOut>,
    /// Unfinished work.
    unfinished: Vec<UnfinishedSessionOut>,
}

impl From<History> for PastSessions {
    fn from(history: History) -> Self {
        Self {
            start_from: history.start_from.map(StartOut::from),
            unfinished: history.unfinished.iter().map(UnfinishedSessionOut::from).collect(),
            sessions: history.sessions.into_iter().map(PastOut::from).collect(),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PastOut {
    session_id: String,
    research_goal: String,
    summary: String,
    step_count: u64,
    open_gaps: u64,
    is_complete: bool,
    created_at: Timestamp,
    updated_at: Timestamp,
    #[serde(skip_serializing_if = "none")]
    workspace: Option<String>,
    /// Number of ranges that cannot be read.
    #[serde(skip_serializing_if = "is_zero")]
    damaged: usize,
}

impl From<SessionSummary> for PastOut {
    fn from(past: SessionSummary) -> Self {
        let workspace = past.info.workspace.as_ref();
        Self {
            session_id: past.info.key.session.to_string(),
            research_goal: past.goal,
            summary: past.summary,
            step_count: past.steps,
            open_gaps: past.gaps_open,
            is_complete: past.complete,
            created_at: past.info.created_at,
            updated_at: past.info.worked_at(),
            workspace: workspace.map(|text| fit(text, NAME_BYTES_MAX).text),
            damaged: count_damaged(&past.info),
        }
    }
}

/// Maximum bytes of a title or a workspace in a list.
const NAME_BYTES_MAX: usize = 240;

impl From<&SessionInfo> for SessionOut {
    fn from(info: &SessionInfo) -> Self {
        let short =
            |text: &Option<String>| text.as_ref().map(|text| fit(text, NAME_BYTES_MAX).text);
        Self {
            session_id: info.key.session.to_string(),
            title: short(&info.title),
            workspace: short(&info.workspace),
            created_at: info.created_at,
            updated_at: info.worked_at(),
            events: info.tail.0,
            damaged: count_damaged(info),
        }
    }
}

/// Counts the damaged ranges whose loss was not accepted.
fn count_damaged(info: &SessionInfo) -> usize {
    info.damage.iter().filter(|gap| gap.accepted_at.is_none()).count()
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}
