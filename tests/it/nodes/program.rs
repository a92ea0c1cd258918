//! The real program as a node: `serve --store` twice over one database, an owner on demand, and the
//! commands that need a data directory. It must not look into the database, except for a canary.

use std::io::BufRead;

use serde_json::json;
use sessionlog::client::SessionWriter;

use crate::{
    program::{McpClient, Place, eventually, lines},
    servers::postgres,
};

/// Starts two nodes over a new schema; returns them with their places and the address.
fn two_nodes() -> Option<(String, [Place; 2])> {
    let address = postgres()?.address("");
    Some((address, [Place::new(), Place::new()]))
}

#[test]
fn each_node_serves_every_session_and_a_client_continues_at_the_other_node() {
    let Some((address, [one, other])) = two_nodes() else { return };
    let a = one.serve_with(&["--store", &address]);
    let b = other.serve_with(&["--store", &address]);
    let client = Place::new();
    let at = |url: &str, arguments: &[&str]| client.run(&[&["--url", url], arguments].concat());
    let sent = "{\"type\":\"user.message\",\"content\":\"the heron at the weir\"}\n";
    let append =
        |url: &str, text: &str| client.run_with(&["--url", url, "append", "s", "--create"], text);
    append(&a.url, sent).ok();
    let read = lines(&at(&b.url, &["events", "s"]).ok());
    assert!(read[0].to_string().contains("the heron at the weir"), "{read:?}");
    // Acknowledged at one, found at the other.
    let found = at(&b.url, &["search", "heron weir", "--json"]).ok();
    assert!(found.contains("the heron at the weir"), "{found}");
    a.kill();
    append(&b.url, &sent.replace("heron", "egret")).ok();
    assert_eq!(lines(&at(&b.url, &["events", "s"]).ok()).len(), 2);
    // A node that died is no longer waited for after ten seconds; erasing says so until then.
    let erased = eventually("an erasure without the dead node", || {
        let ran = at(&b.url, &["erase", "s", "--yes"]);
        (ran.code == 0).then_some(ran)
    });
    drop(erased);
    let gone = at(&b.url, &["events", "s"]);
    assert_ne!(gone.code, 0);
    let after = at(&b.url, &["search", "heron weir", "--json"]).ok();
    assert!(!after.contains("the heron at the weir"), "{after}");
    assert_eq!(b.stop(), Some(0));
}

#[test]
fn an_erasure_answers_once_the_other_node_has_nothing_of_it() {
    let Some((address, [one, other])) = two_nodes() else { return };
    let (a, b) = (one.serve_with(&["--store", &address]), other.serve_with(&["--store", &address]));
    let client = Place::new();
    let at = |url: &str, arguments: &[&str]| client.run(&[&["--url", url], arguments].concat());
    let canary = "canary-5519-quokka";
    let sent = format!("{{\"type\":\"user.message\",\"content\":\"{canary}\"}}\n");
    client.run_with(&["--url", &a.url, "append", "s", "--create"], &sent).ok();
    // The other node computes facts and an index from it.
    let viewed = at(&b.url, &["view", "s"]).ok();
    assert!(viewed.contains(canary), "{viewed}");
    assert!(at(&b.url, &["search", "quokka", "--json"]).ok().contains(canary));
    at(&a.url, &["erase", "s", "--yes"]).ok();
    for url in [&a.url, &b.url] {
        for asked in [vec!["view", "s"], vec!["events", "s"], vec!["search", "quokka", "--json"]] {
            let ran = at(url, &asked);
            assert!(!ran.out.contains(canary) && !ran.err.contains(canary), "{asked:?}: {ran:?}");
        }
    }
    for place in [&one, &other] {
        let held = std::process::Command::new("grep")
            .args(["-r", "-l", canary])
            .arg(place.data_dir())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&held.stdout), "", "no file of a node has it");
    }
}

