//! Events as emitted and as stored. Bodies are opaque bytes here: JSON text without the reserved
//! members, cut by wire. It must not parse a body.

use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc};

use bytes::Bytes;

use super::{BatchKey, EventId, EventType, Fence, NewNote, Position, Timestamp, json};

/// Origin of an event; set by the interface that received it, never by its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The user.
    User,
    /// A language model.
    Model,
    /// The output of a tool.
    Tool,
    /// A web page.
    Web,
    /// A harness over HTTP or the CLI.
    Harness,
    /// A transcript of another program.
    Import,
}

impl Origin {
    /// Returns the name of the origin, as in JSON.
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

    /// Parses the name of an origin.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let all = [Self::User, Self::Model, Self::Tool, Self::Web, Self::Harness, Self::Import];
        all.into_iter().find(|origin| origin.as_str() == name)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A stored event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Position in the session.
    pub position: Position,
    /// Id, unique in the session.
    pub id: EventId,
    /// Type: `{domain}.{action}`.
    pub kind: EventType,
    /// Origin of the event.
    pub origin: Origin,
    /// Time that the client gave, if any.
    pub created_at: Option<Timestamp>,
    /// Time at which the store accepted the event; never decreases within a session.
    pub processed_at: Timestamp,
    /// JSON object text without the reserved members.
    pub body: Bytes,
}

impl Event {
    /// Returns the time at which the event happened: that of its client, if it gave one that is not
    /// after the store's; an imported event has the time of its transcript.
    #[must_use]
    pub fn happened_at(&self) -> Timestamp {
        self.created_at.map_or(self.processed_at, |at| at.min(self.processed_at))
    }

    /// Returns the event with each lone half of a surrogate pair in its body, which JSON parsers
    /// reject, replaced by U+FFFD.
    #[must_use]
    pub fn with_paired_surrogates(&self) -> Cow<'_, Self> {
        match str::from_utf8(&self.body).map(json::replace_lone_surrogates) {
            Ok(Cow::Owned(body)) => Cow::Owned(Self { body: body.into(), ..self.clone() }),
            _ => Cow::Borrowed(self),
        }
    }
}

/// A stored event whose parts are borrowed.
#[derive(Clone, Copy, Debug)]
pub struct EventRef<'a> {
    /// Position in the session.
    pub position: Position,
    /// Id, unique in the session.
    pub id: &'a EventId,
    /// Type: `{domain}.{action}`.
    pub kind: &'a EventType,
    /// Origin of the event.
    pub origin: Origin,
    /// Time that the client gave, if any.
    pub created_at: Option<Timestamp>,
    /// Time at which the store accepted the event.
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
    /// Id that the client gave, if any: a retry with it returns the same position.
    pub id: Option<EventId>,
    /// Type: `{domain}.{action}`.
    pub kind: EventType,
    /// Origin of the event; set by the interface.
    pub origin: Origin,
    /// Time that the client gave, if any.
    pub created_at: Option<Timestamp>,
    /// Precondition: the event must get exactly this position.
    pub position: Option<Position>,
    /// JSON object text without the reserved members.
    pub body: Bytes,
}

/// Events appended together: all or none.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Events in order; clones of a batch share them.
    pub events: Arc<[NewEvent]>,
    /// Compare and append: the batch's first event must get this position.
    pub if_position: Option<Position>,
    /// Idempotency key of the client: a retry within 24 h returns the same positions.
    pub key: Option<BatchKey>,
    /// Fencing token of the writer's lease.
    pub fence: Option<Fence>,
    /// Note stored with the events, in the same frame; not stored when the batch is a retry.
    pub note: Option<NewNote>,
    /// Metadata pairs of the session to set, or to remove (`None`), in the same frame; ignored
    /// when the batch is a retry.
    pub metadata: BTreeMap<String, Option<String>>,
}

impl Batch {
    /// Returns true if the batch is only a note that the server wrote without a request.
    #[must_use]
    pub fn is_idle_note(&self) -> bool {
        self.events.is_empty() && self.note.as_ref().is_some_and(|note| note.idle)
    }
}
