//! The most informative sentences of a session, verbatim: from steps, messages of the agent,
//! rejected approaches, open gaps and titles of sources; the best of each kind, bounded. No model:
//! a word or pair of words counts more the fewer sentences contain it, so that repeated phrases
//! ("opened the next page") rank low. The same events give the same findings on every machine. It
//! must not depend on a language beyond the boundaries of sentences and words.

use std::borrow::Cow;

use super::{
    body::StepBody,
    sentences::end_of_sentence,
    small_talk::{is_momentary, is_musing, is_narration, is_small_talk},
};
use crate::{
    api::step::Confidence,
    event::{
        Position,
        text::{head, one_line},
    },
};

/// Most findings kept of each kind.
const KEPT_MAX: usize = 160;
/// Most sentences kept of one step's description, of its reasoning, and of one message.
const OF_DESCRIPTION_MAX: usize = 3;
const OF_REASONING_MAX: usize = 1;
const OF_MESSAGE_MAX: usize = 2;
/// Most rejected approaches kept of one step.
const OF_REJECTED_MAX: usize = 8;
/// Most sentences and bytes scored of one text; the rest is ignored.
const SENTENCES_MAX: usize = 64;
const TEXT_BYTES_MAX: usize = 16 << 10;
/// Least bytes of a line that may have been wrapped at a fixed width.
const WRAPPED_BYTES_MIN: usize = 50;
/// Most characters kept of a sentence.
const CHARS_MAX: usize = 220;
/// Bytes of the pieces into which a longer sentence is cut.
const PIECE_BYTES: usize = 160;
/// Most words and pairs by which a sentence is scored.
const WORDS_MAX: usize = 64;
/// Words without worth that are added to every sentence, so that a short one scores low even if its
/// words are rare.
const WORDS_AROUND: usize = 12;
/// Number of words and pairs counted separately; further ones share a count.
const VOCABULARY_NAMES: u32 = 1 << 14;
const VOCABULARY: usize = VOCABULARY_NAMES as usize;
/// Flag of a word with a digit: a new number is expected, so its rarity counts less.
const NUMBER: u16 = 1 << 15;
/// Number of sentences per occurrence up to which a word counts as unique.
const UNIQUE_OF: u16 = 128;
/// Worth of a rare number in percent of a rare word's.
const NUMBER_PERCENT: usize = 60;
/// Number of sentences after which all counts are halved: in a full vocabulary every word is
/// common, and all sentences rank equal.
const SENTENCES_COUNTED: u16 = 1 << 14;
/// Score of a sentence that has only new words.
const SCORE_MAX: usize = 1_000;

/// Source of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingSource {
    /// A step, by its ordinal.
    Step(usize),
    /// A message, by its position.
    At(Position),
    /// A gap, source or rejected approach, by its ordinal in that list.
    Listed(usize),
}

/// A 128-bit hash of a text's words, by which repeats are found without the texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// One bit for each word.
    words: u64,
    /// One bit for each name and number.
    names: u64,
}

impl Signature {
    /// Creates a signature from the bits of words, and of names and numbers.
    #[must_use]
    pub fn new(words: u64, names: u64) -> Self {
        Self { words, names }
    }

    /// Returns true if both texts have most of their words in common.
    #[must_use]
    pub fn is_similar(self, other: Self) -> bool {
        let shared = (self.words & other.words).count_ones();
        let either = (self.words | other.words).count_ones();
        either > 0 && 10 * shared >= 7 * either
    }

    /// Returns true if the other text has every name and number of this one.
    #[must_use]
    pub fn names_are_subset_of(self, other: Self) -> bool {
        self.names & !other.names == 0
    }
}

/// A sentence that is more informative than most of its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Source of the sentence.
    pub source: FindingSource,
    /// Text on one line.
    pub text: Box<str>,
    /// Latest score; at most a few thousand.
    pub score: usize,
    /// Ordinal among the sentences of its step or message.
    pub order: u16,
    /// True if it announces, applauds, asks, guesses or reports momentary progress, and so adds no
    /// knowledge.
    pub is_idle: bool,
    /// Signature, to find repeats.
    pub signature: Signature,
    words: Box<[u16]>,
    percent: usize,
}

/// Best sentences of a session.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    found: FindingPool,
    ruled_out: FindingPool,
    gaps: FindingPool,
    sources: FindingPool,
    counts: WordCounts,
    /// Best sentence of the latest step or message, with its score, until it is taken.
    latest: Option<(usize, Box<str>)>,
    /// Number of sentences at which all findings are scored again, by the counts at that time.
    rescored_at: u16,
}

