//! Forks in the store: they return their parent's prefix and then their own events, at any depth
//! and over any stop; no byte is copied; a parent is kept for its forks, and is removed with the
//! last of them. It must not depend on an interface.

mod reach;

use std::sync::Arc;

use sessionlog::{
    event::{Batch, BatchKey, Event, EventId, Position, Range, Scope, SessionId, Timestamp},
    store::{
        FillDirection, ForkPoint, Maintain, NewSession, ReadRequest, SessionInfo, SessionUpdate,
        Store, StoreError, StoreResult, Survival, local::LocalStore,
    },
};
use sessionlog_sim::{SeededEntropy, Sim, model::Model};

use crate::{
    engines::{
        all, append, batch, create, event, events_of, everything, key, named, small, with_servers,
    },
    expiry::{GRACE, HOUR, LIMIT, mortal},
    life::{machine, runtime, seeds},
    nth::{Nth, cases},
};

/// Creates a session that continues from a position of another one.
pub async fn fork(
    store: &dyn Store,
    parent: &str,
    at: u64,
    child: &str,
) -> StoreResult<SessionInfo> {
    let parent = ForkPoint { session: SessionId::new(parent).unwrap(), at: Position(at) };
    let id = Some(SessionId::new(child).unwrap());
    let new = NewSession { id, parent: Some(parent), ..NewSession::default() };
    store.create(&Scope::local(), new).await.map(|(info, _)| info)
}

async fn say(store: &dyn Store, session: &str, words: &[&str]) {
    let events = words.iter().map(|word| event(&format!("\"{word}\"")));
    append(store, &key(session), batch(events)).await.unwrap();
}

async fn words(store: &dyn Store, session: &str) -> Vec<String> {
    let events = events_of(store, &key(session)).await;
    let positions: Vec<u64> = events.iter().map(|event| event.position.0).collect();
    assert!(positions.iter().copied().eq(0..events.len() as u64), "{session}: {positions:?}");
    let word = |event: &Event| String::from_utf8(event.body.to_vec()).unwrap().replace('"', "");
    events.iter().map(word).collect()
}

fn change(delete: bool, hold: Option<bool>) -> SessionUpdate {
    SessionUpdate { discard: delete, hold, ..SessionUpdate::default() }
}

async fn delete(store: &dyn Store, session: &str) {
    store.change(&key(session), change(true, None)).await.unwrap();
}

fn open(sim: &Sim) -> LocalStore {
    LocalStore::open_local(&sim.env(), mortal()).unwrap()
}

