//! Sessions recorded and restored over HTTP, as a client does. It must not count what is given.

use std::{io, time::Duration};

use serde_json::{Value, json};

use super::{super::desk, planted::Made};
use crate::{failure::Outcome, site::Site};
use ::sessionlog::{
    client::{Client, Request, session_path},
    event::SessionId,
};

/// The workspace of every session.
const WORKSPACE: &str = "eval";
/// Restores that are timed, after the one that reads the session.
const TIMED: usize = 5;

/// How a restore is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    pub(super) tokens_max: u64,
    /// By what the items are ordered; by default where it is left out.
    pub(super) algorithm: Option<&'static str>,
    /// Whether texts may be shortened.
    pub(super) compress: bool,
}

/// A client of the evaluation's server.
pub(super) struct Clerk<'a> {
    pub(super) site: &'a Site,
    pub(super) client: Client,
}

impl Clerk<'_> {
    /// Makes a session.
    pub(super) fn begin(&self, name: &str) -> Outcome<SessionId> {
        let session = SessionId::new(name).map_err(io::Error::other)?;
        self.site.wait(desk::create(&self.client, &session, Some(WORKSPACE.to_owned())))??;
        Ok(session)
    }

    /// Appends events.
    pub(super) fn append(&self, session: &SessionId, events: &[Value]) -> Outcome {
        self.site.wait(desk::append(&self.client, session, events))?
    }

    /// Records a session with what is planted in it, marks what was wrong, and saves it.
    pub(super) fn record(&self, name: &str, made: &Made) -> Outcome<SessionId> {
        let session = self.begin(name)?;
        self.append(&session, &made.events)?;
        for at in &made.wrong {
            let page = Request::get(session_path(&session, "/events"));
            let found = self.json(page.query("from", at).query("limit", 1))?;
            let id = found.pointer("/data/0/id").and_then(Value::as_str).unwrap_or_default();
            let path = session_path(&session, &format!("/events/{id}/mark"));
            self.json(Request::post(path).json(&json!({ "mark": "wrong" })))?;
        }
        let saved = json!({ "session_id": session.as_str(), "context_items": made.items });
        self.json(Request::post(format!("/v1/workspaces/{WORKSPACE}/save")).json(&saved))?;
        Ok(session)
    }

    /// What a restore gives; nothing is written.
    pub(super) fn restore(&self, session: &SessionId, how: How) -> Outcome<Value> {
        let mut asked = json!({
            "session_id": session.as_str(), "tokens_max": how.tokens_max,
            "summarize": how.compress, "create": false,
        });
        if let Some((members, name)) = asked.as_object_mut().zip(how.algorithm) {
            members.insert("algorithm".to_owned(), name.into());
        }
        self.json(Request::post(format!("/v1/workspaces/{WORKSPACE}/restore")).json(&asked))
    }

    /// The same, and the median of how long some more of them take.
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

    /// A plain window of so many tokens: messages as a model is sent them, without the ids and
    /// times of events, in whose digits a value may be found by chance.
    pub(super) fn window(&self, session: &SessionId, tokens_max: u64) -> Outcome<Value> {
        let path = session_path(session, "/views/window");
        self.json(
            Request::get(path)
                .query("tokens_max", tokens_max)
                .query("format", "openai")
                .query("recall", "none"),
        )
    }

    fn json(&self, request: Request) -> Outcome<Value> {
        Ok(self.site.wait(self.client.json(request))??)
    }
}
