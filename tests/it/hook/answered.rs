//! Effect of a store's answers on an event: it is recorded, waits, is put aside or dropped; and the
//! requests of a hook before it answers a model. It must not start an owner: the store is a script.

use std::{
    io::{BufReader, Write as _},
    net::TcpListener,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use sessionlog::{
    client::{Client, Target},
    env::{clock::SystemClock, entropy::SystemEntropy},
    hook::{Done, Hook, Input, Payload, Spool},
    secrets::Recogniser,
};

use super::{claude, of};

/// A store that answers what a script says; status 0 is no answer at all.
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
                // The client may be gone.
                let _ = stream.get_mut().write_all((head + &body).as_bytes());
            }
        });
        Self { url, asked }
    }

    /// Paths and bodies of what it was asked that ends so.
    pub fn asked(&self, ending: &str) -> Vec<(String, Value)> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|(path, _)| path.ends_with(ending)).cloned().collect()
    }

    fn client(&self) -> Client {
        Client::new(Target::Server(self.url.parse().unwrap()), "test").unwrap()
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
    event: impl Into<Input>,
) -> Done {
    told_after(Duration::ZERO, client, (home, directory), tokens_max, event)
}

/// The same when its input took that long to be read.
fn told_after(
    spent: Duration,
    client: Result<Client, String>,
    (home, directory): (&Path, Option<&str>),
    tokens_max: usize,
    event: impl Into<Input>,
) -> Done {
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

fn waiting(directory: &Path) -> usize {
    let inside = std::fs::read_dir(directory).into_iter().flatten().flatten();
    inside.filter(|entry| entry.path().extension().is_some_and(|e| e == "json")).count()
}

/// Numbers of files that wait, and that were put aside.
fn kept(home: &Path) -> (usize, usize) {
    (waiting(&spool(home)), waiting(&spool(home).join("refused")))
}

fn bytes(event: &Value) -> Vec<u8> {
    event.to_string().into_bytes()
}

fn call(session: &str, n: usize) -> Vec<u8> {
    let call = json!({ "tool_name": "Bash", "tool_use_id": format!("t{n}"), "tool_input": {} });
    bytes(&of(session, claude("PreToolUse", &call)))
}

#[test]
fn each_refusal_says_whether_an_event_waits_is_put_aside_or_is_let_go_of() {
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
        assert_eq!(kept(home.path()), (waits, aside), "{status} {code}");
        assert_eq!(done.spooled, waits, "{status} {code}");
        assert!(done.trouble.is_some(), "{status} {code}");
    }
}

#[test]
fn an_event_refused_by_one_session_blocks_no_other_and_retries_keep_their_order() {
    let two = ["held", "other"];
    for (status, code, asked, waits, aside) in [
        (400, "invalid_request", &["held", "held", "other", "other"][..], 0, 1),
        (410, "session_deleted", &["held", "held", "other", "other"], 0, 0),
        // Its later event is not even tried.
        (423, "session_damaged", &["held", "other", "other"], 2, 0),
        (409, "lease_held", &["held", "other", "other"], 2, 0),
        // A store that refuses all is not asked for each.
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
        // A pause does not stop a hook that expects an answer.
        assert!(spool(home.path()).join("failed").exists());
        let resumed = of("other", claude("SessionStart", &json!({ "source": "resume" })));
        told(Ok(store.client()), home.path(), None, 400, bytes(&resumed));
        let told: Vec<String> = store
            .asked("/events")
            .into_iter()
            .map(|(path, _)| path.split('/').nth(3).unwrap().to_owned())
            .collect();
        assert_eq!(told, asked, "{status} {code}");
        assert_eq!(kept(home.path()), (waits, aside), "{status} {code}");
        let stopped = spool(home.path()).join("failed").exists();
        assert_eq!(stopped, asked.len() == 1, "{status} {code}");
    }
}

#[test]
fn a_prompt_after_a_failure_waits_for_no_store_although_it_may_be_answered() {
    let home = tempfile::tempdir().unwrap();
    let prompt = || bytes(&claude("UserPromptSubmit", &json!({ "prompt": "mend the wall" })));
    told(Err("none".to_owned()), home.path(), None, 400, prompt());
    assert!(spool(home.path()).join("failed").exists());
    let store = Scripted::start(|_, _| (200, json!({ "next_position": 1 })));
    let done = told(Ok(store.client()), home.path(), None, 400, prompt());
    assert_eq!((done.spooled, store.asked("").len()), (1, 0));
}

#[test]
fn of_events_of_which_one_is_known_the_others_are_recorded_one_by_one() {
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
    assert_eq!((done.recorded, done.trouble, kept(home.path())), (2, None, (0, 0)));
    let asked = store.asked("/events");
    let events = |body: &Value| body["events"].as_array().unwrap().clone();
    let counts: Vec<usize> = asked.iter().map(|(_, body)| events(body).len()).collect();
    assert_eq!(counts, [2, 1, 1]);
    assert_eq!(events(&asked[0].1), [events(&asked[1].1), events(&asked[2].1)].concat());
}

#[test]
fn a_session_that_another_event_began_meanwhile_takes_this_one() {
    let home = tempfile::tempdir().unwrap();
    let absent = Mutex::new(true);
    let store = Scripted::start(move |path, _| match path {
        "/v1/sessions" => (409, refusal("session_exists")),
        _ if std::mem::take(&mut *absent.lock().unwrap()) => (404, refusal("session_not_found")),
        _ => (200, json!({ "next_position": 1 })),
    });
    let done = told(Ok(store.client()), home.path(), None, 0, call("s", 0));
    assert_eq!((done.recorded, done.trouble, kept(home.path())), (1, None, (0, 0)));
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
fn a_resumed_session_is_given_one_continuation_with_the_whole_budget() {
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
    // A small one says what the session works at, for what is recalled.
    assert_eq!(tokens, [400, 3_000]);
}

#[test]
fn an_event_is_spooled_before_its_program_times_the_hook_out() {
    let home = tempfile::tempdir().unwrap();
    let store = Scripted::start(|_, _| (0, Value::Null));
    let done = told(Ok(store.client()), home.path(), None, 0, call("s", 0));
    assert_eq!((done.spooled, kept(home.path())), (1, (1, 0)));
    let trouble = done.trouble.unwrap();
    assert!(trouble.contains("no answer for 8000 ms"), "{trouble}");
}

/// Request by which a hook creates a session for an event.
pub fn created(event: impl Into<Input>, directory: Option<&str>) -> Value {
    let home = tempfile::tempdir().unwrap();
    let store = Scripted::start(|path, _| match path {
        "/v1/sessions" => (201, json!({})),
        path if path.ends_with("/checkpoints") => (201, json!({})),
        _ => (404, refusal("session_not_found")),
    });
    let done = told(Ok(store.client()), home.path(), directory, 0, event);
    assert_eq!((done.trouble, kept(home.path())), (None, (0, 0)));
    store.asked("/v1/sessions").remove(0).1
}

#[test]
fn an_event_whose_input_took_the_time_of_its_hook_waits_for_the_next_one() {
    let home = tempfile::tempdir().unwrap();
    let store = Scripted::start(move |_, _| (200, json!({ "next_position": 1 })));
    let spent = Duration::from_secs(8);
    let done = told_after(spent, Ok(store.client()), (home.path(), None), 0, call("s", 0));
    assert_eq!((done.spooled, kept(home.path())), (1, (1, 0)), "{done:?}");
    let done = told(Ok(store.client()), home.path(), None, 0, call("s", 1));
    assert_eq!((done.recorded, kept(home.path())), (1, (0, 0)), "{done:?}");
}
