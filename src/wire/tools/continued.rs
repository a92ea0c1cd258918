//! Arguments and answer of the tool that continues a session. They must not cut anything: harness
//! has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BRIEF_NOTICE, NOTICE, TRUST, answer::bound_by, parts::none};
use crate::{
    api::views::Continuing,
    event::Range,
    projection::body::OutcomeBody,
    service::{ContinueCall, Continued},
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ContinueSession {
    /// Default: your own.
    session_id: Option<String>,
    /// Size of the answer; default 2000.
    #[schemars(range(min = 400, max = 200_000))]
    tokens_max: Option<usize>,
    /// Where the work stands, in your words.
    summary: Option<String>,
    /// What you tried.
    #[serde(default)]
    tried: Vec<String>,
    /// What of it worked.
    #[serde(default)]
    worked: Vec<String>,
    /// What failed.
    #[serde(default)]
    failed: Vec<String>,
    /// What to do next.
    #[serde(default)]
    next: Vec<String>,
    /// false: only look, page nothing out.
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

/// A continued session.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContinueAnswer {
    session_id: String,
    bound_by: &'static str,
    /// The session that is shown: this one continues it, and nothing was done in it yet.
    #[serde(skip_serializing_if = "none")]
    continues: Option<String>,
    #[serde(flatten)]
    view: Continuing,
    tokens_max: u64,
    /// What this call paged out; get_events reads it back.
    #[serde(skip_serializing_if = "none")]
    paged_out: Option<Range>,
    /// The checkpoint after it, labelled continuation.
    #[serde(skip_serializing_if = "none")]
    checkpoint: Option<String>,
    trust: &'static str,
    notice: &'static str,
    /// All of it as one text in Markdown.
    text: String,
}

impl ContinueAnswer {
    pub(crate) fn of(continued: Continued) -> Self {
        let text = continued.continuation.text;
        Self {
            session_id: continued.session.to_string(),
            bound_by: bound_by(continued.bound_by),
            continues: continued.continues.map(|session| session.to_string()),
            tokens_max: continued.continuation.tokens_max,
            checkpoint: continued.checkpoint,
            text: crate::wire::framed(BRIEF_NOTICE, text.as_deref().unwrap_or_default(), ""),
            view: continued.continuation.view,
            paged_out: continued.paged_out,
            trust: TRUST,
            notice: NOTICE,
        }
    }
}
