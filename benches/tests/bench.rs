//! Runs the benchmark with tiny counts: its output is complete and correct, and it leaves no
//! process or file behind. It must not depend on how fast anything is.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

use std::{
    collections::BTreeSet,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

/// Returns the benchmark's command, without the machine's configuration.
fn command(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessionlog-bench"));
    command.args(arguments).arg("--dir").arg(home);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the benchmark in a separate directory, which must be empty afterwards; returns its report.
fn run_bench(arguments: &[&str]) -> Value {
    let home = tempfile::tempdir().unwrap();
    // A peer may run as another user, who must be able to traverse the directory.
    fs::set_permissions(home.path(), Permissions::from_mode(0o711)).unwrap();
    let tiny = ["--quick", "--json", "--seconds", "0.02", "--sessions", "70"];
    let ran = command(home.path(), &[arguments, &tiny].concat()).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{said}");
    let left: Vec<_> = fs::read_dir(home.path()).unwrap().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    assert_eq!(processes_in(home.path()), Vec::<String>::new());
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// Returns the command lines of processes that contain a directory.
fn processes_in(directory: &Path) -> Vec<String> {
    let directory = directory.to_str().unwrap();
    let own = std::process::id().to_string();
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|name| *name != *own))
        .filter_map(|path| fs::read(path.join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(directory))
        .collect()
}

fn row<'a>(report: &'a Value, id: &str) -> &'a Value {
    let rows = report["rows"].as_array().unwrap();
    rows.iter().find(|row| row["id"] == id).unwrap_or_else(|| panic!("no row {id}"))
}

#[test]
fn every_row_has_its_figures_and_keeps_every_acknowledged_event() {
    // One row over HTTP of each kind: a server is started for each.
    let rows = "floor engine http.append.json.1 http.append.json.64 http.batch.protobuf.64 \
                http.stream.64 slice start research search fork hook disk";
    let rows: Vec<&str> = rows.split_whitespace().collect();
    let report = run_bench(&[&["--peers", "none"], rows.as_slice()].concat());
    assert_eq!(report["version"], 1);
    assert_eq!(report["settings"]["rounds"], 1);
    let rows = report["rows"].as_array().unwrap();
    let ids: BTreeSet<&str> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), rows.len(), "an id comes twice");
    let groups: BTreeSet<&str> = rows.iter().map(|row| row["group"].as_str().unwrap()).collect();
    assert_eq!(
        groups,
        BTreeSet::from([
            "floor", "engine", "http", "slice", "start", "research", "search", "fork", "hook",
            "disk",
        ])
    );
    for row in rows {
        let value = row["median"].as_f64().unwrap();
        let may_be_none = row["id"] == "start.memory" || row["id"] == "fork.copied";
        assert!(value > 0.0 || may_be_none, "{row}");
        assert!(row["min"].as_f64().unwrap() <= value && value <= row["max"].as_f64().unwrap());
        let appends = row["id"].as_str().unwrap().contains(".append.")
            || row["id"].as_str().unwrap().starts_with("http.");
        if appends && row["group"] != "floor" {
            assert!(row["acknowledged"].as_u64().unwrap() > 0, "{row}");
            assert_eq!(row["acknowledged"], row["kept"], "{row}");
        }
    }
    let targets = report["targets"].as_array().unwrap();
    let ids: BTreeSet<&str> = targets.iter().map(|t| t["id"].as_str().unwrap()).collect();
    let wanted = ["P1", "P2", "P3", "P4", "P6", "P7", "P8", "P9", "P10", "P11", "P12", "P13"];
    assert_eq!(ids, BTreeSet::from(wanted));
    for target in targets {
        // The targets do not apply to seventy sessions and a built-in conversation.
        let judged = matches!(target["id"].as_str(), Some("P1" | "P4"));
        let beside = target.get("times_min").or(target.get("value_max")).is_none();
        assert_eq!(target["met"].is_boolean(), judged && !beside, "{target}");
        assert_eq!(target.get("unjudged").is_some(), !judged && !beside, "{target}");
    }
}

/// A primary, a standby and two nodes are started, if PostgreSQL is installed.
#[test]
fn the_rows_of_nodes_keep_every_acknowledged_event_or_say_why_there_are_none() {
    let report = run_bench(&["nodes", "postgres.append.64", "postgres.replicated.64"]);
    let rows = report["rows"].as_array().unwrap();
    if rows.is_empty() {
        let notes = report["notes"].to_string();
        assert!(notes.contains("PostgreSQL was not compared"), "{notes}");
        return;
    }
    for row in rows {
        assert!(row["median"].as_f64().unwrap() > 0.0, "{row}");
        if row["id"].as_str().unwrap().contains("slice") || row["acknowledged"].is_null() {
            continue;
        }
        assert!(row["acknowledged"].as_u64().unwrap() > 0, "{row}");
        assert_eq!(row["acknowledged"], row["kept"], "{row}");
    }
    let targets = report["targets"].as_array().unwrap();
    let ids: BTreeSet<&str> = targets.iter().map(|t| t["id"].as_str().unwrap()).collect();
    assert_eq!(ids, BTreeSet::from(["D1", "D1c", "D2", "D3", "D6", "D7", "D8", "D9"]));
}

