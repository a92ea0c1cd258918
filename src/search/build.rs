//! Building of index parts, from events and from other parts. The same events give the same bytes,
//! whether they were added at once or in parts that were merged. It must not rank.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;

use super::{
    dates,
    entities::{self, EntityKind},
    letters::{is_lone_unspaced, is_unspaced},
    packed::{Postings, put_postings},
    part::{
        BLOCK_TERMS, NIBBLE, NONE, Part, PartSections, PassageRow, SIZED_FROM, SessionRef,
        TermIter, put_columns, put_varint,
    },
    runs::{Keep, Runs},
    stop_words::is_stop_word,
    terms::{Term, stem},
    text::{EventText, visit_piece_terms},
};
use crate::{
    event::{Event, Origin, Position, Range, SessionHash, Timestamp, kinds, pace},
    traces::command_names,
};

/// Postings that are merged between two cancellation checks.
const POSTINGS_OF_A_STEP: usize = 64;

/// Texts with their numbers, in insertion order.
#[derive(Debug, Default)]
struct TextNumbering {
    numbers: HashMap<Box<str>, u32, RandomState>,
    texts: Vec<Box<str>>,
}

impl TextNumbering {
    fn get_or_assign(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.texts.len() as u32;
        self.numbers.insert(text.into(), number);
        self.texts.push(text.into());
        number
    }

    /// Returns for each number the rank of its text among the sorted texts.
    fn sorted_ranks(&self) -> Vec<u16> {
        let mut sorted: Vec<usize> = (0..self.texts.len()).collect();
        sorted.sort_unstable_by_key(|number| self.texts.get(*number));
        let mut order = vec![NONE; self.texts.len()];
        for (rank, number) in sorted.into_iter().enumerate() {
            if let (Some(of), Ok(rank)) = (order.get_mut(number), u16::try_from(rank)) {
                *of = rank;
            }
        }
        order
    }
}

/// A session while its events are added.
#[derive(Debug)]
struct OpenSession {
    hash: SessionHash,
    id: String,
    /// Ascending and disjoint.
    ranges: Vec<Range>,
    /// Position from which on no event refers to an earlier one.
    final_from: Position,
}

/// An index part under construction.
#[derive(Debug, Default)]
pub struct PartBuilder {
    numbers: HashMap<SessionHash, u32>,
    sessions: Vec<OpenSession>,
    kinds: TextNumbering,
    speakers: TextNumbering,
    /// Passages, each with the number of its session.
    rows: Vec<(u32, PassageRow)>,
    /// Words as written, each with the number of its term; `None` for a stop word.
    words: HashMap<Box<str>, Option<u32>, RandomState>,
    terms: TextNumbering,
    /// Term, passage and frequency, in the order in which the passages were added.
    postings: Vec<[u32; 3]>,
    bytes: usize,
}

impl PartBuilder {
    /// Creates an empty builder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of passages added.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if no passage was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the sum of the body bytes of the events that were added.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Marks a range as indexed, including positions without a readable event.
    pub fn mark_indexed(&mut self, session: SessionRef<'_>, range: Range) {
        let number = self.session_number(session);
        if let Some(held) = self.sessions.get_mut(number as usize) {
            insert_range(&mut held.ranges, range);
        }
    }