#[test]
fn an_owner_on_demand_and_the_tools_of_a_model_work_through_a_node() {
    let Some(server) = postgres() else { return };
    let address = server.address("");
    let place = Place::new();
    let store = [("SESSIONLOG_STORE", address.as_str())];
    let sent = "{\"type\":\"user.message\",\"content\":\"by a pipe\"}\n";
    let mut child = place
        .command(&["append", "s", "--create"])
        .envs(store)
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), sent.as_bytes()).unwrap();
    crate::program::ran(child).ok();
    let listed = place.run_in(&store, &["sessions", "--json"]).ok();
    assert!(listed.contains("\"s\""), "{listed}");
    let mut tools = McpClient::start(&place, &["--store", &address]);
    let recovered = tools.call("get_research_session", &json!({ "sessionId": "s" }));
    assert!(recovered.to_string().contains("by a pipe"), "{recovered}");
    let status = place.run_in(&store, &["status"]).ok();
    assert!(status.contains("postgres://"), "{status}");
    let doctor = place.run_in(&store, &["doctor", "--json"]);
    let checks: serde_json::Value = serde_json::from_str(&doctor.out).unwrap();
    let durability = checks["checks"].as_array().unwrap().iter();
    let durability = durability.clone().find(|check| check["check"] == "durability").unwrap();
    assert!(durability["found"].as_str().unwrap().starts_with("weak"), "{durability}");
}

#[test]
fn settings_and_verbs_that_a_database_lacks_are_refused_by_name() {
    let place = Place::new();
    let address = "postgres://ada@localhost/logs";
    for (arguments, part) in [
        (vec!["--store", address, "backup", "create", "b"], "pg_basebackup"),
        (vec!["--store", "redis://localhost", "sessions"], "postgres://USER@HOST/DATABASE"),
        (vec!["--store", "postgres://ada:secret@h/d", "sessions"], "SESSIONLOG_STORE_PASSWORD"),
        (vec!["--store", "postgres://h/d?pool=9", "sessions"], "there is no option"),
        (vec!["--store", "postgres://ada@/x?host=/nowhere", "serve"], "/nowhere"),
    ] {
        let ran = place.run(&arguments);
        assert_ne!(ran.code, 0, "{arguments:?}");
        let text = format!("{}{}", ran.out, ran.err);
        assert!(text.contains(part), "{arguments:?}: {text}");
        assert!(!text.contains("secret"), "{text}");
    }
}

const KEY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const OTHER_KEY: &str = "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Two nodes with a key, each an owner on demand; without the key or with another there is none.
#[test]
fn an_encrypted_database_is_served_with_its_key_and_refused_without() {
    let Some(server) = postgres() else { return };
    let (address, [one, other]) =
        (server.address_of("program_keys", ""), [Place::new(), Place::new()]);
    let with = |place: &Place, keys: &[(&str, &str)], arguments: &[&str], input: &str| {
        let mut command = place.command(arguments);
        command.env("SESSIONLOG_STORE", &address).envs(keys.iter().copied());
        let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
        // A command that is refused does not read it.
        let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes());
        crate::program::ran(child)
    };
    let key = [("SESSIONLOG_KEY", KEY)];
    let sent = "{\"type\":\"user.message\",\"content\":\"the heron at the weir\"}\n";
    with(&one, &key, &["append", "s", "--create"], sent).ok();
    assert!(with(&other, &key, &["events", "s"], "").ok().contains("heron"));
    assert!(with(&other, &key, &["search", "heron", "--json"], "").ok().contains("weir"));
    let stored =
        server.run("SELECT string_agg(encode(frame, 'escape'), '') FROM program_keys.frame");
    assert!(!stored.contains("heron") && !stored.is_empty(), "{stored}");
    assert!(with(&one, &key, &["status"], "").ok().contains("encryption     on"));
    let checks = with(&one, &key, &["doctor"], "").out;
    assert!(checks.contains("the store is encrypted, and its key is given"), "{checks}");
    assert!(with(&one, &key, &["keys", "check"], "").ok().contains("keys of sessions: 1"));
    let third = Place::new();
    for (keys, part) in [
        (&[][..], "is encrypted under the key"),
        (&[("SESSIONLOG_KEY", OTHER_KEY)][..], "the keys given are"),
    ] {
        let ran = with(&third, keys, &["events", "s"], "");
        let text = format!("{}{}", ran.out, ran.err);
        assert!(ran.code != 0 && text.contains(part) && !text.contains("heron"), "{text}");
        let checks = with(&third, keys, &["doctor"], "").out;
        assert!(checks.contains("its key was not given"), "{checks}");
    }
}

