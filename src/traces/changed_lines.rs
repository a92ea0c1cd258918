//! Counts the lines that an edit adds and removes, from the input of its call. It must not read the
//! file.

use std::fmt::Write as _;

use serde_json::{Map, Value, value::RawValue};

use super::{
    content::parse_string,
    tools::{self, Members},
};
use crate::event::json;

/// Input members that contain the text of an edit, and the member that contains a list of edits.
const TEXTS: [&str; 7] =
    ["old_string", "new_string", "old_str", "new_str", "content", "new_source", "file_text"];
const EDITS: &str = "edits";
/// Input members that contain all of a file, or of a notebook cell.
const WHOLE: [&str; 3] = ["content", "new_source", "file_text"];
/// Member with the number of changed lines, which replaces the texts.
pub const LINES: &str = "lines";
/// Maximum edits of one call that are counted.
const EDITS_MAX: usize = 1_000;

/// Number of lines added and removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LineCounts {
    added: usize,
    removed: usize,
}

impl LineCounts {
    /// Counts the lines of two texts between their common beginning and their common end.
    fn between(old: &str, new: &str) -> Self {
        let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
        let alike = |(one, other): &(&&str, &&str)| one == other;
        let first = old.iter().zip(&new).take_while(alike).count();
        let last = old.iter().skip(first).rev().zip(new.iter().skip(first).rev());
        let same = first + last.take_while(alike).count();
        Self { added: new.len() - same, removed: old.len() - same }
    }

    fn plus(self, other: Self) -> Self {
        Self { added: self.added + other.added, removed: self.removed + other.removed }
    }

    fn from_members(members: &Members<'_>) -> Option<Self> {
        let text = |names: [&str; 2]| {
            names.iter().find_map(|name| members.get(*name).and_then(|value| parse_string(value)))
        };
        if let Some(new) = text(["new_string", "new_str"]) {
            let old = text(["old_string", "old_str"]).unwrap_or_default();
            return Some(Self::between(&old, &new));
        }
        if let Some(list) = members.get(EDITS).and_then(|list| json::check_levels(list.get(), 1)) {
            let list: Vec<&RawValue> = serde_json::from_str(list).ok()?;
            let each = list.iter().take(EDITS_MAX).map(|edit| {
                let members = tools::parse_members(Some(*edit));
                if members.contains_key(EDITS) { None } else { Self::from_members(&members) }
            });
            return each.sum::<Option<Self>>();
        }
        None
    }
}

impl std::iter::Sum for LineCounts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Self::plus)
    }
}

impl std::fmt::Display for LineCounts {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { added, removed } = self;
        if *removed > 0 { write!(out, "+{added} -{removed}") } else { write!(out, "+{added}") }
    }
}

/// Returns the number of lines of a whole text in an input.
fn whole_lines(members: &Members<'_>) -> Option<usize> {
    let whole = WHOLE.iter().find_map(|name| parse_string(members.get(*name)?))?;
    Some(whole.lines().count())
}

/// Returns the lines that a call adds and removes, of its input or of its patch; the removed ones
/// are unknown where a whole text replaces another.
pub(super) fn changed_lines(
    members: &Members<'_>,
    patch: Option<&str>,
) -> Option<(u64, Option<u64>)> {
    let counts = LineCounts::from_members(members).or_else(|| {
        let files = patch.map(count_patch_lines).filter(|files| !files.is_empty())?;
        Some(files.into_iter().map(|(_, lines)| lines).sum())
    });
    let of = |lines: LineCounts| (lines.added as u64, Some(lines.removed as u64));
    counts.map(of).or_else(|| Some((whole_lines(members)? as u64, None)))
}

/// Returns the input of an edit with line counts instead of its texts; `None` for other inputs.
pub(super) fn with_line_counts(members: &Members<'_>) -> Option<String> {
    // The number of lines that a whole text replaces is unknown.
    let whole = || {
        let lines = whole_lines(members)?;
        Some(format!("{lines} line{}", if lines == 1 { "" } else { "s" }))
    };
    let lines = LineCounts::from_members(members).map(|lines| lines.to_string()).or_else(whole)?;
    let is_text = |name: &str| TEXTS.contains(&name) || name == EDITS;
    let rest = members.iter().filter(|(name, _)| !is_text(name));
    let value = |raw: &&RawValue| serde_json::from_str(raw.get()).unwrap_or(Value::Null);
    let mut input: Map<String, Value> =
        rest.map(|(name, raw)| (name.to_string(), value(raw))).collect();
    input.insert(LINES.to_owned(), lines.into());
    Some(Value::Object(input).to_string())
}

