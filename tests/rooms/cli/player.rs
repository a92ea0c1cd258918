//! The player by its keys and its frames: the effect of a key, the output, the requests.

use std::time::Duration;

use ratatui::{Terminal, backend::TestBackend, style::Color};
use serde_json::json;
use sessionlog::{
    api::rows::{Row, RowKind},
    cli::player::{
        CallLink, EventRow, PAGE_EVENTS, PAGES_MAX, PAUSE_MAX, PAUSE_MIN, Player, PlayerKey,
        PlayerRequest, PlayerResponse, PromptKind, SearchEnd, SessionHit, ShownView, WrappedSearch,
        draw, playback_pause,
    },
    event::{EventId, Position, Timestamp},
};

/// Returns events a second apart, of three types.
fn rows(page: u64, to: u64) -> Vec<EventRow> {
    (page * PAGE_EVENTS..((page + 1) * PAGE_EVENTS).min(to)).map(event).collect()
}

fn event(position: u64) -> EventRow {
    let kinds = ["user.message", "agent.message", "agent.tool_use"];
    EventRow {
        position,
        kind: kinds[position as usize % 3].to_owned(),
        origin: "user".to_owned(),
        time: Some(Timestamp(position as i64 * 1_000_000)),
        text: format!("event number {position}\nits second line"),
        ..EventRow::default()
    }
}

/// Returns a player of that many events with its requests fulfilled.
pub(super) fn player(events: u64) -> Player {
    let mut player = Player::new("trip".to_owned(), (0, events), None);
    fulfil_requests(&mut player);
    player
}

/// Fulfils all of its requests.
fn fulfil_requests(player: &mut Player) {
    while let Some(want) = player.next_request() {
        let to = player.to;
        player.handle_result(match want {
            PlayerRequest::Page(page, _) => PlayerResponse::Page(page, rows(page, to)),
            PlayerRequest::View(shown, at) => {
                let view = json!({"steps_total": at, "goal": format!("see {shown:?}")});
                PlayerResponse::View(shown, at, view)
            }
            PlayerRequest::Point(text) => match text.as_str() {
                "end" => PlayerResponse::Point(to),
                "time:later" => PlayerResponse::Point(to),
                _ => PlayerResponse::Failed(format!("{text} not found (tail is 3)")),
            },
            PlayerRequest::Search(hunt) => PlayerResponse::Found(search_result(&hunt)),
            PlayerRequest::Landmark(at, true) => {
                PlayerResponse::Landmark(Some(at + 100).filter(|at| *at < to))
            }
            PlayerRequest::Landmark(at, false) => PlayerResponse::Landmark(at.checked_sub(100)),
            PlayerRequest::Everywhere(words) => PlayerResponse::Everywhere(hits(&words)),
        });
    }
}

/// Returns hits of a search in all sessions: one in this session, and one in another.
fn hits(words: &str) -> Vec<SessionHit> {
    let hit = |session: &str, position| SessionHit {
        session: session.to_owned(),
        title: format!("Title of {session}"),
        position,
        line: format!("it says {words} here"),
    };
    if words == "zebra" { Vec::new() } else { vec![hit("trip", 7), hit("walk", 40)] }
}

/// Returns the result of a search among events that contain their numbers.
fn search_result(hunt: &WrappedSearch) -> Option<SearchEnd> {
    let holds = |at: &u64| format!("event number {at}").contains(&hunt.needle);
    let found = |wrapped| move |at| SearchEnd { at, wrapped };
    let WrappedSearch { at, from, to, .. } = *hunt;
    match hunt.forward {
        true => (at + 1..to)
            .find(holds)
            .map(found(false))
            .or_else(|| (from..=at).find(holds).map(found(true))),
        false => (from..at)
            .rev()
            .find(holds)
            .map(found(false))
            .or_else(|| (at..to).rev().find(holds).map(found(true))),
    }
}

pub(super) fn type_keys(player: &mut Player, text: &str) {
    for c in text.chars() {
        player.handle_key(if c == '\n' { PlayerKey::Enter } else { PlayerKey::Char(c) });
    }
    fulfil_requests(player);
}

