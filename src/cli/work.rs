//! The verbs on the work on a session: checkpoints, cursors, wake, history. It must not decide who
//! may write.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};

use super::{
    answer::tree,
    args,
    failure::{Failure, Outcome},
    readable::{self, Paper},
    screen::{Screen, Tone, counted, instant, one_line, printable},
    sessions::has_sessions,
};
use crate::{
    api::work::{
        Checkpoint, CheckpointState, CreateCheckpoint, Cursor, Lease, PutCursor, RenewRequest,
        WakeRequest,
    },
    client::{Client, Request},
    event::{Range, limits},
    verbs::{
        InCheckpoint, InCursor, InSession, NoQuery, Nowhere,
        work::{
            CheckpointsQuery, DropCursor, GetCheckpoint, History, HistoryQuery, ListCheckpoints,
            ListCursors, MakeCheckpoint, ReleaseLease, RenewLease, ResumeCheckpoint, SetCursor,
            WakeSession,
        },
    },
};

/// The header that shows a lease's token.
pub(super) const FENCING_TOKEN: &str = "fencing-token";
/// Characters of a label or a title in a table.
const TEXT_CHARS: usize = 40;
/// Checkpoints of a listing by default, and of a page at most.
const LIMIT_DEFAULT: u64 = 100;
const PAGE_MAX: usize = 1_000;

pub(super) async fn checkpoints(
    client: &Client,
    wanted: args::Checkpoints,
    screen: &mut Screen,
) -> Outcome {
    let session = wanted.session.clone();
    let named = |name: &String| InCheckpoint { session: session.clone(), name: name.clone() };
    if let Some(name) = &wanted.show {
        let found = client.call::<GetCheckpoint>(&named(name), &NoQuery {}, &()).await?;
        if screen.json {
            return Ok(screen.print(&found)?);
        }
        return place(&found, screen);
    }
    if let Some(name) = &wanted.resume {
        let request = Request::from_verb::<ResumeCheckpoint>(&named(name), &NoQuery {}, &());
        let resumed = client.ask::<ResumeCheckpoint>(held(request, wanted.fencing_token)).await?;
        if screen.json {
            return Ok(screen.print(&resumed)?);
        }
        place(&resumed.checkpoint, screen)?;
        screen.line(format!("resumed; {} since then", events(&resumed.behind)))?;
        return Ok(());
    }
    if wanted.create {
        let new = new_checkpoint(&wanted)?;
        let request =
            Request::from_verb::<MakeCheckpoint>(&InSession { session }, &NoQuery {}, &new);
        let made = client.ask::<MakeCheckpoint>(held(request, wanted.fencing_token)).await?;
        if screen.json {
            return Ok(screen.print(&made)?);
        }
        screen
            .line(format!("checkpoint {} at {} of {}", made.id, made.position, wanted.session))?;
        return Ok(());
    }
    list(client, wanted, screen).await
}

async fn list(client: &Client, wanted: args::Checkpoints, screen: &mut Screen) -> Outcome {
    let mut left = usize::try_from(wanted.limit.unwrap_or(LIMIT_DEFAULT)).unwrap_or(usize::MAX);
    let place = InSession { session: wanted.session };
    let mut query = CheckpointsQuery { thread: wanted.thread, ..CheckpointsQuery::default() };
    let mut all = Vec::new();
    while left > 0 {
        query.limit = Some(left.min(PAGE_MAX));
        let list = client.call::<ListCheckpoints>(&place, &query, &()).await?;
        left = left.saturating_sub(list.data.len());
        all.extend(list.data);
        query.page = list.next_page;
        if query.page.is_none() {
            break;
        }
    }
    if screen.json {
        let list = json!({ "data": all, "next_page": query.page });
        return Ok(screen.answer(list.to_string().as_bytes())?);
    }
    if all.is_empty() {
        screen.line("No checkpoints yet.")?;
        return Ok(());
    }
    let is_named = |one: &Checkpoint| one.label.is_some() || one.done;
    let named = all.iter().filter(|one| is_named(one)).count();
    let hidden = if wanted.all || named == 0 { 0 } else { all.len() - named };
    all.retain(|one| hidden == 0 || is_named(one));
    let rows = all.into_iter().map(row).collect();
    screen.table(&["CHECKPOINT", "AT", "MADE", "BY", "LABEL"], rows)?;
    if hidden > 0 {
        screen.note(format!("{hidden} more without a label: --all lists them."));
    }
    Ok(())
}

