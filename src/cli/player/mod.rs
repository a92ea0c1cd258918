//! `replay` on a terminal: a full-screen player of one session. Its state machine returns requests,
//! which are sent to the server while keys are handled. It must not decide what a key does.

mod diff;
mod draw;
mod everywhere;
mod listing;
mod pane;
mod rows;
mod search;
mod state;

use std::{collections::HashMap, io, ops::Range, time::Duration};

use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
};
use rustix::process::{Signal, getpid, kill_process};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use super::{
    answer::event_time,
    args,
    failure::{CliError, Outcome},
    page::{EventPages, EventsQuery, describe_gap},
    readable::words,
    screen::one_line,
    signals,
    times::TimeFormat,
    titles, view,
};
use crate::{
    api::{
        events::Gap,
        rows::Row,
        search::{Hit, SearchBody},
    },
    client::{Client, SessionTail, TailItem},
    event::{SessionId, Timestamp, kinds},
    verbs::{
        NoParams, NoQuery, SessionPath,
        rows::{RowsQuery, ViewRows},
        search::SearchByBody,
        sessions::GetSession,
    },
    wire::json,
};
pub use draw::draw;
pub use rows::{CallLink, EventRow, HitList, LoadedRows, PAGE_EVENTS, PAGES_MAX, SessionHit};
pub use state::{
    PAUSE_MAX, PAUSE_MIN, Player, PlayerKey, PlayerRequest, PlayerResponse, PromptKind, SearchEnd,
    ShownView, WrappedSearch, playback_pause,
};

/// Interval between two drawings of the screen while no key is pressed.
const TICK: Duration = Duration::from_millis(50);
/// Maximum time until a process that suspends itself is stopped.
const SUSPENDED_WITHIN: Duration = Duration::from_secs(1);
/// Token budget of the window view: small, so that left-out events occur.
const WINDOW_TOKENS: u64 = 4_000;

/// Plays a session until the user leaves.
pub(super) async fn play(client: &Client, wanted: &args::ReplayArgs) -> Outcome {
    let session = &wanted.session;
    let to = resolve_position(client, session, wanted.range.to.as_deref().unwrap_or("end")).await?;
    let from = match &wanted.range.from {
        Some(point) => resolve_position(client, session, point).await?,
        None => 0,
    };
    let mut player = Player::new(session.to_string(), (from.min(to), to), wanted.speed);
    let past = wanted.range.from.as_ref().filter(|_| from >= to && to > 0);
    player.message = past.map(|from| format!("no event from {from} on; the last is {}", to - 1));
    player.start = fetch_start(client, session).await?;
    if wanted.follow {
        player.handle_key(PlayerKey::Char('f'));
        // A session that is still being written opens at its end, except for playback.
        if wanted.speed.is_none() && wanted.range.from.is_none() {
            player.handle_key(PlayerKey::End);
        }
    }
    player.title = load_title(client, session).await;
    // A signal must not leave the terminal in raw mode; after a panic, ratatui restores it.
    let end = signals::terminal_end()?;
    let mut terminal = ratatui::try_init()?;
    let played = tokio::select! {
        played = play_sessions(client, player, &mut terminal) => played,
        code = end => Err(CliError::Silent(code)),
    };
    ratatui::restore();
    played
}

/// Plays a session, and those that the user opens from it.
async fn play_sessions(
    client: &Client,
    mut player: Player,
    terminal: &mut DefaultTerminal,
) -> Outcome {
    loop {
        let session = SessionId::new(&player.session).map_err(io::Error::other)?;
        run_player(client, &session, &mut player, terminal).await?;
        let Some((other, at)) = player.opens.take() else { return Ok(()) };
        match open_session(client, &other, at, &player).await {
            Ok(opened) => player = opened,
            Err(failure) => player.message = Some(failure.to_string()),
        }
    }
}

/// Opens a session at a position, with the search of the player that led to it.
async fn open_session(client: &Client, name: &str, at: u64, from: &Player) -> Outcome<Player> {
    let session = SessionId::new(name).map_err(io::Error::other)?;
    let to = resolve_position(client, &session, "end").await?;
    let mut player = Player::new(name.to_owned(), (0, to), None);
    player.start = fetch_start(client, &session).await?;
    player.title = load_title(client, &session).await;
    player.open_at(at, from);
    Ok(player)
}

