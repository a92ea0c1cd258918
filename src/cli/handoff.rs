//! `handoff`: saves a session, restores it in a session that continues it, prints the context given
//! at a start, lists the chain. It must not choose a session or the context it gives.

use std::{io::Read as _, path::PathBuf};

use super::{
    args::{self, HandoffVerb},
    config::Config,
    connect,
    failure::{CliError, Outcome},
    place::contains_working_dir,
    readable::{LineBuffer, words::count_of},
    screen::{Screen, Tone, escaped, format_instant, one_line},
    values::Environment,
};
use crate::{
    api::handoff::{NewFile, RestoreRequest, RestoredAnswer, SaveRequest, StartRequest},
    client::Client,
    env::files,
    verbs::{
        NoQuery, WorkspacePath,
        handoff::{ChainQuery, GetChain, RestoreWork, SaveWork, StartWork},
        views::FormatQuery,
    },
    wire::handoff::saved_texts,
};

/// Maximum characters of a title in a table.
const TITLE_CHARS: usize = 40;
/// Maximum bytes of the input to be saved.
const FROM_BYTES_MAX: u64 = 16 << 20;

pub(super) async fn run(
    client: &Client,
    wanted: args::HandoffArgs,
    settings: Settings<'_>,
    screen: &mut Screen,
) -> Outcome {
    match wanted.verb {
        HandoffVerb::Save(wanted) => save(client, wanted, settings, screen).await,
        HandoffVerb::Restore(wanted) => restore(client, wanted, settings, screen).await,
        HandoffVerb::Start(wanted) => print_start(client, wanted, screen).await,
        HandoffVerb::Chain(wanted) => print_chain(client, wanted, screen).await,
    }
}

/// The configuration and the environment.
type Settings<'a> = (&'a Config, &'a Environment);

/// Returns the workspace parameter of a request; [`place::resolve_workspaces`] has set it.
fn workspace_params(named: Option<String>) -> WorkspacePath {
    WorkspacePath { workspace: named.unwrap_or_default() }
}

async fn save(
    client: &Client,
    wanted: args::SaveArgs,
    settings: Settings<'_>,
    screen: &mut Screen,
) -> Outcome {
    let place = workspace_params(wanted.workspace);
    let mut asked: SaveRequest = match &wanted.from {
        None => SaveRequest::default(),
        Some(path) => {
            let text = if path.as_os_str() == "-" {
                let mut text = Vec::new();
                std::io::stdin().take(FROM_BYTES_MAX).read_to_end(&mut text)?;
                text
            } else {
                files::read(path, FROM_BYTES_MAX)?
            };
            serde_json::from_slice(&text)
                .map_err(|error| CliError::usage(format!("--from {}: {error}", path.display())))?
        }
    };
    asked.session_id = wanted.session.map(|session| session.to_string()).or(asked.session_id);
    asked.conversation_context = wanted.context.or(asked.conversation_context);
    let is_own = contains_working_dir(&place.workspace, settings.1);
    // In the working directory's own workspace, typed paths are made absolute.
    let whole = |path: &PathBuf| std::path::absolute(path).ok().filter(|_| is_own);
    let typed = |path: &PathBuf| whole(path).unwrap_or_else(|| path.clone()).display().to_string();
    let files = wanted.files.iter().map(typed);
    let files = files.map(|path| NewFile { path, ..NewFile::default() });
    asked.file_references.extend(files);
    let local = connect::create_local(settings.0, settings.1)?;
    local.hash_saved_files(&place.workspace, is_own, &mut asked.file_references);
    let said = saved_texts(&asked);
    let mut saved = client.call::<SaveWork>(&place, &NoQuery {}, &asked).await?;
    saved.notices.extend(local.extract(client, &place.workspace, &said).await);
    screen.print_result(&saved, |screen| {
        let made = if saved.is_new { ", a new session" } else { "" };
        let said =
            [count_of(saved.items, "context item"), count_of(saved.files, "file")].join(", ");
        let (session, at) = (&saved.session_id, saved.position);
        screen.print_line(format!("saved {session} at {at}{made}: {said}"))?;
        saved.notices.iter().for_each(|notice| screen.print_note(escaped(notice)));
        Ok(())
    })
}

