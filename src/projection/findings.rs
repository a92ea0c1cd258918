//! What a session found and ruled out, in its own sentences: those that say most of every step, and
//! of them the best, bounded. No model: words and pairs of words tell the more the fewer of the
//! session's sentences have them, so that what recurs in every step ("opened the next page") yields
//! to what was said once. It must not know a language beyond where sentences and words end; the
//! same steps give the same findings on every machine.

use super::{
    body::{Confidence, StepBody},
    text::one_line,
};

/// Sentences remembered, and approaches that were ruled out.
const FOUND_MAX: usize = 96;
const RULED_OUT_MAX: usize = 48;
/// Sentences a step may bring: of its description, of its reasoning; approaches it may.
const OF_DESCRIPTION_MAX: usize = 2;
const OF_REASONING_MAX: usize = 1;
const OF_REJECTED_MAX: usize = 8;
/// Sentences looked at in one text: a longer text is judged by its beginning.
const SENTENCES_MAX: usize = 64;
/// Characters kept of a sentence.
const CHARS_MAX: usize = 180;
/// Words and pairs a sentence is judged by.
const WORDS_MAX: usize = 64;
/// Words of no worth every sentence is taken to have: a short one tells little, however rare.
const WORDS_AROUND: usize = 8;
/// Words and pairs counted apart; others are counted with one of them.
const VOCABULARY_NAMES: u32 = 1 << 14;
const VOCABULARY: usize = VOCABULARY_NAMES as usize;
/// Sentences after which all counts are halved: a vocabulary that is full tells nothing apart.
const SENTENCES_COUNTED: u16 = 1 << 14;
/// Score of a sentence whose words are all new.
const SCORE_MAX: usize = 1_000;

/// A sentence worth remembering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Ordinal of the step that says it.
    pub step: usize,
    /// The sentence, on one line.
    pub text: Box<str>,
    /// How much it says, as of when it was last judged; at most some thousands.
    pub score: usize,
    words: Box<[u16]>,
    percent: usize,
}

/// The sentences of a session that say most.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    found: Pool,
    ruled_out: Pool,
    counts: Counts,
    /// Sentences at which all are judged anew: words that were rare may have become common.
    judged_again_at: u16,
}

impl Findings {
    /// Sentences of descriptions and reasons, in no order.
    pub(super) fn found(&self) -> &[Finding] {
        &self.found.all
    }

    /// Approaches that were ruled out, in no order.
    pub(super) fn ruled_out(&self) -> &[Finding] {
        &self.ruled_out.all
    }

    /// What a superseded step says is not found any more; what it ruled out stays so.
    pub(super) fn forget(&mut self, step: usize) {
        self.found.all.retain(|finding| finding.step != step);
    }

    pub(super) fn fold(&mut self, step: usize, body: &StepBody) {
        let description = sentences(&body.description);
        let reasoning = sentences(body.reasoning.as_deref().unwrap_or_default());
        let rejected: Vec<Sentence<'_>> =
            body.rejected.iter().filter_map(|one| whole(one)).collect();
        for one in description.iter().chain(&reasoning).chain(&rejected) {
            self.counts.add(&one.words);
        }
        if self.counts.sentences >= self.judged_again_at {
            self.judge_again();
        }
        let percent = weight(body);
        let Self { found, ruled_out, counts, .. } = self;
        found.offer(counts, step, percent, description, OF_DESCRIPTION_MAX, FOUND_MAX);
        found.offer(counts, step, percent, reasoning, OF_REASONING_MAX, FOUND_MAX);
        ruled_out.offer(counts, step, 100, rejected, OF_REJECTED_MAX, RULED_OUT_MAX);
    }

    fn judge_again(&mut self) {
        if self.counts.sentences >= SENTENCES_COUNTED {
            self.counts.halve();
        }
        for pool in [&mut self.found, &mut self.ruled_out] {
            pool.least = 0;
            for finding in &mut pool.all {
                finding.score = self.counts.score(&finding.words) * finding.percent / 100;
            }
        }
        let sentences = self.counts.sentences;
        self.judged_again_at = sentences.saturating_add(sentences / 8 + 1).min(SENTENCES_COUNTED);
    }

    pub(super) fn weight(&self) -> usize {
        self.found.weight() + self.ruled_out.weight() + 2 * self.counts.of.len()
    }
}

/// The best sentences of a kind, in no order.
#[derive(Clone, Debug, Default)]
struct Pool {
    all: Vec<Finding>,
    /// Score of the least of a full pool when that was last looked at: what is below stays out.
    least: usize,
}

