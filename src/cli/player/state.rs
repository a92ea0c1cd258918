//! State machine of the player: it receives answers and keys, and returns what it needs. It must
//! not draw, wait, or send a request.

use std::time::Duration;

use serde_json::Value;

use super::{
    pane::Pane,
    rows::{EventRow, PAGE_EVENTS, Rows},
};
use crate::{
    cli::{args::WhichView, times::Times},
    event::Timestamp,
};

/// Events that a page key passes.
const PAGE_STEP: u64 = 15;
/// While it plays it waits no longer than this between two events, whatever lay between them.
pub const PAUSE_MAX: Duration = Duration::from_secs(3);
/// At speed 1 it waits no shorter than this: the events of an import have equal times.
pub const PAUSE_MIN: Duration = Duration::from_millis(400);
/// Bounds of the speed.
const SPEED_MAX: f64 = 1_024.0;
const SPEED_MIN: f64 = 1.0 / 16.0;
/// Characters of something typed.
const TYPED_CHARS_MAX: usize = 200;

/// A key, whatever terminal it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlayerKey {
    /// One event back.
    Up,
    /// One event on.
    Down,
    /// Fifteen back.
    PageUp,
    /// Fifteen on.
    PageDown,
    /// The first event.
    Home,
    /// The last event.
    End,
    /// The end of what is typed.
    Enter,
    /// Without the last character typed.
    Backspace,
    /// Closes a prompt; all panes and events again.
    Escape,
    /// Away, whatever is being typed.
    Leave,
    /// A character, which is a command where nothing is typed.
    Char(char),
}

/// A search from a position on, over the others and around the end to that position itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunt {
    /// The text searched for.
    pub needle: String,
    /// The position that it begins at.
    pub at: u64,
    /// True towards the end.
    pub forward: bool,
    /// First of the positions that are searched.
    pub from: u64,
    /// The position after the last.
    pub to: u64,
}

/// Place where a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchEnd {
    /// The position of the event.
    pub at: u64,
    /// True if it was found past the end, from the start again.
    pub wrapped: bool,
}

/// Next request of the player.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want {
    /// Events of a page, of a session that is that long.
    Page(u64, u64),
    /// That view of the session as of that position.
    View(ShownView, u64),
    /// The position of a point.
    Point(String),
    /// The nearest event that holds a text.
    Search(Hunt),
}

/// View of the session that is shown next to the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownView {
    /// The overview.
    Index,
    /// The text that an agent needs to continue.
    Continuation,
    /// The window of a model.
    Window,
    /// The events that compactions took.
    Compactions,
    /// The fill of the context.
    Usage,
}

impl ShownView {
    /// The view on the command line.
    pub(super) fn which(self) -> WhichView {
        match self {
            Self::Index => WhichView::Index,
            Self::Continuation => WhichView::Continuation,
            Self::Window => WhichView::Window,
            Self::Compactions => WhichView::Compactions,
            Self::Usage => WhichView::Usage,
        }
    }

    /// The one after it; the first after the last.
    fn next(self) -> Self {
        match self {
            Self::Index => Self::Continuation,
            Self::Continuation => Self::Window,
            Self::Window => Self::Compactions,
            Self::Compactions => Self::Usage,
            Self::Usage => Self::Index,
        }
    }
}

/// The answer to a want.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The events of a page.
    Page(u64, Vec<EventRow>),
    /// A view as of a position.
    View(ShownView, u64, Value),
    /// The position of a point.
    Point(u64),
    /// The end of a search; none where no event has the text.
    Found(Option<SearchEnd>),
    /// It could not be had, and why.
    Failed(String),
}

/// Kind of the text being typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// A point to go to.
    Jump,
    /// A text to search for.
    Search,
    /// A part of the types to show.
    Filter,
}

/// The pane that has the whole screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Enlarged {
    Event,
    View,
}

/// The player of one session.
#[derive(Debug)]
pub struct Player {
    pub(super) session: String,
    /// First of the positions to be shown.
    pub(super) from: u64,
    /// The position after the last of them.
    pub to: u64,
    /// Position of the reader.
    pub at: u64,
    /// The events that came.
    pub rows: Rows,
    /// When its first event happened.
    pub start: Option<Timestamp>,
    /// Format of instants.
    pub(super) times: Times,
    /// The prompt that is open, and what was typed there.
    pub prompt: Option<(Prompt, String)>,
    pub(super) needle: Option<String>,
    /// Text that the types of shown events contain.
    pub(super) only: Option<String>,
    pub(super) enlarged: Option<Enlarged>,
    /// Index of the current match of the event; the last where there are fewer.
    pub(super) hit: Option<usize>,
    /// Scroll to the current match at the next drawing.
    pub(super) reveals: bool,
    /// Show new events as they come.
    pub follows: bool,
    /// True while it plays.
    pub playing: bool,
    pub(super) speed: f64,
    /// Time for which it has stood here while playing.
    stood: Duration,
    /// View that is shown.
    pub shown: ShownView,
    /// A view, and as of which position it is.
    pub view: Option<(ShownView, u64, Value)>,
    pub(super) view_pane: Pane,
    pub(super) event_pane: Pane,
    /// The message at the foot.
    pub message: Option<String>,
    pub(super) help: bool,
    /// True once its reader leaves.
    pub done: bool,
    /// Request without an answer yet.
    asked: Option<Want>,
    pub(super) next: Option<Want>,
    /// Pages and views that could not be had are not asked for again and again.
    given_up: Vec<Want>,
    /// Counts keys and news: the screen is drawn again when it changes.
    pub(super) stamp: u64,
}

