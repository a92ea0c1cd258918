//! A new master key for a store: nothing stays wrapped under the previous one, whenever the machine
//! died in between, and no event is lost. It must not use internals of the engine.

use std::collections::BTreeMap;

use sessionlog::{
    env::{MasterKeys, secrets::Secret},
    event::{Scope, SessionId, SessionKey, TenantId, UserId},
    store::{
        KeyProblem, KeyReport, Maintain, NewSession, Store, StoreError, key_ids,
        local::{LocalStore, OpenError, key_report},
    },
};
use sessionlog_sim::Sim;

use crate::{
    engines::{append, batch, event, events_of, small},
    life::runtime,
    nth::{Nth, cases},
};

fn keys(byte: u8) -> MasterKeys {
    let key = std::array::from_fn(|n| byte.wrapping_add(n as u8));
    MasterKeys { current: Secret::new(key), previous: None }
}

fn from_to(previous: u8, current: u8) -> MasterKeys {
    MasterKeys { previous: Some(keys(previous).current), ..keys(current) }
}

fn machine(seed: u64, given: MasterKeys) -> Sim {
    let sim = Sim::new(seed);
    sim.set_keys(Some(given));
    sim
}

fn open(sim: &Sim) -> LocalStore {
    LocalStore::open_local(&sim.env(), small()).unwrap()
}

fn tree(sim: &Sim) -> BTreeMap<String, Vec<u8>> {
    let read = |path: String| Some((path.clone(), sim.read_durable(&path)?));
    sim.files().into_iter().filter_map(read).collect()
}

fn named(tenant: &str, name: &str) -> SessionKey {
    let tenant = TenantId::new(tenant).unwrap();
    let scope = Scope { tenant, user: UserId::new("ada").unwrap() };
    SessionKey { scope, session: SessionId::new(name).unwrap() }
}

async fn create(store: &LocalStore, key: &SessionKey) {
    let new = NewSession { id: Some(key.session.clone()), ..NewSession::default() };
    store.create(&key.scope, new).await.unwrap();
    append(store, key, batch([event("{\"n\":1}")])).await.unwrap();
}

fn sessions() -> Vec<SessionKey> {
    let names = (0..6).map(|n| format!("s{n}"));
    let both = |name: String| ["acme", "zeta"].map(|tenant| named(tenant, &name));
    names.flat_map(both).collect()
}

async fn fill(sim: &Sim) -> LocalStore {
    let store = open(sim);
    for key in sessions() {
        create(&store, &key).await;
    }
    store.flush().unwrap();
    let erased = named("acme", "erased");
    create(&store, &erased).await;
    store.erase(&erased).await.unwrap();
    store
}

async fn check_all_events(store: &LocalStore) {
    for key in sessions() {
        let events = events_of(store, &key).await;
        assert!(!events.is_empty() && events[0].body == b"{\"n\":1}"[..], "{key:?}");
        assert_eq!(store.verify(&key.scope, Some(&key.session)).await.unwrap().damage, []);
    }
    let gone = store.info(&named("acme", "erased")).await;
    assert!(matches!(gone, Err(StoreError::SessionDeleted { .. })), "{gone:?}");
}

fn refusal(sim: &Sim) -> Option<KeyProblem> {
    match LocalStore::open_local(&sim.env(), small()) {
        Err(OpenError::Key { problem }) => Some(problem),
        Err(other) => panic!("{other}"),
        Ok(_) => None,
    }
}

async fn rotate(store: &LocalStore, keys_max: usize) -> Result<(KeyReport, u64), StoreError> {
    for step in 1.. {
        let report = store.rotate_keys(keys_max).await?;
        if report.previous.is_none() {
            assert_eq!(report.behind, 0);
            return Ok((report, step));
        }
        assert!(step < 1_000, "it does not end: {report:?}");
    }
    unreachable!("it ends or panics")
}

#[test]
fn a_rotation_rewraps_every_key_so_that_the_previous_master_key_can_be_destroyed() {
    let sim = machine(91, keys(1));
    runtime().block_on(async {
        let store = fill(&sim).await;
        let before = store.keys().await.unwrap().unwrap();
        let ids = |given: &MasterKeys| key_ids(given);
        assert_eq!((vec![before.current], before.previous), (ids(&keys(1)), None));
        assert!(before.opens && before.keys >= 12 && before.destroyed >= 1, "{before:?}");
        assert_eq!((before.behind, before.unreadable), (0, 0));
        // With the current key a rotation has nothing to do.
        assert_eq!(rotate(&store, 3).await.unwrap(), (before.clone(), 1));
        store.close().await;
        drop(store);
        sim.set_keys(Some(from_to(1, 2)));
        let store = open(&sim);
        let first = store.rotate_keys(3).await.unwrap();
        assert_eq!(vec![first.current, first.previous.unwrap()], ids(&from_to(1, 2)));
        assert!(first.behind > 0 && first.behind < before.keys, "{first:?}");
        // Sessions are created and deleted meanwhile.
        let (fresh, brief) = (named("acme", "fresh"), named("zeta", "brief"));
        for key in [&fresh, &brief] {
            create(&store, key).await;
        }
        store.erase(&brief).await.unwrap();
        let (done, steps) = rotate(&store, 3).await.unwrap();
        assert!(steps > 2, "{steps} steps");
        assert_eq!((vec![done.current], done.behind, done.unreadable), (ids(&keys(2)), 0, 0));
        assert!(done.keys + done.destroyed >= before.keys + before.destroyed, "{done:?}");
        create(&store, &named("zeta", "later")).await;
        check_all_events(&store).await;
        drop(store);
        for lost in [true, false] {
            if lost {
                sim.power_loss()
            } else {
                sim.kill()
            }
            sim.set_keys(Some(keys(1)));
            let unchanged = tree(&sim);
            let refused = refusal(&sim);
            assert!(matches!(refused, Some(KeyProblem::Wrong { .. })), "{refused:?}");
            assert_eq!(tree(&sim), unchanged);
            sim.set_keys(Some(keys(2)));
            let store = open(&sim);
            check_all_events(&store).await;
            for key in [&fresh, &named("zeta", "later")] {
                assert_eq!(events_of(&store, key).await.len(), 1);
            }
        }
        // A second rotation, to a third key.
        sim.kill();
        sim.set_keys(Some(from_to(2, 3)));
        rotate(&open(&sim), 1_000).await.unwrap();
        sim.kill();
        sim.set_keys(Some(keys(3)));
        check_all_events(&open(&sim)).await;
    });
}

