//! `compare`: where two sessions begin to differ, and their aligned parts. It must not compare: the
//! server does.

use super::{
    args,
    failure::Outcome,
    names,
    readable::{
        LineBuffer,
        row::{format_part, format_row},
        words::count_of,
    },
    screen::{Screen, Tone},
};
use crate::{
    api::{
        compare::{CompareAnswer, CompareHunk, HunkKind},
        rows::Row,
    },
    client::Client,
    verbs::{
        SessionPath,
        forks::{CompareQuery, CompareSessions},
    },
};

/// Maximum number of rows printed of a side of a part.
const ROWS_SHOWN: usize = 20;

pub(super) async fn run(
    client: &Client,
    mut wanted: args::CompareArgs,
    screen: &mut Screen,
) -> Outcome {
    names::resolve_prefix(client, &mut wanted.other, false).await?;
    let place = SessionPath { session: wanted.session };
    let (with, at, with_at) = (wanted.other.to_string(), wanted.at, wanted.with_at);
    let query = CompareQuery { with, at, with_at };
    let found = client.call::<CompareSessions>(&place, &query, &()).await?;
    screen.print_result(&found, |screen| {
        LineBuffer::print(screen, |paper| print_comparison(&found, paper))
    })
}

/// Prints a comparison: a sentence on the beginning, then the parts.
fn print_comparison(found: &CompareAnswer, paper: &mut LineBuffer) {
    let CompareAnswer { session, other, common, .. } = found;
    let count = count_of(common.until.0, "event");
    let begins = match (common.until.0, common.by.as_str()) {
        (0, _) => format!("{session} and {other} have no common beginning."),
        _ if session == other => format!("{session} is compared with itself: {count}."),
        (_, "lineage") => {
            format!("{session} and {other} share their first {count}: one is a fork.")
        }
        _ => format!("The first {count} of {session} and {other} say the same."),
    };
    paper.push(Tone::Strong, "", &begins);
    match found.first_difference {
        Some(first) => {
            let said = format!("They differ from position {} and {} on.", first.a, first.b);
            paper.push(Tone::Plain, "", &said);
        }
        None if found.complete => paper.push(Tone::Plain, "", "They say the same to their ends."),
        None => paper.push(Tone::Plain, "", "No difference was found so far."),
    }
    found.hunks.iter().for_each(|hunk| print_hunk(hunk, found, paper));
    if !found.complete {
        paper.push(Tone::Plain, "", "");
        paper.push(Tone::Faint, "", "Later events were not compared: name points with --at.");
    }
}

fn print_hunk(hunk: &CompareHunk, found: &CompareAnswer, paper: &mut LineBuffer) {
    let places = format!("{} | {}", format_part(hunk.a), format_part(hunk.b));
    match hunk.kind {
        HunkKind::Same => {
            let said = format!("the same: {}", count_of(hunk.a.len(), "event"));
            paper.push_heading(&format!("{places}  {said}"));
        }
        HunkKind::Changed => paper.push_heading(&format!("{places}  they differ")),
        HunkKind::OnlyA => paper.push_heading(&format!("{places}  only in {}", found.session)),
        HunkKind::OnlyB => paper.push_heading(&format!("{places}  only in {}", found.other)),
    }
    print_rows(&hunk.rows_a, ("- ", Tone::Bad), &found.session, paper);
    print_rows(&hunk.rows_b, ("+ ", Tone::Good), &found.other, paper);
}

/// Prints rows but for results, which their calls show.
fn print_rows(rows: &[Row], (lead, tone): (&str, Tone), session: &str, paper: &mut LineBuffer) {
    let is_shown = |row: &&Row| match row.of {
        Some(call) => !rows.iter().any(|other| other.position == call),
        None => true,
    };
    let shown = rows.iter().filter(is_shown).collect::<Vec<_>>();
    for row in shown.iter().take(ROWS_SHOWN) {
        paper.push(tone, &format!("  {lead}{:>5}  ", row.position), &format_row(row));
    }
    if let Some(first) = shown.get(ROWS_SHOWN) {
        let more = count_of((shown.len() - ROWS_SHOWN) as u64, "more row");
        let command = format!("sessionlog replay {session} --from {}", first.position);
        paper.push_command("    ", &format!("{more}: {command}"));
    }
}
