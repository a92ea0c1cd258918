//! Classification of member names: `password`, `apiKey` and `x-auth-token` hold secrets,
//! `max_tokens`, `token_count` and `next_page_token` do not. It must not depend on a rule.

use super::value::{is_placeholder, is_prose, is_random};

/// Kind of value expected after a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueKind {
    /// Any value.
    Any,
    /// A secret chosen by a person, possibly of several words.
    Phrase,
    /// Value of a header.
    Header,
    /// A secret of one to three words.
    Secret,
    /// A secret only if it is random: such names have other uses.
    Random,
}

/// Maximum words of a passphrase: a longer text is prose about one.
const PHRASE_WORDS_MAX: usize = 12;
/// Maximum words of any other secret: a sentence about a secret is not one.
const SECRET_WORDS_MAX: usize = 3;
/// Minimum characters of a word with letters and digits that is a token.
const TOKEN_CHARS_MIN: usize = 8;
/// Minimum characters of a secret that a text assigns to a name.
const WORD_CHARS_MIN: usize = 4;

/// Last words of names of secrets, in one word regardless of their spelling.
const PHRASES: [&str; 4] = ["password", "passwd", "passphrase", "passcode"];
const SECRETS: [&str; 12] = [
    "apikey",
    "apisecret",
    "accesskey",
    "secretkey",
    "privatekey",
    "clientsecret",
    "accesstoken",
    "apitoken",
    "authtoken",
    "bearertoken",
    "refreshtoken",
    "connectionstring",
];
/// Last words, or pairs of words, of names of secrets.
const SECRET_WORDS: [&str; 3] = ["secret", "idtoken", "sessiontoken"];
const RANDOM_WORDS: [&str; 8] = [
    "token",
    "credential",
    "bearer",
    "jwt",
    "signingkey",
    "encryptionkey",
    "masterkey",
    "accountkey",
];
const HEADERS: [&str; 4] = ["authorization", "proxyauthorization", "cookie", "setcookie"];
/// Suffixes that do not change what a name means.
const NEUTRAL_SUFFIXES: [&str; 24] = [
    "again",
    "backup",
    "base64",
    "confirm",
    "confirmation",
    "current",
    "default",
    "dev",
    "live",
    "local",
    "main",
    "new",
    "old",
    "plain",
    "primary",
    "prod",
    "production",
    "sandbox",
    "secondary",
    "staging",
    "string",
    "test",
    "text",
    "value",
];
/// Words that make a token a position in a list, or a part of a text.
const POSITION_WORDS: [&str; 27] = [
    "bos",
    "cls",
    "continuation",
    "continue",
    "cursor",
    "delta",
    "end",
    "eos",
    "fencing",
    "idempotency",
    "mask",
    "max",
    "min",
    "next",
    "pad",
    "page",
    "paging",
    "prev",
    "previous",
    "progress",
    "scroll",
    "sep",
    "skip",
    "start",
    "starting",
    "stop",
    "sync",
];
/// Words before `pass` that make it something else than a password.
const PASSES: [&str; 10] =
    ["boarding", "first", "last", "multi", "next", "one", "render", "second", "single", "two"];

/// Returns true if a value, or an element of a list, of the JSON member `name` is a secret.
pub(super) fn is_secret(name: &str, value: &str, listed: bool) -> bool {
    let kind = classify_name(&split_words(name));
    if kind == ValueKind::Any || value.trim().is_empty() || is_placeholder(value) {
        return false;
    }
    let count = value.split_whitespace().count();
    let is_path = value.starts_with(['/', '~', '.']) || value.contains(":\\");
    match kind {
        ValueKind::Any => false,
        // A working directory may have that name as well.
        ValueKind::Phrase if count == 1 => !(is_path && name.to_ascii_lowercase().ends_with("pwd")),
        ValueKind::Phrase => {
            count <= PHRASE_WORDS_MAX && !value.to_ascii_lowercase().contains("pass")
        }
        ValueKind::Header => count <= SECRET_WORDS_MAX || value.chars().any(|c| c.is_ascii_digit()),
        ValueKind::Secret => count <= SECRET_WORDS_MAX,
        ValueKind::Random if listed => is_random(value),
        ValueKind::Random => {
            let digits = value.chars().any(|c| c.is_ascii_digit());
            let letters = value.chars().any(|c| c.is_ascii_alphabetic());
            count == 1 && digits && letters && value.chars().count() >= TOKEN_CHARS_MIN
        }
    }
}

/// Syntax in which a text assigns a value to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AssignmentSyntax {
    Quoted,
    /// After `=` without blanks, as in shells, URLs and settings.
    Set,
    /// Any other syntax: sentences and code use it as well.
    Bare,
}

