//! The verbs on whole sessions: list, show, delete. It must not touch events.

use super::{
    answer::{state, tree},
    args, consent,
    failure::Outcome,
    fork,
    readable::{self, Paper},
    screen::{Screen, Tone, counted, instant, one_line, size},
    table,
    times::Times,
    titles,
};
use crate::{
    client::{Client, ClientError},
    event::SessionId,
    verbs::{InSession, NoQuery, Nowhere, retention, sessions, views},
    wire::types::{Session, SessionList},
};

/// Sessions of a page at most.
const PAGE: usize = 1_000;
/// Characters of a title where no terminal bounds it.
const TITLE_CHARS: usize = 120;

pub(super) async fn list(client: &Client, wanted: args::Sessions, screen: &mut Screen) -> Outcome {
    let limit = wanted.limit.unwrap_or(u64::MAX);
    let mut left = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut query = sessions::ListQuery {
        order: Some(wanted.order.as_str().to_owned()),
        workspace: wanted.workspace,
        ..sessions::ListQuery::default()
    };
    let mut all = SessionList { data: Vec::new(), next_page: None };
    loop {
        query.limit = Some(left.min(PAGE));
        let list = client.call::<sessions::List>(&Nowhere {}, &query, &()).await?;
        left = left.saturating_sub(list.data.len());
        all.data.extend(list.data);
        all.next_page = list.next_page;
        if all.next_page.is_none() || left == 0 {
            break;
        }
        query.page.clone_from(&all.next_page);
    }
    if screen.json {
        return Ok(screen.print(&all)?);
    }
    let sessions = all.data;
    if sessions.is_empty() {
        screen.note(&none(client, query.workspace.as_deref()).await);
        return Ok(());
    }
    let titles = titles::of(client, &sessions).await;
    if screen.terminal {
        let lines = table::lines(&sessions, &titles, screen.columns(), &screen.times());
        return Ok(screen.lines(lines)?);
    }
    for (session, title) in sessions.iter().zip(&titles) {
        screen.line(row(session, title, &screen.times()).join("\t"))?;
    }
    Ok(())
}

/// Why a list is empty.
async fn none(client: &Client, workspace: Option<&str>) -> String {
    if let Some(workspace) = workspace {
        return format!("No session in workspace {workspace}.");
    }
    // Only an administrator may look.
    let look = retention::LookQuery::default();
    let kept = client.call::<retention::Look>(&Nowhere {}, &look, &()).await;
    let rows = kept.map(|kept| kept.data).unwrap_or_default();
    match rows.iter().filter(|row| row.stage == "expired").count() {
        0 => "No sessions yet. Try `sessionlog demo`, or `sessionlog import FILE`.".to_owned(),
        count => format!(
            "No session is offered: {} expired. `sessionlog retention --dry-run` lists them.",
            counted(count, "session")
        ),
    }
}

/// Fields of a session for a pipe.
fn row(session: &Session, title: &str, times: &Times) -> Vec<String> {
    vec![
        session.id.clone(),
        session.tail.to_string(),
        size(session.bytes),
        times.date(&session.updated_at),
        state(session).to_owned(),
        one_line(title, TITLE_CHARS),
    ]
}

pub(super) async fn show(client: &Client, wanted: &args::Show, screen: &mut Screen) -> Outcome {
    let id = &wanted.session;
    let place = InSession { session: id.clone() };
    if screen.json && wanted.lineage {
        return Ok(screen.print(&fork::lineage(client, id).await?)?);
    }
    let session = client.call::<sessions::Get>(&place, &NoQuery {}, &()).await?;
    if screen.json {
        return Ok(screen.print(&session)?);
    }
    let family = fork::lineage(client, id).await?;
    let mut paper = Paper::new(screen.columns(), screen.times());
    if !wanted.lineage {
        readable::session(&tree(&session)?, &mut paper);
    }
    for (n, line) in fork::family_tree(&session, &family).into_iter().enumerate() {
        let name = if n == 0 { "lineage" } else { "" };
        paper.say(Tone::Plain, &format!("{name:<13} "), &line);
    }
    // A damaged session has no view; the rest is shown.
    let query = views::SummaryQuery::default();
    let view = client.call::<views::Summary>(&place, &query, &());
    if let (false, Ok(view)) = (wanted.lineage, view.await) {
        readable::show(id.as_str(), &tree(&view)?, &mut paper);
    }
    Ok(screen.lines(paper.lines())?)
}

/// How a question names a session: its id, title and number of events.
async fn described(client: &Client, id: &SessionId) -> Outcome<String> {
    let place = InSession { session: id.clone() };
    let session = match client.call::<sessions::Get>(&place, &NoQuery {}, &()).await {
        Ok(session) => session,
        // An expired or deleted session can be deleted at once, or erased.
        Err(ClientError::Refused(refused)) if refused.status == 410 => {
            return Ok(format!("{}.", refused.message.replacen("session", "Session", 1)));
        }
        Err(error) => return Err(error.into()),
    };
    let events = counted(usize::try_from(session.tail).unwrap_or(usize::MAX), "event");
    Ok(match one_line(&session.title.unwrap_or_default(), TITLE_CHARS) {
        title if title.is_empty() => format!("Session {id} has {events}."),
        title => format!("Session {id} \"{title}\" has {events}."),
    })
}

pub(super) async fn delete(client: &Client, wanted: &args::Delete, screen: &mut Screen) -> Outcome {
    let id = &wanted.session;
    consent::required("delete", wanted.yes, screen)?;
    if !wanted.yes {
        let effect = match wanted.now {
            true => "Its bytes are removed at once: it cannot be restored.",
            false => {
                "It is hidden at once; `sessionlog restore` brings it back until its grace ends."
            }
        };
        let warning = format!("{} {effect}", described(client, id).await?);
        let unchanged = format!("{id} was not deleted");
        consent::ask(false, &warning, "Delete it?", &unchanged, screen)?;
    }
    let (place, query) =
        (InSession { session: id.clone() }, sessions::DeleteQuery { now: wanted.now });
    let deleted = client.call::<sessions::Delete>(&place, &query, &()).await?;
    if screen.json {
        return Ok(screen.print(&deleted)?);
    }
    screen.line(format!("deleted {id}"))?;
    if let Some(until) = deleted.restorable_until {
        let until = instant(&until);
        screen.line(format!("until {until} `sessionlog restore {id}` brings it back"))?;
    }
    Ok(())
}

pub(super) async fn erase(client: &Client, wanted: &args::Erase, screen: &mut Screen) -> Outcome {
    let id = &wanted.session;
    consent::required("erase", wanted.yes, screen)?;
    // Shown before the deletion; a session that does not exist has no forks.
    let forks = fork::lineage(client, id).await.map_or(0, |family| family.forks);
    if forks > 0 {
        let forks = counted(usize::try_from(forks).unwrap_or(usize::MAX), "fork");
        screen.note(format!(
            "sessionlog: {forks} of {id}: what they share with it answers prefix_erased"
        ));
    }
    if !wanted.yes {
        let warning =
            format!("{} They are destroyed on disk, for ever.", described(client, id).await?);
        let unchanged = format!("{id} was not erased");
        consent::ask(false, &warning, "Erase it permanently?", &unchanged, screen)?;
    }
    let place = InSession { session: id.clone() };
    let erased = client.call::<sessions::Erase>(&place, &NoQuery {}, &()).await?;
    if screen.json {
        return Ok(screen.print(&erased)?);
    }
    screen.line(format!("erased {id}"))?;
    Ok(())
}