#[test]
fn keys_move_the_cursor_and_stop_at_both_ends() {
    let mut player = player(1_000);
    for (keys, at) in [
        ("k", 0),
        ("jjj", 3),
        ("k", 2),
        ("G", 999),
        ("j", 999),
        ("g", 0),
        (":450\n", 450),
        (":nowhere\n", 450),
        ("/number 777\n", 777),
        ("n", 777),
        ("N", 777),
        (":5\n", 5),
        ("n", 777),
        (":1000\n", 777),
        (":end\n", 999),
        (":12\n:time:later\n", 12),
    ] {
        type_keys(&mut player, keys);
        assert_eq!(player.at, at, "{keys:?}");
        assert!(player.row(at).is_some(), "{keys:?}: the event is there");
        assert_eq!(player.view.as_ref().map(|view| view.1), Some(at + 1), "{keys:?}");
    }
    player.handle_key(PlayerKey::PageDown);
    player.handle_key(PlayerKey::PageUp);
    player.handle_key(PlayerKey::Home);
    assert_eq!(player.at, 0);
    player.handle_key(PlayerKey::End);
    assert_eq!(player.at, 999);
}

#[test]
fn the_view_key_cycles_through_views_at_the_current_position() {
    let mut player = player(100);
    type_keys(&mut player, ":41\n");
    let all = [
        (ShownView::Continuation, "how to continue as of 42"),
        (ShownView::Window, "what a model sees as of 42"),
        (ShownView::Compactions, "what compactions took as of 42"),
        (ShownView::Usage, "how full the context is as of 42"),
        (ShownView::Index, "the session as of 42"),
    ];
    for (shown, title) in all {
        player.handle_key(PlayerKey::Char('v'));
        let frame_before = frame(&mut player, 120, 30).join("\n");
        assert!(!frame_before.contains("42 steps"), "another view's lines: {frame_before}");
        fulfil_requests(&mut player);
        assert!(player.is_view_fresh(), "{shown:?}");
        let all = frame(&mut player, 120, 30).join("\n");
        assert!(all.contains(title), "{all}");
        assert_eq!(all.contains(&format!("see {shown:?}")), is_selection(shown), "{all}");
    }
}

fn is_selection(shown: ShownView) -> bool {
    matches!(shown, ShownView::Index | ShownView::Continuation)
}

#[test]
fn keys_typed_into_a_prompt_are_text_and_not_commands() {
    let mut player = player(10);
    type_keys(&mut player, "/quit");
    assert_eq!(player.prompt, Some((PromptKind::Search, "quit".to_owned())));
    player.handle_key(PlayerKey::Backspace);
    assert!(!player.done);
    player.handle_key(PlayerKey::Escape);
    assert!(player.prompt.is_none() && !player.done);
    type_keys(&mut player, "/zebra\n");
    assert!(player.message.as_deref().is_some_and(|told| told.contains("zebra")));
    type_keys(&mut player, "?q");
    assert!(!player.done, "the first key closes the help");
    type_keys(&mut player, "q");
    assert!(player.done);
}

#[test]
fn playback_follows_event_times_and_stops_at_the_last_event() {
    let mut player = player(10);
    let second = Duration::from_secs(1);
    player.tick(second);
    assert_eq!(player.at, 0, "it stands until it is told to play");
    type_keys(&mut player, " ");
    player.tick(second / 2);
    assert_eq!(player.at, 0);
    player.tick(second / 2);
    assert_eq!(player.at, 1);
    type_keys(&mut player, "++");
    player.tick(second);
    assert_eq!(player.at, 5, "four times as fast");
    type_keys(&mut player, " ");
    player.tick(second);
    assert_eq!(player.at, 5, "it is paused");
    type_keys(&mut player, " ");
    (0..5).for_each(|_| player.tick(second));
    assert_eq!((player.at, player.playing), (9, false));
}

