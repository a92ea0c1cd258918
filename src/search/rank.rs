//! Ranking of passages by a query: BM25, and a bonus for a passage with all its words. Passages are
//! added one by one in any order, and only the counts of their words are kept; the caller reads the
//! texts of the best again. It must not depend on where passages come from.

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use super::{
    bm25::{self, B, K1, WHOLE},
    passages::{Passage, PassageField, visit_passages},
    query::{Query, contains_phrase, longest_run, run_share_of},
    terms::visit_terms,
};
use crate::event::{Event, Position, pace};

/// Share of the score that neighbouring passages add, their number on either side, and the bonus
/// if a passage and its neighbours together have every word.
const NEARLY: f64 = 0.5;
const NEAR: usize = 2;
const WHOLE_NEAR: f64 = 0.25;
/// Bonus of a passage with the words in the order of the query.
const ROW: f64 = 0.5;
/// Weight of a word with the same stem, and of one with a common prefix.
const SAME: u8 = 4;
const BEGINS: u8 = 2;
/// Maximum passages that are returned of one event.
const OF_EVENT_MAX: usize = 3;
/// Number of candidates at which the worse half is dropped.
const CANDIDATES_MAX: usize = 1 << 16;
/// Bytes of text that are compared between two cancellation checks.
const BYTES_OF_A_STEP: usize = 32;

/// Returns the factor of the score for a field: calls and results of tools count less than
/// conclusions from them, and superseded text least.
#[must_use]
pub fn field_weight(field: PassageField, is_superseded: bool) -> f64 {
    match field {
        // An approach that a superseded step ruled out stays ruled out.
        PassageField::Step | PassageField::Reason if is_superseded => 0.5,
        PassageField::Call | PassageField::Event => 0.8,
        PassageField::Result => 0.9,
        _ => 1.0,
    }
}

/// A passage that matches the query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Match {
    /// Position of the event.
    pub position: Position,
    /// Field that the passage comes from.
    pub field: PassageField,
    /// Index of the passage in the event.
    pub ordinal: u32,
    /// Score: higher is better; comparable only within one ranking.
    pub score: f64,
}

/// The best matching passages.
#[derive(Clone, Debug, PartialEq)]
pub struct BestMatches {
    /// The passages, the best first.
    pub matches: Vec<Match>,
    /// True if no other text matches.
    pub is_all: bool,
}

/// A ranking by a query: the counts of its words in the passages added so far.
#[derive(Clone, Debug)]
pub struct Ranking {
    query: Query,
    passages: u32,
    /// Number of words of all passages.
    words: u64,
    /// Number of passages that have each word of the query.
    holding: Vec<u32>,
    candidates: Vec<ScoredPassage>,
    /// True if candidates were dropped at the limit.
    is_full: bool,
}

/// A passage that matches a word of the query.
#[derive(Clone, Debug)]
struct ScoredPassage {
    position: Position,
    field: PassageField,
    ordinal: u32,
    /// Hash of its text.
    text: u64,
    own: WordSet,
    /// Words of the passage and its neighbours in the same text.
    near: WordSet,
    /// Length of the longest run of words in the order of the query.
    run: u32,
}

/// Counts of the words of a query in a text.
#[derive(Clone, Debug, Default)]
struct WordSet {
    words: u32,
    /// Indexes of words of the query, each with the sum of the weights of its matches.
    counts: Vec<(u8, u8)>,
}

impl Ranking {
    /// Creates a ranking without passages.
    #[must_use]
    pub fn new(query: Query) -> Self {
        let holding = vec![0; query.len()];
        let (passages, words, candidates) = (0, 0, Vec::new());
        Self { query, passages, words, holding, candidates, is_full: false }
    }

    /// Returns the query.
    #[must_use]
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// Adds the passages of an event. Each event is added once.
    pub fn add_event(&mut self, event: &Event) {
        let mut scans: Vec<PassageWords> = Vec::new();
        visit_passages(event, |passage| scans.push(PassageWords::new(&self.query, passage)));
        let mut scans = scans.as_slice();
        while let Some((_, rest)) = scans.split_first() {
            let length =
                rest.iter().position(|scan| scan.is_first).map_or(scans.len(), |at| at + 1);
            let (text, after) = scans.split_at(length);
            self.add_text(event.position, text);
            scans = after;
        }
    }