/// Effect of a header line of an `apply_patch` patch on the file that it names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PatchLine {
    Changes,
    Adds,
    Deletes,
    Moves,
}

impl PatchLine {
    /// Parses the effect and the path in a header line; `None` for any other line.
    pub(super) fn read(line: &str) -> Option<(Self, &str)> {
        [
            ("*** Update File: ", Self::Changes),
            ("*** Add File: ", Self::Adds),
            ("*** Delete File: ", Self::Deletes),
            ("*** Move to: ", Self::Moves),
        ]
        .into_iter()
        .find_map(|(mark, does)| Some((does, line.strip_prefix(mark)?.trim())))
    }
}

/// Lists the files of an `apply_patch` patch, each with its line counts.
pub(super) fn patch_line_counts(text: &str) -> Option<String> {
    let told: Vec<String> = count_patch_lines(text)
        .into_iter()
        .map(|(file, lines)| match lines {
            LineCounts { added: 0, removed: 0 } => file,
            lines => format!("{file} {lines}"),
        })
        .collect();
    Some(told.join(", ")).filter(|told| !told.is_empty())
}

fn count_patch_lines(text: &str) -> Vec<(String, LineCounts)> {
    let mut files: Vec<(String, LineCounts)> = Vec::new();
    for line in text.lines() {
        let does = PatchLine::read(line);
        match (does, files.last_mut()) {
            (Some((PatchLine::Changes, path)), _) => {
                files.push((path.to_owned(), LineCounts::default()))
            }
            (Some((PatchLine::Adds, path)), _) => {
                files.push((format!("new {path}"), LineCounts::default()));
            }
            (Some((PatchLine::Deletes, path)), _) => {
                files.push((format!("deleted {path}"), LineCounts::default()));
            }
            (Some((PatchLine::Moves, path)), Some((file, _))) => {
                let _ = write!(file, " -> {path}");
            }
            (None, Some((_, lines))) => {
                lines.added += usize::from(line.starts_with('+'));
                lines.removed += usize::from(line.starts_with('-'));
            }
            (Some((PatchLine::Moves, _)) | None, None) => {}
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_counts_lines_between_the_common_beginning_and_end() {
        for (old, new, expected) in [
            ("a\nb\nc", "a\nx\ny\nc", "+2 -1"),
            ("a", "a", "+0"),
            ("", "a\nb", "+2"),
            ("a\nb", "", "+0 -2"),
            ("a\na", "a\na\na", "+1"),
        ] {
            assert_eq!(LineCounts::between(old, new).to_string(), expected, "{old:?} {new:?}");
        }
    }

    #[test]
    fn the_text_of_an_edit_is_replaced_by_its_number_of_lines() {
        for (input, expected) in [
            (
                r#"{"file_path":"/a","old_string":"x","new_string":"y\nz"}"#,
                Some(r#"{"file_path":"/a","lines":"+2 -1"}"#),
            ),
            (
                r#"{"file_path":"/a","edits":[{"old_string":"x","new_string":"y"},{"old_string":"","new_string":"z"}]}"#,
                Some(r#"{"file_path":"/a","lines":"+2 -1"}"#),
            ),
            (
                r#"{"file_path":"/a","content":"1\n2\n"}"#,
                Some(r#"{"file_path":"/a","lines":"2 lines"}"#),
            ),
            (
                r#"{"command":"str_replace","path":"/a","old_str":"x","new_str":"y"}"#,
                Some(r#"{"command":"str_replace","path":"/a","lines":"+1 -1"}"#),
            ),
            (r#"{"file_path":"/a","edits":[{"edits":[]}]}"#, None),
            (r#"{"file_path":"/a"}"#, None),
            (r#"{"file_path":"/a","new_string":7}"#, None),
        ] {
            let raw: &RawValue = serde_json::from_str(input).expect("JSON");
            let made = with_line_counts(&tools::parse_members(Some(raw)));
            assert_eq!(made.as_deref(), expected, "{input}");
        }
        let patch = "*** Begin Patch\n*** Update File: a.rs\n@@\n-x\n+y\n+z\n*** Add File: b\n+1\n\
                     *** Delete File: c\n*** Update File: d\n*** Move to: e\n@@\n+1";
        let told = "a.rs +2 -1, new b +1, deleted c, d -> e +1";
        assert_eq!(patch_line_counts(patch).as_deref(), Some(told));
        assert_eq!(patch_line_counts("no patch"), None);
    }
}
