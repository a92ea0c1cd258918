//! Several nodes over the PostgreSQL on which plain statements are measured in the same run: the
//! engine of nodes in this process, and servers of our own. It must not weaken the durability of
//! the database, nor measure without one.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

use super::{
    cell::{Cell, Group, Kept, Limits, Load, Prepare, Prepared, Probe, ProbeResult, Round, figure},
    engine::{self, Writer},
    failure::Outcome,
    http::{self, creation_requests, get, post_json, session_of},
    machine::{self, Served},
    network::{self, Connection, Manner},
    postgres::{Postgres, REPLICATED},
    protocol::Protocol,
    runner::float,
    sample::Numbers,
    server::Server,
    site::Site,
};
use sessionlog::{
    env::{Clock, entropy::SystemEntropy},
    event::SessionKey,
    store::{
        Store,
        remote::{PostgresUrl, RemoteOptions, RemoteStore},
    },
};

pub(super) const CELLS: &[Cell] = &[
    append("nodes.append.1", "1 writer at the engine of nodes", 1, prepare_own),
    append("nodes.append.64", "64 writers at the engine of nodes, a session each", 64, prepare_own),
    append("nodes.append.64.ids", "the same, ids given by the writers", 64, prepare_own),
    append("nodes.append.64.sessions", "64 writers, many sessions", 64, prepare_many),
    append("nodes.replicated.64", "64 writers, a synchronous standby", 64, prepare_replicated),
    append("nodes.http.1", "1 connection to a node, JSON", 1, prepare_http),
    append("nodes.http.64", "64 connections to a node, JSON", 64, prepare_http),
    Cell::reads(Group::Nodes, "nodes.slice.1", "100 events of a node, JSON", 1, prepare_slice),
];

pub(super) const PROBE: Probe = Probe {
    group: Group::Nodes,
    figures: &[
        figure("nodes.stream.p50", "an append at one node to a stream of the other, p50", "ms"),
        figure("nodes.stream.p99", "the same, p99", "ms"),
        figure("nodes.shared.p99", "64 writers at two nodes on the same 64 sessions, p99", "ms"),
        figure(
            "nodes.statements",
            "statements for each 32 requests, 64 waiting in 2 lanes",
            "ratio",
        ),
        figure("nodes.memory", "resident memory of a node with many sessions", "MiB"),
    ],
    run,
};

const fn append(id: &'static str, what: &'static str, clients: usize, prepare: Prepare) -> Cell {
    Cell::durable(Group::Nodes, id, what, clients, clients as u64, prepare)
}

/// Names of the database and of its nodes among the programs: nodes are stopped first.
const DATABASE: &str = "PostgreSQL";
const NODES: [&str; 2] = ["A node", "B node"];
/// Session that slices are read from, and the one that is followed.
const FILLED: &str = "filled";
const FOLLOWED: &str = "followed";
/// Appends that a stream is waited for after.
const STREAMED: usize = 200;
/// Sessions of the targets for many.
const SESSIONS: usize = 10_000;
/// Writers at two nodes, and the sessions that they share.
const SHARED: usize = 64;
/// Writers of a lane of the engine's two, where 64 write.
const LANE_WRITERS: f64 = 32.0;
/// Longest wait for an event of a stream.
const PATIENCE: Duration = Duration::from_secs(60);

/// The engine of nodes in this process.
struct Engine {
    store: Arc<RemoteStore>,
    keys: Arc<[SessionKey]>,
    writers: Vec<Writer>,
    runtime: tokio::runtime::Handle,
    server: u32,
    acknowledged: u64,
    unjudged: Option<String>,
}

impl Load for Engine {
    fn round(&mut self, limits: &Limits) -> Outcome<Round> {
        let used = Served::of(self.server);
        let mut all = engine::write(&mut self.writers, &self.runtime, limits)?;
        all.server = Some(Served::of(self.server).since(&used));
        self.acknowledged += all.events;
        Ok(all)
    }

    fn unjudged(&self) -> Option<String> {
        self.unjudged.clone()
    }

    fn kept(&mut self) -> Outcome<Option<Kept>> {
        let found = engine::count(&*self.store, &self.keys, &self.runtime)?;
        Ok(Some(Kept { acknowledged: self.acknowledged, found }))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.runtime.block_on(self.store.close());
    }
}

fn prepare_own(site: &mut Site, cell: &Cell) -> Prepared {
    let Some(postgres) = site.peer(DATABASE, Postgres::start) else { return Ok(None) };
    let to = (postgres.store(), postgres.process.pid());
    prepare_engine(site, cell, to, cell.clients)
}

fn prepare_many(site: &mut Site, cell: &Cell) -> Prepared {
    let Some(postgres) = site.peer(DATABASE, Postgres::start) else { return Ok(None) };
    let to = (postgres.store(), postgres.process.pid());
    prepare_engine(site, cell, to, site.settings.sessions.max(cell.clients))
}