async fn restore(
    client: &Client,
    wanted: args::RestoreWorkArgs,
    settings: Settings<'_>,
    screen: &mut Screen,
) -> Outcome {
    let place = workspace_params(wanted.workspace);
    let asked = RestoreRequest {
        session_id: wanted.session.map(|session| session.to_string()),
        successor_id: None,
        tokens_max: wanted.tokens,
        priority_threshold: wanted.threshold,
        max_context_items: wanted.items,
        summarize: wanted.whole.then_some(false),
        algorithm: wanted.algorithm,
        create: wanted.look.then_some(false),
        explain: wanted.explain,
    };
    let local = connect::create_local(settings.0, settings.1)?;
    let mut found = client.call::<RestoreWork>(&place, &FormatQuery::default(), &asked).await?;
    local
        .hash_restored_files(client, contains_working_dir(&place.workspace, settings.1), &mut found)
        .await?;
    screen.print_result(&found, |screen| {
        LineBuffer::print(screen, |paper| print_restored(&found, paper))?;
        found.notices.iter().for_each(|notice| screen.print_note(escaped(notice)));
        if let Some(session) = &found.session_id {
            let tokens = format!("{} of {} tokens", found.tokens, found.tokens_max);
            screen.print_note(format!("{session} continues {} ({tokens})", found.continues));
        }
        Ok(())
    })
}

/// Prints the restored context, for a reader or for a model.
fn print_restored(found: &RestoredAnswer, paper: &mut LineBuffer) {
    paper.push_markdown(&found.context);
    if !found.context_items.is_empty() {
        paper.push_heading("Context items:");
    }
    for item in &found.context_items {
        let importance = item.importance.map(|n| format!(", importance {n}")).unwrap_or_default();
        paper.push_item(&format!("[{}{importance}] {}", item.category, item.content.trim()));
    }
    if !found.file_references.is_empty() {
        paper.push_heading("Files:");
    }
    for file in &found.file_references {
        let change = file.change.as_ref().map(|change| format!(", {change} by that session"));
        paper.push_item(&format!("{}: {}{}", file.path, file.status, change.unwrap_or_default()));
    }
    if let Some(state) = &found.workspace_state {
        paper.push_heading("State of the workspace:");
        paper.push_text(&serde_json::Value::Object(state.clone()).to_string());
    }
    for why in &found.why {
        let line = format!("{} ({}): {} — {}", why.class, why.form, why.text, why.why);
        paper.push(Tone::Faint, "  ", &line);
    }
}

async fn print_start(client: &Client, wanted: args::StartArgs, screen: &mut Screen) -> Outcome {
    let place = workspace_params(wanted.workspace);
    let asked = StartRequest { session_id: None, tokens_max: wanted.tokens };
    let found = client.call::<StartWork>(&place, &NoQuery {}, &asked).await?;
    screen.print_result(&found, |screen| {
        found.notices.iter().for_each(|notice| screen.print_note(escaped(notice)));
        if found.text.is_empty() {
            screen.print_note("nothing is known here: an agent that starts here receives nothing");
            return Ok(());
        }
        LineBuffer::print(screen, |paper| paper.push(Tone::Plain, "", found.text.trim()))
    })
}

async fn print_chain(client: &Client, wanted: args::ChainArgs, screen: &mut Screen) -> Outcome {
    let place = workspace_params(wanted.workspace);
    let query = ChainQuery { session: wanted.session.map(|session| session.to_string()) };
    let found = client.call::<GetChain>(&place, &query, &()).await?;
    let rows = found.data.iter().map(|link| {
        let at = link.continues_from.map(|at| format!("@{at}")).unwrap_or_default();
        let before = link.continues.as_ref().map(|before| format!("{before}{at}"));
        let (before, id) = (before.unwrap_or_default(), link.session.id.clone());
        let title = one_line(link.session.title.as_deref().unwrap_or_default(), TITLE_CHARS);
        let saved = link.saved_at.as_ref().map(ToString::to_string).unwrap_or_default();
        let written = format_instant(&link.session.updated_at);
        vec![id, before, link.session.tail.to_string(), saved, written, title]
    });
    let heads = ["SESSION", "CONTINUES", "EVENTS", "SAVED AT", "WRITTEN", "TITLE"];
    let rows = rows.collect();
    screen.print_result(&found, |screen| screen.print_table(&heads, rows))
}
