//! Lines of an edit as a person reads a diff: of a call that replaces or writes text, and of a text
//! that is a diff itself. It must not read a file.

use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::cli::{readable::words::text_of, screen::Tone};

/// Maximum number of lines of an edit, and of bytes of a text that is compared.
const LINES_MAX: usize = 2_000;
const BYTES_MAX: usize = 256 << 10;
/// Members of a call's input that have the old and the new text, and those with all of a file.
const CHANGES: [(&str, &str); 2] = [("old_string", "new_string"), ("old_str", "new_str")];
const WHOLE: [&str; 3] = ["content", "file_text", "new_source"];
/// Beginnings of lines that only a diff has.
const MARKS: [&str; 4] = ["diff --git ", "@@ ", "*** Begin Patch", "--- a/"];

/// Returns the lines that a call's input removes, adds and leaves; empty for any other call.
pub(super) fn edit_lines(event: &Value) -> Vec<(char, String)> {
    let Some(input) = event.get("input") else { return Vec::new() };
    let mut lines = Vec::new();
    if input.get("edits").is_none_or(Value::is_null) {
        add_edit(input, &mut lines);
    }
    let edits = input.get("edits").and_then(Value::as_array);
    for edit in edits.into_iter().flatten() {
        if !lines.is_empty() {
            lines.push(('@', String::new()));
        }
        add_edit(edit, &mut lines);
    }
    lines.truncate(LINES_MAX);
    lines
}

fn add_edit(edit: &Value, lines: &mut Vec<(char, String)>) {
    let has = |name: &str| edit.get(name).is_some_and(Value::is_string);
    if let Some((old, new)) = CHANGES.into_iter().find(|(_, new)| has(new)) {
        return add_change(text_of(edit, old), text_of(edit, new), lines);
    }
    // A text beside a path is all of a file; elsewhere it is a message.
    let names_file = ["file_path", "path", "notebook_path"].into_iter().any(has);
    if let Some(whole) = WHOLE.into_iter().find(|name| names_file && has(name)) {
        let added = text_of(edit, whole).lines().take(LINES_MAX);
        lines.extend(added.map(|line| ('+', line.to_owned())));
    }
}

fn add_change(old: &str, new: &str, lines: &mut Vec<(char, String)>) {
    if old.len() + new.len() > BYTES_MAX {
        lines.extend(old.lines().map(|line| ('-', line.to_owned())));
        lines.extend(new.lines().map(|line| ('+', line.to_owned())));
        return;
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    for change in TextDiff::from_slices(&old, &new).iter_all_changes() {
        let sign = match change.tag() {
            ChangeTag::Equal => ' ',
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
        };
        lines.push((sign, change.value().to_owned()));
    }
}

/// Returns true if a text has lines that only a diff has.
pub(super) fn is_diff(text: &str) -> bool {
    text.lines().any(|line| MARKS.iter().any(|mark| line.starts_with(mark)))
}

/// Returns the tone of a line of a diff.
pub(super) fn line_tone(line: &str) -> Tone {
    match line.chars().next() {
        Some('+') => Tone::Good,
        Some('-') => Tone::Bad,
        Some('@') => Tone::Faint,
        _ => Tone::Plain,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_lines_of_an_edit_have_the_sign_of_their_change() {
        let lines = |input: Value| {
            let lines = edit_lines(&json!({ "input": input }));
            lines.into_iter().map(|(sign, text)| format!("{sign}{text}")).collect::<Vec<_>>()
        };
        for (input, expected) in [
            (
                json!({"file_path": "a", "old_string": "x\ny\nz", "new_string": "x\nw\nz"}),
                vec![" x", "-y", "+w", " z"],
            ),
            (json!({"path": "a", "old_str": "", "new_str": "1\n2"}), vec!["+1", "+2"]),
            (json!({"file_path": "a", "content": "1\n\n2"}), vec!["+1", "+", "+2"]),
            (
                json!({"file_path": "a", "edits": [
                    {"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": ""}]}),
                vec!["-a", "+b", "@", "-c"],
            ),
            (json!({"content": "a message"}), vec![]),
            (json!({"command": "ls"}), vec![]),
            (json!("text"), vec![]),
        ] {
            assert_eq!(lines(input.clone()), expected, "{input}");
        }
        assert!(is_diff("x\n@@ -1 +1 @@\n-a\n+b") && !is_diff("- a list\n+ b"));
    }
}
