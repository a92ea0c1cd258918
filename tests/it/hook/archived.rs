//! Events of hooks for an archived session, and events that a session refused: none is lost.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};

use super::{SESSION, claude, kinds, of, quiet};
use crate::program::Place;

fn call(id: &str) -> Value {
    claude("PreToolUse", &json!({ "tool_name": "Write", "tool_use_id": id, "tool_input": {} }))
}

fn is_archived(place: &Place) -> bool {
    let shown = place.run(&["show", SESSION, "--json"]).json();
    shown["archived_at"].is_string()
}

/// Writes a file of the spool as an earlier version left it.
fn put_in_spool(place: &Place, file: &str, session: &str, event: &Value) {
    let path = place.path("data.spool").join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mode = fs::Permissions::from_mode(0o700);
    fs::set_permissions(place.path("data.spool"), mode).unwrap();
    let about = json!({ "workspace": null, "client": "claude-code" });
    let delivery = json!({ "session": session, "about": about, "events": [event], "mark": null });
    fs::write(path, delivery.to_string()).unwrap();
}

fn event(id: &str, kind: &str, at: &str) -> Value {
    json!({ "id": format!("hook_{id}"), "type": kind, "created_at": at, "content": "words" })
}

#[test]
fn work_of_a_hook_takes_its_session_out_of_the_archive() {
    for first in [claude("SessionStart", &json!({ "source": "resume" })), call("toolu_2")] {
        let place = Place::new();
        quiet(&place, &call("toolu_1"));
        place.run(&["archive", SESSION]).ok();
        quiet(&place, &first);
        quiet(&place, &call("toolu_3"));
        assert!(!is_archived(&place), "{first}");
        assert_eq!(kinds(&place, SESSION).len(), 3, "{first}");
        assert!(!place.path("data.spool").exists(), "{first}");
    }
}

#[test]
fn an_end_and_earlier_events_are_recorded_and_leave_the_session_archived() {
    let place = Place::new();
    quiet(&place, &call("toolu_1"));
    place.run(&["archive", SESSION]).ok();
    quiet(&place, &claude("SessionEnd", &json!({ "reason": "other" })));
    assert!(is_archived(&place));
    let earlier = event("early", "agent.message", "2026-01-02T03:04:05.000000Z");
    put_in_spool(&place, "1-hook_early.json", SESSION, &earlier);
    place.run(&["sessions"]).ok();
    assert!(is_archived(&place));
    let kinds = kinds(&place, SESSION);
    assert!(kinds.contains(&"session.status_terminated".to_owned()), "{kinds:?}");
    assert!(kinds.contains(&"agent.message".to_owned()), "{kinds:?}");
}

#[test]
fn events_that_were_set_aside_are_counted_and_delivered_once_the_reason_is_gone() {
    let place = Place::new();
    quiet(&place, &call("toolu_1"));
    place.run(&["archive", SESSION]).ok();
    let good = event("good", "agent.message", "2026-01-02T03:04:05.000000Z");
    put_in_spool(&place, "refused/hook_good.json", SESSION, &good);
    let bad = event("bad", "no type", "2026-01-02T03:04:05.000000Z");
    put_in_spool(&place, "2-hook_bad.json", "s", &bad);
    let ran = place.run(&["sessions"]);
    assert!(ran.err.contains("1 of them were refused"), "{}", ran.err);

    assert_eq!(place.run(&["status", "--json"]).json()["hook_events"]["refused"], 2);
    assert!(place.run(&["status"]).ok().contains("2 were refused"));
    let doctor = place.run(&["doctor"]);
    assert_eq!(doctor.code, 1, "{}", doctor.out);
    for said in
        ["2 were set aside in ", "data.spool/refused", "sessionlog deliver", "is not allowed"]
    {
        assert!(doctor.out.contains(said), "{said}: {}", doctor.out);
    }

    let delivered = place.run(&["deliver"]);
    assert_eq!(delivered.code, 1, "{}", delivered.err);
    assert!(delivered.out.starts_with("1 event delivered\n1 are set aside in "), "{delivered:?}");
    assert!(delivered.err.contains("is not allowed"), "{}", delivered.err);
    assert_eq!(kinds(&place, SESSION), ["agent.tool_use", "agent.message"]);
    put_in_spool(
        &place,
        "refused/2-hook_bad.json",
        "s",
        &event("bad", "a.b", "2026-01-02T03:04:05Z"),
    );
    assert_eq!(place.run(&["deliver"]).ok(), "1 event delivered\n");
    assert_eq!(kinds(&place, "s"), ["a.b"]);
    assert!(place.run(&["doctor"]).out.contains("all of them are delivered"));
    quiet(&place, &of("s", call("toolu_9")));
}
