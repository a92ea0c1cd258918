//! `handoff`: saves a session, restores one in a session that continues it, lists the chain. It
//! must not choose a session or what is given of it.

use std::{io::Read as _, path::Path};

use serde::Deserialize as _;

use super::{
    args::{self, HandoffVerb},
    config::Config,
    connect,
    failure::{Failure, Outcome},
    readable::{Paper, words::many},
    screen::{Screen, Tone, instant, one_line, printable},
    values::Environment,
};
use crate::{
    client::Client,
    env::files,
    verbs::{
        InWorkspace, NoQuery,
        handoff::{ChainQuery, GetChain, RestoreWork, Save},
    },
    wire::handoff::{NewFile, RestoreRequest, RestoredAnswer, SaveRequest, saved_texts},
};

/// Characters of a title in a table.
const TITLE_CHARS: usize = 40;
/// Bytes of what is read to be saved.
const FROM_BYTES_MAX: u64 = 16 << 20;

pub(super) async fn run(
    client: &Client,
    wanted: args::Handoff,
    settings: Settings<'_>,
    screen: &mut Screen,
) -> Outcome {
    match wanted.verb {
        HandoffVerb::Save(wanted) => save(client, wanted, settings, screen).await,
        HandoffVerb::Restore(wanted) => restore(client, wanted, settings, screen).await,
        HandoffVerb::Chain(wanted) => chain(client, wanted, settings, screen).await,
    }
}

/// The configuration, and the environment.
type Settings<'a> = (&'a Config, &'a Environment);

/// Whether a workspace is the working directory, or a directory above it in its repository.
fn is_own(workspace: &str, environment: &Environment) -> bool {
    let Some(project) = connect::project(environment) else { return false };
    let top = project.root.as_deref().unwrap_or(&project.directory);
    let place = project.place();
    let mut own = place.ancestors().take_while(|path| path.starts_with(top));
    own.any(|path| path == Path::new(workspace))
}

/// The named workspace, or that of the working directory.
fn workspace(named: Option<String>, environment: &Environment) -> Outcome<InWorkspace> {
    let here = || {
        let project = connect::project(environment).filter(|project| !project.shared);
        project.map(|project| project.workspace())
    };
    let workspace = named.or_else(here).ok_or_else(|| {
        Failure::Usage("this directory is no project: name the workspace".to_owned())
    })?;
    Ok(InWorkspace { workspace })
}

async fn save(
    client: &Client,
    wanted: args::SaveWork,
    settings: Settings<'_>,
    screen: &mut Screen,
) -> Outcome {
    let place = workspace(wanted.workspace, settings.1)?;
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
                .map_err(|error| Failure::Usage(format!("--from {}: {error}", path.display())))?
        }
    };
    asked.session_id = wanted.session.map(|session| session.to_string()).or(asked.session_id);
    asked.conversation_context = wanted.context.or(asked.conversation_context);
    let files = wanted
        .files
        .iter()
        .map(|path| NewFile { path: path.display().to_string(), ..NewFile::default() });
    asked.file_references.extend(files);
    let local = connect::local(settings.0, settings.1)?;
    let mut tree = serde_json::to_value(&asked).map_err(std::io::Error::from)?;
    local.hash(&place.workspace, is_own(&place.workspace, settings.1), &mut tree, false);
    let said = saved_texts(&tree, false);
    let asked: SaveRequest = SaveRequest::deserialize(&tree).map_err(std::io::Error::from)?;
    let mut saved = client.call::<Save>(&place, &NoQuery {}, &asked).await?;
    saved.notices = local.extract(client, &place.workspace, &said).await;
    if screen.json {
        return Ok(screen.print(&saved)?);
    }
    let made = if saved.is_new { ", a new session" } else { "" };
    let said = [many(saved.items, "context item"), many(saved.files, "file")].join(", ");
    let (session, at) = (&saved.session_id, saved.position);
    screen.line(format!("saved {session} at {at}{made}: {said}"))?;
    saved.notices.iter().for_each(|notice| screen.note(printable(notice)));
    Ok(())
}

async fn restore(
    client: &Client,
    wanted: args::RestoreWork,
    settings: Settings<'_>,
    screen: &mut Screen,
) -> Outcome {
    let place = workspace(wanted.workspace, settings.1)?;
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
    let local = connect::local(settings.0, settings.1)?;
    let found = client.call::<RestoreWork>(&place, &NoQuery {}, &asked).await?;
    let mut tree = serde_json::to_value(&found).map_err(std::io::Error::from)?;
    let is_own = is_own(&place.workspace, settings.1);
    local.look(client, is_own, &mut tree, false).await?;
    let found: RestoredAnswer = serde_json::from_value(tree).map_err(std::io::Error::from)?;
    if screen.json {
        return Ok(screen.print(&found)?);
    }
    let mut paper = Paper::new(screen.columns(), screen.times());
    tell(&found, &mut paper);
    screen.lines(paper.lines())?;
    found.notices.iter().for_each(|notice| screen.note(printable(notice)));
    if let Some(session) = &found.session_id {
        let tokens = format!("{} of {} tokens", found.tokens, found.tokens_max);
        screen.note(format!("{session} continues {} ({tokens})", found.continues));
    }
    Ok(())
}

/// What is given, as a text to read or to put before a model.
fn tell(found: &RestoredAnswer, paper: &mut Paper) {
    paper.say(Tone::Plain, "", found.context.trim());
    if !found.context_items.is_empty() {
        paper.heading("Context items:");
    }
    for item in &found.context_items {
        let importance = item.importance.map(|n| format!(", importance {n}")).unwrap_or_default();
        paper.item(&format!("[{}{importance}] {}", item.category, item.content.trim()));
    }
    if !found.file_references.is_empty() {
        paper.heading("Files:");
    }
    for file in &found.file_references {
        let change = file.change.as_ref().map(|change| format!(", {change} by that session"));
        paper.item(&format!("{}: {}{}", file.path, file.status, change.unwrap_or_default()));
    }
    if let Some(state) = &found.workspace_state {
        paper.heading("State of the workspace:");
        paper.text(&serde_json::Value::Object(state.clone()).to_string());
    }
    for why in &found.why {
        let line = format!("{} ({}): {} — {}", why.class, why.form, why.text, why.why);
        paper.say(Tone::Faint, "  ", &line);
    }
}

async fn chain(
    client: &Client,
    wanted: args::ChainOf,
    settings: Settings<'_>,
    screen: &mut Screen,
) -> Outcome {
    let place = workspace(wanted.workspace, settings.1)?;
    let query = ChainQuery { session: wanted.session.map(|session| session.to_string()) };
    let found = client.call::<GetChain>(&place, &query, &()).await?;
    if screen.json {
        return Ok(screen.print(&found)?);
    }
    let rows = found.data.into_iter().map(|link| {
        let at = link.continues_from.map(|at| format!("@{at}")).unwrap_or_default();
        let before = link.continues.map(|before| format!("{before}{at}")).unwrap_or_default();
        let title = one_line(link.session.title.as_deref().unwrap_or_default(), TITLE_CHARS);
        let saved = link.saved_at.map(|at| at.to_string()).unwrap_or_default();
        let written = instant(&link.session.updated_at);
        vec![link.session.id, before, link.session.tail.to_string(), saved, written, title]
    });
    let rows = rows.collect();
    let heads = ["SESSION", "CONTINUES", "EVENTS", "SAVED AT", "WRITTEN", "TITLE"];
    Ok(screen.table(&heads, rows)?)
}
