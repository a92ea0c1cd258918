//! Word tables: a list in one text, split at compile time, or a column of a row that is searched
//! unsplit. It must not hold a table.

/// Splits a text at its single spaces into words.
#[must_use]
pub const fn word_list<const N: usize>(text: &'static str) -> [&'static str; N] {
    split(text, b' ')
}

/// Splits a text at `|` into phrases. A space at the end of a phrase is part of it.
#[must_use]
pub const fn phrase_list<const N: usize>(text: &'static str) -> [&'static str; N] {
    split(text, b'|')
}

/// Returns true if a text of words, separated by white space, contains a word.
#[must_use]
pub fn has_word(column: &str, word: &str) -> bool {
    column.split_ascii_whitespace().any(|one| one == word)
}

const fn split<const N: usize>(text: &'static str, mark: u8) -> [&'static str; N] {
    let (mut list, mut rest) = ([""; N], text);
    let mut open: &mut [&'static str] = &mut list;
    while let Some((first, others)) = open.split_first_mut() {
        let (mut end, mut remaining) = (0, rest.as_bytes());
        while let Some((byte, after)) = remaining.split_first() {
            if *byte == mark {
                break;
            }
            (end, remaining) = (end + 1, after);
        }
        let (one, after) = rest.split_at(end);
        assert!(!one.is_empty(), "a list has as many words as its type says, one mark apart");
        *first = one;
        rest = if after.is_empty() { after } else { after.split_at(1).1 };
        open = others;
    }
    assert!(rest.is_empty(), "a list has no more words than its type says");
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_split_at_its_separators_and_keeps_inner_spaces() {
        const WORDS: [&str; 3] = word_list(
            "a bc \
             d",
        );
        const PHRASES: [&str; 3] = phrase_list("no |i'll |so");
        assert_eq!(WORDS, ["a", "bc", "d"]);
        assert_eq!(PHRASES, ["no ", "i'll ", "so"]);
        assert!(has_word("get list", "list") && !has_word("get list", "li") && !has_word("", ""));
    }

    #[test]
    #[should_panic(expected = "no more words")]
    fn a_list_longer_than_its_maximum_is_rejected() {
        let _: [&str; 1] = word_list("a b");
    }
}