/// A hook that reaches no owner keeps its event beside the directory of the node, under the key of
/// the store, also where another setting is wrong.
#[test]
fn an_event_spooled_for_an_encrypted_database_is_encrypted_and_delivered_later() {
    let Some(server) = postgres() else { return };
    let (address, place) = (server.address(""), Place::new());
    let run = |arguments: &[&str], more: &[(&str, &str)], input: &str| {
        let mut command = place.command(arguments);
        command.env("SESSIONLOG_STORE", &address).env("SESSIONLOG_KEY", KEY);
        let mut child =
            command.envs(more.iter().copied()).stdin(std::process::Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
        crate::program::ran(child)
    };
    let blocked = place.write("data", "not a directory");
    let prompt = |word: &str| {
        json!({
            "hook_event_name": "UserPromptSubmit", "session_id": "spooled", "cwd": "/work",
            "transcript_path": "/nowhere", "prompt": word,
        })
        .to_string()
    };
    assert_eq!(run(&["hook"], &[], &prompt("the first word")).code, 0);
    let wrong = [("SESSIONLOG_TTL", "soon")];
    assert_eq!(run(&["hook"], &wrong, &prompt("the second word")).code, 0);
    let files = std::fs::read_dir(place.path("data.spool")).unwrap();
    let files: Vec<_> = files.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
    assert!(files.len() >= 2, "{}", files.len());
    let has_word =
        |bytes: &Vec<u8>| bytes.windows(9).any(|part| part == b"cond word" || part == b"irst word");
    assert!(!files.iter().any(has_word));
    std::fs::remove_file(blocked).unwrap();
    // The next command that writes makes the store, and delivers what waits.
    let sent = "{\"type\":\"user.message\",\"content\":\"the third word\"}\n";
    run(&["append", "other", "--create"], &[], sent).ok();
    let listed = run(&["sessions", "--json"], &[], "").ok();
    assert!(listed.contains("spooled"), "{listed}");
    let found = run(&["search", "first second word", "--json"], &[], "").ok();
    assert!(found.contains("the first word") && found.contains("the second word"), "{found}");
}

/// Nodes with other lifetimes expire each other's sessions.
#[test]
fn nodes_with_other_lifetimes_are_warned_of_at_start_and_by_doctor() {
    let Some((address, [one, other])) = two_nodes() else { return };
    let a = one.serve_with(&["--store", &address]);
    let (reader, log) = std::io::pipe().unwrap();
    let b = other.serve_to(&["--store", &address, "--retention", "7d"], log.into());
    let mut log = std::io::BufReader::new(reader).lines().map(Result::unwrap);
    let warned = log.find(|line| line.contains("lifetimes") || line.contains("owner started"));
    assert!(warned.as_ref().is_some_and(|line| line.contains("other lifetimes")), "{warned:?}");
    let json = |place: &Place, verb: &str| -> serde_json::Value {
        let ran = place.run(&["--store", &address, verb, "--json"]);
        serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
    };
    let checks = json(&other, "doctor");
    let nodes = checks["checks"].as_array().unwrap().iter().find(|one| one["check"] == "nodes");
    assert_eq!(nodes.unwrap()["state"], "warn", "{checks}");
    // Each node lists both, itself first; the earlier one knows the later from its next report on.
    let processes = [&a, &b].map(|served| served.child.id().to_string());
    let place_of = |node: &serde_json::Value| {
        node["place"].as_str().unwrap().rsplit_once('/').unwrap().1.to_owned()
    };
    for (place, order) in [(&one, [0, 1]), (&other, [1, 0])] {
        let nodes = eventually("both nodes in the status of each", || {
            let nodes = json(place, "status")["nodes"].as_array().unwrap().clone();
            (nodes.len() == 2).then_some(nodes)
        });
        let wanted = order.map(|at| processes[at].clone());
        assert_eq!(nodes.iter().map(place_of).collect::<Vec<_>>(), wanted, "{nodes:?}");
        assert_eq!([&nodes[0]["alike"], &nodes[1]["alike"]], [true, false], "{nodes:?}");
        let text = place.run(&["--store", &address, "status"]).ok();
        assert!(text.contains(&format!("/{} (other lifetimes", wanted[1])), "{text}");
    }
    assert_eq!(b.stop(), Some(0));
    // A node that stops takes itself off the list.
    eventually("one node after the other stopped", || {
        (json(&one, "status")["nodes"].as_array().unwrap().len() == 1).then_some(())
    });
}

/// A command that only reads makes no schema in a database that it was given by mistake.
#[test]
fn a_reading_command_on_a_database_without_a_store_makes_nothing_and_says_so() {
    let Some(server) = postgres() else { return };
    let (place, address) = (Place::new(), server.address_of("read_only_verbs", ""));
    for verb in [&["sessions"][..], &["show", "s"], &["verify"], &["search", "x"], &["doctor"]] {
        let ran = place.run(&[&["--store", &address][..], verb].concat());
        assert_ne!(ran.code, 0, "{verb:?}");
        let text = format!("{}{}", ran.out, ran.err);
        assert!(text.contains("read_only_verbs") && text.contains("no schema"), "{verb:?}: {text}");
    }
    assert_eq!(server.run("SELECT to_regnamespace('read_only_verbs') IS NULL"), "t");
    let sent = "{\"type\":\"user.message\",\"content\":\"first\"}\n";
    place.run_with(&["--store", &address, "append", "s", "--create"], sent).ok();
    assert_eq!(lines(&place.run(&["--store", &address, "events", "s"]).ok()).len(), 1);
}

/// Ten thousand sessions, 64 clients, the connections of one node.
#[test]
fn a_node_serves_ten_thousand_sessions_over_its_connections() {
    let Some((_, [place, _])) = two_nodes() else { return };
    let server = postgres().expect("it is there");
    let node = place.serve_with(&["--store", &server.address("&application_name=many")]);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let client = std::sync::Arc::new(node.client());
    let acknowledged: u64 = runtime.block_on(async {
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..64 {
            let client = std::sync::Arc::clone(&client);
            writers.spawn(async move {
                let mut acknowledged = 0;
                for n in (writer..10_000).step_by(64) {
                    let id = sessionlog::event::SessionId::new(&format!("s{n}")).unwrap();
                    let writer =
                        SessionWriter { creates: true, ..SessionWriter::new(&client, &id) };
                    let sent = format!("{{\"type\":\"user.message\",\"content\":\"{n}\"}}");
                    let stored = writer.append([sent], None, None).await.unwrap();
                    acknowledged += u64::from(stored.first_position == Some(0));
                }
                acknowledged
            });
        }
        writers.join_all().await.into_iter().sum()
    });
    assert_eq!(acknowledged, 10_000);
    let of = "FROM pg_stat_activity WHERE application_name = 'many'";
    let connections: u64 = server.run(&format!("SELECT count(*) {of}")).parse().unwrap();
    assert!(connections <= 11, "{connections}");
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.child.id())).unwrap();
    let resident = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    eprintln!("10000 sessions over {connections} connections; {resident}");
}
