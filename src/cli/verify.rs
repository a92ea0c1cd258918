//! `verify`: has the owner read and check every record. It must not open a data directory itself.

use std::collections::BTreeSet;

use super::{
    args,
    failure::{CliError, DAMAGED, Outcome},
    screen::{Screen, Tone, escaped, format_size, with_noun},
};
use crate::{
    api::admin::{Damage, HeadAnswer, VerifyRequest},
    client::Client,
    verbs::{NoParams, NoQuery, admin},
};

pub(super) async fn run(
    client: &Client,
    wanted: &args::VerifyArgs,
    screen: &mut Screen,
) -> Outcome {
    let body = VerifyRequest {
        session: wanted.session.as_ref().map(ToString::to_string),
        expect_head: wanted.expect_head.clone(),
    };
    let call = client.call::<admin::Verify>(&NoParams {}, &NoQuery {}, &body);
    let answer = screen.await_with_spinner("reading every session", call).await?;
    let head = answer.head.as_ref();
    screen.print_result(&answer, |screen| {
        let hurt: BTreeSet<String> = answer.damage.iter().map(damaged_session_name).collect();
        let verdict = match hurt.len() {
            0 => screen.paint(Tone::Good, "whole"),
            some => format!("{} in {some} of", screen.paint(Tone::Bad, "damaged")),
        };
        let colon = if hurt.is_empty() { ":" } else { "" };
        screen.print_line(format!(
            "{verdict}{colon} {}, {}, {} read, every checksum and the chain",
            with_noun(answer.sessions, "session"),
            with_noun(answer.events, "event"),
            format_size(answer.bytes),
        ))?;
        let accepted = answer.accepted.iter().map(|gap| (gap, "given up, "));
        for (gap, how) in answer.damage.iter().map(|gap| (gap, "")).chain(accepted) {
            let (session, reason) = (escaped(&damaged_session_name(gap)), escaped(&gap.reason));
            screen.print_line(format!("  {session} {}..{}: {how}{reason}", gap.from, gap.to))?;
        }
        head.map_or(Ok(()), |head| screen.print_line(describe_receipt(head, screen)))
    })?;
    let holds = head.is_none_or(|head| head.holds);
    if answer.damage.is_empty() && holds { Ok(()) } else { Err(CliError::Silent(DAMAGED)) }
}

/// Returns the name of a damaged session, with tenant and user where it is another user's.
fn damaged_session_name(gap: &Damage) -> String {
    let names = [gap.tenant.as_deref(), gap.user.as_deref(), Some(gap.session.as_str())];
    names.into_iter().flatten().collect::<Vec<_>>().join("/")
}

/// Compares the session with the receipt and describes the result.
fn describe_receipt(head: &HeadAnswer, screen: &Screen) -> String {
    let position = head.position;
    let text = match head.state.as_str() {
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
            let tail = head.tail.unwrap_or_default();
            format!("the session ends at {tail}: an earlier state was put back")
        }
        "differs" => {
            format!("the events before {position} are not those that the receipt was given for")
        }
        _ => format!("the chain at {position} cannot be read"),
    };
    format!("{}: {text}", screen.paint(Tone::Bad, "the receipt does not hold"))
}
