//! The command line, through the real program: every verb, its exit codes and errors.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    path::Path,
    sync::mpsc,
};

use serde_json::{Value, json};
use sessionlog::client::HttpRequest;

use crate::{
    newcomer::lost_events_are_told_in_their_place,
    program::{Place, lines},
    say::read,
};

pub fn event(kind: &str, content: &str) -> String {
    json!({ "type": kind, "content": content }).to_string()
}

/// Creates a place with a session `trip` of three events.
pub fn with_trip() -> Place {
    let place = Place::new();
    let input = [
        event("user.message", "one"),
        event("agent.message", "two"),
        json!({"type":"agent.tool_use","name":"f","input":{"a":1},"call_id":"c"}).to_string(),
    ]
    .join("\n");
    place.run_with(&["append", "trip", "--create"], &input).ok();
    place
}

#[test]
fn an_appended_event_is_listed_shown_read_and_replayed() {
    let place = with_trip();
    let events = place.events("trip");
    let contents: Vec<&Value> = events.iter().map(|event| &event["content"]).collect();
    assert_eq!(contents, [&json!("one"), &json!("two"), &Value::Null]);
    let positions: Vec<u64> = events.iter().filter_map(|e| e["position"].as_u64()).collect();
    assert_eq!(positions, [0, 1, 2]);
    let listed = place.run(&["sessions"]).ok();
    assert!(listed.starts_with("trip\t3\t"), "{listed}");
    let shown = place.run(&["show", "trip"]).ok();
    assert!(shown.contains("trip") && shown.contains("events"), "{shown}");
    let replayed = place.run(&["replay", "trip"]).ok();
    for words in ["user.message", "one", "agent.message", "two", "f  a: 1"] {
        assert!(replayed.contains(words), "{words}: {replayed}");
    }
    let part = place.run(&["replay", "trip", "--from", "1", "--to", "2", "--speed", "1000"]).ok();
    assert!(part.contains("two") && !part.contains("one"), "{part}");
}

#[test]
fn a_session_is_forked_rewound_and_compared_and_show_draws_the_tree() {
    let place = with_trip();
    let told = place.run(&["fork", "trip", "--at", "2", "--id", "other", "--title", "T"]).ok();
    assert!(told.contains("created other from trip at position 2"), "{told}");
    place.run_with(&["append", "other"], &event("user.message", "mine")).ok();
    let contents: Vec<Value> =
        place.events("other").iter().map(|event| event["content"].clone()).collect();
    assert_eq!(contents, ["one", "two", "mine"]);
    assert_eq!(place.events("trip").len(), 3, "the parent is as it was");
    let shown = place.run(&["show", "other"]).ok();
    assert!(shown.contains("trip") && shown.contains("└ at 2: other (this one)"), "{shown}");
    let shown = place.run(&["show", "trip", "--lineage", "--json"]).json();
    assert_eq!(shown["children"][0]["id"], "other", "{shown}");
    let diff = place.run(&["diff", "other", "1", "end"]).ok();
    for words in ["Positions 1–2: 2 events", "user.message", "agent.message"] {
        assert!(diff.contains(words), "{words}: {diff}");
    }
    let diff: Value =
        serde_json::from_str(&place.run(&["diff", "other", "end", "-1", "--json"]).ok()).unwrap();
    assert_eq!((&diff["from"], &diff["to"]), (&json!(2), &json!(3)));
    let rewound = place.run(&["rewind", "trip", "--to", "1"]).ok();
    assert!(rewound.contains("trip as of position 1"), "{rewound}");
    assert!(rewound.contains("user.message  one") && !rewound.contains("agent"), "{rewound}");
    assert_eq!(place.events("trip").len(), 3, "nothing is removed");
    let fork = place.run(&["rewind", "trip", "--to", "-1", "--fork", "--json"]).ok();
    let fork: Value = serde_json::from_str(&fork).unwrap();
    assert_eq!(fork["forked_from"], json!({"session": "trip", "position": 2}));
    for (arguments, exit) in [
        (vec!["fork", "trip", "--at", "9"], 4),
        (vec!["fork", "nobody", "--at", "end"], 4),
        (vec!["fork", "trip"], 2),
        (vec!["rewind", "trip", "--to", "here"], 2),
        (vec!["rewind", "trip", "--to", "9999"], 4),
        (vec!["diff", "trip", "0"], 2),
    ] {
        assert_eq!(place.run(&arguments).code, exit, "{arguments:?}");
    }
    let erased = place.run(&["erase", "trip", "--yes"]);
    assert!(erased.err.contains("2 forks of trip: what they share with it"), "{}", erased.err);
    let refused = place.run(&["events", "other"]);
    assert_eq!(refused.code, 4, "{}", refused.err);
    assert!(refused.err.contains("erased"), "{}", refused.err);
}

