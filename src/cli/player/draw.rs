//! Drawing of the player: the timeline, the current event, and next to it the session as of that
//! event. Of the player it must not change anything but the scroll positions of its panes.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Borders, Clear, Paragraph},
};

use super::{
    super::{
        columns::text_columns,
        readable::{
            self,
            paper::{LineBuffer, wrap_text},
            row::{format_edit, format_outcome, format_row as format_row_line},
        },
        screen::{Tone, escaped, one_line},
        times::{TimeFormat, format_duration, format_elapsed},
    },
    diff::{is_diff, line_tone},
    pane::Pane,
    rows::{CallLink, EventRow, NextListed},
    state::{EnlargedPane, Player, PromptKind, ShownView},
};
use crate::api::rows::RowKind;

const HELP: &[(&str, &str)] = &[
    ("j k, arrows", "one event on, one back"),
    ("PgDn PgUp", "fifteen"),
    ("g G", "the first, the last"),
    ("space", "play, pause"),
    ("+ -", "faster, slower"),
    ("f", "follow: show new events as they come"),
    (": POINT", "jump: 17, -5, end, event:ID, step:3, time:…"),
    ("] [", "the next failure, compaction or request; the one before"),
    ("/ TEXT", "search; n next match, N the one before"),
    ("s WORDS", "search in all sessions; Enter opens a hit, o goes back"),
    ("b", "list bookkeeping and results too, or hide them"),
    ("t TYPE", "only events whose type has that word; empty or Esc: all"),
    ("z", "enlarge the event, then the view, then neither"),
    ("d u", "scroll the event"),
    ("v", "next view: how to continue, window, compactions, usage"),
    ("} {", "scroll the view"),
    ("Esc", "close a prompt or a message; all panes and events again"),
    ("^U ^W", "in a prompt: remove its text, or its last word"),
    ("^Z", "suspend"),
    ("q", "leave"),
];
/// Keys of the last line, the most important ones first.
const FOOT: [&str; 8] = [
    "? help",
    "q leave",
    "j/k step",
    "]/[ failure, request",
    "/ search",
    "b all",
    "v view",
    "z enlarge",
];
/// Columns of the list of keys, and of a key in it.
const HELP_COLUMNS: u16 = 72;
const KEY_COLUMNS: usize = 12;
/// Minimum columns of a title in the head.
const TITLE_COLUMNS_MIN: usize = 12;
/// Columns below which the event and the view are drawn under the timeline, not next to it.
const WIDE_COLUMNS: u16 = 90;

/// Draws the player.
pub fn draw(player: &mut Player, frame: &mut Frame<'_>) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(3), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(format_head_line(player, head.width), head);
    if let Some(enlarged) = player.enlarged {
        match enlarged {
            EnlargedPane::Event => draw_event(player, frame, body),
            EnlargedPane::View => draw_view(player, frame, body),
        }
    } else if body.width >= WIDE_COLUMNS {
        let halves = [Constraint::Fill(1), Constraint::Length(1), Constraint::Fill(1)];
        let [timeline, line, right] = Layout::horizontal(halves).areas(body);
        let [event, view] =
            Layout::vertical([Constraint::Percentage(55), Constraint::Percentage(45)]).areas(right);
        draw_timeline(player, frame, timeline);
        draw_event(player, frame, event);
        draw_view(player, frame, view);
        draw_separator(frame, line, view.y);
    } else {
        let thirds = [Constraint::Percentage(40), Constraint::Percentage(35), Constraint::Min(3)];
        let [timeline, event, view] = Layout::vertical(thirds).areas(body);
        draw_timeline(player, frame, timeline);
        draw_event(player, frame, event);
        draw_view(player, frame, view);
    }
    frame.render_widget(format_foot_line(player, usize::from(foot.width)), foot);
    if player.hits.is_some() {
        draw_hits(player, frame);
    }
    if let Some(pane) = &mut player.help {
        draw_help(pane, frame);
    }
}

