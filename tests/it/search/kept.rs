//! The index of an engine with files: its files after a stop, a start without them, and crashes at
//! any call. Searched by the verb as an interface calls it.

use std::sync::Arc;

use sessionlog::{
    api::search::{SearchAnswer, SearchBody},
    env::Env,
    event::{Batch, EventType, NewEvent, Origin, Scope, SessionId},
    service::{Caller, NewSession, Service},
    store::{Store, local::LocalStore},
};
use sessionlog_sim::Fault;

use crate::{
    bytes::holds,
    engines::small,
    life::machine,
    nth::{Nth, cases},
};

/// More passages than the smallest file of the index has.
const EVENTS: usize = 700;
/// Thousands of passages in a part that is written to a file immediately.
const FILE_BATCHES: usize = 34;

fn caller() -> Caller {
    Caller { scope: Scope::local(), origin: Origin::User, fence: None }
}

/// Returns a runtime with a clock, which waiting searches need.
fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_time().build().unwrap()
}

struct Desk {
    store: Arc<dyn Store>,
    service: Service,
}

impl Desk {
    fn open(env: &Env) -> Self {
        let store: Arc<dyn Store> = LocalStore::open(env, small()).unwrap();
        let service = Service::new(Arc::clone(&store), env.clock.clone());
        Self { store, service }
    }

    async fn create(&self, session: &str) -> SessionId {
        let id = SessionId::new(session).unwrap();
        let new = NewSession { id: Some(id.clone()), ..NewSession::default() };
        self.service.create_session(&caller(), new).await.unwrap();
        id
    }

    async fn fill(&self, session: &str, word: &str) {
        let id = self.create(session).await;
        let text = |n: usize| format!(r#"{{"content":"The {word} number {n} of the survey"}}"#);
        self.append(&id, EVENTS, text).await;
    }

    async fn append(&self, session: &SessionId, events: usize, text: impl Fn(usize) -> String) {
        let event = |n: usize| NewEvent {
            id: None,
            kind: EventType::new("user.message").unwrap(),
            origin: Origin::User,
            created_at: None,
            position: None,
            body: text(n).into(),
        };
        let batch = Batch { events: (0..events).map(event).collect(), ..Batch::default() };
        self.service.emit(&caller(), session, batch, false).await.unwrap();
    }

    async fn search(&self, words: &str) -> SearchAnswer {
        let asked = SearchBody { q: words.to_owned(), wait_ms: 60_000, ..SearchBody::default() };
        let found = self.service.search(&caller(), asked).await.unwrap();
        assert!(found.complete.is_complete, "{found:?}");
        found
    }

    async fn stop(self) {
        self.service.write_index().await;
        self.store.close().await;
    }
}

fn places(found: &SearchAnswer) -> Vec<(String, u64)> {
    found.hits.iter().map(|hit| (hit.session.to_string(), hit.position.0)).collect()
}

#[test]
fn a_stop_keeps_the_index_and_deleting_its_files_costs_only_time() {
    runtime().block_on(async {
        let sim = machine(71, false);
        let desk = Desk::open(&sim.env());
        desk.fill("survey", "heron").await;
        let before = places(&desk.search("heron 123").await);
        assert_eq!(before[0], ("survey".to_owned(), 123));
        desk.stop().await;
        let files = || -> Vec<String> {
            let files = sim.files().into_iter();
            files.filter(|path| path.starts_with("derived/")).collect()
        };
        assert!(!files().is_empty());
        // Indexed events are not read again: the session cannot be read, but is found.
        let desk = Desk::open(&sim.env());
        assert_eq!(desk.service.counts().index.passages, 0);
        assert_eq!(places(&desk.search("heron 123").await), before);
        assert_eq!(desk.service.counts().index.memory_bytes, 0, "nothing was read anew");
        desk.stop().await;
        files().iter().for_each(|path| sim.remove_durable(path));
        sim.power_loss();
        let desk = Desk::open(&sim.env());
        assert_eq!(places(&desk.search("heron 123").await), before);
        assert!(desk.service.counts().index.memory_bytes > 0);
        desk.stop().await;
    });
}

#[test]
fn an_encrypted_index_has_no_plaintext_and_no_index_has_erased_text() {
    runtime().block_on(async {
        for encrypted in [false, true] {
            let sim = machine(72, encrypted);
            let desk = Desk::open(&sim.env());
            desk.fill("secret", "wolpertinger").await;
            desk.fill("other", "heron").await;
            desk.search("wolpertinger").await;
            desk.service.write_index().await;
            let has = |text: &str| {
                let read = |path: &String| sim.read_durable(path).is_some_and(|b| holds(&b, text));
                sim.files().iter().filter(|path| path.starts_with("derived/")).any(read)
            };
            assert_eq!(has("wolperting"), !encrypted, "the index is in a file");
            let session = SessionId::new("secret").unwrap();
            desk.service.erase_session(&caller(), &session, false).await.unwrap();
            assert!(!has("wolperting"), "encrypted: {encrypted}");
            assert_eq!(places(&desk.search("wolpertinger").await), []);
            assert_eq!(places(&desk.search("heron 9").await)[0], ("other".to_owned(), 9));
            desk.stop().await;
            assert!(!has("wolperting"), "encrypted: {encrypted}");
        }
    });
}

/// Runs a life with an index and a fault; searches afterwards, and returns the number of calls.
fn run_life(case: Option<Nth>) -> u64 {
    let sim = machine(73, false);
    runtime().block_on(async {
        let desk = Desk::open(&sim.env());
        desk.fill("survey", "heron").await;
        desk.search("heron").await;
        let first = sim.calls();
        if let Some(case) = case {
            case.plan(&sim);
        }
        desk.service.write_index().await;
        desk.store.close().await;
        let calls = sim.calls() - first;
        match case.map(|case| case.fault) {
            Some(Fault::Kill) => sim.kill(),
            Some(Fault::PowerLoss) => sim.power_loss(),
            _ => {}
        }
        sim.heal();
        let desk = Desk::open(&sim.env());
        let found = places(&desk.search("heron 123").await);
        assert_eq!(found.first(), Some(&("survey".to_owned(), 123)), "{case:?}");
        desk.stop().await;
        calls
    })
}

#[test]
fn after_a_failure_at_any_disk_call_the_index_catches_up() {
    let calls = run_life(None);
    assert!(calls >= 4, "{calls} calls");
    cases(calls, 5).for_each(|case| _ = run_life(Some(case)));
}

#[test]
fn on_a_full_disk_a_large_index_part_is_kept_in_memory() {
    runtime().block_on(async {
        let sim = machine(74, false);
        let desk = Desk::open(&sim.env());
        let session = desk.create("survey").await;
        for batch in 0..FILE_BATCHES {
            desk.append(&session, 1_000, |n| format!(r#"{{"n":"n{batch}x{n}"}}"#)).await;
        }
        sim.fail_call(sim.calls(), Fault::Full, true);
        let found = places(&desk.search("n32x999").await);
        assert_eq!(found.first(), Some(&("survey".to_owned(), 32_999)));
        sim.heal();
        desk.stop().await;
        assert!(sim.files().iter().any(|path| path.starts_with("derived/")));
    });
}
