//! The work of a session, besides its messages: files changed, commands and tests that failed with
//! their current state, and calls that changed something else. Bounded; it must not keep an output.

use std::collections::VecDeque;

use super::{
    calls::{Answer, Call, Calls, ToolEvent},
    changes::{Changes, Effect},
    command::{Command, Touch},
    git,
    progress::Output,
    report::{self, Report},
    selection::Test,
    tools::Does,
};
use crate::event::{Event, Position};

/// Files and commands kept.
const FILES_MAX: usize = 256;
const COMMANDS_MAX: usize = 256;

/// A file that was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFact {
    /// Its path, relative to the session's directory when below it.
    pub path: Box<str>,
    /// How often it was changed.
    pub times: u64,
    /// The result of the latest change, or of what took it back.
    pub last: Position,
    /// What became of it.
    pub state: FileState,
    /// Whether a call made it, so that no commit has it.
    is_new: bool,
    is_committed: bool,
}

/// What became of a file that was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    /// It is changed.
    Changed,
    /// Its changes were taken back.
    Reverted,
    /// Its changes were put away.
    Stashed,
    /// It was removed.
    Deleted,
}

/// A command that failed at least once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandFact {
    /// The command in a line, as last run.
    pub line: Box<str>,
    /// Whether its last run failed.
    pub failed: bool,
    /// Runs since it failed first, that one included.
    pub runs: u64,
    /// How many of them failed.
    pub failures: u64,
    /// The result of its last run, or of the run that spoke for it.
    pub last: Position,
    /// The error: the failed tests and the reason, up to 300 characters; empty when its last run
    /// succeeded.
    pub error: Box<str>,
    key: u64,
    test: Option<Test>,
    /// Tests that failed in its last run and in no later run of another command; when mended,
    /// those that did.
    names: Vec<Box<str>>,
    /// Why the first of them failed.
    why: Option<Box<str>>,
}

/// The work of a session.
#[derive(Clone, Debug, Default)]
pub struct Work {
    files: VecDeque<FileFact>,
    commands: VecDeque<CommandFact>,
    changes: Changes,
    /// Files and failing commands that found no room.
    forgotten: [u64; 2],
}

impl Work {
    /// How many files, failing commands and effects there were beyond those that are kept.
    #[must_use]
    pub fn forgotten(&self) -> [u64; 3] {
        let [files, failures] = self.forgotten;
        [files, failures, self.changes.forgotten()]
    }

    /// The files that were changed, the least recently changed first; at most 256.
    pub fn files(&self) -> impl DoubleEndedIterator<Item = &FileFact> {
        self.files.iter()
    }

    /// The commands that failed at least once, the least recently run first; at most 256.
    pub fn commands(&self) -> impl DoubleEndedIterator<Item = &CommandFact> {
        self.commands.iter()
    }

    /// The commands whose last run failed.
    pub fn failing(&self) -> impl DoubleEndedIterator<Item = &CommandFact> {
        self.commands.iter().filter(|command| command.failed)
    }

    /// The commands that failed and succeeded later.
    pub fn mended(&self) -> impl DoubleEndedIterator<Item = &CommandFact> {
        self.commands.iter().filter(|command| !command.failed)
    }

    /// Whether a failed result is of a command that succeeded later.
    #[must_use]
    pub fn has_mended(&self, output: &Output) -> bool {
        let is_its = |fact: &CommandFact| Some(fact.key) == output.command;
        output.is_error && self.mended().any(|fact| is_its(fact) && fact.last > output.position)
    }

    /// Where the last run of a command succeeded whose failed run an event reports, of the events
    /// that end with it and contain the call; `None` of any other event.
    #[must_use]
    pub fn mended_after(&self, events: &[Event]) -> Option<Position> {
        let (last, before) = events.split_last()?;
        let mut calls = Calls::default();
        before.iter().for_each(|event| drop(calls.fold(event)));
        let Some(ToolEvent::Result(call, answer)) = calls.fold(last) else { return None };
        let (_, command) = call.command.as_deref()?;
        let output = report::plain(&answer.text);
        if answer.unrun.is_some() || !has_failed(command, &answer, &Report::of(&output)) {
            return None;
        }
        let mut mended = self.mended().filter(|fact| fact.key == command.key);
        mended.find(|fact| fact.last > last.position).map(|fact| fact.last)
    }