    /// Adds an event and marks its position as indexed, in any order of positions; an event at an
    /// indexed position is ignored.
    pub fn add_event(&mut self, session: SessionRef<'_>, event: &Event) {
        let number = self.session_number(session);
        let Some(held) = self.sessions.get_mut(number as usize) else { return };
        if held.ranges.iter().any(|range| range.contains(event.position)) {
            return;
        }
        let next = event.position.plus(1);
        insert_range(&mut held.ranges, Range::new(event.position, next));
        if kinds::affects_other_events(event.kind.as_str()) {
            held.final_from = held.final_from.max(next);
        }
        self.bytes += event.body.len();
        let said = EventText::from_event(event);
        if said.text.is_empty() {
            return;
        }
        let at = event.happened_at();
        let speaker = said.speaker.as_deref().map(|name| self.speakers.get_or_assign(name));
        let short = |number: u32| u16::try_from(number).unwrap_or(NONE);
        let row = PassageRow {
            position: event.position.0,
            piece: 0,
            at_ms: at.0.div_euclid(1_000),
            kind: short(self.kinds.get_or_assign(event.kind.as_str())),
            speaker: speaker.map_or(NONE, short),
            origin: origin_number(event.origin),
            words: 0,
        };
        let mut named = extract_names(&said, at);
        let mut named = named.drain(..).peekable();
        let mut found = Vec::new();
        let mut piece = 0;
        let mut words = 0_u16;
        let mut alone = 0;
        visit_piece_terms(&said.text, |of, start, term| {
            if of != piece {
                while let Some((_, term)) = named.next_if(|(offset, _)| *offset < start) {
                    found.push(self.terms.get_or_assign(&term));
                }
                self.add_passage(number, PassageRow { piece, words, ..row }, &mut found);
                (piece, words) = (of, 0);
            }
            if let Some(number) = self.term_number(term.word) {
                found.push(number);
                words = words.saturating_add(u16::from(!term.whole));
            }
            // A character of a pair may be a word alone; it is in two pairs, but counted once.
            for (at, one) in single_characters(term) {
                if at >= alone {
                    found.push(self.terms.get_or_assign(one));
                    alone = at + one.len();
                }
            }
        });
        named.for_each(|(_, term)| found.push(self.terms.get_or_assign(&term)));
        self.add_passage(number, PassageRow { piece, words, ..row }, &mut found);
    }

    /// Returns the bytes of the part, independent of the order of events of different sessions.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        let mut order: Vec<u32> = (0..self.sessions.len() as u32).collect();
        order.sort_unstable_by_key(|number| self.get_session(*number).map(|held| held.hash));
        let mut index_of = vec![0; order.len()];
        for (at, number) in order.iter().enumerate() {
            if let Some(index) = index_of.get_mut(*number as usize) {
                *index = at as u32;
            }
        }
        let (kinds, speakers) = (self.kinds.sorted_ranks(), self.speakers.sorted_ranks());
        let renamed =
            |names: &[u16], number: u16| names.get(usize::from(number)).copied().unwrap_or(NONE);
        let mut rows: Vec<(u32, PassageRow, u32)> = Vec::with_capacity(self.rows.len());
        for (number, (session, row)) in (0..).zip(std::mem::take(&mut self.rows)) {
            let session = index_of.get(session as usize).copied().unwrap_or_default();
            let (kind, speaker) = (renamed(&kinds, row.kind), renamed(&speakers, row.speaker));
            rows.push((session, PassageRow { kind, speaker, ..row }, number));
        }
        rows.sort_unstable();
        let mut passages = vec![0; rows.len()];
        for (at, (.., number)) in rows.iter().enumerate() {
            if let Some(passage) = passages.get_mut(*number as usize) {
                *passage = at as u32;
            }
        }
        let held = order.iter().filter_map(|number| self.get_session(*number));
        let sessions = held.map(|held| KeptPositions {
            session: SessionRef { hash: held.hash, id: &held.id },
            ranges: held.ranges.clone(),
            final_from: held.final_from,
        });
        let names = [sorted_texts(&self.kinds), sorted_texts(&self.speakers)];
        let rows = rows.iter().map(|(session, row, _)| (*session, *row));
        let mut writer =
            PartWriter::new(&sessions.collect::<Vec<_>>(), &rows.collect::<Vec<_>>(), &names);
        self.write_terms(&passages, &mut writer);
        writer.sections.into_bytes()
    }

    /// Writes the terms in order, each with its passages by their final indexes.
    fn write_terms(&self, passages: &[u32], writer: &mut PartWriter) {
        // The first bytes distinguish nearly all terms without another memory access.
        let head = |term: &str| {
            let mut head = [0; 8];
            head.iter_mut().zip(term.bytes()).for_each(|(byte, of)| *byte = of);
            u64::from_be_bytes(head)
        };
        let texts = self.terms.texts.iter().zip(0..);
        let mut terms: Vec<(u64, &str, usize)> =
            texts.map(|(term, number)| (head(term), &**term, number)).collect();
        terms.sort_unstable();
        // End index of the postings of each term.
        let mut ends = vec![0_usize; self.terms.texts.len()];
        for [term, ..] in &self.postings {
            ends.get_mut(*term as usize).into_iter().for_each(|end| *end += 1);
        }
        let mut end = 0;
        for of in &mut ends {
            end += *of;
            *of = end;
        }
        let mut postings = vec![(0, 0); end];
        for [term, passage, count] in self.postings.iter().rev() {
            let Some(end) = ends.get_mut(*term as usize) else { continue };
            *end -= 1;
            let passage = passages.get(*passage as usize).copied().unwrap_or_default();
            postings.get_mut(*end).into_iter().for_each(|posting| *posting = (passage, *count));
        }
        for (_, term, number) in terms {
            // The loop above has decremented each end to the start.
            let (start, end) = (ends.get(number), ends.get(number + 1).copied());
            let range = start.map(|start| *start..end.unwrap_or(postings.len()));
            if let Some(postings) = range.and_then(|range| postings.get_mut(range)) {
                postings.sort_unstable();
                writer.write_term(term.as_bytes(), postings);
            }
        }
    }

    fn get_session(&self, number: u32) -> Option<&OpenSession> {
        self.sessions.get(number as usize)
    }

    fn session_number(&mut self, session: SessionRef<'_>) -> u32 {
        let next = self.sessions.len() as u32;
        let number = *self.numbers.entry(session.hash).or_insert(next);
        if number == next {
            let (hash, id) = (session.hash, session.id.to_owned());
            let (ranges, final_from) = (Vec::new(), Position::ZERO);
            self.sessions.push(OpenSession { hash, id, ranges, final_from });
        }
        number
    }

    /// Returns the number of a word's term; `None` for a stop word.
    fn term_number(&mut self, word: &str) -> Option<u32> {
        if let Some(number) = self.words.get(word) {
            return *number;
        }
        let number = (!is_stop_word(word)).then(|| self.terms.get_or_assign(&stem(word)));
        self.words.insert(word.into(), number);
        number
    }

    /// Adds a passage with its terms; clears `terms`.
    fn add_passage(&mut self, session: u32, row: PassageRow, terms: &mut Vec<u32>) {
        let passage = self.rows.len() as u32;
        self.rows.push((session, row));
        terms.sort_unstable();
        for same in terms.chunk_by(|one, other| one == other) {
            let term = same.first().copied();
            self.postings.extend(term.map(|term| [term, passage, same.len() as u32]));
        }
        terms.clear();
    }
}

