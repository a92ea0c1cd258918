//! Findings of users who tried the program: an import into a deleted session, a damaged store of
//! several tenants, a receipt over damaged events; answers that are not this program's.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use sessionlog::client::{HttpRequest, session_path};

use crate::{
    cli::{chat, event},
    hook::answered::Scripted,
    program::{Place, lines},
    say::http_client,
};

#[test]
fn an_import_skips_a_deleted_session_and_reports_it_at_the_end() {
    let place = Place::new();
    let three = [chat("one", "a", &["x"]), chat("two", "b", &["y"]), chat("three", "c", &["z"])];
    let first = place.write("first.jsonl", &three[1]);
    place.run(&["import", first.to_str().unwrap()]).ok();
    place.kill_owner();
    let server = place.serve();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let two = sessionlog::event::SessionId::new("two").unwrap();
        server.client().json(HttpRequest::delete(session_path(&two, ""))).await.unwrap();
    });
    assert_eq!(server.stop(), Some(0));
    let all = place.write("all.jsonl", &three.join("\n"));
    let more = place.write("more.jsonl", &chat("four", "d", &["w"]));
    let files = [all.to_str().unwrap(), more.to_str().unwrap()];
    let ran = place.run(&["import", files[0], files[1]]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains("2 sessions (one, three)"), "{}", ran.out);
    assert!(ran.out.contains("1 session (four)"), "{}", ran.out);
    let told = ran.err.split_once("skipped 1 of 4 conversations:").expect(&ran.err).1;
    assert!(
        told.contains("two (") && told.contains("line 2") && told.contains("deleted"),
        "{told}"
    );
    let ran = place.run(&["import", files[0], "--json"]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["session_ids"], json!(["one", "three"]), "{report}");
    assert_eq!(report["bad_lines"][0]["session"], "two", "{report}");
}

/// Returns the segments of a data directory.
fn segments(place: &Place) -> Vec<PathBuf> {
    let data = place.data_dir();
    let all = lines(&place.run(&["inspect", data.to_str().unwrap(), "--json"]).out);
    let is = |file: &&Value| file["kind"] == "segment";
    all.iter().filter(is).map(|file| data.join(file["file"].as_str().unwrap())).collect()
}

/// Flips one bit of a text in a file; returns true if the text was found.
fn flip_bit(file: &Path, text: &str) -> bool {
    let mut bytes = fs::read(file).unwrap();
    let found = bytes.windows(text.len()).position(|part| part == text.as_bytes());
    if let Some(at) = found {
        bytes[at] ^= 4;
        fs::write(file, bytes).unwrap();
    }
    found.is_some()
}

