//! Stretches of work, from which phases are built. A finished plan step, a compaction or an hour
//! without events ends a stretch and a phase; a request, a research step or a number of events ends
//! only a stretch. Each has its requests, best sentences, calls and last message. Their number is
//! bounded: neighbours are joined. It must not format a view.

use crate::{
    event::{Position, Timestamp, text::one_line},
    traces::{FileTouch, ToolEvent},
};

/// Most stretches kept; beyond that neighbours are joined.
const STRETCHES_MAX: usize = 256;
/// Most events of a stretch without another end.
const EVENTS_MAX: u64 = 16;
/// Most characters of a request, and of each sentence.
const LINE_CHARS_MAX: usize = 200;
/// Most sentences of a stretch kept; `REQUESTS_MAX` is for requests.
const SENTENCES_MAX: usize = 2;
const REQUESTS_MAX: usize = 3;
/// Most tools, and most files, kept of a stretch.
const NAMES_MAX: usize = 8;
/// Time without events after which a phase ends, in microseconds.
const QUIET_MICROS: i64 = 3_600_000_000;

/// Reason for the end of a stretch or a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhaseEnd {
    /// The user made another request.
    Instruction,
    /// A research step was recorded.
    Step,
    /// The stretch reached its number of events.
    Events,
    /// A step of the plan was finished.
    PlanStep,
    /// The client compacted its context.
    Compaction,
    /// No event arrived for an hour.
    Quiet,
    /// A labelled checkpoint was created.
    Checkpoint,
}

impl PhaseEnd {
    /// Returns the name of the reason.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Instruction => "instruction",
            Self::Step => "step",
            Self::Events => "events",
            Self::PlanStep => "plan_step",
            Self::Compaction => "compaction",
            Self::Quiet => "quiet",
            Self::Checkpoint => "checkpoint",
        }
    }

    /// Returns true if it ends a phase, not only a stretch.
    #[must_use]
    pub fn ends_phase(self) -> bool {
        !matches!(self, Self::Instruction | Self::Step | Self::Events)
    }
}

/// A stretch of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// First position of the stretch.
    pub from: Position,
    /// Position after the last one.
    pub to: Position,
    /// Times of its first and last event, by the store's clock.
    pub times: (Timestamp, Timestamp),
    /// Reason for its end; `None` for the current one.
    pub ended: Option<PhaseEnd>,
    /// Number of research steps recorded in it.
    pub steps: u64,
    /// First requests of the user in it.
    pub asked: Vec<Box<str>>,
    /// Number of requests.
    pub requests: u64,
    /// Step of the plan that was finished at its end.
    pub finished: Option<Box<str>>,
    /// Best sentences of its steps and messages, with their scores.
    pub found: Vec<(usize, Box<str>)>,
    /// Number of tool calls.
    pub calls: u64,
    /// First tools that were called, with the number of calls.
    pub tools: Vec<(Box<str>, u64)>,
    /// First files that were changed.
    pub files: Vec<Box<str>>,
    /// Beginning of its last step or message.
    pub last: Option<Box<str>>,
}

impl Phase {
    fn new(from: Position, at: Timestamp) -> Self {
        Self {
            from,
            to: from,
            times: (at, at),
            ended: None,
            steps: 0,
            asked: Vec::new(),
            requests: 0,
            finished: None,
            found: Vec::new(),
            calls: 0,
            tools: Vec::new(),
            files: Vec::new(),
            last: None,
        }
    }

    /// Merges the next stretch into this one, keeping the best of both.
    pub fn join(&mut self, next: Self) {
        self.to = next.to;
        self.times.1 = next.times.1;
        self.ended = next.ended;
        self.steps += next.steps;
        self.asked.extend(next.asked);
        self.asked.truncate(REQUESTS_MAX);
        self.requests += next.requests;
        self.finished = next.finished.or(self.finished.take());
        next.found.into_iter().for_each(|(score, text)| self.add_sentence(score, text));
        self.calls += next.calls;
        next.tools.into_iter().for_each(|(tool, count)| self.add_calls(tool, count));
        next.files.into_iter().for_each(|file| self.add_file(file));
        self.last = next.last.or(self.last.take());
    }

    fn add_sentence(&mut self, score: usize, text: Box<str>) {
        self.found.push((score, text));
        self.found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        self.found.truncate(SENTENCES_MAX);
    }

    fn add_calls(&mut self, tool: Box<str>, count: u64) {
        if let Some((_, all)) = self.tools.iter_mut().find(|(known, _)| *known == tool) {
            *all += count;
        } else if self.tools.len() < NAMES_MAX {
            self.tools.push((tool, count));
        }
    }

    fn add_file(&mut self, file: Box<str>) {
        if self.files.len() < NAMES_MAX && !self.files.contains(&file) {
            self.files.push(file);
        }
    }

