//! Reads the slices of a session page by page, with event bodies unchanged. It must not print.

use bytes::Bytes;
use serde_json::{json, value::RawValue};

use super::{failure::Outcome, screen::escaped};
use crate::{
    api::events::{EventsAnswer, Gap},
    client::{Client, ClientError, HttpRequest},
    event::{Position, SessionId, limits},
    import::JsonMembers,
    verbs::{SessionPath, events::GetEvents},
};

/// Selection of events; its limit applies to all pages together.
pub(super) use crate::verbs::events::EventsQuery;

pub(super) struct EventsPage {
    /// Response body of HTTP, unchanged.
    pub(super) body: Bytes,
    /// Events of the page, each as it was written.
    pub(super) events: Vec<Box<RawValue>>,
    /// Lost positions.
    pub(super) gaps: Vec<Gap>,
    /// The position to continue from.
    pub(super) next_position: u64,
    /// Types of the session's last events, if a type filter matched none.
    pub(super) types_seen: Vec<String>,
}

pub(super) enum PagePart<'a> {
    Event(&'a RawValue),
    Lost(&'a Gap),
}

/// Formats a gap as HTTP does in a list of events.
pub(super) fn gap_to_json(gap: &Gap) -> String {
    let Gap { from, to, reason, accepted_at } = gap;
    let line = json!({
        "type": "gap", "from": from, "to": to, "reason": reason, "accepted_at": accepted_at,
    });
    line.to_string()
}

/// Formats a gap as a sentence.
pub(super) fn describe_gap(gap: &Gap) -> String {
    format!("positions {}..{} are missing: {}", gap.from, gap.to, escaped(&gap.reason))
}

impl EventsPage {
    /// Returns the events and gaps of a page in the order of their positions.
    pub(super) fn ordered_parts(&self) -> Vec<PagePart<'_>> {
        let position = |event: &RawValue| -> Option<Position> {
            JsonMembers::read(event.get()).ok()?.raw("position")?.get().parse().ok().map(Position)
        };
        let mut parts: Vec<PagePart<'_>> =
            self.events.iter().map(|event| PagePart::Event(event)).collect();
        for gap in &self.gaps {
            let behind = |part: &PagePart<'_>| match part {
                PagePart::Event(event) => position(event).is_some_and(|at| at >= gap.to),
                PagePart::Lost(other) => other.from >= gap.to,
            };
            let at = parts.iter().position(behind).unwrap_or(parts.len());
            parts.insert(at, PagePart::Lost(gap));
        }
        parts
    }
}

/// A reader of a session, page by page.
pub(super) struct EventPages<'a> {
    client: &'a Client,
    session: &'a SessionId,
    query: EventsQuery,
    left: usize,
    ended: bool,
}

impl<'a> EventPages<'a> {
    pub(super) fn new(client: &'a Client, session: &'a SessionId, query: EventsQuery) -> Self {
        let left = query.limit.unwrap_or(usize::MAX);
        Self { client, session, query, left, ended: false }
    }

    /// Fetches the next page; `None` after the last.
    pub(super) async fn next(&mut self) -> Outcome<Option<EventsPage>> {
        if self.ended || self.left == 0 {
            return Ok(None);
        }
        let body = self.client.send(self.next_request()).await?.body;
        let answer: EventsAnswer =
            serde_json::from_slice(&body).map_err(|error| ClientError::Foreign {
                address: self.client.address(),
                reason: format!("a page that does not parse ({error})"),
            })?;
        self.left = self.left.saturating_sub(answer.data.len());
        self.ended = answer.next_page.is_none();
        self.query.page.clone_from(&answer.next_page);
        let EventsAnswer { data: events, gaps, next_position, types_seen, .. } = answer;
        Ok(Some(EventsPage { body, events, gaps, next_position, types_seen }))
    }

    fn next_request(&self) -> HttpRequest {
        let mut query = self.query.clone();
        // By default the limit is the sum of --before and --after.
        if query.around.is_none() || query.limit.is_some() {
            query.limit = Some(self.left.min(limits::PAGE_EVENTS_DEFAULT));
        }
        let place = SessionPath { session: self.session.clone() };
        HttpRequest::from_verb::<GetEvents>(&place, &query, &())
    }
}

/// Replaces the line breaks of JSON text by spaces; those in strings are escaped anyway.
pub(super) fn to_single_line(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
}
