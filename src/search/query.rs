//! A query: words that rank, and phrases in quotes that must occur verbatim. It must not depend on
//! what is searched.

use super::{
    irregular,
    letters::{is_lone_unspaced, is_unspaced},
    stop_words::is_stop_word,
    terms::{Term, stem, visit_terms},
};

/// Maximum bytes of a query.
pub(super) const QUERY_BYTES_MAX: usize = 4_096;
/// Maximum words of a query.
pub(super) const WORDS_MAX: usize = 64;
/// Minimum common letters for one word to count as the prefix of the other.
const BEGINNING_MIN: usize = 4;

/// Error in an invalid query, with its byte offset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {place}: {fault}")]
pub struct QueryError {
    /// The byte offset in the query.
    pub place: usize,
    /// The error there.
    pub fault: QueryFault,
}

/// Kind of an error in a query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryFault {
    /// The query has no letter and no digit, or only stop words.
    #[error("it has no word to look for: name what it is about")]
    NoWord,
    /// The query has too many bytes or words.
    #[error("at most {QUERY_BYTES_MAX} bytes and {WORDS_MAX} words")]
    TooLong,
    /// A quotation mark is not closed.
    #[error("the quotation mark is not closed")]
    Unclosed,
    /// A member of the query has an invalid value.
    #[error("`{field}:` takes {takes}")]
    Value {
        /// The member.
        field: &'static str,
        /// Values it accepts.
        takes: &'static str,
    },
    /// The query excludes a stop word, which is not indexed.
    #[error("a word as common as this cannot be left out")]
    Common,
}

impl QueryFault {
    /// Returns the error at that byte offset of the query.
    pub(super) fn at_byte(self, place: usize) -> QueryError {
        QueryError { place, fault: self }
    }
}

/// A parsed query.
#[derive(Clone, Debug)]
pub struct Query {
    words: Vec<QueryWord>,
    /// The words in the order of the query, as indexes into `words`.
    word_order: Vec<usize>,
    /// Number of whole identifiers of several words, which are not in `word_order`.
    wholes: usize,
    /// Consecutive words, as indexes into `words`.
    phrases: Vec<Vec<usize>>,
    /// Words of one character of a script without spaces: each matches the pairs that contain it.
    singles: Vec<usize>,
    /// Length of the shortest stem of the words with a first byte, by that byte.
    first_bytes: [Option<usize>; 256],
}

#[derive(Clone, Debug)]
struct QueryWord {
    stem: String,
    /// True if the ranking counts it; a stop word counts only in a phrase.
    is_ranked: bool,
}

/// Match of a term of a text with a word of the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WordMatch {
    /// Index of the query's word.
    pub(super) word: usize,
    /// True if their stems are equal; else one is a prefix of the other.
    pub(super) same: bool,
}

