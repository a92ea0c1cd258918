//! Index files that were replaced: restored from before a redaction, from another version,
//! overwritten while the server runs. Searched over HTTP.

use std::sync::Arc;

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};
use sessionlog::{
    env::{Env, disk::DataDir},
    event::{Position, Range, Scope},
    secrets::MaskedText,
    service::{EmbedError, Embedder, Service},
    store::{ChangesSeen, HeldEvents, Store, local::LocalStore},
};
use sessionlog_sim::{ManualClock, Sim};

use super::{places, search};
use crate::{
    bytes::holds,
    engines::{key, machine as over_disk, small},
    http::house::{House, Plan},
    life::machine,
};

/// More passages than the smallest file of the index has.
const EVENTS: usize = 700;
const WORD: &str = "wolpertinger";

/// An embedder with one direction for texts with the word, and one for all others.
struct Pointed;

impl Embedder for Pointed {
    fn name(&self) -> &str {
        "pointed"
    }

    fn embed(&self, texts: Vec<MaskedText>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, EmbedError>> {
        let one = |text: &MaskedText| {
            let text = text.as_str();
            let has = if text.contains(WORD) { 1.0 } else { -1.0 };
            let rest = text.len() as f32;
            vec![has, 0.2, rest / 100.0, 0.1]
        };
        async move { Ok(texts.iter().map(one).collect()) }.boxed()
    }
}

/// A server over a store, and the handles needed to stop it.
struct Desk {
    house: House,
    store: Arc<dyn Store>,
    service: Service,
}

impl Desk {
    async fn open(env: &Env, clock: Arc<ManualClock>, by_meaning: bool) -> Self {
        let store: Arc<dyn Store> = LocalStore::open(env, small()).unwrap();
        let service = Service::new(store.clone(), clock.clone());
        let service = match by_meaning {
            true => service.with_embedder(Arc::new(Pointed), Arc::default(), false),
            false => service,
        };
        let plan = Plan { service: Some(service.clone()), ..Plan::default() };
        let house = House::over(store.clone(), clock, plan).await;
        Self { house, store, service }
    }

    async fn on(sim: &Sim, by_meaning: bool) -> Self {
        Self::open(&sim.env(), Arc::new(ManualClock::default()), by_meaning).await
    }

    async fn fill(&self, session: &str, events: usize, text: impl Fn(usize) -> String) {
        let new = json!({"id": session});
        assert_eq!(self.house.post("/v1/sessions", &new).await.status, 201);
        let event = |n: usize| json!({"id": format!("{session}-{n}"), "type": "user.message", "content": text(n)});
        let events: Vec<Value> = (0..events).map(event).collect();
        let path = format!("/v1/sessions/{session}/events");
        let answer = self.house.post(&path, &json!({"events": events})).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
    }

    /// Searches until the index and the vectors are complete; returns hits and scores.
    async fn found(&self, words: &str) -> Value {
        loop {
            let found = search(&self.house, json!({"q": words})).await;
            if found["complete"]["vectors_behind"].is_null() {
                return found["hits"].clone();
            }
        }
    }

