//! The part of a passage that is shown: all of a short one, else the sentences from the first to
//! the last with words of the query, cut to the window with most of them, between graphemes. It
//! must not change a character of the text.

use std::ops::Range;

use super::{query::Query, terms::visit_terms};
use crate::{
    event::text::{ELLIPSIS, whole_graphemes},
    projection::sentences::end_of_sentence,
};

/// Maximum distinct words reported as matched, and maximum bytes of one.
const MATCHED_MAX: usize = 8;
const MATCHED_BYTES_MAX: usize = 64;

/// Maximum bytes of a passage whose sentences without a word of the query are shown too.
const WHOLE_BYTES_MAX: usize = 240;

/// The shown part of a passage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassageSnippet {
    /// The text, with an ellipsis at each end where text is omitted.
    pub text: String,
    /// The matched words, as written in the text, each once.
    pub matched: Vec<String>,
    /// Byte ranges of the matched words in `text`, ascending and disjoint.
    pub marks: Vec<Range<usize>>,
}

/// Returns at most `bytes_max` bytes of a passage, besides an ellipsis at each end.
#[must_use]
pub fn extract_snippet(query: &Query, text: &str, bytes_max: usize) -> PassageSnippet {
    let marks = find_marks(query, text);
    let sentences = marked_sentences(text, &marks);
    let excerpt = text.get(sentences.clone()).unwrap_or_default();
    let relative = |mark: &Range<usize>| mark.start - sentences.start..mark.end - sentences.start;
    let inner: Vec<Range<usize>> = marks.iter().map(relative).collect();
    let shown = densest_window(excerpt, &inner, bytes_max);
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
    let shown_at = |at: usize| made.len() + at - begin;
    let marks = marks.iter().filter(is_shown).map(|mark| shown_at(mark.start)..shown_at(mark.end));
    let marks = marks.collect();
    made.push_str(part.trim());
    made.extend((shown.end < text.len()).then_some(ELLIPSIS));
    PassageSnippet { text: made, matched, marks }
}

/// Returns the byte ranges of the query's words in a text; a whole identifier is one range.
fn find_marks(query: &Query, text: &str) -> Vec<Range<usize>> {
    let mut marks: Vec<Range<usize>> = Vec::new();
    visit_terms(text, |term| {
        if query.match_term(term).is_none_or(|found| !query.is_ranked(found.word)) {
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

/// Returns the byte range from the first sentence or line with a mark to the last one.
fn marked_sentences(text: &str, marks: &[Range<usize>]) -> Range<usize> {
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

/// Returns the byte range of at most `bytes_max` bytes with the most marks.
fn densest_window(text: &str, marks: &[Range<usize>], bytes_max: usize) -> Range<usize> {
    if text.len() <= bytes_max {
        return 0..text.len();
    }
    let marked = |first: &Range<usize>| {
        let within =
            |mark: &&Range<usize>| mark.start >= first.start && mark.end <= first.start + bytes_max;
        marks.iter().filter(within).count()
    };
    // Reversed, since `max_by_key` returns the last of equals.
    let first = marks.iter().rev().max_by_key(|mark| marked(mark));
    let first = first.map_or(0, |mark| mark.start);
    let last = marks.iter().rev().find(|mark| mark.end <= first + bytes_max);
    let spare = bytes_max - last.map_or(0, |mark| mark.end.saturating_sub(first));
    let start = first.saturating_sub(spare / 2).min(text.len() - bytes_max);
    let start = whole_graphemes(text, text.floor_char_boundary(start));
    let end = whole_graphemes(text, text.floor_char_boundary(start + bytes_max));
    trim_partial_words(text, first, start..end.max(start))
}

/// Returns the range without the partial words at its ends, unless they are long.
fn trim_partial_words(text: &str, first: usize, range: Range<usize>) -> Range<usize> {
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
