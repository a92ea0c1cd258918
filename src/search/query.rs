//! A query: words that rank, and phrases in quotes that must occur verbatim. It must not depend on
//! what is searched.

use super::{
    irregular,
    letters::{is_unspaced, is_unspaced_one},
    stop_words::is_stop_word,
    terms::{Term, stem, terms},
};

/// Maximum bytes of a query.
pub(super) const QUERY_BYTES_MAX: usize = 4_096;
/// Maximum words of a query.
pub(super) const WORDS_MAX: usize = 64;
/// Minimum common letters when one word counts as the prefix of the other.
const BEGINNING_MIN: usize = 4;

/// Error in an invalid query, with its byte offset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {place}: {fault}")]
pub struct QueryError {
    /// The byte offset in the query.
    pub place: usize,
    /// The error there.
    pub fault: Fault,
}

/// Kind of error in a query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
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
    /// A word that every match would need is excluded.
    #[error("a word as common as this cannot be left out")]
    Common,
}

impl Fault {
    /// Returns the error at that byte offset of the query.
    pub(super) fn at(self, place: usize) -> QueryError {
        QueryError { place, fault: self }
    }
}

/// A parsed query.
#[derive(Clone, Debug)]
pub struct Query {
    words: Vec<QueryWord>,
    /// The words in the given order, as indexes into `words`.
    given: Vec<usize>,
    /// Number of identifiers of several words, which `given` has only by their words.
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
    /// True if it counts for the ranking; a stop word only counts in a phrase.
    ranks: bool,
}

/// Match of a word of a text with a word of the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Likeness {
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
            return Err(Fault::TooLong.at(QUERY_BYTES_MAX));
        }
        let mut query = Self::empty();
        let quotes = text.matches(is_quote).count() / 2;
        for (index, part) in text.split(is_quote).enumerate() {
            query.add_text(part, index % 2 == 1 && index / 2 < quotes);
        }
        if query.words.iter().all(|word| !word.ranks) {
            if query.phrases.is_empty() {
                return Err(Fault::NoWord.at(0));
            }
            query.words.iter_mut().for_each(|word| word.ranks = true);
        }
        if query.given.len() > WORDS_MAX || query.words.len() > WORDS_MAX {
            return Err(Fault::TooLong.at(0));
        }
        query.index();
        Ok(query)
    }

    /// Creates a query without words.
    pub(super) fn empty() -> Self {
        let (words, given, phrases) = (Vec::new(), Vec::new(), Vec::new());
        let singles = Vec::new();
        Self { words, given, wholes: 0, phrases, singles, first_bytes: [None; 256] }
    }

    /// Adds the words of a text; those of a phrase must be consecutive.
    pub(super) fn add_text(&mut self, text: &str, is_phrase: bool) {
        let mut phrase = Vec::new();
        terms(text, |term| {
            let at = self.add(term.word);
            if term.whole {
                self.wholes += 1;
            } else {
                self.given.push(at);
                phrase.push(at);
            }
        });
        if is_phrase && phrase.len() > 1 {
            self.phrases.push(phrase);
        }
    }

    fn add(&mut self, word: &str) -> usize {
        let stem = stem(word);
        let known = self.words.iter().position(|known| known.stem == stem);
        known.unwrap_or_else(|| {
            self.words.push(QueryWord { stem: stem.into_owned(), ranks: !is_stop_word(word) });
            self.words.len() - 1
        })
    }

    /// Indexes the added words for lookup.
    pub(super) fn index(&mut self) {
        let words = self.words.iter().enumerate();
        let singles = words.filter(|(_, word)| is_unspaced_one(&word.stem));
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
    pub(super) fn ranks(&self, word: usize) -> bool {
        self.words.get(word).is_some_and(|word| word.ranks)
    }

    /// Returns the words in the given order, stop words included, as indexes.
    pub(super) fn given(&self) -> &[usize] {
        &self.given
    }

    /// Returns the required phrases, each as the indexes of its words.
    pub(super) fn phrases(&self) -> &[Vec<usize>] {
        &self.phrases
    }

    /// Returns the query word that each word of a text matches exactly, in order, for phrases.
    fn row(&self, text: &str) -> Vec<Option<usize>> {
        let mut row = Vec::new();
        terms(text, |term| {
            if !term.whole {
                row.push(self.find(term).filter(|found| found.same).map(|found| found.word));
            }
        });
        row
    }

    /// Returns the share of the query that occurs in the text as consecutive words, from 0 to 1.
    pub(super) fn run_share(&self, text: &str) -> f64 {
        share_of(longest_run(&self.row(text), &self.given), self.given.len())
    }

    /// Returns an upper bound of that share for a text that lacks `lacking` of its words.
    pub(super) fn run_share_max(&self, lacking: usize) -> f64 {
        let run = self.given.len().saturating_sub(lacking.saturating_sub(self.wholes));
        share_of(u32::try_from(run).unwrap_or(u32::MAX), self.given.len())
    }

    /// Returns true if each phrase, or with `any` one of them, is in the text.
    pub(super) fn has_phrases(&self, text: &str, any: bool) -> bool {
        let row = if self.phrases.is_empty() { Vec::new() } else { self.row(text) };
        let has = |phrase: &Vec<usize>| is_in(&row, phrase);
        if any { self.phrases.iter().any(has) } else { self.phrases.iter().all(has) }
    }

    /// Returns the word that a term of a text matches, if any. A whole identifier matches only when
    /// it is equal: its parts are separate terms.
    pub(super) fn find(&self, term: &Term<'_>) -> Option<Likeness> {
        let found = self.find_word(term.word)?;
        (found.same || !term.whole).then_some(found)
    }

    fn find_word(&self, word: &str) -> Option<Likeness> {
        if !self.singles.is_empty() && word.starts_with(is_unspaced) {
            let is_in = |at: &&usize| {
                self.words.get(**at).is_some_and(|single| word.contains(&*single.stem))
            };
            let same = self.words.iter().position(|known| known.stem == word);
            if let Some(word) = same.or_else(|| self.singles.iter().find(is_in).copied()) {
                return Some(Likeness { word, same: true });
            }
        }
        let word = irregular::base(word);
        let first = word.bytes().next()?;
        let least = self.first_bytes.get(usize::from(first)).copied().flatten()?;
        // Stemming only removes endings, so most words need not be stemmed.
        if word.len() < least.min(BEGINNING_MIN) {
            return None;
        }
        let stem = stem(word);
        let same = self.words.iter().position(|known| known.stem == stem);
        if let Some(word) = same {
            return Some(Likeness { word, same: true });
        }
        let begins = |known: &QueryWord| known.ranks && is_beginning(&known.stem, &stem);
        let word = self.words.iter().position(begins)?;
        Some(Likeness { word, same: false })
    }
}

