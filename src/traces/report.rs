//! Parser of a command's output: exit code, failed and passed tests, and the error in one line. It
//! must not depend on which command it was.

use std::{borrow::Cow, collections::BTreeSet};

use super::{
    cause::{self, Certainty},
    content::parse_string,
    selection::RunnerFamily,
    tools::{Members, parse_members, parse_object, read_first},
    verdict::parse_verdict,
};
use crate::event::{
    lists::phrase_list,
    text::{head, one_line},
};

/// Bytes at the end of an output that are searched for tests and errors.
const TAIL_BYTES: usize = 64 << 10;
/// Lines at the beginning, and at the end, that are searched for the exit code.
const HEAD_LINES: usize = 8;
const LAST_LINES: usize = 2;
/// Maximum lines of an output whose first line, not its last, is the reason of a failure.
const LINES_OF_ONE_MAX: usize = 3;
/// Maximum failed tests that are listed by name.
pub(crate) const NAMES_MAX: usize = 32;
/// Maximum characters of all names, of one name, and of the whole error line.
const NAMES_CHARS_MAX: usize = 200;
const NAME_CHARS_MAX: usize = 100;
const ERROR_CHARS_MAX: usize = 300;

/// Beginning of the line in which Codex gives the id of a command that still runs.
pub(super) const CODEX_RUNNING: &str = "Process running with session ID ";
/// Beginning of the result of a command that Claude Code began in the background, before its id.
pub const RUNNING_IN_BACKGROUND: &str = "Command running in background with ID: ";
/// Prefixes of a line that contains the exit code, in lower case.
const CODES: [&str; 9] = phrase_list(
    "exit code|exit_code|exitcode|exit status|process exited with code|command exited with code|\
     command failed with exit code|exited with code|returncode",
);
/// Prefixes of the result of a failed call, in lower case.
const FAILURES: [&str; 9] = phrase_list(
    "error:|error -|error executing|<tool_use_error>|failed:|failed to |\
     apply_patch verification failed|exception:|traceback (most recent call last)",
);
/// Prefixes of lines that only a failed build writes.
const BROKEN_BUILDS: [&str; 7] = phrase_list(
    "error: could not compile|error: aborting due to|npm ERR!|npm error|BUILD FAILED|\
     BUILD FAILURE|make: ***",
);
/// Returns true if the beginning of a result, or a member of its JSON, reports a failure.
pub(crate) fn looks_like_failure(text: &str) -> bool {
    let text = text.trim_start();
    if text.starts_with('{') {
        let Some(status) = parse_object(text) else { return false };
        let is = |name: &str, flag: &str| status.get(name).is_some_and(|value| value.get() == flag);
        let error = status.get("error").map_or("", |error| error.get());
        return error.starts_with(['{', '"']) && error != "\"\""
            || is("error", "true")
            || is("success", "false")
            || is("ok", "false")
            || is("isError", "true");
    }
    let head = head(text, 40).to_ascii_lowercase();
    FAILURES.iter().any(|mark| head.starts_with(mark))
}

/// Returns the id of a background command that still runs, if a result reports one.
pub(crate) fn running_command_id(text: &str) -> Option<&str> {
    // Claude Code words it in several ways: `Command was manually backgrounded by user with ID: x`.
    fn begun(line: &str) -> Option<&str> {
        let (words, id) = line.strip_prefix("Command ")?.split_once("ID: ")?;
        words.contains("background").then_some(id)
    }
    let id = |line| begun(line).or_else(|| str::strip_prefix(line, CODEX_RUNNING));
    let mut ends = text.lines().take(HEAD_LINES).chain(text.lines().rev().take(LAST_LINES));
    let id = ends.find_map(id)?;
    id.split(|c: char| !c.is_ascii_alphanumeric()).next()
}