    fn weight(&self) -> usize {
        let lines = self.asked.iter().chain(&self.finished).chain(&self.files).chain(&self.last);
        let texts = lines
            .chain(self.found.iter().map(|(_, text)| text))
            .chain(self.tools.iter().map(|(tool, _)| tool));
        size_of::<Self>() + texts.map(|text| text.len() + size_of::<Box<str>>()).sum::<usize>()
    }
}

/// Effect of a tool event on a phase.
#[derive(Debug)]
pub(super) enum ToolEffect {
    /// A tool was called.
    Call(Box<str>),
    /// Files were changed.
    Change(Vec<Box<str>>),
}

impl ToolEffect {
    pub(super) fn from_event(event: &ToolEvent<'_>) -> Option<Self> {
        match event {
            ToolEvent::Call(call, _) => Some(Self::Call(call.tool.clone())),
            ToolEvent::Result(_, answer) if answer.failed => None,
            ToolEvent::Result(call, _) => {
                let changed = call
                    .files
                    .iter()
                    .filter(|(touch, _)| matches!(touch, FileTouch::Changed | FileTouch::Written));
                Some(Self::Change(changed.take(NAMES_MAX).map(|(_, path)| path.clone()).collect()))
            }
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct EventMeaning<'a> {
    /// True for a research step.
    pub(super) is_step: bool,
    /// Request of the user.
    pub(super) asked: Option<&'a str>,
    /// Step of the plan that it finishes.
    pub(super) finished: Option<&'a str>,
    pub(super) is_compaction: bool,
    /// Best sentence of the event, with its score.
    pub(super) found: Option<(usize, &'a str)>,
    /// Call or file change in the event.
    pub(super) made: Option<ToolEffect>,
    pub(super) said: Option<&'a str>,
}

/// Stretches of a session, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Phases {
    all: Vec<Phase>,
    joined: u64,
    /// Number of finished plan steps when the plan was last recorded.
    done: usize,
}

impl Phases {
    /// Returns the stretches, oldest first; the last one is in progress.
    #[must_use]
    pub fn all(&self) -> &[Phase] {
        &self.all
    }

    /// Returns the number of stretches merged into the oldest one.
    #[must_use]
    pub fn joined_count(&self) -> u64 {
        self.joined
    }

    /// Records the number of finished plan steps; returns true if it grew.
    pub(super) fn record_finished_steps(&mut self, done: usize) -> bool {
        done > std::mem::replace(&mut self.done, done)
    }

    pub(super) fn fold(&mut self, position: Position, at: Timestamp, mark: EventMeaning<'_>) {
        if let Some(last) = self.all.last_mut() {
            let is_quiet = at.0 - last.times.1.0 >= QUIET_MICROS;
            let is_asked = mark.asked.is_some();
            let by = match last.ended {
                Some(by) if by.ends_phase() => by,
                _ if is_quiet => PhaseEnd::Quiet,
                _ if is_asked => PhaseEnd::Instruction,
                Some(by) => by,
                None if last.to.0 - last.from.0 >= EVENTS_MAX => PhaseEnd::Events,
                None => return self.add_event(position, at, mark),
            };
            last.ended = Some(by);
        }
        if self.all.len() == STRETCHES_MAX {
            self.join_neighbours();
        }
        self.all.push(Phase::new(position, at));
        self.add_event(position, at, mark);
    }

    /// Adds an event to the current stretch.
    fn add_event(&mut self, position: Position, at: Timestamp, mark: EventMeaning<'_>) {
        let Some(phase) = self.all.last_mut() else { return };
        phase.to = position.plus(1);
        phase.times.1 = at;
        phase.steps += u64::from(mark.is_step);
        let line = |text: &str| Box::<str>::from(one_line(text, LINE_CHARS_MAX));
        if let Some(asked) = mark.asked {
            phase.requests += 1;
            phase.asked.push(line(asked));
        }
        let least = phase.found.get(SENTENCES_MAX - 1).map_or(0, |(score, _)| *score + 1);
        if let Some((score, text)) = mark.found.filter(|(score, _)| *score >= least) {
            phase.add_sentence(score, line(text));
        }
        match mark.made {
            Some(ToolEffect::Call(tool)) => {
                phase.calls += 1;
                phase.add_calls(tool, 1);
            }
            Some(ToolEffect::Change(files)) => {
                files.into_iter().for_each(|file| phase.add_file(file))
            }
            None => {}
        }
        if let Some(said) = mark.said {
            phase.last = Some(line(said));
        }
        phase.ended = match mark.finished {
            Some(finished) => {
                phase.finished = Some(line(finished));
                Some(PhaseEnd::PlanStep)
            }
            None if mark.is_compaction => Some(PhaseEnd::Compaction),
            None => mark.is_step.then_some(PhaseEnd::Step),
        };
    }

    /// Joins neighbours in pairs if no phase ends between them; if there are none, joins the two
    /// oldest stretches.
    fn join_neighbours(&mut self) {
        let before = self.all.len();
        let mut kept: Vec<Phase> = Vec::with_capacity(before);
        let mut is_pair = true;
        for one in std::mem::take(&mut self.all) {
            let soft = |last: &&mut Phase| last.ended.is_some_and(|by| !by.ends_phase());
            match kept.last_mut().filter(|_| !is_pair).filter(soft) {
                Some(last) => {
                    last.join(one);
                    is_pair = true;
                }
                None => {
                    kept.push(one);
                    is_pair = false;
                }
            }
        }
        if kept.len() == before {
            let second = kept.remove(1);
            kept.iter_mut().take(1).for_each(|first| first.join(second.clone()));
            self.joined += 1;
        }
        self.all = kept;
    }

    pub(super) fn weight(&self) -> usize {
        self.all.iter().map(Phase::weight).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold_all(marks: Vec<(i64, EventMeaning<'_>)>) -> Phases {
        let mut phases = Phases::default();
        for (position, (minute, mark)) in (0..).zip(marks) {
            phases.fold(Position(position), Timestamp(minute * 60_000_000), mark);
        }
        phases
    }

    #[test]
    fn requests_steps_plans_compactions_and_idle_hours_end_a_stretch() {
        let asked = |text| EventMeaning { asked: Some(text), ..EventMeaning::default() };
        let tool = |tool: &str| EventMeaning {
            made: Some(ToolEffect::Call(tool.into())),
            ..EventMeaning::default()
        };
        let phases = fold_all(vec![
            (0, asked("mend it")),
            (
                1,
                EventMeaning {
                    said: Some("looking"),
                    found: Some((5, "it broke")),
                    ..EventMeaning::default()
                },
            ),
            (2, EventMeaning { finished: Some("look at it"), ..EventMeaning::default() }),
            (
                3,
                EventMeaning {
                    is_step: true,
                    found: Some((9, "the axle is bent")),
                    ..EventMeaning::default()
                },
            ),
            (4, EventMeaning { is_compaction: true, ..EventMeaning::default() }),
            (5, tool("Edit")),
            (
                6,
                EventMeaning {
                    made: Some(ToolEffect::Change(vec!["a.rs".into()])),
                    ..EventMeaning::default()
                },
            ),
            (70, tool("Bash")),
            (71, asked("paint it")),
        ]);
        let ranges: Vec<_> =
            phases.all().iter().map(|one| (one.from.0, one.to.0, one.ended)).collect();
        assert_eq!(
            ranges,
            [
                (0, 3, Some(PhaseEnd::PlanStep)),
                (3, 4, Some(PhaseEnd::Step)),
                (4, 5, Some(PhaseEnd::Compaction)),
                (5, 7, Some(PhaseEnd::Quiet)),
                (7, 8, Some(PhaseEnd::Instruction)),
                (8, 9, None),
            ]
        );
        let mut whole = phases.all()[0].clone();
        phases.all()[1..].iter().for_each(|next| whole.join(next.clone()));
        assert_eq!((&*whole.asked[1], whole.requests), ("paint it", 2));
        assert_eq!(
            (whole.finished.as_deref(), whole.last.as_deref()),
            (Some("look at it"), Some("looking"))
        );
        assert_eq!((whole.steps, whole.found[0].0, whole.calls), (1, 9, 2));
        assert_eq!((&*whole.tools[1].0, &*whole.files[0]), ("Bash", "a.rs"));
    }

    #[test]
    fn joined_stretches_stay_bounded_and_cover_every_position() {
        let texts: Vec<String> = (0..600).map(|n| format!("ask {n}")).collect();
        for is_plan in [false, true] {
            let mark = |text| EventMeaning {
                asked: Some(text),
                finished: is_plan.then_some("one"),
                ..EventMeaning::default()
            };
            let marks = (0..).zip(&texts).map(|(n, text)| (n, mark(text))).collect();
            let phases = fold_all(marks);
            let joined = if is_plan { 600 - STRETCHES_MAX as u64 } else { 0 };
            assert_eq!(phases.joined_count(), joined);
            assert!((STRETCHES_MAX / 2..=STRETCHES_MAX).contains(&phases.all().len()));
            assert_eq!(phases.all().iter().map(|one| one.requests).sum::<u64>(), 600);
            let ends = phases.all().windows(2).all(|pair| pair[0].to == pair[1].from);
            assert!(ends && phases.all().first().is_some_and(|one| one.from.0 == 0));
            assert!(phases.weight() < 300_000);
        }
    }
}