impl Player {
    /// A player that stands at the first of the positions.
    #[must_use]
    pub fn new(session: String, (from, to): (u64, u64), speed: Option<f64>) -> Self {
        Self {
            session,
            from,
            to,
            at: from,
            rows: Rows::default(),
            start: None,
            times: Times::default(),
            prompt: None,
            needle: None,
            only: None,
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
            help: false,
            done: false,
            asked: None,
            next: None,
            given_up: Vec::new(),
            stamp: 0,
        }
    }

    /// The event at a position, once it came.
    #[must_use]
    pub fn row(&self, position: u64) -> Option<&EventRow> {
        self.rows.get(position)
    }

    /// Takes a key.
    pub fn key(&mut self, key: PlayerKey) {
        self.message = None;
        self.stamp += 1;
        if key == PlayerKey::Leave {
            self.done = true;
            return;
        }
        if self.prompt.is_some() {
            return self.type_key(key);
        }
        if self.help {
            self.help = false;
            return;
        }
        match key {
            PlayerKey::Up | PlayerKey::Char('k') => self.step(1, false),
            PlayerKey::Down | PlayerKey::Char('j') => self.step(1, true),
            PlayerKey::PageUp => self.step(PAGE_STEP, false),
            PlayerKey::PageDown => self.step(PAGE_STEP, true),
            PlayerKey::Home | PlayerKey::Char('g') => self.move_to(self.from),
            PlayerKey::End | PlayerKey::Char('G') => self.move_to(self.to),
            PlayerKey::Char(' ') => {
                self.playing = !self.playing;
                self.stood = Duration::ZERO;
            }
            PlayerKey::Char('+' | '=') => self.speed = (self.speed * 2.0).min(SPEED_MAX),
            PlayerKey::Char('-') => self.speed = (self.speed / 2.0).max(SPEED_MIN),
            PlayerKey::Char(']') => self.event_pane.down(),
            PlayerKey::Char('[') => self.event_pane.up(),
            PlayerKey::Char('}') => self.view_pane.down(),
            PlayerKey::Char('{') => self.view_pane.up(),
            PlayerKey::Char('v') => {
                self.shown = self.shown.next();
                self.view_pane.top();
            }
            PlayerKey::Char('f') => {
                self.follows = !self.follows;
                let told = if self.follows {
                    "new events are shown as they come"
                } else {
                    "paused at what is here"
                };
                self.message = Some(told.to_owned());
            }
            PlayerKey::Char(':') => self.prompt = Some((Prompt::Jump, String::new())),
            PlayerKey::Char('/') => self.prompt = Some((Prompt::Search, String::new())),
            PlayerKey::Char('t') => self.prompt = Some((Prompt::Filter, String::new())),
            PlayerKey::Char('z') => {
                self.enlarged = match self.enlarged {
                    None => Some(Enlarged::Event),
                    Some(Enlarged::Event) => Some(Enlarged::View),
                    Some(Enlarged::View) => None,
                }
            }
            PlayerKey::Escape => (self.enlarged, self.only) = (None, None),
            PlayerKey::Char('n') => self.search_on(true),
            PlayerKey::Char('N') => self.search_on(false),
            PlayerKey::Char('?') => self.help = true,
            PlayerKey::Char('q') => self.done = true,
            _ => {}
        }
    }

    fn type_key(&mut self, key: PlayerKey) {
        let Some((prompt, typed)) = &mut self.prompt else { return };
        match key {
            PlayerKey::Escape => self.prompt = None,
            PlayerKey::Backspace => {
                typed.pop();
            }
            PlayerKey::Char(c) if typed.chars().count() < TYPED_CHARS_MAX => typed.push(c),
            PlayerKey::Enter => {
                let (prompt, typed) = (*prompt, std::mem::take(typed));
                self.prompt = None;
                match prompt {
                    Prompt::Filter => self.filter(typed),
                    _ if typed.is_empty() => {}
                    Prompt::Jump => self.jump(typed),
                    Prompt::Search => self.search(typed),
                }
            }
            _ => {}
        }
    }

