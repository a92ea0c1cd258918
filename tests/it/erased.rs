//! What is left of a session that was erased: nothing that can be read, whatever it lay in before,
//! whenever the machine died, and whatever is put back; and nothing of any other is touched. It
//! must not look into the engine.

use std::collections::BTreeMap;

use sessionlog::{
    env::sim::{Fault, Op, Sim},
    event::{Position, SessionId},
    store::{Change, NewSession, Store, StoreError, local::Local},
};

use crate::{
    engines::{append, batch, create, event, events_of, key, small},
    life::{AGES, Age, machine, runtime},
    nth::{Nth, cases},
};

const CANARY: &str = "canary-5d1f0c7be2";

fn open(sim: &Sim) -> Local {
    Local::open_local(&sim.env(), small()).unwrap()
}

/// Two sessions, side by side in everything.
async fn fill(sim: &Sim, age: Age) -> Local {
    let mut store = open(sim);
    for (name, word) in [("gone", CANARY), ("stays", "other")] {
        let new = NewSession {
            id: Some(SessionId::new(name).unwrap()),
            title: Some(format!("{word} title")),
            metadata: [("k".to_owned(), format!("{word} value"))].into(),
            ..NewSession::default()
        };
        store.create(&key(name).scope, new).await.unwrap();
    }
    for n in 0..30 {
        for (name, word) in [("gone", CANARY), ("stays", "other")] {
            let body = format!("{{\"n\":{n},\"text\":\"{}\"}}", format!("{word} ").repeat(40));
            append(&store, &key(name), batch([event(&body)])).await.unwrap();
        }
        if age != Age::Journal && n % 10 == 9 {
            store.settle().unwrap();
        }
    }
    let renamed = Change { title: Some(Some(format!("{CANARY} new"))), ..Change::default() };
    store.change(&key("gone"), renamed).await.unwrap();
    match age {
        Age::Journal => {}
        Age::Settled => store.settle().unwrap(),
        Age::Sealed | Age::Restarted => {
            store.close().await;
            drop(store);
            store = open(sim);
            if age == Age::Restarted {
                let body = format!("{{\"late\":\"{CANARY}\"}}");
                append(&store, &key("gone"), batch([event(&body)])).await.unwrap();
                sim.kill();
                store = open(sim);
            }
        }
    }
    store
}

fn tree(sim: &Sim) -> BTreeMap<String, Vec<u8>> {
    let read = |path: String| Some((path.clone(), sim.read_durable(&path)?));
    sim.files().into_iter().filter_map(read).collect()
}

fn holding(sim: &Sim, text: &str) -> Vec<String> {
    let holds = |bytes: &[u8]| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    tree(sim).into_iter().filter(|(_, bytes)| holds(bytes)).map(|(path, _)| path).collect()
}

async fn is_gone(store: &Local) -> bool {
    match store.info(&key("gone")).await {
        Err(StoreError::SessionDeleted { .. }) => true,
        Ok(info) => {
            assert!(info.tail >= Position(30), "it is whole, or it is gone");
            assert!(events_of(store, &key("gone")).await.len() >= 30);
            false
        }
        Err(other) => panic!("{other}"),
    }
}

async fn other_is_whole(store: &Local) {
    assert_eq!(events_of(store, &key("stays")).await.len(), 30);
    assert_eq!(store.info(&key("stays")).await.unwrap().title.as_deref(), Some("other title"));
    let verified = store.verify(&key("stays").scope, None).await.unwrap();
    assert_eq!(verified.damage, []);
}

#[test]
fn an_erased_session_is_in_no_file_and_stays_so_over_every_stop() {
    for encrypted in [false, true] {
        for age in AGES {
            let told = format!("{age:?}, encrypted: {encrypted}");
            let sim = machine(61, encrypted);
            runtime().block_on(async {
                let store = fill(&sim, age).await;
                assert_eq!(holding(&sim, CANARY).is_empty(), encrypted, "{told}");
                store.erase(&key("gone")).await.unwrap();
                assert!(is_gone(&store).await, "{told}");
                assert_eq!(holding(&sim, CANARY), Vec::<String>::new(), "{told}");
                store.erase(&key("gone")).await.expect("again");
                other_is_whole(&store).await;
                for clean in [false, true, false] {
                    sim.power_loss();
                    let store = open(&sim);
                    assert_eq!(store.recovery().damage, Vec::<String>::new(), "{told}");
                    assert!(is_gone(&store).await, "{told}");
                    other_is_whole(&store).await;
                    create(&store, &format!("new{}", sim.lives())).await;
                    store.settle().unwrap();
                    if clean {
                        store.close().await;
                    }
                    assert_eq!(holding(&sim, CANARY), Vec::<String>::new(), "{told}");
                }
            });
        }
    }
}