#[test]
fn the_pause_between_two_events_is_bounded_at_every_speed() {
    let at = |seconds: i64| Some(Timestamp(seconds * 1_000_000));
    for (before, after, speed, expected) in [
        (at(0), at(2), 4.0, Duration::from_millis(500)),
        (at(0), at(40_000), 1.0, PAUSE_MAX),
        (at(5), at(0), 1.0, PAUSE_MIN),
        (at(5), at(5), 4.0, PAUSE_MIN / 4),
        (at(5), at(5), 1.0 / 16.0, PAUSE_MAX),
        (None, at(0), 1.0, PAUSE_MIN),
    ] {
        assert_eq!(playback_pause(before, after, speed), expected);
    }
}

#[test]
fn only_pages_near_the_current_position_are_kept_in_memory() {
    let mut player = player(1_000_000);
    for at in (0..1_000_000).step_by(10_007) {
        player.handle_key(PlayerKey::Char(':'));
        type_keys(&mut player, &format!("{at}\n"));
        assert!(player.row(at).is_some());
    }
    assert!(player.rows.page_count() <= PAGES_MAX);
}

#[test]
fn a_failed_request_is_shown_and_not_retried() {
    let mut player = Player::new("trip".to_owned(), (0, 10), None);
    for _ in 0..10 {
        if player.next_request().is_none() {
            break;
        }
        player.handle_result(PlayerResponse::Failed("the session is damaged".to_owned()));
    }
    assert_eq!(player.next_request(), None);
    assert_eq!(player.message.as_deref(), Some("the session is damaged"));
    let mut empty = Player::new("trip".to_owned(), (0, 0), Some(2.0));
    assert_eq!(empty.next_request(), None);
    empty.tick(Duration::from_secs(1));
    type_keys(&mut empty, "jkgGn");
    assert_eq!(empty.at, 0);
}

pub(super) fn frame(player: &mut Player, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(player, frame)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>();
    (0..height).map(|y| line(y).trim_end().to_owned()).collect()
}

#[test]
fn a_wide_frame_shows_timeline_event_and_view_side_by_side() {
    let mut player = player(1_000);
    player.start = Some(Timestamp(0));
    player.handle_key(PlayerKey::Down);
    fulfil_requests(&mut player);
    let frame = frame(&mut player, 100, 14);
    let all = frame.join("\n");
    assert!(frame[0].starts_with(" trip   position 1  (2 of 1000)  || 1x"), "{all}");
    assert!(frame[2].starts_with("   0 +0:00 user.message"), "{all}");
    assert!(frame[3].contains("1 +0:01 agent.message"), "{all}");
    assert!(frame[1].contains("timeline") && frame[1].contains("agent.message · +0:01"), "{all}");
    let at = frame[1].chars().position(|c| c == '┬').unwrap();
    let line: String = frame[1..13].iter().map(|row| row.chars().nth(at).unwrap()).collect();
    assert_eq!(line, "┬││││││├││││", "{all}");
    assert!(all.contains("its second line"), "{all}");
    assert!(all.contains("the session as of 2") && all.contains("2 steps"), "{all}");
    assert!(frame[13].contains("z enlarge") && frame[13].contains("q leave"), "{all}");
}

#[test]
fn a_narrow_frame_stacks_its_panes_and_a_tiny_one_does_not_panic() {
    let mut player = player(3);
    let all = frame(&mut player, 60, 20).join("\n");
    assert!(all.contains("timeline") && all.contains("event number 0"), "{all}");
    assert!(all.contains("the session as of 1"), "{all}");
    player.handle_key(PlayerKey::Char('?'));
    assert!(frame(&mut player, 60, 20).join("\n").contains("fifteen"));
    for (width, height) in [(1, 1), (10, 3), (3, 40), (200, 2)] {
        let _ = frame(&mut player, width, height);
    }
}

