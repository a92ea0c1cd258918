//! Narration: sentences of an agent that say what it is about to do, or applaud. A reader who
//! continues the work learns nothing from them. It must not judge whether a sentence is true.

use crate::projection::sentences::end_of_sentence;

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
/// Words that lead a sentence in.
const LEADS: [&str; 17] = [
    "now",
    "first",
    "next",
    "then",
    "so",
    "and",
    "ok",
    "okay",
    "great",
    "good",
    "perfect",
    "excellent",
    "right",
    "ah",
    "oh",
    "yes",
    "also",
];
/// What follows them in a sentence about what the agent does next.
const ABOUT_TO: [&str; 31] = [
    "let me",
    "let's",
    "let us",
    "i'll",
    "i will",
    "i'm going to",
    "i am going to",
    "i'm now",
    "i need to see",
    "i need to look",
    "i need to check",
    "i need to read",
    "i need to know",
    "i have enough",
    "i now have",
    "i have everything",
    "i've launched",
    "i run",
    "running the",
    "i'm checking",
    "i'm running",
    "i'm reading",
    "i'm looking",
    "i'm doing",
    "i'm using",
    "i'm waiting",
    "i'm adding",
    "i'm updating",
    "dispatching",
    "time to",
    "here we go",
];
/// What follows the word `now`.
const NOW: [&str; 10] =
    ["rewrite", "extend", "update", "run", "check", "verify", "add", "the", "fix", "implement"];
/// Applause and courtesy, alone in a sentence.
const APPLAUSE: [&str; 18] = [
    "perfect",
    "excellent",
    "great",
    "good",
    "interesting",
    "good catch",
    "good question",
    "got it",
    "fair",
    "you're right",
    "you're welcome",
    "done",
    "all green",
    "updated",
    "sounds good",
    "understood",
    "sure",
    "absolutely",
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
    let text = sentence.trim().trim_matches(['*', '_', '-', '•', '>', '#', ' ']);
    if text.is_empty() || text.len() > NARRATION_BYTES {
        return false;
    }
    let lower = text.to_lowercase().replace('\u{2019}', "'");
    let mut rest = lower.as_str();
    let mut is_now = false;
    loop {
        let bare = rest.trim_end_matches(['.', '!', ':', ',', ' ', '…']);
        if APPLAUSE.contains(&bare) {
            return true;
        }
        if begins_with_any(rest, &ABOUT_TO) || is_now && begins_with_any(rest, &NOW) {
            return true;
        }
        let word = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        if word.is_empty() || !LEADS.contains(&word) {
            return false;
        }
        is_now = word == "now";
        let after = rest.get(word.len()..).unwrap_or_default();
        rest = after.trim_start_matches([',', '.', '!', ':', ' ', '—', '-']);
    }
}

fn begins_with_any(text: &str, beginnings: &[&str]) -> bool {
    let is_word_end = |rest: &str| !rest.starts_with(char::is_alphanumeric);
    beginnings.iter().any(|begin| text.strip_prefix(begin).is_some_and(is_word_end))
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
}
