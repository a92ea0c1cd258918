//! Ranking of the passages of an index by a query. All postings of its words are read into one sum
//! for each passage, word by word: none is skipped for speed. Hidden passages are not counted, not
//! even for the rarity of a word. It must not read a text.

use std::collections::BTreeSet;

use super::{
    best::{HitCandidate, HitOrder, TopCandidates, score},
    bm25::{self, B, K1, WHOLE},
    grammar::{Filters, ORIGINS, ParsedQuery, Pattern, WordPatterns},
    packed::{Postings, put_postings},
    part::{NONE, Part},
    runs::{Keep, PositionRun, Runs},
    terms::{stem, visit_terms},
};
use crate::{
    api::search::Why,
    event::{EventType, Origin, Position, SessionHash, SessionId, Timestamp, pace},
};

/// Shares of a word score that the adjacent passages, and those next to them, add to a passage.
const NEAR: [f32; 2] = [0.5, 0.2];
/// Share of the score of the whole session, and the BM25 parameters of that score.
const SESSION: f32 = 0.4;
const SESSION_K1: f64 = 1.2;
const SESSION_B: f64 = 0.75;
/// Bonus of a passage whose speaker the query names.
const WHO: f32 = 0.1;
/// Maximum terms that the prefixes of a query expand to, all together.
const EXPANSIONS_MAX: usize = 1_000;
/// Upper bound of the relative rounding error of a few operations.
const ROUNDING: f32 = 1e-4;
/// Maximum postings read for one query.
const POSTINGS_MAX: u64 = 20_000_000;
/// Passages that are examined between two cancellation checks.
const PASSAGES_OF_A_STEP: usize = 64;
/// Maximum words of a passage for its length; a longer passage is ranked as one of this length.
const LENGTH_MAX: usize = 1_024;

/// An event that matches a query, with its best piece.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchHit {
    /// Hash of its session's incarnation.
    pub hash: SessionHash,
    /// Id of its session.
    pub session: SessionId,
    /// Position in the session.
    pub position: Position,
    /// Number of the piece: see [`EventText::piece`](super::EventText::piece).
    pub piece: u16,
    /// Time of the event, rounded down to milliseconds.
    pub at: Timestamp,
    /// Type of the event.
    pub kind: EventType,
    /// Origin of the event.
    pub origin: Option<Origin>,
    /// Speaker of the event, if it names one.
    pub who: Option<String>,
    /// Score; comparable only within one result.
    pub score: f32,
    /// Components of the score.
    pub why: Why,
    /// True if [`ParsedQuery::row_bonus`] may be above 0 for its text.
    pub may_have_row: bool,
}

/// Result of a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankedHits {
    /// The hits, the best first.
    pub hits: Vec<SearchHit>,
    /// True if prefixes expand to more terms, or the words to more postings, than are read.
    pub limited: bool,
    /// Number of passages that were searched.
    pub passages: u64,
    /// Number of postings that were read.
    pub postings: u64,
}