/// Returns the title of a session; empty if it has none.
async fn load_title(client: &Client, session: &SessionId) -> String {
    let place = SessionPath { session: session.clone() };
    let found = client.call::<GetSession>(&place, &NoQuery {}, &()).await;
    let own = found.ok().and_then(|session| session.title);
    titles::fetch_title(client, session.as_str(), own.as_deref()).await
}

async fn run_player(
    client: &Client,
    session: &SessionId,
    player: &mut Player,
    terminal: &mut DefaultTerminal,
) -> Outcome {
    let mut input = tokio::task::spawn_blocking(read_key);
    let mut errand = None;
    let mut news_of_tail = None;
    while !player.done && player.opens.is_none() {
        terminal.draw(|frame| draw(player, frame))?;
        if errand.is_none() {
            errand =
                player.next_request().map(|want| Box::pin(send_request(client, session, want)));
        }
        match player.follows {
            false => news_of_tail = None,
            true if news_of_tail.is_none() => {
                news_of_tail = Some(Box::pin(wait_for_event(client, session, None, player.to)));
            }
            true => {}
        }
        tokio::select! {
            news = async { match errand.as_mut() {
                Some(errand) => errand.await,
                None => std::future::pending().await,
            } } => {
                errand = None;
                player.times = TimeFormat::new_local();
                player.handle_result(news);
            }
            told = async { match news_of_tail.as_mut() {
                Some(news) => news.await,
                None => std::future::pending().await,
            } } => {
                news_of_tail = match told {
                    Ok((tail, rows)) => {
                        player.append_rows(rows);
                        Some(Box::pin(wait_for_event(client, session, Some(tail), player.to)))
                    }
                    Err(failure) => {
                        player.follows = false;
                        player.message = Some(failure.to_string());
                        None
                    }
                };
            }
            typed = &mut input => {
                match typed.map_err(std::io::Error::other)?? {
                    Some(key) => player.handle_key(key),
                    None => player.tick(TICK),
                }
                if std::mem::take(&mut player.suspends) {
                    suspend(terminal).await?;
                }
                if !player.done && player.opens.is_none() {
                    input = tokio::task::spawn_blocking(read_key);
                }
            }
        }
    }
    Ok(())
}

/// Stops this process as the terminal's Ctrl-Z does elsewhere, with the terminal as it was before;
/// once the shell continues it, the player is drawn anew.
async fn suspend(terminal: &mut DefaultTerminal) -> Outcome {
    terminal.show_cursor()?;
    ratatui::try_restore()?;
    let mut continued = signal(SignalKind::from_raw(Signal::CONT.as_raw()))?;
    kill_process(getpid(), Signal::TSTP).map_err(io::Error::from)?;
    // Any thread may take the signal, a moment later; a process group without a shell ignores it.
    let _ = tokio::time::timeout(SUSPENDED_WITHIN, continued.recv()).await;
    *terminal = ratatui::try_init()?;
    Ok(())
}

/// Maximum number of positions of a gap that get their own row: the newest.
const LOST_ROWS_MAX: u64 = 10_000;

/// Waits for the next event of a tail, which starts at `from` if it is not open yet.
async fn wait_for_event(
    client: &Client,
    session: &SessionId,
    tail: Option<SessionTail>,
    from: u64,
) -> Outcome<(SessionTail, Vec<EventRow>)> {
    let mut tail = match tail {
        Some(tail) => tail,
        None => client.tail(session, Some(&from.to_string()), &[]).await?,
    };
    let rows = match tail.next().await? {
        TailItem::Event(event) => {
            let mut rows: Vec<EventRow> = parse_row(&event).into_iter().collect();
            for row in &mut rows {
                let end = row.position + 1;
                row.row = list_rows(client, session, row.position..end).await.remove(&row.position);
            }
            rows
        }
        TailItem::Gap(gap) => {
            let gap: Option<Gap> = serde_json::from_str(&gap).ok();
            gap.map(|gap| gap_rows(&gap, 0..u64::MAX)).unwrap_or_default()
        }
    };
    Ok((tail, rows))
}

/// Returns the next mapped key; `None` after a tick without one.
fn read_key() -> std::io::Result<Option<PlayerKey>> {
    if !event::poll(TICK)? {
        return Ok(None);
    }
    match event::read()? {
        Event::Key(key) if key.kind != KeyEventKind::Release => Ok(map_key(key)),
        _ => Ok(None),
    }
}

