//! What a stop, a kill or a power loss may do to sessions that expire, are brought back, and go:
//! nothing expires early, nothing comes back that went, nothing goes with what went, and whatever
//! was cut short is done by a later sweep. It must not know a door.

use std::time::Duration;

use sessionlog::{
    env::sim::Sim,
    event::Scope,
    store::{
        Change, Lifetimes, Store, StoreError, StoreResult,
        local::{Local, Options},
    },
};

use crate::engines::{append, batch, create, event, events_of, key, small};

const HOUR: Duration = Duration::from_secs(3_600);
const LIMIT: Duration = Duration::from_secs(48 * 3_600);
const GRACE: Duration = Duration::from_secs(24 * 3_600);

/// Two days, and a day of grace.
fn mortal() -> Options {
    let lifetimes = Lifetimes { retention: LIMIT, grace: GRACE, ..Lifetimes::DEFAULT };
    Options { lifetimes, ..small() }
}

fn open(sim: &Sim) -> Local {
    Local::open_local(&sim.env(), mortal()).unwrap()
}

async fn delete(store: &dyn Store, session: &str) -> StoreResult<()> {
    store.change(&key(session), Change { delete: true, ..Change::default() }).await.map(drop)
}

/// Whether nothing is known of a session.
async fn is_gone(store: &dyn Store, session: &str) -> bool {
    matches!(store.info(&key(session)).await, Err(StoreError::SessionNotFound { .. }))
}

/// Days in which nobody comes, with the sweeps and the rest of each, until a session is gone.
async fn until_gone(sim: &Sim, store: &Local, session: &str) {
    for _ in 0..40 {
        if is_gone(store, session).await {
            return;
        }
        sim.clock().advance(6 * HOUR);
        store.sweep().await.unwrap();
        (0..4).for_each(|_| store.settle().unwrap());
    }
    panic!("{session} does not go");
}

fn stop(sim: &Sim, how: u64) {
    if how.is_multiple_of(2) {
        sim.kill();
    } else {
        sim.power_loss();
    }
}

#[tokio::test]
async fn whoever_rests_between_two_sweeps_goes_all_the_same() {
    let sim = Sim::new(61);
    let store = open(&sim);
    create(&store, "expires").await;
    create(&store, "deleted").await;
    delete(&store, "deleted").await.unwrap();
    until_gone(&sim, &store, "deleted").await;
    until_gone(&sim, &store, "expires").await;
}

#[tokio::test]
async fn a_name_that_is_free_again_keeps_its_new_session_over_every_start() {
    for seed in 0..16 {
        let told = format!("seed {seed}");
        let sim = Sim::new(seed);
        let mut store = open(&sim);
        create(&store, "stays").await;
        create(&store, "s").await;
        append(&store, &key("s"), batch([event("\"old\"")])).await.unwrap();
        (0..2).for_each(|_| store.settle().unwrap());
        if seed % 4 < 2 {
            delete(&store, "s").await.unwrap();
        }
        until_gone(&sim, &store, "s").await;
        create(&store, "s").await;
        for n in 0..20 {
            let body = format!("\"new {n} {}\"", "x".repeat(300));
            append(&store, &key("s"), batch([event(&body)])).await.unwrap();
            if n % 8 == 7 && seed >= 8 {
                store.settle().unwrap();
            }
        }
        for start in 0..4 {
            stop(&sim, seed + start);
            drop(store);
            store = open(&sim);
            assert_eq!(events_of(&store, &key("s")).await.len(), 20, "{told}, start {start}");
            (0..=start).for_each(|_| store.settle().unwrap());
            assert_eq!(events_of(&store, &key("s")).await.len(), 20, "{told}, start {start}");
            let verified = store.verify(&Scope::local(), None).await.unwrap();
            assert_eq!(verified.damage, [], "{told}, start {start}");
        }
    }
}

#[tokio::test]
async fn who_was_watched_until_a_stop_has_its_whole_limit_after_it() {
    for how in 0..3 {
        let sim = Sim::new(62);
        let store = open(&sim);
        create(&store, "s").await;
        let watch = store.watch(&key("s")).await.unwrap();
        for _ in 0..20 {
            sim.clock().advance(6 * HOUR);
            store.sweep().await.unwrap();
            store.settle().unwrap();
        }
        if how == 2 {
            store.close().await;
        }
        stop(&sim, how);
        drop((watch, store));
        let store = open(&sim);
        for _ in 0..7 {
            sim.clock().advance(6 * HOUR);
            assert_eq!(store.sweep().await.unwrap().expired, [], "it was watched {how}");
        }
        sim.clock().advance(12 * HOUR);
        assert_eq!(store.sweep().await.unwrap().expired, [key("s")]);
    }
}
