//! The events that the player has loaded: the pages nearest to the reader, and which result answers
//! which call. It must not fetch anything.

use std::collections::BTreeMap;

use crate::event::Timestamp;

/// Events of a page.
pub const PAGE_EVENTS: u64 = 200;
/// Pages kept; the ones farthest from the reader are dropped first.
pub const PAGES_MAX: usize = 12;

/// An event as the player shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventRow {
    /// Its position.
    pub position: u64,
    /// Its type.
    pub kind: String,
    /// Its origin; empty where it is not known.
    pub origin: String,
    /// When it happened.
    pub time: Option<Timestamp>,
    /// Its text, in full.
    pub text: String,
    /// The call that it makes or answers.
    pub link: Option<CallLink>,
}

/// The call that an event makes or answers, by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallLink {
    /// It makes the call.
    Call(String),
    /// It answers the call.
    Result(String),
}

impl EventRow {
    /// Microseconds since another event.
    pub(super) fn since(&self, before: Option<Timestamp>) -> Option<i64> {
        Some(self.time?.0.saturating_sub(before?.0))
    }
}

/// Pages of events.
#[derive(Debug, Default)]
pub struct Rows {
    pages: BTreeMap<u64, Vec<EventRow>>,
}

impl Rows {
    /// The event at a position, once it came.
    pub(super) fn get(&self, position: u64) -> Option<&EventRow> {
        let page = self.pages.get(&(position / PAGE_EVENTS))?;
        // Within a damaged session some positions have no event.
        page.binary_search_by_key(&position, |row| row.position).ok().and_then(|at| page.get(at))
    }

    /// True if events of a page are missing, in a session with the tail `to`.
    pub(super) fn is_missing(&self, page: u64, to: u64) -> bool {
        let end = ((page + 1) * PAGE_EVENTS).min(to);
        let last = self.pages.get(&page).and_then(|rows| rows.last());
        last.is_none_or(|row| row.position + 1 < end)
    }

    /// Takes a page and drops those that are far from the reader.
    pub(super) fn insert(&mut self, page: u64, rows: Vec<EventRow>, at: u64) {
        self.pages.insert(page, rows);
        let here = at / PAGE_EVENTS;
        while self.pages() > PAGES_MAX {
            let far = self.pages.keys().copied().max_by_key(|page| page.abs_diff(here));
            let Some(far) = far else { return };
            self.pages.remove(&far);
        }
    }

    /// Adds an event after the last one. When the events before it are not loaded, it is
    /// fetched with its page.
    pub(super) fn push(&mut self, row: EventRow, at: u64) {
        let page = row.position / PAGE_EVENTS;
        if row.position.is_multiple_of(PAGE_EVENTS) {
            return self.insert(page, vec![row], at);
        }
        let rows = self.pages.get_mut(&page);
        let follows = |rows: &&mut Vec<EventRow>| {
            rows.last().is_some_and(|last| last.position + 1 == row.position)
        };
        if let Some(rows) = rows.filter(follows) {
            rows.push(row);
        }
    }

    /// Number of pages loaded.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// The result of a call, or the call of a result, when it is among the events that are here.
    pub(super) fn pair(&self, row: &EventRow) -> Option<&EventRow> {
        let page = row.position / PAGE_EVENTS;
        match row.link.as_ref()? {
            CallLink::Call(id) => {
                let rows = self.pages.range(page..).flat_map(|(_, rows)| rows);
                let answers =
                    |one: &&EventRow| matches!(&one.link, Some(CallLink::Result(of)) if of == id);
                rows.filter(|one| one.position > row.position).find(answers)
            }
            CallLink::Result(id) => {
                let rows = self.pages.range(..=page).rev();
                let rows = rows.flat_map(|(_, rows)| rows.iter().rev());
                let makes =
                    |one: &&EventRow| matches!(&one.link, Some(CallLink::Call(of)) if of == id);
                rows.filter(|one| one.position < row.position).find(makes)
            }
        }
    }

    /// True if every event from a position to the end of the session is loaded.
    pub(super) fn has_all_from(&self, from: u64, to: u64) -> bool {
        let last = to.saturating_sub(1) / PAGE_EVENTS;
        (from / PAGE_EVENTS..=last).all(|page| !self.is_missing(page, to))
    }
}