fn map_key(key: KeyEvent) -> Option<PlayerKey> {
    let modifiers = key.modifiers - KeyModifiers::SHIFT;
    Some(match key.code {
        KeyCode::Char(c) if modifiers == KeyModifiers::CONTROL => match c {
            'c' | 'd' => PlayerKey::Leave,
            'h' => PlayerKey::Backspace,
            'u' => PlayerKey::ClearPrompt,
            'w' => PlayerKey::RemoveWord,
            'z' => PlayerKey::Suspend,
            _ => return None,
        },
        // Another chord is no text.
        _ if !modifiers.is_empty() => return None,
        KeyCode::Char(c) => PlayerKey::Char(c),
        KeyCode::Up => PlayerKey::Up,
        KeyCode::Down => PlayerKey::Down,
        KeyCode::PageUp => PlayerKey::PageUp,
        KeyCode::PageDown => PlayerKey::PageDown,
        KeyCode::Home => PlayerKey::Home,
        KeyCode::End => PlayerKey::End,
        KeyCode::Enter => PlayerKey::Enter,
        KeyCode::Backspace => PlayerKey::Backspace,
        KeyCode::Esc => PlayerKey::Escape,
        _ => return None,
    })
}

/// Sends a request of the player and returns its result.
async fn send_request(client: &Client, session: &SessionId, want: PlayerRequest) -> PlayerResponse {
    let found = match want {
        PlayerRequest::Page(page, _) => {
            fetch_rows(client, session, page).await.map(|rows| PlayerResponse::Page(page, rows))
        }
        PlayerRequest::View(shown, at) => fetch_view(client, session, shown, at)
            .await
            .map(|view| PlayerResponse::View(shown, at, view)),
        PlayerRequest::Point(point) => {
            resolve_position(client, session, &point).await.map(PlayerResponse::Point)
        }
        PlayerRequest::Search(hunt) => {
            find_match(client, session, &hunt).await.map(PlayerResponse::Found)
        }
        PlayerRequest::Landmark(at, forward) => {
            find_landmark(client, session, at, forward).await.map(PlayerResponse::Landmark)
        }
        PlayerRequest::Everywhere(words) => {
            search_sessions(client, words).await.map(PlayerResponse::Everywhere)
        }
    };
    found.unwrap_or_else(|failure| PlayerResponse::Failed(failure.to_string()))
}

fn range_query(from: u64, to: u64) -> EventsQuery {
    EventsQuery {
        from: Some(from.to_string()),
        to: Some(to.to_string()),
        allow_gaps: true,
        ..EventsQuery::default()
    }
}

async fn fetch_rows(client: &Client, session: &SessionId, page: u64) -> Outcome<Vec<EventRow>> {
    let query = range_query(page * PAGE_EVENTS, (page + 1) * PAGE_EVENTS);
    let mut pages = EventPages::new(client, session, query);
    let mut rows = Vec::new();
    let shown = page * PAGE_EVENTS..(page + 1) * PAGE_EVENTS;
    while let Some(page) = pages.next().await? {
        rows.extend(page.events.iter().filter_map(|event| parse_row(event.get())));
        for gap in &page.gaps {
            rows.extend(gap_rows(gap, shown.clone()));
        }
    }
    rows.sort_by_key(|row| row.position);
    let mut listed = list_rows(client, session, shown).await;
    rows.iter_mut().for_each(|event| event.row = listed.remove(&event.position));
    Ok(rows)
}

/// Maximum number of rows of a request, and of positions in which a landmark is looked for at once.
const ROWS_MAX: usize = 500;
const LANDMARK_POSITIONS: u64 = 5_000;
/// Positions within which a result belongs to its call.
const PAIR_REACH: u64 = 500;
/// Kinds of rows that a person jumps to.
const LANDMARKS: &str = "user,compaction,failed";
/// Maximum number of hits in all sessions, and of characters of one.
const HITS_MAX: usize = 50;
const HIT_CHARS: usize = 200;
/// Time limit for waiting until new events are indexed, in milliseconds.
const INDEX_WAIT_MS: u64 = 10_000;