/// Returns the segment files on the disk.
fn segments(sim: &Sim) -> usize {
    sim.files().iter().filter(|path| path.starts_with("segments/")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_returns_its_parents_prefix_then_its_own_events_on_every_engine() {
    for engine in with_servers().await {
        let (store, name) = (&*engine.store, engine.name);
        create(store, "root").await;
        say(store, "root", &["a", "b", "c"]).await;
        say(store, "root", &["d"]).await;
        for (at, child) in [(0, "at0"), (1, "at1"), (2, "at2"), (3, "at3"), (4, "at4")] {
            let info = fork(store, "root", at, child).await.unwrap();
            assert_eq!((info.tail, info.bytes), (Position(at), 0), "{name}: {child}");
            let parent = ForkPoint { session: key("root").session, at: Position(at) };
            assert_eq!(info.forked_from, Some(parent), "{name}");
            let prefix = &["a", "b", "c", "d"][..usize::try_from(at).unwrap()];
            assert_eq!(words(store, child).await, prefix, "{name}: {child}");
            say(store, child, &["x", "y"]).await;
            assert_eq!(words(store, child).await, [prefix, &["x", "y"]].concat(), "{name}");
        }
        say(store, "root", &["e"]).await;
        // Above, at and below the position where the parent's own events begin.
        for (at, expected) in [(1, "a"), (2, "ab"), (3, "abx"), (4, "abxy")] {
            let child = format!("of2at{at}");
            fork(store, "at2", at, &child).await.unwrap();
            say(store, &child, &["z"]).await;
            assert_eq!(words(store, &child).await.concat(), format!("{expected}z"), "{name}");
        }
        assert_eq!(words(store, "root").await.concat(), "abcde", "{name}");
        for child in ["at3", "root"] {
            let beyond = fork(store, child, 6, "beyond").await;
            assert!(
                matches!(beyond, Err(StoreError::PositionConflict { .. })),
                "{name}: {beyond:?}"
            );
        }
        let nobody = fork(store, "nobody", 0, "child").await;
        assert!(matches!(nobody, Err(StoreError::SessionNotFound { .. })), "{name}: {nobody:?}");
        let verified = store.verify(&Scope::local(), None).await.unwrap();
        assert_eq!(verified.damage, [], "{name}");
        let found = store.find_time(&key("at3"), Timestamp(0)).await.unwrap();
        assert_eq!(found, Position::ZERO, "{name}: an instant before everything");
        let later = store.find_time(&key("at3"), Timestamp(i64::MAX)).await.unwrap();
        assert_eq!(later, Position(5), "{name}: an instant after everything");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_inherits_event_ids_of_its_prefix_but_no_batch_keys() {
    for engine in all() {
        let (store, name) = (&*engine.store, engine.name);
        create(store, "root").await;
        let keyed = |events: Batch| Batch { key: Some(BatchKey::new("k").unwrap()), ..events };
        let first = [named("one", "1"), named("two", "2"), named("three", "3")];
        append(store, &key("root"), keyed(batch(first))).await.unwrap();
        fork(store, "root", 2, "child").await.unwrap();
        fork(store, "child", 2, "grandchild").await.unwrap();
        for child in ["child", "grandchild"] {
            let told = format!("{name}: {child}");
            let known = append(store, &key(child), batch([named("two", "2")])).await.unwrap();
            assert_eq!((known.repeated, known.first_position), (true, Position(1)), "{told}");
            let other = append(store, &key(child), batch([named("one", "other")])).await;
            assert!(matches!(other, Err(StoreError::IdempotencyConflict { .. })), "{told}");
            let part = batch([named("one", "1"), named("new", "9")]);
            let part = append(store, &key(child), part).await;
            assert!(matches!(part, Err(StoreError::KnownInPart { .. })), "{told}: {part:?}");
            // The parent's events after the fork are not in the fork, and neither is a batch's key.
            let mine = append(store, &key(child), batch([named("three", "mine")])).await.unwrap();
            assert_eq!((mine.repeated, mine.first_position), (false, Position(2)), "{told}");
            let keyed = append(store, &key(child), keyed(batch([event("k")]))).await.unwrap();
            assert_eq!((keyed.repeated, keyed.first_position), (false, Position(3)), "{told}");
            for (id, at) in [("one", Some(0)), ("three", Some(2)), ("four", None)] {
                let found = store.find(&key(child), &EventId::new(id).unwrap()).await.unwrap();
                assert_eq!(found, at.map(Position), "{told}: {id}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_fork_with_the_same_key_returns_the_same_fork() {
    for engine in all() {
        let (store, name) = (&*engine.store, engine.name);
        create(store, "root").await;
        say(store, "root", &["a", "b"]).await;
        let ask = |at| NewSession {
            key: Some(BatchKey::new("fork-1").unwrap()),
            parent: Some(ForkPoint { session: key("root").session, at: Position(at) }),
            ..NewSession::default()
        };
        let (first, _) = store.create(&Scope::local(), ask(1)).await.unwrap();
        say(store, "root", &["c"]).await;
        // A point relative to the tail now has a later position.
        for at in [1, 2] {
            let (again, _) = store.create(&Scope::local(), ask(at)).await.unwrap();
            assert_eq!((again.key, again.tail), (first.key.clone(), Position(1)), "{name}");
        }
        let other = store.create(&Scope::local(), ask(0)).await;
        assert!(matches!(other, Err(StoreError::IdempotencyConflict { .. })), "{name}: {other:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn erasing_a_parent_removes_only_its_events_from_its_forks() {
    for engine in all() {
        let (store, name) = (&*engine.store, engine.name);
        create(store, "root").await;
        say(store, "root", &["a", "b"]).await;
        fork(store, "root", 1, "middle").await.unwrap();
        say(store, "middle", &["m", "n"]).await;
        fork(store, "middle", 3, "leaf").await.unwrap();
        say(store, "leaf", &["l"]).await;
        fork(store, "middle", 1, "beside").await.unwrap();
        let family = store.family(&key("middle"), 10).await.unwrap();
        assert_eq!((family.depth, family.forks), (1, 2), "{name}: said before it is done");
        store.erase(&key("middle")).await.unwrap();
        let refused = store.read(&key("leaf"), everything()).await;
        assert!(
            matches!(&refused, Err(StoreError::PrefixErased { range, .. })
                if *range == Range::new(Position(1), Position(3))),
            "{name}: {refused:?}"
        );
        let part = |from, to| ReadRequest {
            range: Range::new(Position(from), Position(to)),
            ..everything()
        };
        for (from, to, count) in [(0, 1, 1), (3, 4, 1), (3, 9, 1)] {
            let slice = store.read(&key("leaf"), part(from, to)).await.unwrap();
            assert_eq!(slice.events.len(), count, "{name}: {from}..{to}");
        }
        let gaps = ReadRequest { allow_gaps: true, ..everything() };
        let slice = store.read(&key("leaf"), gaps).await.unwrap();
        assert_eq!((slice.events.len(), slice.gaps.len()), (2, 1), "{name}");
        assert_eq!(words(store, "beside").await, ["a"], "{name}: it has nothing of it");
        say(store, "leaf", &["goes on"]).await;
        assert_eq!(words(store, "root").await, ["a", "b"], "{name}");
        let family = store.family(&key("leaf"), 10).await.unwrap();
        let told: Vec<_> = family.ancestors.iter().map(|one| (one.survival, one.at.0)).collect();
        assert_eq!(told, [(Survival::Erased, 3), (Survival::Alive, 1)], "{name}");
        let again = fork(store, "leaf", 2, "dark").await;
        assert!(again.is_err(), "{name}: what is erased is no place to begin: {again:?}");
    }
}

/// Runs days without requests, with the sweeps and flushes of each.
async fn days(sim: &Sim, store: &LocalStore, count: u32) {
    for _ in 0..count * 4 {
        sim.clock().advance(6 * HOUR);
        store.sweep().await.unwrap();
        (0..4).for_each(|_| store.flush().unwrap());
    }
}

#[test]
fn the_files_of_a_deleted_parent_are_kept_until_its_last_fork_is_removed() {
    for (seed, deleted) in [(1, true), (2, true), (3, false), (5, false)] {
        let told = format!("seed {seed}, deleted: {deleted}");
        let sim = machine(seed, seed % 2 == 1);
        runtime().block_on(async {
            let mut store = open(&sim);
            create(&store, "root").await;
            say(&store, "root", &["a", "b"]).await;
            fork(&store, "root", 2, "middle").await.unwrap();
            say(&store, "middle", &["m"]).await;
            fork(&store, "middle", 3, "leaf").await.unwrap();
            store.change(&key("leaf"), change(false, Some(true))).await.unwrap();
            (0..2).for_each(|_| store.flush().unwrap());
            if deleted {
                delete(&store, "middle").await;
                delete(&store, "root").await;
            }
            days(&sim, &store, 10).await;
            for stop in 0..4 {
                for gone in ["root", "middle"] {
                    let gone = store.info(&key(gone)).await;
                    let expected = match &gone {
                        Err(StoreError::SessionDeleted { .. }) => deleted,
                        Err(StoreError::SessionExpired { .. }) => !deleted,
                        _ => false,
                    };
                    assert!(expected, "{told}: {gone:?}");
                }
                assert_eq!(words(&store, "leaf").await.concat(), "abm", "{told}, stop {stop}");
                let verified = store.verify(&Scope::local(), None).await.unwrap();
                assert_eq!((verified.damage.len(), verified.sessions), (0, 3), "{told}");
                match stop {
                    0 => store.close().await,
                    1 => sim.kill(),
                    _ => sim.power_loss(),
                }
                drop(store);
                store = open(&sim);
                days(&sim, &store, 1).await;
            }
            store.change(&key("leaf"), change(false, Some(false))).await.unwrap();
            delete(&store, "leaf").await;
            // Each is removed with the last fork that needed it, after its grace.
            days(&sim, &store, 8).await;
            for gone in ["root", "middle", "leaf"] {
                let known = store.info(&key(gone)).await;
                assert!(
                    matches!(known, Err(StoreError::SessionNotFound { .. })),
                    "{told}: {known:?}"
                );
            }
            assert_eq!(segments(&sim), 0, "{told}: {:?}", sim.files());
        });
    }
    const { assert!(LIMIT.as_secs() + GRACE.as_secs() < 8 * 24 * 3_600) };
}

#[test]
fn journal_events_of_a_deleted_parent_are_flushed_for_its_forks() {
    let sim = Sim::new(7);
    runtime().block_on(async {
        let store = open(&sim);
        create(&store, "root").await;
        say(&store, "root", &["a"]).await;
        fork(&store, "root", 1, "leaf").await.unwrap();
        delete(&store, "root").await;
        (0..3).for_each(|_| store.flush().unwrap());
        assert_eq!(words(&store, "leaf").await, ["a"]);
        drop(store);
        sim.power_loss();
        let store = open(&sim);
        assert_eq!(words(&store, "leaf").await, ["a"]);
        delete(&store, "leaf").await;
        (0..4).for_each(|_| store.flush().unwrap());
        assert_eq!(segments(&sim), 0, "both go at once: {:?}", sim.files());
    });
}

/// Forks, writes to both sides, and deletes the parent; any call of it may fail.
fn interrupt_fork(encrypted: bool, case: Option<Nth>) -> u64 {
    let sim = machine(9, encrypted);
    let told = format!("encrypted: {encrypted}, {case:?}");
    runtime().block_on(async {
        let store = open(&sim);
        create(&store, "root").await;
        let text = "w".repeat(900);
        for _ in 0..8 {
            say(&store, "root", &[&text, "b"]).await;
        }
        store.flush().unwrap();
        let (first, life) = (sim.calls(), sim.lives());
        if let Some(case) = case {
            case.plan(&sim);
        }
        let forked = fork(&store, "root", 15, "child").await.is_ok();
        let said = append(&store, &key("child"), batch([event("\"mine\"")])).await.is_ok();
        let deleted = store.change(&key("root"), change(true, None)).await.is_ok();
        (0..3).for_each(|_| drop(store.flush()));
        store.close().await;
        let calls = sim.calls() - first;
        drop(store);
        sim.heal();
        if sim.lives() == life {
            sim.power_loss();
        }
        let store = open(&sim);
        assert_eq!(store.recovery().damage, Vec::<String>::new(), "{told}");
        match store.info(&key("child")).await {
            Err(error) => assert!(!forked, "{told}: {error}"),
            Ok(info) => {
                let events = events_of(&store, &key("child")).await;
                assert_eq!(info.tail.0, events.len() as u64, "{told}");
                let own = events.iter().filter(|event| &event.body[..] == b"\"mine\"").count();
                assert!(own == 1 || !said && own == 0, "{told}");
                assert_eq!(events.len(), 15 + own, "{told}");
            }
        }
        let root = store.info(&key("root")).await;
        assert!(!deleted || root.is_err(), "{told}");
        let verified = store.verify(&Scope::local(), None).await.unwrap();
        assert_eq!(verified.damage, [], "{told}");
        calls
    })
}

#[test]
fn an_interrupted_fork_is_complete_or_absent() {
    for encrypted in [false, true] {
        let calls = interrupt_fork(encrypted, None);
        assert!(calls > 20, "{calls} calls are hardly a fork and a deletion");
        for case in cases(calls, 13) {
            interrupt_fork(encrypted, Some(case));
        }
    }
}

#[test]
fn a_chain_of_a_thousand_forks_copies_nothing_and_reads_every_event() {
    const DEPTH: u64 = 1_000;
    let sim = Sim::new(11);
    runtime().block_on(async {
        let store = open(&sim);
        create(&store, "d0").await;
        let long = "x".repeat(2_000);
        for _ in 0..40 {
            say(&store, "d0", &[&long, &long]).await;
        }
        append(&store, &key("d0"), batch([named("first", "\"first\"")])).await.unwrap();
        store.flush().unwrap();
        let before = sim.used();
        for depth in 1..=DEPTH {
            let parent = format!("d{}", depth - 1);
            fork(&store, &parent, 80 + depth, &format!("d{depth}")).await.unwrap();
            say(&store, &format!("d{depth}"), &["own"]).await;
        }
        (0..2).for_each(|_| store.flush().unwrap());
        let grown = sim.used() - before;
        assert!(grown < DEPTH * 4_096, "{grown} bytes for {DEPTH} forks of 160 kB");
        for again in 0..2 {
            let deepest = key(&format!("d{DEPTH}"));
            let events = events_of(&store, &deepest).await;
            assert_eq!(events.len() as u64, 81 + DEPTH, "again {again}");
            let id = EventId::new("first").unwrap();
            assert_eq!(store.find(&deepest, &id).await.unwrap(), Some(Position(80)));
            fork(&store, deepest.session.as_str(), 7, &format!("low{again}")).await.unwrap();
            assert_eq!(words(&store, &format!("low{again}")).await.len(), 7);
            let family = store.family(&deepest, 10).await.unwrap();
            assert_eq!((family.depth, family.ancestors.len()), (DEPTH, 10));
            // From evicted sessions, too.
            sim.clock().advance(2 * HOUR);
            store.flush().unwrap();
        }
        let verified = store.verify(&Scope::local(), None).await.unwrap();
        assert_eq!(verified.damage, []);
        // Every ancestor was deleted: the last fork removes all of them, without deep recursion.
        for depth in 0..DEPTH {
            delete(&store, &format!("d{depth}")).await;
        }
        store.flush().unwrap();
        assert_eq!(events_of(&store, &key(&format!("d{DEPTH}"))).await.len() as u64, 81 + DEPTH);
        for last in [format!("d{DEPTH}"), "low0".to_owned(), "low1".to_owned()] {
            delete(&store, &last).await;
        }
        (0..4).for_each(|_| store.flush().unwrap());
        assert_eq!(segments(&sim), 0);
    });
}

#[test]
fn forks_are_read_while_their_parents_are_written_flushed_sealed_and_deleted() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let disk = Arc::new(sessionlog::env::disk::DataDir::open(&data).unwrap());
    let (env, _) = crate::engines::machine(disk);
    let store = Arc::new(LocalStore::open_local(&env, small()).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    runtime.block_on(async {
        create(&*store, "p0").await;
        let mut tasks = tokio::task::JoinSet::new();
        for round in 0..24_u64 {
            let parent = format!("p{round}");
            for n in 0..12 {
                say(&*store, &parent, &[&format!("{round}.{n} {}", "t".repeat(300))]).await;
            }
            let at =
                (12 * round + 1 + round % 12).min(store.info(&key(&parent)).await.unwrap().tail.0);
            // One fork is written to and deleted, the other is read and kept.
            let child = format!("r{round}");
            fork(&*store, &parent, at, &format!("p{}", round + 1)).await.unwrap();
            fork(&*store, &parent, at, &child).await.unwrap();
            let before = words(&*store, &child).await;
            for _ in 0..2 {
                let (store, child, before) = (Arc::clone(&store), child.clone(), before.clone());
                tasks.spawn(async move {
                    for _ in 0..20 {
                        let now = words(&*store, &child).await;
                        assert_eq!(now[..before.len()], before, "{child}");
                    }
                });
            }
            let flusher = Arc::clone(&store);
            tasks.spawn_blocking(move || flusher.flush().unwrap());
            delete(&*store, &parent).await;
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        store.close().await;
    });
}

/// One client's requests, sent to the engine and to the model; the engine stops in between. The
/// same seed sends the same requests.
struct Twins {
    sim: Sim,
    local: LocalStore,
    model: Model,
    dice: SeededEntropy,
    sessions: Vec<String>,
    ids: u64,
}

impl Twins {
    fn new(seed: u64) -> Self {
        let sim = machine(seed, seed % 2 == 1);
        let env = sim.env();
        let model = Model::new(env.clock.clone(), Arc::new(SeededEntropy::new(seed)));
        let local = LocalStore::open_local(&env, small()).unwrap();
        let dice = SeededEntropy::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1);
        Self { sim, local, model, dice, sessions: Vec::new(), ids: 0 }
    }

    fn below(&self, bound: u64) -> u64 {
        self.dice.next() % bound.max(1)
    }

    fn any(&self) -> Option<String> {
        let count = self.sessions.len() as u64;
        (count > 0).then(|| self.sessions[usize::try_from(self.below(count)).unwrap()].clone())
    }

    /// Returns a batch; some of its ids were used before, in this session or in others.
    fn batch(&mut self) -> Batch {
        let mut seen = Vec::new();
        let events = (0..1 + self.below(3)).map(|_| {
            let size = usize::try_from(self.below(400)).unwrap();
            let body = format!("\"{}{}\"", self.below(3), "b".repeat(size));
            self.ids += 1;
            let id = if self.below(4) == 0 { self.below(self.ids) } else { self.ids };
            let fresh = !seen.contains(&id) && self.below(3) > 0;
            seen.push(id);
            if fresh { named(&format!("e{id}"), &format!("\"{id}\"")) } else { event(&body) }
        });
        let events: Vec<_> = events.collect();
        let key =
            (self.below(6) == 0).then(|| BatchKey::new(&format!("k{}", self.below(5))).unwrap());
        Batch { key, ..batch(events) }
    }

    async fn request(&mut self, told: &str) {
        let few = self.sessions.len() < 3;
        let Some(session) = self.any().filter(|_| !few) else {
            let name = format!("s{}", self.sessions.len());
            create(&self.local, &name).await;
            create(&self.model, &name).await;
            return self.sessions.push(name);
        };
        match self.below(24) {
            0..=3 if self.sessions.len() < 12 => {
                let name = format!("s{}", self.sessions.len());
                let tail = self.model.info(&key(&session)).await.map_or(3, |info| info.tail.0);
                let at = self.below(tail + 2);
                let mine = fork(&self.local, &session, at, &name).await;
                let theirs = fork(&self.model, &session, at, &name).await;
                same(&mine, &theirs, told, |info| {
                    (info.tail, info.bytes, info.forked_from.clone())
                });
                if mine.is_ok() {
                    self.sessions.push(name);
                }
            }
            4 if self.below(3) == 0 => {
                let asked = change(true, None);
                let mine = self.local.change(&key(&session), asked.clone()).await;
                let theirs = self.model.change(&key(&session), asked).await;
                same(&mine, &theirs, told, |_| ());
            }
            5 if self.below(6) == 0 => {
                let mine = self.local.erase(&key(&session)).await;
                let theirs = self.model.erase(&key(&session)).await;
                same(&mine, &theirs, told, |()| ());
            }
            6 | 7 => self.local.flush().unwrap(),
            8 => self.sim.clock().advance(HOUR / 4),
            9 => {
                let clean = self.below(2) == 0;
                if clean {
                    self.local.close().await;
                } else {
                    self.sim.power_loss();
                }
                // The lock is released first.
                let (other, sim) = (Sim::new(1), self.sim.clone());
                self.local = LocalStore::open_local(&other.env(), small()).unwrap();
                self.local = LocalStore::open_local(&sim.env(), small()).unwrap();
                assert_eq!(self.local.recovery().damage, Vec::<String>::new(), "{told}");
            }
            10..=15 => self.read(&session, told).await,
            _ => {
                let sent = self.batch();
                let mine = append(&self.local, &key(&session), sent.clone()).await;
                let theirs = append(&self.model, &key(&session), sent).await;
                same(&mine, &theirs, told, |answer| {
                    (answer.first_position, answer.next_position, answer.repeated)
                });
            }
        }
    }

    async fn read(&mut self, session: &str, told: &str) {
        let tail = self.model.info(&key(session)).await.map_or(3, |info| info.tail.0);
        let from = self.below(tail + 1);
        let to = from + self.below(tail + 3 - from);
        let fill =
            if self.below(2) == 0 { FillDirection::Forward } else { FillDirection::Backward };
        let read = ReadRequest {
            range: Range::new(Position(from), Position(to)),
            events_max: usize::try_from(1 + self.dice.next() / 7 % 8).unwrap(),
            bytes_max: usize::try_from(1 + self.below(3_000)).unwrap(),
            fill,
            allow_gaps: self.below(3) == 0,
        };
        let mine = self.local.read(&key(session), read).await;
        let theirs = self.model.read(&key(session), read).await;
        // The engine reports the erased part only once a read reaches it.
        let early = matches!(theirs, Err(StoreError::PrefixErased { .. })) && mine.is_ok();
        if !early {
            let told = format!("{told}, {session}: {read:?}");
            same(&mine, &theirs, &told, |slice| {
                let events = slice.events.iter();
                events.map(|event| (event.position, event.body.clone())).collect::<Vec<_>>()
            });
        }
        let id = EventId::new(&format!("e{}", self.below(self.ids + 1))).unwrap();
        let mine = self.local.find(&key(session), &id).await;
        let theirs = self.model.find(&key(session), &id).await;
        same(&mine, &theirs, &format!("{told}, {session}: {id}"), |at| *at);
    }
}

/// Checks that both return the same, or fail for the same reason.
#[track_caller]
fn same<T, U: PartialEq + std::fmt::Debug>(
    mine: &StoreResult<T>,
    theirs: &StoreResult<T>,
    told: &str,
    what: impl Fn(&T) -> U,
) {
    match (mine, theirs) {
        (Ok(mine), Ok(theirs)) => assert_eq!(what(mine), what(theirs), "{told}"),
        (Err(mine), Err(theirs)) => {
            let kinds = (std::mem::discriminant(mine), std::mem::discriminant(theirs));
            assert_eq!(kinds.0, kinds.1, "{told}: {mine} and not {theirs}");
        }
        (Ok(_), Err(theirs)) => panic!("{told}: the model refuses: {theirs}"),
        (Err(mine), Ok(_)) => panic!("{told}: {mine}"),
    }
}

#[test]
fn the_engine_and_the_model_agree_on_random_requests_to_forks() {
    for seed in seeds(40) {
        runtime().block_on(async {
            let mut twins = Twins::new(seed);
            for request in 0..220 {
                twins.request(&format!("seed {seed}, request {request}")).await;
            }
            let verified = twins.local.verify(&Scope::local(), None).await.unwrap();
            assert_eq!(verified.damage, [], "seed {seed}");
        });
    }
}
