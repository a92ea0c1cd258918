//! Sentence boundaries for every reader of text: findings and search. It must not depend on a
//! language beyond the marks that end a sentence and a short table of abbreviations.

use crate::event::lists::word_list;

/// Abbreviations before a name or a number, in lower case, without the final full stop. Those that
/// often end a sentence (`etc`, `inc`, `min`) are excluded.
const ABBREVIATIONS: [&str; 34] = word_list(
    "al approx bzw ca cf col dr ed eds eq ex fig figs hr mr mrs ms no nos nr op p pp prof ref \
     refs resp sec sect st tab vgl vol vs",
);
/// Most characters of a list item's marker: `12`, `iv`, `(a`.
const MARKER_CHARS_MAX: usize = 4;
/// Most characters of a word that counts as an abbreviation if a full stop and a lower-case letter
/// follow.
const SHORT_CHARS_MAX: usize = 3;

/// Returns the end of the first sentence: the end of its line, or the mark that ends it with
/// closing quotation marks and brackets. Returns the length of the text if no sentence ends in its
/// first `bytes_max` bytes; no more are scanned.
pub(crate) fn end_of_sentence(text: &str, bytes_max: usize) -> usize {
    // Bytes are compared, not characters: few bytes can begin a mark.
    for (at, byte) in text.bytes().enumerate().take(bytes_max) {
        let mark = match byte {
            b'\n' => return at + 1,
            b'.' | b'!' | b'?' => 1,
            0xe3 | 0xef => 3,
            _ => continue,
        };
        if mark == 3 {
            if matches!(text.get(at..at + mark), Some("。" | "！" | "？")) {
                return at + mark;
            }
            continue;
        }
        let (before, after) = (text.get(..at), text.get(at + mark..));
        let after = after.unwrap_or_default();
        let rest = after.trim_start_matches(['"', '\'', ')', ']', '”', '’', '»', '*', '_', '`']);
        if is_sentence_end(before.unwrap_or_default(), rest, byte == b'.') {
            return text.len() - rest.len();
        }
    }
    text.len()
}

/// Returns true if a mark between these texts ends a sentence: not within a number or a name, not
/// after a list item's marker, not after an abbreviation.
fn is_sentence_end(before: &str, after: &str, is_stop: bool) -> bool {
    if !after.starts_with(char::is_whitespace) {
        return after.is_empty();
    }
    let word = before.rsplit(char::is_whitespace).next().unwrap_or_default();
    let small = after.trim_start().starts_with(char::is_lowercase);
    if small && (word.chars().count() <= SHORT_CHARS_MAX || word.contains('.')) {
        return false;
    }
    // A lone "No." is an answer, unless a number follows.
    let is_answer = word.eq_ignore_ascii_case("no")
        && before.trim_start() == word
        && !after.trim_start().starts_with(|next: char| next.is_ascii_digit());
    !is_stop || is_answer || !is_marker(before) && !is_abbreviation(word)
}

/// Returns true if the text before a full stop is only a list item's marker.
fn is_marker(before: &str) -> bool {
    let marker = before.trim_start().trim_start_matches(['(', '[', '-', '*', ' ']);
    let few = marker.chars().nth(MARKER_CHARS_MAX).is_none();
    let is_roman = || marker.chars().all(|letter| "ivxIVX".contains(letter));
    few && (marker.chars().all(|digit| digit.is_ascii_digit() || digit == '.') || is_roman())
}

/// Returns true if a word before a full stop is an abbreviation: a known one, a single letter, or
/// letters separated by full stops.
fn is_abbreviation(word: &str) -> bool {
    let word = word.trim_start_matches(|letter: char| !letter.is_alphanumeric());
    let is_letter = |part: &str| {
        let mut letters = part.chars();
        letters.next().is_some_and(char::is_alphabetic) && letters.next().is_none()
    };
    // "I" may end a sentence; any other single letter is an initial.
    word != "I" && word.split('.').all(is_letter)
        || ABBREVIATIONS.iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// Splits a text into sentences; the end of each is searched in `bytes_max` bytes.
pub(crate) fn sentences(text: &str, bytes_max: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (sentence, after) = rest.split_at(end_of_sentence(rest, bytes_max));
        rest = after;
        Some(sentence).filter(|sentence| !sentence.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<&str> {
        let all = sentences(text, usize::MAX).map(str::trim);
        all.filter(|sentence| !sentence.is_empty()).collect()
    }

    #[test]
    fn a_sentence_ends_at_its_mark_or_line() {
        for (text, expected) in [
            ("One is here. Two! Three? four", &["One is here.", "Two!", "Three?", "four"][..]),
            ("about tenancy. the next one.", &["about tenancy.", "the next one."]),
            ("a line\n\n  another", &["a line", "another"]),
            ("これは一。これは二。", &["これは一。", "これは二。"]),
            (
                "He said \"stop.\" Then (it was late.) We left.",
                &["He said \"stop.\"", "Then (it was late.)", "We left."],
            ),
            ("Changed main.rs. Then it ran.", &["Changed main.rs.", "Then it ran."]),
            ("So do I. We agree.", &["So do I.", "We agree."]),
            ("It began in 2024. Then it ended.", &["It began in 2024.", "Then it ended."]),
            ("Prices, rents etc. Then food.", &["Prices, rents etc.", "Then food."]),
            ("Is it safe? No. Stop it.", &["Is it safe?", "No.", "Stop it."]),
        ] {
            assert_eq!(cut(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_sentence_end_is_searched_only_within_the_byte_limit() {
        assert_eq!(end_of_sentence("One is here. Two", 12), 12);
        assert_eq!(end_of_sentence("One is here. Two", 11), 16);
    }

    #[test]
    fn a_sentence_is_not_cut_at_an_abbreviation_a_number_or_a_marker() {
        for text in [
            "e.g. this stays",
            "e.g. Berlin stays",
            "[9] Landis+Gyr E450 manual, p. 12, names OBIS 1.8.0",
            "see Fig. 4 and No. 7 of vol. 2",
            "measured by J. R. Smith et al. 2019",
            "takes 1.5 s of app.rs, v1.2 and more",
            "1. Install the meter",
            "  12. Read the register",
            "(iv. Close the valve)",
            "z. B. Zähler vgl. Nr. 3",
            "Dr. Osgood timed it",
            "U.S. Army records",
            "No. 7 is broken",
            "Serial no. ABC-12 is broken",
            "the meter no. is on its back",
        ] {
            assert_eq!(cut(text), [text.trim()], "{text:?}");
        }
    }
}
