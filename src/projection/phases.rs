//! The phases of a session: stretches of work between two instructions of a user, finished steps of
//! a plan, compactions, or an hour without events; each with its request, its best sentence, and
//! its last message. A bounded number: the oldest are joined. It must not format a view.

use super::text::one_line;
use crate::event::{Position, Timestamp};

/// Phases kept; beyond that the two oldest are joined.
const PHASES_MAX: usize = 256;
/// Most characters of the request and of each sentence.
const LINE_CHARS_MAX: usize = 200;
/// Sentences kept of a phase.
const SENTENCES_MAX: usize = 2;
/// Quiet after which the next event begins a phase, in microseconds.
const QUIET_MICROS: i64 = 3_600_000_000;

/// What ended a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The user made another request.
    Instruction,
    /// A step of the plan was finished.
    PlanStep,
    /// The client made its context smaller.
    Compaction,
    /// Nothing happened for an hour.
    Quiet,
}

impl Ended {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Instruction => "instruction",
            Self::PlanStep => "plan_step",
            Self::Compaction => "compaction",
            Self::Quiet => "quiet",
        }
    }
}

/// A stretch of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Its first position.
    pub from: Position,
    /// The position after it.
    pub to: Position,
    /// When it began and when its last event came, by the store's clock.
    pub times: (Timestamp, Timestamp),
    /// What ended it; `None` for the current one.
    pub ended: Option<Ended>,
    /// Research steps recorded in it.
    pub steps: u64,
    /// The user's request at its beginning.
    pub asked: Option<Box<str>>,
    /// The step of the plan that was finished with it.
    pub finished: Option<Box<str>>,
    /// The best sentences of its steps and messages, with their scores.
    pub found: Vec<(usize, Box<str>)>,
    /// What its last step or message begins with.
    pub last: Option<Box<str>>,
}

/// The meaning of one event for the phases.
#[derive(Clone, Debug, Default)]
pub(super) struct Mark<'a> {
    /// Whether it is a research step.
    pub(super) is_step: bool,
    /// A user's request.
    pub(super) asked: Option<&'a str>,
    /// The step of the plan that it finishes.
    pub(super) finished: Option<&'a str>,
    /// Whether it is a compaction.
    pub(super) is_compaction: bool,
    /// Its best sentence, with its score.
    pub(super) found: Option<(usize, &'a str)>,
    /// Its text.
    pub(super) said: Option<&'a str>,
}

/// The phases of a session, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Phases {
    all: Vec<Phase>,
    joined: u64,
    /// Steps of the plan that were done when it was last recorded.
    done: usize,
}

impl Phases {
    /// The phases, oldest first; the last one is under way.
    #[must_use]
    pub fn all(&self) -> &[Phase] {
        &self.all
    }

    /// How many phases were joined to the first.
    #[must_use]
    pub fn joined(&self) -> u64 {
        self.joined
    }

    /// Whether a plan with so many finished steps finishes one more than the one before.
    pub(super) fn finishes(&mut self, done: usize) -> bool {
        done > std::mem::replace(&mut self.done, done)
    }

    /// Folds one event in.
    pub(super) fn fold(&mut self, position: Position, at: Timestamp, mark: &Mark<'_>) {
        let quiet = self.all.last().is_some_and(|last| at.0 - last.times.1.0 >= QUIET_MICROS);
        let is_fresh = self.all.last().is_none_or(|last| last.ended.is_some());
        if mark.asked.is_some() && !is_fresh {
            self.end(if quiet { Ended::Quiet } else { Ended::Instruction });
        } else if quiet && !is_fresh {
            self.end(Ended::Quiet);
        }
        if self.all.last().is_none_or(|last| last.ended.is_some()) {
            self.begin(position, at);
        }
        let Some(phase) = self.all.last_mut() else { return };
        phase.to = position.plus(1);
        phase.times.1 = at;
        phase.steps += u64::from(mark.is_step);
        let line = |text: &str| Box::<str>::from(one_line(text, LINE_CHARS_MAX));
        if let Some(asked) = mark.asked {
            phase.asked.get_or_insert_with(|| line(asked));
        }
        let least = phase.found.get(SENTENCES_MAX - 1).map_or(0, |(score, _)| *score + 1);
        if let Some((score, text)) = mark.found.filter(|(score, _)| *score >= least) {
            phase.found.push((score, line(text)));
            phase.found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
            phase.found.truncate(SENTENCES_MAX);
        }
        if let Some(said) = mark.said {
            phase.last = Some(line(said));
        }
        if let Some(finished) = mark.finished {
            phase.finished = Some(line(finished));
            self.end(Ended::PlanStep);
        } else if mark.is_compaction {
            self.end(Ended::Compaction);
        }
    }

    fn end(&mut self, by: Ended) {
        if let Some(last) = self.all.last_mut() {
            last.ended = Some(by);
        }
    }

    fn begin(&mut self, from: Position, at: Timestamp) {
        if self.all.len() == PHASES_MAX {
            self.join_oldest();
        }
        self.all.push(Phase {
            from,
            to: from,
            times: (at, at),
            ended: None,
            steps: 0,
            asked: None,
            finished: None,
            found: Vec::new(),
            last: None,
        });
    }

    /// Makes one phase of the two oldest; the best of both stays.
    fn join_oldest(&mut self) {
        let second = self.all.remove(1);
        let Some(first) = self.all.first_mut() else { return };
        first.to = second.to;
        first.times.1 = second.times.1;
        first.ended = second.ended;
        first.steps += second.steps;
        first.asked = first.asked.take().or(second.asked);
        first.finished = second.finished.or(first.finished.take());
        first.found.extend(second.found);
        first.found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        first.found.truncate(SENTENCES_MAX);
        first.last = second.last.or(first.last.take());
        self.joined += 1;
    }

    pub(super) fn weight(&self) -> usize {
        let texts = |phase: &Phase| {
            let found: usize = phase.found.iter().map(|(_, text)| text.len()).sum();
            let said = [&phase.asked, &phase.finished, &phase.last];
            found
                + said.iter().map(|text| text.as_ref().map_or(0, |text| text.len())).sum::<usize>()
        };
        self.all.iter().map(|phase| size_of::<Phase>() + texts(phase)).sum()
    }
}