/// Somebody kept copies of everything but of `keys/`, and puts them back.
pub async fn put_back(seed: u64) {
    let age = AGES[usize::try_from(seed).unwrap() % AGES.len()];
    let sim = machine(62 + seed, true);
    drop(fill(&sim, age).await);
    sim.power_loss();
    let before = tree(&sim);
    let store = open(&sim);
    store.erase(&key("gone")).await.unwrap();
    drop(store);
    sim.power_loss();
    for path in sim.files().iter().filter(|path| !path.starts_with("keys/")) {
        sim.remove_durable(path);
    }
    for (path, bytes) in before.iter().filter(|(path, _)| !path.starts_with("keys/")) {
        sim.write_durable(path, 0, bytes);
    }
    let store = open(&sim);
    let everything = sessionlog::store::Read { allow_gaps: true, ..crate::engines::everything() };
    if let Ok(slice) = store.read(&key("gone"), everything).await {
        assert_eq!(slice.events, [], "{age:?}");
    }
    assert_eq!(events_of(&store, &key("stays")).await.len(), 30, "{age:?}");
}

#[test]
fn what_is_put_back_of_an_erased_session_cannot_be_read_without_its_key() {
    (0..AGES.len() as u64).for_each(|seed| runtime().block_on(put_back(seed)));
}

#[test]
fn copies_of_it_in_quarantine_go_with_it() {
    let sim = machine(65, false);
    runtime().block_on(async {
        let store = fill(&sim, Age::Settled).await;
        drop(store);
        sim.kill();
        for path in holding(&sim, CANARY).iter().filter(|path| path.ends_with(".seg")) {
            sim.flip(path, 500, 3);
        }
        let store = open(&sim);
        let some = sessionlog::store::Read { allow_gaps: true, ..crate::engines::everything() };
        assert!(store.read(&key("gone"), some).await.is_ok_and(|slice| !slice.gaps.is_empty()));
        let kept = holding(&sim, CANARY);
        assert!(kept.iter().any(|path| path.starts_with("quarantine/")), "{kept:?}");
        store.erase(&key("gone")).await.unwrap();
        assert_eq!(holding(&sim, CANARY), Vec::<String>::new());
        other_is_whole(&store).await;
    });
}

#[test]
fn a_session_that_is_held_is_not_erased() {
    let sim = machine(63, true);
    runtime().block_on(async {
        let store = fill(&sim, Age::Settled).await;
        let hold = |hold| Change { hold: Some(hold), ..Change::default() };
        store.change(&key("gone"), hold(true)).await.unwrap();
        let refused = store.erase(&key("gone")).await;
        assert!(matches!(refused, Err(StoreError::SessionHeld { .. })), "{refused:?}");
        assert!(!is_gone(&store).await);
        store.change(&key("gone"), hold(false)).await.unwrap();
        store.erase(&key("gone")).await.unwrap();
        assert!(is_gone(&store).await);
        let unknown = store.erase(&key("nobody")).await;
        assert!(matches!(unknown, Err(StoreError::SessionNotFound { .. })), "{unknown:?}");
    });
}

/// The calls that an erasure makes, and the disk after the one that fails.
fn interrupted(encrypted: bool, age: Age, case: Option<Nth>) -> u64 {
    let sim = machine(64, encrypted);
    runtime().block_on(async {
        let store = fill(&sim, age).await;
        let first = sim.calls();
        if let Some(case) = case {
            case.plan(&sim);
        }
        let answer = store.erase(&key("gone")).await;
        let calls = sim.calls() - first;
        let told = format!("{age:?}, encrypted: {encrypted}, {case:?}");
        if answer.is_ok() && sim.lives() == 0 {
            assert!(is_gone(&store).await, "{told}");
        }
        drop(store);
        sim.heal();
        sim.power_loss();
        let store = open(&sim);
        let gone = is_gone(&store).await;
        assert!(gone || answer.is_err(), "{told}: it was answered");
        other_is_whole(&store).await;
        if gone {
            // The start knows of it and finishes what was begun.
            store.settle().unwrap();
        } else {
            store.erase(&key("gone")).await.unwrap();
        }
        assert_eq!(holding(&sim, CANARY), Vec::<String>::new(), "{told}");
        other_is_whole(&store).await;
        calls
    })
}

#[test]
fn an_erasure_that_is_cut_off_leaves_a_session_whole_or_erased() {
    for encrypted in [false, true] {
        for age in [Age::Journal, Age::Settled] {
            let calls = interrupted(encrypted, age, None);
            assert!(calls > 20, "{calls} calls are hardly an erasure");
            for case in cases(calls, 19) {
                interrupted(encrypted, age, Some(case));
            }
        }
    }
}

