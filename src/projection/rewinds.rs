//! Ranges removed from a conversation by a rewind of the client to an earlier message. Each such
//! event lists all of them, so the latest one counts. It must not know the reason.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::body;
use crate::event::{Event, Position, Range, kinds};

/// Most ranges kept of one event.
const RANGES_MAX: usize = 10_000;

/// Withdrawn ranges, ascending, that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WithdrawnRanges(Vec<Range>);

impl WithdrawnRanges {
    /// Returns the end of the range that contains a position.
    #[must_use]
    pub fn end_of_range_at(&self, position: Position) -> Option<Position> {
        let after = self.0.partition_point(|range| range.from <= position);
        let range = after.checked_sub(1).and_then(|before| self.0.get(before))?;
        (position < range.to).then_some(range.to)
    }

    /// Returns the ranges.
    #[must_use]
    pub fn ranges(&self) -> &[Range] {
        &self.0
    }

    /// Returns true if a range contains the position.
    #[must_use]
    pub fn contains(&self, position: Position) -> bool {
        self.end_of_range_at(position).is_some()
    }
}

/// Returns the ranges that an event withdraws; `None` for any other event.
#[must_use]
pub fn parse_withdrawn(event: &Event) -> Option<WithdrawnRanges> {
    #[derive(Deserialize)]
    struct RewindBody<'a> {
        #[serde(borrow)]
        withdrawn: &'a RawValue,
    }
    if event.kind.as_str() != kinds::CONTEXT_REWOUND {
        return None;
    }
    let body: RewindBody<'_> = body::read(&event.body)?;
    let mut ranges = body::parse_ranges(body.withdrawn.get());
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
    Some(WithdrawnRanges(joined))
}

/// Ranges that a fold leaves out, and those that the latest event withdraws.
#[derive(Clone, Debug, Default)]
pub(super) struct LeftOutRanges {
    left_out: WithdrawnRanges,
    latest: WithdrawnRanges,
}

impl LeftOutRanges {
    /// Returns true if the fold leaves the event out. Positions in a body are relative to its
    /// session, which begins at `base`.
    pub(super) fn fold(&mut self, event: &Event, base: Position) -> bool {
        let at = Position(event.position.0 - base.0);
        if event.kind.as_str() == kinds::CONTEXT_REWOUND {
            let event = Event { position: at, ..event.clone() };
            if let Some(withdrawn) = parse_withdrawn(&event) {
                self.latest = withdrawn;
            }
        }
        self.left_out.contains(at)
    }

    /// Returns the ranges withdrawn last.
    pub(super) fn latest_withdrawn(&self) -> WithdrawnRanges {
        self.latest.clone()
    }

    /// Returns true if the ranges left out differ from those withdrawn last.
    pub(super) fn is_stale(&self) -> bool {
        self.left_out != self.latest
    }

    /// Returns the state for a new fold that leaves out the ranges withdrawn last.
    pub(super) fn for_new_fold(&self) -> Self {
        Self { left_out: self.latest.clone(), latest: WithdrawnRanges::default() }
    }

    pub(super) fn weight(&self) -> usize {
        (self.left_out.0.len() + self.latest.0.len()) * size_of::<Range>()
    }
}
