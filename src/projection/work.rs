//! The work of a session, besides its messages: files changed, commands and tests that failed with
//! their current state, and calls that changed something else. Bounded; it must not keep an output.

use std::collections::VecDeque;

use super::{
    calls::{Answer, Call, ToolEvent},
    changes::{Changes, Effect},
    command::{Command, Touch},
    git,
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
                if !answer.is_refusal {
                    self.result(call, answer);
                }
                if changes(call) {
                    self.changes.end(call, answer);
                }
            }
        }
    }

    /// Folds the branch that an event of a hook notes.
    pub(super) fn fold_branch(&mut self, event: &Event) {
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::projection::{Facts, calls::Calls, tests::event};

    /// Calls with their results, at positions 0 and 1, 2 and 3 and so on.
    fn folded(calls: &[(&str, Value, Value)]) -> Work {
        let (mut work, mut open) = (Work::default(), Calls::default());
        let mut fold = |position: usize, kind: &str, body: Value| {
            let event = event(position as u64, kind, body.to_string());
            open.fold(&event).iter_mut().for_each(|tool_event| work.fold(tool_event));
        };
        for (at, (tool, input, answer)) in calls.iter().enumerate() {
            let mut result = json!({ "call_id": at.to_string(), "is_error": false });
            let members = result.as_object_mut().expect("an object");
            match answer {
                Value::Object(answer) => members.extend(answer.clone()),
                text => drop(members.insert("content".to_owned(), text.clone())),
            }
            let raw = json!({ "cwd": "/home/ada/shop" });
            let call =
                json!({ "name": tool, "input": input, "call_id": at.to_string(), "raw": raw });
            fold(2 * at, "agent.tool_use", call);
            fold(2 * at + 1, "agent.tool_result", result);
        }
        work
    }

    fn run(command: &str, output: &str) -> (&'static str, Value, Value) {
        ("Bash", json!({ "command": command }), json!(output))
    }

    fn fails(command: &str, output: &str) -> (&'static str, Value, Value) {
        let answer = json!({ "content": output, "is_error": true });
        ("Bash", json!({ "command": command }), answer)
    }

    #[test]
    fn the_result_of_a_command_failed_when_its_output_says_so() {
        let output = "FAIL: test_tax (test_tax.Test.test_tax)\nAssertionError: 9 != 10\n\n\
                      Ran 1 test in 0.001s\n\nFAILED (failures=1)\n";
        let missing = json!({ "content": "", "is_error": true, "exit_code": 1 });
        for (command, answer, failed) in [
            ("python3 -m unittest test_tax", json!({ "content": output }), true),
            ("python3 -m unittest test_tax", json!({ "content": "Ran 1 test\n\nOK\n" }), false),
            ("cat test.log", json!({ "content": output }), false),
            ("ls /none", missing, true),
        ] {
            let mut facts = Facts::default();
            let call = json!({ "name": "Bash", "input": { "command": command }, "call_id": "c" });
            let mut result = json!({ "call_id": "c", "is_error": false });
            let members = result.as_object_mut().expect("an object");
            members.extend(answer.as_object().expect("an object").clone());
            facts.fold(&event(0, "agent.tool_use", call.to_string()));
            facts.fold(&event(1, "agent.tool_result", result.to_string()));
            let tool_event: Vec<bool> = facts.progress.outputs().map(|one| one.is_error).collect();
            assert_eq!(tool_event, [failed], "{command}");
        }
    }

    /// Each command that failed once, with its current state.
    fn commands(work: &Work) -> Vec<String> {
        let tool_event = |fact: &CommandFact| {
            let state = if fact.failed { "fails" } else { "mended" };
            let of = format!("{}/{} {}", fact.failures, fact.runs, fact.error);
            format!("{} {state} {}", fact.line, of.trim_end())
        };
        work.commands().map(tool_event).collect()
    }

    #[test]
    fn files_are_those_that_calls_changed() {
        let patch = "*** Begin Patch\n*** Update File: src/a.rs\n@@\n-a\n+b\n*** Add File: b.rs\n\
                     +c\n*** Update File: c.rs\n*** Move to: d.rs\n*** Delete File: e.rs\n\
                     *** End Patch";
        let done = || json!("done");
        let work = folded(&[
            ("Edit", json!({ "file_path": "/home/ada/shop/src/a.rs", "old_string": "x" }), done()),
            ("Read", json!({ "file_path": "read.rs" }), done()),
            ("Write", json!({ "file_path": "/etc/hosts" }), json!({ "is_error": true })),
            (
                "MultiEdit",
                json!({ "file_path": "multi.rs", "edits": [{ "old_string": "a" }] }),
                done(),
            ),
            ("NotebookEdit", json!({ "notebook_path": "n.ipynb" }), done()),
            ("str_replace_editor", json!({ "command": "view", "path": "seen.rs" }), done()),
            (
                "str_replace_based_edit_tool",
                json!({ "command": "insert", "path": "in.rs" }),
                done(),
            ),
            (
                "mcp__filesystem__move_file",
                json!({ "source": "s.rs", "destination": "t.rs" }),
                done(),
            ),
            ("write_file", json!({ "path": "gone.rs" }), json!("Error: access denied")),
            ("shell", json!({ "command": ["apply_patch", patch] }), json!("Success.")),
            ("apply_patch", json!(patch), done()),
            (
                "shell",
                json!({ "command": ["bash", "-lc", "touch made.rs"] }),
                json!("Exit code: 1"),
            ),
            ("exec_command", json!({ "cmd": "sed -i s/a/b/ in.rs" }), done()),
            (
                "shell",
                json!({ "cmd": "apply_patch <<EOF\n*** Begin Patch\nEOF" }),
                json!("Exit code: 1"),
            ),
            ("push", json!({ "files": [{ "path": "x.rs" }], "repo": "r" }), done()),
            ("write_files", json!({ "files": [{ "path": "y.rs" }, "z.rs"] }), done()),
        ]);
        let files: Vec<_> =
            work.files().map(|file| (&*file.path, file.times, file.last.0)).collect();
        let expected = [
            ("multi.rs", 1, 7),
            ("n.ipynb", 1, 9),
            ("s.rs", 1, 15),
            ("t.rs", 1, 15),
            ("src/a.rs", 3, 21),
            ("b.rs", 2, 21),
            ("c.rs", 2, 21),
            ("d.rs", 2, 21),
            ("e.rs", 2, 21),
            ("in.rs", 2, 25),
            ("y.rs", 1, 31),
            ("z.rs", 1, 31),
        ];
        assert_eq!(files, expected);
        let failing: Vec<_> = work.failing().map(|fact| &*fact.line).collect();
        assert_eq!(failing, ["touch made.rs"], "a patch is tool_event by its files alone");
    }

    #[test]
    fn a_command_fails_by_what_its_result_says() {
        let work = folded(&[
            fails("make", "Exit code 2\ncc: no such file: a.c"),
            run("shell: never mind", "all is well"),
            ("shell", json!({ "command": ["ls", "x"] }), json!("Exit code: 1\nOutput:\nno x")),
            (
                "exec_command",
                json!({ "cmd": "ls y" }),
                json!("Process exited with code 1\nOutput:\nno y"),
            ),
            (
                "shell",
                json!({ "command": "ls z" }),
                json!(r#"{"output":"no z\n","metadata":{"exit_code":1}}"#),
            ),
            run(
                "pytest -q | tail -3",
                "E   assert 3 == 4\nFAILED t.py::test_tax - assert 3 == 4\n1 failed",
            ),
            run("cargo build 2>&1 | tail -1", "error: could not compile `shop` (lib)"),
            run("cat log.txt", "FAILED (failures=2)\nerror: could not compile"),
            fails("grep -rn tax src", "Exit code 1"),
            fails("rm -rf /", "The user doesn't want to proceed with this tool use."),
            run(
                "pytest ok.py",
                "test_retry: 1 failed attempt of the network is repeated\n3 passed",
            ),
        ]);
        assert_eq!(
            commands(&work),
            [
                "make fails 1/1 cc: no such file: a.c",
                "ls x fails 1/1 no x",
                "ls y fails 1/1 no y",
                "ls z fails 1/1 no z",
                "pytest -q | tail -3 fails 1/1 t.py::test_tax: assert 3 == 4",
                "cargo build 2>&1 | tail -1 fails 1/1 error: could not compile `shop` (lib)",
            ]
        );
        let tests: Vec<_> = work.failing().filter(|fact| fact.test.is_some()).collect();
        assert_eq!(tests.len(), 1);
    }

    #[test]
    fn a_failure_is_mended_by_the_same_or_by_a_run_that_includes_it() {
        let work = folded(&[
            fails("make", "no"),
            fails("cd /a && make", "still no"),
            fails("pytest tests/test_a.py", "FAILED tests/test_a.py::test_tax - assert 3 == 4"),
            fails("pytest tests/test_b.py", "FAILED tests/test_b.py::test_sum - assert 1 == 2"),
            fails("cargo test cart", "test cart::tax ... FAILED\ntest cart::sum ... FAILED"),
            fails("npm test", "1 failing"),
            run("make 2>&1 | tail -1", "made"),
            run("pytest", "12 passed"),
            run("cargo test other", "test cart::tax ... ok"),
            run("cargo test more", "test cart::sum ... ok"),
            fails("npm test", "2 failing"),
        ]);
        assert_eq!(
            commands(&work),
            [
                "pytest tests/test_a.py mended 1/1",
                "pytest tests/test_b.py mended 1/1",
                "cargo test cart mended 1/1",
                "make 2>&1 | tail -1 mended 2/3",
                "npm test fails 2/2 2 failing",
            ]
        );
        assert_eq!(work.failing().count(), 1);
        let again = folded(&[fails("make", "a"), run("make", "b"), fails("make", "c")]);
        let fact = again.commands().next().expect("one");
        assert!(fact.failed && &*fact.error == "c" && fact.runs == 3);
    }

    #[test]
    fn a_command_that_goes_on_is_judged_when_it_ends() {
        let starts = "Process running with session ID 73\nOutput:\nstill compiling";
        let poll = json!({ "session_id": 73, "chars": "" });
        let work = folded(&[
            ("exec_command", json!({ "cmd": "cargo test" }), json!(starts)),
            ("write_stdin", poll.clone(), json!(starts)),
            (
                "write_stdin",
                poll.clone(),
                json!("Process exited with code 101\nOutput:\ntest cart::tax ... FAILED"),
            ),
            ("write_stdin", poll, json!("Process exited with code 1")),
        ]);
        assert_eq!(commands(&work), ["cargo test fails 1/1 cart::tax"]);
    }

    #[test]
    fn effects_are_calls_that_changed_something_else() {
        let book = json!({ "flights": [{ "no": "HAT1" }], "payment": { "amount": 375 } });
        let work = folded(&[
            ("book_reservation", book, json!(r#"{"reservation_id":"HATHAT","total":375}"#)),
            ("get_order", json!({ "id": "A1" }), json!("{}")),
            ("cancel_order", json!({ "id": "A1" }), json!("Error: order A1 is shipped")),
            ("Edit", json!({ "file_path": "a" }), json!("done")),
            ("Bash", json!({ "command": "curl -X POST x" }), json!("done")),
            ("mcp__sessionlog__emit_event", json!({}), json!("done")),
        ]);
        let tool_event: Vec<_> = work
            .effects()
            .map(|one| (one.position.0, &*one.tool, &*one.input, &*one.result, one.failed))
            .collect();
        let booked = "flights: [HAT1], payment: {amount: 375}";
        assert_eq!(
            tool_event,
            [
                (1, "book_reservation", booked, "reservation_id: HATHAT, total: 375", false),
                (5, "cancel_order", "id: A1", "Error: order A1 is shipped", true),
                (9, "Bash", "curl -X POST x", "done", false),
            ]
        );
    }

    #[test]
    fn an_open_call_is_an_effect_and_a_server_says_what_only_reads() {
        let (mut work, mut calls) = (Work::default(), Calls::default());
        for (position, (name, read_only)) in
            [("send_mail", None), ("create_report", Some(true)), ("lookup", Some(false))]
                .into_iter()
                .enumerate()
        {
            let body = json!({ "name": name, "read_only": read_only, "server": "s" });
            let event = event(position as u64, "agent.mcp_tool_use", body.to_string());
            calls.fold(&event).iter_mut().for_each(|tool_event| work.fold(tool_event));
        }
        let tool_event: Vec<_> = work.effects().map(|one| (one.position.0, &*one.tool)).collect();
        assert_eq!(tool_event, [(0, "send_mail"), (2, "lookup")]);
    }

    #[test]
    fn there_is_an_end_to_what_is_kept_and_what_fails_outlives_what_is_mended() {
        let mut calls = vec![fails("make first", "no"), fails("make second", "no")];
        calls.push(run("make first", "yes"));
        for n in 0..300 {
            calls.push(("Write", json!({ "file_path": format!("{n}.rs") }), json!("done")));
            calls.push(("send_mail", json!({ "to": n }), json!("sent")));
            calls.push(fails(&format!("ls {n}"), "no"));
        }
        calls.push(fails("ls 299", "no"));
        let work = folded(&calls);
        assert_eq!((work.files.len(), work.files.back().map(|f| &*f.path)), (256, Some("299.rs")));
        assert_eq!(
            (work.effects().count(), &*work.effects().nth(63).expect("one").input),
            (64, "to: 299")
        );
        assert_eq!((work.commands.len(), work.mended().count()), (256, 0));
        assert!(work.weight() > 256 * 400);
        let few = folded(&calls[..3 + 3 * 255]);
        assert_eq!((few.commands.len(), few.mended().count()), (256, 0));
        assert_eq!(few.commands().next().map(|fact| &*fact.line), Some("make second"));
    }
}