#[test]
fn a_prompt_and_an_error_are_shown_in_the_last_line() {
    let mut player = player(30);
    for c in ":ste".chars() {
        player.handle_key(PlayerKey::Char(c));
    }
    assert_eq!(frame(&mut player, 100, 10)[9], ":ste▏");
    player.handle_key(PlayerKey::Enter);
    fulfil_requests(&mut player);
    assert_eq!(frame(&mut player, 100, 10)[9], "ste not found (tail is 3)");
    for c in " ++".chars() {
        player.handle_key(PlayerKey::Char(c));
    }
    assert!(frame(&mut player, 100, 10)[0].contains("> 4x"));
}

#[test]
fn at_the_end_of_a_session_the_last_events_fill_the_timeline() {
    let mut player = player(500);
    player.handle_key(PlayerKey::End);
    fulfil_requests(&mut player);
    let frame = frame(&mut player, 100, 12);
    assert!(frame[10].contains(" 499 "), "{}", frame.join("\n"));
    assert!(frame[2].contains(" 491 "), "{}", frame.join("\n"));
}

#[test]
fn escape_closes_a_message_and_never_quits_the_player() {
    let mut player = player(30);
    type_keys(&mut player, ":99\n");
    assert_eq!(player.message.as_deref(), Some("99 is past the last event, 29"));
    player.handle_key(PlayerKey::Escape);
    assert!(player.message.is_none() && player.prompt.is_none() && !player.done);
    type_keys(&mut player, ":nowhere\n");
    player.handle_key(PlayerKey::Escape);
    player.handle_key(PlayerKey::Escape);
    assert!(player.message.is_none() && !player.done);
    type_keys(&mut player, "q");
    assert!(player.done);
}

#[test]
fn a_jump_beyond_the_loaded_events_shows_a_notice() {
    let mut player = Player::new("trip".to_owned(), (10, 20), None);
    fulfil_requests(&mut player);
    for (point, told) in [
        ("9", "9 is before the first event shown, 10"),
        ("20", "20 is past the last event, 19"),
        ("time:later", "time:later is past the last event, 19"),
    ] {
        type_keys(&mut player, &format!(":{point}\n"));
        assert_eq!((player.message.as_deref(), player.at), (Some(told), 10));
    }
    type_keys(&mut player, ":end\n");
    assert_eq!((player.message.as_deref(), player.at), (None, 19));
    let mut empty = Player::new("trip".to_owned(), (0, 0), None);
    type_keys(&mut empty, ":0\n");
    assert_eq!(empty.message.as_deref(), Some("there is no event"));
}

#[test]
fn search_steps_through_matches_and_wraps_with_a_notice() {
    let mut player = player(40);
    let text = |count: usize| vec!["Needle"; count].join("\n");
    let mut page = rows(0, 40);
    for (at, count) in [(5, 3), (30, 2)] {
        page[at].text = text(count);
    }
    player.handle_result(PlayerResponse::Page(0, page));
    type_keys(&mut player, ":5\n");
    let mut told = Vec::new();
    for key in ["/needle\n", "n", "n", "n", "n", "n", "N", "N"] {
        for c in key.chars() {
            player.handle_key(if c == '\n' { PlayerKey::Enter } else { PlayerKey::Char(c) });
        }
        while let Some(want) = player.next_request() {
            let PlayerRequest::Search(WrappedSearch { at, forward, .. }) = want else {
                panic!("{want:?}")
            };
            let (at, wrapped) = match (at, forward) {
                (5, true) => (30, false),
                (30, true) => (5, true),
                (30, false) => (5, false),
                _ => (30, true),
            };
            player.handle_result(PlayerResponse::Found(Some(SearchEnd { at, wrapped })));
            player.view = Some((player.shown, player.at + 1, json!({})));
        }
        told.push((player.at, player.message.clone().unwrap_or_default()));
    }
    let said: Vec<(u64, &str)> = told.iter().map(|(at, text)| (*at, text.as_str())).collect();
    assert_eq!(
        said,
        [
            (5, "match 1 of 3 in this event"),
            (5, "match 2 of 3 in this event"),
            (5, "match 3 of 3 in this event"),
            (30, "match 1 of 2 in this event"),
            (30, "match 2 of 2 in this event"),
            (5, "search wrapped to the first event"),
            (30, "search wrapped to the last event"),
            (30, "match 1 of 2 in this event"),
        ]
    );
}

