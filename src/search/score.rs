//! Passages of an index ranked by a query. All postings of its words are read, word by word, into
//! one sum for each passage: no passage is skipped for speed. Hidden passages count nowhere, not
//! even in the rarity of a word. It must not read a text.

use std::collections::BTreeSet;

use super::{
    best::{Best, HitCandidate, HitOrder, score},
    bm25::{self, B, K1, WHOLE},
    grammar::{Filters, ORIGINS, Pattern, SearchQuery, Word},
    packed::{Postings, put_postings},
    part::{NONE, Part},
    runs::{Keep, PositionRun, Runs},
    terms::{stem, terms},
};
use crate::{
    api::search::Why,
    event::{EventType, Origin, Position, SessionHash, SessionId, Timestamp, pace},
};

/// Shares of the words of the adjacent passages, and of those one further.
const NEAR: [f32; 2] = [0.5, 0.2];
/// Share of the whole session's score, and its normalisation.
const SESSION: f32 = 0.4;
const SESSION_K1: f64 = 1.2;
const SESSION_B: f64 = 0.75;
/// Bonus of a passage when the query names its speaker.
const WHO: f32 = 0.1;
/// Maximum terms that the prefixes of a query expand to, all together.
const EXPANSIONS_MAX: usize = 1_000;
/// Relative bound of the rounding error of a few operations.
const ROUNDING: f32 = 1e-4;
/// Maximum postings read for one query.
const POSTINGS_MAX: u64 = 20_000_000;
/// Passages examined within a step.
const PASSAGES_OF_A_STEP: usize = 64;
/// Maximum words of a passage; a longer one counts as this.
const LENGTH_MAX: usize = 1_024;

/// An event that matches a query, by its best piece.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// Hash of its session's incarnation.
    pub hash: SessionHash,
    /// The id of its session.
    pub session: SessionId,
    /// Position in the session.
    pub position: Position,
    /// Number of the piece: see [`EventText::piece`](super::EventText::piece).
    pub piece: u16,
    /// Time of the event, in milliseconds.
    pub at: Timestamp,
    /// Type of the event.
    pub kind: EventType,
    /// Origin of the event.
    pub origin: Option<Origin>,
    /// Speaker.
    pub who: Option<String>,
    /// Score; comparable only within one result.
    pub score: f32,
    /// Components of the score.
    pub why: Why,
    /// True if its text may have consecutive words of the query: see [`SearchQuery::row`].
    pub may_have_row: bool,
}

/// Result of a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranked {
    /// The hits, the best first.
    pub hits: Vec<Hit>,
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
    query: &SearchQuery,
    keep: &Keep<'_>,
    order: HitOrder,
    limit: usize,
) -> Ranked {
    let times = times(parts, query);
    let mut scope = SearchedPassages::new(parts, &query.filters, keep, &times);
    let mut ranked = Ranked { passages: scope.passages, ..Ranked::default() };
    let (words, all) = scope.look_up(&query.ranked, EXPANSIONS_MAX);
    let (must, all_of_must) = scope.look_up(&query.must, EXPANSIONS_MAX);
    let (must_not, none_left) = scope.look_up(&query.must_not, EXPANSIONS_MAX);
    ranked.limited = !(all && all_of_must && none_left);
    let allowed = scope.allowed(&must, &must_not);
    let sums = scope.sums(query, &words);
    ranked.limited |= scope.is_exhausted();
    ranked.postings = scope.read;
    if !(scope.is_exhausted() && allowed.is_some()) {
        ranked.hits = scope.best(query, &sums, allowed.as_deref(), order, limit);
    }
    ranked
}

/// The postings of a word in each part.
type Found<'a> = Vec<Vec<Postings<'a>>>;

/// By part and passage: true if the event that starts there may be a hit.
type Allowed = Vec<Vec<bool>>;

/// The passages of a time range as a list in each part: their number, and the list.
type Times = Vec<(Pattern, Vec<(u32, Vec<u8>)>)>;

/// Returns the passages of the time ranges in a query.
fn times(parts: &[Part<'_>], query: &SearchQuery) -> Times {
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
        Pattern::Within(from, to) => {
            Some((pattern.clone(), parts.iter().map(|part| of(part, *from, *to)).collect()))
        }
        _ => None,
    };
    patterns.filter_map(list).collect()
}

/// Searchable passages.
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

