//! Searching by meaning, with an embedder that is a test server: the text sent to it, the hits
//! found with it, the report of a search while it fails; and vectors of an erased event are in no
//! file.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode, header::LOCATION},
    response::{IntoResponse as _, Response},
    routing::post,
};
use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};
use sessionlog::{
    api::search::SearchBody,
    client::{EmbedderOptions, HttpEmbedder},
    env::Env,
    event::{Batch, EventType, NewEvent, Origin, Scope, SessionId},
    secrets::MaskedText,
    service::{Caller, EmbedError, Embedder, NewSession, Service},
    store::{Store, local::LocalStore},
};
use tokio::net::TcpListener;

use super::{places, talk};
use crate::{
    engines::{self, small},
    http::house::{House, PATIENCE, Plan},
    life::machine,
    program::Place,
};

/// Words with one meaning, each row a direction of the vectors.
const MEANINGS: [&[&str]; 4] = [
    &["car", "automobile", "vehicle"],
    &["pear", "orchard", "fruit"],
    &["money", "invoice", "price"],
    &["boat", "ship", "sail"],
];

/// Behaviour of the server.
#[derive(Clone, Debug, PartialEq)]
enum Mode {
    /// Returns vectors of so many numbers.
    Good(usize),
    /// Returns a status, and a location if given.
    Status(u16, Option<String>),
    /// Never returns.
    Hang,
    /// Returns one vector too few.
    Short,
}

/// A server with `/v1/embeddings`, and the texts sent to it.
#[derive(Clone)]
struct Fake {
    address: String,
    mode: Arc<Mutex<Mode>>,
    texts: Arc<Mutex<Vec<Vec<String>>>>,
    keys: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/v1/embeddings", listener.local_addr().unwrap());
        let mode = Arc::new(Mutex::new(Mode::Good(8)));
        let fake = Self { address, mode, texts: Arc::default(), keys: Arc::default() };
        let router = Router::new().route("/v1/embeddings", post(answer)).with_state(fake.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        fake
    }

    fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }

    fn texts(&self) -> Vec<String> {
        self.texts.lock().unwrap().iter().flatten().cloned().collect()
    }

    fn embedder(&self) -> Arc<dyn Embedder> {
        let options = EmbedderOptions {
            url: self.address.parse().unwrap(),
            model: "test-model".to_owned(),
            key: Some("the-key\n".to_owned().into()),
            numbers: None,
        };
        Arc::new(HttpEmbedder::new(options).unwrap())
    }

    async fn house(&self, all: bool) -> House {
        let engine = engines::all().into_iter().next().unwrap();
        let service = Service::new(engine.store.clone(), engine.clock.clone());
        let service = Some(service.with_embedder(self.embedder(), Arc::default(), all));
        House::over(engine.store, engine.clock, Plan { service, ..Plan::default() }).await
    }
}

fn vector(text: &str, numbers: usize) -> Vec<f32> {
    let mut vector = vec![0.01; numbers];
    for (at, words) in MEANINGS.iter().enumerate() {
        if words.iter().any(|word| text.to_lowercase().contains(word)) {
            vector[at] = 1.0;
        }
    }
    vector
}

async fn answer(
    State(fake): State<Fake>,
    headers: HeaderMap,
    Json(asked): Json<Value>,
) -> Response {
    let key = headers["authorization"].to_str().unwrap().to_owned();
    fake.keys.lock().unwrap().push(key);
    assert_eq!(asked["model"], "test-model");
    let texts: Vec<String> = serde_json::from_value(asked["input"].clone()).unwrap();
    fake.texts.lock().unwrap().push(texts.clone());
    let mode = fake.mode.lock().unwrap().clone();
    let vectors = |numbers: usize, count: usize| {
        let one = |(at, text): (usize, &String)| {
            let vector = vector(text, numbers);
            json!({"object": "embedding", "index": at, "embedding": vector})
        };
        // Servers need not keep the order.
        let data: Vec<Value> = texts.iter().enumerate().take(count).map(one).rev().collect();
        Json(json!({"object": "list", "data": data, "model": "test-model"})).into_response()
    };
    match mode {
        Mode::Good(numbers) => vectors(numbers, texts.len()),
        Mode::Short => vectors(8, texts.len() - 1),
        Mode::Hang => std::future::pending().await,
        Mode::Status(status, location) => {
            let mut headers = HeaderMap::new();
            headers.extend(location.map(|to| (LOCATION, to.parse().unwrap())));
            (StatusCode::from_u16(status).unwrap(), headers).into_response()
        }
    }
}