/// Parses the exit code in a command's result, and the output if the result is JSON with one.
pub(crate) fn exit_code(text: &str) -> (Option<i64>, Option<String>) {
    let text = text.trim();
    if text.starts_with('{')
        && let Some(shell) = parse_object(text)
    {
        let code = |of: &Members<'_>| {
            let names = ["exit_code", "exitCode", "returncode", "return_code"];
            read_first(of, &names, |code| code.get().parse().ok())
        };
        let code = code(&shell).or_else(|| code(&parse_members(shell.get("metadata").copied())));
        let texts = ["output", "stdout", "stderr"].map(|name| parse_string(shell.get(name)?));
        let output: Vec<String> = texts.into_iter().flatten().collect();
        return (code, (!output.is_empty()).then(|| output.join("\n")));
    }
    let head = text.lines().take(HEAD_LINES);
    (head.chain(text.lines().rev().take(LAST_LINES)).find_map(parse_code), None)
}

/// Returns the exit code in the first line of a result, or in its JSON; 0 if there is none.
pub(crate) fn head_exit_code(text: &str) -> i64 {
    let text = text.trim_start();
    let head = if text.starts_with('{') { text } else { text.lines().next().unwrap_or_default() };
    exit_code(head).0.unwrap_or(0)
}

fn parse_code(line: &str) -> Option<i64> {
    let line = line.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    let line = line.get(..line.floor_char_boundary(60))?.to_ascii_lowercase();
    let rest = CODES.iter().find_map(|mark| line.strip_prefix(mark))?;
    let rest = rest.trim_start_matches([' ', ':', '=', '>', '"', '\'']);
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(rest.len());
    rest.get(..end)?.parse().ok()
}

const CUT: [&str; 9] = phrase_list(
    "stopping after|Interrupted: |panic: |[build failed]|[setup failed]|Test suite failed to run|\
     during collection|INTERNALERROR|Bail out!",
);

