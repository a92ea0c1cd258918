//! Arguments and answers of the memory tools. They must not cut anything: harness has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NOTICE, TRUST, answer::bound_by, parts::none};
use crate::{
    projection::body::OutcomeBody,
    service::{ContinueCall, Continued},
    wire::views::Continuing,
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ContinueSession {
    /// Left out: the bound session.
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
    /// Token of the lease, when the session has one.
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

/// Positions that left the context.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PagedOut {
    from: u64,
    to: u64,
}

/// A continued session.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContinueAnswer {
    session_id: String,
    bound_by: &'static str,
    #[serde(flatten)]
    view: Continuing,
    tokens_max: u64,
    /// What this call paged out; get_events reads it back.
    #[serde(skip_serializing_if = "none")]
    paged_out: Option<PagedOut>,
    /// The checkpoint after it, labelled continuation.
    #[serde(skip_serializing_if = "none")]
    checkpoint: Option<String>,
    trust: &'static str,
    notice: &'static str,
}

impl ContinueAnswer {
    pub(crate) fn of(continued: Continued) -> Self {
        let range = continued.paged_out;
        Self {
            session_id: continued.session.to_string(),
            bound_by: bound_by(continued.bound_by),
            tokens_max: continued.continuation.tokens_max as u64,
            checkpoint: continued.checkpoint,
            view: continued.continuation.into(),
            paged_out: range.map(|range| PagedOut { from: range.from.0, to: range.to.0 }),
            trust: TRUST,
            notice: NOTICE,
        }
    }
}
