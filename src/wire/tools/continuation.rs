//! Arguments and answer of the tool that continues a session. They must not truncate anything:
//! `harness` does.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BRIEF_NOTICE, NOTICE, TRUST, answer::bound_by_name, parts::none};
use crate::{
    api::views::ContinuationView,
    event::Range,
    projection::body::OutcomeBody,
    service::{ContinueCall, ContinueResult},
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ContinueSession {
    /// Default: your own.
    session_id: Option<String>,
    /// Size of the answer; default 2000.
    #[schemars(range(min = 400, max = 200_000))]
    tokens_max: Option<usize>,
    /// State of the work, in your words.
    summary: Option<String>,
    /// Approaches you tried.
    #[serde(default)]
    tried: Vec<String>,
    /// Approaches that worked.
    #[serde(default)]
    worked: Vec<String>,
    /// Approaches that failed.
    #[serde(default)]
    failed: Vec<String>,
    /// Next actions.
    #[serde(default)]
    next: Vec<String>,
    /// false: read only, page nothing out.
    page_out: Option<bool>,
    /// Token of a lease.
    pub(crate) fencing_token: Option<u64>,
}

impl ContinueSession {
    pub(crate) fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    pub(crate) fn into_call(self) -> ContinueCall {
        let Self { tried, worked, failed, next, .. } = self;
        ContinueCall {
            session: None,
            tokens_max: self.tokens_max,
            outcome: OutcomeBody { tried, worked, failed, next },
            summary: self.summary,
            page_out: self.page_out.unwrap_or(true),
            key: None,
        }
    }
}

/// Answer to the continuation of a session.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContinueAnswer {
    session_id: String,
    bound_by: &'static str,
    /// Id of the session that is shown: this one continues it and is still empty.
    #[serde(skip_serializing_if = "none")]
    continues: Option<String>,
    #[serde(flatten)]
    view: ContinuationView,
    tokens_max: u64,
    /// Positions that this call paged out; get_events returns their events.
    #[serde(skip_serializing_if = "none")]
    paged_out: Option<Range>,
    /// Id of the checkpoint after it, labelled continuation.
    #[serde(skip_serializing_if = "none")]
    checkpoint: Option<String>,
    trust: &'static str,
    notice: &'static str,
    /// The whole answer as one text in Markdown.
    text: String,
}

impl ContinueAnswer {
    pub(crate) fn from_continued(continued: ContinueResult) -> Self {
        let text = continued.continuation.text;
        Self {
            session_id: continued.session.to_string(),
            bound_by: bound_by_name(continued.bound_by),
            continues: continued.continues.map(|session| session.to_string()),
            tokens_max: continued.continuation.tokens_max,
            checkpoint: continued.checkpoint,
            text: crate::wire::wrap_in_frame(BRIEF_NOTICE, text.as_deref().unwrap_or_default(), ""),
            view: continued.continuation.view,
            paged_out: continued.paged_out,
            trust: TRUST,
            notice: NOTICE,
        }
    }
}