#[test]
fn a_slice_is_selected_by_points_types_order_and_limit() {
    let place = with_trip();
    for (arguments, expected) in [
        (vec!["--from", "1"], vec![1, 2]),
        (vec!["--from", "-1"], vec![2]),
        (vec!["--from", "0", "--to", "end"], vec![0, 1, 2]),
        (vec!["--to", "-1"], vec![0, 1]),
        (vec!["--from", "action:user.message"], vec![0, 1, 2]),
        (vec!["--types", "agent.message,agent.tool_use"], vec![1, 2]),
        (vec!["--order", "desc"], vec![2, 1, 0]),
        (vec!["--limit", "2"], vec![0, 1]),
        (vec!["--around", "1", "--before", "1", "--after", "0"], vec![0, 1]),
        (vec!["--around", "1", "--limit", "2"], vec![0, 1]),
        (vec!["--since", "1h"], vec![0, 1, 2]),
        (vec!["--since", "2000-01-01", "--until", "2000-01-02"], vec![]),
        (vec!["--since", "2100-01-01T00:00:00Z"], vec![]),
        (vec!["--until", "2100-01-01T00:00:00Z", "--limit", "1"], vec![0]),
    ] {
        let all = [&["events", "trip"], arguments.as_slice()].concat();
        let events = lines(&place.run(&all).ok());
        let found: Vec<u64> = events.iter().filter_map(|e| e["position"].as_u64()).collect();
        assert_eq!(found, expected, "{arguments:?}");
    }
}

#[test]
fn a_session_exported_through_a_pipe_is_imported_unchanged() {
    let place = with_trip();
    let printed = place.run(&["events", "trip"]).ok();
    place.run_with(&["append", "copy", "--create"], &printed).ok();
    let body = |event: &Value| {
        let mut event = event.clone();
        event.as_object_mut().unwrap().remove("processed_at");
        event
    };
    let (old, new) = (place.events("trip"), place.events("copy"));
    assert_eq!(old.iter().map(body).collect::<Vec<_>>(), new.iter().map(body).collect::<Vec<_>>());
    // The same lines again: their ids are known.
    place.run_with(&["append", "copy"], &printed).ok();
    assert_eq!(place.events("copy").len(), 3);
}

#[test]
fn json_output_equals_the_http_response() {
    let place = Place::new();
    let server = place.serve();
    place.run_with(&["append", "trip", "--create"], &event("user.message", "one")).ok();
    let client = server.client();
    let get = |path: &str| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(client.json(HttpRequest::get(path))).unwrap()
    };
    assert_eq!(place.run(&["sessions", "--json"]).json(), get("/v1/sessions"));
    assert_eq!(place.run(&["show", "trip", "--json"]).json(), get("/v1/sessions/trip"));
    let family = place.run(&["show", "trip", "--lineage", "--json"]).json();
    assert_eq!(family, get("/v1/sessions/trip/lineage"));
    assert_eq!(place.run(&["events", "trip", "--json"]).json(), get("/v1/sessions/trip/events"));
    let url = ["--url", server.url.as_str()];
    let through_url = place.run(&[&["show", "trip", "--json"], url.as_slice()].concat());
    assert_eq!(through_url.json(), get("/v1/sessions/trip"));
}

