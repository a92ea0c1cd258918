//! Requests of a session's user, verbatim: the newest and those marked important in full, earlier
//! ones in one line each. It must not decide which text the user typed; `user_text` does.

use std::{borrow::Cow, collections::VecDeque};

use super::{
    Marks,
    messages::{KeptMessages, Message},
    user_text,
};
use crate::event::{
    Position,
    text::{clip, one_line},
};

/// Most instructions kept in full, and most characters of each.
const WHOLE_MAX: usize = 64;
const WHOLE_CHARS_MAX: usize = 2_000;
/// Most earlier instructions kept in one line, and most characters of it.
const LINES_MAX: usize = 1_000;
const LINE_CHARS_MAX: usize = 120;
/// Most characters kept of the task.
const TASK_CHARS_MAX: usize = 8_000;

/// An instruction: a message that the user typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Position of the latest occurrence.
    pub position: Position,
    /// Text of the message.
    pub text: String,
    /// Number of occurrences.
    pub times: u64,
    /// True if it replaces the task.
    pub replaces: bool,
    /// True if it is only known from the comment on a refused call, which the transcript may repeat
    /// as a message.
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
    /// Returns the text, with a count if it occurred more than once.
    #[must_use]
    pub fn text_with_count(&self) -> Cow<'_, str> {
        match self.times {
            0 | 1 => Cow::Borrowed(&self.text),
            times => Cow::Owned(format!("{} ({times} times)", self.text)),
        }
    }
}

/// Instructions of a session. Answers that only agree ("ok", "go ahead") are omitted, unless the
/// session begins with one.
#[derive(Clone, Debug, Default)]
pub struct Instructions {
    task: Option<Instruction>,
    /// True if the task only agrees: the first other instruction replaces it.
    task_is_trivial: bool,
    whole: KeptMessages<Instruction>,
    lines: VecDeque<Instruction>,
    count: u64,
}

impl Instructions {
    /// Returns the newest 64 instructions, and older ones that were marked important, oldest first,
    /// up to 2 000 characters each.
    pub fn recent_instructions(&self) -> impl DoubleEndedIterator<Item = &Instruction> {
        self.whole.all().iter()
    }

    /// Returns up to 1 000 older instructions, oldest first, each on a line of up to 120
    /// characters.
    pub fn older_lines(&self) -> impl DoubleEndedIterator<Item = &Instruction> {
        self.lines.iter()
    }

    /// Returns the number of instructions.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of instructions dropped because of the bounds.
    #[must_use]
    pub fn dropped_count(&self) -> u64 {
        self.count - (self.whole.all().len() + self.lines.len()) as u64
    }

    /// Returns the newest instruction that replaced the task.
    #[must_use]
    pub fn replacement(&self) -> Option<&Instruction> {
        self.whole.all().iter().rev().find(|word| word.replaces)
    }

    /// Returns the first instruction, up to 8 000 characters.
    pub(super) fn task(&self) -> Option<&Instruction> {
        self.task.as_ref()
    }

    /// Returns true if the instruction at that position may be shortened or dropped.
    pub(super) fn may_have_dropped(&self, position: Position) -> bool {
        self.whole.may_have_dropped(position)
    }

    /// Adds a message that the user typed.
    pub(super) fn add(&mut self, position: Position, text: &str, marks: &Marks) {
        self.add_text(position, text, false, marks);
    }

    /// Adds the user's comment on a refused call.
    pub(super) fn add_refusal_comment(&mut self, position: Position, text: &str, marks: &Marks) {
        self.add_text(position, text, true, marks);
    }

    fn add_text(&mut self, position: Position, text: &str, is_echo: bool, marks: &Marks) {
        let trivial = user_text::is_trivial(text);
        let says_nothing = text.is_empty() || user_text::is_bare_command(text);
        if says_nothing || trivial && self.task.is_some() {
            return;
        }
        let kept = clip(text, WHOLE_CHARS_MAX);
        let known = self.whole.all().iter().rev().find(|word| word.text == kept);
        if let Some(known) = known.map(|word| word.position) {
            // The task keeps the position of its first occurrence.
            let is_task = self.task.as_ref().is_some_and(|task| task.position == known);
            let Some(word) = self.whole.get_mut(known) else { return };
            let again = u64::from(!word.is_echo && !is_echo);
            word.times += again;
            word.is_echo = false;
            if is_task {
                self.task.iter_mut().for_each(|task| task.times += again);
            } else if let Some(word) = self.whole.take(known) {
                self.keep_bounded(Instruction { position, ..word }, marks);
            }
            return;
        }
        let replaces =
            self.task.is_some() && !self.task_is_trivial && user_text::replaces_task(text);
        let word = |text: String| Instruction { position, text, times: 1, replaces, is_echo };
        if self.task.is_none() || self.task_is_trivial {
            self.task = Some(word(clip(text, TASK_CHARS_MAX)));
            self.task_is_trivial = trivial;
        }
        self.count += 1;
        self.keep_bounded(word(kept), marks);
    }

    fn keep_bounded(&mut self, word: Instruction, marks: &Marks) {
        for old in self.whole.add(word, (WHOLE_MAX, usize::MAX), marks) {
            if self.lines.len() == LINES_MAX {
                self.lines.pop_front();
            }
            let text = one_line(&old.text, LINE_CHARS_MAX);
            let index = self.lines.partition_point(|line| line.position < old.position);
            self.lines.insert(index, Instruction { text, ..old });
        }
    }

    pub(super) fn weight(&self) -> usize {
        let task = self.task.as_ref().map_or(0, |task| task.text.len() + size_of::<Instruction>());
        task + self.whole.weight() + self.lines.len() * (LINE_CHARS_MAX + size_of::<Instruction>())
    }
}
