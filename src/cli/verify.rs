//! `verify`: has the owner read everything back. It must not open a data directory itself.

use serde_json::{Value, json};

use super::{
    failure::{Failure, Outcome},
    screen::{Screen, Tone, printable, size},
};
use crate::{
    client::{Client, Request},
    event::SessionId,
};

/// Exit code for damage, which the answer has told already.
const DAMAGED: u8 = 3;

pub(super) async fn run(
    client: &Client,
    session: Option<&SessionId>,
    screen: &mut Screen,
) -> Outcome {
    let body = match session {
        Some(session) => json!({ "session": session.as_str() }),
        None => json!({}),
    };
    let answer = client.send(Request::post("/v1/admin/verify").json(&body)).await?.body;
    let value: Value = serde_json::from_slice(&answer).unwrap_or_default();
    let damage = value.get("damage").and_then(Value::as_array).cloned().unwrap_or_default();
    if screen.json {
        screen.answer(&answer)?;
    } else {
        let number = |name: &str| value.get(name).and_then(Value::as_u64).unwrap_or_default();
        let verdict = match damage.is_empty() {
            true => screen.paint(Tone::Good, "whole"),
            false => screen.paint(Tone::Bad, "damaged"),
        };
        screen.line(format!(
            "{verdict}: {} sessions, {} events, {} read, every checksum and the chain",
            number("sessions"),
            number("events"),
            size(number("bytes")),
        ))?;
        for gap in &damage {
            let text = |name: &str| gap.get(name).and_then(Value::as_str).unwrap_or_default();
            let place = |name: &str| gap.get(name).and_then(Value::as_u64).unwrap_or_default();
            let (session, reason) = (printable(text("session")), printable(text("reason")));
            let (from, to) = (place("from"), place("to"));
            screen.line(format!("  {session} {from}..{to}: {reason}"))?;
        }
    }
    if damage.is_empty() { Ok(()) } else { Err(Failure::Silent(DAMAGED)) }
}
