//! Counts of entities in the passages of an index: files, symbols, errors and the other kinds, each
//! with its count and times. It must not read a text or classify a name.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{
    entities::EntityKind,
    packed::Postings,
    part::{Part, TermIter},
    runs::{Keep, Runs},
};
use crate::{
    api::graph::NamedInSession,
    event::{SessionId, Timestamp, pace},
};

/// Maximum names, and maximum pairs of a name and a session, that are counted; others are ignored.
const NAMES_MAX: usize = 100_000;
const PAIRS_MAX: usize = 2_000_000;
/// Maximum days that are counted separately, the latest ones.
const DAYS_MAX: usize = 400;
/// Estimated names per passage; estimated bytes of memory for a counted name, pair and passage.
const NAMES_OF_A_PASSAGE: usize = 100;
const NAME_BYTES: usize = 400;
const PAIR_BYTES: usize = 12;
const PASSAGE_BYTES: usize = 4;
const DAY_MS: i64 = 24 * 3_600 * 1_000;

/// An entity that events name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedEntity {
    /// Kind of the entity.
    pub kind: EntityKind,
    /// Name of the entity.
    pub name: String,
    /// Number of sessions with events that name it.
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
pub struct NamedEntities {
    /// Entities by kind and name.
    pub named: Vec<NamedEntity>,
    /// True if the limit of names or of pairs was reached, so that some were left out.
    pub limited: bool,
}

/// Counts of a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DayCounts {
    /// Number of sessions with events of the day.
    pub sessions: u64,
    /// Number of events.
    pub events: u64,
    /// Number of words in their texts, without the most common ones.
    pub words: u64,
}

/// Events by day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventsByDay {
    /// Counts by days since 1970, for the latest 400 days with events.
    pub days: BTreeMap<i64, DayCounts>,
    /// Events and words of earlier days.
    pub before: DayCounts,
    /// Number of sessions on all days.
    pub sessions: u64,
}

