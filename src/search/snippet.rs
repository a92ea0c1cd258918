//! The shown part of a passage: all of a short one, else its sentences from the first to the last
//! with words of the query, else the part with most of them, cut between graphemes. It must not
//! change a character of the text.

use std::ops::Range;

use super::{query::Query, terms::terms};
use crate::{
    event::text::{ELLIPSIS, whole_graphemes},
    projection::sentences::end_of_sentence,
};

/// Maximum distinct words reported as matched, and maximum bytes of one.
const MATCHED_MAX: usize = 8;
const MATCHED_BYTES_MAX: usize = 64;

/// Maximum bytes of a passage that is shown including its sentences without a word of the query.
const WHOLE_BYTES_MAX: usize = 240;

/// A part of a passage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snippet {
    /// The text, with an ellipsis at each end where text is omitted.
    pub text: String,
    /// The matched words, as written in the text, each once.
    pub matched: Vec<String>,
    /// Byte ranges of the matched words in `text`, ascending and disjoint.
    pub marks: Vec<Range<usize>>,
}

/// Returns at most `bytes_max` bytes of a passage, and two ellipses.
#[must_use]
pub fn snippet(query: &Query, text: &str, bytes_max: usize) -> Snippet {
    let marks = marks(query, text);
    let sentences = sentences(text, &marks);
    let within = text.get(sentences.clone()).unwrap_or_default();
    let moved = |mark: &Range<usize>| mark.start - sentences.start..mark.end - sentences.start;
    let inner: Vec<Range<usize>> = marks.iter().map(moved).collect();
    let shown = densest_window(within, &inner, bytes_max);
    let shown = shown.start + sentences.start..shown.end + sentences.start;
    let mut matched: Vec<String> = Vec::new();
    let is_shown = |mark: &&Range<usize>| shown.start <= mark.start && mark.end <= shown.end;
    for mark in marks.iter().filter(is_shown) {
        let word = text.get(mark.clone()).unwrap_or_default();
        let known = matched.iter().any(|known| known == word);
        if !known && matched.len() < MATCHED_MAX && word.len() <= MATCHED_BYTES_MAX {
            matched.push(word.to_owned());
        }
    }
    let part = text.get(shown.clone()).unwrap_or_default();
    let mut made = String::with_capacity(part.len() + 2 * ELLIPSIS.len_utf8());
    made.extend((shown.start > 0).then_some(ELLIPSIS));
    // A mark is a word: it is never in the white space that is trimmed.
    let begin = shown.start + part.len() - part.trim_start().len();
    let place = |at: usize| made.len() + at - begin;
    let marks = marks.iter().filter(is_shown).map(|mark| place(mark.start)..place(mark.end));
    let marks = marks.collect();
    made.push_str(part.trim());
    made.extend((shown.end < text.len()).then_some(ELLIPSIS));
    Snippet { text: made, matched, marks }
}

/// Returns byte ranges of the query's words; an identifier of several words is one range.
fn marks(query: &Query, text: &str) -> Vec<Range<usize>> {
    let mut marks: Vec<Range<usize>> = Vec::new();
    terms(text, |term| {
        if query.find(term).is_none_or(|found| !query.ranks(found.word)) {
            return;
        }
        while marks.last().is_some_and(|last| term.range.start <= last.start) {
            marks.pop();
        }
        match marks.last_mut() {
            Some(last) if term.range.start < last.end => last.end = last.end.max(term.range.end),
            _ => marks.push(term.range.clone()),
        }
    });
    marks
}

/// Returns the sentences, or lines, from the first with a mark to the last.
fn sentences(text: &str, marks: &[Range<usize>]) -> Range<usize> {
    let (Some(first), Some(last)) = (marks.first(), marks.last()) else { return 0..text.len() };
    if text.len() <= WHOLE_BYTES_MAX {
        return 0..text.len();
    }
    let (mut from, mut at) = (0, 0);
    while at < last.end {
        let rest = text.get(at..).unwrap_or_default();
        let next = at + end_of_sentence(rest, rest.len()).max(1);
        if next <= first.start {
            from = next;
        }
        at = next;
    }
    from..at.min(text.len())
}

/// Returns the part of the text with the most marks.
fn densest_window(text: &str, marks: &[Range<usize>], bytes_max: usize) -> Range<usize> {
    if text.len() <= bytes_max {
        return 0..text.len();
    }
    let marked = |first: &Range<usize>| {
        let within =
            |mark: &&Range<usize>| mark.start >= first.start && mark.end <= first.start + bytes_max;
        marks.iter().filter(within).count()
    };
    // The first of equals: `max_by_key` returns the last.
    let first = marks.iter().rev().max_by_key(|mark| marked(mark));
    let first = first.map_or(0, |mark| mark.start);
    let last = marks.iter().rev().find(|mark| mark.end <= first + bytes_max);
    let spare = bytes_max - last.map_or(0, |mark| mark.end.saturating_sub(first));
    let start = first.saturating_sub(spare / 2).min(text.len() - bytes_max);
    let start = whole_graphemes(text, text.floor_char_boundary(start));
    let end = whole_graphemes(text, text.floor_char_boundary(start + bytes_max));
    between_words(text, first, start..end.max(start))
}

/// Returns the range without short partial words at its ends.
fn between_words(text: &str, first: usize, range: Range<usize>) -> Range<usize> {
    let head = text.get(range.start..first.max(range.start)).unwrap_or_default();
    let start = match head.find(char::is_whitespace) {
        Some(at) if range.start > 0 => range.start + at,
        _ => range.start,
    };
    let tail = text.get(start..range.end).unwrap_or_default();
    let end = match tail.rfind(char::is_whitespace) {
        Some(at) if range.end < text.len() && at > tail.len() / 2 => start + at,
        _ => range.end,
    };
    start..end
}