    fn add_text(&mut self, position: Position, text: &[PassageWords]) {
        for (at, scan) in text.iter().enumerate() {
            self.passages = self.passages.saturating_add(1);
            self.words += u64::from(scan.held.words);
            for (word, _) in &scan.held.counts {
                if let Some(holding) = self.holding.get_mut(usize::from(*word)) {
                    *holding += 1;
                }
            }
            if scan.held.counts.is_empty() || !scan.has_phrases {
                continue;
            }
            let mut near = WordSet::default();
            let around = at.saturating_sub(NEAR)..(at + NEAR + 1).min(text.len());
            text.get(around).into_iter().flatten().for_each(|scan| near.merge(&scan.held));
            let PassageWords { field, ordinal, text, run, .. } = *scan;
            let own = scan.held.clone();
            self.candidates.push(ScoredPassage { position, field, ordinal, text, own, near, run });
            if self.candidates.len() >= CANDIDATES_MAX {
                self.drop_worse_half();
            }
        }
    }

    /// Returns at most `most` matching passages, the best first, equal ones newest first; each text
    /// once, and at most 3 of an event. `weigh` returns the factor of a passage's score.
    #[must_use]
    pub fn best(&self, most: usize, weigh: impl Fn(Position, PassageField) -> f64) -> BestMatches {
        let scored = self.score_candidates(weigh);
        let mut texts = HashSet::new();
        let mut of_event: HashMap<Position, usize> = HashMap::new();
        let mut best = BestMatches { matches: Vec::new(), is_all: !self.is_full };
        for (found, text) in scored {
            if !texts.insert(text) {
                continue;
            }
            let shown = of_event.entry(found.position).or_default();
            if *shown == OF_EVENT_MAX || best.matches.len() == most {
                best.is_all = false;
                continue;
            }
            *shown += 1;
            best.matches.push(found);
        }
        best
    }

    /// Returns every matching passage with the hash of its text, the best first.
    fn score_candidates(&self, weigh: impl Fn(Position, PassageField) -> f64) -> Vec<(Match, u64)> {
        let weights = self.word_weights();
        let scores = |held: fn(&ScoredPassage) -> &WordSet| -> Vec<f64> {
            let all = self.candidates.iter().map(|one| weights.score(held(one)));
            let all: Vec<f64> = all.collect();
            let most = all.iter().copied().fold(0.0, f64::max);
            all.into_iter().map(|score| if most > 0.0 { score / most } else { 0.0 }).collect()
        };
        pace::steps(self.candidates.len());
        let (own, near) = (scores(|one| &one.own), scores(|one| &one.near));
        let scored = self.candidates.iter().zip(own.into_iter().zip(near));
        let matches = scored.filter(|(_, (own, _))| *own > 0.0).map(|(one, (own, near))| {
            let score = (own + NEARLY * near + self.match_bonus(&weights, one))
                * weigh(one.position, one.field);
            let ScoredPassage { position, field, ordinal, .. } = *one;
            (Match { position, field, ordinal, score }, one.text)
        });
        let mut matches: Vec<(Match, u64)> = matches.collect();
        matches.sort_by(|(one, _), (other, _)| {
            let newest = other.position.cmp(&one.position);
            other.score.total_cmp(&one.score).then(newest).then(one.ordinal.cmp(&other.ordinal))
        });
        matches
    }

    /// Returns the bonus of a passage that has all words, and of one that has them consecutively.
    fn match_bonus(&self, weights: &WordWeights, one: &ScoredPassage) -> f64 {
        let whole = if weights.is_whole(&one.own) { WHOLE } else { 0.0 };
        let nearly = if weights.is_whole(&one.near) { WHOLE_NEAR } else { 0.0 };
        let share = run_share_of(one.run, self.query.word_order().len());
        whole + nearly + ROW * share
    }

