//! Owners that are dead, stopped or foreign, disks that take nothing, a thousand hooks at once: the
//! agent is not hurt and no event is lost.

use std::{
    collections::BTreeSet,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{SESSION, at_once, claude, hook, kinds, of, quiet, waiting_for};
use crate::program::{Place, eventually, signal};

fn call(n: usize) -> Value {
    let id = format!("toolu_{n}");
    claude(
        "PreToolUse",
        &json!({ "tool_name": "Bash", "tool_use_id": id, "tool_input": { "n": n } }),
    )
}

fn spool(place: &Place) -> PathBuf {
    place.path("data.spool")
}

fn waiting(directory: &Path) -> usize {
    let inside = std::fs::read_dir(directory).into_iter().flatten().flatten();
    inside.filter(|entry| entry.path().extension().is_some_and(|e| e == "json")).count()
}

fn numbers(events: &[Value]) -> Vec<u64> {
    events.iter().map(|event| event["input"]["n"].as_u64().unwrap()).collect()
}

#[test]
fn an_owner_that_is_stopped_costs_a_moment_once_and_every_event_comes_in_order() {
    let place = Place::new();
    quiet(&place, &call(0));
    let owner = eventually("an owner", || place.owner_pid());
    signal(owner, Signal::STOP);
    let first = waiting_for(&place, &call(1), "100ms");
    assert!(first.err.contains("waits in"), "{}", first.err);
    // From then on nobody tries again for a while, however patient he is.
    let second = hook(&place, &call(2));
    assert_eq!(second.err, "");
    for n in 3..6 {
        waiting_for(&place, &call(n), "100ms");
    }
    assert_eq!(waiting(&spool(&place)), 5);
    signal(owner, Signal::CONT);
    // The next front end of any kind delivers.
    eventually("what waited", || {
        (numbers(&place.events(SESSION)) == [0, 1, 2, 3, 4, 5]).then_some(())
    });
    assert_eq!(waiting(&spool(&place)), 0);
    quiet(&place, &call(6));
    assert_eq!(numbers(&place.events(SESSION)), [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn an_owner_that_was_killed_is_replaced_and_nothing_is_lost_or_doubled() {
    let place = Place::new();
    quiet(&place, &call(0));
    place.kill_owner();
    quiet(&place, &call(1));
    quiet(&place, &call(1));
    assert_eq!(numbers(&place.events(SESSION)), [0, 1]);
}

#[test]
fn a_data_directory_that_takes_nothing_leaves_the_agent_alone() {
    let place = Place::new();
    // A file where the directory should be: for everybody, root included.
    place.write("data", "not a directory");
    let ran = hook(&place, &call(0));
    assert!(ran.out.is_empty() && ran.err.contains("waits in"), "{}", ran.err);
    assert_eq!(waiting(&spool(&place)), 1);
    std::fs::remove_file(place.data_dir()).unwrap();
    assert_eq!(numbers(&place.events(SESSION)), [0]);
    assert_eq!(waiting(&spool(&place)), 0);
}

#[test]
fn an_event_waits_in_the_second_place_when_the_first_takes_nothing_and_is_told_when_none_does() {
    let place = Place::new();
    place.write("data", "not a directory");
    place.write("data.spool", "not a directory");
    let ran = hook(&place, &call(0));
    assert!(ran.err.contains(".local/state"), "{}", ran.err);
    std::fs::remove_dir_all(place.path(".local")).unwrap();
    place.write(".local", "not a directory");
    let ran = hook(&place, &call(1));
    assert!(ran.err.contains("this event is lost"), "{}", ran.err);
}

#[test]
fn a_configuration_that_is_wrong_hurts_no_agent_and_loses_nothing() {
    let place = Place::new();
    quiet(&place, &call(0));
    let wrong = || {
        let mut command = place.command(&["hook"]);
        command.env("SESSIONLOG_TTL", "soon").stdin(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), call(1).to_string().as_bytes())
            .unwrap();
        crate::program::ran(child)
    };
    let ran = wrong();
    assert_eq!(ran.code, 0);
    assert!(ran.err.contains("ttl"), "{}", ran.err);
    assert_eq!(numbers(&place.events(SESSION)), [0, 1]);
}

#[test]
fn what_a_session_refuses_for_good_is_kept_aside_and_holds_nobody_up() {
    let place = Place::new();
    quiet(&place, &of("gone", call(0)));
    quiet(&place, &of("put-away", call(0)));
    place.run(&["delete", "gone"]).ok();
    let ran = hook(&place, &of("gone", call(1)));
    assert!(ran.err.contains("does not take this event"), "{}", ran.err);
    assert_eq!(waiting(&spool(&place)), 0, "who deleted a session does not want more of it");
    quiet(&place, &call(2));
    assert_eq!(numbers(&place.events(SESSION)), [2]);
}

#[test]
fn a_thousand_hooks_at_once_are_a_thousand_events() {
    const ROUNDS: usize = 40;
    const AT_ONCE: usize = 25;
    let place = Place::new();
    for round in 0..ROUNDS {
        let calls: Vec<Value> = (round * AT_ONCE..(round + 1) * AT_ONCE).map(call).collect();
        for ran in at_once(&place, &calls) {
            assert_eq!((ran.code, &*ran.out), (0, ""), "{}", ran.err);
        }
    }
    // Those that could not wait are delivered by the next front end, a part at a time.
    eventually("the last of them", || {
        place.run(&["sessions"]).ok();
        (waiting(&spool(&place)) == 0).then_some(())
    });
    let events = numbers(&place.events(SESSION));
    assert_eq!(events.len(), ROUNDS * AT_ONCE);
    assert_eq!(events.into_iter().collect::<BTreeSet<_>>().len(), ROUNDS * AT_ONCE);
}

#[test]
fn nobody_else_reads_what_waits() {
    let place = Place::new();
    place.write("data", "not a directory");
    hook(&place, &call(0));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&spool(&place)), 0o700);
    for entry in std::fs::read_dir(spool(&place)).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    assert_eq!(kinds_after_repair(&place), ["agent.tool_use"]);
}

fn kinds_after_repair(place: &Place) -> Vec<String> {
    std::fs::remove_file(place.data_dir()).unwrap();
    kinds(place, SESSION)
}

#[test]
fn what_waits_for_a_store_with_a_key_is_under_the_key() {
    let place = Place::new();
    let key = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let run = |arguments: &[&str], input: &str| {
        let mut command = place.command(arguments);
        command.env("SESSIONLOG_KEY", key).stdin(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut stdin, input.as_bytes()).unwrap();
        drop(stdin);
        crate::program::ran(child)
    };
    let blocked = place.write("data", "not a directory");
    let event = claude("UserPromptSubmit", &json!({ "prompt": "a word of ours" }));
    assert_eq!(run(&["hook"], &event.to_string()).code, 0);
    let files: Vec<PathBuf> =
        std::fs::read_dir(spool(&place)).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.iter().any(|path| path.extension().is_some_and(|e| e == "json")), "{files:?}");
    for path in files {
        let bytes = std::fs::read(&path).unwrap();
        assert!(!bytes.windows(14).any(|part| part == b"a word of ours"), "{}", path.display());
    }
    std::fs::remove_file(blocked).unwrap();
    let events = run(&["events", SESSION], "").ok();
    assert!(events.contains("a word of ours"), "{events}");
}
