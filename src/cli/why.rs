//! `why`: which sessions changed a file, and what a person had asked for. It must not guess: a
//! change that no recorded call names is not shown.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{
    answer::moment,
    args,
    failure::{Failure, Outcome},
    page::{Pages, Query},
    readable::{Paper, words::many},
    screen::{Screen, Tone, one_line},
    titles,
};
use crate::{
    api::sessions::Session,
    client::Client,
    env::files,
    event::{Event, EventId, EventType, Origin, Position, SessionId, Timestamp},
    projection::{Edit, Edits},
    verbs::{Nowhere, sessions},
    wire::json::shown,
};

/// Sessions that are looked at, the newest; and changes of each that a person is shown.
const SESSIONS_MAX: usize = 200;
const CHANGES_SHOWN: usize = 20;
const TITLE_CHARS: usize = 80;

/// A session and its changes of the file, each with its time.
struct Found {
    session: Session,
    edits: Vec<(Edit, Option<Timestamp>)>,
}

pub(super) async fn run(client: &Client, wanted: &args::Why, screen: &mut Screen) -> Outcome {
    let file = files::resolved(&wanted.file)
        .map_err(|source| Failure::File { path: wanted.file.clone(), source })?;
    let query = sessions::ListQuery {
        limit: Some(SESSIONS_MAX),
        include_archived: true,
        ..sessions::ListQuery::default()
    };
    let list = client.call::<sessions::List>(&Nowhere {}, &query, &()).await?;
    let is_whole = list.next_page.is_none();
    let mut found = Vec::new();
    for session in list.data {
        // The workspace of a session is its repository: it cannot have the file elsewhere.
        let workspace = session.workspace.as_ref().map(PathBuf::from);
        if workspace.as_ref().is_some_and(|workspace| !file.starts_with(workspace)) {
            continue;
        }
        let edits = edits(client, &session, workspace.as_deref(), &file).await?;
        if !edits.is_empty() {
            found.push(Found { session, edits });
        }
    }
    if screen.json {
        let data: Vec<Value> = found.iter().flat_map(to_json).collect();
        return Ok(screen.value(&json!({ "file": file, "data": data, "complete": is_whole }))?);
    }
    if !is_whole {
        screen.note(format!("only the newest {SESSIONS_MAX} sessions were looked at"));
    }
    if found.is_empty() {
        screen.note(format!("No recorded call changed {}.", file.display()));
        return Ok(());
    }
    let mut paper = Paper::new(screen.columns(), screen.times());
    for one in &found {
        let title = titles::title(client, &one.session).await;
        print_found(one, &title, &mut paper);
    }
    Ok(screen.lines(paper.lines())?)
}

/// The changes of a file in a session.
async fn edits(
    client: &Client,
    session: &Session,
    workspace: Option<&Path>,
    file: &Path,
) -> Outcome<Vec<(Edit, Option<Timestamp>)>> {
    let Ok(id) = SessionId::new(&session.id) else { return Ok(Vec::new()) };
    let query = Query { allow_gaps: true, ..Query::default() };
    let mut pages = Pages::new(client, &id, query);
    let (mut fold, mut found) = (Edits::default(), Vec::new());
    while let Some(page) = pages.next().await? {
        for event in page.events {
            let text = event.get().to_owned();
            let Ok(value) = shown(text.as_bytes()) else { continue };
            let Some(event) = read(&value, text) else { continue };
            for edit in fold.fold(&event) {
                let root = fold.root().map(Path::new).or(workspace);
                let path = root.map_or_else(PathBuf::new, Path::to_path_buf).join(&*edit.path);
                if path == file || files::resolved(&path).is_ok_and(|path| path == file) {
                    found.push((edit, moment(&value)));
                }
            }
        }
    }
    Ok(found)
}

/// An event as the folds read it.
fn read(value: &Value, text: String) -> Option<Event> {
    let word = |name: &str| value.get(name).and_then(Value::as_str);
    Some(Event {
        position: Position(value.get("position")?.as_u64()?),
        id: EventId::new(word("id")?).ok()?,
        kind: EventType::new(word("type")?).ok()?,
        origin: match word("origin") {
            Some("model") => Origin::Model,
            Some("tool") => Origin::Tool,
            Some("web") => Origin::Web,
            _ => Origin::User,
        },
        created_at: None,
        processed_at: word("processed_at").and_then(Timestamp::parse).unwrap_or_default(),
        body: text.into(),
    })
}

fn print_found(found: &Found, title: &str, paper: &mut Paper) {
    let count = many(found.edits.len() as u64, "change");
    let head = format!("{}  {count}  {}", found.session.id, one_line(title, TITLE_CHARS));
    paper.heading(&head);
    let hidden = found.edits.len().saturating_sub(CHANGES_SHOWN);
    if hidden > 0 {
        paper.say(Tone::Faint, "  ", &format!("{} before these", many(hidden as u64, "change")));
    }
    let mut asked = None;
    for (edit, at) in found.edits.iter().skip(hidden) {
        if asked != Some(&edit.asked) {
            if let Some((position, text)) = &edit.asked {
                paper.say(Tone::Plain, "  ", &format!("asked at {position}: {text}"));
            }
            asked = Some(&edit.asked);
        }
        let when = at.map(|at| paper.times.both(&at.to_string())).unwrap_or_default();
        let line = format!("{} {} by {}, {when}", edit.position, edit.how, edit.tool);
        paper.say(Tone::Faint, "    ", &line);
    }
    paper.command("  ", &format!("sessionlog replay {}", found.session.id));
}

fn to_json(found: &Found) -> Vec<Value> {
    let one = |(edit, at): &(Edit, Option<Timestamp>)| {
        json!({
            "session": found.session.id, "position": edit.position.0, "how": edit.how,
            "tool": edit.tool, "at": at.map(|at| at.to_string()),
            "asked": edit.asked.as_ref().map(|(position, text)| {
                json!({ "position": position.0, "text": text })
            }),
        })
    };
    found.edits.iter().map(one).collect()
}
