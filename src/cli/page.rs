//! Slices of a session, page after page, with bodies as they came. It must not print.

use bytes::Bytes;
use serde_json::{json, value::RawValue};

use super::{failure::Outcome, screen::printable};
use crate::{
    api::events::{EventsAnswer, Gap},
    client::{Client, ClientError, Request},
    event::{Position, SessionId, limits},
    import::Members,
    verbs::{InSession, events::Get},
};

/// Selection of events; its limit holds over all pages.
pub(super) use crate::verbs::events::EventsQuery as Query;

/// One page.
pub(super) struct EventsPage {
    /// The answer as HTTP gave it.
    pub(super) body: Bytes,
    /// Its events, each as it was written.
    pub(super) events: Vec<Box<RawValue>>,
    /// Lost positions.
    pub(super) gaps: Vec<Gap>,
    /// The position to continue from.
    pub(super) next_position: u64,
    /// Types of the session's last events, where a filter of types matched nothing.
    pub(super) types_seen: Vec<String>,
}

/// Part of a page.
pub(super) enum PagePart<'a> {
    Event(&'a RawValue),
    Lost(&'a Gap),
}

/// A gap among events, as HTTP says it.
pub(super) fn gap_line(gap: &Gap) -> String {
    let Gap { from, to, reason, accepted_at } = gap;
    let line = json!({
        "type": "gap", "from": from, "to": to, "reason": reason, "accepted_at": accepted_at,
    });
    line.to_string()
}

/// A gap, for a person.
pub(super) fn gap_sentence(gap: &Gap) -> String {
    format!("positions {}..{} are missing: {}", gap.from, gap.to, printable(&gap.reason))
}

impl EventsPage {
    /// Events and gaps in the order of their positions, of a page that is in it.
    pub(super) fn parts(&self) -> Vec<PagePart<'_>> {
        let position = |event: &RawValue| -> Option<Position> {
            Members::read(event.get()).ok()?.raw("position")?.get().parse().ok().map(Position)
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

/// A reading of a session, in pages.
pub(super) struct Pages<'a> {
    client: &'a Client,
    session: &'a SessionId,
    query: Query,
    left: usize,
    ended: bool,
}

impl<'a> Pages<'a> {
    pub(super) fn new(client: &'a Client, session: &'a SessionId, query: Query) -> Self {
        let left = query.limit.unwrap_or(usize::MAX);
        Self { client, session, query, left, ended: false }
    }

    /// The next page; `None` after the last.
    pub(super) async fn next(&mut self) -> Outcome<Option<EventsPage>> {
        if self.ended || self.left == 0 {
            return Ok(None);
        }
        let body = self.client.send(self.request()).await?.body;
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

    fn request(&self) -> Request {
        let mut query = self.query.clone();
        // By default as many as --before and --after ask for.
        if query.around.is_none() || query.limit.is_some() {
            query.limit = Some(self.left.min(limits::PAGE_EVENTS_DEFAULT));
        }
        let place = InSession { session: self.session.clone() };
        Request::from_verb::<Get>(&place, &query, &())
    }
}

/// JSON text on one line: outside of strings, where a line break is escaped, it is only a space.
pub(super) fn on_one_line(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
}
