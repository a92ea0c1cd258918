//! `why`: lists the sessions that changed a file, and the instruction of the user before each
//! change. It must not guess: a change that no recorded call names is not shown.

use serde::Serialize;
use serde_json::json;

use super::{
    args,
    failure::{Failure, Outcome},
    readable::{Paper, words::many},
    screen::{Screen, Tone, one_line},
    titles,
};
use crate::{
    api::changes::{FileChange, FileChangesQuery, SessionChanges},
    client::Client,
    env::files,
    verbs::{Nowhere, changes::FindFileChanges},
};

/// Maximum number of changes requested, and of those printed for each session.
const CHANGES_MAX: usize = 1_000;
const CHANGES_SHOWN: usize = 20;
const TITLE_CHARS: usize = 80;

pub(super) async fn run(client: &Client, wanted: &args::Why, screen: &mut Screen) -> Outcome {
    let file = files::resolved(&wanted.file)
        .map_err(|source| Failure::File { path: wanted.file.clone(), source })?;
    let named = std::path::absolute(&wanted.file).ok().map(|path| path.display().to_string());
    let query = FileChangesQuery {
        file: file.display().to_string(),
        also: named,
        limit: Some(CHANGES_MAX),
    };
    let found = client.call::<FindFileChanges>(&Nowhere {}, &query, &()).await?;
    if screen.json {
        let data: Vec<ChangeRow<'_>> = found.data.iter().flat_map(rows).collect();
        let all = json!({ "file": file, "data": data, "complete": found.complete });
        return Ok(screen.value(&all)?);
    }
    if !found.complete {
        screen.note("only the newest sessions and changes were looked at");
    }
    if found.data.is_empty() {
        screen.note(format!("No recorded call changed {}.", file.display()));
        return Ok(());
    }
    let mut paper = Paper::new(screen.columns(), screen.times());
    for one in &found.data {
        let title = titles::title(client, &one.session, one.title.as_deref()).await;
        print_found(one, &title, &mut paper);
    }
    Ok(screen.lines(paper.lines())?)
}

fn print_found(found: &SessionChanges, title: &str, paper: &mut Paper) {
    let count = many(found.changes.len() as u64, "change");
    let head = format!("{}  {count}  {}", found.session, one_line(title, TITLE_CHARS));
    paper.heading(&head);
    let hidden = found.changes.len().saturating_sub(CHANGES_SHOWN);
    if hidden > 0 {
        paper.say(Tone::Faint, "  ", &format!("{} before these", many(hidden as u64, "change")));
    }
    let mut asked = None;
    for change in found.changes.iter().skip(hidden) {
        if asked != Some(&change.asked) {
            if let Some(request) = &change.asked {
                let said = format!("asked at {}: {}", request.position, request.text);
                paper.say(Tone::Plain, "  ", &said);
            }
            asked = Some(&change.asked);
        }
        let when = paper.times.both(&change.at.to_string());
        let line = format!("{} {} by {}, {when}", change.position, change.how, change.tool);
        paper.say(Tone::Faint, "    ", &line);
    }
    paper.command("  ", &format!("sessionlog replay {}", found.session));
}

/// A change with its session.
#[derive(Serialize)]
struct ChangeRow<'a> {
    session: &'a str,
    #[serde(flatten)]
    change: &'a FileChange,
}

fn rows(found: &SessionChanges) -> impl Iterator<Item = ChangeRow<'_>> {
    found.changes.iter().map(|change| ChangeRow { session: &found.session, change })
}
