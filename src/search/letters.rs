//! Folding of letters for comparison: lower case, without accents; and word characters. It must not
//! depend on a language.

use unicode_normalization::char::{decompose_compatible, is_combining_mark};

/// Returns true if the character is part of a word.
pub(super) fn is_word_char(character: char) -> bool {
    match character.is_ascii() {
        true => character.is_ascii_alphanumeric(),
        false => character.is_alphanumeric() || is_combining_mark(character),
    }
}

/// Returns true if the character belongs to a script without spaces between words: Thai, Lao,
/// Burmese, Khmer, kana, Han, and Hangul, whose words are too long to be compared whole.
pub(super) fn is_unspaced(character: char) -> bool {
    matches!(character,
        '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{2e80}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Returns true if the text is one character of a script without spaces, which can be a word.
pub(super) fn is_lone_unspaced(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(is_unspaced) && characters.next().is_none()
}

/// Appends the character in lower case and without accents; a mark alone appends nothing.
pub(super) fn fold_char(character: char, folded: &mut String) {
    if character.is_ascii() {
        folded.push(character.to_ascii_lowercase());
        return;
    }
    if is_unspaced(character) {
        folded.push(character);
        return;
    }
    for lower in character.to_lowercase() {
        match lower {
            'ß' => folded.push_str("ss"),
            'æ' => folded.push_str("ae"),
            'œ' => folded.push_str("oe"),
            'þ' => folded.push_str("th"),
            'ø' => folded.push('o'),
            'ł' => folded.push('l'),
            'đ' | 'ð' => folded.push('d'),
            'ı' => folded.push('i'),
            _ => decompose_compatible(lower, |part| {
                if !is_combining_mark(part) {
                    folded.extend(part.to_lowercase());
                }
            }),
        }
    }
}

/// Returns the text in lower case and without accents, for comparison.
pub(super) fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    text.chars().for_each(|character| fold_char(character, &mut folded));
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_folded_to_lower_case_without_accents() {
        for (text, expected) in [
            ("Ødegård", "odegard"),
            ("Ibáñez", "ibanez"),
            ("e\u{301}te\u{301}", "ete"),
            ("GRÖSSE", "grosse"),
            ("Größe", "grosse"),
            ("ＡＢＣ１２", "abc12"),
            ("ﬁle", "file"),
            ("Дом", "дом"),
            ("漢字カナ", "漢字カナ"),
        ] {
            let mut folded = String::new();
            text.chars().for_each(|character| fold_char(character, &mut folded));
            assert_eq!(folded, expected, "{text}");
        }
    }
}
