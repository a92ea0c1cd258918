//! Tests whether a match of a rule is a secret, or a placeholder, code or prose. It must not depend
//! on a rule.

use std::ops::Range;

use super::{
    names,
    value::{is_placeholder, is_prose, is_random},
};

/// Minimum letters and digits of a value.
const ALNUM_MIN: usize = 3;

/// Test of a rule's match in addition to its pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::secrets) enum MatchTest {
    /// No test: the pattern suffices.
    Any,
    /// The match is not a placeholder.
    NotPlaceholder,
    /// Like `NotPlaceholder`, and more than a word: sentences also contain names of passwords.
    MoreThanWord,
    /// The match is random: letters and digits of high entropy.
    Random,
    /// Like `Random`, and not after a name whose random values are not secrets.
    RandomNotPublic,
    /// The match may be the value of a command option, and is not a word of prose about it.
    OptionValue,
    /// The match is more than a word of prose, or the value of a setting.
    SettingValue,
    /// The match follows the name of a secret, and is not code.
    AssignedValue,
    /// The match has letters and digits: no other word of prose is a password.
    PasswordInProse,
}

impl MatchTest {
    /// Returns true if a match passes the test; `before` is the part of the match before the
    /// secret.
    pub(super) fn passes(self, before: &str, text: &str) -> bool {
        match self {
            Self::RandomNotPublic => {
                !names::is_public_name(split_name(before).0) && Self::Random.passes("", text)
            }
            Self::OptionValue => {
                let option = before.starts_with('-');
                let usage = text.chars().all(|c| c.is_ascii_uppercase() || c == '_');
                let denied = option && (usage || names::is_public_name(split_name(before).0));
                !denied && !is_placeholder(text) && !is_prose(text)
            }
            Self::SettingValue => {
                let (_, operator) = split_name(before);
                let is_set = operator == "=" || operator.starts_with(':');
                let is_word = |part: &str| {
                    !part.is_empty()
                        && part.chars().all(|c| c.is_ascii_lowercase())
                        && !is_prose(part)
                };
                // A passphrase may have hyphens between its words.
                let words = is_set && text.split('-').all(is_word);
                let meant = !is_placeholder(text) && !is_code(text);
                meant && (Self::MoreThanWord.passes(before, text) || words)
            }
            Self::AssignedValue => {
                let (name, operator) = split_name(before);
                let quoted = operator.ends_with(['"', '\'']);
                let code = !quoted && is_code(text);
                let alnum = text.chars().filter(|c| c.is_alphanumeric()).count();
                let enough = alnum >= ALNUM_MIN && !is_placeholder(text) && !code;
                let path = || text.starts_with(['/', '~', '.']) || text.contains(":\\");
                let directory = || name.to_ascii_lowercase().ends_with("pwd") && path();
                let form = match operator {
                    _ if quoted => names::AssignmentSyntax::Quoted,
                    "=" => names::AssignmentSyntax::Set,
                    _ => names::AssignmentSyntax::Bare,
                };
                enough && !directory() && names::is_secret_assignment(name, text, form)
            }
            Self::PasswordInProse => {
                let digits = text.chars().any(|c| c.is_ascii_digit());
                let letters = text.chars().any(|c| c.is_ascii_alphabetic());
                let meant = !is_placeholder(text) && !is_code(text) && !is_prose(text);
                digits && letters && meant
            }
            Self::Any => true,
            Self::NotPlaceholder => !is_placeholder(text),
            Self::MoreThanWord => {
                let other = |c: char| !c.is_alphabetic() && !matches!(c, '.' | ',' | '-' | '_');
                !is_placeholder(text) && text.trim_end_matches([';', ',']).contains(other)
            }
            Self::Random => !is_placeholder(text) && is_random(text),
        }
    }
}

impl MatchTest {
    /// Returns the range of the secret in a match of the pattern: without surrounding quotes, and
    /// for an unquoted value without the next value and the end of a sentence or a call.
    pub(super) fn secret_range(self, text: &str) -> Range<usize> {
        let whole = 0..text.len();
        let loose = matches!(
            self,
            Self::OptionValue | Self::AssignedValue | Self::PasswordInProse | Self::SettingValue
        );
        if !loose {
            return whole;
        }
        let open = text.trim_start_matches('\\');
        if open.starts_with(['"', '\'']) {
            let inside = open.get(1..).unwrap_or_default();
            let close = inside.strip_suffix(['"', '\'']).unwrap_or(inside).trim_end_matches('\\');
            let from = text.len() - inside.len();
            return from..from + close.len();
        }
        if self != Self::AssignedValue && self != Self::PasswordInProse {
            return whole;
        }
        let next = text.char_indices().filter(|(_, c)| matches!(c, '&' | ',')).find(|(at, _)| {
            let rest = text.get(at + 1..).unwrap_or_default();
            let name = rest.find(|c| !is_name_char(c)).filter(|end| *end > 0);
            name.is_some_and(|end| rest.get(end..).is_some_and(|rest| rest.starts_with('=')))
        });
        let text = next.and_then(|(at, _)| text.get(..at)).unwrap_or(text);
        let ends: &[char] = match text.contains(['(', '[', '{']) {
            true => &[',', '.', ':'],
            false => &[',', '.', ':', ')', ']', '}', '\\'],
        };
        0..text.trim_end_matches(ends).len()
    }
}

/// Splits the text before a secret into the leading name and the rest.
fn split_name(before: &str) -> (&str, &str) {
    let start = before.find(is_name_char).unwrap_or(0);
    let text = before.get(start..).unwrap_or_default();
    text.split_at(text.find(|c| !is_name_char(c)).unwrap_or(text.len()))
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}

/// Returns true if an unquoted value is a call, an index, a type or a comparison.
pub(super) fn is_code(text: &str) -> bool {
    let of_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':');
    let head = text.trim_start_matches(of_path);
    let called = head.strip_prefix('!').unwrap_or(head);
    let opens = head.len() < text.len() && called.starts_with(['(', '[', '<', '{']);
    let number = text.trim_matches(['_', ',', ';']).strip_prefix(['u', 'i', 'f', 's']);
    opens
        || number.is_some_and(|bits| ["8", "16", "32", "64", "128"].contains(&bits))
        || text.starts_with(['=', '~', '!', '`', '@', '|', '-', ':'])
        || text.starts_with("r#")
        || text.starts_with("0x")
        || ["::", "->", "=>", ".*"].iter().any(|mark| text.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_text_is_classified_as_random() {
        for text in ["9f86d081884c7d659a2feaa0", "wJalrXUtnFEMI/K7MDENG", "x8Kq0pL2mN4vB6"] {
            assert!(is_random(text), "{text}");
        }
        for text in ["authentication_token", "12345678901234", "aaaaaaaa1111", "short1"] {
            assert!(!is_random(text), "{text}");
        }
    }
}