impl Findings {
    /// Returns the sentences of steps and messages, unordered.
    #[must_use]
    pub fn sentences(&self) -> &[Finding] {
        &self.found.all
    }

    /// Returns the approaches that were ruled out, unordered.
    #[must_use]
    pub fn rejected_approaches(&self) -> &[Finding] {
        &self.ruled_out.all
    }

    /// Returns the open gaps, unordered.
    #[must_use]
    pub fn gaps(&self) -> &[Finding] {
        &self.gaps.all
    }

    /// Returns the titles of sources, unordered.
    #[must_use]
    pub fn sources(&self) -> &[Finding] {
        &self.sources.all
    }

    /// Drops the findings of a superseded step, except its rejected approaches.
    pub(super) fn remove_step(&mut self, step: usize) {
        self.found.all.retain(|finding| finding.source != FindingSource::Step(step));
    }

    /// Drops a closed gap.
    pub(super) fn remove_gap(&mut self, gap: usize) {
        self.gaps.all.retain(|finding| finding.source != FindingSource::Listed(gap));
    }

    /// Folds a step; `rejected` are the approaches that it is the first to reject, with their
    /// ordinals.
    pub(super) fn fold_step(&mut self, step: usize, body: &StepBody, rejected: &[(usize, &str)]) {
        let description = split_sentences(&body.description, 0);
        let first = description.len();
        let reasoning = split_sentences(body.reasoning.as_deref().unwrap_or_default(), first);
        let rejected = rejected.iter().take(OF_REJECTED_MAX);
        let rejected: Vec<(usize, Sentence<'_>)> =
            rejected.filter_map(|(ordinal, text)| Some((*ordinal, to_sentence(text)?))).collect();
        self.count_words(
            description.iter().chain(&reasoning).chain(rejected.iter().map(|(_, one)| one)),
        );
        let percent = step_weight(body);
        let description = self.counts.score_sorted(percent, description);
        let reasoning = self.counts.score_sorted(percent, reasoning);
        self.latest = best_sentence([&description, &reasoning]);
        let said = FindingSource::Step(step);
        self.found.add_best(said, percent, description, OF_DESCRIPTION_MAX);
        self.found.add_best(said, percent, reasoning, OF_REASONING_MAX);
        for (ordinal, one) in rejected {
            let judged = self.counts.score_sorted(100, vec![one]);
            self.ruled_out.add_best(FindingSource::Listed(ordinal), 100, judged, 1);
        }
    }

    /// Folds a message of the agent.
    pub(super) fn fold_message(&mut self, at: Position, text: &str) {
        let text = join_wrapped_lines(text);
        let mut said = split_sentences(&text, 0);
        // A piece of a sentence must begin with the sentence or at a clause.
        said.retain(|one| one.begins && !is_small_talk(one.text));
        self.count_words(said.iter());
        let judged = self.counts.score_sorted(100, said);
        self.latest = best_sentence([&judged]);
        self.found.add_best(FindingSource::At(at), 100, judged, OF_MESSAGE_MAX);
    }

    /// Removes the findings of a withdrawn statement.
    pub(super) fn withdraw(&mut self, at: Position, statement: &str) {
        let statement = one_line(strip_marker(statement), CHARS_MAX);
        let is_in = |one: &Finding| statement.contains(&*one.text) || one.text.contains(&statement);
        self.found.all.retain(|one| one.source != FindingSource::At(at) || !is_in(one));
    }

    /// Folds a text of several paragraphs; each paragraph adds its best sentences.
    pub(super) fn fold_text(&mut self, at: Position, text: &str) {
        let mut first = 0;
        for line in text.lines().take(SENTENCES_MAX * SENTENCES_MAX) {
            let said = split_sentences(line, first);
            first += said.len();
            self.count_words(said.iter());
            let judged = self.counts.score_sorted(100, said);
            self.found.add_best(FindingSource::At(at), 100, judged, OF_DESCRIPTION_MAX);
        }
    }

    /// Drops the findings of a message or text.
    pub(super) fn remove_text(&mut self, at: Position) {
        self.found.all.retain(|finding| finding.source != FindingSource::At(at));
    }

    /// Returns the score of a text's best sentence, given the session so far.
    #[must_use]
    pub fn worth(&self, text: &str) -> usize {
        let best = self.counts.score_sorted(100, split_sentences(text, 0)).into_iter().next();
        best.map_or(0, |(score, _)| score)
    }

    /// Folds an open gap, by its ordinal.
    pub(super) fn fold_gap(&mut self, gap: usize, text: &str) {
        let said: Vec<Sentence<'_>> = to_sentence(text).into_iter().collect();
        self.count_words(said.iter());
        let judged = self.counts.score_sorted(100, said);
        self.gaps.add_best(FindingSource::Listed(gap), 100, judged, 1);
    }

    /// Folds the title of a source, by the source's ordinal.
    pub(super) fn fold_source(&mut self, source: usize, title: &str) {
        let said: Vec<Sentence<'_>> = to_sentence(title).into_iter().collect();
        self.count_words(said.iter());
        let judged = self.counts.score_sorted(100, said);
        self.sources.add_best(FindingSource::Listed(source), 100, judged, 1);
    }

    /// Removes and returns the best sentence of the latest step or message, with its score.
    pub(super) fn take_latest(&mut self) -> Option<(usize, Box<str>)> {
        self.latest.take()
    }

    /// Counts the words of sentences before they are scored.
    fn count_words<'a, 't: 'a>(&mut self, sentences: impl Iterator<Item = &'a Sentence<'t>>) {
        for one in sentences {
            self.counts.add(&one.words);
        }
        if self.counts.sentences >= self.rescored_at {
            self.rescore();
        }
    }