/// Draws the line between the timeline and the panes to its right, joined to their borders.
fn draw_separator(frame: &mut Frame<'_>, area: Rect, crossed: u16) {
    let lines = (area.y..area.bottom()).map(|y| match y {
        y if y == area.y => "┬",
        y if y == crossed => "├",
        _ => "│",
    });
    frame.render_widget(Paragraph::new(lines.map(Line::from).collect::<Vec<_>>()), area);
}

fn faint_style() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn strong_style() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn tone_style(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Faint => faint_style(),
        Tone::Strong => strong_style(),
        Tone::Good => Style::new().fg(Color::Green),
        Tone::Bad => Style::new().fg(Color::Red),
    }
}

/// Returns a block with a top border, as many title parts as fit it, and a hint at its end.
fn titled_block(parts: &[String], hint: Option<String>, width: u16) -> Block<'static> {
    let hint = hint.map(|hint| format!(" {hint} ")).unwrap_or_default();
    let room = usize::from(width).saturating_sub(text_columns(&hint) + 2);
    let title = join_fitting(parts, " · ", room.saturating_sub(2));
    let block = Block::new().borders(Borders::TOP);
    let block = block.title_top(Span::styled(format!(" {title} "), strong_style()));
    block.title_top(Line::styled(hint, faint_style()).right_aligned())
}

/// Joins as many of the parts as fit a number of columns; the first one even if it does not.
fn join_fitting(parts: &[impl AsRef<str>], between: &str, columns: usize) -> String {
    let mut joined = String::new();
    for part in parts.iter().map(AsRef::as_ref).filter(|part| !part.is_empty()) {
        if joined.is_empty() {
            joined.push_str(part);
        } else if text_columns(&joined) + text_columns(between) + text_columns(part) <= columns {
            joined.extend([between, part]);
        } else {
            break;
        }
    }
    joined
}

/// Returns the title of the session, or its id, then the position, and the id where it fits.
fn format_head_line(player: &Player, width: u16) -> Line<'static> {
    // Signs that every font of a terminal has.
    let state = if player.playing { ">" } else { "||" };
    let of = player.to.saturating_sub(player.from);
    let place = match of {
        0 => "no events".to_owned(),
        _ => format!("position {}  ({} of {of})", player.at, player.at + 1 - player.from),
    };
    let follows = if player.follows { "  following" } else { "" };
    let place = format!("  {place}  {state} {}x{follows}", format_speed(player.speed));
    let room = usize::from(width).saturating_sub(text_columns(&place) + 2);
    let title = Some(one_line(&player.title, room.max(TITLE_COLUMNS_MIN)));
    let title = title.filter(|title| !title.is_empty());
    let id = format!("  {}", player.session);
    let has_room = title.as_ref().is_some_and(|title| text_columns(title) + id.len() <= room);
    Line::from(vec![
        Span::styled(
            format!(" {} ", title.unwrap_or_else(|| player.session.clone())),
            strong_style().add_modifier(Modifier::REVERSED),
        ),
        Span::raw(place),
        Span::styled(if has_room { id } else { String::new() }, faint_style()),
    ])
}

fn format_speed(speed: f64) -> String {
    if speed >= 1.0 { format!("{speed:.0}") } else { format!("1/{:.0}", 1.0 / speed) }
}

fn format_foot_line(player: &Player, width: usize) -> Line<'static> {
    match (&player.prompt, &player.message) {
        (Some((PromptKind::Jump, typed)), _) => Line::from(format!(":{}▏", escaped(typed))),
        (Some((PromptKind::Search, typed)), _) => Line::from(format!("/{}▏", escaped(typed))),
        (Some((PromptKind::Everywhere, typed)), _) => {
            Line::from(format!("in all sessions: {}▏", escaped(typed)))
        }
        (Some((PromptKind::Filter, typed)), _) => Line::from(format!("type: {}▏", escaped(typed))),
        (None, Some(message)) => {
            Line::styled(one_line(message, width), Style::new().fg(Color::Yellow))
        }
        (None, None) => {
            let shown = join_fitting(&FOOT, "  ", width.saturating_sub(1));
            Line::styled(format!(" {shown}"), faint_style())
        }
    }
}

