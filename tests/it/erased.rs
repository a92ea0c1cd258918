//! Remains of an erased session: none of it can be read, from any file, after any crash, and from
//! any restored copy; and no other session is affected. It must not use internals of the engine.

use std::{collections::BTreeMap, time::Duration};

use sessionlog::{
    event::{Position, Range, Scope, SessionId, UserId},
    store::{
        Maintain, NewSession, ReadRequest, SessionUpdate, Store, StoreError, local::LocalStore,
    },
};
use sessionlog_sim::{Call, Fault, Op, Sim};

use crate::{
    bytes::holds,
    engines::{append, batch, create, event, events_of, key, small},
    forks::fork,
    life::{AGES, Age, machine, runtime},
    nth::{Nth, cases},
};

const CANARY: &str = "canary-5d1f0c7be2";
/// Maximum wait before a failed step is retried.
const HOUR: Duration = Duration::from_secs(3_600);

fn open(sim: &Sim) -> LocalStore {
    LocalStore::open_local(&sim.env(), small()).unwrap()
}

/// Creates two sessions, interleaved in every file.
async fn fill(sim: &Sim, age: Age) -> LocalStore {
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
            store.flush().unwrap();
        }
    }
    let renamed =
        SessionUpdate { title: Some(Some(format!("{CANARY} new"))), ..SessionUpdate::default() };
    store.change(&key("gone"), renamed).await.unwrap();
    match age {
        Age::Journal => {}
        Age::Settled => store.flush().unwrap(),
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

fn durable_files(sim: &Sim) -> BTreeMap<String, Vec<u8>> {
    let read = |path: String| Some((path.clone(), sim.read_durable(&path)?));
    sim.files().into_iter().filter_map(read).collect()
}

fn files_containing(sim: &Sim, text: &str) -> Vec<String> {
    durable_files(sim)
        .into_iter()
        .filter(|(_, bytes)| holds(bytes, text))
        .map(|(path, _)| path)
        .collect()
}

async fn is_gone(store: &LocalStore) -> bool {
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

async fn check_other_session(store: &LocalStore) {
    assert_eq!(events_of(store, &key("stays")).await.len(), 30);
    assert_eq!(store.info(&key("stays")).await.unwrap().title.as_deref(), Some("other title"));
    let verified = store.verify(&key("stays").scope, None).await.unwrap();
    assert_eq!(verified.damage, []);
}

#[test]
fn an_erased_session_is_in_no_file_after_any_stop() {
    for encrypted in [false, true] {
        for age in AGES {
            let told = format!("{age:?}, encrypted: {encrypted}");
            let sim = machine(61, encrypted);
            runtime().block_on(async {
                let store = fill(&sim, age).await;
                assert_eq!(files_containing(&sim, CANARY).is_empty(), encrypted, "{told}");
                store.erase(&key("gone")).await.unwrap();
                assert!(is_gone(&store).await, "{told}");
                assert_eq!(files_containing(&sim, CANARY), Vec::<String>::new(), "{told}");
                store.erase(&key("gone")).await.expect("again");
                check_other_session(&store).await;
                for clean in [false, true, false] {
                    sim.power_loss();
                    let store = open(&sim);
                    assert_eq!(store.recovery().damage, Vec::<String>::new(), "{told}");
                    assert!(is_gone(&store).await, "{told}");
                    check_other_session(&store).await;
                    create(&store, &format!("new{}", sim.lives())).await;
                    store.flush().unwrap();
                    if clean {
                        store.close().await;
                    }
                    assert_eq!(files_containing(&sim, CANARY), Vec::<String>::new(), "{told}");
                }
            });
        }
    }
}

/// Restores copies of all files except `keys/` that an operator made before an erasure.
pub async fn put_back(seed: u64) {
    let age = AGES[usize::try_from(seed).unwrap() % AGES.len()];
    let sim = machine(62 + seed, true);
    drop(fill(&sim, age).await);
    sim.power_loss();
    let before = durable_files(&sim);
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
    let everything =
        sessionlog::store::ReadRequest { allow_gaps: true, ..crate::engines::everything() };
    if let Ok(slice) = store.read(&key("gone"), everything).await {
        assert_eq!(slice.events, [], "{age:?}");
    }
    assert_eq!(events_of(&store, &key("stays")).await.len(), 30, "{age:?}");
}

#[test]
fn restored_files_of_an_erased_session_cannot_be_read() {
    (0..AGES.len() as u64).for_each(|seed| runtime().block_on(put_back(seed)));
}

#[test]
fn an_erasure_removes_copies_of_the_session_in_quarantine() {
    let sim = machine(65, false);
    runtime().block_on(async {
        let store = fill(&sim, Age::Settled).await;
        drop(store);
        sim.kill();
        for path in files_containing(&sim, CANARY).iter().filter(|path| path.ends_with(".seg")) {
            sim.flip(path, 500, 3);
        }
        let store = open(&sim);
        let some =
            sessionlog::store::ReadRequest { allow_gaps: true, ..crate::engines::everything() };
        assert!(store.read(&key("gone"), some).await.is_ok_and(|slice| !slice.gaps.is_empty()));
        let kept = files_containing(&sim, CANARY);
        assert!(kept.iter().any(|path| path.starts_with("quarantine/")), "{kept:?}");
        store.erase(&key("gone")).await.unwrap();
        assert_eq!(files_containing(&sim, CANARY), Vec::<String>::new());
        check_other_session(&store).await;
    });
}

#[test]
fn a_held_session_is_not_erased() {
    let sim = machine(63, true);
    runtime().block_on(async {
        let store = fill(&sim, Age::Settled).await;
        let hold = |hold| SessionUpdate { hold: Some(hold), ..SessionUpdate::default() };
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

#[test]
fn bytes_of_an_erased_session_are_not_counted_despite_a_fork() {
    let sim = machine(65, false);
    runtime().block_on(async {
        let store = fill(&sim, Age::Settled).await;
        fork(&store, "gone", 20, "fork").await.unwrap();
        let (tenant, none) = (Scope::local().tenant, UserId::new("none").unwrap());
        let before = store.usage(&tenant, &none).await.unwrap();
        store.erase(&key("gone")).await.unwrap();
        let after = store.usage(&tenant, &none).await.unwrap();
        assert_eq!((before.sessions, after.sessions), (3, 2));
        // Both sessions wrote about the same number of bytes; the fork wrote nothing.
        assert!(after.bytes > 0 && after.bytes * 3 < before.bytes * 2, "{before:?} {after:?}");
        drop(store);
        sim.power_loss();
        assert_eq!(open(&sim).usage(&tenant, &none).await.unwrap(), after);
    });
}

/// Runs an erasure; returns the number of its calls, or checks the disk after a failed one.
fn interrupt_erasure(encrypted: bool, age: Age, case: Option<Nth>) -> u64 {
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
        check_other_session(&store).await;
        if gone {
            // The start finds the erasure and finishes it.
            store.flush().unwrap();
        } else {
            store.erase(&key("gone")).await.unwrap();
        }
        assert_eq!(files_containing(&sim, CANARY), Vec::<String>::new(), "{told}");
        check_other_session(&store).await;
        calls
    })
}

#[test]
fn an_interrupted_erasure_leaves_a_session_complete_or_erased() {
    for encrypted in [false, true] {
        for age in [Age::Journal, Age::Settled] {
            let calls = interrupt_erasure(encrypted, age, None);
            assert!(calls > 20, "{calls} calls are hardly an erasure");
            for case in cases(calls, 19) {
                interrupt_erasure(encrypted, age, Some(case));
            }
        }
    }
}

/// Returns the number of events that a fork returns of those its parent wrote itself.
async fn count_own_part(store: &LocalStore, leaf: &str) -> Result<usize, StoreError> {
    let range = Range::new(Position(1), Position(3));
    let read = ReadRequest { range, ..crate::engines::everything() };
    store.read(&key(leaf), read).await.map(|slice| slice.events.len())
}

/// Erases a session between parent and fork; returns its calls, or checks all after a failed one.
fn interrupt_erasure_between(encrypted: bool, flushed: bool, case: Option<Nth>) -> u64 {
    let sim = machine(75, encrypted);
    let told = format!("encrypted: {encrypted}, flushed: {flushed}, {case:?}");
    runtime().block_on(async {
        let store = open(&sim);
        create(&store, "root").await;
        let say = async |session: &str, word: &str| {
            let body = format!("\"{word}\"");
            append(&store, &key(session), batch([event(&body)])).await.unwrap();
        };
        say("root", "above").await;
        fork(&store, "root", 1, "gone").await.unwrap();
        say("gone", CANARY).await;
        say("gone", CANARY).await;
        fork(&store, "gone", 3, "leaf").await.unwrap();
        say("leaf", "own").await;
        if flushed {
            (0..2).for_each(|_| store.flush().unwrap());
        }
        let first = sim.calls();
        case.iter().for_each(|case| case.plan(&sim));
        let answer = store.erase(&key("gone")).await;
        let calls = sim.calls() - first;
        drop(store);
        sim.heal();
        sim.power_loss();
        for start in 0..3 {
            let store = open(&sim);
            assert_eq!(store.recovery().damage, Vec::<String>::new(), "{told}, start {start}");
            let part = count_own_part(&store, "leaf").await;
            let gone = matches!(part, Err(StoreError::PrefixErased { .. }));
            assert!(gone || matches!(part, Ok(2)) && answer.is_err(), "{told}: {part:?}");
            if !gone {
                store.erase(&key("gone")).await.unwrap();
            }
            (0..2).for_each(|_| store.flush().unwrap());
            let part = count_own_part(&store, "leaf").await;
            assert!(matches!(part, Err(StoreError::PrefixErased { .. })), "{told}: {part:?}");
            for (from, to) in [(0, 1), (3, 4)] {
                let range = Range::new(Position(from), Position(to));
                let read = ReadRequest { range, ..crate::engines::everything() };
                let slice = store.read(&key("leaf"), read).await;
                let slice = slice.unwrap_or_else(|error| panic!("{told}, {from}: {error}"));
                assert_eq!(slice.events.len(), 1, "{told}, start {start}: {from}..{to}");
            }
            assert_eq!(
                files_containing(&sim, CANARY),
                Vec::<String>::new(),
                "{told}, start {start}"
            );
            assert_eq!(events_of(&store, &key("root")).await.len(), 1, "{told}");
            if start == 1 { sim.kill() } else { sim.power_loss() }
        }
        calls
    })
}

#[test]
fn an_interrupted_erase_in_a_fork_tree_removes_only_that_session() {
    for encrypted in [false, true] {
        for flushed in [false, true] {
            let calls = interrupt_erasure_between(encrypted, flushed, None);
            for case in cases(calls, 17) {
                interrupt_erasure_between(encrypted, flushed, Some(case));
            }
        }
    }
}

/// Appends far more than the journal may hold to another session, with flushes in between.
async fn append_to_others(store: &LocalStore, told: &str) {
    let body = format!("{{\"text\":\"{}\"}}", "x".repeat(3_000));
    for n in 0..90 {
        let appended = append(store, &key("stays"), batch([event(&body)])).await;
        assert!(appended.is_ok(), "{told}: append {n}: {appended:?}");
        if n % 10 == 9 {
            store.flush().unwrap_or_else(|error| panic!("{told}: flushing at {n}: {error}"));
        }
    }
}

#[test]
fn unrelated_files_in_quarantine_do_not_block_an_erasure() {
    let sim = machine(66, false);
    runtime().block_on(async {
        let store = fill(&sim, Age::Settled).await;
        sim.write_durable("quarantine/old/x", 0, b"a directory that somebody made");
        sim.write_durable("quarantine/unreadable", 0, &[1; 600]);
        sim.spoil_sector("quarantine/unreadable", 1);
        sim.write_durable("quarantine/foreign", 0, b"whole, and it names nobody");
        store.erase(&key("gone")).await.unwrap();
        assert_eq!(files_containing(&sim, CANARY), Vec::<String>::new());
        let left: Vec<String> =
            sim.files().into_iter().filter(|path| path.starts_with("quarantine/")).collect();
        assert_eq!(left, ["quarantine/foreign", "quarantine/old/x"]);
        append_to_others(&store, "erased").await;
    });
}

#[test]
fn an_unreadable_quarantine_copy_delays_an_erasure_and_is_not_damage() {
    let sim = machine(68, false);
    runtime().block_on(async {
        let store = fill(&sim, Age::Settled).await;
        sim.write_durable("quarantine/foreign", 0, b"whole, and it names nobody");
        sim.fail_next(Op::OpenRead, Fault::Denied, true);
        let failed = store.erase(&key("gone")).await;
        let doing = "removing its copies from quarantine";
        assert!(
            matches!(failed, Err(StoreError::Unfinished { doing: step, .. }) if step == doing),
            "{failed:?}"
        );
        sim.heal();
        store.erase(&key("gone")).await.unwrap();
        assert_eq!(files_containing(&sim, CANARY), Vec::<String>::new());
        assert!(sim.files().contains(&"quarantine/foreign".to_owned()), "nothing was known of it");
    });
}

#[test]
fn a_quarantine_entry_other_than_a_file_is_left_in_place() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, outside) = (scratch.path().join("data"), scratch.path().join("outside"));
    std::fs::write(&outside, b"somebody else's").unwrap();
    runtime().block_on(async {
        let env = sessionlog::env::Env::open(&data).unwrap();
        let store = LocalStore::open_local(&env, small()).unwrap();
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
fn an_unfinished_erasure_is_retried_with_backoff_and_blocks_no_backup() {
    for encrypted in [false, true] {
        let sim = machine(69, encrypted);
        let told = format!("encrypted: {encrypted}");
        runtime().block_on(async {
            let store = fill(&sim, Age::Settled).await;
            // Each attempt scans quarantine once, after the key.
            sim.write_durable("quarantine/foreign", 0, b"whole, and it names nobody");
            sim.fail_next(Op::OpenRead, Fault::Denied, true);
            store.erase(&key("gone")).await.unwrap_err();
            let tries = || {
                let trace = sim.trace();
                let listed = |call: &&Call| call.op == Op::List && &*call.path == "quarantine";
                trace.iter().filter(listed).count()
            };
            let (before, mut last, mut pauses) = (tries(), tries(), Vec::new());
            let mut since = 0;
            for _ in 0..7_200 {
                sim.clock().advance(Duration::from_secs(5));
                store.flush().unwrap();
                since += 5;
                if tries() > last {
                    (last, since) = (tries(), {
                        pauses.push(since);
                        0
                    });
                }
            }
            let often = tries() - before;
            assert!(
                (10..30).contains(&often),
                "{told}: {often} tries within ten hours: {pauses:?}"
            );
            assert!(pauses.is_sorted() && *pauses.last().unwrap() == 3_600, "{told}: {pauses:?}");
            sim.heal();
            // A backup that begins now has none of it, and a failed attempt does not end it.
            let mut parts = 0;
            let made = store.backup(&mut |part| {
                assert!(!holds(&part.bytes, CANARY));
                if parts == 0 {
                    sim.fail_next(Op::OpenRead, Fault::Denied, false);
                    sim.fail_next(Op::OpenRead, Fault::Denied, false);
                    sim.clock().advance(HOUR);
                    let tried = tries();
                    store.flush().unwrap();
                    assert!(tries() > tried, "{told}: it was tried");
                    sim.heal();
                }
                parts += 1;
                Ok(())
            });
            made.unwrap_or_else(|error| panic!("{told}: {error}"));
            sim.clock().advance(HOUR);
            store.flush().unwrap();
            assert_eq!(files_containing(&sim, CANARY), Vec::<String>::new(), "{told}");
        });
    }
}

/// Pending writes of others find no space: the session's files free some.
#[test]
fn an_erasure_removes_its_files_although_nothing_else_can_be_flushed() {
    runtime().block_on(async {
        let sim = Sim::new(71);
        let store = fill(&sim, Age::Settled).await;
        append(&store, &key("stays"), batch([event("{\"waits\":1}")])).await.unwrap();
        sim.fail_writing("segments", Fault::Full);
        let answer = store.erase(&key("gone")).await;
        assert!(is_gone(&store).await, "{answer:?}");
        let left = files_containing(&sim, CANARY);
        assert!(left.iter().all(|path| path.starts_with("journal/")), "{answer:?}: {left:?}");
        sim.heal();
        sim.clock().advance(HOUR);
        (0..2).for_each(|_| store.flush().unwrap());
        assert_eq!(files_containing(&sim, CANARY), Vec::<String>::new());
        assert_eq!(events_of(&store, &key("stays")).await.len(), 31);
    });
}

/// A sync of the zeros fails, and a sector of them is lost.
#[test]
fn a_failed_sync_of_zeros_keeps_the_events_of_other_sessions() {
    let mut struck = 0;
    runtime().block_on(async {
        let filled = async |call: Option<u64>| {
            let sim = Sim::new(70);
            let store = fill(&sim, Age::Journal).await;
            let first = sim.calls();
            call.iter().for_each(|call| sim.fail_call(*call, Fault::Spoil, false));
            let answer = store.erase(&key("gone")).await;
            (sim, store, first, answer)
        };
        let (sim, _, first, _) = filled(None).await;
        for call in first..sim.calls() {
            let (sim, store, _, answer) = filled(Some(call)).await;
            let told = format!("call {call}: {}, {answer:?}", sim.trace()[call as usize]);
            if !sim.struck() {
                continue;
            }
            struck += 1;
            sim.heal();
            let behind = append(&store, &key("stays"), batch([event("{\"behind\":1}")])).await;
            behind.unwrap_or_else(|error| panic!("{told}: {error}"));
            let trace = sim.trace();
            let failed = trace[call as usize].path.clone();
            let again = trace[call as usize + 1..].iter();
            let begins = |later: &&Call| later.op == Op::Write && later.byte_offset == 0;
            let again = again.filter(|later| begins(later) && later.path == failed);
            let journal = failed.starts_with("journal/");
            assert!(!journal || again.count() == 0, "{told}: it is used again");
            drop(store);
            sim.power_loss();
            if answer.is_ok() {
                assert_eq!(files_containing(&sim, CANARY), Vec::<String>::new(), "{told}");
            }
            let store = open(&sim);
            assert_eq!(store.recovery().damage, Vec::<String>::new(), "{told}");
            assert_eq!(events_of(&store, &key("stays")).await.len(), 31, "{told}");
        }
    });
    assert!(struck > 8, "{struck}");
}

#[test]
fn an_unfinished_erasure_blocks_no_caller_and_a_later_start_finishes_it() {
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
            let Err(StoreError::Unfinished { doing, .. }) = failed else {
                panic!("{told}: {failed:?}");
            };
            let steps = ["removing its copies from quarantine", "destroying its key"];
            assert_eq!(doing, steps[usize::from(encrypted)], "the step that failed");
            for start in 0..2 {
                let told = format!("{told}, start {start}");
                append_to_others(&store, &told).await;
                store.flush().unwrap();
                assert_ne!(
                    files_containing(&sim, CANARY),
                    Vec::<String>::new(),
                    "{told}: hindered"
                );
                drop(store);
                sim.power_loss();
                sim.heal();
                store = open(&sim);
                assert!(is_gone(&store).await, "{told}");
                hinder();
            }
            sim.heal();
            sim.clock().advance(HOUR);
            store.flush().unwrap();
            let keys = store.keys().await.unwrap();
            assert_eq!(keys.map(|keys| keys.destroyed), encrypted.then_some(1), "{told}");
            assert_eq!(files_containing(&sim, CANARY), Vec::<String>::new(), "{told}");
            // A finished step is not repeated.
            store.flush().unwrap();
            let calls = sim.calls();
            store.erase(&key("gone")).await.unwrap();
            assert_eq!(sim.calls(), calls, "{told}");
        });
    }
}
