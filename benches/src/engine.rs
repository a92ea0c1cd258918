//! The engine in this process: one writer and many, on one session and over many. It must not use
//! anything a caller of `store` has not.

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
    event::{Batch, EventType, NewEvent, Origin, Scope, SessionId, SessionKey},
    store::{
        NewSession, Store, StoreResult,
        local::{Local, Options},
    },
};

pub(super) const CELLS: &[Cell] = &[
    append("engine.append.1", "1 writer, 1 session", 1, one),
    append("engine.append.1.keys", "1 writer, 1 session, encrypted", 1, one),
    append("engine.append.64", "64 writers, 1 session", 64, one),
    append("engine.append.64.keys", "64 writers, 1 session, encrypted", 64, one),
    append("engine.append.64.sessions", "64 writers, many sessions", 64, many),
    append("engine.lasting.1", "1 writer, 1 session, settled", 1, one_lasting),
    append("engine.lasting.64", "64 writers, 1 session, settled over and over", 64, one_lasting),
    append("engine.lasting.64.sessions", "the same, many sessions", 64, many_lasting),
];

const fn append(id: &'static str, what: &'static str, clients: usize, prepare: Prepare) -> Cell {
    Cell::durable(Group::Engine, id, what, clients, clients as u64, prepare)
}

/// Sessions that are created at once.
const CREATED_AT_ONCE: usize = 64;
/// Longer than any run.
const NEVER: Duration = Duration::from_secs(24 * 3600);
/// More bytes than a round writes that is not to flush.
const ENDLESS_BYTES: u64 = 1 << 40;
/// After so many rounds the journal's ring has the files that one needs: those of the two before
/// it are kept until both generations of `settled/` are past them.
const ROUNDS_UNTIL_WARM: usize = 3;
/// Sessions that the target of many speaks of.
const SESSIONS: usize = 10_000;
/// Clients that write [`lasting_bytes`] together.
const WRITERS: u64 = 64;
/// What a lasting round writes where nothing is judged by it.
pub(super) const QUICK_BYTES: u64 = 16 << 20;

/// What a lasting round writes: twice the journal's room, so that by far the most of it is flushed
/// while others write, when the engine thinks fit.
pub(super) fn lasting_bytes() -> u64 {
    2 * Options::default().journal_retained_bytes
}

fn one(site: &mut Site, cell: &Cell) -> Prepared {
    prepare(site, cell, 1, false)
}

fn many(site: &mut Site, cell: &Cell) -> Prepared {
    let sessions = site.settings.sessions;
    prepare(site, cell, sessions, false)
}

fn one_lasting(site: &mut Site, cell: &Cell) -> Prepared {
    prepare(site, cell, 1, true)
}

fn many_lasting(site: &mut Site, cell: &Cell) -> Prepared {
    let sessions = site.settings.sessions;
    prepare(site, cell, sessions, true)
}

fn prepare(site: &mut Site, cell: &Cell, sessions: usize, lasts: bool) -> Prepared {
    let env = cell.env(site)?;
    // Sealing waits for a quiet time, which a writer who never stops never leaves. A short round is
    // the journal's alone: what it leaves is flushed behind it.
    let options = match lasts {
        true => Options { settle_after: NEVER, ..Options::default() },
        false => Options { journal_retained_bytes: ENDLESS_BYTES, ..Options::default() },
    };
    let local = Arc::new(Local::open_local(&env, options).map_err(io::Error::other)?);
    let keys = keys(sessions);
    site.runtime.block_on(create(&local, &keys)).map_err(io::Error::other)?;
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

/// An event for the engine.
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

/// The keys of so many sessions.
pub(super) fn keys(count: usize) -> Arc<[SessionKey]> {
    let scope = Scope::local();
    let key = |number: usize| {
        let session = SessionId::new(&format!("s{number}")).expect("a letter and digits are an id");
        SessionKey { scope: scope.clone(), session }
    };
    (0..count).map(key).collect()
}

/// Creates these sessions, without events.
pub(super) async fn create(local: &Arc<Local>, keys: &[SessionKey]) -> StoreResult<()> {
    for part in keys.chunks(CREATED_AT_ONCE) {
        let created = part.iter().map(|key| {
            let new = NewSession { id: Some(key.session.clone()), ..NewSession::default() };
            local.create(&key.scope, new)
        });
        futures_util::future::try_join_all(created).await?;
    }
    Ok(())
}

/// Events appended at once where a session is filled.
const FILLED_AT_ONCE: usize = 500;

/// Appends so many events to a session; flushed after each batch when `settled`, so that its
/// segments are sealed on the way.
pub(super) async fn fill(
    local: &Local,
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
    local: Arc<Local>,
    keys: Arc<[SessionKey]>,
    writers: Vec<Writer>,
    runtime: tokio::runtime::Handle,
    clock: Arc<dyn Clock>,
    /// A round lasts until all it wrote is flushed.
    lasts: bool,
    unjudged: Option<String>,
    acknowledged: u64,
}

#[derive(Clone)]
struct Writer {
    store: Arc<dyn Store>,
    keys: Arc<[SessionKey]>,
    samples: Samples,
    numbers: Numbers,
    clock: Arc<dyn Clock>,
    /// Events that it writes at least.
    least: u64,
}

impl Writer {
    /// Appends one event after the other, each to any of the sessions.
    async fn write(mut self, limits: Limits) -> StoreResult<Round> {
        let mut round = Round::default();
        let began = self.clock.monotonic();
        let mut asked = began;
        loop {
            let at = usize::try_from(self.numbers.below(self.keys.len() as u64)).unwrap_or(0);
            let Some(key) = self.keys.get(at) else { return Ok(round) };
            let batch = Batch { events: [event(self.samples.next())].into(), ..Batch::default() };
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

impl Engine {
    /// Has every writer write until its round is over.
    fn write(&mut self, limits: &Limits) -> Outcome<Round> {
        let mut all = Round::default();
        if let [writer] = self.writers.as_slice() {
            // Nothing to hand over to: the caller's thread is the writer.
            let written = self.runtime.block_on(writer.clone().write(limits.clone()));
            all.join(written.map_err(io::Error::other)?);
        } else {
            let _inside = self.runtime.enter();
            let write = |writer: &Writer| tokio::spawn(writer.clone().write(limits.clone()));
            let started: Vec<_> = self.writers.iter().map(write).collect();
            for task in started {
                let written = self.runtime.block_on(task).map_err(io::Error::other)?;
                all.join(written.map_err(io::Error::other)?);
            }
        }
        for (number, writer) in self.writers.iter_mut().enumerate() {
            // The next round writes to other positions.
            writer.numbers = Numbers::from(number + usize::try_from(all.events).unwrap_or(0));
        }
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

    /// A lasting round is long enough to make the journal's files in it.
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
        let mut found = 0;
        for key in self.keys.iter() {
            let info = self.runtime.block_on(self.local.info(key)).map_err(io::Error::other)?;
            found += info.tail.0;
        }
        Ok(Some(Kept { acknowledged: self.acknowledged, found }))
    }
}
