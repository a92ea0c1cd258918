//! The engines under test and the shared functions of store tests. It must not assert anything
//! about an engine.

use std::sync::Arc;

use crate::{by_turns::ByTurns, servers};
use bytes::Bytes;
use futures_util::FutureExt;
use sessionlog::{
    env::{Entropy, Env, MasterKeys, disk::DataDir},
    event::{
        Batch, Event, EventId, EventType, NewEvent, Origin, Position, Range, Scope, SessionId,
        SessionKey, TenantId,
    },
    store::{
        AppendResult, FillDirection, Lifetimes, NewSession, ReadRequest, Store, StoreResult,
        local::{LocalStore, StoreOptions},
        remote::{MemoryBase, PostgresUrl, RemoteOptions, RemoteStore},
    },
};
use sessionlog_sim::{ManualClock, SeededEntropy, Sim, model::Model};

/// A store and its clock.
pub struct Engine {
    pub name: &'static str,
    pub store: Arc<dyn Store>,
    pub clock: Arc<ManualClock>,
    /// Removed with its store.
    _home: Option<tempfile::TempDir>,
}

/// Returns options with small files, for short tests of rotation; nothing runs in the background.
pub fn small() -> StoreOptions {
    StoreOptions {
        journal_file_bytes: 32 << 10,
        journal_retained_bytes: 128 << 10,
        segment_bytes_max: 16 << 10,
        settle_after: std::time::Duration::from_secs(5),
        scrub_every: std::time::Duration::ZERO,
        warm_bytes_max: 16 << 10,
        compression: true,
        lifetimes: Lifetimes::default(),
        background: false,
    }
}

/// Returns every engine, empty, except those on a server.
pub fn all() -> Vec<Engine> {
    let home = tempfile::tempdir().unwrap();
    let disk = Arc::new(DataDir::open(&home.path().join("data")).unwrap());
    let (simulated, sim_clock) = machine(Sim::new(2).env().storage);
    let (real, real_clock) = machine(disk);
    let (machine_of, keys) = (Sim::new(4).env(), Sim::encrypted(4).env().keys);
    let (encrypted, encrypted_clock) = machine(machine_of.storage);
    let encrypted = encrypted.with_keys(keys);
    let (memory, memory_clock) = machine(Sim::new(1).env().storage);
    let local = |env: &Env, options| LocalStore::open(env, options).unwrap();
    vec![
        Engine {
            name: "model",
            store: Arc::new(Model::new(memory.clock, memory.entropy)),
            clock: memory_clock,
            _home: None,
        },
        Engine {
            name: "local, on the simulated disk",
            store: local(&simulated, small()),
            clock: sim_clock,
            _home: None,
        },
        Engine {
            name: "local, encrypted",
            store: local(&encrypted, small()),
            clock: encrypted_clock,
            _home: None,
        },
        Engine {
            name: "local, on the real disk",
            store: local(&real, StoreOptions::default()),
            clock: real_clock,
            _home: Some(home),
        },
        nodes("remote, in memory", 1, None),
        nodes("remote, in memory, two nodes by turns", 2, None),
        nodes("remote, in memory, encrypted, two nodes by turns", 2, master_keys()),
    ]
}

/// Opens a node of the base with these master keys.
pub fn open_node(
    base: &MemoryBase,
    clock: &Arc<ManualClock>,
    entropy: Arc<dyn Entropy>,
    keys: Option<Arc<MasterKeys>>,
) -> StoreResult<RemoteStore> {
    let options = RemoteOptions { keys, ..RemoteOptions::default() };
    let opened = RemoteStore::open_memory(base, clock.clone(), entropy, options);
    opened.now_or_never().expect("a base in memory replies at once")
}

/// Returns the master keys of encrypted engines.
pub fn master_keys() -> Option<Arc<MasterKeys>> {
    Sim::encrypted(4).env().keys
}

/// Returns a node of the database at an address.
pub async fn postgres_node(
    address: &str,
    clock: &Arc<ManualClock>,
    seed: u64,
) -> StoreResult<RemoteStore> {
    keyed_postgres_node(address, clock, seed, None).await
}

/// Returns a node of the database at an address with these master keys.
pub async fn keyed_postgres_node(
    address: &str,
    clock: &Arc<ManualClock>,
    seed: u64,
    keys: Option<Arc<MasterKeys>>,
) -> StoreResult<RemoteStore> {
    let url = PostgresUrl::parse(address).unwrap();
    let entropy = Arc::new(SeededEntropy::new(seed));
    let options = RemoteOptions { keys, ..RemoteOptions::default() };
    RemoteStore::open_postgres(&url, clock.clone(), entropy, options).await
}

