//! First use of the program: it reports what it did and what is lost, and leaves no file where it
//! was not asked to.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    cli::{chat, event, with_id, with_trip},
    program::{Place, lines, signal},
};

#[test]
fn an_import_names_the_sessions_it_went_into() {
    let place = Place::new();
    let file =
        place.write("c.jsonl", &[chat("one", "a", &["x"]), chat("two", "b", &["y"])].join("\n"));
    let file = file.to_str().unwrap();
    let told = place.run(&["import", file]).ok();
    assert!(told.contains("2 sessions (one, two), 2 records: 2 events added, 0 known"), "{told}");
    let told = place.run(&["import", file, "--json"]).json();
    assert_eq!((&told["sessions"], &told["session_ids"]), (&json!(2), &json!(["one", "two"])));
    let own = place.write("own.jsonl", &event("a.b", "c"));
    let told = place.run(&["import", own.to_str().unwrap()]).ok();
    assert!(told.contains("1 session (own), 1 record: 1 event added"), "{told}");
}

#[test]
fn a_demo_that_is_ended_early_leaves_nothing_behind() {
    for wanted in ["1.", "3.", "5."] {
        let place = Place::new();
        std::fs::create_dir(place.path("tmp")).unwrap();
        let mut demo = place.command(&["demo"]).env("TMPDIR", place.path("tmp")).spawn().unwrap();
        let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
        let step = lines.find(|line| line.as_ref().unwrap().trim_start().starts_with(wanted));
        assert!(step.is_some(), "{wanted}");
        signal(demo.id().into(), Signal::INT);
        assert_eq!(demo.wait().unwrap().code(), Some(130));
        let left: Vec<_> = std::fs::read_dir(place.path("tmp")).unwrap().collect();
        assert!(left.is_empty(), "{wanted} {left:?}");
    }
}

#[test]
fn a_verb_that_only_looks_makes_no_store() {
    let place = with_trip();
    let backup = place.path("backup");
    place.run(&["backup", "create", backup.to_str().unwrap()]).ok();
    std::fs::create_dir(place.path("papers")).unwrap();
    place.write("papers/letter.txt", "dear");
    for (name, told) in [("papers", "other files"), ("backup", "backup"), ("absent", "no store")] {
        let directory = place.path(name);
        let names = || {
            let inside = std::fs::read_dir(&directory).into_iter().flatten().flatten();
            inside.map(|entry| entry.file_name()).collect::<BTreeSet<_>>()
        };
        let before = names();
        for verb in [&["sessions"][..], &["show", "trip"], &["delete", "trip"], &["verify"]] {
            let ran = place.run(&[verb, &["--data-dir", directory.to_str().unwrap()]].concat());
            assert!(ran.code == 1 && ran.err.contains(told), "{name} {verb:?}: {ran:?}");
        }
        assert_eq!(names(), before, "{name}");
    }
    let empty = Place::new();
    let ran = empty.run(&["sessions"]);
    assert!(ran.code == 0 && ran.out.is_empty() && ran.err.contains("No sessions yet"), "{ran:?}");
}

#[test]
fn an_empty_list_says_whether_there_are_sessions_elsewhere() {
    let place = Place::new();
    place.run_with(&["append", "s", "--create"], r#"{"type": "user.message"}"#).ok();
    let ran = place.run(&["sessions", "--workspace", "shop"]);
    assert!(ran.code == 0 && ran.err.contains("No session in workspace shop"), "{ran:?}");
}

#[test]
fn a_compaction_that_says_what_it_kept_is_shown_so() {
    let place = Place::new();
    let lines = [
        json!({ "type": "user.message" }),
        json!({ "type": "user.message" }),
        json!({ "type": "context.compacted", "kept": [[1, 2]] }),
        json!({ "type": "context.compacted" }),
    ];
    let lines = lines.map(|line| line.to_string()).join("\n");
    place.run_with(&["append", "s", "--create"], &lines).ok();
    let shown = place.run(&["view", "s", "compactions"]).ok();
    assert_eq!(shown.matches("the client said what it kept").count(), 1, "{shown}");
    assert_eq!(shown.matches("did not say what it dropped").count(), 1, "{shown}");
}

#[test]
fn what_was_known_is_not_counted_as_appended_and_a_line_twice_is_known() {
    let place = Place::new();
    let append = |arguments: &[&str], lines: &[String]| {
        let arguments = [&["append", "s", "--create"], arguments].concat();
        place.run_with(&arguments, &lines.join("\n")).ok()
    };
    let (a, b, c) = (with_id("a", "a"), with_id("b", "b"), with_id("c", "c"));
    assert_eq!(append(&[], std::slice::from_ref(&a)), "appended 1 event to s at 0..1\n");
    assert_eq!(append(&[], std::slice::from_ref(&a)), "appended 0 events to s, 1 known\n");
    assert_eq!(append(&[], &[a, b]), "appended 1 event to s at 1..2, 1 known\n");
    let plain = [event("user.message", "plain")];
    let key = ["--idempotency-key", "k"];
    assert_eq!(append(&key, &plain), "appended 1 event to s at 2..3\n");
    assert_eq!(append(&key, &plain), "appended 0 events to s, 1 known\n");
    // However fast they come: with a key they go together.
    let key = ["--idempotency-key", "twice"];
    let twice = [c.clone(), c, with_id("end", "end")];
    assert_eq!(append(&key, &twice), "appended 2 events to s at 3..5, 1 known\n");
    let other = [with_id("d", "one"), with_id("d", "other")].join("\n");
    let ran = place.run_with(&["append", "s", "--idempotency-key", "o", "--json"], &other);
    assert_eq!(ran.refused(1), "idempotency_conflict");
}

/// Each way to read the session names what is lost of it, where it was.
pub fn lost_events_are_told_in_their_place(place: &Place) {
    let exported = lines(&place.run(&["export", "trip"]).ok());
    let positions = |line: &Value| [&line["position"], &line["from"]].map(Value::as_u64);
    let order: Vec<Option<u64>> =
        exported.iter().flat_map(positions).filter(Option::is_some).collect();
    assert!(order.is_sorted() && order.len() == exported.len(), "{exported:?}");
    let gap = exported.iter().find(|line| line["type"] == "gap");
    let gap = gap.unwrap_or_else(|| panic!("{exported:?}"));
    assert!(gap["accepted_at"].is_string() && gap["reason"].is_string(), "{gap}");
    let range = format!("{}..{}", gap["from"], gap["to"]);
    let replayed = place.run(&["replay", "trip"]).ok();
    assert!(replayed.contains(&range), "{range}: {replayed}");
    let events = exported.len() - exported.iter().filter(|line| line["type"] == "gap").count();
    let limit = events.to_string();
    let followed = ["events", "trip", "--follow", "--from", "0", "--limit", &limit];
    assert_eq!(lines(&place.run(&followed).ok()), exported);
    let chat = place.run(&["export", "trip", "--format", "openai"]);
    assert!(chat.code == 0 && chat.err.contains(&range), "{chat:?}");
}
