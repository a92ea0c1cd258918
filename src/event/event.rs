//! Events as emitted and as stored. Bodies are opaque bytes here: JSON text without the reserved
//! members, cut by wire. It must not parse a body.

use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc};

use bytes::Bytes;

use super::{BatchKey, EventId, EventType, Fence, NewNote, Position, Timestamp, json};

/// Origin of an event; set by the interface that received it, never by its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A person.
    User,
    /// A language model.
    Model,
    /// A tool's output.
    Tool,
    /// A web page.
    Web,
    /// A harness over HTTP or the CLI.
    Harness,
    /// A transcript of another program.
    Import,
}

impl Origin {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Model => "model",
            Self::Tool => "tool",
            Self::Web => "web",
            Self::Harness => "harness",
            Self::Import => "import",
        }
    }

    /// The origin of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::User, Self::Model, Self::Tool, Self::Web, Self::Harness, Self::Import];
        all.into_iter().find(|origin| origin.as_str() == name)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One thing that happened, as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its place in the session.
    pub position: Position,
    /// Its name, unique in the session.
    pub id: EventId,
    /// `{domain}.{action}`.
    pub kind: EventType,
    /// Origin of the event.
    pub origin: Origin,
    /// The client's time, if given.
    pub created_at: Option<Timestamp>,
    /// The store's clock; never decreases in a session.
    pub processed_at: Timestamp,
    /// JSON object text without the reserved members.
    pub body: Bytes,
}

impl Event {
    /// The event for a reader of its words: U+FFFD is in the place of each half of a surrogate pair
    /// that its body has alone, which readers of JSON refuse.
    #[must_use]
    pub fn paired(&self) -> Cow<'_, Self> {
        match str::from_utf8(&self.body).map(json::paired) {
            Ok(Cow::Owned(body)) => Cow::Owned(Self { body: body.into(), ..self.clone() }),
            _ => Cow::Borrowed(self),
        }
    }
}

/// An event as the store keeps it, wherever its parts are.
#[derive(Clone, Copy, Debug)]
pub struct EventRef<'a> {
    /// Its place in the session.
    pub position: Position,
    /// Its name.
    pub id: &'a EventId,
    /// Its type.
    pub kind: &'a EventType,
    /// Who caused it.
    pub origin: Origin,
    /// The client's time, if given.
    pub created_at: Option<Timestamp>,
    /// The store's clock.
    pub processed_at: Timestamp,
    /// JSON object text without the reserved members.
    pub body: &'a [u8],
}

impl<'a> From<&'a Event> for EventRef<'a> {
    fn from(event: &'a Event) -> Self {
        let Event { position, id, kind, origin, created_at, processed_at, body } = event;
        Self {
            position: *position,
            id,
            kind,
            origin: *origin,
            created_at: *created_at,
            processed_at: *processed_at,
            body,
        }
    }
}

/// An event to be emitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// The client's name for it, which makes a retry answer the same position.
    pub id: Option<EventId>,
    /// `{domain}.{action}`.
    pub kind: EventType,
    /// Origin of the event; set by the interface.
    pub origin: Origin,
    /// The client's clock.
    pub created_at: Option<Timestamp>,
    /// Precondition: the event must get exactly this position.
    pub position: Option<Position>,
    /// JSON object text without the reserved members.
    pub body: Bytes,
}

/// Events emitted together: all or none.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The events, in order; clones of a batch share them.
    pub events: Arc<[NewEvent]>,
    /// Compare and append: the batch's first event must get this position.
    pub if_position: Option<Position>,
    /// The client's key of the batch: a retry within 24 h returns the same positions.
    pub key: Option<BatchKey>,
    /// The token of the writer's lease.
    pub fence: Option<Fence>,
    /// Stored with the events, in the same frame; not stored when the batch is a retry.
    pub note: Option<NewNote>,
    /// Pairs of the session's metadata that are set, or removed, in the same frame; not when the
    /// batch is a retry.
    pub metadata: BTreeMap<String, Option<String>>,
}

impl Batch {
    /// True if it is only a note that the server made by itself.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.events.is_empty() && self.note.as_ref().is_some_and(|note| note.idle)
    }
}
