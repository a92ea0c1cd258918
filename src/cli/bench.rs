//! `bench`: appends per second of plain files on this disk, of the engine and of HTTP, in
//! interleaved rounds of one run. The package in `benches/` measures the rest. It must not touch
//! the user's sessions.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use serde_json::json;
use tokio::task::JoinSet;

use super::{
    args::Bench,
    connect,
    failure::{Failure, Outcome},
    screen::{Screen, Tone},
    signals::asked_to_end,
    stage::{Server, Stage},
};
use crate::{
    client::{Client, Request, Target, session_path},
    env::{Clock, Env, File, clock::SystemClock},
    event::{Batch, EventType, NewEvent, Origin, Scope, SessionId, SessionKey, kinds},
    store::{
        NewSession, Store,
        local::{Local, Options},
    },
    verbs::{NoQuery, Nowhere, sessions},
    wire::types::CreateSession,
};

/// A directory that is on a disk, unlike the one for temporary files on many machines.
const DIRECTORY: &str = "/var/tmp";
const ROUNDS: usize = 3;
const SECONDS: f64 = 1.0;
/// Writers of the rows with many.
const MANY: usize = 64;
const EVENT_BYTES: usize = 1024;
const SESSION: &str = "bench";
/// Size of the disk's file; a writer at its end continues at the beginning.
const FILE_BYTES: u64 = 64 << 20;
/// More bytes than a run appends: a round measures the journal, not what is settled later.
const ENDLESS_BYTES: u64 = 1 << 40;
const INTERRUPTED: u8 = 130;

/// A row of the table, and the row that its ratio is of.
struct Row {
    name: &'static str,
    what: &'static str,
    of: Option<&'static str>,
}

const ROWS: [Row; 5] = [
    row("disk", "write 1 KiB durably to a file, 1 writer", None),
    row("engine.1", "append 1 KiB in this process, 1 writer", Some("disk")),
    row("engine.64", "the same, 64 writers of one session", Some("engine.1")),
    row("http.1", "append 1 KiB over HTTP, 1 connection", Some("engine.1")),
    row("http.64", "the same, 64 connections", Some("engine.64")),
];

const fn row(name: &'static str, what: &'static str, of: Option<&'static str>) -> Row {
    Row { name, what, of }
}

pub(super) async fn run(wanted: &Bench, screen: &mut Screen) -> Outcome {
    let asked = asked_to_end()?;
    let directory = wanted.dir.clone().unwrap_or_else(|| PathBuf::from(DIRECTORY));
    let stage = Stage::new_in(&directory, "sessionlog-bench")
        .map_err(|why| Failure::Usage(format!("--dir {}: {why}", directory.display())))?;
    let length = Duration::from_secs_f64(wanted.seconds.unwrap_or(SECONDS));
    let engine = Engine::new(&stage).await?;
    let mut server = stage.serve().await?;
    let rounds = tokio::select! {
        rounds = measured(&stage, &engine, &server, length) => rounds,
        () = asked => Err(Failure::Silent(INTERRUPTED)),
    };
    // Both must have stopped before the directory is removed.
    engine.store.close().await;
    server.stop().await?;
    print(&rounds?, screen)
}

/// Events a second of each row, round by round.
type Rounds = [Vec<f64>; ROWS.len()];

async fn measured(
    stage: &Stage,
    engine: &Arc<Engine>,
    server: &Server,
    length: Duration,
) -> Outcome<Rounds> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let disk = Arc::new(Disk::new(stage)?);
    let http = Http::new(server).await?;
    let mut rounds = Rounds::default();
    for _ in 0..ROUNDS {
        let figures = [
            rate(&clock, length, 1, &disk).await?,
            rate(&clock, length, 1, engine).await?,
            rate(&clock, length, MANY, engine).await?,
            rate(&clock, length, 1, &http).await?,
            rate(&clock, length, MANY, &http).await?,
        ];
        for (row, figure) in rounds.iter_mut().zip(figures) {
            row.push(figure);
        }
    }
    Ok(rounds)
}

/// What appends one event and returns once it is durable.
trait Append: Send + Sync + 'static {
    fn append(&self) -> impl Future<Output = Outcome> + Send;
}

/// Appends a second by so many writers, each of which waits for one append before its next.
async fn rate(
    clock: &Arc<dyn Clock>,
    length: Duration,
    writers: usize,
    store: &Arc<impl Append>,
) -> Outcome<f64> {
    let began = clock.monotonic();
    let mut tasks = JoinSet::new();
    for _ in 0..writers {
        let (clock, store) = (Arc::clone(clock), Arc::clone(store));
        tasks.spawn(async move {
            let mut appended = 0_u32;
            while clock.monotonic().saturating_sub(began) < length {
                store.append().await?;
                appended += 1;
            }
            Ok::<_, Failure>(appended)
        });
    }
    let mut appended = 0;
    while let Some(ended) = tasks.join_next().await {
        appended += ended.map_err(io::Error::other)??;
    }
    Ok(f64::from(appended) / clock.monotonic().saturating_sub(began).as_secs_f64())
}

