//! Shortens a user message: keeps the beginning, the end, and every sentence between them that sets
//! a requirement. It must not judge the request.

use super::budget::{Budget, ShortenedText};
use crate::{
    event::text::{ELLIPSIS, clip},
    projection::sentences::sentences,
};

/// Most bytes in which a sentence's end is searched, and of a sentence that can set a requirement:
/// a longer one is code or a log.
const SENTENCE_BYTES: usize = 600;
/// Least characters kept of the first sentence, if all of it is too long.
const CLIPPED_CHARS_MIN: usize = 24;
/// Most bytes kept of the lines that such a sentence introduces by a colon.
const ANNOUNCED_BYTES: usize = 300;
/// Words of a sentence that sets a requirement.
const BINDING: [&str; 11] = [
    "must", "mustn't", "never", "only", "exactly", "always", "not", "don't", "dont", "cannot",
    "can't",
];

/// Words before an order that forbids.
const LEADS: [&str; 10] =
    ["and", "but", "so", "then", "please", "also", "again", "you", "we", "rule"];
/// Words behind which "must" is a guess, and "never" a report.
const REPORTED: [&str; 11] =
    ["it", "this", "that", "there", "i", "i've", "have", "has", "had", "was", "were"];

/// Returns true if a sentence requires or forbids something.
#[must_use]
fn sets_requirement(sentence: &str) -> bool {
    let is_binding = |word: String| BINDING.contains(&word.as_str());
    sentence.len() <= SENTENCE_BYTES && words(sentence).any(is_binding)
}

/// Returns the words of a sentence in lower case, with plain apostrophes.
fn words(sentence: &str) -> impl Iterator<Item = String> {
    let words = sentence.split(|c: char| !c.is_alphanumeric() && !matches!(c, '\'' | '\u{2019}'));
    let words = words.filter(|word| !word.is_empty());
    words.map(|word| word.to_lowercase().replace('\u{2019}', "'"))
}

/// Returns the sentences of a text that set a requirement.
pub(super) fn extract_requirements(text: &str) -> Vec<&str> {
    let all: Vec<&str> = sentences(text, SENTENCE_BYTES).collect();
    requirement_indexes(&all).into_iter().filter_map(|at| all.get(at).copied()).collect()
}

/// Returns the sentences of a text that set a rule beyond the request: what always or never holds,
/// and orders that forbid something. A question or a statement that merely denies sets none.
pub(super) fn standing_rules(text: &str) -> impl Iterator<Item = &str> {
    sentences(text, SENTENCE_BYTES).map(str::trim).filter(|sentence| {
        if sentence.len() > SENTENCE_BYTES || sentence.ends_with('?') {
            return false;
        }
        let words: Vec<String> = words(sentence).collect();
        let before = |at: usize| at.checked_sub(1).and_then(|at| words.get(at)).map(String::as_str);
        let orders = |at: usize| before(at).is_none_or(|word| LEADS.contains(&word));
        let sets = |(at, word): (usize, &String)| match word.as_str() {
            "mustn't" => true,
            "always" | "never" | "must" => before(at).is_none_or(|word| !REPORTED.contains(&word)),
            "don't" | "dont" | "only" | "avoid" => orders(at),
            "leave" => orders(at) && words.iter().skip(at).any(|word| word == "alone"),
            "now" => before(at) == Some("from") && words.get(at + 1).is_some_and(|on| on == "on"),
            "not" => before(at) == Some("do") && orders(at - 1),
            _ => false,
        };
        words.iter().enumerate().any(sets)
    })
}

/// Returns the indexes of requirements, and of the lines after a requirement that ends in a colon.
fn requirement_indexes(sentences: &[&str]) -> Vec<usize> {
    let mut indexes = Vec::new();
    for (at, _) in sentences.iter().enumerate().filter(|(_, sentence)| sets_requirement(sentence)) {
        indexes.push(at);
        let is_open = sentences.get(at).is_some_and(|sentence| sentence.trim_end().ends_with(':'));
        let mut budget = Budget::new(if is_open { ANNOUNCED_BYTES } else { 0 });
        let after = sentences.iter().enumerate().skip(at + 1);
        let announced = after.take_while(|(next, sentence)| {
            let is_end = sentence.trim().is_empty() && *next > at + 2;
            !is_end && budget.spend(sentence.len())
        });
        indexes.extend(announced.map(|(next, _)| next));
    }
    indexes.sort_unstable();
    indexes.dedup();
    indexes
}

