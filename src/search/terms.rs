//! The terms of a text: words in lower case without accents; identifiers and paths, whole and in
//! parts that are long enough; numbers without marks between groups of digits; and pairs of
//! characters of scripts without spaces. It must not depend on a query.

use std::ops::Range;

use frostem::{Algorithm, Stemmer};

use super::{
    irregular,
    letters::{fold_char, is_unspaced, is_word_char},
};

/// Maximum bytes of a term; a longer run of letters is data, such as an image or a key.
const TERM_BYTES_MAX: usize = 256;
/// Minimum letters or digits of a part of an identifier that is a term in addition to the whole: a
/// key such as `wJalrXUtn` has parts of one letter, which are meaningless.
const PART_CHARS_MIN: usize = 3;

/// A term of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term<'a> {
    /// Form for comparison, before stemming.
    pub(super) word: &'a str,
    /// Byte range of the term in the text.
    pub(super) range: Range<usize>,
    /// True if it is a whole identifier, after the terms of its parts. One whose parts are all too
    /// short to be terms is an ordinary word.
    pub(super) whole: bool,
}

/// Calls `visit` with every term of a text, in order; a whole identifier comes after its parts.
pub(super) fn visit_terms(text: &str, visit: impl FnMut(&Term<'_>)) {
    scan_terms(text, true, PART_CHARS_MIN, visit);
}

/// Calls `visit` with every term, and short parts of identifiers too: dates consist of such parts.
pub(super) fn visit_all_parts(text: &str, visit: impl FnMut(&Term<'_>)) {
    scan_terms(text, true, 1, visit);
}

/// Calls `visit` with every term; `seeks_plain` enables the fast path for plain words.
fn scan_terms(text: &str, seeks_plain: bool, part_min: usize, mut visit: impl FnMut(&Term<'_>)) {
    let mut chunk = CharRun { part_min, ..CharRun::default() };
    let mut lower = String::new();
    let mut before: Option<char> = None;
    let mut at = 0;
    while let Some(rest) = text.get(at..) {
        if seeks_plain && before.is_none() {
            let plain = plain_word_bytes(rest.as_bytes());
            if plain > 0 {
                let word = rest.get(..plain).unwrap_or_default();
                lower.clear();
                let has_capital = word.starts_with(|first: char| first.is_ascii_uppercase());
                if has_capital {
                    lower.push_str(word);
                    lower.make_ascii_lowercase();
                }
                visit_term(
                    if has_capital { &lower } else { word },
                    at..at + plain,
                    false,
                    &mut visit,
                );
                at += plain;
                continue;
            }
        }
        let mut characters = rest.chars();
        let Some(character) = characters.next() else { break };
        let next = characters.next();
        if is_word_char(character) {
            let starts = before.is_none_or(|before| begins_part(before, character, next, &chunk));
            chunk.push(at, character, starts);
            before = Some(character);
        } else if before.zip(next).is_some_and(|(from, to)| joins_name(from, character, to)) {
            chunk.push_mark(character);
            before = Some(character);
        } else {
            chunk.finish(&mut visit);
            before = None;
        }
        at += character.len_utf8();
    }
    chunk.finish(&mut visit);
}

/// Returns the bytes of the word at the start of the text if it is plain: ASCII letters, lower case
/// except for the first, not followed by a joining character. Returns 0 for any other.
fn plain_word_bytes(text: &[u8]) -> usize {
    if !text.first().is_some_and(u8::is_ascii_alphabetic) {
        return 0;
    }
    let rest = text.iter().skip(1).take_while(|byte| byte.is_ascii_lowercase());
    let end = 1 + rest.count();
    let is_apart = |byte: &u8| byte.is_ascii() && !byte.is_ascii_alphanumeric();
    let is_joined = match text.get(end) {
        None => false,
        Some(b'_' | b'-' | b'.' | b'/' | b'@') => !text.get(end + 1).is_none_or(is_apart),
        Some(byte) => !is_apart(byte),
    };
    if is_joined { 0 } else { end }
}

/// Returns true if the mark between these two characters joins them into one identifier.
fn joins_name(from: char, mark: char, to: char) -> bool {
    let digits = from.is_numeric() && to.is_numeric();
    match mark {
        '_' | '-' | '.' | '/' | '@' => is_word_char(from) && is_word_char(to),
        ',' => digits,
        _ => false,
    }
}

/// Returns true if a new part begins with `character`: after a mark, at a capital after a lower
/// case letter, at the last of several capitals, at a unit after a number.
fn begins_part(before: char, character: char, next: Option<char>, chunk: &CharRun) -> bool {
    match before {
        '.' | ',' => !(chunk.is_number && character.is_numeric()),
        _ if !is_word_char(before) => true,
        _ if is_unspaced(before) || is_unspaced(character) => true,
        _ if character.is_uppercase() => {
            before.is_lowercase()
                || before.is_uppercase() && next.is_some_and(char::is_lowercase)
                || chunk.is_number
        }
        _ => chunk.is_number && !character.is_numeric(),
    }
}

/// A run of letters, digits and the marks that join them.
#[derive(Default)]
struct CharRun {
    /// Minimum characters for a part to be a term of its own.
    part_min: usize,
    /// The parts, folded and concatenated.
    folded: String,
    /// For each part: its start in `folded`, its byte range in the text, and true if its script has
    /// no spaces.
    parts: Vec<(usize, Range<usize>, bool)>,
    /// True if the last part consists of digits and their marks.
    is_number: bool,
    /// Marks that are part of the whole identifier, each with the index of the part after it.
    joins: Vec<(usize, char)>,
    mark: Option<char>,
}

impl CharRun {
    fn push(&mut self, at: usize, character: char, starts: bool) {
        let mark = self.mark.take();
        let end = at + character.len_utf8();
        if starts {
            if let Some(mark) = mark.filter(|mark| !matches!(mark, '_' | '-')) {
                self.joins.push((self.parts.len(), mark));
            }
            self.parts.push((self.folded.len(), at..end, is_unspaced(character)));
            self.is_number = character.is_numeric();
        } else {
            self.folded.extend(mark);
            self.is_number &= character.is_numeric();
        }
        if let Some((_, range, _)) = self.parts.last_mut() {
            range.end = end;
        }
        fold_char(character, &mut self.folded);
    }

    fn push_mark(&mut self, mark: char) {
        self.mark = Some(mark);
    }

    /// Passes the terms to `visit` and starts a new run.
    fn finish(&mut self, visit: &mut impl FnMut(&Term<'_>)) {
        if self.parts.is_empty() {
            return;
        }
        let is_name = self.parts.len() > 1 && self.parts.iter().all(|(.., unspaced)| !unspaced);
        // A component of a path or an address is a separate identifier.
        let is_apart = |mark: char| matches!(mark, '/' | '@');
        let mark_before = |index: usize| {
            self.joins.iter().find(|(before, _)| *before == index).map(|(_, mark)| *mark)
        };
        let is_path = self.joins.iter().any(|(_, mark)| is_apart(*mark));
        let (mut name, mut has_parts) = (String::new(), false);
        let (mut component, mut component_from, mut is_visited) = (String::new(), 0, false);
        for (index, (from, range, unspaced)) in self.parts.iter().enumerate() {
            let next = self.parts.get(index + 1);
            let to = next.map_or(self.folded.len(), |(from, ..)| *from);
            let word = self.folded.get(*from..to).unwrap_or_default();
            if *unspaced {
                self.visit_pair(index, visit);
                continue;
            }
            let number = plain_number(word);
            let word = number.as_deref().unwrap_or(word);
            let mark = mark_before(index);
            if index == 0 || mark.is_some_and(is_apart) {
                component.clear();
                (component_from, is_visited) = (range.start, false);
            } else {
                component.extend(mark);
            }
            component.push_str(word);
            if !is_name || word.chars().count() >= self.part_min {
                visit_term(word, range.clone(), false, visit);
                (has_parts, is_visited) = (true, true);
            }
            let is_last = next.is_none() || mark_before(index + 1).is_some_and(is_apart);
            if is_name && is_path && is_last && !is_visited {
                visit_term(&component, component_from..range.end, false, visit);
                has_parts = true;
            }
            if is_name && name.len() <= TERM_BYTES_MAX {
                name.extend(mark);
                name.push_str(word);
            }
        }
        if let (true, Some((_, first, _)), Some((_, last, _))) =
            (is_name, self.parts.first(), self.parts.last())
        {
            visit_term(&name, first.start..last.end, has_parts, visit);
        }
        *self = Self {
            part_min: self.part_min,
            folded: std::mem::take(&mut self.folded),
            parts: std::mem::take(&mut self.parts),
            joins: std::mem::take(&mut self.joins),
            ..Self::default()
        };
        self.folded.clear();
        self.parts.clear();
        self.joins.clear();
    }

    /// Visits the pair that begins at a character of a script without spaces, or a lone character.
    fn visit_pair(&self, index: usize, visit: &mut impl FnMut(&Term<'_>)) {
        let Some((from, range, _)) = self.parts.get(index) else { return };
        let next = self.parts.get(index + 1).filter(|(.., unspaced)| *unspaced);
        let before = index.checked_sub(1).and_then(|before| self.parts.get(before));
        let (to, end) = match next {
            Some((_, next_range, _)) => {
                let after = self.parts.get(index + 2);
                (after.map_or(self.folded.len(), |(from, ..)| *from), next_range.end)
            }
            // The last character of a run is in the previous pair.
            None if before.is_some_and(|(.., unspaced)| *unspaced) => return,
            None => {
                let after = self.parts.get(index + 1);
                (after.map_or(self.folded.len(), |(from, ..)| *from), range.end)
            }
        };
        visit_term(self.folded.get(*from..to).unwrap_or_default(), range.start..end, false, visit);
    }
}

fn visit_term(word: &str, range: Range<usize>, whole: bool, visit: &mut impl FnMut(&Term<'_>)) {
    if !word.is_empty() && word.len() <= TERM_BYTES_MAX {
        visit(&Term { word, range, whole });
    }
}

/// Returns the number without grouping marks and with a full stop before its decimals; `None` if
/// the word has no marks or is a date, a version or an address.
fn plain_number(word: &str) -> Option<String> {
    let digits = |byte: u8| byte.is_ascii_digit() || byte == b'.' || byte == b',';
    if !word.bytes().all(digits) || !word.bytes().any(|byte| !byte.is_ascii_digit()) {
        return None;
    }
    let last = word.rfind(['.', ','])?;
    let (head, tail) = (word.get(..last)?, word.get(last + 1..)?);
    let mark = word.get(last..=last)?;
    let grouped = |text: &str, mark: char| {
        let mut groups = text.split(mark);
        let first = groups.next().unwrap_or_default();
        (1..=3).contains(&first.len()) && groups.all(|group| group.len() == 3)
    };
    let other = if mark == "." { ',' } else { '.' };
    let plain = |text: &str| text.replace(['.', ','], "");
    if head.contains(mark) {
        // If a mark is repeated, it groups digits, or the word is not a number.
        return (mark == "," && grouped(word, ',')).then(|| plain(word));
    }
    if head.contains(other) {
        return grouped(head, other).then(|| format!("{}.{tail}", plain(head)));
    }
    let groups = mark == "," && tail.len() == 3 && head.len() <= 3;
    Some(if groups { plain(word) } else { format!("{head}.{tail}") })
}

/// Returns the English stem of a word of ASCII letters, for an irregular form such as `went` that
/// of its base word; any other word unchanged.
pub(super) fn stem(word: &str) -> std::borrow::Cow<'_, str> {
    let word = irregular::base_word(word);
    match word.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        true => Stemmer::new(Algorithm::English).stem(word),
        false => word.into(),
    }
}

/// Returns true if the word has only ASCII digits.
pub(super) fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms_of(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        visit_terms(text, |term| {
            let mark = if term.whole { "=" } else { "" };
            assert!(text.get(term.range.clone()).is_some(), "{term:?} in {text:?}");
            found.push(format!("{mark}{}", term.word));
        });
        found
    }

    #[test]
    fn a_text_is_split_into_words_names_and_numbers() {
        for (text, expected) in [
            ("The Varna manuscript.", "the varna manuscript"),
            ("the museum's index", "the museum s index"),
            ("`flush_ledger_v2()`", "flush ledger =flushledgerv2"),
            ("parseConfig", "parse config =parseconfig"),
            ("HTTPServer", "http server =httpserver"),
            ("back-pressure", "back pressure =backpressure"),
            ("src/log/scan.rs:12", "src log scan =src/log/scan.rs 12"),
            ("https://lib.example/a", "https lib example a =lib.example/a"),
            ("me@lib.example", "me lib example =me@lib.example"),
            ("1,234.56 EUR", "1234.56 eur"),
            ("1.234,56 EUR", "1234.56 eur"),
            ("12,5 Prozent", "12.5 prozent"),
            ("1,234,567", "1234567"),
            ("1.5, 2", "1.5 2"),
            ("512ms", "512 =512ms"),
            ("12.5ms", "12.5 =12.5ms"),
            ("v2 utf8 o200k_base", "v2 utf8 o200k base =o200kbase"),
            ("2024-05-15", "2024 =20240515"),
            ("1.96.1", "1.96.1"),
            ("e\u{301}tude ÉTUDE", "etude etude"),
            ("漢字かな", "漢字 字か かな"),
            ("漢 x字y", "漢 x 字 y"),
            ("ภาษา", "ภา าษ ษา"),
            ("end. Begin", "end begin"),
            ("a--b ... -x- _", "a b x"),
            ("wJalrXUtnFEMI/K7x", "jalr utn femi k7x =wjalrxutnfemi/k7x"),
            ("T-61 io_uring c.d", "t61 uring =iouring c.d"),
            ("src/db.rs a/b", "src db.rs =src/db.rs a b =a/b"),
            ("👨‍👩‍👧 ok", "ok"),
            ("", ""),
        ] {
            assert_eq!(terms_of(text).join(" "), expected, "{text:?}");
        }
        assert_eq!(terms_of(&"k".repeat(300)), Vec::<String>::new());
    }

    proptest::proptest! {
        #[test]
        fn the_fast_path_for_plain_words_returns_the_same_terms(
            text in "([a-zA-Z]{1,3}[A-Z0-9é漢\u{301}]{0,1}[ _.,/@-]{0,2}){0,12}"
        ) {
            let found = |seeks_plain| {
                let mut found = Vec::new();
                scan_terms(&text, seeks_plain, PART_CHARS_MIN, |term| {
                    found.push((term.word.to_owned(), term.range.clone(), term.whole));
                });
                found
            };
            proptest::prop_assert_eq!(found(true), found(false));
        }
    }

    #[test]
    fn forms_of_one_word_have_the_same_stem_and_other_words_are_unchanged() {
        for (one, other) in [
            ("transferred", "transfers"),
            ("revoked", "revoking"),
            ("copies", "copy"),
            ("retries", "retry"),
            ("went", "going"),
            ("bought", "buys"),
            ("children", "child"),
        ] {
            assert_eq!(stem(one), stem(other));
        }
        for word in ["v2", "größe", "20240515", "漢字"] {
            assert_eq!(stem(word), word);
        }
    }
}