/// Parsed output of a command, such as a test run's report.
#[derive(Debug, Default)]
pub(crate) struct OutputReport<'a> {
    /// Failed tests, in the order of the report; at most 32.
    pub(crate) failing: Vec<String>,
    /// Names of passed tests; `leaves` has their last parts, for a quick check.
    passing: BTreeSet<String>,
    leaves: BTreeSet<String>,
    /// Files and packages all of whose tests passed.
    pub(crate) passed_files: BTreeSet<&'a str>,
    /// Family of the test runner that wrote the output, if recognized.
    pub(crate) family: Option<RunnerFamily>,
    /// True if the output reports failed tests.
    pub(crate) says_failed: bool,
    /// True if the output reports a failed build.
    pub(crate) says_broken: bool,
    says_passed: bool,
    /// True if the output reports that not all tests were run.
    is_cut: bool,
    /// Numbers of passed and failed tests in the summary.
    counted: Option<(u64, u64)>,
    /// File whose tests are being listed, and the enclosing suites, each with its indent.
    current_file: Option<&'a str>,
    suites: Option<Vec<(usize, &'a str)>>,
    /// Files with failures.
    failed_files: Vec<&'a str>,
    /// Index of the current package's first failed test, and its passed tests.
    package_tests: (usize, Vec<String>),
    reason: Option<(Certainty, &'a str)>,
    /// First and last line with content; `content_lines` counts such lines.
    first: &'a str,
    last: &'a str,
    /// First line that only reports an error; it is used if no other line has content.
    error_only: &'a str,
    content_lines: usize,
    /// True if the reason ends with a colon, so that the next line continues it.
    is_open: bool,
    /// The line that continues the reason.
    more: Option<&'a str>,
    /// True if the output has a line that only a failed program writes.
    pub(crate) says_error: bool,
    /// True if a line reports an error with a source location: `a.go:6:2: …`.
    has_location: bool,
    /// True if a line contains an exit code other than 0, of this command or of another one.
    pub(crate) says_code: bool,
}

impl<'a> OutputReport<'a> {
    /// Parses the end of an output.
    pub(crate) fn parse(text: &'a str) -> Self {
        let from = text.ceil_char_boundary(text.len().saturating_sub(TAIL_BYTES));
        let mut report = Self::default();
        let mut panicked = false;
        for whole in text.get(from..).unwrap_or_default().lines() {
            let line = whole.trim();
            if line.is_empty() {
                report.suites = None;
                continue;
            }
            report.read_line(line, whole.len() - whole.trim_start().len());
            if std::mem::replace(&mut panicked, line.contains("panicked at ")) {
                report.propose_reason(Certainty::Message, line);
            }
        }
        // A file may fail without a failed test, for example if it does not compile.
        for file in std::mem::take(&mut report.failed_files) {
            if !report.failing.iter().any(|name| name.starts_with(file)) {
                report.add_failing(file.to_owned());
            }
        }
        // A failed assertion means a failed test, unless passed tests are reported.
        let asserted = report.reason.is_some_and(|(sure, _)| sure <= Certainty::Asserted);
        report.says_failed |= asserted && !report.says_passed;
        report
    }

    /// Returns true if the output names every failed test, and the run was complete.
    pub(crate) fn is_complete(&self) -> bool {
        let named = self.failing.len();
        let counted = self.counted.is_some_and(|(_, failed)| failed == named as u64);
        let by_count =
            matches!(self.family, Some(RunnerFamily::Pytest | RunnerFamily::Js)) && counted;
        // A file that could not be loaded is named instead of its tests.
        let is_file = |name: &String| match self.family {
            Some(RunnerFamily::Pytest) => !name.contains("::"),
            _ => name.contains('.') && !name.contains(' '),
        };
        let by_count = by_count && !self.failing.iter().any(is_file);
        let whole = by_count || self.family == Some(RunnerFamily::Go);
        whole && (1..NAMES_MAX).contains(&named) && !self.is_cut && !self.says_broken
    }

    pub(crate) fn has_passed_test(&self, name: &str) -> bool {
        self.leaves.contains(last_part(name))
            && self.passing.iter().any(|one| is_same_test(one, name))
    }

    /// Returns the number of passed tests in the summary, if there is one.
    pub(crate) fn tests_passed(&self) -> Option<u64> {
        self.counted.map(|(passed, _)| passed)
    }

    /// Returns the number of failed tests: of the summary, else of those that are named.
    pub(crate) fn tests_failed(&self) -> u64 {
        let counted = self.counted.map_or(0, |(_, failed)| failed);
        if counted > 0 { counted } else { self.failing.len() as u64 }
    }

    /// Returns true if the output shows that no test was run.
    pub(crate) fn is_empty(&self) -> bool {
        self.counted == Some((0, 0)) || self.says_error && !self.has_passed()
    }

    /// Returns true if the output has no line with content.
    pub(crate) fn is_silent(&self) -> bool {
        self.content_lines == 0 && self.failing.is_empty() && self.reason.is_none()
    }

    /// Returns true if the output reports passed tests.
    pub(crate) fn has_passed(&self) -> bool {
        let counted = self.counted.is_some_and(|(passed, _)| passed > 0);
        counted || self.says_passed || !self.passing.is_empty() || !self.passed_files.is_empty()
    }

    /// Returns true if names of failed tests may be missing: the run broke, or stopped early.
    pub(crate) fn is_partial(&self) -> bool {
        self.is_cut || self.says_broken || self.failing.is_empty()
    }

    fn read_line(&mut self, line: &'a str, indent: usize) {
        self.is_cut |= CUT.iter().any(|mark| line.contains(mark));
        self.read_summary(line);
        if self.read_package_line(line) || self.read_file_line(line) {
            return;
        }
        let Some((passed, name)) = parse_verdict(line) else {
            if let Some(suites) = self.suites.as_mut().filter(|_| indent > 0) {
                suites.retain(|(above, _)| *above < indent);
                suites.push((indent, line));
            }
            return self.read_other_line(line);
        };
        let name = self.qualified_name(line, name, indent);
        if passed {
            self.leaves.insert(last_part(&name).to_owned());
            self.package_tests.1.push(name.clone());
            self.passing.insert(name);
            return;
        }
        self.says_failed = true;
        self.add_failing(name);
        if let Some((_, why)) = line.split_once(" - ").filter(|_| line.contains("::")) {
            self.propose_reason(Certainty::Message, why);
        }
    }

    fn read_other_line(&mut self, line: &'a str) {
        self.says_failed |= has_failure_count(line);
        self.says_passed |= line == "OK" || line.starts_with("ok ") || line.contains("passed");
        self.says_broken |= BROKEN_BUILDS.iter().any(|mark| line.starts_with(mark));
        self.says_error |= cause::is_error_mark(line);
        self.says_code |= parse_code(line).is_some_and(|code| code != 0);
        self.has_location |= cause::has_error_location(line);
        let Some(line) = cause::without_frame(line) else { return };
        if std::mem::take(&mut self.is_open) {
            self.more = Some(line);
        }
        if let Some(sure) = cause::certainty(line) {
            self.propose_reason(sure, line.strip_prefix("E ").unwrap_or(line));
        }
        if cause::is_consequence(line) || parse_code(line).is_some() {
            if self.error_only.is_empty() && (line.starts_with("error") || line.starts_with("make"))
            {
                self.error_only = line;
            }
            return;
        }
        if self.content_lines == 0 {
            self.first = line;
        }
        self.content_lines += 1;
        self.last = line;
    }

    fn add_failing(&mut self, name: String) {
        match self.failing.iter_mut().find(|one| is_same_test(one, &name)) {
            Some(known) if known.len() < name.len() => *known = name,
            Some(_) => {}
            None => self.failing.push(name),
        }
        self.failing.truncate(NAMES_MAX);
    }

    /// Returns the name of a test after the file and the suites under which it is listed.
    fn qualified_name(&self, line: &str, name: &str, indent: usize) -> String {
        let marked = line.starts_with(['✓', '✕', '×', '●']);
        let Some(file) = self.current_file.filter(|file| marked && !name.starts_with(file)) else {
            return name.to_owned();
        };
        let above = self.suites.iter().flatten().filter(|(above, _)| *above < indent);
        let mut whole = file.to_owned();
        for (at, part) in above.map(|(_, suite)| *suite).chain([name]).enumerate() {
            whole.push_str(if at == 0 { " > " } else { " › " });
            whole.push_str(part);
        }
        whole
    }

    /// Parses the counts of a summary line, and the runner family from its format.
    fn read_summary(&mut self, line: &str) {
        let count = |word: &str| -> u64 {
            let before = line.split_once(word).map(|(before, _)| before);
            let number = before.and_then(|before| before.rsplit([' ', ';', ',', '|', '=']).next());
            number.and_then(|number| number.parse().ok()).unwrap_or_default()
        };
        let family = if line.starts_with("test result: ") || line.contains(" tests run: ") {
            RunnerFamily::Cargo
        } else if line.starts_with("Tests:  ") || line.starts_with("Tests  ") {
            RunnerFamily::Js
        } else if line.contains("s ==") && line.contains(" in ") || is_quiet_pytest(line) {
            RunnerFamily::Pytest
        } else {
            return;
        };
        self.family = Some(family);
        let (passed, failed) = self.counted.unwrap_or_default();
        let failed = failed + count(" failed") + count(" error");
        self.says_failed |= failed > 0;
        self.counted = Some((passed + count(" passed"), failed));
    }

    /// Returns true if `go test` wrote the line, about a package whose tests were listed before it.
    fn read_package_line(&mut self, line: &'a str) -> bool {
        let mut words = line.split('\t');
        let (Some(result @ ("ok  " | "FAIL")), Some(package)) = (words.next(), words.next()) else {
            return false;
        };
        let package = package.split(' ').next().unwrap_or(package);
        self.family = Some(RunnerFamily::Go);
        let (first, passed) = std::mem::take(&mut self.package_tests);
        let name = |name: &str| format!("{package} > {name}");
        for failing in self.failing.iter_mut().skip(first) {
            *failing = name(failing);
        }
        for test in passed {
            self.passing.remove(&test);
            self.passing.insert(name(&test));
        }
        self.package_tests.0 = self.failing.len();
        match result {
            "FAIL" => self.says_failed = true,
            _ if line.contains("[no test") => {}
            _ => drop(self.passed_files.insert(package)),
        }
        true
    }

    /// Parses a line of Vitest or Jest about a file, whose tests follow: `PASS a.test.js`, `✓
    /// a.test.ts (2 tests) 5ms`, `❯ a.test.ts (2 tests | 1 failed)`.
    fn read_file_line(&mut self, line: &'a str) -> bool {
        const MARKS: [(&str, bool); 5] =
            [("PASS ", true), ("FAIL ", false), ("✓ ", true), ("❯ ", false), ("× ", false)];
        let Some((rest, passed)) =
            MARKS.iter().find_map(|(mark, passed)| Some((line.strip_prefix(mark)?, *passed)))
        else {
            return false;
        };
        let rest = rest.trim_start();
        let (file, after) = rest.split_once(' ').unwrap_or((rest, ""));
        let stem = file.rsplit('/').next().unwrap_or_default();
        let is_file = stem.contains('.') && !stem.contains(':') && !stem.ends_with('.');
        let jest = line.starts_with(['P', 'F']);
        if !is_file || !jest && !after.starts_with('(') || after.starts_with("> ") {
            return false;
        }
        self.current_file = Some(file);
        self.suites = jest.then(Vec::new);
        self.family = Some(RunnerFamily::Js);
        if passed {
            self.passed_files.insert(file);
        } else {
            self.says_failed = true;
            self.failed_files.push(file);
        }
        true
    }

    /// Keeps the most certain reason so far; of equal ones the first, of exceptions the last.
    fn propose_reason(&mut self, sure: Certainty, line: &'a str) {
        let line = line.trim();
        let is_better = self
            .reason
            .is_none_or(|(known, _)| sure < known || sure == known && sure == Certainty::Raised);
        if is_better {
            self.reason = Some((sure, line));
            self.is_open = line.ends_with(':');
            self.more = None;
        }
    }

    /// Returns the line that is most certainly the reason of the failure.
    pub(crate) fn reason_line(&self) -> Option<String> {
        if let Some((_, reason)) = self.reason {
            return Some(match self.more {
                Some(more) => format!("{reason} {more}"),
                None => reason.to_owned(),
            });
        }
        let line = match self.content_lines {
            0 => self.error_only,
            1..=LINES_OF_ONE_MAX => self.first,
            _ => self.last,
        };
        (self.failing.is_empty() && !line.is_empty()).then(|| line.to_owned())
    }

    /// Returns true if the output reports an error by a known text, or with a source location.
    pub(crate) fn breaks_build(&self) -> bool {
        self.says_broken || self.says_error || self.has_location
    }
}

/// Formats the names of failed tests and the reason of one of them as one line.
pub(crate) fn error_line(failing: &[impl AsRef<str>], reason: Option<&str>) -> String {
    let mut names = String::new();
    for (listed, name) in failing.iter().enumerate() {
        let name = one_line(name.as_ref(), NAME_CHARS_MAX);
        if names.len() + name.len() > NAMES_CHARS_MAX && listed > 0 {
            names.push_str(&format!(", {} more", failing.len() - listed));
            break;
        }
        if listed > 0 {
            names.push_str(", ");
        }
        names.push_str(&name);
    }
    let error = match (names.is_empty(), reason) {
        (true, reason) => reason.unwrap_or_default().to_owned(),
        (false, Some(reason)) if failing.len() > 1 => format!("{names} (one of them: {reason})"),
        (false, Some(reason)) => format!("{names}: {reason}"),
        (false, None) => names,
    };
    one_line(&error, ERROR_CHARS_MAX)
}

/// Returns true if two names denote one test; one of them may lack its file or its suites.
pub(crate) fn is_same_test(one: &str, other: &str) -> bool {
    if last_part(one) != last_part(other) {
        return false;
    }
    let (one, other) = (one.replace(" › ", " > "), other.replace(" › ", " > "));
    let ends = |long: &str, short: &str| {
        let before = long.strip_suffix(short);
        before.is_some_and(|before| {
            before.is_empty()
                || before.ends_with(" > ")
                || before.ends_with('/') && short.contains(".py::")
        })
    };
    let either = |one: &str, other: &str| ends(one, other) || ends(other, one);
    match (split_file(&one), split_file(&other)) {
        (Some((file, rest)), Some((other_file, name))) => file == other_file && either(rest, name),
        _ => either(&one, &other),
    }
}

/// Returns the last part of a test's name, which is equal in all names of the test.
fn last_part(name: &str) -> &str {
    let name = name.rsplit(" › ").next().unwrap_or(name);
    let name = name.rsplit(" > ").next().unwrap_or(name);
    name.rsplit('/').next().unwrap_or(name)
}

/// Splits a test's name into its file or package and the rest.
fn split_file(name: &str) -> Option<(&str, &str)> {
    name.split_once(" > ").filter(|(file, _)| file.contains(['/', '.']))
}

/// Removes a terminal's escape sequences from a text.
pub(crate) fn strip_escapes(text: &str) -> Cow<'_, str> {
    if !text.contains('\x1b') {
        return Cow::Borrowed(text);
    }
    let mut parts = text.split('\x1b');
    let mut made = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = |c: char| !c.is_ascii_digit() && !matches!(c, '[' | ';' | '?');
        let rest = part.find(end).and_then(|at| part.get(at + 1..));
        made.push_str(rest.unwrap_or_default());
    }
    Cow::Owned(made)
}