/// Returns the terms of an event's entities, such as days, files and addresses, each with its byte
/// offset, ascending. The time of the event has offset 0.
fn extract_names(said: &EventText, at: Timestamp) -> Vec<(usize, String)> {
    let mut named = Vec::new();
    if let Some(day) = dates::utc_day(at) {
        dates::DaySpan::Day(day).visit_terms(day, &mut |term| named.push((0, term.to_owned())));
        for date in dates::find(&said.text, at) {
            date.span.visit_terms(day, &mut |term| named.push((date.bytes.start, term.to_owned())));
        }
    }
    entities::find(&said.text, &mut |offset, term| named.push((offset, term.to_owned())));
    named.extend(said.kind.as_deref().map(|kind| (0, entities::kind_term(kind))));
    named.extend(said.named.iter().map(|(kind, name)| (0, kind.term(name))));
    for (offset, line) in entities::prompt_lines(&said.text) {
        let commands = command_names(line).into_iter();
        named.extend(commands.map(|name| (offset, EntityKind::Command.term(&name))));
    }
    named.sort();
    named
}

pub(super) fn origin_number(origin: Origin) -> u8 {
    match origin {
        Origin::User => 1,
        Origin::Model => 2,
        Origin::Tool => 3,
        Origin::Web => 4,
        Origin::Harness => 5,
        Origin::Import => 6,
    }
}

fn sorted_texts(names: &TextNumbering) -> Vec<&str> {
    let mut texts: Vec<&str> = names.texts.iter().map(AsRef::as_ref).collect();
    texts.sort_unstable();
    texts
}

/// Adds a range to ascending, disjoint ranges.
fn insert_range(ranges: &mut Vec<Range>, range: Range) {
    if range.is_empty() {
        return;
    }
    let from = ranges.partition_point(|one| one.to < range.from);
    let to = ranges.partition_point(|one| one.from <= range.to).max(from);
    let touched = ranges.get(from..to).unwrap_or_default();
    let first = touched.first().map_or(range.from, |one| one.from.min(range.from));
    let last = touched.last().map_or(range.to, |one| one.to.max(range.to));
    ranges.splice(from..to, [Range::new(first, last)]);
}

