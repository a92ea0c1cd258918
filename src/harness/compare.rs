//! Alignment of two sessions by what their events say: a diff of digests, as parts that cover both
//! without a hole. It must not read events, nor shorten.

use std::collections::HashSet;

use similar::{Algorithm, DiffOp, capture_diff_slices};

use crate::{
    api::compare::{CompareHunk, HunkKind},
    event::{Position, Range, pace},
};

/// An event of a side: its position, and the digest of what it says.
pub type Compared = (Position, u64);

/// Aligns the events of two sides, each with the range that they are from: every position is in one
/// part. Events that are not listed, such as bookkeeping, belong to the listed one before them.
#[must_use]
pub fn align((a, in_a): (&[Compared], Range), (b, in_b): (&[Compared], Range)) -> Vec<CompareHunk> {
    let mut hunks: Vec<CompareHunk> = Vec::new();
    for op in diff(a, b) {
        let (kind, of_a, of_b) = match op {
            DiffOp::Equal { .. } => (HunkKind::Same, op.old_range(), op.new_range()),
            DiffOp::Delete { .. } => (HunkKind::OnlyA, op.old_range(), op.new_range()),
            DiffOp::Insert { .. } => (HunkKind::OnlyB, op.old_range(), op.new_range()),
            DiffOp::Replace { .. } => (HunkKind::Changed, op.old_range(), op.new_range()),
        };
        hunks.push(CompareHunk {
            kind,
            a: Range::new(place(a, in_a, of_a.start), place(a, in_a, of_a.end)),
            b: Range::new(place(b, in_b, of_b.start), place(b, in_b, of_b.end)),
            rows_a: Vec::new(),
            rows_b: Vec::new(),
        });
    }
    if hunks.is_empty() && !(in_a.is_empty() && in_b.is_empty()) {
        // Neither side has an event that counts.
        let (rows_a, rows_b) = (Vec::new(), Vec::new());
        hunks.push(CompareHunk { kind: HunkKind::Same, a: in_a, b: in_b, rows_a, rows_b });
    }
    hunks
}

/// Returns the position at which the part that begins at an index begins: the first one begins with
/// the range, the one behind the last event at its end.
fn place(all: &[Compared], range: Range, index: usize) -> Position {
    match index {
        0 => range.from,
        index => all.get(index).map_or(range.to, |(position, _)| *position),
    }
}

/// Compares digests. Those that only one side has are set aside first, so that sides with little in
/// common take no longer than equal ones.
fn diff(a: &[Compared], b: &[Compared]) -> Vec<DiffOp> {
    let digests = |all: &[Compared]| all.iter().map(|(_, digest)| *digest).collect::<HashSet<_>>();
    let (known_a, known_b) = (digests(a), digests(b));
    let shared = |all: &[Compared], known: &HashSet<u64>| {
        let all = all.iter().enumerate().filter(|(_, (_, digest))| known.contains(digest));
        all.map(|(index, (_, digest))| (index, *digest)).unzip::<_, _, Vec<usize>, Vec<u64>>()
    };
    let (places_a, shared_a) = shared(a, &known_b);
    let (places_b, shared_b) = shared(b, &known_a);
    pace::steps(a.len() + b.len());
    let mut pairs = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, &shared_a, &shared_b) {
        if let DiffOp::Equal { old_index, new_index, len } = op {
            let of_a = places_a.iter().skip(old_index).take(len);
            pairs.extend(of_a.copied().zip(places_b.iter().skip(new_index).take(len).copied()));
        }
    }
    operations(&pairs, a.len(), b.len())
}

/// Returns the operations between pairs of equal events.
fn operations(pairs: &[(usize, usize)], len_a: usize, len_b: usize) -> Vec<DiffOp> {
    let (mut made, mut at_a, mut at_b) = (Vec::new(), 0, 0);
    let between = |(at_a, at_b): (usize, usize), (to_a, to_b): (usize, usize)| {
        let (old_len, new_len) = (to_a - at_a, to_b - at_b);
        match (old_len, new_len) {
            (0, 0) => None,
            (_, 0) => Some(DiffOp::Delete { old_index: at_a, old_len, new_index: at_b }),
            (0, _) => Some(DiffOp::Insert { old_index: at_a, new_index: at_b, new_len }),
            _ => Some(DiffOp::Replace { old_index: at_a, old_len, new_index: at_b, new_len }),
        }
    };
    for (in_a, in_b) in pairs.iter().copied() {
        made.extend(between((at_a, at_b), (in_a, in_b)));
        match made.last_mut() {
            Some(DiffOp::Equal { old_index, new_index, len })
                if *old_index + *len == in_a && *new_index + *len == in_b =>
            {
                *len += 1;
            }
            _ => made.push(DiffOp::Equal { old_index: in_a, new_index: in_b, len: 1 }),
        }
        (at_a, at_b) = (in_a + 1, in_b + 1);
    }
    made.extend(between((at_a, at_b), (len_a, len_b)));
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(digests: &[u64]) -> Vec<Compared> {
        // Every other position has bookkeeping.
        digests.iter().enumerate().map(|(n, digest)| (Position(2 * n as u64), *digest)).collect()
    }

    /// Returns the parts as text: `=0..4|0..4`.
    fn parts(a: &[u64], b: &[u64]) -> String {
        let whole = |all: &[u64]| Range::new(Position(0), Position(2 * all.len() as u64));
        let hunks = align((&side(a), whole(a)), (&side(b), whole(b)));
        let part = |hunk: &CompareHunk| {
            let mark = match hunk.kind {
                HunkKind::Same => '=',
                HunkKind::Changed => '~',
                HunkKind::OnlyA => '-',
                HunkKind::OnlyB => '+',
            };
            format!("{mark}{}|{}", hunk.a, hunk.b)
        };
        hunks.iter().map(part).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn two_sides_are_aligned_in_parts_without_a_hole() {
        for (a, b, expected) in [
            (&[1, 2, 3][..], &[1, 2, 3][..], "=0..6|0..6"),
            (&[1, 2, 3], &[1, 9, 3], "=0..2|0..2 ~2..4|2..4 =4..6|4..6"),
            (&[1, 2, 3], &[1, 3], "=0..2|0..2 -2..4|2..2 =4..6|2..4"),
            (&[1, 3], &[1, 2, 2, 3], "=0..2|0..2 +2..2|2..6 =2..4|6..8"),
            (&[1, 2], &[3, 4, 5], "~0..4|0..6"),
            (&[], &[1], "+0..0|0..2"),
            (&[], &[], ""),
        ] {
            assert_eq!(parts(a, b), expected, "{a:?} {b:?}");
        }
    }

    #[test]
    fn events_of_one_side_only_do_not_slow_the_comparison_down() {
        let (a, b) = ((0..5_000).collect::<Vec<u64>>(), (5_000..10_000).collect::<Vec<u64>>());
        assert_eq!(parts(&a, &b), "~0..10000|0..10000");
    }
}