    fn drop_worse_half(&mut self) {
        let weights = self.word_weights();
        let mut scored: Vec<(f64, ScoredPassage)> = std::mem::take(&mut self.candidates)
            .into_iter()
            .map(|one| (weights.score(&one.own), one))
            .collect();
        scored.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        scored.truncate(CANDIDATES_MAX / 2);
        self.candidates = scored.into_iter().map(|(_, one)| one).collect();
        self.is_full = true;
    }

    /// Computes the weights of the words of the query from the passages added so far.
    fn word_weights(&self) -> WordWeights {
        let passages = u64::from(self.passages);
        let worth = |(word, holding): (usize, &u32)| {
            let holding = u64::from(*holding);
            let worth = if self.query.is_ranked(word) { bm25::idf(passages, holding) } else { 0.0 };
            (worth, bm25::is_common(passages, holding))
        };
        let all: Vec<(f64, bool)> = self.holding.iter().enumerate().map(worth).collect();
        let only_common = all.iter().all(|(worth, is_common)| *worth == 0.0 || *is_common);
        let keep = |(worth, is_common): (f64, bool)| {
            if is_common && !only_common { 0.0 } else { worth }
        };
        WordWeights {
            weights: all.into_iter().map(keep).collect(),
            mean_words: (self.words as f64 / passages as f64).max(1.0),
        }
    }
}

struct WordWeights {
    /// Weights of the words of the query, by index; 0 for one that is not ranked.
    weights: Vec<f64>,
    mean_words: f64,
}

impl WordWeights {
    fn score(&self, held: &WordSet) -> f64 {
        let longer = f64::from(held.words) / self.mean_words;
        let count = |(word, count): &(u8, u8)| {
            let often = f64::from(*count) / f64::from(SAME);
            let worth = self.weights.get(usize::from(*word)).copied().unwrap_or_default();
            worth * bm25::tf_share(often, longer, K1, B)
        };
        held.counts.iter().map(count).sum()
    }

    /// Returns true if a text has every weighted word that any passage has.
    fn is_whole(&self, held: &WordSet) -> bool {
        let has = |word: usize| held.counts.iter().any(|(held, _)| usize::from(*held) == word);
        self.weights.iter().enumerate().all(|(word, worth)| *worth == 0.0 || has(word))
    }
}

impl WordSet {
    fn add_count(&mut self, word: u8, more: u8) {
        match self.counts.iter_mut().find(|(known, _)| *known == word) {
            Some((_, count)) => *count = count.saturating_add(more),
            None => self.counts.push((word, more)),
        }
    }

    fn merge(&mut self, other: &Self) {
        self.words += other.words;
        other.counts.iter().for_each(|(word, count)| self.add_count(*word, *count));
    }
}

/// Matches of the words of a query in a passage.
struct PassageWords {
    field: PassageField,
    ordinal: u32,
    is_first: bool,
    text: u64,
    held: WordSet,
    run: u32,
    has_phrases: bool,
}

impl PassageWords {
    fn new(query: &Query, passage: Passage<'_>) -> Self {
        pace::steps(1 + passage.text.len() / BYTES_OF_A_STEP);
        let mut held = WordSet::default();
        // For each word of the passage, the index of the query word that it equals.
        let mut row: Vec<Option<usize>> = Vec::new();
        visit_terms(passage.text, |term| {
            let found = query.match_term(term);
            if !term.whole {
                held.words += 1;
                row.push(found.filter(|found| found.same).map(|found| found.word));
            }
            let Some(found) = found else { return };
            if let (true, Ok(word)) = (query.is_ranked(found.word), u8::try_from(found.word)) {
                held.add_count(word, if found.same { SAME } else { BEGINS });
            }
        });
        let has = |phrase: &Vec<usize>| contains_phrase(&row, phrase);
        let Passage { field, ordinal, is_first, text } = passage;
        let text = if held.counts.is_empty() { 0 } else { text_hash(text) };
        let has_phrases = query.phrases().iter().all(has);
        let run = longest_run(&row, query.word_order());
        Self { field, ordinal, is_first, text, held, run, has_phrases }
    }
}

/// Returns a hash by which equal texts are recognized.
fn text_hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
