//! Narration: sentences of an agent that say what it is about to do, or applaud. A reader who
//! continues the work learns nothing from them. It must not judge whether a sentence is true.

use crate::projection::{narrates, sentences::end_of_sentence};

/// Bytes in which the end of a sentence is looked for.
const SENTENCE_BYTES: usize = 2_000;
/// Bytes of a sentence of narration at most: a longer one says something besides.
const NARRATION_BYTES: usize = 300;
/// Words of a sentence of narration that says something besides, at least; and words for looking.
const WORDS_MIN: usize = 6;
const LOOKS: [&str; 26] = [
    "see",
    "look",
    "check",
    "read",
    "run",
    "verify",
    "find",
    "search",
    "explore",
    "examine",
    "start",
    "think",
    "try",
    "continue",
    "understand",
    "confirm",
    "running",
    "checking",
    "reading",
    "looking",
    "test",
    "explain",
    "review",
    "know",
    "inspect",
    "take",
];
/// A text of the agent without its narration; empty where it says nothing else. Blocks of code stay
/// as they are.
#[must_use]
pub(super) fn without(text: &str) -> String {
    let (mut made, mut rest, mut in_code) = (String::with_capacity(text.len()), text, false);
    while !rest.is_empty() {
        let line_end = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let (line, after) = rest.split_at(line_end);
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        rest = after;
        if in_code || is_fence {
            made.push_str(line);
            continue;
        }
        let mut left = line;
        while !left.is_empty() {
            let (sentence, after) = left.split_at(end_of_sentence(left, SENTENCE_BYTES));
            if !is_idle(sentence) {
                made.push_str(sentence);
            } else if sentence.ends_with('\n') && !made.ends_with('\n') && !made.is_empty() {
                made.push('\n');
            }
            left = after;
        }
    }
    made.trim().to_owned()
}

/// Whether a sentence of narration tells nothing of what the agent decided: it announces that the
/// agent looks at something, or is a few words.
fn is_idle(sentence: &str) -> bool {
    let words = || sentence.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let looks = |word: &str| LOOKS.contains(&word.to_lowercase().as_str());
    is_narration(sentence)
        && (words().take(WORDS_MIN).count() < WORDS_MIN || words().take(8).any(looks))
}

/// Whether a sentence only says what the agent is about to do, or applauds.
#[must_use]
pub(super) fn is_narration(sentence: &str) -> bool {
    let text = sentence.trim().trim_matches(['*', '_', '-', '\u{2022}', '>', '#', ' ']);
    !text.is_empty() && text.len() <= NARRATION_BYTES && narrates(text)
}

/// Whether a sentence asks or guesses: it is nothing that is known.
#[must_use]
pub(super) fn is_musing(sentence: &str) -> bool {
    const GUESSES: [&str; 4] = ["maybe ", "perhaps ", "but maybe ", "but perhaps "];
    let text = sentence.trim().trim_end_matches(['*', '_', '"', '\'', ')']);
    let begin = text.get(..text.floor_char_boundary(12)).unwrap_or_default().to_lowercase();
    text.ends_with('?') || GUESSES.iter().any(|guess| begin.starts_with(guess))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sentences_that_announce_or_applaud_are_narration() {
        for text in [
            "Let me check the tests.",
            "Now I'll run the build.",
            "Perfect!",
            "Great, let's look at it",
            "Now, run the tests:",
            "I’ll fix it.",
        ] {
            assert!(is_narration(text), "{text}");
        }
        for text in [
            "The tests pass now.",
            "Nowhere is it documented.",
            "Now it fails with E0308.",
            "Good points are kept in points.csv.",
            "Letting it run costs 3 s.",
        ] {
            assert!(!is_narration(text), "{text}");
        }
    }

    #[test]
    fn a_message_without_its_narration_keeps_all_else() {
        let text = "Perfect! The cause is in a.rs.\nLet me fix it:\n```\nLet me out\n```\nDone.";
        assert_eq!(without(text), "The cause is in a.rs.\n```\nLet me out\n```");
        let decided = "Let me keep the interface and implement it for both agents.";
        assert_eq!(without(decided), decided);
        assert_eq!(without("Let me see."), "");
    }

    #[test]
    fn a_question_or_a_guess_is_a_musing_and_a_statement_is_none() {
        for text in ["Is it the **clock?**", "Maybe the index is stale.", "Which one (A or B?)"] {
            assert!(is_musing(text), "{text}");
        }
        for text in ["The `?` operator returns early.", "It may be stale.", "", "Perhapsody plays."]
        {
            assert!(!is_musing(text), "{text}");
        }
    }
}
