//! The player by its keys and its frames: what a key does, what is shown, what is asked for.

use std::time::Duration;

use ratatui::{Terminal, backend::TestBackend};

use super::{
    draw::draw,
    state::{
        Key, News, PAGE_EVENTS, PAGES_MAX, PAUSE_MAX, Player, Prompt, Row, Shown, Want, pause,
    },
};
use crate::event::Timestamp;

/// Events a second apart, of three types.
fn rows(page: u64, to: u64) -> Vec<Row> {
    let kinds = ["user.message", "agent.message", "agent.tool_use"];
    (page * PAGE_EVENTS..((page + 1) * PAGE_EVENTS).min(to))
        .map(|position| Row {
            position,
            kind: kinds[position as usize % 3].to_owned(),
            origin: "user".to_owned(),
            time: Some(Timestamp(position as i64 * 1_000_000)),
            text: format!("event number {position}\nits second line"),
        })
        .collect()
}

/// A player of so many events that has what it wants at once.
fn player(events: u64) -> Player {
    let mut player = Player::new("trip".to_owned(), (0, events), None);
    feed(&mut player);
    player
}

/// Gives it everything it wants.
fn feed(player: &mut Player) {
    while let Some(want) = player.want() {
        let to = player.to;
        player.news(match want {
            Want::Page(page) => News::Page(page, rows(page, to)),
            Want::View(shown, at) => {
                let lines = vec![format!("{shown:?} as of {at}"), "goal: see".to_owned()];
                News::View(shown, at, lines)
            }
            Want::Point(text) => match text.parse() {
                Ok(at) => News::Point(at),
                Err(_) => News::Failed(format!("{text} names no position here")),
            },
            Want::Search { needle, from, forward } => {
                let hit = |at: &u64| format!("event number {at}").contains(&needle);
                News::Found(match forward {
                    true => (from + 1..to).find(hit),
                    false => (0..from).rev().find(hit),
                })
            }
        });
    }
}

fn typed(player: &mut Player, text: &str) {
    for c in text.chars() {
        player.key(if c == '\n' { Key::Enter } else { Key::Char(c) });
    }
    feed(player);
}

#[test]
fn keys_move_the_reader_and_never_past_the_ends() {
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
    ] {
        typed(&mut player, keys);
        assert_eq!(player.at, at, "{keys:?}");
        assert!(player.row(at).is_some(), "{keys:?}: the event is there");
        assert_eq!(player.view.as_ref().map(|view| view.1), Some(at + 1), "{keys:?}");
    }
    player.key(Key::PageDown);
    player.key(Key::PageUp);
    player.key(Key::Home);
    assert_eq!(player.at, 0);
    player.key(Key::End);
    assert_eq!(player.at, 999);
}

#[test]
fn each_view_comes_in_turn_as_of_where_the_reader_stands() {
    let mut player = player(100);
    typed(&mut player, ":41\n");
    let all = [
        (Shown::Continuation, "how to go on as of 42"),
        (Shown::Window, "what a model sees as of 42"),
        (Shown::Compactions, "what compactions took as of 42"),
        (Shown::Usage, "how full the context is as of 42"),
        (Shown::Index, "the session as of 42"),
    ];
    for (shown, title) in all {
        player.key(Key::Char('v'));
        let frame_before = frame(&player, 120, 30).join("\n");
        assert!(!frame_before.contains("goal: see"), "another view's lines: {frame_before}");
        feed(&mut player);
        assert!(player.is_fresh(), "{shown:?}");
        let all = frame(&player, 120, 30).join("\n");
        assert!(all.contains(title) && all.contains(&format!("{shown:?} as of 42")), "{all}");
    }
    typed(&mut player, "}");
    let scrolled = frame(&player, 120, 30).join("\n");
    assert!(!scrolled.contains("Index as of 42"), "{scrolled}");
    typed(&mut player, "{");
    assert!(frame(&player, 120, 30).join("\n").contains("Index as of 42"));
}

#[test]
fn what_is_typed_is_a_text_and_no_command() {
    let mut player = player(10);
    typed(&mut player, "/quit");
    assert_eq!(player.prompt, Some((Prompt::Search, "quit".to_owned())));
    player.key(Key::Backspace);
    assert!(!player.done);
    player.key(Key::Escape);
    assert!(player.prompt.is_none() && !player.done);
    typed(&mut player, "/zebra\n");
    assert!(player.message.as_deref().is_some_and(|told| told.contains("zebra")));
    typed(&mut player, "?q");
    assert!(!player.done, "the first key closes the help");
    typed(&mut player, "q");
    assert!(player.done);
}