fn draw_timeline(player: &Player, frame: &mut Frame<'_>, area: Rect) {
    let only = match &player.only {
        Some(text) => format!("only {}", one_line(text, 40)),
        None if player.shows_all => "every event".to_owned(),
        None => String::new(),
    };
    let title = ["timeline".to_owned(), only];
    let block = titled_block(&title, None, area.width);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let digits = player.to.to_string().len().max(3);
    let positions = visible_positions(player, u64::from(inner.height));
    let clock =
        |row: &EventRow| row.micros_since(player.start).map(format_elapsed).unwrap_or_default();
    let rows = positions.iter().filter_map(|position| player.row(*position));
    let clock_columns = rows.clone().map(|row| clock(row).len()).max().unwrap_or_default();
    let label_columns = rows.map(|row| text_columns(&format_label(row))).max().unwrap_or_default();
    let shown = positions.iter().map(|position| {
        let line = match player.row(*position) {
            Some(row) => {
                let place = format!("{position:>digits$} {:>clock_columns$} ", clock(row));
                format_row(row, place, label_columns, inner.width)
            }
            None => Line::styled(format!("{position:>digits$} …"), faint_style()),
        };
        let here = *position == player.at;
        if here { line.style(Style::new().add_modifier(Modifier::REVERSED)) } else { line }
    });
    frame.render_widget(Paragraph::new(shown.collect::<Vec<_>>()), inner);
}

/// Returns the positions of a timeline: the current one is in the middle, except at the ends; the
/// others are listed, or not loaded.
fn visible_positions(player: &Player, lines: u64) -> Vec<u64> {
    let lines = usize::try_from(lines).unwrap_or(usize::MAX);
    let listed = |forward: bool| {
        let mut at = player.at;
        std::iter::from_fn(move || {
            at = match player.next_listed(at, forward) {
                NextListed::Listed(next) => next,
                NextListed::Unloaded(next) if player.only.is_none() => next,
                NextListed::Unloaded(_) | NextListed::End => return None,
            };
            Some(at)
        })
    };
    let mut before: Vec<u64> = listed(false).take(lines).collect();
    before.reverse();
    let behind: Vec<u64> = listed(true).take(lines).collect();
    let above = before.len().min((lines / 2).max(lines.saturating_sub(behind.len() + 1)));
    let from = before.len() - above;
    let here = (player.from < player.to).then_some(player.at);
    before.into_iter().skip(from).chain(here).chain(behind).take(lines).collect()
}

/// Maximum columns of an event's label.
const LABEL_COLUMNS: usize = 18;

/// Returns the kind of a row in a word; the type of an event that has none.
fn format_label(event: &EventRow) -> String {
    match &event.row {
        Some(row) if row.bookkeeping => one_line(&event.kind, LABEL_COLUMNS),
        Some(row) => row.kind.as_str().to_owned(),
        None => one_line(&event.kind, LABEL_COLUMNS),
    }
}

fn format_row(event: &EventRow, place: String, label_columns: usize, width: u16) -> Line<'static> {
    let label = format_label(event);
    let pad = " ".repeat(label_columns.saturating_sub(text_columns(&label)) + 1);
    let before = text_columns(&place) + label_columns + 1;
    let row = event.row.as_ref();
    let mark = match (&event.link, row) {
        (Some(CallLink::Result(_)), _) => "↳ ",
        (_, Some(row)) if row.thread.is_some() => "│ ",
        _ => "",
    };
    let [added, removed] = row.map(format_edit).unwrap_or_default();
    // A result repeats the outcome of its call.
    let own = row.filter(|row| row.kind == RowKind::Call || row.of.is_none());
    let outcome = own.map(format_outcome).unwrap_or_default();
    let is_failed = row.is_some_and(|row| row.failed);
    let tail = [added.clone(), removed.clone(), Some(outcome.clone())];
    let tail = tail.into_iter().flatten().filter(|text| !text.is_empty());
    let tail: usize = tail.map(|text| text_columns(&text) + 2).sum();
    let text = match row {
        Some(row) => row.line.clone(),
        None => event.text.split_whitespace().take(WORDS_MAX).collect::<Vec<_>>().join(" "),
    };
    let room = usize::from(width).saturating_sub(before + text_columns(mark) + tail);
    let text = one_line(&text, room.max(TEXT_COLUMNS_MIN));
    let text_style = match row {
        _ if is_failed => Style::new().fg(Color::Red),
        Some(row) if row.bookkeeping || row.dropped.is_some() => faint_style(),
        Some(row) if row.kind == RowKind::User => strong_style(),
        Some(row) if row.kind == RowKind::Thinking => faint_style(),
        _ => Style::new(),
    };
    let outcome_style = if is_failed { Style::new().fg(Color::Red) } else { faint_style() };
    let part = |text: Option<String>, style: Style| {
        let text = text.filter(|text| !text.is_empty());
        Span::styled(text.map(|text| format!("  {text}")).unwrap_or_default(), style)
    };
    Line::from(vec![
        Span::styled(place, faint_style()),
        Span::styled(format!("{label}{pad}"), Style::new().fg(event_colour(event))),
        Span::styled(mark, faint_style()),
        Span::styled(text, text_style),
        part(added, tone_style(Tone::Good)),
        part(removed, tone_style(Tone::Bad)),
        part(Some(outcome), outcome_style),
    ])
}

