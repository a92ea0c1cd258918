//! The main job on real input: fifty conversations imported and served, one tailed while others
//! append, the owner killed in the middle, everything acknowledged read through every interface.
//! And the demo, which shows the same to a user.
//!
//! The conversations are outside of the repository (`../shared/data`); without them the first test
//! reports that it is skipped.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
};

use serde_json::{Value, json};
use sessionlog::{
    client::{Client, HttpRequest},
    event::SessionId,
};

use crate::{
    program::{McpClient, Place, Server, eventually, lines},
    say::{read, skipped},
};

/// Number of writers, events of each, and acknowledged events before the owner is killed.
const WRITERS: usize = 4;
const EVENTS: usize = 60;
const KILLED_AFTER: usize = 80;

pub fn conversations() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/tau-airline.jsonl");
    path.exists().then_some(path)
}

/// Acknowledged events of each session: contents by position.
type Acknowledged = Mutex<BTreeMap<String, BTreeMap<u64, String>>>;

#[test]
fn fifty_real_conversations_survive_a_kill_of_the_owner_through_every_interface() {
    let Some(path) = conversations() else {
        skipped("the main job: ../shared/data/tau-airline.jsonl is not there");
        return;
    };
    let originals: BTreeMap<String, Value> = lines(&read(&path))
        .into_iter()
        .map(|line| (line["id"].as_str().unwrap().to_owned(), line))
        .collect();
    let place = Place::new();
    let server = place.serve();
    import(&place, &path);
    let mut research = McpClient::start(&place, &[]);
    let first = research.call(
        "sequential_search",
        &json!({ "searchStep": "read the policy", "stepNumber": 1, "nextStepNeeded": true,
                 "researchGoal": "what survives" }),
    );

    let acknowledged = append_while_the_owner_dies(&place, server, originals.keys());

    let server = place.serve();
    let mut reader = McpClient::start(&place, &["--toolsets", "events"]);
    let kept = through_http(&server.client(), originals.keys());
    for (id, original) in &originals {
        let added: BTreeMap<u64, String> = contents(&kept[id]);
        let told = acknowledged.get(id).cloned().unwrap_or_default();
        assert_eq!(added, told, "{id}: what was acknowledged, exactly once");
        let exported = place.run(&["export", id, "--format", "openai"]).json();
        let messages = original["messages"].as_array().unwrap().len();
        let exported_messages = exported["messages"].as_array().unwrap();
        assert_eq!(exported_messages[..messages], original["messages"].as_array().unwrap()[..]);
        assert_eq!(exported["reward"], original["reward"]);
        assert_eq!(exported_messages.len(), messages + told.len());
        assert_eq!(place.events(id), kept[id], "{id}: HTTP and the command line agree");
        assert_eq!(through_mcp(&mut reader, id), kept[id], "{id}: HTTP and MCP agree");
    }
    let recovered = research.call("get_research_session", &json!({}));
    assert_eq!(recovered["sessionId"], first["sessionId"], "{recovered}");
    assert!(recovered.to_string().contains("what survives"), "{recovered}");
    place.run(&["verify"]).ok();
    assert_eq!(server.stop(), Some(0));
}

fn import(place: &Place, path: &Path) {
    let path = path.to_str().unwrap();
    let report = place.run(&["import", path, "--json"]).json();
    assert_eq!((&report["sessions"], &report["records"]), (&json!(50), &json!(2_196)), "{report}");
    let again = place.run(&["import", path, "--json"]).json();
    assert_eq!((&again["added"], &again["known"]), (&json!(0), &report["added"]), "{again}");
}

/// Appends to four conversations from four processes and tails one; kills the server meanwhile.
fn append_while_the_owner_dies<'a>(
    place: &Place,
    server: Server,
    sessions: impl Iterator<Item = &'a String>,
) -> BTreeMap<String, BTreeMap<u64, String>> {
    let acknowledged = Acknowledged::default();
    let count = AtomicUsize::new(0);
    let sessions: Vec<&String> = sessions.take(WRITERS).collect();
    let tailed = sessions[0].as_str();
    std::thread::scope(|scope| {
        let (seen, ready) = mpsc::channel();
        let client = server.client();
        scope.spawn(move || tail(&client, tailed, &seen));
        let start = ready.recv().unwrap();
        let follower = follow(place, tailed, start);
        for session in &sessions {
            let (acknowledged, count) = (&acknowledged, &count);
            scope.spawn(move || write(place, session, acknowledged, count));
        }
        eventually("enough acknowledged events", || {
            (count.load(Ordering::SeqCst) >= KILLED_AFTER).then_some(())
        });
        server.kill();
        let before: Vec<u64> = ready.iter().collect();
        let expected: Vec<u64> = (start..start + before.len() as u64).collect();
        assert_eq!(before, expected, "the tail saw every event once, in order, until the kill");
        assert!(!before.is_empty(), "the tail saw events of another process");
        let server = place.serve();
        let followed: Vec<u64> = follower.join().unwrap();
        let expected: Vec<u64> = (start..start + EVENTS as u64).collect();
        assert_eq!(followed, expected, "a follower goes on through the owner's death");
        drop(server);
    });
    acknowledged.into_inner().unwrap()
}

