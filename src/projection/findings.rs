//! The most informative sentences of a session, as recorded: from steps, the agent's messages,
//! rejected approaches, open gaps and titles of sources; of each kind the best, bounded. No model:
//! a word or pair of words counts more the fewer sentences of the session contain it, so that
//! repeated phrases ("opened the next page") rank below unique ones. It must not depend on a
//! language beyond the ends of sentences and words; the same events give the same findings on every
//! machine.

use std::{borrow::Cow, collections::VecDeque};

use super::{
    body::StepBody,
    sentences::end_of_sentence,
    small_talk::{is_musing, is_narration, is_of_its_moment, is_small_talk},
};
use crate::{
    api::step::Confidence,
    event::{
        Position, push_bounded,
        text::{head, one_line},
    },
};

/// Items kept of each kind.
const KEPT_MAX: usize = 160;
/// Findings that are kept after they were taken back.
const TRIED_MAX: usize = 32;
/// Sentences that one step may bring: of its description, of its reasoning; and one message.
const OF_DESCRIPTION_MAX: usize = 3;
const OF_REASONING_MAX: usize = 1;
const OF_MESSAGE_MAX: usize = 2;
/// Approaches that one step may rule out here.
const OF_REJECTED_MAX: usize = 8;
/// Most sentences and bytes judged of one text: a longer text is judged by its beginning.
const SENTENCES_MAX: usize = 64;
const TEXT_BYTES_MAX: usize = 16 << 10;
/// Bytes of a line from which on it may be one that was broken at a width.
const WRAPPED_BYTES_MIN: usize = 50;
/// Characters kept of a sentence.
const CHARS_MAX: usize = 220;
/// Bytes of the pieces into which a longer sentence is cut.
const PIECE_BYTES: usize = 160;
/// Words and pairs by which a sentence is judged.
const WORDS_MAX: usize = 64;
/// Worthless words added to every sentence, so that a short one scores low, however rare its words
/// are.
const WORDS_AROUND: usize = 12;
/// Words and pairs that are counted apart; others share a count.
const VOCABULARY_NAMES: u32 = 1 << 14;
const VOCABULARY: usize = VOCABULARY_NAMES as usize;
/// Marks a word with a digit: a new number is expected, so its rarity counts less.
const NUMBER: u16 = 1 << 15;
/// Sentences per occurrence up to which a word counts as unique.
const UNIQUE_OF: u16 = 128;
/// Share of a rare word's worth that a rare number has, in percent.
const NUMBER_PERCENT: usize = 60;
/// Sentences after which all counts are halved: in a full vocabulary every word is common, and no
/// sentence ranks above another.
const SENTENCES_COUNTED: u16 = 1 << 14;
/// Score of a sentence of only new words.
const SCORE_MAX: usize = 1_000;

/// The source of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FoundIn {
    /// In the step of that ordinal.
    Step(usize),
    /// In the message at that position.
    At(Position),
    /// The item of that ordinal in its own list: of gaps, sources or rejected approaches.
    Listed(usize),
}

/// A hash of a text's words in 128 bits: enough to find repeats without the texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// A bit for each of its words.
    words: u64,
    /// A bit for each of its names and numbers.
    names: u64,
}

impl Signature {
    /// A signature of these bits: of words, and of names and numbers.
    #[must_use]
    pub fn new(words: u64, names: u64) -> Self {
        Self { words, names }
    }

    /// True if most words of both texts are the same.
    #[must_use]
    pub fn is_like(self, other: Self) -> bool {
        let shared = (self.words & other.words).count_ones();
        let either = (self.words | other.words).count_ones();
        either > 0 && 10 * shared >= 7 * either
    }

    /// True if every name and number of this text is also in the other.
    #[must_use]
    pub fn names_within(self, other: Self) -> bool {
        self.names & !other.names == 0
    }
}

/// A sentence worth remembering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its source.
    pub said: FoundIn,
    /// The sentence, on one line.
    pub text: Box<str>,
    /// Its score when it was last judged; at most some thousands.
    pub score: usize,
    /// Its place among the sentences of its step or message.
    pub order: u16,
    /// True if it says what the agent is about to do, applauds, asks, guesses or reports momentary
    /// progress: nothing is known by it.
    pub is_idle: bool,
    /// Its signature, to find repeats.
    pub signature: Signature,
    words: Box<[u16]>,
    percent: usize,
}

