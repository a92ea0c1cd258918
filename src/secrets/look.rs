//! How a match must look to be a secret: what a person writes in a secret's place is none. It must
//! not know a rule.

use super::names;

/// Characters from which on a text has enough of them to be judged by.
const RANDOM_CHARS_MIN: usize = 12;
/// Bits a character of a random text tells; words of a language tell less and repeat themselves.
const RANDOM_BITS_MIN: f64 = 3.0;

/// What a rule wants of its match beside the pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::secrets) enum Look {
    /// Nothing: its form is enough.
    Any,
    /// That it is no placeholder and no code.
    Meant,
    /// That it is more than a word, too: a sentence names passwords as well.
    Mixed,
    /// That somebody drew it: letters with digits, few of them alike.
    Random,
    /// That, and that the name before it is not one of what is drawn and no secret.
    Named,
}

impl Look {
    /// Whether a match looks so; `before` is what the pattern has of it before the secret.
    pub(super) fn fits(self, before: &str, text: &str) -> bool {
        match self {
            Self::Named => {
                let is_of_name =
                    |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
                let end = before.find(|c| !is_of_name(c)).unwrap_or(before.len());
                let denied = before.get(..end).is_some_and(names::denies);
                !denied && Self::Random.fits("", text)
            }
            Self::Any => true,
            Self::Meant => !stands_for_another(text),
            Self::Mixed => {
                let other = |c: char| !c.is_alphabetic() && !matches!(c, '.' | ',' | '-' | '_');
                !stands_for_another(text) && text.trim_end_matches([';', ',']).contains(other)
            }
            Self::Random => !stands_for_another(text) && is_random(text),
        }
    }
}

/// Whether it is a placeholder, a reference to a variable, or code that gets the secret elsewhere.
pub(super) fn stands_for_another(text: &str) -> bool {
    const WORDS: [&str; 22] = [
        "example",
        "changeme",
        "change-me",
        "change_me",
        "placeholder",
        "redacted",
        "dummy",
        "sample",
        "your-",
        "your_",
        "yourpass",
        "my-secret",
        "insert",
        "replace",
        "todo",
        "required",
        "optional",
        "environ",
        "getenv",
        "process.env",
        "undefined",
        "xxxx",
    ];
    const WHOLE: [&str; 18] = [
        "null", "none", "nil", "true", "false", "string", "str", "text", "password", "passwd",
        "secret", "token", "hidden", "empty", "bytes", "option", "str,", "string,",
    ];
    let text = text.trim_end_matches([';', ',']);
    let small = text.to_ascii_lowercase();
    let first = text.chars().next();
    let alike = text.chars().all(|c| Some(c) == first);
    let path = || {
        let part = |part: &str| {
            part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        text.contains('.') && text.split('.').all(part) && !is_random(text)
    };
    alike
        || matches!(first, Some('$' | '{' | '<' | '%' | '(' | '[' | '&' | '*'))
        || text.contains("](")
        || text.contains("()")
        || text.contains("${")
        || text.contains("...")
        || text.contains('…')
        || text.contains("***")
        || WORDS.iter().any(|word| small.contains(word))
        || WHOLE.contains(&small.as_str())
        || path()
}

/// Whether it looks drawn: digits among letters, and its characters tell much.
pub(super) fn is_random(text: &str) -> bool {
    let count = text.chars().count();
    let digits = text.chars().any(|c| c.is_ascii_digit());
    let letters = text.chars().any(|c| c.is_ascii_alphabetic());
    count >= RANDOM_CHARS_MIN && digits && letters && bits(text) >= RANDOM_BITS_MIN
}

/// How many bits a character of the text tells: its entropy.
#[expect(clippy::cast_precision_loss, reason = "texts are shorter than that")]
fn bits(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in text.bytes() {
        if let Some(count) = counts.get_mut(usize::from(byte)) {
            *count += 1;
        }
    }
    let all = text.len() as f64;
    let share = |count: &u32| f64::from(*count) / all;
    counts.iter().filter(|count| **count > 0).map(share).map(|p| -p * p.log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_a_secrets_place_is_none() {
        for text in [
            "<your key>",
            "${TOKEN}",
            "$TOKEN",
            "{{ token }}",
            "%TOKEN%",
            "xxxxxxxxxxxx",
            "****",
            "your-api-key-here",
            "YOUR_API_KEY",
            "changeme",
            "self.password",
            "get_token()",
            "process.env.TOKEN",
            "string",
            "null",
            "sk-...",
            "[hidden]",
            "aaaaaaaa",
        ] {
            assert!(stands_for_another(text), "{text}");
        }
        for text in ["hunter2", "correct horse", "Tr0ub4dor&3", "a.8fk2.q0z9x1m3"] {
            assert!(!stands_for_another(text), "{text}");
        }
    }

    #[test]
    fn what_was_drawn_looks_drawn() {
        for text in ["9f86d081884c7d659a2feaa0", "wJalrXUtnFEMI/K7MDENG", "x8Kq0pL2mN4vB6"] {
            assert!(is_random(text), "{text}");
        }
        for text in ["authentication_token", "12345678901234", "aaaaaaaa1111", "short1"] {
            assert!(!is_random(text), "{text}");
        }
    }
}