/// Searches until the answer meets the condition.
async fn search_until(house: &House, asked: &Value, is_so: impl Fn(&Value) -> bool) -> Value {
    let mut asked = asked.clone();
    asked["wait_ms"] = json!(60_000);
    let search = async {
        loop {
            let found = house.post("/v1/search", &asked).await;
            assert_eq!(found.status, 200, "{}", found.text);
            let found = found.json();
            if is_so(&found) {
                return found;
            }
        }
    };
    tokio::time::timeout(PATIENCE, search).await.expect("it never was as wanted")
}

fn is_complete(found: &Value) -> bool {
    let complete = &found["complete"];
    complete["vectors_behind"].is_null() && complete["is_complete"] == true
}

fn problem(found: &Value) -> String {
    found["complete"]["vectors_behind"]["problem"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_by_meaning_finds_events_without_any_query_word() {
    let fake = Fake::open().await;
    let house = fake.house(false).await;
    talk(&house, "garage", "/work/a", &["The automobile needs new tyres", "Ada knows a garage"])
        .await;
    talk(&house, "harbour", "/work/b", &["We sail on Friday", "The ship is blue"]).await;
    let found = search_until(&house, &json!({"q": "my car"}), is_complete).await;
    assert_eq!(places(&found)[0], "garage 0", "{found}");
    let why = &found["hits"][0]["why"];
    assert_eq!((&why["meaning"], &why["words"]), (&json!(0.5), &json!(0.0)), "{found}");
    assert_eq!(found["hits"][0]["score"], 0.5);
    assert_eq!(found["complete"]["meaning"], "used", "{found}");
    // Ranks by words and by meaning both count: of equally near hits either may come first.
    let found = search_until(&house, &json!({"q": "blue boat"}), is_complete).await;
    assert_eq!(places(&found)[..2], ["harbour 1", "harbour 0"], "{found}");
    let why = &found["hits"][0]["why"];
    let meaning = why["meaning"].as_f64().unwrap();
    assert!(why["words"] == 1.0 && (0.49..=0.5).contains(&meaning), "{found}");
    let score = found["hits"][0]["score"].as_f64().unwrap();
    assert!((score - 1.0 - meaning).abs() < 0.002, "the first by words has 1: {found}");
    // Filters also apply to hits by meaning; a query without words has none.
    for (asked, expected) in [
        (json!({"q": "car", "workspace": "/work/b"}), vec![]),
        (json!({"q": "car", "types": ["agent.message"]}), vec![]),
        (json!({"q": "car", "origin": "tool"}), vec![]),
        (json!({"q": "car", "before": "2001-01-01T00:00:00Z"}), vec![]),
        (json!({"q": "car +bicycle"}), vec![]),
        (json!({"q": "car -tyres"}), vec![]),
    ] {
        let found = search_until(&house, &asked, is_complete).await;
        let near = places(&found).into_iter().filter(|place| place == "garage 0");
        assert_eq!(near.collect::<Vec<_>>(), expected as Vec<String>, "{asked}: {found}");
    }
    let found = search_until(&house, &json!({"q": "car", "order": "time"}), is_complete).await;
    assert_eq!((places(&found), &found["complete"]["meaning"]), (vec![], &Value::Null));
    let texts = fake.texts.lock().unwrap();
    assert!(texts.iter().all(|batch| batch.len() <= 64));
    assert!(fake.keys.lock().unwrap().iter().all(|key| key == "Bearer the-key"));
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_and_unselected_tool_results_are_not_sent_to_the_embedder() {
    let token = format!("ghp_{}", "aB3dE6gH9k".repeat(4).get(..36).unwrap());
    let said = format!("The automobile token is {token} indeed");
    let events = json!({"id": "s", "initial_events": [
        {"type": "user.message", "content": said},
        {"type": "agent.tool_use", "name": "read", "call_id": "c", "input": {"path": "p"}},
        {"type": "agent.tool_result", "call_id": "c", "content": "The vehicle of a tool"},
        {"type": "transcript.entry", "entry": "The fruit of a transcript"},
        {"type": "research.step", "step_number": 1, "description": "The orchard of a step"},
    ]});
    for all in [false, true] {
        let fake = Fake::open().await;
        let house = fake.house(all).await;
        assert_eq!(house.post("/v1/sessions", &events).await.status, 201);
        search_until(&house, &json!({"q": format!("car {token}")}), is_complete).await;
        let texts = fake.texts().join("\n");
        assert!(texts.contains("The automobile token is [redacted:"), "{texts}");
        assert!(texts.contains("The orchard of a step"), "{texts}");
        assert!(!texts.contains(&token), "{texts}");
        assert_eq!(texts.contains("The vehicle of a tool"), all, "{texts}");
        assert!(!texts.contains("The fruit of a transcript"), "{texts}");
    }
}

/// Returns letters that form no word, different for each key.
fn meaningless_letters(count: usize, key: usize) -> String {
    let at = |n: usize| (n * 7 + n / 5 + key * (n % 3 + 1)) % 26;
    (0..count).map(|n| char::from(b"qzxjkvbpygfwmucldrhsnioate"[at(n)])).collect()
}

/// Returns a part of a secret with `count` characters that is in the text, if any.
fn part_in<'a>(text: &str, secrets: &'a [String], count: usize) -> Option<&'a str> {
    let lines = secrets.iter().flat_map(|secret| secret.split_whitespace());
    let parts = lines.flat_map(|line| {
        let last = (line.len() + 1).saturating_sub(count);
        (0..last).filter_map(move |at| line.get(at..at + count))
    });
    let parts: HashMap<&[u8], &str> = parts.map(|part| (part.as_bytes(), part)).collect();
    text.as_bytes().windows(count).find_map(|window| parts.get(window).copied())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_part_of_a_secret_is_sent_at_any_cut_of_a_piece_or_query() {
    let fake = Fake::open().await;
    let house = fake.house(true).await;
    let mut secrets = Vec::new();
    // A token and a multi-line key at every offset around the end of a piece of 512 terms.
    for (count, at) in (470..514).enumerate() {
        let lines: Vec<String> =
            (0..20).map(|line| meaningless_letters(64, count * 20 + line)).collect();
        let (body, token) = (lines.join("\n"), meaningless_letters(36, 2_000 + count));
        let key =
            format!("-----BEGIN RSA {0} KEY-----\n{body}\n-----END RSA {0} KEY-----", "PRIVATE");
        let (before, behind) = ("word ".repeat(at), " word".repeat(600));
        let events = json!({"id": format!("s{at}"), "initial_events": [
            {"type": "user.message", "content": format!("car {before}{key}{behind}")},
            {"type": "agent.message", "content": format!("car {before}ghp_{token}{behind}")},
            {"type": "user.message", "content": format!("car {before}\\u0067hp_{token}{behind}")},
            {"type": "agent.tool_use", "name": "login", "call_id": "c", "input": {
                "note": format!("car {before}"), "passphrase": format!("{} horse", &token[..12]),
            }},
        ]});
        assert_eq!(house.post("/v1/sessions", &events).await.status, 201);
        secrets.extend([body, token]);
    }
    let body: Vec<String> = (0..5).map(|line| meaningless_letters(64, 3_000 + line)).collect();
    let word = meaningless_letters(20, 4_000) + "7x";
    for query in [
        format!("car -----BEGIN RSA {0} KEY-----\n{1}", "PRIVATE", body.join("\n")),
        format!("car X-Api-Key: {word}"),
        format!("car curl --password {word}"),
        format!("car +api_key:{word}"),
        format!("car password=\"{word} battery\""),
        format!("car \"password: '{word} battery'\""),
        format!("car %22token%22%3A%22{word}%22"),
    ] {
        let is_used = |found: &Value| is_complete(found) && found["complete"]["meaning"] == "used";
        search_until(&house, &json!({"q": query}), is_used).await;
    }
    let texts = fake.texts();
    assert!(texts.iter().filter(|text| text.contains("redacted:")).count() >= 44 * 4, "{texts:?}");
    assert!(texts.iter().filter(|text| text.trim() == "car").count() >= 2, "queries are sent");
    let texts = texts.join("\n");
    secrets.extend([body.join("\n"), word]);
    assert_eq!(
        part_in("a sent horse", &["horses".to_owned(), "a sent".to_owned()], 4),
        Some("sent")
    );
    assert_eq!(part_in(&texts, &secrets, 12), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_embedder_fails_a_search_uses_words_and_reports_the_failure() {
    let elsewhere = Fake::open().await;
    for (mode, named) in [
        (Mode::Status(500, None), "status 500"),
        (Mode::Status(307, Some(elsewhere.address.clone())), "status 307"),
        (Mode::Hang, "in time"),
        (Mode::Short, "vectors for"),
    ] {
        let fake = Fake::open().await;
        fake.set(mode.clone());
        let house = fake.house(false).await;
        talk(&house, "garage", "/work/a", &["The automobile needs new tyres"]).await;
        let fails = |found: &Value| problem(found).contains(named);
        let found = search_until(&house, &json!({"q": "new tyres"}), fails).await;
        assert_eq!(places(&found), ["garage 0"], "{mode:?}: {found}");
        assert_eq!(found["complete"]["meaning"], "absent", "{mode:?}: {found}");
        assert_eq!(found["complete"]["is_complete"], true, "{mode:?}: {found}");
        // The embedder is called again later, and the missing vectors are made.
        fake.set(Mode::Good(8));
        if mode == (Mode::Status(500, None)) {
            let found = search_until(&house, &json!({"q": "car"}), is_complete).await;
            assert_eq!(places(&found), ["garage 0"], "{found}");
        }
    }
    assert_eq!(elsewhere.texts(), Vec::<String>::new(), "a redirect was followed");
    // An address without a listener.
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let nowhere = Fake { address: format!("http://{closed}/v1/embeddings"), ..elsewhere };
    let house = nowhere.house(false).await;
    talk(&house, "garage", "/work/a", &["The automobile needs new tyres"]).await;
    let fails = |found: &Value| problem(found).contains("does not answer");
    let found = search_until(&house, &json!({"q": "new tyres"}), fails).await;
    assert_eq!(places(&found), ["garage 0"], "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_of_another_length_are_rejected() {
    let fake = Fake::open().await;
    let house = fake.house(false).await;
    talk(&house, "garage", "/work/a", &["The automobile needs new tyres"]).await;
    search_until(&house, &json!({"q": "car"}), is_complete).await;
    fake.set(Mode::Good(9));
    talk(&house, "harbour", "/work/b", &["The ship is blue"]).await;
    let fails = |found: &Value| problem(found).contains("9 numbers, not 8");
    let found = search_until(&house, &json!({"q": "blue"}), fails).await;
    assert_eq!(places(&found), ["harbour 0"], "{found}");
}

/// An embedder without a server: one direction for texts with the search word, one for all others.
struct Patterned;

const PATTERN: [u8; 8] = [127, 11, 22, 33, 44, 55, 66, 77];

impl Embedder for Patterned {
    fn name(&self) -> &str {
        "patterned"
    }

    fn embed(&self, texts: Vec<MaskedText>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, EmbedError>> {
        let one = |text: &MaskedText| match text.as_str().contains("wolpertinger") {
            true => PATTERN.map(f32::from).to_vec(),
            false => vec![1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0],
        };
        async move { Ok(texts.iter().map(one).collect()) }.boxed()
    }
}

fn caller() -> Caller {
    Caller { scope: Scope::local(), origin: Origin::User, fence: None }
}

async fn fill(service: &Service, session: &str, word: &str) {
    let id = SessionId::new(session).ok();
    let new = NewSession { id: id.clone(), ..NewSession::default() };
    service.create_session(&caller(), new).await.unwrap();
    let event = |n: usize| NewEvent {
        id: None,
        kind: EventType::new("user.message").unwrap(),
        origin: Origin::User,
        created_at: None,
        position: None,
        body: format!(r#"{{"content":"The {word} number {n} of the survey"}}"#).into(),
    };
    let batch = Batch { events: (0..700).map(event).collect(), ..Batch::default() };
    service.emit(&caller(), &id.unwrap(), batch, false).await.unwrap();
}

/// Searches until every event that needs a vector has one.
async fn search_with_vectors(service: &Service, words: &str) -> Vec<(String, u64)> {
    loop {
        let asked = SearchBody { q: words.to_owned(), wait_ms: 60_000, ..SearchBody::default() };
        let found = service.search(&caller(), asked).await.unwrap();
        let complete = &found.complete;
        let is_behind = complete.vectors_behind.as_ref().is_some_and(|behind| behind.events > 0);
        if complete.meaning.is_some() && !is_behind {
            return found
                .hits
                .iter()
                .map(|hit| (hit.session.to_string(), hit.position.0))
                .collect();
        }
        tokio::task::yield_now().await;
    }
}

#[test]
fn vectors_of_erased_or_redacted_events_are_in_no_file() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_time().build().unwrap();
    runtime.block_on(async {
        let sim = machine(74, false);
        let env: Env = sim.env();
        let open = || {
            let store: Arc<dyn Store> = LocalStore::open(&env, small()).unwrap();
            let service = Service::new(Arc::clone(&store), env.clock.clone());
            (store, service.with_embedder(Arc::new(Patterned), Arc::default(), false))
        };
        let (store, service) = open();
        fill(&service, "secret", "wolpertinger").await;
        fill(&service, "other", "heron").await;
        search_with_vectors(&service, "wolpertinger").await;
        service.write_index().await;
        let has = || {
            let read = |path: &String| {
                let bytes = sim.read_durable(path).unwrap_or_default();
                bytes.windows(8).any(|part| part == PATTERN)
            };
            sim.files().iter().filter(|path| path.starts_with("derived/")).any(read)
        };
        assert!(has(), "the vectors are in a file");
        // The next process reads the vectors and does not request them again.
        store.close().await;
        let (store, service) = open();
        assert!(!search_with_vectors(&service, "wolpertinger 7").await.is_empty());
        assert!(has());
        let session = SessionId::new("secret").unwrap();
        service.erase_session(&caller(), &session, false).await.unwrap();
        assert!(!has(), "an erasure answered before the vectors were gone");
        let found = search_with_vectors(&service, "wolpertinger").await;
        assert!(found.iter().all(|(session, _)| session == "other"), "{found:?}");
        service.write_index().await;
        store.close().await;
        assert!(!has());
    });
}

#[test]
fn a_server_with_a_missing_or_public_embedder_key_does_not_start() {
    let place = Place::new();
    let open = place.write("open.key", "the-key");
    std::fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let missing = place.path("missing.key");
    // A server that continued would fail here.
    let store = ["--key-file", missing.to_str().unwrap()];
    let url = ["--embedder-url", "http://127.0.0.1:9/v1/embeddings"];
    let model = ["--embedder-model", "m"];
    for (file, named) in [(&open, "0644"), (&missing, "No such file")] {
        let key = ["--embedder-key-file", file.to_str().unwrap()];
        let arguments = [&["serve", "--json"][..], &store, &url, &model, &key].concat();
        let ran = place.command(&arguments).output().unwrap();
        assert!(!ran.status.success(), "{ran:?}");
        let text = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert!(text.contains("embedder_key_file") && text.contains(named), "{ran:?}");
        assert!(!text.contains("the-key"), "{ran:?}");
    }
    let arguments = [&["serve", "--json"][..], &store, &url].concat();
    let ran = place.command(&arguments).output().unwrap();
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(!ran.status.success() && text.contains("embedder_model"), "{ran:?}");
}