/// Returns true if the value that a text assigns to a name is a secret.
pub(super) fn is_secret_assignment(name: &str, value: &str, form: AssignmentSyntax) -> bool {
    let words = split_words(name);
    let kind = match &*words {
        [one] if one == "pwd" => ValueKind::Phrase,
        words => classify_name(words),
    };
    let digits = value.chars().any(|c| c.is_ascii_digit());
    let letters = value.chars().any(|c| c.is_ascii_alphabetic());
    let other = |c: char| !c.is_alphanumeric() && !matches!(c, '.' | ',' | '-' | '_');
    let mixed = digits || value.contains(other);
    let count = value.split_whitespace().count();
    match kind {
        ValueKind::Any | ValueKind::Header => false,
        ValueKind::Phrase if count > 1 => {
            let prose = value.split_whitespace().any(is_prose) || value.ends_with(['.', ':', '?']);
            count <= PHRASE_WORDS_MAX && !prose && !value.to_ascii_lowercase().contains("pass")
        }
        ValueKind::Phrase if mixed || form == AssignmentSyntax::Quoted => true,
        // A variable is named after its content, with words joined by underscores.
        ValueKind::Phrase => {
            let small = value.to_ascii_lowercase();
            let variable = ["pass", "pwd", "secret", "token", "_"];
            form == AssignmentSyntax::Set
                && value.chars().count() >= WORD_CHARS_MIN
                && !variable.iter().any(|part| small.contains(part))
                && !is_prose(value)
        }
        ValueKind::Secret => count == 1 && mixed && value.chars().count() >= WORD_CHARS_MIN,
        ValueKind::Random => {
            // In a sentence or in code, words joined by underscores are an identifier.
            let named = form == AssignmentSyntax::Bare && value.contains('_') && !is_random(value);
            !has_position_word(&words)
                && !named
                && count == 1
                && digits
                && letters
                && value.chars().count() >= TOKEN_CHARS_MIN
        }
    }
}

/// Returns true if a name marks its value as public, even if it is random: the token of the next
/// page of a list must stay usable.
pub(super) fn is_public_name(name: &str) -> bool {
    let words = split_words(name);
    let plain = words.concat();
    let opens = plain.contains("secret")
        || SECRETS.iter().chain(&PHRASES).any(|secret| plain.contains(secret));
    !opens && has_position_word(&words)
}

fn has_position_word(words: &[String]) -> bool {
    words.iter().any(|word| POSITION_WORDS.contains(&word.as_str()))
}

fn classify_name(words: &[String]) -> ValueKind {
    let Some((last, before)) = words.split_last() else { return ValueKind::Any };
    let last = singular(last);
    let plain = before.concat() + last;
    let pair = before.last().map(|word| format!("{word}{last}"));
    let ends = |list: &[&str]| list.iter().any(|end| plain.ends_with(end));
    let is_one = |list: &[&str]| {
        let is = |word: &str| list.contains(&word);
        is(last) || pair.as_deref().is_some_and(is)
    };
    let passes = before.last().is_some_and(|word| !PASSES.contains(&word.as_str()));
    if ends(&PHRASES) || passes && matches!(last, "pass" | "pwd") {
        ValueKind::Phrase
    } else if HEADERS.contains(&&*plain) {
        ValueKind::Header
    } else if ends(&SECRETS) || is_one(&SECRET_WORDS) {
        ValueKind::Secret
    } else if is_one(&RANDOM_WORDS) {
        if has_position_word(words) { ValueKind::Any } else { ValueKind::Random }
    } else if NEUTRAL_SUFFIXES.contains(&last) {
        classify_name(before)
    } else {
        ValueKind::Any
    }
}

/// Returns the singular of a name's last word, without digits: `password2`, `tokens`, but `pass`.
fn singular(word: &str) -> &str {
    let base = match word.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "" | "base" => word,
        base => base,
    };
    base.strip_suffix('s').filter(|one| !one.ends_with('s') && !one.is_empty()).unwrap_or(base)
}

/// Splits a name into its words, in lower case, regardless of its naming convention.
fn split_words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut open, mut before) = (false, ' ');
    let mut rest = name.chars().peekable();
    while let Some(c) = rest.next() {
        let lower_follows = rest.peek().is_some_and(char::is_ascii_lowercase);
        let begins = c.is_ascii_uppercase()
            && (!before.is_ascii_uppercase() || lower_follows)
            && before.is_ascii_alphanumeric();
        if c.is_ascii_alphanumeric() {
            if !open || begins {
                words.push(String::new());
            }
            words.last_mut().into_iter().for_each(|word| word.push(c.to_ascii_lowercase()));
        }
        open = c.is_ascii_alphanumeric();
        before = c;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_name_is_split_into_its_words() {
        for (name, expected) in [
            ("apiKey", "api key"),
            ("AWS_SECRET_ACCESS_KEY", "aws secret access key"),
            ("X-API-Key", "x api key"),
            ("APIKey2", "api key2"),
            ("nextPageTokens", "next page tokens"),
            ("db.pass", "db pass"),
            ("HTTPServer", "http server"),
            ("", ""),
            ("__", ""),
        ] {
            assert_eq!(split_words(name).join(" "), expected, "{name}");
        }
    }

    #[test]
    fn page_token_names_are_public_and_names_of_secrets_are_not() {
        assert!(
            is_public_name("nextPageToken")
                && is_public_name("page_token")
                && !is_public_name("MY_TOKEN")
        );
        for name in ["PAGE_ACCESS_TOKEN", "SYNC_API_KEY_V2", "END_USER_SECRET"] {
            assert!(!is_public_name(name), "{name} opens something");
        }
    }
}
