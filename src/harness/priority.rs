//! Priority of a context item, as a sum whose parts are shown: what the client said, how much it is
//! about what is asked, when and how often it was saved, how rare its words are, what kind it is,
//! and a mark. It must not choose among items: `select` does.

use std::collections::BTreeMap;

use super::select::{Item, MARK_MAX};
use crate::{
    api::memory::MarkKind,
    event::{Origin, Position},
    projection::{Facts, SavedItem},
};

/// Importance of a context item that has none; of an event that a model marked without one.
const IMPORTANCE_USUAL: u8 = 5;
const MARK_OF_MODEL: u8 = 8;
/// From this likeness to what is asked on (of 1 000) a text counts as about it, and from the other
/// on as being of its words.
const ALIKE_MIN: usize = 100;
const ALIKE_FULL: usize = 500;
/// The category of work that is to be done.
pub(super) const TASK: &str = "task";
/// Bytes of a content by which it is judged.
const JUDGED_BYTES: usize = 600;

/// True if an event is marked so.
pub(super) fn is_marked(facts: &Facts, position: Position, kind: MarkKind) -> bool {
    facts.marks.at(position).iter().any(|mark| mark.kind == kind)
}

/// Importance that an event was marked with, from 1 to 10: 10 where a person, or the program of
/// one, did not say.
pub(super) fn important(facts: &Facts, position: Position) -> Option<u8> {
    let mut marks = facts.marks.at(position).iter();
    let mark = marks.find(|mark| mark.kind == MarkKind::Important)?;
    let usual = if mark.origin == Origin::Model { MARK_OF_MODEL } else { MARK_MAX };
    Some(mark.importance.unwrap_or(usual))
}

/// The importance of a context item: what the client said, or a higher mark of its event.
pub(super) fn importance(one: &SavedItem, mark: Option<u8>) -> Option<u8> {
    one.importance.max(mark)
}

/// The beginning of a content, by which it is judged.
pub(super) fn judged(content: &str) -> &str {
    content.get(..content.floor_char_boundary(JUDGED_BYTES)).unwrap_or_default()
}

/// Parts of the priority of a context item, in tenths of a point: 100 together at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Importance by the client or the mark of its event, 5 where neither is there: up to 30.
    pub importance: usize,
    /// Likeness to what is asked: up to 30.
    pub relevance: usize,
    /// Lateness of its saving in the session: up to 10.
    pub recency: usize,
    /// Number of times it was saved: up to 10.
    pub frequency: usize,
    /// Rarity of its words in the session: up to 10.
    pub specificity: usize,
    /// Its category: code 10, data, file and task 8, others less.
    pub category: usize,
    /// Points for the mark of its event: with it the sum is ten times the mark at least.
    pub mark: usize,
}

impl Parts {
    /// The most of each part, by its name.
    pub const WEIGHTS: [(&'static str, u64); 6] = [
        ("importance", 30),
        ("relevance", 30),
        ("recency", 10),
        ("frequency", 10),
        ("specificity", 10),
        ("category", 10),
    ];

    /// The parts of an item that is so alike to what is asked, of 1 000.
    pub(super) fn new(facts: &Facts, one: &SavedItem, at: &Item, alike: usize) -> Self {
        let worth = facts.findings.worth(judged(&one.content));
        let importance = importance(one, at.mark).unwrap_or(IMPORTANCE_USUAL);
        let about = alike.clamp(ALIKE_MIN, ALIKE_FULL) - ALIKE_MIN;
        let made = Self {
            importance: 3 * usize::from(importance),
            relevance: 30 * about / (ALIKE_FULL - ALIKE_MIN),
            recency: at.recency / 10,
            frequency: 5 * (one.times as usize).saturating_sub(1).min(2),
            specificity: worth.min(1_000) / 100,
            category: match &*one.category {
                "code" => 10,
                "data" | "file" | TASK => 8,
                "concept" => 5,
                _ => 3,
            },
            mark: 0,
        };
        let least = 10 * usize::from(at.mark.unwrap_or_default());
        Self { mark: least.saturating_sub(made.sum()), ..made }
    }

    /// The parts by their names; that of a mark where it has one.
    pub(super) fn named(&self) -> BTreeMap<String, u64> {
        let Self { importance, relevance, recency, frequency, specificity, category, mark } = *self;
        let mark = (mark > 0).then_some(("mark", mark));
        let named = [
            ("importance", importance),
            ("relevance", relevance),
            ("recency", recency),
            ("frequency", frequency),
            ("specificity", specificity),
            ("category", category),
        ];
        let named = named.into_iter().chain(mark);
        named.map(|(name, part)| (name.to_owned(), part as u64)).collect()
    }

    /// All of it.
    #[must_use]
    pub fn sum(&self) -> usize {
        let Self { importance, relevance, recency, frequency, specificity, category, mark } = self;
        importance + relevance + recency + frequency + specificity + category + mark
    }
}
