//! Slices of a session, page after page, with bodies as they came. It must not print.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{args::Order, failure::Outcome};
use crate::{
    client::{Client, ClientError, Request, session_path},
    event::{SessionId, limits},
};

/// Which events are wanted.
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
    /// What is missing.
    pub(super) gaps: Vec<Gap>,
    /// Where to go on.
    pub(super) next_position: u64,
}

/// A range that cannot be served.
#[derive(Debug, Deserialize)]
pub(super) struct Gap {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) reason: String,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Box<RawValue>>,
    next_page: Option<String>,
    next_position: u64,
    #[serde(default)]
    gaps: Vec<Gap>,
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
        let Answer { data: events, gaps, next_position, .. } = answer;
        Ok(Some(Page { body, events, gaps, next_position }))
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
        // Without a wish, as many as --before and --after say.
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
