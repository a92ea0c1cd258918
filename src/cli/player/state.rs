//! What the player shows and what it does with a key: a state machine that is told what came and
//! says what it wants. It must not draw, wait, or speak to anybody.

use std::{collections::BTreeMap, time::Duration};

use crate::event::Timestamp;

/// Events of a page.
pub(super) const PAGE_EVENTS: u64 = 200;
/// Pages kept; the ones farthest from where the reader stands go first.
pub(super) const PAGES_MAX: usize = 12;
/// How far a page key goes.
const PAGE_STEP: u64 = 15;
/// While it plays it waits no longer than this between two events, whatever lay between them.
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(3);
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

/// An event as the player shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) position: u64,
    pub(super) kind: String,
    pub(super) origin: String,
    pub(super) time: Option<Timestamp>,
    /// What it says, in full.
    pub(super) text: String,
}

/// What the player needs to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// Events of that page.
    Page(u64),
    /// That view of the session as of that position.
    View(Shown, u64),
    /// The position of a point.
    Point(String),
    /// The next event that holds a text, after a position or before it.
    Search { needle: String, from: u64, forward: bool },
}

/// What of the session is shown beside the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    Index,
    Continuation,
    Window,
    Compactions,
    Usage,
}

impl Shown {
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

/// What became of a want.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum News {
    Page(u64, Vec<Row>),
    View(Shown, u64, Vec<String>),
    Point(u64),
    Found(Option<u64>),
    /// It could not be had, and why.
    Failed(String),
}

/// What is being typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prompt {
    Jump,
    Search,
}

/// The player of one session.
#[derive(Debug)]
pub(super) struct Player {
    pub(super) session: String,
    /// Positions to be shown, half-open.
    pub(super) from: u64,
    pub(super) to: u64,
    /// Where the reader stands.
    pub(super) at: u64,
    pub(super) pages: BTreeMap<u64, Vec<Row>>,
    pub(super) prompt: Option<(Prompt, String)>,
    needle: Option<String>,
    pub(super) playing: bool,
    pub(super) speed: f64,
    /// How long it has stood here while playing.
    stood: Duration,
    /// Which view is shown.
    pub(super) shown: Shown,
    /// A view, and as of which position it is.
    pub(super) view: Option<(Shown, u64, Vec<String>)>,
    /// Lines of the view that are scrolled past.
    pub(super) viewed: u16,
    pub(super) message: Option<String>,
    /// Lines of the event that are scrolled past.
    pub(super) scrolled: u16,
    pub(super) help: bool,
    pub(super) done: bool,
    /// What was asked for and did not come yet.
    asked: Option<Want>,
    next: Option<Want>,
    /// Pages and views that could not be had are not asked for again and again.
    given_up: Vec<Want>,
}

impl Player {
    /// A player that stands at the first of the positions.
    pub(super) fn new(session: String, (from, to): (u64, u64), speed: Option<f64>) -> Self {
        Self {
            session,
            from,
            to,
            at: from,
            pages: BTreeMap::new(),
            prompt: None,
            needle: None,
            playing: speed.is_some(),
            speed: speed.unwrap_or(1.0).clamp(SPEED_MIN, SPEED_MAX),
            stood: Duration::ZERO,
            shown: Shown::Index,
            view: None,
            viewed: 0,
            message: None,
            scrolled: 0,
            help: false,
            done: false,
            asked: None,
            next: None,
            given_up: Vec::new(),
        }
    }

    /// The event at a position, once it came.
    pub(super) fn row(&self, position: u64) -> Option<&Row> {
        let page = self.pages.get(&(position / PAGE_EVENTS))?;
        // Within a damaged session some positions have no event.
        page.binary_search_by_key(&position, |row| row.position).ok().and_then(|at| page.get(at))
    }