/// Number of events of a range, as text.
fn events(range: &Range) -> String {
    counted(usize::try_from(range.len()).unwrap_or(usize::MAX), "event")
}

fn row(checkpoint: Checkpoint) -> Vec<String> {
    let mut label = one_line(&checkpoint.label.unwrap_or_default(), TEXT_CHARS);
    if checkpoint.done {
        label = format!("FINAL {label}");
    }
    if let Some(thread) = checkpoint.thread.filter(|thread| !thread.is_empty()) {
        label = format!("{label} [{}]", one_line(&thread, TEXT_CHARS));
    }
    vec![
        checkpoint.id,
        checkpoint.position.to_string(),
        instant(&checkpoint.created_at),
        checkpoint.trigger,
        label.trim().to_owned(),
    ]
}

fn new_checkpoint(wanted: &args::Checkpoints) -> Outcome<CreateCheckpoint> {
    let state = |name: &str, file: &Option<PathBuf>| {
        file.as_ref().map(|file| object(name, file)).transpose()
    };
    Ok(CreateCheckpoint {
        label: wanted.label.clone(),
        thread: wanted.thread.clone(),
        parent: wanted.parent.clone(),
        at: wanted.at.clone(),
        state: state("state", &wanted.state)?,
        state_delta: state("state-delta", &wanted.state_delta)?,
        done: wanted.r#final,
    })
}

/// The JSON object in a file, or on standard input.
fn object(name: &str, file: &Path) -> Outcome<Map<String, Value>> {
    let failed = |source| Failure::File { path: PathBuf::from(file), source };
    let mut bytes = Vec::new();
    let most = limits::STATE_BYTES_MAX as u64 + 1;
    if file == Path::new("-") {
        std::io::stdin().lock().take(most).read_to_end(&mut bytes)?;
    } else {
        bytes = crate::env::files::read(file, most).map_err(failed)?;
    }
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(object)) => Ok(object),
        _ => Err(Failure::Usage(format!("--{name}: a JSON object is expected"))),
    }
}

fn place(found: &CheckpointState, screen: &mut Screen) -> Outcome {
    let checkpoint = &found.checkpoint;
    let some = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut lines = vec![
        ("checkpoint", checkpoint.id.clone()),
        ("label", one_line(&some(&checkpoint.label), 200)),
        ("at", checkpoint.position.to_string()),
        ("made", instant(&checkpoint.created_at)),
        ("by", checkpoint.trigger.clone()),
        ("thread", one_line(&some(&checkpoint.thread), 200)),
        ("follows", some(&checkpoint.parent)),
    ];
    if !found.state.is_empty() {
        lines.push(("state", printable(&Value::Object(found.state.clone()).to_string())));
    }
    let is_empty = |plan: &&Value| plan.as_object().is_some_and(Map::is_empty);
    let plan = found.plan.as_ref().filter(|plan| !plan.is_null() && !is_empty(plan));
    lines.extend(plan.map(|plan| ("plan", printable(&plan.to_string()))));
    print_fields(&lines, screen)
}

