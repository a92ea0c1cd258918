//! The change of a text, line by line, for the user to confirm. It must not apply the change.

use std::{collections::HashMap, fmt::Write as _, time::Duration};

use similar::{ChangeTag, TextDiff};

/// Time limit of the exact comparison; after it, the difference is approximate.
const LONGEST: Duration = Duration::from_secs(1);
/// Lines of context around a change.
const AROUND: usize = 3;

/// Returns the removed and added lines, each with context; empty if nothing changes.
#[must_use]
pub fn diff(before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    // After the timeout, the rest of one text replaces the rest of the other.
    let compared = TextDiff::configure().timeout(LONGEST).diff_slices(&old, &new);
    let mut text = String::new();
    for place in compared.grouped_ops(AROUND) {
        let line = place.first().map_or(0, |op| op.old_range().start);
        let _ = writeln!(text, "@@ line {} @@", line + 1);
        for change in place.iter().flat_map(|op| compared.iter_changes(op)) {
            let mark = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            let _ = writeln!(text, "{mark}{}", change.value());
        }
    }
    text
}

/// Shortens a [`diff`] for the user: of blocks with equal content the first is shown, followed by
/// the names of the others. A block is a changed range, or a list or an object with its name.
#[must_use]
pub fn fold_equal_blocks(diff: &str) -> String {
    let lines: Vec<&str> = diff.lines().collect();
    let end = |at: usize| lines.get(at..).map_or(at, |rest| at + block_len(rest));
    let body = |at: usize| -> Vec<&str> {
        let inside = lines.get(at + 1..end(at)).unwrap_or_default();
        inside.iter().map(|line| line.trim_end_matches(',')).collect()
    };
    let mut alike: HashMap<Vec<&str>, Vec<usize>> = HashMap::new();
    for at in (0..lines.len()).filter(|at| end(*at) > at + 1) {
        alike.entry(body(at)).or_default().push(at);
    }
    let (mut text, mut at) = (String::new(), 0);
    while let Some(line) = lines.get(at) {
        let others = alike.get(&body(at)).filter(|all| all.len() > 1 && end(at) > at + 1);
        let Some((first, more)) = others.and_then(|all| all.split_first()) else {
            let _ = writeln!(text, "{line}");
            at += 1;
            continue;
        };
        if *first == at {
            for line in lines.get(at..end(at)).unwrap_or_default() {
                let _ = writeln!(text, "{line}");
            }
            let names = more.iter().filter_map(|at| lines.get(*at)).map(|line| block_name(line));
            let names = names.collect::<Vec<_>>().join(", ");
            let _ = writeln!(text, "  (the same in {} more: {names})", more.len());
        }
        at = end(at);
    }
    text
}

/// Returns the number of lines of the block that starts at the first line: 1 if none starts.
fn block_len(lines: &[&str]) -> usize {
    let Some((head, rest)) = lines.split_first() else { return 0 };
    if head.starts_with("@@") {
        return 1 + rest.iter().take_while(|line| !line.starts_with("@@")).count();
    }
    let close = match head.chars().next_back() {
        Some('[') => ']',
        Some('{') => '}',
        _ => return 1,
    };
    let Some(indent) = head.split_once('"').map(|(indent, _)| indent) else { return 1 };
    let ends = |line: &&str| {
        line.strip_prefix(indent)
            .is_some_and(|rest| rest.trim_end_matches(',') == close.to_string())
    };
    let marked = head.starts_with(['+', '-']);
    rest.iter().position(ends).filter(|_| marked).map_or(1, |end| end + 2)
}

/// Returns the name of a block: that of a member, or its line.
fn block_name(head: &str) -> &str {
    match head.split('"').nth(1) {
        Some(name) if !head.starts_with("@@") => name,
        _ => head.trim_matches(['@', ' ']),
    }
}