/// Keeps the fences of a code block of which a line is kept.
fn keep_fences(sentences: &[&str], kept: &mut [bool]) {
    let is_fence = |sentence: &str| sentence.trim_start().starts_with("```");
    let mut open: Option<usize> = None;
    for at in 0..sentences.len() {
        if !sentences.get(at).is_some_and(|sentence| is_fence(sentence)) {
            continue;
        }
        let Some(begin) = open.take() else {
            open = Some(at);
            continue;
        };
        let is_any = kept.get(begin + 1..at).is_some_and(|inside| inside.contains(&true));
        for index in [begin, at] {
            if let Some(kept) = kept.get_mut(index) {
                *kept = is_any;
            }
        }
    }
}

/// Shortens a text to about `bytes_max` bytes; sentences that set a requirement may take
/// `bound_max` bytes more.
#[must_use]
pub(super) fn shorten_request(text: &str, bytes_max: usize, bound_max: usize) -> ShortenedText {
    if text.len() <= bytes_max {
        return ShortenedText { text: text.to_owned(), truncated: false };
    }
    let sentences: Vec<&str> = sentences(text, SENTENCE_BYTES).collect();
    let mut kept = vec![false; sentences.len()];
    let mut keep = |order: &mut dyn Iterator<Item = usize>, room: usize| {
        let mut budget = Budget::new(room);
        for at in order {
            let bytes = sentences.get(at).map_or(0, |sentence| sentence.len());
            let Some(is_kept) = kept.get_mut(at).filter(|_| budget.spend(bytes)) else { break };
            *is_kept = true;
        }
    };
    keep(&mut (0..sentences.len()), bytes_max - bytes_max / 3);
    keep(&mut (0..sentences.len()).rev(), bytes_max / 3);
    keep(&mut requirement_indexes(&sentences).into_iter(), bound_max);
    keep_fences(&sentences, &mut kept);
    let (mut made, mut is_gap) = (String::new(), false);
    for (at, (sentence, kept)) in sentences.iter().zip(&kept).enumerate() {
        if *kept {
            made.push_str(sentence);
        } else if at == 0 {
            // The beginning names the subject: a part of it stays even if its sentence is too long.
            let begin = clip(sentence, (bytes_max * 2 / 3).max(CLIPPED_CHARS_MIN));
            made.push_str(begin.trim_end_matches(ELLIPSIS));
            made.push_str("… ");
        } else if !is_gap && !made.ends_with("… ") {
            let is_line = made.ends_with('\n');
            made.truncate(made.trim_end().len());
            made.push_str(if is_line { "\n…\n" } else { " … " });
        }
        is_gap = !kept;
    }
    ShortenedText { text: made.trim_end().to_owned(), truncated: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortened_message_keeps_every_requirement_in_full() {
        let long = "It says a lot about the weather. ".repeat(20);
        let text =
            format!("Build it. {long}Never touch core.rs! {long}Do NOT commit. {long}Thanks.");
        let cut = shorten_request(&text, 120, 400);
        for part in ["Build it.", "Never touch core.rs!", "Do NOT commit.", "Thanks."] {
            assert!(cut.text.contains(part), "{part}: {}", cut.text);
        }
        assert!(cut.truncated && cut.text.len() < 300, "{}", cut.text);
        assert_eq!(
            shorten_request("short", 120, 0),
            ShortenedText { text: "short".to_owned(), truncated: false }
        );
        let one = "word ".repeat(200);
        assert!(shorten_request(&one, 100, 0).text.len() < 110);
    }

    #[test]
    fn a_rule_is_no_request_no_report_and_no_question() {
        for (text, wanted) in [
            ("Fix the parser. Never touch vendor/. Thanks!", &["Never touch vendor/."][..]),
            (
                "Amounts are always whole cents, and every test must pass before you commit.",
                &["Amounts are always whole cents, and every test must pass before you commit."],
            ),
            (
                "Please don't push. Do not rename tables; only use the builder.",
                &["Please don't push.", "Do not rename tables; only use the builder."],
            ),
            (
                "I don't know why it does not work. It must be the cache. I have never seen that.",
                &[],
            ),
            (
                "Leave stock.py alone, it is theirs. From now on answer in French. Leave a note.",
                &["Leave stock.py alone, it is theirs.", "From now on answer in French."],
            ),
            ("Must I not use tabs? Why do you never test?", &[]),
            ("Show me only the last one. This is not what I wanted.", &[]),
        ] {
            assert_eq!(standing_rules(text).collect::<Vec<_>>(), wanted, "{text}");
        }
    }
}
