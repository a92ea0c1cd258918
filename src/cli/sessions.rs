//! The verbs on whole sessions, such as list, show, delete. It must not change events.

use super::{
    answer::{recorded_by, session_state, to_json_tree},
    args, consent,
    failure::Outcome,
    fork, memory,
    readable::{self, LineBuffer},
    screen::{Screen, Tone, escaped, format_instant, format_size, one_line, with_noun},
    table,
    times::{TimeFormat, resolve_instant},
    titles,
};
use crate::{
    api::{
        retention::RetentionRow,
        sessions::{Session, SessionList, UpdateSession},
    },
    client::{CLIENT_KEY, Client, ClientError, HttpRequest},
    event::SessionId,
    verbs::{NoParams, NoQuery, SessionPath, retention, sessions, views},
};

/// Maximum number of sessions of a page.
const PAGE: usize = 1_000;
/// Maximum characters of a title where no terminal limits it.
const TITLE_CHARS: usize = 120;
/// Token budget of the overview that `show` prints.
const SHOWN_TOKENS: usize = 1_000;

pub(super) async fn list(
    client: &Client,
    wanted: args::SessionsArgs,
    screen: &mut Screen,
) -> Outcome {
    let limit = wanted.limit.unwrap_or(u64::MAX);
    if wanted.deleted {
        return list_hidden(client, limit, screen).await;
    }
    let filtered = wanted.since.is_some()
        || wanted.until.is_some()
        || wanted.client.is_some()
        || !wanted.tag.is_empty()
        || !wanted.state.is_empty();
    let tags = wanted.tag.into_iter().map(|(name, value)| format!("{name}={value}"));
    let left = usize::try_from(limit).unwrap_or(usize::MAX);
    let of_client = wanted.client.map(|name| format!("{CLIENT_KEY}={name}"));
    let query = sessions::ListQuery {
        order: Some(args::name_of(wanted.order)),
        sort: Some("updated".to_owned()),
        workspace: wanted.choice.workspace.clone(),
        metadata: of_client.into_iter().chain(tags).collect(),
        include_archived: wanted.archived,
        statuses: wanted.state,
        created_gte: wanted.since.as_deref().map(resolve_instant).transpose()?,
        created_lt: wanted.until.as_deref().map(resolve_instant).transpose()?,
        ..sessions::ListQuery::default()
    };
    let here = find_here(client, &wanted.choice).await?;
    let (all, elsewhere) = fetch_pages(client, query.clone(), here.as_ref(), left).await?;
    if screen.json {
        return Ok(screen.print_typed(&all)?);
    }
    let sessions = all.data;
    if sessions.is_empty() {
        screen.print_note(match filtered {
            true => "No session matches.".to_owned(),
            false => empty_list_reason(client, query.workspace.as_deref()).await,
        });
        return Ok(());
    }
    let titles = titles::fetch_titles(client, &sessions).await;
    if screen.terminal {
        let lines = table::format_table(&sessions, &titles, screen.columns(), &screen.times());
        screen.print_lines(lines)?;
    } else {
        for (session, title) in sessions.iter().zip(&titles) {
            screen.print_line(pipe_fields(session, title, &screen.times()).join("\t"))?;
        }
    }
    if let Some(here) = here.filter(|_| elsewhere) {
        let here = escaped(&here);
        screen.print_note(format!(
            "Sessions of {here}, and of no workspace: --all lists the others."
        ));
    }
    Ok(())
}

/// Fetches up to `left` sessions, all of them or those of workspace `here` and of none; returns
/// true with them if others were left out.
async fn fetch_pages(
    client: &Client,
    mut query: sessions::ListQuery,
    here: Option<&String>,
    mut left: usize,
) -> Outcome<(SessionList, bool)> {
    let mut elsewhere = false;
    let mut all = SessionList { data: Vec::new(), next_page: None };
    loop {
        query.limit = Some(if here.is_some() { PAGE } else { left.min(PAGE) });
        let mut list = client.call::<sessions::ListSessions>(&NoParams {}, &query, &()).await?;
        if here.is_some() {
            let count = list.data.len();
            list.data.retain(|one| one.workspace.is_none() || one.workspace.as_ref() == here);
            elsewhere |= list.data.len() < count;
            list.data.truncate(left);
        }
        left = left.saturating_sub(list.data.len());
        all.data.extend(list.data);
        all.next_page = list.next_page;
        if all.next_page.is_none() || left == 0 {
            return Ok((all, elsewhere));
        }
        query.page.clone_from(&all.next_page);
    }
}