    fn rescore(&mut self) {
        if self.counts.sentences >= SENTENCES_COUNTED {
            self.counts.halve();
        }
        for pool in [&mut self.found, &mut self.ruled_out, &mut self.gaps, &mut self.sources] {
            pool.least = 0;
            for finding in &mut pool.all {
                finding.score = self.counts.score(&finding.words) * finding.percent / 100;
            }
        }
        let sentences = self.counts.sentences;
        self.rescored_at = sentences.saturating_add(sentences / 8 + 1).min(SENTENCES_COUNTED);
    }

    pub(super) fn weight(&self) -> usize {
        let pools = [&self.found, &self.ruled_out, &self.gaps, &self.sources];
        pools.iter().map(|pool| pool.weight()).sum::<usize>() + 2 * self.counts.of.len()
    }
}

type ScoredSentence<'a> = (usize, Sentence<'a>);

/// Returns the best sentence of lists that have their best first, with its score.
fn best_sentence<const LISTS: usize>(
    lists: [&Vec<ScoredSentence<'_>>; LISTS],
) -> Option<(usize, Box<str>)> {
    let firsts = lists.into_iter().filter_map(|judged| judged.first());
    let (score, one) = firsts.max_by_key(|(score, _)| *score)?;
    Some((*score, one_line(one.text, CHARS_MAX).into()))
}

/// Best sentences of a kind, unordered.
#[derive(Clone, Debug, Default)]
struct FindingPool {
    all: Vec<Finding>,
    /// Lowest score of a full pool when it was last computed; lower ones are rejected.
    least: usize,
}

impl FindingPool {
    /// Adds sentences, best first, unless the pool is full of better ones.
    fn add_best(
        &mut self,
        source: FindingSource,
        percent: usize,
        judged: Vec<ScoredSentence<'_>>,
        taken_max: usize,
    ) {
        for (score, one) in judged.into_iter().take(taken_max) {
            let full = self.all.len() == KEPT_MAX;
            if full && score < self.least {
                continue;
            }
            let text: Box<str> = one_line(one.text, CHARS_MAX).into();
            if self.all.iter().any(|finding| finding.text == text)
                || full && !self.evict_lowest(score)
            {
                continue;
            }
            let (order, signature, words) = (one.order, one.signature, one.words.into());
            let is_idle = is_narration(&text) || is_musing(&text) || is_momentary(&text);
            let finding =
                Finding { source, text, score, order, is_idle, signature, words, percent };
            self.all.push(finding);
        }
    }

    /// Drops the lowest finding, the oldest of equals, unless it is better than the new one.
    fn evict_lowest(&mut self, score: usize) -> bool {
        let candidates = self.all.iter().enumerate();
        let least = candidates.min_by_key(|(_, finding)| (finding.score, finding.source));
        let Some((at, least)) = least else { return false };
        self.least = least.score;
        let better = self.least <= score;
        if better {
            self.all.swap_remove(at);
        }
        better
    }

    fn weight(&self) -> usize {
        let texts: usize = self.all.iter().map(|one| one.text.len() + 2 * one.words.len()).sum();
        texts + self.all.len() * size_of::<Finding>()
    }
}

/// Number of sentences with each word or pair of words.
#[derive(Clone, Debug, Default)]
struct WordCounts {
    /// Counts by word hash; empty before the first sentence.
    of: Vec<u16>,
    sentences: u16,
}

impl WordCounts {
    fn add(&mut self, words: &[u16]) {
        self.of.resize(VOCABULARY, 0);
        self.sentences = self.sentences.saturating_add(1);
        for word in words {
            if let Some(count) = self.of.get_mut(usize::from(*word & !NUMBER)) {
                *count = count.saturating_add(1);
            }
        }
    }

    fn halve(&mut self) {
        self.sentences /= 2;
        self.of.iter_mut().for_each(|count| *count /= 2);
    }

    /// Scores sentences and sorts them, best first; equals keep their order.
    fn score_sorted<'a>(
        &self,
        percent: usize,
        sentences: Vec<Sentence<'a>>,
    ) -> Vec<ScoredSentence<'a>> {
        let score = |one: &Sentence<'a>| self.score(&one.words) * percent / 100;
        let mut judged: Vec<_> = sentences.into_iter().map(|one| (score(&one), one)).collect();
        judged.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        judged
    }

    /// Returns the mean of the squared rarity of the words, reduced for few words, names and
    /// numbers. Squared, because a sentence of half-common words is worth much less than half.
    fn score(&self, words: &[u16]) -> usize {
        let most = log2_quarters(self.sentences.saturating_add(1)).max(1);
        // A word that occurs once is often a name: it counts no rarer than one that occurs a few
        // times in a long session.
        let least = 1 + self.sentences / UNIQUE_OF;
        let rarity = |word: &u16| {
            let count = self.of.get(usize::from(*word & !NUMBER)).copied().unwrap_or(1).max(least);
            let rarity = most.saturating_sub(log2_quarters(count));
            if *word & NUMBER == 0 { rarity } else { rarity * NUMBER_PERCENT / 100 }
        };
        let sum: usize = words.iter().map(|word| rarity(word).pow(2)).sum();
        sum * SCORE_MAX / (most * most * (words.len() + WORDS_AROUND))
    }
}

