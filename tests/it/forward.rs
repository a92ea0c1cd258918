//! A session whose segment rejects writes: the journal stays bounded, no acknowledged event is lost
//! over any crash, and once the device recovers the session is flushed like any other.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use sessionlog::store::{Health, Maintain, Store, StoreError, local::LocalStore};
use sessionlog_sim::{Fault, Op, SeededEntropy, Sim};

use crate::{
    engines::{append, batch, create, event, events_of, key, small},
    ledger::Ledger,
};

fn open(sim: &Sim) -> LocalStore {
    LocalStore::open_local(&sim.env(), small()).unwrap()
}

fn journal_files(sim: &Sim) -> usize {
    sim.files().iter().filter(|path| path.starts_with("journal/")).count()
}

/// Returns the constant part of the paths of a session's segments.
fn segments_of(sim: &Sim, before: &[String]) -> String {
    let new = sim
        .files()
        .into_iter()
        .find(|path| path.starts_with("segments/") && !before.contains(path));
    new.unwrap().split_once('-').unwrap().0.to_owned()
}

/// Creates a store with a flushed session `bad` of one event, whose segments now reject writes.
async fn store_with_stuck_session(seed: u64) -> (Sim, LocalStore) {
    let sim = Sim::new(seed);
    let store = open(&sim);
    let before = sim.files();
    create(&store, "bad").await;
    append(&store, &key("bad"), batch([event("{}")])).await.unwrap();
    store.flush().unwrap();
    sim.fail_writing(&segments_of(&sim, &before), Fault::Io);
    (sim, store)
}

#[tokio::test]
async fn a_session_that_cannot_be_flushed_does_not_block_journal_recycling() {
    let (sim, store) = store_with_stuck_session(4).await;
    create(&store, "good").await;
    let text = format!("\"{}\"", "x".repeat(3_000));
    for n in 1..400_u32 {
        append(&store, &key("good"), batch([event(&text)])).await.unwrap();
        if n.is_multiple_of(20) {
            append(&store, &key("bad"), batch([event(&format!("{{\"n\":{n}}}"))])).await.unwrap();
            store.flush().unwrap();
        }
        // 128 KiB may be pending in files of 32 KiB, and as much again while copies are made.
        assert!(journal_files(&sim) <= 9, "{} files after {n} appends", journal_files(&sim));
    }
    assert_eq!(store.health(), Health::Ready);
    let (bad, good) = (events_of(&store, &key("bad")).await, events_of(&store, &key("good")).await);
    assert_eq!((bad.len(), good.len()), (20, 399));
    // Stopped as cleanly as possible, killed, without power: copied frames are not lost.
    store.close().await;
    for crash in 0..3 {
        let store = open(&sim);
        assert_eq!(store.recovery().damage, Vec::<String>::new());
        assert!(!store.recovery().clean, "the journal holds what no segment took");
        assert_eq!(events_of(&store, &key("bad")).await, bad, "crash {crash}");
        assert_eq!(events_of(&store, &key("good")).await, good, "crash {crash}");
        store.flush().unwrap();
        if crash == 1 { sim.power_loss() } else { sim.kill() }
    }
    sim.heal();
    let store = open(&sim);
    store.close().await;
    let store = open(&sim);
    assert!(store.recovery().clean, "a device that is well again takes everything");
    assert_eq!(events_of(&store, &key("bad")).await, bad);
    assert_eq!(store.verify(&key("bad").scope, None).await.unwrap().damage, []);
}

/// Its only segment has no event yet: the next would have the same name.
#[tokio::test]
async fn a_session_without_an_event_is_flushed_again_after_an_error() {
    for op in [Op::Open, Op::Write, Op::Sync] {
        for fault in [Fault::Io, Fault::Spoil] {
            let (sim, mut told) = (Sim::new(10), Vec::new());
            let mut store = open(&sim);
            create(&store, "s").await;
            store.flush().unwrap();
            for n in 0..20 {
                append(&store, &key("s"), batch([event(&format!("{{\"n\":{n}}}"))])).await.unwrap();
                if n == 0 {
                    sim.fail_next(op, fault, false);
                }
                told.push(store.flush().is_ok());
            }
            assert!(fault == Fault::Spoil || sim.struck(), "{op:?}, {fault:?}");
            let before = events_of(&store, &key("s")).await;
            store.close().await;
            drop(store);
            sim.power_loss();
            store = open(&sim);
            assert!(store.recovery().clean, "{op:?}, {fault:?}: it is flushed, {told:?}");
            assert_eq!(events_of(&store, &key("s")).await, before, "{op:?}, {fault:?}");
            assert_eq!(store.verify(&key("s").scope, None).await.unwrap().damage, []);
        }
    }
}

