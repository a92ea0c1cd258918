//! Commands, tests and tools that failed, each with its latest outcome, regardless of the command
//! line. The unit is the test, or the simple command that failed. Bounded; it must not keep an
//! output.

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hash, Hasher},
};

use crate::{
    event::{Position, lists::phrase_list, text::head},
    traces::{
        CommandJoint, CommandKind, CommandLine, CommandRun, RunnerFamily, TestRun, TracedCall,
        TracedResult, covers_directory, find_failed_run, git, has_failed,
        report::{self, OutputReport},
    },
};

/// Most commands kept.
const COMMANDS_MAX: usize = 256;
/// Number of later results after which a failure without a retry counts as abandoned: of an
/// experiment; of git and other commands after a user message; of these without one.
const TRIAL_RESULTS: u64 = 12;
const SETTLED_RESULTS: u64 = 6;
const LEFT_RESULTS: u64 = 40;
/// Most lines of an output in which a shell's own errors are read.
const HEAD_LINES: usize = 4;
/// Error phrases, in lower case, of a tool that does not work at all.
const OUT_OF_ORDER: [&str; 9] = phrase_list(
    "posix_spawn|spawn enoent|enoent: no such file or directory, spawn|not connected|\
     connection closed|econnrefused|connection refused|no such tool|failed to start",
);

/// A command that failed at least once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandFact {
    /// Command line of the last run.
    pub line: Box<str>,
    /// True if its last run failed.
    pub failed: bool,
    /// Number of failed runs; of tests, the highest count of one test since it passed last.
    pub failures: u64,
    /// Position of the last result that decided its state.
    pub last: Position,
    /// Failed tests and the reason, up to 300 characters; empty if its last run succeeded.
    pub error: Box<str>,
    /// True if it was not retried after its failure while the work continued.
    is_abandoned: bool,
    key: u64,
    kind: CommandKind,
    /// Directory of its last failed run; empty if unknown.
    directory: Box<str>,
    /// True if it ran a script that the session wrote, as an experiment.
    is_trial: bool,
    /// Tests that failed in its last run and in no later run of another command; if resolved, those
    /// that did.
    names: Vec<FailedTest>,
    /// Reason of the failure.
    why: Option<Box<str>>,
    /// Numbers of results and of user messages before its last run.
    before: [u64; 2],
}

/// A failed test, and the number of failures since it passed last.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FailedTest {
    text: Box<str>,
    times: u64,
}

/// Latest run of tests, if it succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedTests {
    /// Command line of the run.
    pub line: Box<str>,
    /// Number of passed tests, if the runner reports it.
    pub tests: Option<u64>,
    /// Position of the result.
    pub position: Position,
}

/// Outcome of a command line.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommandOutcome {
    pub(super) failed: bool,
    /// Number of its file effects that took place.
    pub(super) files: usize,
}

/// Failures of a session.
#[derive(Clone, Debug, Default)]
pub(super) struct Failures {
    commands: VecDeque<CommandFact>,
    passed: Option<PassedTests>,
    /// Number of failing commands dropped because of the bound.
    dropped: u64,
    /// Numbers of the agent's own results, and of user messages, so far.
    counts: [u64; 2],
}

impl Failures {
    /// Returns the commands that failed at least once, least recently run first; at most 256.
    pub(super) fn commands(&self) -> impl DoubleEndedIterator<Item = &CommandFact> {
        self.commands.iter().filter(|command| !command.is_abandoned)
    }

    pub(super) fn latest_passed_run(&self) -> Option<&PassedTests> {
        self.passed.as_ref()
    }

    pub(super) fn dropped_count(&self) -> u64 {
        self.dropped
    }

    /// Returns the position where one of these commands, by key and directory, succeeded after
    /// `position`.
    pub(super) fn resolved_since(
        &self,
        runs: &[(u64, Box<str>)],
        position: Position,
    ) -> Option<Position> {
        let is_one = |fact: &CommandFact| runs.iter().any(|(key, at)| fact.is_run(*key, at));
        let mended = self.commands().filter(|fact| !fact.failed && is_one(fact));
        mended.map(|fact| fact.last).find(|last| *last > position)
    }

