//! Damaged transcript files: readable records are imported in order, unreadable ones are reported
//! with their line, and imported ones are exported byte for byte.

use std::fs;

use serde_json::{Value, json};

use super::{SESSION, Transcript, import, messages, taken, typed};
use crate::program::{Place, lines as json_lines};

fn three_lines() -> (String, String, String) {
    let talk = Transcript::default();
    talk.user("Which bell is the oldest");
    talk.says("m1", "The one in the north tower.");
    talk.user("And the heaviest");
    let text = talk.text();
    let mut lines = text.lines().map(str::to_owned);
    let mut next = || lines.next().unwrap();
    (next(), next(), next())
}

fn exported(place: &Place) -> String {
    place.run(&["export", SESSION, "--format", "claude-code"]).ok()
}

#[test]
fn several_records_in_one_line_are_all_imported_and_exported_in_one_line() {
    let (one, two, three) = three_lines();
    for text in [
        format!("{one}\n{two}{three}\n"),
        format!("{one}{two}{three}"),
        format!("{one} \t{two}\r\n{three}\r\n"),
        format!("\u{feff}{one}{two}\n\n{three}\n"),
    ] {
        let place = Place::new();
        let (code, report) = import(&place, &text);
        assert_eq!((code, &report["records"]), (0, &json!(3)), "{report}");
        assert_eq!(typed(&place).len(), 2);
        assert!(messages(&place).iter().all(|text| text.contains("north tower")));
        assert!(exported(&place) == text, "{:?}", exported(&place));
        let (_, again) = import(&place, &text);
        assert_eq!(again["added"], 0, "{again}");
    }
    // Codex, messages of an API and our own events.
    let codex = |n: u32| {
        let content = json!([{ "type": "input_text", "text": format!("Ring bell {n}") }]);
        let message = json!({ "type": "message", "role": "user", "content": content });
        json!({ "timestamp": format!("2026-09-14T08:00:0{n}Z"), "type": "response_item",
            "payload": message })
    };
    let chat = |n: u32| json!({ "role": "user", "content": format!("Ring bell {n}") });
    let event = |n: u32| json!({ "type": "user.message", "content": format!("Ring bell {n}") });
    for make in [&codex as &dyn Fn(u32) -> Value, &chat, &event] {
        let place = Place::new();
        let file = place.write("two.jsonl", &format!("{}{}\n{}\n", make(1), make(2), make(3)));
        let path = file.to_str().unwrap();
        let ran = place.run(&["import", "--json", "--session", "bells", path]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let window = place.run(&["view", "bells", "window"]).ok();
        assert!((1..=3).all(|n| window.contains(&format!("Ring bell {n}"))), "{window}");
    }
}

#[test]
fn a_truncated_record_is_reported_and_the_complete_one_after_it_is_imported() {
    let (one, two, three) = three_lines();
    for cut in [20, 150, one.len() - 2] {
        let place = Place::new();
        let (code, report) = import(&place, &format!("{}{two}\n{three}\n", &one[..cut]));
        assert_eq!((code, &report["records"]), (1, &json!(2)), "{cut}: {report}");
        let bad = &report["bad_lines"][0];
        assert_eq!((&bad["line"], report["left_out"]["lines"].as_u64()), (&json!(1), Some(1)));
        assert!(bad["problem"].as_str().unwrap().contains("no record"), "{bad}");
        assert_eq!(exported(&place), format!("{two}\n{three}\n"));
    }
    let place = Place::new();
    let (code, report) = import(&place, &format!("{one}\n{two}nonsense\n{three}\n{{\"type\":\n"));
    assert_eq!((code, &report["records"], &report["torn"]), (1, &json!(3), &json!(false)));
    let bad = json_lines(&report["bad_lines"].to_string()).remove(0);
    assert_eq!((&bad[0]["line"], &bad[1]["line"]), (&json!(2), &json!(4)), "{bad}");
}

#[test]
fn invalid_bytes_zeros_large_numbers_and_long_lines_lose_no_record() {
    let (one, two, three) = three_lines();
    let kept = |text: &str| {
        let place = Place::new();
        let (code, report) = import(&place, text);
        assert_eq!((code, &report["records"]), (0, &json!(3)), "{report}");
        assert!(exported(&place) == text, "{:?}", &exported(&place)[..80]);
        assert_eq!(typed(&place).len(), 2);
    };
    kept(&format!("\u{feff}\u{feff}{one}\n{two}\n{three}\n"));
    kept(&format!("{one}\n\0\0\0\0{two}\n\0\0\n{three}\n"));
    let number = "123456789012345678901234567890";
    kept(&format!("{one}\n{},\"n\":{number},\"m\":-1e999}}\n{three}\n", &two[..two.len() - 1]));
    let long = format!("{},\"more\":\"{}\"}}", &two[..two.len() - 1], "x".repeat(10 << 20));
    kept(&format!("{one}\n{long}\n{three}\n"));
    // A byte that is not UTF-8.
    let place = Place::new();
    let file = place.path(&format!("{SESSION}.jsonl"));
    let text = format!("{one}\n{two}\n{three}\n").replace("north", "n@rth");
    fs::write(
        &file,
        text.replace('@', "\u{1}")
            .into_bytes()
            .iter()
            .map(|b| if *b == 1 { 0xff } else { *b })
            .collect::<Vec<u8>>(),
    )
    .unwrap();
    let ran = place.run(&["import", file.to_str().unwrap()]);
    assert!(ran.code == 0 && ran.err.contains("line 2: its byte"), "{ran:?}");
    assert!(messages(&place).iter().all(|text| text.contains("n\u{fffd}rth tower")));
}

#[test]
fn an_unpaired_surrogate_is_shown_as_a_replacement_and_stays_in_the_transcript() {
    let talk = Transcript::default();
    talk.user("Translate HALF the sign");
    talk.user(json!([{ "type": "text", "text": "and HALF the menu" }]));
    talk.calls("m1", "t1");
    talk.result("t1", "log HALF of it");
    talk.says("m2", "The sign HALF is done.");
    let text = talk.text().replace("HALF", r"\ud83d");
    let place = Place::new();
    let (code, report) = import(&place, &text);
    assert_eq!((code, &report["bad_lines"]), (0, &json!([])), "{report}");
    assert!(exported(&place) == text);
    assert_eq!(typed(&place), ["Translate \u{fffd} the sign", "and \u{fffd} the menu"]);
    for messages in messages(&place) {
        for words in ["\u{fffd} the menu", "log \u{fffd} of it", "sign \u{fffd} is done"] {
            assert!(messages.contains(words), "{words}: {messages}");
        }
        assert!(!messages.contains(r"\ud83d") && !messages.contains(r#"{\"type\""#), "{messages}");
    }
    let listed = place.run(&["sessions", "--json"]).json().to_string();
    assert!(listed.contains("Translate \u{fffd} the sign"), "{listed}");
    assert!(place.run(&["search", "menu"]).ok().contains("menu"));
}

#[test]
fn a_regular_transcript_is_stored_without_line_layout_records() {
    let (one, two, three) = three_lines();
    let talk = Transcript::default();
    for line in [one, two, three] {
        talk.raw(&serde_json::from_str(&line).unwrap());
    }
    let events = taken(&talk).events(SESSION);
    assert!(!events.iter().any(|event| event.to_string().contains("raw_joined")), "{events:?}");
}
