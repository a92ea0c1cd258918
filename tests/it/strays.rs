//! Files that a crash left and that belong to no session: the scrubber unlinks them once no start
//! can need them, and never another file.

use sessionlog::{
    event::Scope,
    store::{Store, local::LocalStore},
};
use sessionlog_sim::{Fault, Op, Sim};

use crate::{
    engines::{append, batch, create, event, events_of, key, small},
    nth::{Nth, cases},
};

const SESSIONS: [&str; 3] = ["a", "b", "c"];

fn open(sim: &Sim) -> LocalStore {
    LocalStore::open_local(&sim.env(), small()).unwrap()
}

fn segments(sim: &Sim) -> Vec<String> {
    sim.files().into_iter().filter(|path| path.starts_with("segments/")).collect()
}

async fn write(store: &LocalStore, count: usize) {
    for n in 0..count {
        for session in SESSIONS {
            let body = format!("\"{n} {}\"", "lorem ipsum ".repeat(60));
            append(store, &key(session), batch([event(&body)])).await.unwrap();
        }
    }
}

/// Creates a store killed just before it unlinked a file that a sealed one replaced, then restarted
/// and written to; returns also the files at the time of the crash.
async fn crashed_store(seed: u64) -> (Sim, LocalStore, Vec<String>) {
    let sim = Sim::new(seed);
    let store = open(&sim);
    for session in SESSIONS {
        create(&store, session).await;
    }
    write(&store, 24).await;
    store.flush().unwrap();
    store.flush().unwrap();
    sim.fail_next(Op::Remove, Fault::Kill, false);
    while !sim.struck() {
        append(&store, &key("a"), batch([event("{}")])).await.unwrap();
        let _ = store.flush();
    }
    sim.heal();
    let before = segments(&sim);
    drop(store);
    let store = open(&sim);
    (sim, store, before)
}

/// Returns the bodies of every session.
async fn bodies(store: &LocalStore) -> Vec<Vec<bytes::Bytes>> {
    let mut all = Vec::new();
    for session in SESSIONS {
        let events = events_of(store, &key(session)).await;
        all.push(events.into_iter().map(|event| event.body).collect());
    }
    all
}

/// Appends and flushes until the journal and both settled files are past the earlier starts.
async fn append_and_flush(store: &LocalStore) {
    for _ in 0..6 {
        write(store, 8).await;
        store.flush().unwrap();
    }
    // A segment sealed by one flush is named by the next two.
    (0..4).for_each(|_| store.flush().unwrap());
}

/// Checks that every file is needed: without it a loss is reported.
async fn check_all_needed(sim: &Sim, told: &str) {
    for path in segments(sim) {
        let bytes = sim.read_durable(&path).unwrap_or_default();
        sim.remove_durable(&path);
        let store = open(sim);
        let damage = store.verify(&Scope::local(), None).await.unwrap().damage;
        assert_ne!(damage, [], "{told}: nobody needs {path}");
        sim.kill();
        drop(store);
        sim.write_durable(&path, 0, &bytes);
    }
}

#[tokio::test]
async fn files_left_by_a_crash_are_unlinked_once_no_start_needs_them() {
    let (sim, store, before) = crashed_store(71).await;
    store.scrub();
    assert_eq!(segments(&sim), before, "nothing is flushed yet");
    (0..3).for_each(|_| store.flush().unwrap());
    store.scrub();
    append_and_flush(&store).await;
    let (held, there) = (bodies(&store).await, segments(&sim));
    store.scrub();
    let left = segments(&sim);
    // Not earlier: the last journal file was one of that start.
    assert!(left.len() < there.len(), "a file is unlinked");
    assert!(left.iter().all(|path| there.contains(path)));
    assert_eq!(bodies(&store).await, held);
    store.scrub();
    assert_eq!(segments(&sim), left, "once is enough");
    sim.power_loss();
    drop(store);
    let store = open(&sim);
    assert_eq!(bodies(&store).await, held);
    assert_eq!(store.verify(&Scope::local(), None).await.unwrap().damage, []);
    // A power loss restores names whose directory was not synced: they are unlinked again.
    append_and_flush(&store).await;
    store.scrub();
    store.close().await;
    drop(store);
    sim.kill();
    check_all_needed(&sim, "after the scrub").await;
}

#[tokio::test]
async fn a_crashed_scrub_unlinks_no_needed_file() {
    let calls = {
        let (sim, store, _) = crashed_store(71).await;
        append_and_flush(&store).await;
        let before = sim.calls();
        store.scrub();
        sim.calls() - before
    };
    assert!(calls > 10, "{calls}");
    // The unlinks are among the last calls.
    let last = calls.saturating_sub(16);
    for case in cases(16, 3) {
        let case = Nth { call: last + case.call, ..case };
        let told = format!("{case:?}");
        let (sim, store, _) = crashed_store(71).await;
        append_and_flush(&store).await;
        let held = bodies(&store).await;
        case.plan(&sim);
        store.scrub();
        sim.heal();
        sim.power_loss();
        drop(store);
        let store = open(&sim);
        assert_eq!(bodies(&store).await, held, "{told}");
        let verified = store.verify(&Scope::local(), None).await.unwrap();
        assert_eq!(verified.damage, [], "{told}");
    }
}

#[tokio::test]
async fn no_file_of_a_damaged_store_is_unlinked() {
    let (sim, store, _) = crashed_store(71).await;
    append_and_flush(&store).await;
    let there = segments(&sim);
    // Damage every file of each session.
    for path in &there {
        sim.flip(path, 700, 3);
    }
    store.verify(&Scope::local(), None).await.unwrap();
    // Flushed, so that only the damage keeps the files.
    (0..3).for_each(|_| store.flush().unwrap());
    store.scrub();
    assert_eq!(segments(&sim), there);
}
