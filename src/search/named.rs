//! Counts of entities in the passages of an index: files, symbols, errors and the other kinds, each
//! with its count and times. It must not read a text or classify a name.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{
    entities::EntityKind,
    packed::Postings,
    part::{Part, Terms},
    runs::{Keep, Runs},
};
use crate::{
    api::graph::NamedInSession,
    event::{SessionId, Timestamp, pace},
};

/// Maximum names, and maximum pairs of a name and a session, that are counted; others are ignored.
const NAMES_MAX: usize = 100_000;
const PAIRS_MAX: usize = 2_000_000;
/// Number of the latest days of which sessions are counted.
const DAYS_MAX: usize = 400;
/// Estimated names per passage; estimated bytes of a counted name, pair and passage.
const NAMES_OF_A_PASSAGE: usize = 100;
const NAME_BYTES: usize = 400;
const PAIR_BYTES: usize = 12;
const PASSAGE_BYTES: usize = 4;
/// Milliseconds of a day.
const DAY_MS: i64 = 24 * 3_600 * 1_000;

/// An entity that events name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its kind.
    pub kind: EntityKind,
    /// Its name.
    pub name: String,
    /// Number of sessions with such events.
    pub sessions: u64,
    /// Number of events that name it.
    pub count: u64,
    /// Time of the first of them.
    pub first_at: Timestamp,
    /// Time of the last of them.
    pub last_at: Timestamp,
}

/// Entities in events of some sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedIn {
    /// Entities by kind and name.
    pub named: Vec<Named>,
    /// True if some were left out.
    pub limited: bool,
}

/// Counts of a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfDay {
    /// Number of sessions with such events.
    pub sessions: u64,
    /// Number of events.
    pub events: u64,
    /// Number of words in their texts, without the most common ones.
    pub words: u64,
}

/// Events by day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Counts by days since 1970, for the latest 400 days with events.
    pub days: BTreeMap<i64, OfDay>,
    /// Events and words of earlier days.
    pub before: OfDay,
    /// Number of sessions on all days.
    pub sessions: u64,
}

/// The kept passages, each with its session.
struct KeptPassages<'a, 'p> {
    parts: &'p [Part<'a>],
    ids: Vec<&'a str>,
    /// Session by part and passage, or none.
    sessions: Vec<Vec<u32>>,
    since: Option<Timestamp>,
}

const NONE: u32 = u32::MAX;

impl<'a, 'p> KeptPassages<'a, 'p> {
    fn new(parts: &'p [Part<'a>], keep: &Keep<'_>, since: Option<Timestamp>) -> Self {
        let runs = Runs::new(parts, keep);
        let mut sessions: Vec<Vec<u32>> = parts.iter().map(|part| vec![NONE; part.len()]).collect();
        for run in &runs.runs {
            pace::step();
            let of = sessions.get_mut(run.part).and_then(|of| of.get_mut(run.passages.clone()));
            of.into_iter().flatten().for_each(|session| *session = run.session as u32);
        }
        let ids = runs.sessions.iter().map(|session| session.id).collect();
        Self { parts, ids, sessions, since }
    }

    /// Calls `visit` with the session, the position and the time of each kept passage of these.
    fn each(
        &self,
        part: usize,
        postings: Postings<'_>,
        mut visit: impl FnMut(u32, u64, Timestamp),
    ) {
        let (Some(of), Some(sessions)) = (self.parts.get(part), self.sessions.get(part)) else {
            return;
        };
        postings.each(|passage, _| {
            pace::step();
            let session = sessions.get(passage).copied().unwrap_or(NONE);
            let Some(row) = of.row(passage).filter(|_| session != NONE) else { return };
            let at = Timestamp(row.at_ms.saturating_mul(1_000));
            if self.since.is_none_or(|since| at >= since) {
                visit(session, row.position, at);
            }
        });
    }
}

impl KeptPassages<'_, '_> {
    fn naming(&self, kind: EntityKind, names: &[String]) -> Vec<NamedInSession> {
        struct Count {
            events: u64,
            before: u64,
            last: Timestamp,
        }
        let mut found: HashMap<u32, Count> = HashMap::new();
        for name in names {
            let term = kind.term(name);
            for (number, part) in self.parts.iter().enumerate() {
                let Some(postings) = part.find(term.as_bytes()) else { continue };
                self.each(number, postings, |session, position, at| {
                    let new = Count { events: 0, before: u64::MAX, last: at };
                    let count = found.entry(session).or_insert(new);
                    // Pieces of one event are adjacent.
                    count.events += u64::from(count.before != position);
                    (count.before, count.last) = (position, at.max(count.last));
                });
            }
        }
        let naming = |(session, Count { events, last, .. }): (u32, Count)| {
            let session = SessionId::new(self.ids.get(session as usize)?).ok()?;
            Some(NamedInSession { session, count: events, last_at: last })
        };
        let mut found: Vec<NamedInSession> = found.into_iter().filter_map(naming).collect();
        found.sort_by(|one, other| {
            (other.last_at, &one.session).cmp(&(one.last_at, &other.session))
        });
        found
    }
}

/// Counts of an entity.
struct Tally {
    sessions: HashSet<u32>,
    count: u64,
    first: Timestamp,
    last: Timestamp,
}