/// Calls `each` for every session, the newest first; for archived ones where they are included.
pub(super) async fn for_each_session(
    client: &Client,
    include_archived: bool,
    mut each: impl FnMut(Session),
) -> Outcome {
    let mut query =
        sessions::ListQuery { include_archived, limit: Some(PAGE), ..Default::default() };
    loop {
        let list = client.call::<sessions::ListSessions>(&NoParams {}, &query, &()).await?;
        list.data.into_iter().for_each(&mut each);
        query.page = list.next_page;
        if query.page.is_none() {
            return Ok(());
        }
    }
}

/// Returns the workspace of the working directory, if no other was chosen and it has sessions.
pub(super) async fn find_here(
    client: &Client,
    choice: &args::WorkspaceChoice,
) -> Outcome<Option<String>> {
    let Some(here) = choice.here.clone() else { return Ok(None) };
    let query = sessions::ListQuery {
        workspace: Some(here.clone()),
        limit: Some(1),
        ..sessions::ListQuery::default()
    };
    let found = client.call::<sessions::ListSessions>(&NoParams {}, &query, &()).await?;
    Ok(Some(here).filter(|_| !found.data.is_empty()))
}

/// Lists expired and deleted sessions.
async fn list_hidden(client: &Client, limit: u64, screen: &mut Screen) -> Outcome {
    let look = retention::RetentionQuery { limit: Some(PAGE) };
    let kept = client.call::<retention::GetRetention>(&NoParams {}, &look, &()).await?;
    let rows = kept.data.into_iter().filter(|row| row.stage != "alive");
    let rows: Vec<RetentionRow> = rows.take(usize::try_from(limit).unwrap_or(usize::MAX)).collect();
    let row = |row: &RetentionRow| {
        let until = row.at.as_deref().map_or_else(|| "without end".to_owned(), format_instant);
        let title = one_line(row.title.as_deref().unwrap_or_default(), TITLE_CHARS);
        vec![row.session.clone(), row.stage.clone(), until, title]
    };
    let heads = ["SESSION", "STATE", "RESTORABLE UNTIL", "TITLE"];
    screen.print_result(&rows, |screen| {
        if rows.is_empty() {
            screen.print_note("No session has expired or was deleted.");
            return Ok(());
        }
        screen.print_table(&heads, rows.iter().map(row).collect())
    })
}

/// Returns the reason why a list of sessions is empty.
pub(super) async fn empty_list_reason(client: &Client, workspace: Option<&str>) -> String {
    if let Some(workspace) = workspace {
        return format!("No session in workspace {workspace}.");
    }
    // Only an administrator may list expired sessions.
    let look = retention::RetentionQuery { limit: Some(PAGE) };
    let kept = client.call::<retention::GetRetention>(&NoParams {}, &look, &()).await;
    let rows = kept.map(|kept| kept.data).unwrap_or_default();
    let archived = sessions::ListQuery {
        include_archived: true,
        limit: Some(PAGE),
        ..sessions::ListQuery::default()
    };
    let archived = client.call::<sessions::ListSessions>(&NoParams {}, &archived, &()).await;
    let of = |stage: &str| rows.iter().filter(|row| row.stage == stage).count();
    let hidden = [
        ("expired", of("expired"), "--deleted"),
        ("deleted", of("deleted"), "--deleted"),
        ("archived", archived.map_or(0, |list| list.data.len()), "--archived"),
    ];
    let hidden = hidden.into_iter().filter(|(_, count, _)| *count > 0);
    let hidden: Vec<String> = hidden
        .map(|(how, count, flag)| format!("{count} {how} (`sessionlog sessions {flag}`)"))
        .collect();
    match hidden.is_empty() {
        true => "No sessions yet. Try `sessionlog demo`, or `sessionlog import FILE`.".to_owned(),
        false => format!("No session is listed: {}.", hidden.join(", ")),
    }
}

