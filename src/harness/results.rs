//! Relevance of a tool's result to the current work, by the names and numbers in the current
//! request, the plan and open failures; and its most useful line. It must not choose.

use std::collections::HashSet;

use super::recall::work_texts;
use crate::projection::{CallOutput, Facts, is_done};

/// Most names that are searched, and most bytes of a text that are scanned for them.
const NAMES_MAX: usize = 400;
const TEXT_BYTES_MAX: usize = 4_000;
/// Least characters of a name.
const NAME_CHARS_MIN: usize = 4;
/// Most distinct names of a result that count.
const COUNTED_MAX: usize = 6;
/// Most bytes of a file that is shown regardless of its relevance.
const SHORT_BYTES: usize = 600;
/// Words of a line that reports an outcome, in lower case.
const OUTCOMES: [&str; 16] = [
    "error",
    "fail",
    "panic",
    "exception",
    "passed",
    "not found",
    "no such",
    "denied",
    "refused",
    "cannot",
    "expected",
    "traceback",
    "warning",
    "success",
    "created",
    "usage",
];
/// Least letters and digits of a line that can be useful.
const LETTERS_MIN: usize = 4;

/// Names and numbers of the current work, in lower case.
#[derive(Default)]
pub(super) struct RecurringNames(HashSet<String>);

impl RecurringNames {
    /// Collects the names in the latest request, the task, the plan and open failures.
    pub(super) fn from_facts(facts: &Facts) -> Self {
        let plan = facts.progress.plan().into_iter().flat_map(|plan| &plan.steps);
        let plan = plan.filter(|step| !is_done(step)).map(|step| step.text.as_str());
        let failing = facts.work.failing_commands().rev().take(8);
        let failing = failing.flat_map(|one| [&*one.line, &*one.error]);
        let texts = work_texts(facts).into_iter().flatten().chain(plan).chain(failing);
        let all = texts.flat_map(|text| extract_names(scanned_prefix(text)));
        Self(all.take(NAMES_MAX).map(str::to_lowercase).collect())
    }

    /// Returns the number of distinct collected names in a text, up to 6.
    pub(super) fn count_in(&self, text: &str) -> usize {
        let mut seen: Vec<&str> = Vec::new();
        for name in extract_names(scanned_prefix(text)) {
            if seen.len() < COUNTED_MAX
                && !seen.contains(&name)
                && self.0.contains(&name.to_lowercase())
            {
                seen.push(name);
            }
        }
        seen.len()
    }

    /// Returns true if a long result only shows an irrelevant file that can be read again.
    pub(super) fn is_rereadable_file(&self, output: &CallOutput) -> bool {
        let is_asked = |path: &str| {
            let name = path.rsplit('/').next().unwrap_or(path).to_lowercase();
            self.0.contains(&name) || self.0.contains(&path.to_lowercase())
        };
        let is_long = output.text.len() > SHORT_BYTES;
        let is_file = output.ended.is_empty() && !output.reads.is_empty();
        is_long && is_file && !output.reads.iter().any(|one| is_asked(one))
    }

    /// Returns the most informative line of a result.
    pub(super) fn most_useful_line<'t>(&self, text: &'t str) -> &'t str {
        let lines = scanned_prefix(text).lines().map(str::trim);
        let lines: Vec<&str> = lines.filter(|line| has_content(line)).collect();
        let last = lines.len().saturating_sub(1);
        let rank = |(at, line): &(usize, &&str)| {
            let lower = line.to_lowercase();
            let ends = OUTCOMES.iter().any(|word| lower.contains(word));
            let place = usize::from(*at == last) * 2 + usize::from(*at == 0);
            (3 * (usize::from(ends) + self.count_in(line)) + place, *at)
        };
        lines.iter().enumerate().max_by_key(rank).map_or("", |(_, line)| line)
    }
}

/// Returns the first kilobytes of a text.
fn scanned_prefix(text: &str) -> &str {
    text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or_default()
}

/// Returns true if a line has content: it is not a rule, a tag or a bracket.
fn has_content(line: &str) -> bool {
    let letters = line.chars().filter(|c| c.is_alphanumeric()).count();
    letters >= LETTERS_MIN && !is_tag(line)
}

/// Returns true if a line is a tag, or a word between two, as some programs wrap results.
fn is_tag(line: &str) -> bool {
    line.starts_with('<') && line.ends_with('>') && !line.contains(' ')
}

/// Strips the tags with which some programs wrap a result.
#[must_use]
pub(super) fn strip_wrapper(text: &str) -> &str {
    let mut text = text.trim();
    loop {
        let first = text.lines().next().unwrap_or_default();
        let last = text.lines().next_back().unwrap_or_default();
        let rest = match (is_tag(first.trim()), is_tag(last.trim())) {
            (true, _) => text.get(first.len()..),
            (_, true) => text.get(..text.len() - last.len()),
            _ => return text.trim_matches('\n').trim_end(),
        };
        text = rest.unwrap_or_default().trim_matches(['\n', '\r']).trim_end();
    }
}

/// Returns the names and numbers of a text: words with a digit, `_`, `.` or `/`, or with a capital
/// letter after the first character.
fn extract_names(text: &str) -> impl Iterator<Item = &str> {
    let ends = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '/' | '-'));
    let words = text.split(ends).map(|word| word.trim_matches(['.', '-', '/', '_']));
    words.filter(|word| {
        let is_mark = |c: char| c.is_numeric() || matches!(c, '_' | '.' | '/');
        let has_mark = word.contains(is_mark);
        let has_capital = word.chars().skip(1).any(char::is_uppercase);
        word.len() >= NAME_CHARS_MIN && (has_mark || has_capital)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_useful_line_has_an_outcome_or_a_searched_name() {
        let names = RecurringNames(["ab12.rs".to_owned()].into());
        assert_eq!(
            names.most_useful_line("=====\ncollected 4 items\nE  error: 9 != 10\n</x>"),
            "E  error: 9 != 10"
        );
        assert_eq!(names.most_useful_line("one two\nsee AB12.rs\nthree"), "see AB12.rs");
        assert_eq!(names.most_useful_line("first line\nlast line"), "last line");
        assert_eq!(names.most_useful_line("\n--\n"), "");
        assert_eq!(strip_wrapper("<code>0</code>\n<out>\n  a\nb\n</out>\n"), "  a\nb");
        assert_eq!(strip_wrapper("<out>\n</out>"), "");
    }
}
