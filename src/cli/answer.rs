//! Members of an answer that describe a session or an event. It must not print.

use std::io;

use serde::Serialize;
use serde_json::Value;

use super::{failure::Outcome, readable::words::word};
use crate::{api::sessions::Session, event::Timestamp};

/// A number of things as one of this machine.
pub(super) fn as_count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The state of a session in a word. A loss that a person accepted refuses nothing any more.
pub(super) fn state(session: &Session) -> &str {
    match session {
        damaged if damaged.damage.iter().any(|gap| gap.accepted_at.is_none()) => "damaged",
        archived if archived.archived_at.is_some() => "archived",
        held if held.held_at.is_some() => "held",
        other => &other.status,
    }
}

/// The program that recorded a session, where it says so.
pub(super) fn agent(session: &Session) -> &str {
    session.metadata.get("client").map_or("", String::as_str)
}

/// An answer that was read, for what prints any answer by the names of its members.
pub(super) fn tree(answer: &impl Serialize) -> Outcome<Value> {
    Ok(serde_json::to_value(answer).map_err(io::Error::from)?)
}

/// When it happened: by the client's clock when it said so.
pub(super) fn moment(event: &Value) -> Option<Timestamp> {
    let texts = ["created_at", "processed_at"].map(|name| word(event, name));
    texts.into_iter().find(|text| !text.is_empty()).and_then(Timestamp::parse)
}
