//! The list of sessions on a terminal: one line each, as wide as the terminal. It must not print,
//! nor choose the sessions listed.

use std::collections::BTreeSet;

use super::{
    answer::{recorded_by, session_state},
    columns::text_columns,
    screen::{Tone, format_size, one_line},
    times::TimeFormat,
};
use crate::api::sessions::Session;

/// Minimum terminal columns for showing workspaces and agents, and for showing sizes.
const WITH_WORKSPACE: usize = 100;
const WITH_SIZE: usize = 140;
/// Columns for titles below which ids are shortened.
const TITLE_COLUMNS: usize = 24;
/// Minimum characters of a shortened id, and extra characters beyond its unique prefix.
const ID_CHARS_MIN: usize = 12;
const ID_CHARS_SPARE: usize = 2;
const GUTTER: usize = 2;

struct TableColumn {
    head: &'static str,
    cells: Vec<String>,
    right: bool,
}

impl TableColumn {
    fn new(head: &'static str, cells: impl Iterator<Item = String>) -> Self {
        Self { head, cells: cells.map(|cell| one_line(&cell, 200)).collect(), right: false }
    }

    fn new_numeric(head: &'static str, cells: impl Iterator<Item = String>) -> Self {
        Self { right: true, ..Self::new(head, cells) }
    }

    fn width(&self) -> usize {
        self.cells.iter().map(|cell| text_columns(cell)).chain([self.head.len()]).max().unwrap_or(0)
    }
}

/// Returns a heading and a line for each session.
pub(super) fn format_table(
    sessions: &[Session],
    titles: &[String],
    width: usize,
    times: &TimeFormat,
) -> Vec<(Tone, String)> {
    let mut shown = vec![
        TableColumn::new("SESSION", sessions.iter().map(|one| one.id.clone())),
        TableColumn::new_numeric("EVENTS", sessions.iter().map(|one| one.tail.to_string())),
    ];
    if width >= WITH_SIZE {
        let sizes = sessions.iter().map(|one| format_size(one.bytes));
        shown.push(TableColumn::new_numeric("SIZE", sizes));
    }
    let updated = sessions.iter().map(|one| times.format_short(&one.updated_at));
    shown.push(TableColumn::new("UPDATED", updated));
    shown.push(TableColumn::new("STATE", sessions.iter().map(|one| session_state(one).to_owned())));
    let places: BTreeSet<_> = sessions.iter().map(|one| one.workspace.as_deref()).collect();
    if width >= WITH_WORKSPACE || places.len() > 1 {
        let last = |one: &Session| one.workspace.as_ref()?.rsplit('/').next().map(str::to_owned);
        let workspaces = sessions.iter().map(|one| last(one).unwrap_or_default());
        shown.push(TableColumn::new("WORKSPACE", workspaces));
        let has_agents = sessions.iter().any(|one| !recorded_by(one).is_empty());
        if width >= WITH_WORKSPACE && has_agents {
            shown.push(TableColumn::new(
                "AGENT",
                sessions.iter().map(|one| recorded_by(one).to_owned()),
            ));
        }
    }
    let taken = |shown: &[TableColumn]| shown.iter().map(|one| one.width() + GUTTER).sum::<usize>();
    if taken(&shown) + TITLE_COLUMNS > width
        && let Some(ids) = shown.first_mut()
    {
        ids.cells = shorten_ids(&ids.cells);
    }
    let room = width.saturating_sub(taken(&shown)).max(TITLE_COLUMNS / 2);
    let titles = titles.iter().map(|title| one_line(title, room));
    shown.push(TableColumn::new("TITLE", titles));
    let mut lines = vec![(Tone::Faint, format_line(&shown, |column| column.head.to_owned()))];
    for (n, session) in sessions.iter().enumerate() {
        let tone = if session_state(session) == "damaged" { Tone::Bad } else { Tone::Plain };
        lines.push((
            tone,
            format_line(&shown, |column| column.cells.get(n).cloned().unwrap_or_default()),
        ));
    }
    lines
}

fn format_line(shown: &[TableColumn], cell: impl Fn(&TableColumn) -> String) -> String {
    let mut line = String::new();
    for column in shown {
        let cell = cell(column);
        let pad = " ".repeat(column.width().saturating_sub(text_columns(&cell)));
        match column.right {
            true => line.extend([pad.as_str(), &cell]),
            false => line.extend([cell.as_str(), &pad]),
        }
        line.push_str("  ");
    }
    line.trim_end().to_owned()
}

/// Shortens ids to prefixes of equal length that remain unique.
fn shorten_ids(ids: &[String]) -> Vec<String> {
    let sorted: BTreeSet<&String> = ids.iter().collect();
    let common =
        |(a, b): (&&String, &&String)| a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let shared = sorted.iter().zip(sorted.iter().skip(1)).map(common).max().unwrap_or(0);
    let kept = (shared + 1 + ID_CHARS_SPARE).max(ID_CHARS_MIN);
    ids.iter().map(|id| id.chars().take(kept).collect()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::Timestamp;

    fn new_session(id: &str, title: &str) -> Session {
        let at = "2026-11-23T10:00:00Z";
        let session = serde_json::from_value(json!({
            "id": id, "type": "session", "tail": 12, "bytes": 2048, "created_at": at,
            "updated_at": at, "status": "idle", "title": title, "workspace": "/home/ada/work",
            "metadata": {}, "receipt": { "position": 12, "chain": "" }, "damage": [],
            "agent": {}, "environment_id": "local", "resources": [], "vault_ids": [],
            "outcome_evaluations": [], "stats": {}, "usage": {},
        }));
        session.expect("a session")
    }

    #[test]
    fn a_session_fits_one_line_and_a_wider_terminal_shows_more_columns() {
        let long = "a title that is far longer than any terminal has room for ".repeat(4);
        let wide = "日本語の題名".repeat(20);
        let ids = ["ses_0198c5d2f0a07a1b8c3d4e5f60718293", "ses_0198c5d2f0b17a1b8c3d4e5f60718777"];
        let now = Timestamp::parse("2026-11-23T10:20:00Z").expect("an instant");
        let times = TimeFormat::new_at(now, jiff::tz::TimeZone::UTC);
        let sessions =
            [new_session(ids[0], &long), new_session(ids[1], &wide), new_session("trip", "short")];
        let titles: Vec<String> = sessions.iter().filter_map(|one| one.title.clone()).collect();
        for width in [70, 80, 100, 120, 200] {
            let lines = format_table(&sessions, &titles, width, &times);
            assert_eq!(lines.len(), 4, "{lines:?}");
            for (_, line) in &lines {
                assert!(text_columns(line) <= width, "{width}: {} {line}", text_columns(line));
            }
            let all: String = lines.into_iter().map(|(_, line)| line + "\n").collect();
            assert_eq!(all.contains(ids[0]), width >= 100, "{width}: {all}");
            assert_eq!(all.contains("SIZE"), width >= 140, "{width}: {all}");
            assert_eq!(all.contains("work\n") || all.contains("work  "), width >= 100, "{all}");
        }
    }

    #[test]
    fn shortened_ids_stay_unique() {
        let ids = ["abcdefghijkl1mnop", "abcdefghijkl2mnop", "x"].map(str::to_owned);
        assert_eq!(shorten_ids(&ids), ["abcdefghijkl1mn", "abcdefghijkl2mn", "x"]);
    }
}
