//! Effect of a store's responses on an event: it is recorded, spooled, set aside or dropped; and
//! the requests of a hook before it responds to a model. It must not start an owner: the store is
//! scripted.

use std::{
    io::{BufReader, Write as _},
    net::TcpListener,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use sessionlog::{
    client::{Client, ClientTarget},
    env::{clock::SystemClock, entropy::SystemEntropy},
    hook::{Hook, HookInput, HookOutcome, Payload, Spool},
    secrets::Recogniser,
};

use super::{claude, of};

/// A store that sends scripted responses; status 0 is no response.
pub struct Scripted {
    pub url: String,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Scripted {
    pub fn start(answer: impl Fn(&str, &Value) -> (u16, Value) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&asked);
        std::thread::spawn(move || {
            let mut unanswered = Vec::new();
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let (path, body) = request(&mut stream);
                heard.lock().unwrap().push((path.clone(), body.clone()));
                let (status, body) = answer(&path, &body);
                if status == 0 {
                    unanswered.push(stream);
                    continue;
                }
                let body = body.to_string();
                let length = body.len();
                let close = format!("connection: close\r\ncontent-length: {length}");
                let head = format!("HTTP/1.1 {status} Said\r\n{close}\r\n\r\n");
                // The client may be disconnected.
                let _ = stream.get_mut().write_all((head + &body).as_bytes());
            }
        });
        Self { url, asked }
    }

    /// Returns the paths and bodies of the requests whose path has this suffix.
    pub fn asked(&self, ending: &str) -> Vec<(String, Value)> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|(path, _)| path.ends_with(ending)).cloned().collect()
    }

    fn client(&self) -> Client {
        Client::new(ClientTarget::Server(self.url.parse().unwrap()), "test").unwrap()
    }
}

