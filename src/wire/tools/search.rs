//! Answer of the tool that searches past sessions, also as text for a model. It must not truncate
//! anything: the verb does.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::{NOTICE, parts::none};
use crate::{
    api::{
        memory::{Mark, MarkKind},
        search::{Complete, Doubt, Hit, Neighbour, SearchAnswer, Why, rounded},
    },
    event::text::one_line,
    wire::wrap_in_frame,
};

/// Maximum characters of a title, and of an event next to a hit.
const TITLE_CHARS: usize = 60;
const NEIGHBOUR_CHARS: usize = 160;

/// A hit of the search.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MemoryBlockOut {
    session_id: String,
    #[serde(skip_serializing_if = "none")]
    title: Option<String>,
    position: u64,
    /// Type of the event; for a memory item its kind.
    kind: String,
    /// For a memory item: its id, for memory_page.
    #[serde(skip_serializing_if = "none")]
    memory_id: Option<String>,
    #[serde(skip_serializing_if = "none")]
    topic: Option<String>,
    /// Importance from 1 to 10.
    #[serde(skip_serializing_if = "none")]
    importance: Option<u8>,
    #[serde(skip_serializing_if = "none")]
    who: Option<String>,
    at: String,
    /// Relevance of the hit.
    relevance: f64,
    why: Why,
    text: String,
    /// Neighbours of the event, one line each: position, type, text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    around: Vec<String>,
    /// Marks: important, wrong, done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    marks: Vec<Mark>,
    /// Facts that make the hit doubtful.
    #[serde(skip_serializing_if = "none")]
    stale: Option<Doubt>,
    /// True if too many later events were not inspected: something may make the hit doubtful.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unchecked: bool,
}

/// Hits in past sessions.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MemoryBlocksOut {
    /// Hits as text for a model, which MCP returns as the text of the answer.
    #[serde(skip_serializing_if = "none")]
    text: Option<String>,
    blocks: Vec<MemoryBlockOut>,
    /// Workspaces that match workspace: of the query.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    workspaces: Vec<String>,
    complete: Complete,
    #[serde(skip_serializing_if = "none")]
    next_cursor: Option<String>,
}

impl From<Hit> for MemoryBlockOut {
    fn from(hit: Hit) -> Self {
        let line = |one: Neighbour| format!("{} {}: {}", one.position, one.kind, one.text);
        let (mut memory_id, mut topic, mut importance) = (None, None, None);
        let mut kind = hit.kind.to_string();
        if let Some(memory) = hit.memory {
            (memory_id, kind) = (Some(memory.memory_id.to_string()), memory.kind);
            (topic, importance) = (memory.topic, memory.importance);
        }
        Self {
            session_id: hit.session.to_string(),
            title: hit.title,
            position: hit.position.0,
            kind,
            memory_id,
            topic,
            importance,
            who: hit.who,
            at: hit.at.to_string(),
            relevance: rounded(hit.score),
            why: hit.why,
            text: hit.snippet.text,
            around: hit.around.into_iter().map(line).collect(),
            marks: hit.marks,
            stale: hit.stale,
            unchecked: hit.unchecked,
        }
    }
}

/// Returns what the log knows against a hit, in a phrase each.
fn doubt_reasons(doubt: &Doubt) -> Vec<String> {
    let Doubt { files_changed, superseded_by, replaced_by, ended_at, rejected, mended_at } = doubt;
    let changed = files_changed.iter().map(|file| {
        format!("{} changed since, at @{}", one_line(&file.path, TITLE_CHARS), file.position)
    });
    let others = [
        superseded_by.map(|step| format!("step {step} supersedes it")),
        replaced_by.as_ref().map(|item| format!("item {item} supersedes it")),
        ended_at.map(|at| format!("it was of a context that was cleared at @{at}")),
        rejected.then(|| "its step ruled this out".to_owned()),
        mended_at.map(|at| format!("the command succeeded later, at @{at}")),
    ];
    changed.chain(others.into_iter().flatten()).collect()
}

/// Formats the hits for a reader: each hit under its session and position, with its neighbours.
/// Recorded text is indented, so that it cannot imitate a hit.
fn format_hits(found: &SearchAnswer) -> String {
    // Writing to a string cannot fail.
    let mut text = String::new();
    if found.hits.is_empty() {
        text.push_str("Nothing: no recorded event has a word of this query.\n");
    }
    for hit in &found.hits {
        let who = hit.who.as_deref().map(|who| format!(" {who},")).unwrap_or_default();
        let title =
            hit.title.as_deref().map(|title| format!(" ({})", one_line(title, TITLE_CHARS)));
        let (session, position, kind) = (&hit.session, hit.position, &hit.kind);
        let title = title.unwrap_or_default();
        let _ = writeln!(text, "- {session}{title} @{position}:{who} {kind}, {}", hit.at);
        let (before, after) = hit
            .around
            .split_at(hit.around.iter().take_while(|one| one.position < hit.position).count());
        let write_neighbours = |text: &mut String, all: &[Neighbour]| {
            for one in all {
                let said = one_line(&one.text, NEIGHBOUR_CHARS);
                let _ = writeln!(text, "      @{} {}: {said}", one.position, one.kind);
            }
        };
        write_neighbours(&mut text, before);
        for line in hit.snippet.text.lines().filter(|line| !line.trim().is_empty()) {
            let _ = writeln!(text, "    {line}");
        }
        write_neighbours(&mut text, after);
        for mark in &hit.marks {
            let note =
                mark.note.as_deref().map(|note| format!(": {}", one_line(note, NEIGHBOUR_CHARS)));
            let _ = writeln!(
                text,
                "    (marked {}{})",
                mark.kind.text(MarkKind::as_str),
                note.unwrap_or_default()
            );
        }
        for reason in hit.stale.iter().flat_map(doubt_reasons) {
            let _ = writeln!(text, "    ({reason})");
        }
    }
    if let Some(next) = &found.next_page {
        let _ = writeln!(text, "More: cursor {next}");
    }
    if found.complete.sessions_behind > 0 {
        text.push_str("Some sessions are not searched yet: try again.\n");
    }
    let head = format!("{NOTICE} The best first; get_events reads more around a position.");
    wrap_in_frame(&head, text.trim_end(), "")
}

impl MemoryBlocksOut {
    pub(crate) fn new(found: SearchAnswer) -> Self {
        Self {
            text: Some(format_hits(&found)),
            blocks: found.hits.into_iter().map(MemoryBlockOut::from).collect(),
            workspaces: found.workspaces,
            complete: found.complete,
            next_cursor: found.next_page,
        }
    }
}