#[test]
fn deferred_work_is_reported_separately_and_lasting_rounds_defer_none() {
    let report = run_bench(&["engine", "http.append.json.1", "floor.append.1"]);
    let least = report["settings"]["lasting_bytes"].as_u64().unwrap() >> 10;
    for (of, writers) in [("1", 1), ("64", 64), ("64.sessions", 64)] {
        let soon = row(&report, &format!("engine.append.{of}"));
        let lasting = row(&report, &format!("engine.lasting.{of}"));
        assert!(soon["behind_us_per_event"].is_number(), "{soon}");
        assert!(lasting.get("behind_us_per_event").is_none(), "{lasting}");
        assert_eq!(lasting["acknowledged"], lasting["kept"], "{lasting}");
        assert!(lasting["kept"].as_u64().unwrap() >= least * writers / 64, "{lasting}");
    }
    let lasting = report["targets"].as_array().unwrap().iter().find(|t| t["id"] == "P3").unwrap();
    assert!(lasting["unjudged"].is_string(), "{lasting}");
    assert!(row(&report, "http.append.json.1")["behind_bytes_per_event"].is_number());
    assert!(row(&report, "floor.append.1").get("behind_us_per_event").is_none());
}

#[test]
fn the_disk_row_is_judged_only_if_every_transcript_is_valid() {
    let place = tempfile::tempdir().unwrap();
    let below = place.path().join("a/b");
    fs::create_dir_all(&below).unwrap();
    let line = |n: usize| {
        format!(r#"{{"id":"c{n}","messages":[{{"role":"user","content":"hello {n}"}}]}}"#)
    };
    fs::write(below.join("one.jsonl"), line(1) + "\n").unwrap();
    fs::write(place.path().join("two.jsonl"), line(2) + "\n").unwrap();
    fs::write(place.path().join("notes.txt"), "not JSON\n").unwrap();
    let message = r#"{"role":"user","content":"hello 1"}"#;
    let bytes = 2.0 * message.len() as f64;
    let directory = place.path().to_str().unwrap();
    let found = |report: &Value| {
        let target = &report["targets"][0];
        let payload = row(report, "disk.payload")["median"].as_f64().unwrap();
        (payload, target["met"].is_boolean(), target.get("unjudged").is_some())
    };
    assert_eq!(found(&run_bench(&["disk", "--transcripts", directory])), (bytes, true, false));
    let notes = place.path().join("notes.txt");
    let both = run_bench(&["disk", "--transcripts", directory, notes.to_str().unwrap()]);
    assert_eq!(found(&both), (bytes, false, true));
}

#[test]
fn a_row_that_does_not_sync_is_detected_by_its_flushes() {
    let report = run_bench(&["floor.append.1", "floor.unsynced", "engine.append.1"]);
    if report["machine"]["counts_flushes"] != true {
        // Without counted flushes durability is unknown, and none is reported.
        assert!(row(&report, "floor.unsynced").get("durable").is_none_or(Value::is_null));
        assert!(!report["notes"].as_array().unwrap().is_empty());
        return;
    }
    assert_eq!(row(&report, "floor.unsynced")["durable"], false);
    for id in ["floor.append.1", "engine.append.1"] {
        assert_eq!(row(&report, id)["durable"], true, "{id}");
        assert!(row(&report, id)["flushes_per_event"].as_f64().unwrap() > 0.9, "{id}");
    }
}

#[test]
fn a_peer_is_measured_or_reported_as_missing() {
    let report = run_bench(&["peers", "http.append.json.1"]);
    let notes = report["notes"].to_string();
    for (peer, name) in [("postgres", "PostgreSQL"), ("redis", "Redis")] {
        let rows = report["rows"].as_array().unwrap();
        let appended = rows.iter().find(|row| row["id"] == format!("{peer}.append.1"));
        match appended {
            Some(row) => assert_eq!(row["acknowledged"], row["kept"], "{row}"),
            None => assert!(notes.contains(&format!("{name} was not compared")), "{notes}"),
        }
    }
}

/// Starts a long run, interrupts it once `far` returns true, and checks that it left nothing.
fn interrupt_run(arguments: &[&str], signal: rustix::process::Signal, far: impl Fn(&Path) -> bool) {
    let home = tempfile::tempdir().unwrap();
    let mut child = command(home.path(), arguments).stdout(Stdio::null()).spawn().unwrap();
    while !far(home.path()) {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was interrupted");
        std::thread::yield_now();
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, signal).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("interrupted"), "{said}");
    assert_eq!(processes_in(home.path()), Vec::<String>::new());
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn an_interrupted_run_leaves_no_process_or_file() {
    let has_server = |home: &Path| processes_in(home).iter().any(|line| line.contains("serve"));
    let arguments = ["http.append", "--seconds", "600"];
    interrupt_run(&arguments, rustix::process::Signal::INT, has_server);
}

#[test]
fn filling_a_long_session_can_be_interrupted_like_a_round() {
    // A million steps; the first thousands are in a file of the journal.
    let is_filling = |home: &Path| {
        let journal = fs::read_dir(home).unwrap().next().map(|entry| entry.unwrap().path());
        journal.is_some_and(|site| site.join("research/journal/0").exists())
    };
    let arguments = ["research", "--sessions", "100000", "--rounds", "1"];
    interrupt_run(&arguments, rustix::process::Signal::TERM, is_filling);
}

#[test]
fn an_unknown_row_or_a_missing_directory_is_a_usage_error() {
    let home = tempfile::tempdir().unwrap();
    let unknown = command(home.path(), &["flor"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("floor"), "{unknown:?}");
    let nowhere = command(Path::new("/dev/null/x"), &["floor", "--quick"]).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(2));
}
