//! State machine of the player: it receives results and keys, and returns requests. It must not
//! draw, wait, or send a request.

use std::time::Duration;

use serde_json::Value;

use super::{
    pane::Pane,
    rows::{EventRow, HitList, LoadedRows, NextListed, PAGE_EVENTS, SessionHit},
};
use crate::{
    cli::{args::WhichView, times::TimeFormat},
    event::Timestamp,
};

/// Number of events that a page key moves.
const PAGE_STEP: u64 = 15;
/// Maximum pause between two events during playback, regardless of their times.
pub const PAUSE_MAX: Duration = Duration::from_secs(3);
/// Minimum pause at speed 1: the events of an import have equal times.
pub const PAUSE_MIN: Duration = Duration::from_millis(400);
/// Bounds of the speed.
const SPEED_MAX: f64 = 1_024.0;
const SPEED_MIN: f64 = 1.0 / 16.0;
/// Maximum number of characters of a prompt.
const TYPED_CHARS_MAX: usize = 200;

/// A key, independent of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlayerKey {
    /// Moves one event back.
    Up,
    /// Moves one event forward.
    Down,
    /// Moves a page of events back.
    PageUp,
    /// Moves a page of events forward.
    PageDown,
    /// Moves to the first event.
    Home,
    /// Moves to the last event.
    End,
    /// Submits the prompt.
    Enter,
    /// Removes the last character of the prompt.
    Backspace,
    /// Removes the text of the prompt.
    ClearPrompt,
    /// Removes the last word of the prompt.
    RemoveWord,
    /// Stops the program until its shell continues it.
    Suspend,
    /// Closes a prompt; else shows all panes and all events again.
    Escape,
    /// Leaves the player, even while a prompt is open.
    Leave,
    /// Adds a character to the prompt; a command where no prompt is open.
    Char(char),
}

/// A search from a position to one end, then from the other end to that position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrappedSearch {
    /// The text searched for.
    pub needle: String,
    /// Position where the search starts.
    pub at: u64,
    /// True for a search towards the end.
    pub forward: bool,
    /// First position of the searched range.
    pub from: u64,
    /// Position after the searched range.
    pub to: u64,
}

/// Result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchEnd {
    /// Position of the event found.
    pub at: u64,
    /// True if the search wrapped around an end.
    pub wrapped: bool,
}

/// Request of the player.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlayerRequest {
    /// Events of a page, and the tail of the session.
    Page(u64, u64),
    /// View of the session as of a position.
    View(ShownView, u64),
    /// The position of a point.
    Point(String),
    /// Nearest event that contains a text.
    Search(WrappedSearch),
    /// Nearest failure, compaction or request before a position, or after it (`true`).
    Landmark(u64, bool),
    /// Events of all sessions that match some words.
    Everywhere(String),
}

/// View of the session that is shown next to the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownView {
    /// The overview.
    Index,
    /// The continuation.
    Continuation,
    /// The window of a model.
    Window,
    /// The events that compactions removed.
    Compactions,
    /// The level of the context.
    Usage,
}

impl ShownView {
    /// Returns the view's value of the command line.
    pub(super) fn to_argument(self) -> WhichView {
        match self {
            Self::Index => WhichView::Index,
            Self::Continuation => WhichView::Continuation,
            Self::Window => WhichView::Window,
            Self::Compactions => WhichView::Compactions,
            Self::Usage => WhichView::Usage,
        }
    }

    /// Returns the next view; the first after the last.
    fn next_view(self) -> Self {
        match self {
            Self::Index => Self::Continuation,
            Self::Continuation => Self::Window,
            Self::Window => Self::Compactions,
            Self::Compactions => Self::Usage,
            Self::Usage => Self::Index,
        }
    }
}