/// A file whose blocks are written already, as the journal's are.
struct Disk {
    file: Box<dyn File>,
    at: AtomicU64,
}

impl Disk {
    fn new(stage: &Stage) -> Outcome<Self> {
        const ZEROS: &[u8] = &[0; 1 << 20];
        let env = Env::real(&stage.path("disk"))?;
        let file = env.storage.create("file")?;
        for at in (0..FILE_BYTES).step_by(ZEROS.len()) {
            file.write_at(at, ZEROS)?;
        }
        file.sync()?;
        env.storage.sync_dir("")?;
        Ok(Self { file, at: AtomicU64::new(0) })
    }
}

impl Append for Disk {
    async fn append(&self) -> Outcome {
        let at = self.at.fetch_add(EVENT_BYTES as u64, Ordering::Relaxed) % FILE_BYTES;
        self.file.write_durably(at, &[b'x'; EVENT_BYTES])?;
        // The write blocks its thread; a stopped run ends here.
        tokio::task::yield_now().await;
        Ok(())
    }
}

/// The engine in this process, with one session.
struct Engine {
    store: Arc<Local>,
    key: SessionKey,
    kind: EventType,
    body: Bytes,
}

impl Engine {
    async fn new(stage: &Stage) -> Outcome<Arc<Self>> {
        let env = Env::real(&stage.path("engine"))?;
        let options = Options { journal_retained_bytes: ENDLESS_BYTES, ..Options::default() };
        let store = Arc::new(Local::open_local(&env, options).map_err(io::Error::other)?);
        let key = SessionKey { scope: Scope::local(), session: session() };
        let new = NewSession { id: Some(key.session.clone()), ..NewSession::default() };
        store.create(&key.scope, new).await.map_err(io::Error::other)?;
        let kind = EventType::new(kinds::AGENT_MESSAGE).expect("a constant that is a type");
        let body = json!({ "content": text() }).to_string().into();
        Ok(Arc::new(Self { store, key, kind, body }))
    }
}

impl Append for Engine {
    async fn append(&self) -> Outcome {
        let event = NewEvent {
            id: None,
            kind: self.kind.clone(),
            origin: Origin::Harness,
            created_at: None,
            position: None,
            body: self.body.clone(),
        };
        let batch = Batch { events: [event].into(), ..Batch::default() };
        self.store.append(&self.key, batch).await.map_err(io::Error::other)?;
        Ok(())
    }
}

/// A server in its own process, with one session.
struct Http {
    client: Client,
    path: String,
    body: Bytes,
}

impl Http {
    async fn new(server: &Server) -> Outcome<Arc<Self>> {
        let client = Client::new(Target::Server(server.url.clone()), connect::random_text())?;
        let new = CreateSession { id: Some(SESSION.to_owned()), ..Default::default() };
        client.call::<sessions::Create>(&Nowhere {}, &NoQuery {}, &new).await?;
        let event = json!({ "type": kinds::AGENT_MESSAGE, "content": text() });
        let body = json!({ "events": [event] }).to_string().into();
        Ok(Arc::new(Self { client, path: session_path(&session(), "/events"), body }))
    }
}

impl Append for Http {
    async fn append(&self) -> Outcome {
        let request = Request::post(&*self.path).body(self.body.clone(), "application/json");
        self.client.send(request).await?;
        Ok(())
    }
}

fn session() -> SessionId {
    SessionId::new(SESSION).expect("a constant that is an id")
}

fn text() -> String {
    "the museum opens at nine, says this page; ".chars().cycle().take(EVENT_BYTES - 64).collect()
}

fn print(rounds: &Rounds, screen: &mut Screen) -> Outcome {
    let medians = rounds.each_ref().map(|values| median(values));
    let of = |name: &str| ROWS.iter().zip(medians).find(|(row, _)| row.name == name);
    let ratio = |row: &Row, median: f64| Some(median / of(row.of?)?.1);
    if screen.json {
        let rows = ROWS.iter().zip(medians).zip(rounds).map(|((row, median), rounds)| {
            json!({
                "id": row.name, "what": row.what, "unit": "events/s", "median": median,
                "rounds": rounds, "against": row.of, "ratio": ratio(row, median),
            })
        });
        let rows: Vec<_> = rows.collect();
        screen.value(&json!({
            "version": 2,
            "sessionlog": env!("CARGO_PKG_VERSION"),
            "debug_build": cfg!(debug_assertions),
            "rows": rows,
        }))?;
        return Ok(());
    }
    let rows = ROWS.iter().zip(medians).map(|(row, median)| {
        let ratio = ratio(row, median).zip(row.of);
        let beside = ratio.map_or(String::new(), |(ratio, of)| format!("{ratio:.2} x {of}"));
        vec![row.name.to_owned(), format!("{median:.0}"), beside, row.what.to_owned()]
    });
    screen.table(&["ROW", "EVENTS/S", "RATIO", "WHAT"], rows.collect())?;
    let debug = "note: this is a debug build; its figures say nothing about speed";
    if cfg!(debug_assertions) {
        screen.note(screen.paint(Tone::Bad, debug));
    }
    Ok(())
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}
