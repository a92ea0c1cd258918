//! The embedded engine over stops of every kind, on the simulated disk.

use std::{sync::Arc, time::Duration};

use sessionlog::{
    env::Clock,
    event::{BatchKey, Position, Scope},
    store::{
        NewSession, SessionUpdate, Store, StoreError,
        local::{LocalStore, OpenError},
    },
};
use sessionlog_sim::{Fault, Op, Sim};

use crate::engines::{append, batch, create, event, events_of, key, named, small};

#[tokio::test]
async fn acknowledged_events_survive_stops_kills_and_power_losses_in_turn() {
    let sim = Sim::new(7);
    let mut expected = Vec::new();
    for round in 0..24_u32 {
        let store = LocalStore::open_local(&sim.env(), small()).unwrap();
        if round == 0 {
            create(&store, "s").await;
        }
        assert_eq!(events_of(&store, &key("s")).await, expected, "round {round}");
        for n in 0..20_u32 {
            let id = format!("e{round}-{n}");
            let body = format!("{{\"n\":{n},\"pad\":\"{}\"}}", "x".repeat(200));
            let sent = batch([named(&id, &body), event(&body)]);
            append(&store, &key("s"), sent.clone()).await.unwrap();
            assert!(
                append(&store, &key("s"), batch([sent.events[0].clone()])).await.unwrap().repeated
            );
            if n % 7 == 3 {
                store.flush().unwrap();
            }
            if n == 11 {
                store.write_idle_watermark();
            }
        }
        expected = events_of(&store, &key("s")).await;
        assert_eq!(expected.len() as u32, (round + 1) * 40);
        let verified = store.verify(&Scope::local(), None).await.unwrap();
        assert_eq!((verified.events as usize, verified.damage.len()), (expected.len(), 0));
        match round % 3 {
            0 => store.close().await,
            1 => {
                sim.kill();
            }
            _ => {
                sim.power_loss();
            }
        }
        drop(store);
    }
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    assert_eq!(store.info(&key("s")).await.unwrap().tail, Position(24 * 40));
    let sealed = sim.files().iter().filter(|name| name.ends_with(".sealed")).count();
    assert!(sealed > 0, "a run of this length seals segments: {:?}", sim.files());
}

fn large_change(n: usize) -> SessionUpdate {
    let value = Some(format!("{n}{}", "v".repeat(500)));
    SessionUpdate {
        metadata: (0..16).map(|key| (format!("k{key}"), value.clone())).collect(),
        ..SessionUpdate::default()
    }
}

#[tokio::test]
async fn a_segment_of_control_records_never_replaces_one_with_events() {
    let sim = Sim::new(11);
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    create(&store, "s").await;
    append(&store, &key("s"), batch([named("first", "{}")])).await.unwrap();
    for n in 0..12 {
        // Each change is far larger than a segment, and has no event.
        for change in 0..4 {
            store.change(&key("s"), large_change(n * 4 + change)).await.unwrap();
        }
        store.flush().unwrap();
        if n % 3 == 2 {
            append(&store, &key("s"), batch([event("{}")])).await.unwrap();
        }
    }
    for _ in 0..6 {
        append(&store, &key("s"), batch([event("{}")])).await.unwrap();
        store.flush().unwrap();
    }
    let expected = events_of(&store, &key("s")).await;
    assert_eq!(expected.len(), 11);
    sim.power_loss();
    drop(store);
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    assert_eq!(events_of(&store, &key("s")).await, expected);
    let verified = store.verify(&Scope::local(), None).await.unwrap();
    assert_eq!(verified.damage, []);
}

/// Each start leaves a small segment of changes. Sealed together they would have the name of the
/// segment that the same start seals next.
#[tokio::test]
async fn segments_without_an_event_are_not_sealed_together() {
    let sim = Sim::new(12);
    for start in 0..12 {
        let store = LocalStore::open_local(&sim.env(), small()).unwrap();
        if start == 0 {
            create(&store, "s").await;
        }
        let title = Some(Some(format!("title {start}")));
        let change = SessionUpdate { title, ..SessionUpdate::default() };
        store.change(&key("s"), change).await.unwrap();
        for _ in 0..3 {
            store.flush().unwrap();
        }
        sim.kill();
    }
    let sealed: Vec<_> = sim.files().into_iter().filter(|path| path.ends_with(".sealed")).collect();
    assert_eq!(sealed, Vec::<String>::new());
    let open = sim.files().into_iter().filter(|path| path.ends_with(".seg")).count();
    assert!(open >= 8, "{open} segments are too few to be sealed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_flush_between_concurrent_writers_keeps_every_event() {
    for seed in 0..6 {
        let sim = Sim::new(seed);
        let store = Arc::new(LocalStore::open_local(&sim.env(), small()).unwrap());
        create(&*store, "s").await;
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    let mut kept = 0;
                    for n in 0..120 {
                        let id = format!("w{writer}-{n}");
                        let sent = batch([named(&id, "{\"text\":\"some words to keep\"}")]);
                        kept += usize::from(append(&*store, &key("s"), sent).await.is_ok());
                    }
                    kept
                })
            })
            .collect();
        let mut turn = 0;
        while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
            turn += 1;
            if turn % 3 == 0 {
                // Fails the next sync of a file or of a directory.
                sim.fail_next(if turn % 2 == 0 { Op::Sync } else { Op::SyncDir }, Fault::Io, false);
            }
            let flushing = Arc::clone(&store);
            let _ = tokio::task::spawn_blocking(move || flushing.flush()).await.unwrap();
        }
        let mut kept = 0;
        for writer in writers {
            kept += writer.await.unwrap();
        }
        sim.heal();
        let seen = events_of(&*store, &key("s")).await;
        assert!(seen.len() >= kept, "seed {seed}: {kept} acknowledged, {} there", seen.len());
        sim.power_loss();
        drop(store);
        let store = LocalStore::open_local(&sim.env(), small()).unwrap();
        let after = events_of(&store, &key("s")).await;
        assert_eq!(&after[..seen.len()], &seen[..], "seed {seed}");
        let verified = store.verify(&Scope::local(), None).await.unwrap();
        assert_eq!(verified.damage, [], "seed {seed}");
    }
}