/// The best sentences of a session.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    found: FindingPool,
    ruled_out: FindingPool,
    gaps: FindingPool,
    sources: FindingPool,
    /// Findings that no longer hold, the latest last.
    tried: VecDeque<Finding>,
    counts: WordCounts,
    /// The best sentence of the latest step or message, with its score, until it is taken.
    latest: Option<(usize, Box<str>)>,
    /// Sentences at which all are judged anew: words that were rare may have become common.
    judged_again_at: u16,
}

impl Findings {
    /// Sentences of steps and messages, in no order.
    #[must_use]
    pub fn found(&self) -> &[Finding] {
        &self.found.all
    }

    /// Statements of the agent that a later one, or a person, took back; the newest 32, the latest
    /// last.
    pub fn tried(&self) -> impl DoubleEndedIterator<Item = &Finding> {
        self.tried.iter()
    }

    /// Approaches that were ruled out, in no order.
    #[must_use]
    pub fn ruled_out(&self) -> &[Finding] {
        &self.ruled_out.all
    }

    /// Gaps that are open, in no order.
    #[must_use]
    pub fn gaps(&self) -> &[Finding] {
        &self.gaps.all
    }

    /// Titles of sources, in no order.
    #[must_use]
    pub fn sources(&self) -> &[Finding] {
        &self.sources.all
    }

    /// Drops the findings of a superseded step, except its rejected approaches.
    pub(super) fn forget_step(&mut self, step: usize) {
        self.found.all.retain(|finding| finding.said != FoundIn::Step(step));
    }

    /// Drops a gap that was closed.
    pub(super) fn forget_gap(&mut self, gap: usize) {
        self.gaps.all.retain(|finding| finding.said != FoundIn::Listed(gap));
    }

    /// Folds a step; `rejected` are the approaches that it is the first to reject, with their
    /// ordinals.
    pub(super) fn fold_step(&mut self, step: usize, body: &StepBody, rejected: &[(usize, &str)]) {
        let description = sentences(&body.description, 0);
        let first = description.len();
        let reasoning = sentences(body.reasoning.as_deref().unwrap_or_default(), first);
        let rejected = rejected.iter().take(OF_REJECTED_MAX);
        let rejected: Vec<(usize, Sentence<'_>)> =
            rejected.filter_map(|(ordinal, text)| Some((*ordinal, as_sentence(text)?))).collect();
        self.count(description.iter().chain(&reasoning).chain(rejected.iter().map(|(_, one)| one)));
        let percent = weight(body);
        let description = self.counts.judge(percent, description);
        let reasoning = self.counts.judge(percent, reasoning);
        self.latest = best([&description, &reasoning]);
        let said = FoundIn::Step(step);
        self.found.offer(said, percent, description, OF_DESCRIPTION_MAX);
        self.found.offer(said, percent, reasoning, OF_REASONING_MAX);
        for (ordinal, one) in rejected {
            let judged = self.counts.judge(100, vec![one]);
            self.ruled_out.offer(FoundIn::Listed(ordinal), 100, judged, 1);
        }
    }

    /// Folds a message of the agent in.
    pub(super) fn fold_message(&mut self, at: Position, text: &str) {
        let text = unwrapped(text);
        let mut said = sentences(&text, 0);
        // A piece of a sentence says less than the sentence: it begins with one, or at a clause.
        said.retain(|one| one.begins && !is_small_talk(one.text));
        self.count(said.iter());
        let judged = self.counts.judge(100, said);
        self.latest = best([&judged]);
        self.found.offer(FoundIn::At(at), 100, judged, OF_MESSAGE_MAX);
    }

    /// Takes a statement of a message back: its findings were only tried.
    pub(super) fn take_back(&mut self, at: Position, statement: &str) {
        let statement = one_line(without_marker(statement), CHARS_MAX);
        let is_in = |one: &Finding| statement.contains(&*one.text) || one.text.contains(&statement);
        let all = &mut self.found.all;
        for one in all.extract_if(.., |one| one.said == FoundIn::At(at) && is_in(one)) {
            push_bounded(&mut self.tried, one, TRIED_MAX);
        }
    }

    /// Folds a text of several paragraphs in: of each its best sentences.
    pub(super) fn fold_text(&mut self, at: Position, text: &str) {
        let mut first = 0;
        for line in text.lines().take(SENTENCES_MAX * SENTENCES_MAX) {
            let said = sentences(line, first);
            first += said.len();
            self.count(said.iter());
            let judged = self.counts.judge(100, said);
            self.found.offer(FoundIn::At(at), 100, judged, OF_DESCRIPTION_MAX);
        }
    }

    /// Drops the findings of a message or text.
    pub(super) fn forget_text(&mut self, at: Position) {
        self.found.all.retain(|finding| finding.said != FoundIn::At(at));
    }

    /// The score of the best sentence of a text, by what the session said so far.
    #[must_use]
    pub fn worth(&self, text: &str) -> usize {
        let best = self.counts.judge(100, sentences(text, 0)).into_iter().next();
        best.map_or(0, |(score, _)| score)
    }

    /// Folds an open gap in, by its ordinal.
    pub(super) fn fold_gap(&mut self, gap: usize, text: &str) {
        let said: Vec<Sentence<'_>> = as_sentence(text).into_iter().collect();
        self.count(said.iter());
        let judged = self.counts.judge(100, said);
        self.gaps.offer(FoundIn::Listed(gap), 100, judged, 1);
    }

    /// Folds the title of a source in, by the source's ordinal.
    pub(super) fn fold_source(&mut self, source: usize, title: &str) {
        let said: Vec<Sentence<'_>> = as_sentence(title).into_iter().collect();
        self.count(said.iter());
        let judged = self.counts.judge(100, said);
        self.sources.offer(FoundIn::Listed(source), 100, judged, 1);
    }

    /// Takes the best sentence of the latest step or message, with its score.
    pub(super) fn take_latest(&mut self) -> Option<(usize, Box<str>)> {
        self.latest.take()
    }

    /// Counts the words of sentences before these are judged.
    fn count<'a, 't: 'a>(&mut self, sentences: impl Iterator<Item = &'a Sentence<'t>>) {
        for one in sentences {
            self.counts.add(&one.words);
        }
        if self.counts.sentences >= self.judged_again_at {
            self.judge_again();
        }
    }