/// Result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlayerResponse {
    /// The events of a page.
    Page(u64, Vec<EventRow>),
    /// A view as of a position.
    View(ShownView, u64, Value),
    /// The position of a point.
    Point(u64),
    /// Result of a search; none where no event contains the text.
    Found(Option<SearchEnd>),
    /// The position of a failure, a compaction or a request, if there is one.
    Landmark(Option<u64>),
    /// Result of a search in all sessions.
    Everywhere(Vec<SessionHit>),
    /// Reason why the request failed.
    Failed(String),
}

/// Kind of the text being typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptKind {
    /// A point to jump to.
    Jump,
    /// A text to search for.
    Search,
    /// Words to search for in all sessions.
    Everywhere,
    /// A text that the shown types contain.
    Filter,
}

/// The pane that fills the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EnlargedPane {
    Event,
    View,
}

/// The player of one session.
#[derive(Debug)]
pub struct Player {
    pub(super) session: String,
    /// Title of the session; empty if it has none.
    pub title: String,
    /// First position of the played range.
    pub(super) from: u64,
    /// Position after the played range.
    pub to: u64,
    /// Current position.
    pub at: u64,
    /// Loaded events.
    pub rows: LoadedRows,
    /// Time of the session's first event.
    pub start: Option<Timestamp>,
    /// Format of instants.
    pub(super) times: TimeFormat,
    /// Open prompt, and the text typed in it.
    pub prompt: Option<(PromptKind, String)>,
    pub(super) needle: Option<String>,
    /// Text that the types of shown events must contain.
    pub(super) only: Option<String>,
    /// True to list bookkeeping and results, too.
    pub(super) shows_all: bool,
    /// Direction in which the player moves from a hidden event to a listed one, once it is loaded.
    pub(super) settles: Option<bool>,
    /// Open list of hits in all sessions.
    pub hits: Option<HitList>,
    /// Session and position to open instead of this one.
    pub opens: Option<(String, u64)>,
    /// Sessions and positions from which hits led to this one, the first one first.
    pub before: Vec<(String, u64)>,
    pub(super) enlarged: Option<EnlargedPane>,
    /// Index of the current match in the event; the last one if there are fewer.
    pub(super) hit: Option<usize>,
    /// True to scroll to the current match at the next drawing.
    pub(super) reveals: bool,
    /// True to show new events as they arrive.
    pub follows: bool,
    /// True during playback.
    pub playing: bool,
    pub(super) speed: f64,
    /// Time for which playback has stayed at the current event.
    stood: Duration,
    /// Kind of the view shown.
    pub shown: ShownView,
    /// Loaded view, its kind and its position.
    pub view: Option<(ShownView, u64, Value)>,
    pub(super) view_pane: Pane,
    pub(super) event_pane: Pane,
    /// Message in the bottom line.
    pub message: Option<String>,
    /// Open list of the keys.
    pub(super) help: Option<Pane>,
    /// True until the program is suspended, as the user wants it.
    pub suspends: bool,
    /// True once the user leaves.
    pub done: bool,
    /// Request that has no result yet.
    asked: Option<PlayerRequest>,
    pub(super) next: Option<PlayerRequest>,
    /// Failed requests for pages and views, which are not repeated.
    given_up: Vec<PlayerRequest>,
    /// Count of keys and results: the screen is redrawn when it changes.
    pub(super) stamp: u64,
}

impl Player {
    /// Creates a player at the first position of a range.
    #[must_use]
    pub fn new(session: String, (from, to): (u64, u64), speed: Option<f64>) -> Self {
        Self {
            session,
            title: String::new(),
            from,
            to,
            at: from,
            rows: LoadedRows::default(),
            start: None,
            times: TimeFormat::default(),
            prompt: None,
            needle: None,
            only: None,
            shows_all: false,
            settles: Some(true),
            hits: None,
            opens: None,
            before: Vec::new(),
            enlarged: None,
            hit: None,
            reveals: false,
            follows: false,
            playing: speed.is_some(),
            speed: speed.unwrap_or(1.0).clamp(SPEED_MIN, SPEED_MAX),
            stood: Duration::ZERO,
            shown: ShownView::Index,
            view: None,
            view_pane: Pane::default(),
            event_pane: Pane::default(),
            message: None,
            help: None,
            suspends: false,
            done: false,
            asked: None,
            next: None,
            given_up: Vec::new(),
            stamp: 0,
        }
    }

