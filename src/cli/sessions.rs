//! The verbs on whole sessions: list, show, delete. It must not touch events.

use serde::Deserialize;
use serde_json::Value;

use super::{
    answer::{number, state, text},
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
    client::{Client, ClientError, Request, session_path},
    event::SessionId,
};

/// Sessions of a page at most.
const PAGE: u64 = 1_000;
/// Characters of a title where no terminal bounds it.
const TITLE_CHARS: usize = 120;

#[derive(Deserialize)]
struct List {
    data: Vec<Value>,
    next_page: Option<String>,
}

pub(super) async fn list(client: &Client, wanted: args::Sessions, screen: &mut Screen) -> Outcome {
    let mut left = wanted.limit.unwrap_or(u64::MAX);
    let mut page: Option<String> = None;
    let mut sessions = Vec::new();
    loop {
        let request = Request::get("/v1/sessions")
            .query("limit", left.min(PAGE))
            .query("order", wanted.order.as_str())
            .query_opt("workspace", wanted.workspace.as_ref())
            .query_opt("page", page.as_ref());
        let body = client.send(request).await?.body;
        let list: List = serde_json::from_slice(&body).map_err(|error| ClientError::Foreign {
            address: client.address(),
            reason: format!("a list that does not parse ({error})"),
        })?;
        left = left.saturating_sub(list.data.len() as u64);
        page = list.next_page;
        sessions.extend(list.data);
        if page.is_none() || left == 0 {
            break;
        }
    }
    if screen.json {
        let all = serde_json::json!({ "data": sessions, "next_page": page });
        return Ok(screen.answer(all.to_string().as_bytes())?);
    }
    if sessions.is_empty() {
        screen.note("No sessions yet. Try `sessionlog demo`, or `sessionlog import FILE`.");
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

/// Fields of a session for a pipe.
fn row(session: &Value, title: &str, times: &Times) -> Vec<String> {
    vec![
        text(session, "id"),
        number(session, "tail").to_string(),
        size(number(session, "bytes")),
        times.date(&text(session, "updated_at")),
        state(session),
        one_line(title, TITLE_CHARS),
    ]
}

pub(super) async fn show(client: &Client, wanted: &args::Show, screen: &mut Screen) -> Outcome {
    let id = &wanted.session;
    if screen.json {
        let rest = if wanted.lineage { "/lineage" } else { "" };
        let body = client.send(Request::get(session_path(id, rest))).await?.body;
        return Ok(screen.answer(&body)?);
    }
    let body = client.send(Request::get(session_path(id, ""))).await?.body;
    let session: Value = serde_json::from_slice(&body).unwrap_or_default();
    let family = fork::lineage(client, id).await?;
    let mut paper = Paper::new(screen.columns(), screen.times());
    if !wanted.lineage {
        readable::session(&session, &mut paper);
    }
    for (n, line) in fork::tree(&session, &family).into_iter().enumerate() {
        let name = if n == 0 { "lineage" } else { "" };
        paper.say(Tone::Plain, &format!("{name:<13} "), &line);
    }
    // A damaged session has no view; the rest is shown.
    let request = Request::get(session_path(id, "/views/summary"));
    if let (false, Ok(answer)) = (wanted.lineage, client.send(request).await) {
        let view: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        readable::show(id.as_str(), &view, &mut paper);
    }
    Ok(screen.lines(paper.lines())?)
}

/// How a question names a session: its id, title and number of events.
async fn described(client: &Client, id: &SessionId) -> Outcome<String> {
    let body = match client.send(Request::get(session_path(id, ""))).await {
        Ok(answer) => answer.body,
        // An expired or deleted session can be deleted at once, or erased.
        Err(ClientError::Refused(refused)) if refused.status == 410 => {
            return Ok(format!("{}.", refused.message.replacen("session", "Session", 1)));
        }
        Err(error) => return Err(error.into()),
    };
    let session: Value = serde_json::from_slice(&body).unwrap_or_default();
    let events = counted(number(&session, "tail").try_into().unwrap_or(usize::MAX), "event");
    Ok(match one_line(&text(&session, "title"), TITLE_CHARS) {
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
    let request = Request::delete(session_path(id, ""));
    let request = if wanted.now { request.query("now", "true") } else { request };
    let body = client.send(request).await?.body;
    if screen.json {
        return Ok(screen.answer(&body)?);
    }
    screen.line(format!("deleted {id}"))?;
    let told: Value = serde_json::from_slice(&body).unwrap_or_default();
    if let Some(until) = told.get("restorable_until").and_then(Value::as_str) {
        let until = instant(until);
        screen.line(format!("until {until} `sessionlog restore {id}` brings it back"))?;
    }
    Ok(())
}

pub(super) async fn erase(client: &Client, wanted: &args::Erase, screen: &mut Screen) -> Outcome {
    let id = &wanted.session;
    consent::required("erase", wanted.yes, screen)?;
    // Shown before the deletion; a session that does not exist has no forks.
    let family = fork::lineage(client, id).await.unwrap_or_default();
    let forks = number(&family, "forks");
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
    let body = client.send(Request::post(session_path(id, "/erase"))).await?.body;
    if screen.json {
        return Ok(screen.answer(&body)?);
    }
    screen.line(format!("erased {id}"))?;
    Ok(())
}
