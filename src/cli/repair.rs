//! `repair`: shows what is lost, and with --accept-loss has the owner continue without it. It must
//! not open a data directory itself, nor accept a loss that it did not show.

use serde_json::{Value, json};

use super::{
    args::Repair,
    failure::{Failure, Outcome},
    screen::{Screen, Tone, counted, printable},
};
use crate::client::{Client, Request};

/// Exit code for damage that is still there.
const DAMAGED: u8 = 3;

pub(super) async fn run(client: &Client, wanted: Repair, screen: &mut Screen) -> Outcome {
    let accept = wanted.accept_loss && !wanted.dry_run;
    let session = wanted.session.as_ref().map(ToString::to_string);
    let body = json!({ "session": session, "store": wanted.store, "accept_loss": accept });
    let answer = client.send(Request::post("/v1/admin/repair").json(&body)).await?.body;
    let value: Value = serde_json::from_slice(&answer).unwrap_or_default();
    let accepted = value.get("accepted").and_then(Value::as_bool).unwrap_or_default();
    let lost = !list(&value, "gaps").is_empty() || !list(&value, "unnamed").is_empty();
    if screen.json {
        screen.answer(&answer)?;
    } else {
        show(&value, session.as_deref().unwrap_or("the store"), accepted, screen)?;
    }
    if lost && !accepted { Err(Failure::Silent(DAMAGED)) } else { Ok(()) }
}

fn list(value: &Value, name: &str) -> Vec<Value> {
    value.get(name).and_then(Value::as_array).cloned().unwrap_or_default()
}

fn show(value: &Value, what: &str, accepted: bool, screen: &mut Screen) -> Outcome {
    let (gaps, unnamed) = (list(value, "gaps"), list(value, "unnamed"));
    if gaps.is_empty() && unnamed.is_empty() {
        let verdict = screen.paint(Tone::Good, "nothing to do");
        screen.line(format!("{verdict}: {what} has no damage that was not accepted"))?;
        return Ok(());
    }
    let events = value.get("events_lost").and_then(Value::as_u64).unwrap_or_default();
    let verdict = match accepted {
        true => screen.paint(Tone::Good, "accepted"),
        false => screen.paint(Tone::Bad, "damaged"),
    };
    screen.line(format!(
        "{verdict}: {what}, {} lost in {}",
        counted(usize::try_from(events).unwrap_or(usize::MAX), "event"),
        counted(gaps.len(), "place")
    ))?;
    for gap in &gaps {
        let place = |name: &str| gap.get(name).and_then(Value::as_u64).unwrap_or_default();
        let reason = gap.get("reason").and_then(Value::as_str).unwrap_or_default();
        let (from, to, reason) = (place("from"), place("to"), printable(reason));
        screen.line(match from == to {
            true => {
                format!("  before {to}: no event, a record about the session or a table: {reason}")
            }
            false => format!("  positions {from}..{to}: {reason}"),
        })?;
    }
    for one in unnamed.iter().filter_map(Value::as_str) {
        screen.line(format!("  of unknown sessions: {}", printable(one)))?;
    }
    for copy in list(value, "copies").iter().filter_map(Value::as_str) {
        let kept = if accepted { "kept" } else { "will be kept" };
        screen.line(format!("  {kept}: quarantine/{}", printable(copy)))?;
    }
    screen.line(match accepted {
        true => "What is lost stays a gap for ever; appends go on behind it.".to_owned(),
        false => {
            "Nothing was changed. Copy the data directory, then give --accept-loss.".to_owned()
        }
    })?;
    Ok(())
}
