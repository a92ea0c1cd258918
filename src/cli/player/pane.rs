//! A pane of wrapped lines: how far it is scrolled and what its hint says. It must not know what
//! the lines are about.

use crate::cli::screen::Tone;

/// Lines that a key scrolls.
const STEP: usize = 3;

/// The lines of a pane and its place in them.
#[derive(Debug, Default)]
pub(super) struct Pane {
    /// Lines above the pane.
    first: usize,
    /// Lines that the pane has room for.
    room: usize,
    lines: Vec<(Tone, String)>,
    /// Key of the state that the lines were made for.
    key: Option<Key>,
}

/// Key of the state that lines show: the player's state, the position, the width.
pub(super) type Key = (u64, u64, usize);

impl Pane {
    /// Replaces the lines unless the key is the same, and keeps the scroll position.
    pub(super) fn show(
        &mut self,
        key: Key,
        room: usize,
        lines: impl FnOnce() -> Vec<(Tone, String)>,
    ) {
        if self.key != Some(key) {
            (self.lines, self.key) = (lines(), Some(key));
        }
        self.room = room;
        self.first = self.first.min(self.last());
    }

    /// The first line that may stand at the top.
    fn last(&self) -> usize {
        self.lines.len().saturating_sub(self.room)
    }

    /// The lines that are seen.
    pub(super) fn seen(&self) -> impl Iterator<Item = &(Tone, String)> {
        self.lines.iter().skip(self.first).take(self.room)
    }

    /// Down by a key's step.
    pub(super) fn down(&mut self) {
        self.first = (self.first + STEP).min(self.last());
    }

    /// Up by a key's step.
    pub(super) fn up(&mut self) {
        self.first = self.first.saturating_sub(STEP);
    }

    /// To the first line.
    pub(super) fn top(&mut self) {
        self.first = 0;
    }

    /// Scrolls until a line is seen.
    pub(super) fn reveal(&mut self, line: usize) {
        if !(self.first..self.first + self.room).contains(&line) {
            self.first = line.saturating_sub(self.room / 3).min(self.last());
        }
    }

    /// Range of the lines in view, when not all of them are: `12–40 of 96 ↑↓`.
    pub(super) fn hint(&self) -> Option<String> {
        let total = self.lines.len();
        if self.room == 0 || total <= self.room {
            return None;
        }
        let end = (self.first + self.room).min(total);
        let up = if self.first > 0 { "↑" } else { "" };
        let down = if end < total { "↓" } else { "" };
        Some(format!("{}–{end} of {total} {up}{down}", self.first + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pane_says_where_it_is_and_never_scrolls_past_its_ends() {
        let mut pane = Pane::default();
        let lines = |count: usize| vec![(Tone::Plain, "x".to_owned()); count];
        pane.show((0, 0, 10), 4, || lines(4));
        assert_eq!(pane.hint(), None, "all of it is seen");
        pane.show((1, 0, 10), 4, || lines(9));
        assert_eq!(pane.hint().as_deref(), Some("1–4 of 9 ↓"));
        pane.up();
        pane.down();
        assert_eq!(pane.hint().as_deref(), Some("4–7 of 9 ↑↓"));
        (0..5).for_each(|_| pane.down());
        assert_eq!(pane.hint().as_deref(), Some("6–9 of 9 ↑"));
        pane.up();
        assert_eq!(pane.hint().as_deref(), Some("3–6 of 9 ↑↓"), "no step was kept past the end");
        pane.reveal(8);
        assert_eq!(pane.hint().as_deref(), Some("6–9 of 9 ↑"));
        pane.reveal(0);
        assert_eq!(pane.hint().as_deref(), Some("1–4 of 9 ↓"));
        pane.show((1, 0, 10), 20, Vec::new);
        assert_eq!((pane.seen().count(), pane.hint()), (9, None), "the lines of the same key stay");
    }
}