/// Minimum columns of a row's text.
const TEXT_COLUMNS_MIN: usize = 8;
/// Maximum number of words of a text that are put on one line.
const WORDS_MAX: usize = 200;

/// Returns the colour of an event's label.
fn event_colour(event: &EventRow) -> Color {
    match event.row.as_ref().map(|row| row.kind) {
        Some(RowKind::Call | RowKind::Result) => return Color::Blue,
        Some(RowKind::Thinking | RowKind::Status) => return Color::DarkGray,
        Some(RowKind::Compaction | RowKind::Checkpoint | RowKind::Memory) => return Color::Yellow,
        Some(RowKind::Injected) => return Color::Magenta,
        _ => {}
    }
    match event.kind.split('.').next().unwrap_or_default() {
        "user" => Color::Green,
        "agent" => Color::Cyan,
        "research" | "source" => Color::Magenta,
        "plan" | "outcome" | "memory" => Color::Yellow,
        "session" | "context" | "span" => Color::Blue,
        "gap" => Color::Red,
        _ => Color::Reset,
    }
}

/// Returns the text of a pane that has nothing to show, or nothing yet.
fn missing_text(player: &Player) -> &'static str {
    match (player.from == player.to, player.follows) {
        (true, true) => "waiting for the first event",
        (true, false) => "no event",
        _ => "…",
    }
}

fn draw_event(player: &mut Player, frame: &mut Frame<'_>, area: Rect) {
    let mut pane = std::mem::take(&mut player.event_pane);
    let Some(row) = player.rows.get(player.at) else {
        let block = titled_block(&["event".to_owned()], None, area.width);
        frame.render_widget(Paragraph::new(missing_text(player)).block(block), area);
        return;
    };
    let by = if row.origin.is_empty() { String::new() } else { format!("by {}", row.origin) };
    let date = row.time.map(|time| player.times.format_date(&time.to_string())).unwrap_or_default();
    let clock = row.micros_since(player.start).map(format_elapsed).unwrap_or_default();
    let parts = [one_line(&row.kind, 40), clock, by, date];
    let width = usize::from(area.width);
    let mut above = lines_above_event(player, row, width);
    let place = player.current_match_offset().filter(|_| player.reveals).and_then(|at| {
        let lower = row.text.to_lowercase();
        Some(above.len() + wrap_text(lower.get(..at)?, width).len() - 1)
    });
    let lines = || {
        let mut paper = LineBuffer::new(width, player.times.clone());
        draw_text(row, &mut paper);
        draw_result(player, row, &mut paper);
        above.append(&mut paper.into_lines());
        above
    };
    let key = (player.stamp, player.at, width);
    pane.set_lines(key, usize::from(area.height.saturating_sub(1)), lines);
    if let Some(line) = place {
        pane.scroll_to(line);
        player.reveals = false;
    }
    draw_pane(&pane, &parts, player.needle.as_deref(), false, frame, area);
    player.event_pane = pane;
}

