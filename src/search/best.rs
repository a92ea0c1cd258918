//! The best hits of a search, and the sort key of a hit. It must not read a part.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::part::PassageRow;
use crate::api::search::Why;

/// Order of the hits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HitOrder {
    /// Highest score first.
    #[default]
    Score,
    /// Newest first.
    Time,
}

/// Returns the score of a hit: the sum of its components.
#[must_use]
pub fn score(why: &Why) -> f32 {
    let words = why.words + why.near + why.session + why.who + why.whole;
    words + why.row + why.meaning
}

/// A passage that may become a hit.
#[derive(Clone, Copy, Debug)]
pub(super) struct HitCandidate {
    /// Sort key; higher comes first.
    key: [i64; 4],
    pub(super) part: usize,
    pub(super) passage: usize,
    pub(super) session: usize,
    pub(super) position: u64,
    pub(super) why: Why,
    /// Number of words of the query in the passage.
    pub(super) held: usize,
}

impl HitCandidate {
    /// Creates a candidate from the indexes of its part, passage and session; `held` is the number
    /// of words of the query in it.
    pub(super) fn new(
        order: HitOrder,
        [part, passage, session]: [usize; 3],
        held: usize,
        row: &PassageRow,
        why: Why,
    ) -> Self {
        let (rank, position) = (-(session as i64), row.position as i64);
        let score = score_bits(score(&why));
        let key = match order {
            HitOrder::Score => [score, row.at_ms, rank, position],
            HitOrder::Time => [row.at_ms, rank, position, score],
        };
        Self { key, part, passage, session, position: row.position, why, held }
    }
}

/// Maps a non-negative float to its bits, which sort like the number.
fn score_bits(score: f32) -> i64 {
    i64::from(score.to_bits())
}

impl PartialEq for HitCandidate {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for HitCandidate {}

impl PartialOrd for HitCandidate {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for HitCandidate {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

/// The best candidates so far, at most `limit`.
pub(super) struct TopCandidates {
    order: HitOrder,
    limit: usize,
    heap: BinaryHeap<Reverse<HitCandidate>>,
    /// Minimum first component of the sort key of a candidate that is still included.
    least: i64,
}

impl TopCandidates {
    pub(super) fn new(order: HitOrder, limit: usize) -> Self {
        Self { order, limit, heap: BinaryHeap::new(), least: i64::MIN }
    }

    /// Returns true if a candidate with a score of at most `most` cannot be among the best.
    pub(super) fn is_too_low(&self, most: f32) -> bool {
        self.order == HitOrder::Score && score_bits(most) < self.least
    }

    pub(super) fn extend(&mut self, candidate: Option<HitCandidate>) {
        let Some(candidate) = candidate.filter(|it| it.key[0] >= self.least) else { return };
        self.heap.push(Reverse(candidate));
        if self.heap.len() > self.limit {
            self.heap.pop();
        }
        if self.heap.len() == self.limit {
            self.least = self.heap.peek().map_or(i64::MIN, |Reverse(least)| least.key[0]);
        }
    }

    /// Returns the candidates, the best first.
    pub(super) fn into_sorted(self) -> impl Iterator<Item = HitCandidate> {
        self.heap.into_sorted_vec().into_iter().map(|Reverse(candidate)| candidate)
    }
}