fn pipe_fields(session: &Session, title: &str, times: &TimeFormat) -> Vec<String> {
    vec![
        session.id.clone(),
        session.tail.to_string(),
        format_size(session.bytes),
        times.format_date(&session.updated_at),
        session_state(session).to_owned(),
        one_line(session.workspace.as_deref().unwrap_or_default(), TITLE_CHARS),
        recorded_by(session).to_owned(),
        one_line(title, TITLE_CHARS),
    ]
}

pub(super) async fn show(client: &Client, wanted: &args::ShowArgs, screen: &mut Screen) -> Outcome {
    let id = &wanted.session;
    let place = SessionPath { session: id.clone() };
    if screen.json && wanted.lineage {
        return Ok(screen.print_typed(&fork::fetch_lineage(client, id).await?)?);
    }
    let session = client.call::<sessions::GetSession>(&place, &NoQuery {}, &()).await?;
    if screen.json {
        return Ok(screen.print_typed(&session)?);
    }
    let family = fork::fetch_lineage(client, id).await?;
    let facts = to_json_tree(&session)?;
    // A damaged session has no view; its other properties are shown.
    let query = views::IndexQuery {
        tokens_max: Some(SHOWN_TOKENS),
        format: Some("text".to_owned()),
        ..views::IndexQuery::default()
    };
    let view = client.text(HttpRequest::from_verb::<views::ViewIndex>(&place, &query, &())).await;
    Ok(LineBuffer::print(screen, |paper| {
        if !wanted.lineage {
            readable::print_session(&facts, paper);
        }
        for (n, line) in fork::draw_family_tree(&session, &family).into_iter().enumerate() {
            let name = if n == 0 { "lineage" } else { "" };
            paper.push(Tone::Plain, &format!("{name:<13} "), &line);
        }
        if let (false, Ok(view)) = (wanted.lineage, view) {
            // A task that equals the title is shown once.
            let title = session.title.as_deref().unwrap_or_default();
            let task = format!("\n**Task.** {title}\n");
            paper.push_markdown(&view.replacen(&task, "", 1));
        }
    })?)
}

/// Describes a session for a confirmation: its id, title and number of events.
async fn describe_session(client: &Client, id: &SessionId) -> Outcome<String> {
    let place = SessionPath { session: id.clone() };
    let session = match client.call::<sessions::GetSession>(&place, &NoQuery {}, &()).await {
        Ok(session) => session,
        // An expired or deleted session can still be deleted at once, or erased.
        Err(ClientError::Refused(refused)) if refused.status == 410 => {
            return Ok(format!("{}.", refused.message.replacen("session", "Session", 1)));
        }
        Err(error) => return Err(error.into()),
    };
    let events = with_noun(session.tail, "event");
    Ok(match one_line(&session.title.unwrap_or_default(), TITLE_CHARS) {
        title if title.is_empty() => format!("Session {id} has {events}."),
        title => format!("Session {id} \"{title}\" has {events}."),
    })
}

pub(super) async fn rename(
    client: &Client,
    wanted: &args::RenameArgs,
    screen: &mut Screen,
) -> Outcome {
    let place = SessionPath { session: wanted.session.clone() };
    let title = Some(wanted.title.trim()).filter(|title| !title.is_empty()).map(str::to_owned);
    let body = UpdateSession { title: Some(title), ..UpdateSession::default() };
    let session = client.call::<sessions::Update>(&place, &NoQuery {}, &body).await?;
    screen.print_result(&session, |screen| match &session.title {
        Some(title) => screen.print_line(format!(
            "renamed {}: {}",
            place.session,
            one_line(title, TITLE_CHARS)
        )),
        None => screen.print_line(format!("removed the title of {}", place.session)),
    })
}

pub(super) async fn tag(client: &Client, wanted: args::TagArgs, screen: &mut Screen) -> Outcome {
    let place = SessionPath { session: wanted.session };
    let some = |value: String| Some(value).filter(|value| !value.is_empty());
    let pairs = wanted.pairs.into_iter().map(|(name, value)| (name, some(value)));
    let body = UpdateSession { metadata: Some(pairs.collect()), ..UpdateSession::default() };
    let session = client.call::<sessions::Update>(&place, &NoQuery {}, &body).await?;
    let pairs = session.metadata.iter().map(|(name, value)| format!("{name}={value}"));
    let pairs = pairs.collect::<Vec<_>>().join(" ");
    screen.print_result(&session, |screen| match pairs.is_empty() {
        true => screen.print_line(format!("{} has no tags", place.session)),
        false => screen.print_line(format!(
            "{} has the tags {}",
            place.session,
            one_line(&pairs, TITLE_CHARS)
        )),
    })
}