#[test]
fn the_pane_scrolls_to_the_current_match() {
    let mut player = player(3);
    let mut page = rows(0, 3);
    page[0].text = format!("{}needle", "line\n".repeat(80));
    player.handle_result(PlayerResponse::Page(0, page));
    assert!(!frame(&mut player, 100, 14).join("\n").contains("needle"));
    type_keys(&mut player, "/needle\n");
    let frame = frame(&mut player, 100, 14).join("\n");
    assert!(frame.contains("needle") && frame.contains("of 81"), "{frame}");
}

#[test]
fn a_tool_call_and_its_result_are_shown_together() {
    let mut player = player(3);
    player.start = Some(Timestamp(0));
    let mut page = rows(0, 3);
    let link = |id: &str| Some(CallLink::Call(id.to_owned()));
    (page[0].text, page[0].link) = ("find  to: Ghent".to_owned(), link("c"));
    (page[1].text, page[1].link) = ("lost call".to_owned(), link("d"));
    page[2].text = "two trains".to_owned();
    page[2].link = Some(CallLink::Result("c".to_owned()));
    player.handle_result(PlayerResponse::Page(0, page));
    let call = frame(&mut player, 120, 24).join("\n");
    assert!(call.contains("Result at 2, took 2.0 s") && call.contains("↳ two trains"), "{call}");
    player.handle_key(PlayerKey::Down);
    let lost = frame(&mut player, 120, 24).join("\n");
    assert!(lost.contains("no result was recorded"), "{lost}");
    player.handle_key(PlayerKey::Down);
    let result = frame(&mut player, 120, 24).join("\n");
    assert!(result.contains("answers the call at 0, took 2.0 s"), "{result}");
    assert_eq!(result.matches("find  to: Ghent").count(), 1, "below the head: {result}");
    assert_eq!(result.matches("find to: Ghent").count(), 1, "in the timeline: {result}");
}

#[test]
fn new_events_are_shown_on_arrival_and_playback_continues() {
    let mut player = player(199);
    type_keys(&mut player, "Gf");
    assert!(player.follows && player.at == 198);
    player.append_rows((199..203).map(event).collect());
    fulfil_requests(&mut player);
    assert_eq!((player.to, player.at), (203, 202), "a reader at the end stays there");
    assert!((0..203).all(|at| player.row(at).is_some()), "on both pages");
    player.append_rows(vec![event(203), event(202)]);
    assert_eq!((player.to, player.at), (204, 203), "an event that is known is not taken again");
    type_keys(&mut player, "g");
    player.append_rows(vec![event(204)]);
    assert_eq!((player.to, player.at), (205, 0), "a reader who looks back is left there");
    type_keys(&mut player, ":203\n ");
    (0..9).for_each(|_| player.tick(Duration::from_secs(1)));
    assert_eq!((player.at, player.playing), (204, true), "at the end it waits");
    player.append_rows(vec![event(205)]);
    assert_eq!(player.at, 204, "an event has its pause");
    (0..9).for_each(|_| player.tick(Duration::from_secs(1)));
    assert_eq!((player.at, player.playing), (205, true));
    let mut empty = Player::new("trip".to_owned(), (0, 0), None);
    empty.handle_key(PlayerKey::Char('f'));
    assert!(frame(&mut empty, 80, 20).join("\n").contains("waiting for the first event"));
    empty.append_rows(vec![event(0)]);
    fulfil_requests(&mut empty);
    assert!(empty.row(0).is_some() && empty.start == Some(Timestamp(0)));
}

