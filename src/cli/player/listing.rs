//! Which events the timeline lists, and steps from one to the next: bookkeeping and results are
//! hidden until a key shows them. It must not read events.

use super::{
    rows::{EventRow, NextListed, PAGE_EVENTS},
    state::Player,
};

impl Player {
    pub(super) fn passes_filter(&self, row: &EventRow) -> bool {
        match &self.only {
            Some(text) => row.kind.to_lowercase().contains(text),
            None => self.shows_all || !row.is_hidden(),
        }
    }

    /// Returns the listed event before or after a position. A position without an event is
    /// skipped.
    pub(super) fn next_listed(&self, at: u64, forward: bool) -> NextListed {
        let mut at = at;
        loop {
            let next = if forward { Some(at + 1) } else { at.checked_sub(1) };
            let Some(next) = next.filter(|next| (self.from..self.to).contains(next)) else {
                return NextListed::End;
            };
            match self.row(next) {
                Some(row) if self.passes_filter(row) => return NextListed::Listed(next),
                None if self.rows.is_incomplete(next / PAGE_EVENTS, self.to) => {
                    return NextListed::Unloaded(next);
                }
                _ => at = next,
            }
        }
    }

    /// Moves forward or back by a number of listed events. With a filter it stops at the first
    /// event that is not loaded; its page is then requested.
    pub(super) fn step(&mut self, count: u64, forward: bool) {
        let (mut at, mut left) = (self.at, count);
        while left > 0 {
            match self.next_listed(at, forward) {
                NextListed::Unloaded(next) if self.only.is_some() => {
                    self.message = Some("more is being loaded; press again".to_owned());
                    return self.move_to(next);
                }
                NextListed::Listed(next) | NextListed::Unloaded(next) => at = next,
                NextListed::End => break,
            }
            left -= 1;
        }
        self.move_to(at);
        if let Some(text) = self.only.as_ref().filter(|_| left == count) {
            let side = if forward { "after" } else { "before" };
            self.message = Some(format!("no event of type {text} {side} this one; Esc shows all"));
        }
    }

    /// Moves from a hidden event to a listed one, forward or back, once its page is loaded.
    pub(super) fn settle(&mut self) {
        let Some(forward) = self.settles else { return };
        let Some(is_listed) = self.row(self.at).map(|row| self.passes_filter(row)) else { return };
        self.settles = None;
        if self.only.is_none() && !is_listed {
            self.step(1, forward);
        }
    }
}
