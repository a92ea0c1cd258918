//! Recognizes sentences in which an agent makes an offer, is polite, announces a list, or narrates
//! its next action: they add nothing about the work. It must not match an offer with a number,
//! which may be what was agreed, nor a sentence that gives a reason.

use crate::event::{
    lists::{phrase_list, word_list},
    text::head,
};

/// Most bytes of a narrating sentence; a longer one has other content.
const NARRATION_BYTES: usize = 300;
/// Prefixes of small talk, in lower case.
const OPENINGS: [&str; 57] = phrase_list(
    "additionally, please|can i help|can you please|certainly!|certainly,|could you please|\
     could you provide|do you have any other|do you want me to|feel free|great!|great,|\
     have a great|how can i|i apologize|i can assist|i can help|i will help|i would be happy|\
     i'd be happy|i'll do my best|i'll help|i'm happy to|i'm here to help|i'm sorry|\
     if there is anything|if there's anything|if you can provide|if you have any|if you need any|\
     if you need further|if you'd like|is there anything else|let me check|let me know|\
     let me look|let me search|may i|no problem|no worries|once i have|once you confirm|\
     once you provide|please confirm|please let me know|please provide|please specify|shall i|\
     should i|sure!|sure,|thank you|thanks|this will help me|what would you like|would you like|\
     you're welcome",
);
/// Words at the beginning of a narrating sentence, before the action.
const LEADS: [&str; 24] = word_list(
    "now first next then so and ok okay great good perfect excellent right ah oh yes well alright \
     finally also sure actually hmm wait",
);
/// Phrases that introduce the agent's action.
const ACTS: [&str; 19] = phrase_list(
    "let me |let's |i'll |i will |i'm going to |i am going to |i'm now |i'm |i am now |i need to |\
     i want to |i have to |i should |i can now |i now have |i have enough |i have everything|\
     i've launched|time to ",
);
/// Stems of verbs for the agent's work, without the ending `e`, `s` or `ing`.
const WORK: [&str; 52] = word_list(
    "add align analyz apply build check clean commit continu creat delet dispatch do edit examin \
     explor extend find fix format get implement inspect install investigat launch look mak mov \
     open patch proceed push read refactor remov renam replac rerun review revert rewrit run scan \
     search start test trac try updat verify writ",
);
/// Phrases that show that a sentence contains more than the action.
const REASONS: [&str; 12] = phrase_list(
    " because | instead of | rather than | so that | not |n't | since | is | are | was | were | that ",
);
/// Words of applause.
const APPLAUSE: [&str; 26] = phrase_list(
    "perfect|excellent|great|good|interesting|good catch|good question|got it|fair|you're right|\
     you're absolutely right|done|all green|updated|nice|all good|looks good|understood|now|\
     committing|no problem|wait|sounds good|sure|absolutely|you're welcome",
);
/// Most characters at a sentence's beginning that are compared with a polite phrase.
const EXCLAMATION_CHARS_MAX: usize = 24;

/// Returns true if a sentence of an agent's message is small talk or narration.
pub(super) fn is_small_talk(sentence: &str) -> bool {
    if is_narrating(sentence) {
        return true;
    }
    if sentence.contains(|character: char| character.is_numeric()) {
        return false;
    }
    // Single words, for example "Done." or "Recovered."
    if sentence.is_ascii() && sentence.split_whitespace().nth(1).is_none() {
        return true;
    }
    let begin: String = sentence.trim_start().chars().take(EXCLAMATION_CHARS_MAX).collect();
    let begin = begin.replace('\u{2019}', "'").to_lowercase();
    let is_word = |opening: &str| {
        let rest = begin.strip_prefix(opening);
        rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    };
    let feels_free = sentence.to_lowercase().contains("feel free");
    feels_free
        || sentence.trim_end().ends_with(':')
        || OPENINGS.iter().any(|opening| is_word(opening))
}

/// Returns true if a sentence is a courtesy or narration; a question or an offer is not.
pub(super) fn is_courtesy(sentence: &str) -> bool {
    const COURTESIES: [&str; 16] = phrase_list(
        "you're welcome|thank|have a |feel free|if you have any|if there's anything|\
         if there is anything|if you need any|is there anything else|no problem|no worries|\
         i'm here to help|let me know if|please let me know if|don't hesitate|take care",
    );
    let lower = sentence.trim().replace('\u{2019}', "'").to_lowercase();
    let is_polite = COURTESIES.iter().any(|begin| lower.starts_with(begin));
    let is_polite = is_polite || lower.contains("feel free");
    is_polite && !lower.contains(|c: char| c.is_numeric()) || is_narrating(sentence)
}

