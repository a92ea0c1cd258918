//! The gate of every recorder: paths excluded by a glob, and sessions excluded by a pause.

use serde_json::json;
use sessionlog::{
    event::Timestamp,
    hook::{Admission, RecordingGate, WorkSession},
};

/// Maximum pauses that are kept.
const PAUSES_MAX: usize = 256;

fn gate(exclude: &str) -> RecordingGate {
    RecordingGate::new(true, exclude, Some("/home/ada".into()), None).expect("globs")
}

/// Returns true if no work in a directory is recorded.
fn excludes(gate: &RecordingGate, directory: &str) -> bool {
    gate.excludes_call(Some(&json!({})), Some(directory))
}

#[test]
fn a_glob_excludes_matching_paths_and_everything_below_them() {
    for (glob, path, expected) in [
        ("~/secret", "/home/ada/secret", true),
        ("~/secret/**", "/home/ada/secret", true),
        ("~/secret", "/home/ada/secret/a/b.txt", true),
        ("~/secret", "/home/ada/secrets", false),
        ("~/secret", "/home/bob/secret", false),
        ("~", "/home/ada/x", true),
        ("/srv/*/keys", "/srv/a/keys/k", true),
        ("/srv/*/keys", "/srv/a/b/keys", false),
        ("/srv/**/keys", "/srv/keys", true),
        ("/srv/**/keys", "/srv/a/b/keys", true),
        ("*.pem", "/home/ada/a/x.pem", true),
        ("*.pem", "/home/ada/a/x.pem.txt", false),
        ("client-?", "/w/client-a/src", true),
        ("client-?", "/w/client-ab/src", false),
        ("/a, ~/b", "/home/ada/b", true),
        ("a.b", "/x/a-b", false),
        ("", "/x", false),
    ] {
        assert_eq!(excludes(&gate(glob), path), expected, "{glob} {path}");
    }
    assert!(RecordingGate::new(true, "~/x", None, None).is_err());
}

#[test]
fn a_call_with_an_excluded_path_is_not_recorded() {
    let gate = gate("~/secret, *.pem");
    for (input, directory, expected) in [
        (json!({ "file_path": "/home/ada/secret/a" }), "/w", true),
        (json!({ "file_path": "~/secret/a" }), "/w", true),
        (json!({ "file_path": "../secret/a" }), "/home/ada/p", true),
        (json!({ "file_path": "key.pem" }), "/w", true),
        (json!({ "file_path": "a" }), "/home/ada/secret", true),
        (json!({ "paths": ["/a", "file:///home/ada/secret"] }), "/w", true),
        (json!({ "file_path": "/w/a", "content": "see ~/secret/a" }), "/w", false),
        (json!({ "command": "cat ~/secret/a | wc" }), "/w", true),
        (json!({ "command": "cat<$HOME/secret/a" }), "/w", true),
        (json!({ "command": ["sh", "-c", "tar cf x --file='${HOME}/secret'"] }), "/w", true),
        (json!({ "command": "cat 'my key.pem'" }), "/w", true),
        (json!({ "command": "cd .. && ls secrets" }), "/home/ada/p", false),
        (json!({ "command": "cat ../secret/a" }), "/home/ada/p", true),
        (json!({}), "/w", false),
    ] {
        assert_eq!(
            gate.excludes_call(Some(&input), Some(directory)),
            expected,
            "{input} {directory}"
        );
    }
}

#[test]
fn an_unpaused_session_reports_the_pause_once() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("state/paused.json");
    let gate = RecordingGate::new(true, "", None, Some(file.clone())).expect("no glob");
    let (who, other) = (WorkSession::new("s", ["/w/a"]), WorkSession::new("t", ["/w/ab"]));
    let at = Timestamp;
    assert_eq!(gate.admit(&who, at(5)), Admission::Admitted(None));
    gate.pause(Some("/w/a".into()), at(10), Some(at(40))).expect("paused");
    assert_eq!(gate.admit(&other, at(20)), Admission::Admitted(None));
    assert_eq!(gate.admit(&who, at(20)), Admission::Refused);
    assert_eq!(gate.unpause(None, at(30)).expect("ended"), 1);
    let Admission::Admitted(Some(gap)) = gate.admit(&who, at(35)) else { panic!("no gap") };
    assert_eq!((gap.from(), gap.to()), (at(10), Some(at(30))));
    assert_eq!(gate.admit(&who, at(36)), Admission::Admitted(None));
    let past = gate.transcript_filter(&who);
    let read = [9, 10, 25, 32, 35].map(|micros| past(Some(at(micros)), None));
    assert_eq!(read, [true, false, false, true, true]);
    assert!(!past(None, None) && gate.transcript_filter(&other)(None, None));
    std::fs::write(&file, "[").expect("written");
    assert_eq!(gate.admit(&other, at(50)), Admission::Refused, "it cannot tell");
}

#[test]
fn the_list_of_pauses_is_bounded_and_keeps_the_active_ones() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("paused.json");
    let gate = RecordingGate::new(false, "", None, Some(file)).expect("no glob");
    gate.pause(Some("/w".into()), Timestamp(0), None).expect("paused");
    for session in 0..PAUSES_MAX + 5 {
        let who = WorkSession::new(&session.to_string(), []);
        assert_eq!(gate.admit(&who, Timestamp(1)), Admission::Refused);
    }
    assert_eq!(gate.read_pauses().expect("a list").len(), PAUSES_MAX);
    assert_eq!(gate.active_pauses(Timestamp(9)).expect("a list").len(), 1);
}
