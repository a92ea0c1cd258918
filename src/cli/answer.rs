//! What members of an answer say of a session or an event. It must not print.

use serde_json::Value;

use crate::event::Timestamp;

pub(super) fn text(session: &Value, name: &str) -> String {
    session.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

pub(super) fn number(session: &Value, name: &str) -> u64 {
    session.get(name).and_then(Value::as_u64).unwrap_or_default()
}

/// What is lost of a session.
fn gaps(session: &Value) -> impl Iterator<Item = &Value> {
    session.get("damage").and_then(Value::as_array).into_iter().flatten()
}

/// Whether a person accepted the loss: then it refuses nothing any more.
fn is_given_up(gap: &Value) -> bool {
    gap.get("accepted_at").is_some_and(Value::is_string)
}

/// The state of a session in a word.
pub(super) fn state(session: &Value) -> String {
    if gaps(session).any(|gap| !is_given_up(gap)) {
        return "damaged".to_owned();
    }
    if session.get("archived_at").is_some_and(Value::is_string) {
        return "archived".to_owned();
    }
    match session.get("held_at").is_some_and(Value::is_string) {
        true => "held".to_owned(),
        false => text(session, "status"),
    }
}

/// When it happened: by the client's clock when it said so.
pub(super) fn moment(event: &Value) -> Option<Timestamp> {
    let texts = ["created_at", "processed_at"].map(|name| text(event, name));
    texts.into_iter().find(|text| !text.is_empty()).and_then(|text| Timestamp::parse(&text))
}