/// Counts entities of these kinds in the kept passages since a time. `same` maps a name to the one
/// under which it is counted.
#[must_use]
pub fn named(
    parts: &[Part<'_>],
    kinds: &[EntityKind],
    keep: &Keep<'_>,
    since: Option<Timestamp>,
    same: &dyn Fn(EntityKind, String) -> String,
) -> NamedIn {
    let kept = KeptPassages::new(parts, keep, since);
    let mut found: BTreeMap<(EntityKind, String), Tally> = BTreeMap::new();
    let (mut limited, mut pairs) = (false, 0);
    for kind in kinds {
        let prefix = kind.prefix();
        for (number, part) in parts.iter().enumerate() {
            let mut terms: Terms<'_> = part.terms_from(prefix.as_bytes());
            while let Some(postings) = terms.next() {
                pace::step();
                let Ok(term) = std::str::from_utf8(&terms.term) else { continue };
                if !term.starts_with(&prefix) {
                    break;
                }
                let Some(name) = kind.name(term) else { continue };
                let mut tally: Option<Tally> = None;
                let mut before = None;
                kept.each(number, postings, |session, position, at| {
                    let new = Tally { sessions: HashSet::new(), count: 0, first: at, last: at };
                    let tally = tally.get_or_insert(new);
                    tally.sessions.insert(session);
                    // Pieces of one event are adjacent.
                    let event = (session, position);
                    tally.count += u64::from(before.replace(event) != Some(event));
                    (tally.first, tally.last) = (tally.first.min(at), tally.last.max(at));
                });
                let Some(tally) = tally else { continue };
                let key = (*kind, same(*kind, name));
                pairs += tally.sessions.len();
                let is_full = found.len() >= NAMES_MAX && !found.contains_key(&key);
                if is_full || pairs > PAIRS_MAX {
                    limited = true;
                    continue;
                }
                add(&mut found, key, tally);
            }
        }
    }
    let row = |((kind, name), tally): ((EntityKind, String), Tally)| Named {
        kind,
        name,
        sessions: tally.sessions.len() as u64,
        count: tally.count,
        first_at: tally.first,
        last_at: tally.last,
    };
    NamedIn { named: found.into_iter().map(row).collect(), limited }
}

fn add(found: &mut BTreeMap<(EntityKind, String), Tally>, key: (EntityKind, String), new: Tally) {
    match found.get_mut(&key) {
        None => drop(found.insert(key, new)),
        Some(known) => {
            known.sessions.extend(new.sessions);
            known.count += new.count;
            known.first = known.first.min(new.first);
            known.last = known.last.max(new.last);
        }
    }
}

/// Returns bounds for counting in that many passages: the number of names, and their bytes.
#[must_use]
pub fn named_weight(passages: usize) -> (usize, usize) {
    let all = passages.saturating_mul(NAMES_OF_A_PASSAGE);
    let (names, pairs) = (all.min(NAMES_MAX), all.min(PAIRS_MAX));
    (names, names * NAME_BYTES + pairs * PAIR_BYTES + passages.saturating_mul(PASSAGE_BYTES))
}

/// Returns, for each entity, the sessions whose kept passages have one of its names: at most
/// `limit`, the latest first.
#[must_use]
pub fn naming(
    parts: &[Part<'_>],
    wanted: &[(EntityKind, Vec<String>)],
    keep: &Keep<'_>,
    most: usize,
) -> Vec<Vec<NamedInSession>> {
    let kept = KeptPassages::new(parts, keep, None);
    let naming = |(kind, names): &(EntityKind, Vec<String>)| {
        let mut found = kept.naming(*kind, names);
        found.truncate(most);
        found.shrink_to_fit();
        found
    };
    wanted.iter().map(naming).collect()
}

/// Counts the kept passages by day, since a time.
#[must_use]
pub fn by_day(parts: &[Part<'_>], keep: &Keep<'_>, since: Option<Timestamp>) -> Counted {
    let kept = KeptPassages::new(parts, keep, since);
    let mut all: HashSet<u32> = HashSet::new();
    let mut days: BTreeMap<i64, (HashSet<u32>, OfDay)> = BTreeMap::new();
    let mut before_them = OfDay::default();
    for (part, sessions) in parts.iter().zip(&kept.sessions) {
        let mut before = None;
        for (passage, session) in sessions.iter().enumerate().filter(|(_, one)| **one != NONE) {
            pace::step();
            let Some(row) = part.row(passage) else { continue };
            let at = Timestamp(row.at_ms.saturating_mul(1_000));
            if since.is_some_and(|since| at < since) {
                continue;
            }
            all.insert(*session);
            let (sessions, day) = days.entry(row.at_ms.div_euclid(DAY_MS)).or_default();
            sessions.insert(*session);
            let event = (*session, row.position);
            day.events += u64::from(before.replace(event) != Some(event));
            day.words += u64::from(row.words);
            if days.len() > DAYS_MAX
                && let Some((_, (_, first))) = days.pop_first()
            {
                before_them.events += first.events;
                before_them.words += first.words;
            }
        }
    }
    let day = |(day, (sessions, of)): (i64, (HashSet<u32>, OfDay))| {
        (day, OfDay { sessions: sessions.len() as u64, ..of })
    };
    let days = days.into_iter().map(day).collect();
    Counted { days, before: before_them, sessions: all.len() as u64 }
}
