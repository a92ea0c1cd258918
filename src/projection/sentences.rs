//! Boundaries of sentences, for every reader of text: findings and search. It must not depend on a
//! language beyond the marks that end a sentence and a short table of abbreviations.

use crate::event::lists::word_list;

/// Abbreviations that a name or a number follows, lower case, without the last full stop. Those
/// that end sentences as often (`etc`, `inc`, `min`) are not among them.
const ABBREVIATIONS: [&str; 34] = word_list(
    "al approx bzw ca cf col dr ed eds eq ex fig figs hr mr mrs ms no nos nr op p pp prof ref \
     refs resp sec sect st tab vgl vol vs",
);
/// Characters of the marker of a list's item at most: `12`, `iv`, `(a`.
const MARKER_CHARS_MAX: usize = 4;
/// Characters of a word up to which a full stop and a small letter after it are taken for those of
/// an abbreviation.
const SHORT_CHARS_MAX: usize = 3;

/// The bytes of the first sentence: to the end of its line, or to the mark that ends it with the
/// quotation marks and brackets that close after it. The whole text if none ends in its first
/// `bytes_max` bytes: no more are looked at.
pub(crate) fn end_of_sentence(text: &str, bytes_max: usize) -> usize {
    // Bytes are compared, not characters: most are not the first byte of a mark.
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
        if ends_sentence(before.unwrap_or_default(), rest, byte == b'.') {
            return text.len() - rest.len();
        }
    }
    text.len()
}

/// True if a mark between these ends a sentence: not within a number or a name, not after the
/// marker of a list's item, not after an abbreviation.
fn ends_sentence(before: &str, after: &str, is_stop: bool) -> bool {
    if !after.starts_with(char::is_whitespace) {
        return after.is_empty();
    }
    let word = before.rsplit(char::is_whitespace).next().unwrap_or_default();
    let small = after.trim_start().starts_with(char::is_lowercase);
    if small && (word.chars().count() <= SHORT_CHARS_MAX || word.contains('.')) {
        return false;
    }
    // "No." alone is an answer, unless a number follows.
    let is_answer = word.eq_ignore_ascii_case("no")
        && before.trim_start() == word
        && !after.trim_start().starts_with(|next: char| next.is_ascii_digit());
    !is_stop || is_answer || !is_marker(before) && !is_abbreviation(word)
}

/// True if a text is all there is before the full stop of a list's marker.
fn is_marker(before: &str) -> bool {
    let marker = before.trim_start().trim_start_matches(['(', '[', '-', '*', ' ']);
    let few = marker.chars().nth(MARKER_CHARS_MAX).is_none();
    let is_roman = || marker.chars().all(|letter| "ivxIVX".contains(letter));
    few && (marker.chars().all(|digit| digit.is_ascii_digit() || digit == '.') || is_roman())
}

/// True if a word that a full stop follows is an abbreviation: known as one, a letter alone, or
/// letters with full stops between them.
fn is_abbreviation(word: &str) -> bool {
    let word = word.trim_start_matches(|letter: char| !letter.is_alphanumeric());
    let is_letter = |part: &str| {
        let mut letters = part.chars();
        letters.next().is_some_and(char::is_alphabetic) && letters.next().is_none()
    };
    // "I" ends sentences; another letter alone is an initial.
    word != "I" && word.split('.').all(is_letter)
        || ABBREVIATIONS.iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// The sentences of a text, one after the other; the end of each is looked for in so many bytes.
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
    fn a_sentence_is_looked_for_within_its_bytes_alone() {
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
