//! Scopes are indexed in turn: pending events of one tenant do not delay the words or vectors of
//! another. It must not measure time.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::json;
use sessionlog::{
    access::Grant,
    api::search::{Complete, SearchBody},
    event::{Scope, SessionId, SessionKey, TenantId, UserId},
    secrets::MaskedText,
    service::{EmbedError, Embedder, Service},
    store::{NewSession, Store},
};
use tokio::sync::Semaphore;

use super::places;
use crate::{
    access::house::{Wall, Walled},
    engines::{self, batch, event},
    http::gate::Gate,
};

/// Tenants with many events, and events of each: more than may be pending before indexing starts
/// unasked, and several slices.
const FLOODS: usize = 7;
const FLOOD: usize = 10_500;
/// Number of messages that need several embedder requests.
const MESSAGES: usize = 400;

fn key(tenant: &str) -> SessionKey {
    let tenant = TenantId::new(tenant).unwrap();
    let scope = Scope { tenant, user: UserId::new("ada").unwrap() };
    SessionKey { scope, session: SessionId::new("s").unwrap() }
}

async fn write(store: &dyn Store, tenant: &str, word: &str, events: usize) {
    let key = key(tenant);
    let new = NewSession { id: Some(key.session.clone()), ..NewSession::default() };
    store.create(&key.scope, new).await.unwrap();
    let text = |n: usize| event(&format!(r#"{{"content":"{word} {n}"}}"#));
    for from in (0..events).step_by(1_000) {
        let some = (from..events.min(from + 1_000)).map(text);
        store.append(&key, batch(some)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_tenant_is_indexed_before_the_second_slice_of_any_larger_one() {
    let engine = engines::all().into_iter().next().unwrap();
    for tenant in 0..FLOODS {
        write(&*engine.store, &format!("flood{tenant}"), "flood", FLOOD).await;
    }
    let gate = Arc::new(Gate::new(engine.store.clone()));
    let walled = Walled::over(gate.clone(), engine.clock.clone(), Wall::default()).await;
    let small = walled.token(("small", "ada"), &[Grant::Read, Grant::Write]);
    let events = json!([{"type": "user.message", "content": "A quokka"}]);
    let new = json!({"id": "s", "initial_events": events});
    assert_eq!(walled.post(&small, "/v1/sessions", &new).await.status, 201);
    let written = gate.reads().len();
    let asked = json!({"q": "quokka", "wait_ms": 60_000});
    let found = walled.post(&small, "/v1/search", &asked).await.json();
    assert_eq!(
        (places(&found), &found["complete"]["is_complete"]),
        (vec!["s 0".to_owned()], &json!(true))
    );
    // Earlier reads belong to the append.
    let reads = gate.reads().split_off(written);
    let first = reads.iter().position(|read| *read == key("small")).unwrap();
    let before = &reads[..first];
    for tenant in (0..FLOODS).map(|tenant| key(&format!("flood{tenant}"))) {
        let turns = before.iter().filter(|read| **read == tenant).count();
        assert!(turns <= 1, "{turns} slices of {tenant:?} came first");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_one_scope_are_indexed_in_turn() {
    let engine = engines::all().into_iter().next().unwrap();
    let gate = Arc::new(Gate::new(engine.store.clone()));
    let scope = Scope::local();
    for n in 0..6 {
        let id = format!("s{n}");
        engines::create(&*engine.store, &id).await;
        let events = (0..5_000).map(|n| event(&format!(r#"{{"content":"word {n}"}}"#)));
        let events: Vec<_> = events.collect();
        for some in events.chunks(1_000) {
            engine.store.append(&engines::key(&id), batch(some.to_vec())).await.unwrap();
        }
    }
    let service = Service::new(gate.clone(), engine.clock.clone());
    let caller =
        sessionlog::service::Caller { scope, origin: sessionlog::event::Origin::User, fence: None };
    let asked = SearchBody { q: "word".to_owned(), wait_ms: 60_000, ..Default::default() };
    let found = service.search(&caller, asked).await.unwrap();
    assert_eq!(found.complete.events_behind, 0);
    let reads: Vec<String> = gate.reads().iter().map(|key| key.session.to_string()).collect();
    let first: std::collections::BTreeSet<&String> = reads[..6].iter().collect();
    assert_eq!(first.len(), 6, "{reads:?}");
}

/// An embedder that waits for a permit, and records whose texts it received.
struct Slow {
    may: Semaphore,
    asked: AtomicUsize,
    texts: Mutex<Vec<String>>,
}

impl Embedder for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn embed(&self, texts: Vec<MaskedText>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, EmbedError>> {
        async move {
            // Texts of queries have no number.
            if texts.iter().any(|text| text.as_str().contains(char::is_numeric)) {
                self.asked.fetch_add(1, Ordering::Relaxed);
                self.may.acquire().await.unwrap().forget();
                let whose = texts[0].as_str().split(' ').next().unwrap_or_default();
                self.texts.lock().unwrap().push(whose.to_owned());
            }
            Ok(vec![vec![1.0; 8]; texts.len()])
        }
        .boxed()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_tenants_vectors_are_made_before_the_second_request_of_a_larger_one() {
    let engine = engines::all().into_iter().next().unwrap();
    let few: Vec<String> =
        (0..6).map(|n| format!("few{}", ["a", "b", "c", "d", "e", "f"][n])).collect();
    write(&*engine.store, "many", "many", MESSAGES).await;
    for tenant in &few {
        write(&*engine.store, tenant, tenant, 1).await;
    }
    let (may, asked, texts) = (Semaphore::new(0), AtomicUsize::new(0), Mutex::default());
    let slow = Arc::new(Slow { may, asked, texts });
    let service = Service::new(engine.store.clone(), engine.clock.clone());
    let service = service.with_embedder(slow.clone(), Arc::default(), false);
    let search = async |tenant: &str, words: &str| {
        let caller = sessionlog::service::Caller {
            scope: key(tenant).scope,
            origin: sessionlog::event::Origin::User,
            fence: None,
        };
        let asked = SearchBody { q: words.to_owned(), wait_ms: 60_000, ..Default::default() };
        service.search(&caller, asked).await.unwrap()
    };
    search("many", "many").await;
    while slow.asked.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    // All words are indexed now, and the first request of the largest tenant is pending.
    for tenant in &few {
        assert_eq!(search(tenant, tenant).await.complete.events_behind, 0);
    }
    slow.may.add_permits(1_000);
    let is_behind = |complete: Complete| {
        let vectors = complete.vectors_behind;
        complete.meaning.is_none() || vectors.is_some_and(|behind| behind.events > 0)
    };
    while is_behind(search("many", "many").await.complete) {
        tokio::task::yield_now().await;
    }
    let order = slow.texts.lock().unwrap().clone();
    let second = order.iter().skip(1).position(|whose| whose == "many").unwrap();
    assert_eq!((order[0].as_str(), second), ("many", few.len()), "{order:?}");
}