impl Pool {
    /// Takes the best of these sentences in, where they are better than what there is.
    fn offer(
        &mut self,
        counts: &Counts,
        step: usize,
        percent: usize,
        sentences: Vec<Sentence<'_>>,
        of_step_max: usize,
        max: usize,
    ) {
        let mut judged: Vec<(usize, Sentence<'_>)> = Vec::new();
        for one in sentences {
            judged.push((counts.score(&one.words) * percent / 100, one));
        }
        // A stable sort: of equals the first said comes first.
        judged.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        for (score, one) in judged.into_iter().take(of_step_max) {
            let full = self.all.len() == max;
            if full && score < self.least {
                continue;
            }
            let text: Box<str> = one_line(one.text, CHARS_MAX).into();
            if self.all.iter().any(|finding| finding.text == text) || full && !self.make_room(score)
            {
                continue;
            }
            self.all.push(Finding { step, text, score, words: one.words.into(), percent });
        }
    }

    /// Drops the least of all, the oldest of equals, if it is no better than the newcomer.
    fn make_room(&mut self, score: usize) -> bool {
        let places = self.all.iter().enumerate();
        let least = places.min_by_key(|(_, finding)| (finding.score, finding.step));
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

/// How many sentences have a word or a pair of words.
#[derive(Clone, Debug, Default)]
struct Counts {
    /// By name; empty before the first sentence.
    of: Vec<u16>,
    sentences: u16,
}

impl Counts {
    fn add(&mut self, words: &[u16]) {
        self.of.resize(VOCABULARY, 0);
        self.sentences = self.sentences.saturating_add(1);
        for word in words {
            if let Some(count) = self.of.get_mut(usize::from(*word)) {
                *count = count.saturating_add(1);
            }
        }
    }

    fn halve(&mut self) {
        self.sentences /= 2;
        self.of.iter_mut().for_each(|count| *count /= 2);
    }

    /// The mean rarity of the words, shrunk for the few.
    fn score(&self, words: &[u16]) -> usize {
        let most = quarters(self.sentences.saturating_add(1)).max(1);
        let count = |word: &u16| self.of.get(usize::from(*word)).copied().unwrap_or(1);
        let rarity = |word: &u16| most.saturating_sub(quarters(count(word)));
        let sum: usize = words.iter().map(rarity).sum();
        sum * SCORE_MAX / (most * (words.len() + WORDS_AROUND))
    }
}

/// How far a step's sentences can be relied on, in percent.
fn weight(body: &StepBody) -> usize {
    let sure = match body.confidence {
        Some(Confidence::High) => 130,
        Some(Confidence::Medium) => 105,
        Some(Confidence::Low) => 80,
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
    /// Names of its different words and pairs of words.
    words: Vec<u16>,
}

/// A text as one sentence, if it has words.
fn whole(text: &str) -> Option<Sentence<'_>> {
    let words = words(text);
    (!words.is_empty()).then(|| Sentence { text: text.trim(), words })
}

/// The sentences of a text that have words.
fn sentences(text: &str) -> Vec<Sentence<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() && found.len() < SENTENCES_MAX {
        let end = end_of_sentence(rest);
        let (sentence, after) = rest.split_at(end);
        found.extend(whole(sentence));
        rest = after;
    }
    found
}

/// Where the first sentence ends: at a new line, after a full stop that only ever is one, or after
/// one that is followed by a space and no small letter.
fn end_of_sentence(text: &str) -> usize {
    // Bytes are looked at, not characters: most begin none of the marks.
    for (at, byte) in text.bytes().enumerate() {
        let mark = match byte {
            b'\n' => return at + 1,
            b'.' | b'!' | b'?' => 1,
            0xe3 | 0xef => 3,
            _ => continue,
        };
        let rest = text.get(at + mark..).unwrap_or_default();
        if mark == 3 {
            if matches!(text.get(at..at + mark), Some("。" | "！" | "？")) {
                return at + mark;
            }
        } else if rest.starts_with(char::is_whitespace)
            && !rest.trim_start().starts_with(char::is_lowercase)
        {
            return at + mark;
        }
    }
    text.len()
}

/// The different words and pairs of neighbours of a sentence, each by a small name; a character of
/// a script without spaces is a word.
fn words(sentence: &str) -> Vec<u16> {
    let mut found = Names { names: Vec::with_capacity(WORDS_MAX), seen: 0, before: None };
    let mut word = None;
    for character in sentence.chars() {
        let alone = stands_alone(character);
        if alone || !character.is_alphanumeric() {
            found.end(&mut word);
            if found.names.len() == WORDS_MAX {
                break;
            }
        }
        if character.is_alphanumeric() {
            let hash = word.unwrap_or(HASH_START);
            word = Some(match character.is_ascii() {
                true => mix(hash, u32::from(character.to_ascii_lowercase())),
                false => character.to_lowercase().fold(hash, |hash, c| mix(hash, u32::from(c))),
            });
        }
        if alone {
            found.end(&mut word);
        }
    }
    found.end(&mut word);
    found.names
}

struct Names {
    names: Vec<u16>,
    /// A bit for the names that share it: most new ones are known to be new by it.
    seen: u64,
    before: Option<u32>,
}

impl Names {
    /// A word ends, if there is one.
    fn end(&mut self, word: &mut Option<u32>) {
        let Some(hash) = word.take() else { return };
        self.push(hash);
        if let Some(before) = self.before.replace(hash) {
            self.push(mix(before, hash));
        }
    }

    fn push(&mut self, hash: u32) {
        let folded = (hash ^ (hash >> 14)) % VOCABULARY_NAMES;
        let name = u16::try_from(folded).unwrap_or(u16::MAX);
        let bit = 1 << (folded % u64::BITS);
        let known = self.seen & bit != 0 && self.names.contains(&name);
        if self.names.len() < WORDS_MAX && !known {
            self.seen |= bit;
            self.names.push(name);
        }
    }
}

/// Han, kana, hangul and their neighbours.
fn stands_alone(character: char) -> bool {
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

    fn found(steps: &[(&str, Option<Confidence>)]) -> Findings {
        let mut findings = Findings::default();
        for (step, (text, confidence)) in steps.iter().enumerate() {
            let description = (*text).to_owned();
            let confidence = *confidence;
            findings.fold(step, &StepBody { description, confidence, ..StepBody::default() });
        }
        findings
    }

    fn best(findings: &Findings) -> &Finding {
        findings.found().iter().max_by_key(|one| one.score).expect("a finding")
    }

    #[test]
    fn sentences_end_where_a_reader_ends_them() {
        for (text, expected) in [
            ("One. Two! Three? four", &["One.", "Two!", "Three? four"][..]),
            ("e.g. this stays. That not.", &["e.g. this stays.", "That not."]),
            ("v1.5 is out\nand good", &["v1.5 is out", "and good"]),
            ("これは一。これは二。", &["これは一。", "これは二。"]),
            ("... --- \n\n!", &[]),
        ] {
            let texts: Vec<&str> = sentences(text).into_iter().map(|one| one.text).collect();
            assert_eq!(texts, expected, "{text:?}");
        }
    }

    #[test]
    fn words_are_known_whatever_their_case_and_scripts_without_spaces_have_some() {
        assert_eq!(words("Órgano, DE viento"), words("órgano de Viento"));
        assert_eq!(words("a-b_c").len(), 5, "three words, two pairs");
        assert_eq!(words("漢字かな").len(), 7);
        assert_eq!(words(" \u{1} ,;"), Vec::<u16>::new());
    }

    #[test]
    fn what_recurs_yields_to_what_was_said_once() {
        let usual = "Opened the next page of results and read the summary.";
        let told = format!("{usual} Kestrel dives were timed by Osgood in Varna. {usual}");
        let mut steps = vec![(usual, None); 60];
        steps.insert(20, (&told, None));
        let findings = found(&steps);
        assert_eq!(&*best(&findings).text, "Kestrel dives were timed by Osgood in Varna.");
        assert_eq!(best(&findings).step, 20);
    }

    #[test]
    fn there_are_never_more_than_the_pool_holds_and_they_are_the_best() {
        let texts: Vec<String> = (0..500)
            .map(|step| match step % 5 {
                0 => format!("alpha{step} beta{step} gamma{step} delta{step} epsilon{step}."),
                _ => format!("we looked again at the list and found nothing new {}", step % 7),
            })
            .collect();
        let steps: Vec<_> = texts.iter().map(|text| (text.as_str(), None)).collect();
        let findings = found(&steps);
        assert_eq!(findings.found().len(), FOUND_MAX);
        assert!(findings.found().iter().all(|one| one.step % 5 == 0), "{:?}", findings.found());
        assert_eq!(findings.found(), found(&steps).found());
        assert!(findings.weight() < 120_000);
    }

    #[test]
    fn a_superseded_step_says_nothing() {
        let mut findings = found(&[("Alpha beta gamma delta.", None), ("Other words here.", None)]);
        findings.forget(0);
        assert!(findings.found().iter().all(|one| one.step == 1));
    }

    #[test]
    fn a_sure_step_counts_for_more() {
        let sure = found(&[
            ("some words said here.", Some(Confidence::Low)),
            ("other things told there.", Some(Confidence::High)),
            ("third thing.", None),
        ]);
        assert_eq!(best(&sure).step, 1);
    }
}
