//! FACTS: what a session's events mean, as pure folds. Event by event, in constant time each; no
//! I/O, no clock, no failure: a type nobody knows and a body that does not fit fold to nothing.
//! It must not know a view, a budget or a client.

pub mod body;
pub mod checkpoints;
mod compactions;
mod conversation;
mod findings;
mod found;
mod outcomes;
mod progress;
pub mod remembered;
mod research;
mod sources;
pub mod text;
pub mod usage;

pub use body::Confidence;
pub use compactions::{Compaction, Compactions};
pub use conversation::{Conversation, Line};
pub use findings::Finding;
pub use found::{Findable, Found};
pub use outcomes::{OpenCall, Outcome, Outcomes, Trouble};
pub use progress::{Output, Plan, PlanStep, Progress, Word};
pub use remembered::{Memory, Remembered};
pub use research::{Branch, CallerSummary, Gap, LINE_CHARS_MAX, Research, Step};
pub use sources::{Source, Sources, normalised};
pub use usage::{Level, Usage};

use crate::event::{Event, Position, Timestamp};

/// Everything this version knows of a session up to a position.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The first position that is not folded in yet.
    pub position: Position,
    /// When the first and the latest event came, by the store's clock.
    pub times: Option<(Timestamp, Timestamp)>,
    /// The research in it.
    pub research: Research,
    /// How its tools fared.
    pub outcomes: Outcomes,
    /// Everything else in it.
    pub conversation: Conversation,
    /// How far its work is.
    pub progress: Progress,
    /// What its client's compactions took out of the context.
    pub compactions: Compactions,
    /// What the requests of its model took.
    pub usage: Usage,
    /// What its tools answered.
    pub remembered: Remembered,
    /// Sources that results name and the log does not say yet.
    pub findable: Findable,
}

impl Facts {
    /// Folds one event in. Events come in ascending order of position.
    pub fn fold(&mut self, event: &Event) {
        self.position = event.position.plus(1);
        let first = self.times.map_or(event.processed_at, |(first, _)| first);
        self.times = Some((first, event.processed_at));
        if !self.research.fold(event) {
            self.outcomes.fold(event);
            self.conversation.fold(event);
            self.progress.fold(event);
            self.compactions.fold(event);
            self.usage.fold(event);
            self.remembered.fold(event);
            self.findable.fold(event);
        } else {
            self.findable.fold_told(event);
        }
    }

    /// About how many bytes of memory the facts take.
    #[must_use]
    pub fn weight(&self) -> usize {
        size_of::<Self>()
            + self.research.weight()
            + self.outcomes.weight()
            + self.conversation.weight()
            + self.progress.weight()
            + self.compactions.weight()
            + self.remembered.weight()
            + self.findable.weight()
    }
}

/// Events for the tests of folds and of views.
#[cfg(test)]
pub(crate) mod tests {
    use crate::event::{Event, EventId, EventType, Origin, Position, Timestamp};

    /// An event of a model, one second after the one before it.
    pub(crate) fn event(position: u64, kind: &str, body: impl Into<String>) -> Event {
        Event {
            position: Position(position),
            id: EventId::new(&format!("e{position}")).expect("a good id"),
            kind: EventType::new(kind).expect("a good type"),
            origin: Origin::Model,
            created_at: None,
            processed_at: Timestamp(1_000_000 * i64::try_from(position).expect("small")),
            body: body.into().into(),
        }
    }
}