    fn judge_again(&mut self) {
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
        self.judged_again_at = sentences.saturating_add(sentences / 8 + 1).min(SENTENCES_COUNTED);
    }

    pub(super) fn weight(&self) -> usize {
        let pools = [&self.found, &self.ruled_out, &self.gaps, &self.sources];
        let tried = self.tried.len() * (size_of::<Finding>() + CHARS_MAX);
        pools.iter().map(|pool| pool.weight()).sum::<usize>() + 2 * self.counts.of.len() + tried
    }
}

/// A sentence with its score.
type Judged<'a> = (usize, Sentence<'a>);

/// The best sentence of these lists, each with the best first; with its score.
fn best<const LISTS: usize>(lists: [&Vec<Judged<'_>>; LISTS]) -> Option<(usize, Box<str>)> {
    let firsts = lists.into_iter().filter_map(|judged| judged.first());
    let (score, one) = firsts.max_by_key(|(score, _)| *score)?;
    Some((*score, one_line(one.text, CHARS_MAX).into()))
}

/// The best sentences of a kind, in no order.
#[derive(Clone, Debug, Default)]
struct FindingPool {
    all: Vec<Finding>,
    /// Lowest score of a full pool when it was last computed: lower ones are rejected.
    least: usize,
}

impl FindingPool {
    /// Adds these sentences, which come best first, where they are better than those in the pool.
    fn offer(&mut self, said: FoundIn, percent: usize, judged: Vec<Judged<'_>>, taken_max: usize) {
        for (score, one) in judged.into_iter().take(taken_max) {
            let full = self.all.len() == KEPT_MAX;
            if full && score < self.least {
                continue;
            }
            let text: Box<str> = one_line(one.text, CHARS_MAX).into();
            if self.all.iter().any(|finding| finding.text == text) || full && !self.make_room(score)
            {
                continue;
            }
            let (order, signature, words) = (one.order, one.signature, one.words.into());
            let is_idle = is_narration(&text) || is_musing(&text) || is_of_its_moment(&text);
            let finding = Finding { said, text, score, order, is_idle, signature, words, percent };
            self.all.push(finding);
        }
    }

    /// Drops the lowest, the oldest of equals, if it is not better than the new one.
    fn make_room(&mut self, score: usize) -> bool {
        let places = self.all.iter().enumerate();
        let least = places.min_by_key(|(_, finding)| (finding.score, finding.said));
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
    /// By name; empty before the first sentence.
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

    /// The sentences with their scores, the best first, equals in order.
    fn judge<'a>(&self, percent: usize, sentences: Vec<Sentence<'a>>) -> Vec<Judged<'a>> {
        let score = |one: &Sentence<'a>| self.score(&one.words) * percent / 100;
        let mut judged: Vec<_> = sentences.into_iter().map(|one| (score(&one), one)).collect();
        judged.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        judged
    }

    /// The mean of the squared rarity of the words, reduced for few words; names and numbers count
    /// less. Squared, because a sentence of half-common words is worth much less than half.
    fn score(&self, words: &[u16]) -> usize {
        let most = quarters(self.sentences.saturating_add(1)).max(1);
        // A word that came once is a name more often than not: no rarer than one that came a few
        // times in a long session.
        let least = 1 + self.sentences / UNIQUE_OF;
        let rarity = |word: &u16| {
            let count = self.of.get(usize::from(*word & !NUMBER)).copied().unwrap_or(1).max(least);
            let rarity = most.saturating_sub(quarters(count));
            if *word & NUMBER == 0 { rarity } else { rarity * NUMBER_PERCENT / 100 }
        };
        let sum: usize = words.iter().map(|word| rarity(word).pow(2)).sum();
        sum * SCORE_MAX / (most * most * (words.len() + WORDS_AROUND))
    }
}

