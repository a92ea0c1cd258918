//! English words that are not searched for. It must not differ for queries and passages.

/// Stop words, sorted by bytes.
const STOP_WORDS: [&str; 86] = [
    "a", "about", "after", "all", "am", "an", "and", "any", "are", "as", "at", "be", "been", "but",
    "by", "can", "could", "d", "did", "do", "does", "don", "for", "from", "had", "has", "have",
    "he", "her", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "just", "ll",
    "m", "me", "my", "no", "not", "of", "on", "or", "our", "out", "re", "s", "she", "should", "so",
    "some", "t", "than", "that", "the", "their", "them", "then", "there", "these", "they", "this",
    "to", "up", "ve", "was", "we", "were", "what", "when", "where", "which", "who", "why", "will",
    "with", "would", "you", "your", "yours",
];

/// Returns true if the folded word is a stop word.
pub(super) fn is_stop_word(word: &str) -> bool {
    word.len() <= 6 && STOP_WORDS.binary_search(&word).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_stop_word_returns_true_for_every_listed_word() {
        assert!(STOP_WORDS.is_sorted());
        assert!(STOP_WORDS.iter().all(|word| is_stop_word(word)));
        assert!(!is_stop_word("ledger") && !is_stop_word(""));
    }
}
