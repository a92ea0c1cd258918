//! Splitting of a text into pieces that are found and shown separately: sentences of prose, and
//! groups of lines of program output. It must not lose a character except white space.

use crate::{event::text::whole_graphemes, projection::sentences::end_of_sentence};

/// Bytes of the longest piece: a longer sentence or line is cut.
pub(super) const PIECE_BYTES_MAX: usize = 1_000;

/// Calls `visit` with the pieces of the text in order, trimmed and never empty. A piece ends where
/// a sentence or a line does, once it has `bytes_min` bytes.
pub(super) fn visit_pieces<'a>(text: &'a str, bytes_min: usize, mut visit: impl FnMut(&'a str)) {
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(end_of_piece(rest, bytes_min));
        let piece = piece.trim();
        if !piece.is_empty() {
            visit(piece);
        }
        rest = after.trim_start();
    }
}

fn end_of_piece(text: &str, bytes_min: usize) -> usize {
    let mut end = 0;
    while end < bytes_min.max(1) {
        let Some(rest) = text.get(end..).filter(|rest| !rest.is_empty()) else { break };
        // A longer sentence is cut regardless of what follows.
        let sentence = end_of_sentence(rest, PIECE_BYTES_MAX + 1);
        if end + sentence > PIECE_BYTES_MAX {
            return if end > 0 { end } else { cut_offset(text) };
        }
        end += sentence;
    }
    end
}

/// Returns the byte offset at which to cut a long sentence: at the last white space or grapheme.
fn cut_offset(text: &str) -> usize {
    let most = text.floor_char_boundary(PIECE_BYTES_MAX);
    let head = text.get(..most).unwrap_or_default();
    let spaced = head.rfind(char::is_whitespace).filter(|at| *at > PIECE_BYTES_MAX / 2);
    match spaced.unwrap_or_else(|| whole_graphemes(text, most)) {
        0 => most,
        end => end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut_up(text: &str, bytes_min: usize) -> Vec<&str> {
        let mut found = Vec::new();
        visit_pieces(text, bytes_min, |piece| found.push(piece));
        found
    }

    #[test]
    fn prose_is_cut_into_sentences() {
        for (text, expected) in [
            ("One is here. Two! Three? four", &["One is here.", "Two!", "Three?", "four"][..]),
            ("about tenancy. the next one.", &["about tenancy.", "the next one."]),
            ("e.g. this stays. That not.", &["e.g. this stays.", "That not."]),
            ("takes 1.5 s of app.rs, v1.2. And", &["takes 1.5 s of app.rs, v1.2.", "And"]),
            ("a line\n\n  another", &["a line", "another"]),
            ("これは一。これは二。", &["これは一。", "これは二。"]),
            (" \n ", &[]),
        ] {
            assert_eq!(cut_up(text, 0), expected, "{text:?}");
        }
    }

    #[test]
    fn pieces_have_at_least_bytes_min_and_at_most_1000_bytes() {
        assert_eq!(cut_up("Yes. It is so. And more.", 10), ["Yes. It is so.", "And more."]);
        let log: String = (0..100).map(|line| format!("line {line} of output\n")).collect();
        let found = cut_up(&log, 160);
        assert!(found.iter().all(|piece| piece.len() <= PIECE_BYTES_MAX), "{found:?}");
        assert!(found.len() < 20 && found.concat().contains("line 99"));
        for long in ["word ".repeat(500), "x".repeat(2_000), "👨‍👩‍👧".repeat(200), "é".repeat(999)]
        {
            let found = cut_up(&long, 0);
            assert!(found.iter().all(|piece| piece.len() <= PIECE_BYTES_MAX), "{long}");
            let kept: String = found.concat().split_whitespace().collect();
            assert_eq!(kept, long.split_whitespace().collect::<String>());
        }
        assert_eq!(cut_up(&"👨‍👩‍👧".repeat(200), 0)[0].len() % "👨‍👩‍👧".len(), 0);
    }
}
