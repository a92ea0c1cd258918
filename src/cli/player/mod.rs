//! `replay` on a terminal: a player of one session over the whole screen. Its state machine says
//! what it wants, and it gets that from the server while keys are taken. It must not decide what a
//! key does.

mod draw;
mod state;

use std::time::Duration;

use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
};

use super::{
    args,
    events::{moment, told},
    failure::Outcome,
    fork::overview_lines,
    page::{Pages, Query},
    view,
};
use crate::{
    client::{Client, Request, session_path},
    event::SessionId,
    import::Members,
};
use state::{Key, News, PAGE_EVENTS, Player, Row, Shown, Want};

/// How often the screen is drawn while nobody types.
const TICK: Duration = Duration::from_millis(50);
/// The window beside the event: small, so that what it leaves out is seen.
const WINDOW_TOKENS: u64 = 4_000;

/// Plays a session until its reader leaves.
pub(super) async fn play(client: &Client, wanted: &args::Replay) -> Outcome {
    let from = match &wanted.from {
        Some(point) => position(client, &wanted.session, point).await?,
        None => 0,
    };
    let to = position(client, &wanted.session, wanted.to.as_deref().unwrap_or("end")).await?;
    let mut player = Player::new(wanted.session.to_string(), (from, to.max(from)), wanted.speed);
    let mut terminal = ratatui::try_init()?;
    let played = run(client, &wanted.session, &mut player, &mut terminal).await;
    ratatui::restore();
    played
}

async fn run(
    client: &Client,
    session: &SessionId,
    player: &mut Player,
    terminal: &mut DefaultTerminal,
) -> Outcome {
    let mut input = tokio::task::spawn_blocking(next_input);
    let mut errand = None;
    while !player.done {
        terminal.draw(|frame| draw::draw(player, frame))?;
        if errand.is_none() {
            errand = player.want().map(|want| Box::pin(fetch(client, session, want)));
        }
        tokio::select! {
            news = async { match errand.as_mut() {
                Some(errand) => errand.await,
                None => std::future::pending().await,
            } } => {
                errand = None;
                player.news(news);
            }
            typed = &mut input => {
                match typed.map_err(std::io::Error::other)?? {
                    Some(key) => player.key(key),
                    None => player.tick(TICK),
                }
                if !player.done {
                    input = tokio::task::spawn_blocking(next_input);
                }
            }
        }
    }
    Ok(())
}

/// The next key that means something; `None` when a tick went by without.
fn next_input() -> std::io::Result<Option<Key>> {
    if !event::poll(TICK)? {
        return Ok(None);
    }
    match event::read()? {
        Event::Key(key) if key.kind != KeyEventKind::Release => Ok(key_of(key)),
        _ => Ok(None),
    }
}

fn key_of(key: KeyEvent) -> Option<Key> {
    Some(match key.code {
        KeyCode::Char('c' | 'd') if key.modifiers.contains(KeyModifiers::CONTROL) => Key::Leave,
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Enter => Key::Enter,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Esc => Key::Escape,
        _ => return None,
    })
}

/// Gets what the player wants.
async fn fetch(client: &Client, session: &SessionId, want: Want) -> News {
    let found = match want {
        Want::Page(page) => rows(client, session, page).await.map(|rows| News::Page(page, rows)),
        Want::View(shown, at) => {
            seen(client, session, shown, at).await.map(|lines| News::View(shown, at, lines))
        }
        Want::Point(point) => position(client, session, &point).await.map(News::Point),
        Want::Search { needle, from, forward } => {
            search(client, session, &needle, from, forward).await.map(News::Found)
        }
    };
    found.unwrap_or_else(|failure| News::Failed(failure.to_string()))
}

fn query(from: u64, to: u64) -> Query {
    Query {
        from: Some(from.to_string()),
        to: Some(to.to_string()),
        allow_gaps: true,
        ..Query::default()
    }
}

async fn rows(client: &Client, session: &SessionId, page: u64) -> Outcome<Vec<Row>> {
    let query = query(page * PAGE_EVENTS, (page + 1) * PAGE_EVENTS);
    let mut pages = Pages::new(client, session, query);
    let mut rows = Vec::new();
    let shown = page * PAGE_EVENTS..(page + 1) * PAGE_EVENTS;
    while let Some(page) = pages.next().await? {
        rows.extend(page.events.iter().filter_map(|event| row(event.get())));
        for gap in &page.gaps {
            let lost = gap.from.max(shown.start)..gap.to.min(shown.end);
            rows.extend(lost.map(|position| lost_row(position, gap.told())));
        }
    }
    rows.sort_by_key(|row| row.position);
    Ok(rows)
}

/// What is shown of an event that is lost.
fn lost_row(position: u64, text: String) -> Row {
    Row { position, kind: "gap".to_owned(), origin: String::new(), time: None, text }
}

fn row(event: &str) -> Option<Row> {
    let members = Members::read(event).ok()?;
    let kind = members.text("type")?;
    Some(Row {
        position: members.raw("position")?.get().parse().ok()?,
        text: told(&kind, &members),
        origin: members.text("origin").unwrap_or_default(),
        time: moment(&members),
        kind,
    })
}

/// A view of the session as of a position, line by line.
async fn seen(client: &Client, session: &SessionId, shown: Shown, at: u64) -> Outcome<Vec<String>> {
    let which = match shown {
        Shown::Index => args::WhichView::Index,
        Shown::Continuation => args::WhichView::Continuation,
        Shown::Window => args::WhichView::Window,
        Shown::Compactions => args::WhichView::Compactions,
        Shown::Usage => args::WhichView::Usage,
    };
    let path = session_path(session, &format!("/views/{}", which.as_str()));
    let mut request = Request::get(path).query("at", at.to_string());
    if shown == Shown::Window {
        request = request.query("tokens_max", WINDOW_TOKENS.to_string());
        request = request.query("format", "anthropic");
    }
    let body = client.send(request).await?.body;
    let view = serde_json::from_slice(&body).unwrap_or_default();
    if shown == Shown::Index {
        return Ok(overview_lines(&view));
    }
    let mut lines = view::lines(which, &view, &str::to_owned);
    if shown == Shown::Window {
        lines.insert(0, view::window_size(&view));
    }
    Ok(lines)
}

/// The position that a point names.
async fn position(client: &Client, session: &SessionId, point: &str) -> Outcome<u64> {
    let query = Query {
        from: Some(point.to_owned()),
        limit: Some(1),
        allow_gaps: true,
        ..Query::default()
    };
    let page = Pages::new(client, session, query).next().await?;
    let Some(page) = page else { return Ok(0) };
    let first = page.events.first().and_then(|event| row(event.get()));
    Ok(first.map_or(page.next_position, |row| row.position))
}

/// The nearest event after a position, or before it, whose text holds another one.
async fn search(
    client: &Client,
    session: &SessionId,
    needle: &str,
    from: u64,
    forward: bool,
) -> Outcome<Option<u64>> {
    let needle = needle.to_lowercase();
    let query = match forward {
        true => Query { to: None, ..query(from + 1, 0) },
        false => Query { order: Some(args::Order::Desc), ..query(0, from) },
    };
    let mut pages = Pages::new(client, session, query);
    while let Some(page) = pages.next().await? {
        let rows = page.events.iter().filter_map(|event| row(event.get()));
        let holds = |row: &Row| {
            row.text.to_lowercase().contains(&needle) || row.kind.to_lowercase().contains(&needle)
        };
        if let Some(found) = rows.into_iter().find(holds) {
            return Ok(Some(found.position));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
