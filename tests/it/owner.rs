//! One owner per data directory under every condition: started by many clients at once, killed,
//! replaced, rejected. All through real processes.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::Stdio,
};

use serde_json::{Value, json};

use crate::{
    program::{McpClient, Place, Ran, eventually, lines, signal},
    say::read,
};

fn event(content: &str) -> String {
    json!({ "type": "agent.message", "content": content }).to_string()
}

fn step(number: u64, text: &str) -> Value {
    json!({
        "searchStep": text,
        "stepNumber": number,
        "nextStepNeeded": true,
        "researchGoal": "who owns it",
    })
}

/// Returns the number of processes that own the data directory on demand, by their arguments.
fn owners_of(place: &Place) -> usize {
    let data_dir = place.data_dir();
    let data_dir = data_dir.to_str().unwrap();
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok())
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .filter(|line| line.contains("--on-demand") && line.contains(data_dir))
        .count()
}

#[test]
fn twenty_mcp_clients_and_the_command_line_start_at_once_and_all_succeed() {
    let place = Place::new();
    let sessions: Vec<String> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..20)
            .map(|number| {
                let place = &place;
                scope.spawn(move || {
                    let mut client = McpClient::start(place, &[]);
                    let first = client.call("sequential_search", &step(1, &format!("c{number}")));
                    for next in 2..=3 {
                        client.call("sequential_search", &step(next, "on"));
                    }
                    let recovered = client.call("get_research_session", &json!({}));
                    assert_eq!(recovered["sessionId"], first["sessionId"], "{recovered}");
                    first["sessionId"].as_str().unwrap().to_owned()
                })
            })
            .collect();
        let writers: Vec<_> = (0..5)
            .map(|writer| {
                let place = &place;
                scope.spawn(move || {
                    for number in 0..5 {
                        let text = format!("{writer}-{number}");
                        place.run_with(&["append", "shared", "--create"], &event(&text)).ok();
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert_eq!(owners_of(&place), 1);
    let distinct: std::collections::BTreeSet<&String> = sessions.iter().collect();
    assert_eq!(distinct.len(), 20, "each client has a session of its own");
    for session in &sessions {
        let events = place.events(session);
        let steps = events.iter().filter(|event| event["type"] == "research.step").count();
        assert_eq!(steps, 3, "{session}: {events:?}");
    }
    let mut contents: Vec<String> = place
        .events("shared")
        .iter()
        .map(|event| event["content"].as_str().unwrap().to_owned())
        .collect();
    contents.sort();
    let expected: Vec<String> =
        (0..5).flat_map(|writer| (0..5).map(move |n| format!("{writer}-{n}"))).collect();
    assert_eq!(contents, expected);
}

#[test]
fn a_stdio_client_keeps_working_through_kill_9_and_restarts_of_serve() {
    let place = Place::new();
    let mut client = McpClient::start(&place, &[]);
    let first = client.call("sequential_search", &step(1, "on demand"));
    place.kill_owner();
    client.call("sequential_search", &step(2, "after a kill"));
    let server = place.serve();
    client.call("sequential_search", &step(3, "while serving"));
    assert_eq!(place.owner_pid(), Some(u64::from(server.child.id())));
    assert_eq!(server.stop(), Some(0));
    client.call("sequential_search", &step(4, "after the server"));
    let server = place.serve();
    client.call("sequential_search", &step(5, "a second server"));
    server.kill();
    let recovered = client.call("get_research_session", &json!({}));
    assert_eq!(recovered["sessionId"], first["sessionId"]);
    let session = first["sessionId"].as_str().unwrap();
    let told: Vec<Value> = place
        .events(session)
        .iter()
        .filter(|event| event["type"] == "research.step")
        .map(|event| event["description"].clone())
        .collect();
    let expected =
        ["on demand", "after a kill", "while serving", "after the server", "a second server"];
    assert_eq!(told, expected);
}

#[test]
fn acknowledged_events_survive_any_number_of_kills_exactly_once() {
    let place = Place::new();
    let mut child = place
        .command(&["append", "s", "--create", "--json"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for number in 0..120 {
        if number % 20 == 10 {
            place.kill_owner();
        }
        input.write_all(format!("{}\n", event(&number.to_string())).as_bytes()).unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["first_position"], json!(number), "{answer}");
    }
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let contents: Vec<Value> =
        place.events("s").iter().map(|event| event["content"].clone()).collect();
    let expected: Vec<Value> = (0..120).map(|number| json!(number.to_string())).collect();
    assert_eq!(contents, expected);
}

#[test]
fn serve_replaces_an_owner_on_demand_and_a_second_serve_is_rejected() {
    let place = Place::new();
    place.run_with(&["append", "s", "--create"], &event("before")).ok();
    let server = place.serve();
    assert_eq!(place.owner_pid(), Some(u64::from(server.child.id())));
    let second = place.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.code, 1, "{second:?}");
    let data_dir = place.data_dir();
    assert!(second.err.contains(data_dir.to_str().unwrap()), "{second:?}");
    assert!(second.err.contains(&server.child.id().to_string()), "{second:?}");
    assert_eq!(place.events("s")[0]["content"], json!("before"));
    let port = server.url.rsplit_once(':').unwrap().1;
    let elsewhere = Place::new();
    let taken = elsewhere.run(&["serve", "--json", "--listen", &format!("127.0.0.1:{port}")]);
    assert_eq!(taken.refused(1), "owner_unavailable");
    assert_eq!(server.stop(), Some(0));
    assert_eq!(place.events("s").len(), 1, "an owner on demand follows the server");
}

#[test]
fn logs_contain_no_recorded_text_at_any_level() {
    let place = Place::new();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--json", "--log", "trace"];
    let mut server = place.command(&arguments).spawn().unwrap();
    let mut log = server.stderr.take().unwrap();
    let log = std::thread::spawn(move || {
        let mut told = String::new();
        log.read_to_string(&mut told).unwrap();
        told
    });
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    place.run_with(&["append", "s", "--create"], &event("the secret word")).ok();
    place.events("s");
    place.run_with(&["append", "s"], "{\"type\":7,\"x\":\"the secret word\"}");
    let mut client = McpClient::start(&place, &["--log", "trace"]);
    client.call("sequential_search", &step(1, "the secret word"));
    client.call("get_research_session", &json!({}));
    server.kill().unwrap();
    server.wait().unwrap();
    let told = log.join().unwrap();
    assert!(told.contains("request answered"), "{told}");
    assert!(!told.contains("secret word"), "{told}");
}

#[test]
fn an_on_demand_owner_exits_when_no_client_is_connected() {
    let place = Place::new();
    let quick = |arguments: &[&str]| {
        place.command(arguments).env("SESSIONLOG_OWNER_IDLE", "100ms").output().unwrap()
    };
    assert!(quick(&["sessions"]).status.success());
    eventually("the owner's leaving", || {
        (!place.data_dir().join("owner.sock").exists() && owners_of(&place) == 0).then_some(())
    });
    assert!(quick(&["sessions"]).status.success(), "and the next front end starts another");
}

#[test]
fn an_owner_on_demand_runs_in_its_own_process_session_and_inherits_nothing() {
    let place = Place::new();
    // A descriptor that a parent process leaves open, as `flock` does.
    let inherited = place.write("inherited", "");
    let shell = format!("exec 9<'{}'; exec \"$0\" sessions", inherited.display());
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", &shell, env!("CARGO_BIN_EXE_sessionlog")]).env_clear();
    command.env("SESSIONLOG_DATA_DIR", place.data_dir()).env("SESSIONLOG_OWNER_IDLE", "5s");
    assert!(command.output().unwrap().status.success());
    let pid = eventually("an owner", || place.owner_pid());
    let stat = read(std::path::Path::new(&format!("/proc/{pid}/stat")));
    let session = stat.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap();
    assert_eq!(session, pid.to_string(), "it leads its process session");
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap() {
        let path = entry.unwrap().path();
        assert_ne!(std::fs::read_link(&path).ok(), Some(inherited.clone()), "{path:?}");
    }
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    assert!(!String::from_utf8_lossy(&environment).contains("HOME="), "a clean environment");
}

#[test]
fn different_storage_settings_than_the_owners_are_rejected_with_a_remedy() {
    let place = Place::new();
    place.run(&["sessions"]).ok();
    let output =
        place.command(&["sessions"]).env("SESSIONLOG_SEGMENT_BYTES_MAX", "1MiB").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    let pid = place.owner_pid().unwrap();
    assert!(told.contains("segment_bytes_max=1048576"), "the setting is named: {told}");
    assert!(told.contains("configuration") && told.contains(&format!("kill {pid}")), "{told}");
}

#[test]
fn equal_storage_settings_in_other_notation_are_accepted() {
    let place = Place::new();
    place.run(&["sessions"]).ok();
    let output =
        place.command(&["sessions"]).env("SESSIONLOG_SEGMENT_BYTES_MAX", "8MiB").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn an_owner_whose_directory_is_removed_exits_and_keeps_its_successors_socket() {
    let place = Place::new();
    place.run(&["sessions", "--owner-idle", "1h"]).ok();
    let old = eventually("an owner", || place.owner_pid());
    std::fs::remove_dir_all(place.data_dir()).unwrap();
    let server = place.serve();
    eventually("the old owner's end", || (owners_of(&place) == 0).then_some(()));
    assert_ne!(place.owner_pid(), Some(old));
    assert_eq!(place.owner_pid(), Some(u64::from(server.child.id())), "its socket is there");
}

#[test]
fn an_owner_that_does_not_answer_is_reported_within_seconds() {
    let place = Place::new();
    place.run(&["sessions"]).ok();
    let pid = eventually("an owner", || place.owner_pid());
    signal(pid, rustix::process::Signal::STOP);
    let refused: Vec<Ran> = std::thread::scope(|scope| {
        let run = |verb: &'static str| {
            let place = &place;
            scope.spawn(move || place.run(&[verb, "--json"]))
        };
        [run("sessions"), run("serve")].into_iter().map(|ran| ran.join().unwrap()).collect()
    });
    signal(pid, rustix::process::Signal::CONT);
    for ran in refused {
        assert!(ran.out.contains(&format!("process {pid}")), "{ran:?}");
        assert_eq!(ran.refused(1), "owner_unavailable");
    }
}

#[test]
fn a_frozen_owner_is_reported_within_seconds_and_calls_continue_when_it_resumes() {
    let place = Place::new();
    let mut client = McpClient::start(&place, &[]);
    let step = |number: u64| json!({"searchStep": format!("step {number}"), "stepNumber": number, "nextStepNeeded": true});
    client.call("sequential_search", &step(1));
    let pid = eventually("an owner", || place.owner_pid());
    signal(pid, rustix::process::Signal::STOP);
    // Each call uses the connection that worked before the owner froze.
    let refused = [("sequential_search", step(2)), ("get_research_session", json!({}))].map(
        |(tool, arguments)| {
            client.ask("tools/call", &json!({"name": tool, "arguments": arguments}))
        },
    );
    signal(pid, rustix::process::Signal::CONT);
    for (answer, kind) in refused.iter().zip(["outcome_unknown", "owner_unavailable"]) {
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        let facts: Value = serde_json::from_str(text.split_once("\n\n").unwrap().1).unwrap();
        assert_eq!(facts["error"]["kind"], kind, "{text}");
        assert_eq!(facts["error"]["retryable"], true, "{text}");
        assert!(text.contains(&format!("process {pid}")), "{text}");
    }
    client.call("sequential_search", &step(2));
    let found = client.call("get_research_session", &json!({}));
    assert_eq!(found["stepCount"], 2, "the step in doubt is there once");
    assert_eq!(place.owner_pid(), Some(pid));
}

#[test]
fn the_step_limit_reaches_an_owner_from_a_flag_and_from_the_environment() {
    let step = |number: u64| json!({"searchStep": format!("step {number}"), "stepNumber": number, "nextStepNeeded": true});
    let refused_at_three = |client: &mut McpClient| {
        for number in 1..=2 {
            client.call("sequential_search", &step(number));
        }
        let answer =
            client.ask("tools/call", &json!({"name": "sequential_search", "arguments": step(3)}));
        let text = answer["result"]["content"][0]["text"].as_str().unwrap().to_owned();
        assert_eq!(answer["result"]["isError"], true, "{text}");
        assert!(text.contains("\"kind\":\"limit_reached\""), "{text}");
        assert_eq!(client.call("get_research_session", &json!({}))["stepCount"], 2);
    };
    let place = Place::new();
    refused_at_three(&mut McpClient::start(&place, &["--max-steps", "2"]));

    let place = Place::new();
    let mut command = place.command(&["serve", "--listen", "127.0.0.1:0", "--json"]);
    let mut server = command.env("SESSIONLOG_MAX_STEPS", "2").spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    refused_at_three(&mut McpClient::start(&place, &[]));
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn a_data_directory_with_a_long_path_works_like_any_other() {
    let place = Place::new();
    let long = place.path(&"long-name/".repeat(15));
    let long = long.to_str().unwrap();
    assert!(long.len() > 107, "longer than a socket's address");
    place.run_with(&["append", "s", "--create", "--data-dir", long], &event("far")).ok();
    let events = lines(&place.run(&["events", "s", "--data-dir", long]).ok());
    assert_eq!(events[0]["content"], json!("far"));
    let mut server = place
        .command(&["serve", "--listen", "127.0.0.1:0", "--json", "--data-dir", long])
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("listening"), "it takes over from the owner on demand: {line}");
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn an_unusable_data_directory_is_rejected_with_an_error_naming_it() {
    let place = Place::new();
    let file = place.write("file", "not a directory");
    let below = file.join("data");
    let below = below.to_str().unwrap();
    for verb in ["sessions", "serve"] {
        let ran = place.run(&[verb, "--json", "--data-dir", below]);
        assert!(ran.out.contains(below), "{ran:?}");
        assert_eq!(ran.refused(1), "owner_unavailable");
    }
    assert_eq!(read(&file), "not a directory");
}

#[test]
fn a_data_directory_of_a_newer_version_is_rejected_and_not_changed() {
    let place = Place::new();
    place.run_with(&["append", "s", "--create"], &event("kept")).ok();
    place.kill_owner();
    let store = place.data_dir().join("STORE");
    let old = std::fs::read(&store).unwrap();
    let mut newer = old.clone();
    newer[8..12].copy_from_slice(&99_u32.to_le_bytes());
    std::fs::write(&store, &newer).unwrap();
    for verb in ["sessions", "serve"] {
        let ran = place.run(&[verb, "--json"]);
        assert!(ran.out.contains("99"), "{ran:?}");
        assert_eq!(ran.refused(1), "store_read_only");
    }
    assert_eq!(std::fs::read(&store).unwrap(), newer);
    std::fs::write(&store, &old).unwrap();
    assert_eq!(place.events("s")[0]["content"], json!("kept"));
}

#[test]
fn a_damaged_data_directory_is_rejected_with_exit_code_3() {
    let place = Place::new();
    place.run_with(&["append", "s", "--create"], &event("kept")).ok();
    let server = place.serve();
    assert_eq!(server.stop(), Some(0));
    let store = place.data_dir().join("STORE");
    let old = std::fs::read(&store).unwrap();
    std::fs::remove_file(&store).unwrap();
    for verb in ["sessions", "serve"] {
        let ran = place.run(&[verb, "--json"]);
        assert_eq!(ran.code, 3, "{ran:?}");
        assert!(ran.out.contains("damaged"), "{ran:?}");
    }
    std::fs::write(&store, &old).unwrap();
    assert_eq!(place.events("s")[0]["content"], json!("kept"));
}

#[test]
fn following_prints_each_event_once_even_when_the_owner_exits() {
    let place = Place::new();
    let three = [event("a"), event("b"), event("c")].join("\n");
    place.run_with(&["append", "trip", "--create"], &three).ok();
    let mut child = place
        .command(&["events", "trip", "--follow", "--from", "1", "--limit", "4"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut next = || {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()["position"].as_u64().unwrap()
    };
    assert_eq!([next(), next()], [1, 2]);
    place.run_with(&["append", "trip"], &event("three")).ok();
    assert_eq!(next(), 3);
    place.kill_owner();
    place.run_with(&["append", "trip"], &event("four")).ok();
    assert_eq!(next(), 4);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
