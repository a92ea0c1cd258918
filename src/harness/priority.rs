//! How much a context item matters, as a sum whose parts are shown: what the client said, when and
//! how often it was saved, how rare its words are, what kind it is, and a user's mark. It must not
//! choose among items: `select` does.

use super::select::Item;
use crate::{
    event::{Origin, Position},
    projection::{Facts, MarkKind, SavedItem},
};

/// Importance of a context item that has none, of a marked event without one, and the most.
const IMPORTANCE_USUAL: u8 = 5;
const MARK_USUAL: u8 = 8;
const MARK_MAX: u8 = 10;
/// The category of work that is to be done.
pub(super) const TASK: &str = "task";
/// Bytes of a content by which it is judged.
const JUDGED_BYTES: usize = 600;

/// Whether an event is marked so.
pub(super) fn is_marked(facts: &Facts, position: Position, kind: MarkKind) -> bool {
    facts.marks.at(position).iter().any(|mark| mark.kind == kind)
}

/// How important an event was marked, from 1 to 10: a user's mark counts 10.
pub(super) fn important(facts: &Facts, position: Position) -> Option<u8> {
    let mut marks = facts.marks.at(position).iter();
    let mark = marks.find(|mark| mark.kind == MarkKind::Important)?;
    let is_users = mark.origin == Origin::User;
    Some(if is_users { MARK_MAX } else { mark.importance.unwrap_or(MARK_USUAL) })
}

/// What the priority of a context item is made of, in tenths of a point: 100 together at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// What the client said, 5 where it said nothing: up to 50.
    pub importance: usize,
    /// How late in the session it was saved: up to 15.
    pub recency: usize,
    /// How often it was saved: up to 10.
    pub frequency: usize,
    /// How rare its words are in the session: up to 10.
    pub specificity: usize,
    /// Its category: code 15, data, file and task 12, others less.
    pub category: usize,
    /// The mark of its event: it stands for all others.
    pub mark: Option<u8>,
}

impl Parts {
    pub(super) fn of(facts: &Facts, one: &SavedItem, at: &Item) -> Self {
        let head = one.content.get(..one.content.floor_char_boundary(JUDGED_BYTES));
        let worth = facts.findings.worth(head.unwrap_or_default());
        Self {
            importance: 5 * usize::from(one.importance.unwrap_or(IMPORTANCE_USUAL)),
            recency: 15 * at.recency / 100,
            frequency: 5 * (one.times as usize).saturating_sub(1).min(2),
            specificity: worth.min(1_000) / 100,
            category: match &*one.category {
                "code" => 15,
                "data" | "file" | TASK => 12,
                "concept" => 8,
                _ => 5,
            },
            mark: at.mark,
        }
    }

    /// All of it.
    #[must_use]
    pub fn sum(&self) -> usize {
        let Self { importance, recency, frequency, specificity, category, mark } = self;
        let all = importance + recency + frequency + specificity + category;
        mark.map_or(all, |mark| all.max(10 * usize::from(mark)))
    }
}