/// Returns the rows of a range by position, as the server lists them; of a server that lists none,
/// an empty list.
async fn list_rows(client: &Client, session: &SessionId, range: Range<u64>) -> HashMap<u64, Row> {
    let (mut rows, mut from) = (HashMap::new(), range.start);
    let place = SessionPath { session: session.clone() };
    while from < range.end {
        let (start, end) = (Some(from.to_string()), Some(range.end.to_string()));
        let query =
            RowsQuery { from: start, to: end, limit: Some(ROWS_MAX), ..RowsQuery::default() };
        let Ok(page) = client.call::<ViewRows>(&place, &query, &()).await else { break };
        rows.extend(page.rows.into_iter().map(|row| (row.position.0, row)));
        if page.complete || page.next_position.0 <= from {
            break;
        }
        from = page.next_position.0;
    }
    rows
}

/// Finds the nearest failure, compaction or request; a failure is at its call.
async fn find_landmark(
    client: &Client,
    session: &SessionId,
    at: u64,
    forward: bool,
) -> Outcome<Option<u64>> {
    let place = SessionPath { session: session.clone() };
    let (mut from, mut to) = (at + 1, at.saturating_add(PAIR_REACH));
    loop {
        if !forward {
            from = to.saturating_sub(LANDMARK_POSITIONS);
        }
        let end = if forward { "end".to_owned() } else { to.to_string() };
        let mut nearest = None;
        loop {
            let query = RowsQuery {
                from: Some(from.to_string()),
                to: Some(end.clone()),
                kinds: Some(LANDMARKS.to_owned()),
                limit: Some(ROWS_MAX),
                ..RowsQuery::default()
            };
            let page = client.call::<ViewRows>(&place, &query, &()).await?;
            let places = page.rows.iter().map(|row| row.of.unwrap_or(row.position).0);
            if forward {
                if let Some(found) = places.filter(|place| *place > at).min() {
                    return Ok(Some(found));
                }
            } else {
                nearest = nearest.max(places.filter(|place| *place < at).max());
            }
            if page.complete {
                break;
            }
            from = page.next_position.0;
        }
        to = to.saturating_sub(LANDMARK_POSITIONS);
        if forward || nearest.is_some() || to == 0 {
            return Ok(nearest);
        }
    }
}

/// Searches all sessions by words.
async fn search_sessions(client: &Client, words: String) -> Outcome<Vec<SessionHit>> {
    let (limit, wait_ms) = (Some(HITS_MAX), INDEX_WAIT_MS);
    let asked = SearchBody { q: words, limit, wait_ms, ..SearchBody::default() };
    let found = client.call::<SearchByBody>(&NoParams {}, &NoQuery {}, &asked).await?;
    let hit = |hit: Hit| SessionHit {
        session: hit.session.to_string(),
        title: hit.title.unwrap_or_default(),
        position: hit.position.0,
        line: one_line(&hit.snippet.text, HIT_CHARS),
    };
    Ok(found.hits.into_iter().map(hit).collect())
}

/// Returns rows for the newest lost events of a range.
fn gap_rows(gap: &Gap, shown: Range<u64>) -> Vec<EventRow> {
    let to = gap.to.0.min(shown.end);
    let from = gap.from.0.max(shown.start).max(to.saturating_sub(LOST_ROWS_MAX));
    let row = |position| {
        let (kind, text) = ("gap".to_owned(), describe_gap(gap));
        EventRow { position, kind, text, ..EventRow::default() }
    };
    (from..to).map(row).collect()
}

fn parse_row(event: &str) -> Option<EventRow> {
    let event: Value = json::parse_lossy(event.as_bytes()).ok()?;
    let kind = words::text_of(&event, "type").to_owned();
    let own = words::text_of(&event, "id").to_owned();
    let id = event.as_object().and_then(words::call_id).map(str::to_owned);
    let link = match kind.as_str() {
        kind if kinds::is_call(kind) => Some(CallLink::Call(id.unwrap_or(own))),
        kind if kinds::is_result(kind) => id.map(CallLink::Result),
        _ => None,
    };
    Some(EventRow {
        position: words::number_of(&event, "position")?,
        text: words::describe_event(&event),
        origin: words::text_of(&event, "origin").to_owned(),
        time: event_time(&event),
        edit: if kinds::is_call(&kind) { diff::edit_lines(&event) } else { Vec::new() },
        row: None,
        kind,
        link,
    })
}

