//! `repair`: lists lost events, and with --accept-loss has the owner continue without them. It must
//! not open a data directory itself, nor accept a loss that it did not show.

use std::io;

use super::{
    args::RepairArgs,
    failure::{CliError, DAMAGED, Outcome},
    screen::{Screen, Tone, escaped, with_noun},
};
use crate::{
    api::admin::{RepairAnswer, RepairRequest},
    client::Client,
    verbs::{NoParams, NoQuery, admin},
};

pub(super) async fn run(client: &Client, wanted: RepairArgs, screen: &mut Screen) -> Outcome {
    let accept = wanted.accept_loss && !wanted.dry_run;
    let session = wanted.session.as_ref().map(ToString::to_string);
    let what = session.clone().unwrap_or_else(|| "the store".to_owned());
    let body = RepairRequest { session, store: wanted.whole_store, accept_loss: accept };
    let answer = client.call::<admin::Repair>(&NoParams {}, &NoQuery {}, &body).await?;
    screen.print_result(&answer, |screen| print_losses(&answer, &what, screen))?;
    let lost = !answer.gaps.is_empty() || !answer.unnamed.is_empty();
    if lost && !answer.accepted { Err(CliError::Silent(DAMAGED)) } else { Ok(()) }
}

fn print_losses(answer: &RepairAnswer, what: &str, screen: &mut Screen) -> io::Result<()> {
    let RepairAnswer { accepted, events_lost, gaps, unnamed, copies } = answer;
    let accepted = *accepted;
    if gaps.is_empty() && unnamed.is_empty() {
        let verdict = screen.paint(Tone::Good, "nothing to do");
        return screen.print_line(format!("{verdict}: {what} has no damage that was not accepted"));
    }
    let verdict = match accepted {
        true => screen.paint(Tone::Good, "accepted"),
        false => screen.paint(Tone::Bad, "damaged"),
    };
    screen.print_line(format!(
        "{verdict}: {what}, {} lost in {}",
        with_noun(*events_lost, "event"),
        with_noun(gaps.len() as u64, "place")
    ))?;
    for gap in gaps {
        let (from, to, reason) = (gap.from, gap.to, escaped(&gap.reason));
        screen.print_line(match from == to {
            true => {
                format!("  before {to}: no event, a record about the session or a table: {reason}")
            }
            false => format!("  positions {from}..{to}: {reason}"),
        })?;
    }
    for one in unnamed {
        screen.print_line(format!("  of unknown sessions: {}", escaped(one)))?;
    }
    for copy in copies {
        let kept = if accepted { "kept" } else { "will be kept" };
        screen.print_line(format!("  {kept}: quarantine/{}", escaped(copy)))?;
    }
    screen.print_line(match accepted {
        true => "What is lost stays a permanent gap; appends continue after it.",
        false => "Nothing was changed. Copy the data directory, then give --accept-loss.",
    })
}