/// Weight of a step's sentences, in percent.
fn weight(body: &StepBody) -> usize {
    let sure = match body.confidence {
        Some(Confidence::High) => 110,
        Some(Confidence::Medium) => 102,
        Some(Confidence::Low) => 90,
        None => 100,
    };
    if body.is_revision || body.revises.is_some() { sure + 20 } else { sure }
}

/// Quarters of the binary logarithm: whole numbers, the same on every machine.
fn quarters(count: u16) -> usize {
    let count = u64::from(count).max(1);
    count.pow(4).ilog2() as usize
}

struct Sentence<'a> {
    text: &'a str,
    /// Its place among the sentences of its step or message.
    order: u16,
    /// True if it begins where a sentence or a clause does.
    begins: bool,
    /// Hashes of its different words and pairs of words.
    words: Vec<u16>,
    signature: Signature,
}

/// A text in which the lines of a paragraph that was broken at a width are joined.
fn unwrapped(text: &str) -> Cow<'_, str> {
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

/// A line without the marks of a list, a quotation or a heading before it, which say nothing.
fn without_marker(mut line: &str) -> &str {
    loop {
        let rest = line.trim_start_matches(['-', '*', '•', '#', '>']);
        // Two asterisks begin bold words.
        if rest.len() == line.len() || !rest.starts_with(' ') {
            return line;
        }
        line = rest.trim();
    }
}

/// A text as one sentence, if it has words.
fn as_sentence(text: &str) -> Option<Sentence<'_>> {
    let text = without_marker(text.trim());
    let (words, signature) = words(text);
    (!words.is_empty()).then_some(Sentence { text, order: 0, begins: true, words, signature })
}

/// The sentences of a text that have words, numbered from `first` on. Pieces of a long sentence
/// overlap by half, so that a short statement is whole in one.
fn sentences(text: &str, first: usize) -> Vec<Sentence<'_>> {
    let mut found: Vec<Sentence<'_>> = Vec::new();
    let mut rest = head(text, TEXT_BYTES_MAX);
    while !rest.is_empty() && found.len() < SENTENCES_MAX {
        let (mut sentence, after) = rest.split_at(end_of_sentence(rest, rest.len()));
        let mut begins = true;
        while sentence.len() > CHARS_MAX && found.len() < SENTENCES_MAX {
            let piece = sentence.get(..end_of_clause(sentence, PIECE_BYTES)).unwrap_or_default();
            found.extend(as_sentence(piece).map(|one| Sentence { begins, ..one }));
            let (before, after) = sentence.split_at(end_of_clause(sentence, PIECE_BYTES / 2));
            begins = before.trim_end().ends_with([';', ':']);
            sentence = after;
        }
        found.extend(as_sentence(sentence).map(|one| Sentence { begins, ..one }));
        rest = after;
    }
    for (order, one) in (u16::try_from(first).unwrap_or(u16::MAX)..).zip(&mut found) {
        one.order = order;
    }
    found
}

/// Marks after which a long sentence is cut, the best first. A full stop within a sentence is one
/// of an abbreviation.
const MARKS: &[u8] = b";:,";

/// End of a piece of about `bytes` bytes of a long sentence: after the best mark in its last third,
/// the last of equals; without a mark after a word.
fn end_of_clause(sentence: &str, bytes: usize) -> usize {
    let head = head(sentence, bytes);
    let rank = |end: &usize| {
        let before = end.checked_sub(2).and_then(|at| head.as_bytes().get(at));
        MARKS.iter().position(|mark| Some(mark) == before).unwrap_or(MARKS.len())
    };
    let spaces = head.bytes().enumerate().skip(2 * head.len() / 3).rev();
    let ends = spaces.filter(|(_, byte)| *byte == b' ').map(|(at, _)| at + 1);
    ends.min_by_key(rank).unwrap_or(head.len())
}

