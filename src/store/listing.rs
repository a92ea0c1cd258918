//! A selection of sessions to list, as values: an engine on a database runs them as a query, one in
//! memory tests each session. It must not know the caller, nor read an event.

use std::{
    cmp::{Ordering, Reverse},
    collections::BTreeMap,
};

use super::SessionInfo;
use crate::event::{SessionId, Timestamp, limits};

/// Metadata keys of a session whose last events were imported, or are no work: when its work began
/// and ended, and its tail then. While its tail is unchanged, it was not worked in since.
pub const BEGAN_KEY: &str = "work.began_at";
/// See [`BEGAN_KEY`].
pub const ENDED_KEY: &str = "work.ended_at";
/// See [`BEGAN_KEY`].
pub const TAIL_KEY: &str = "work.tail";

impl SessionInfo {
    fn metadata_time(&self, name: &str) -> Option<Timestamp> {
        self.metadata.get(name).and_then(|at| Timestamp::parse(at))
    }

    /// Returns when its work began: for an imported session, in the program that recorded it.
    #[must_use]
    pub fn began_at(&self) -> Timestamp {
        self.metadata_time(BEGAN_KEY).map_or(self.created_at, |began| began.min(self.created_at))
    }

    /// Returns the metadata for a batch of so many events that are no work: the time of the last
    /// work stays. Another append in between counts as work.
    #[must_use]
    pub(crate) fn kept_work_time(&self, events: u64) -> BTreeMap<String, Option<String>> {
        let tail = self.tail.plus(events);
        let pairs = [(ENDED_KEY, self.worked_at().to_string()), (TAIL_KEY, tail.to_string())];
        pairs.map(|(name, value)| (name.to_owned(), Some(value))).into()
    }

    /// Returns when it was last worked in: for one only imported, in the program that recorded it.
    #[must_use]
    pub fn worked_at(&self) -> Timestamp {
        let is_imported =
            self.metadata.get(TAIL_KEY).is_some_and(|tail| *tail == self.tail.to_string());
        let ended = self.metadata_time(ENDED_KEY).filter(|_| is_imported);
        ended.map_or(self.updated_at, |ended| ended.min(self.updated_at))
    }
}

/// Sort key of a session in a listing: the time of the order, and its id.
pub type ListingKey = (Timestamp, SessionId);

/// A condition on the record of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Criterion {
    /// The session is archived.
    Archived,
    /// Its id is this text followed by so many hexadecimal digits.
    HexId(String, usize),
    /// It belongs to this workspace, or to none.
    Workspace(Option<String>),
    /// Metadata has a pair with this key.
    Named(String),
    /// Metadata has a pair whose name has this prefix.
    NameBegins(String),
    /// Metadata has this pair.
    Pair(String, String),
    /// The value of this metadata key contains a text.
    Contains(String, String),
    /// It was last written to at or after this time.
    UpdatedFrom(Timestamp),
    /// Its work began at or after this time.
    BeganFrom(Timestamp),
    /// All of these hold.
    All(Vec<Self>),
    /// One of these holds.
    Any(Vec<Self>),
    /// This one does not hold.
    Not(Box<Self>),
}

impl Criterion {
    /// Negates a condition.
    #[must_use]
    pub fn negate(of: Self) -> Self {
        Self::Not(Box::new(of))
    }

    /// Returns true if a session meets the condition.
    #[must_use]
    pub fn matches(&self, info: &SessionInfo) -> bool {
        let value = |name: &String| info.metadata.get(name);
        match self {
            Self::Archived => info.archived_at.is_some(),
            Self::HexId(prefix, digits) => is_hex_id(&info.key.session, prefix, *digits),
            Self::Workspace(name) => info.workspace == *name,
            Self::Named(name) => value(name).is_some(),
            Self::NameBegins(begin) => info.metadata.keys().any(|name| name.starts_with(begin)),
            Self::Pair(name, wanted) => value(name) == Some(wanted),
            Self::Contains(name, text) => value(name).is_some_and(|value| value.contains(text)),
            Self::UpdatedFrom(from) => info.updated_at >= *from,
            Self::BeganFrom(from) => info.began_at() >= *from,
            Self::All(all) => all.iter().all(|one| one.matches(info)),
            Self::Any(any) => any.iter().any(|one| one.matches(info)),
            Self::Not(one) => !one.matches(info),
        }
    }
}

/// Returns true if an id is a prefix followed by exactly so many hexadecimal digits.
#[must_use]
pub fn is_hex_id(session: &SessionId, prefix: &str, digits: usize) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let rest = session.as_str().strip_prefix(prefix);
    rest.is_some_and(|rest| rest.len() == digits && rest.bytes().all(is_digit))
}

/// Order of a listing: descending unless it is ascending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListingOrder {
    /// By creation time.
    #[default]
    Created,
    /// By [`SessionInfo::worked_at`]. A page examines every session, or the newest
    /// [`Listing::looks`].
    Worked,
}

/// Selection of sessions to list.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Maximum sessions in one page.
    pub limit: usize,
    /// Maximum sessions that `only` is tested on for one page.
    pub looks: usize,
    /// Selected sessions skipped before the page.
    pub skip: usize,
    /// True to count all selected sessions: a page examines every session then.
    pub count: bool,
    /// End of the previous page.
    pub after: Option<ListingKey>,
    /// Order of the sessions.
    pub order: ListingOrder,
    /// True for the oldest first.
    pub ascending: bool,
    /// Only sessions of this workspace.
    pub workspace: Option<String>,
    /// True to include archived sessions.
    pub include_archived: bool,
    /// Earliest creation time, inclusive.
    pub created_from: Option<Timestamp>,
    /// Latest creation time, exclusive.
    pub created_to: Option<Timestamp>,
    /// Only sessions that meet this condition.
    pub only: Option<Criterion>,
}