/// Returns the `limit` best or newest hits of all parts, restricted to what `keep` returns. An
/// event is one hit, even if several parts hold it.
#[must_use]
pub fn rank(
    parts: &[Part<'_>],
    query: &ParsedQuery,
    keep: &Keep<'_>,
    order: HitOrder,
    limit: usize,
) -> RankedHits {
    let times = find_time_ranges(parts, query);
    let mut scope = SearchedPassages::new(parts, &query.filters, keep, &times);
    let mut ranked = RankedHits { passages: scope.passages, ..RankedHits::default() };
    let (words, all) = scope.find_words(&query.ranked, EXPANSIONS_MAX);
    let (must, all_of_must) = scope.find_words(&query.must, EXPANSIONS_MAX);
    let (must_not, none_left) = scope.find_words(&query.must_not, EXPANSIONS_MAX);
    ranked.limited = !(all && all_of_must && none_left);
    let allowed = scope.find_allowed(&must, &must_not);
    let sums = scope.sum_scores(query, &words);
    ranked.limited |= scope.is_exhausted();
    ranked.postings = scope.read;
    if !(scope.is_exhausted() && allowed.is_some()) {
        ranked.hits = scope.best_hits(query, &sums, allowed.as_deref(), order, limit);
    }
    ranked
}

/// The posting lists of a word, by part.
type Lists<'a> = Vec<Vec<Postings<'a>>>;

/// By part and passage: true if the event whose first piece is the passage may be a hit.
type Allowed = Vec<Vec<bool>>;

/// For each time range its passages by part: their number, and the encoded list.
type Times = Vec<(Pattern, Vec<(u32, Vec<u8>)>)>;

/// Finds the passages within each time range of a query.
fn find_time_ranges(parts: &[Part<'_>], query: &ParsedQuery) -> Times {
    let patterns = query.ranked.iter().flat_map(|word| &word.patterns);
    let of = |part: &Part<'_>, from: Timestamp, to: Timestamp| {
        pace::steps(part.len() / PASSAGES_OF_A_STEP);
        let [from, to] = [from, to].map(|at| at.0.div_euclid(1_000));
        let is_in =
            |passage: &usize| part.row(*passage).is_some_and(|row| (from..to).contains(&row.at_ms));
        let found =
            (0..part.len()).filter(is_in).filter_map(|at| Some((u32::try_from(at).ok()?, 1)));
        let (found, mut list): (Vec<(u32, u32)>, _) = (found.collect(), Vec::new());
        put_postings(&found, &mut Vec::new(), &mut list);
        (found.len() as u32, list)
    };
    let list = |pattern: &Pattern| match pattern {
        Pattern::TimeRange(from, to) => {
            Some((pattern.clone(), parts.iter().map(|part| of(part, *from, *to)).collect()))
        }
        _ => None,
    };
    patterns.filter_map(list).collect()
}

/// The passages that a query may find, and their counts.
struct SearchedPassages<'a, 'p> {
    parts: &'p [Part<'a>],
    times: &'a Times,
    all: Runs<'a>,
    /// By part: the indexes of its runs, ascending by passage.
    spans: Vec<Vec<usize>>,
    /// By part and passage: true if the filters exclude it; empty if none is excluded.
    hidden: Vec<Vec<bool>>,
    /// True for each part without an excluded passage.
    is_open: Vec<bool>,
    passages: u64,
    words: u64,
    /// Number of words by session.
    session_words: Vec<u64>,
    /// Number of postings that were read.
    read: u64,
}

/// Sums of scores over the words of a query.
#[derive(Default)]
struct ScoreSums {
    /// Scores by part and passage.
    words: Vec<Vec<f32>>,
    /// By part and passage: number of its words that count towards a whole match.
    held: Vec<Vec<u8>>,
    needed: usize,
    sessions: Vec<f32>,
}