    async fn stop(self) {
        self.house.stop.cancel();
        self.house.served.await.unwrap();
        self.service.write_index().await;
        self.store.close().await;
    }
}

fn derived_files(sim: &Sim) -> Vec<(String, Vec<u8>)> {
    let files = sim.files().into_iter().filter(|path| path.starts_with("derived/"));
    files.map(|path| (path.clone(), sim.read_durable(&path).unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_index_files_from_before_a_redaction_reveal_no_redacted_text() {
    for (encrypted, by_meaning) in [(false, false), (false, true), (true, false), (true, true)] {
        let sim = machine(76, encrypted);
        let desk = Desk::on(&sim, by_meaning).await;
        let text = |n: usize| match n {
            350 => format!("The {WORD} of the survey"),
            _ => format!("The heron number {n} of the survey"),
        };
        desk.fill("secret", EVENTS, text).await;
        desk.fill("other", 200, |n| format!("The osprey number {n}")).await;
        assert!(!desk.found(WORD).await.as_array().unwrap().is_empty());
        desk.stop().await;
        let before = derived_files(&sim);
        assert!(before.len() > usize::from(by_meaning), "{}", before.len());
        let desk = Desk::on(&sim, by_meaning).await;
        let path = "/v1/sessions/secret/events/secret-350/redact";
        assert_eq!(desk.house.call("POST", path, &[], None).await.status, 200);
        let questions = [WORD, "heron 349", "survey", "osprey 3", "wolp*"];
        let mut answers = Vec::new();
        for words in questions {
            answers.push(desk.found(words).await);
        }
        desk.stop().await;
        // The older files again, together with the current ones.
        for (path, bytes) in &before {
            sim.remove_durable(path);
            sim.write_durable(path, 0, bytes);
        }
        let desk = Desk::on(&sim, by_meaning).await;
        for (words, answer) in questions.iter().zip(&answers) {
            let told = format!("{words}, encrypted: {encrypted}, by meaning: {by_meaning}");
            assert_eq!(&desk.found(words).await, answer, "{told}");
        }
        desk.stop().await;
        let has = |(path, _): &&(String, Vec<u8>)| {
            sim.read_durable(path).is_some_and(|bytes| holds(&bytes, "wolperting"))
        };
        assert_eq!(before.iter().filter(has).count(), 0, "encrypted: {encrypted}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_newer_than_its_sessions_is_not_searched() {
    let sim = machine(77, false);
    let desk = Desk::on(&sim, false).await;
    desk.fill("a", EVENTS, |n| format!("The heron number {n}")).await;
    desk.stop().await;
    let older: Vec<_> =
        sim.files().into_iter().map(|path| (sim.read_durable(&path).unwrap(), path)).collect();
    let desk = Desk::on(&sim, false).await;
    let more = |word: &'static str| {
        let event = move |n: usize| json!({"type": "user.message", "content": format!("The {word} number {n}")});
        json!({"events": (0..EVENTS).map(event).collect::<Vec<_>>()})
    };
    desk.house.post("/v1/sessions/a/events", &more(WORD)).await;
    assert!(!desk.found(WORD).await.as_array().unwrap().is_empty());
    desk.stop().await;
    for path in sim.files().into_iter().filter(|path| !path.starts_with("derived/")) {
        sim.remove_durable(&path);
    }
    for (bytes, path) in older.iter().filter(|(_, path)| !path.starts_with("derived/")) {
        sim.write_durable(path, 0, bytes);
    }
    let desk = Desk::on(&sim, false).await;
    // Other events take those positions before a search.
    desk.house.post("/v1/sessions/a/events", &more("osprey")).await;
    assert_eq!(desk.found(&format!("+{WORD}")).await, json!([]));
    let found = search(&desk.house, json!({"q": "+osprey 3"})).await;
    assert_eq!(places(&found)[0], format!("a {}", EVENTS + 3), "{found}");
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn index_files_of_another_version_are_removed_at_start() {
    for encrypted in [false, true] {
        let sim = machine(78, encrypted);
        let desk = Desk::on(&sim, false).await;
        desk.fill("a", EVENTS, |n| format!("The heron number {n}")).await;
        let (mut since, mut found) = (ChangesSeen::default(), None);
        while found.is_none() {
            let moves = desk.store.list_changes(since, 10).await.unwrap();
            (since, found) =
                (moves.since, moves.sessions.into_iter().find(|one| one.key == key("a")));
        }
        let moved = found.unwrap();
        let range = Range::new(Position(0), Position(9));
        let held =
            HeldEvents { key: moved.key, hash: moved.hash, range, rewritten: moved.rewritten };
        let (tenant, user) = (Scope::local().tenant.to_string(), Scope::local().user.to_string());
        let mut names = Vec::new();
        for kind in ["search/0", "search/1", "graph/7"] {
            let label = [kind, &tenant, &user].join("\n");
            let bytes = b"SLINDEX1 of another version, with a wolpertinger in it";
            let put = desk.store.put_derived(label.as_bytes(), vec![held.clone()], bytes);
            names.push(put.await.unwrap());
        }
        desk.stop().await;
        let there = || {
            let paths = derived_files(&sim).into_iter().map(|(path, _)| path);
            paths.filter(|path| names.iter().any(|name| path.ends_with(&name.to_string()))).count()
        };
        assert_eq!(there(), 3);
        let desk = Desk::on(&sim, false).await;
        assert!(!desk.found("heron").await.as_array().unwrap().is_empty());
        assert_eq!(there(), 0, "encrypted: {encrypted}");
        desk.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_are_kept_while_no_embedder_is_set() {
    let sim = machine(79, false);
    let desk = Desk::on(&sim, true).await;
    desk.fill("a", EVENTS, |n| format!("The heron number {n}")).await;
    desk.found("heron").await;
    desk.stop().await;
    let with = derived_files(&sim).len();
    let desk = Desk::on(&sim, false).await;
    desk.found("heron").await;
    desk.stop().await;
    assert_eq!(
        derived_files(&sim).len(),
        with,
        "they are asked for again only where they are lost"
    );
}

#[expect(clippy::disallowed_types, reason = "files are written over while they are in use")]
#[tokio::test(flavor = "multi_thread")]
async fn an_index_file_overwritten_while_open_is_rebuilt() {
    use std::os::unix::fs::FileExt as _;
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let (env, clock) = over_disk(Arc::new(DataDir::open(&data).unwrap()));
    let desk = Desk::open(&env, clock, false).await;
    desk.fill("a", EVENTS, |n| format!("The heron number{n}")).await;
    desk.found("heron").await;
    desk.service.write_index().await;
    for n in [3, 600] {
        let found = search(&desk.house, json!({"q": format!("number{n}")})).await;
        assert_eq!(places(&found)[0], format!("a {n}"), "{found}");
    }
    assert_eq!(desk.service.counts().index.memory_bytes, 0, "all is in files");
    for entry in std::fs::read_dir(data.join("derived")).unwrap() {
        let file = std::fs::File::options().write(true).open(entry.unwrap().path()).unwrap();
        let bytes = file.metadata().unwrap().len();
        file.write_all_at(&vec![0x55; bytes as usize / 2], bytes / 2).unwrap();
    }
    for n in [3, 100, 350, 600, 699] {
        let asked = json!({"q": format!("number{n}"), "wait_ms": 60_000});
        let mut found = desk.house.post("/v1/search", &asked).await.json();
        // The answer reports what is missing.
        while found["complete"]["is_complete"] != true {
            found = desk.house.post("/v1/search", &asked).await.json();
        }
        assert_eq!(places(&found).first(), Some(&format!("a {n}")), "{found}");
    }
    desk.stop().await;
}
