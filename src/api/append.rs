//! Lines of an append stream and the answers to them. It must not hold a rule; `service` checks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    error::ErrorBody,
    events::{NewEvent, Receipt},
};

/// A line of an append stream: a batch for a session. Another member is refused.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AppendLine {
    /// The session.
    pub session: String,
    /// 1 to 1 000 events: all are appended or none.
    #[schemars(with = "Vec<NewEvent>")]
    pub events: Vec<Box<RawValue>>,
    /// The batch's first event must get this position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_position: Option<u64>,
    /// A retry with the same key within 24 h answers the same positions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Token of the session's lease, when one is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fencing_token: Option<u64>,
    /// What the client calls the line, a text of at most 128 bytes or a whole number; it comes
    /// back with the answer.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub reference: Option<Box<RawValue>>,
}

/// Answer to a line of an append stream; its events are durable.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LineAppended {
    /// Always `appended`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The line, from 1.
    pub line: u64,
    /// What the client called it.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub reference: Option<Box<RawValue>>,
    /// The session.
    pub session: String,
    /// Position of the batch's first event.
    pub first_position: u64,
    /// The position after the batch's last event.
    pub next_position: u64,
    /// Proof of the append; it may cover batches that became durable together with this one.
    pub receipt: Receipt,
    /// Whether the batch was known already and nothing was written.
    pub repeated: bool,
}

/// Answer to a refused line; the lines after it are still read.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LineRefused {
    /// The error, as on any route.
    #[serde(flatten)]
    pub error: ErrorBody,
    /// The line, from 1.
    pub line: u64,
    /// What the client called it, as far as the line could be read.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub reference: Option<Box<RawValue>>,
    /// The session, as far as the line could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}
