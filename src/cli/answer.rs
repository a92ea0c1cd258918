//! Helpers that read members of server responses about a session or an event. It must not print.

use std::io;

use serde::Serialize;
use serde_json::Value;

use super::{failure::Outcome, readable::words::word};
use crate::{api::sessions::Session, event::Timestamp};

/// Converts a count to `usize`, saturating.
pub(super) fn as_count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Returns the state of a session; an accepted loss does not count as damage.
pub(super) fn state(session: &Session) -> &str {
    match session {
        damaged if damaged.damage.iter().any(|gap| gap.accepted_at.is_none()) => "damaged",
        archived if archived.archived_at.is_some() => "archived",
        held if held.held_at.is_some() => "held",
        other => &other.status,
    }
}

/// Returns the program that recorded a session, empty where it is not recorded.
pub(super) fn agent(session: &Session) -> &str {
    session.metadata.get("client").map_or("", String::as_str)
}

/// Converts a typed response to a JSON tree, for output that works by member names.
pub(super) fn tree(answer: &impl Serialize) -> Outcome<Value> {
    Ok(serde_json::to_value(answer).map_err(io::Error::from)?)
}

/// Returns the time of an event: the client's time when recorded, else the server's.
pub(super) fn moment(event: &Value) -> Option<Timestamp> {
    let texts = ["created_at", "processed_at"].map(|name| word(event, name));
    texts.into_iter().find(|text| !text.is_empty()).and_then(Timestamp::parse)
}
