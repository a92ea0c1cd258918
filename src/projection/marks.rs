//! Marks that users and models set on single events: important, wrong, done. Bounded. It must not
//! change the meaning of a marked event.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::body::{self, MarkBody};
use crate::{
    api::memory::{Mark, MarkKind},
    event::{Event, EventId, Position, kinds, text::clip},
};

/// Most marked events kept; the one marked first is dropped first.
const EVENTS_MAX: usize = 4_096;
/// Most characters kept of a note.
const NOTE_CHARS_MAX: usize = 400;

/// Marks of a session's events.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    of: HashMap<EventId, Vec<Mark>>,
    /// Marked event at a position, if the mark contains the position.
    at: HashMap<Position, EventId>,
    order: VecDeque<EventId>,
    /// Positions that an earlier fold found marked important; `known_to` is the end of that fold.
    known: BTreeSet<Position>,
    known_to: Position,
    /// True if an event was marked that the facts may have dropped.
    are_late: bool,
}

impl Marks {
    /// Returns the marks of an event, the latest of each kind, oldest first.
    #[must_use]
    pub fn of_event(&self, id: &EventId) -> &[Mark] {
        self.of.get(id).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the marks of the event at a position, if a mark contains it.
    #[must_use]
    pub fn at_position(&self, position: Position) -> &[Mark] {
        self.at.get(&position).map(|id| self.of_event(id)).unwrap_or_default()
    }

    /// Returns true if the event at a position is marked important, now or later in the log.
    pub(super) fn is_important(&self, position: Position) -> bool {
        let is_important = |mark: &Mark| mark.kind == MarkKind::Important;
        self.known.contains(&position) || self.at_position(position).iter().any(is_important)
    }

    /// Records that the mark at a position is of an event that may have been dropped.
    pub(super) fn record_late_mark(&mut self, mark: Position) {
        self.are_late |= mark >= self.known_to;
    }

    /// Returns true if a fold that knows all marks would keep more.
    pub(super) fn has_late_marks(&self) -> bool {
        self.are_late
    }

    /// Returns empty marks for a new fold that knows the important positions.
    pub(super) fn for_new_fold(&self, known_to: Position) -> Self {
        let marked = self.at.keys().filter(|at| self.is_important(**at)).copied();
        let mut known: BTreeSet<_> = marked.chain(self.known.iter().copied()).collect();
        while known.len() > EVENTS_MAX {
            known.pop_first();
        }
        Self { known, known_to: known_to.max(self.known_to), ..Self::default() }
    }

    /// Folds a mark; positions in bodies count from `base`. Returns the position of an event that
    /// it marks important.
    pub(super) fn fold(&mut self, event: &Event, base: Position) -> Option<Position> {
        if event.kind.as_str() != kinds::EVENT_MARKED {
            return None;
        }
        let body = body::read::<MarkBody>(&event.body)?;
        let (kind, id) = (MarkKind::parse(&body.mark)?, EventId::new(&body.of).ok()?);
        let mark = Mark {
            kind: kind.into(),
            position: event.position,
            origin: event.origin.into(),
            importance: body.importance.map(|importance| importance.clamp(1, 10)),
            note: body.note.map(|note| clip(&note, NOTE_CHARS_MAX).into()),
        };
        if !self.of.contains_key(&id) {
            if self.order.len() == EVENTS_MAX
                && let Some(first) = self.order.pop_front()
            {
                self.of.remove(&first);
                self.at.retain(|_, id| *id != first);
            }
            self.order.push_back(id.clone());
        }
        let position = body.position.map(|position| base.plus(position));
        if let Some(position) = position {
            self.at.insert(position, id.clone());
        }
        let marks = self.of.entry(id).or_default();
        marks.retain(|known| known.kind != kind);
        marks.push(mark);
        position.filter(|_| kind == MarkKind::Important)
    }

    pub(super) fn weight(&self) -> usize {
        let notes = self
            .of
            .values()
            .flatten()
            .map(|mark| size_of::<Mark>() + mark.note.as_ref().map_or(0, |note| note.len()));
        notes.sum::<usize>() + self.order.len() * 200 + self.known.len() * size_of::<Position>()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::{Value, json};

    use super::*;
    use crate::event::{EventType, Origin, Timestamp};

    fn marked(at: u64, body: &Value) -> Event {
        Event {
            position: Position(at),
            id: EventId::new(&format!("m{at}")).expect("an id"),
            kind: EventType::new(kinds::EVENT_MARKED).expect("a type"),
            origin: Origin::User,
            created_at: None,
            processed_at: Timestamp(0),
            body: Bytes::from(body.to_string()),
        }
    }

    #[test]
    fn marks_keep_the_latest_of_each_kind_and_drop_the_oldest_events() {
        let mut marks = Marks::default();
        let id = |text: &str| EventId::new(text).expect("an id");
        for (at, body) in (0..).zip([
            json!({"of": "a", "mark": "important", "importance": 3}),
            json!({"of": "a", "mark": "wrong", "note": "it is 8443"}),
            json!({"of": "a", "mark": "important", "importance": 9}),
            json!({"of": "a", "mark": "splendid"}),
            json!({"mark": "wrong"}),
        ]) {
            marks.fold(&marked(at, &body), Position(0));
        }
        let found: Vec<(&str, u64, Option<u8>)> = marks
            .of_event(&id("a"))
            .iter()
            .map(|mark| (mark.kind.text(MarkKind::as_str), mark.position.0, mark.importance))
            .collect();
        assert_eq!(found, [("wrong", 1, None), ("important", 2, Some(9))]);
        for n in 0..EVENTS_MAX {
            let body = json!({"of": format!("b{n}"), "mark": "done"});
            marks.fold(&marked(10, &body), Position(0));
        }
        assert!(marks.of_event(&id("a")).is_empty() && marks.of.len() == EVENTS_MAX);
    }
}
