//! The name that was meant by one that is not known. It must not know any name.

/// Characters of a name that are compared.
const CHARS_MAX: usize = 100;

/// The known name that was meant: the same but for case and marks, or a few letters away.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| -> Vec<char> {
        let letters = text.chars().filter(char::is_ascii_alphanumeric);
        letters.map(|letter| letter.to_ascii_lowercase()).take(CHARS_MAX).collect()
    };
    let name = plain(name);
    let near = known.map(|known| (distance(&name, &plain(known)), known));
    let (steps, meant) = near.min_by_key(|(steps, _)| *steps)?;
    (steps <= name.len() / 3).then_some(meant)
}

/// Letters to change, add, leave out or swap with the next.
#[must_use]
pub fn distance(from: &[char], to: &[char]) -> usize {
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
    fn the_name_that_was_meant_is_found() {
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
            assert_eq!(nearest(name, known.into_iter()), meant, "{name}");
        }
    }

    #[test]
    fn the_distance_of_two_names_counts_what_a_hand_slips() {
        for (a, b, far) in [
            ("trip", "trip", 0),
            ("tripp", "trip", 1),
            ("tirp", "trip", 1),
            ("", "abc", 3),
            ("run-1", "run-7", 1),
        ] {
            let [from, to] = [a, b].map(|text| text.chars().collect::<Vec<char>>());
            assert_eq!(distance(&from, &to), far, "{a} {b}");
        }
    }
}