impl Default for Listing {
    fn default() -> Self {
        Self {
            limit: 100,
            looks: limits::LIST_EXAMINED_MAX,
            skip: 0,
            count: false,
            after: None,
            order: ListingOrder::Created,
            ascending: false,
            workspace: None,
            include_archived: false,
            created_from: None,
            created_to: None,
            only: None,
        }
    }
}

/// A page of listed sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListingPage {
    /// The sessions, in the requested order.
    pub sessions: Vec<SessionInfo>,
    /// Start of the next page as its [`Listing::after`]; `None` on the last page.
    pub next: Option<ListingKey>,
    /// Number of selected sessions on all pages; only for a [`Listing::count`].
    pub selected: usize,
}

/// A page that is being filled by an engine.
pub struct ListingPageBuilder<'a> {
    listing: &'a Listing,
    page: ListingPage,
    looked: usize,
    last: Option<ListingKey>,
}

impl<'a> ListingPageBuilder<'a> {
    /// Creates an empty page.
    #[must_use]
    pub fn new(listing: &'a Listing) -> Self {
        Self { listing, page: ListingPage::default(), looked: 0, last: None }
    }

    /// Examines the next session in the order of [`Listing::compare_by_creation`]; `info` is `None`
    /// if it no longer exists. Returns true if the page needs another.
    pub fn examine(&mut self, place: ListingKey, info: Option<SessionInfo>) -> bool {
        let (listing, is_by_work) = (self.listing, self.listing.order == ListingOrder::Worked);
        if self.looked == listing.examined_max() {
            self.page.next = self.last.take().filter(|_| !is_by_work);
            return false;
        }
        self.looked += 1;
        self.last = Some(place);
        let Some(info) = info.filter(|info| listing.is_selected(info)) else { return true };
        let (limit, sessions) = (listing.limit, &mut self.page.sessions);
        self.page.selected += 1;
        if is_by_work {
            sessions.push(info);
            if sessions.len() > limit.saturating_add(1).saturating_mul(4) {
                listing.keep_page_and_next(sessions);
            }
            return true;
        }
        if self.page.selected <= listing.skip {
            return true;
        }
        if sessions.len() == limit {
            self.page.next =
                sessions.last().map(|info| (info.created_at, info.key.session.clone()));
            return listing.count;
        }
        sessions.push(info);
        true
    }

    /// Returns the filled page.
    #[must_use]
    pub fn into_page(mut self) -> ListingPage {
        if self.listing.order == ListingOrder::Worked {
            let sessions = &mut self.page.sessions;
            self.listing.keep_page_and_next(sessions);
            if sessions.len() > self.listing.limit {
                sessions.truncate(self.listing.limit);
                self.page.next = sessions.last().map(work_sort_key);
            }
        }
        self.page
    }
}

/// Returns the sort key of a session in the order of work.
fn work_sort_key(info: &SessionInfo) -> ListingKey {
    (info.worked_at(), info.key.session.clone())
}

impl Listing {
    /// Returns the maximum number of sessions examined for a page.
    #[must_use]
    pub fn examined_max(&self) -> usize {
        if self.count {
            return usize::MAX;
        }
        let is_chosen = self.only.is_some() || self.order == ListingOrder::Worked;
        if is_chosen { self.looks.max(self.limit) } else { self.limit.saturating_add(self.skip) }
    }

    /// Compares sessions in the order in which an engine examines them, by their creation.
    #[must_use]
    pub fn compare_by_creation(&self, a: (Timestamp, &str), b: (Timestamp, &str)) -> Ordering {
        let is_ascending = self.ascending && self.order == ListingOrder::Created;
        if is_ascending { a.cmp(&b) } else { b.cmp(&a) }
    }

    /// Sorts by work, and keeps the sessions of the page and the one after it.
    fn keep_page_and_next(&self, sessions: &mut Vec<SessionInfo>) {
        if self.ascending {
            sessions.sort_by_cached_key(work_sort_key);
        } else {
            sessions.sort_by_cached_key(|info| Reverse(work_sort_key(info)));
        }
        sessions.truncate(self.limit.saturating_add(1));
    }

    /// Returns true if a session that passed [`Self::may_select`] is selected by its whole record.
    fn is_selected(&self, info: &SessionInfo) -> bool {
        let after = self.after.as_ref().filter(|_| self.order == ListingOrder::Worked);
        after.is_none_or(|after| {
            let place = work_sort_key(info);
            if self.ascending { place > *after } else { place < *after }
        }) && self.only.as_ref().is_none_or(|only| only.matches(info))
    }

    /// Returns true if a session of the scope with these fields may belong on the page: it is
    /// examined.
    #[must_use]
    pub fn may_select(
        &self,
        created_at: Timestamp,
        session: &str,
        workspace: Option<&str>,
        archived: bool,
    ) -> bool {
        let after = self.after.as_ref().filter(|_| self.order == ListingOrder::Created);
        after.is_none_or(|(time, last)| {
            self.compare_by_creation((created_at, session), (*time, last.as_str())).is_gt()
        }) && self.workspace.as_deref().is_none_or(|name| workspace == Some(name))
            && (self.include_archived || !archived)
            && self.created_from.is_none_or(|from| created_at >= from)
            && self.created_to.is_none_or(|to| created_at < to)
    }
}
