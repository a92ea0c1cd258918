//! Removes narration: sentences in which an agent announces its next action or applauds, useless to
//! a reader who continues the work. It must not judge whether a sentence is true.

use crate::projection::{is_narration, sentences::sentences};

/// Most bytes in which the end of a sentence is searched.
const SENTENCE_BYTES: usize = 2_000;
/// Least words of a narrating sentence that has other content; and verbs of looking.
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
/// Removes the narration from an agent's text; empty if nothing else remains. Code blocks are kept
/// verbatim.
#[must_use]
pub(super) fn remove_narration(text: &str) -> String {
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
        for sentence in sentences(line, SENTENCE_BYTES) {
            if !lacks_decision(sentence) {
                made.push_str(sentence);
            } else if sentence.ends_with('\n') && !made.ends_with('\n') && !made.is_empty() {
                made.push('\n');
            }
        }
    }
    made.trim().to_owned()
}

/// Returns true if a narrating sentence contains no decision of the agent: it announces a look, or
/// has only a few words.
fn lacks_decision(sentence: &str) -> bool {
    let words = || sentence.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let looks = |word: &str| LOOKS.contains(&word.to_lowercase().as_str());
    is_narration(sentence)
        && (words().take(WORDS_MIN).count() < WORDS_MIN || words().take(8).any(looks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_narration_keeps_all_other_text() {
        let text = "Perfect! The cause is in a.rs.\nLet me fix it:\n```\nLet me out\n```\nDone.";
        assert_eq!(remove_narration(text), "The cause is in a.rs.\n```\nLet me out\n```");
        let decided = "Let me keep the interface and implement it for both agents.";
        assert_eq!(remove_narration(decided), decided);
        assert_eq!(remove_narration("Let me see."), "");
    }
}