/// Copies use journal space, too, but do not trigger further copies.
#[tokio::test]
async fn forward_copied_frames_are_not_copied_again_without_new_writes() {
    let (sim, store) = store_with_stuck_session(7).await;
    let text = format!("\"{}\"", "x".repeat(3_000));
    for _ in 0..15 {
        append(&store, &key("bad"), batch([event(&text)])).await.unwrap();
    }
    let written = || {
        let trace = sim.trace();
        let journal = trace.iter().filter(|call| call.path.starts_with("journal/"));
        journal.map(|call| call.bytes).sum::<u64>()
    };
    let before = written();
    store.flush().unwrap();
    let copied = written() - before;
    assert!(copied > 45_000, "{copied} bytes: 128 KiB / 4 are full, so all is copied");
    for _ in 0..10 {
        store.flush().unwrap();
    }
    assert_eq!(written() - before, copied);
}

#[tokio::test]
async fn a_session_that_cannot_be_flushed_uses_bounded_memory() {
    let (sim, store) = store_with_stuck_session(5).await;
    let large = format!("\"{}\"", "x".repeat(1 << 20));
    let mut taken = 1;
    let refused = loop {
        match append(&store, &key("bad"), batch([event(&large)])).await {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
        assert!(taken < 64, "it takes whatever comes");
    };
    assert!(matches!(refused, StoreError::Io { .. }), "{refused}");
    create(&store, "good").await;
    append(&store, &key("good"), batch([event("{}")])).await.unwrap();
    assert_eq!(events_of(&store, &key("bad")).await.len(), taken);
    sim.heal();
    store.flush().unwrap();
    append(&store, &key("bad"), batch([event("{}")])).await.unwrap();
}

#[tokio::test]
async fn sessions_that_cannot_be_flushed_share_one_memory_bound() {
    let sim = Sim::new(9);
    let store = open(&sim);
    sim.fail_writing("segments/", Fault::Io);
    let text = format!("\"{}\"", "x".repeat(3_000));
    let mut taken = 0;
    'full: loop {
        for n in 0..10 {
            let name = format!("s{n}");
            if taken < 10 {
                create(&store, &name).await;
            }
            match append(&store, &key(&name), batch([event(&text)])).await {
                Ok(_) => taken += 1,
                Err(StoreError::Io { .. }) => break 'full,
                Err(error) => panic!("{error}"),
            }
        }
        let _ = store.flush();
        assert!(taken < 100, "128 KiB of journal hold {taken} events of 3 KiB that nobody flushes");
    }
    sim.heal();
    store.flush().unwrap();
    append(&store, &key("s0"), batch([event("{}")])).await.unwrap();
}

/// Without appends, the only write is that of the start itself.
#[tokio::test]
async fn a_start_that_cannot_be_recorded_is_reported() {
    let sim = Sim::new(10);
    let store = open(&sim);
    create(&store, "one").await;
    sim.kill();
    drop(store);
    let store = open(&sim);
    assert_eq!(store.health(), Health::Ready);
    sim.fail_writing("journal/", Fault::Io);
    store.flush().unwrap_err();
    assert!(matches!(store.health(), Health::ReadOnly(_)), "{:?}", store.health());
}

/// A failed sync of all files does not identify the file: the next flush does.
#[tokio::test]
async fn one_damaged_file_among_many_is_reported() {
    let sim = Sim::new(6);
    let store = open(&sim);
    let names: Vec<String> = (0..40).map(|n| format!("s{n}")).collect();
    let before = sim.files();
    create(&store, "bad").await;
    append(&store, &key("bad"), batch([event("{}")])).await.unwrap();
    store.flush().unwrap();
    let bad = segments_of(&sim, &before);
    for name in &names {
        create(&store, name).await;
        append(&store, &key(name), batch([event("{}")])).await.unwrap();
    }
    append(&store, &key("bad"), batch([event("{\"n\":1}")])).await.unwrap();
    sim.fail_next(Op::SyncAll, Fault::Io, true);
    store.flush().unwrap_err();
    sim.fail_writing(&bad, Fault::Io);
    store.flush().unwrap();
    sim.power_loss();
    sim.heal();
    let store = open(&sim);
    assert_eq!(store.recovery().damage, Vec::<String>::new());
    assert_eq!(events_of(&store, &key("bad")).await.len(), 2);
    for name in &names {
        assert_eq!(events_of(&store, &key(name)).await.len(), 1);
    }
}