    pub(super) fn move_to(&mut self, position: u64) {
        let last = self.to.saturating_sub(1).max(self.from);
        let position = position.clamp(self.from, last);
        if position != self.at {
            self.at = position;
            self.hit = None;
            self.event_pane.top();
            self.stood = Duration::ZERO;
        }
    }

    /// So much time went by.
    pub fn tick(&mut self, elapsed: Duration) {
        if !self.playing || self.prompt.is_some() || self.to == self.from {
            return;
        }
        if self.at + 1 >= self.to {
            self.stood = Duration::ZERO;
            if self.follows {
                return;
            }
            self.playing = false;
            self.message = Some("this is the last event".to_owned());
            return;
        }
        self.stood += elapsed;
        // Playback may pass several events in one tick; it waits for those not loaded yet.
        while self.at + 1 < self.to {
            let (Some(here), Some(next)) = (self.row(self.at), self.row(self.at + 1)) else {
                return;
            };
            let pause = pause(here.time, next.time, self.speed);
            if self.stood < pause {
                return;
            }
            let left = self.stood.saturating_sub(pause.max(Duration::from_millis(1)));
            self.move_to(self.at + 1);
            self.stood = left;
            if left.is_zero() {
                return;
            }
        }
    }

    /// Next request; `None` while one is unanswered.
    pub fn want(&mut self) -> Option<Want> {
        if self.asked.is_some() || self.done {
            return None;
        }
        let want = self.next.take().or_else(|| self.lacking())?;
        self.asked = Some(want.clone());
        Some(want)
    }

    fn lacking(&self) -> Option<Want> {
        if self.from == self.to {
            return None;
        }
        let here = self.at / PAGE_EVENTS;
        let near = |page: &u64| {
            let (first, end) = (page * PAGE_EVENTS, (page + 1) * PAGE_EVENTS);
            first < self.to && end > self.from && self.rows.is_missing(*page, self.to)
        };
        let pages = [here, here + 1, here.saturating_sub(1)].into_iter().filter(near);
        let mut pages = pages.map(|page| Want::Page(page, self.to));
        let known = |want: &Want| self.given_up.contains(want);
        let page = pages.find(|want| !known(want));
        let view = Want::View(self.shown, self.at + 1);
        let stale = !self.is_fresh();
        // The event where the reader stands comes first, then the view, then the events around it.
        match page {
            Some(Want::Page(page, to)) if page == here => Some(Want::Page(page, to)),
            _ if stale && !known(&view) => Some(view),
            page => page,
        }
    }

    /// True if the loaded view is the one shown, as of the reader's position.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        let has = self.view.as_ref().map(|(shown, at, _)| (*shown, *at));
        has == Some((self.shown, self.at + 1))
    }

    /// Takes the answer to its last request.
    pub fn receive(&mut self, news: News) {
        self.stamp += 1;
        let asked = self.asked.take();
        match news {
            News::Page(page, rows) => {
                self.rows.insert(page, rows, self.at);
                if let Some(want @ Want::Page(_, to)) = asked
                    && self.rows.is_missing(page, to)
                {
                    self.given_up.push(want);
                }
            }
            News::View(shown, at, view) => self.view = Some((shown, at, view)),
            News::Point(at) => match asked {
                Some(Want::Point(point)) => self.jump_to(at, &point),
                _ => self.move_to(at),
            },
            News::Found(hit) => self.found(hit, asked),
            News::Failed(why) => {
                if let Some(want @ (Want::Page(..) | Want::View(..))) = asked {
                    self.given_up.push(want);
                }
                self.message = Some(why);
            }
        }
    }

    /// Adds events after the last one. A reader at the last one stays at the last one.
    pub fn arrived(&mut self, rows: Vec<EventRow>) {
        self.stamp += 1;
        let at_end = self.at + 1 >= self.to && !self.playing;
        for row in rows {
            if row.position < self.to {
                continue;
            }
            self.to = row.position + 1;
            self.start = self.start.or(row.time);
            self.rows.push(row, self.at);
        }
        if at_end {
            self.move_to(self.to);
        }
    }
}

/// Pause between two events at that speed: their distance in time, within bounds.
#[must_use]
pub fn pause(before: Option<Timestamp>, after: Option<Timestamp>, speed: f64) -> Duration {
    let lay = before.zip(after).map_or(0, |(before, after)| after.0.saturating_sub(before.0));
    let micros = u64::try_from(lay).unwrap_or(0);
    let real = Duration::try_from_secs_f64(micros as f64 / 1e6 / speed).unwrap_or(PAUSE_MAX);
    let least = Duration::try_from_secs_f64(PAUSE_MIN.as_secs_f64() / speed).unwrap_or(PAUSE_MAX);
    real.max(least).min(PAUSE_MAX)
}
