//! The verbs on work in progress: checkpoints, cursors, wake, history. It must not decide who may
//! write.

use std::{
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};

use super::{
    answer::{to_json_tree, to_usize},
    args,
    failure::{CliError, Outcome},
    readable::{self, LineBuffer},
    screen::{Screen, Tone, escaped, format_instant, one_line, with_noun},
    sessions::{empty_list_reason, find_here},
    times::resolve_utc_day,
};
use crate::{
    api::work::{
        Checkpoint, CheckpointState, CreateCheckpoint, Cursor, Lease, PutCursor, RenewRequest,
        WakeRequest,
    },
    client::{Client, FENCING_TOKEN, HttpRequest},
    event::{Range, limits},
    verbs::{
        CheckpointPath, CursorPath, NoParams, NoQuery, SessionPath,
        views::{GetUsage, UsageQuery},
        work::{
            CheckpointsQuery, DeleteCursor, GetCheckpoint, GetHistory, HistoryQuery,
            ListCheckpoints, ListCursors, MakeCheckpoint, ReleaseLease, RenewLease,
            ResumeCheckpoint, SetCursor, WakeSession,
        },
    },
};

/// Maximum characters of a label or a title in a table.
const TEXT_CHARS: usize = 40;
/// Default number of checkpoints of a listing, and maximum of a page.
const LIMIT_DEFAULT: u64 = 100;
const PAGE_MAX: usize = 1_000;

pub(super) async fn run_checkpoints(
    client: &Client,
    wanted: args::CheckpointsArgs,
    screen: &mut Screen,
) -> Outcome {
    let session = wanted.session.clone();
    let named = |name: &String| CheckpointPath { session: session.clone(), name: name.clone() };
    if let Some(name) = &wanted.show {
        let found = client.call::<GetCheckpoint>(&named(name), &NoQuery {}, &()).await?;
        return screen.print_result(&found, |screen| print_checkpoint(&found, screen));
    }
    if let Some(name) = &wanted.resume {
        let request = HttpRequest::from_verb::<ResumeCheckpoint>(&named(name), &NoQuery {}, &());
        let resumed =
            client.ask::<ResumeCheckpoint>(with_lease_token(request, wanted.fencing_token)).await?;
        return screen.print_result(&resumed, |screen| {
            print_checkpoint(&resumed.checkpoint, screen)?;
            screen
                .print_line(format!("resumed; {} since then", format_event_count(&resumed.behind)))
        });
    }
    if wanted.create {
        let (place, new) = (SessionPath { session }, new_checkpoint(&wanted)?);
        let request = HttpRequest::from_verb::<MakeCheckpoint>(&place, &NoQuery {}, &new);
        let made =
            client.ask::<MakeCheckpoint>(with_lease_token(request, wanted.fencing_token)).await?;
        return screen.print_result(&made, |screen| {
            screen.print_line(format!(
                "checkpoint {} at {} of {}",
                made.id, made.position, place.session
            ))
        });
    }
    list_checkpoints(client, wanted, screen).await
}

async fn list_checkpoints(
    client: &Client,
    wanted: args::CheckpointsArgs,
    screen: &mut Screen,
) -> Outcome {
    let mut left = to_usize(wanted.limit.unwrap_or(LIMIT_DEFAULT));
    let place = SessionPath { session: wanted.session };
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
    let list = json!({ "data": all, "next_page": query.page });
    screen.print_result(&list, |screen| {
        if all.is_empty() {
            return screen.print_line("No checkpoints yet.");
        }
        let is_named = |one: &Checkpoint| one.label.is_some() || one.done;
        let named = all.iter().filter(|one| is_named(one)).count();
        let hidden = if wanted.all || named == 0 { 0 } else { all.len() - named };
        let shown = all.into_iter().filter(|one| hidden == 0 || is_named(one));
        screen.print_table(
            &["CHECKPOINT", "AT", "MADE", "BY", "LABEL"],
            shown.map(table_row).collect(),
        )?;
        if hidden > 0 {
            screen.print_note(format!("{hidden} more without a label: --all lists them."));
        }
        Ok(())
    })
}

