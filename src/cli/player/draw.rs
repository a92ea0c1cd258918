//! How the player looks: the timeline, the event where the reader stands, and the session as of
//! there beside it. It must not change the player.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Borders, Clear, Paragraph, Wrap},
};

use super::{
    super::screen::{instant, one_line, printable},
    state::{Player, Prompt, Row, Shown},
};

const HELP: &[(&str, &str)] = &[
    ("j k, arrows", "one event on, one back"),
    ("PgDn PgUp", "fifteen"),
    ("g G", "the first, the last"),
    ("space", "play, pause"),
    ("+ -", "faster, slower"),
    (": POINT", "jump: 17, -5, end, event:ID, step:3, time:…"),
    ("/ TEXT", "search; n on, N back"),
    ("] [", "scroll the event"),
    ("v", "next view: going on, window, compactions, usage"),
    ("} {", "scroll the view"),
    ("q", "leave"),
];
/// Columns below which the event and the view stand below the timeline instead of beside it.
const WIDE_COLUMNS: u16 = 90;

/// Draws the player.
pub(super) fn draw(player: &Player, frame: &mut Frame<'_>) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(3), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(head_line(player), head);
    let (timeline, event, view) = if body.width >= WIDE_COLUMNS {
        let [left, right] =
            Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)])
                .areas(body);
        let [event, view] =
            Layout::vertical([Constraint::Percentage(55), Constraint::Percentage(45)]).areas(right);
        (left, event, view)
    } else {
        let thirds = [Constraint::Percentage(40), Constraint::Percentage(35), Constraint::Min(3)];
        let [timeline, event, view] = Layout::vertical(thirds).areas(body);
        (timeline, event, view)
    };
    draw_timeline(player, frame, timeline);
    draw_event(player, frame, event);
    draw_view(player, frame, view);
    frame.render_widget(foot_line(player), foot);
    if player.help {
        draw_help(frame);
    }
}

fn faint() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn strong() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn framed(title: String) -> Block<'static> {
    Block::new().borders(Borders::TOP).title(Span::styled(title, strong()))
}

fn head_line(player: &Player) -> Line<'static> {
    let state = if player.playing { "▶" } else { "⏸" };
    let of = player.to.saturating_sub(player.from);
    let place = match of {
        0 => "no events".to_owned(),
        _ => format!("position {}  ({} of {of})", player.at, player.at + 1 - player.from),
    };
    Line::from(vec![
        Span::styled(format!(" {} ", player.session), strong().add_modifier(Modifier::REVERSED)),
        Span::raw(format!("  {place}  {state} {}x", speed(player.speed))),
    ])
}

fn speed(speed: f64) -> String {
    if speed >= 1.0 { format!("{speed:.0}") } else { format!("1/{:.0}", 1.0 / speed) }
}

fn foot_line(player: &Player) -> Line<'static> {
    match (&player.prompt, &player.message) {
        (Some((Prompt::Jump, typed)), _) => Line::from(format!(":{}▏", printable(typed))),
        (Some((Prompt::Search, typed)), _) => Line::from(format!("/{}▏", printable(typed))),
        (None, Some(message)) => {
            Line::styled(one_line(message, 300), Style::new().fg(Color::Yellow))
        }
        (None, None) => Line::styled(
            " j/k step  space play  +/- speed  : jump  / search  v view  ? help  q leave",
            faint(),
        ),
    }
}

fn draw_timeline(player: &Player, frame: &mut Frame<'_>, area: Rect) {
    let block = framed(" timeline ".to_owned());
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let lines = u64::from(inner.height);
    let digits = player.to.to_string().len().max(4);
    // The reader stands in the middle, but for the ends.
    let last = player.to.saturating_sub(lines).max(player.from);
    let first = player.at.saturating_sub(lines / 2).clamp(player.from, last);
    let shown = (first..player.to.min(first + lines)).map(|position| {
        let line = match player.row(position) {
            Some(row) => row_line(row, digits, inner.width),
            None => Line::styled(format!("{position:>digits$} …"), faint()),
        };
        let here = position == player.at;
        if here { line.style(Style::new().add_modifier(Modifier::REVERSED)) } else { line }
    });
    frame.render_widget(Paragraph::new(shown.collect::<Vec<_>>()), inner);
}

/// Columns of an event's type.
const KIND_COLUMNS: usize = 18;

fn row_line(row: &Row, digits: usize, width: u16) -> Line<'static> {
    let clock = row.time.map(|time| instant(&time.to_string())).unwrap_or_default();
    let clock = clock.get(11..).unwrap_or_default().to_owned();
    let kind = one_line(&row.kind, KIND_COLUMNS);
    let before = digits + KIND_COLUMNS + 11;
    let text = one_line(&row.text, usize::from(width).saturating_sub(before).max(8));
    Line::from(vec![
        Span::styled(format!("{:>digits$} {clock} ", row.position), faint()),
        Span::styled(format!("{kind:<KIND_COLUMNS$} "), Style::new().fg(colour(&row.kind))),
        Span::raw(text),
    ])
}

/// Who an event comes from, by its type.
fn colour(kind: &str) -> Color {
    match kind.split('.').next().unwrap_or_default() {
        "user" => Color::Green,
        "agent" => Color::Cyan,
        "research" => Color::Magenta,
        "session" | "checkpoint" => Color::Blue,
        _ => Color::Reset,
    }
}

fn draw_event(player: &Player, frame: &mut Frame<'_>, area: Rect) {
    let Some(row) = player.row(player.at) else {
        let told = if player.from == player.to { "nothing happened here" } else { "…" };
        frame.render_widget(Paragraph::new(told).block(framed(" event ".to_owned())), area);
        return;
    };
    let clock = row.time.map(|time| instant(&time.to_string())).unwrap_or_default();
    let title = format!(" {}  {clock}  by {} ", one_line(&row.kind, 40), row.origin);
    let text = Paragraph::new(printable(&row.text)).block(framed(title));
    frame.render_widget(text.wrap(Wrap { trim: false }).scroll((player.scrolled, 0)), area);
}

fn draw_view(player: &Player, frame: &mut Frame<'_>, area: Rect) {
    let name = match player.shown {
        Shown::Index => "the session",
        Shown::Continuation => "how to go on",
        Shown::Window => "what a model sees",
        Shown::Compactions => "what compactions took",
        Shown::Usage => "how full the context is",
    };
    let block = framed(format!(" {name} as of {} ", player.at + 1));
    // Another view's lines say nothing here; the same view's from a step away do, until it came.
    let lines = match &player.view {
        Some((shown, _, lines)) if *shown == player.shown => {
            let style = if player.is_fresh() { Style::new() } else { faint() };
            let line = |line: &String| Line::styled(printable(line), style);
            lines.iter().map(line).collect()
        }
        _ => vec![Line::styled("…", faint())],
    };
    let text = Paragraph::new(lines).block(block).wrap(Wrap { trim: false });
    frame.render_widget(text.scroll((player.viewed, 0)), area);
}

fn draw_help(frame: &mut Frame<'_>) {
    let lines = HELP.iter().map(|(key, does)| {
        Line::from(vec![Span::styled(format!(" {key:<12} "), strong()), Span::raw(*does)])
    });
    let lines: Vec<Line<'_>> = lines.collect();
    let all = frame.area();
    let (width, height) = (64.min(all.width), (lines.len() as u16 + 2).min(all.height));
    let area = Rect { x: (all.width - width) / 2, y: (all.height - height) / 2, width, height };
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" keys ")), area);
}
