//! Two nodes whose clocks differ by an hour: what is measured in time ends for both when it ends
//! for the store, and the events of a session never go back in time. It must not wait.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use sessionlog::{
    event::{BatchKey, Position},
    store::{
        LeaseCall, Lifetimes, NewSession, Store, StoreError,
        remote::{MemoryBase, RemoteOptions, RemoteStore},
    },
};
use sessionlog_sim::{ManualClock, SeededEntropy};

use crate::engines::{append, batch, create, event, events_of, key};

const HOUR: Duration = Duration::from_secs(3_600);

/// A node with a clock of its own.
struct Clocked {
    node: RemoteStore,
    clock: Arc<ManualClock>,
}

/// Two nodes of one base, the clock of the second an hour ahead.
struct Apart([Clocked; 2]);

impl Apart {
    fn new() -> Self {
        let base = MemoryBase::default();
        let clocked = |ahead: Duration, seed| {
            let clock = Arc::new(ManualClock::default());
            clock.advance(ahead);
            let options = RemoteOptions::default();
            let entropy = Arc::new(SeededEntropy::new(seed));
            let opened = RemoteStore::open_memory(&base, clock.clone(), entropy, options);
            let node = opened.now_or_never().expect("memory replies at once").unwrap();
            Clocked { node, clock }
        };
        Self([clocked(Duration::ZERO, 61), clocked(HOUR, 62)])
    }

    fn advance(&self, time: Duration) {
        self.0.iter().for_each(|one| one.clock.advance(time));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_known_for_a_day_at_a_node_whose_clock_is_an_hour_ahead() {
    let apart = Apart::new();
    let [behind, ahead] = &apart.0;
    create(&behind.node, "s").await;
    let mut sent = batch([event("1")]);
    sent.key = Some(BatchKey::new("k").unwrap());
    let stored = append(&behind.node, &key("s"), sent.clone()).await.unwrap();
    apart.advance(23 * HOUR + HOUR / 2);
    for one in [ahead, behind] {
        let again = append(&one.node, &key("s"), sent.clone()).await.unwrap();
        assert_eq!((again.repeated, again.events), (true, stored.events.clone()));
    }
    assert_eq!(events_of(&ahead.node, &key("s")).await.len(), 1);
    apart.advance(HOUR);
    assert!(!append(&behind.node, &key("s"), sent).await.unwrap().repeated, "a day has passed");
}

#[tokio::test(flavor = "multi_thread")]
async fn times_and_ids_of_a_session_rise_whichever_node_appends() {
    let apart = Apart::new();
    let [behind, ahead] = &apart.0;
    create(&behind.node, "s").await;
    for n in 0..10 {
        let one = if n % 2 == 0 { ahead } else { behind };
        append(&one.node, &key("s"), batch([event("{}")])).await.unwrap();
        apart.advance(Duration::from_millis(3));
    }
    let events = events_of(&behind.node, &key("s")).await;
    for pair in events.windows(2) {
        assert!(pair[0].processed_at <= pair[1].processed_at, "{pair:?}");
        // The millisecond that an id begins with.
        let [one, next] = [0, 1].map(|n| &pair[n].id.as_str()[..16]);
        assert!(one <= next, "{pair:?}");
    }
    for (at, event) in (0..).map(Position).zip(&events) {
        for one in [behind, ahead] {
            assert_eq!(one.node.find(&key("s"), &event.id).await.unwrap(), Some(at));
            assert!(one.node.find_time(&key("s"), event.processed_at).await.unwrap() <= at);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_and_a_retention_last_as_long_at_either_node() {
    let apart = Apart::new();
    let [behind, ahead] = &apart.0;
    create(&behind.node, "s").await;
    let ttl = Duration::from_secs(600);
    let take = LeaseCall::Take { steal: false, ttl, key: None };
    let (held, _) = behind.node.lease(&key("s"), take).await.unwrap();
    apart.advance(ttl / 2);
    let refused = ahead.node.lease(&key("s"), take).await;
    assert!(matches!(refused, Err(StoreError::LeaseHeld { .. })), "{refused:?}");
    apart.advance(ttl);
    let (taken, _) = ahead.node.lease(&key("s"), take).await.unwrap();
    assert!(taken.fence > held.fence, "{taken:?}");
    let new = NewSession::default();
    let (made, _) = behind.node.create(&key("s").scope, new).await.unwrap();
    let retention = Lifetimes::default().retention;
    apart.advance(retention - HOUR / 2);
    ahead.node.sweep().await.unwrap();
    behind.node.info(&made.key).await.expect("half an hour is left");
    apart.advance(HOUR);
    ahead.node.sweep().await.unwrap();
    behind.node.info(&made.key).await.expect_err("it has expired");
}