#[test]
fn it_plays_at_the_speed_of_the_events_and_stops_at_the_last() {
    let mut player = player(10);
    let second = Duration::from_secs(1);
    player.tick(second);
    assert_eq!(player.at, 0, "it stands until it is told to play");
    typed(&mut player, " ");
    player.tick(second / 2);
    assert_eq!(player.at, 0);
    player.tick(second / 2);
    assert_eq!(player.at, 1);
    typed(&mut player, "++");
    player.tick(second);
    assert_eq!(player.at, 5, "four times as fast");
    typed(&mut player, " ");
    player.tick(second);
    assert_eq!(player.at, 5, "it is paused");
    typed(&mut player, " ");
    (0..5).for_each(|_| player.tick(second));
    assert_eq!((player.at, player.playing), (9, false));
}

#[test]
fn a_night_between_two_events_is_not_waited_for() {
    let at = |seconds: i64| Some(Timestamp(seconds * 1_000_000));
    for (before, after, speed, expected) in [
        (at(0), at(2), 4.0, Duration::from_millis(500)),
        (at(0), at(40_000), 1.0, PAUSE_MAX),
        (at(5), at(0), 1.0, Duration::ZERO),
        (None, at(0), 1.0, Duration::ZERO),
    ] {
        assert_eq!(pause(before, after, speed), expected);
    }
}

#[test]
fn of_a_long_session_only_what_lies_near_is_kept() {
    let mut player = player(1_000_000);
    for at in (0..1_000_000).step_by(10_007) {
        player.key(Key::Char(':'));
        typed(&mut player, &format!("{at}\n"));
        assert!(player.row(at).is_some());
    }
    assert!(player.pages.len() <= PAGES_MAX);
}

#[test]
fn what_cannot_be_had_is_told_and_not_asked_for_again() {
    let mut player = Player::new("trip".to_owned(), (0, 10), None);
    for _ in 0..10 {
        if player.want().is_none() {
            break;
        }
        player.news(News::Failed("the session is damaged".to_owned()));
    }
    assert_eq!(player.want(), None);
    assert_eq!(player.message.as_deref(), Some("the session is damaged"));
    let mut empty = Player::new("trip".to_owned(), (0, 0), Some(2.0));
    assert_eq!(empty.want(), None);
    empty.tick(Duration::from_secs(1));
    typed(&mut empty, "jkgGn");
    assert_eq!(empty.at, 0);
}

fn frame(player: &Player, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(player, frame)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>();
    (0..height).map(|y| line(y).trim_end().to_owned()).collect()
}

#[test]
fn a_wide_frame_has_the_timeline_the_event_and_the_view_beside_each_other() {
    let mut player = player(1_000);
    player.key(Key::Down);
    feed(&mut player);
    let frame = frame(&player, 100, 14);
    let all = frame.join("\n");
    assert!(frame[0].starts_with(" trip   position 1  (2 of 1000)  ⏸ 1x"), "{all}");
    assert!(frame[2].starts_with("   0 00:00:00 user.message"), "{all}");
    assert!(frame[3].contains("1 00:00:01 agent.message"), "{all}");
    assert!(frame[1].contains("timeline") && frame[1].contains("agent.message  1970"), "{all}");
    assert!(all.contains("its second line"), "{all}");
    assert!(all.contains("the session as of 2") && all.contains("as of 2"), "{all}");
    assert!(frame[13].contains("v view") && frame[13].contains("q leave"), "{all}");
}

#[test]
fn a_narrow_frame_has_them_below_each_other_and_a_tiny_one_does_not_panic() {
    let mut player = player(3);
    let all = frame(&player, 60, 20).join("\n");
    assert!(all.contains("timeline") && all.contains("event number 0"), "{all}");
    assert!(all.contains("the session as of 1"), "{all}");
    player.key(Key::Char('?'));
    assert!(frame(&player, 60, 20).join("\n").contains("fifteen"));
    for (width, height) in [(1, 1), (10, 3), (3, 40), (200, 2)] {
        let _ = frame(&player, width, height);
    }
}

#[test]
fn what_is_typed_and_what_went_wrong_stand_at_the_foot() {
    let mut player = player(30);
    for c in ":ste".chars() {
        player.key(Key::Char(c));
    }
    assert_eq!(frame(&player, 100, 10)[9], ":ste▏");
    player.key(Key::Enter);
    feed(&mut player);
    assert_eq!(frame(&player, 100, 10)[9], "ste names no position here");
    for c in " ++".chars() {
        player.key(Key::Char(c));
    }
    assert!(frame(&player, 100, 10)[0].contains("▶ 4x"));
}

#[test]
fn the_last_events_fill_the_timeline_to_its_end() {
    let mut player = player(500);
    player.key(Key::End);
    feed(&mut player);
    let frame = frame(&player, 100, 12);
    assert!(frame[10].contains(" 499 "), "{}", frame.join("\n"));
    assert!(frame[2].contains(" 491 "), "{}", frame.join("\n"));
}
