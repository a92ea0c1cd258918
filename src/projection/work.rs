//! The work of a session, besides its messages: files changed, commands and tests that failed with
//! their current state, and calls that changed something else. Bounded; it must not keep an output.

use std::collections::VecDeque;

use super::{
    changes::{Changes, Commit, Effect},
    failures::{CommandFact, Failures, Passed},
    progress::Output,
};
use crate::{
    event::{Event, Position, kinds, push_bounded, text::one_line},
    traces::{
        Calls, ToolCall, ToolEvent, ToolResult, Touch, Unrun, failed_run, git,
        report::{self, OutputReport},
        tools::Does,
        words_of_refusal,
    },
};

/// Files and refused calls kept, and characters of the words of a refusal.
const FILES_MAX: usize = 256;
const REFUSALS_MAX: usize = 32;
const WORDS_CHARS_MAX: usize = 400;

/// A file that was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFact {
    /// Its path, relative to the session's directory when below it.
    pub path: Box<str>,
    /// Number of changes.
    pub times: u64,
    /// The result of the latest change, or of what took it back.
    pub last: Position,
    /// State of the file.
    pub state: FileState,
    /// True if a call made it, so that no commit has it.
    is_new: bool,
    is_committed: bool,
    /// True if a call wrote all of it.
    is_whole: bool,
}

/// State of a file that was changed.
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

impl FileState {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Reverted => "reverted",
            Self::Stashed => "stashed",
            Self::Deleted => "deleted",
        }
    }
}

/// A call that was refused or rejected: it never ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalFact {
    /// Position of the answer.
    pub position: Position,
    /// The tool.
    pub tool: Box<str>,
    /// Its command or input, up to 300 characters in a line.
    pub input: Box<str>,
    /// Words of the person or the rule about it, up to 400 characters in a line; may be empty.
    pub words: Box<str>,
}

/// The work of a session.
#[derive(Clone, Debug, Default)]
pub struct WorkFacts {
    files: VecDeque<FileFact>,
    failures: Failures,
    changes: Changes,
    refusals: VecDeque<RefusalFact>,
    /// Files that found no room.
    forgotten: u64,
}

impl WorkFacts {
    /// Numbers of files, failing commands and effects beyond those that are kept.
    #[must_use]
    pub fn forgotten(&self) -> [u64; 3] {
        [self.forgotten, self.failures.forgotten(), self.changes.forgotten()]
    }

    /// The files that were changed, the least recently changed first; at most 256.
    pub fn files(&self) -> impl DoubleEndedIterator<Item = &FileFact> {
        self.files.iter()
    }

    /// The commands that failed at least once, the least recently run first; at most 256.
    pub fn commands(&self) -> impl DoubleEndedIterator<Item = &CommandFact> {
        self.failures.commands()
    }

    /// The commands whose last run failed, and that were not given up.
    pub fn failing(&self) -> impl DoubleEndedIterator<Item = &CommandFact> {
        self.commands().filter(|command| command.failed)
    }

    /// The commands that failed and succeeded later.
    pub fn mended(&self) -> impl DoubleEndedIterator<Item = &CommandFact> {
        self.commands().filter(|command| !command.failed)
    }

    /// The latest run of tests, as long as no later one failed.
    #[must_use]
    pub fn passed(&self) -> Option<&Passed> {
        self.failures.passed()
    }

    /// The latest commit that a command made, as long as it stands.
    #[must_use]
    pub fn commit(&self) -> Option<&Commit> {
        self.changes.commit()
    }

    /// The newest calls that were refused, oldest first; at most 32.
    pub fn refusals(&self) -> impl DoubleEndedIterator<Item = &RefusalFact> {
        self.refusals.iter()
    }

    /// True if a failed result is of a command that succeeded later.
    #[must_use]
    pub fn has_mended(&self, output: &Output) -> bool {
        let since = || self.failures.mended_since(&output.commands, output.position);
        !output.ended.is_empty() && since().is_some()
    }

    /// Position of the last success of a command whose failed run an event reports, of the events
    /// that end with it and contain the call; `None` of any other event.
    #[must_use]
    pub fn mended_after(&self, events: &[Event]) -> Option<Position> {
        let (last, before) = events.split_last()?;
        let mut calls = Calls::default();
        before.iter().for_each(|event| drop(calls.fold(event)));
        let Some(ToolEvent::Result(call, answer)) = calls.fold(last) else { return None };
        let (_, command) = call.command.as_deref()?;
        let output = report::without_escapes(&answer.text);
        let failed = failed_run(command, &answer, &OutputReport::parse(&output))?;
        if answer.unrun.is_some() {
            return None;
        }
        self.failures.mended_since(&[command.runs.get(failed)?.key], last.position)
    }

    /// The newest 64 calls that changed something outside of files, oldest first.
    pub fn effects(&self) -> impl DoubleEndedIterator<Item = &Effect> {
        self.changes.iter()
    }

    /// The branch that is checked out, as git or a hook reports it, and where that became known.
    #[must_use]
    pub fn branch(&self) -> Option<(&str, Position)> {
        self.changes.branch()
    }