#[test]
fn events_that_arrive_while_their_page_is_fetched_are_kept() {
    let mut player = Player::new("trip".to_owned(), (0, 3), None);
    assert_eq!(player.next_request(), Some(PlayerRequest::Page(0, 3)));
    player.append_rows(vec![event(3), event(4)]);
    player.handle_result(PlayerResponse::Page(0, rows(0, 3)));
    assert_eq!(
        player.next_request(),
        Some(PlayerRequest::Page(0, 5)),
        "the page is asked for again"
    );
    player.handle_result(PlayerResponse::Page(0, rows(0, 4)));
    let wants: Vec<Option<PlayerRequest>> = (0..2).map(|_| player.next_request()).collect();
    assert_eq!(
        wants,
        [Some(PlayerRequest::View(ShownView::Index, 1)), None],
        "a short page is given up"
    );
}

#[test]
fn control_sequences_in_recorded_text_are_removed_and_tabs_expanded() {
    let bad = "a\u{9b}31m\u{202e}\u{1b}[2J\tb";
    let mut player = Player::new("trip".to_owned(), (0, 1), None);
    let row = EventRow { text: bad.to_owned(), kind: bad.to_owned(), ..event(0) };
    player.handle_result(PlayerResponse::Page(0, vec![row]));
    player.handle_result(PlayerResponse::View(
        ShownView::Index,
        1,
        json!({"goal": bad, "next": [bad]}),
    ));
    player.message = Some(bad.to_owned());
    let all = frame(&mut player, 160, 40).join("\n");
    let steers = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
    assert!(!all.contains(steers), "{all}");
    assert!(all.contains("\\u009b31m\\u202e\\u001b[2J    b"), "{all}");
}

#[test]
fn a_pane_is_enlarged_and_restored() {
    let mut player = player(9);
    let frame = |player: &mut Player| frame(player, 80, 24).join("\n");
    assert!(frame(&mut player).contains("timeline"));
    for (key, shown, gone) in [
        ('z', "event number 0", "timeline"),
        ('z', "the session as of 1", "event number 0"),
        ('z', "timeline", "nothing"),
    ] {
        player.handle_key(PlayerKey::Char(key));
        let text = frame(&mut player);
        assert!(text.contains(shown) && !text.contains(gone), "{text}");
    }
    player.handle_key(PlayerKey::Char('z'));
    player.handle_key(PlayerKey::Escape);
    assert!(frame(&mut player).contains("timeline"));
}

#[test]
fn a_type_filter_limits_the_events_shown_and_stepped_through() {
    let mut player = player(450);
    type_keys(&mut player, "ttool\n");
    assert_eq!(player.at, 2, "the first of that type");
    player.handle_key(PlayerKey::Down);
    assert_eq!(player.at, 5);
    player.handle_key(PlayerKey::PageDown);
    assert_eq!(player.at, 50);
    let text = frame(&mut player, 80, 24).join("\n");
    assert!(text.contains("only tool") && text.contains("agent.tool_use"), "{text}");
    assert!(!text.contains("user.message") && !text.contains("agent.message"), "{text}");
    player.handle_key(PlayerKey::Up);
    assert_eq!(player.at, 47);
    // Beyond the loaded events it continues once they are loaded.
    for _ in 0..60 {
        player.handle_key(PlayerKey::PageDown);
        fulfil_requests(&mut player);
    }
    assert_eq!(player.at, 449);
    player.handle_key(PlayerKey::Down);
    assert!(player.message.as_deref().is_some_and(|text| text.contains("no event of type tool")));
    player.handle_key(PlayerKey::Escape);
    player.handle_key(PlayerKey::Up);
    assert_eq!(player.at, 448);
}

/// Returns an event as the server lists it.
fn listed(position: u64, kind: RowKind, line: &str) -> EventRow {
    let row = Row {
        position: Position(position),
        id: EventId::new(&format!("e{position}")).unwrap(),
        event_type: "agent.tool_use".to_owned(),
        at: Timestamp(0),
        kind,
        bookkeeping: kind == RowKind::Status,
        origin: "user".to_owned(),
        thread: None,
        line: line.to_owned(),
        bytes: 10,
        tool: None,
        call_id: None,
        result: None,
        of: None,
        outcome: None,
        duration_ms: None,
        failed: false,
        added: None,
        removed: None,
        path: None,
        tokens: None,
        dropped: None,
        content: None,
    };
    EventRow { row: Some(row), text: line.to_owned(), ..event(position) }
}