fn prepare_replicated(site: &mut Site, cell: &Cell) -> Prepared {
    let Some(postgres) = site.peer(REPLICATED, Postgres::start_replicated) else {
        return Ok(None);
    };
    let to = (postgres.store(), postgres.process.pid());
    prepare_engine(site, cell, to, cell.clients)
}

/// Opens a node in this process on a schema of the cell's own.
async fn open(site: &Site, cell: &Cell, store: &str) -> io::Result<RemoteStore> {
    let address = format!("{store}?schema={}", cell.id.replace('.', "_"));
    let url = PostgresUrl::parse(&address).map_err(io::Error::other)?;
    let clock = Arc::clone(&site.clock);
    let opened =
        RemoteStore::open_postgres(&url, clock, Arc::new(SystemEntropy), RemoteOptions::default());
    opened.await.map_err(io::Error::other)
}

fn prepare_engine(
    site: &Site,
    cell: &Cell,
    (store, server): (String, u32),
    sessions: usize,
) -> Prepared {
    let store = Arc::new(site.runtime.block_on(open(site, cell, &store))?);
    let keys = engine::keys(sessions);
    site.runtime.block_on(engine::create(&*store, &keys)).map_err(io::Error::other)?;
    let writer = |number: usize| Writer {
        store: Arc::clone(&store) as Arc<dyn Store>,
        // A session for each, or all of many.
        keys: match keys.get(number) {
            Some(own) if sessions == cell.clients => [own.clone()].into(),
            _ => Arc::clone(&keys),
        },
        samples: site.samples.starting_at(number),
        numbers: Numbers::from(number),
        clock: Arc::clone(&site.clock),
        least: 0,
        names: cell.id.ends_with(".ids").then(|| format!("w{number}")),
    };
    let writers = (0..cell.clients).map(writer).collect();
    let runtime = site.runtime.handle().clone();
    let unjudged = (sessions > cell.clients && sessions < SESSIONS).then(|| few(sessions));
    Ok(Some(Box::new(Engine { store, keys, writers, runtime, server, acknowledged: 0, unjudged })))
}

/// Returns the connection options of a node, whose work is that of its database.
fn node(site: &mut Site, name: &'static str) -> Outcome<Option<Manner>> {
    let Some(postgres) = site.peer(DATABASE, Postgres::start) else { return Ok(None) };
    let (store, server) = (postgres.store(), Some(postgres.process.pid()));
    let path = site.path(&name.replace(' ', "-"));
    let node = site.program(name, |site| Server::node(site, &path, &store).map(Some))?;
    Ok(node.map(|node| Manner { server, defers: false, ..node.manner() }))
}

fn prepare_http(site: &mut Site, cell: &Cell) -> Prepared {
    let Some(manner) = node(site, NODES[0])? else { return Ok(None) };
    let create = |number| creation_requests(site, &session_of(cell, number), 0, "");
    let requests: Vec<_> = (0..cell.clients).flat_map(create).collect();
    network::once(manner, &requests)?;
    http::append_json_to(site, cell, manner)
}

fn prepare_slice(site: &mut Site, cell: &Cell) -> Prepared {
    let Some(manner) = node(site, NODES[0])? else { return Ok(None) };
    network::once(manner, &creation_requests(site, FILLED, site.settings.events, ""))?;
    Ok(Some(http::read_slices_of(site, cell, manner, FILLED)))
}

fn run(site: &mut Site) -> Outcome<ProbeResult> {
    let none = || ProbeResult { values: vec![Vec::new(); PROBE.figures.len()], unjudged: None };
    let (Some(one), Some(other)) = (node(site, NODES[0])?, node(site, NODES[1])?) else {
        return Ok(none());
    };
    let (mut p50, mut p99, mut shared) = (Vec::new(), Vec::new(), Vec::new());
    let names = (0..SHARED).map(|n| format!("shared-{n}")).chain([FOLLOWED.to_owned()]);
    let requests: Vec<_> = names.flat_map(|name| creation_requests(site, &name, 0, "")).collect();
    network::once(one, &requests)?;
    for round in 0..site.settings.rounds {
        let clock = Arc::clone(&site.clock);
        let times = site.wait(follow(one, other, clock, round))??;
        p50.push(percentile(&times, 50));
        p99.push(percentile(&times, 99));
        let times = site.wait(share(site, [one, other]))??;
        shared.push(percentile(&times, 99));
    }
    let statements = count_statements(site)?;
    let memory = fill_node(site)?;
    let values = vec![p50, p99, shared, vec![statements], vec![memory]];
    let sessions = site.settings.sessions;
    let unjudged =
        (sessions < 10_000).then(|| format!("with {sessions} sessions: 10000 are meant"));
    Ok(ProbeResult { values, unjudged })
}

fn few(sessions: usize) -> String {
    format!("with {sessions} sessions; the targets speak of {SESSIONS}")
}

/// Returns a percentile, in milliseconds.
fn percentile(times: &[Duration], share: usize) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let at = sorted.get((sorted.len() * share / 100).min(sorted.len().saturating_sub(1)));
    at.copied().unwrap_or_default().as_secs_f64() * 1_000.0
}

