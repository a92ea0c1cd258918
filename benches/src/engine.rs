//! Appends to the engine in this process: one writer and many, on one session and many. It must not
//! use anything that a caller of `store` cannot.

use std::{io, sync::Arc, time::Duration};

use super::{
    cell::{Cell, Group, Kept, Limits, Load, Prepare, Prepared, Round},
    failure::Outcome,
    machine::Processor,
    sample::{EVENT_BYTES, Numbers, Sample, Samples, TYPE},
    site::Site,
};
use sessionlog::{
    env::Clock,
    event::{Batch, EventId, EventType, NewEvent, Origin, Scope, SessionId, SessionKey},
    store::{
        NewSession, Store, StoreResult,
        local::{LocalStore, StoreOptions},
    },
};

pub(super) const CELLS: &[Cell] = &[
    append("engine.append.1", "1 writer, 1 session", 1, one),
    append("engine.append.1.keys", "1 writer, 1 session, encrypted", 1, one),
    append("engine.append.64", "64 writers, 1 session", 64, one),
    append("engine.append.64.keys", "64 writers, 1 session, encrypted", 64, one),
    append("engine.append.64.sessions", "64 writers, many sessions", 64, many),
    append("engine.lasting.1", "1 writer, 1 session, settled", 1, prepare_one_lasting),
    append(
        "engine.lasting.64",
        "64 writers, 1 session, settled over and over",
        64,
        prepare_one_lasting,
    ),
    append("engine.lasting.64.sessions", "the same, many sessions", 64, prepare_many_lasting),
];

const fn append(id: &'static str, what: &'static str, clients: usize, prepare: Prepare) -> Cell {
    Cell::durable(Group::Engine, id, what, clients, clients as u64, prepare)
}

/// Number of sessions created concurrently.
const CREATED_AT_ONCE: usize = 64;
/// A duration longer than any run.
const NEVER: Duration = Duration::from_secs(24 * 3600);
/// More bytes than any round writes, for rounds that must not flush.
const ENDLESS_BYTES: u64 = 1 << 40;
/// Number of rounds after which the journal's ring has the files that a round needs: those of the
/// two previous rounds are kept until both generations of `settled/` are past them.
const ROUNDS_UNTIL_WARM: usize = 3;
/// Number of sessions in the target for many sessions.
const SESSIONS: usize = 10_000;
/// Number of clients that together write [`lasting_bytes`].
const WRITERS: u64 = 64;
/// Bytes written by a lasting round that is not judged.
pub(super) const QUICK_BYTES: u64 = 16 << 20;

/// Returns the bytes written by a lasting round: twice the journal's capacity, so that most of them
/// are flushed while other clients write.
pub(super) fn lasting_bytes() -> u64 {
    2 * StoreOptions::default().journal_retained_bytes
}

fn one(site: &mut Site, cell: &Cell) -> Prepared {
    prepare(site, cell, 1, false)
}

fn many(site: &mut Site, cell: &Cell) -> Prepared {
    let sessions = site.settings.sessions;
    prepare(site, cell, sessions, false)
}

fn prepare_one_lasting(site: &mut Site, cell: &Cell) -> Prepared {
    prepare(site, cell, 1, true)
}

fn prepare_many_lasting(site: &mut Site, cell: &Cell) -> Prepared {
    let sessions = site.settings.sessions;
    prepare(site, cell, sessions, true)
}

