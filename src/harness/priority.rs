//! Priority of a context item as a sum of published parts: importance, relevance to the query,
//! recency, frequency, rarity of its words, category, and mark. It must not choose among items:
//! `select` does.

use std::collections::BTreeMap;

use super::select::{Item, MARK_MAX};
use crate::{
    api::memory::MarkKind,
    event::{Origin, Position},
    projection::{Facts, SavedItem},
};

/// Importance of a context item without one, and of a model's mark without one.
const IMPORTANCE_USUAL: u8 = 5;
const MARK_OF_MODEL: u8 = 8;
/// Similarity to the query, of 1 000, from which a text counts as relevant, and from which it
/// counts as fully relevant.
const ALIKE_MIN: usize = 100;
const ALIKE_FULL: usize = 500;
/// Category of work to be done.
pub(super) const TASK: &str = "task";
/// Bytes of a content by which it is scored.
const JUDGED_BYTES: usize = 600;

/// Returns true if an event has a mark of that kind.
pub(super) fn has_mark(facts: &Facts, position: Position, kind: MarkKind) -> bool {
    facts.marks.at_position(position).iter().any(|mark| mark.kind == kind)
}

/// Returns the importance of an event's mark, from 1 to 10; without one, 10 for a mark by the user
/// or the user's program.
pub(super) fn mark_importance(facts: &Facts, position: Position) -> Option<u8> {
    let mut marks = facts.marks.at_position(position).iter();
    let mark = marks.find(|mark| mark.kind == MarkKind::Important)?;
    let usual = if mark.origin == Origin::Model { MARK_OF_MODEL } else { MARK_MAX };
    Some(mark.importance.unwrap_or(usual))
}

/// Returns the importance of a context item: the client's, or a higher one of its event's mark.
pub(super) fn item_importance(one: &SavedItem, mark: Option<u8>) -> Option<u8> {
    one.importance.max(mark)
}

pub(super) fn scored_beginning(content: &str) -> &str {
    content.get(..content.floor_char_boundary(JUDGED_BYTES)).unwrap_or_default()
}

/// Parts of a context item's priority, in tenths of a point; at most 100 together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityParts {
    /// Importance by the client or the mark of its event, 5 without either: up to 30.
    pub importance: usize,
    /// Similarity to the query: up to 30.
    pub relevance: usize,
    /// Recency of its save in the session: up to 10.
    pub recency: usize,
    /// Number of saves: up to 10.
    pub frequency: usize,
    /// Rarity of its words in the session: up to 10.
    pub specificity: usize,
    /// Category: code 10, data, file and task 8, others less.
    pub category: usize,
    /// Points for the mark of its event, which raise the sum to ten times the mark.
    pub mark: usize,
}

impl PriorityParts {
    /// Maximum of each part, by name.
    pub const WEIGHTS: [(&'static str, u64); 6] = [
        ("importance", 30),
        ("relevance", 30),
        ("recency", 10),
        ("frequency", 10),
        ("specificity", 10),
        ("category", 10),
    ];

    /// Computes the parts for an item; `alike` is its similarity to the query, of 1 000.
    pub(super) fn new(facts: &Facts, one: &SavedItem, at: &Item, alike: usize) -> Self {
        let worth = facts.findings.worth(scored_beginning(&one.content));
        let importance = item_importance(one, at.mark).unwrap_or(IMPORTANCE_USUAL);
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

    /// Returns the parts by name; a mark only if it adds points.
    pub(super) fn to_map(self) -> BTreeMap<String, u64> {
        let Self { importance, relevance, recency, frequency, specificity, category, mark } = self;
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

    /// Returns the sum of all parts.
    #[must_use]
    pub fn sum(&self) -> usize {
        let Self { importance, relevance, recency, frequency, specificity, category, mark } = self;
        importance + relevance + recency + frequency + specificity + category + mark
    }
}