#[test]
fn each_outcome_has_its_exit_code_and_error_code() {
    let place = with_trip();
    let long = "x".repeat(129);
    for (arguments, code) in [
        (vec!["--help"], 0),
        (vec!["--version"], 0),
        (vec!["no-such-verb"], 2),
        (vec!["show"], 2),
        (vec!["show", "a/b"], 2),
        (vec!["show", ".hidden"], 2),
        (vec!["show", &long], 2),
        (vec!["events", "trip", "--from", "nowhere"], 2),
        (vec!["events", "trip", "--follow", "--to", "2"], 2),
        (vec!["replay", "trip", "--speed", "0"], 2),
        (vec!["import", "absent.jsonl"], 4),
        (vec!["serve", "--listen", "0.0.0.0:0"], 1),
    ] {
        let ran = place.run(&arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {ran:?}");
    }
    for (arguments, exit, code) in [
        (vec!["show", "absent"], 4, "session_not_found"),
        (vec!["events", "absent"], 4, "session_not_found"),
        (vec!["events", "trip", "--from", "event:absent"], 4, "point_not_found"),
        (vec!["delete", "absent", "--yes"], 4, "session_not_found"),
        (vec!["verify", "absent"], 4, "session_not_found"),
    ] {
        let ran = place.run(&[arguments.as_slice(), &["--json"]].concat());
        assert_eq!(ran.refused(exit), code, "{arguments:?}");
    }
}

#[test]
fn a_rejected_line_is_reported_and_keeps_every_other_event() {
    let place = with_trip();
    let deep = format!("{{\"type\":\"a.b\",\"x\":{}{}}}", "[".repeat(200), "]".repeat(200));
    for (input, code) in [
        ("not json", "invalid_json"),
        ("[1]", "invalid_json"),
        ("{\"content\":1}", "invalid_request"),
        ("{\"type\":\"a.b\",\"position\":7}", "position_conflict"),
        (deep.as_str(), "invalid_request"),
    ] {
        let ran = place.run_with(&["append", "trip", "--json"], input);
        assert_eq!(ran.refused(1), code, "{input}");
    }
    let ran =
        place.run_with(&["append", "trip", "--if-position", "9", "--json"], "{\"type\":\"a.b\"}");
    assert_eq!(ran.refused(1), "position_conflict");
    let ran = place.run_with(&["append", "absent", "--json"], "{\"type\":\"a.b\"}");
    assert_eq!(ran.refused(4), "session_not_found");
    let text = place.run_with(&["append", "trip"], "\n\nnot json");
    assert!(text.err.contains("line 3"), "{text:?}");
    assert_eq!(place.events("trip").len(), 3);
}

#[test]
fn a_closed_output_pipe_exits_with_success() {
    let place = Place::new();
    let filler = "x".repeat(1_000);
    let input: String = (0..2_000).map(|_| event("user.message", &filler) + "\n").collect();
    place.run_with(&["append", "long", "--create"], &input).ok();
    let mut child = place.command(&["events", "long"]).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.contains("\"position\":0"), "{first}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn conversations_are_imported_once_and_exported_unchanged() {
    let place = Place::new();
    let sample =
        read(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/conversation.jsonl"));
    let odd = json!({
        "id": "odd/id",
        "reward": 0.5,
        "messages": [
            { "role": "user", "content": [{ "type": "text", "text": "hi" }], "name": "ann" },
            { "role": "assistant", "content": "both", "tool_calls": [
                { "id": "1", "type": "function", "function": { "name": "f", "arguments": "{" } },
                { "id": "2", "type": "function", "function": { "name": "g", "arguments": "" } },
            ]},
            { "role": "assistant", "content": null, "refusal": "no", "x": { "y": [] } },
        ],
    });
    let file = place.write("chats.jsonl", &format!("{sample}{odd}\n{{\"role\": \"us"));
    let path = file.to_str().unwrap();
    let ran = place.run(&["import", path, "--json"]);
    let report = lines(&ran.out)[0].clone();
    assert_eq!((&report["sessions"], &report["torn"]), (&json!(2), &json!(true)), "{report}");
    let known = report["added"].as_u64().unwrap();
    let again = place.run(&["import", path, "--json"]).json();
    assert_eq!((&again["added"], again["known"].as_u64()), (&json!(0), Some(known)), "{again}");
    assert!(place.events("ghent-walk").iter().all(|event| event["origin"] == "import"));
    let back = place.run(&["export", "ghent-walk", "--format", "openai"]).json();
    assert_eq!(back, serde_json::from_str::<Value>(&sample).unwrap());
    let request = HttpRequest::get("/v1/sessions/ghent-walk/export").query("format", "openai");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let through_http = runtime.block_on(place.serve().client().json(request)).unwrap();
    assert_eq!(through_http["messages"], back["messages"]);
    let sessions = place.run(&["sessions"]).ok();
    let id = sessions.lines().find_map(|line| line.split('\t').next()?.strip_prefix("odd-id-"));
    let id = format!("odd-id-{}", id.unwrap_or_else(|| panic!("{sessions}")));
    assert_eq!(place.run(&["export", &id, "--format", "openai"]).json(), odd);
    // The file grows by one message: one event is added.
    let mut longer = odd.clone();
    longer["messages"].as_array_mut().unwrap().push(json!({ "role": "user", "content": "more" }));
    place.write("chats.jsonl", &format!("{longer}\n"));
    let grown = place.run(&["import", path, "--json"]).json();
    assert_eq!(grown["added"], json!(1), "{grown}");
    assert_eq!(place.run(&["export", &id, "--format", "openai"]).json(), longer);
}

#[test]
fn an_invalid_line_is_reported_and_the_others_are_imported() {
    let place = Place::new();
    let file = place.write(
        "notes.jsonl",
        "{\"role\":\"user\",\"content\":\"a\"}\nnonsense\n{\"role\":\"user\",\"content\":\"b\"}\n",
    );
    let ran = place.run(&["import", file.to_str().unwrap()]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("line 2"), "{ran:?}");
    assert_eq!(place.events("notes").len(), 2);
    let exported = place.run(&["export", "notes", "--format", "openai"]).ok();
    assert_eq!(lines(&exported).len(), 2, "one message a line, as it came: {exported}");
}

#[test]
fn exported_lines_are_imported_with_their_event_ids() {
    let place = with_trip();
    let printed = place.run(&["export", "trip"]).ok();
    let file = place.write("moved.jsonl", &printed);
    let path = file.to_str().unwrap();
    place.run(&["import", path]).ok();
    place.run(&["import", path, "--session", "moved"]).ok();
    let ids =
        |events: Vec<Value>| -> Vec<Value> { events.iter().map(|e| e["id"].clone()).collect() };
    assert_eq!(ids(place.events("moved")), ids(place.events("trip")));
}

#[test]
fn lines_before_an_invalid_one_are_appended_and_reported() {
    for wrong in ["not json".to_owned(), "x".repeat((4 << 20) + (70 << 10))] {
        let place = Place::new();
        let input = format!("{}\n{}\n{wrong}\n", event("a.b", "one"), event("a.b", "two"));
        let ran = place.run_with(&["append", "s", "--create"], &input);
        assert_eq!(ran.code, 1, "{}", ran.err);
        assert!(ran.err.contains("line 3") && ran.err.contains("2 events before"), "{}", ran.err);
        assert_eq!(place.events("s").len(), 2, "{}", ran.err);
    }
}

pub fn with_id(id: &str, content: &str) -> String {
    json!({ "id": id, "type": "user.message", "content": content }).to_string()
}

fn members(place: &Place, session: &str, name: &str) -> Vec<String> {
    let text = |event: &Value| event[name].as_str().unwrap_or_default().to_owned();
    place.events(session).iter().map(text).collect()
}

#[test]
fn a_partial_append_is_completed_and_a_changed_line_is_reported() {
    let place = Place::new();
    let lines: Vec<String> = ["a", "b", "c", "d"].iter().map(|id| with_id(id, id)).collect();
    place.run_with(&["append", "s", "--create"], &lines[..2].join("\n")).ok();
    place.run_with(&["append", "s"], &lines.join("\n")).ok();
    assert_eq!(members(&place, "s", "id"), ["a", "b", "c", "d"]);
    let changed = [with_id("c", "c"), with_id("d", "other"), with_id("e", "e")].join("\n");
    let ran = place.run_with(&["append", "s"], &changed);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("line 2:"), "{ran:?}");
    let ran = place.run_with(&["append", "s", "--json"], &changed);
    assert_eq!(ran.refused(1), "idempotency_conflict");
    assert_eq!(members(&place, "s", "content"), ["a", "b", "c", "d"]);
}

#[test]
fn appending_to_an_unknown_session_is_an_error() {
    let place = with_trip();
    assert_eq!(place.run(&["append", "nosuch", "--json"]).refused(4), "session_not_found");
    assert_eq!(place.run(&["append", "trip"]).code, 0);
}

/// Starts a server that gives these responses in turn, then repeats the last; returns the requests.
fn scripted(answers: &'static [(u16, &'static str)]) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, asked) = mpsc::channel();
    std::thread::spawn(move || {
        let mut next = 0;
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut key, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                let Some((name, value)) = line.trim().split_once(": ") else {
                    if line.trim().is_empty() {
                        break;
                    }
                    continue;
                };
                match name {
                    "idempotency-key" => key = value.to_owned(),
                    "content-length" => length = value.parse().unwrap(),
                    _ => {}
                }
            }
            reader.read_exact(&mut vec![0; length]).unwrap();
            let (status, body) = answers[next.min(answers.len() - 1)];
            next += 1;
            let head = format!(
                "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all((head + body).as_bytes()).unwrap();
            if sender.send(key).is_err() {
                return;
            }
        }
    });
    (url, asked)
}