impl Query {
    /// Parses a query; a phrase in double quotes must be found verbatim, except for case, accents
    /// and endings.
    ///
    /// # Errors
    /// [`QueryError`].
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        if text.len() > QUERY_BYTES_MAX {
            return Err(QueryFault::TooLong.at_byte(QUERY_BYTES_MAX));
        }
        let mut query = Self::empty();
        let quotes = text.matches(is_quote).count() / 2;
        for (index, part) in text.split(is_quote).enumerate() {
            query.add_text(part, index % 2 == 1 && index / 2 < quotes);
        }
        if query.words.iter().all(|word| !word.is_ranked) {
            if query.phrases.is_empty() {
                return Err(QueryFault::NoWord.at_byte(0));
            }
            query.words.iter_mut().for_each(|word| word.is_ranked = true);
        }
        if query.word_order.len() > WORDS_MAX || query.words.len() > WORDS_MAX {
            return Err(QueryFault::TooLong.at_byte(0));
        }
        query.build_lookup();
        Ok(query)
    }

    /// Creates a query without words.
    pub(super) fn empty() -> Self {
        let (words, word_order, phrases) = (Vec::new(), Vec::new(), Vec::new());
        let singles = Vec::new();
        Self { words, word_order, wholes: 0, phrases, singles, first_bytes: [None; 256] }
    }

    /// Adds the words of a text; those of a phrase must be consecutive.
    pub(super) fn add_text(&mut self, text: &str, is_phrase: bool) {
        let mut phrase = Vec::new();
        visit_terms(text, |term| {
            let at = self.add_word(term.word);
            if term.whole {
                self.wholes += 1;
            } else {
                self.word_order.push(at);
                phrase.push(at);
            }
        });
        if is_phrase && phrase.len() > 1 {
            self.phrases.push(phrase);
        }
    }

    fn add_word(&mut self, word: &str) -> usize {
        let stem = stem(word);
        let known = self.words.iter().position(|known| known.stem == stem);
        known.unwrap_or_else(|| {
            self.words.push(QueryWord { stem: stem.into_owned(), is_ranked: !is_stop_word(word) });
            self.words.len() - 1
        })
    }

    /// Fills `singles` and `first_bytes` from the added words.
    pub(super) fn build_lookup(&mut self) {
        let words = self.words.iter().enumerate();
        let singles = words.filter(|(_, word)| is_lone_unspaced(&word.stem));
        self.singles = singles.map(|(at, _)| at).collect();
        for word in &self.words {
            let first = word.stem.bytes().next().unwrap_or_default();
            if let Some(least) = self.first_bytes.get_mut(usize::from(first)) {
                let length = word.stem.len();
                *least = Some(least.map_or(length, |least| least.min(length)));
            }
        }
    }

    /// Returns the number of its words.
    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns true if the word at that index counts for the ranking.
    pub(super) fn is_ranked(&self, word: usize) -> bool {
        self.words.get(word).is_some_and(|word| word.is_ranked)
    }

    /// Returns the words in the order of the query, stop words included, as indexes.
    pub(super) fn word_order(&self) -> &[usize] {
        &self.word_order
    }

    /// Returns the required phrases, each as the indexes of its words.
    pub(super) fn phrases(&self) -> &[Vec<usize>] {
        &self.phrases
    }

    /// Returns the query word that each word of a text matches exactly, in order, for phrases.
    fn match_words(&self, text: &str) -> Vec<Option<usize>> {
        let mut row = Vec::new();
        visit_terms(text, |term| {
            if !term.whole {
                row.push(self.match_term(term).filter(|found| found.same).map(|found| found.word));
            }
        });
        row
    }

    /// Returns the share of the query that occurs in the text as consecutive words, from 0 to 1.
    pub(super) fn run_share(&self, text: &str) -> f64 {
        run_share_of(longest_run(&self.match_words(text), &self.word_order), self.word_order.len())
    }

    /// Returns an upper bound of that share for a text without `lacking` of the words.
    pub(super) fn run_share_max(&self, lacking: usize) -> f64 {
        let run = self.word_order.len().saturating_sub(lacking.saturating_sub(self.wholes));
        run_share_of(u32::try_from(run).unwrap_or(u32::MAX), self.word_order.len())
    }

    /// Returns true if each phrase, or with `any` one of them, is in the text.
    pub(super) fn has_phrases(&self, text: &str, any: bool) -> bool {
        let row = if self.phrases.is_empty() { Vec::new() } else { self.match_words(text) };
        let has = |phrase: &Vec<usize>| contains_phrase(&row, phrase);
        if any { self.phrases.iter().any(has) } else { self.phrases.iter().all(has) }
    }

    /// Returns the word that a term of a text matches, if any. A whole identifier matches only when
    /// it is equal: its parts are separate terms.
    pub(super) fn match_term(&self, term: &Term<'_>) -> Option<WordMatch> {
        let found = self.match_word(term.word)?;
        (found.same || !term.whole).then_some(found)
    }

    fn match_word(&self, word: &str) -> Option<WordMatch> {
        if !self.singles.is_empty() && word.starts_with(is_unspaced) {
            let is_in = |at: &&usize| {
                self.words.get(**at).is_some_and(|single| word.contains(&*single.stem))
            };
            let same = self.words.iter().position(|known| known.stem == word);
            if let Some(word) = same.or_else(|| self.singles.iter().find(is_in).copied()) {
                return Some(WordMatch { word, same: true });
            }
        }
        let word = irregular::base_word(word);
        let first = word.bytes().next()?;
        let least = self.first_bytes.get(usize::from(first)).copied().flatten()?;
        // Stemming only removes endings, so most words need not be stemmed.
        if word.len() < least.min(BEGINNING_MIN) {
            return None;
        }
        let stem = stem(word);
        let same = self.words.iter().position(|known| known.stem == stem);
        if let Some(word) = same {
            return Some(WordMatch { word, same: true });
        }
        let begins = |known: &QueryWord| known.is_ranked && is_prefix_pair(&known.stem, &stem);
        let word = self.words.iter().position(begins)?;
        Some(WordMatch { word, same: false })
    }
}