#[test]
fn verify_reads_the_sessions_of_every_tenant() {
    let place = Place::new();
    let tokens = place.path("tokens.json").display().to_string();
    let made = ["tokens", "create", "--tokens-file", &tokens, "--tenant", "acme", "--user", "ada"];
    let made = place.run(&[&made[..], &["--json"]].concat()).json();
    let token = made["token"].as_str().unwrap();
    let server = place.serve_with(&["--tokens-file", &tokens]);
    let events = ["needle one", "needle two"].map(|text| event("user.message", text)).join(",");
    let body = format!(r#"{{"id":"trip","initial_events":[{events}]}}"#);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let made = http_client().build().unwrap().post(format!("{}/v1/sessions", server.url));
    let made = made.bearer_auth(token).header("content-type", "application/json").body(body);
    let made = runtime.block_on(made.send()).unwrap();
    assert_eq!(made.status(), 201);
    assert_eq!(server.stop(), Some(0));
    let whole = place.run(&["verify", "--json"]).json();
    assert!(whole["events"].as_u64().unwrap() >= 2, "{whole}");
    place.kill_owner();
    assert!(segments(&place).iter().any(|file| flip_bit(file, "needle one")));
    let ran = place.run(&["verify"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(
        ran.out.contains("damaged in 1 of") && ran.out.contains("acme/ada/trip"),
        "{}",
        ran.out
    );
    let answer: Value = serde_json::from_str(&place.run(&["verify", "--json"]).out).unwrap();
    let damage = &answer["damage"][0];
    assert_eq!((&damage["tenant"], &damage["user"]), (&json!("acme"), &json!("ada")), "{answer}");
}

#[test]
fn a_receipt_over_damaged_events_is_reported_to_hold_in_part() {
    let place = Place::new();
    for text in ["needle one", "needle two", "needle three"] {
        place.run_with(&["append", "trip", "--create"], &event("user.message", text)).ok();
    }
    let shown = place.run(&["show", "trip", "--json"]).json();
    let receipt = &shown["receipt"];
    let head = format!("{}:{}", receipt["position"], receipt["chain"].as_str().unwrap());
    place.kill_owner();
    assert_eq!(place.serve().stop(), Some(0));
    assert!(segments(&place).iter().any(|file| flip_bit(file, "needle one")));
    let ran = place.run(&["verify", "trip", "--expect-head", &head]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.out.contains("damaged in 1 of 1 session"), "{}", ran.out);
    assert!(ran.out.contains("the receipt holds in part"), "{}", ran.out);
    let ran = place.run(&["verify", "trip", "--expect-head", &head, "--json"]);
    let answer: Value = serde_json::from_str(&ran.out).unwrap();
    let head = &answer["head"];
    assert_eq!((&head["state"], &head["holds"]), (&json!("damaged"), &json!(false)), "{answer}");
}

#[test]
fn the_command_line_sends_nothing_to_a_socket_of_another_user() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = Place::new();
    fs::create_dir(place.data_dir()).unwrap();
    let socket = place.data_dir().join("owner.sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    listener.set_nonblocking(true).unwrap();
    std::os::unix::fs::chown(&socket, Some(12_345), None).unwrap();
    let ran = place.run(&["sessions"]);
    assert!(ran.code != 0 && ran.err.contains("another user (12345)"), "{ran:?}");
    assert!(listener.accept().is_err(), "it was connected to");
    fs::remove_file(socket).unwrap();
}

#[test]
fn a_backup_reports_its_numbers_of_live_and_deleted_sessions() {
    let place = Place::new();
    for id in ["one", "two", "three"] {
        place.run_with(&["append", id, "--create"], &event("user.message", "x")).ok();
    }
    place.kill_owner();
    let server = place.serve();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let two = sessionlog::event::SessionId::new("two").unwrap();
        server.client().json(HttpRequest::delete(session_path(&two, ""))).await.unwrap();
    });
    assert_eq!(server.stop(), Some(0));
    let (backup, back) = (place.path("backup"), place.path("back"));
    let said = place.run(&["backup", "create", backup.to_str().unwrap()]).ok();
    assert!(said.contains("3 sessions, 2 live and 1 deleted"), "{said}");
    let back =
        ["backup", "restore", backup.to_str().unwrap(), "--data-dir", back.to_str().unwrap()];
    let said = place.run(&back).ok();
    assert!(said.contains("restored 3 sessions, 2 live and 1 deleted"), "{said}");
}

#[test]
fn an_unreadable_answer_is_an_error_that_names_the_operation() {
    let (place, store) = (Place::new(), Scripted::start(|_, _| (200, json!({}))));
    for (arguments, operation) in [
        (&["sessions"][..], "listSessions"),
        (&["show", "s"], "getSession"),
        (&["view", "s", "usage"], "viewUsage"),
        (&["view", "s", "index", "--find", "x"], "viewIndex"),
        (&["delete", "s", "--yes"], "deleteSession"),
        (&["erase", "s", "--yes"], "eraseSession"),
        (&["redact", "s", "e", "--yes"], "redactEvent"),
        (&["hold", "s"], "holdSession"),
        (&["hold", "s", "--release"], "releaseSession"),
        (&["restore", "s"], "restoreSession"),
        (&["retention", "--dry-run"], "getRetention"),
        (&["retention"], "sweepRetention"),
        (&["verify"], "verify"),
        (&["repair", "s"], "repair"),
        (&["audit"], "getAudit"),
        (&["keys", "check"], "getKeys"),
    ] {
        let ran = place.run(&[arguments, &["--url", &store.url]].concat());
        let named = format!("its answer to {operation} cannot be read");
        assert_ne!(ran.code, 0, "{arguments:?}: {}", ran.out);
        assert!(ran.err.contains(&named) && ran.out.is_empty(), "{arguments:?}: {ran:?}");
    }
}

#[test]
fn a_deletion_with_a_lost_answer_is_reported_as_done_on_retry() {
    let (deleted, leaving) = ((410, "session_deleted"), (503, "owner_unavailable"));
    // The first answer is to the look-up of a session by id prefix.
    for (refusals, code) in [([deleted, leaving, deleted], 0), ([deleted, deleted, deleted], 4)] {
        let next = AtomicUsize::new(0);
        let store = Scripted::start(move |_, _| {
            let (status, code) = refusals[next.fetch_add(1, Ordering::Relaxed)];
            (status, json!({ "error": { "type": code, "message": "no" } }))
        });
        let ran = Place::new().run(&["delete", "s", "--yes", "--json", "--url", &store.url]);
        assert_eq!(ran.code, code, "{ran:?}");
        let deleted = json!({ "id": "s", "type": "session_deleted" }).to_string();
        assert_eq!(ran.out.trim() == deleted, code == 0, "{ran:?}");
    }
}