/// Returns a status, a request, an edit with its result, a failed command with its result, a
/// status.
pub(super) fn worked() -> Vec<EventRow> {
    let mut rows = vec![
        listed(0, RowKind::Status, "running"),
        listed(1, RowKind::User, "mend the report"),
        listed(2, RowKind::Call, "Edit wx/report.py"),
        listed(3, RowKind::Result, "changed"),
        listed(4, RowKind::Call, "$ pytest -q"),
        listed(5, RowKind::Result, "E  assert 1 == 2"),
        listed(6, RowKind::Status, "idle"),
    ];
    rows[2].edit =
        vec![(' ', "a = 1".to_owned()), ('-', "b = 2".to_owned()), ('+', "b = 3".to_owned())];
    for (at, of, id) in [(3, 2, "c"), (5, 4, "d")] {
        rows[at].row.as_mut().unwrap().of = Some(Position(of));
        rows[at].link = Some(CallLink::Result(id.to_owned()));
        rows[of as usize].link = Some(CallLink::Call(id.to_owned()));
    }
    let edit = rows[2].row.as_mut().unwrap();
    (edit.added, edit.removed, edit.duration_ms) = (Some(9), Some(2), Some(68));
    for at in [4, 5] {
        let run = rows[at].row.as_mut().unwrap();
        (run.failed, run.outcome) = (true, Some("1 failed".to_owned()));
    }
    rows
}

pub(super) fn worked_player() -> Player {
    let mut player = Player::new("trip".to_owned(), (0, 7), None);
    player.handle_result(PlayerResponse::Page(0, worked()));
    player
}