/// Returns the weight of a step's sentences, in percent.
fn step_weight(body: &StepBody) -> usize {
    let sure = match body.confidence {
        Some(Confidence::High) => 110,
        Some(Confidence::Medium) => 102,
        Some(Confidence::Low) => 90,
        None => 100,
    };
    if body.is_revision || body.revises.is_some() { sure + 20 } else { sure }
}

/// Returns the binary logarithm in quarters: an integer, equal on every machine.
fn log2_quarters(count: u16) -> usize {
    let count = u64::from(count).max(1);
    count.pow(4).ilog2() as usize
}

struct Sentence<'a> {
    text: &'a str,
    /// Ordinal among the sentences of its step or message.
    order: u16,
    /// True if it begins at the start of a sentence or clause.
    begins: bool,
    /// Hashes of its distinct words and pairs of words.
    words: Vec<u16>,
    signature: Signature,
}

/// Joins the lines of paragraphs that were wrapped at a fixed width.
fn join_wrapped_lines(text: &str) -> Cow<'_, str> {
    let mut made = String::new();
    let mut at = 0;
    for (end, _) in text.match_indices('\n') {
        let before = text.get(at..end).unwrap_or_default();
        let next = text.get(end + 1..).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        let is_broken = line.len() >= WRAPPED_BYTES_MIN
            && line.ends_with(|c: char| c.is_alphanumeric() || matches!(c, ',' | ')' | '`'))
            && next.starts_with(char::is_lowercase);
        if is_broken {
            made.push_str(before);
            made.push(' ');
            at = end + 1;
        }
    }
    if made.is_empty() {
        return Cow::Borrowed(text);
    }
    made.push_str(text.get(at..).unwrap_or_default());
    Cow::Owned(made)
}

/// Strips the marks of a list, quotation or heading from a line.
fn strip_marker(mut line: &str) -> &str {
    loop {
        let rest = line.trim_start_matches(['-', '*', '•', '#', '>']);
        // Two asterisks begin bold text.
        if rest.len() == line.len() || !rest.starts_with(' ') {
            return line;
        }
        line = rest.trim();
    }
}