/// Sends random requests, while the segments of one session occasionally reject writes.
async fn run_random_requests(seed: u64) {
    let sim = Sim::new(seed);
    let dice = SeededEntropy::new(seed ^ 0x5eed);
    let below = |bound: u64| dice.next() % bound;
    let mut ledger = Ledger::default();
    for _ in 0..5 {
        sim.heal();
        let store = open(&sim);
        assert_eq!(store.recovery().damage, Vec::<String>::new());
        ledger.judge_all(&store).await;
        let life = sim.lives();
        let crashed = || sim.lives() != life;
        let directories: Vec<String> = sim
            .files()
            .into_iter()
            .filter_map(|path| Some(path.strip_prefix("segments/")?.get(..8)?.to_owned()))
            .collect();
        if !directories.is_empty() && below(4) > 0 {
            let at = usize::try_from(below(directories.len() as u64)).unwrap();
            sim.fail_writing(&format!("segments/{}", directories[at]), Fault::Io);
        }
        if below(3) == 0 {
            let fault = [Fault::Kill, Fault::PowerLoss][usize::try_from(below(2)).unwrap()];
            sim.fail_call(sim.calls() + below(600), fault, false);
        }
        for _ in 0..below(160) {
            if crashed() {
                break;
            }
            let sizes = vec![usize::try_from(below(4_000)).unwrap(); 1 + below(2) as usize];
            let names = ledger.sessions();
            match below(12) {
                0 | 1 => drop(store.flush()),
                2 => store.write_idle_watermark(),
                3 if names.len() < 4 => ledger.create(&store, &sizes, crashed).await,
                _ if names.is_empty() => ledger.create(&store, &sizes, crashed).await,
                _ => {
                    let name = &names[usize::try_from(below(names.len() as u64)).unwrap()];
                    let (key, number, batch) = ledger.send(name, &sizes);
                    let answer = store.append(&key, batch).await;
                    ledger.answered(&key, number, answer, crashed());
                }
            }
        }
        match below(3) {
            0 => store.close().await,
            1 => sim.kill(),
            _ => sim.power_loss(),
        }
        drop(store);
        sim.kill();
    }
    sim.heal();
    ledger.judge_all(&open(&sim)).await;
}

#[test]
fn a_session_that_cannot_be_flushed_keeps_every_event_over_crashes() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let wanted = std::env::var("SESSIONLOG_SEEDS").ok().and_then(|text| text.parse().ok());
    for seed in 0..wanted.unwrap_or(12_u64) {
        let outcome = runtime.block_on(AssertUnwindSafe(run_random_requests(seed)).catch_unwind());
        assert!(outcome.is_ok(), "seed {seed}");
    }
}

/// The copy is the only one left: a damaged byte of it is reported, in the header or the payload.
#[tokio::test]
async fn a_damaged_forward_copy_is_reported() {
    let (sim, store) = store_with_stuck_session(7).await;
    append(&store, &key("bad"), batch([event("{\"only\":\"copied\"}")])).await.unwrap();
    create(&store, "good").await;
    for n in 0..90_u32 {
        let text = format!("\"{}\"", "x".repeat(3_000));
        append(&store, &key("good"), batch([event(&text)])).await.unwrap();
        if n.is_multiple_of(10) {
            store.flush().unwrap();
        }
    }
    for _ in 0..2 {
        store.flush().unwrap();
    }
    store.write_idle_watermark();
    sim.power_loss();
    drop(store);
    let journal = || sim.files().into_iter().filter(|path| path.starts_with("journal/"));
    let files: Vec<_> = journal().map(|path| (path.clone(), sim.read_durable(&path))).collect();
    let restore = || {
        for (path, bytes) in &files {
            sim.write_durable(path, 0, bytes.as_deref().unwrap());
        }
    };
    let mut copies = 0;
    for (path, bytes) in &files {
        let bytes = bytes.as_deref().unwrap();
        let places = bytes.windows(8).enumerate().filter(|(_, at)| at == b"\"copied\"");
        let payloads: Vec<u64> = places.map(|(at, _)| at as u64).collect();
        for payload in payloads {
            // In the payload, and in the header before it.
            for at in [payload, payload - 100] {
                sim.flip(path, at, 0);
                let store = open(&sim);
                let damaged = !store.info(&key("bad")).await.unwrap().damage.is_empty();
                let told = damaged || store.health() != Health::Ready;
                let shorter = store.info(&key("bad")).await.unwrap().tail.0 < 2;
                assert!(told || !shorter, "{path} byte {at}");
                copies += u32::from(told);
                sim.kill();
                drop(store);
                restore();
            }
        }
    }
    assert!(copies >= 2, "the copy that counts was hit");
}