/// Returns the text drawn in a colour.
fn drawn_in(player: &mut Player, colour: Color) -> String {
    let mut terminal = Terminal::new(TestBackend::new(120, 30)).unwrap();
    terminal.draw(|frame| draw(player, frame)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let cells = buffer.content().iter().filter(|cell| cell.fg == colour);
    cells.map(|cell| cell.symbol().to_owned()).collect()
}

#[test]
fn a_call_and_its_result_are_one_row_and_bookkeeping_is_hidden_until_a_key_shows_it() {
    let mut player = worked_player();
    assert_eq!(player.at, 1, "it opens at the first event that a person reads");
    let shown = frame(&mut player, 120, 24).join("\n");
    for text in ["Edit wx/report.py  +9  -2  68 ms", "$ pytest -q  1 failed", "mend the report"] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    assert!(!shown.contains("running") && !shown.contains("E  assert"), "{shown}");
    for (key, at) in [('j', 2), ('j', 4), ('j', 4), ('k', 2), ('G', 4), ('g', 1)] {
        player.handle_key(PlayerKey::Char(key));
        assert_eq!(player.at, at, "{key}");
    }
    player.handle_key(PlayerKey::Char('b'));
    let all = frame(&mut player, 120, 24).join("\n");
    assert!(all.contains("running") && all.contains("↳ E  assert 1 == 2"), "{all}");
    assert!(all.contains("timeline · every event"), "{all}");
    player.handle_key(PlayerKey::Char('g'));
    assert_eq!(player.at, 0);
    player.handle_key(PlayerKey::Char('b'));
    type_keys(&mut player, ":5\n");
    assert_eq!(player.at, 5, "a jump reaches a hidden event");
    assert!(frame(&mut player, 120, 24).join("\n").contains("↳ E  assert 1 == 2"));
}

#[test]
fn a_failure_is_red_and_an_edit_shows_its_lines_in_their_colours() {
    let mut player = worked_player();
    let red = drawn_in(&mut player, Color::Red);
    assert!(red.contains("$ pytest -q") && red.contains("1 failed") && red.contains("-2"), "{red}");
    assert!(!red.contains("report.py"), "{red}");
    assert!(drawn_in(&mut player, Color::Green).contains("+9"));
    player.handle_key(PlayerKey::Char('j'));
    let (red, green) = (drawn_in(&mut player, Color::Red), drawn_in(&mut player, Color::Green));
    assert!(red.contains("- b = 2") && green.contains("+ b = 3"), "{red} {green}");
    player.handle_key(PlayerKey::Char('j'));
    let red = drawn_in(&mut player, Color::Red);
    assert!(red.contains("E  assert 1 == 2"), "the result below the call: {red}");
}

#[test]
fn the_head_shows_the_title_and_the_id_where_it_fits() {
    let mut player = worked_player();
    player.title = "Mend the weather report".to_owned();
    let wide = frame(&mut player, 120, 10);
    assert!(wide[0].starts_with(" Mend the weather report   position 1  (2 of 7)"), "{}", wide[0]);
    assert!(wide[0].ends_with("  trip"), "{}", wide[0]);
    player.title = "A title that is too long for any head ".repeat(5);
    let narrow = frame(&mut player, 60, 10);
    assert!(narrow[0].contains("position 1  (2 of 7)"), "{}", narrow[0]);
}

#[test]
fn brackets_jump_to_the_next_and_the_previous_landmark() {
    let mut player = player(250);
    for (keys, at, told) in [
        ("]", 100, None),
        ("]", 200, None),
        ("]", 200, Some("no failure, compaction or request after this event")),
        ("[", 100, None),
        ("[", 0, None),
        ("[", 0, Some("no failure, compaction or request before this event")),
    ] {
        type_keys(&mut player, keys);
        assert_eq!((player.at, player.message.as_deref()), (at, told), "{keys}");
    }
}

#[test]
fn a_step_past_the_last_event_of_a_type_says_that_none_comes_after_it() {
    let mut player = player(30);
    type_keys(&mut player, "tagent.tool_use\nGj");
    let message = player.message.clone().unwrap_or_default();
    assert!(message.contains("agent.tool_use after this one"), "{message}");
}

#[test]
fn a_hit_in_another_session_opens_it_and_a_key_returns() {
    let mut player = player(50);
    type_keys(&mut player, "szebra\n");
    assert_eq!(player.message.as_deref(), Some("\"zebra\" is in no session"));
    type_keys(&mut player, "sghent\n");
    let shown = frame(&mut player, 100, 20).join("\n");
    assert!(shown.contains("1 of 2 hits") && shown.contains("Title of walk  40"), "{shown}");
    player.handle_key(PlayerKey::Enter);
    assert_eq!((player.at, player.opens.clone()), (7, None), "a hit in this session");
    for keys in ["sghent\n", "j\n"] {
        type_keys(&mut player, keys);
    }
    assert_eq!(player.opens, Some(("walk".to_owned(), 40)));
    assert_eq!(player.before, [("trip".to_owned(), 7)]);
    player.opens = None;
    type_keys(&mut player, "o");
    assert_eq!((player.opens.clone(), player.before.len()), (Some(("trip".to_owned(), 7)), 0));
    player.opens = None;
    type_keys(&mut player, "o");
    assert_eq!(player.message.as_deref(), Some("this session was opened first"));
    for keys in ["sghent\n", "q"] {
        type_keys(&mut player, keys);
    }
    assert!(player.hits.is_none() && !player.done, "q closes the list");
}

#[test]
fn a_result_that_arrives_completes_the_row_of_its_call() {
    let mut player = Player::new("trip".to_owned(), (0, 5), None);
    let mut rows = worked();
    let result = rows.remove(5);
    rows.truncate(5);
    let call = rows[4].row.as_mut().unwrap();
    (call.failed, call.outcome) = (false, None);
    player.handle_result(PlayerResponse::Page(0, rows));
    assert!(!frame(&mut player, 120, 24).join("\n").contains("1 failed"));
    player.append_rows(vec![result]);
    assert!(frame(&mut player, 120, 24).join("\n").contains("$ pytest -q  1 failed"));
}
