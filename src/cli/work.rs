//! The verbs on the work on a session: checkpoints, cursors, wake, history. It must not decide who
//! may write.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};

use super::{
    answer::{number, text},
    args,
    failure::{Failure, Outcome},
    readable::{self, Paper},
    screen::{Screen, Tone, counted, instant, one_line, printable},
};
use crate::{
    client::{Client, Request, path_part, session_path},
    event::limits,
};

/// The header that shows a lease's token.
pub(super) const FENCING_TOKEN: &str = "fencing-token";
/// Characters of a label or a title in a table.
const TEXT_CHARS: usize = 40;
/// Checkpoints of a listing by default, and of a page at most.
const LIMIT_DEFAULT: u64 = 100;
const PAGE_MAX: u64 = 1_000;

pub(super) async fn checkpoints(
    client: &Client,
    wanted: args::Checkpoints,
    screen: &mut Screen,
) -> Outcome {
    let path = |rest: &str| session_path(&wanted.session, &format!("/checkpoints{rest}"));
    if let Some(name) = &wanted.show {
        let body = client.send(Request::get(path(&format!("/{}", path_part(name))))).await?.body;
        return place(&body, screen);
    }
    if let Some(name) = &wanted.resume {
        let request = Request::post(path(&format!("/{}/resume", path_part(name))));
        let body = client.send(held(request, wanted.fencing_token)).await?.body;
        if screen.json {
            return Ok(screen.answer(&body)?);
        }
        let told: Value = serde_json::from_slice(&body).unwrap_or_default();
        let from = told.get("checkpoint").cloned().unwrap_or_default();
        show_place(&from, screen)?;
        let behind = told.get("behind").cloned().unwrap_or_default();
        let count = number(&behind, "to").saturating_sub(number(&behind, "from"));
        let count = counted(usize::try_from(count).unwrap_or(usize::MAX), "event");
        screen.line(format!("resumed; {count} since then"))?;
        return Ok(());
    }
    if wanted.create {
        let body = new_checkpoint(&wanted)?;
        let request = held(Request::post(path("")).json(&body), wanted.fencing_token);
        let body = client.send(request).await?.body;
        if screen.json {
            return Ok(screen.answer(&body)?);
        }
        let made: Value = serde_json::from_slice(&body).unwrap_or_default();
        let (id, position) = (text(&made, "id"), number(&made, "position"));
        screen.line(format!("checkpoint {id} at {position} of {}", wanted.session))?;
        return Ok(());
    }
    list(client, &wanted, screen).await
}

async fn list(client: &Client, wanted: &args::Checkpoints, screen: &mut Screen) -> Outcome {
    let mut left = wanted.limit.unwrap_or(LIMIT_DEFAULT);
    let mut page: Option<String> = None;
    let mut all = Vec::new();
    while left > 0 {
        let request = Request::get(session_path(&wanted.session, "/checkpoints"))
            .query("limit", left.min(PAGE_MAX))
            .query_opt("thread", wanted.thread.as_ref())
            .query_opt("page", page.as_ref());
        let body = client.send(request).await?.body;
        let list: Value = serde_json::from_slice(&body).unwrap_or_default();
        let found = list.get("data").and_then(Value::as_array).cloned().unwrap_or_default();
        left = left.saturating_sub(found.len() as u64);
        all.extend(found);
        page = list.get("next_page").and_then(Value::as_str).map(str::to_owned);
        if page.is_none() {
            break;
        }
    }
    if screen.json {
        let list = json!({ "data": all, "next_page": page });
        return Ok(screen.answer(list.to_string().as_bytes())?);
    }
    if all.is_empty() {
        screen.line("No checkpoints yet.")?;
        return Ok(());
    }
    let rows = all.iter().map(row).collect();
    screen.table(&["CHECKPOINT", "AT", "MADE", "BY", "LABEL"], rows)?;
    Ok(())
}

