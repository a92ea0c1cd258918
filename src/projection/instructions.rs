//! The requests of a session's persons, in their own words: the newest whole, earlier ones in a
//! line each. It must not decide which words are a person's; `person` does.

use std::collections::VecDeque;

use super::{
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

/// A message of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Where.
    pub position: Position,
    /// The words.
    pub text: String,
}

/// What persons asked for. Answers that only agree ("ok", "go ahead") are left out, unless the
/// session begins with one.
#[derive(Clone, Debug, Default)]
pub struct Instructions {
    task: Option<Word>,
    /// Whether the task is an answer that only agrees: the first real one replaces it.
    task_is_trivial: bool,
    whole: VecDeque<Word>,
    lines: VecDeque<Word>,
    count: u64,
}

impl Instructions {
    /// The newest 64, oldest first, up to 2 000 characters each.
    pub fn whole(&self) -> impl DoubleEndedIterator<Item = &Word> {
        self.whole.iter()
    }

    /// Up to 1 000 before those, oldest first, in one line of up to 120 characters each.
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
        self.count - (self.whole.len() + self.lines.len()) as u64
    }

    /// The first one, up to 8 000 characters.
    pub(super) fn task(&self) -> Option<&Word> {
        self.task.as_ref()
    }

    /// Adds what a person typed.
    pub(super) fn add(&mut self, position: Position, text: &str) {
        let trivial = person::is_trivial(text);
        if text.is_empty() || trivial && self.task.is_some() {
            return;
        }
        if self.task.is_none() || self.task_is_trivial {
            self.task = Some(Word { position, text: clip(text, TASK_CHARS_MAX) });
            self.task_is_trivial = trivial;
        }
        self.count += 1;
        if self.whole.len() == WHOLE_MAX
            && let Some(Word { position, text }) = self.whole.pop_front()
        {
            if self.lines.len() == LINES_MAX {
                self.lines.pop_front();
            }
            self.lines.push_back(Word { position, text: one_line(&text, LINE_CHARS_MAX) });
        }
        self.whole.push_back(Word { position, text: clip(text, WHOLE_CHARS_MAX) });
    }

    pub(super) fn weight(&self) -> usize {
        let all = self.task.iter().chain(&self.whole);
        all.map(|word| word.text.len() + size_of::<Word>()).sum::<usize>()
            + self.lines.len() * (LINE_CHARS_MAX + size_of::<Word>())
    }
}