#[test]
fn a_half_finished_rotation_needs_both_keys_and_changes_no_byte_without_either() {
    let sim = machine(92, keys(1));
    runtime().block_on(async {
        drop(fill(&sim).await);
        sim.kill();
        sim.set_keys(Some(from_to(1, 2)));
        let store = open(&sim);
        assert!(store.rotate_keys(4).await.unwrap().behind > 0);
        drop(store);
        sim.power_loss();
        for (given, opens) in [(keys(1), false), (keys(2), false), (from_to(2, 1), true)] {
            sim.set_keys(Some(given));
            let before = tree(&sim);
            let report = key_report(&sim.env()).unwrap().unwrap();
            assert_eq!(report.opens, opens, "{report:?}");
            assert!(report.behind > 0 && report.behind < report.keys, "{report:?}");
            assert_eq!(refusal(&sim).is_none(), opens);
            if !opens {
                assert_eq!(tree(&sim), before);
            }
            sim.kill();
        }
        // A started rotation continues, whichever of the two keys is the current one.
        let (done, _) = rotate(&open(&sim), 4).await.unwrap();
        assert_eq!(vec![done.current], key_ids(&keys(2)));
    });
}

#[test]
fn a_report_of_keys_needs_no_key_and_changes_no_byte() {
    let sim = machine(93, keys(1));
    runtime().block_on(async { drop(fill(&sim).await) });
    sim.power_loss();
    let before = tree(&sim);
    let mut reports = Vec::new();
    for given in [None, Some(keys(1)), Some(keys(9))] {
        sim.set_keys(given.clone());
        let report = key_report(&sim.env()).unwrap().unwrap();
        assert_eq!(report.opens, given == Some(keys(1)));
        assert_eq!(report.given, given.iter().flat_map(key_ids).collect::<Vec<_>>());
        reports.push((report.keys, report.destroyed, report.behind, report.unreadable));
    }
    assert!(reports.iter().all(|one| *one == reports[0]), "{reports:?}");
    assert_eq!(tree(&sim), before);
    sim.remove_durable("keys/1");
    sim.flip("keys/0", 128 + 64, 1);
    let report = key_report(&sim.env()).unwrap().unwrap();
    assert_eq!(report.unreadable, 1, "no other file has it");
    let plain = Sim::new(94);
    assert_eq!(key_report(&plain.env()).unwrap(), None, "there is no store");
    runtime().block_on(async {
        let store = LocalStore::open_local(&plain.env(), small()).unwrap();
        assert_eq!(store.keys().await.unwrap(), None);
        let refused = store.rotate_keys(9).await;
        assert!(matches!(refused, Err(StoreError::Plaintext)), "{refused:?}");
    });
}

/// Runs a rotation with a fault; returns its number of calls.
fn rotate_with_fault(case: Option<Nth>) -> u64 {
    let sim = machine(95, keys(1));
    runtime().block_on(async {
        drop(fill(&sim).await);
        sim.power_loss();
        sim.set_keys(Some(from_to(1, 2)));
        let store = open(&sim);
        let first = sim.calls();
        if let Some(case) = case {
            case.plan(&sim);
        }
        let told = format!("{case:?}");
        let cut = async {
            rotate(&store, 3).await?;
            Ok::<_, StoreError>(())
        };
        let answer = cut.await;
        let calls = sim.calls() - first;
        drop(store);
        sim.heal();
        sim.power_loss();
        if answer.is_ok() {
            sim.set_keys(Some(keys(2)));
        }
        let store = open(&sim);
        check_all_events(&store).await;
        create(&store, &named("acme", "after")).await;
        rotate(&store, 5).await.unwrap_or_else(|error| panic!("{told}: {error}"));
        drop(store);
        sim.power_loss();
        sim.set_keys(Some(keys(2)));
        let store = open(&sim);
        assert_eq!(store.recovery().damage, Vec::<String>::new(), "{told}");
        check_all_events(&store).await;
        assert_eq!(events_of(&store, &named("acme", "after")).await.len(), 1, "{told}");
        calls
    })
}

#[test]
fn an_interrupted_rotation_of_keys_continues_and_keeps_every_event() {
    let calls = rotate_with_fault(None);
    assert!(calls > 40, "{calls} calls are hardly a rotation");
    let mut cut = 0;
    for case in cases(calls, 27) {
        rotate_with_fault(Some(case));
        cut += 1;
    }
    eprintln!("{cut} rotations cut off, at {calls} calls");
}
