//! Work of a session, apart from its messages: changed files, failed commands and tests with their
//! current state, and calls that changed something else. Bounded; it must not keep an output.

use std::collections::VecDeque;

use super::{
    changes::{Changes, Commit, EffectFact},
    failures::{CommandFact, Failures, PassedTests},
    progress::CallOutput,
};
use crate::{
    event::{Event, Position, kinds, push_bounded, text::one_line},
    traces::{
        FileTouch, NotRun, OpenCalls, ToolEvent, TracedCall, TracedResult, find_failed_run, git,
        refusal_explanation,
        report::{self, OutputReport},
        tools::ToolKind,
    },
};

/// Most files, refused calls, and characters of a refusal's comment kept.
const FILES_MAX: usize = 256;
const REFUSALS_MAX: usize = 32;
const WORDS_CHARS_MAX: usize = 400;

/// A file that was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFact {
    /// Path, relative to the session's directory if it is below it.
    pub path: Box<str>,
    /// Number of changes.
    pub times: u64,
    /// Position of the latest change, or of its reversal.
    pub last: Position,
    /// State of the file.
    pub state: FileState,
    /// True if a call created it, so that no earlier commit has it.
    is_new: bool,
    is_committed: bool,
    /// True if a call wrote the whole file.
    is_whole: bool,
}

/// State of a changed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    /// The file has changes.
    Changed,
    /// The changes were reverted.
    Reverted,
    /// The changes were stashed.
    Stashed,
    /// The file was removed.
    Deleted,
}

impl FileState {
    /// Returns the name of the state.
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

/// A call that was refused and never ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalFact {
    /// Position of the result.
    pub position: Position,
    /// Name of the tool.
    pub tool: Box<str>,
    /// Command or input, up to 300 characters on one line.
    pub input: Box<str>,
    /// Comment of the user or reason of the rule, up to 400 characters on one line; may be empty.
    pub words: Box<str>,
}

/// Work of a session.
#[derive(Clone, Debug, Default)]
pub struct WorkFacts {
    files: VecDeque<FileFact>,
    failures: Failures,
    changes: Changes,
    refusals: VecDeque<RefusalFact>,
    /// Number of files dropped because of the bound.
    dropped: u64,
}

impl WorkFacts {
    /// Returns the numbers of files, failing commands and effects dropped because of the bounds.
    #[must_use]
    pub fn dropped_counts(&self) -> [u64; 3] {
        [self.dropped, self.failures.dropped_count(), self.changes.dropped_count()]
    }

    /// Returns the changed files, least recently changed first; at most 256.
    pub fn files(&self) -> impl DoubleEndedIterator<Item = &FileFact> {
        self.files.iter()
    }

    /// Returns the commands that failed at least once, least recently run first; at most 256.
    pub fn commands(&self) -> impl DoubleEndedIterator<Item = &CommandFact> {
        self.failures.commands()
    }

    /// Returns true if the result at a position is of tests that passed and had failed, and no
    /// other test is known to fail.
    pub(super) fn all_tests_pass_since(&self, position: Position) -> bool {
        let mended = |fact: &CommandFact| fact.is_test() && fact.last == position;
        self.latest_passed_run().is_some_and(|run| run.position == position)
            && self.resolved_commands().any(mended)
            && !self.failing_commands().any(CommandFact::is_test)
    }

    /// Returns the commands whose last run failed and that the agent has not abandoned.
    pub fn failing_commands(&self) -> impl DoubleEndedIterator<Item = &CommandFact> {
        self.commands().filter(|command| command.failed)
    }

    /// Returns the commands that failed and succeeded later.
    pub fn resolved_commands(&self) -> impl DoubleEndedIterator<Item = &CommandFact> {
        self.commands().filter(|command| !command.failed)
    }

    /// Returns the latest run of tests, if it succeeded.
    #[must_use]
    pub fn latest_passed_run(&self) -> Option<&PassedTests> {
        self.failures.latest_passed_run()
    }

    /// Returns the latest commit that a command made, unless it was discarded.
    #[must_use]
    pub fn commit(&self) -> Option<&Commit> {
        self.changes.commit()
    }

    /// Returns the newest refused calls, oldest first; at most 32.
    pub fn refusals(&self) -> impl DoubleEndedIterator<Item = &RefusalFact> {
        self.refusals.iter()
    }

    /// Returns true if a failed result is of a command that succeeded later.
    #[must_use]
    pub fn is_resolved(&self, output: &CallOutput) -> bool {
        let since = || self.failures.resolved_since(&output.commands, output.position);
        !output.ended.is_empty() && since().is_some()
    }

    /// Returns the position of a command's last success, if the last of the events is a failed run
    /// of it; the events must contain the call. `None` for any other event.
    #[must_use]
    pub fn resolved_after(&self, events: &[Event]) -> Option<Position> {
        let (last, before) = events.split_last()?;
        let mut calls = OpenCalls::default();
        before.iter().for_each(|event| drop(calls.fold(event)));
        let Some(ToolEvent::Result(call, answer)) = calls.fold(last) else { return None };
        let (_, command) = call.command.as_deref()?;
        let output = report::strip_escapes(&answer.text);
        let failed = find_failed_run(command, &answer, &OutputReport::parse(&output))?;
        if answer.unrun.is_some() {
            return None;
        }
        let run = command.runs.get(failed)?;
        self.failures.resolved_since(&[(run.key, run.directory.clone())], last.position)
    }

