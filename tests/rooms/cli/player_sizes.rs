//! The player at every size of a terminal, with wide characters, without events, and the keys that
//! edit its prompt.

use sessionlog::cli::player::{PlayerKey, PlayerResponse, PromptKind};

use super::player::{frame, player, type_keys, worked, worked_player};

#[test]
fn editing_keys_change_the_text_of_a_prompt_and_do_nothing_without_one() {
    let mut player = player(30);
    for (keys, typed) in [
        (&[PlayerKey::ClearPrompt][..], ""),
        (&[PlayerKey::RemoveWord], "two "),
        (&[PlayerKey::RemoveWord, PlayerKey::RemoveWord], ""),
        (&[PlayerKey::Backspace, PlayerKey::Backspace], "two wor"),
        (&[PlayerKey::Char(' '), PlayerKey::RemoveWord], "two "),
    ] {
        type_keys(&mut player, "/two words");
        keys.iter().for_each(|key| player.handle_key(*key));
        assert_eq!(player.prompt, Some((PromptKind::Search, typed.to_owned())), "{keys:?}");
        player.handle_key(PlayerKey::Escape);
    }
    let before = frame(&mut player, 80, 24);
    player.handle_key(PlayerKey::ClearPrompt);
    player.handle_key(PlayerKey::RemoveWord);
    assert_eq!(frame(&mut player, 80, 24), before);
    player.handle_key(PlayerKey::Suspend);
    assert!(player.suspends && !player.done);
}

#[test]
fn the_help_wraps_at_every_size_and_scrolls_where_it_is_higher_than_the_screen() {
    let mut player = player(3);
    for (width, height) in [(40, 12), (60, 16), (80, 24), (120, 30)] {
        player.handle_key(PlayerKey::Char('?'));
        let mut words: Vec<String> = Vec::new();
        for _ in 0..20 {
            let shown = frame(&mut player, width, height);
            let lines = shown.iter().filter_map(|line| line.split('│').nth(1));
            words.extend(lines.flat_map(str::split_whitespace).map(str::to_owned));
            player.handle_key(PlayerKey::Down);
        }
        for word in ["arrows", "event:ID,", "Enter", "usage", "again", "leave"] {
            assert!(words.iter().any(|one| one == word), "{width}x{height}: {word}: {words:?}");
        }
        player.handle_key(PlayerKey::Escape);
        assert!(!frame(&mut player, width, height).join("").contains(" keys "));
    }
}

#[test]
fn the_foot_line_leaves_out_whole_entries_where_it_is_narrow() {
    let mut player = player(3);
    for width in 20..100 {
        let foot = frame(&mut player, width, 10)[9].clone();
        let entries: Vec<&str> = foot.trim().split("  ").collect();
        assert!(foot.starts_with(" ? help  q leave"), "{width}: {foot}");
        let whole = ["? help", "q leave", "j/k step", "]/[ failure, request", "/ search", "b all"];
        let whole = [&whole[..], &["v view", "z enlarge"]].concat();
        assert_eq!(entries, whole[..entries.len()], "{width}: {foot}");
    }
}

#[test]
fn a_row_of_wide_characters_is_cut_to_its_columns_and_its_outcome_stays() {
    let mut player = worked_player();
    player.title = "運行所有測試並報告失敗的項目".repeat(4);
    let mut rows = worked();
    rows[4].row.as_mut().unwrap().line = "$ 運行測試 ".repeat(20);
    player.handle_result(PlayerResponse::Page(0, rows));
    for width in [80, 81, 120] {
        let shown = frame(&mut player, width, 24);
        assert!(shown[0].contains("position 1  (2 of 7)  || 1x"), "{width}: {}", shown[0]);
        assert!(shown.iter().any(|line| line.contains("…  1 failed")), "{width}: {shown:#?}");
    }
}

#[test]
fn the_view_of_a_session_without_events_says_so() {
    let mut player = player(0);
    let shown = frame(&mut player, 100, 20).join("\n");
    assert!(!shown.contains("as of") && !shown.contains('…'), "{shown}");
    assert_eq!(shown.matches("no event").count(), 3, "the head, the event, the view: {shown}");
    player.handle_key(PlayerKey::Char('f'));
    player.message = None;
    let shown = frame(&mut player, 100, 20).join("\n");
    assert_eq!(shown.matches("waiting for the first event").count(), 2, "{shown}");
}
