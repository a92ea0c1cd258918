//! Removal of a deleted session's bytes: they are freed once no crash could restore it, no file of
//! it is left after any fault, and a full disk accepts the deletion too.

use sessionlog::{
    event::SessionKey,
    store::{SessionUpdate, Store, StoreError, StoreResult, local::LocalStore},
};
use sessionlog_sim::Sim;

use crate::{
    engines::{append, batch, create, event, events_of, key, small},
    nth::cases,
};

fn open(sim: &Sim) -> LocalStore {
    LocalStore::open_local(&sim.env(), small()).unwrap()
}

async fn delete(store: &dyn Store, key: &SessionKey) -> StoreResult<()> {
    store.change(key, SessionUpdate { discard: true, ..SessionUpdate::default() }).await.map(drop)
}

fn body(n: usize) -> String {
    format!("{{\"n\":{n},\"text\":\"{}\"}}", "lorem ipsum ".repeat(40))
}

async fn fill(store: &LocalStore, session: &str, count: usize) {
    create(store, session).await;
    for n in 0..count {
        append(store, &key(session), batch([event(&body(n))])).await.unwrap();
        if n % 15 == 14 {
            store.flush().unwrap();
        }
    }
}

/// Creates two sessions with segments and pending frames; returns the files of `gone`.
async fn create_two_sessions(sim: &Sim) -> (LocalStore, Vec<String>) {
    let store = open(sim);
    fill(&store, "stays", 20).await;
    let before = sim.files();
    fill(&store, "gone", 70).await;
    let new = sim.files().into_iter();
    let gone = new.filter(|path| path.starts_with("segments/") && !before.contains(path)).collect();
    append(&store, &key("stays"), batch([event(&body(20))])).await.unwrap();
    (store, gone)
}

/// Returns the hash that begins the name of a session's files.
fn hash_of(files: &[String]) -> String {
    files[0].split('/').nth(2).unwrap().split('-').next().unwrap().to_owned()
}

fn files_left(sim: &Sim, own: &str) -> Vec<String> {
    sim.files().into_iter().filter(|path| path.contains(own)).collect()
}

#[tokio::test]
async fn a_deleted_session_frees_its_bytes_once_both_settled_files_record_it() {
    let sim = Sim::new(51);
    let (store, files) = create_two_sessions(&sim).await;
    let own = hash_of(&files);
    assert!(files.iter().any(|path| path.ends_with(".sealed")), "{files:?}");
    delete(&store, &key("gone")).await.unwrap();
    assert!(!files_left(&sim, &own).is_empty(), "it is in the journal only");
    store.flush().unwrap();
    assert!(!files_left(&sim, &own).is_empty(), "the older settled file knows nothing of it");
    store.flush().unwrap();
    assert_eq!(files_left(&sim, &own), Vec::<String>::new());
    for start in 0..3 {
        assert_eq!(events_of(&open_after(&sim, start), &key("stays")).await.len(), 21);
        let store = open_after(&sim, start);
        let gone = store.info(&key("gone")).await;
        assert!(matches!(gone, Err(StoreError::SessionDeleted { .. })), "start {start}: {gone:?}");
        let verified = store.verify(&key("stays").scope, None).await.unwrap();
        assert_eq!((verified.sessions, verified.damage.len()), (1, 0));
        store.flush().unwrap();
    }
}

fn open_after(sim: &Sim, start: usize) -> LocalStore {
    if start == 1 {
        sim.kill()
    } else {
        sim.power_loss()
    }
    open(sim)
}

