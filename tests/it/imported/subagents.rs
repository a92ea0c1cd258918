//! Subagents' transcripts in files of their own: their lines are events of a thread of the session,
//! and the conversation with the user is as without them.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use sessionlog::client::HttpRequest;

use super::{SESSION, Transcript, import, messages, typed, view};
use crate::program::{Place, lines as json_lines};

const NESTED: &str = "subagents/workflows/w1/agent-b2.jsonl";

/// Returns a line of a subagent, at a time within the first minute.
fn line(agent: &str, second: f64, kind: &str, content: Value) -> String {
    let mut message = json!({ "role": kind, "content": content });
    if kind == "assistant" {
        message["id"] = json!(format!("m-{agent}-{}", second.floor()));
        message["model"] = json!("claude-haiku-5-5");
        message["usage"] = json!({ "input_tokens": 10, "output_tokens": 5 });
    }
    let line = json!({
        "type": kind, "isSidechain": true, "agentId": agent, "sessionId": SESSION,
        "uuid": format!("{agent}-{second:.1}-{kind}"), "cwd": "/home/ada/mill", "message": message,
        "timestamp": format!("2026-09-14T08:00:{second:06.3}Z"),
    });
    format!("{line}\n")
}

fn call(agent: &str, second: f64, tool: &str, input: Value) -> String {
    let id = format!("t-{agent}-{second:.1}");
    let block = json!([{ "type": "tool_use", "id": id, "name": tool, "input": input }]);
    let result = json!([{ "type": "tool_result", "tool_use_id": id, "content": "bolt, rusty" }]);
    line(agent, second, "assistant", block) + &line(agent, second + 0.1, "user", result)
}

/// Returns the lines of a subagent: its task, a call, and an answer in two lines of one request.
fn hinge() -> String {
    let answer = |text: &str| json!([{ "type": "text", "text": text }]);
    line("a1", 2.1, "user", json!("Where is the hinge? Ask the miller."))
        + "{\"type\":\"attachment\",\"attachment\":{\"type\":\"todo_reminder\"}}\n"
        + &call("a1", 2.2, "Read", json!({ "file_path": "/home/ada/mill/gate.txt" }))
        + &line("a1", 2.4, "assistant", answer("I looked."))
        + &line("a1", 2.5, "assistant", answer("The hinge sits by a verdigris bolt."))
}

/// Returns a session that has a subagent look for a hinge.
fn session() -> Transcript {
    let talk = Transcript::default();
    talk.user("Mend the sluice gate");
    let input = json!({ "subagent_type": "Explore", "description": "Find the hinge",
        "prompt": "Where is the hinge?" });
    talk.agent("m1", json!({ "type": "tool_use", "id": "t1", "name": "Agent", "input": input }));
    talk.result("t1", "It is on the left.\nagentId: a1 (for resuming)");
    talk.says("m2", "The gate hangs by its left hinge.");
    talk
}

