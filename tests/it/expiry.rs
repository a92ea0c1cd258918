//! Effects of a stop, a kill or a power loss on sessions that expire, are restored, and are
//! deleted: none expires early, none returns after its deletion, none is deleted with another, and
//! a later sweep completes an interrupted one. It must not depend on an interface.

use std::{collections::BTreeSet, panic::AssertUnwindSafe, time::Duration};

use futures_util::FutureExt;
use sessionlog::{
    env::Clock,
    event::{Event, Scope},
    store::{
        Health, Lifetimes, Maintain, NewSession, SessionUpdate, Store, StoreError, StoreResult,
        local::{LocalStore, StoreOptions},
    },
};
use sessionlog_sim::{Fault, Op, Sim};

use crate::{
    engines::{append, batch, create, event, events_of, everything, key, named, small},
    forks::fork,
    life::runtime,
    nth::cases,
};

pub const HOUR: Duration = Duration::from_secs(3_600);
pub const LIMIT: Duration = Duration::from_secs(48 * 3_600);
pub const GRACE: Duration = Duration::from_secs(24 * 3_600);

/// Returns options with a retention of two days, and a grace of one day.
pub fn mortal() -> StoreOptions {
    let lifetimes =
        Lifetimes { retention: LIMIT, purge: GRACE, grace: GRACE, ..Lifetimes::DEFAULT };
    StoreOptions { lifetimes, ..small() }
}

fn open(sim: &Sim) -> LocalStore {
    LocalStore::open_local(&sim.env(), mortal()).unwrap()
}

async fn delete(store: &dyn Store, session: &str) -> StoreResult<()> {
    store
        .change(&key(session), SessionUpdate { discard: true, ..SessionUpdate::default() })
        .await
        .map(drop)
}

/// Returns true if the session is unknown.
async fn is_gone(store: &dyn Store, session: &str) -> bool {
    matches!(store.info(&key(session)).await, Err(StoreError::SessionNotFound { .. }))
}

/// Runs days without requests, with the background work of each, until a session is removed.
async fn until_gone(sim: &Sim, store: &LocalStore, session: &str) {
    for _ in 0..40 {
        if is_gone(store, session).await {
            return;
        }
        sim.clock().advance(6 * HOUR);
        store.sweep().await.unwrap();
        (0..4).for_each(|_| store.flush().unwrap());
    }
    panic!("{session} does not go");
}

fn stop(sim: &Sim, how: u64) {
    if how.is_multiple_of(2) {
        sim.kill();
    } else {
        sim.power_loss();
    }
}

#[tokio::test]
async fn a_session_evicted_between_two_sweeps_expires() {
    let sim = Sim::new(61);
    let store = open(&sim);
    create(&store, "expires").await;
    create(&store, "deleted").await;
    delete(&store, "deleted").await.unwrap();
    until_gone(&sim, &store, "deleted").await;
    until_gone(&sim, &store, "expires").await;
}

#[tokio::test]
async fn a_session_whose_last_append_failed_expires_like_any_other() {
    let sim = Sim::new(62);
    let store = open(&sim);
    create(&store, "s").await;
    sim.fail_next(Op::Sync, Fault::Io, false);
    append(&store, &key("s"), batch([event("{}")])).await.unwrap_err();
    assert!(sim.struck());
    sim.heal();
    until_gone(&sim, &store, "s").await;
}

#[tokio::test]
async fn a_reused_session_name_keeps_its_new_session_over_every_start() {
    for seed in 0..32 {
        let told = format!("seed {seed}");
        let sim = Sim::new(seed);
        let mut store = open(&sim);
        create(&store, "stays").await;
        create(&store, "s").await;
        append(&store, &key("s"), batch([event("\"old\"")])).await.unwrap();
        (0..2).for_each(|_| store.flush().unwrap());
        if seed % 4 < 2 {
            delete(&store, "s").await.unwrap();
        }
        if seed < 16 {
            until_gone(&sim, &store, "s").await;
        } else {
            // Free at the same sweep, without a later flush.
            for _ in 0..60 {
                if !is_gone(&store, "s").await {
                    sim.clock().advance(6 * HOUR);
                    store.sweep().await.unwrap();
                }
            }
        }
        create(&store, "s").await;
        for n in 0..20 {
            let body = format!("\"new {n} {}\"", "x".repeat(300));
            append(&store, &key("s"), batch([event(&body)])).await.unwrap();
            if n % 8 == 7 && seed >= 8 {
                store.flush().unwrap();
            }
        }
        for start in 0..4 {
            stop(&sim, seed + start);
            drop(store);
            store = open(&sim);
            assert_eq!(events_of(&store, &key("s")).await.len(), 20, "{told}, start {start}");
            (0..=start).for_each(|_| store.flush().unwrap());
            assert_eq!(events_of(&store, &key("s")).await.len(), 20, "{told}, start {start}");
            let verified = store.verify(&Scope::local(), None).await.unwrap();
            assert_eq!(verified.damage, [], "{told}, start {start}");
        }
    }
}