/// Returns true if a sentence only narrates: "Now let me look at the parser.", "I run the tests
/// again.", "Perfect!".
fn is_narrating(sentence: &str) -> bool {
    let lower = sentence.trim().replace('\u{2019}', "'").to_lowercase();
    let bare = lower.trim_end_matches(['.', '!', ':', ',', ' ']);
    if APPLAUSE.contains(&bare) {
        return true;
    }
    let mut rest =
        lower.strip_prefix("but wait").map_or(&*lower, |_| lower.trim_start_matches("but "));
    let mut is_led = false;
    while let Some((word, after)) = rest.split_once([' ', ',', '!', '.'])
        && LEADS.contains(&word)
    {
        rest = after.trim_start_matches([' ', ',', '!', '.', '-', '\u{2014}']);
        is_led = true;
    }
    let act = ACTS.iter().find_map(|act| rest.strip_prefix(act));
    let does = act.or_else(|| rest.strip_prefix("i ")).unwrap_or(rest);
    let does = does.trim_start_matches("now ").trim_start_matches("also ");
    let verb = does.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let forms = |stem: &&&str| {
        let rest = verb.strip_prefix(**stem);
        rest.is_some_and(|rest| matches!(rest, "" | "e" | "s" | "es" | "ing" | "ning" | "ting"))
    };
    // Most sentences return here, before the long lists are searched.
    if act.is_none() && !rest.starts_with("i ") && !is_led && !verb.ends_with("ing") {
        return false;
    }
    let works = || WORK.iter().find(forms).is_some();
    let reasons = || REASONS.iter().any(|reason| does.contains(reason));
    let is_act = match act {
        Some(_) => {
            !reasons() || !does.contains(" because ") && !does.contains(" instead ") && works()
        }
        None if rest.starts_with("i ") => works() && !reasons(),
        // For example "Running the tests." or "Now update the README."
        None => !does.contains('`') && works() && !reasons(),
    };
    is_act && !rest.contains("let me add that") && !rest.contains("let me note")
}

/// Returns true if a sentence only announces the agent's next action, or applauds.
#[must_use]
pub fn is_narration(sentence: &str) -> bool {
    let text = sentence.trim().trim_matches(['*', '_', '-', '\u{2022}', '>', '#', ' ']);
    !text.is_empty() && text.len() <= NARRATION_BYTES && is_narrating(text)
}

/// Returns true if a sentence reports momentary progress: "nothing is pushed yet", "the tax is
/// still rounded down", "still to be done". "It still rewrites the row" is lasting and returns
/// false.
#[must_use]
pub(super) fn is_momentary(sentence: &str) -> bool {
    const PHRASES: [&str; 4] = [" so far ", " for now ", " right now ", " at the moment "];
    const NOT: [&str; 5] = ["not", "no", "nothing", "none", "never"];
    let lower = sentence.to_lowercase().replace("n't", " not");
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let is_negated = || words.iter().any(|word| NOT.contains(word));
    let after_still = words.iter().position(|word| *word == "still").map(|at| {
        let next = words.get(at + 1).copied().unwrap_or_default();
        let before = at.checked_sub(1).and_then(|at| words.get(at)).copied().unwrap_or_default();
        let is_state = matches!(before, "is" | "are" | "was" | "were");
        next == "to" || is_state && (next.ends_with("ed") || next.ends_with("ing"))
    });
    let padded = format!(" {} ", words.join(" "));
    after_still == Some(true)
        || words.contains(&"yet") && is_negated()
        || PHRASES.iter().any(|phrase| padded.contains(phrase))
}

/// Returns true if a sentence asks or guesses, and so states nothing.
#[must_use]
pub(super) fn is_musing(sentence: &str) -> bool {
    const GUESSES: [&str; 4] = ["maybe ", "perhaps ", "but maybe ", "but perhaps "];
    let text = sentence.trim().trim_end_matches(['*', '_', '"', '\'', ')']);
    let begin = head(text, 12).to_lowercase();
    text.ends_with('?') || GUESSES.iter().any(|guess| begin.starts_with(guess))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_and_courtesies_are_small_talk_and_statements_are_not() {
        for said in [
            "Would you like me to proceed with this booking?",
            "Please provide the following details:",
            "You\u{2019}re welcome!",
            "Let me know how it goes.",
            "If you have any other questions, feel free to ask.",
            "If there\u{2019}s anything else you need, please let me know!",
            "Here are the details of your reservations:",
            "You're welcome! If anything comes up, feel free to reach out.",
            "Now let me look at line 602 of the parser.",
            "I run the tests again.",
            "Running the tests.",
            "Now update the README.",
            "Perfect!",
            "I'll check whether it builds.",
            "Let me check if there are other uses of `np.diff`.",
            "Actually, let me trace through the math more carefully.",
            "But wait, I should check if there are any tests that expect it.",
        ] {
            assert!(is_small_talk(said), "{said}");
        }
        for said in [
            "Would you like me to book HAT052 for $120?",
            "The cache stalls when two writers meet.",
            "Surely the lock is held twice.",
            "You have two flights on May 17, 2024:",
            "Let me add that the lock is held: twice.",
            "Pleased customers wrote back.",
            "I'll keep the interface because the user refused the switch.",
            "Running the tests twice is not enough: the second run reads a stale cache.",
            "Tests of the parser pass.",
            "So the cache is keyed by path.",
            "Actually, the cache is keyed by path.",
            "But waiting readers hold the lock.",
        ] {
            assert!(!is_small_talk(said), "{said}");
        }
    }

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
    fn questions_and_guesses_are_musings_and_statements_are_not() {
        for text in ["Is it the **clock?**", "Maybe the index is stale.", "Which one (A or B?)"] {
            assert!(is_musing(text), "{text}");
        }
        for text in ["The `?` operator returns early.", "It may be stale.", "", "Perhapsody plays."]
        {
            assert!(!is_musing(text), "{text}");
        }
    }

    #[test]
    fn a_sentence_about_progress_is_recognised_as_momentary() {
        for text in ["The tax is still rounded down.", "Nothing is pushed yet", "12 of 40 so far:"]
        {
            assert!(is_momentary(text), "{text}");
        }
        for text in [
            "The tax is rounded down.",
            "The poet's yeti is not blue.",
            "The look-up is also far cheaper than a scan.",
            "Postgres still rewrites the whole row.",
            "The format is simple yet complete.",
            "The patent is still valid until 2031.",
        ] {
            assert!(!is_momentary(text), "{text}");
        }
    }
}