    pub(super) fn key(&mut self, key: Key) {
        self.message = None;
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
            Key::Up | Key::Char('k') => self.move_to(self.at.saturating_sub(1)),
            Key::Down | Key::Char('j') => self.move_to(self.at + 1),
            Key::PageUp => self.move_to(self.at.saturating_sub(PAGE_STEP)),
            Key::PageDown => self.move_to(self.at + PAGE_STEP),
            Key::Home | Key::Char('g') => self.move_to(self.from),
            Key::End | Key::Char('G') => self.move_to(self.to),
            Key::Char(' ') => {
                self.playing = !self.playing;
                self.stood = Duration::ZERO;
            }
            Key::Char('+' | '=') => self.speed = (self.speed * 2.0).min(SPEED_MAX),
            Key::Char('-') => self.speed = (self.speed / 2.0).max(SPEED_MIN),
            Key::Char(']') => self.scrolled = self.scrolled.saturating_add(3),
            Key::Char('[') => self.scrolled = self.scrolled.saturating_sub(3),
            Key::Char('}') => self.viewed = self.viewed.saturating_add(3),
            Key::Char('{') => self.viewed = self.viewed.saturating_sub(3),
            Key::Char('v') => (self.shown, self.viewed) = (self.shown.next(), 0),
            Key::Char(':') => self.prompt = Some((Prompt::Jump, String::new())),
            Key::Char('/') => self.prompt = Some((Prompt::Search, String::new())),
            Key::Char('n') => self.search(true),
            Key::Char('N') => self.search(false),
            Key::Char('?') => self.help = true,
            Key::Char('q') | Key::Escape => self.done = true,
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
                    _ if typed.is_empty() => {}
                    Prompt::Jump => {
                        self.playing = false;
                        self.next = Some(Want::Point(typed));
                    }
                    Prompt::Search => {
                        self.needle = Some(typed);
                        self.search(true);
                    }
                }
            }
            _ => {}
        }
    }

    fn search(&mut self, forward: bool) {
        self.playing = false;
        match self.needle.clone() {
            Some(needle) => self.next = Some(Want::Search { needle, from: self.at, forward }),
            None => self.message = Some("nothing is searched for: / begins a search".to_owned()),
        }
    }

    fn move_to(&mut self, position: u64) {
        let last = self.to.saturating_sub(1).max(self.from);
        let position = position.clamp(self.from, last);
        if position != self.at {
            self.at = position;
            self.scrolled = 0;
            self.stood = Duration::ZERO;
        }
    }

    /// So much time went by.
    pub(super) fn tick(&mut self, elapsed: Duration) {
        if !self.playing || self.prompt.is_some() || self.to == self.from {
            return;
        }
        if self.at + 1 >= self.to {
            self.playing = false;
            self.message = Some("this is the last event".to_owned());
            return;
        }
        self.stood += elapsed;
        // Who goes fast may pass several in one tick; what did not come yet is waited for.
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

    /// What to get next; nothing while something is on its way.
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
            !self.pages.contains_key(page) && first < self.to && end > self.from
        };
        let pages = [here, here + 1, here.saturating_sub(1)].into_iter().filter(near);
        let mut pages = pages.map(Want::Page);
        let known = |want: &Want| self.given_up.contains(want);
        let page = pages.find(|want| !known(want));
        let view = Want::View(self.shown, self.at + 1);
        let stale = !self.is_fresh();
        // The event where the reader stands comes first, then the view, then what lies around.
        match page {
            Some(Want::Page(page)) if page == here => Some(Want::Page(page)),
            _ if stale && !known(&view) => Some(view),
            page => page,
        }
    }

    /// Whether the view is the one that is shown, as of where the reader stands.
    pub(super) fn is_fresh(&self) -> bool {
        let has = self.view.as_ref().map(|(shown, at, _)| (*shown, *at));
        has == Some((self.shown, self.at + 1))
    }

    pub(super) fn news(&mut self, news: News) {
        let asked = self.asked.take();
        match news {
            News::Page(page, rows) => {
                self.pages.insert(page, rows);
                self.forget_far();
            }
            News::View(shown, at, lines) => self.view = Some((shown, at, lines)),
            News::Point(at) => self.move_to(at),
            News::Found(Some(at)) => self.move_to(at),
            News::Found(None) => {
                let needle = self.needle.as_deref().unwrap_or_default();
                self.message = Some(format!("{needle:?} comes no more in this direction"));
            }
            News::Failed(why) => {
                if let Some(want @ (Want::Page(_) | Want::View(..))) = asked {
                    self.given_up.push(want);
                }
                self.message = Some(why);
            }
        }
    }

    fn forget_far(&mut self) {
        let here = self.at / PAGE_EVENTS;
        while self.pages.len() > PAGES_MAX {
            let far = self.pages.keys().copied().max_by_key(|page| page.abs_diff(here));
            let Some(far) = far else { return };
            self.pages.remove(&far);
        }
    }
}

/// How long lies between two events at that speed.
pub(super) fn pause(before: Option<Timestamp>, after: Option<Timestamp>, speed: f64) -> Duration {
    let (Some(before), Some(after)) = (before, after) else { return Duration::ZERO };
    let micros = u64::try_from(after.0.saturating_sub(before.0)).unwrap_or(0);
    let real = Duration::try_from_secs_f64(micros as f64 / 1e6 / speed).unwrap_or(PAUSE_MAX);
    real.min(PAUSE_MAX)
}
