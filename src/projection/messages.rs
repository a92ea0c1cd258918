//! Messages of one speaker: the newest whole, and of those before them the ones that were marked
//! important. Which are the newest does not depend on marks. It must not know who spoke.

use std::collections::VecDeque;

use super::Marks;
use crate::event::Position;

/// Marked messages that are kept beside the newest; the oldest is forgotten first.
const MARKED_MAX: usize = 64;

/// A message that is kept.
pub(super) trait Message {
    /// Position where it was said.
    fn position(&self) -> Position;

    /// Its words.
    fn text(&self) -> &str;
}

/// Messages, oldest first.
#[derive(Clone, Debug)]
pub(super) struct Messages<T> {
    /// The marked ones, then the newest.
    all: VecDeque<T>,
    marked: usize,
    /// The last one that left the newest.
    left: Option<Position>,
}

impl<T> Default for Messages<T> {
    fn default() -> Self {
        Self { all: VecDeque::new(), marked: 0, left: None }
    }
}

impl<T: Message> Messages<T> {
    /// Every message that is kept.
    pub(super) fn all(&self) -> &VecDeque<T> {
        &self.all
    }

    /// The message at a position.
    pub(super) fn at_mut(&mut self, position: Position) -> Option<&mut T> {
        let at = self.all.binary_search_by_key(&position, T::position).ok()?;
        self.all.get_mut(at)
    }

    /// Takes a message out.
    pub(super) fn take(&mut self, position: Position) -> Option<T> {
        let at = self.all.binary_search_by_key(&position, T::position).ok()?;
        self.marked -= usize::from(at < self.marked);
        self.all.remove(at)
    }

    /// Adds the latest message; returns those that are not kept any more.
    pub(super) fn add(
        &mut self,
        message: T,
        (items_max, bytes_max): (usize, usize),
        marks: &Marks,
    ) -> Vec<T> {
        self.all.push_back(message);
        let mut bytes: usize = self.all.range(self.marked..).map(|one| one.text().len()).sum();
        let mut gone = Vec::new();
        loop {
            let newest = self.all.len() - self.marked;
            if newest <= 1 || newest <= items_max && bytes <= bytes_max {
                break;
            }
            let Some(oldest) = self.all.get(self.marked) else { break };
            bytes -= oldest.text().len();
            self.left = Some(oldest.position());
            if marks.is_kept(oldest.position()) {
                self.marked += 1;
            } else {
                gone.extend(self.all.remove(self.marked));
            }
        }
        while self.marked > MARKED_MAX {
            self.marked -= 1;
            gone.extend(self.all.pop_front());
        }
        gone
    }

    /// True if a message at a position may have been forgotten.
    pub(super) fn may_lack(&self, position: Position) -> bool {
        let is_kept = || self.all.binary_search_by_key(&position, T::position).is_ok();
        self.left.is_some_and(|left| position <= left) && !is_kept()
    }

    pub(super) fn weight(&self) -> usize {
        self.all.iter().map(|one| one.text().len() + size_of::<T>()).sum()
    }
}
