//! The verbs on how long sessions live: hold, restore, retention. It must not decide when one
//! expires.

use super::{
    args::{Hold, Retention},
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

pub(super) async fn hold(client: &Client, wanted: &Hold, screen: &mut Screen) -> Outcome {
    let place = InSession { session: wanted.session.clone() };
    let (done, session) = match wanted.release {
        true => ("released", client.call::<Release>(&place, &NoQuery {}, &()).await?),
        false => ("held", client.call::<retention::Hold>(&place, &NoQuery {}, &()).await?),
    };
    if screen.json {
        return Ok(screen.print(&session)?);
    }
    screen.line(format!("{done} {}", wanted.session))?;
    Ok(())
}

pub(super) async fn restore(client: &Client, id: &SessionId, screen: &mut Screen) -> Outcome {
    let place = InSession { session: id.clone() };
    let answer = client.call::<Restore>(&place, &NoQuery {}, &()).await?;
    if screen.json {
        return Ok(screen.print(&answer)?);
    }
    screen.line(match answer.restored {
        false => format!("nothing to restore: {id} has neither expired nor been deleted"),
        true => format!("restored {id}"),
    })?;
    Ok(())
}

pub(super) async fn run(client: &Client, wanted: Retention, screen: &mut Screen) -> Outcome {
    let limit = wanted.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let answer = match wanted.dry_run {
        true => client.call::<Look>(&Nowhere {}, &LookQuery { limit }, &()).await?,
        false => client.call::<Sweep>(&Nowhere {}, &NoQuery {}, &()).await?,
    };
    if screen.json {
        return Ok(screen.print(&answer)?);
    }
    for (what, ids) in [("expired", &answer.expired), ("reclaimed", &answer.reclaimed)] {
        for id in ids {
            screen.line(format!("{what} {id}"))?;
        }
    }
    let row = |row: RetentionRow| {
        let title = one_line(&row.title.unwrap_or_default(), TITLE_CHARS);
        let at = row.at.as_deref().map(instant).unwrap_or_default();
        vec![row.session, row.next, at, row.why, title]
    };
    let rows: Vec<Vec<String>> = answer.data.into_iter().map(row).collect();
    if rows.is_empty() {
        screen.line("No session has an end in sight.")?;
        return Ok(());
    }
    screen.table(&["SESSION", "NEXT", "AT", "WHY", "TITLE"], rows)?;
    Ok(())
}