/// Tails a session over SSE until the server ends: sends first the tail, then event positions.
fn tail(client: &Client, session: &str, seen: &mpsc::Sender<u64>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let session = SessionId::new(session).unwrap();
        let mut tail = client.tail(&session, None, &[]).await.unwrap();
        seen.send(tail.next_position()).unwrap();
        while let Ok(told) = tail.next().await {
            let event: Value = serde_json::from_str(told.text()).unwrap();
            seen.send(event["position"].as_u64().unwrap()).unwrap();
        }
    });
}

/// Follows a session with the command line, which outlives the server.
fn follow(place: &Place, session: &str, start: u64) -> std::thread::JoinHandle<Vec<u64>> {
    let (start, limit) = (start.to_string(), EVENTS.to_string());
    let arguments = ["events", session, "--follow", "--from", &start, "--limit", &limit];
    let mut child = place.command(&arguments).stderr(Stdio::null()).spawn().unwrap();
    std::thread::spawn(move || {
        let output = BufReader::new(child.stdout.take().unwrap());
        let position = |line: std::io::Result<String>| {
            let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
            event["position"].as_u64().unwrap()
        };
        let positions = output.lines().map(position).collect();
        assert_eq!(child.wait().unwrap().code(), Some(0));
        positions
    })
}

/// Runs one process that appends; records the acknowledged events.
fn write(place: &Place, session: &str, acknowledged: &Acknowledged, count: &AtomicUsize) {
    let mut child =
        place.command(&["append", session, "--json"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for number in 0..EVENTS {
        let content = format!("{session} {number}");
        let event = json!({ "type": "user.message", "content": content });
        input.write_all(format!("{event}\n").as_bytes()).unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let position = answer["first_position"].as_u64().unwrap_or_else(|| panic!("{line}"));
        let mut all = acknowledged.lock().unwrap();
        all.entry(session.to_owned()).or_default().insert(position, content);
        count.fetch_add(1, Ordering::SeqCst);
    }
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Returns the contents of the writers' events by position.
fn contents(events: &[Value]) -> BTreeMap<u64, String> {
    events
        .iter()
        .filter(|event| event.get("raw").is_none() && event.get("raw_in").is_none())
        .map(|event| {
            let content = event["content"].as_str().unwrap().to_owned();
            (event["position"].as_u64().unwrap(), content)
        })
        .collect()
}

fn through_http<'a>(
    client: &Client,
    sessions: impl Iterator<Item = &'a String>,
) -> BTreeMap<String, Vec<Value>> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut all = BTreeMap::new();
        for session in sessions {
            let request = HttpRequest::get(format!("/v1/sessions/{session}/events"));
            let mut answer = client.json(request.query("limit", 10_000)).await.unwrap();
            assert!(answer["next_page"].is_null(), "one page holds it");
            let Value::Array(events) = answer["data"].take() else { panic!("{answer}") };
            all.insert(session.clone(), events);
        }
        all
    })
}

fn through_mcp(client: &mut McpClient, session: &str) -> Vec<Value> {
    let mut events = Vec::new();
    let mut from = json!("0");
    loop {
        let mut answer = client.call(
            "get_events",
            &json!({ "sessionId": session, "from": from, "limit": 1000, "maxBytes": 1_000_000 }),
        );
        let Value::Array(page) = answer["events"].take() else { panic!("{answer}") };
        events.extend(page);
        if answer["hasMore"] != json!(true) {
            return events;
        }
        from = json!(answer["nextPosition"].to_string());
    }
}

#[test]
fn the_demo_returns_every_event_and_leaves_no_file() {
    let place = Place::new();
    let temporary = place.path("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let output = place.command(&["demo"]).env("TMPDIR", &temporary).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("200 of 200 acknowledged events are back"), "{told}");
    assert!(told.contains("equal to its original"), "{told}");
    eventually("an empty place for temporary files", || {
        (std::fs::read_dir(&temporary).unwrap().count() == 0).then_some(())
    });
    assert!(!place.data_dir().exists(), "the user's own sessions are not touched");
}
