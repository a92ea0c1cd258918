//! Finds the simple command of a line that failed, by the result's status or by its output. It must
//! not depend on an earlier run.

use super::{
    calls::TracedResult,
    command::{CommandKind, CommandLine, CommandRun},
    git,
    report::OutputReport,
};

/// Returns true if a command line failed: a simple command of it, or by an exit code of its own.
pub(crate) fn has_failed(
    command: &CommandLine,
    answer: &TracedResult,
    failed: Option<usize>,
) -> bool {
    failed.is_some() || command.exits && answer.failed
}

/// Returns the index of the simple command that failed: by the result's status, or by the output if
/// the exit code may be another program's. A command that only reads never fails.
pub(crate) fn find_failed_run(
    command: &CommandLine,
    answer: &TracedResult,
    report: &OutputReport<'_>,
) -> Option<usize> {
    let runs = &command.runs;
    let last = |is: &dyn Fn(&CommandRun) -> bool| {
        runs.iter().rposition(|run| !run.is_read_only() && is(run))
    };
    last(&|_| true)?;
    let is_of_read = command.ends_read_only && answer.code.is_some();
    // `[ -f x ] && make` exits with 1 and prints nothing where x does not exist.
    let is_false_test =
        runs.iter().any(CommandRun::is_read_only) && answer.code == Some(1) && report.is_silent();
    let tests = |run: &CommandRun| run.test().is_some();
    let builds = |run: &CommandRun| matches!(run.kind, CommandKind::Builds(..));
    let breaks_tests =
        report.says_failed || report.says_broken || report.is_empty() && report.says_error;
    if answer.failed && !is_of_read {
        if is_false_test
            || git::had_nothing_to_do(runs.iter().map(|run| &*run.program), &answer.text)
        {
            return None;
        }
        let named = report.reason_line().unwrap_or_default();
        let is_named = |run: &CommandRun| {
            let begins =
                named.strip_prefix(&*run.program).is_some_and(|rest| rest.starts_with(':'));
            begins || &*run.program == "git" && git::is_git_error(&named)
        };
        return last(&|run| tests(run) && breaks_tests)
            .or_else(|| last(&|run| builds(run) && report.breaks_build()))
            .or_else(|| last(&is_named))
            .or_else(|| last(&|run| !run.hides_code))
            .or_else(|| last(&|_| true));
    }
    // Without a status, or with the status of another program, the output decides. An exit code in
    // the output is used only if the result reports success.
    let says_error = report.says_error || report.says_code && answer.code == Some(0);
    let is_open = |run: &CommandRun| run.hides_code || answer.code.is_none() && !answer.succeeded;
    let by_output = |run: &CommandRun| run.hides_code || answer.code.is_none();
    last(&|run| tests(run) && by_output(run) && breaks_tests)
        .or_else(|| last(&|run| builds(run) && by_output(run) && report.breaks_build()))
        .or_else(|| last(&|run| is_open(run) && says_error && !tests(run)))
}