/// Returns a text as one sentence; `None` if it has no words.
fn to_sentence(text: &str) -> Option<Sentence<'_>> {
    let text = strip_marker(text.trim());
    let (words, signature) = hash_words(text);
    (!words.is_empty()).then_some(Sentence { text, order: 0, begins: true, words, signature })
}

/// Returns the sentences of a text that have words, numbered from `first`. Pieces of a long
/// sentence overlap by half, so that one of them has a short statement in full.
fn split_sentences(text: &str, first: usize) -> Vec<Sentence<'_>> {
    let mut found: Vec<Sentence<'_>> = Vec::new();
    let mut rest = head(text, TEXT_BYTES_MAX);
    while !rest.is_empty() && found.len() < SENTENCES_MAX {
        let (mut sentence, after) = rest.split_at(end_of_sentence(rest, rest.len()));
        let mut begins = true;
        while sentence.len() > CHARS_MAX && found.len() < SENTENCES_MAX {
            let piece = sentence.get(..find_clause_end(sentence, PIECE_BYTES)).unwrap_or_default();
            found.extend(to_sentence(piece).map(|one| Sentence { begins, ..one }));
            let (before, after) = sentence.split_at(find_clause_end(sentence, PIECE_BYTES / 2));
            begins = before.trim_end().ends_with([';', ':']);
            sentence = after;
        }
        found.extend(to_sentence(sentence).map(|one| Sentence { begins, ..one }));
        rest = after;
    }
    for (order, one) in (u16::try_from(first).unwrap_or(u16::MAX)..).zip(&mut found) {
        one.order = order;
    }
    found
}

/// Marks after which a long sentence is cut, best first. A full stop inside a sentence belongs to
/// an abbreviation.
const MARKS: &[u8] = b";:,";

/// Returns the end of a piece of about `bytes` bytes: after the best mark in its last third, the
/// last of equals; without a mark after a word.
fn find_clause_end(sentence: &str, bytes: usize) -> usize {
    let head = head(sentence, bytes);
    let rank = |end: &usize| {
        let before = end.checked_sub(2).and_then(|at| head.as_bytes().get(at));
        MARKS.iter().position(|mark| Some(mark) == before).unwrap_or(MARKS.len())
    };
    let spaces = head.bytes().enumerate().skip(2 * head.len() / 3).rev();
    let ends = spaces.filter(|(_, byte)| *byte == b' ').map(|(at, _)| at + 1);
    ends.min_by_key(rank).unwrap_or(head.len())
}

/// Returns short hashes of a sentence's distinct words and pairs of neighbours, and its signature;
/// in a script without spaces each character is a word.
fn hash_words(sentence: &str) -> (Vec<u16>, Signature) {
    let mut found = ReadWords { hashes: Vec::with_capacity(WORDS_MAX), ..ReadWords::default() };
    let mut word: Option<ReadWord> = None;
    for character in sentence.chars() {
        let alone = is_unspaced(character);
        if alone || !character.is_alphanumeric() {
            found.finish_word(&mut word);
            if found.hashes.len() == WORDS_MAX {
                break;
            }
        }
        if character.is_alphanumeric() {
            let first = word.is_none();
            let word =
                word.get_or_insert(ReadWord { hash: HASH_START, is_number: false, is_name: false });
            word.is_number |= character.is_numeric();
            word.is_name |= first && !found.is_empty && character.is_uppercase();
            word.hash = match character.is_ascii() {
                true => mix(word.hash, u32::from(character.to_ascii_lowercase())),
                false => {
                    character.to_lowercase().fold(word.hash, |hash, c| mix(hash, u32::from(c)))
                }
            };
        }
        if alone {
            found.finish_word(&mut word);
        }
    }
    found.finish_word(&mut word);
    (found.hashes, found.signature)
}

struct ReadWord {
    hash: u32,
    /// True if the word has a digit.
    is_number: bool,
    /// True if it begins with a capital letter within a sentence.
    is_name: bool,
}

struct ReadWords {
    hashes: Vec<u16>,
    signature: Signature,
    /// Bloom filter of the hashes, by which most new ones are recognised.
    seen: u64,
    before: Option<u32>,
    is_empty: bool,
}

impl Default for ReadWords {
    fn default() -> Self {
        let signature = Signature::default();
        Self { hashes: Vec::new(), signature, seen: 0, before: None, is_empty: true }
    }
}