/// Writes a session's transcript, and files by their path below the session's directory.
fn write(place: &Place, main: Option<&str>, files: &[(&str, &str)]) -> PathBuf {
    for (name, text) in files {
        let path = place.path(&format!("{SESSION}/{name}"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let path = place.path(&format!("{SESSION}.jsonl"));
    main.into_iter().for_each(|text| fs::write(&path, text).unwrap());
    path
}

fn import_files(place: &Place, files: &[PathBuf]) -> (i32, Value) {
    let names = files.iter().map(|file| file.to_str().unwrap());
    let ran = place.run(&["import", "--json"].into_iter().chain(names).collect::<Vec<_>>());
    (ran.code, json_lines(&ran.out).pop().unwrap_or_else(|| panic!("{ran:?}")))
}

fn added(place: &Place, main: Option<&str>, files: &[(&str, &str)]) -> Value {
    let path = write(place, main, files);
    let (code, report) = import_files(place, &[path]);
    assert_eq!((code, &report["session_ids"]), (0, &json!([SESSION])), "{report}");
    report["added"].clone()
}

fn exported(place: &Place) -> String {
    place.run(&["export", SESSION, "--format", "claude-code"]).ok()
}

/// Returns the events of a thread; the session's own with `None`.
fn thread(place: &Place, id: Option<&str>) -> Vec<Value> {
    let events = place.events(SESSION).into_iter();
    events.filter(|event| event["session_thread_id"].as_str() == id).collect()
}

fn sessions(place: &Place) -> Vec<Value> {
    place.run(&["sessions", "--json"]).json()["data"].as_array().unwrap().clone()
}

/// Returns what continues a session, without positions and numbers of events.
fn continued(place: &Place) -> Vec<String> {
    let mut all = messages(place);
    all.push(place.run(&["view", SESSION, "continuation"]).ok());
    all.push(place.run(&["view", SESSION, "summary"]).ok());
    all.push(place.run(&["handoff", "restore", "/home/ada/mill", "--look"]).ok());
    all.push(sessions(place)[0]["title"].to_string());
    let plain = |text: String| text.chars().filter(|one| !one.is_ascii_digit()).collect();
    all.into_iter().map(plain).collect()
}

#[test]
fn the_files_of_subagents_become_threads_and_leave_the_conversation_as_it_is() {
    let (place, alone) = (Place::new(), Place::new());
    let (server, runtime) = (place.serve(), tokio::runtime::Runtime::new().unwrap());
    let main = session().text();
    let nested = line("b2", 2.25, "user", json!("Count the bolts"));
    let late = line("c3", 50.0, "user", json!("Sweep the weir"));
    let files = [("subagents/agent-a1.jsonl", &*hinge()), (NESTED, &nested)];
    let files = [&files[..], &[("subagents/agent-c3.jsonl", &*late)]].concat();
    assert_eq!(added(&place, Some(&main), &files), 4 + 6 + 1 + 1 + 1);
    import(&alone, &main);
    assert_eq!(continued(&place), continued(&alone));
    assert_eq!((sessions(&place).len(), exported(&place)), (1, main.clone()));
    // Their events are where they happened, each with its thread.
    let events = place.events(SESSION);
    let at = |words: &str| events.iter().position(|event| event.to_string().contains(words));
    let order = ["Mend the", "Find the hinge", "Ask the miller", "todo_reminder", "gate.txt"];
    let order = order.into_iter().chain(["Count the", "bolt, rusty", "verdigris", "on the left."]);
    let order = order.chain(["Sweep the weir"]);
    let order: Vec<_> = order.map(|words| at(words).expect(words)).collect();
    assert!(order.is_sorted(), "{order:?}: {events:#?}");
    assert_eq!(thread(&place, Some("a1")).len(), 6 + 1, "{events:#?}");
    assert_eq!(thread(&place, Some("b2")).len(), 1, "{events:#?}");
    let threads = view(&place, "threads");
    let one = &threads["threads"][0];
    let found = [&one["thread"], &one["call"], &one["kind"], &one["description"], &one["calls"]];
    assert_eq!(json!(found), json!(["a1", 1, "Explore", "Find the hinge", 1]), "{threads}");
    // Three lines of one request are one request.
    let usage = view(&place, "usage");
    let share = usage["by_thread"].as_array().unwrap().iter().find(|one| one["key"] == "a1");
    assert_eq!(share.unwrap()["requests"], 1, "{usage}");
    assert!(place.run(&["search", "verdigris"]).ok().contains("verdigris"));
    let path = format!("/v1/sessions/{SESSION}/views/rows");
    let rows = HttpRequest::get(path).query("thread", "a1").query("limit", 100);
    let rows = runtime.block_on(server.client().json(rows)).unwrap().to_string();
    assert!(rows.contains("verdigris") && !rows.contains("sluice"), "{rows}");
}

#[test]
fn an_import_of_grown_files_adds_what_is_new() {
    let place = Place::new();
    let talk = session();
    let (before, file) = (talk.text(), hinge());
    let cut =
        |text: &str, lines: usize| text.lines().take(lines).collect::<Vec<_>>().join("\n") + "\n";
    let both =
        |main: &str, file: &str| added(&place, Some(main), &[("subagents/agent-a1.jsonl", file)]);
    assert_eq!(both(&cut(&before, 2), &cut(&file, 3)), 2 + 3 + 1);
    assert_eq!(both(&cut(&before, 2), &cut(&file, 3)), 0);
    assert_eq!(both(&cut(&before, 2), &file), 3);
    talk.user("Now the latch");
    assert_eq!(both(&talk.text(), &file), 3);
    let late = call("a1", 9.0, "Read", json!({ "file_path": "late.txt" }));
    let (main, file) = (talk.text(), file + &late);
    assert_eq!(both(&main, &file), 2 + 1);
    assert_eq!(both(&main, &file), 0);
    assert_eq!(exported(&place), main);
    let own: Vec<String> = thread(&place, Some("a1"))
        .iter()
        .filter_map(|event| Some(event.get("raw").or(event.get("entry"))?.to_string()))
        .collect();
    let same = |text: &str| serde_json::from_str::<Value>(text).unwrap().to_string();
    assert_eq!(own, file.lines().map(same).collect::<Vec<_>>(), "each line once and in order");
    // An event of the subagent that is redacted is not taken for a line of the session's file.
    let id = thread(&place, Some("a1"))[0]["id"].as_str().unwrap().to_owned();
    place.run(&["redact", SESSION, &id, "--yes"]).ok();
    assert_eq!(both(&main, &file), 0);
    assert_eq!(exported(&place), main);
}

#[test]
fn a_file_imported_before_that_of_its_session_gives_the_session_no_title() {
    let place = Place::new();
    let nested = place.path(&format!("{SESSION}/{NESTED}"));
    let long: String =
        (0..90).map(|n| call("b2", 1.0 + f64::from(n) / 10.0, "Read", json!({ "n": n }))).collect();
    write(&place, None, &[(NESTED, &long)]);
    let (code, report) = import_files(&place, std::slice::from_ref(&nested));
    assert_eq!((code, &report["session_ids"]), (0, &json!([SESSION])), "{report}");
    assert_eq!(report["file"], json!(nested.to_str().unwrap()));
    assert_eq!(sessions(&place)[0]["title"], Value::Null);
    assert_eq!(thread(&place, Some("b2")).len(), place.events(SESSION).len());
    // Then all are imported, by the name of one of them.
    let main = session().text();
    write(&place, Some(&main), &[("subagents/agent-a1.jsonl", &hinge())]);
    let (code, report) = import_files(&place, &[nested.clone(), nested]);
    assert_eq!((code, &report["sessions"]), (0, &json!(1)), "{report}");
    assert_eq!((exported(&place), typed(&place)), (main, vec!["Mend the sluice gate".to_owned()]));
    assert_eq!(sessions(&place)[0]["title"], "Mend the sluice gate");
    assert_eq!((thread(&place, Some("a1")).len(), sessions(&place).len()), (7, 1));
}

#[test]
fn files_beside_that_of_their_session_are_imported_with_it() {
    let place = Place::new();
    let main = write(&place, Some(&session().text()), &[]);
    let files = [place.write("agent-a1.jsonl", &hinge()), main];
    let (code, report) = import_files(&place, &files);
    assert_eq!((code, &report["session_ids"]), (0, &json!([SESSION])), "{report}");
    assert_eq!((thread(&place, None).len(), thread(&place, Some("a1")).len()), (4, 7));
    assert_eq!(view(&place, "threads")["threads"][0]["call"], 1);
    // A conversation of that name is no subagent's, nor is another transcript.
    let copy = place.write("agent-copy.jsonl", &session().text().replace(SESSION, "copied"));
    assert_eq!(import_files(&place, &[copy]).1["session_ids"], json!(["copied"]));
    assert_eq!(place.events("copied")[0]["type"], "user.message");
    let talk = place.write("agent-talk.jsonl", "{\"role\":\"user\",\"content\":\"Hello\"}\n");
    let (code, report) = import_files(&place, &[talk]);
    assert_eq!((code, &report["session_ids"]), (0, &json!(["agent-talk"])), "{report}");
}

#[test]
fn bad_lines_of_a_subagent_are_reported_by_file_and_have_no_word_of_the_user() {
    let place = Place::new();
    let person = json!({ "type": "user", "uuid": "x", "timestamp": "2026-09-14T08:00:02.150Z",
        "message": { "role": "user", "content": "Drain the pond" } });
    let event = json!({ "type": "user.message", "content": "Burn the mill" });
    let all = "{\"type\":\"mode\",\"mode\":\"plan\"}\n";
    let file = format!("{all}no JSON\n{event}\n[1]\n{person}\n{}", hinge());
    let other = format!("{all}{}", line("b2", 2.3, "user", json!("Count the bolts")));
    let file = file.trim_end().strip_suffix('}').unwrap();
    let main = session().text();
    let path = write(&place, Some(&main), &[("subagents/agent-a1.jsonl", file), (NESTED, &other)]);
    let (code, report) = import_files(&place, std::slice::from_ref(&path));
    let name = place.path(&format!("{SESSION}/subagents/agent-a1.jsonl"));
    let bad = report["bad_lines"].as_array().unwrap().iter();
    let bad: Vec<_> =
        bad.map(|bad| (bad["file"].as_str().unwrap(), bad["line"].as_u64().unwrap())).collect();
    let name = name.to_str().unwrap();
    assert_eq!((code, bad), (1, vec![(name, 2), (name, 3), (name, 4)]), "{report}");
    assert_eq!(report["torn"], true);
    let ran = place.run(&["import", path.to_str().unwrap()]);
    assert!(ran.err.contains(&format!("{name}: line 2 was left out")), "{ran:?}");
    assert_eq!((typed(&place), exported(&place)), (vec!["Mend the sluice gate".to_owned()], main));
    // The line that both files have is a line of each.
    let kinds = |id| -> Vec<Value> {
        thread(&place, Some(id)).iter().map(|event| event["type"].clone()).collect()
    };
    assert_eq!(kinds("b2"), ["transcript.entry", "agent.thread_message_sent"]);
    assert_eq!(kinds("a1")[..2], ["transcript.entry", "agent.thread_message_sent"]);
}

#[test]
fn a_subagent_imported_behind_its_session_displaces_none_of_its_work() {
    let place = Place::new();
    let talk = session();
    talk.calls("m3", "t3");
    talk.result("t3", "test sluice_closes ... FAILED: eleven fathoms");
    talk.add(json!({ "type": "user", "isCompactSummary": true,
        "message": { "role": "user", "content": "So far the hinge was found." } }));
    talk.says("m4", "Eleven fathoms is too deep.");
    let main = talk.text();
    added(&place, Some(&main), &[]);
    let before = continued(&place);
    let recent = view(&place, "index")["recent"].clone();
    assert!(recent.to_string().contains("Eleven fathoms"), "{recent}");
    let compactions = || view(&place, "compactions")["compactions"].clone();
    let compacted = compactions();
    let looks = (0..80).map(|n| call("a1", 3.0 + f64::from(n) / 10.0, "Read", json!({ "n": n })));
    let summary = json!({ "type": "user", "isCompactSummary": true, "isSidechain": true,
        "uuid": "s", "message": { "role": "user", "content": "The subagent forgot." } });
    let file = hinge() + &looks.collect::<String>() + &format!("{summary}\n");
    added(&place, Some(&main), &[("subagents/agent-a1.jsonl", &file)]);
    assert!(thread(&place, Some("a1")).len() > 160);
    assert_eq!(continued(&place), before);
    assert_eq!(view(&place, "index")["recent"], recent);
    assert_eq!(compactions(), compacted);
    // The result that names the subagent came first.
    assert_eq!(view(&place, "threads")["threads"][0]["call"], 1);
}

#[test]
fn words_of_a_subagent_deliver_no_queued_prompt_and_a_rewind_keeps_its_events() {
    let place = Place::new();
    let talk = session();
    let end = talk.says("m3", "The hinge is oiled.");
    talk.queue("enqueue", Some("Check the bolts too"));
    talk.queue("remove", None);
    talk.user("Paint it scarlet");
    talk.says("m4", "It is scarlet.");
    talk.back_to(Some(&end));
    talk.user("Leave it plain");
    let main = talk.text();
    // The lines have the numbers of the withdrawn ones.
    let aside =
        |n: u32| line("a1", 2.0 + f64::from(n) / 20.0, "user", json!(format!("walrus {n}")));
    let file = (0..14).map(aside).collect::<String>()
        + &line("a1", 8.5, "user", json!("Check the bolts too"));
    added(&place, Some(&main), &[("subagents/agent-a1.jsonl", &file)]);
    assert_eq!(typed(&place), ["Mend the sluice gate", "Check the bolts too", "Leave it plain"]);
    let events = place.events(SESSION);
    let rewound = events.iter().find(|event| event["type"] == "context.rewound").unwrap();
    let range = &rewound["withdrawn"][0];
    let (from, to) = (range["from"].as_u64().unwrap(), range["to"].as_u64().unwrap());
    let inside =
        events.iter().filter(|event| (from..to).contains(&event["position"].as_u64().unwrap()));
    let inside = inside.map(Value::to_string).collect::<String>();
    assert_eq!(rewound["withdrawn"].as_array().unwrap().len(), 1, "{rewound}");
    assert!(inside.contains("scarlet") && !inside.contains("walrus"), "{inside}");
}

#[test]
fn each_chain_of_lines_without_an_id_is_a_subagent_with_the_call_that_has_its_prompt() {
    let talk = Transcript::default();
    talk.user("Have the gate and the weir checked");
    let parts = ["gate", "weir"];
    for part in parts {
        let input = json!({ "subagent_type": format!("{part}-keeper"),
            "prompt": format!("Check the {part}") });
        talk.agent("m1", json!({ "type": "tool_use", "id": part, "name": "Task", "input": input }));
    }
    let caller = talk.user("Wait for both");
    let aside = |kind: &str, parent: &Value, content: Value| {
        let message = json!({ "role": kind, "id": "m", "content": content,
            "usage": { "input_tokens": 10, "output_tokens": 5 } });
        json!(talk.add(json!({ "type": kind, "isSidechain": true, "parentUuid": parent,
            "message": message })))
    };
    // The chains of both are interleaved, as their calls ran at the same time.
    let roots = parts.map(|part| aside("user", &json!(null), json!(format!("Check the {part}"))));
    for (root, part) in roots.iter().zip(parts) {
        let said = json!([{ "type": "text", "text": format!("The {part} holds.") }]);
        aside("assistant", root, said);
    }
    talk.back_to(Some(&caller));
    parts.iter().for_each(|part| drop(talk.result(part, "It holds.")));
    let place = Place::new();
    assert_eq!(import(&place, &talk.text()).0, 0);
    let threads = view(&place, "threads")["threads"].clone();
    let about = |one: &Value| (one["kind"].clone(), one["description"].clone());
    let found: Vec<_> = threads.as_array().unwrap().iter().map(about).collect();
    let expected =
        parts.map(|part| (json!(format!("{part}-keeper")), json!(format!("Check the {part}"))));
    assert_eq!(found, expected, "{threads}");
    assert_eq!(import(&place, &talk.text()).1["added"], 0);
    assert_eq!(exported(&place), talk.text());
}

#[test]
fn a_subagent_that_only_the_record_of_a_result_names_is_linked_to_its_call() {
    let talk = Transcript::default();
    talk.user("Ask two for the hinge");
    for id in ["t1", "t2"] {
        let input = json!({ "subagent_type": format!("Explore {id}"), "prompt": "The hinge?" });
        talk.agent("m1", json!({ "type": "tool_use", "id": id, "name": "Task", "input": input }));
    }
    let files = ["b2", "a1"].map(|agent| {
        (format!("subagents/agent-{agent}.jsonl"), line(agent, 4.5, "user", json!("The hinge?")))
    });
    for (id, agent) in [("t2", "b2"), ("t1", "a1")] {
        let block =
            json!([{ "type": "tool_result", "tool_use_id": id, "content": "On the left." }]);
        talk.add(json!({ "type": "user", "message": { "role": "user", "content": block },
            "toolUseResult": { "status": "completed", "agentId": agent } }));
    }
    let place = Place::new();
    let files = files.each_ref().map(|(name, text)| (name.as_str(), text.as_str()));
    added(&place, Some(&talk.text()), &files);
    let threads = view(&place, "threads")["threads"].clone();
    let about = |one: &Value| format!("{} {}", one["thread"], one["kind"]).replace('"', "");
    let mut found: Vec<_> = threads.as_array().unwrap().iter().map(about).collect();
    found.sort();
    assert_eq!(found, ["a1 Explore t1", "b2 Explore t2"], "{threads}");
}