/// Merges the positions of parts that `keep` returns into one part; an event in several parts is
/// included once. Sessions without kept positions are omitted.
#[must_use]
pub fn merge(parts: &[Part<'_>], keep: &Keep<'_>) -> Vec<u8> {
    let all = Runs::new(parts, keep);
    let mut held: BTreeMap<usize, KeptPositions<'_>> = BTreeMap::new();
    let mut targets: Vec<Vec<u32>> = parts.iter().map(|part| vec![u32::MAX; part.len()]).collect();
    // Passages, each with the index of its session and of its part.
    let mut rows: Vec<((u32, PassageRow), usize)> = Vec::new();
    for run in &all.runs {
        let (Some(part), Some(targets), Some(of)) =
            (parts.get(run.part), targets.get_mut(run.part), all.sessions.get(run.session))
        else {
            continue;
        };
        let new = KeptPositions { session: *of, ranges: Vec::new(), final_from: Position::ZERO };
        let kept = held.entry(run.session).or_insert(new);
        insert_range(&mut kept.ranges, run.range);
        let final_from = part.final_from(run.index_in_part).min(run.range.to);
        kept.final_from = kept.final_from.max(final_from);
        let session = held.len() as u32 - 1;
        for passage in run.passages.clone() {
            pace::step();
            let (row, target) = (part.row(passage), targets.get_mut(passage));
            if let (Some(row), Some(target)) = (row, target) {
                *target = rows.len() as u32;
                rows.push(((session, row), run.part));
            }
        }
    }
    let names = collect_names(parts, &rows);
    let renamed: Vec<(u32, PassageRow)> = rows
        .into_iter()
        .map(|((session, row), part)| {
            let part = parts.get(part);
            let number = |names: &[&str], name: Option<&str>| {
                let target = name.and_then(|name| names.binary_search(&name).ok());
                target.and_then(|target| u16::try_from(target).ok()).unwrap_or(NONE)
            };
            let kind = number(&names[0], part.map(|part| part.kind_name(row.kind)));
            let speaker = number(&names[1], part.and_then(|part| part.speaker_name(row.speaker)));
            (session, PassageRow { kind, speaker, ..row })
        })
        .collect();
    let sessions: Vec<KeptPositions<'_>> = held.into_values().collect();
    let mut writer = PartWriter::new(&sessions, &renamed, &names);
    merge_terms(parts, &targets, &mut writer);
    writer.sections.into_bytes()
}

/// Returns the distinct types and speakers of these passages, ascending.
fn collect_names<'a>(parts: &[Part<'a>], rows: &[((u32, PassageRow), usize)]) -> [Vec<&'a str>; 2] {
    let of = |name: fn(&Part<'a>, &PassageRow) -> Option<&'a str>| {
        let names = rows.iter().filter_map(|((_, row), part)| name(parts.get(*part)?, row));
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    [of(|part, row| Some(part.kind_name(row.kind))), of(|part, row| part.speaker_name(row.speaker))]
}

fn merge_terms(parts: &[Part<'_>], targets: &[Vec<u32>], writer: &mut PartWriter) {
    let mut terms: Vec<TermIter<'_>> = parts.iter().map(|part| part.terms_from(b"")).collect();
    let mut heads: Vec<Option<Postings<'_>>> = terms.iter_mut().map(TermIter::next).collect();
    let mut merged: Vec<(u32, u32)> = Vec::new();
    loop {
        let left = terms.iter().zip(&heads).filter(|(_, head)| head.is_some());
        let Some(term) = left.map(|(terms, _)| &terms.term).min().cloned() else { return };
        merged.clear();
        pace::steps(1 + heads.len());
        for ((terms, head), targets) in terms.iter_mut().zip(&mut heads).zip(targets) {
            if let Some(postings) = head.filter(|_| terms.term == term) {
                postings.for_each(|passage, count| {
                    let target = targets.get(passage).filter(|target| **target != u32::MAX);
                    merged.extend(target.map(|target| (*target, count)));
                });
                *head = terms.next();
            }
        }
        pace::steps(merged.len() / POSTINGS_OF_A_STEP);
        merged.sort_unstable();
        merged.dedup_by_key(|(passage, _)| *passage);
        writer.write_term(&term, &merged);
    }
}

/// The kept positions of a session in a part.
struct KeptPositions<'a> {
    session: SessionRef<'a>,
    /// Ascending and disjoint.
    ranges: Vec<Range>,
    final_from: Position,
}

/// Writer of a part: `new` writes the passages, `write_term` one term.
struct PartWriter {
    sections: PartSections,
    before: Vec<u8>,
    terms: usize,
    gaps: Vec<u32>,
}

impl PartWriter {
    /// Starts a part; sessions must ascend by hash, passages, types and speakers as in the format.
    fn new(
        sessions: &[KeptPositions<'_>],
        rows: &[(u32, PassageRow)],
        names: &[Vec<&str>; 2],
    ) -> Self {
        let mut out = PartSections::default();
        let mut ranges = 0_u32;
        for (number, kept) in (0..).zip(sessions) {
            let first = rows.partition_point(|(session, ..)| *session < number) as u32;
            out.sessions.extend_from_slice(&kept.session.hash.0);
            out.sessions.extend([first, ranges].iter().flat_map(|start| start.to_le_bytes()));
            out.sessions.extend(kept.final_from.0.to_le_bytes());
            ranges += kept.ranges.len() as u32;
            let ends = kept.ranges.iter().flat_map(|range| [range.from.0, range.to.0]);
            out.ranges.extend(ends.flat_map(u64::to_le_bytes));
        }
        put_columns(rows, &mut out.columns);
        out.passages = rows.len() as u32;
        let [kinds, speakers] = names;
        (out.kinds, out.speakers) = (kinds.len() as u32, speakers.len() as u32);
        let ids = sessions.iter().map(|kept| &kept.session.id);
        for name in kinds.iter().chain(speakers).chain(ids) {
            out.text.extend_from_slice(name.as_bytes());
            out.names.extend((out.text.len() as u32).to_le_bytes());
        }
        Self { sections: out, before: Vec::new(), terms: 0, gaps: Vec::new() }
    }

    /// Writes a term and its passages; both must ascend.
    fn write_term(&mut self, term: &[u8], postings: &[(u32, u32)]) {
        if postings.is_empty() {
            return;
        }
        let out = &mut self.sections;
        if self.terms.is_multiple_of(BLOCK_TERMS) {
            self.before.clear();
            let starts = [out.terms.len() as u32, out.postings.len() as u32];
            out.blocks.extend(starts.iter().flat_map(|start| start.to_le_bytes()));
        }
        self.terms += 1;
        let same = self.before.iter().zip(term).take_while(|(one, other)| one == other);
        let shared = same.count();
        let rest = term.get(shared..).unwrap_or_default();
        let start = out.postings.len();
        put_postings(postings, &mut self.gaps, &mut out.postings);
        let [of_shared, of_rest] = [shared, rest.len()].map(|bytes| bytes.min(NIBBLE));
        out.terms.push((of_shared << 4 | of_rest) as u8);
        for (bytes, most) in [(shared, of_shared), (rest.len(), of_rest)] {
            if most == NIBBLE {
                put_varint((bytes - NIBBLE) as u32, &mut out.terms);
            }
        }
        out.terms.extend_from_slice(rest);
        put_varint(postings.len() as u32, &mut out.terms);
        if postings.len() >= SIZED_FROM {
            put_varint((out.postings.len() - start) as u32, &mut out.terms);
        }
        self.before.clear();
        self.before.extend_from_slice(term);
    }
}

/// Returns the characters of a pair in a script without spaces, each with its byte offset.
fn single_characters<'t>(term: &'t Term<'_>) -> impl Iterator<Item = (usize, &'t str)> {
    let is_pair = !term.whole && term.word.starts_with(is_unspaced) && !is_lone_unspaced(term.word);
    let pair = if is_pair { term.word } else { "" };
    let start = term.range.start;
    pair.char_indices().filter_map(move |(at, character)| {
        Some((start + at, pair.get(at..at + character.len_utf8())?))
    })
}
