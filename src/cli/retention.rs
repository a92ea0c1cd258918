//! The verbs on the lifetime of sessions: hold, restore, retention. It must not decide when a
//! session expires.

use super::{
    answer::as_count,
    args::{HoldArgs, RetentionArgs},
    failure::Outcome,
    screen::{Screen, instant, one_line},
};
use crate::{
    api::retention::RetentionRow,
    client::Client,
    event::SessionId,
    verbs::{
        InSession, NoQuery, Nowhere,
        retention::{self, Look, LookQuery, Release, Restore, Sweep},
    },
};

const TITLE_CHARS: usize = 32;

pub(super) async fn hold(client: &Client, wanted: &HoldArgs, screen: &mut Screen) -> Outcome {
    let place = InSession { session: wanted.session.clone() };
    let (done, session) = match wanted.release {
        true => ("released", client.call::<Release>(&place, &NoQuery {}, &()).await?),
        false => ("held", client.call::<retention::Hold>(&place, &NoQuery {}, &()).await?),
    };
    screen.show(&session, |screen| screen.line(format!("{done} {}", wanted.session)))
}

pub(super) async fn restore(client: &Client, id: &SessionId, screen: &mut Screen) -> Outcome {
    let place = InSession { session: id.clone() };
    let answer = client.call::<Restore>(&place, &NoQuery {}, &()).await?;
    screen.show(&answer, |screen| match answer.restored {
        false => {
            screen.line(format!("nothing to restore: {id} has neither expired nor been deleted"))
        }
        true => screen.line(format!("restored {id}")),
    })
}

pub(super) async fn run(client: &Client, wanted: RetentionArgs, screen: &mut Screen) -> Outcome {
    let limit = wanted.limit.map(as_count);
    let answer = match wanted.dry_run {
        true => client.call::<Look>(&Nowhere {}, &LookQuery { limit }, &()).await?,
        false => client.call::<Sweep>(&Nowhere {}, &NoQuery {}, &()).await?,
    };
    let row = |row: &RetentionRow| {
        let title = one_line(row.title.as_deref().unwrap_or_default(), TITLE_CHARS);
        let at = row.at.as_deref().map(instant).unwrap_or_default();
        vec![row.session.clone(), row.next.clone(), at, row.why.clone(), title]
    };
    screen.show(&answer, |screen| {
        for (what, ids) in [("expired", &answer.expired), ("reclaimed", &answer.reclaimed)] {
            ids.iter().try_for_each(|id| screen.line(format!("{what} {id}")))?;
        }
        match answer.data.is_empty() {
            true => screen.line("No session has an end in sight."),
            false => screen.table(
                &["SESSION", "NEXT", "AT", "WHY", "TITLE"],
                answer.data.iter().map(row).collect(),
            ),
        }
    })
}
