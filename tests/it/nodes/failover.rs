//! A primary and a synchronous standby: the primary is killed under load, the standby takes over,
//! and the old primary becomes the next standby. It must not use the server of other tests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sessionlog::store::{
    Store, StoreError,
    remote::{PostgresUrl, RemoteOptions, RemoteStore},
};
use sessionlog_sim::{ManualClock, SeededEntropy};

use super::assert_each_once;
use crate::{
    engines::{append, batch, create, event, events_of, key, named},
    servers::Pair,
};

/// Fail-overs of one run; the variable sets more for a long one.
fn rounds() -> usize {
    let set = std::env::var("FAILOVERS").ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(2)
}

async fn node(pair: &Pair, seed: u64) -> RemoteStore {
    let url = PostgresUrl::parse(&pair.address()).unwrap();
    let (clock, entropy) = (Arc::new(ManualClock::default()), Arc::new(SeededEntropy::new(seed)));
    RemoteStore::open_postgres(&url, clock, entropy, RemoteOptions::default()).await.unwrap()
}

/// Sends a batch until it is acknowledged or refused for another reason than a lost connection.
async fn surely(node: &dyn Store, session: &str, id: &str, body: &str) -> u64 {
    let mut pause = tokio::time::interval(Duration::from_millis(20));
    for _ in 0..3_000 {
        match append(node, &key(session), batch([named(id, body)])).await {
            Ok(stored) => return stored.first_position.0,
            Err(
                StoreError::OutcomeUnknown { .. }
                | StoreError::Unreachable { .. }
                | StoreError::Busy,
            ) => drop(pause.tick().await),
            Err(other) => panic!("{other}"),
        }
    }
    panic!("{id} is not acknowledged");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_synchronous_standby_that_takes_over_has_all_that_was_acknowledged() {
    let Some(mut pair) = Pair::start(true) else { return };
    let nodes: Vec<Arc<dyn Store>> =
        vec![Arc::new(node(&pair, 51).await), Arc::new(node(&pair, 52).await)];
    for session in ["s", "t", "u", "v"] {
        create(&*nodes[0], session).await;
    }
    let done = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for writer in 0..8 {
        let (node, done) = (Arc::clone(&nodes[writer % 2]), Arc::clone(&done));
        let session = ["s", "t", "u", "v"][writer % 4];
        writers.push(tokio::spawn(async move {
            let (mut acknowledged, mut n) = (Vec::new(), 0);
            while !done.load(Ordering::Relaxed) {
                let body = format!("\"{writer}-{n}\"");
                let at = surely(&*node, session, &format!("w{writer}-{n}"), &body).await;
                acknowledged.push((at, body));
                n += 1;
            }
            (session, acknowledged)
        }));
    }
    for _ in 0..rounds() {
        let before = events_of_any(&nodes, "s").await;
        let waited = tokio::task::spawn_blocking(move || {
            // Some load on this primary first.
            std::thread::park_timeout(Duration::from_millis(300));
            pair.fail_over();
            pair
        });
        pair = waited.await.unwrap();
        assert!(events_of_any(&nodes, "s").await >= before);
    }
    done.store(true, Ordering::Relaxed);
    let mut all = Vec::new();
    for writer in writers {
        all.push(writer.await.unwrap());
    }
    let mut sum = 0;
    for session in ["s", "t", "u", "v"] {
        let of = all.iter().filter(|(one, _)| *one == session);
        let acknowledged: Vec<_> = of.flat_map(|(_, some)| some.clone()).collect();
        assert_each_once(&*nodes[0], &key(session), &acknowledged).await;
        assert_eq!(events_of(&*nodes[1], &key(session)).await.len(), acknowledged.len());
        sum += acknowledged.len();
    }
    eprintln!("{} fail-overs, {sum} acknowledged, 0 lost, 0 doubled", rounds());
    assert!(sum > 100, "{sum}");
    drop(pair);
}

/// Returns how many events a session has, by the first node that replies.
async fn events_of_any(nodes: &[Arc<dyn Store>], session: &str) -> u64 {
    let mut pause = tokio::time::interval(Duration::from_millis(20));
    loop {
        for node in nodes {
            if let Ok(info) = node.info(&key(session)).await {
                return info.tail.0;
            }
        }
        pause.tick().await;
    }
}

/// An operator cancels a commit that waits for the standby: the primary commits it alone and warns.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_wait_was_cancelled_is_acknowledged_once_it_is_replicated() {
    let Some(pair) = Pair::start(true) else { return };
    let store = Arc::new(node(&pair, 54).await);
    create(&*store, "s").await;
    append(&*store, &key("s"), batch([event("1")])).await.unwrap();
    pair.hold_standby_back();
    let appending = tokio::spawn({
        let store = Arc::clone(&store);
        async move { append(&*store, &key("s"), batch([event("2")])).await }
    });
    // The commit, and then the commits that would prove it.
    let mut cancelled = 0;
    let mut pause = tokio::time::interval(Duration::from_millis(20));
    while cancelled < 4 {
        pause.tick().await;
        cancelled += pair.cancel_waiting_commits();
        assert!(!appending.is_finished(), "no standby has it");
    }
    pair.let_standby_follow();
    let stored = appending.await.unwrap().unwrap();
    assert_eq!(stored.first_position.0, 1);
    pair.wait_until_replayed();
    assert_eq!(events_of(&*store, &key("s")).await.len(), 2);
}

/// The same with a standby that is behind, twice in a row: it loses commits, and the node counts
/// each session that lost some.
#[tokio::test(flavor = "multi_thread")]
async fn each_session_that_lost_commits_to_an_asynchronous_standby_is_counted() {
    let Some(mut pair) = Pair::start(false) else { return };
    let store = node(&pair, 53).await;
    create(&store, "s").await;
    let mut kept = 0;
    for lost in 1..=2 {
        super::until_ok(async || append(&store, &key("s"), batch([event("1")])).await).await;
        kept += 1;
        pair.wait_until_replayed();
        pair.hold_standby_back();
        append(&store, &key("s"), batch([event("2")])).await.unwrap();
        append(&store, &key("s"), batch([event("3")])).await.unwrap();
        let failed_over = tokio::task::spawn_blocking(move || {
            pair.fail_over();
            pair.add_standby();
            pair
        });
        pair = failed_over.await.unwrap();
        let tail = super::until_ok(async || store.info(&key("s")).await).await.tail;
        let found = (tail.0, store.set_back_count());
        assert_eq!(found, (kept, lost), "two acknowledged events are lost");
    }
    eprintln!("2 fail-overs, 4 acknowledged events lost, both counted");
}