/// Returns the lines above the text of an event: for a result, its call.
fn lines_above_event(player: &Player, row: &EventRow, width: usize) -> Vec<(Tone, String)> {
    let Some(CallLink::Result(_)) = &row.link else { return Vec::new() };
    let mut paper = LineBuffer::new(width, player.times.clone());
    match player.rows.find_pair(row) {
        Some(call) => {
            let head =
                format!("answers the call at {}{}", call.position, format_call_duration(row, call));
            paper.push(Tone::Strong, "", &head);
            paper.push(Tone::Faint, "  ", &call.text);
        }
        None => paper.push(Tone::Faint, "", "the call it answers is not among the events loaded"),
    }
    paper.push(Tone::Plain, "", "");
    paper.into_lines()
}

/// Returns the duration of a call; empty where both times are equal, as in an import.
fn format_call_duration(result: &EventRow, call: &EventRow) -> String {
    let micros = result.micros_since(call.time).filter(|micros| *micros > 0);
    micros.map(|micros| format!(", took {}", format_duration(micros))).unwrap_or_default()
}

/// Draws the text of an event: an edit as its changed lines, a diff in its colours, a failure red.
fn draw_text(event: &EventRow, paper: &mut LineBuffer) {
    let row = event.row.as_ref();
    if event.edit.is_empty() {
        let is_failed = row.is_some_and(|row| row.failed && row.kind != RowKind::Call);
        return draw_lines(&event.text, is_failed, paper);
    }
    let head = row.map_or_else(|| event.kind.clone(), format_row_line);
    paper.push(Tone::Strong, "", &head);
    for (sign, text) in &event.edit {
        let tone = line_tone(&sign.to_string());
        paper.push(tone, &format!("{sign} "), text);
    }
}

fn draw_lines(text: &str, is_failed: bool, paper: &mut LineBuffer) {
    match is_diff(text) {
        true => text.lines().for_each(|line| paper.push(line_tone(line), "", line)),
        false => paper.push(if is_failed { Tone::Bad } else { Tone::Plain }, "", text),
    }
}

/// Draws the result of a call below the call's own text.
fn draw_result(player: &Player, row: &EventRow, paper: &mut LineBuffer) {
    let Some(CallLink::Call(_)) = &row.link else { return };
    match player.rows.find_pair(row) {
        Some(result) => {
            paper.push_heading(&format!(
                "Result at {}{}",
                result.position,
                format_call_duration(result, row)
            ));
            let is_failed = result.row.as_ref().is_some_and(|row| row.failed);
            draw_lines(&result.text, is_failed, paper);
        }
        None => {
            let told = match player.rows.is_loaded_from(row.position, player.to) {
                true => "no result was recorded",
                false => "its result is not among the events loaded",
            };
            paper.push_heading("Result");
            paper.push(Tone::Faint, "", told);
        }
    }
}

fn draw_view(player: &mut Player, frame: &mut Frame<'_>, area: Rect) {
    let name = match player.shown {
        ShownView::Index => "the session",
        ShownView::Continuation => "how to continue",
        ShownView::Window => "what a model sees",
        ShownView::Compactions => "what compactions took",
        ShownView::Usage => "how full the context is",
    };
    let as_of = format!("{name} as of {}", player.at + 1);
    let parts = [if player.from == player.to { name.to_owned() } else { as_of }];
    let width = usize::from(area.width);
    // The lines of the same view at a nearby event are shown until the new ones arrive; those of
    // another view are not.
    let missing = missing_text(player);
    let made = || match &player.view {
        Some((shown, _, view)) if *shown == player.shown => {
            let mut paper = LineBuffer::new(width, player.times.clone());
            readable::print_view(shown.to_argument(), &player.session, view, &mut paper);
            paper.into_lines()
        }
        _ => vec![(Tone::Faint, missing.to_owned())],
    };
    let mut pane = std::mem::take(&mut player.view_pane);
    pane.set_lines((player.stamp, 0, width), usize::from(area.height.saturating_sub(1)), made);
    draw_pane(&pane, &parts, None, !player.is_view_fresh(), frame, area);
    player.view_pane = pane;
}

