//! Cost of a step and of an overview in bytes and calls on the simulated disk: the same at any
//! number of steps.

use std::sync::Arc;

use serde_json::{Value, json};
use sessionlog::{
    access::Principal,
    env::Env,
    event::{Batch, EventId, NewEvent, Origin, Scope, SessionId},
    service::{Caller, ClientIdentity, Service},
    store::{
        Store,
        local::{LocalStore, StoreOptions},
    },
    verbs::{
        OwnerInfo,
        tools::{self, ToolCall},
    },
};
use sessionlog_sim::{Op, Sim};

use crate::{engines, mcp::desk::members_of};

/// A store that rotates, flushes and seals only on request, and the disk below it.
struct Counted {
    disk: Sim,
    env: Env,
    local: Arc<LocalStore>,
    service: Service,
}

fn options() -> StoreOptions {
    StoreOptions {
        journal_file_bytes: 4 << 20,
        journal_retained_bytes: 16 << 20,
        segment_bytes_max: 64 << 20,
        scrub_every: std::time::Duration::ZERO,
        background: false,
        // No read cache: repeated reads go to the disk, where they are counted.
        warm_bytes_max: 0,
        ..StoreOptions::default()
    }
}

impl Counted {
    fn new() -> Self {
        let disk = Sim::new(5);
        Self::over(disk.env(), disk)
    }

    fn over(env: Env, disk: Sim) -> Self {
        let local = Arc::new(LocalStore::open_local(&env, options()).unwrap());
        let service = Service::new(Arc::clone(&local) as Arc<dyn Store>, Arc::clone(&env.clock));
        Self { disk, env, local, service }
    }

    async fn call(&self, tool: &str, arguments: Value) -> Value {
        let caller = Caller { scope: Scope::local(), origin: Origin::Model, fence: None };
        let via = ClientIdentity { connection: Some("c".to_owned()), ..ClientIdentity::default() };
        let (owner, who) = (&OwnerInfo::default(), &Principal::local());
        let service = &self.service;
        let call = ToolCall { service, owner, caller: &caller, who, via: &via, key: None };
        serde_json::from_str(&tools::call(call, tool, arguments.to_string()).await.unwrap())
            .unwrap()
    }

    /// Records the next step of about a kilobyte; returns the bytes of its arguments.
    async fn step(&self, number: u64) -> u64 {
        let arguments = json!({
            "searchStep": format!("step {number:06} {}", "words of it ".repeat(50)),
            "reasoning": "because of this ".repeat(20),
            "rejectedApproaches": [format!("not {number:06} {}", "that ".repeat(10))],
            "stepNumber": number, "nextStepNeeded": true,
        });
        let bytes = arguments.to_string().len() as u64;
        self.call("sequential_search", arguments).await;
        bytes
    }

    /// Returns the bytes written and read since a call.
    fn moved(&self, since: u64) -> (u64, u64) {
        let trace = self.disk.trace();
        let calls = &trace[usize::try_from(since).unwrap()..];
        let of = |op| calls.iter().filter(|call| call.op == op).map(|call| call.bytes).sum();
        (of(Op::Write), of(Op::Read))
    }

    /// Records steps and flushes them; returns the bytes of their arguments, written, and read.
    async fn steps(&self, numbers: std::ops::Range<u64>) -> (u64, u64, u64) {
        self.local.flush().unwrap();
        let (since, mut opened, mut payload) = (self.disk.calls(), None, 0);
        for number in numbers {
            payload += self.step(number).await;
            // The first step loads the evicted session.
            opened.get_or_insert(self.disk.calls());
        }
        let (_, read) = self.moved(opened.unwrap());
        self.local.flush().unwrap();
        (payload, self.moved(since).0, read)
    }
}

#[tokio::test]
async fn a_step_costs_the_same_reads_and_writes_at_any_session_length() {
    let store = Counted::new();
    store.steps(1..10).await;
    let (payload, early, early_read) = store.steps(10..60).await;
    store.steps(60..950).await;
    let (late_payload, late, late_read) = store.steps(950..1_000).await;
    assert!(late * 100 <= early * 105, "step 10 {early}, step 1 000 {late} bytes");
    assert!(late * 10 <= late_payload * 25, "{late} bytes for {late_payload}");
    assert!(early * 10 <= payload * 25, "{early} bytes for {payload}");
    assert!(late_read <= early_read + early_read / 20, "{early_read} {late_read}");
}

#[tokio::test]
async fn an_overview_of_a_loaded_session_makes_no_disk_calls_at_any_length() {
    let store = Counted::new();
    let mut steps = 0;
    for length in [10, 100, 600] {
        store.steps(steps + 1..length + 1).await;
        steps = length;
        let first = store.call("get_research_session", json!({})).await;
        let before = store.disk.calls();
        let again = store.call("get_research_session", json!({})).await;
        assert_eq!(store.disk.calls(), before, "{length} steps");
        assert_eq!((&again, &again["stepCount"]), (&first, &json!(length)));
        assert!(members_of(again).to_string().len() <= 10_000);
    }
}

#[tokio::test]
async fn a_full_read_of_one_step_reads_only_that_step() {
    let store = Counted::new();
    store.steps(1..400).await;
    // The first one opens the flushed segments.
    store.call("get_research_session", json!({"stepId": 100})).await;
    for number in [1, 200, 399] {
        let before = store.disk.calls();
        let step = store.call("get_research_session", json!({"stepId": number})).await;
        assert_eq!(step["step"]["stepNumber"], number);
        let (written, read) = store.moved(before);
        assert_eq!(written, 0);
        assert!(read <= 128 << 10, "step {number}: {read} bytes");
    }
}

#[tokio::test]
async fn after_a_restart_a_session_is_complete_and_read_once() {
    let store = Counted::new();
    let (payload, ..) = store.steps(1..500).await;
    let before = store.call("get_research_session", json!({})).await;
    store.local.close().await;
    let Counted { disk, env, .. } = store;
    let store = Counted::over(env, disk);
    let session = json!({"sessionId": before["sessionId"]});
    let since = store.disk.calls();
    let mut after = store.call("get_research_session", session.clone()).await;
    let (written, read) = store.moved(since);
    assert_eq!(written, 0, "a reader writes nothing");
    assert!(read <= 2 * payload, "{read} bytes for {payload}");
    after["boundBy"] = before["boundBy"].clone();
    assert_eq!(after, before);
    let since = store.disk.calls();
    store.call("get_research_session", session).await;
    assert_eq!(store.disk.calls(), since);
}

#[tokio::test]
async fn a_resent_batch_is_read_once_for_comparison() {
    let store = Counted::new();
    let event = |n: usize| NewEvent {
        id: Some(EventId::new(&format!("e{n}")).unwrap()),
        ..engines::event(&json!({"n": n, "text": "words of it ".repeat(50)}).to_string())
    };
    let batch = Batch { events: (0..1_000).map(event).collect(), ..Batch::default() };
    let bytes: u64 = batch.events.iter().map(|event| event.body.len() as u64).sum();
    let caller = Caller { scope: Scope::local(), origin: Origin::Import, fence: None };
    let session = SessionId::new("s").unwrap();
    let emit = async || store.service.emit(&caller, &session, batch.clone(), true).await.unwrap();
    emit().await;
    store.local.flush().unwrap();
    emit().await;
    let since = store.disk.calls();
    assert!(emit().await.appended.repeated);
    let (_, read) = store.moved(since);
    assert!(read <= 2 * bytes, "{read} bytes were read to compare {bytes}");
}
