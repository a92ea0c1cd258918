//! A pane of wrapped lines, its scroll position and its hint. It must not know what the lines are
//! about.

use crate::cli::screen::Tone;

/// Number of lines that a key scrolls.
const STEP: usize = 3;

/// Lines of a pane and its scroll position.
#[derive(Debug, Default)]
pub(super) struct Pane {
    /// Number of lines scrolled past the top.
    first: usize,
    /// Number of lines that fit the pane.
    room: usize,
    lines: Vec<(Tone, String)>,
    /// Key of the state from which the lines were made.
    key: Option<Key>,
}

/// Key of the state that lines show: the player's stamp, the position, the width.
pub(super) type Key = (u64, u64, usize);

impl Pane {
    /// Replaces the lines unless the key is unchanged; keeps the scroll position.
    pub(super) fn set_lines(
        &mut self,
        key: Key,
        room: usize,
        lines: impl FnOnce() -> Vec<(Tone, String)>,
    ) {
        if self.key != Some(key) {
            (self.lines, self.key) = (lines(), Some(key));
        }
        self.room = room;
        self.first = self.first.min(self.max_scroll());
    }

    /// Returns the last valid scroll position.
    fn max_scroll(&self) -> usize {
        self.lines.len().saturating_sub(self.room)
    }

    pub(super) fn visible_lines(&self) -> impl Iterator<Item = &(Tone, String)> {
        self.lines.iter().skip(self.first).take(self.room)
    }

    /// Scrolls down by one step.
    pub(super) fn scroll_down(&mut self) {
        self.first = (self.first + STEP).min(self.max_scroll());
    }

    /// Scrolls up by one step.
    pub(super) fn scroll_up(&mut self) {
        self.first = self.first.saturating_sub(STEP);
    }

    /// Scrolls to the first line.
    pub(super) fn scroll_to_top(&mut self) {
        self.first = 0;
    }

    /// Scrolls until a line is visible.
    pub(super) fn scroll_to(&mut self, line: usize) {
        if !(self.first..self.first + self.room).contains(&line) {
            self.first = line.saturating_sub(self.room / 3).min(self.max_scroll());
        }
    }

    /// Formats the range of visible lines, unless all are visible: `12–40 of 96 ↑↓`.
    pub(super) fn format_range(&self) -> Option<String> {
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
    fn a_pane_shows_its_visible_range_and_stops_scrolling_at_its_ends() {
        let mut pane = Pane::default();
        let lines = |count: usize| vec![(Tone::Plain, "x".to_owned()); count];
        pane.set_lines((0, 0, 10), 4, || lines(4));
        assert_eq!(pane.format_range(), None, "all of it is seen");
        pane.set_lines((1, 0, 10), 4, || lines(9));
        assert_eq!(pane.format_range().as_deref(), Some("1–4 of 9 ↓"));
        pane.scroll_up();
        pane.scroll_down();
        assert_eq!(pane.format_range().as_deref(), Some("4–7 of 9 ↑↓"));
        (0..5).for_each(|_| pane.scroll_down());
        assert_eq!(pane.format_range().as_deref(), Some("6–9 of 9 ↑"));
        pane.scroll_up();
        assert_eq!(
            pane.format_range().as_deref(),
            Some("3–6 of 9 ↑↓"),
            "no step was kept past the end"
        );
        pane.scroll_to(8);
        assert_eq!(pane.format_range().as_deref(), Some("6–9 of 9 ↑"));
        pane.scroll_to(0);
        assert_eq!(pane.format_range().as_deref(), Some("1–4 of 9 ↓"));
        pane.set_lines((1, 0, 10), 20, Vec::new);
        assert_eq!(
            (pane.visible_lines().count(), pane.format_range()),
            (9, None),
            "the lines of the same key stay"
        );
    }
}