    /// Returns the newest 64 calls that changed something other than files, oldest first.
    pub fn effects(&self) -> impl DoubleEndedIterator<Item = &EffectFact> {
        self.changes.iter()
    }

    /// Returns the checked-out branch, as git or a hook reports it, and that event's position.
    #[must_use]
    pub fn branch(&self) -> Option<(&str, Position)> {
        self.changes.branch()
    }

    /// Folds a tool event. Corrects `failed` of a command's result, from its output if it has no
    /// status.
    pub(super) fn fold(&mut self, tool_event: &mut ToolEvent<'_>) {
        match tool_event {
            ToolEvent::Call(call, _) if changes_something(call) => self.changes.add_call(call),
            ToolEvent::Call(..) => {}
            ToolEvent::Result(call, answer) => {
                if answer.unrun.is_none() {
                    self.fold_result(call, answer);
                } else if answer.unrun == Some(NotRun::Refused) {
                    self.fold_refused(call, answer);
                }
                if changes_something(call) {
                    self.changes.complete(call, answer);
                }
                if !call.is_aside() && !matches!(call.does, ToolKind::Plan | ToolKind::Own) {
                    self.failures.fold_end_of_call();
                }
            }
        }
    }

    /// Marks a call as unfinished when the next session of the chain began, unless it only looks.
    pub(super) fn fold_unfinished(&mut self, call: &TracedCall) {
        let runs = call.command.iter().flat_map(|command| &command.1.runs);
        if !call.is_aside()
            && (changes_something(call) || runs.into_iter().any(|run| !run.is_read_only()))
        {
            self.changes.fold_unfinished(call);
        }
    }

    /// Folds an event that is not of a tool: the end of a turn, a hook's branch, a user message.
    pub(super) fn fold_others(&mut self, event: &Event) {
        self.changes.fold_turn_end(event);
        self.changes.fold_branch(event);
        if event.kind.as_str() == kinds::USER_MESSAGE {
            self.failures.count_user_message();
        }
    }

    fn fold_result(&mut self, call: &TracedCall, answer: &mut TracedResult) {
        let mut done = call.files.len();
        if let Some((line, command)) = call.command.as_deref() {
            let is_written = |path: &str| self.files.iter().any(|file| file.is_written(path));
            let ended = self.failures.fold_command((line, command), answer, is_written);
            answer.failed = ended.failed;
            done = done.min(ended.files);
            let branch = git::parse_branch(&answer.text).filter(|_| line.contains("git"));
            branch.into_iter().for_each(|branch| self.changes.set_branch(branch, answer.position));
        } else {
            self.failures.fold_tool(call, answer);
            done = if answer.failed { 0 } else { done };
        }
        let is_whole = answer.text.contains("created") || call.command.is_some();
        for (touch, path) in call.files.iter().take(done) {
            match touch {
                FileTouch::Changed | FileTouch::Written => {
                    let makes = call.does == ToolKind::Edits && answer.text.contains("created");
                    self.fold_changed(path, answer.position, makes);
                    let is_whole = is_whole && (makes || *touch == FileTouch::Written);
                    self.files.back_mut().into_iter().for_each(|file| file.is_whole |= is_whole);
                }
                touch => self.fold_reversal(*touch, path, answer.position),
            }
        }
    }

    fn fold_refused(&mut self, call: &TracedCall, answer: &TracedResult) {
        let input = call.command.as_ref().map_or(&call.input, |command| &command.0);
        push_bounded(
            &mut self.refusals,
            RefusalFact {
                position: answer.position,
                tool: call.tool.clone(),
                input: input.clone(),
                words: one_line(&refusal_explanation(&answer.text), WORDS_CHARS_MAX).into(),
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
        self.dropped += u64::from(push_bounded(&mut self.files, file, FILES_MAX));
    }

    /// Folds the reversal of changes: of a file, a directory, or the whole repository.
    fn fold_reversal(&mut self, touch: FileTouch, path: &str, position: Position) {
        if touch == FileTouch::Deleted {
            self.failures.fold_removed_file(path);
        }
        for file in &mut self.files {
            let rest = file.path.strip_prefix(path);
            let inside = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            if path.is_empty() && !file.path.starts_with('/') || inside {
                file.apply_touch(touch, path.is_empty(), position);
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
    /// Returns true if the session wrote the whole file, and no commit has it.
    fn is_written(&self, path: &str) -> bool {
        let is_it = *self.path == *path || self.path.ends_with(path) && path.contains('.');
        is_it && self.is_whole && !self.is_committed
    }

    fn apply_touch(&mut self, touch: FileTouch, all: bool, position: Position) {
        // A change of the whole repository leaves uncommitted new files alone.
        let is_kept = self.is_committed || all && self.is_new;
        let state = match (touch, self.state) {
            (FileTouch::Deleted, _) => FileState::Deleted,
            (FileTouch::Reset, _) if !self.is_new || self.is_committed => FileState::Reverted,
            (FileTouch::Reverted, FileState::Changed | FileState::Deleted) if !is_kept => {
                FileState::Reverted
            }
            (FileTouch::Stashed, FileState::Changed | FileState::Deleted) if !is_kept => {
                FileState::Stashed
            }
            (FileTouch::Returned, FileState::Stashed) => FileState::Changed,
            (FileTouch::Committed, state) => {
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

/// Returns true if a call changes something other than files.
fn changes_something(call: &TracedCall) -> bool {
    call.does == ToolKind::Changes || call.command.as_ref().is_some_and(|command| command.1.changes)
}
