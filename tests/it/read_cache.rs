//! Recently read events stay in memory: they are read again without disk calls, within a byte
//! limit, and not served once the disk lost them.

use sessionlog::{
    event::{Event, Position, Range},
    store::{
        FillDirection, Maintain, ReadRequest, Store, StoreError,
        local::{LocalStore, StoreOptions},
    },
};
use sessionlog_sim::Sim;

use crate::engines::{append, batch, create, event, events_of, everything, key, small};

const EVENTS: u64 = 120;

/// Creates a store with a session whose events are flushed, the older half of them sealed.
async fn store(sim: &Sim, warm_bytes_max: usize) -> LocalStore {
    let options = StoreOptions { warm_bytes_max, segment_bytes_max: 24 << 10, ..small() };
    let store = LocalStore::open_local(&sim.env(), options).unwrap();
    create(&store, "s").await;
    fill(&store, 0..EVENTS).await;
    store
}

async fn fill(store: &LocalStore, numbers: std::ops::Range<u64>) {
    for n in numbers {
        let body = format!("{{\"n\":{n},\"text\":\"{}\"}}", "lorem ipsum ".repeat(20));
        append(store, &key("s"), batch([event(&body)])).await.unwrap();
        if n % 30 == 29 {
            store.flush().unwrap();
        }
    }
    store.flush().unwrap();
}

async fn slice(store: &LocalStore, from: u64, to: u64, fill: FillDirection) -> Vec<Event> {
    let range = Range::new(Position(from), Position(to));
    store.read(&key("s"), ReadRequest { range, fill, ..everything() }).await.unwrap().events
}

#[tokio::test]
async fn recently_read_events_are_served_without_disk_reads() {
    let sim = Sim::new(61);
    let store = store(&sim, 1 << 20).await;
    let files = sim.files();
    assert!(files.iter().any(|path| path.ends_with(".sealed")), "{files:?}");
    assert!(files.iter().any(|path| path.ends_with(".seg")), "{files:?}");
    let first = events_of(&store, &key("s")).await;
    let calls = sim.calls();
    assert_eq!(events_of(&store, &key("s")).await, first);
    for (from, to) in [(0, 1), (10, 80), (63, 65), (119, 120), (50, 50)] {
        for fill in [FillDirection::Forward, FillDirection::Backward] {
            assert_eq!(slice(&store, from, to, fill).await, first[from as usize..to as usize]);
        }
    }
    assert_eq!(sim.calls(), calls, "the disk was asked again");
}

#[tokio::test]
async fn events_appended_after_a_cached_read_are_read_after_the_cached_ones() {
    let sim = Sim::new(62);
    let store = store(&sim, 1 << 20).await;
    for round in 0..4 {
        let before = EVENTS + round * 3;
        assert_eq!(events_of(&store, &key("s")).await.len() as u64, before);
        fill(&store, before..before + 3).await;
        let (from, to) = (before - 1, before + 2);
        assert_eq!(slice(&store, from, to, FillDirection::Forward).await.len(), 3);
    }
}

#[tokio::test]
async fn a_cache_without_capacity_reads_every_event_from_the_disk() {
    for room in [0, 4 << 10] {
        let sim = Sim::new(63);
        let store = store(&sim, room).await;
        let first = events_of(&store, &key("s")).await;
        let calls = sim.calls();
        assert_eq!(events_of(&store, &key("s")).await, first);
        assert!(sim.calls() > calls, "{room} bytes are no room for them");
    }
}

#[tokio::test]
async fn events_lost_on_disk_are_not_served_from_the_cache() {
    let sim = Sim::new(64);
    let store = store(&sim, 1 << 20).await;
    let whole = events_of(&store, &key("s")).await;
    let sealed = sim.files().into_iter().find(|path| path.ends_with(".sealed")).unwrap();
    sim.flip(&sealed, 1_000, 2);
    store.scrub();
    let refused = store.read(&key("s"), everything()).await;
    assert!(matches!(refused, Err(StoreError::SessionDamaged { .. })), "{refused:?}");
    let read = || ReadRequest { allow_gaps: true, ..everything() };
    let allowed = store.read(&key("s"), read()).await.unwrap();
    assert_eq!(allowed.gaps.len(), 1);
    let gap = allowed.gaps[0].range;
    let lost = |event: &&Event| gap.contains(event.position);
    assert!(!allowed.events.iter().any(|event| lost(&event)), "a gap, and what was in it");
    let left: Vec<Event> = whole.iter().filter(|event| !lost(event)).cloned().collect();
    assert_eq!(allowed.events, left);
    store.repair(&key("s"), true).await.unwrap();
    let accepted = store.read(&key("s"), read()).await.unwrap();
    assert_eq!(accepted.events, left, "what was given up stays lost");
}