fn print_fields(lines: &[(&str, String)], screen: &mut Screen) -> Outcome {
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
    let session = wanted.session;
    let named = |name: &String| InCursor { session: session.clone(), name: name.clone() };
    if let Some(name) = &wanted.put {
        let at = Some(wanted.at.unwrap_or_else(|| "end".to_owned()));
        let body = PutCursor { at, ..PutCursor::default() };
        let cursor = client.call::<SetCursor>(&named(name), &NoQuery {}, &body).await?;
        if screen.json {
            return Ok(screen.print(&cursor)?);
        }
        let Cursor { position, behind, .. } = cursor;
        screen.line(format!("cursor {name} of {session} at {position}, {behind} to read"))?;
        return Ok(());
    }
    if let Some(name) = &wanted.delete {
        let deleted = client.call::<DropCursor>(&named(name), &NoQuery {}, &()).await?;
        if screen.json {
            return Ok(screen.print(&deleted)?);
        }
        screen.line(format!("deleted cursor {name} of {session}"))?;
        return Ok(());
    }
    let list = client.call::<ListCursors>(&InSession { session }, &NoQuery {}, &()).await?;
    if screen.json {
        return Ok(screen.print(&list)?);
    }
    if list.data.is_empty() {
        screen.line("No cursors.")?;
        return Ok(());
    }
    let rows = list.data.into_iter().map(|cursor| {
        let (position, behind) = (cursor.position.to_string(), cursor.behind.to_string());
        vec![cursor.name, position, behind, instant(&cursor.updated_at)]
    });
    screen.table(&["CURSOR", "AT", "TO READ", "PUT"], rows.collect())?;
    Ok(())
}

pub(super) async fn wake(client: &Client, wanted: &args::Wake, screen: &mut Screen) -> Outcome {
    let session = &wanted.session;
    let (place, ttl_seconds) = (InSession { session: session.clone() }, wanted.seconds);
    if let Some(token) = wanted.release {
        let request = Request::from_verb::<ReleaseLease>(&place, &NoQuery {}, &());
        let released = client.ask::<ReleaseLease>(held(request, Some(token))).await?;
        if screen.json {
            return Ok(screen.print(&released)?);
        }
        screen.line(format!("gave back the lease of {session}"))?;
        return Ok(());
    }
    if let Some(token) = wanted.renew {
        let body = RenewRequest { ttl_seconds };
        let request = Request::from_verb::<RenewLease>(&place, &NoQuery {}, &body);
        let lease = client.ask::<RenewLease>(held(request, Some(token))).await?;
        if screen.json {
            return Ok(screen.print(&lease)?);
        }
        return print_fields(&lines_of(&lease), screen);
    }
    let body = WakeRequest { steal: wanted.steal, ttl_seconds };
    let woken = client.call::<WakeSession>(&place, &NoQuery {}, &body).await?;
    if screen.json {
        return Ok(screen.print(&woken)?);
    }
    let mut lines = lines_of(&woken.lease);
    lines.push(("tail", woken.tail.to_string()));
    if let Some(left) = &woken.unfinished {
        let since = events(&left.since_checkpoint);
        lines.push(("unfinished", format!("{since} since the last checkpoint")));
        for call in &left.open_calls {
            let name = one_line(&call.name, TEXT_CHARS);
            lines.push(("open call", format!("{name} at {}", call.position)));
        }
    }
    print_fields(&lines, screen)?;
    woken.last_checkpoint.map_or(Ok(()), |last| self::place(&last, screen))
}

fn lines_of(lease: &Lease) -> Vec<(&'static str, String)> {
    vec![("token", lease.fencing_token.to_string()), ("holds until", instant(&lease.expires_at))]
}

pub(super) async fn history(
    client: &Client,
    wanted: &args::History,
    screen: &mut Screen,
) -> Outcome {
    let limit = wanted.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let workspace = match &wanted.here {
        Some(here) if has_sessions(client, here).await? => Some(here.clone()),
        _ => wanted.workspace.clone(),
    };
    let query = HistoryQuery { workspace, limit };
    let answer = client.call::<History>(&Nowhere {}, &query, &()).await?;
    if screen.json {
        return Ok(screen.print(&answer)?);
    }
    let mut paper = Paper::new(screen.columns(), screen.times());
    readable::history(&tree(&answer)?, &mut paper);
    Ok(screen.lines(paper.lines())?)
}

/// The request with the token of a lease.
fn held(request: Request, token: Option<u64>) -> Request {
    match token {
        Some(token) => request.header(FENCING_TOKEN, token.to_string()),
        None => request,
    }
}
