//! Events and appends to one session, as clients send and read them, with what is known of a
//! session's durable part: a receipt, a gap. It must not hold a rule; `service` checks.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::event::{EventId, Position, SessionId};

/// Proof of what was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Receipt {
    /// The tail when the receipt was given.
    pub position: Position,
    /// Chain value of the event before it, 64 hex digits.
    pub chain: String,
}

/// Positions that cannot be served, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gap {
    /// First position of the gap.
    pub from: Position,
    /// First position after the gap.
    pub to: Position,
    /// What was found.
    pub reason: String,
    /// When a person accepted the loss: it refuses nothing any more, and stays named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_at: Option<String>,
}

/// A gap among the events of a stream or an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GapLine {
    /// `gap`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What is lost, and since when that is accepted.
    #[serde(flatten)]
    pub gap: Gap,
}

/// An event as a client sends it: the members named here, and any others as its body.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NewEvent {
    /// The client's name for it: a retry answers the same position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `{domain}.{action}`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Precondition: the event must get exactly this position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// The client's clock, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// The body.
    #[serde(flatten)]
    pub body: BTreeMap<String, serde_json::Value>,
}

/// An event as the store returns it: the members named here first, then its body unchanged.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its name, unique in the session.
    pub id: String,
    /// `{domain}.{action}`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its place in the session: 0-based, dense, permanent.
    pub position: u64,
    /// The store's clock, RFC 3339; never decreases in a session.
    pub processed_at: String,
    /// The client's clock, when it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// `user`, `model`, `tool`, `web`, `harness` or `import`: set by the interface that received
    /// it.
    pub origin: String,
    /// The body.
    #[serde(flatten)]
    pub body: BTreeMap<String, serde_json::Value>,
}

/// A batch to append.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EmitRequest {
    /// 1 to 1 000 events: all are appended or none.
    #[schemars(with = "Vec<NewEvent>", length(min = 1, max = 1000))]
    pub events: Vec<Box<RawValue>>,
}

/// One event to append.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EmitOne {
    /// The event
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub event: Box<RawValue>,
    /// The event must get this position
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_position: Option<u64>,
}

/// Answer to an append; the events are durable.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EmitAnswer {
    /// The events as they are kept, in the batch's order.
    #[schemars(with = "Vec<Event>")]
    pub data: Vec<Box<RawValue>>,
    /// Position of the batch's first event.
    pub first_position: u64,
    /// The tail after the batch.
    pub next_position: u64,
    /// Proof of the append.
    pub receipt: Receipt,
    /// Whether the batch was known already and nothing was written.
    pub repeated: bool,
    /// Notices about the events, such as a type that no view shows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

/// A slice of a session.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EventsAnswer {
    /// The events, in the order asked for.
    #[schemars(with = "Vec<Event>")]
    pub data: Vec<Box<RawValue>>,
    /// Cursor of the next page; null when the range is done.
    pub next_page: Option<String>,
    /// The next `from`; newest first, the next `to`.
    pub next_position: u64,
    /// The position the next event of the session will get.
    pub tail: u64,
    /// What is missing among the positions answered for; only with `allow_gaps=true`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
    /// Where `types[]` matched no event of the range: the types of the session's last 200 events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types_seen: Vec<String>,
}

/// A redacted event as it is served from now on, and what was made of it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EventRedacted {
    /// What was made of it.
    #[serde(flatten)]
    pub beside: RedactedBeside,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// What was made of a redacted event.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RedactedBeside {
    /// Events that had words of it: the rest of the record it was made of, sources that the server
    /// found in it, answers given again; and what models of its workspace were given by hooks after
    /// it, which may repeat it. They were redacted with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<CopyOf>,
    /// Items of memory that stand for it or were written from its session after it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<ItemOf>,
}

/// An event that had words of another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CopyOf {
    /// Its id.
    pub id: EventId,
    /// Its position.
    pub position: Position,
    /// Its session, where that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
}

/// An item of memory that was written from an erased session or may repeat a redacted event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ItemOf {
    /// Id of the item, which is an event.
    pub memory_id: EventId,
    /// The session that keeps it: a notebook for most.
    pub notebook: SessionId,
    /// Its position in the notebook.
    pub position: Position,
    /// Whether its text was removed.
    pub redacted: bool,
}