fn prepare(site: &mut Site, cell: &Cell, sessions: usize, lasts: bool) -> Prepared {
    let env = cell.env(site)?;
    // Sealing waits for an idle period, which a continuous writer never leaves. A short round
    // measures the journal only: its events are flushed after it.
    let options = match lasts {
        true => StoreOptions { settle_after: NEVER, ..StoreOptions::default() },
        false => StoreOptions { journal_retained_bytes: ENDLESS_BYTES, ..StoreOptions::default() },
    };
    let local = Arc::new(LocalStore::open_local(&env, options).map_err(io::Error::other)?);
    let keys = keys(sessions);
    site.runtime.block_on(create(&*local, &keys)).map_err(io::Error::other)?;
    local.flush()?;
    let bytes = site.settings.lasting_bytes;
    let least = if lasts { bytes / (EVENT_BYTES as u64 * WRITERS) } else { 0 };
    let writers = (0..cell.clients)
        .map(|number| Writer {
            store: Arc::clone(&local) as Arc<dyn Store>,
            keys: Arc::clone(&keys),
            samples: site.samples.starting_at(number),
            numbers: Numbers::from(number),
            clock: Arc::clone(&site.clock),
            least,
            names: None,
        })
        .collect();
    let runtime = site.runtime.handle().clone();
    let clock = Arc::clone(&site.clock);
    let other = || format!("over {sessions} sessions; the target speaks of {SESSIONS}");
    let unjudged = (sessions != 1 && sessions != SESSIONS).then(other);
    Ok(Some(Box::new(Engine {
        local,
        keys,
        writers,
        runtime,
        clock,
        lasts,
        unjudged,
        acknowledged: 0,
    })))
}

/// Converts a sample to an event for the engine.
pub(super) fn event(sample: &Sample) -> NewEvent {
    NewEvent {
        id: None,
        kind: EventType::new(TYPE).expect("a constant that is a type"),
        origin: Origin::Harness,
        created_at: None,
        position: None,
        body: sample.body.clone(),
    }
}

/// Returns the keys of `count` sessions.
pub(super) fn keys(count: usize) -> Arc<[SessionKey]> {
    let scope = Scope::local();
    let key = |number: usize| {
        let session = SessionId::new(&format!("s{number}")).expect("a letter and digits are an id");
        SessionKey { scope: scope.clone(), session }
    };
    (0..count).map(key).collect()
}

/// Creates sessions without events.
pub(super) async fn create(store: &dyn Store, keys: &[SessionKey]) -> StoreResult<()> {
    for part in keys.chunks(CREATED_AT_ONCE) {
        let created = part.iter().map(|key| {
            let new = NewSession { id: Some(key.session.clone()), ..NewSession::default() };
            store.create(&key.scope, new)
        });
        futures_util::future::try_join_all(created).await?;
    }
    Ok(())
}

/// Number of events appended in one batch while a session is filled.
const FILLED_AT_ONCE: usize = 500;

/// Appends events to a session; with `settled`, flushes after each batch, so that its segments are
/// sealed meanwhile.
pub(super) async fn fill(
    local: &LocalStore,
    key: &SessionKey,
    samples: &mut Samples,
    events: usize,
    settled: bool,
) -> Outcome {
    let mut left = events;
    while left > 0 {
        let part = left.min(FILLED_AT_ONCE);
        left -= part;
        let events = (0..part).map(|_| event(samples.next())).collect();
        let batch = Batch { events, ..Batch::default() };
        local.append(key, batch).await.map_err(io::Error::other)?;
        if settled {
            local.flush()?;
        }
    }
    Ok(())
}

struct Engine {
    local: Arc<LocalStore>,
    keys: Arc<[SessionKey]>,
    writers: Vec<Writer>,
    runtime: tokio::runtime::Handle,
    clock: Arc<dyn Clock>,
    /// True if a round lasts until all its events are flushed.
    lasts: bool,
    unjudged: Option<String>,
    acknowledged: u64,
}

/// A writer of an engine: it appends events one after the other, each to a random session.
#[derive(Clone)]
pub(super) struct Writer {
    pub(super) store: Arc<dyn Store>,
    pub(super) keys: Arc<[SessionKey]>,
    pub(super) samples: Samples,
    pub(super) numbers: Numbers,
    pub(super) clock: Arc<dyn Clock>,
    /// Minimum number of events written.
    pub(super) least: u64,
    /// Beginning of the ids that the writer gives its events; none where the store mints them.
    pub(super) names: Option<String>,
}

