//! Dead, stopped or foreign owners, unwritable disks, a thousand concurrent hooks: the agent is not
//! disturbed and no event is lost.

use std::{
    collections::BTreeSet,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rustix::process::Signal;
use serde_json::{Value, json};
use sessionlog::{
    env::{Clock, entropy::SystemEntropy},
    event::Timestamp,
    hook::{Hook, Payload, Spool},
    secrets::Recogniser,
};

use super::{PATIENT, SESSION, at_once, claude, hook, kinds, of, quiet, waiting_for};
use crate::program::{Place, Ran, eventually, signal};

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

fn count_json_files(directory: &Path) -> usize {
    let inside = std::fs::read_dir(directory).into_iter().flatten().flatten();
    inside.filter(|entry| entry.path().extension().is_some_and(|e| e == "json")).count()
}

fn numbers(events: &[Value]) -> Vec<u64> {
    events.iter().map(|event| event["input"]["n"].as_u64().unwrap()).collect()
}

#[test]
fn a_stopped_owner_delays_one_hook_and_every_event_arrives_in_order() {
    let place = Place::new();
    quiet(&place, &call(0));
    let owner = eventually("an owner", || place.owner_pid());
    signal(owner, Signal::STOP);
    let first = waiting_for(&place, &call(1), "100ms");
    assert!(first.err.contains("waits in"), "{}", first.err);
    // From then on no hook retries for a while, even with a long wait.
    let second = hook(&place, &call(2));
    assert_eq!(second.err, "");
    for n in 3..6 {
        waiting_for(&place, &call(n), "100ms");
    }
    assert_eq!(count_json_files(&spool(&place)), 5);
    signal(owner, Signal::CONT);
    // The next front end of any kind delivers the spooled events.
    eventually("what waited", || {
        (numbers(&place.events(SESSION)) == [0, 1, 2, 3, 4, 5]).then_some(())
    });
    assert_eq!(count_json_files(&spool(&place)), 0);
    quiet(&place, &call(6));
    assert_eq!(numbers(&place.events(SESSION)), [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_killed_owner_is_replaced_without_lost_or_duplicate_events() {
    let place = Place::new();
    quiet(&place, &call(0));
    place.kill_owner();
    quiet(&place, &call(1));
    quiet(&place, &call(1));
    assert_eq!(numbers(&place.events(SESSION)), [0, 1]);
}

#[test]
fn an_unwritable_data_directory_does_not_disturb_the_agent() {
    let place = Place::new();
    // A file instead of the directory, which stops every user including root.
    place.write("data", "not a directory");
    let ran = hook(&place, &call(0));
    assert!(ran.out.is_empty() && ran.err.contains("waits in"), "{}", ran.err);
    assert_eq!(count_json_files(&spool(&place)), 1);
    std::fs::remove_file(place.data_dir()).unwrap();
    assert_eq!(numbers(&place.events(SESSION)), [0]);
    assert_eq!(count_json_files(&spool(&place)), 0);
}

#[test]
fn an_event_is_spooled_in_the_fallback_directory_or_reported_if_both_fail() {
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

/// Runs the program with additional variables.
fn run_as(place: &Place, variables: &[(&str, &str)], arguments: &[&str], input: &str) -> Ran {
    let mut command = place.command(arguments);
    let mut child = command.envs(variables.iter().copied()).stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
    crate::program::ran(child)
}

/// Returns the files in a directory that contain a text.
fn files_containing(directory: &Path, text: &str) -> Vec<PathBuf> {
    let inside = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = inside.map(|entry| entry.path()).filter(|path| path.is_file());
    let holds = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap();
        bytes.windows(text.len()).any(|part| part == text.as_bytes())
    };
    paths.filter(holds).collect()
}

/// A clock that advances at each reading.
struct Steps {
    seconds: u64,
    looks: AtomicU64,
}

impl Clock for Steps {
    fn now(&self) -> Timestamp {
        Timestamp(i64::try_from(self.monotonic().as_micros()).unwrap())
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.seconds * self.looks.fetch_add(1, Ordering::Relaxed))
    }
}

#[test]
fn a_slow_network_delivers_spooled_events_in_parts_without_blocking_agents() {
    let place = Place::new();
    let server = place.serve();
    let owner = u64::from(server.child.id());
    quiet(&place, &call(0));
    signal(owner, Signal::STOP);
    for n in 1..4 {
        waiting_for(&place, &call(n), "100ms");
    }
    signal(owner, Signal::CONT);
    std::fs::remove_file(spool(&place).join("failed")).unwrap();
    // So slow that a hook's time for delivery ends with each delivered event.
    let clock = Arc::new(Steps { seconds: 25, looks: AtomicU64::new(200_000_000) });
    let told = |n: usize| {
        let hook = Hook {
            secrets: Arc::default(),
            client: Ok(server.client()),
            spool: Spool::new(vec![spool(&place)], Box::new(|| Ok(None)), Arc::new(SystemEntropy)),
            clock: clock.clone(),
            entropy: Arc::new(SystemEntropy),
            process: Vec::new(),
            transcripts: Box::new(|_, _| Ok(None)),
            directory: None,
            home: None,
            wait: Duration::from_secs(60),
            timeout: Duration::from_secs(100),
            tokens_max: 0,
            recall_max: 0,
            spent: Duration::ZERO,
            gap: None,
        };
        let event = Payload::read(&call(n).to_string().into_bytes().into(), &Recogniser::default())
            .unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(hook.run(&event))
    };
    for n in 4..6 {
        let done = told(n);
        let trouble = done.trouble.unwrap();
        assert!(trouble.contains("a part at a time"), "{trouble}");
        assert_eq!((done.recorded, done.spooled), (0, 1));
        assert_eq!(
            count_json_files(&spool(&place)),
            3,
            "one was delivered, and one waits behind the others"
        );
        assert!(!spool(&place).join("failed").exists(), "who gets on does not stop others");
    }
    assert_eq!(numbers(&place.events(SESSION)), [0, 1, 2, 3, 4, 5]);
    assert_eq!(count_json_files(&spool(&place)), 0);
}

#[test]
fn a_key_command_runs_once_for_all_spooled_events() {
    let place = Place::new();
    let key = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let counted = place.path("counted");
    let script = format!("echo ran >> {}\necho {key}\n", counted.display());
    let command = format!("sh {}", place.write("key.sh", &script).display());
    let variables = [("SESSIONLOG_KEY_COMMAND", &*command)];
    let ran = || std::fs::read_to_string(&counted).unwrap().lines().count();
    let blocked = place.write("data", "not a directory");
    for n in 0..5 {
        assert_eq!(run_as(&place, &variables, &["hook"], &call(n).to_string()).code, 0);
    }
    assert_eq!(ran(), 5);
    std::fs::remove_file(blocked).unwrap();
    let events = run_as(&place, &variables, &["events", SESSION], "").ok();
    assert_eq!(events.lines().count(), 5);
    assert_eq!(ran(), 7, "once for the owner and once for what waits");
}

#[test]
fn invalid_settings_spool_events_next_to_the_store_with_its_key() {
    let key = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let event = claude("UserPromptSubmit", &json!({ "prompt": "a word of ours" })).to_string();
    let sealed = |place: &Place, variables: &[(&str, &str)]| {
        let ran = run_as(place, variables, &["hook"], &event);
        assert_eq!((ran.code, &*ran.out), (0, ""), "{}", ran.err);
        assert!(ran.err.contains("waits in") && ran.err.contains("data.spool"), "{}", ran.err);
        assert_eq!(count_json_files(&spool(place)), 1);
        assert_eq!(files_containing(&spool(place), "a word of ours"), Vec::<PathBuf>::new());
        let key = [("SESSIONLOG_KEY", key)];
        let events = run_as(place, &key, &["events", SESSION], "").ok();
        assert!(events.contains("a word of ours"), "{events}");
    };
    for wrong in [("SESSIONLOG_TTL", "soon"), ("SESSIONLOG_NO_SUCH", "1")] {
        sealed(&Place::new(), &[("SESSIONLOG_KEY", key), wrong]);
    }
    for file in ["ttl = \"soon\"", "no_such = 1", "= broken ["] {
        let place = Place::new();
        let path = place.write("key", key);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let config = place.write("settings.toml", &format!("key_file = \"key\"\n{file}\n"));
        sealed(&place, &[("SESSIONLOG_CONFIG", config.to_str().unwrap())]);
    }
    // A setting with an invalid key must not fall back to plaintext.
    let lost = |place: &Place, variable: (&str, &str)| {
        let ran = run_as(place, &[variable], &["hook"], &event);
        assert!(ran.code == 0 && ran.err.contains("this event is lost: "), "{}", ran.err);
        assert_eq!(files_containing(&place.path(""), "a word of ours"), Vec::<PathBuf>::new());
    };
    lost(&Place::new(), ("SESSIONLOG_KEY", "none"));
    for file in ["key_file = key\n", "ttl = \"soon\"\nkey_command = [\"pass\", \"x\"]\n"] {
        let place = Place::new();
        let config = place.write("settings.toml", file);
        lost(&place, ("SESSIONLOG_CONFIG", config.to_str().unwrap()));
    }
}

#[test]
fn a_foreign_file_in_place_of_the_spool_is_neither_read_nor_written() {
    let place = Place::new();
    let blocked = place.write("data", "not a directory");
    hook(&place, &call(0));
    std::fs::rename(spool(&place), place.path("theirs")).unwrap();
    std::fs::remove_file(blocked).unwrap();
    let open = |mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(spool(&place), mode).unwrap();
    };
    let refused = || {
        // Files there are never delivered, and new failures are spooled elsewhere.
        quiet(&place, &call(1));
        assert_eq!(numbers(&place.events(SESSION)), [1]);
        let owner = eventually("an owner", || place.owner_pid());
        signal(owner, Signal::STOP);
        let ran = waiting_for(&place, &call(1), "100ms");
        signal(owner, Signal::CONT);
        assert!(ran.err.contains(".local/state"), "{}", ran.err);
        assert_eq!(count_json_files(&spool(&place)), 1);
        eventually("the event that waits elsewhere", || {
            place.run(&["sessions"]).ok();
            let left = std::fs::read_dir(place.path(".local/state/sessionlog/spool")).unwrap();
            (left.flatten().map(|place| count_json_files(&place.path())).sum::<usize>() == 0)
                .then_some(())
        });
    };
    symlink(place.path("theirs"), spool(&place)).unwrap();
    refused();
    std::fs::remove_file(spool(&place)).unwrap();
    std::fs::rename(place.path("theirs"), spool(&place)).unwrap();
    for mode in [0o777, 0o720] {
        open(mode);
        refused();
    }
    open(0o700);
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(spool(&place), Some(12_345), None).unwrap();
        refused();
        std::os::unix::fs::chown(spool(&place), Some(0), None).unwrap();
    }
    assert_eq!(numbers(&place.events(SESSION)), [1, 0], "and ours it is again");
}

#[test]
fn unreadable_spooled_events_are_set_aside_and_encrypted_ones_kept() {
    let place = Place::new();
    let key = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    std::fs::create_dir(spool(&place)).unwrap();
    std::fs::set_permissions(spool(&place), std::fs::Permissions::from_mode(0o700)).unwrap();
    let put = |name: &str, bytes: &[u8]| std::fs::write(spool(&place).join(name), bytes).unwrap();
    put("1-torn.json", b"{\"session\": \"s\", \"ev");
    put("2-bytes.json", b"\xff\x00");
    put("3-empty.json", b"");
    put("4-sealed.json", b"sealed1\n and what nobody here can read, for there is no key");
    std::fs::create_dir(spool(&place).join("5-directory.json")).unwrap();
    let ran = hook(&place, &call(0));
    assert!(ran.err.contains("data.spool/refused"), "{}", ran.err);
    assert_eq!(numbers(&place.events(SESSION)), [0]);
    assert_eq!(count_json_files(&spool(&place)), 1, "the one under a key");
    assert_eq!(count_json_files(&spool(&place).join("refused")), 4);
    quiet(&place, &call(1));
    // With a key, the file is recognized as encrypted with another one.
    let other = Place::new();
    std::fs::rename(spool(&place), spool(&other)).unwrap();
    let variables = [("SESSIONLOG_KEY", key)];
    let arguments = ["hook", "--hook-wait", PATIENT];
    let ran = run_as(&other, &variables, &arguments, &call(0).to_string());
    assert!(ran.code == 0 && ran.err.contains("data.spool/refused"), "{}", ran.err);
    assert_eq!(
        (count_json_files(&spool(&other)), count_json_files(&spool(&other).join("refused"))),
        (0, 5)
    );
}

#[test]
fn an_invalid_configuration_disturbs_no_agent_and_keeps_every_event() {
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
fn a_permanently_rejected_event_is_set_aside_and_blocks_no_other() {
    let place = Place::new();
    quiet(&place, &of("gone", call(0)));
    quiet(&place, &of("put-away", call(0)));
    place.run(&["delete", "gone", "--yes"]).ok();
    let ran = hook(&place, &of("gone", call(1)));
    assert!(ran.err.contains("does not take this event"), "{}", ran.err);
    assert_eq!(
        count_json_files(&spool(&place)),
        0,
        "who deleted a session does not want more of it"
    );
    quiet(&place, &call(2));
    assert_eq!(numbers(&place.events(SESSION)), [2]);
}

#[test]
fn a_thousand_concurrent_hooks_record_a_thousand_events() {
    const ROUNDS: usize = 40;
    const AT_ONCE: usize = 25;
    let place = Place::new();
    for round in 0..ROUNDS {
        let calls: Vec<Value> = (round * AT_ONCE..(round + 1) * AT_ONCE).map(call).collect();
        for ran in at_once(&place, &calls) {
            assert_eq!((ran.code, &*ran.out), (0, ""), "{}", ran.err);
        }
    }
    // The next front end delivers those that timed out, in parts.
    eventually("the last of them", || {
        place.run(&["sessions"]).ok();
        (count_json_files(&spool(&place)) == 0).then_some(())
    });
    let events = numbers(&place.events(SESSION));
    assert_eq!(events.len(), ROUNDS * AT_ONCE);
    assert_eq!(events.into_iter().collect::<BTreeSet<_>>().len(), ROUNDS * AT_ONCE);
}

#[test]
fn spooled_events_are_private_to_their_user() {
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
fn events_spooled_for_an_encrypted_store_are_encrypted_with_its_key() {
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

#[test]
fn spooled_events_are_delivered_only_to_their_store() {
    let (place, other) = (Place::new(), Place::new());
    let server = other.serve();
    let there = u64::from(server.child.id());
    let known = |place: &Place, session: &str| place.run(&["show", session, "--json"]).code == 0;
    quiet(&place, &call(0));
    let owner = eventually("an owner", || place.owner_pid());
    signal(owner, Signal::STOP);
    waiting_for(&place, &call(1), "100ms");
    assert_eq!(count_json_files(&spool(&place)), 1);
    place.run(&["sessions", "--url", &server.url]).ok();
    assert!(!known(&other, SESSION), "what was for the data directory is no server's");
    assert_eq!(count_json_files(&spool(&place)), 1);
    signal(owner, Signal::CONT);
    assert_eq!(numbers(&place.events(SESSION)), [0, 1]);

    signal(there, Signal::STOP);
    let url = ["--url", &server.url];
    let slow = [&["hook", "--hook-wait", "100ms"], &url[..]].concat();
    let ran = place.run_with(&slow, &of("far", call(2)).to_string());
    assert!(ran.code == 0 && ran.err.contains("waits in"), "{}", ran.err);
    // Also with any other invalid setting.
    let variables = [("SESSIONLOG_URL", &*server.url), ("SESSIONLOG_TTL", "soon")];
    let ran = run_as(&place, &variables, &["hook"], &of("far", call(3)).to_string());
    assert!(ran.code == 0 && ran.err.contains("waits in"), "{}", ran.err);
    // An invalid address selects no spool, not even that of the data directory.
    let variables = [("SESSIONLOG_URL", "nowhere")];
    let ran = run_as(&place, &variables, &["hook"], &of("none", call(4)).to_string());
    assert!(ran.code == 0 && ran.err.contains("waits in"), "{}", ran.err);
    assert!(!known(&place, "far") && !known(&place, "none"), "what was for a server is its own");
    signal(there, Signal::CONT);
    // The same address in another spelling.
    let url = format!("{}/", server.url.replace("http", "HTTP"));
    eventually("what waited for the server", || {
        place.run(&["sessions", "--url", &url]).ok();
        known(&other, "far").then_some(())
    });
    assert_eq!(numbers(&other.events("far")), [2, 3]);
    assert!(!known(&other, "none"));
}

#[test]
fn custom_secret_rules_apply_despite_an_invalid_line_or_setting() {
    let event = claude("UserPromptSubmit", &json!({ "prompt": "qwerty123 stays here" }));
    let rules = "mine qwerty[0-9]+\nbroken (\nalone\n";
    for (variables, told) in
        [(vec![], vec!["line 2", "line 3"]), (vec![("SESSIONLOG_TTL", "soon")], vec!["ttl"])]
    {
        let place = Place::new();
        place.write("rules", rules);
        let file = place.path("rules");
        let file = [("SESSIONLOG_SECRETS_FILE", file.to_str().unwrap())];
        let ran = run_as(&place, &[&variables[..], &file].concat(), &["hook"], &event.to_string());
        assert_eq!((ran.code, &*ran.out), (0, ""), "{}", ran.err);
        for told in told {
            assert!(ran.err.contains(told), "{told}: {}", ran.err);
        }
        let events = place.run(&["events", SESSION]).ok();
        assert!(events.contains("stays here") && !events.contains("qwerty123"), "{events}");
    }
    let place = Place::new();
    let ran =
        run_as(&place, &[("SESSIONLOG_SECRETS_FILE", "absent")], &["hook"], &event.to_string());
    assert!(ran.code == 0 && ran.err.contains("absent"), "{}", ran.err);
    assert!(place.run(&["events", SESSION]).ok().contains("stays here"));
    let config = place.run(&["config", "--secrets-file", "absent"]);
    assert!(config.code != 0 && config.err.contains("absent"), "{config:?}");
    assert!(config.out.contains("secrets_file"), "and the settings are shown: {config:?}");
}
