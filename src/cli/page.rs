//! Slices of a session, page after page, with bodies as they came. It must not print.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, to_value, value::RawValue};

use super::{args::Order, failure::Outcome, screen::printable};
use crate::{
    client::{Client, ClientError, Request, session_path},
    event::{SessionId, limits},
    import::Members,
};

/// Selection of events.
#[derive(Clone, Debug, Default)]
pub(super) struct Query {
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
    pub(super) around: Option<String>,
    pub(super) before: Option<u64>,
    pub(super) after: Option<u64>,
    pub(super) types: Vec<String>,
    pub(super) order: Option<Order>,
    /// Events at most, over all pages.
    pub(super) limit: Option<u64>,
    pub(super) allow_gaps: bool,
}

/// One page.
pub(super) struct Page {
    /// The answer as HTTP gave it.
    pub(super) body: Bytes,
    /// Its events, each as it was written.
    pub(super) events: Vec<Box<RawValue>>,
    /// Lost positions.
    pub(super) gaps: Vec<LostRange>,
    /// The position to continue from.
    pub(super) next_position: u64,
    /// Types of the session's last events, where a filter of types matched nothing.
    pub(super) types_seen: Vec<String>,
}

/// A range that cannot be served.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct LostRange {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) reason: String,
    /// Since when it is given up.
    accepted_at: Option<String>,
}

/// Part of a page.
pub(super) enum Part<'a> {
    Event(&'a RawValue),
    Lost(&'a LostRange),
}

impl LostRange {
    /// As HTTP says it among events.
    pub(super) fn to_line(&self) -> String {
        let mut line = json!({ "type": "gap" });
        if let (Some(line), Ok(Value::Object(gap))) = (line.as_object_mut(), to_value(self)) {
            line.extend(gap);
        }
        line.to_string()
    }

    /// For a person.
    pub(super) fn sentence(&self) -> String {
        let Self { from, to, reason, .. } = self;
        format!("positions {from}..{to} are missing: {}", printable(reason))
    }
}

impl Page {
    /// Events and gaps in the order of their positions, of a page that is in it.
    pub(super) fn parts(&self) -> Vec<Part<'_>> {
        let position = |event: &RawValue| -> Option<u64> {
            Members::read(event.get()).ok()?.raw("position")?.get().parse().ok()
        };
        let mut parts: Vec<Part<'_>> = self.events.iter().map(|event| Part::Event(event)).collect();
        for gap in &self.gaps {
            let behind = |part: &Part<'_>| match part {
                Part::Event(event) => position(event).is_some_and(|at| at >= gap.to),
                Part::Lost(other) => other.from >= gap.to,
            };
            let at = parts.iter().position(behind).unwrap_or(parts.len());
            parts.insert(at, Part::Lost(gap));
        }
        parts
    }
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Box<RawValue>>,
    next_page: Option<String>,
    next_position: u64,
    #[serde(default)]
    gaps: Vec<LostRange>,
    #[serde(default)]
    types_seen: Vec<String>,
}

/// A reading of a session, in pages.
pub(super) struct Pages<'a> {
    client: &'a Client,
    session: &'a SessionId,
    query: Query,
    left: u64,
    next_page: Option<String>,
    ended: bool,
}

impl<'a> Pages<'a> {
    pub(super) fn new(client: &'a Client, session: &'a SessionId, query: Query) -> Self {
        let left = query.limit.unwrap_or(u64::MAX);
        Self { client, session, query, left, next_page: None, ended: false }
    }

    /// The next page; `None` after the last.
    pub(super) async fn next(&mut self) -> Outcome<Option<Page>> {
        if self.ended || self.left == 0 {
            return Ok(None);
        }
        let body = self.client.send(self.request()).await?.body;
        let answer: Answer =
            serde_json::from_slice(&body).map_err(|error| ClientError::Foreign {
                address: self.client.address(),
                reason: format!("a page that does not parse ({error})"),
            })?;
        self.left = self.left.saturating_sub(answer.data.len() as u64);
        self.ended = answer.next_page.is_none();
        self.next_page = answer.next_page.clone();
        let Answer { data: events, gaps, next_position, types_seen, .. } = answer;
        Ok(Some(Page { body, events, gaps, next_position, types_seen }))
    }

    fn request(&self) -> Request {
        let query = &self.query;
        let page_max = limits::PAGE_EVENTS_DEFAULT as u64;
        let mut request = Request::get(session_path(self.session, "/events"))
            .query_opt("from", query.from.as_ref())
            .query_opt("to", query.to.as_ref())
            .query_opt("around", query.around.as_ref())
            .query_opt("before", query.before)
            .query_opt("after", query.after)
            .query_opt("order", query.order.map(Order::as_str))
            .query_opt("page", self.next_page.as_ref());
        // By default as many as --before and --after ask for.
        if query.around.is_none() || query.limit.is_some() {
            request = request.query("limit", self.left.min(page_max));
        }
        if query.allow_gaps {
            request = request.query("allow_gaps", "true");
        }
        query.types.iter().fold(request, |request, kind| request.query("types[]", kind))
    }
}

/// JSON text on one line: outside of strings, where a line break is escaped, it is only a space.
pub(super) fn on_one_line(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
}