#[tokio::test]
async fn a_crashed_deletion_leaves_no_file_and_does_not_restore_the_session() {
    let calls = {
        let sim = Sim::new(52);
        let (store, _) = create_two_sessions(&sim).await;
        let before = sim.calls();
        delete(&store, &key("gone")).await.unwrap();
        (0..4).for_each(|_| store.flush().unwrap());
        sim.calls() - before
    };
    assert!(calls > 20, "{calls}");
    for case in cases(calls, 3) {
        let told = format!("{case:?}");
        let sim = Sim::new(52);
        let (store, files) = create_two_sessions(&sim).await;
        let own = hash_of(&files);
        case.plan(&sim);
        let answer = delete(&store, &key("gone")).await;
        (0..4).for_each(|_| drop(store.flush()));
        sim.heal();
        sim.power_loss();
        drop(store);
        let store = open(&sim);
        assert_eq!(events_of(&store, &key("stays")).await.len(), 21, "{told}");
        match store.info(&key("gone")).await {
            Err(StoreError::SessionDeleted { .. }) => {}
            Ok(_) => {
                assert!(answer.is_err(), "{told}: it was acknowledged");
                assert_eq!(events_of(&store, &key("gone")).await.len(), 70, "{told}");
                delete(&store, &key("gone")).await.unwrap();
            }
            Err(other) => panic!("{told}: {other}"),
        }
        for _ in 0..4 {
            append(&store, &key("stays"), batch([event("{}")])).await.unwrap();
            store.flush().unwrap();
        }
        assert_eq!(files_left(&sim, &own), Vec::<String>::new(), "{told}");
    }
}

/// Creates sessions until the disk is full; returns their number.
async fn fill_up(sim: &Sim, store: &LocalStore) -> usize {
    let mut count = 0;
    loop {
        let name = format!("s{count}");
        let new = sessionlog::store::NewSession {
            id: Some(key(&name).session),
            ..sessionlog::store::NewSession::default()
        };
        match store.create(&key(&name).scope, new).await {
            Ok(_) => count += 1,
            Err(StoreError::DiskFull(_)) => return count,
            Err(other) => panic!("{other}"),
        }
        for n in 0..40 {
            match append(store, &key(&name), batch([event(&body(n))])).await {
                Ok(_) => {}
                Err(StoreError::DiskFull(_)) => return count,
                Err(other) => panic!("{other}"),
            }
        }
        let _ = store.flush();
        assert!(count < 1_000, "{} bytes used", sim.used());
    }
}

#[tokio::test]
async fn a_full_disk_accepts_deletions_and_they_free_space() {
    for restart in [false, true] {
        let told = format!("restart: {restart}");
        let sim = Sim::new(53);
        let mut store = open(&sim);
        fill(&store, "first", 40).await;
        store.flush().unwrap();
        assert!(sim.files().iter().any(|path| path == "reserve.7"), "{told}");
        sim.set_capacity(Some(sim.used() + (600 << 10)));
        let count = fill_up(&sim, &store).await;
        assert!(count > 3, "{told}: {count}");
        // To the last byte, so that a deletion finds no space.
        sim.set_capacity(Some(sim.used()));
        if restart {
            sim.power_loss();
            // Unlinked names may reappear.
            sim.set_capacity(Some(sim.used()));
            store = open(&sim);
        }
        let refused = append(&store, &key("s0"), batch([event(&body(0))])).await;
        assert!(restart || matches!(refused, Err(StoreError::DiskFull(_))), "{told}: {refused:?}");
        let events = events_of(&store, &key("s1")).await;
        let first = files_left(&sim, "-0000000001.s").len();
        let others = (0..count).filter(|n| *n != 1).map(|n| format!("s{n}"));
        let mut gone = Vec::new();
        for name in std::iter::once("first".to_owned()).chain(others) {
            delete(&store, &key(&name)).await.unwrap_or_else(|error| panic!("{told}: {error}"));
            gone.push(name);
            // Pending writes of the others need more space than one of them used.
            if (0..4).all(|_| store.flush().is_ok()) {
                break;
            }
        }
        assert!(gone.len() < count, "{told}: some are left");
        assert!(files_left(&sim, "-0000000001.s").len() < first, "{told}: what they had is free");
        assert!(sim.files().iter().any(|path| path == "reserve.7"), "{told}: it is kept again");
        for n in 0..10 {
            append(&store, &key("s1"), batch([event(&body(n))])).await.unwrap();
        }
        sim.power_loss();
        let store = open(&sim);
        assert_eq!(events_of(&store, &key("s1")).await.len(), events.len() + 10, "{told}");
        for name in gone {
            let gone = store.info(&key(&name)).await;
            assert!(matches!(gone, Err(StoreError::SessionDeleted { .. })), "{told}");
        }
    }
}