    /// The newest 64 calls that changed something outside of files, oldest first.
    pub fn effects(&self) -> impl DoubleEndedIterator<Item = &Effect> {
        self.changes.iter()
    }

    /// Folds a tool event. Sets whether a command failed, from its output where the result has no
    /// status.
    pub(super) fn fold(&mut self, tool_event: &mut ToolEvent<'_>) {
        match tool_event {
            ToolEvent::Call(call, _) if changes(call) => self.changes.begin(call),
            ToolEvent::Call(..) => {}
            ToolEvent::Result(call, answer) => {
                if answer.unrun.is_none() {
                    self.result(call, answer);
                }
                if changes(call) {
                    self.changes.end(call, answer);
                }
            }
        }
    }

    /// Folds what an event of no tool says: the end of a turn, and the branch that a hook notes.
    pub(super) fn fold_others(&mut self, event: &Event) {
        self.changes.fold_end(event);
        self.changes.fold_branch(event);
    }

    fn result(&mut self, call: &Call, answer: &mut Answer) {
        if let Some((line, command)) = call.command.as_deref() {
            answer.failed = self.ran(line, command, answer);
            let branch = git::branch(&answer.text).filter(|_| line.contains("git"));
            branch.into_iter().for_each(|branch| self.changes.on_branch(branch, answer.position));
        }
        if answer.failed {
            return;
        }
        let makes = call.does == Does::Edits && answer.text.contains("created");
        for (touch, path) in &call.files {
            match touch {
                Touch::Changed => self.changed(path, answer.position, makes),
                touch => self.touched(*touch, path, answer.position),
            }
        }
    }

    fn changed(&mut self, path: &str, position: Position, makes: bool) {
        let at = self.files.iter().rposition(|file| *file.path == *path);
        let known = at.and_then(|at| self.files.remove(at));
        let mut file = known.unwrap_or_else(|| FileFact {
            path: path.into(),
            times: 0,
            last: position,
            state: FileState::Changed,
            is_new: makes,
            is_committed: false,
        });
        file.times += 1;
        file.last = position;
        file.state = FileState::Changed;
        if self.files.len() == FILES_MAX {
            self.files.pop_front();
            self.forgotten[0] += 1;
        }
        self.files.push_back(file);
    }

    /// Folds what undoes changes: of a file, of all below a directory, or of all of the repository.
    fn touched(&mut self, touch: Touch, path: &str, position: Position) {
        for file in &mut self.files {
            let rest = file.path.strip_prefix(path);
            let inside = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            if path.is_empty() && !file.path.starts_with('/') || inside {
                file.touch(touch, path.is_empty(), position);
            }
        }
        let files = self.files.make_contiguous();
        files.sort_by_key(|file| file.last);
    }

    /// Folds the outcome of a command; whether it failed.
    fn ran(&mut self, line: &str, command: &Command, answer: &Answer) -> bool {
        let output = report::plain(&answer.text);
        let report = Report::of(&output);
        let failed = has_failed(command, answer, &report);
        let test = command.test.as_ref().map(|test| test.shown_as(report.family));
        let at = self.commands.iter().rposition(|one| one.key == command.key);
        let known = at.and_then(|at| self.commands.remove(at));
        if let Some(test) = &test {
            self.judge(test, failed, &report, answer.position);
        }
        if failed || known.is_some() {
            let mut fact = known.unwrap_or_else(|| CommandFact {
                line: line.into(),
                failed: false,
                runs: 0,
                failures: 0,
                last: answer.position,
                error: Box::default(),
                key: command.key,
                test: None,
                names: Vec::new(),
                why: None,
            });
            fact.runs += 1;
            fact.line = line.into();
            fact.last = answer.position;
            fact.test = test;
            if failed {
                fact.failed = true;
                fact.failures += 1;
                fact.error = report.error().into();
                fact.names = report.failing.iter().map(|name| name.as_str().into()).collect();
                fact.why = report.why().map(Into::into);
            } else {
                fact.mend(answer.position);
            }
            self.keep(fact);
        }
        failed
    }

