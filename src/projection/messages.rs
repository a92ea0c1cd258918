//! Messages of one speaker: the newest whole, and of those before them the ones that were marked
//! important. Which are the newest does not depend on marks. It must not know who spoke.

use std::collections::VecDeque;

use super::Marks;
use crate::event::Position;

/// Marked messages that are kept beside the newest; the oldest is forgotten first.
const MARKED_MAX: usize = 64;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Where.
    pub position: Position,
    /// The words.
    pub text: String,
}

/// Messages, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Messages {
    /// The marked ones, then the newest.
    all: VecDeque<Word>,
    marked: usize,
    /// The last one that left the newest.
    left: Option<Position>,
}

impl Messages {
    /// Every message that is kept.
    pub(super) fn all(&self) -> &VecDeque<Word> {
        &self.all
    }

    /// Adds the latest message; returns those that are not kept any more.
    pub(super) fn add(
        &mut self,
        word: Word,
        (items_max, bytes_max): (usize, usize),
        marks: &Marks,
    ) -> Vec<Word> {
        self.all.push_back(word);
        let mut bytes: usize = self.all.range(self.marked..).map(|word| word.text.len()).sum();
        let mut gone = Vec::new();
        loop {
            let newest = self.all.len() - self.marked;
            if newest <= 1 || newest <= items_max && bytes <= bytes_max {
                break;
            }
            let Some(oldest) = self.all.get(self.marked) else { break };
            bytes -= oldest.text.len();
            self.left = Some(oldest.position);
            if marks.keeps(oldest.position) {
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

    /// Whether a message at a position may have been forgotten.
    pub(super) fn may_lack(&self, position: Position) -> bool {
        let is_kept = || self.all.binary_search_by_key(&position, |word| word.position).is_ok();
        self.left.is_some_and(|left| position <= left) && !is_kept()
    }

    pub(super) fn weight(&self) -> usize {
        self.all.iter().map(|word| word.text.len() + size_of::<Word>()).sum()
    }
}
