//! Unused sessions: their remains in memory and on disk, and that clients see no difference.

use std::{
    io::{self, Read as _, Write as _},
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use sessionlog::{
    env::{DirEntry, Env, File, Lock, Storage, clock::SystemClock},
    event::{Batch, Position, Scope},
    store::{
        Listing, Maintain, NewSession, SessionUpdate, Store,
        local::{LocalStore, StoreOptions},
    },
};
use sessionlog_sim::{Fault, Op, Sim};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use crate::engines::{append, batch, create, event, events_of, key, named, small};

const LONG: Duration = Duration::from_secs(3_600);

fn body(n: usize, bytes: usize) -> String {
    format!("{{\"n\":{n},\"pad\":\"{}\"}}", "the quick brown fox ".repeat(bytes / 20))
}

/// Flushes until nothing is pending, and evicts every idle session.
fn flush(store: &LocalStore) {
    for _ in 0..4 {
        store.flush().unwrap();
    }
}

fn files(sim: &Sim, end: &str) -> usize {
    sim.files().iter().filter(|name| name.ends_with(end)).count()
}

#[tokio::test]
async fn an_evicted_session_behaves_as_a_loaded_one() {
    let sim = Sim::new(11);
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    let (mut listed, mut events) = (Vec::new(), Vec::new());
    for n in 0..40_usize {
        let name = format!("s{n}");
        let new = NewSession {
            id: Some(key(&name).session),
            title: Some(format!("title {n}")),
            workspace: (n % 3 == 0).then(|| "/w".to_owned()),
            metadata: [("n".to_owned(), n.to_string())].into(),
            events: batch([named("first", &body(n, 100)), event(&body(n, 900))]),
            ..NewSession::default()
        };
        store.create(&Scope::local(), new).await.unwrap();
        sim.clock().advance(Duration::from_millis(3));
        match n % 10 {
            1 => {
                let change = SessionUpdate { archive: Some(true), ..SessionUpdate::default() };
                store.change(&key(&name), change).await.unwrap();
            }
            2 => {
                let change = SessionUpdate { discard: true, ..SessionUpdate::default() };
                store.change(&key(&name), change).await.unwrap();
            }
            _ => events.push((name.clone(), events_of(&store, &key(&name)).await)),
        }
    }
    let workspace = Some("/w".to_owned());
    let pages = [
        Listing::default(),
        Listing { limit: 7, ascending: true, ..Listing::default() },
        Listing { workspace, include_archived: true, ..Listing::default() },
    ];
    for page in &pages {
        listed.push(store.list(&Scope::local(), page.clone()).await.unwrap());
    }
    let names: Vec<_> = listed[1].sessions.iter().map(|info| info.key.session.as_str()).collect();
    assert_eq!(names, ["s0", "s3", "s4", "s5", "s6", "s7", "s8"], "the oldest, by creation");
    sim.clock().advance(LONG);
    flush(&store);
    for restart in [false, true] {
        let store = match restart {
            false => &store,
            true => {
                sim.kill();
                &LocalStore::open_local(&sim.env(), small()).unwrap()
            }
        };
        for (page, listed) in pages.iter().zip(&listed) {
            assert_eq!(store.list(&Scope::local(), page.clone()).await.unwrap(), *listed);
        }
        for (name, events) in &events {
            assert_eq!(events_of(store, &key(name)).await, *events, "{name}");
            let again = append(store, &key(name), batch([named("first", &body(0, 1))])).await;
            assert!(again.is_err(), "its names are known: {again:?}");
        }
        assert!(store.info(&key("s2")).await.is_err(), "it was deleted");
        let verified = store.verify(&Scope::local(), None).await.unwrap();
        assert_eq!((verified.sessions, verified.damage.len()), (36, 0));
        flush(store);
    }
}

#[tokio::test]
async fn an_idle_session_is_sealed_once_that_saves_space() {
    let sim = Sim::new(12);
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    for (name, bytes) in [("tiny", 200), ("small", 2_000)] {
        create(&store, name).await;
        for n in 0..5 {
            append(&store, &key(name), batch([event(&body(n, bytes))])).await.unwrap();
        }
    }
    flush(&store);
    assert_eq!((files(&sim, ".seg"), files(&sim, ".sealed")), (2, 0), "they are in use");
    sim.clock().advance(LONG);
    flush(&store);
    assert_eq!((files(&sim, ".seg"), files(&sim, ".sealed")), (1, 1), "{:?}", sim.files());
    for name in ["tiny", "small"] {
        assert_eq!(events_of(&store, &key(name)).await.len(), 5);
        append(&store, &key(name), batch([event("{}")])).await.unwrap();
        assert_eq!(events_of(&store, &key(name)).await.len(), 6);
    }
    assert_eq!(store.verify(&Scope::local(), None).await.unwrap().damage, []);
}

#[tokio::test]
async fn an_occasionally_written_session_stays_in_few_segments() {
    let sim = Sim::new(13);
    let mut expected = 0;
    for start in 0..12 {
        let store = LocalStore::open_local(&sim.env(), small()).unwrap();
        if start == 0 {
            create(&store, "s").await;
        }
        for n in 0..6 {
            append(&store, &key("s"), batch([event(&body(n, 900))])).await.unwrap();
            expected += 1;
            sim.clock().advance(LONG);
            flush(&store);
        }
        assert_eq!(events_of(&store, &key("s")).await.len(), expected);
        assert_eq!(store.verify(&Scope::local(), None).await.unwrap().damage, []);
        store.close().await;
    }
    let names: Vec<_> = sim.files().into_iter().filter(|name| name.starts_with("seg")).collect();
    assert!(names.len() <= 6, "{names:?}");
}

#[tokio::test]
async fn a_clean_stop_seals_every_open_segment() {
    let sim = Sim::new(14);
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    for n in 0..50 {
        let name = format!("s{n}");
        create(&store, &name).await;
        append(&store, &key(&name), batch((0..9).map(|n| event(&body(n, 900))))).await.unwrap();
    }
    store.close().await;
    drop(store);
    assert_eq!((files(&sim, ".seg"), files(&sim, ".sealed")), (0, 50));
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    let verified = store.verify(&Scope::local(), None).await.unwrap();
    assert_eq!((verified.sessions, verified.events, verified.damage.len()), (50, 450, 0));
}

/// A segment flushed for a change alone has the name of the next one, so it is not sealed.
#[tokio::test]
async fn an_append_during_sealing_keeps_every_event() {
    let sim = Sim::new(22);
    let change =
        || SessionUpdate { title: Some(Some("another".to_owned())), ..SessionUpdate::default() };
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    create(&store, "s").await;
    append(&store, &key("s"), batch((0..9).map(|n| event(&body(n, 900))))).await.unwrap();
    flush(&store);
    sim.kill();
    drop(store);
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    store.change(&key("s"), change()).await.unwrap();
    store.flush().unwrap();
    sim.clock().advance(LONG);
    store.flush().unwrap();
    append(&store, &key("s"), batch([event(&body(9, 900))])).await.unwrap();
    flush(&store);
    assert_eq!(events_of(&store, &key("s")).await.len(), 10);
    sim.power_loss();
    drop(store);
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    assert_eq!(store.recovery().damage, Vec::<String>::new());
    assert_eq!(events_of(&store, &key("s")).await.len(), 10);
    assert_eq!(store.verify(&key("s").scope, None).await.unwrap().damage, []);
}

#[tokio::test]
async fn a_stop_is_clean_although_sealing_fails() {
    let sim = Sim::new(21);
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    create(&store, "s").await;
    append(&store, &key("s"), batch((0..9).map(|n| event(&body(n, 900))))).await.unwrap();
    flush(&store);
    assert_eq!(events_of(&store, &key("s")).await.len(), 9, "it is in use");
    sim.fail_next(Op::Create, Fault::Full, false);
    store.close().await;
    drop(store);
    assert!(sim.struck() && files(&sim, ".seg") == 1, "{:?}", sim.files());
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    assert!(store.recovery().clean);
    assert_eq!(events_of(&store, &key("s")).await.len(), 9);
}

#[tokio::test]
async fn a_failed_sealing_leaves_sessions_unchanged() {
    for (op, fault) in [
        (Op::Create, Fault::Full),
        (Op::Write, Fault::Full),
        (Op::Sync, Fault::Io),
        (Op::SyncDir, Fault::Io),
        (Op::SyncAll, Fault::Io),
        (Op::OpenRead, Fault::Io),
    ] {
        for count in [1, 40] {
            let sim = Sim::new(15);
            let store = LocalStore::open_local(&sim.env(), small()).unwrap();
            for n in 0..count {
                let name = format!("s{n}");
                create(&store, &name).await;
                let events = batch((0..9).map(|n| event(&body(n, 900))));
                append(&store, &key(&name), events).await.unwrap();
            }
            flush(&store);
            sim.clock().advance(LONG);
            sim.fail_next(op, fault, false);
            // Either sealing fails, or recording it.
            let _ = store.flush();
            sim.heal();
            flush(&store);
            let what = format!("{op:?} {count}");
            let strikes = match op {
                Op::SyncAll => count > 1,
                Op::Sync | Op::SyncDir => count == 1,
                _ => true,
            };
            assert_eq!(sim.struck(), strikes, "{what}");
            assert_eq!((files(&sim, ".seg"), files(&sim, ".sealed")), (0, count), "{what}");
            sim.power_loss();
            drop(store);
            let store = LocalStore::open_local(&sim.env(), small()).unwrap();
            let verified = store.verify(&Scope::local(), None).await.unwrap();
            let found = (verified.events, verified.damage.len());
            assert_eq!(found, (9 * count as u64, 0), "{what}");
        }
    }
}

#[tokio::test]
async fn a_session_that_cannot_be_sealed_does_not_keep_others_open() {
    let sim = Sim::new(23);
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    for n in 0..3 {
        let name = format!("s{n}");
        create(&store, &name).await;
        append(&store, &key(&name), batch((0..9).map(|n| event(&body(n, 900))))).await.unwrap();
    }
    flush(&store);
    let of_one = sim.files().into_iter().find(|path| path.ends_with(".seg")).unwrap();
    sim.fail_writing(of_one.split_once('-').unwrap().0, Fault::Io);
    sim.clock().advance(LONG);
    flush(&store);
    assert!(sim.struck());
    assert_eq!((files(&sim, ".seg"), files(&sim, ".sealed")), (1, 2), "{:?}", sim.files());
    sim.heal();
    flush(&store);
    assert_eq!((files(&sim, ".seg"), files(&sim, ".sealed")), (0, 3), "{:?}", sim.files());
}

/// A request without effect is not a write: a retry, a position that was taken, a frame that
/// failed.
#[tokio::test]
async fn requests_that_change_nothing_do_not_keep_a_session_loaded() {
    let sim = Sim::new(24);
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    let names = ["retried", "refused", "failed"];
    for name in names {
        create(&store, name).await;
        append(&store, &key(name), batch([named("first", &body(0, 900))])).await.unwrap();
    }
    flush(&store);
    append(&store, &key("retried"), batch([named("first", &body(0, 900))])).await.unwrap();
    let taken = Batch { if_position: Some(Position(0)), ..batch([event("{}")]) };
    append(&store, &key("refused"), taken).await.unwrap_err();
    sim.fail_next(Op::Sync, Fault::Io, false);
    append(&store, &key("failed"), batch([event("{}")])).await.unwrap_err();
    sim.heal();
    sim.clock().advance(LONG);
    flush(&store);
    for name in names {
        let opened = || {
            let trace = sim.trace();
            trace.iter().filter(|call| call.op == Op::OpenRead).count()
        };
        let before = opened();
        assert_eq!(events_of(&store, &key(name)).await.len(), 1, "{name}");
        assert!(opened() > before, "{name} was not at rest: its file was open still");
    }
}

/// After kills and stops in turn, either settled file is removed at every start: the other one and
/// the journal must restore every session.
#[tokio::test]
async fn either_settled_file_is_sufficient_at_every_start() {
    for seed in 0..4 {
        let sim = Sim::new(100 + seed);
        let mut tails = vec![0; 30];
        for round in 0..12_usize {
            let store = LocalStore::open_local(&sim.env(), small()).unwrap();
            for n in 0..6 {
                let at = (round * 5 + n * (seed as usize + 1)) % tails.len();
                let name = format!("s{at}");
                if tails[at] == 0 {
                    create(&store, &name).await;
                }
                append(&store, &key(&name), batch([event(&body(n, 300))])).await.unwrap();
                tails[at] += 1;
                if (n + round) % 4 == 0 {
                    store.flush().unwrap();
                }
            }
            match round % 3 {
                0 => store.close().await,
                1 => sim.kill(),
                _ => sim.power_loss(),
            }
            drop(store);
            for gone in ["settled/0", "settled/1"] {
                let copy = Sim::new(1);
                for path in sim.files().iter().filter(|path| *path != gone) {
                    if let Some(bytes) = sim.read_durable(path) {
                        copy.write_durable(path, 0, &bytes);
                    }
                }
                let store = LocalStore::open_local(&copy.env(), small()).unwrap();
                for (n, tail) in tails.iter().enumerate().filter(|(_, tail)| **tail > 0) {
                    let info = store.info(&key(&format!("s{n}"))).await.unwrap();
                    let what = format!("seed {seed}, round {round}, without {gone}: s{n}");
                    assert_eq!((info.tail, info.damage.len()), (Position(*tail), 0), "{what}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_base_of_many_parts_round_trips() {
    let sim = Sim::new(16);
    let long = "x".repeat(500);
    let store = LocalStore::open_local(
        &sim.env(),
        StoreOptions { background: false, ..StoreOptions::default() },
    );
    let store = store.unwrap();
    for n in 0..700 {
        let metadata = (0..16).map(|key| (format!("k{key}"), long.clone())).collect();
        let id = Some(key(&format!("s{n}")).session);
        let new = NewSession { id, metadata, ..NewSession::default() };
        store.create(&Scope::local(), new).await.unwrap();
    }
    // Deltas outgrow their base: the next base is rewritten, in both files.
    for round in 0..5 {
        for n in 0..700 {
            let change =
                SessionUpdate { title: Some(Some(format!("{round}"))), ..SessionUpdate::default() };
            store.change(&key(&format!("s{n}")), change).await.unwrap();
        }
        store.flush().unwrap();
    }
    let bytes = sim.read_durable("settled/0").unwrap().len();
    assert!((5 << 20..20 << 20).contains(&bytes), "a base was written anew: {bytes}");
    store.close().await;
    drop(store);
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    let page = Listing { limit: 1_000, ..Listing::default() };
    let listed = store.list(&Scope::local(), page).await.unwrap().sessions;
    assert_eq!(listed.len(), 700);
    let whole = |title: &Option<String>, pairs: usize| (title.as_deref(), pairs) == (Some("4"), 16);
    assert!(listed.iter().all(|info| whole(&info.title, info.metadata.len())));
}

#[tokio::test]
async fn an_event_id_resolves_with_or_without_an_id_table_in_its_segment() {
    let sim = Sim::new(18);
    let counts = [("one block", 50), ("two blocks", 70)];
    let session = |name: &str| key(&name.replace(' ', "-"));
    let named = |n: usize| named(&format!("e{n}"), &body(n, 300));
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    for (name, count) in counts {
        create(&store, session(name).session.as_str()).await;
        for n in 0..count {
            append(&store, &session(name), batch([named(n)])).await.unwrap();
        }
    }
    // Once sealed while its ids are in memory, and once loaded from disk.
    let mut store = Some(store);
    for kept in [true, false] {
        let open = store.take().unwrap();
        let open = match kept {
            true => open,
            false => {
                open.close().await;
                drop(open);
                LocalStore::open_local(&sim.env(), small()).unwrap()
            }
        };
        for (name, count) in counts {
            for n in 0..count {
                let again = append(&open, &session(name), batch([named(n)])).await.unwrap();
                assert!(again.repeated, "{name}: e{n}");
                assert_eq!(again.first_position, Position(n as u64), "{name}");
            }
        }
        flush(&open);
        sim.clock().advance(LONG);
        flush(&open);
        store = Some(open);
    }
    assert_eq!((files(&sim, ".seg"), files(&sim, ".sealed")), (0, 2), "{:?}", sim.files());
}

/// A base names every session, and the older file was not written since: a start cannot determine
/// which entries the older one is missing, and rewrites it.
#[tokio::test]
async fn the_other_settled_file_is_rewritten_after_a_kill_during_a_new_base() {
    let sim = Sim::new(19);
    let long = "x".repeat(500);
    let options = StoreOptions { background: false, ..StoreOptions::default() };
    let store = LocalStore::open_local(&sim.env(), options).unwrap();
    for n in 0..150 {
        let metadata = (0..16).map(|key| (format!("k{key}"), long.clone())).collect();
        let id = Some(key(&format!("s{n}")).session);
        let new = NewSession { id, metadata, ..NewSession::default() };
        store.create(&Scope::local(), new).await.unwrap();
    }
    let retitle = async |store: &LocalStore, n: usize, title: &str| {
        let change =
            SessionUpdate { title: Some(Some(title.to_owned())), ..SessionUpdate::default() };
        store.change(&key(&format!("s{n}")), change).await.unwrap();
    };
    let mut based = 0;
    for round in 0..8 {
        let lengths = ["settled/0", "settled/1"].map(|path| sim.read_durable(path).unwrap().len());
        for n in 0..150 {
            retitle(&store, n, &round.to_string()).await;
        }
        store.flush().unwrap();
        for (path, before) in ["settled/0", "settled/1"].into_iter().zip(lengths) {
            if sim.read_durable(path).unwrap().len() >= before {
                continue;
            }
            based += 1;
            let copy = Sim::new(20);
            for file in sim.files() {
                copy.write_durable(&file, 0, &sim.read_durable(&file).unwrap());
            }
            let again = LocalStore::open_local(&copy.env(), options).unwrap();
            retitle(&again, 0, "last").await;
            again.flush().unwrap();
            copy.kill();
            drop(again);
            copy.remove_durable(path);
            let again = LocalStore::open_local(&copy.env(), options).unwrap();
            for n in 0..150 {
                let title = again.info(&key(&format!("s{n}"))).await.unwrap().title;
                let wanted = if n == 0 { "last".to_owned() } else { round.to_string() };
                assert_eq!(title, Some(wanted), "s{n} without {path}, round {round}");
            }
        }
    }
    assert!(based > 0, "a base was written anew");
}

/// A storage that creates and opens some files for reading only while the gate is open.
pub struct Gated {
    inner: Arc<dyn Storage>,
    /// Prefix of the paths that wait.
    of: &'static str,
    gate: Mutex<Gate>,
    moved: Condvar,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Gate {
    Down,
    SomebodyWaits,
    Up,
}

impl Gated {
    pub fn new(inner: Arc<dyn Storage>, of: &'static str, gate: Gate) -> Arc<Self> {
        Arc::new(Self { inner, of, gate: Mutex::new(gate), moved: Condvar::new() })
    }

    /// Waits until the gate is open, if the path is one of those.
    fn pass(&self, path: &str) {
        if path.starts_with(self.of) && *self.gate.lock().unwrap() == Gate::Down {
            self.set(Gate::SomebodyWaits);
            self.wait(Gate::Up);
        }
    }

    pub fn set(&self, gate: Gate) {
        *self.gate.lock().unwrap() = gate;
        self.moved.notify_all();
    }

    pub fn wait(&self, wanted: Gate) {
        let other = |gate: &mut Gate| *gate != wanted;
        drop(self.moved.wait_while(self.gate.lock().unwrap(), other).unwrap());
    }
}

impl Storage for Gated {
    fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
        self.pass(path);
        self.inner.create(path)
    }
    fn open(&self, path: &str) -> io::Result<Box<dyn File>> {
        self.inner.open(path)
    }
    fn open_read(&self, path: &str) -> io::Result<Box<dyn File>> {
        self.pass(path);
        self.inner.open_read(path)
    }
    fn list(&self, directory: &str) -> io::Result<Vec<DirEntry>> {
        self.inner.list(directory)
    }
    fn create_dir(&self, directory: &str) -> io::Result<()> {
        self.inner.create_dir(directory)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }
    fn remove(&self, path: &str) -> io::Result<()> {
        self.inner.remove(path)
    }
    fn sync_dir(&self, directory: &str) -> io::Result<()> {
        self.inner.sync_dir(directory)
    }
    fn sync_all(&self) -> io::Result<()> {
        self.inner.sync_all()
    }
    fn lock(&self) -> io::Result<Option<Box<dyn Lock>>> {
        self.inner.lock()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_being_loaded_does_not_block_others() {
    let sim = Sim::new(17);
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    create(&store, "s").await;
    append(&store, &key("s"), batch([event("{}")])).await.unwrap();
    store.close().await;
    drop(store);
    let gated = Gated::new(sim.env().storage, "segments", Gate::Down);
    let store = LocalStore::open(&Env { storage: gated.clone(), ..sim.env() }, small()).unwrap();
    let reader = tokio::spawn({
        let store = Arc::clone(&store);
        async move { events_of(&*store, &key("s")).await.len() }
    });
    tokio::task::block_in_place(|| gated.wait(Gate::SomebodyWaits));
    assert_eq!(store.info(&key("s")).await.unwrap().tail, Position(1));
    assert_eq!(store.list(&Scope::local(), Listing::default()).await.unwrap().sessions.len(), 1);
    gated.set(Gate::Up);
    assert_eq!(reader.await.unwrap(), 1);
}

/// Serves sockets: each byte received is answered by one, after an append with `stores`.
async fn serve_bytes(listener: TcpListener, store: Option<Arc<LocalStore>>) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut n = 0;
    while let Ok(byte) = stream.read_u8().await {
        if let Some(store) = &store {
            append(&**store, &key("s"), batch([event(&body(n, 2_000))])).await.unwrap();
        }
        stream.write_u8(byte).await.unwrap();
        n += 1;
    }
}

/// Sends one byte and waits for the answer; fails after a minute.
fn call_socket(stream: &mut std::net::TcpStream) {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(&[1]).unwrap();
    stream.read_exact(&mut [0]).unwrap();
}

#[test]
fn sockets_are_served_while_a_write_stalls_on_one_worker_or_two() {
    for workers in [1, 2] {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(workers).enable_all().build().unwrap();
        let sim = Sim::new(18);
        let gated = Gated::new(sim.env().storage, "journal", Gate::Up);
        // Only a clock that runs shows a stall.
        let clock = Arc::new(SystemClock::new());
        let env = Env { storage: gated.clone(), clock, ..sim.env() };
        let options = StoreOptions { background: true, ..small() };
        let store = Arc::new(LocalStore::open_local(&env, options).unwrap());
        let serve = |stores: bool| {
            let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
            let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            runtime.spawn(serve_bytes(listener, stores.then(|| Arc::clone(&store))));
            stream
        };
        runtime.block_on(create(&*store, "s"));
        let (mut writes, mut other) = (serve(true), serve(false));
        // Until the journal counts the disk as quick.
        (0..40).for_each(|_| call_socket(&mut writes));
        call_socket(&mut other);
        gated.set(Gate::Down);
        std::thread::scope(|scope| {
            scope.spawn(move || (0..200).for_each(|_| call_socket(&mut writes)));
            // An append needs the next file of the journal.
            gated.wait(Gate::SomebodyWaits);
            let gate = scope.spawn(move || call_socket(&mut other)).join();
            gated.set(Gate::Up);
            assert!(gate.is_ok(), "{workers} workers: a socket was not served");
        });
        runtime.block_on(store.close());
    }
}
