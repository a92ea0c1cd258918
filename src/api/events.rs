//! Events and appends to one session, as clients send and read them, with the receipts and gaps of
//! its durable part. It must not validate: `service` does.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::event::{EventId, Position, SessionId};

/// Proof of the acknowledged events of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Receipt {
    /// Tail of the session when the receipt was given.
    pub position: Position,
    /// Chain value of the event before that position, 64 hex digits.
    pub chain: String,
}

/// Positions that cannot be read, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gap {
    /// First position of the gap.
    pub from: Position,
    /// First position after the gap.
    pub to: Position,
    /// Reason why the positions cannot be read.
    pub reason: String,
    /// Time at which a person accepted the loss: it no longer causes refusals, and is still listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_at: Option<String>,
}

/// A gap among the events of a stream or an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GapLine {
    /// Always `gap`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Lost positions, and the time at which their loss was accepted.
    #[serde(flatten)]
    pub gap: Gap,
}

/// An event as a client sends it: these members, and any others as its body.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NewEvent {
    /// Client's id for the event: a retry with the same id returns the same position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Type of the event, `{domain}.{action}`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Precondition: the event must get exactly this position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// Time of the event by the client's clock, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// Members of the body.
    #[serde(flatten)]
    pub body: BTreeMap<String, serde_json::Value>,
}

/// An event as the store returns it: these members first, then its body unchanged.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Id of the event, unique in the session.
    pub id: String,
    /// Type of the event, `{domain}.{action}`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Position of the event in the session: 0-based, dense, permanent.
    pub position: u64,
    /// Time of the append by the store's clock, RFC 3339; never decreases in a session.
    pub processed_at: String,
    /// Time of the event by the client's clock, if the client sent one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// Origin of the event, set by the interface that received it: `user`, `model`, `tool`, `web`,
    /// `harness` or `import`.
    pub origin: String,
    /// Members of the body.
    #[serde(flatten)]
    pub body: BTreeMap<String, serde_json::Value>,
}

/// A batch of events to append.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EmitRequest {
    /// 1 to 1 000 events; all of them are appended, or none.
    #[schemars(with = "Vec<NewEvent>", length(min = 1, max = 1000))]
    pub events: Vec<Box<RawValue>>,
}

/// One event to append.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EmitEventRequest {
    /// Event to append
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub event: Box<RawValue>,
    /// Position that the event must get
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_position: Option<u64>,
}

/// Answer to an append; the events are durable.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EmitAnswer {
    /// Stored events, in the batch's order.
    #[schemars(with = "Vec<Event>")]
    pub data: Vec<Box<RawValue>>,
    /// Position of the batch's first event.
    pub first_position: u64,
    /// Tail of the session after the batch.
    pub next_position: u64,
    /// Proof of the append.
    pub receipt: Receipt,
    /// True if the batch had been appended before and nothing was written.
    pub repeated: bool,
    /// Notices about the events, such as a type that no view shows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

/// A slice of a session.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EventsAnswer {
    /// Events, in the requested order.
    #[schemars(with = "Vec<Event>")]
    pub data: Vec<Box<RawValue>>,
    /// Cursor of the next page; null at the end of the range.
    pub next_page: Option<String>,
    /// Value of `from` for the next request; with the newest first, of `to`.
    pub next_position: u64,
    /// Position that the next event of the session will get.
    pub tail: u64,
    /// Gaps in the returned range; only with `allow_gaps=true`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
    /// If `types[]` matched no event of the range: types of the session's last 200 events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types_seen: Vec<String>,
}

/// A redacted event as it is returned from now on, and what was derived from it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EventRedacted {
    /// Events and items of memory derived from the event.
    #[serde(flatten)]
    pub beside: RedactionEffects,
    /// The redacted event.
    #[serde(flatten)]
    pub event: Event,
}

/// Events and items of memory that were derived from a redacted event.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RedactionEffects {
    /// Events that were redacted with it because they may repeat its text: others made from the
    /// same record, sources that the server found in it, repeated answers, and texts that hooks
    /// later gave to models of its workspace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<CopyOf>,
    /// Items of memory that represent it, or were written from its session after it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<ItemOf>,
}

/// An event that had text of another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CopyOf {
    /// Id of the event.
    pub id: EventId,
    /// Position of the event.
    pub position: Position,
    /// Session of the event, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
}

/// An item of memory that was written from an erased session or may repeat a redacted event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ItemOf {
    /// Id of the item, which is the id of its event.
    pub memory_id: EventId,
    /// Session that stores the item, usually a notebook.
    pub notebook: SessionId,
    /// Position of the item in that session.
    pub position: Position,
    /// True if its text was removed.
    pub redacted: bool,
}