/// The different words and pairs of neighbours of a sentence, each by a short hash, and its
/// signature; a character of a script without spaces is a word.
fn words(sentence: &str) -> (Vec<u16>, Signature) {
    let mut found = ReadWords { hashes: Vec::with_capacity(WORDS_MAX), ..ReadWords::default() };
    let mut word: Option<ReadWord> = None;
    for character in sentence.chars() {
        let alone = is_unspaced(character);
        if alone || !character.is_alphanumeric() {
            found.end(&mut word);
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
            found.end(&mut word);
        }
    }
    found.end(&mut word);
    (found.hashes, found.signature)
}

struct ReadWord {
    hash: u32,
    /// True if it has a digit.
    is_number: bool,
    /// True if it begins with a capital within a sentence.
    is_name: bool,
}

struct ReadWords {
    hashes: Vec<u16>,
    signature: Signature,
    /// A Bloom filter of the hashes: most new ones are recognised by it.
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
    /// Ends the current word, if there is one.
    fn end(&mut self, word: &mut Option<ReadWord>) {
        let Some(ReadWord { hash, is_number, is_name }) = word.take() else { return };
        self.is_empty = false;
        let bit = 1 << ((hash ^ (hash >> 6)) % u64::BITS);
        let signed = match is_number || is_name {
            true => &mut self.signature.names,
            false => &mut self.signature.words,
        };
        *signed |= bit;
        if is_number {
            // A pair with a number is always new and counts like the number.
            self.push(hash, NUMBER);
            self.before = None;
            return;
        }
        self.push(hash, 0);
        if let Some(before) = self.before.replace(hash) {
            self.push(mix(before, hash), 0);
        }
    }

    fn push(&mut self, hash: u32, mark: u16) {
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

/// Han, kana, hangul and their neighbours.
fn is_unspaced(character: char) -> bool {
    ('\u{2e80}'..='\u{d7ff}').contains(&character) || character >= '\u{20000}'
}

/// Fowler, Noll and Vo's 1a, a character at a time.
const HASH_START: u32 = 0x811c_9dc5;

fn mix(hash: u32, next: u32) -> u32 {
    (hash ^ next).wrapping_mul(0x0100_0193)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_where_a_reader_ends_them() {
        for (text, expected) in [
            ("One. Two! Three? four", &["One.", "Two!", "Three?", "four"][..]),
            ("e.g. this stays. That not.", &["e.g. this stays.", "That not."]),
            ("- **Paid:** 6 EUR\n## Next\n> * a quote", &["**Paid:** 6 EUR", "Next", "a quote"]),
            ("... --- \n\n!", &[]),
        ] {
            let texts: Vec<&str> = sentences(text, 0).into_iter().map(|one| one.text).collect();
            assert_eq!(texts, expected, "{text:?}");
        }
    }

    #[test]
    fn a_short_statement_in_a_long_sentence_is_whole_in_one_of_its_pieces() {
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
    fn any_number_of_marks_stands_before_a_line() {
        assert_eq!(without_marker(&("- ".repeat(1 << 20) + "said")), "said");
    }

    fn sentences_of(text: &str) -> Vec<String> {
        sentences(text, 0).into_iter().map(|one| one.text.to_owned()).collect()
    }

    #[test]
    fn words_are_known_whatever_their_case_and_scripts_without_spaces_have_some() {
        assert_eq!(words("Órgano, de viento"), words("órgano de viento"));
        assert_eq!(words("a-b_c").0.len(), 5, "three words, two pairs");
        assert_eq!(words("漢字かな").0.len(), 7);
        assert_eq!(words(" \u{1} ,;").0, Vec::<u16>::new());
    }

    #[test]
    fn a_text_that_repeats_another_has_its_signature() {
        let of = |text| as_sentence(text).expect("words").signature;
        let told = of("The harbour wall at Varna is 42 metres long");
        let again = of("the harbour wall at Varna is 42 metres long, again");
        let other = of("the harbour wall at Burgas is 17 metres long");
        let unlike = of("Tickets are sold at the gate until noon");
        assert!(again.is_like(told) && again.names_within(told));
        assert!(other.is_like(told) && !other.names_within(told));
        assert!(!unlike.is_like(told));
    }
}
