//! Derived files, and the changes of sessions, on every engine; and crashes at any call on the
//! simulated disk: a file is complete or absent, and erased or redacted events are in none. It must
//! not know how an engine names its files, except that `derived/` may be deleted.

use std::{collections::BTreeSet, sync::Arc};

use sessionlog::{
    env::Env,
    event::{EventId, Position, Range, Scope, SessionKey},
    store::{
        ChangedSession, ChangedSessions, ChangesSeen, Derived, DerivedName, HeldEvents, Maintain,
        NewSession, SessionUpdate, Store, StoreError, StoreResult, Survival,
        derived::LABEL_BYTES_MAX, local::LocalStore,
    },
};
use sessionlog_sim::{Call, Fault, Op, Sim};

use crate::{
    bytes::holds,
    engines::{append, batch, create, event, key, named, other_scope, small},
    evicted::{Gate, Gated},
    forks::fork,
    life::{machine, runtime},
    nth::{Nth, cases},
    store::on_every_engine,
};

const CANARY: &str = "canary-3e9d02b7aa";

/// Returns every changed session, and the point after them.
async fn changed(store: &dyn Store, mut since: ChangesSeen) -> (Vec<ChangedSession>, ChangesSeen) {
    let mut sessions = Vec::new();
    loop {
        let ChangedSessions { sessions: mut some, since: next, more } =
            store.list_changes(since, 2).await.unwrap();
        sessions.append(&mut some);
        since = next;
        if !more {
            sessions.sort_by(|a, b| a.key.cmp(&b.key));
            return (sessions, since);
        }
    }
}

/// Returns the current entry of a session.
async fn current_entry(store: &dyn Store, session: &str) -> ChangedSession {
    let (sessions, _) = changed(store, ChangesSeen::default()).await;
    sessions.into_iter().find(|one| one.key == key(session)).unwrap()
}

/// Returns a range of a session as a derived file refers to it.
async fn held(store: &dyn Store, session: &str, from: u64, to: u64) -> HeldEvents {
    let ChangedSession { key, hash, rewritten, .. } = current_entry(store, session).await;
    HeldEvents { key, hash, range: Range::new(Position(from), Position(to)), rewritten }
}

async fn fill(store: &dyn Store, session: &str) {
    create(store, session).await;
    let events = (0..4).map(|n| named(&format!("{session}-{n}"), &format!("\"{CANARY} {n}\"")));
    append(store, &key(session), batch(events)).await.unwrap();
}

fn names(store: &dyn Store) -> BTreeSet<DerivedName> {
    store.list_derived().unwrap().into_iter().map(|file| file.name).collect()
}

fn read_derived(store: &dyn Store, name: DerivedName) -> Option<Vec<u8>> {
    match store.open_derived(name) {
        Ok(open) => Some(open.bytes().to_vec()),
        Err(StoreError::DerivedLost { .. }) => None,
        Err(other) => panic!("{other}"),
    }
}