    /// Returns the event at a position, if it is loaded.
    #[must_use]
    pub fn row(&self, position: u64) -> Option<&EventRow> {
        self.rows.get(position)
    }

    /// Handles a key.
    pub fn handle_key(&mut self, key: PlayerKey) {
        self.message = None;
        self.stamp += 1;
        if key == PlayerKey::Leave {
            self.done = true;
            return;
        }
        if key == PlayerKey::Suspend {
            self.suspends = true;
            return;
        }
        if self.prompt.is_some() {
            return self.edit_prompt(key);
        }
        if let Some(keys) = &mut self.help {
            match key {
                PlayerKey::Down | PlayerKey::PageDown | PlayerKey::Char('j' | 'd' | ' ') => {
                    keys.scroll_down();
                }
                PlayerKey::Up | PlayerKey::PageUp | PlayerKey::Char('k' | 'u') => keys.scroll_up(),
                _ => self.help = None,
            }
            return;
        }
        if self.hits.is_some() {
            return self.choose_hit(key);
        }
        match key {
            PlayerKey::Up | PlayerKey::Char('k') => self.step(1, false),
            PlayerKey::Down | PlayerKey::Char('j') => self.step(1, true),
            PlayerKey::PageUp => self.step(PAGE_STEP, false),
            PlayerKey::PageDown => self.step(PAGE_STEP, true),
            PlayerKey::Home | PlayerKey::Char('g') => self.move_to_end(self.from, true),
            PlayerKey::End | PlayerKey::Char('G') => self.move_to_end(self.to, false),
            PlayerKey::Char(' ') => {
                self.playing = !self.playing;
                self.stood = Duration::ZERO;
            }
            PlayerKey::Char('+' | '=') => self.speed = (self.speed * 2.0).min(SPEED_MAX),
            PlayerKey::Char('-') => self.speed = (self.speed / 2.0).max(SPEED_MIN),
            PlayerKey::Char(']') => self.request_landmark(true),
            PlayerKey::Char('[') => self.request_landmark(false),
            PlayerKey::Char('d') => self.event_pane.scroll_down(),
            PlayerKey::Char('u') => self.event_pane.scroll_up(),
            PlayerKey::Char('b') => self.toggle_all(),
            PlayerKey::Char('s') => self.prompt = Some((PromptKind::Everywhere, String::new())),
            PlayerKey::Char('o') => self.return_to_session(),
            PlayerKey::Char('}') => self.view_pane.scroll_down(),
            PlayerKey::Char('{') => self.view_pane.scroll_up(),
            PlayerKey::Char('v') => {
                self.shown = self.shown.next_view();
                self.view_pane.scroll_to_top();
            }
            PlayerKey::Char('f') => self.toggle_following(),
            PlayerKey::Char(':') => self.prompt = Some((PromptKind::Jump, String::new())),
            PlayerKey::Char('/') => self.prompt = Some((PromptKind::Search, String::new())),
            PlayerKey::Char('t') => self.prompt = Some((PromptKind::Filter, String::new())),
            PlayerKey::Char('z') => {
                self.enlarged = match self.enlarged {
                    None => Some(EnlargedPane::Event),
                    Some(EnlargedPane::Event) => Some(EnlargedPane::View),
                    Some(EnlargedPane::View) => None,
                }
            }
            PlayerKey::Escape => (self.enlarged, self.only) = (None, None),
            PlayerKey::Char('n') => self.move_to_match(true),
            PlayerKey::Char('N') => self.move_to_match(false),
            PlayerKey::Char('?') => self.help = Some(Pane::default()),
            PlayerKey::Char('q') => self.done = true,
            _ => {}
        }
    }