/// Matches `3 failed, 3 passed in 0.06s`, the last line of `pytest -q`.
fn is_quiet_pytest(line: &str) -> bool {
    let counted = line.starts_with(|c: char| c.is_ascii_digit());
    let Some((counts, time)) = line.rsplit_once(" in ").filter(|_| counted) else { return false };
    let words = [" failed", " passed", " error", " skipped", " deselected"];
    let took = time.split(' ').next().unwrap_or_default().strip_suffix('s');
    let is_time = took.is_some_and(|took| took.parse::<f64>().is_ok());
    is_time && words.iter().any(|word| counts.contains(word))
}

/// Returns true if a line reports failed tests: `2 failed`, `failures=2`, `test result: FAILED`.
fn has_failure_count(line: &str) -> bool {
    const ALONE: [&str; 7] = phrase_list(
        "test result: FAILED|FAILED (|FAILURES!|There were failing tests|Tests failed|Test Failed|\
         FAIL ",
    );
    if ALONE.iter().any(|mark| line.starts_with(mark)) || line == "FAIL" {
        return true;
    }
    let lower = head(line, 200).to_ascii_lowercase();
    let counts = |word: &str| word.parse::<u64>().is_ok_and(|count| count > 0);
    let before = lower.split_once(" fail").is_some_and(|(before, rest)| {
        let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        let next = rest.split_whitespace().next().unwrap_or_default();
        let count = before.rsplit(|c: char| !c.is_ascii_alphanumeric()).next();
        // Only a count of tests is one: "1 failed attempt" is not.
        let tests = matches!(next, "in" | "of" | "out" | "test" | "tests" | "suite" | "suites");
        matches!(word, "ed" | "ing" | "ures" | "ure")
            && (tests || !next.starts_with(|c: char| c.is_ascii_alphabetic()))
            && count.is_some_and(counts)
    });
    let after = ["failures", "failed", "errors"].iter().any(|mark| {
        let rest = lower.split_once(mark).map(|(_, rest)| rest.trim_start_matches([':', '=', ' ']));
        let end = |rest: &str| rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let count = rest.and_then(|rest| rest.get(..end(rest)));
        count.is_some_and(counts) && (lower.contains("tests") || lower.contains("failures="))
    });
    before || after
}
