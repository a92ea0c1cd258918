//! State machine of the player: it receives answers and keys, and returns what it needs. It must
//! not draw, wait, or send a request.

use std::time::Duration;

use serde_json::Value;

use super::{
    pane::Pane,
    rows::{PAGE_EVENTS, Row, Rows},
};
use crate::{
    cli::{args::WhichView, times::Times},
    event::Timestamp,
};

/// Events that a page key passes.
const PAGE_STEP: u64 = 15;
/// While it plays it waits no longer than this between two events, whatever lay between them.
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(3);
/// At speed 1 it waits no shorter than this: the events of an import have equal times.
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(400);
/// Bounds of the speed.
const SPEED_MAX: f64 = 1_024.0;
const SPEED_MIN: f64 = 1.0 / 16.0;
/// Characters of something typed.
const TYPED_CHARS_MAX: usize = 200;

/// A key, whatever terminal it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Backspace,
    Escape,
    /// Away, whatever is being typed.
    Leave,
    Char(char),
}

/// A search from a position on, over the others and around the end to that position itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hunt {
    pub(super) needle: String,
    pub(super) at: u64,
    pub(super) forward: bool,
    /// The positions that are searched, half-open.
    pub(super) from: u64,
    pub(super) to: u64,
}

/// Place where a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) at: u64,
    /// True if it was found past the end, from the start again.
    pub(super) wrapped: bool,
}

/// Next request of the player.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// Events of a page, of a session that is that long.
    Page(u64, u64),
    /// That view of the session as of that position.
    View(Shown, u64),
    /// The position of a point.
    Point(String),
    /// The nearest event that holds a text.
    Search(Hunt),
}

/// View of the session that is shown next to the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    Index,
    Continuation,
    Window,
    Compactions,
    Usage,
}

impl Shown {
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
pub(super) enum News {
    Page(u64, Vec<Row>),
    View(Shown, u64, Value),
    Point(u64),
    Found(Option<Hit>),
    /// It could not be had, and why.
    Failed(String),
}

/// Kind of the text being typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prompt {
    Jump,
    Search,
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
pub(super) struct Player {
    pub(super) session: String,
    /// Positions to be shown, half-open.
    pub(super) from: u64,
    pub(super) to: u64,
    /// Position of the reader.
    pub(super) at: u64,
    pub(super) rows: Rows,
    /// When its first event happened.
    pub(super) start: Option<Timestamp>,
    /// Format of instants.
    pub(super) times: Times,
    pub(super) prompt: Option<(Prompt, String)>,
    pub(super) needle: Option<String>,
    /// Text that the types of shown events contain.
    pub(super) only: Option<String>,
    pub(super) enlarged: Option<Enlarged>,
    /// Index of the current match of the event; the last where there are fewer.
    pub(super) hit: Option<usize>,
    /// Scroll to the current match at the next drawing.
    pub(super) reveals: bool,
    /// Show new events as they come.
    pub(super) follows: bool,
    pub(super) playing: bool,
    pub(super) speed: f64,
    /// Time for which it has stood here while playing.
    stood: Duration,
    /// View that is shown.
    pub(super) shown: Shown,
    /// A view, and as of which position it is.
    pub(super) view: Option<(Shown, u64, Value)>,
    pub(super) view_pane: Pane,
    pub(super) event_pane: Pane,
    pub(super) message: Option<String>,
    pub(super) help: bool,
    pub(super) done: bool,
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
    pub(super) fn new(session: String, (from, to): (u64, u64), speed: Option<f64>) -> Self {
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
            shown: Shown::Index,
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
    pub(super) fn row(&self, position: u64) -> Option<&Row> {
        self.rows.get(position)
    }

    pub(super) fn key(&mut self, key: Key) {
        self.message = None;
        self.stamp += 1;
        if key == Key::Leave {
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
            Key::Up | Key::Char('k') => self.step(1, false),
            Key::Down | Key::Char('j') => self.step(1, true),
            Key::PageUp => self.step(PAGE_STEP, false),
            Key::PageDown => self.step(PAGE_STEP, true),
            Key::Home | Key::Char('g') => self.move_to(self.from),
            Key::End | Key::Char('G') => self.move_to(self.to),
            Key::Char(' ') => {
                self.playing = !self.playing;
                self.stood = Duration::ZERO;
            }
            Key::Char('+' | '=') => self.speed = (self.speed * 2.0).min(SPEED_MAX),
            Key::Char('-') => self.speed = (self.speed / 2.0).max(SPEED_MIN),
            Key::Char(']') => self.event_pane.down(),
            Key::Char('[') => self.event_pane.up(),
            Key::Char('}') => self.view_pane.down(),
            Key::Char('{') => self.view_pane.up(),
            Key::Char('v') => {
                self.shown = self.shown.next();
                self.view_pane.top();
            }
            Key::Char('f') => {
                self.follows = !self.follows;
                let told = if self.follows {
                    "new events are shown as they come"
                } else {
                    "paused at what is here"
                };
                self.message = Some(told.to_owned());
            }
            Key::Char(':') => self.prompt = Some((Prompt::Jump, String::new())),
            Key::Char('/') => self.prompt = Some((Prompt::Search, String::new())),
            Key::Char('t') => self.prompt = Some((Prompt::Filter, String::new())),
            Key::Char('z') => {
                self.enlarged = match self.enlarged {
                    None => Some(Enlarged::Event),
                    Some(Enlarged::Event) => Some(Enlarged::View),
                    Some(Enlarged::View) => None,
                }
            }
            Key::Escape => (self.enlarged, self.only) = (None, None),
            Key::Char('n') => self.search_on(true),
            Key::Char('N') => self.search_on(false),
            Key::Char('?') => self.help = true,
            Key::Char('q') => self.done = true,
            _ => {}
        }
    }

    fn type_key(&mut self, key: Key) {
        let Some((prompt, typed)) = &mut self.prompt else { return };
        match key {
            Key::Escape => self.prompt = None,
            Key::Backspace => {
                typed.pop();
            }
            Key::Char(c) if typed.chars().count() < TYPED_CHARS_MAX => typed.push(c),
            Key::Enter => {
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
    pub(super) fn tick(&mut self, elapsed: Duration) {
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
    pub(super) fn want(&mut self) -> Option<Want> {
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
    pub(super) fn is_fresh(&self) -> bool {
        let has = self.view.as_ref().map(|(shown, at, _)| (*shown, *at));
        has == Some((self.shown, self.at + 1))
    }

    pub(super) fn receive(&mut self, news: News) {
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
    pub(super) fn arrived(&mut self, rows: Vec<Row>) {
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
pub(super) fn pause(before: Option<Timestamp>, after: Option<Timestamp>, speed: f64) -> Duration {
    let lay = before.zip(after).map_or(0, |(before, after)| after.0.saturating_sub(before.0));
    let micros = u64::try_from(lay).unwrap_or(0);
    let real = Duration::try_from_secs_f64(micros as f64 / 1e6 / speed).unwrap_or(PAUSE_MAX);
    let least = Duration::try_from_secs_f64(PAUSE_MIN.as_secs_f64() / speed).unwrap_or(PAUSE_MAX);
    real.max(least).min(PAUSE_MAX)
}