fn draw_pane(
    pane: &Pane,
    title: &[String],
    needle: Option<&str>,
    is_stale: bool,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let block = titled_block(title, pane.format_range(), area.width);
    let lines = pane.visible_lines().map(|(tone, text)| match is_stale {
        true => Line::styled(text.clone(), faint_style()),
        false => highlight_matches(text, needle.unwrap_or_default()).style(tone_style(*tone)),
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()).block(block), area);
}

/// Returns a line with the matches of `needle` highlighted.
fn highlight_matches(text: &str, needle: &str) -> Line<'static> {
    let (lower, needle) = (text.to_lowercase(), needle.to_lowercase());
    // Lower case may change the length of a text: byte offsets differ then.
    if needle.is_empty() || lower.len() != text.len() {
        return Line::raw(text.to_owned());
    }
    let mut spans = Vec::new();
    let mut end = 0;
    for (at, _) in lower.match_indices(&needle) {
        let (Some(before), Some(found)) = (text.get(end..at), text.get(at..at + needle.len()))
        else {
            continue;
        };
        spans.push(Span::raw(before.to_owned()));
        spans.push(Span::styled(found.to_owned(), Style::new().add_modifier(Modifier::REVERSED)));
        end = at + needle.len();
    }
    spans.push(Span::raw(text.get(end..).unwrap_or_default().to_owned()));
    Line::from(spans)
}

/// Draws the hits of a search in all sessions, two lines each.
fn draw_hits(player: &Player, frame: &mut Frame<'_>) {
    let Some(list) = &player.hits else { return };
    let all = frame.area();
    let area = Rect {
        x: all.x + all.width / 20,
        y: all.y + 1,
        width: all.width - all.width / 10,
        height: all.height.saturating_sub(2),
    };
    let width = usize::from(area.width.saturating_sub(4));
    let shown = usize::from(area.height.saturating_sub(2) / 2).max(1);
    let first = list.chosen.saturating_sub(shown / 2).min(list.hits.len().saturating_sub(shown));
    let mut lines = Vec::new();
    for (index, hit) in list.hits.iter().enumerate().skip(first).take(shown) {
        let name = if hit.title.is_empty() { &hit.session } else { &hit.title };
        let head = one_line(&format!("{name}  {}", hit.position), width);
        let here = index == list.chosen;
        let chosen =
            |style: Style| if here { style.add_modifier(Modifier::REVERSED) } else { style };
        lines.push(Line::styled(head, chosen(strong_style())));
        let found = highlight_matches(
            &one_line(&hit.line, width.saturating_sub(2)),
            player.needle.as_deref().unwrap_or_default(),
        );
        let mut spans = vec![Span::raw("  ")];
        spans.extend(found.spans);
        lines.push(Line::from(spans));
    }
    let title =
        format!(" {} of {} hits, Enter opens, Esc closes ", list.chosen + 1, list.hits.len());
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(title)), area);
}

/// Draws the list of keys; one that is higher than the screen is scrolled.
fn draw_help(pane: &mut Pane, frame: &mut Frame<'_>) {
    let all = frame.area();
    let width = HELP_COLUMNS.min(all.width);
    let mut paper = LineBuffer::new(usize::from(width.saturating_sub(2)), TimeFormat::default());
    for (key, does) in HELP {
        paper.push(Tone::Plain, &format!(" {key:<KEY_COLUMNS$} "), does);
    }
    let lines = paper.into_lines();
    let height = (lines.len() as u16 + 2).min(all.height);
    let area = Rect { x: (all.width - width) / 2, y: (all.height - height) / 2, width, height };
    pane.set_lines((0, 0, width.into()), height.saturating_sub(2).into(), || lines);
    let shown = pane.visible_lines().map(|(_, text)| {
        let (key, does) = text.split_at_checked(KEY_COLUMNS + 2).unwrap_or((text, ""));
        Line::from(vec![Span::styled(key.to_owned(), strong_style()), Span::raw(does.to_owned())])
    });
    let shown = Paragraph::new(shown.collect::<Vec<_>>());
    let block = Block::bordered().title(" keys ");
    let range = pane.format_range().map(|range| format!(" {range} ")).unwrap_or_default();
    frame.render_widget(Clear, area);
    frame.render_widget(shown.block(block.title(Line::from(range).right_aligned())), area);
}