pub(super) async fn archive(client: &Client, id: SessionId, screen: &mut Screen) -> Outcome {
    let (effect, place) = (
        "it can be read, and not written until its agent resumes it, or",
        SessionPath { session: id },
    );
    let session = client.call::<sessions::Archive>(&place, &NoQuery {}, &()).await?;
    let id = place.session;
    screen.print_result(&session, |screen| {
        screen.print_line(format!("archived {id}: {effect} `sessionlog unarchive {id}`"))
    })
}

pub(super) async fn unarchive(client: &Client, id: SessionId, screen: &mut Screen) -> Outcome {
    let place = SessionPath { session: id };
    let session = client.call::<sessions::Unarchive>(&place, &NoQuery {}, &()).await?;
    screen.print_result(&session, |screen| {
        screen.print_line(format!("unarchived {}: it can be written again", place.session))
    })
}

pub(super) async fn delete(
    client: &Client,
    wanted: args::DeleteArgs,
    screen: &mut Screen,
) -> Outcome {
    let id = &wanted.session;
    consent::check_can_confirm("delete", wanted.yes, screen)?;
    if !wanted.yes {
        let effect = match wanted.now {
            true => "Its bytes are removed at once: it cannot be restored.",
            false => {
                "It is hidden at once; `sessionlog restore` brings it back until its grace ends."
            }
        };
        let warning = format!("{} {effect}", describe_session(client, id).await?);
        let unchanged = format!("{id} was not deleted");
        consent::confirm(false, &warning, "Delete it?", &unchanged, screen)?;
    }
    let place = SessionPath { session: id.clone() };
    let query = sessions::DeleteQuery { now: wanted.now };
    let deleted = client.call::<sessions::Delete>(&place, &query, &()).await?;
    screen.print_result(&deleted, |screen| {
        screen.print_line(format!("deleted {id}"))?;
        deleted.restorable_until.as_deref().map_or(Ok(()), |until| {
            let until = format_instant(until);
            screen.print_line(format!("until {until} `sessionlog restore {id}` brings it back"))
        })
    })
}

pub(super) async fn erase(
    client: &Client,
    wanted: &args::EraseArgs,
    screen: &mut Screen,
) -> Outcome {
    let id = &match (&wanted.notebook, &wanted.session) {
        (Some(workspace), _) => memory::fetch_notebook(client, workspace).await?,
        (None, Some(session)) => session.clone(),
        (None, None) => return Ok(()),
    };
    consent::check_can_confirm("erase", wanted.yes, screen)?;
    // Fetched before the deletion; a session that does not exist has no forks.
    let forks = fork::fetch_lineage(client, id).await.map_or(0, |family| family.forks);
    if forks > 0 {
        let forks = with_noun(forks, "fork");
        screen.print_note(format!(
            "sessionlog: {forks} of {id}: what they share with it answers prefix_erased"
        ));
    }
    if !wanted.yes {
        let warning = format!(
            "{} They are destroyed on disk and cannot be brought back.",
            describe_session(client, id).await?
        );
        let unchanged = format!("{id} was not erased");
        consent::confirm(false, &warning, "Erase it permanently?", &unchanged, screen)?;
    }
    let place = SessionPath { session: id.clone() };
    let query = sessions::EraseQuery { with_memory: wanted.with_memory };
    let erased = client.call::<sessions::Erase>(&place, &query, &()).await?;
    screen.print_result(&erased, |screen| {
        screen.print_line(format!("erased {id}"))?;
        let items = with_noun(erased.memory.len() as u64, "item");
        match erased.memory.first() {
            Some(item) if item.redacted => {
                screen.print_line(format!("removed the text of {items} of memory written from it"))
            }
            Some(item) => screen.print_line(format!(
                "{items} of memory written from it stay: `sessionlog redact {} {}` removes the first",
                item.notebook, item.memory_id
            )),
            None => Ok(()),
        }
    })
}