pub(super) fn is_quote(character: char) -> bool {
    matches!(character, '"' | '“' | '”' | '„')
}

/// Returns true if the words of a phrase occur consecutively in a text.
pub(super) fn is_in(row: &[Option<usize>], phrase: &[usize]) -> bool {
    row.windows(phrase.len().max(1)).any(|part| part.iter().flatten().eq(phrase))
}

/// Returns the share of the query that a run of that many words is: 1 for all, 0 for one.
pub(super) fn share_of(run: u32, given: usize) -> f64 {
    if given > 1 && run > 1 { f64::from(run - 1) / (given - 1) as f64 } else { 0.0 }
}

/// Returns the length of the longest run of consecutive words in the order of the query.
pub(super) fn longest_run(row: &[Option<usize>], given: &[usize]) -> u32 {
    let mut longest = 0;
    // Length of the run that ends at each index of `given`, for the previous and this word.
    let (mut before, mut now) = (vec![0; given.len() + 1], vec![0; given.len() + 1]);
    for word in row {
        let places = now.iter_mut().skip(1).zip(before.iter()).zip(given);
        for ((now, before), given) in places {
            *now = if *word == Some(*given) { before + 1 } else { 0 };
            longest = longest.max(*now);
        }
        std::mem::swap(&mut before, &mut now);
    }
    longest
}

/// Returns true if one of two words is a prefix of the other: `config` and `configuration`.
fn is_beginning(one: &str, other: &str) -> bool {
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
        query.words.iter().filter(|word| word.ranks).map(|word| word.stem.clone()).collect()
    }

    #[test]
    fn each_query_word_ranks_once_and_stop_words_do_not_rank() {
        assert_eq!(stems_of("who was copying the copies of Ødegård?"), ["copi", "odegard"]);
        assert_eq!(stems_of("flush_ledger"), ["flush", "ledger", "flushledg"]);
        assert_eq!(stems_of("1,234 ms"), ["1234", "ms"]);
    }

    #[test]
    fn a_text_without_words_is_not_a_query() {
        for text in ["", " \n", "?!…", "what is it?", "\"the\"", "👨‍👩‍👧"] {
            assert_eq!(Query::parse(text).unwrap_err().fault, Fault::NoWord, "{text:?}");
        }
        let many: Vec<String> = (0..65).map(|word| format!("word{word}")).collect();
        for text in [many.join(" "), "x ".repeat(65), "x".repeat(5_000)] {
            assert_eq!(Query::parse(&text).unwrap_err().fault, Fault::TooLong);
        }
        assert!(Query::parse(&"many words ".repeat(32)).is_ok());
        assert_eq!(Query::parse("\"to be or not to be\"").unwrap().phrases().len(), 1);
    }

    #[test]
    fn a_one_character_word_matches_every_pair_that_contains_it() {
        let query = Query::parse("税 表").unwrap();
        let find = |word: &str| query.find_word(word).map(|found| found.word);
        assert_eq!(
            ["税率", "收税", "税", "率表", "率高", "x"].map(find),
            [Some(0), Some(0), Some(0), Some(1), None, None]
        );
        assert_eq!(Query::parse("税率").unwrap().find_word("收税"), None, "a pair is a pair");
    }

    #[test]
    fn a_word_is_matched_by_its_stem_or_its_prefix() {
        let query = Query::parse("configuration Anlage transferring ms buying").unwrap();
        let find = |word: &str| query.find_word(word).map(|found| (found.word, found.same));
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