/// Formats the number of events of a range.
fn format_event_count(range: &Range) -> String {
    with_noun(range.len(), "event")
}

fn table_row(checkpoint: Checkpoint) -> Vec<String> {
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
        format_instant(&checkpoint.created_at),
        checkpoint.trigger,
        label.trim().to_owned(),
    ]
}

fn new_checkpoint(wanted: &args::CheckpointsArgs) -> Outcome<CreateCheckpoint> {
    let state = |name: &str, file: &Option<PathBuf>| {
        file.as_ref().map(|file| read_object(name, file)).transpose()
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

/// Reads a JSON object from a file or from standard input.
fn read_object(name: &str, file: &Path) -> Outcome<Map<String, Value>> {
    let mut bytes = Vec::new();
    let most = limits::STATE_BYTES_MAX as u64 + 1;
    if file == Path::new("-") {
        std::io::stdin().lock().take(most).read_to_end(&mut bytes)?;
    } else {
        bytes = crate::env::files::read(file, most).map_err(CliError::file(file))?;
    }
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(object)) => Ok(object),
        _ => Err(CliError::usage(format!("--{name}: a JSON object is expected"))),
    }
}

fn print_checkpoint(found: &CheckpointState, screen: &mut Screen) -> io::Result<()> {
    let checkpoint = &found.checkpoint;
    let some = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut lines = vec![
        ("checkpoint", checkpoint.id.clone()),
        ("label", one_line(&some(&checkpoint.label), 200)),
        ("at", checkpoint.position.to_string()),
        ("made", format_instant(&checkpoint.created_at)),
        ("by", checkpoint.trigger.clone()),
        ("thread", one_line(&some(&checkpoint.thread), 200)),
        ("follows", some(&checkpoint.parent)),
    ];
    if !found.state.is_empty() {
        lines.push(("state", escaped(&Value::Object(found.state.clone()).to_string())));
    }
    let is_empty = |plan: &&Value| plan.as_object().is_some_and(Map::is_empty);
    let plan = found.plan.as_ref().filter(|plan| !plan.is_null() && !is_empty(plan));
    lines.extend(plan.map(|plan| ("plan", escaped(&plan.to_string()))));
    print_fields(&lines, screen)
}

fn print_fields(lines: &[(&str, String)], screen: &mut Screen) -> io::Result<()> {
    for (name, value) in lines.iter().filter(|(_, value)| !value.is_empty()) {
        let name = screen.paint(Tone::Faint, &format!("{name:<13}"));
        screen.print_line(format!("{name} {value}"))?;
    }
    Ok(())
}

pub(super) async fn run_cursors(
    client: &Client,
    wanted: args::CursorsArgs,
    screen: &mut Screen,
) -> Outcome {
    let session = wanted.session;
    let named = |name: &String| CursorPath { session: session.clone(), name: name.clone() };
    if let Some(name) = &wanted.put {
        let at = Some(wanted.at.unwrap_or_else(|| "end".to_owned()));
        let body = PutCursor { at, ..PutCursor::default() };
        let cursor = client.call::<SetCursor>(&named(name), &NoQuery {}, &body).await?;
        let Cursor { position, behind, .. } = &cursor;
        return screen.print_result(&cursor, |screen| {
            screen.print_line(format!("cursor {name} of {session} at {position}, {behind} to read"))
        });
    }
    if let Some(name) = &wanted.delete {
        let deleted = client.call::<DeleteCursor>(&named(name), &NoQuery {}, &()).await?;
        return screen.print_result(&deleted, |screen| {
            screen.print_line(format!("deleted cursor {name} of {session}"))
        });
    }
    let list = client.call::<ListCursors>(&SessionPath { session }, &NoQuery {}, &()).await?;
    let row = |cursor: &Cursor| {
        let (position, behind) = (cursor.position.to_string(), cursor.behind.to_string());
        vec![cursor.name.clone(), position, behind, format_instant(&cursor.updated_at)]
    };
    let heads = ["CURSOR", "AT", "TO READ", "PUT"];
    screen.print_result(&list, |screen| match list.data.is_empty() {
        true => screen.print_line("No cursors."),
        false => screen.print_table(&heads, list.data.iter().map(row).collect()),
    })
}