fn is_outdated(put: &StoreResult<DerivedName>) -> bool {
    matches!(put, Err(StoreError::Outdated { .. }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_derived_file_is_listed_opened_and_dropped() {
    on_every_engine(async |store, _| {
        fill(store, "s").await;
        assert_eq!(store.list_derived().unwrap(), []);
        let holds = vec![held(store, "s", 0, 2).await, held(store, "s", 3, 4).await];
        let first = store.put_derived(b"a", holds.clone(), b"bytes").await.unwrap();
        let second = store.put_derived(b"", Vec::new(), b"").await.unwrap();
        assert_eq!(names(store), BTreeSet::from([first, second]));
        let listed = store.list_derived().unwrap();
        let file = listed.iter().find(|file| file.name == first).unwrap();
        assert_eq!((&file.label[..], &file.holds[..], file.bytes), (&b"a"[..], &holds[..], 5));
        assert_eq!(read_derived(store, first).as_deref(), Some(&b"bytes"[..]));
        assert_eq!(read_derived(store, second).as_deref(), Some(&b""[..]));
        for _ in 0..2 {
            store.drop_derived(first).await.unwrap();
            assert_eq!(
                (read_derived(store, first), names(store)),
                (None, BTreeSet::from([second]))
            );
        }
        let label = vec![0; LABEL_BYTES_MAX + 1];
        let refused = store.put_derived(&label, Vec::new(), b"").await;
        assert!(matches!(refused, Err(StoreError::TooMuch { .. })), "{refused:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn derived_files_of_removed_or_unknown_events_are_rejected_and_removed() {
    on_every_engine(async |store, _| {
        fill(store, "s").await;
        fill(store, "other").await;
        let before = held(store, "s", 0, 2).await;
        let put = async |held: &HeldEvents| store.put_derived(b"", vec![held.clone()], b"x").await;
        put(&before).await.unwrap();
        let behind = put(&held(store, "s", 2, 4).await).await.unwrap();
        let other = put(&held(store, "other", 0, 4).await).await.unwrap();
        assert!(is_outdated(&put(&held(store, "s", 0, 5).await).await), "no such event yet");
        let mut stranger = before.clone();
        stranger.key.session = key("unknown").session;
        assert!(is_outdated(&put(&stranger).await), "no such session");
        let stranger = HeldEvents { hash: held(store, "other", 0, 1).await.hash, ..before.clone() };
        assert!(is_outdated(&put(&stranger).await), "another session of that name");
        store.redact(&key("s"), &EventId::new("s-1").unwrap()).await.unwrap();
        assert_eq!(names(store), BTreeSet::from([behind, other]));
        assert!(is_outdated(&put(&before).await), "it was read before");
        assert_eq!(held(store, "s", 0, 2).await.rewritten, 1);
        let anew = put(&held(store, "s", 0, 2).await).await.unwrap();
        fork(store, "s", 4, "child").await.unwrap();
        let gone = SessionUpdate { delete: true, ..SessionUpdate::default() };
        store.change(&key("s"), gone).await.unwrap();
        assert_eq!(names(store), BTreeSet::from([behind, other, anew]), "it can be restored");
        store.erase(&key("s")).await.unwrap();
        assert_eq!(names(store), BTreeSet::from([other]));
        assert!(is_outdated(&put(&held(store, "s", 0, 2).await).await), "it was erased");
        assert_eq!(read_derived(store, other).as_deref(), Some(&b"x"[..]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_query_returns_only_sessions_changed_since_its_position() {
    on_every_engine(async |store, _| {
        let ids = |found: &[ChangedSession]| -> Vec<String> {
            found.iter().map(|one| one.key.session.to_string()).collect()
        };
        let mut watch = store.watch_changes();
        for session in ["a", "b", "c", "d"] {
            fill(store, session).await;
        }
        let (all, since) = changed(store, ChangesSeen::default()).await;
        assert_eq!(ids(&all), ["a", "b", "c", "d"]);
        assert!(all.iter().all(|one| (one.tail, one.rewritten) == (Position(4), 0)));
        let (none, since) = changed(store, since).await;
        assert_eq!(ids(&none), Vec::<String>::new());
        watch.mark_unchanged();
        append(store, &key("b"), batch([event("1")])).await.unwrap();
        fork(store, "a", 2, "e").await.unwrap();
        watch.changed().await.unwrap();
        let (again, _) = changed(store, since.clone()).await;
        let (found, since) = changed(store, since).await;
        assert_eq!((ids(&found), &again), (vec!["b".to_owned(), "e".to_owned()], &found));
        assert_eq!((found[0].tail, found[0].survival), (Position(5), Survival::Alive));
        assert_eq!((found[1].base, found[1].tail), (Position(2), Position(2)));
        store.redact(&key("c"), &EventId::new("c-0").unwrap()).await.unwrap();
        let gone = SessionUpdate { delete: true, ..SessionUpdate::default() };
        store.change(&key("b"), gone).await.unwrap();
        store.erase(&key("d")).await.unwrap();
        let (found, since) = changed(store, since).await;
        let told: Vec<_> = found.iter().map(|one| (one.rewritten, one.survival)).collect();
        let wanted = [(0, Survival::Deleted), (1, Survival::Alive), (u64::MAX, Survival::Erased)];
        assert_eq!((ids(&found).concat(), &told[..]), ("bcd".to_owned(), &wanted[..]));
        assert_eq!(changed(store, since).await.0, []);
        let all = changed(store, ChangesSeen::default()).await.0;
        assert_eq!(ids(&all), ["a", "b", "c", "d", "e"], "from the beginning");
    })
    .await;
}

/// A session loaded meanwhile is skipped, and must not be missed if it is evicted later.
#[test]
fn evicted_sessions_are_returned_although_some_are_loaded_and_evicted_meanwhile() {
    let sim = Sim::new(98);
    runtime().block_on(async {
        let store = open(&sim);
        let all = ["a", "b", "c", "d", "e", "f", "g"];
        for session in all {
            fill(&store, session).await;
        }
        store.close().await;
        drop(store);
        let store = open(&sim);
        let (mut found, mut since, mut more) = (BTreeSet::new(), ChangesSeen::default(), true);
        while more {
            let moves = store.list_changes(since, 1).await.unwrap();
            (since, more) = (moves.since, moves.more);
            found.extend(moves.sessions.iter().map(|one| one.key.session.to_string()));
            let last = moves.sessions.last().map(|one| one.key.session.to_string());
            match last.as_deref() {
                Some("d") => drop(store.info(&key("e")).await.unwrap()),
                Some("f") => store.flush().unwrap(),
                _ => {}
            }
        }
        assert_eq!(found, all.map(str::to_owned).into());
    });
}

// -- on the disk -------------------------------------------------------------------------------

fn open(sim: &Sim) -> LocalStore {
    LocalStore::open_local(&sim.env(), small()).unwrap()
}

/// Returns the files that contain a text, as the device has them.
fn files_containing(sim: &Sim, text: &str) -> Vec<String> {
    let has = |path: &String| sim.read_durable(path).is_some_and(|bytes| holds(&bytes, text));
    sim.files().into_iter().filter(has).collect()
}

fn derived_files(sim: &Sim) -> Vec<String> {
    sim.files().into_iter().filter(|path| path.starts_with("derived/")).collect()
}

/// Returns bytes of a derived file, with text of a session.
fn body() -> Vec<u8> {
    format!("{CANARY} ").repeat(9_000).into_bytes()
}

/// Creates a store with two sessions, a file derived from both, and one from the second alone.
async fn store_with_derived_files(sim: &Sim) -> (LocalStore, [DerivedName; 2]) {
    let store = open(sim);
    fill(&store, "gone").await;
    create(&store, "stays").await;
    append(&store, &key("stays"), batch([event("1"), event("2")])).await.unwrap();
    store.flush().unwrap();
    let (gone, stays) = (held(&store, "gone", 0, 4).await, held(&store, "stays", 0, 2).await);
    let both = vec![gone, stays.clone()];
    let both = store.put_derived(CANARY.as_bytes(), both, &body()).await.unwrap();
    let other = store.put_derived(b"label", vec![stays], b"other").await.unwrap();
    (store, [both, other])
}

#[test]
fn derived_files_survive_every_stop_and_are_encrypted_with_the_store() {
    for encrypted in [false, true] {
        let sim = machine(90, encrypted);
        runtime().block_on(async {
            let (mut store, [both, other]) = store_with_derived_files(&sim).await;
            let listed = store.list_derived().unwrap();
            assert_eq!(files_containing(&sim, CANARY).is_empty(), encrypted);
            for clean in [false, true] {
                if clean {
                    store.close().await;
                } else {
                    sim.power_loss();
                }
                drop(store);
                store = open(&sim);
                assert_eq!(store.list_derived().unwrap(), listed);
                assert!(read_derived(&store, both) == Some(body()));
                assert_eq!(read_derived(&store, other).as_deref(), Some(&b"other"[..]));
            }
            let mut paths = Vec::new();
            let mut take = |part: sessionlog::store::FilePart| {
                paths.push(part.path);
                Ok(())
            };
            store.backup(&mut take).unwrap();
            assert!(!paths.is_empty() && !paths.iter().any(|path| path.starts_with("derived")));
        });
    }
}

#[test]
fn a_changed_or_missing_derived_file_is_dropped_and_affects_no_other() {
    for encrypted in [false, true] {
        let sim = machine(91, encrypted);
        runtime().block_on(async {
            let (store, [both, other]) = store_with_derived_files(&sim).await;
            drop(store);
            sim.kill();
            let path = |name: DerivedName| format!("derived/{name}");
            sim.flip(&path(both), 50_000, 3);
            let store = open(&sim);
            assert_eq!(read_derived(&store, both), None, "the body");
            assert_eq!(names(&store), BTreeSet::from([other]));
            assert_eq!(derived_files(&sim), [path(other)]);
            drop(store);
            sim.kill();
            sim.flip(&path(other), 190, 3);
            let store = open(&sim);
            assert_eq!(names(&store), BTreeSet::new(), "what it was made from");
            store.flush().unwrap();
            assert_eq!(derived_files(&sim), Vec::<String>::new());
            let again = vec![held(&store, "stays", 0, 2).await];
            let again = store.put_derived(b"", again, b"again").await.unwrap();
            drop(store);
            sim.kill();
            sim.remove_durable(&path(again));
            sim.remove_durable("derived");
            let store = open(&sim);
            assert_eq!(names(&store), BTreeSet::new(), "all of it");
            let again = vec![held(&store, "stays", 0, 2).await];
            let again = store.put_derived(b"", again, b"again").await.unwrap();
            assert_eq!(read_derived(&store, again).as_deref(), Some(&b"again"[..]));
            assert_eq!(store.recovery().damage, Vec::<String>::new());
            assert_eq!(store.verify(&Scope::local(), None).await.unwrap().damage, []);
        });
    }
}

/// Runs a put or a drop; returns the number of its calls, or checks the disk after a failed one.
fn interrupt_put_or_drop(encrypted: bool, drops: bool, case: Option<Nth>) -> u64 {
    let sim = machine(92, encrypted);
    runtime().block_on(async {
        let (store, [both, other]) = store_with_derived_files(&sim).await;
        let holds = vec![held(&store, "stays", 0, 2).await];
        let first = sim.calls();
        if let Some(case) = case {
            case.plan(&sim);
        }
        let done = match drops {
            true => store.drop_derived(both).await.map(|()| both),
            false => store.put_derived(b"new", holds, &body()).await,
        };
        let calls = sim.calls() - first;
        let told = format!("drops: {drops}, encrypted: {encrypted}, {case:?}");
        if sim.lives() == 0 {
            let there = names(&store);
            let wanted = match (drops, &done) {
                (true, _) => BTreeSet::from([other]),
                (false, Ok(name)) => BTreeSet::from([both, other, *name]),
                (false, Err(_)) => BTreeSet::from([both, other]),
            };
            assert_eq!(there, wanted, "{told}");
        }
        let on_disk = || derived_files(&sim).into_iter().collect::<BTreeSet<_>>();
        let paths = |names: &BTreeSet<DerivedName>| {
            names.iter().map(|name| format!("derived/{name}")).collect::<BTreeSet<_>>()
        };
        sim.heal();
        if sim.lives() == 0 && case.is_some_and(|case| case.lasting) {
            store.flush().unwrap();
            assert_eq!(on_disk(), paths(&names(&store)), "{told}: what failed is swept");
        }
        drop(store);
        sim.power_loss();
        let store = open(&sim);
        let there = names(&store);
        assert!(there.contains(&other), "{told}");
        for name in &there {
            let wanted = if *name == other { b"other".to_vec() } else { body() };
            assert!(read_derived(&store, *name) == Some(wanted), "{told}");
        }
        match (drops, done) {
            (true, Ok(_)) => assert_eq!(there, BTreeSet::from([other]), "{told}"),
            (false, Ok(name)) => assert!(there.contains(&name), "{told}"),
            (_, Err(_)) => assert!(there.len() <= 3, "{told}"),
        }
        store.flush().unwrap();
        assert_eq!(on_disk(), paths(&there), "{told}: strays are swept");
        calls
    })
}

#[test]
fn a_crash_at_any_call_leaves_a_derived_file_complete_or_absent() {
    for (encrypted, drops) in [(false, false), (false, true), (true, false), (true, true)] {
        let calls = interrupt_put_or_drop(encrypted, drops, None);
        assert!(calls >= 4, "{calls} calls");
        cases(calls, 1).for_each(|case| _ = interrupt_put_or_drop(encrypted, drops, Some(case)));
    }
}

/// Runs an erasure or a redaction; checks derived files after a failed call.
fn interrupt_removal(encrypted: bool, erases: bool, case: Option<Nth>) -> u64 {
    let sim = machine(93, encrypted);
    runtime().block_on(async {
        let (store, [both, other]) = store_with_derived_files(&sim).await;
        let take = async |store: &LocalStore| match erases {
            true => store.erase(&key("gone")).await,
            false => {
                let mut taken = Ok(());
                for n in 0..4 {
                    let id = EventId::new(&format!("gone-{n}")).unwrap();
                    taken = taken.and(store.redact(&key("gone"), &id).await.map(drop));
                }
                taken
            }
        };
        let first = sim.calls();
        if let Some(case) = case {
            case.plan(&sim);
        }
        let answer = take(&store).await;
        let calls = sim.calls() - first;
        let told = format!("erases: {erases}, encrypted: {encrypted}, {case:?}");
        if answer.is_ok() {
            assert_eq!(names(&store), BTreeSet::from([other]), "{told}");
        }
        drop(store);
        sim.heal();
        if answer.is_ok() {
            assert_eq!(files_containing(&sim, CANARY), Vec::<String>::new(), "{told}");
        }
        sim.power_loss();
        let store = open(&sim);
        // The start finishes the removal before any file is opened.
        let begun = current_entry(&store, "gone").await.rewritten > 0;
        let there = names(&store);
        assert!(!(begun && there.contains(&both)), "{told}");
        assert!(begun || answer.is_err(), "{told}");
        assert_eq!(read_derived(&store, other).as_deref(), Some(&b"other"[..]), "{told}");
        take(&store).await.unwrap();
        assert_eq!(names(&store), BTreeSet::from([other]), "{told}");
        assert_eq!(files_containing(&sim, CANARY), Vec::<String>::new(), "{told}");
        assert_eq!(derived_files(&sim), [format!("derived/{other}")], "{told}");
        calls
    })
}

#[test]
fn erased_and_redacted_events_are_in_no_derived_file_after_a_crash() {
    for (encrypted, erases) in [(false, true), (false, false), (true, true), (true, false)] {
        let calls = interrupt_removal(encrypted, erases, None);
        assert!(calls >= 10, "{calls} calls");
        cases(calls, 41).for_each(|case| _ = interrupt_removal(encrypted, erases, Some(case)));
    }
}

#[test]
fn a_reclaimed_session_is_in_no_derived_file() {
    for encrypted in [false, true] {
        let sim = machine(94, encrypted);
        runtime().block_on(async {
            let (store, [_, other]) = store_with_derived_files(&sim).await;
            let gone = SessionUpdate { discard: true, ..SessionUpdate::default() };
            store.change(&key("gone"), gone).await.unwrap();
            (0..3).for_each(|_| store.flush().unwrap());
            assert_eq!(names(&store), BTreeSet::from([other]));
            assert_eq!(derived_files(&sim), [format!("derived/{other}")]);
        });
    }
}

#[test]
fn the_bytes_of_a_derived_file_are_overwritten_before_it_is_unlinked() {
    for encrypted in [false, true] {
        runtime().block_on(async {
            let unlinks = {
                let sim = machine(95, encrypted);
                let (store, [both, _]) = store_with_derived_files(&sim).await;
                store.erase(&key("gone")).await.unwrap();
                let path = format!("derived/{both}");
                let is_it = |call: &Call| call.op == Op::Remove && *call.path == *path;
                sim.trace().iter().position(is_it).unwrap() as u64
            };
            let sim = machine(95, encrypted);
            let (store, [both, other]) = store_with_derived_files(&sim).await;
            let path = format!("derived/{both}");
            sim.fail_call(unlinks, Fault::Kill, false);
            assert!(store.erase(&key("gone")).await.is_err(), "its process died");
            drop(store);
            let left = sim.read_durable(&path).expect("its removal is not durable");
            assert!(!holds(&left, CANARY), "encrypted: {encrypted}");
            let (zeros, wrapped) =
                (|part: &[u8]| part.iter().all(|byte| *byte == 0), &left[112..184]);
            assert!(zeros(if encrypted { wrapped } else { &left }), "encrypted: {encrypted}");
            let store = open(&sim);
            store.erase(&key("gone")).await.unwrap();
            assert_eq!(derived_files(&sim), [format!("derived/{other}")]);
        });
    }
}

#[test]
fn an_erasure_waits_for_a_reader_and_hides_the_file_from_others() {
    for encrypted in [false, true] {
        let sim = machine(96, encrypted);
        runtime().block_on(async {
            let (store, [both, other]) = store_with_derived_files(&sim).await;
            let store = Arc::new(store);
            let open = store.open_derived(both).unwrap();
            let erasing = Arc::clone(&store);
            let erased = std::thread::spawn(move || {
                runtime().handle().block_on(async { erasing.erase(&key("gone")).await })
            });
            while names(&*store).contains(&both) {
                std::thread::yield_now();
            }
            let there = sim.read_cached(&format!("derived/{both}")).expect("a reader has it");
            assert_eq!(holds(&there, CANARY), !encrypted);
            assert!(open.bytes() == body());
            drop(open);
            erased.join().unwrap().unwrap();
            assert_eq!(sim.read_durable(&format!("derived/{both}")), None);
            assert_eq!(names(&*store), BTreeSet::from([other]));
        });
    }
}

/// Redacts an event of the session `gone` on a separate thread.
fn spawn_redaction(
    store: &Arc<LocalStore>,
    event: &'static str,
) -> std::thread::JoinHandle<StoreResult<Option<Position>>> {
    let store = Arc::clone(store);
    std::thread::spawn(move || {
        let id = EventId::new(event).unwrap();
        runtime().handle().block_on(async { store.redact(&key("gone"), &id).await })
    })
}

#[test]
fn a_redaction_waiting_for_a_reader_does_not_block_other_calls() {
    for encrypted in [false, true] {
        let sim = machine(99, encrypted);
        runtime().block_on(async {
            let (store, [both, other]) = store_with_derived_files(&sim).await;
            let store = Arc::new(store);
            let away = SessionKey { scope: other_scope(), ..key("away") };
            for key in [&away, &key("elsewhere")] {
                let new = NewSession { id: Some(key.session.clone()), ..NewSession::default() };
                store.create(&key.scope, new).await.unwrap();
                append(&*store, key, batch([named("1", "\"one\"")])).await.unwrap();
            }
            let open = store.open_derived(both).unwrap();
            let redacted = spawn_redaction(&store, "gone-1");
            while !open.has_read_error() {
                assert!(!redacted.is_finished(), "it waits for a reader that it does not ask");
                std::thread::yield_now();
            }
            // The reader was asked to release the file, and has not yet.
            assert!(!names(&*store).contains(&both));
            assert!(store.open_derived(both).is_err());
            assert_eq!(read_derived(&*store, other).as_deref(), Some(&b"other"[..]));
            let holds = vec![held(&*store, "stays", 0, 2).await];
            let made = store.put_derived(b"", holds, b"made").await.unwrap();
            assert_eq!(read_derived(&*store, made).as_deref(), Some(&b"made"[..]));
            store.drop_derived(made).await.unwrap();
            store.erase(&away).await.unwrap();
            let one = EventId::new("1").unwrap();
            store.redact(&key("elsewhere"), &one).await.unwrap();
            let gone = SessionUpdate { discard: true, ..SessionUpdate::default() };
            store.change(&key("elsewhere"), gone).await.unwrap();
            store.flush().unwrap();
            assert!(!redacted.is_finished(), "it answers only when the bytes are gone");
            assert!(sim.read_cached(&format!("derived/{both}")).is_some());
            drop(open);
            redacted.join().unwrap().unwrap();
            assert_eq!(sim.read_durable(&format!("derived/{both}")), None);
            assert_eq!(names(&*store), BTreeSet::from([other]));
        });
    }
}

#[test]
fn a_derived_file_is_discarded_if_its_events_are_redacted_while_it_is_written() {
    for encrypted in [false, true] {
        let sim = machine(100, encrypted);
        runtime().block_on(async {
            let (store, [both, other]) = store_with_derived_files(&sim).await;
            store.close().await;
            drop(store);
            let gated = Gated::new(sim.env().storage, "derived/", Gate::Up);
            let env = Env { storage: gated.clone(), ..sim.env() };
            let store = Arc::new(LocalStore::open_local(&env, small()).unwrap());
            let holds = vec![held(&*store, "gone", 0, 4).await];
            gated.set(Gate::Down);
            let making = Arc::clone(&store);
            let put = std::thread::spawn(move || {
                let put = async { making.put_derived(b"", holds, &body()).await };
                runtime().handle().block_on(put)
            });
            gated.wait(Gate::SomebodyWaits);
            let redacted = spawn_redaction(&store, "gone-1");
            while current_entry(&*store, "gone").await.rewritten == 0
                || names(&*store).contains(&both)
            {
                std::thread::yield_now();
            }
            gated.set(Gate::Up);
            let put = put.join().unwrap();
            assert!(is_outdated(&put), "{put:?}");
            redacted.join().unwrap().unwrap();
            assert_eq!(names(&*store), BTreeSet::from([other]));
            assert_eq!(derived_files(&sim), [format!("derived/{other}")]);
            assert_eq!(files_containing(&sim, &format!("{CANARY} {CANARY}")), Vec::<String>::new());
        });
    }
}

#[test]
fn a_dropped_derived_file_stays_readable_until_its_last_reader_closes_it() {
    let sim = machine(101, false);
    runtime().block_on(async {
        let (store, [both, other]) = store_with_derived_files(&sim).await;
        let open = store.open_derived(both).unwrap();
        store.drop_derived(both).await.unwrap();
        assert_eq!(names(&store), BTreeSet::from([other]));
        store.flush().unwrap();
        assert!(!open.has_read_error() && open.bytes() == body(), "nothing of it was taken away");
        assert!(sim.read_durable(&format!("derived/{both}")).is_some(), "its reader has it");
        drop(open);
        store.flush().unwrap();
        assert_eq!(derived_files(&sim), [format!("derived/{other}")]);
    });
}

#[test]
fn a_start_rejects_a_derived_file_from_before_a_redaction_or_erasure() {
    for (encrypted, erases) in [(false, false), (false, true), (true, false), (true, true)] {
        let sim = machine(102, encrypted);
        runtime().block_on(async {
            let (store, [both, other]) = store_with_derived_files(&sim).await;
            store.close().await;
            drop(store);
            let before: Vec<_> = derived_files(&sim)
                .into_iter()
                .map(|path| (sim.read_durable(&path), path))
                .collect();
            let store = open(&sim);
            assert_eq!(names(&store), BTreeSet::from([both, other]));
            match erases {
                true => store.erase(&key("gone")).await.unwrap(),
                false => {
                    let id = EventId::new("gone-1").unwrap();
                    store.redact(&key("gone"), &id).await.unwrap();
                }
            }
            store.close().await;
            drop(store);
            for (bytes, path) in &before {
                sim.remove_durable(path);
                sim.write_durable(path, 0, bytes.as_ref().unwrap());
            }
            let store = open(&sim);
            assert_eq!(names(&store), BTreeSet::from([other]), "{encrypted}, {erases}");
            assert_eq!(read_derived(&store, both), None);
            store.flush().unwrap();
            assert_eq!(derived_files(&sim), [format!("derived/{other}")]);
        });
    }
}

/// The files are compared with the sessions before a session accepts an event.
#[test]
fn a_start_rejects_a_derived_file_of_events_that_a_rollback_replaced() {
    let sim = machine(103, false);
    runtime().block_on(async {
        let store = open(&sim);
        create(&store, "s").await;
        append(&store, &key("s"), batch([event("1"), event("2")])).await.unwrap();
        store.close().await;
        drop(store);
        let older: Vec<_> =
            sim.files().into_iter().map(|path| (sim.read_durable(&path).unwrap(), path)).collect();
        let store = open(&sim);
        append(&store, &key("s"), batch([event("3"), event("4")])).await.unwrap();
        let holds = vec![held(&store, "s", 0, 4).await];
        let name = store.put_derived(b"", holds, b"of four").await.unwrap();
        store.close().await;
        drop(store);
        for path in sim.files().into_iter().filter(|path| !path.starts_with("derived/")) {
            sim.remove_durable(&path);
        }
        for (bytes, path) in older {
            sim.write_durable(&path, 0, &bytes);
        }
        let store = open(&sim);
        append(&store, &key("s"), batch([event("5"), event("6")])).await.unwrap();
        assert_eq!((names(&store), read_derived(&store, name)), (BTreeSet::new(), None));
    });
}

#[test]
fn a_derived_file_with_an_unknown_version_or_bad_header_is_removed_alone() {
    let sim = machine(104, false);
    runtime().block_on(async {
        let (store, [both, other]) = store_with_derived_files(&sim).await;
        store.close().await;
        drop(store);
        // The version follows the magic.
        sim.write_durable(&format!("derived/{both}"), 8, &[9]);
        sim.write_durable("derived/00000000000000aa", 0, b"half");
        let store = open(&sim);
        assert_eq!(names(&store), BTreeSet::from([other]));
        store.flush().unwrap();
        assert_eq!(derived_files(&sim), [format!("derived/{other}")]);
    });
}

#[test]
fn a_scrub_drops_an_open_derived_file_that_became_damaged() {
    for encrypted in [false, true] {
        let sim = machine(105, encrypted);
        runtime().block_on(async {
            let (store, [both, other]) = store_with_derived_files(&sim).await;
            let open = store.open_derived(both).unwrap();
            store.scrub();
            assert!(!open.has_read_error());
            sim.flip(&format!("derived/{both}"), 50_000, 3);
            store.scrub();
            assert!(open.has_read_error(), "its readers begin anew");
            drop(open);
            assert_eq!(
                (read_derived(&store, both), names(&store)),
                (None, BTreeSet::from([other]))
            );
            assert_eq!(store.recovery().scrub.found, Vec::<String>::new(), "nothing is lost");
            store.flush().unwrap();
            assert_eq!(derived_files(&sim), [format!("derived/{other}")]);
        });
    }
}

#[test]
fn a_store_without_derived_files_does_not_touch_the_disk_for_them() {
    let sim = Sim::new(97);
    runtime().block_on(async {
        for _ in 0..2 {
            let store = open(&sim);
            for session in ["erased", "redacted", "discarded"] {
                let name = format!("{session}{}", sim.lives());
                fill(&store, &name).await;
                current_entry(&store, &name).await;
                let id = EventId::new(&format!("{name}-0")).unwrap();
                match session {
                    "erased" => store.erase(&key(&name)).await.unwrap(),
                    "redacted" => drop(store.redact(&key(&name), &id).await.unwrap()),
                    _ => {
                        let gone = SessionUpdate { discard: true, ..SessionUpdate::default() };
                        drop(store.change(&key(&name), gone).await.unwrap());
                    }
                }
            }
            store.flush().unwrap();
            assert_eq!(store.list_derived().unwrap(), []);
            drop(store);
            sim.kill();
        }
        let of_derived = |call: &Call| call.path.starts_with("derived");
        assert!(!sim.trace().iter().any(of_derived));
    });
}
