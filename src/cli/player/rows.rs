//! The events that the player has loaded: the pages nearest to the current position, and the pairs
//! of calls and results. It must not fetch anything.

use std::collections::BTreeMap;

use crate::{api::rows::Row, event::Timestamp};

/// Number of events of a page.
pub const PAGE_EVENTS: u64 = 200;
/// Maximum number of pages kept; those farthest from the current position are dropped first.
pub const PAGES_MAX: usize = 12;

/// An event as the player shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventRow {
    /// Position of the event.
    pub position: u64,
    /// Type of the event.
    pub kind: String,
    /// Origin of the event; empty where it is unknown.
    pub origin: String,
    /// Time of the event.
    pub time: Option<Timestamp>,
    /// Full text of the event.
    pub text: String,
    /// Call that the event makes or answers.
    pub link: Option<CallLink>,
    /// The event as the server lists it, if it is known.
    pub row: Option<Row>,
    /// Lines that an edit removes, adds and leaves: `-`, `+` and a space.
    pub edit: Vec<(char, String)>,
}

/// Id of the call that an event makes or answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallLink {
    /// The event is the call.
    Call(String),
    /// The event is the call's result.
    Result(String),
}

impl EventRow {
    /// Returns true for bookkeeping, and for a result that its call's row shows.
    pub(super) fn is_hidden(&self) -> bool {
        self.row.as_ref().is_some_and(|row| row.bookkeeping || row.of.is_some())
    }

    /// Returns the microseconds since another event.
    pub(super) fn micros_since(&self, before: Option<Timestamp>) -> Option<i64> {
        Some(self.time?.0.saturating_sub(before?.0))
    }
}

/// An event that a search in all sessions found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionHit {
    /// Session of the event.
    pub session: String,
    /// Title of the session; empty if it has none.
    pub title: String,
    /// Position of the event.
    pub position: u64,
    /// Text that matches, in one line.
    pub line: String,
}

/// Hits of a search, one of them chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HitList {
    /// The hits, the best first.
    pub hits: Vec<SessionHit>,
    /// Index of the chosen one.
    pub chosen: usize,
}

/// The listed event next to a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextListed {
    /// Its position.
    Listed(u64),
    /// A position that is not loaded, before any listed one.
    Unloaded(u64),
    /// There is none.
    End,
}

/// Loaded pages of events.
#[derive(Debug, Default)]
pub struct LoadedRows {
    pages: BTreeMap<u64, Vec<EventRow>>,
}

impl LoadedRows {
    pub(super) fn get(&self, position: u64) -> Option<&EventRow> {
        let page = self.pages.get(&(position / PAGE_EVENTS))?;
        // In a damaged session some positions have no event.
        page.binary_search_by_key(&position, |row| row.position).ok().and_then(|at| page.get(at))
    }

    /// Returns true if events of a page are missing, in a session with the tail `to`.
    pub(super) fn is_incomplete(&self, page: u64, to: u64) -> bool {
        let end = ((page + 1) * PAGE_EVENTS).min(to);
        let last = self.pages.get(&page).and_then(|rows| rows.last());
        last.is_none_or(|row| row.position + 1 < end)
    }

    /// Adds a page and drops pages that are far from the current position.
    pub(super) fn insert_page(&mut self, page: u64, rows: Vec<EventRow>, at: u64) {
        self.pages.insert(page, rows);
        let here = at / PAGE_EVENTS;
        while self.page_count() > PAGES_MAX {
            let far = self.pages.keys().copied().max_by_key(|page| page.abs_diff(here));
            let Some(far) = far else { return };
            self.pages.remove(&far);
        }
    }

    /// Adds an event after the last one. When the events before it are not loaded, it is not added
    /// but fetched with its page.
    pub(super) fn push(&mut self, row: EventRow, at: u64) {
        let page = row.position / PAGE_EVENTS;
        if row.position.is_multiple_of(PAGE_EVENTS) {
            return self.insert_page(page, vec![row], at);
        }
        let rows = self.pages.get_mut(&page);
        let follows = |rows: &&mut Vec<EventRow>| {
            rows.last().is_some_and(|last| last.position + 1 == row.position)
        };
        if let Some(rows) = rows.filter(follows) {
            rows.push(row);
        }
    }

    /// Adds the outcome of a result to the row of its call.
    pub(super) fn complete_call(&mut self, result: &Row) {
        let Some(call) = result.of else { return };
        let rows = self.pages.get_mut(&(call.0 / PAGE_EVENTS));
        let rows = rows.into_iter().flatten().filter_map(|event| event.row.as_mut());
        if let Some(row) = rows.into_iter().find(|row| row.position == call) {
            row.result = Some(result.position);
            row.outcome.clone_from(&result.outcome);
            (row.failed, row.duration_ms) = (result.failed, result.duration_ms);
        }
    }

    /// Returns the number of loaded pages.
    #[must_use]
    pub fn page_count(&self) -> usize {
        self.pages.len()
    }

    /// Returns the loaded result of a call, or the loaded call of a result.
    pub(super) fn find_pair(&self, row: &EventRow) -> Option<&EventRow> {
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

    /// Returns true if every event from a position to the end of the session is loaded.
    pub(super) fn is_loaded_from(&self, from: u64, to: u64) -> bool {
        let last = to.saturating_sub(1) / PAGE_EVENTS;
        (from / PAGE_EVENTS..=last).all(|page| !self.is_incomplete(page, to))
    }
}
