//! Work on a session through the command line: points, cursors, checkpoints, wake, history; and
//! through an owner that is killed.

use serde_json::{Value, json};

use crate::program::Place;

fn events(count: usize) -> String {
    let lines = (0..count).map(|n| json!({"type": "user.message", "n": n}).to_string());
    lines.collect::<Vec<_>>().join("\n")
}

fn with_trip() -> Place {
    let place = Place::new();
    place.run_with(&["append", "trip", "--create"], &events(5)).ok();
    place
}

fn written(place: &Place, name: &str, text: &str) -> String {
    place.write(name, text).to_str().unwrap().to_owned()
}

fn json_of(place: &Place, arguments: &[&str]) -> Value {
    let mut all = arguments.to_vec();
    all.push("--json");
    serde_json::from_str(&place.run(&all).ok()).unwrap()
}

#[test]
fn a_cursor_is_set_read_listed_and_removed() {
    let place = with_trip();
    let put = place.run(&["cursors", "trip", "--put", "me", "--at", "-2"]).ok();
    assert_eq!(put.trim(), "cursor me of trip at 3, 2 to read");
    let read = place.run(&["events", "trip", "--from", "cursor:me"]).ok();
    assert_eq!(read.lines().count(), 2);
    let listed = place.run(&["cursors", "trip"]).ok();
    assert!(listed.starts_with("me\t3\t2\t"), "{listed}");
    assert_eq!(json_of(&place, &["cursors", "trip"])["data"][0]["name"], "me");
    place.run(&["cursors", "trip", "--delete", "me"]).ok();
    assert_eq!(place.run(&["cursors", "trip", "--delete", "me"]).code, 4);
    assert_eq!(place.run(&["events", "trip", "--from", "cursor:me"]).code, 4);
    assert_eq!(place.run(&["events", "trip", "--from", "elsewhere:1"]).code, 2);
}

#[test]
fn a_checkpoint_is_created_listed_shown_and_resumed() {
    let place = with_trip();
    let state = written(&place, "state.json", r#"{"task":"t","done":["a"]}"#);
    let made =
        place.run(&["checkpoints", "trip", "--create", "--label", "one two", "--state", &state]);
    assert!(made.ok().contains(" at 5 of trip"));
    let delta = r#"{"done":["a","b"]}"#;
    let create = ["checkpoints", "trip", "--create", "--final", "--state-delta", "-"];
    place.run_with(&create, delta).ok();
    let listed = place.run(&["checkpoints", "trip"]).ok();
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[0].ends_with("manual\tFINAL") && lines[1].ends_with("one two"), "{listed}");
    let last = json_of(&place, &["checkpoints", "trip"])["data"][0]["id"].clone();
    let shown = json_of(&place, &["checkpoints", "trip", "--show", last.as_str().unwrap()]);
    assert_eq!(shown["state"], json!({"task": "t", "done": ["a", "b"]}));
    let shown = place.run(&["checkpoints", "trip", "--show", "one two"]).ok();
    assert!(shown.contains(r#"{"task":"t","done":["a"]}"#), "{shown}");
    let resumed = json_of(&place, &["checkpoints", "trip", "--resume", "one two"]);
    assert_eq!(resumed["resumed_as"]["trigger"], "resume");
    assert_eq!(place.run(&["checkpoints", "trip", "--show", "none"]).code, 4);
    let no_object = written(&place, "list.json", "[1]");
    let refused = place.run(&["checkpoints", "trip", "--create", "--state", &no_object]);
    assert_eq!(refused.code, 2);
}

#[test]
fn a_harness_that_wakes_a_session_excludes_a_second_one() {
    let place = with_trip();
    let woken = place.run(&["wake", "trip", "--seconds", "60"]).ok();
    assert!(woken.contains("token") && woken.contains('1'), "{woken}");
    assert_eq!(place.run(&["wake", "trip"]).code, 1, "lease_held");
    assert_eq!(place.run_with(&["append", "trip"], &events(1)).code, 1);
    place.run_with(&["append", "trip", "--fencing-token", "1"], &events(1)).ok();
    assert_eq!(json_of(&place, &["wake", "trip", "--renew", "1"])["fencing_token"], 1);
    let stolen = json_of(&place, &["wake", "trip", "--steal"]);
    assert_eq!((&stolen["fencing_token"], &stolen["tail"]), (&json!(2), &json!(6)));
    assert_eq!(place.run_with(&["append", "trip", "--fencing-token", "1"], &events(1)).code, 1);
    place.run(&["wake", "trip", "--release", "2"]).ok();
    place.run_with(&["append", "trip"], &events(1)).ok();
}

#[test]
fn after_a_crash_unfinished_sessions_are_offered_immediately() {
    let place = with_trip();
    place.run(&["wake", "trip"]).ok();
    let state = written(&place, "state.json", r#"{"next":"go on"}"#);
    let create =
        ["checkpoints", "trip", "--create", "--fencing-token", "1", "--state", state.as_str()];
    place.run(&create).ok();
    place.run_with(&["append", "trip", "--fencing-token", "1"], &events(2)).ok();
    place.kill_owner();
    let told = json_of(&place, &["history"]);
    assert_eq!(told["unfinished"][0]["id"], "trip");
    assert_eq!(told["unfinished"][0]["leased"], true, "a lease outlives a restart");
    assert_eq!(told["start_from"]["checkpoint"]["state"], json!({"next": "go on"}));
    let text = place.run(&["history"]).ok();
    assert!(text.contains("Unfinished") && text.contains("go on"), "{text}");
    let woken = json_of(&place, &["wake", "trip", "--steal"]);
    assert_eq!(woken["last_checkpoint"]["state"], json!({"next": "go on"}));
    assert_eq!(woken["unfinished"]["since_checkpoint"], json!({"from": 5, "to": 7}));
    assert_eq!(woken["fencing_token"], 2);
}
