//! `verify`: has the owner read everything back. It must not open a data directory itself.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    args,
    failure::{Failure, Outcome},
    screen::{Screen, Tone, counted, printable, size},
};
use crate::{
    client::{Client, Request},
    event::SessionId,
};

/// Exit code for damage; the answer has reported it already.
const DAMAGED: u8 = 3;

pub(super) async fn run(client: &Client, wanted: &args::Verify, screen: &mut Screen) -> Outcome {
    let session = wanted.session.as_ref().map(SessionId::as_str);
    let body = json!({ "session": session, "expect_head": wanted.expect_head });
    let spinner = screen.spinner("reading every session");
    let answer = client.send(Request::post("/v1/admin/verify").json(&body)).await;
    spinner.finish_and_clear();
    let answer = answer?.body;
    let value: Value = serde_json::from_slice(&answer).unwrap_or_default();
    let damage = value.get("damage").and_then(Value::as_array).cloned().unwrap_or_default();
    if screen.json {
        screen.answer(&answer)?;
    } else {
        let number = |name: &str| value.get(name).and_then(Value::as_u64).unwrap_or_default();
        let many = |name: &str| usize::try_from(number(name)).unwrap_or(usize::MAX);
        let hurt: BTreeSet<String> = damage.iter().map(name).collect();
        let verdict = match hurt.len() {
            0 => screen.paint(Tone::Good, "whole"),
            some => format!("{} in {some} of", screen.paint(Tone::Bad, "damaged")),
        };
        let colon = if hurt.is_empty() { ":" } else { "" };
        screen.line(format!(
            "{verdict}{colon} {}, {}, {} read, every checksum and the chain",
            counted(many("sessions"), "session"),
            counted(many("events"), "event"),
            size(number("bytes")),
        ))?;
        let accepted = value.get("accepted").and_then(Value::as_array);
        let told = accepted.into_iter().flatten().map(|gap| (gap, "given up, "));
        for (gap, how) in damage.iter().map(|gap| (gap, "")).chain(told) {
            let text = |name: &str| gap.get(name).and_then(Value::as_str).unwrap_or_default();
            let place = |name: &str| gap.get(name).and_then(Value::as_u64).unwrap_or_default();
            let (name, reason) = (name(gap), printable(text("reason")));
            let (session, from, to) = (printable(&name), place("from"), place("to"));
            screen.line(format!("  {session} {from}..{to}: {how}{reason}"))?;
        }
    }
    let head = value.get("head").filter(|head| !head.is_null());
    if let Some(head) = head.filter(|_| !screen.json) {
        screen.line(verdict(head, screen))?;
    }
    let holds = head.is_none_or(|head| head.get("holds") == Some(&Value::Bool(true)));
    if damage.is_empty() && holds { Ok(()) } else { Err(Failure::Silent(DAMAGED)) }
}

/// What a damaged session is called: after its tenant and user, where it is another's.
fn name(gap: &Value) -> String {
    let names = ["tenant", "user", "session"].map(|name| gap.get(name).and_then(Value::as_str));
    names.into_iter().flatten().collect::<Vec<_>>().join("/")
}

/// How the session stands to the receipt, for a person.
fn verdict(head: &Value, screen: &Screen) -> String {
    let number = |name: &str| head.get(name).and_then(Value::as_u64).unwrap_or_default();
    let position = number("position");
    let text = match head.get("state").and_then(Value::as_str).unwrap_or_default() {
        "holds" => {
            let verdict = screen.paint(Tone::Good, "the receipt holds");
            return format!("{verdict}: all it saw, {position} events, is there in its order");
        }
        "damaged" => {
            let verdict = screen.paint(Tone::Bad, "the receipt holds in part");
            return format!(
                "{verdict}: the chain at {position} is as it was, events before are damaged"
            );
        }
        "shorter" => {
            format!("the session ends at {}: an earlier state was put back", number("tail"))
        }
        "differs" => format!("at {position} the session has another past than it had"),
        _ => format!("what the chain says at {position} cannot be read"),
    };
    format!("{}: {text}", screen.paint(Tone::Bad, "the receipt does not hold"))
}