/// Sums over the words of a query.
#[derive(Default)]
struct Sums {
    /// Scores by part and passage.
    words: Vec<Vec<f32>>,
    /// By part and passage: number of its words that count towards a whole match.
    held: Vec<Vec<u8>>,
    needed: usize,
    /// Scores by session.
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
        let hidden: Vec<Vec<bool>> = parts.iter().map(|part| hidden(part, filters)).collect();
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
        scope.count();
        scope
    }

    /// Counts the searchable passages, and their words.
    fn count(&mut self) {
        let mut seen = vec![0; self.parts.len()];
        for run in &self.all.runs {
            let Some(part) = self.parts.get(run.part) else { continue };
            pace::steps(1 + run.passages.len() / PASSAGES_OF_A_STEP);
            let hidden = self.hidden.get(run.part).map(Vec::as_slice).unwrap_or_default();
            let hidden = hidden.get(run.passages.clone()).unwrap_or_default();
            let counts = |at: usize| hidden.get(at).is_none_or(|hidden| !hidden);
            let counted = run.passages.clone().enumerate().filter(|(at, _)| counts(*at));
            let counted = counted.map(|(_, passage)| part.words(passage) as u64);
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

    /// Returns the postings of the words, and true if they are complete: prefixes expand to `most`
    /// terms at most, independent of the division into parts.
    fn look_up(&self, words: &[Word], most: usize) -> (Vec<Found<'a>>, bool) {
        let is_open =
            |pattern: &&Pattern| matches!(pattern, Pattern::Begins(_) | Pattern::Under(_));
        let open = words.iter().flat_map(|word| &word.patterns).filter(is_open).count();
        let most = most / open.max(1);
        let mut is_all = true;
        let found = words
            .iter()
            .map(|word| {
                let mut found = vec![Vec::new(); self.parts.len()];
                for pattern in &word.patterns {
                    is_all &= self.look_up_one(pattern, most, &mut found);
                }
                found
            })
            .collect();
        (found, is_all)
    }

    fn look_up_one(&self, pattern: &Pattern, most: usize, found: &mut Found<'a>) -> bool {
        let (start, is_under) = match pattern {
            Pattern::Term(term) => {
                for (part, found) in self.parts.iter().zip(found) {
                    pace::step();
                    found.extend(part.find(term.as_bytes()));
                }
                return true;
            }
            Pattern::Within(..) => {
                let known = self.times.iter().find(|(known, _)| known == pattern);
                for ((count, list), found) in
                    known.into_iter().flat_map(|known| &known.1).zip(found)
                {
                    found.extend((*count > 0).then(|| Postings::new(*count, list)));
                }
                return true;
            }
            Pattern::Begins(start) => (start.as_bytes(), false),
            Pattern::Under(start) => (start.as_bytes(), true),
        };
        let fits = |term: &[u8]| {
            let rest = term.strip_prefix(start);
            rest.is_some_and(|rest| !is_under || rest.is_empty() || rest.starts_with(b"/"))
        };
        // The first terms of all parts together; from each part those up to the last of them.
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

    /// Calls `visit` with passage, count and session of each passage of a part that has one of the
    /// terms and may be found.
    fn each(
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
        let mut see = |passage: usize, count: u32| {
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
            one.each(see);
            return;
        }
        let mut counts = vec![0_u32; part.len()];
        for one in postings {
            one.each(|passage, count| {
                if let Some(sum) = counts.get_mut(passage) {
                    *sum = sum.saturating_add(count);
                }
            });
        }
        let held = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        held.for_each(|(passage, count)| see(passage, *count));
    }

    /// Counts the passages that have the word and may be found.
    fn holding(&mut self, found: &Found<'a>) -> u64 {
        let is_counted = |(postings, is_open): (&Vec<Postings<'_>>, &bool)| {
            postings.is_empty() || postings.len() == 1 && *is_open
        };
        if found.iter().zip(&self.is_open).all(is_counted) {
            return found.iter().flatten().map(|one| u64::from(one.passages)).sum();
        }
        let mut holding = 0;
        for (at, postings) in found.iter().enumerate() {
            self.each(at, postings, |_, _, _| holding += 1);
        }
        holding
    }

    /// Returns the events that meet the requirements; `None` if the query has none.
    fn allowed(&mut self, must: &[Found<'a>], must_not: &[Found<'a>]) -> Option<Allowed> {
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
                self.each(at, postings, |passage, _, _| {
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

    /// Sums the scores of the words.
    fn sums(&mut self, query: &SearchQuery, words: &[Found<'a>]) -> Sums {
        let holding: Vec<u64> = words.iter().map(|found| self.holding(found)).collect();
        let is_common = |holding: &u64| bm25::is_common(self.passages, *holding);
        let only_common = holding.iter().all(|holding| *holding == 0 || is_common(holding));
        let counted = |holding: &u64| *holding > 0 && (only_common || !is_common(holding));
        let weighs: Vec<bool> = holding.iter().map(counted).collect();
        let by_part = |part: &Part<'_>| part.len();
        let mut sums = Sums {
            words: self.parts.iter().map(|part| vec![0.0; by_part(part)]).collect(),
            held: self.parts.iter().map(|part| vec![0; by_part(part)]).collect(),
            needed: 0,
            sessions: vec![0.0; self.all.sessions.len()],
        };
        let mean = (self.words as f64 / self.passages.max(1) as f64).max(1.0);
        let share = |often: f64, length: usize| bm25::share(often, length as f64 / mean, K1, B);
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
            let worth = bm25::worth(passages, *holding) as f32;
            let mut of_session = vec![0_u32; sums.sessions.len()];
            let of_parts = sums.words.iter_mut().zip(&mut sums.held).zip(parts).zip(found);
            for (at, (((sums, held), part), postings)) in of_parts.enumerate() {
                self.each(at, postings, |passage, count, session| {
                    let length = part.words(passage).min(LENGTH_MAX);
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
            self.add_sessions(&of_session, &mut sums.sessions);
        }
        sums
    }

    /// Adds a word's score to each session, given its frequency there.
    fn add_sessions(&self, often: &[u32], sums: &mut [f32]) {
        let sessions = self.session_words.iter().filter(|words| **words > 0).count();
        let holding = often.iter().filter(|count| **count > 0).count();
        let mean = (self.words as f64 / sessions.max(1) as f64).max(1.0);
        let worth = bm25::worth(sessions as u64, holding as u64);
        for ((count, words), sum) in often.iter().zip(&self.session_words).zip(sums) {
            if *count > 0 {
                let longer = *words as f64 / mean;
                let share = bm25::share(f64::from(*count), longer, SESSION_K1, SESSION_B);
                *sum += (worth * share) as f32;
            }
        }
    }

    /// Returns the best hits.
    fn best(
        &self,
        query: &SearchQuery,
        sums: &Sums,
        allowed: Option<&[Vec<bool>]>,
        order: HitOrder,
        limit: usize,
    ) -> Vec<Hit> {
        let most = |sums: &[f32]| sums.iter().copied().fold(0.0, f32::max);
        let words_most = sums.words.iter().map(|part| most(part)).fold(0.0, f32::max);
        let sessions_most = most(&sums.sessions);
        let named: Vec<Vec<bool>> =
            self.parts.iter().map(|part| named_speakers(part, query)).collect();
        let who = if named.iter().flatten().any(|named| *named) { WHO } else { 0.0 };
        let every = query.ranked.is_empty();
        let of_most = |sum: f32, most: f32| if most > 0.0 { sum / most } else { 0.0 };
        let slightly_more = of_most(1.0 + ROUNDING, words_most);
        let (mut best, mut beside) = (Best::new(order, limit), Vec::new());
        for (index, run) in self.all.runs.iter().enumerate() {
            let Some(part) = self.parts.get(run.part) else { continue };
            pace::steps(1 + run.passages.len() / PASSAGES_OF_A_STEP);
            if !self.fill_beside(index, run, sums, &mut beside) && !every {
                continue;
            }
            let held = sums.held.get(run.part).and_then(|held| held.get(run.passages.clone()));
            let held = held.unwrap_or_default();
            let session = sums.sessions.get(run.session).copied().unwrap_or_default();
            let session = SESSION * of_most(session, sessions_most);
            let mut event: Option<HitCandidate> = None;
            let windows = beside.windows(5).filter_map(<[f32]>::first_chunk::<5>);
            for (at, window) in windows.enumerate() {
                let near = if order == HitOrder::Score { neighbour_bonus(window) } else { 0.0 };
                let [_, _, words, ..] = *window;
                // A passage next to a match is shown with it, and is not itself a hit.
                if !(every || words > 0.0) {
                    continue;
                }
                let held = held.get(at).map_or(0, |held| usize::from(*held));
                let is_whole = sums.needed > 0 && held == sums.needed;
                let whole = if is_whole { WHOLE as f32 } else { 0.0 };
                // Nearly all passages end here: an upper bound of the score, cheaper to compute.
                if best.is_beyond((words + near) * slightly_more + session + who + whole) {
                    continue;
                }
                let [words, near] = [words, near].map(|sum| of_most(sum, words_most));
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
                let places = [run.part, passage, run.session];
                let candidate = HitCandidate::new(order, places, held, &row, why);
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
            Some(Hit { may_have_row, ..self.hit(&found)? })
        };
        best.into_sorted().filter_map(hit).collect()
    }

    /// Fills `beside` with the sums of a run's passages, and of the two before and the two after it
    /// in its session; returns true if any of them has a word.
    fn fill_beside(
        &self,
        index: usize,
        run: &PositionRun,
        sums: &Sums,
        beside: &mut Vec<f32>,
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
        beside.clear();
        beside.extend(before.chain(std::iter::repeat(&0.0)).take(NEAR.len()));
        beside.reverse();
        beside.extend_from_slice(sums_of(run));
        beside.extend(after.chain(std::iter::repeat(&0.0)).take(NEAR.len()));
        beside.iter().any(|sum| *sum > 0.0)
    }

    fn hit(&self, found: &HitCandidate) -> Option<Hit> {
        let part = self.parts.get(found.part)?;
        let row = part.row(found.passage)?;
        let session = self.all.sessions.get(found.session)?;
        let origin = usize::from(row.origin).checked_sub(1).and_then(|at| ORIGIN.get(at));
        Some(Hit {
            hash: session.hash,
            session: SessionId::new(session.id).ok()?,
            position: Position(row.position),
            piece: row.piece,
            at: Timestamp(row.at_ms.saturating_mul(1_000)),
            kind: EventType::kept(part.kind(row.kind)),
            origin: origin.copied(),
            who: part.speaker(row.speaker).map(str::to_owned),
            score: score(&found.why),
            why: found.why,
            may_have_row: false,
        })
    }
}

/// Returns the bonus of the passage in the middle for those on either side of it.
fn neighbour_bonus([far_before, before, _, after, far_after]: &[f32; 5]) -> f32 {
    let [beside, behind] = NEAR;
    beside * (before + after) + behind * (far_before + far_after)
}

/// Origins by their numbers.
const ORIGIN: [Origin; 6] =
    [Origin::User, Origin::Model, Origin::Tool, Origin::Web, Origin::Harness, Origin::Import];

/// Returns, by passage, true if the filters exclude it; empty if none is excluded.
fn hidden(part: &Part<'_>, filters: &Filters) -> Vec<bool> {
    pace::steps(1 + part.kinds().count() + part.speakers().count());
    let kinds: Vec<bool> = part.kinds().map(|kind| filters.admits_kind(kind)).collect();
    let speakers: Vec<bool> =
        part.speakers().map(|name| filters.admits_speaker(Some(name))).collect();
    let silent = filters.admits_speaker(None);
    let origin =
        |at: usize| ORIGINS.get(at).is_none_or(|name| filters.origins.admits(|it| it == *name));
    let origins: Vec<bool> = (0..ORIGINS.len()).map(origin).collect();
    let ms = |at: Option<Timestamp>| at.map(|at| at.0.div_euclid(1_000));
    let (after, before) = (ms(filters.after), ms(filters.before));
    let is_open = [&kinds, &speakers, &origins].iter().all(|admits| admits.iter().all(|it| *it));
    if is_open && silent && after.or(before).is_none() {
        return Vec::new();
    }
    let admits = |of: &[bool], at: usize| of.get(at).copied().unwrap_or(true);
    let shown = |passage: usize| {
        part.row(passage).is_some_and(|row| {
            let speaker = usize::from(row.speaker);
            admits(&kinds, usize::from(row.kind))
                && if row.speaker == NONE { silent } else { admits(&speakers, speaker) }
                && admits(&origins, usize::from(row.origin).wrapping_sub(1))
                && after.is_none_or(|after| row.at_ms >= after)
                && before.is_none_or(|before| row.at_ms < before)
        })
    };
    pace::steps(part.len() / PASSAGES_OF_A_STEP);
    (0..part.len()).map(|passage| !shown(passage)).collect()
}

/// Returns, by speaker, true if the query names it.
fn named_speakers(part: &Part<'_>, query: &SearchQuery) -> Vec<bool> {
    let is_asked = |term: String| {
        let term = Pattern::Term(term);
        query.ranked.iter().any(|word| word.patterns.contains(&term))
    };
    let is_named = |speaker: &str| {
        let mut is_named = false;
        terms(speaker, |term| is_named |= is_asked(stem(term.word).into_owned()));
        is_named
    };
    part.speakers().map(is_named).collect()
}