#[tokio::test]
async fn a_session_with_readers_at_a_stop_gets_its_full_retention_after_it() {
    for how in 0..3 {
        let sim = Sim::new(62);
        let store = open(&sim);
        create(&store, "s").await;
        let watch = store.watch(&key("s")).await.unwrap();
        for _ in 0..20 {
            sim.clock().advance(6 * HOUR);
            store.sweep().await.unwrap();
            store.flush().unwrap();
        }
        if how == 2 {
            store.close().await;
        }
        stop(&sim, how);
        drop((watch, store));
        let store = open(&sim);
        for _ in 0..7 {
            sim.clock().advance(6 * HOUR);
            assert_eq!(store.sweep().await.unwrap().expired, [], "it was watched {how}");
        }
        sim.clock().advance(12 * HOUR);
        assert_eq!(store.sweep().await.unwrap().expired, [key("s")]);
    }
}

#[tokio::test]
async fn a_wrong_clock_after_a_stop_expires_no_session() {
    const YEARS_MICROS: i64 = 10 * 365 * 24 * 3_600 * 1_000_000;
    for how in 0..6 {
        let sim = Sim::new(65);
        let mut store = open(&sim);
        create(&store, "s").await;
        for by in [YEARS_MICROS, -2 * YEARS_MICROS, YEARS_MICROS] {
            for _ in 0..2 {
                sim.clock().advance(6 * HOUR);
                assert_eq!(store.sweep().await.unwrap().expired, [], "{how}, {by}");
            }
            if how < 3 {
                store.flush().unwrap();
            }
            if how % 3 == 2 {
                store.close().await;
            }
            stop(&sim, how);
            sim.clock().set(sim.clock().now().plus_micros(by));
            drop(store);
            store = open(&sim);
            assert_eq!(store.sweep().await.unwrap().expired, [], "{how}, {by}");
        }
        let mut lived = 6 * 6 * HOUR;
        while store.sweep().await.unwrap().expired != [key("s")] {
            sim.clock().advance(6 * HOUR);
            lived += 6 * HOUR;
            assert!(lived < 3 * LIMIT, "{how}: it does not expire");
        }
        assert!(lived >= LIMIT, "{how}: it expires after {lived:?}");
    }
}

#[tokio::test]
async fn a_damaged_session_does_not_expire_until_its_loss_is_accepted() {
    let sim = Sim::new(64);
    let mut store = open(&sim);
    for session in ["lost", "whole"] {
        create(&store, session).await;
        append(&store, &key(session), batch([event("\"what is lost\"")])).await.unwrap();
        (0..2).for_each(|_| store.flush().unwrap());
        if session == "lost" {
            let path = sim.files().into_iter().find(|path| hash_of(path).is_some()).unwrap();
            sim.flip(&path, 700, 1);
        }
    }
    store.close().await;
    store = open(&sim);
    let verified = store.verify(&Scope::local(), None).await.unwrap();
    assert_eq!(verified.damage.len(), 1, "{:?}", verified.damage);
    let mut expired = Vec::new();
    for day in 0..40 {
        if day == 20 {
            store.repair(&key("lost"), true).await.unwrap();
        }
        sim.clock().advance(24 * HOUR);
        expired.extend(store.sweep().await.unwrap().expired.into_iter().map(|key| (key, day)));
        if day == 10 {
            sim.power_loss();
            drop(store);
            store = open(&sim);
        }
    }
    let names: Vec<_> =
        expired.iter().map(|(key, day)| (key.session.as_str(), *day > 20)).collect();
    assert_eq!(names, [("whole", false), ("lost", true)], "{expired:?}");
}

/// Appends events: the session has a sealed segment, an open one, and pending frames.
async fn fill(store: &LocalStore, session: &str) {
    create(store, session).await;
    for n in 0..12 {
        let body = format!("\"{n} {}\"", "lorem ipsum ".repeat(150));
        append(store, &key(session), batch([event(&body)])).await.unwrap();
        if n % 5 == 4 {
            store.flush().unwrap();
        }
    }
}

/// Returns the hash in the name of a segment's file.
fn hash_of(path: &str) -> Option<&str> {
    path.strip_prefix("segments/")?.get(3..67)
}