    /// Folds the outcome of a command line. A script for which `is_written` returns true was
    /// written by the session and counts as an experiment.
    pub(super) fn fold_command(
        &mut self,
        (line, command): (&str, &CommandLine),
        answer: &TracedResult,
        is_written: impl Fn(&str) -> bool,
    ) -> CommandOutcome {
        let output = report::strip_escapes(&answer.text);
        let report = OutputReport::parse(&output);
        let failed = find_failed_run(command, answer, &report);
        // A change of directory that failed leaves the directory unknown.
        let is_lost = output.lines().take(HEAD_LINES).any(says_no_directory);
        for (at, run) in command.runs.iter().enumerate() {
            let lost = is_lost.then(|| CommandRun { directory: Box::default(), ..run.clone() });
            let run = lost.as_ref().unwrap_or(run);
            let after = |failed: usize| command.runs.get(failed + 1..=at).unwrap_or_default();
            let is_cut = |failed| at > failed && after(failed).iter().all(follows_success);
            // A failure before `||` is visible only in the output.
            let is_masked =
                command.runs.get(at + 1).is_some_and(|next| next.joint == CommandJoint::Or);
            let is_unknown = failed != Some(at) && (is_masked || run.is_read_only());
            if !is_unknown && !failed.is_some_and(is_cut) {
                let is_trial = script(&run.kind).is_some_and(&is_written);
                self.fold_outcome(
                    line,
                    run,
                    failed == Some(at),
                    (&report, answer.position),
                    is_trial,
                );
                self.fold_test_run(line, run, failed == Some(at), (&report, answer.position));
            }
        }
        self.fold_git_state(command, &output, answer.position);
        let run = failed.and_then(|at| command.runs.get(at));
        let files = run.map_or(usize::MAX, |run| run.files_before);
        CommandOutcome { failed: has_failed(command, answer, failed), files }
    }

    /// Folds the result of another tool: one that does not work at all fails until it works again.
    pub(super) fn fold_tool(&mut self, call: &TracedCall, answer: &TracedResult) {
        let mut hasher = DefaultHasher::new();
        ("tool", &call.tool).hash(&mut hasher);
        let run = CommandRun::from_tool(hasher.finish(), &call.tool);
        let report = OutputReport::parse(&answer.text);
        let head = head(&answer.text, 2_000);
        let head = head.to_ascii_lowercase();
        let is_out = answer.failed && OUT_OF_ORDER.iter().any(|mark| head.contains(mark));
        if is_out || !answer.failed {
            self.fold_outcome(&call.tool, &run, is_out, (&report, answer.position), false);
        }
    }

    /// Counts a result of the agent's own call and marks failures without a retry as abandoned.
    pub(super) fn fold_end_of_call(&mut self) {
        let [results, _] = &mut self.counts;
        *results += 1;
        self.mark_abandoned();
    }

    pub(super) fn count_user_message(&mut self) {
        let [_, words] = &mut self.counts;
        *words += 1;
    }

    /// Marks the failures of a removed script as abandoned.
    pub(super) fn fold_removed_file(&mut self, path: &str) {
        for fact in &mut self.commands {
            fact.is_abandoned |= fact.failed && script(&fact.kind).is_some_and(|own| own == path);
        }
    }