pub(super) async fn wake(client: &Client, wanted: args::WakeArgs, screen: &mut Screen) -> Outcome {
    let (place, ttl_seconds) = (SessionPath { session: wanted.session }, wanted.seconds);
    if let Some(token) = wanted.release {
        let request = HttpRequest::from_verb::<ReleaseLease>(&place, &NoQuery {}, &());
        let released = client.ask::<ReleaseLease>(with_lease_token(request, Some(token))).await?;
        return screen.print_result(&released, |screen| {
            screen.print_line(format!("gave back the lease of {}", place.session))
        });
    }
    if let Some(token) = wanted.renew {
        let body = RenewRequest { ttl_seconds };
        let request = HttpRequest::from_verb::<RenewLease>(&place, &NoQuery {}, &body);
        let lease = client.ask::<RenewLease>(with_lease_token(request, Some(token))).await?;
        return screen.print_result(&lease, |screen| print_fields(&lease_fields(&lease), screen));
    }
    let body = WakeRequest { steal: wanted.steal, ttl_seconds };
    let woken = client.call::<WakeSession>(&place, &NoQuery {}, &body).await?;
    screen.print_result(&woken, |screen| {
        let mut lines = lease_fields(&woken.lease);
        lines.push(("tail", woken.tail.to_string()));
        if let Some(left) = &woken.unfinished {
            let since = format_event_count(&left.since_checkpoint);
            lines.push(("unfinished", format!("{since} since the last checkpoint")));
            for call in &left.open_calls {
                let name = one_line(&call.name, TEXT_CHARS);
                lines.push(("open call", format!("{name} at {}", call.position)));
            }
        }
        print_fields(&lines, screen)?;
        woken.last_checkpoint.as_ref().map_or(Ok(()), |last| print_checkpoint(last, screen))
    })
}

fn lease_fields(lease: &Lease) -> Vec<(&'static str, String)> {
    vec![
        ("token", lease.fencing_token.to_string()),
        ("holds until", format_instant(&lease.expires_at)),
    ]
}

pub(super) async fn show_history(
    client: &Client,
    wanted: args::HistoryArgs,
    screen: &mut Screen,
) -> Outcome {
    let limit = wanted.limit.map(to_usize);
    let workspace = find_here(client, &wanted.choice).await?.or(wanted.choice.workspace);
    let query = HistoryQuery { workspace, limit };
    let answer = client.call::<GetHistory>(&NoParams {}, &query, &()).await?;
    let told = to_json_tree(&answer)?;
    if answer.data.is_empty() && !screen.json {
        let reason = empty_list_reason(client, query.workspace.as_deref()).await;
        return Ok(screen.print_line(escaped(&reason))?);
    }
    screen.print_result(&answer, |screen| {
        LineBuffer::print(screen, |paper| readable::print_history(&told, paper))
    })
}

pub(super) async fn show_usage(
    client: &Client,
    wanted: args::UsageArgs,
    screen: &mut Screen,
) -> Outcome {
    let workspace = find_here(client, &wanted.choice).await?.or(wanted.choice.workspace);
    let day = |text: Option<String>| text.as_deref().map(resolve_utc_day).transpose();
    let (since, until) = (day(wanted.since)?, day(wanted.until)?);
    let query = UsageQuery { by: wanted.by, since, until, workspace };
    let answer = client.call::<GetUsage>(&NoParams {}, &query, &()).await?;
    let tree = to_json_tree(&answer)?;
    let mut scope = String::new();
    scope.extend(query.workspace.map(|name| format!(" in workspace {name}")));
    scope.extend(query.since.or(query.until).map(|_| " on these days"));
    screen.print_result(&answer, |screen| {
        LineBuffer::print(screen, |paper| readable::print_total_usage(&tree, &scope, paper))
    })
}

/// Adds the token of a lease to a request.
fn with_lease_token(request: HttpRequest, token: Option<u64>) -> HttpRequest {
    match token {
        Some(token) => request.header(FENCING_TOKEN, token.to_string()),
        None => request,
    }
}