impl Writer {
    /// Appends events one after the other, each to a random session.
    async fn write(mut self, limits: Limits) -> StoreResult<Round> {
        let mut round = Round::default();
        let began = self.clock.monotonic();
        let mut asked = began;
        loop {
            let at = usize::try_from(self.numbers.below(self.keys.len() as u64)).unwrap_or(0);
            let Some(key) = self.keys.get(at) else { return Ok(round) };
            let mut sent = event(self.samples.next());
            let name = self.names.as_ref().map(|names| format!("{names}-{}", round.events));
            sent.id = name.map(|name| EventId::new(&name).expect("letters and digits"));
            let batch = Batch { events: [sent].into(), ..Batch::default() };
            self.store.append(key, batch).await?;
            let now = self.clock.monotonic();
            round.add(1, now.saturating_sub(asked));
            round.elapsed = now.saturating_sub(began);
            let enough = round.events >= self.least || limits.stopped();
            if enough && limits.over(round.elapsed) {
                return Ok(round);
            }
            asked = now;
        }
    }
}

/// Runs all writers until the round is over.
pub(super) fn write(
    writers: &mut [Writer],
    runtime: &tokio::runtime::Handle,
    limits: &Limits,
) -> Outcome<Round> {
    let mut all = Round::default();
    if let [writer] = &*writers {
        // With a single writer, the caller's thread is the writer.
        let written = runtime.block_on(writer.clone().write(limits.clone()));
        all.join(written.map_err(io::Error::other)?);
    } else {
        let _inside = runtime.enter();
        let write = |writer: &Writer| tokio::spawn(writer.clone().write(limits.clone()));
        let started: Vec<_> = writers.iter().map(write).collect();
        for task in started {
            let written = runtime.block_on(task).map_err(io::Error::other)?;
            all.join(written.map_err(io::Error::other)?);
        }
    }
    for (number, writer) in writers.iter_mut().enumerate() {
        // The next round writes to other random sessions, and no id twice.
        writer.numbers = Numbers::from(number + usize::try_from(all.events).unwrap_or(0));
        writer.names = writer.names.take().map(|names| format!("{names}x"));
    }
    Ok(all)
}

impl Engine {
    /// Runs all writers until the round is over.
    fn write(&mut self, limits: &Limits) -> Outcome<Round> {
        let all = write(&mut self.writers, &self.runtime, limits)?;
        self.acknowledged += all.events;
        Ok(all)
    }
}

impl Load for Engine {
    fn round(&mut self, limits: &Limits) -> Outcome<Round> {
        let began = self.clock.monotonic();
        let mut all = self.write(limits)?;
        if self.lasts {
            self.local.flush_under_load()?;
            all.elapsed = self.clock.monotonic().saturating_sub(began);
        }
        Ok(all)
    }

    /// Skips lasting loads, whose rounds are long enough to create the journal's files.
    fn warm(&mut self, limits: &Limits) -> Outcome<()> {
        for _ in 0..if self.lasts { 0 } else { ROUNDS_UNTIL_WARM } {
            self.write(limits)?;
            self.local.flush()?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Outcome<Option<f64>> {
        if self.lasts {
            return Ok(None);
        }
        let processor = Processor::now();
        self.local.flush()?;
        Ok(Some(Processor::now().since(processor).own))
    }

    fn unjudged(&self) -> Option<String> {
        self.unjudged.clone()
    }

    fn kept(&mut self) -> Outcome<Option<Kept>> {
        let found = count(&*self.local, &self.keys, &self.runtime)?;
        Ok(Some(Kept { acknowledged: self.acknowledged, found }))
    }
}

/// Returns the number of events of sessions.
pub(super) fn count(
    store: &dyn Store,
    keys: &[SessionKey],
    runtime: &tokio::runtime::Handle,
) -> Outcome<u64> {
    let tail = |key| runtime.block_on(store.info(key)).map(|info| info.tail.0);
    let tails: StoreResult<Vec<u64>> = keys.iter().map(tail).collect();
    Ok(tails.map_err(io::Error::other)?.into_iter().sum())
}
