//! Records and restores sessions over HTTP, as a client does. It must not count facts.

use std::{io, time::Duration};

use serde_json::{Value, json};

use super::{super::desk, planted::Made};
use crate::{failure::Outcome, site::Site};
use ::sessionlog::{
    client::{Client, HttpRequest, session_path},
    event::SessionId,
};

/// Workspace of all sessions.
const WORKSPACE: &str = "eval";
/// Number of timed restores, after a first one that loads the session.
const TIMED: usize = 5;

/// Options of a restore.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    pub(super) tokens_max: u64,
    /// Order of the items; `None` for the default.
    pub(super) algorithm: Option<&'static str>,
    /// True if texts may be shortened.
    pub(super) compress: bool,
}

/// A client of the evaluation's server.
pub(super) struct Clerk<'a> {
    pub(super) site: &'a Site,
    pub(super) client: Client,
}

impl Clerk<'_> {
    /// Creates a session.
    pub(super) fn begin(&self, name: &str) -> Outcome<SessionId> {
        let session = SessionId::new(name).map_err(io::Error::other)?;
        self.site.wait(desk::create(&self.client, &session, Some(WORKSPACE.to_owned())))??;
        Ok(session)
    }

    /// Appends events.
    pub(super) fn append(&self, session: &SessionId, events: &[Value]) -> Outcome {
        self.site.wait(desk::append(&self.client, session, events))?
    }

    /// Records a session with its planted facts, marks wrong messages, and saves it.
    pub(super) fn record(&self, name: &str, made: &Made) -> Outcome<SessionId> {
        let session = self.begin(name)?;
        self.append(&session, &made.events)?;
        for at in &made.wrong {
            let page = HttpRequest::get(session_path(&session, "/events"));
            let found = self.json(page.query("from", at).query("limit", 1))?;
            let id = found.pointer("/data/0/id").and_then(Value::as_str).unwrap_or_default();
            let path = session_path(&session, &format!("/events/{id}/mark"));
            self.json(HttpRequest::post(path).json(&json!({ "mark": "wrong" })))?;
        }
        let saved = json!({ "session_id": session.as_str(), "context_items": made.items });
        self.json(HttpRequest::post(format!("/v1/workspaces/{WORKSPACE}/save")).json(&saved))?;
        Ok(session)
    }

    /// Restores a session; nothing is written.
    pub(super) fn restore(&self, session: &SessionId, how: How) -> Outcome<Value> {
        let mut asked = json!({
            "session_id": session.as_str(), "tokens_max": how.tokens_max,
            "summarize": how.compress, "create": false,
        });
        if let Some((members, name)) = asked.as_object_mut().zip(how.algorithm) {
            members.insert("algorithm".to_owned(), name.into());
        }
        self.json(HttpRequest::post(format!("/v1/workspaces/{WORKSPACE}/restore")).json(&asked))
    }

    /// Restores a session, and returns the median duration of further restores.
    pub(super) fn restore_timed(
        &self,
        session: &SessionId,
        how: How,
    ) -> Outcome<(Value, Duration)> {
        let value = self.restore(session, how)?;
        let mut times = Vec::new();
        for _ in 0..TIMED {
            let began = self.site.clock.monotonic();
            self.restore(session, how)?;
            times.push(self.site.clock.monotonic().saturating_sub(began));
        }
        times.sort_unstable();
        Ok((value, times.get(TIMED / 2).copied().unwrap_or_default()))
    }

    /// Returns a plain window of `tokens_max` tokens in a model's format, without the ids and times
    /// of events, whose digits might contain a value by chance.
    pub(super) fn window(&self, session: &SessionId, tokens_max: u64) -> Outcome<Value> {
        let path = session_path(session, "/views/window");
        self.json(
            HttpRequest::get(path)
                .query("tokens_max", tokens_max)
                .query("format", "openai")
                .query("recall", "none"),
        )
    }

    fn json(&self, request: HttpRequest) -> Outcome<Value> {
        Ok(self.site.wait(self.client.json(request))??)
    }
}
