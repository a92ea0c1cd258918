//! `why`: lists the sessions that changed a file, and the instruction of the user before each
//! change. It must not guess: a change that no recorded call names is not shown.

use serde::Serialize;
use serde_json::json;

use super::{
    args,
    failure::{CliError, Outcome},
    readable::{LineBuffer, words::count_of},
    screen::{Screen, Tone, one_line},
    titles,
};
use crate::{
    api::changes::{FileChange, FileChangesQuery, SessionChanges},
    client::Client,
    env::files,
    verbs::{NoParams, changes::FindFileChanges},
};

/// Maximum number of changes requested, and of those printed for each session.
const CHANGES_MAX: usize = 1_000;
const CHANGES_SHOWN: usize = 20;
const TITLE_CHARS: usize = 80;

pub(super) async fn run(client: &Client, wanted: &args::WhyArgs, screen: &mut Screen) -> Outcome {
    let file = files::resolve(&wanted.file)
        .map_err(|source| CliError::File { path: wanted.file.clone(), source })?;
    let named = std::path::absolute(&wanted.file).ok().map(|path| path.display().to_string());
    let query = FileChangesQuery {
        file: file.display().to_string(),
        also: named,
        limit: Some(CHANGES_MAX),
    };
    let found = client.call::<FindFileChanges>(&NoParams {}, &query, &()).await?;
    if screen.json {
        let data: Vec<ChangeRow<'_>> = found.data.iter().flat_map(change_rows).collect();
        let all = json!({ "file": file, "data": data, "complete": found.complete });
        return Ok(screen.print_json(&all)?);
    }
    if !found.complete {
        screen.print_note("only the newest sessions and changes were looked at");
    }
    if found.data.is_empty() {
        screen.print_note(format!("No recorded call changed {}.", file.display()));
        return Ok(());
    }
    let mut paper = LineBuffer::new(screen.columns(), screen.times());
    for one in &found.data {
        let title = titles::fetch_title(client, &one.session, one.title.as_deref()).await;
        print_changes(one, &title, &mut paper);
    }
    Ok(screen.print_lines(paper.into_lines())?)
}

fn print_changes(found: &SessionChanges, title: &str, paper: &mut LineBuffer) {
    let count = count_of(found.changes.len() as u64, "change");
    let head = format!("{}  {count}  {}", found.session, one_line(title, TITLE_CHARS));
    paper.push_heading(&head);
    let hidden = found.changes.len().saturating_sub(CHANGES_SHOWN);
    if hidden > 0 {
        paper.push(
            Tone::Faint,
            "  ",
            &format!("{} before these", count_of(hidden as u64, "change")),
        );
    }
    let mut asked = None;
    for change in found.changes.iter().skip(hidden) {
        if asked != Some(&change.asked) {
            if let Some(request) = &change.asked {
                let said = format!("asked at {}: {}", request.position, request.text);
                paper.push(Tone::Plain, "  ", &said);
            }
            asked = Some(&change.asked);
        }
        let when = paper.times.format_both(&change.at.to_string());
        let line = format!("{} {} by {}, {when}", change.position, change.how, change.tool);
        paper.push(Tone::Faint, "    ", &line);
    }
    paper.push_command("  ", &format!("sessionlog replay {}", found.session));
}

/// A change with its session.
#[derive(Serialize)]
struct ChangeRow<'a> {
    session: &'a str,
    #[serde(flatten)]
    change: &'a FileChange,
}

fn change_rows(found: &SessionChanges) -> impl Iterator<Item = ChangeRow<'_>> {
    found.changes.iter().map(|change| ChangeRow { session: &found.session, change })
}