/// The passages that a filter keeps, each with its session.
struct KeptPassages<'a, 'p> {
    parts: &'p [Part<'a>],
    ids: Vec<&'a str>,
    /// Index in `ids` by part and passage; `NONE` for a passage that is not kept.
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

    /// Calls `visit` with session, position and time of each kept passage of a part's postings.
    fn for_each_passage(
        &self,
        part: usize,
        postings: Postings<'_>,
        mut visit: impl FnMut(u32, u64, Timestamp),
    ) {
        let (Some(of), Some(sessions)) = (self.parts.get(part), self.sessions.get(part)) else {
            return;
        };
        postings.for_each(|passage, _| {
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
    fn find_sessions(&self, kind: EntityKind, names: &[String]) -> Vec<NamedInSession> {
        struct NameCount {
            events: u64,
            before: u64,
            last: Timestamp,
        }
        let mut found: HashMap<u32, NameCount> = HashMap::new();
        for name in names {
            let term = kind.term(name);
            for (number, part) in self.parts.iter().enumerate() {
                let Some(postings) = part.find_postings(term.as_bytes()) else { continue };
                self.for_each_passage(number, postings, |session, position, at| {
                    let new = NameCount { events: 0, before: u64::MAX, last: at };
                    let count = found.entry(session).or_insert(new);
                    // Pieces of one event are adjacent.
                    count.events += u64::from(count.before != position);
                    (count.before, count.last) = (position, at.max(count.last));
                });
            }
        }
        let in_session = |(session, NameCount { events, last, .. }): (u32, NameCount)| {
            let session = SessionId::new(self.ids.get(session as usize)?).ok()?;
            Some(NamedInSession { session, count: events, last_at: last })
        };
        let mut found: Vec<NamedInSession> = found.into_iter().filter_map(in_session).collect();
        found.sort_by(|one, other| {
            (other.last_at, &one.session).cmp(&(one.last_at, &other.session))
        });
        found
    }
}

/// Counts and times of an entity.
struct EntityTally {
    sessions: HashSet<u32>,
    count: u64,
    first: Timestamp,
    last: Timestamp,
}

/// Counts the entities of these kinds in the kept passages from `since` on. `same` maps a name to
/// the name under which it is counted.
#[must_use]
pub fn count_entities(
    parts: &[Part<'_>],
    kinds: &[EntityKind],
    keep: &Keep<'_>,
    since: Option<Timestamp>,
    same: &dyn Fn(EntityKind, String) -> String,
) -> NamedEntities {
    let kept = KeptPassages::new(parts, keep, since);
    let mut found: BTreeMap<(EntityKind, String), EntityTally> = BTreeMap::new();
    let (mut limited, mut pairs) = (false, 0);
    for kind in kinds {
        let prefix = kind.prefix();
        for (number, part) in parts.iter().enumerate() {
            let mut terms: TermIter<'_> = part.terms_from(prefix.as_bytes());
            while let Some(postings) = terms.next() {
                pace::step();
                let Ok(term) = std::str::from_utf8(&terms.term) else { continue };
                if !term.starts_with(&prefix) {
                    break;
                }
                let Some(name) = kind.entity_name(term) else { continue };
                let mut tally: Option<EntityTally> = None;
                let mut before = None;
                kept.for_each_passage(number, postings, |session, position, at| {
                    let new =
                        EntityTally { sessions: HashSet::new(), count: 0, first: at, last: at };
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
                merge(&mut found, key, tally);
            }
        }
    }
    let row = |((kind, name), tally): ((EntityKind, String), EntityTally)| NamedEntity {
        kind,
        name,
        sessions: tally.sessions.len() as u64,
        count: tally.count,
        first_at: tally.first,
        last_at: tally.last,
    };
    NamedEntities { named: found.into_iter().map(row).collect(), limited }
}

fn merge(
    found: &mut BTreeMap<(EntityKind, String), EntityTally>,
    key: (EntityKind, String),
    new: EntityTally,
) {
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

/// Returns upper bounds for counting in `passages` passages: names, and bytes of memory.
#[must_use]
pub fn counting_bounds(passages: usize) -> (usize, usize) {
    let all = passages.saturating_mul(NAMES_OF_A_PASSAGE);
    let (names, pairs) = (all.min(NAMES_MAX), all.min(PAIRS_MAX));
    (names, names * NAME_BYTES + pairs * PAIR_BYTES + passages.saturating_mul(PASSAGE_BYTES))
}

/// Returns, for each wanted entity, the sessions whose kept passages have one of its names: at most
/// `most`, the latest first.
#[must_use]
pub fn find_naming_sessions(
    parts: &[Part<'_>],
    wanted: &[(EntityKind, Vec<String>)],
    keep: &Keep<'_>,
    most: usize,
) -> Vec<Vec<NamedInSession>> {
    let kept = KeptPassages::new(parts, keep, None);
    let in_session = |(kind, names): &(EntityKind, Vec<String>)| {
        let mut found = kept.find_sessions(*kind, names);
        found.truncate(most);
        found.shrink_to_fit();
        found
    };
    wanted.iter().map(in_session).collect()
}

/// Counts the events and words of the kept passages by day, from `since` on.
#[must_use]
pub fn count_by_day(parts: &[Part<'_>], keep: &Keep<'_>, since: Option<Timestamp>) -> EventsByDay {
    let kept = KeptPassages::new(parts, keep, since);
    let mut all: HashSet<u32> = HashSet::new();
    let mut days: BTreeMap<i64, (HashSet<u32>, DayCounts)> = BTreeMap::new();
    let mut before_them = DayCounts::default();
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
    let day = |(day, (sessions, of)): (i64, (HashSet<u32>, DayCounts))| {
        (day, DayCounts { sessions: sessions.len() as u64, ..of })
    };
    let days = days.into_iter().map(day).collect();
    EventsByDay { days, before: before_them, sessions: all.len() as u64 }
}