    /// Records the run as the latest passed one, or clears that after a failure.
    fn fold_test_run(
        &mut self,
        line: &str,
        run: &CommandRun,
        failed: bool,
        (report, position): (&OutputReport<'_>, Position),
    ) {
        if run.test().is_none() || report.is_empty() && !failed {
            return;
        }
        let tests = report.tests_passed();
        self.passed = (!failed).then(|| PassedTests { line: line.into(), tests, position });
    }

    /// Marks failures that were not retried as abandoned.
    fn mark_abandoned(&mut self) {
        let [results, words] = self.counts;
        for fact in self.commands.iter_mut().filter(|fact| fact.failed && !fact.is_abandoned) {
            let [before, heard] = fact.before;
            let (later, is_heard) = (results - before, words > heard);
            fact.is_abandoned = match &fact.kind {
                _ if fact.is_trial && fact.names.is_empty() => later >= TRIAL_RESULTS,
                CommandKind::Tests(_) | CommandKind::Builds(..) | CommandKind::ReadOnly => false,
                CommandKind::Trial | CommandKind::Installs(_) => later >= TRIAL_RESULTS,
                CommandKind::Git(..) | CommandKind::Other(_) | CommandKind::Tool => {
                    is_heard && later >= SETTLED_RESULTS || later >= LEFT_RESULTS
                }
            };
        }
    }

    /// Folds the outcome of a simple command.
    fn fold_outcome(
        &mut self,
        line: &str,
        run: &CommandRun,
        failed: bool,
        (report, position): (&OutputReport<'_>, Position),
        is_trial: bool,
    ) {
        let here = &*run.directory;
        let at = self.commands.iter().rposition(|one| one.is_run(run.key, here));
        let known = at.and_then(|at| self.commands.remove(at));
        let test = run.test().map(|test| test.with_family(report.family));
        let moved = match &test {
            Some(test) => self.apply_test_run((test, here), failed, report, position),
            None => Vec::new(),
        };
        if !failed {
            self.resolve_covered(run, position);
        }
        if !failed && known.is_none() {
            return;
        }
        let mut fact = known.unwrap_or_else(|| CommandFact::new(run, position));
        if failed {
            // A success may be part of a longer line; what failed is named.
            fact.line = line.into();
            fact.directory.clone_from(&run.directory);
        }
        fact.last = position;
        fact.kind = test.map_or_else(|| run.kind.clone(), CommandKind::Tests);
        fact.is_trial = is_trial;
        fact.before = self.counts;
        if failed {
            fact.fold_failure(report, &moved);
        } else {
            fact.mark_resolved(position);
        }
        self.insert_bounded(fact);
    }

    /// Marks the failures of other commands that this success covers as resolved.
    fn resolve_covered(&mut self, run: &CommandRun, position: Position) {
        let is_open = |fact: &&mut CommandFact| fact.failed && fact.is_covered_in(&run.directory);
        for fact in self.commands.iter_mut().filter(is_open) {
            let is_spoken_for = match (&run.kind, &fact.kind) {
                (CommandKind::Builds(family, limits), CommandKind::Builds(own, of)) => {
                    family == own && (limits.is_empty() || limits == of)
                }
                // Cargo and Go build the tests before they run them.
                (CommandKind::Tests(test), CommandKind::Builds(own, _)) => match test.family {
                    RunnerFamily::Cargo => test.selects_all() && &**own == "cargo build",
                    RunnerFamily::Go => {
                        test.selects_all() && matches!(&**own, "go build" | "go vet")
                    }
                    _ => false,
                },
                (CommandKind::Git(sub, subject), CommandKind::Git(own, of)) => {
                    git::ends_failure(sub, own) || subject.is_some() && subject == of
                }
                (CommandKind::Installs(names), _) => fact.lacked_package(names),
                _ => false,
            };
            if is_spoken_for {
                fact.mark_resolved(position);
            }
        }
    }

    /// Marks failures of git as resolved if the state that git reports shows it.
    fn fold_git_state(&mut self, command: &CommandLine, output: &str, position: Position) {
        if !command.runs.iter().any(|run| &*run.program == "git") {
            return;
        }
        for fact in self.commands.iter_mut().filter(|fact| fact.failed && fact.last < position) {
            if let CommandKind::Git(own, subject) = &fact.kind
                && git::is_failure_over(own, subject.as_deref(), output)
            {
                fact.mark_resolved(position);
            }
        }
    }

    /// Applies a test run to failures of other commands: tests that it reports as failed move to
    /// this run, tests that passed become resolved. Returns the moved tests.
    fn apply_test_run(
        &mut self,
        (test, directory): (&TestRun, &str),
        failed: bool,
        report: &OutputReport<'_>,
        position: Position,
    ) -> Vec<FailedTest> {
        let fails = |name: &FailedTest| {
            report.failing.iter().any(|one| report::is_same_test(one, &name.text))
        };
        let mut moved = Vec::new();
        self.commands.retain_mut(|fact| {
            let is_covered = fact.is_covered_in(directory);
            if !is_covered && !fact.covers(directory) {
                return true;
            }
            if fact.names.iter().any(fails) {
                moved.extend(fact.names.iter().filter(|name| fact.failed && fails(name)).cloned());
                fact.names.retain(|name| !fails(name));
                let superseded = fact.names.is_empty() || !fact.failed;
                fact.why = None;
                fact.update_error();
                if superseded {
                    return false;
                }
            }
            fact.resolve_passed((test, is_covered), failed, report, position);
            true
        });
        moved
    }

    fn insert_bounded(&mut self, fact: CommandFact) {
        if self.commands.len() == COMMANDS_MAX {
            let mended = self.commands.iter().position(|fact| !fact.failed || fact.is_abandoned);
            self.dropped += u64::from(mended.is_none());
            self.commands.remove(mended.unwrap_or(0));
        }
        self.commands.push_back(fact);
    }

    pub(super) fn weight(&self) -> usize {
        let command = |fact: &CommandFact| {
            let names: usize = fact.names.iter().map(|name| name.text.len() + 24).sum();
            fact.line.len() + fact.directory.len() + fact.error.len() + names + 600
        };
        self.commands.iter().map(command).sum()
    }
}

impl CommandFact {
    /// Returns true if it is a command of a shell; false if it is a call of another tool.
    #[must_use]
    pub fn is_command(&self) -> bool {
        self.kind != CommandKind::Tool
    }

    pub(super) fn is_test(&self) -> bool {
        matches!(self.kind, CommandKind::Tests(_))
    }

    /// Returns true if a run with this key in `directory` is a run of it.
    fn is_run(&self, key: u64, directory: &str) -> bool {
        self.key == key && self.is_covered_in(directory) && self.covers(directory)
    }

    /// Returns true if a success in `directory` counts for it.
    fn is_covered_in(&self, directory: &str) -> bool {
        covers_directory(directory, &self.directory)
            || self.is_of_repository() && covers_directory(&self.directory, directory)
    }

    /// Returns true if its own success counts for a failure in `directory`.
    fn covers(&self, directory: &str) -> bool {
        covers_directory(&self.directory, directory)
            || self.is_of_repository() && covers_directory(directory, &self.directory)
    }

    /// Returns true if it has the same effect in the directories of a repository, of which one is
    /// below the other.
    fn is_of_repository(&self) -> bool {
        matches!(self.kind, CommandKind::Git(..))
    }

    fn new(run: &CommandRun, position: Position) -> Self {
        Self {
            line: Box::default(),
            failed: false,
            failures: 0,
            last: position,
            error: Box::default(),
            is_abandoned: false,
            key: run.key,
            kind: run.kind.clone(),
            directory: run.directory.clone(),
            is_trial: false,
            names: Vec::new(),
            why: None,
            before: [0; 2],
        }
    }

    /// Folds a failed run; `moved` are tests that had failed in other commands.
    fn fold_failure(&mut self, report: &OutputReport<'_>, moved: &[FailedTest]) {
        let known = std::mem::take(&mut self.names);
        let known = if self.failed { known } else { Vec::new() };
        let times = |name: &str| {
            let before =
                known.iter().chain(moved).find(|one| report::is_same_test(&one.text, name));
            before.map_or(0, |one| one.times) + 1
        };
        self.failures = if self.failed { self.failures + 1 } else { 1 };
        let named = |name: &String| FailedTest { times: times(name), text: name.as_str().into() };
        self.names = report.failing.iter().map(named).collect();
        if report.is_partial() {
            // A broken run shows nothing about the tests that failed before it.
            let is_new = |one: &FailedTest| {
                !report.failing.iter().any(|name| report::is_same_test(&one.text, name))
            };
            self.names.extend(known.iter().filter(|one| is_new(one)).cloned());
            self.names.truncate(report::NAMES_MAX);
        }
        (self.failed, self.is_abandoned) = (true, false);
        self.why = report.reason_line().map(Into::into);
        self.update_error();
    }

    /// Builds the error text and updates the number of failures.
    fn update_error(&mut self) {
        let names: Vec<&str> = self.names.iter().map(|name| &*name.text).collect();
        self.error = report::error_line(&names, self.why.as_deref()).into();
        let most = self.names.iter().map(|name| name.times).max();
        self.failures = most.unwrap_or(self.failures);
    }

    fn mark_resolved(&mut self, position: Position) {
        (self.failed, self.is_abandoned) = (false, false);
        self.last = position;
        self.error = Box::default();
        self.why = None;
    }

    /// Returns true if it failed because one of these packages was missing.
    fn lacked_package(&self, packages: &[Box<str>]) -> bool {
        const MISSING: [&str; 4] =
            ["No module named", "Cannot find module", "command not found", "no required module"];
        let quoted = |c: char| !c.is_alphanumeric() && !matches!(c, '-' | '_' | '@' | '/');
        let mut words = self.error.split(quoted);
        MISSING.iter().any(|mark| self.error.contains(mark))
            && words.any(|word| packages.iter().any(|package| **package == *word))
    }

    /// Removes its tests that passed in another command's run; it is resolved if none remains. Of
    /// a run that does not cover its directory, only the tests that the report names count.
    fn resolve_passed(
        &mut self,
        (test, is_covered): (&TestRun, bool),
        failed: bool,
        report: &OutputReport<'_>,
        position: Position,
    ) {
        let CommandKind::Tests(own) = &self.kind else { return };
        if !self.failed {
            return;
        }
        let all_passed = !failed && !report.is_empty() && is_covered;
        // Beyond the bound, further failed tests may exist.
        if self.names.is_empty() || self.names.len() == report::NAMES_MAX {
            if all_passed && test.covers(own) {
                self.mark_resolved(position);
            }
            return;
        }
        let is_whole = failed && is_covered && report.is_complete() && test.runs_all();
        let rest_passed = all_passed || is_whole;
        let passed = |name: &str| {
            report.has_passed_test(name)
                || report.passed_files.contains(name.split(" > ").next().unwrap_or(name))
                    && test.matches_name(name)
                || rest_passed && test.selects(name, own)
        };
        let mut left: Vec<FailedTest> = self.names.clone();
        left.retain(|name| !passed(&name.text));
        if left.is_empty() {
            self.mark_resolved(position);
        } else if left.len() < self.names.len() {
            self.why = self.why.take().filter(|_| left.first() == self.names.first());
            self.names = left;
            self.update_error();
        }
    }
}

/// Returns true for the line in which a shell says that it could not enter a directory.
fn says_no_directory(line: &str) -> bool {
    let is_change = ["cd: ", "pushd: ", "can't cd to "].iter().any(|mark| line.contains(mark));
    let reasons = ["no such file or directory", "not a directory", "can't cd to"];
    let has_reason = |line: String| reasons.iter().any(|why| line.contains(why));
    is_change && has_reason(line.to_ascii_lowercase())
}

/// Returns the script that a command runs.
fn script(kind: &CommandKind) -> Option<&str> {
    match kind {
        CommandKind::Tests(test) => test.script(),
        CommandKind::Other(script) => script.as_deref(),
        _ => None,
    }
}

fn follows_success(run: &CommandRun) -> bool {
    run.joint == CommandJoint::And
}
