//! Search for the known name that an unknown one resembles. It must not know any name.

/// Maximum characters of a name that are compared.
const CHARS_MAX: usize = 100;

/// Returns the known name that was meant: the same but for case and marks, or a few letters away.
#[must_use]
pub fn nearest_name<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| -> Vec<char> {
        let letters = text.chars().filter(char::is_ascii_alphanumeric);
        letters.map(|letter| letter.to_ascii_lowercase()).take(CHARS_MAX).collect()
    };
    let name = plain(name);
    let near = known.map(|known| (edit_distance(&name, &plain(known)), known));
    let (steps, meant) = near.min_by_key(|(steps, _)| *steps)?;
    (steps <= name.len() / 3).then_some(meant)
}

/// Returns the number of letters to change, add, remove or swap with the next one.
#[must_use]
pub fn edit_distance(from: &[char], to: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, letter) in from.iter().enumerate() {
        let mut next = vec![line + 1];
        for (column, other) in to.iter().enumerate() {
            let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX);
            let changed = at(&row, column) + usize::from(letter != other);
            let mut least = changed.min(at(&row, column + 1) + 1).min(at(&next, column) + 1);
            let swapped = line > 0
                && column > 0
                && from.get(line - 1) == Some(other)
                && to.get(column - 1) == Some(letter);
            if swapped {
                least = least.min(at(&before, column - 1) + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_name_returns_the_closest_known_name_or_none() {
        let known = ["label", "thread", "state", "ttl_seconds", "types[]"];
        for (name, meant) in [
            ("lable", Some("label")),
            ("LABEL", Some("label")),
            ("ttlSeconds", Some("ttl_seconds")),
            ("type", Some("types[]")),
            ("x", None),
            ("", None),
            ("metadata", None),
        ] {
            assert_eq!(nearest_name(name, known.into_iter()), meant, "{name}");
        }
    }

    #[test]
    fn edit_distance_counts_changed_added_removed_and_swapped_letters() {
        for (a, b, far) in [
            ("trip", "trip", 0),
            ("tripp", "trip", 1),
            ("tirp", "trip", 1),
            ("", "abc", 3),
            ("run-1", "run-7", 1),
        ] {
            let [from, to] = [a, b].map(|text| text.chars().collect::<Vec<char>>());
            assert_eq!(edit_distance(&from, &to), far, "{a} {b}");
        }
    }
}