const UNKNOWN: &str = r#"{"type":"error","error":{"type":"outcome_unknown","message":"nobody knows","recovery_hint":{"retryable":true,"action":"?"}}}"#;
const READ_ONLY: &str = r#"{"type":"error","error":{"type":"store_read_only","message":"no","recovery_hint":{"retryable":true}}}"#;

#[test]
fn an_append_of_unknown_outcome_is_retried_with_the_same_key() {
    let place = Place::new();
    let (url, asked) =
        scripted(&[(500, UNKNOWN), (200, r#"{"first_position":0,"next_position":1}"#)]);
    let ran = place.run_with(&["append", "s", "--url", &url], &event("a.b", "x"));
    assert_eq!(ran.code, 0, "{ran:?}");
    let keys: Vec<String> = asked.try_iter().collect();
    assert!(keys.len() == 2 && keys[0] == keys[1] && !keys[0].is_empty(), "{keys:?}");
}

#[test]
fn an_append_whose_outcome_stays_unknown_reports_its_lines_and_key() {
    let place = Place::new();
    let (url, asked) = scripted(&[(500, UNKNOWN), (503, READ_ONLY)]);
    let arguments = ["append", "s", "--url", &url, "--json", "--idempotency-key", "mine"];
    let ran = place.run_with(&arguments, &event("a.b", "x"));
    let said = ran.out.clone();
    assert_eq!(ran.refused(1), "outcome_unknown");
    assert!(said.contains("line 1") && said.contains("--idempotency-key mine"), "{said}");
    assert!(asked.try_iter().all(|key| key == "mine"));
    // The real server: the same key again appends nothing.
    for _ in 0..2 {
        let arguments = ["append", "s", "--create", "--idempotency-key", "mine"];
        place.run_with(&arguments, &event("a.b", "x")).ok();
    }
    assert_eq!(place.events("s").len(), 1);
}

/// Returns the report of an import of one file.
fn imported(place: &Place, arguments: &[&str]) -> (i32, Value) {
    let ran = place.run(&[&["import", "--json"], arguments].concat());
    let report = lines(&ran.out).pop().unwrap_or_else(|| panic!("{ran:?}"));
    (ran.code, report)
}

#[test]
fn exported_events_are_imported_if_missing_and_reported_if_changed() {
    let place = Place::new();
    let five: Vec<String> = ["a", "b", "c", "d", "e"].iter().map(|id| with_id(id, id)).collect();
    place.write("part", &five[3..].join("\n"));
    place.write("all", &five.join("\n"));
    imported(&place, &["part", "--session", "copy"]);
    let (code, report) = imported(&place, &["all", "--session", "copy"]);
    assert_eq!((code, &report["added"], &report["known"]), (0, &json!(3), &json!(2)), "{report}");
    assert_eq!(members(&place, "copy", "id"), ["d", "e", "a", "b", "c"]);
    place.write("other", &[with_id("z", "z"), with_id("e", "changed")].join("\n"));
    let (code, report) = imported(&place, &["other", "--session", "copy"]);
    assert_eq!((code, &report["added"], &report["known"]), (1, &json!(1), &json!(0)), "{report}");
    assert_eq!(report["bad_lines"][0]["line"], json!(2), "{report}");
    assert!(report["bad_lines"][0]["problem"].as_str().unwrap().contains('e'), "{report}");
    assert_eq!(members(&place, "copy", "content"), ["d", "e", "a", "b", "c", "z"]);
}

pub fn chat(id: &str, user: &str, messages: &[&str]) -> String {
    let message = |text: &&str| json!({ "role": "user", "content": text });
    let messages: Vec<Value> = messages.iter().map(message).collect();
    json!({ "id": id, "user": user, "messages": messages }).to_string()
}

#[test]
fn another_conversation_is_not_merged_into_a_session() {
    let place = Place::new();
    let message = |text: &str| json!({ "role": "user", "content": text }).to_string();
    for name in ["x", "y"] {
        std::fs::create_dir(place.path(name)).unwrap();
        let text = format!("{}\n{}\n", message(&format!("{name}1")), message(&format!("{name}2")));
        place.write(&format!("{name}/log.jsonl"), &text);
    }
    let (code, report) = imported(&place, &["x/log.jsonl", "y/log.jsonl"]);
    assert_eq!(code, 1, "{report}");
    assert!(report["bad_lines"][0]["problem"].as_str().unwrap().contains("--session"), "{report}");
    assert_eq!(members(&place, "log", "content"), ["x1", "x2"]);
    let (code, _) = imported(&place, &["y/log.jsonl", "--session", "log-y"]);
    assert_eq!((code, members(&place, "log-y", "content").len()), (0, 2));

    place.write("chats", &chat("c1", "ann", &["one", "two"]));
    let other = [chat("c1", "bob", &["ONE", "two"]), chat("c2", "cy", &["on"])].join("\n");
    place.write("others", &other);
    imported(&place, &["chats"]);
    let (code, report) = imported(&place, &["others"]);
    assert_eq!((code, &report["bad_lines"][0]["line"]), (1, &json!(1)), "{report}");
    assert_eq!(members(&place, "c1", "content"), ["one", "two"]);
    assert_eq!(members(&place, "c2", "content"), ["on"], "the others go on");
    let back = place.run(&["export", "c1", "--format", "openai"]).json();
    assert_eq!(back["user"], json!("ann"), "nothing of it was changed");

    // A session that was not imported.
    place.run_with(&["append", "own", "--create"], &event("a.b", "x")).ok();
    place.write("own.jsonl", &message("m"));
    assert_eq!(imported(&place, &["own.jsonl"]).0, 1);
    let own = place.run(&["show", "own", "--json"]).json();
    assert_eq!(own["metadata"], json!({}), "{own}");
    assert_eq!(place.events("own").len(), 1);
}

#[test]
fn a_message_too_large_or_deep_for_one_event_round_trips() {
    let place = Place::new();
    let title = |id: &str, title: &str| {
        let messages = [json!({ "role": "user", "content": "hi" })];
        json!({ "id": id, "title": title, "messages": messages }).to_string()
    };
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let deep =
        format!("{{\"id\":\"deep\",\"messages\":[{{\"role\":\"user\",\"content\":{deep}}}]}}");
    let large = "x".repeat(22 << 17);
    let file = [
        title("long", &"t".repeat(600)),
        chat("large", "ann", &[&large]),
        deep.clone(),
        chat("last", "ann", &["hi"]),
    ];
    place.write("chats", &file.join("\n"));
    let (code, report) = imported(&place, &["chats"]);
    assert_eq!((code, &report["bad_lines"]), (0, &json!([])), "{report}");
    assert_eq!(members(&place, "last", "content"), ["hi"]);
    let exported = |id: &str| place.run(&["export", id, "--format", "openai"]);
    assert_eq!(exported("long").json()["title"].as_str().unwrap().len(), 600);
    assert_eq!(exported("large").json()["messages"][0]["content"], json!(large));
    assert_eq!(exported("deep").out.trim(), deep);
    // A message on a separate line is exported at its position.
    let message = |text: &str| json!({ "role": "user", "content": text }).to_string();
    let file = [message("a"), message(&large), message("b")].join("\n");
    place.write("log", &file);
    for (added, known) in [(6, 0), (0, 6)] {
        let (code, report) = imported(&place, &["log"]);
        let counts = (&report["added"], &report["known"]);
        assert_eq!((code, counts), (0, (&json!(added), &json!(known))), "{report}");
    }
    assert_eq!(exported("log").out.lines().collect::<Vec<_>>().join("\n"), file);
}

#[test]
fn an_event_near_the_size_limit_round_trips_through_a_pipe() {
    let place = Place::new();
    let content = "x".repeat((4 << 20) - 60);
    place.run_with(&["append", "a", "--create"], &event("a.b", &content)).ok();
    let printed = place.run(&["events", "a"]).ok();
    assert!(printed.len() > 4 << 20, "longer than it came");
    place.run_with(&["append", "b", "--create"], &printed).ok();
    assert_eq!(members(&place, "b", "content"), [content]);
}

#[test]
fn a_deleted_session_is_reported_as_gone() {
    let place = with_trip();
    place.run(&["delete", "trip", "--yes"]).ok();
    assert_eq!(place.run(&["show", "trip", "--json"]).refused(4), "session_deleted");
    assert_eq!(place.run(&["sessions"]).ok(), "");
}

#[test]
fn verify_reads_every_session() {
    let place = with_trip();
    let all = place.run(&["verify", "--json"]).json();
    assert_eq!((&all["events"], &all["damage"]), (&json!(3), &json!([])), "{all}");
    let text = place.run(&["verify", "trip"]).ok();
    assert!(text.starts_with("whole: 1 session, 3 events"), "{text}");
}

#[test]
fn inspect_shows_the_contents_of_files_and_reports_damaged_ranges() {
    let place = with_trip();
    let server = place.serve();
    assert_eq!(server.stop(), Some(0));
    let data_dir = place.data_dir();
    let all = lines(&place.run(&["inspect", data_dir.to_str().unwrap(), "--json"]).ok());
    let of = |kind: &str| all.iter().filter(|file| file["kind"] == kind).collect::<Vec<_>>();
    assert!(!of("journal").is_empty(), "{all:?}");
    let segment = of("segment")[0]["file"].as_str().unwrap().to_owned();
    let segment = data_dir.join(segment);
    let whole = place.run(&["inspect", segment.to_str().unwrap(), "--json"]).json();
    let kinds: Vec<&Value> = whole["frames"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|frame| frame["events"].as_array().unwrap())
        .map(|event| &event["type"])
        .collect();
    assert_eq!(kinds, ["user.message", "agent.message", "agent.tool_use"], "{whole}");
    let text = place.run(&["inspect", segment.to_str().unwrap()]).ok();
    assert!(text.contains("user.message"), "{text}");
    let stranger = place.write("stranger", &"x".repeat(10_000));
    assert_eq!(place.run(&["inspect", stranger.to_str().unwrap()]).code, 1);
    assert_eq!(place.run(&["inspect", "absent"]).code, 4);
}

/// Bytes after the frames of a whole file are not reported.
#[test]
fn inspect_reports_the_intact_sessions_of_a_damaged_directory() {
    let place = with_trip();
    let hurt = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-v1/damaged/data");
    let seen = place.run(&["inspect", hurt.to_str().unwrap(), "--json"]);
    assert_eq!(seen.code, 3, "{seen:?}");
    let (mut whole, mut bad) = (0, 0);
    for file in lines(&seen.out) {
        match (file["kind"].as_str().unwrap(), file["state"].as_str().unwrap()) {
            ("segment", "whole") => whole += 1,
            ("segment", "1 bad place") => bad += 1,
            ("journal", "what an earlier use left, or a torn write" | "zeros, never used") => {}
            ("spare", "the next file of the journal") => {}
            ("store", "version 1") | ("settled", "version 4") => {}
            other => panic!("{other:?} of {file}"),
        }
    }
    assert_eq!((whole, bad), (5, 3), "{}", seen.out);
}

#[test]
fn a_damaged_segment_exits_with_code_3_and_other_sessions_stay_readable() {
    let place = with_trip();
    place.run_with(&["append", "other", "--create"], &event("user.message", "whole")).ok();
    let server = place.serve();
    assert_eq!(server.stop(), Some(0));
    let segments = files_below(&place.data_dir().join("segments"));
    let damaged = segments
        .iter()
        .find(|path| {
            let bytes = std::fs::read(path).unwrap();
            bytes.windows(b"agent.tool_use".len()).any(|part| part == b"agent.tool_use")
        })
        .unwrap_or_else(|| panic!("{segments:?}"));
    let mut bytes = std::fs::read(damaged).unwrap();
    let at = bytes.windows(3).position(|part| part == b"two").unwrap();
    bytes[at] ^= 1;
    std::fs::write(damaged, &bytes).unwrap();
    let seen = place.run(&["inspect", damaged.to_str().unwrap(), "--json"]);
    assert!(seen.out.contains("checksum"), "{seen:?}");
    assert_eq!(place.run(&["events", "trip", "--json"]).refused(3), "session_damaged");
    let hint = place.run(&["events", "trip"]).err;
    assert!(hint.contains("--allow-gaps") && !hint.contains("allow_gaps"), "{hint}");
    let part = place.run(&["events", "trip", "--allow-gaps"]);
    assert_eq!(part.code, 0, "{part:?}");
    assert!(part.err.contains("are missing"), "{part:?}");
    let found = place.run(&["verify", "--json"]);
    assert_eq!(found.code, 3, "{found:?}");
    assert!(found.out.contains("\"session\":\"trip\""), "{found:?}");
    let refused = place.run_with(&["append", "trip", "--json"], &event("user.message", "more"));
    assert_eq!(refused.refused(3), "session_damaged");
    assert_eq!(place.events("other")[0]["content"], json!("whole"));
    place.run_with(&["append", "other"], &event("user.message", "on")).ok();

    assert!(place.run(&["sessions"]).ok().contains("\tdamaged\t"), "before anybody gave it up");
    let shown = place.run(&["repair", "trip"]);
    assert_eq!(shown.code, 3, "{shown:?}");
    assert!(shown.out.contains("positions") && shown.out.contains("--accept-loss"), "{shown:?}");
    let dry = place.run(&["repair", "trip", "--accept-loss", "--dry-run", "--json"]);
    assert!(dry.code == 3 && dry.out.contains("\"accepted\":false"), "{dry:?}");
    let done = place.run(&["repair", "trip", "--accept-loss"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.contains("kept: quarantine/"), "{done:?}");
    place.run_with(&["append", "trip"], &event("user.message", "behind")).ok();
    let again = place.run(&["repair", "trip", "--accept-loss"]);
    assert!(again.code == 0 && again.out.contains("nothing to do"), "{again:?}");
    assert_eq!(place.run(&["verify"]).code, 0);
    assert!(!place.run(&["sessions"]).ok().contains("\tdamaged\t"), "what was given up is no news");
    let shown = place.run(&["show", "trip"]).ok();
    assert!(shown.contains("given up") && !shown.contains("damaged"), "{shown}");
    let rest = place.run(&["events", "trip"]);
    assert!(rest.code == 0 && rest.err.contains("are missing"), "{rest:?}");
    lost_events_are_told_in_their_place(&place);
    assert_eq!(place.run(&["repair", "--whole-store", "--json"]).code, 0);
    assert_eq!(place.run(&["repair"]).code, 2);
}

/// Returns every file below a directory.
fn files_below(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    std::fs::read_dir(directory)
        .unwrap()
        .flat_map(|entry| {
            let path = entry.unwrap().path();
            if path.is_dir() { files_below(&path) } else { vec![path] }
        })
        .collect()
}

#[test]
fn a_held_session_is_not_deleted_and_the_retention_report_lists_no_next_action() {
    let place = with_trip();
    place.run(&["hold", "trip"]).ok();
    let refused = place.run(&["delete", "trip", "--yes", "--json"]);
    assert_eq!(refused.refused(1), "session_held");
    let told = place.run(&["retention", "--dry-run", "--json"]).json();
    assert_eq!(told["data"][0]["session"], "trip");
    assert_eq!(told["data"][0]["next"], "none");
    assert_eq!(told["retention_seconds"], 30 * 24 * 3_600);
    place.run(&["hold", "trip", "--release"]).ok();
    let swept = place.run(&["retention", "--json"]).json();
    assert_eq!((&swept["expired"], &swept["data"][0]["next"]), (&json!([]), &json!("expire")));
    let live = place.run(&["restore", "trip"]).ok();
    assert_eq!(live, "nothing to restore: trip has neither expired nor been deleted\n");
    assert_eq!(place.run(&["restore", "trip", "--json"]).json()["restored"], false);
    place.run(&["delete", "trip", "--yes"]).ok();
    let config = place.run(&["config", "--json"]).json();
    for (name, value) in [("ttl", "4h"), ("retention", "30d"), ("grace", "7d"), ("max_steps", "0")]
    {
        assert_eq!(config["settings"][name]["value"], value, "{name}");
    }
}

#[test]
fn settings_show_their_source_and_an_invalid_one_is_rejected_with_its_name() {
    let place = Place::new();
    let config = place.run(&["config", "--json", "--log", "warn"]).json();
    let log = &config["settings"]["log"];
    assert_eq!((&log["value"], &log["source"]), (&json!("warn"), &json!("flag --log")));
    let from = &config["settings"]["data_dir"]["source"];
    assert_eq!(from, &json!("environment SESSIONLOG_DATA_DIR"));
    assert_eq!(config["settings"]["hook_wait"]["source"], json!("default"));
    let key = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let output = place.command(&["config"]).env("SESSIONLOG_KEY", key).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    for setting in ["hook_wait\t1500ms", "key\t(set, not shown)\tenvironment SESSIONLOG_KEY"] {
        assert!(shown.contains(setting) && !shown.contains(key), "{setting}: {shown}");
    }
    let file = place.write("bad.toml", "lisen = \"x\"\n");
    let file = file.to_str().unwrap();
    for (name, value, arguments) in [
        ("SESSIONLOG_LISTEN", "everywhere", vec!["serve"]),
        ("SESSIONLOG_OWNER_IDLE", "soon", vec!["sessions"]),
        ("SESSIONLOG_KEY", "secret", vec!["sessions"]),
        ("UNRELATED", "x", vec!["sessions", "--config", file]),
    ] {
        let output = place.command(&arguments).arg("--json").env(name, value).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}: {output:?}");
        let error: Value = serde_json::from_slice(&output.stdout).unwrap();
        let message = error["error"]["message"].as_str().unwrap().to_lowercase();
        let named = name.strip_prefix("SESSIONLOG_").unwrap_or("lisen").to_lowercase();
        assert!(message.contains(&named), "{message}");
    }
    assert!(!place.data_dir().exists(), "nothing was started");
    let pem = place.write("pem", "none");
    let pem = pem.to_str().unwrap();
    let refused = place.run(&["serve", "--tls-cert", pem, "--tls-key", pem]);
    assert!(refused.code == 1 && refused.err.contains("tls_key"), "{refused:?}");
    assert!(!refused.err.contains("tokens create"), "a key is no token: {refused:?}");
}

#[test]
fn completions_and_the_manual_page_are_printed() {
    let place = Place::new();
    assert!(place.run(&["completions", "bash"]).ok().contains("sessionlog"));
    assert!(place.run(&["man"]).ok().contains(".TH"));
}

#[test]
fn the_command_line_reference_equals_the_help_of_the_program() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/cli.md");
    let fresh = sessionlog::cli::reference();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &fresh).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(stored == fresh, "docs/cli.md is stale: run with UPDATE=1 and review the diff");
}
