//! Outcome of one call as a person reads it: failed or not, in a word, and the line of its output
//! that says why. It must not depend on other calls.

use super::{
    calls::{TracedCall, TracedResult},
    failed::{find_failed_run, has_failed},
    report::{self, OutputReport},
};

/// Outcome of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallOutcome {
    /// True if the call failed; a command that only reads does not.
    pub(crate) failed: bool,
    /// Tests, exit code or refusal in a word, if there is one.
    pub(crate) word: Option<String>,
    /// Line of the output that gives the reason of a failure.
    pub(crate) reason: Option<String>,
}

impl CallOutcome {
    /// Judges a call by its result.
    pub(crate) fn judge(call: &TracedCall, answer: &TracedResult) -> Self {
        let unrun = answer.unrun.is_some().then(|| answer.outcome().to_owned());
        let Some(command) = call.command.as_deref().map(|(_, command)| command) else {
            let reason = || first_line(&answer.text);
            return Self {
                failed: answer.failed,
                word: unrun.or_else(|| answer.failed.then(|| answer.outcome().to_owned())),
                reason: answer.failed.then(reason).flatten(),
            };
        };
        let output = report::strip_escapes(&answer.text);
        let report = OutputReport::parse(&output);
        let run = find_failed_run(command, answer, &report);
        let failed = unrun.is_some() || has_failed(command, answer, run);
        let tests = command.runs.iter().any(|run| run.test().is_some());
        let tested = || match (report.tests_failed(), report.tests_passed()) {
            (1.., _) => Some(format!("{} failed", report.tests_failed())),
            (_, Some(passed @ 1..)) if !failed => Some(format!("{passed} passed")),
            _ => None,
        };
        let code = answer.code.filter(|code| *code != 0).map(|code| format!("exit {code}"));
        let word = unrun.or_else(|| if tests { tested() } else { None }).or(code);
        Self {
            failed,
            word: word.or_else(|| failed.then(|| "failed".to_owned())),
            reason: failed.then(|| report.reason_line()).flatten(),
        }
    }
}

/// Returns the first line with content.
fn first_line(text: &str) -> Option<String> {
    text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}
