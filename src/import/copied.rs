//! Requests of a model that another session reports: the file of a resumed session may begin with
//! a copy of the earlier one's lines, under its own session id. It must not read a session that
//! begins at another time.

use std::collections::HashSet;

use serde_json::Value;

use super::{EventDraft, LineDraft, members::JsonMembers};
use crate::{
    client::{Client, ClientError, HttpRequest, session_path},
    event::{SessionId, Timestamp, kinds},
    wire::BEGAN_KEY,
};

/// Maximum reports of other sessions that are kept: a copy of a later one is counted again.
const REPORTS_MAX: usize = 100_000;
/// Maximum sessions, and maximum events of a session, that are read in one request.
const PAGE: usize = 1_000;

/// Codes of the refusals to read a session that is gone or lost.
const UNREADABLE: [&str; 5] =
    ["session_not_found", "session_deleted", "session_expired", "session_damaged", "prefix_erased"];

/// Ids of the messages whose requests other sessions report.
#[derive(Debug, Default)]
pub(super) struct CopiedReports(HashSet<String>);

impl CopiedReports {
    /// Reads the reports of the other imported sessions that begin at a time, as a copy does.
    pub(super) async fn read(
        client: &Client,
        own: &SessionId,
        began: Timestamp,
    ) -> Result<Self, ClientError> {
        let request = HttpRequest::get("/v1/sessions").query("limit", PAGE);
        let request = request.query("include_archived", true);
        let request = request.query("metadata[]", format!("{BEGAN_KEY}={began}"));
        let answer = client.json(request).await?;
        let mut copied = Self::default();
        for session in data_of(&answer) {
            let id = session.get("id").and_then(Value::as_str);
            let id = id.and_then(|id| SessionId::new(id).ok()).filter(|id| id != own);
            if let Some(id) = id {
                copied.read_session(client, &id).await?;
            }
        }
        Ok(copied)
    }

    /// Reads the reports of a session that can be read; ignores a session without events.
    async fn read_session(
        &mut self,
        client: &Client,
        session: &SessionId,
    ) -> Result<(), ClientError> {
        let mut from = 0;
        while self.0.len() < REPORTS_MAX {
            let request = HttpRequest::get(session_path(session, "/events"));
            let request = request.query("from", from).query("limit", PAGE);
            let request = request.query("types[]", kinds::SPAN_MODEL_REQUEST_END);
            let request = request.query("allow_gaps", true);
            let answer = match client.json(request).await {
                Err(error) if UNREADABLE.contains(&error.code()) => break,
                answer => answer?,
            };
            let id = |event: &Value| Some(event.get("message_id")?.as_str()?.to_owned());
            self.0.extend(data_of(&answer).filter_map(id));
            let last = data_of(&answer).last().and_then(|event| event.get("position")?.as_u64());
            let Some(last) = last else { break };
            from = last + 1;
        }
        Ok(())
    }

    /// Removes the reports that another session has.
    pub(super) fn remove_from(&self, drafts: &mut Vec<LineDraft>) {
        let is_copy =
            |draft: &EventDraft| reported_message(draft).is_some_and(|id| self.0.contains(&id));
        drafts.retain(|(_, draft)| !is_copy(draft));
    }
}

/// Returns the id of the message whose request an event reports.
pub(super) fn reported_message(draft: &EventDraft) -> Option<String> {
    match draft.kind() {
        kinds::SPAN_MODEL_REQUEST_END => JsonMembers::read(&draft.text).ok()?.text("message_id"),
        _ => None,
    }
}

fn data_of(answer: &Value) -> impl Iterator<Item = &Value> {
    answer.get("data").and_then(Value::as_array).into_iter().flatten()
}