#[tokio::test]
async fn a_store_on_a_full_disk_serves_reads_and_accepts_writes_once_space_is_free() {
    let sim = Sim::new(13);
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    create(&store, "s").await;
    append(&store, &key("s"), batch([event("{\"n\":1}")])).await.unwrap();
    let expected = events_of(&store, &key("s")).await;
    sim.kill();
    drop(store);
    sim.set_capacity(Some(sim.used()));
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    for _ in 0..3 {
        assert!(store.flush().is_err());
        let refused = append(&store, &key("s"), batch([event("{}")])).await;
        assert!(matches!(refused, Err(StoreError::DiskFull(_))), "{refused:?}");
        assert_eq!(events_of(&store, &key("s")).await, expected);
    }
    sim.set_capacity(None);
    append(&store, &key("s"), batch([event("{\"n\":2}")])).await.unwrap();
    assert_eq!(events_of(&store, &key("s")).await.len(), 2);
    store.flush().unwrap();
}

#[tokio::test]
async fn a_store_without_its_identity_file_is_not_created_again() {
    let sim = Sim::new(17);
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    create(&store, "s").await;
    sim.power_loss();
    drop(store);
    sim.remove_durable("STORE");
    let before = sim.files();
    let opened = LocalStore::open_local(&sim.env(), small());
    assert!(matches!(opened, Err(OpenError::Damaged { .. })));
    assert_eq!(sim.files(), before);
}

#[tokio::test]
async fn a_creation_key_used_again_with_other_content_is_a_conflict() {
    let sim = Sim::new(19);
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    let new = |body: &str| NewSession {
        events: batch([event(body)]),
        key: Some(BatchKey::new("once").unwrap()),
        ..NewSession::default()
    };
    let (first, _) = store.create(&Scope::local(), new("{\"n\":1}")).await.unwrap();
    append(&store, &first.key, batch([event("{\"n\":2}")])).await.unwrap();
    let (again, answer) = store.create(&Scope::local(), new("{\"n\":1}")).await.unwrap();
    assert_eq!((&again.key, answer.repeated, answer.events.len()), (&first.key, true, 1));
    let other = store.create(&Scope::local(), new("{\"n\":3}")).await;
    assert!(matches!(other, Err(StoreError::IdempotencyConflict { .. })), "{other:?}");
}

/// Clocks jump by years before, during and after a stop: a key used within the last day of running
/// time is still known, and sealed segments keep their keys.
#[tokio::test]
async fn an_idempotency_key_survives_clock_jumps_before_during_and_after_a_stop() {
    const YEARS_MICROS: i64 = 10 * 365 * 24 * 3_600 * 1_000_000;
    for when in 0..3 {
        for sealed in [false, true] {
            let told = format!("jump {when}, sealed: {sealed}");
            let sim = Sim::new(90);
            let jump = |at| {
                if at == when {
                    sim.clock().set(sim.clock().now().plus_micros(YEARS_MICROS));
                }
            };
            let mut store = LocalStore::open_local(&sim.env(), small()).unwrap();
            create(&store, "s").await;
            let body = format!("{{\"pad\":\"{}\"}}", "x".repeat(2_000));
            let keyed = |name: &str| {
                let key = Some(BatchKey::new(name).unwrap());
                sessionlog::event::Batch { key, ..batch([event(&body)]) }
            };
            append(&store, &key("s"), keyed("first")).await.unwrap();
            store.flush().unwrap();
            jump(0);
            for n in 0..30 {
                append(&store, &key("s"), keyed(&format!("other {n}"))).await.unwrap();
            }
            store.flush().unwrap();
            if sealed {
                store.close().await;
            }
            drop(store);
            sim.power_loss();
            jump(1);
            store = LocalStore::open_local(&sim.env(), small()).unwrap();
            jump(2);
            let again = append(&store, &key("s"), keyed("first")).await.unwrap();
            assert!(again.repeated, "{told}");
            sim.clock().advance(Duration::from_secs(25 * 3_600));
            let anew = append(&store, &key("s"), keyed("first")).await.unwrap();
            assert!(!anew.repeated, "{told}: a day is over");
        }
    }
}
