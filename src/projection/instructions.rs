//! The requests of a session's persons, in their own words: the newest whole, and those that were
//! marked important; earlier ones in a line each. It must not decide which words are a person's;
//! `person` does.

use std::collections::VecDeque;

use super::{
    Marks, Word,
    messages::Messages,
    person,
    text::{clip, one_line},
};
use crate::event::Position;

/// Instructions kept whole, and characters of each.
const WHOLE_MAX: usize = 64;
const WHOLE_CHARS_MAX: usize = 2_000;
/// Instructions before those that are kept in a line, and characters of it.
const LINES_MAX: usize = 1_000;
const LINE_CHARS_MAX: usize = 120;
/// Characters kept of the task.
const TASK_CHARS_MAX: usize = 8_000;

/// What persons asked for. Answers that only agree ("ok", "go ahead") are left out, unless the
/// session begins with one.
#[derive(Clone, Debug, Default)]
pub struct Instructions {
    task: Option<Word>,
    /// Whether the task is an answer that only agrees: the first real one replaces it.
    task_is_trivial: bool,
    whole: Messages,
    lines: VecDeque<Word>,
    count: u64,
}

impl Instructions {
    /// The newest 64, and those before them that were marked important, oldest first, up to 2 000
    /// characters each.
    pub fn whole(&self) -> impl DoubleEndedIterator<Item = &Word> {
        self.whole.all().iter()
    }

    /// Up to 1 000 others, oldest first, in one line of up to 120 characters each.
    pub fn lines(&self) -> impl DoubleEndedIterator<Item = &Word> {
        self.lines.iter()
    }

    /// How many there were in all.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many there was no room for.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.count - (self.whole.all().len() + self.lines.len()) as u64
    }

    /// The first one, up to 8 000 characters.
    pub(super) fn task(&self) -> Option<&Word> {
        self.task.as_ref()
    }

    /// Whether one at a position may be kept in a line, or forgotten.
    pub(super) fn may_lack(&self, position: Position) -> bool {
        self.whole.may_lack(position)
    }

    /// Adds what a person typed.
    pub(super) fn add(&mut self, position: Position, text: &str, marks: &Marks) {
        let trivial = person::is_trivial(text);
        if text.is_empty() || trivial && self.task.is_some() {
            return;
        }
        if self.task.is_none() || self.task_is_trivial {
            self.task = Some(Word { position, text: clip(text, TASK_CHARS_MAX) });
            self.task_is_trivial = trivial;
        }
        self.count += 1;
        let word = Word { position, text: clip(text, WHOLE_CHARS_MAX) };
        for Word { position, text } in self.whole.add(word, (WHOLE_MAX, usize::MAX), marks) {
            if self.lines.len() == LINES_MAX {
                self.lines.pop_front();
            }
            let text = one_line(&text, LINE_CHARS_MAX);
            let place = self.lines.partition_point(|line| line.position < position);
            self.lines.insert(place, Word { position, text });
        }
    }

    pub(super) fn weight(&self) -> usize {
        let task = self.task.as_ref().map_or(0, |task| task.text.len() + size_of::<Word>());
        task + self.whole.weight() + self.lines.len() * (LINE_CHARS_MAX + size_of::<Word>())
    }
}
