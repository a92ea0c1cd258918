//! Sentences by which an agent offers, asks back, is polite or announces a list: they say nothing
//! about the work. It must not drop a sentence that has a number, which may be what was agreed.

/// How such sentences begin, in small letters.
const OPENINGS: &[&str] = &[
    "additionally, please",
    "can i help",
    "can you please",
    "certainly!",
    "certainly,",
    "could you please",
    "could you provide",
    "do you have any other",
    "do you want me to",
    "feel free",
    "great!",
    "great,",
    "have a great",
    "how can i",
    "i apologize",
    "i can assist",
    "i can help",
    "i will help",
    "i would be happy",
    "i'd be happy",
    "i'll do my best",
    "i'll help",
    "i'm happy to",
    "i'm here to help",
    "i'm sorry",
    "if there is anything",
    "if there's anything",
    "if you can provide",
    "if you have any",
    "if you need any",
    "if you need further",
    "if you'd like",
    "is there anything else",
    "let me check",
    "let me know",
    "let me look",
    "let me search",
    "may i",
    "no problem",
    "no worries",
    "once i have",
    "once you confirm",
    "once you provide",
    "please confirm",
    "please let me know",
    "please provide",
    "please specify",
    "shall i",
    "should i",
    "sure!",
    "sure,",
    "thank you",
    "thanks",
    "this will help me",
    "what would you like",
    "would you like",
    "you're welcome",
];
/// Characters up to which a polite word is a whole sentence.
const EXCLAMATION_CHARS_MAX: usize = 24;

/// Whether a sentence of an agent's message is small talk.
pub(super) fn is_small_talk(sentence: &str) -> bool {
    if sentence.contains(|character: char| character.is_numeric()) {
        return false;
    }
    let begin: String = sentence.trim_start().chars().take(EXCLAMATION_CHARS_MAX).collect();
    let begin = begin.replace('\u{2019}', "'").to_lowercase();
    let is_word = |opening: &str| {
        let rest = begin.strip_prefix(opening);
        rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    };
    sentence.trim_end().ends_with(':') || OPENINGS.iter().any(|opening| is_word(opening))
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
        ] {
            assert!(!is_small_talk(said), "{said}");
        }
    }
}