impl ReadWords {
    /// Ends the current word, if one is open.
    fn finish_word(&mut self, word: &mut Option<ReadWord>) {
        let Some(ReadWord { hash, is_number, is_name }) = word.take() else { return };
        self.is_empty = false;
        let bit = 1 << ((hash ^ (hash >> 6)) % u64::BITS);
        let signed = match is_number || is_name {
            true => &mut self.signature.names,
            false => &mut self.signature.words,
        };
        *signed |= bit;
        if is_number {
            // A pair with a number is always new and counts the same as the number.
            self.push_hash(hash, NUMBER);
            self.before = None;
            return;
        }
        self.push_hash(hash, 0);
        if let Some(before) = self.before.replace(hash) {
            self.push_hash(mix(before, hash), 0);
        }
    }

    fn push_hash(&mut self, hash: u32, mark: u16) {
        let folded = (hash ^ (hash >> 14)) % VOCABULARY_NAMES;
        let name = u16::try_from(folded).unwrap_or(u16::MAX >> 2) | mark;
        let bit = 1 << (folded % u64::BITS);
        let known = self.seen & bit != 0 && self.hashes.contains(&name);
        if self.hashes.len() < WORDS_MAX && !known {
            self.seen |= bit;
            self.hashes.push(name);
        }
    }
}

/// Returns true for Han, kana, hangul and related scripts.
fn is_unspaced(character: char) -> bool {
    ('\u{2e80}'..='\u{d7ff}').contains(&character) || character >= '\u{20000}'
}

/// Initial value of FNV-1a, here applied per character.
const HASH_START: u32 = 0x811c_9dc5;

fn mix(hash: u32, next: u32) -> u32 {
    (hash ^ next).wrapping_mul(0x0100_0193)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_split_at_sentence_ends_and_list_marks_are_stripped() {
        for (text, expected) in [
            ("One. Two! Three? four", &["One.", "Two!", "Three?", "four"][..]),
            ("e.g. this stays. That not.", &["e.g. this stays.", "That not."]),
            ("- **Paid:** 6 EUR\n## Next\n> * a quote", &["**Paid:** 6 EUR", "Next", "a quote"]),
            ("... --- \n\n!", &[]),
        ] {
            let texts: Vec<&str> =
                split_sentences(text, 0).into_iter().map(|one| one.text).collect();
            assert_eq!(texts, expected, "{text:?}");
        }
    }

    #[test]
    fn one_piece_of_a_long_sentence_has_each_short_statement_in_full() {
        let words: Vec<String> = (0..200).map(|n| format!("word{n}")).collect();
        let pieces = sentences_of(&words.join(" "));
        assert!(pieces.iter().all(|piece| piece.len() <= PIECE_BYTES), "{pieces:?}");
        for few in words.windows(7) {
            let few = few.join(" ");
            assert!(pieces.iter().any(|piece| piece.contains(&few)), "{few}");
        }
        let wide = sentences_of(&"é".repeat(2_000));
        assert!(!wide.is_empty() && wide.iter().all(|piece| piece.len() <= PIECE_BYTES));
    }

    #[test]
    fn any_number_of_list_marks_is_stripped_from_a_line() {
        assert_eq!(strip_marker(&("- ".repeat(1 << 20) + "said")), "said");
    }

    fn sentences_of(text: &str) -> Vec<String> {
        split_sentences(text, 0).into_iter().map(|one| one.text.to_owned()).collect()
    }

    #[test]
    fn words_ignore_case_and_unspaced_scripts_have_one_per_character() {
        assert_eq!(hash_words("Órgano, de viento"), hash_words("órgano de viento"));
        assert_eq!(hash_words("a-b_c").0.len(), 5, "three words, two pairs");
        assert_eq!(hash_words("漢字かな").0.len(), 7);
        assert_eq!(hash_words(" \u{1} ,;").0, Vec::<u16>::new());
    }

    #[test]
    fn a_repeated_text_has_a_similar_signature() {
        let of = |text| to_sentence(text).expect("words").signature;
        let told = of("The harbour wall at Varna is 42 metres long");
        let again = of("the harbour wall at Varna is 42 metres long, again");
        let other = of("the harbour wall at Burgas is 17 metres long");
        let unlike = of("Tickets are sold at the gate until noon");
        assert!(again.is_similar(told) && again.names_are_subset_of(told));
        assert!(other.is_similar(told) && !other.names_are_subset_of(told));
        assert!(!unlike.is_similar(told));
    }
}