/// Far more than the journal may keep, to another session, settled meanwhile.
async fn others_go_on(store: &Local, told: &str) {
    let body = format!("{{\"text\":\"{}\"}}", "x".repeat(3_000));
    for n in 0..90 {
        let appended = append(store, &key("stays"), batch([event(&body)])).await;
        assert!(appended.is_ok(), "{told}: append {n}: {appended:?}");
        if n % 10 == 9 {
            store.settle().unwrap_or_else(|error| panic!("{told}: settling at {n}: {error}"));
        }
    }
}

#[test]
fn what_lies_in_quarantine_beside_copies_holds_up_no_erasure() {
    let sim = machine(66, false);
    runtime().block_on(async {
        let store = fill(&sim, Age::Settled).await;
        sim.write_durable("quarantine/old/x", 0, b"a directory that somebody made");
        sim.write_durable("quarantine/unreadable", 0, &[1; 600]);
        sim.spoil_sector("quarantine/unreadable", 1);
        sim.write_durable("quarantine/foreign", 0, b"whole, and it names nobody");
        store.erase(&key("gone")).await.unwrap();
        assert_eq!(holding(&sim, CANARY), Vec::<String>::new());
        let left: Vec<String> =
            sim.files().into_iter().filter(|path| path.starts_with("quarantine/")).collect();
        assert_eq!(left, ["quarantine/foreign", "quarantine/old/x"]);
        others_go_on(&store, "erased").await;
    });
}

#[test]
fn a_copy_that_may_not_be_opened_is_no_damage_and_waits() {
    let sim = machine(68, false);
    runtime().block_on(async {
        let store = fill(&sim, Age::Settled).await;
        sim.write_durable("quarantine/foreign", 0, b"whole, and it names nobody");
        sim.fail_next(Op::OpenRead, Fault::Denied, true);
        let failed = store.erase(&key("gone")).await;
        assert!(matches!(failed, Err(StoreError::Io { .. })), "{failed:?}");
        sim.heal();
        store.erase(&key("gone")).await.unwrap();
        assert_eq!(holding(&sim, CANARY), Vec::<String>::new());
        assert!(sim.files().contains(&"quarantine/foreign".to_owned()), "nothing was known of it");
    });
}

#[test]
fn what_is_no_file_in_quarantine_is_left_where_it_is() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, outside) = (scratch.path().join("data"), scratch.path().join("outside"));
    std::fs::write(&outside, b"somebody else's").unwrap();
    runtime().block_on(async {
        let env = sessionlog::env::Env::real(&data).unwrap();
        let store = Local::open_local(&env, small()).unwrap();
        create(&store, "gone").await;
        let quarantine = data.join("quarantine");
        std::os::unix::fs::symlink(&outside, quarantine.join("link")).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let pipe = quarantine.join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        store.erase(&key("gone")).await.unwrap();
        assert!(quarantine.join("link").is_symlink() && pipe.exists() && outside.exists());
        store.close().await;
    });
}

#[test]
fn an_erasure_that_cannot_be_finished_stops_nobody_and_a_later_start_finishes_it() {
    for encrypted in [false, true] {
        let sim = machine(67, encrypted);
        let told = format!("encrypted: {encrypted}");
        let hinder = || match encrypted {
            true => sim.fail_writing("keys/0", Fault::Io),
            false => sim.fail_next(Op::List, Fault::Io, true),
        };
        runtime().block_on(async {
            let mut store = fill(&sim, Age::Settled).await;
            sim.write_durable("quarantine/begun.new", 0, CANARY.as_bytes());
            hinder();
            let failed = store.erase(&key("gone")).await;
            assert!(matches!(failed, Err(StoreError::Io { .. })), "{told}: {failed:?}");
            for start in 0..2 {
                let told = format!("{told}, start {start}");
                others_go_on(&store, &told).await;
                store.settle().unwrap();
                assert_ne!(holding(&sim, CANARY), Vec::<String>::new(), "{told}: hindered");
                drop(store);
                sim.power_loss();
                sim.heal();
                store = open(&sim);
                assert!(is_gone(&store).await, "{told}");
                hinder();
            }
            sim.heal();
            store.settle().unwrap();
            let keys = store.keys().await.unwrap();
            assert_eq!(keys.map(|keys| keys.destroyed), encrypted.then_some(1), "{told}");
            assert_eq!(holding(&sim, CANARY), Vec::<String>::new(), "{told}");
            // What is finished is not done again.
            store.settle().unwrap();
            let calls = sim.calls();
            store.erase(&key("gone")).await.unwrap();
            assert_eq!(sim.calls(), calls, "{told}");
        });
    }
}
