//! Collects the events of a slice from frames, in either direction and within its limits. It must
//! not read a frame from its storage.

use crate::{
    event::{Event, Position, Range},
    log::{Fault, Frame},
    store::{FillDirection, ReadRequest, SessionGap, Slice},
};

/// Collector of the events of a slice.
pub(crate) struct SliceBuilder<'a> {
    /// Positions to be collected next.
    pub(crate) range: Range,
    pub(crate) read: &'a ReadRequest,
    pub(crate) events: Vec<Event>,
    /// Buffer for the events of one frame.
    frame: Vec<Event>,
    bytes: usize,
    /// Ranges of accepted losses: they stay lost, even if a file has them.
    pub(crate) given_up: Vec<Range>,
    /// True once a limit was reached: later events are left out, and nothing is read behind the
    /// last one, which may be lost.
    pub(crate) full: bool,
}

impl<'a> SliceBuilder<'a> {
    pub(crate) fn new(range: Range, read: &'a ReadRequest) -> Self {
        // Capacity for most slices; it grows for longer ones.
        let count = range.len().min(read.events_max as u64).min(128) as usize;
        let events = Vec::with_capacity(count);
        let given_up = Vec::new();
        Self { range, read, events, frame: Vec::new(), bytes: 0, given_up, full: false }
    }

    /// Adds the events in the range, from events in ascending order.
    pub(crate) fn push_events(&mut self, events: &[Event]) {
        let from = events.partition_point(|event| event.position < self.range.from);
        let to = events.partition_point(|event| event.position < self.range.to);
        let wanted = events.get(from..to).unwrap_or_default();
        let fill = self.read.fill;
        let mut take = |event: &Event| {
            if self.is_accepted_loss(event) {
                return true;
            }
            let fits = self.try_reserve(event);
            fits.then(|| self.events.push(event.clone())).is_some()
        };
        match fill {
            FillDirection::Forward => wanted.iter().all(&mut take),
            FillDirection::Backward => wanted.iter().rev().all(&mut take),
        };
    }

    /// Adds the events in the range from a frame.
    pub(crate) fn push_frame(&mut self, frame: &Frame) -> Result<(), Fault> {
        let mut events = std::mem::take(&mut self.frame);
        events.clear();
        frame.append_events(self.range, &mut events)?;
        if self.read.fill == FillDirection::Backward {
            events.reverse();
        }
        events.retain(|event| !self.is_accepted_loss(event));
        for event in events.drain(..) {
            if !self.try_reserve(&event) {
                break;
            }
            self.events.push(event);
        }
        self.frame = events;
        Ok(())
    }

    fn is_accepted_loss(&self, event: &Event) -> bool {
        self.given_up.iter().any(|range| range.contains(event.position))
    }

    /// Returns true if an event fits; the first one that does not, or after which none can, ends
    /// the slice.
    fn try_reserve(&mut self, event: &Event) -> bool {
        let (count, bytes) = (self.events.len() + 1, self.bytes + event.body.len());
        let (events_max, bytes_max) = (self.read.events_max, self.read.bytes_max);
        let fits = !self.full && count <= events_max && (count == 1 || bytes <= bytes_max);
        if fits {
            self.bytes = bytes;
        }
        self.full = !fits || count >= events_max || bytes >= bytes_max;
        fits
    }

    /// Returns the slice of `range` with the part of `gaps` that it covers.
    pub(crate) fn into_slice(self, range: Range, gaps: Vec<SessionGap>, tail: Position) -> Slice {
        let mut events = self.events;
        events.sort_by_key(|event| event.position);
        let covered = match (self.full, self.read.fill, events.first(), events.last()) {
            (true, FillDirection::Forward, _, Some(last)) => {
                Range::new(range.from, last.position.plus(1))
            }
            (true, FillDirection::Backward, Some(first), _) => Range::new(first.position, range.to),
            _ => range,
        };
        debug_assert!(range.contains_range(covered), "a slice covers what was asked for");
        assert!(events.len() <= self.read.events_max, "a slice keeps its bound");
        let mut gaps: Vec<SessionGap> =
            gaps.into_iter().filter_map(|gap| clip(gap, covered)).collect();
        gaps.sort_by_key(|gap| gap.range.from);
        Slice { events, covered, gaps, tail }
    }
}

/// Returns the number of positions that two ranges have in common.
pub(crate) fn overlap(one: Range, other: Range) -> u64 {
    let (from, to) = (one.from.max(other.from), one.to.min(other.to));
    to.0.saturating_sub(from.0)
}

/// Returns the part of a gap that is in a range.
pub(crate) fn clip(gap: SessionGap, range: Range) -> Option<SessionGap> {
    let cut = Range::new(gap.range.from.max(range.from), gap.range.to.min(range.to));
    (gap.range.from < range.to && range.from < gap.range.to && !cut.is_empty())
        .then_some(SessionGap { range: cut, ..gap })
}

/// Returns the gap of erased positions, for a reader that allows gaps.
pub(crate) fn erased_gap(range: Range) -> SessionGap {
    SessionGap {
        range,
        reason: "the session that wrote it was erased".to_owned(),
        accepted_at: None,
    }
}
