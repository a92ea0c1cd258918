//! The verbs on the lifetime of sessions: hold, restore, retention. It must not decide when a
//! session expires.

use super::{
    answer::to_usize,
    args::{HoldArgs, RetentionArgs},
    failure::Outcome,
    screen::{Screen, format_instant, one_line},
};
use crate::{
    api::retention::RetentionRow,
    client::Client,
    event::SessionId,
    verbs::{
        NoParams, NoQuery, SessionPath,
        retention::{self, GetRetention, Release, Restore, RetentionQuery, Sweep},
    },
};

const TITLE_CHARS: usize = 32;

pub(super) async fn hold(client: &Client, wanted: &HoldArgs, screen: &mut Screen) -> Outcome {
    let place = SessionPath { session: wanted.session.clone() };
    let (done, session) = match wanted.release {
        true => ("released", client.call::<Release>(&place, &NoQuery {}, &()).await?),
        false => ("held", client.call::<retention::Hold>(&place, &NoQuery {}, &()).await?),
    };
    screen.print_result(&session, |screen| screen.print_line(format!("{done} {}", wanted.session)))
}

pub(super) async fn restore(client: &Client, id: &SessionId, screen: &mut Screen) -> Outcome {
    let place = SessionPath { session: id.clone() };
    let answer = client.call::<Restore>(&place, &NoQuery {}, &()).await?;
    screen.print_result(&answer, |screen| match answer.restored {
        false => screen
            .print_line(format!("nothing to restore: {id} has neither expired nor been deleted")),
        true => screen.print_line(format!("restored {id}")),
    })
}

pub(super) async fn run(client: &Client, wanted: RetentionArgs, screen: &mut Screen) -> Outcome {
    let limit = wanted.limit.map(to_usize);
    let answer = match wanted.dry_run {
        true => client.call::<GetRetention>(&NoParams {}, &RetentionQuery { limit }, &()).await?,
        false => client.call::<Sweep>(&NoParams {}, &NoQuery {}, &()).await?,
    };
    let row = |row: &RetentionRow| {
        let title = one_line(row.title.as_deref().unwrap_or_default(), TITLE_CHARS);
        let at = row.at.as_deref().map(format_instant).unwrap_or_default();
        vec![row.session.clone(), row.next.clone(), at, row.why.clone(), title]
    };
    screen.print_result(&answer, |screen| {
        for (what, ids) in [("expired", &answer.expired), ("reclaimed", &answer.reclaimed)] {
            ids.iter().try_for_each(|id| screen.print_line(format!("{what} {id}")))?;
        }
        match answer.data.is_empty() {
            true => screen.print_line("No session has an end in sight."),
            false => screen.print_table(
                &["SESSION", "NEXT", "AT", "WHY", "TITLE"],
                answer.data.iter().map(row).collect(),
            ),
        }
    })
}