    /// Gives the tests that failed in other commands the outcome of a run: those that it reports
    /// as failing fail there, those that it ran without are mended.
    fn judge(&mut self, test: &Test, failed: bool, report: &Report<'_>, position: Position) {
        let fails = |name: &str| report.failing.iter().any(|one| report::same_test(one, name));
        self.commands.retain_mut(|fact| {
            if fact.names.iter().any(|name| fails(name)) {
                fact.names.retain(|name| !fails(name));
                let superseded = fact.names.is_empty() || !fact.failed;
                fact.why = None;
                fact.error = report::error(&fact.names, None).into();
                if superseded {
                    return false;
                }
            }
            fact.judge(test, failed, report, position);
            true
        });
    }

    fn keep(&mut self, fact: CommandFact) {
        if self.commands.len() == COMMANDS_MAX {
            let mended = self.commands.iter().position(|fact| !fact.failed);
            self.forgotten[1] += u64::from(mended.is_none());
            self.commands.remove(mended.unwrap_or(0));
        }
        self.commands.push_back(fact);
    }

    pub(super) fn weight(&self) -> usize {
        let files: usize = self.files.iter().map(|file| file.path.len()).sum();
        let command = |fact: &CommandFact| {
            let names: usize = fact.names.iter().map(|name| name.len() + 16).sum();
            fact.line.len() + fact.error.len() + names + 600
        };
        files
            + self.files.len() * size_of::<FileFact>()
            + self.commands.iter().map(command).sum::<usize>()
            + self.changes.weight()
    }
}

impl FileFact {
    fn touch(&mut self, touch: Touch, all: bool, position: Position) {
        // Of a whole repository, a file that no commit has is left alone.
        let is_kept = self.is_committed || all && self.is_new;
        let state = match (touch, self.state) {
            (Touch::Deleted, _) => FileState::Deleted,
            (Touch::Reset, _) if !self.is_new || self.is_committed => FileState::Reverted,
            (Touch::Reverted, FileState::Changed | FileState::Deleted) if !is_kept => {
                FileState::Reverted
            }
            (Touch::Stashed, FileState::Changed | FileState::Deleted) if !is_kept => {
                FileState::Stashed
            }
            (Touch::Returned, FileState::Stashed) => FileState::Changed,
            (Touch::Committed, state) => {
                self.is_committed |= matches!(state, FileState::Changed | FileState::Deleted);
                return;
            }
            _ => return,
        };
        if state != self.state {
            self.state = state;
            self.last = position;
        }
    }
}

impl CommandFact {
    fn mend(&mut self, position: Position) {
        self.failed = false;
        self.last = position;
        self.error = Box::default();
        self.why = None;
    }

    /// Mends its tests that passed in a run of another command, and itself when none is left.
    fn judge(&mut self, test: &Test, failed: bool, report: &Report<'_>, position: Position) {
        let Some(own) = self.test.as_ref().filter(|_| self.failed) else { return };
        let all_passed = !failed && !report.is_empty();
        // Beyond the most that are kept, there may be others.
        if self.names.is_empty() || self.names.len() == report::NAMES_MAX {
            if all_passed && test.covers(own) {
                self.mend(position);
            }
            return;
        }
        let rest_passed = all_passed || failed && report.is_complete() && test.runs_all();
        let passed = |name: &str| {
            report.passed(name)
                || report.places.contains(name.split(" > ").next().unwrap_or(name))
                    && test.fits(name)
                || rest_passed && test.selects(name, own)
        };
        let mut left: Vec<Box<str>> = self.names.clone();
        left.retain(|name| !passed(name));
        if left.is_empty() {
            self.mend(position);
        } else if left.len() < self.names.len() {
            self.why = self.why.take().filter(|_| left.first() == self.names.first());
            self.error = report::error(&left, self.why.as_deref()).into();
            self.names = left;
        }
    }
}

/// Whether a call changes something besides files.
fn changes(call: &Call) -> bool {
    call.does == Does::Changes || call.command.as_ref().is_some_and(|command| command.1.changes)
}

/// Whether a command failed: by the status of the result, or by a clear output where the exit code
/// may be another program's.
fn has_failed(command: &Command, answer: &Answer, report: &Report<'_>) -> bool {
    if answer.failed {
        return !(command.asks && answer.code == Some(1));
    }
    let plain = command.test.is_some() && (report.says_failed || report.says_broken)
        || command.builds && report.says_broken;
    plain && (answer.code.is_none() || command.hides_code)
}