    /// Lists bookkeeping and results, or hides them.
    fn toggle_all(&mut self) {
        self.shows_all = !self.shows_all;
        self.settles = Some(false);
        self.settle();
        let shown = if self.shows_all { "every event is listed" } else { "bookkeeping is hidden" };
        self.message = Some(shown.to_owned());
    }

    fn toggle_following(&mut self) {
        self.follows = !self.follows;
        let shown = match self.follows {
            true => "new events are shown as they come",
            false => "paused at what is here",
        };
        self.message = Some(shown.to_owned());
    }

    fn edit_prompt(&mut self, key: PlayerKey) {
        let Some((prompt, typed)) = &mut self.prompt else { return };
        match key {
            PlayerKey::Escape => self.prompt = None,
            PlayerKey::Backspace => {
                typed.pop();
            }
            PlayerKey::ClearPrompt => typed.clear(),
            PlayerKey::RemoveWord => {
                let kept = typed.trim_end().rfind(' ').map_or(0, |space| space + 1);
                typed.truncate(kept);
            }
            PlayerKey::Char(c) if typed.chars().count() < TYPED_CHARS_MAX => typed.push(c),
            PlayerKey::Enter => {
                let (prompt, typed) = (*prompt, std::mem::take(typed));
                self.prompt = None;
                match prompt {
                    PromptKind::Filter => self.set_filter(typed),
                    _ if typed.is_empty() => {}
                    PromptKind::Jump => self.jump_to_text(typed),
                    PromptKind::Search => self.start_search(typed),
                    PromptKind::Everywhere => self.search_everywhere(typed),
                }
            }
            _ => {}
        }
    }

    /// Moves to an end of the session, or to the listed event nearest to it.
    fn move_to_end(&mut self, position: u64, forward: bool) {
        self.move_to(position);
        self.settles = Some(forward);
        self.settle();
    }

    fn request_landmark(&mut self, forward: bool) {
        self.playing = false;
        self.next = Some(PlayerRequest::Landmark(self.at, forward));
    }

    pub(super) fn move_to(&mut self, position: u64) {
        let last = self.to.saturating_sub(1).max(self.from);
        let position = position.clamp(self.from, last);
        self.settles = None;
        if position != self.at {
            self.at = position;
            self.hit = None;
            self.event_pane.scroll_to_top();
            self.stood = Duration::ZERO;
        }
    }

    /// Advances playback by the elapsed time.
    pub fn tick(&mut self, elapsed: Duration) {
        if !self.playing || self.prompt.is_some() || self.to == self.from {
            return;
        }
        if self.next_listed(self.at, true) == NextListed::End {
            self.stood = Duration::ZERO;
            if self.follows {
                return;
            }
            self.playing = false;
            self.message = Some("this is the last event".to_owned());
            return;
        }
        self.stood += elapsed;
        // Playback may pass several events in one tick; it waits at events not loaded yet.
        while let NextListed::Listed(next) = self.next_listed(self.at, true) {
            let times = self.row(self.at).zip(self.row(next));
            let Some((before, after)) = times.map(|(here, next)| (here.time, next.time)) else {
                return;
            };
            let pause = playback_pause(before, after, self.speed);
            if self.stood < pause {
                return;
            }
            let left = self.stood.saturating_sub(pause.max(Duration::from_millis(1)));
            self.move_to(next);
            self.stood = left;
            if left.is_zero() {
                return;
            }
        }
    }

    /// Returns the next request; `None` while one is pending.
    pub fn next_request(&mut self) -> Option<PlayerRequest> {
        if self.asked.is_some() || self.done {
            return None;
        }
        let want = self.next.take().or_else(|| self.missing_request())?;
        self.asked = Some(want.clone());
        Some(want)
    }