fn row(checkpoint: &Value) -> Vec<String> {
    let mut label = one_line(&text(checkpoint, "label"), TEXT_CHARS);
    if checkpoint.get("final").and_then(Value::as_bool) == Some(true) {
        label = format!("FINAL {label}");
    }
    let thread = text(checkpoint, "thread");
    if !thread.is_empty() {
        label = format!("{label} [{}]", one_line(&thread, TEXT_CHARS));
    }
    vec![
        text(checkpoint, "id"),
        number(checkpoint, "position").to_string(),
        instant(&text(checkpoint, "created_at")),
        text(checkpoint, "trigger"),
        label.trim().to_owned(),
    ]
}

fn new_checkpoint(wanted: &args::Checkpoints) -> Outcome<Value> {
    let mut body = Map::new();
    let texts = [
        ("label", &wanted.label),
        ("thread", &wanted.thread),
        ("parent", &wanted.parent),
        ("at", &wanted.at),
    ];
    for (name, value) in texts {
        body.extend(value.as_ref().map(|value| (name.to_owned(), json!(value))));
    }
    for (name, file) in [("state", &wanted.state), ("state_delta", &wanted.state_delta)] {
        if let Some(file) = file {
            body.insert(name.to_owned(), object(name, file)?);
        }
    }
    if wanted.r#final {
        body.insert("final".to_owned(), json!(true));
    }
    Ok(Value::Object(body))
}

/// The JSON object in a file, or on standard input.
fn object(name: &str, file: &Path) -> Outcome<Value> {
    let failed = |source| Failure::File { path: PathBuf::from(file), source };
    let mut bytes = Vec::new();
    let most = limits::STATE_BYTES_MAX as u64 + 1;
    if file == Path::new("-") {
        std::io::stdin().lock().take(most).read_to_end(&mut bytes)?;
    } else {
        bytes = crate::env::files::read(file, most).map_err(failed)?;
    }
    match serde_json::from_slice(&bytes) {
        Ok(object @ Value::Object(_)) => Ok(object),
        _ => {
            Err(Failure::Usage(format!("--{}: a JSON object is expected", name.replace('_', "-"))))
        }
    }
}

fn place(body: &[u8], screen: &mut Screen) -> Outcome {
    if screen.json {
        return Ok(screen.answer(body)?);
    }
    show_place(&serde_json::from_slice(body).unwrap_or_default(), screen)
}

fn show_place(found: &Value, screen: &mut Screen) -> Outcome {
    let mut lines = vec![
        ("checkpoint", text(found, "id")),
        ("label", one_line(&text(found, "label"), 200)),
        ("at", number(found, "position").to_string()),
        ("made", instant(&text(found, "created_at"))),
        ("by", text(found, "trigger")),
        ("thread", one_line(&text(found, "thread"), 200)),
        ("follows", text(found, "parent")),
    ];
    for name in ["state", "plan"] {
        let value = found.get(name).filter(|value| !value.is_null());
        let value = value.filter(|value| value.as_object().is_none_or(|all| !all.is_empty()));
        lines.extend(value.map(|value| (name, printable(&value.to_string()))));
    }
    tell(&lines, screen)
}

fn tell(lines: &[(&str, String)], screen: &mut Screen) -> Outcome {
    for (name, value) in lines.iter().filter(|(_, value)| !value.is_empty()) {
        let name = screen.paint(Tone::Faint, &format!("{name:<13}"));
        screen.line(format!("{name} {value}"))?;
    }
    Ok(())
}

