//! `search`: searches every session by words. It must not rank or filter: the server does.

use std::time::Duration;

use super::{
    answer::to_usize,
    args,
    failure::Outcome,
    readable::{LineBuffer, words::count_of},
    screen::{Screen, Tone, escaped, one_line},
    times::{resolve_days, resolve_instant},
};
use crate::{
    api::{
        memory::MarkKind,
        search::{Complete, Doubt, Hit, SearchAnswer, SearchBody},
    },
    client::Client,
    verbs::{NoParams, NoQuery, search::SearchByBody},
};

/// Time limit for waiting until new events are indexed, mostly at a first search.
const WAIT: Duration = Duration::from_secs(10);
/// Default number of events printed on either side of a hit.
const AROUND: u64 = 1;
/// Maximum characters of a title, and of a line next to a hit.
const TITLE_CHARS: usize = 60;
const LINE_CHARS: usize = 120;
/// Characters that end a quoted term of a query.
const QUOTES: [char; 4] = ['"', '“', '”', '„'];

pub(super) async fn run(client: &Client, wanted: args::SearchArgs, screen: &mut Screen) -> Outcome {
    let mut q = resolve_days(&wanted.query.join(" "));
    let workspace = wanted.workspace.filter(|name| !add_workspace_filter(name, &mut q));
    let asked = SearchBody {
        q,
        session: wanted.session.map(|session| session.to_string()),
        workspace,
        types: wanted.types,
        kinds: wanted.kinds,
        who: wanted.who,
        origin: wanted.origin,
        include_archived: wanted.archived,
        after: wanted.since.as_deref().map(resolve_instant).transpose()?,
        before: wanted.until.as_deref().map(resolve_instant).transpose()?,
        limit: wanted.limit.map(to_usize),
        around: wanted.around.or((!screen.json).then_some(AROUND)),
        order: wanted.newest.then(|| "time".to_owned()),
        wait_ms: u64::try_from(wanted.wait.unwrap_or(WAIT).as_millis()).unwrap_or(u64::MAX),
        ..SearchBody::default()
    };
    let call = client.call::<SearchByBody>(&NoParams {}, &NoQuery {}, &asked);
    let found = screen.await_with_spinner("searching", call).await?;
    screen.print_result(&found, |screen| {
        LineBuffer::print(screen, |paper| found.hits.iter().for_each(|hit| print_hit(hit, paper)))?;
        print_notes(&found, screen);
        Ok(())
    })
}

/// Adds a workspace to the query as a filter that also matches the last part of a path, and returns
/// true; returns false for an absolute path or a name with a quote, which is matched whole.
fn add_workspace_filter(name: &str, q: &mut String) -> bool {
    let is_part = !name.is_empty() && !name.starts_with('/') && !name.contains(QUOTES);
    if is_part {
        q.push_str(&format!(" workspace:\"{name}\""));
    }
    is_part
}

/// Prints remarks on an empty result, the workspaces searched, and the events not searched.
fn print_notes(found: &SearchAnswer, screen: &Screen) {
    if found.hits.is_empty() {
        screen
            .print_note("Nothing matches. No event has a word of it, or the filters leave it out.");
    }
    if found.next_page.is_some() {
        screen.print_note("There is more: --limit N shows up to 100.");
    }
    if !found.workspaces.is_empty() {
        let names: Vec<String> = found.workspaces.iter().map(|name| escaped(name)).collect();
        screen.print_note(format!("Looked in the workspaces {}.", names.join(", ")));
    }
    not_searched(&found.complete, screen);
    if found.limited {
        screen.print_note("The check of exact texts ended at its limit: more may match.");
    }
}

/// Prints a remark on the events that are not in the index.
pub(super) fn not_searched(complete: &Complete, screen: &Screen) {
    if complete.sessions_behind > complete.sessions_unreadable {
        let events = count_of(complete.events_behind, "event");
        let sessions = count_of(complete.sessions_behind, "session");
        screen.print_note(format!(
            "{events} of {sessions} are not indexed yet: --wait 10s waits for them"
        ));
    }
    if complete.sessions_unreadable > 0 {
        let unreadable = complete.behind.iter().filter(|one| one.unreadable);
        let named: Vec<&str> = unreadable.map(|one| one.session.as_str()).collect();
        let (sessions, named) =
            (count_of(complete.sessions_unreadable, "session"), named.join(", "));
        screen.print_note(format!("{sessions} cannot be read, and not all is searched: {named}"));
    }
}

fn print_hit(hit: &Hit, paper: &mut LineBuffer) {
    let title = hit.title.as_deref().map(|title| format!("  {}", one_line(title, TITLE_CHARS)));
    paper.push_heading(&format!("{} {}{}", hit.session, hit.position, title.unwrap_or_default()));
    let who = hit.who.as_deref().map(|who| format!("{who}, ")).unwrap_or_default();
    let when = paper.times.format_both(&hit.at.to_string());
    let more = match hit.repeated {
        0 => String::new(),
        1 => ", the same once more".to_owned(),
        more => format!(", the same {more} times more"),
    };
    let memory = hit.memory.as_ref().map(|memory| format!(", {}", memory.kind));
    let kind = format!("{}{}", hit.kind, memory.unwrap_or_default());
    paper.push(Tone::Faint, "  ", &format!("{who}{kind}, {when}{more}"));
    let beside = |paper: &mut LineBuffer, before: bool| {
        for one in hit.around.iter().filter(|one| (one.position < hit.position) == before) {
            let line = format!("{} {}: {}", one.position, one.kind, one.text);
            paper.push(Tone::Faint, "    ", &one_line(&line, LINE_CHARS));
        }
    };
    beside(paper, true);
    paper.push(Tone::Plain, "    ", hit.snippet.text.trim());
    beside(paper, false);
    for mark in &hit.marks {
        let note = mark.note.as_deref().map(|note| format!(": {note}")).unwrap_or_default();
        let tone = if mark.kind == MarkKind::Wrong { Tone::Bad } else { Tone::Faint };
        paper.push(
            tone,
            "    ",
            &format!("marked {} at {}{note}", mark.kind.text(MarkKind::as_str), mark.position),
        );
    }
    if let Some(doubt) = &hit.stale {
        paper.push(Tone::Bad, "    ", &format_doubts(doubt));
    }
    if hit.unchecked {
        paper.push(Tone::Faint, "    ", "not compared with what came later: search again");
    }
}

/// Formats the doubts about a hit in one line.
fn format_doubts(doubt: &Doubt) -> String {
    let mut all: Vec<String> = Vec::new();
    all.extend(doubt.superseded_by.map(|step| format!("superseded by step {step}")));
    all.extend(doubt.replaced_by.as_ref().map(|item| format!("superseded by {item}")));
    all.extend(doubt.ended_at.map(|at| format!("its context ended at {at}")));
    all.extend(doubt.rejected.then(|| "an approach that was ruled out".to_owned()));
    all.extend(doubt.mended_at.map(|at| format!("mended at {at}")));
    all.extend(
        doubt
            .files_changed
            .iter()
            .map(|file| format!("{} changed at {}", file.path, file.position)),
    );
    all.join("; ")
}