    fn missing_request(&self) -> Option<PlayerRequest> {
        if self.from == self.to {
            return None;
        }
        let here = self.at / PAGE_EVENTS;
        let near = |page: &u64| {
            let (first, end) = (page * PAGE_EVENTS, (page + 1) * PAGE_EVENTS);
            first < self.to && end > self.from && self.rows.is_incomplete(*page, self.to)
        };
        let pages = [here, here + 1, here.saturating_sub(1)].into_iter().filter(near);
        let mut pages = pages.map(|page| PlayerRequest::Page(page, self.to));
        let known = |want: &PlayerRequest| self.given_up.contains(want);
        let page = pages.find(|want| !known(want));
        let view = PlayerRequest::View(self.shown, self.at + 1);
        let stale = !self.is_view_fresh();
        // The page of the current event comes first, then the view, then the pages around it.
        match page {
            Some(PlayerRequest::Page(page, to)) if page == here => {
                Some(PlayerRequest::Page(page, to))
            }
            _ if stale && !known(&view) => Some(view),
            page => page,
        }
    }

    /// Returns true if the loaded view is of the current kind and position.
    #[must_use]
    pub fn is_view_fresh(&self) -> bool {
        let has = self.view.as_ref().map(|(shown, at, _)| (*shown, *at));
        has == Some((self.shown, self.at + 1))
    }

    /// Handles the result of the last request.
    pub fn handle_result(&mut self, news: PlayerResponse) {
        self.stamp += 1;
        let asked = self.asked.take();
        match news {
            PlayerResponse::Page(page, rows) => {
                self.rows.insert_page(page, rows, self.at);
                self.settle();
                if let Some(want @ PlayerRequest::Page(_, to)) = asked
                    && self.rows.is_incomplete(page, to)
                {
                    self.given_up.push(want);
                }
            }
            PlayerResponse::View(shown, at, view) => self.view = Some((shown, at, view)),
            PlayerResponse::Point(at) => match asked {
                Some(PlayerRequest::Point(point)) => self.jump_to_position(at, &point),
                _ => self.move_to(at),
            },
            PlayerResponse::Found(hit) => self.apply_search_result(hit, asked),
            PlayerResponse::Landmark(Some(at)) => self.move_to(at),
            PlayerResponse::Landmark(None) => {
                let is_after = matches!(asked, Some(PlayerRequest::Landmark(_, true)));
                let side = if is_after { "after" } else { "before" };
                self.message = Some(format!("no failure, compaction or request {side} this event"));
            }
            PlayerResponse::Everywhere(hits) => self.show_hits(hits),
            PlayerResponse::Failed(why) => {
                if let Some(want @ (PlayerRequest::Page(..) | PlayerRequest::View(..))) = asked {
                    self.given_up.push(want);
                }
                self.message = Some(why);
            }
        }
    }

    /// Appends events. A reader at the last event moves to the new last one.
    pub fn append_rows(&mut self, rows: Vec<EventRow>) {
        self.stamp += 1;
        let is_last = self.next_listed(self.at, true) == NextListed::End;
        let at_end = is_last && !self.playing;
        for row in rows {
            if row.position < self.to {
                continue;
            }
            self.to = row.position + 1;
            self.start = self.start.or(row.time);
            if let Some(result) = &row.row {
                self.rows.complete_call(result);
            }
            self.rows.push(row, self.at);
        }
        if at_end && self.next_listed(self.at, true) != NextListed::End {
            self.move_to_end(self.to, false);
        }
    }
}

/// Returns the pause between two events at a speed: their distance in time, within bounds.
#[must_use]
pub fn playback_pause(before: Option<Timestamp>, after: Option<Timestamp>, speed: f64) -> Duration {
    let lay = before.zip(after).map_or(0, |(before, after)| after.0.saturating_sub(before.0));
    let micros = u64::try_from(lay).unwrap_or(0);
    let real = Duration::try_from_secs_f64(micros as f64 / 1e6 / speed).unwrap_or(PAUSE_MAX);
    let least = Duration::try_from_secs_f64(PAUSE_MIN.as_secs_f64() / speed).unwrap_or(PAUSE_MAX);
    real.max(least).min(PAUSE_MAX)
}