fn request(stream: &mut impl std::io::BufRead) -> (String, Value) {
    let (mut path, mut length) = (String::new(), 0_usize);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        let line = line.trim_end();
        if path.is_empty() {
            line.split(' ').nth(1).unwrap_or("none").clone_into(&mut path);
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    (path, serde_json::from_slice(&body).unwrap_or_default())
}

fn refusal(code: &str) -> Value {
    json!({ "type": "error", "error": {
        "type": code, "message": "no", "recovery_hint": { "retryable": false },
    } })
}

/// Runs a hook with a spool below `home`.
pub fn told(
    client: Result<Client, String>,
    home: &Path,
    directory: Option<&str>,
    tokens_max: usize,
    event: impl Into<HookInput>,
) -> HookOutcome {
    run_hook_after(Duration::ZERO, client, (home, directory), tokens_max, event)
}

/// Runs a hook whose input took this long to read.
fn run_hook_after(
    spent: Duration,
    client: Result<Client, String>,
    (home, directory): (&Path, Option<&str>),
    tokens_max: usize,
    event: impl Into<HookInput>,
) -> HookOutcome {
    let hook = Hook {
        secrets: Arc::default(),
        client,
        spool: Spool::new(vec![spool(home)], Box::new(|| Ok(None)), Arc::new(SystemEntropy)),
        clock: Arc::new(SystemClock::new()),
        entropy: Arc::new(SystemEntropy),
        process: Vec::new(),
        transcripts: Box::new(|_, _| Ok(None)),
        directory: directory.map(str::to_owned),
        home: None,
        wait: Duration::from_secs(60),
        timeout: Duration::from_secs(100),
        tokens_max,
        recall_max: 0,
        spent,
        gap: None,
    };
    let payload = Payload::read(&event.into(), &Recogniser::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(hook.run(&payload))
}

fn spool(home: &Path) -> PathBuf {
    home.join("spool")
}

fn count_json_files(directory: &Path) -> usize {
    let inside = std::fs::read_dir(directory).into_iter().flatten().flatten();
    inside.filter(|entry| entry.path().extension().is_some_and(|e| e == "json")).count()
}

/// Returns the numbers of spooled files and of those set aside.
fn count_spooled(home: &Path) -> (usize, usize) {
    (count_json_files(&spool(home)), count_json_files(&spool(home).join("refused")))
}

fn bytes(event: &Value) -> Vec<u8> {
    event.to_string().into_bytes()
}

fn call(session: &str, n: usize) -> Vec<u8> {
    let call = json!({ "tool_name": "Bash", "tool_use_id": format!("t{n}"), "tool_input": {} });
    bytes(&of(session, claude("PreToolUse", &call)))
}

#[test]
fn the_error_code_of_a_rejected_event_decides_if_it_is_spooled_set_aside_or_dropped() {
    for (status, code, waits, aside) in [
        (410, "session_deleted", 0, 0),
        (410, "session_expired", 0, 1),
        (400, "invalid_request", 0, 1),
        (413, "body_too_large", 0, 1),
        (409, "position_conflict", 0, 1),
        (409, "lease_held", 1, 0),
        (409, "lease_lost", 1, 0),
        (401, "unauthorized", 1, 0),
        (403, "forbidden", 1, 0),
        (423, "session_damaged", 1, 0),
        (429, "rate_limited", 1, 0),
        (500, "internal", 1, 0),
        (503, "overloaded", 1, 0),
    ] {
        let home = tempfile::tempdir().unwrap();
        let store = Scripted::start(move |_, _| (status, refusal(code)));
        let done = told(Ok(store.client()), home.path(), None, 0, call("s", 0));
        assert_eq!(count_spooled(home.path()), (waits, aside), "{status} {code}");
        assert_eq!(done.spooled, waits, "{status} {code}");
        assert!(done.trouble.is_some(), "{status} {code}");
    }
}

#[test]
fn an_event_rejected_by_one_session_blocks_no_other_and_retries_keep_order() {
    let two = ["held", "other"];
    for (status, code, asked, waits, aside) in [
        (400, "invalid_request", &["held", "held", "other", "other"][..], 0, 1),
        (410, "session_deleted", &["held", "held", "other", "other"], 0, 0),
        // Its later event is not sent.
        (423, "session_damaged", &["held", "other", "other"], 2, 0),
        (409, "lease_held", &["held", "other", "other"], 2, 0),
        // A store that rejects every event does not receive each of them.
        (429, "rate_limited", &["held"], 4, 0),
        (503, "overloaded", &["held"], 4, 0),
    ] {
        let home = tempfile::tempdir().unwrap();
        for (n, session) in [two[0], two[0], two[1]].into_iter().enumerate() {
            let done = told(Err("none".to_owned()), home.path(), None, 0, call(session, n));
            assert_eq!(done.spooled, 1);
        }
        let first = Mutex::new(true);
        let store = Scripted::start(move |path, _| match path {
            "/v1/sessions/held/events" if std::mem::take(&mut *first.lock().unwrap()) => {
                (status, refusal(code))
            }
            _ => (200, json!({ "next_position": 1 })),
        });
        // A pause after a failure does not stop a hook that needs a response.
        assert!(spool(home.path()).join("failed").exists());
        let resumed = of("other", claude("SessionStart", &json!({ "source": "resume" })));
        told(Ok(store.client()), home.path(), None, 400, bytes(&resumed));
        let told: Vec<String> = store
            .asked("/events")
            .into_iter()
            .map(|(path, _)| path.split('/').nth(3).unwrap().to_owned())
            .collect();
        assert_eq!(told, asked, "{status} {code}");
        assert_eq!(count_spooled(home.path()), (waits, aside), "{status} {code}");
        let stopped = spool(home.path()).join("failed").exists();
        assert_eq!(stopped, asked.len() == 1, "{status} {code}");
    }
}

#[test]
fn a_prompt_after_a_failure_is_spooled_without_a_request() {
    let home = tempfile::tempdir().unwrap();
    let prompt = || bytes(&claude("UserPromptSubmit", &json!({ "prompt": "mend the wall" })));
    told(Err("none".to_owned()), home.path(), None, 400, prompt());
    assert!(spool(home.path()).join("failed").exists());
    let store = Scripted::start(|_, _| (200, json!({ "next_position": 1 })));
    let done = told(Ok(store.client()), home.path(), None, 400, prompt());
    assert_eq!((done.spooled, store.asked("").len()), (1, 0));
}

#[test]
fn a_batch_with_a_known_event_is_recorded_event_by_event() {
    let home = tempfile::tempdir().unwrap();
    let conflicts = Mutex::new(2);
    let store = Scripted::start(move |_, _| {
        let mut left = conflicts.lock().unwrap();
        if *left == 0 {
            return (200, json!({ "next_position": 3 }));
        }
        *left -= 1;
        (409, refusal("idempotency_conflict"))
    });
    let stop = claude("Stop", &json!({ "last_assistant_message": "Done." }));
    let done = told(Ok(store.client()), home.path(), None, 0, bytes(&stop));
    assert_eq!((done.recorded, done.trouble, count_spooled(home.path())), (2, None, (0, 0)));
    let asked = store.asked("/events");
    let events = |body: &Value| body["events"].as_array().unwrap().clone();
    let counts: Vec<usize> = asked.iter().map(|(_, body)| events(body).len()).collect();
    assert_eq!(counts, [2, 1, 1]);
    assert_eq!(events(&asked[0].1), [events(&asked[1].1), events(&asked[2].1)].concat());
}

#[test]
fn an_event_is_appended_to_a_session_created_concurrently() {
    let home = tempfile::tempdir().unwrap();
    let absent = Mutex::new(true);
    let store = Scripted::start(move |path, _| match path {
        "/v1/sessions" => (409, refusal("session_exists")),
        _ if std::mem::take(&mut *absent.lock().unwrap()) => (404, refusal("session_not_found")),
        _ => (200, json!({ "next_position": 1 })),
    });
    let done = told(Ok(store.client()), home.path(), None, 0, call("s", 0));
    assert_eq!((done.recorded, done.trouble, count_spooled(home.path())), (1, None, (0, 0)));
    assert_eq!(store.asked("/events").len(), 2);
}

#[test]
fn a_checkpoint_follows_its_event_despite_later_writes() {
    let home = tempfile::tempdir().unwrap();
    let store = Scripted::start(|_, _| (200, json!({ "next_position": 7 })));
    let prompt = bytes(&claude("UserPromptSubmit", &json!({ "prompt": "go" })));
    told(Ok(store.client()), home.path(), None, 0, prompt);
    let asked = store.asked("/checkpoints");
    assert_eq!(asked[0].1, json!({ "label": "prompt", "final": false, "at": "7" }));
}

#[test]
fn a_starting_agent_gets_the_text_of_its_directory_within_the_budget_of_hooks() {
    let home = tempfile::tempdir().unwrap();
    let store = Scripted::start(|path, _| match path.ends_with("/start") {
        true => (200, json!({ "text": "# Left\n- the north wall", "tokens": 9, "trust": "" })),
        false => (200, json!({ "next_position": 1 })),
    });
    let start = of("own", claude("SessionStart", &json!({ "source": "startup" })));
    let done = told(Ok(store.client()), home.path(), None, 500, bytes(&start));
    let answer = done.answer.unwrap().to_string();
    assert!(answer.contains("- the north wall"), "{answer}");
    let asked = store.asked("/start");
    assert_eq!(asked[0].1, json!({ "session_id": "own", "tokens_max": 500 }));
}

#[test]
fn a_compacted_session_receives_one_continuation_with_the_whole_budget() {
    let home = tempfile::tempdir().unwrap();
    let store = Scripted::start(|path, _| {
        let answer = match path.contains("/views/continuation?") {
            true => json!({ "position": 5, "truncated": false, "task": { "text": "go" },
                "last_steps": [{ "number": 1, "description": "looked" }] }),
            false => json!({ "next_position": 1 }),
        };
        (200, answer)
    });
    let compacted = bytes(&claude("SessionStart", &json!({ "source": "compact" })));
    let done = told(Ok(store.client()), home.path(), None, 3_000, compacted);
    let answer = done.answer.unwrap().to_string();
    assert!(answer.contains("looked") && answer.contains(r#"\"text\":\"go\""#), "{answer}");
    let asked = store.asked.lock().unwrap().clone();
    let tokens = asked.iter().filter_map(|(path, _)| path.split_once("tokens_max="));
    let tokens = tokens.map(|(_, tokens)| tokens.split('&').next().unwrap());
    let tokens: Vec<usize> = tokens.map(|tokens| tokens.parse().unwrap()).collect();
    // A small request finds the topic of the session, for the recall.
    assert_eq!(tokens, [400, 3_000]);
}

#[test]
fn an_event_is_spooled_before_the_hook_times_out() {
    let home = tempfile::tempdir().unwrap();
    let store = Scripted::start(|_, _| (0, Value::Null));
    // The wait ends at 80 s of the 100 that the program gives.
    let spent = Duration::from_secs(79);
    let done = run_hook_after(spent, Ok(store.client()), (home.path(), None), 0, call("s", 0));
    assert_eq!((done.spooled, count_spooled(home.path())), (1, (1, 0)));
    let trouble = done.trouble.unwrap();
    assert!(trouble.contains("no answer for 1000 ms"), "{trouble}");
}

/// Returns the request by which a hook creates a session for an event.
pub fn created(event: impl Into<HookInput>, directory: Option<&str>) -> Value {
    let home = tempfile::tempdir().unwrap();
    let store = Scripted::start(|path, _| match path {
        "/v1/sessions" => (201, json!({})),
        path if path.ends_with("/checkpoints") => (201, json!({})),
        _ => (404, refusal("session_not_found")),
    });
    let done = told(Ok(store.client()), home.path(), directory, 0, event);
    assert_eq!((done.trouble, count_spooled(home.path())), (None, (0, 0)));
    store.asked("/v1/sessions").remove(0).1
}

#[test]
fn an_event_with_slow_input_is_spooled_for_the_next_hook() {
    let home = tempfile::tempdir().unwrap();
    let store = Scripted::start(move |_, _| (200, json!({ "next_position": 1 })));
    let spent = Duration::from_secs(80);
    let done = run_hook_after(spent, Ok(store.client()), (home.path(), None), 0, call("s", 0));
    assert_eq!((done.spooled, count_spooled(home.path())), (1, (1, 0)), "{done:?}");
    let done = told(Ok(store.client()), home.path(), None, 0, call("s", 1));
    assert_eq!((done.recorded, count_spooled(home.path())), (1, (0, 0)), "{done:?}");
}
