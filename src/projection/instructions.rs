//! The requests of a session's persons, in their own words: the newest whole, and those that were
//! marked important; earlier ones in a line each. It must not decide which words are a person's;
//! `person` does.

use std::{borrow::Cow, collections::VecDeque};

use super::{
    Marks,
    messages::{Message, Messages},
    person,
};
use crate::event::{
    Position,
    text::{clip, one_line},
};

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
pub struct Instruction {
    /// Position where it was said last.
    pub position: Position,
    /// The words.
    pub text: String,
    /// Number of times it was said.
    pub times: u64,
    /// True if it replaces the task.
    pub replaces: bool,
    /// True if it is known from the answer to a refused call alone, which the program's transcript
    /// may repeat as a message.
    is_echo: bool,
}

impl Message for Instruction {
    fn position(&self) -> Position {
        self.position
    }

    fn text(&self) -> &str {
        &self.text
    }
}

impl Instruction {
    /// The words, with a count where they were said more than once.
    #[must_use]
    pub fn counted(&self) -> Cow<'_, str> {
        match self.times {
            0 | 1 => Cow::Borrowed(&self.text),
            times => Cow::Owned(format!("{} ({times} times)", self.text)),
        }
    }
}

/// Requests of persons. Answers that only agree ("ok", "go ahead") are left out, unless the session
/// begins with one.
#[derive(Clone, Debug, Default)]
pub struct Instructions {
    task: Option<Instruction>,
    /// True if the task is an answer that only agrees: the first real one replaces it.
    task_is_trivial: bool,
    whole: Messages<Instruction>,
    lines: VecDeque<Instruction>,
    count: u64,
}

impl Instructions {
    /// The newest 64, and those before them that were marked important, oldest first, up to 2 000
    /// characters each.
    pub fn whole(&self) -> impl DoubleEndedIterator<Item = &Instruction> {
        self.whole.all().iter()
    }

    /// Up to 1 000 others, oldest first, in one line of up to 120 characters each.
    pub fn lines(&self) -> impl DoubleEndedIterator<Item = &Instruction> {
        self.lines.iter()
    }

    /// Number of instructions in all.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Number of instructions dropped for want of room.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.count - (self.whole.all().len() + self.lines.len()) as u64
    }

    /// The newest request: the task, where there is no later one.
    #[must_use]
    pub fn current(&self) -> Option<&Instruction> {
        self.whole.all().back().or(self.task.as_ref())
    }

    /// The newest request that put something else in the place of the task.
    #[must_use]
    pub fn replacement(&self) -> Option<&Instruction> {
        self.whole.all().iter().rev().find(|word| word.replaces)
    }

    /// The first one, up to 8 000 characters.
    pub(super) fn task(&self) -> Option<&Instruction> {
        self.task.as_ref()
    }

    /// True if one at a position may be kept in a line, or forgotten.
    pub(super) fn may_lack(&self, position: Position) -> bool {
        self.whole.may_lack(position)
    }

    /// Adds what a person typed.
    pub(super) fn add(&mut self, position: Position, text: &str, marks: &Marks) {
        self.add_words(position, text, false, marks);
    }

    /// Adds what a person said to a call that was refused.
    pub(super) fn refuse(&mut self, position: Position, text: &str, marks: &Marks) {
        self.add_words(position, text, true, marks);
    }

    fn add_words(&mut self, position: Position, text: &str, is_echo: bool, marks: &Marks) {
        let trivial = person::is_trivial(text);
        let says_nothing = text.is_empty() || person::is_bare_command(text);
        if says_nothing || trivial && self.task.is_some() {
            return;
        }
        let kept = clip(text, WHOLE_CHARS_MAX);
        let known = self.whole.all().iter().rev().find(|word| word.text == kept);
        if let Some(known) = known.map(|word| word.position) {
            // The task stays where it was said first.
            let is_task = self.task.as_ref().is_some_and(|task| task.position == known);
            let Some(word) = self.whole.at_mut(known) else { return };
            let again = u64::from(!word.is_echo && !is_echo);
            word.times += again;
            word.is_echo = false;
            if is_task {
                self.task.iter_mut().for_each(|task| task.times += again);
            } else if let Some(word) = self.whole.take(known) {
                self.keep(Instruction { position, ..word }, marks);
            }
            return;
        }
        let replaces = self.task.is_some() && !self.task_is_trivial && person::replaces(text);
        let word = |text: String| Instruction { position, text, times: 1, replaces, is_echo };
        if self.task.is_none() || self.task_is_trivial {
            self.task = Some(word(clip(text, TASK_CHARS_MAX)));
            self.task_is_trivial = trivial;
        }
        self.count += 1;
        self.keep(word(kept), marks);
    }

    fn keep(&mut self, word: Instruction, marks: &Marks) {
        for old in self.whole.add(word, (WHOLE_MAX, usize::MAX), marks) {
            if self.lines.len() == LINES_MAX {
                self.lines.pop_front();
            }
            let text = one_line(&old.text, LINE_CHARS_MAX);
            let place = self.lines.partition_point(|line| line.position < old.position);
            self.lines.insert(place, Instruction { text, ..old });
        }
    }

    pub(super) fn weight(&self) -> usize {
        let task = self.task.as_ref().map_or(0, |task| task.text.len() + size_of::<Instruction>());
        task + self.whole.weight() + self.lines.len() * (LINE_CHARS_MAX + size_of::<Instruction>())
    }
}