pub(super) fn is_quote(character: char) -> bool {
    matches!(character, '"' | '“' | '”' | '„')
}

/// Returns true if the words of a phrase occur consecutively in a text.
pub(super) fn contains_phrase(row: &[Option<usize>], phrase: &[usize]) -> bool {
    row.windows(phrase.len().max(1)).any(|part| part.iter().flatten().eq(phrase))
}

/// Returns the share of a query of `words` words that a run covers: 1 for all, 0 for one word.
pub(super) fn run_share_of(run: u32, words: usize) -> f64 {
    if words > 1 && run > 1 { f64::from(run - 1) / (words - 1) as f64 } else { 0.0 }
}

/// Returns the length of the longest run of consecutive words in the order of the query.
pub(super) fn longest_run(row: &[Option<usize>], query: &[usize]) -> u32 {
    let mut longest = 0;
    // Length of the run that ends at each index of `query`, for the previous and this word.
    let (mut before, mut now) = (vec![0; query.len() + 1], vec![0; query.len() + 1]);
    for word in row {
        let lengths = now.iter_mut().skip(1).zip(before.iter()).zip(query);
        for ((now, before), expected) in lengths {
            *now = if *word == Some(*expected) { before + 1 } else { 0 };
            longest = longest.max(*now);
        }
        std::mem::swap(&mut before, &mut now);
    }
    longest
}

/// Returns true if one of two words is a prefix of the other: `config` and `configuration`.
fn is_prefix_pair(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    short.chars().take(BEGINNING_MIN).filter(|letter| letter.is_alphabetic()).count()
        == BEGINNING_MIN
        && long.starts_with(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stems_of(text: &str) -> Vec<String> {
        let query = Query::parse(text).unwrap();
        query.words.iter().filter(|word| word.is_ranked).map(|word| word.stem.clone()).collect()
    }

    #[test]
    fn repeated_words_of_a_query_are_ranked_once_and_stop_words_are_not_ranked() {
        assert_eq!(stems_of("who was copying the copies of Ødegård?"), ["copi", "odegard"]);
        assert_eq!(stems_of("flush_ledger"), ["flush", "ledger", "flushledg"]);
        assert_eq!(stems_of("1,234 ms"), ["1234", "ms"]);
    }

    #[test]
    fn parsing_a_query_without_words_returns_no_word_and_a_long_one_too_long() {
        for text in ["", " \n", "?!…", "what is it?", "\"the\"", "👨‍👩‍👧"] {
            assert_eq!(Query::parse(text).unwrap_err().fault, QueryFault::NoWord, "{text:?}");
        }
        let many: Vec<String> = (0..65).map(|word| format!("word{word}")).collect();
        for text in [many.join(" "), "x ".repeat(65), "x".repeat(5_000)] {
            assert_eq!(Query::parse(&text).unwrap_err().fault, QueryFault::TooLong);
        }
        assert!(Query::parse(&"many words ".repeat(32)).is_ok());
        assert_eq!(Query::parse("\"to be or not to be\"").unwrap().phrases().len(), 1);
    }

    #[test]
    fn a_one_character_word_matches_every_pair_that_contains_it() {
        let query = Query::parse("税 表").unwrap();
        let find = |word: &str| query.match_word(word).map(|found| found.word);
        assert_eq!(
            ["税率", "收税", "税", "率表", "率高", "x"].map(find),
            [Some(0), Some(0), Some(0), Some(1), None, None]
        );
        assert_eq!(Query::parse("税率").unwrap().match_word("收税"), None, "a pair is a pair");
    }

    #[test]
    fn a_word_matches_the_query_word_with_the_same_stem_or_a_common_prefix() {
        let query = Query::parse("configuration Anlage transferring ms buying").unwrap();
        let find = |word: &str| query.match_word(word).map(|found| (found.word, found.same));
        for (word, expected) in [
            ("configurations", Some((0, true))),
            ("config", Some((0, false))),
            ("con", None),
            ("anlagen", Some((1, false))),
            ("transfer", Some((2, true))),
            ("ms", Some((3, true))),
            ("msg", None),
            ("bought", Some((4, true))),
            ("other", None),
        ] {
            assert_eq!(find(word), expected, "{word}");
        }
    }
}
