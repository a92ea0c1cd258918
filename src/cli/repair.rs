//! `repair`: lists lost events, and with --accept-loss has the owner continue without them. It must
//! not open a data directory itself, nor accept a loss that it did not show.

use std::io;

use super::{
    args::RepairArgs,
    failure::{DAMAGED, Failure, Outcome},
    screen::{Screen, Tone, counted, printable},
};
use crate::{
    api::admin::{RepairAnswer, RepairRequest},
    client::Client,
    verbs::{NoQuery, Nowhere, admin},
};

pub(super) async fn run(client: &Client, wanted: RepairArgs, screen: &mut Screen) -> Outcome {
    let accept = wanted.accept_loss && !wanted.dry_run;
    let session = wanted.session.as_ref().map(ToString::to_string);
    let what = session.clone().unwrap_or_else(|| "the store".to_owned());
    let body = RepairRequest { session, store: wanted.store, accept_loss: accept };
    let answer = client.call::<admin::Repair>(&Nowhere {}, &NoQuery {}, &body).await?;
    screen.show(&answer, |screen| print_lost(&answer, &what, screen))?;
    let lost = !answer.gaps.is_empty() || !answer.unnamed.is_empty();
    if lost && !answer.accepted { Err(Failure::Silent(DAMAGED)) } else { Ok(()) }
}

fn print_lost(answer: &RepairAnswer, what: &str, screen: &mut Screen) -> io::Result<()> {
    let RepairAnswer { accepted, events_lost, gaps, unnamed, copies } = answer;
    let accepted = *accepted;
    if gaps.is_empty() && unnamed.is_empty() {
        let verdict = screen.paint(Tone::Good, "nothing to do");
        return screen.line(format!("{verdict}: {what} has no damage that was not accepted"));
    }
    let verdict = match accepted {
        true => screen.paint(Tone::Good, "accepted"),
        false => screen.paint(Tone::Bad, "damaged"),
    };
    screen.line(format!(
        "{verdict}: {what}, {} lost in {}",
        counted(*events_lost, "event"),
        counted(gaps.len() as u64, "place")
    ))?;
    for gap in gaps {
        let (from, to, reason) = (gap.from, gap.to, printable(&gap.reason));
        screen.line(match from == to {
            true => {
                format!("  before {to}: no event, a record about the session or a table: {reason}")
            }
            false => format!("  positions {from}..{to}: {reason}"),
        })?;
    }
    for one in unnamed {
        screen.line(format!("  of unknown sessions: {}", printable(one)))?;
    }
    for copy in copies {
        let kept = if accepted { "kept" } else { "will be kept" };
        screen.line(format!("  {kept}: quarantine/{}", printable(copy)))?;
    }
    screen.line(match accepted {
        true => "What is lost stays a permanent gap; appends continue behind it.",
        false => "Nothing was changed. Copy the data directory, then give --accept-loss.",
    })
}
