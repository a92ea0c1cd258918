//! Rates the lines of an output as the reason of a failure. Banners, boxes, closing tags, stack
//! frames and lines that only report a failure are excluded. It must not know which command it was,
//! nor decide if it failed.

use crate::event::{lists::phrase_list, text::head};

/// Prefixes of lines that report a failure but not its cause, in lower case.
const CONSEQUENCES: [&str; 34] = phrase_list(
    "error: could not compile|error: aborting due to|error: recipe|error: process didn't exit|\
     error: test failed, to rerun|error: script|error: command failed|error command failed|\
     for more information|make: ***|make[|npm err! a complete log|npm err! code|npm err! errno|\
     npm err! lifecycle|npm error a complete log|npm error code|npm error lifecycle|elifecycle|\
     traceback (most recent call last)|during handling of the above|the above exception was|\
     command exited with|process exited with|exit code|exit status|wall time|output:|chunk id:|\
     original token count|husky -|fail|- hook id:|- duration:",
);
/// Prefixes of lines that advise or warn, in lower case.
const ADVICE: [&str; 8] =
    ["hint:", "warning", "note:", "= note", "= help", "help:", "deprecat", "info"];
/// Phrases of lines that name a cause, in lower case.
const PHRASES: [&str; 39] = phrase_list(
    "not found|no such |denied|timed out|timeout|refused|cannot |can't |could not |couldn't |\
     unable to |must |is not |are not |ignored by |rejected|conflict|does not |doesn't |did not |\
     failed to |failed:|invalid|unknown |missing|unexpected|already exists|out of |not enough|\
     too many|undefined|unrecognized|unsupported|expected|would be |run `|unresolved|mismatch|\
     not formatted",
);
/// Prefixes of lines that only a failed program writes.
const MARKS: [&str; 10] = phrase_list(
    "Traceback (most recent call last)|error: |error[E|Error: |fatal: |FATAL|panic: |\
     Segmentation fault|FAILED|Uncaught ",
);

/// Certainty that a line is the reason of a failure, from the most certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Certainty {
    /// The message of a panic, or of a failed test.
    Message,
    /// `E   assert …` of pytest, `AssertionError`, `assertion … failed`.
    Asserted,
    /// `error[E0308]: …`, `a.ts(1,2): error TS2304: …`.
    Coded,
    /// `ValueError: …`; the last such line is the exception that ended the program.
    Raised,
    /// `error: …`, `fatal: …`.
    ErrorPrefix,
    /// `a.go:6:2: …`.
    Location,
    /// A line with a phrase that names a cause.
    Phrase,
}

/// Strips the marks of a box or a list from a line; `None` if no text remains.
pub(super) fn without_frame(line: &str) -> Option<&str> {
    let is_frame = |c: char| {
        c.is_whitespace() || ('\u{2500}'..='\u{259f}').contains(&c) || matches!(c, '|' | '=' | '~')
    };
    let line = line.trim_matches(is_frame);
    let is_tag = line.starts_with('<') && line.ends_with('>') && !line.contains(' ');
    let is_location =
        ["File \"", "at ", "--> ", "^", "..."].iter().any(|mark| line.starts_with(mark));
    let has_text = line.contains(char::is_alphanumeric);
    (has_text && !is_tag && !is_location).then_some(line)
}

/// Returns true if a line only reports that something failed, or gives advice.
pub(super) fn is_consequence(line: &str) -> bool {
    let head = head(line, 40).to_ascii_lowercase();
    let begins = |marks: &[&str]| marks.iter().any(|mark| head.starts_with(mark));
    // A bare `FAIL` or `FAILED` names no cause; text after a colon does.
    begins(&ADVICE) || begins(&CONSEQUENCES) && !(head.starts_with("fail") && line.contains(": "))
}

/// Rates a line as the reason of a failure; `None` if it is no reason.
pub(super) fn certainty(line: &str) -> Option<Certainty> {
    let begins = |marks: &[&str]| marks.iter().any(|mark| line.starts_with(mark));
    if begins(&["E   ", "AssertionError", "assertion"]) {
        return Some(Certainty::Asserted);
    }
    if is_consequence(line) {
        return None;
    }
    if begins(&["error[", "error TS"]) || line.contains(": error TS") {
        return Some(Certainty::Coded);
    }
    if is_exception_line(line) {
        return Some(Certainty::Raised);
    }
    if begins(&["error:", "Error:", "ERROR:", "fatal:", "FATAL", "panic: ", "Uncaught "])
        || line.contains(": error: ")
        || line.contains(": fatal error: ")
    {
        return Some(Certainty::ErrorPrefix);
    }
    if has_error_location(line) {
        return Some(Certainty::Location);
    }
    let lower = head(line, 300).to_ascii_lowercase();
    PHRASES.iter().any(|phrase| lower.contains(phrase)).then_some(Certainty::Phrase)
}

/// Returns true if a line is one that only a failed program writes.
pub(super) fn is_error_mark(line: &str) -> bool {
    MARKS.iter().any(|mark| line.starts_with(mark))
        || is_exception_line(line)
        || line.contains(": error TS")
        || line.contains(": error: ")
        || line.starts_with("thread '") && line.contains("panicked at")
        || line.ends_with(": command not found")
        || line.contains("No module named ")
}

/// Matches `ValueError: …`, `requests.exceptions.Timeout: …`, `TypeError: …` of JavaScript.
fn is_exception_line(line: &str) -> bool {
    let Some((name, _)) = line.split_once(':') else { return false };
    let last = name.rsplit('.').next().unwrap_or(name);
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
    let ends = ["Error", "Exception", "Interrupt"].iter().any(|end| last.ends_with(end));
    is_name && ends && last.starts_with(|c: char| c.is_ascii_uppercase()) && last.len() > 5
}

/// Matches an error with a source location: `cart/cart.go:6:2: …`, `a.c:1:2: …`.
pub(super) fn has_error_location(line: &str) -> bool {
    let mut parts = line.splitn(4, ':');
    let (Some(path), Some(row), Some(column), Some(text)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    path.contains('.')
        && !path.contains(' ')
        && is_number(row)
        && is_number(column)
        && text.starts_with(' ')
        && !text.starts_with(" warning")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certainty_rates_a_line_with_a_cause_by_its_format() {
        for (line, expected) in [
            ("E   assert 3 == 4", Some(Certainty::Asserted)),
            ("src/a.ts(1,2): error TS2304: Cannot find name 'x'.", Some(Certainty::Coded)),
            ("error[E0308]: mismatched types", Some(Certainty::Coded)),
            ("ModuleNotFoundError: No module named 'pytz'", Some(Certainty::Raised)),
            ("requests.exceptions.ConnectionError: refused", Some(Certainty::Raised)),
            ("fatal: not a git repository", Some(Certainty::ErrorPrefix)),
            ("./cart.go:6:2: undefined: tax", Some(Certainty::Location)),
            ("Command timed out after 60 seconds", Some(Certainty::Phrase)),
            ("Code is not formatted. Run `mix format`", Some(Certainty::Phrase)),
            ("error: could not compile `cart` (lib) due to 1 previous error", None),
            ("hint: Use -f if you really want to add them.", None),
            ("Exit code 1", None),
            ("12 files checked", None),
        ] {
            assert_eq!(certainty(line), expected, "{line}");
        }
        for line in ["</output>", "─────────", "=====", "  | ", "    at f (a.js:1:2)", "^^^^"]
        {
            assert_eq!(without_frame(line), None, "{line}");
        }
        assert_eq!(without_frame("│ Run the formatter │"), Some("Run the formatter"));
    }
}