impl<'a, 'p> SearchedPassages<'a, 'p> {
    fn new(parts: &'p [Part<'a>], filters: &Filters, keep: &Keep<'_>, times: &'a Times) -> Self {
        let all = Runs::new(parts, keep);
        let mut spans = vec![Vec::new(); parts.len()];
        for (index, run) in all.runs.iter().enumerate() {
            if let Some(spans) = spans.get_mut(run.part).filter(|_| !run.passages.is_empty()) {
                spans.push(index);
            }
        }
        for spans in &mut spans {
            spans.sort_unstable_by_key(|run| all.runs.get(*run).map(|run| run.passages.start));
        }
        let hidden: Vec<Vec<bool>> = parts.iter().map(|part| find_hidden(part, filters)).collect();
        let session_words = vec![0; all.sessions.len()];
        let (passages, words, read, is_open) = (0, 0, 0, Vec::new());
        let mut scope = Self {
            parts,
            times,
            all,
            spans,
            hidden,
            is_open,
            passages,
            words,
            session_words,
            read,
        };
        scope.count_searchable();
        scope
    }

    /// Counts the passages that are not hidden, and their words.
    fn count_searchable(&mut self) {
        let mut seen = vec![0; self.parts.len()];
        for run in &self.all.runs {
            let Some(part) = self.parts.get(run.part) else { continue };
            pace::steps(1 + run.passages.len() / PASSAGES_OF_A_STEP);
            let hidden = self.hidden.get(run.part).map(Vec::as_slice).unwrap_or_default();
            let hidden = hidden.get(run.passages.clone()).unwrap_or_default();
            let counts = |at: usize| hidden.get(at).is_none_or(|hidden| !hidden);
            let counted = run.passages.clone().enumerate().filter(|(at, _)| counts(*at));
            let counted = counted.map(|(_, passage)| part.word_count(passage) as u64);
            let (passages, words) =
                counted.fold((0, 0), |(passages, words), length| (passages + 1, words + length));
            self.passages += passages;
            self.words += words;
            if let Some(sum) = self.session_words.get_mut(run.session) {
                *sum += words;
            }
            if let Some(seen) = seen.get_mut(run.part) {
                *seen += passages;
            }
        }
        let parts = self.parts.iter().zip(seen);
        self.is_open = parts.map(|(part, seen)| part.len() as u64 == seen).collect();
    }

    /// Returns the postings of the words, and true if they are complete: the prefixes expand to at
    /// most `most` terms together, independent of the division into parts.
    fn find_words(&self, words: &[WordPatterns], most: usize) -> (Vec<Lists<'a>>, bool) {
        let is_open =
            |pattern: &&Pattern| matches!(pattern, Pattern::Prefix(_) | Pattern::PathPrefix(_));
        let open = words.iter().flat_map(|word| &word.patterns).filter(is_open).count();
        let most = most / open.max(1);
        let mut is_all = true;
        let found = words
            .iter()
            .map(|word| {
                let mut found = vec![Vec::new(); self.parts.len()];
                for pattern in &word.patterns {
                    is_all &= self.find_pattern(pattern, most, &mut found);
                }
                found
            })
            .collect();
        (found, is_all)
    }

    fn find_pattern(&self, pattern: &Pattern, most: usize, found: &mut Lists<'a>) -> bool {
        let (start, is_under) = match pattern {
            Pattern::Term(term) => {
                for (part, found) in self.parts.iter().zip(found) {
                    pace::step();
                    found.extend(part.find_postings(term.as_bytes()));
                }
                return true;
            }
            Pattern::TimeRange(..) => {
                let known = self.times.iter().find(|(known, _)| known == pattern);
                for ((count, list), found) in
                    known.into_iter().flat_map(|known| &known.1).zip(found)
                {
                    found.extend((*count > 0).then(|| Postings::new(*count, list)));
                }
                return true;
            }
            Pattern::Prefix(start) => (start.as_bytes(), false),
            Pattern::PathPrefix(start) => (start.as_bytes(), true),
        };
        let fits = |term: &[u8]| {
            let rest = term.strip_prefix(start);
            rest.is_some_and(|rest| !is_under || rest.is_empty() || rest.starts_with(b"/"))
        };
        // The first `most` terms of all parts; each part adds its postings up to the last of them.
        let mut first: BTreeSet<Vec<u8>> = BTreeSet::new();
        let mut is_all = true;
        for part in self.parts {
            let mut terms = part.terms_from(start);
            while terms.next().is_some() && terms.term.starts_with(start) {
                pace::step();
                if !fits(&terms.term) {
                    continue;
                }
                first.insert(terms.term.clone());
                if first.len() > most {
                    is_all = false;
                    let last = first.pop_last();
                    if last.is_some_and(|last| last == terms.term) {
                        break;
                    }
                }
            }
        }
        for (part, found) in self.parts.iter().zip(found) {
            let mut terms = part.terms_from(start);
            while let Some(postings) = terms.next() {
                pace::step();
                if first.last().is_none_or(|last| terms.term > *last) {
                    break;
                }
                found.extend(fits(&terms.term).then_some(postings));
            }
        }
        is_all
    }

    fn is_exhausted(&self) -> bool {
        self.read > POSTINGS_MAX
    }

    /// Calls `visit` with passage, frequency and session of each searchable passage of a part in
    /// which one of the postings has an entry.
    fn for_each_passage(
        &mut self,
        at: usize,
        postings: &[Postings<'a>],
        mut visit: impl FnMut(usize, u32, usize),
    ) {
        self.read += postings.iter().map(|one| u64::from(one.passages)).sum::<u64>();
        let Some((part, spans)) = self.parts.get(at).zip(self.spans.get(at)) else { return };
        if postings.is_empty() || self.is_exhausted() {
            return;
        }
        let hidden = self.hidden.get(at).map(Vec::as_slice).unwrap_or_default();
        let mut runs = spans.iter().filter_map(|run| self.all.runs.get(*run));
        let mut run = runs.next();
        pace::steps(1 + part.len() / PASSAGES_OF_A_STEP);
        let mut seen = 0_usize;
        let mut visit_passage = |passage: usize, count: u32| {
            seen += 1;
            if seen.is_multiple_of(PASSAGES_OF_A_STEP) {
                pace::step();
            }
            while run.is_some_and(|run| run.passages.end <= passage) {
                run = runs.next();
            }
            let inside = run.filter(|run| run.passages.start <= passage);
            if let Some(run) = inside.filter(|_| hidden.get(passage).is_none_or(|it| !it)) {
                visit(passage, count, run.session);
            }
        };
        if let [one] = postings {
            one.for_each(visit_passage);
            return;
        }
        let mut counts = vec![0_u32; part.len()];
        for one in postings {
            one.for_each(|passage, count| {
                if let Some(sum) = counts.get_mut(passage) {
                    *sum = sum.saturating_add(count);
                }
            });
        }
        let held = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        held.for_each(|(passage, count)| visit_passage(passage, *count));
    }

    /// Counts the searchable passages that have the word.
    fn count_passages(&mut self, found: &Lists<'a>) -> u64 {
        let is_counted = |(postings, is_open): (&Vec<Postings<'_>>, &bool)| {
            postings.is_empty() || postings.len() == 1 && *is_open
        };
        if found.iter().zip(&self.is_open).all(is_counted) {
            return found.iter().flatten().map(|one| u64::from(one.passages)).sum();
        }
        let mut holding = 0;
        for (at, postings) in found.iter().enumerate() {
            self.for_each_passage(at, postings, |_, _, _| holding += 1);
        }
        holding
    }

    /// Returns the events that have every required and no excluded word; `None` if the query
    /// requires and excludes none.
    fn find_allowed(&mut self, must: &[Lists<'a>], must_not: &[Lists<'a>]) -> Option<Allowed> {
        if must.is_empty() && must_not.is_empty() {
            return None;
        }
        let none = |parts: &[Part<'_>]| -> Allowed {
            parts.iter().map(|part| vec![false; part.len()]).collect()
        };
        let parts = self.parts;
        let mut allowed: Allowed = parts.iter().map(|part| vec![true; part.len()]).collect();
        let words = must.iter().map(|found| (found, true));
        for (found, wanted) in words.chain(must_not.iter().map(|found| (found, false))) {
            let mut has = none(parts);
            pace::steps(has.iter().map(Vec::len).sum::<usize>() / PASSAGES_OF_A_STEP);
            for (at, ((postings, has), part)) in found.iter().zip(&mut has).zip(parts).enumerate() {
                self.for_each_passage(at, postings, |passage, _, _| {
                    let piece = part.row(passage).map_or(0, |row| usize::from(row.piece));
                    if let Some(has) = has.get_mut(passage.saturating_sub(piece)) {
                        *has = true;
                    }
                });
            }
            let both = allowed.iter_mut().flatten().zip(has.iter().flatten());
            both.for_each(|(allowed, has)| *allowed &= *has == wanted);
        }
        Some(allowed)
    }

    /// Sums the scores of the words by passage and by session.
    fn sum_scores(&mut self, query: &ParsedQuery, words: &[Lists<'a>]) -> ScoreSums {
        let holding: Vec<u64> = words.iter().map(|found| self.count_passages(found)).collect();
        let is_common = |holding: &u64| bm25::is_common(self.passages, *holding);
        let only_common = holding.iter().all(|holding| *holding == 0 || is_common(holding));
        let counted = |holding: &u64| *holding > 0 && (only_common || !is_common(holding));
        let weighs: Vec<bool> = holding.iter().map(counted).collect();
        let by_part = |part: &Part<'_>| part.len();
        let mut sums = ScoreSums {
            words: self.parts.iter().map(|part| vec![0.0; by_part(part)]).collect(),
            held: self.parts.iter().map(|part| vec![0; by_part(part)]).collect(),
            needed: 0,
            sessions: vec![0.0; self.all.sessions.len()],
        };
        let mean = (self.words as f64 / self.passages.max(1) as f64).max(1.0);
        let share = |often: f64, length: usize| bm25::tf_share(often, length as f64 / mean, K1, B);
        let shares: Vec<[f32; 3]> = (0..=LENGTH_MAX)
            .map(|length| [1.0, 2.0, 3.0].map(|often| share(often, length) as f32))
            .collect();
        let passages = self.passages;
        let parts = self.parts;
        for ((word, found), (holding, weighs)) in
            query.ranked.iter().zip(words).zip(holding.iter().zip(weighs))
        {
            if !weighs {
                continue;
            }
            sums.needed += usize::from(word.is_needed);
            let worth = bm25::idf(passages, *holding) as f32;
            let mut of_session = vec![0_u32; sums.sessions.len()];
            let of_parts = sums.words.iter_mut().zip(&mut sums.held).zip(parts).zip(found);
            for (at, (((sums, held), part), postings)) in of_parts.enumerate() {
                self.for_each_passage(at, postings, |passage, count, session| {
                    let length = part.word_count(passage).min(LENGTH_MAX);
                    let known = shares.get(length).and_then(|of| of.get(count as usize - 1));
                    let share =
                        known.copied().unwrap_or_else(|| share(f64::from(count), length) as f32);
                    if let Some((sum, held)) = sums.get_mut(passage).zip(held.get_mut(passage)) {
                        *sum += worth * share;
                        *held = held.saturating_add(u8::from(word.is_needed));
                    }
                    if let Some(sum) = of_session.get_mut(session) {
                        *sum = sum.saturating_add(count);
                    }
                });
            }
            self.add_session_scores(&of_session, &mut sums.sessions);
        }
        sums
    }

    /// Adds a word's score to each session; `often` has its frequency by session.
    fn add_session_scores(&self, often: &[u32], sums: &mut [f32]) {
        let sessions = self.session_words.iter().filter(|words| **words > 0).count();
        let holding = often.iter().filter(|count| **count > 0).count();
        let mean = (self.words as f64 / sessions.max(1) as f64).max(1.0);
        let worth = bm25::idf(sessions as u64, holding as u64);
        for ((count, words), sum) in often.iter().zip(&self.session_words).zip(sums) {
            if *count > 0 {
                let longer = *words as f64 / mean;
                let share = bm25::tf_share(f64::from(*count), longer, SESSION_K1, SESSION_B);
                *sum += (worth * share) as f32;
            }
        }
    }

    /// Returns the best hits, at most `limit`, the best first.
    fn best_hits(
        &self,
        query: &ParsedQuery,
        sums: &ScoreSums,
        allowed: Option<&[Vec<bool>]>,
        order: HitOrder,
        limit: usize,
    ) -> Vec<SearchHit> {
        let most = |sums: &[f32]| sums.iter().copied().fold(0.0, f32::max);
        let words_most = sums.words.iter().map(|part| most(part)).fold(0.0, f32::max);
        let sessions_most = most(&sums.sessions);
        let named: Vec<Vec<bool>> =
            self.parts.iter().map(|part| named_speakers(part, query)).collect();
        let who = if named.iter().flatten().any(|named| *named) { WHO } else { 0.0 };
        let every = query.ranked.is_empty();
        let relative_to = |sum: f32, most: f32| if most > 0.0 { sum / most } else { 0.0 };
        let slightly_more = relative_to(1.0 + ROUNDING, words_most);
        let (mut best, mut around) = (TopCandidates::new(order, limit), Vec::new());
        for (index, run) in self.all.runs.iter().enumerate() {
            let Some(part) = self.parts.get(run.part) else { continue };
            pace::steps(1 + run.passages.len() / PASSAGES_OF_A_STEP);
            if !self.fill_window(index, run, sums, &mut around) && !every {
                continue;
            }
            let held = sums.held.get(run.part).and_then(|held| held.get(run.passages.clone()));
            let held = held.unwrap_or_default();
            let session = sums.sessions.get(run.session).copied().unwrap_or_default();
            let session = SESSION * relative_to(session, sessions_most);
            let mut event: Option<HitCandidate> = None;
            let windows = around.windows(5).filter_map(<[f32]>::first_chunk::<5>);
            for (at, window) in windows.enumerate() {
                let near = if order == HitOrder::Score { neighbour_bonus(window) } else { 0.0 };
                let [_, _, words, ..] = *window;
                // A passage without a word of the query is not a hit, even next to one.
                if !(every || words > 0.0) {
                    continue;
                }
                let held = held.get(at).map_or(0, |held| usize::from(*held));
                let is_whole = sums.needed > 0 && held == sums.needed;
                let whole = if is_whole { WHOLE as f32 } else { 0.0 };
                // Skips nearly all passages: this upper bound of the score is cheap to compute.
                if best.is_too_low((words + near) * slightly_more + session + who + whole) {
                    continue;
                }
                let [words, near] = [words, near].map(|sum| relative_to(sum, words_most));
                let mut why = Why { words, near, session, who, whole, ..Why::default() };
                let passage = run.passages.start + at;
                let is = |of: Option<&Vec<bool>>, at: usize| of.and_then(|of| of.get(at)).copied();
                if is(self.hidden.get(run.part), passage) == Some(true) {
                    continue;
                }
                let Some(row) = part.row(passage) else { continue };
                let first = passage.saturating_sub(usize::from(row.piece));
                if allowed.is_some_and(|parts| is(parts.get(run.part), first) != Some(true)) {
                    continue;
                }
                if is(named.get(run.part), usize::from(row.speaker)) != Some(true) {
                    why.who = 0.0;
                }
                let indexes = [run.part, passage, run.session];
                let candidate = HitCandidate::new(order, indexes, held, &row, why);
                match &mut event {
                    Some(event) if event.position == row.position => {
                        if score(&candidate.why) > score(&event.why) {
                            *event = candidate;
                        }
                    }
                    other => best.extend(other.replace(candidate)),
                }
            }
            best.extend(event);
        }
        let hit = |found: HitCandidate| {
            let lacking = sums.needed.saturating_sub(found.held);
            let may_have_row = found.why.words > 0.0 && query.may_have_row(lacking);
            Some(SearchHit { may_have_row, ..self.make_hit(&found)? })
        };
        best.into_sorted().filter_map(hit).collect()
    }

    /// Fills `around` with the sums of a run's passages, and of the two before and the two after it
    /// in its session; returns true if any of them has a word.
    fn fill_window(
        &self,
        index: usize,
        run: &PositionRun,
        sums: &ScoreSums,
        around: &mut Vec<f32>,
    ) -> bool {
        let sums_of = |run: &PositionRun| -> &[f32] {
            let part = sums.words.get(run.part).map(Vec::as_slice).unwrap_or_default();
            part.get(run.passages.clone()).unwrap_or_default()
        };
        let same = |other: &&PositionRun| other.session == run.session;
        let before = self.all.runs.get(..index).unwrap_or_default().iter().rev();
        let before = before.take_while(same).flat_map(|run| sums_of(run).iter().rev());
        let after = self.all.runs.get(index + 1..).unwrap_or_default().iter();
        let after = after.take_while(same).flat_map(sums_of);
        around.clear();
        around.extend(before.chain(std::iter::repeat(&0.0)).take(NEAR.len()));
        around.reverse();
        around.extend_from_slice(sums_of(run));
        around.extend(after.chain(std::iter::repeat(&0.0)).take(NEAR.len()));
        around.iter().any(|sum| *sum > 0.0)
    }

    fn make_hit(&self, found: &HitCandidate) -> Option<SearchHit> {
        let part = self.parts.get(found.part)?;
        let row = part.row(found.passage)?;
        let session = self.all.sessions.get(found.session)?;
        let origin = usize::from(row.origin).checked_sub(1).and_then(|at| ORIGIN.get(at));
        Some(SearchHit {
            hash: session.hash,
            session: SessionId::new(session.id).ok()?,
            position: Position(row.position),
            piece: row.piece,
            at: Timestamp(row.at_ms.saturating_mul(1_000)),
            kind: EventType::from_stored(part.kind_name(row.kind)),
            origin: origin.copied(),
            who: part.speaker_name(row.speaker).map(str::to_owned),
            score: score(&found.why),
            why: found.why,
            may_have_row: false,
        })
    }
}

/// Returns the bonus of the middle passage for the words of its neighbours.
fn neighbour_bonus([far_before, before, _, after, far_after]: &[f32; 5]) -> f32 {
    let [near, far] = NEAR;
    near * (before + after) + far * (far_before + far_after)
}

/// Origins by their numbers in a part, which begin at 1.
const ORIGIN: [Origin; 6] =
    [Origin::User, Origin::Model, Origin::Tool, Origin::Web, Origin::Harness, Origin::Import];

/// Returns, by passage, true if the filters exclude it; empty if none is excluded.
fn find_hidden(part: &Part<'_>, filters: &Filters) -> Vec<bool> {
    pace::steps(1 + part.kinds().count() + part.speakers().count());
    let kinds: Vec<bool> = part.kinds().map(|kind| filters.allows_kind(kind)).collect();
    let speakers: Vec<bool> =
        part.speakers().map(|name| filters.allows_speaker(Some(name))).collect();
    let silent = filters.allows_speaker(None);
    let origin =
        |at: usize| ORIGINS.get(at).is_none_or(|name| filters.origins.matches(|it| it == *name));
    let origins: Vec<bool> = (0..ORIGINS.len()).map(origin).collect();
    let ms = |at: Option<Timestamp>| at.map(|at| at.0.div_euclid(1_000));
    let (after, before) = (ms(filters.after), ms(filters.before));
    let is_open = [&kinds, &speakers, &origins].iter().all(|allows| allows.iter().all(|it| *it));
    if is_open && silent && after.or(before).is_none() {
        return Vec::new();
    }
    let allows = |of: &[bool], at: usize| of.get(at).copied().unwrap_or(true);
    let shown = |passage: usize| {
        part.row(passage).is_some_and(|row| {
            let speaker = usize::from(row.speaker);
            allows(&kinds, usize::from(row.kind))
                && if row.speaker == NONE { silent } else { allows(&speakers, speaker) }
                && allows(&origins, usize::from(row.origin).wrapping_sub(1))
                && after.is_none_or(|after| row.at_ms >= after)
                && before.is_none_or(|before| row.at_ms < before)
        })
    };
    pace::steps(part.len() / PASSAGES_OF_A_STEP);
    (0..part.len()).map(|passage| !shown(passage)).collect()
}

/// Returns, by speaker, true if the query names it.
fn named_speakers(part: &Part<'_>, query: &ParsedQuery) -> Vec<bool> {
    let is_in_query = |term: String| {
        let term = Pattern::Term(term);
        query.ranked.iter().any(|word| word.patterns.contains(&term))
    };
    let is_named = |speaker: &str| {
        let mut is_named = false;
        visit_terms(speaker, |term| is_named |= is_in_query(stem(term.word).into_owned()));
        is_named
    };
    part.speakers().map(is_named).collect()
}