    /// Folds a tool event. Sets whether a command failed, from its output where the result has no
    /// status.
    pub(super) fn fold(&mut self, tool_event: &mut ToolEvent<'_>) {
        match tool_event {
            ToolEvent::Call(call, _) if changes_something(call) => self.changes.begin(call),
            ToolEvent::Call(..) => {}
            ToolEvent::Result(call, answer) => {
                if answer.unrun.is_none() {
                    self.fold_result(call, answer);
                } else if answer.unrun == Some(Unrun::Refused) {
                    self.fold_refused(call, answer);
                }
                if changes_something(call) {
                    self.changes.end(call, answer);
                }
                if !call.is_aside && !matches!(call.does, Does::Plan | Does::Own) {
                    self.failures.fold_end_of_call();
                }
            }
        }
    }

    /// Folds that a call was under way when the next session of the line began. One that only looks
    /// left nothing behind.
    pub(super) fn fold_unfinished(&mut self, call: &ToolCall) {
        let runs = call.command.iter().flat_map(|command| &command.1.runs);
        if !call.is_aside
            && (changes_something(call) || runs.into_iter().any(|run| !run.only_looks()))
        {
            self.changes.fold_unfinished(call);
        }
    }

    /// Folds what an event of no tool says: the end of a turn, the branch that a hook notes, and
    /// that a person spoke.
    pub(super) fn fold_others(&mut self, event: &Event) {
        self.changes.fold_end(event);
        self.changes.fold_branch(event);
        if event.kind.as_str() == kinds::USER_MESSAGE {
            self.failures.fold_message();
        }
    }

    fn fold_result(&mut self, call: &ToolCall, answer: &mut ToolResult) {
        let mut done = call.files.len();
        if let Some((line, command)) = call.command.as_deref() {
            let is_written = |path: &str| self.files.iter().any(|file| file.is_written(path));
            let ended = self.failures.fold_command((line, command), answer, is_written);
            answer.failed = ended.failed;
            done = done.min(ended.files);
            let branch = git::branch(&answer.text).filter(|_| line.contains("git"));
            branch.into_iter().for_each(|branch| self.changes.on_branch(branch, answer.position));
        } else {
            self.failures.fold_tool(call, answer);
            done = if answer.failed { 0 } else { done };
        }
        let is_whole = answer.text.contains("created") || call.command.is_some();
        for (touch, path) in call.files.iter().take(done) {
            match touch {
                Touch::Changed | Touch::Written => {
                    let makes = call.does == Does::Edits && answer.text.contains("created");
                    self.fold_changed(path, answer.position, makes);
                    let is_whole = is_whole && (makes || *touch == Touch::Written);
                    self.files.back_mut().into_iter().for_each(|file| file.is_whole |= is_whole);
                }
                touch => self.fold_undone(*touch, path, answer.position),
            }
        }
    }

    fn fold_refused(&mut self, call: &ToolCall, answer: &ToolResult) {
        let input = call.command.as_ref().map_or(&call.input, |command| &command.0);
        push_bounded(
            &mut self.refusals,
            RefusalFact {
                position: answer.position,
                tool: call.tool.clone(),
                input: input.clone(),
                words: one_line(&words_of_refusal(&answer.text), WORDS_CHARS_MAX).into(),
            },
            REFUSALS_MAX,
        );
    }

    fn fold_changed(&mut self, path: &str, position: Position, makes: bool) {
        let at = self.files.iter().rposition(|file| *file.path == *path);
        let known = at.and_then(|at| self.files.remove(at));
        let mut file = known.unwrap_or_else(|| FileFact {
            path: path.into(),
            times: 0,
            last: position,
            state: FileState::Changed,
            is_new: makes,
            is_committed: false,
            is_whole: false,
        });
        file.times += 1;
        file.last = position;
        file.state = FileState::Changed;
        self.forgotten += u64::from(push_bounded(&mut self.files, file, FILES_MAX));
    }

    /// Folds what undoes changes: of a file, of all below a directory, or of all of the repository.
    fn fold_undone(&mut self, touch: Touch, path: &str, position: Position) {
        if touch == Touch::Deleted {
            self.failures.fold_removed_file(path);
        }
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

    pub(super) fn weight(&self) -> usize {
        let files: usize = self.files.iter().map(|file| file.path.len()).sum();
        files
            + self.files.len() * size_of::<FileFact>()
            + self.failures.weight()
            + self.refusals.len() * 800
            + self.changes.weight()
    }
}

impl FileFact {
    /// True if the session wrote all of it, and no commit has it.
    fn is_written(&self, path: &str) -> bool {
        let is_it = *self.path == *path || self.path.ends_with(path) && path.contains('.');
        is_it && self.is_whole && !self.is_committed
    }

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

/// True if a call changes something besides files.
fn changes_something(call: &ToolCall) -> bool {
    call.does == Does::Changes || call.command.as_ref().is_some_and(|command| command.1.changes)
}
