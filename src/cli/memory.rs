//! `memory` and `mark`: items of memory, and marks of single events. It must not decide in which
//! session an item is stored.

use serde_json::Value;

use super::{
    answer::to_usize,
    args,
    failure::{CliError, Outcome},
    page::{EventPages, EventsQuery},
    readable::{LineBuffer, words::count_of},
    screen::{Screen, Tone, escaped, one_line},
};
use crate::{
    api::memory::{
        ListMemoryQuery, MarkKind, MarkRequest, MemoryBlock, MemoryItem, MemoryKind, MemoryList,
        PageInRequest, RememberRequest, Remembered,
    },
    client::Client,
    event::{EventId, SessionId},
    verbs::{
        EventPath, MemoryItemPath, NoParams, NoQuery, SessionPath, WorkspacePath,
        memory::{
            Forget, GetMemory, ListMemory, ListWorkspaceMemory, MarkEvent, PageIn, Remember,
            RememberInWorkspace,
        },
    },
};

/// Maximum characters of a similar item.
const LINE_CHARS: usize = 100;

pub(super) async fn run(client: &Client, wanted: args::MemoryArgs, screen: &mut Screen) -> Outcome {
    if let Some(text) = wanted.insert.clone() {
        return insert(client, wanted, text, screen).await;
    }
    let names_item = wanted.forget.is_some() || wanted.show.is_some();
    let kept_in = match wanted.workspace.as_ref().filter(|_| names_item) {
        Some(workspace) => Some(fetch_notebook(client, workspace).await?),
        None => wanted.session.clone(),
    };
    let place = |item: &EventId| {
        kept_in.clone().map(|session| MemoryItemPath { session, item: item.clone() })
    };
    if let Some(place) = wanted.forget.as_ref().and_then(place) {
        let gone = client.call::<Forget>(&place, &NoQuery {}, &()).await?;
        let (id, session) = (escaped(gone.memory_id.as_str()), &gone.session);
        return screen.print_result(&gone, |screen| {
            screen
                .print_line(format!("forgotten: {id}, position {} of {session}", gone.position))?;
            screen.print_note(format!("To remove its bytes: sessionlog redact {session} {id}"));
            Ok(())
        });
    }
    if let Some(place) = wanted.show.as_ref().and_then(place) {
        let found = client.call::<GetMemory>(&place, &NoQuery {}, &()).await?;
        return screen.print_result(&found, |screen| {
            LineBuffer::print(screen, |paper| print_item(&found.item, paper))
        });
    }
    if let Some(query) = wanted.page.clone() {
        let asked = PageInRequest {
            session: wanted.session.map(|session| session.to_string()),
            workspace: wanted.workspace,
            query: Some(query),
            tokens_max: wanted.tokens.map(to_usize),
            ..PageInRequest::default()
        };
        return page_in(client, &asked, screen).await;
    }
    let found = fetch_items(client, wanted).await?;
    screen.print_result(&found, |screen| {
        LineBuffer::print(screen, |paper| {
            found.data.iter().for_each(|item| print_item(item, paper))
        })?;
        if found.data.is_empty() {
            screen.print_note("Nothing is remembered.");
        }
        if found.next_page.is_some() {
            screen.print_note("There is more: --limit N shows up to 1 000.");
        }
        if found.left_out > 0 {
            screen.print_note(format!(
                "{} more: search finds them",
                count_of(found.left_out, "item")
            ));
        }
        Ok(())
    })
}

/// Fetches the id of the session that stores the memory of a workspace.
pub(super) async fn fetch_notebook(client: &Client, workspace: &str) -> Outcome<SessionId> {
    let place = WorkspacePath { workspace: workspace.to_owned() };
    let query = ListMemoryQuery { limit: Some(1), ..ListMemoryQuery::default() };
    let found = client.call::<ListWorkspaceMemory>(&place, &query, &()).await?;
    let missing = || CliError::usage(format!("{} has no notebook", escaped(workspace)));
    found.notebook.ok_or_else(missing)
}

/// Prints blocks in full, and the names of those that did not fit.
async fn page_in(client: &Client, asked: &PageInRequest, screen: &mut Screen) -> Outcome {
    let paged = client.call::<PageIn>(&NoParams {}, &NoQuery {}, asked).await?;
    let place = |block: &MemoryBlock| format!("{} {}", block.session, block.range.from);
    screen.print_result(&paged, |screen| {
        LineBuffer::print(screen, |paper| {
            for block in &paged.blocks {
                paper.push_heading(&place(block));
                let line =
                    format!("{}, {}", block.kind, paper.times.format_both(&block.at.to_string()));
                paper.push(Tone::Faint, "  ", &line);
                paper.push(Tone::Plain, "    ", block.text.trim());
            }
        })?;
        for block in &paged.left_out {
            screen.print_note(format!(
                "left out: {}, {}",
                place(block),
                count_of(block.tokens, "token")
            ));
        }
        if paged.blocks.is_empty() && paged.left_out.is_empty() {
            screen.print_note("Nothing matches.");
        }
        Ok(())
    })
}

