//! Positions that are no part of the conversation any more: a person took the agent back to an
//! earlier message and continued from there. The latest event that says so before a point holds,
//! and has all of them. It must not know why.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::body;
use crate::event::{Event, Position, Range, kinds};

/// Ranges that are kept of one event at most.
const RANGES_MAX: usize = 10_000;

/// Ranges in ascending order, none of which touches another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Withdrawn(Vec<Range>);

impl Withdrawn {
    /// End of the range that contains a position.
    #[must_use]
    pub fn end_of(&self, position: Position) -> Option<Position> {
        let after = self.0.partition_point(|range| range.from <= position);
        let range = after.checked_sub(1).and_then(|before| self.0.get(before))?;
        (position < range.to).then_some(range.to)
    }

    /// The ranges.
    #[must_use]
    pub fn ranges(&self) -> &[Range] {
        &self.0
    }

    /// True if a position is among them.
    #[must_use]
    pub fn has(&self, position: Position) -> bool {
        self.end_of(position).is_some()
    }
}

/// Ranges before an event that it withdraws; `None` of any other event.
#[must_use]
pub fn withdrawn(event: &Event) -> Option<Withdrawn> {
    #[derive(Deserialize)]
    struct RewindBody<'a> {
        #[serde(borrow)]
        withdrawn: &'a RawValue,
    }
    if event.kind.as_str() != kinds::CONTEXT_REWOUND {
        return None;
    }
    let body: RewindBody<'_> = body::read(&event.body)?;
    let mut ranges = body::ranges(body.withdrawn.get());
    ranges.retain(|range| range.from < event.position);
    ranges.sort_unstable_by_key(|range| range.from);
    let mut joined: Vec<Range> = Vec::new();
    for range in ranges.into_iter().take(RANGES_MAX) {
        let to = range.to.min(event.position);
        match joined.last_mut().filter(|last| range.from <= last.to) {
            Some(last) => last.to = last.to.max(to),
            None => joined.push(Range::new(range.from, to)),
        }
    }
    Some(Withdrawn(joined))
}

/// Ranges of one session that are left out, and those known to be withdrawn.
#[derive(Clone, Debug, Default)]
pub(super) struct LeftOutRanges {
    left_out: Withdrawn,
    latest: Withdrawn,
}

impl LeftOutRanges {
    /// True if an event is left out. Positions in a body are those of its session, which begins at
    /// `base`.
    pub(super) fn fold(&mut self, event: &Event, base: Position) -> bool {
        let at = Position(event.position.0 - base.0);
        if event.kind.as_str() == kinds::CONTEXT_REWOUND {
            let event = Event { position: at, ..event.clone() };
            if let Some(withdrawn) = withdrawn(&event) {
                self.latest = withdrawn;
            }
        }
        self.left_out.has(at)
    }

    /// Ranges withdrawn last.
    pub(super) fn withdrawn(&self) -> Withdrawn {
        self.latest.clone()
    }

    /// True if the ranges left out differ from those withdrawn last.
    pub(super) fn is_stale(&self) -> bool {
        self.left_out != self.latest
    }

    /// The same before any event, with what is known now.
    pub(super) fn again(&self) -> Self {
        Self { left_out: self.latest.clone(), latest: Withdrawn::default() }
    }

    pub(super) fn weight(&self) -> usize {
        (self.left_out.0.len() + self.latest.0.len()) * size_of::<Range>()
    }
}