/// Returns the files of the sessions with these hashes.
fn own(sim: &Sim, hashes: &BTreeSet<String>) -> Vec<String> {
    let own = |path: &String| hash_of(path).is_some_and(|hash| hashes.contains(hash));
    sim.files().into_iter().filter(own).collect()
}

/// Returns the hashes of the sessions that have files.
fn hashes(sim: &Sim) -> BTreeSet<String> {
    sim.files().iter().filter_map(|path| hash_of(path)).map(str::to_owned).collect()
}

/// Sessions that expire, are held, restored, deleted, and reclaimed; their names are reused. An
/// interrupted step is retried, after a start if the machine crashed. In a variant with a fork, the
/// fork is held, and its parent is kept for it.
struct Story {
    sim: Sim,
    store: LocalStore,
    /// Events of the sessions that are kept.
    kept: Vec<(&'static str, Vec<Event>)>,
    forked: bool,
    /// Hashes of the sessions that are removed.
    going: BTreeSet<String>,
    starts: u64,
    /// Total time that the store was open.
    lived: Duration,
}

impl Story {
    /// Creates the sessions, without a fault.
    async fn begin(forked: bool) -> Self {
        let sim = Sim::new(63);
        let store = open(&sim);
        let mut kept = Vec::new();
        for session in ["held", "back"] {
            fill(&store, session).await;
            kept.push((session, events_of(&store, &key(session)).await));
        }
        let hold = SessionUpdate { hold: Some(true), ..SessionUpdate::default() };
        store.change(&key("held"), hold.clone()).await.unwrap();
        let before = hashes(&sim);
        for session in ["gone", "deleted"] {
            fill(&store, session).await;
        }
        if forked {
            for (parent, child) in [("gone", "fork"), ("fork", "leaf")] {
                fork(&store, parent, 8, child).await.unwrap();
                append(&store, &key(child), batch([event("\"own\"")])).await.unwrap();
                store.change(&key(child), hold.clone()).await.unwrap();
                kept.push((child, events_of(&store, &key(child)).await));
            }
            (0..2).for_each(|_| store.flush().unwrap());
        }
        let going: BTreeSet<_> = hashes(&sim).difference(&before).cloned().collect();
        assert_eq!(going.len(), if forked { 4 } else { 2 });
        Self { sim, store, kept, forked, going, starts: 0, lived: Duration::ZERO }
    }

    /// Starts again on a healthy disk; checks that kept sessions exist.
    async fn start(&mut self) {
        self.starts += 1;
        stop(&self.sim, self.starts);
        self.sim.heal();
        self.store = open(&self.sim);
        for (session, events) in &self.kept {
            match self.store.info(&key(session)).await {
                Ok(_) => assert_eq!(&events_of(&self.store, &key(session)).await, events),
                Err(StoreError::SessionExpired { .. }) if *session == "back" => {}
                Err(other) => panic!("{session}: {other}"),
            }
        }
    }

    /// Retries an act until it completes without a crash.
    async fn act(&mut self, act: impl AsyncFn(&LocalStore) -> StoreResult<()>) {
        let mut refused = None;
        for _ in 0..3 {
            let (life, strikes) = (self.sim.lives(), self.sim.strikes());
            let done = act(&self.store).await;
            // Not before the fault occurred: a start forgets a planned fault.
            if self.sim.strikes() > strikes {
                self.sim.heal();
            }
            match done {
                _ if self.sim.lives() != life => self.start().await,
                Ok(()) => return,
                Err(StoreError::ReadOnly { .. }) => self.start().await,
                Err(error) => refused = Some(error),
            }
        }
        panic!("it is not done on a healthy disk: {refused:?}");
    }

    async fn sweep(&mut self) {
        self.act(async |store| store.sweep().await.map(drop)).await;
        self.act(async |store| {
            let settled = store.flush();
            settled.map_err(|source| StoreError::Io { doing: "flushing", source })
        })
        .await;
    }

    async fn advance_and_sweep(&mut self) {
        self.sim.clock().advance(6 * HOUR);
        self.lived += 6 * HOUR;
        assert!(self.lived < 20 * GRACE, "it takes too long");
        self.sweep().await;
        // A sweep leaves failed writes to the next one, which only a start can enable here.
        if matches!(self.store.health(), Health::ReadOnly(_)) {
            self.start().await;
        }
    }