/// Fetches a view of the session as of a position.
async fn fetch_view(
    client: &Client,
    session: &SessionId,
    shown: ShownView,
    at: u64,
) -> Outcome<Value> {
    let view = view::fetch(client, shown.to_argument(), session, None, |request| {
        let request = request.query("at", at);
        match shown {
            ShownView::Window => {
                request.query("tokens_max", WINDOW_TOKENS).query("format", "anthropic")
            }
            _ => request,
        }
    });
    let mut view: Value = json::parse_lossy(&view.await?).map_err(io::Error::from)?;
    // Dropped: the title of the pane shows the position.
    if let Some(members) = view.as_object_mut() {
        members.remove("position");
    }
    Ok(view)
}

/// Number of events among which the earliest time is the start of a session: an import records the
/// first lines of a file without their times.
const START_EVENTS: usize = 50;

async fn fetch_start(client: &Client, session: &SessionId) -> Outcome<Option<Timestamp>> {
    let query =
        EventsQuery { limit: Some(START_EVENTS), allow_gaps: true, ..EventsQuery::default() };
    let page = EventPages::new(client, session, query).next().await?;
    let events = page.map(|page| page.events).unwrap_or_default();
    Ok(events.iter().filter_map(|event| parse_row(event.get())?.time).min())
}

async fn resolve_position(client: &Client, session: &SessionId, point: &str) -> Outcome<u64> {
    let query = EventsQuery {
        from: Some(point.to_owned()),
        limit: Some(1),
        allow_gaps: true,
        ..EventsQuery::default()
    };
    let page = EventPages::new(client, session, query).next().await?;
    let Some(page) = page else { return Ok(0) };
    let first = page.events.first().and_then(|event| parse_row(event.get()));
    Ok(first.map_or(page.next_position, |row| row.position))
}

/// Finds the nearest event that contains a text, wrapping around the end if necessary.
async fn find_match(
    client: &Client,
    session: &SessionId,
    hunt: &WrappedSearch,
) -> Outcome<Option<SearchEnd>> {
    let WrappedSearch { needle, at, forward, from, to } = hunt;
    let needle = needle.to_lowercase();
    let (behind, before) = match forward {
        true => ((*at + 1, *to), (*from, *at + 1)),
        false => ((*from, *at), (*at, *to)),
    };
    let order = if *forward { args::SortOrder::Asc } else { args::SortOrder::Desc };
    for ((from, to), wrapped) in [(behind, false), (before, true)] {
        if from >= to {
            continue;
        }
        let query = EventsQuery { order: Some(args::name_of(order)), ..range_query(from, to) };
        let mut pages = EventPages::new(client, session, query);
        while let Some(page) = pages.next().await? {
            let rows = page.events.iter().filter_map(|event| parse_row(event.get()));
            let holds = |row: &EventRow| {
                row.text.to_lowercase().contains(&needle)
                    || row.kind.to_lowercase().contains(&needle)
            };
            if let Some(found) = rows.into_iter().find(holds) {
                return Ok(Some(SearchEnd { at: found.position, wrapped }));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chord_edits_or_suspends_and_is_never_typed() {
        let control = KeyModifiers::CONTROL;
        for (code, modifiers, expected) in [
            (KeyCode::Char('u'), control, Some(PlayerKey::ClearPrompt)),
            (KeyCode::Char('w'), control, Some(PlayerKey::RemoveWord)),
            (KeyCode::Char('h'), control, Some(PlayerKey::Backspace)),
            (KeyCode::Char('z'), control, Some(PlayerKey::Suspend)),
            (KeyCode::Char('c'), control, Some(PlayerKey::Leave)),
            (KeyCode::Char('b'), control, None),
            (KeyCode::Char('b'), KeyModifiers::ALT, None),
            (KeyCode::Char('c'), control | KeyModifiers::ALT, None),
            (KeyCode::Char('G'), KeyModifiers::SHIFT, Some(PlayerKey::Char('G'))),
            (KeyCode::Char('é'), KeyModifiers::NONE, Some(PlayerKey::Char('é'))),
            (KeyCode::Down, KeyModifiers::ALT, None),
            (KeyCode::Down, KeyModifiers::NONE, Some(PlayerKey::Down)),
        ] {
            assert_eq!(map_key(KeyEvent::new(code, modifiers)), expected, "{modifiers:?} {code:?}");
        }
    }
}