async fn fetch_items(client: &Client, wanted: args::MemoryArgs) -> Outcome<MemoryList> {
    let query = ListMemoryQuery {
        kinds: wanted.kind,
        include_ended: wanted.all,
        limit: wanted.limit.map(to_usize),
        page: None,
    };
    Ok(match (wanted.workspace, wanted.session) {
        (Some(workspace), _) => {
            client.call::<ListWorkspaceMemory>(&WorkspacePath { workspace }, &query, &()).await?
        }
        (None, Some(session)) => {
            client.call::<ListMemory>(&SessionPath { session }, &query, &()).await?
        }
        (None, None) => return Err(missing_session_failure()),
    })
}

fn missing_session_failure() -> CliError {
    CliError::usage("a session or --workspace is needed")
}

async fn insert(
    client: &Client,
    wanted: args::MemoryArgs,
    text: String,
    screen: &mut Screen,
) -> Outcome {
    let args::MemoryArgs { kind, topic, tags, importance, name, supersedes, .. } = wanted;
    let kind = match kind.as_slice() {
        [] => "semantic".to_owned(),
        [kind] => kind.clone(),
        _ => return Err(CliError::usage("--kind: one kind goes with --insert")),
    };
    let asked = RememberRequest { text, kind, topic, tags, importance, name, supersedes };
    let kept = match (wanted.workspace, wanted.session) {
        (Some(workspace), _) => {
            let place = WorkspacePath { workspace };
            client.call::<RememberInWorkspace>(&place, &NoQuery {}, &asked).await?
        }
        (None, Some(session)) => {
            client.call::<Remember>(&SessionPath { session }, &NoQuery {}, &asked).await?
        }
        (None, None) => return Err(missing_session_failure()),
    };
    let Remembered { memory_id, session, position, similar } = &kept;
    let id = escaped(memory_id.as_str());
    screen.print_result(&kept, |screen| {
        screen.print_line(format!("remembered: {id}, position {position} of {session}"))?;
        for one in similar {
            let text = one_line(&one.text, LINE_CHARS);
            screen.print_note(format!("similar: {}  {text}", escaped(one.memory_id.as_str())));
        }
        Ok(())
    })
}

fn print_item(item: &MemoryItem, paper: &mut LineBuffer) {
    let about = item.name.as_deref().or(item.topic.as_deref());
    let about = about.map(|about| format!("  {}", one_line(about, LINE_CHARS))).unwrap_or_default();
    paper.push_heading(&format!("{}{about}", item.memory_id));
    let mut facts = vec![
        item.kind.text(MemoryKind::as_str).to_owned(),
        paper.times.format_both(&item.at.to_string()),
    ];
    facts.extend(item.importance.map(|importance| format!("importance {importance}")));
    facts.extend((!item.tags.is_empty()).then(|| item.tags.join(", ")));
    facts.extend(item.from.as_ref().map(|from| format!("from {} {}", from.session, from.position)));
    paper.push(Tone::Faint, "  ", &facts.join(", "));
    paper.push(Tone::Plain, "    ", item.text.trim());
    let ends = [
        item.superseded_by.as_ref().map(|by| format!("superseded by {by}")),
        item.forgotten_at.map(|at| format!("forgotten at {at}")),
        item.ended_at.map(|at| format!("ended at {at}")),
    ];
    ends.into_iter().flatten().for_each(|end| paper.push(Tone::Bad, "    ", &end));
}

pub(super) async fn mark_event(
    client: &Client,
    wanted: args::MarkArgs,
    screen: &mut Screen,
) -> Outcome {
    let args::MarkArgs { session, at, mark, importance, note } = wanted;
    let event = fetch_event_id(client, &session, &at).await?;
    let place = EventPath { session, event };
    let asked = MarkRequest { mark, importance, note };
    let marked = client.call::<MarkEvent>(&place, &NoQuery {}, &asked).await?;
    let marks: Vec<&str> = marked.marks.iter().map(|one| one.kind.text(MarkKind::as_str)).collect();
    let (event, session) = (escaped(marked.event.as_str()), &marked.session);
    screen.print_result(&marked, |screen| {
        screen.print_line(format!("marked {event} of {session}: {}", marks.join(", ")))
    })
}

/// Fetches the id of the event at a point; `end` is the last event.
async fn fetch_event_id(client: &Client, session: &SessionId, at: &str) -> Outcome<EventId> {
    let from = if at == "end" { "-1" } else { at };
    let query =
        EventsQuery { from: Some(from.to_owned()), limit: Some(1), ..EventsQuery::default() };
    let page = EventPages::new(client, session, query).next().await?;
    let event = page.and_then(|page| page.events.into_iter().next());
    let event: Option<Value> = event.and_then(|event| serde_json::from_str(event.get()).ok());
    let id = event.as_ref().and_then(|event| event.get("id")).and_then(Value::as_str);
    let id = id.and_then(|id| EventId::new(id).ok());
    id.ok_or_else(|| CliError::usage(format!("{session} has no event at {}", escaped(at))))
}