    /// Checks that expired sessions are kept as long as forks are held, and longer than their
    /// grace; then releases the forks, the one in the middle first.
    async fn let_go(&mut self) {
        let until = self.lived + GRACE + GRACE;
        while self.lived < until {
            self.act(async |store| store.use_session(&key("back")).await.map(drop)).await;
            self.advance_and_sweep().await;
            for (session, events) in self.kept.clone() {
                self.act(async |store| {
                    let slice = store.read(&key(session), everything()).await?;
                    assert_eq!(slice.events, events, "{session}");
                    Ok(())
                })
                .await;
            }
            let gone = self.store.info(&key("gone")).await;
            assert!(matches!(gone, Err(StoreError::SessionExpired { .. })), "{gone:?}");
        }
        self.kept.retain(|(session, _)| !matches!(*session, "fork" | "leaf"));
        for session in ["fork", "leaf"] {
            let release = || SessionUpdate { hold: Some(false), ..SessionUpdate::default() };
            self.act(async |store| match store.change(&key(session), release()).await {
                Err(StoreError::SessionDeleted { .. }) => Ok(()),
                Err(other) => Err(other),
                Ok(_) => match delete(store, session).await {
                    Err(StoreError::SessionDeleted { .. }) => Ok(()),
                    other => other,
                },
            })
            .await;
        }
    }

    /// Runs the steps and checks them; returns the number of calls until the check.
    async fn run_and_check(mut self) -> u64 {
        self.act(async |store| match delete(store, "deleted").await {
            Err(StoreError::SessionDeleted { .. }) => Ok(()),
            other => other,
        })
        .await;
        let is_expired = async |store: &LocalStore, session| {
            let info = store.info(&key(session)).await;
            matches!(info, Err(StoreError::SessionExpired { .. }))
        };
        let mut fresh = vec![("gone", None), ("deleted", None)];
        while !(is_expired(&self.store, "gone").await && is_expired(&self.store, "back").await) {
            assert!(!is_expired(&self.store, "gone").await || self.lived >= LIMIT, "too early");
            self.advance_and_sweep().await;
        }
        let expired = self.lived;
        assert!(expired >= LIMIT, "too early");
        let restore = || SessionUpdate { restore: true, ..SessionUpdate::default() };
        self.act(async |store| store.change(&key("back"), restore()).await.map(drop)).await;
        if self.forked {
            fresh.extend([("fork", None), ("leaf", None)]);
            self.let_go().await;
        }
        for (session, went) in &mut fresh {
            while !is_gone(&self.store, session).await {
                self.act(async |store| store.use_session(&key("back")).await.map(drop)).await;
                self.advance_and_sweep().await;
            }
            *went = Some(self.lived);
        }
        for (session, went) in &fresh {
            let since = if *session == "gone" { expired } else { Duration::ZERO };
            assert!(went.is_some_and(|went| went >= since + GRACE), "{session} went too early");
        }
        assert_eq!(own(&self.sim, &self.going), Vec::<String>::new());
        for (session, _) in &fresh {
            let session = *session;
            self.act(async |store| {
                let new = NewSession { id: Some(key(session).session), ..NewSession::default() };
                match store.create(&key(session).scope, new).await {
                    Ok(_) | Err(StoreError::SessionExists { .. }) => {}
                    Err(other) => return Err(other),
                }
                let again = named("new", "\"new\"");
                append(store, &key(session), batch([again])).await.map(drop)
            })
            .await;
        }
        self.sweep().await;
        self.act(async |store| {
            store.close().await;
            Ok(())
        })
        .await;
        let calls = self.sim.calls();
        for _ in 0..3 {
            self.start().await;
            for (session, _) in &fresh {
                assert_eq!(events_of(&self.store, &key(session)).await.len(), 1, "{session}");
            }
            (0..2).for_each(|_| self.store.flush().unwrap());
            let verified = self.store.verify(&Scope::local(), None).await.unwrap();
            let sessions = 2 + fresh.len() as u64;
            assert_eq!((verified.sessions, verified.damage), (sessions, vec![]));
        }
        assert_eq!(own(&self.sim, &self.going), Vec::<String>::new());
        calls
    }
}

#[test]
fn expiry_restore_and_reclaim_survive_a_failure_of_any_call() {
    for forked in [false, true] {
        let calls = runtime().block_on(async {
            let story = Story::begin(forked).await;
            let before = story.sim.calls();
            story.run_and_check().await - before
        });
        assert!(calls > 100, "{calls} calls are hardly a story");
        for case in cases(calls, 163) {
            let run = async {
                let story = Story::begin(forked).await;
                let sim = story.sim.clone();
                case.plan(&sim);
                story.run_and_check().await;
                assert!(sim.struck() || !case.is_certain(), "nothing struck");
            };
            let run = AssertUnwindSafe(run).catch_unwind();
            assert!(runtime().block_on(run).is_ok(), "forked: {forked}, {case:?}");
        }
    }
}
