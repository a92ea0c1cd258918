//! Helpers that read members of server responses about a session or an event. It must not print.

use std::io;

use serde::Serialize;
use serde_json::Value;

use super::{failure::Outcome, readable::words::text_of};
use crate::{api::sessions::Session, client::CLIENT_KEY, event::Timestamp};

/// Converts a number to `usize`, saturating.
pub(super) fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Returns the state of a session; an accepted loss does not count as damage.
pub(super) fn session_state(session: &Session) -> &str {
    match session {
        damaged if damaged.damage.iter().any(|gap| gap.accepted_at.is_none()) => "damaged",
        archived if archived.archived_at.is_some() => "archived",
        held if held.held_at.is_some() => "held",
        other => &other.status,
    }
}

/// Returns the name of the program that recorded a session; empty if none is stored.
pub(super) fn recorded_by(session: &Session) -> &str {
    session.metadata.get(CLIENT_KEY).map_or("", String::as_str)
}

/// Converts a typed answer to a JSON tree, for formatters that access members by name.
pub(super) fn to_json_tree(answer: &impl Serialize) -> Outcome<Value> {
    Ok(serde_json::to_value(answer).map_err(io::Error::from)?)
}

/// Returns the time of an event: the client's time if recorded, else the server's.
pub(super) fn event_time(event: &Value) -> Option<Timestamp> {
    let texts = ["created_at", "processed_at"].map(|name| text_of(event, name));
    texts.into_iter().find(|text| !text.is_empty()).and_then(Timestamp::parse)
}
