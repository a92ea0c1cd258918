//! The times of a session's events, in order. It must not read a body.

use crate::event::{Event, Origin, Timestamp};

/// Returns the time at which an event happened. `None` for a line of a transcript that has none:
/// the time of its import is not when it happened.
#[must_use]
pub fn own_time(event: &Event) -> Option<Timestamp> {
    let is_untimed = event.created_at.is_none() && event.origin == Origin::Import;
    (!is_untimed).then(|| event.happened_at())
}

/// Times of the events folded so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventTimes {
    range: Option<(Timestamp, Timestamp)>,
    /// True if an event had a time of its own.
    is_known: bool,
}

impl EventTimes {
    /// Returns the first and the latest time; `None` without an event.
    #[must_use]
    pub fn range(&self) -> Option<(Timestamp, Timestamp)> {
        self.range
    }

    /// Folds the next event and returns its time. Bookkeeping in a transcript may have none but
    /// that of its import: it counts at the time of the event before it.
    pub fn fold(&mut self, event: &Event) -> Timestamp {
        let own = own_time(event);
        let at = match self.range {
            Some((_, last)) if own.is_none() => last,
            _ => event.happened_at(),
        };
        let (first, last) = self.range.unwrap_or((at, at));
        let last = if self.is_known { last.max(at) } else { at };
        self.range = Some((first.min(at), last));
        self.is_known |= own.is_some();
        at
    }
}
