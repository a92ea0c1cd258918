//! Lines of an append stream and the answers to them. It must not validate: `service` does.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    error::ErrorBody,
    events::{NewEvent, Receipt},
};

/// A line of an append stream: a batch for a session. Unknown members are refused.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AppendLine {
    /// Id of the session.
    pub session: String,
    /// 1 to 1 000 events; all of them are appended, or none.
    #[schemars(with = "Vec<NewEvent>")]
    pub events: Vec<Box<RawValue>>,
    /// Position that the batch's first event must get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_position: Option<u64>,
    /// Idempotency key: a retry with the same key within 24 h returns the same positions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Fencing token of the session's lease, if one is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fencing_token: Option<u64>,
    /// Client's name for the line, returned with the answer: a text of at most 128 bytes or a whole
    /// number.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub reference: Option<Box<RawValue>>,
}

/// Answer to a line whose events are durable.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LineAppended {
    /// Always `appended`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Line number, from 1.
    pub line: u64,
    /// Client's name for the line.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub reference: Option<Box<RawValue>>,
    /// Id of the session.
    pub session: String,
    /// Position of the batch's first event.
    pub first_position: u64,
    /// Position after the batch's last event.
    pub next_position: u64,
    /// Proof of the append; it may cover other batches that became durable at the same time.
    pub receipt: Receipt,
    /// True if the batch had been appended before and nothing was written.
    pub repeated: bool,
}

/// Answer to a refused line; the lines after it are still read.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LineRefused {
    /// The error, in the same form as on every other route.
    #[serde(flatten)]
    pub error: ErrorBody,
    /// Line number, from 1.
    pub line: u64,
    /// Client's name for the line, if it could be read.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub reference: Option<Box<RawValue>>,
    /// Id of the session, if it could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}
