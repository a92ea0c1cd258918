//! Files that a crash left and no session consists of: the scrubber unlinks them, once no start can
//! need them and never another, whatever happens meanwhile.

use sessionlog::{
    event::Scope,
    store::{Store, local::Local},
};
use sessionlog_sim::{Fault, Op, Sim};

use crate::{
    engines::{append, batch, create, event, events_of, key, small},
    nth::{Nth, cases},
};

const SESSIONS: [&str; 3] = ["a", "b", "c"];

fn open(sim: &Sim) -> Local {
    Local::open_local(&sim.env(), small()).unwrap()
}

fn segments(sim: &Sim) -> Vec<String> {
    sim.files().into_iter().filter(|path| path.starts_with("segments/")).collect()
}

async fn write(store: &Local, count: usize) {
    for n in 0..count {
        for session in SESSIONS {
            let body = format!("\"{n} {}\"", "lorem ipsum ".repeat(60));
            append(store, &key(session), batch([event(&body)])).await.unwrap();
        }
    }
}

/// A store whose process was killed when it was about to unlink a file that a sealed one replaced;
/// started again, and written to. Answers also the files there were at the crash.
async fn crashed(seed: u64) -> (Sim, Local, Vec<String>) {
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

/// Bodies of every session.
async fn bodies(store: &Local) -> Vec<Vec<bytes::Bytes>> {
    let mut all = Vec::new();
    for session in SESSIONS {
        let events = events_of(store, &key(session)).await;
        all.push(events.into_iter().map(|event| event.body).collect());
    }
    all
}

/// As long as the journal has frames of earlier starts, and then until both settled files are past.
async fn go_on(store: &Local) {
    for _ in 0..6 {
        write(store, 8).await;
        store.flush().unwrap();
    }
    // What a flush seals is flushed by the next two.
    (0..4).for_each(|_| store.flush().unwrap());
}

/// Every file is needed: without it a loss is reported.
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
async fn files_that_a_crash_left_are_unlinked_once_no_start_can_need_them() {
    let (sim, store, before) = crashed(71).await;
    store.scrub();
    assert_eq!(segments(&sim), before, "nothing is flushed yet");
    (0..3).for_each(|_| store.flush().unwrap());
    store.scrub();
    go_on(&store).await;
    let (held, there) = (bodies(&store).await, segments(&sim));
    store.scrub();
    let left = segments(&sim);
    // Not before: the journal's last file was one of that start.
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
    // The power brings back names of which no directory was synced since: they go again.
    go_on(&store).await;
    store.scrub();
    store.close().await;
    drop(store);
    sim.kill();
    check_all_needed(&sim, "after the scrub").await;
}

#[tokio::test]
async fn a_scrub_that_crashes_unlinks_nothing_that_is_needed() {
    let calls = {
        let (sim, store, _) = crashed(71).await;
        go_on(&store).await;
        let before = sim.calls();
        store.scrub();
        sim.calls() - before
    };
    assert!(calls > 10, "{calls}");
    // The last calls unlink.
    let last = calls.saturating_sub(16);
    for case in cases(16, 3) {
        let case = Nth { call: last + case.call, ..case };
        let told = format!("{case:?}");
        let (sim, store, _) = crashed(71).await;
        go_on(&store).await;
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
async fn nothing_of_a_damaged_store_is_unlinked() {
    let (sim, store, _) = crashed(71).await;
    go_on(&store).await;
    let there = segments(&sim);
    // Of each session a place in each of its files is lost.
    for path in &there {
        sim.flip(path, 700, 3);
    }
    store.verify(&Scope::local(), None).await.unwrap();
    // What was found is flushed: nothing else keeps the files.
    (0..3).for_each(|_| store.flush().unwrap());
    store.scrub();
    assert_eq!(segments(&sim), there);
}
