//! `hash-512`: a text as a vector of 512 numbers, so that two texts can be compared without their
//! words. Stemmed words and their letter trigrams are hashed with a sign into the numbers, rare
//! words with more weight, in integers, so that every machine computes the same bytes. It is not
//! trained, has no semantics, and must not rank a search.

use std::collections::{BTreeSet, HashMap};

use super::{
    stop_words::is_stop_word,
    terms::{stem, visit_terms},
};

/// Dimensions of a vector.
pub const DIMENSIONS: usize = 512;
/// Weight of a word relative to a trigram.
const WORD_WEIGHT: i64 = 3;
/// Least weight of a word that is no stop word.
const WEIGHT: i64 = 4;
/// Weight of a stop word.
const STOP_WEIGHT: i64 = 1;

/// Rarity of words in a set of texts; in an empty set, all words but stop words weigh the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rarity {
    texts: u64,
    /// Number of texts that have a word, by its hash.
    holding: HashMap<u64, u64>,
}

impl Rarity {
    /// Counts, for each word, the texts that have it.
    #[must_use]
    pub fn from_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut rarity = Self::default();
        for text in texts {
            rarity.texts += 1;
            for word in stemmed_words(text) {
                *rarity.holding.entry(hash_text(&word)).or_default() += 1;
            }
        }
        rarity
    }

    /// Returns the weight of a word: one more for each halving of the share of texts that have it.
    fn weight(&self, word: &str) -> i64 {
        if is_stop_word(word) {
            return STOP_WEIGHT;
        }
        let holding = self.holding.get(&hash_text(word)).copied().unwrap_or_default();
        WEIGHT + i64::from(((self.texts + 1) / (holding + 1)).max(1).ilog2())
    }
}

/// The vector of a text: 512 numbers of one byte each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vector([i8; DIMENSIONS]);

impl Vector {
    /// Computes the vector of a text; all zeros if it has no word.
    #[must_use]
    pub fn from_text(text: &str, rarity: &Rarity) -> Self {
        let mut sums = [0_i64; DIMENSIONS];
        let mut add = |hash: u64, weight: i64| {
            let index = usize::try_from(hash % DIMENSIONS as u64).unwrap_or_default();
            if let Some(sum) = sums.get_mut(index) {
                *sum += if hash >> 63 == 0 { weight } else { -weight };
            }
        };
        for word in stemmed_words(text) {
            let weight = rarity.weight(&word);
            add(hash_text(&word), WORD_WEIGHT * weight);
            let letters: Vec<char> = format!("^{word}$").chars().collect();
            for three in letters.windows(3) {
                let three: String = three.iter().collect();
                add(hash_text(&format!("#{three}")), weight);
            }
        }
        let most = sums.iter().map(|sum| sum.abs()).max().unwrap_or_default().max(1);
        Self(sums.map(|sum| {
            let rounded = (2 * sum.abs() * i64::from(i8::MAX) + most) / (2 * most);
            i8::try_from(rounded * sum.signum()).unwrap_or_default()
        }))
    }

    /// Returns the similarity of two texts: 1 for the same words, about 0 for no common word; 0 for
    /// an empty text.
    #[must_use]
    pub fn cosine(&self, other: &Self) -> f64 {
        let product = |one: &Self, other: &Self| -> i64 {
            one.0.iter().zip(other.0).map(|(one, other)| i64::from(*one) * i64::from(other)).sum()
        };
        let lengths = product(self, self) * product(other, other);
        if lengths == 0 { 0.0 } else { product(self, other) as f64 / (lengths as f64).sqrt() }
    }

    /// Returns the components, from -127 to 127.
    #[must_use]
    pub fn numbers(&self) -> &[i8; DIMENSIONS] {
        &self.0
    }
}

/// Returns the distinct words of a text, stemmed.
fn stemmed_words(text: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    visit_terms(text, |term| {
        words.insert(stem(term.word).into_owned());
    });
    words
}

/// Computes the 64-bit FNV-1a hash of a text, and mixes its bits.
fn hash_text(text: &str) -> u64 {
    let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let mut hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, fnv);
    hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> Vec<(usize, i8)> {
        let vector = Vector::from_text(text, &Rarity::default());
        let filled = vector.numbers().iter().copied().enumerate();
        filled.filter(|(_, number)| *number != 0).collect()
    }

    #[test]
    fn the_vector_of_a_text_is_the_same_on_every_machine() {
        // Computed independently, from the description at the head of this file.
        let expected = [
            (8, 11),
            (47, -42),
            (84, 42),
            (94, 42),
            (95, -42),
            (128, -42),
            (204, 42),
            (205, 127),
            (217, -42),
            (221, -127),
            (305, 42),
            (366, 42),
            (420, -11),
            (423, -127),
            (424, -42),
            (426, -42),
            (453, 95),
            (455, -42),
            (489, 11),
            (493, 42),
        ];
        assert_eq!(numbers("Ada moved the 40 kites."), expected);
        assert_eq!(numbers("the KITES, 40: moving ada"), expected);
        assert_eq!(numbers(" ... "), []);
    }

    #[test]
    fn texts_with_common_words_and_letters_have_similar_vectors() {
        let vector = |text: &str| Vector::from_text(text, &Rarity::default());
        let text = vector("Staging listens on port 8443 behind the proxy");
        let alike = |other: &str| text.cosine(&vector(other));
        assert!((alike("behind the PROXY, staging listened on port 8443") - 1.0).abs() < 1e-9);
        assert!(alike("Staging listens on port 9000 behind the proxy") > 0.8);
        assert!(alike("Stagnig listens on port 8443 behind the proxi") > 0.7, "misspelled");
        assert!(alike("We sail on Friday, Ben brings the pears").abs() < 0.3);
        assert_eq!(alike(""), 0.0);
    }

    #[test]
    fn texts_that_share_a_rare_word_have_a_higher_cosine_than_texts_that_share_a_common_one() {
        let texts: Vec<String> = (0..200).map(|n| format!("note {n} of the ledger")).collect();
        let rarity = Rarity::from_texts(texts.iter().map(String::as_str));
        let alike = |one: &str, other: &str| {
            Vector::from_text(one, &rarity).cosine(&Vector::from_text(other, &rarity))
        };
        let by_common = alike("ledger heron", "ledger quokka");
        let by_rare = alike("ledger heron", "museum heron");
        assert!(by_rare > by_common + 0.2, "{by_rare} {by_common}");
    }
}