/// Returns every engine, empty, with those on a server, if one is installed.
pub async fn with_servers() -> Vec<Engine> {
    let mut engines = all();
    for (name, nodes, keys) in [
        ("remote, on PostgreSQL", 1, None),
        ("remote, two nodes on PostgreSQL", 2, None),
        ("remote, two nodes on PostgreSQL, encrypted", 2, master_keys()),
    ] {
        engines.extend(on_postgres(name, nodes, keys).await);
    }
    engines
}

/// Returns an engine of so many nodes over one database, if a server is installed.
pub async fn on_postgres(
    name: &'static str,
    count: u64,
    keys: Option<Arc<MasterKeys>>,
) -> Option<Engine> {
    let address = servers::postgres()?.address("");
    let clock = Arc::new(ManualClock::default());
    let mut nodes: Vec<Arc<dyn Store>> = Vec::new();
    for n in 0..count {
        let node = keyed_postgres_node(&address, &clock, 9 + n, keys.clone()).await;
        nodes.push(Arc::new(node.unwrap()));
    }
    Some(Engine { name, store: Arc::new(ByTurns::new(nodes)), clock, _home: None })
}

/// Returns an engine of so many nodes over one base in memory.
fn nodes(name: &'static str, count: u64, keys: Option<Arc<MasterKeys>>) -> Engine {
    let (base, clock) = (MemoryBase::default(), Arc::new(ManualClock::default()));
    let node = |n| -> Arc<dyn Store> {
        let entropy = Arc::new(SeededEntropy::new(5 + n));
        Arc::new(open_node(&base, &clock, entropy, keys.clone()).unwrap())
    };
    let nodes = (0..count).map(node).collect();
    Engine { name, store: Arc::new(ByTurns::new(nodes)), clock, _home: None }
}

pub fn machine(storage: Arc<dyn sessionlog::env::Storage>) -> (Env, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let entropy = Arc::new(SeededEntropy::new(3));
    (Env { storage, clock: clock.clone(), entropy, keys: None }, clock)
}

pub fn key(session: &str) -> SessionKey {
    SessionKey { scope: Scope::local(), session: SessionId::new(session).unwrap() }
}

/// Returns the scope of an equal user name in another tenant.
pub fn other_scope() -> Scope {
    Scope { tenant: TenantId::new("other").unwrap(), ..Scope::local() }
}

/// Returns an event whose id the store chooses.
pub fn event(body: &str) -> NewEvent {
    NewEvent {
        id: None,
        kind: EventType::new("user.message").unwrap(),
        origin: Origin::User,
        created_at: None,
        position: None,
        body: Bytes::copy_from_slice(body.as_bytes()),
    }
}

/// Returns an event whose id the client chooses.
pub fn named(id: &str, body: &str) -> NewEvent {
    NewEvent { id: Some(EventId::new(id).unwrap()), ..event(body) }
}

pub fn batch(events: impl IntoIterator<Item = NewEvent>) -> Batch {
    Batch { events: events.into_iter().collect(), ..Batch::default() }
}

pub async fn create(store: &dyn Store, session: &str) {
    let new = NewSession { id: Some(SessionId::new(session).unwrap()), ..NewSession::default() };
    store.create(&Scope::local(), new).await.unwrap();
}

pub async fn append(
    store: &dyn Store,
    key: &SessionKey,
    batch: Batch,
) -> StoreResult<AppendResult> {
    store.append(key, batch).await
}

/// Returns a read of a whole session.
pub fn everything() -> ReadRequest {
    ReadRequest {
        range: Range::new(Position::ZERO, Position(u64::MAX)),
        events_max: usize::MAX,
        bytes_max: usize::MAX,
        fill: FillDirection::Forward,
        allow_gaps: false,
    }
}

/// Reads every event of a session.
pub async fn events_of(store: &dyn Store, key: &SessionKey) -> Vec<Event> {
    store.read(key, everything()).await.unwrap().events
}

/// Reads every intact event of a session, without its gaps.
pub async fn whole_of(store: &dyn Store, key: &SessionKey) -> Vec<Event> {
    let read = ReadRequest {
        range: Range::new(Position::ZERO, Position(u64::MAX)),
        events_max: usize::MAX,
        bytes_max: usize::MAX,
        fill: FillDirection::Forward,
        allow_gaps: true,
    };
    store.read(key, read).await.unwrap().events
}
