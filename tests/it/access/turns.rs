//! Fair scheduling of computations by tenant: a tenant at its limit, on each computing verb, leaves
//! the slots of others free; a computation ends once its clients disconnect; lists of a request and
//! bytes of a page are bounded. Counted, not timed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use sessionlog::{
    env::Clock,
    event::{
        Batch, EventType, NewEvent, Origin, Scope, SessionId, SessionKey, TenantId, Timestamp,
        UserId,
    },
    service::Service,
    store::{NewSession, Store},
};
use tokio::task::JoinSet;

use super::house::{Wall, Walled};
use crate::engines;

/// Concurrent requests of a tenant: more than may run and wait.
const AT_ONCE: usize = 90;
/// Events of a long session, and bytes of each.
const EVENTS: usize = 200;
const EVENT_BYTES: usize = 2_000;

/// A clock by which every computation exceeds its time slice at each check; it counts the checks.
#[derive(Default)]
struct Hurried(AtomicU64);

impl Hurried {
    fn looks(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Clock for Hurried {
    fn now(&self) -> Timestamp {
        Timestamp(1_764_000_000_000_000)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(2 * self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// A server with one slot, a tenant with long sessions, and one with a short session.
struct Crowd {
    walled: Arc<Walled>,
    clock: Arc<Hurried>,
    ada: String,
    eve: String,
    store: Arc<dyn Store>,
}

/// Returns a long text that differs for each number.
fn text(number: usize) -> String {
    let words = (0..EVENT_BYTES / 8).map(|at| format!("w{} ", (number * 31 + at * 7) % 9_000));
    words.collect()
}

/// Creates a session of messages.
async fn write_session(store: &dyn Store, scope: &Scope, id: &str, events: usize) {
    let session = SessionId::new(id).unwrap();
    let new = NewSession {
        id: Some(session.clone()),
        workspace: Some("/work/bank".to_owned()),
        ..NewSession::default()
    };
    store.create(scope, new).await.unwrap();
    let key = SessionKey { scope: scope.clone(), session };
    let event = |number: usize| NewEvent {
        id: None,
        kind: EventType::new(["user.message", "agent.message"][number % 2]).unwrap(),
        origin: Origin::User,
        created_at: None,
        position: None,
        body: serde_json::to_vec(&json!({"content": text(number)})).unwrap().into(),
    };
    for from in (0..events).step_by(100) {
        let events = (from..events.min(from + 100)).map(event).collect();
        store.append(&key, Batch { events, ..Batch::default() }).await.unwrap();
    }
}

/// Waits until a search covers all that is stored, however slow the machine is.
async fn wait_for_index(walled: &Walled, token: &str) {
    for _ in 0..20 {
        let asked = json!({"q": "w7", "wait_ms": 60_000});
        let found = walled.post(token, "/v1/search", &asked).await;
        if found.json()["complete"]["is_complete"] == true {
            return;
        }
    }
    panic!("the index never covers all");
}

fn scope(tenant: &str, user: &str) -> Scope {
    Scope { tenant: TenantId::new(tenant).unwrap(), user: UserId::new(user).unwrap() }
}

impl Crowd {
    async fn new() -> Self {
        let engine = engines::all().remove(1);
        let clock = Arc::new(Hurried::default());
        let service = Service::new(engine.store.clone(), clock.clone()).with_compute_slots(1);
        let wall = Wall { service: Some(service), ..Wall::default() };
        let store = engine.store.clone();
        let walled = Arc::new(Walled::over(engine.store, engine.clock, wall).await);
        let (ada, eve) = (walled.admin(("acme", "ada")), walled.admin(("other", "eve")));
        write_session(&*store, &scope("acme", "ada"), "long", EVENTS).await;
        write_session(&*store, &scope("other", "eve"), "short", 4).await;
        write_session(&*store, &scope("other", "eve"), "long", EVENTS).await;
        for token in [&ada, &eve] {
            wait_for_index(&walled, token).await;
        }
        Self { walled, clock, ada, eve, store }
    }

    /// Sends many concurrent copies of a request of the first tenant.
    fn crowd(&self, path: &'static str, body: Option<&Value>) -> JoinSet<(u16, String)> {
        let mut requests = JoinSet::new();
        for _ in 0..AT_ONCE {
            let (walled, token) = (Arc::clone(&self.walled), self.ada.clone());
            let body = body.cloned();
            requests.spawn(async move {
                let method = if body.is_some() { "POST" } else { "GET" };
                let reply = walled.call(&token, method, path, body.as_ref()).await;
                (reply.status, reply.text)
            });
        }
        requests
    }

    /// Sends a plain read, a search and a view of the other tenant.
    async fn others_are_served(&self, beside: &str) {
        let search = json!({"q": "w7 w14", "limit": 2});
        for (path, body) in [
            ("/v1/sessions/short/events?limit=2", None),
            ("/v1/search", Some(&search)),
            ("/v1/sessions/short/views/index", None),
        ] {
            let method = if body.is_some() { "POST" } else { "GET" };
            let reply = self.walled.call(&self.eve, method, path, body).await;
            assert_eq!(reply.status, 200, "{path} beside {beside}: {}", reply.text);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_at_its_computation_limit_is_rejected_and_another_is_served() {
    let crowd = Crowd::new().await;
    let search = json!({"q": "w1 w2 w3 w4 w5 w6 w8 w9 w1*", "limit": 100});
    let graph = json!({"limit": 10});
    let restore = json!({"create": false});
    // Views of one session wait for each other, and a short computation never has so many waiting.
    for (path, body, fills) in [
        ("/v1/sessions/long/views/window?tokens_max=4000", None, true),
        ("/v1/sessions/long/diff?from=0&to=end&tokens_max=4000", None, true),
        ("/v1/sessions/long/views/index?find=w7+w9", None, true),
        ("/v1/search", Some(&search), false),
        ("/v1/workspaces/%2Fwork%2Fbank/entities/query", Some(&graph), false),
        ("/v1/workspaces/%2Fwork%2Fbank/restore", Some(&restore), false),
        ("/v1/sessions/long/views/index", None, false),
        ("/v1/sessions/long/views/summary", None, false),
        ("/v1/sessions/long/views/continuation", None, false),
        ("/v1/sessions/long/events?types[]=session.error", None, false),
        ("/v1/history", None, false),
    ] {
        let mut requests = crowd.crowd(path, body);
        let mut refused = None;
        while let Some(done) = requests.join_next().await {
            let (status, text) = done.unwrap();
            if status == 429 {
                refused = Some(text);
                break;
            }
            assert_eq!(status, 200, "{path}: {text}");
            crowd.others_are_served(path).await;
            if !fills {
                break;
            }
        }
        crowd.others_are_served(path).await;
        if let Some(text) = &refused {
            assert!(text.contains("limit_reached") && text.contains("tenant acme"), "{text}");
        }
        assert!(refused.is_some() || !fills, "{path}: no request was refused");
        requests.shutdown().await;
        crowd.others_are_served(path).await;
    }
    crowd.store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computation_ends_and_frees_its_slot_once_its_clients_disconnect() {
    let crowd = Crowd::new().await;
    let path = "/v1/sessions/long/views/window?tokens_max=4000";
    let whole = || async {
        let before = crowd.clock.looks();
        let window = crowd.walled.get(&crowd.eve, path).await;
        assert_eq!(window.status, 200, "{}", window.text);
        crowd.clock.looks() - before
    };
    let alone = whole().await;
    assert!(alone > 100, "a window looks often: {alone}");
    let mut requests = crowd.crowd(path, None);
    // Once the first is rejected, others compute and the rest wait.
    while let Some(done) = requests.join_next().await {
        if done.unwrap().0 == 429 {
            break;
        }
    }
    requests.shutdown().await;
    for _ in 0..20 {
        let read = crowd.walled.get(&crowd.eve, "/v1/sessions/short/events?limit=2").await;
        assert_eq!(read.status, 200);
    }
    // While one has not ended, every second time slice is of that one.
    let beside = whole().await;
    assert!(beside < alone + alone / 2, "{beside} looks, alone {alone}");
    crowd.store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oversized_list_or_text_is_rejected_with_an_error_naming_it() {
    let walled = Walled::plain().await;
    let ada = walled.admin(("acme", "ada"));
    assert_eq!(walled.post(&ada, "/v1/sessions", &json!({"id": "s"})).await.status, 201);
    let types: Vec<String> = (0..101).map(|number| format!("a.t{number}")).collect();
    let kinds = vec!["semantic"; 101];
    let long = "x".repeat(513);
    for (body, field) in [
        (json!({"q": "ledger", "types": types}), "types[]"),
        (json!({"q": "ledger", "kinds": kinds}), "kinds"),
        (json!({"q": "ledger", "who": long}), "who"),
        (json!({"q": "ledger", "workspace": long}), "workspace"),
    ] {
        let refused = walled.post(&ada, "/v1/search", &body).await;
        assert_eq!(refused.code(), "invalid_request", "{}", refused.text);
        let error = &refused.json()["error"];
        assert_eq!(error["recovery_hint"]["field"], *field, "{}", refused.text);
        let bound = if long.len() == 513 && field.starts_with('w') { "512" } else { "100" };
        assert!(refused.text.contains(bound), "{}", refused.text);
    }
    let many = |name: &str, value: &str| format!("{name}={value}&").repeat(101);
    for path in [
        format!("/v1/sessions/s/events?{}", many("types[]", "a.b")),
        format!("/v1/sessions/s/events/stream?{}", many("types[]", "a.b")),
        format!("/v1/sessions?{}", many("statuses[]", "idle")),
        format!("/v1/sessions?{}", many("metadata[]", "a=b")),
        format!("/v1/sessions/s/memory?{}", many("kinds[]", "semantic")),
        format!("/v1/sessions/s/views/window?{}", many("transforms[]", "annotate")),
    ] {
        let refused = walled.get(&ada, &path).await;
        assert_eq!(refused.code(), "invalid_request", "{path}: {}", refused.text);
        assert!(refused.text.contains("101 values; 100 are allowed"), "{}", refused.text);
    }
    // The maximum number is accepted.
    let body = json!({"q": "ledger", "types": types[..100]});
    assert_eq!(walled.post(&ada, "/v1/search", &body).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_large_hits_ends_at_its_byte_budget_and_the_next_continues() {
    const HITS: usize = 12;
    let walled = Walled::plain().await;
    let ada = walled.admin(("acme", "ada"));
    assert_eq!(walled.post(&ada, "/v1/sessions", &json!({"id": "s"})).await.status, 201);
    for number in 0..HITS {
        let text = format!("ledger number{number} {}", "z".repeat(3_500_000));
        let events = json!({"events": [{"type": "user.message", "content": text}]});
        assert_eq!(walled.post(&ada, "/v1/sessions/s/events", &events).await.status, 200);
    }
    wait_for_index(&walled, &ada).await;
    let (mut seen, mut pages, mut page) = (Vec::new(), 0, None);
    loop {
        let asked = json!({"q": "ledger", "limit": 100, "around": 1, "page": page});
        let found = walled.post(&ada, "/v1/search", &asked).await;
        assert_eq!(found.status, 200, "{}", found.text);
        let found = found.json();
        let hits = found["hits"].as_array().unwrap();
        assert!(hits.len() <= 9, "32 MiB are read for a page at most: {}", hits.len());
        seen.extend(hits.iter().map(|hit| hit["position"].as_u64().unwrap()));
        pages += 1;
        page = found["next_page"].as_str().map(str::to_owned);
        if page.is_none() || pages > 2 * HITS {
            break;
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..HITS as u64).collect::<Vec<_>>(), "each once, on {pages} pages");
    assert!(pages > 1);
}