/// Appends at one node and returns the times until a stream of the other had each event.
async fn follow(
    one: Manner,
    other: Manner,
    clock: Arc<dyn Clock>,
    round: u32,
) -> io::Result<Vec<Duration>> {
    let mut stream = TcpStream::connect(other.address).await?;
    let path = format!("/v1/sessions/{FOLLOWED}/events/stream?from=0");
    stream.write_all(&get(&path, "text/event-stream", "")).await?;
    let mut writer = Connection::open(one.address, Protocol::Http).await?;
    let (mut seen, mut times) = (Vec::new(), Vec::with_capacity(STREAMED));
    for n in 0..STREAMED {
        let mark = format!("marked-{round}-{n}.");
        let event = format!(r#"{{"events":[{{"type":"user.message","content":"{mark}"}}]}}"#);
        let began = clock.monotonic();
        writer.out = post_json(&format!("/v1/sessions/{FOLLOWED}/events"), &event);
        writer.ask(1).await?;
        while !seen.windows(mark.len()).any(|part| part == mark.as_bytes()) {
            let read = tokio::time::timeout(PATIENCE, stream.read_buf(&mut seen)).await;
            if read.map_err(|_| io::ErrorKind::TimedOut)?? == 0 {
                return Err(io::Error::other("the stream ended"));
            }
        }
        times.push(clock.monotonic().saturating_sub(began));
        seen.clear();
    }
    Ok(times)
}

/// Appends at two nodes to the same sessions for a while; returns the time of each append.
async fn share(site: &Site, nodes: [Manner; 2]) -> io::Result<Vec<Duration>> {
    let (clock, mut writers) = (Arc::clone(&site.clock), JoinSet::new());
    let until = clock.monotonic() + Duration::from_secs_f64(site.settings.seconds);
    for (writer, node) in (0..SHARED).zip(nodes.into_iter().cycle()) {
        let (clock, mut numbers) = (Arc::clone(&clock), Numbers::from(writer));
        let mut connection = Connection::open(node.address, Protocol::Http).await?;
        let event = r#"{"events":[{"type":"user.message","content":"shared"}]}"#;
        writers.spawn(async move {
            let mut times = Vec::new();
            loop {
                let session = numbers.below(SHARED as u64);
                let path = format!("/v1/sessions/shared-{session}/events");
                let began = clock.monotonic();
                connection.out = post_json(&path, event);
                connection.ask(1).await?;
                let now = clock.monotonic();
                times.push(now.saturating_sub(began));
                if now >= until {
                    return Ok::<_, io::Error>(times);
                }
            }
        });
    }
    let mut all = Vec::new();
    while let Some(times) = writers.join_next().await {
        all.extend(times.map_err(io::Error::other)??);
    }
    Ok(all)
}

/// Returns the number of statements for each 32 appends of 64 writers in this process: frames that
/// one statement stored have the same transaction.
fn count_statements(site: &mut Site) -> Outcome<f64> {
    const CELL: Cell = append("nodes.statements", "", SHARED, prepare_own);
    let Some(mut load) = prepare_own(site, &CELL)? else { return Ok(0.0) };
    let duration = Duration::from_secs_f64(site.settings.seconds);
    let round = load.round(&Limits { duration, stop: Arc::clone(&site.stop) })?;
    let Some(postgres) = site.peer(DATABASE, Postgres::start) else { return Ok(0.0) };
    let statements =
        "SELECT count(DISTINCT xmin::text) FROM nodes_statements.frame WHERE events > 0";
    Ok(float(postgres.number(statements)?) * LANE_WRITERS / float(round.events))
}

/// Starts a node, appends to many sessions once, and returns its resident memory in MiB.
fn fill_node(site: &mut Site) -> Outcome<f64> {
    let Some(postgres) = site.peer(DATABASE, Postgres::start) else { return Ok(0.0) };
    let store = format!("{}?schema=memory", postgres.store());
    let node = Server::node(site, &site.path("filled-node"), &store)?;
    let (manner, sessions) = (node.manner(), site.settings.sessions);
    site.wait(async {
        let mut writers = JoinSet::new();
        for writer in 0..SHARED {
            let mut connection = Connection::open(manner.address, Protocol::Http).await?;
            writers.spawn(async move {
                for session in (writer..sessions).step_by(SHARED) {
                    let path = format!("/v1/sessions/s{session}/events?create=true");
                    let event = r#"{"events":[{"type":"user.message","content":"one"}]}"#;
                    connection.out = post_json(&path, event);
                    connection.ask(1).await?;
                }
                Ok::<_, io::Error>(())
            });
        }
        while let Some(done) = writers.join_next().await {
            done.map_err(io::Error::other)??;
        }
        Ok::<_, io::Error>(())
    })??;
    let resident = machine::resident_bytes(node.process.pid()).unwrap_or_default();
    Ok(float(resident) / float(1 << 20))
}