pub(super) async fn cursors(
    client: &Client,
    wanted: args::Cursors,
    screen: &mut Screen,
) -> Outcome {
    let session = &wanted.session;
    let path = |name: &str| session_path(session, &format!("/cursors/{}", path_part(name)));
    let request = match (&wanted.put, &wanted.delete) {
        (Some(name), _) => {
            let at = wanted.at.as_deref().unwrap_or("end");
            Request::put(path(name)).json(&json!({ "at": at }))
        }
        (None, Some(name)) => Request::delete(path(name)),
        (None, None) => Request::get(session_path(session, "/cursors")),
    };
    let body = client.send(request).await?.body;
    if screen.json {
        return Ok(screen.answer(&body)?);
    }
    let told: Value = serde_json::from_slice(&body).unwrap_or_default();
    if let Some(name) = &wanted.delete {
        screen.line(format!("deleted cursor {name} of {session}"))?;
        return Ok(());
    }
    if let Some(name) = &wanted.put {
        let (position, behind) = (number(&told, "position"), number(&told, "behind"));
        screen.line(format!("cursor {name} of {session} at {position}, {behind} to read"))?;
        return Ok(());
    }
    let found = told.get("data").and_then(Value::as_array).cloned().unwrap_or_default();
    if found.is_empty() {
        screen.line("No cursors.")?;
        return Ok(());
    }
    let rows = found.iter().map(|cursor| {
        vec![
            text(cursor, "name"),
            number(cursor, "position").to_string(),
            number(cursor, "behind").to_string(),
            instant(&text(cursor, "updated_at")),
        ]
    });
    screen.table(&["CURSOR", "AT", "TO READ", "PUT"], rows.collect())?;
    Ok(())
}

pub(super) async fn wake(client: &Client, wanted: &args::Wake, screen: &mut Screen) -> Outcome {
    let session = &wanted.session;
    let ttl = wanted.seconds.map(|seconds| ("ttl_seconds".to_owned(), json!(seconds)));
    let mut body: Map<String, Value> = ttl.into_iter().collect();
    let request = match (wanted.renew, wanted.release) {
        (Some(_), _) => {
            Request::post(session_path(session, "/lease/renew")).json(&Value::Object(body))
        }
        (None, Some(_)) => Request::delete(session_path(session, "/lease")),
        (None, None) => {
            body.insert("steal".to_owned(), json!(wanted.steal));
            Request::post(session_path(session, "/wake")).json(&Value::Object(body))
        }
    };
    let answer = client.send(held(request, wanted.renew.or(wanted.release))).await?.body;
    if screen.json {
        return Ok(screen.answer(&answer)?);
    }
    let told: Value = serde_json::from_slice(&answer).unwrap_or_default();
    if wanted.release.is_some() {
        screen.line(format!("gave back the lease of {session}"))?;
        return Ok(());
    }
    let lease = told.get("lease").unwrap_or(&told);
    let mut lines = vec![
        ("token", number(lease, "fencing_token").to_string()),
        ("holds until", instant(&text(lease, "expires_at"))),
    ];
    if wanted.renew.is_none() {
        lines.push(("tail", number(&told, "tail").to_string()));
    }
    let left = told.get("unfinished").filter(|left| !left.is_null());
    if let Some(left) = left {
        let since = left.get("since_checkpoint").cloned().unwrap_or_default();
        let events = number(&since, "to").saturating_sub(number(&since, "from"));
        let events = counted(usize::try_from(events).unwrap_or(usize::MAX), "event");
        lines.push(("unfinished", format!("{events} since the last checkpoint")));
        for call in left.get("open_calls").and_then(Value::as_array).into_iter().flatten() {
            let (name, at) = (one_line(&text(call, "name"), TEXT_CHARS), number(call, "position"));
            lines.push(("open call", format!("{name} at {at}")));
        }
    }
    tell(&lines, screen)?;
    match told.get("last_checkpoint").filter(|last| !last.is_null()) {
        Some(last) => show_place(last, screen),
        None => Ok(()),
    }
}

pub(super) async fn history(
    client: &Client,
    wanted: &args::History,
    screen: &mut Screen,
) -> Outcome {
    let request = Request::get("/v1/history")
        .query_opt("workspace", wanted.workspace.as_ref())
        .query_opt("limit", wanted.limit);
    let body = client.send(request).await?.body;
    if screen.json {
        return Ok(screen.answer(&body)?);
    }
    let told: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut paper = Paper::new(screen.columns(), screen.times());
    readable::history(&told, &mut paper);
    Ok(screen.lines(paper.lines())?)
}

/// The request with the token of a lease.
fn held(request: Request, token: Option<u64>) -> Request {
    match token {
        Some(token) => request.header(FENCING_TOKEN, token.to_string()),
        None => request,
    }
}
