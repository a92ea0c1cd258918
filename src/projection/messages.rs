//! Bounded list of one speaker's messages: the newest, and older ones that were marked important.
//! Marks do not affect which are the newest. It must not know the speaker.

use std::collections::VecDeque;

use super::Marks;
use crate::event::Position;

/// Most marked messages kept in addition to the newest; the oldest is dropped first.
const MARKED_MAX: usize = 64;

/// A message that can be kept.
pub(super) trait Message {
    fn position(&self) -> Position;

    fn text(&self) -> &str;
}

/// Kept messages, oldest first.
#[derive(Clone, Debug)]
pub(super) struct KeptMessages<T> {
    /// Marked messages, then the newest.
    all: VecDeque<T>,
    marked: usize,
    /// Position of the last message that left the newest.
    left: Option<Position>,
}

impl<T> Default for KeptMessages<T> {
    fn default() -> Self {
        Self { all: VecDeque::new(), marked: 0, left: None }
    }
}

impl<T: Message> KeptMessages<T> {
    /// Returns every kept message.
    pub(super) fn all(&self) -> &VecDeque<T> {
        &self.all
    }

    pub(super) fn get_mut(&mut self, position: Position) -> Option<&mut T> {
        let at = self.all.binary_search_by_key(&position, T::position).ok()?;
        self.all.get_mut(at)
    }

    /// Removes and returns the message at a position.
    pub(super) fn take(&mut self, position: Position) -> Option<T> {
        let at = self.all.binary_search_by_key(&position, T::position).ok()?;
        self.marked -= usize::from(at < self.marked);
        self.all.remove(at)
    }

    /// Adds the latest message; returns the messages that were dropped.
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
            if marks.is_important(oldest.position()) {
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

    /// Returns true if a message at that position may have been dropped.
    pub(super) fn may_have_dropped(&self, position: Position) -> bool {
        let is_kept = || self.all.binary_search_by_key(&position, T::position).is_ok();
        self.left.is_some_and(|left| position <= left) && !is_kept()
    }

    pub(super) fn weight(&self) -> usize {
        self.all.iter().map(|one| one.text().len() + size_of::<T>()).sum()
    }
}
