//! Slices of the engine in this process, from sealed segments in plaintext and encrypted: from
//! recently read blocks, and with no cache. It must not use anything that a caller of `store`
//! cannot.

use std::{io, sync::Arc};

use super::{
    cell::{Cell, Group, Limits, Load, Prepare, Prepared, Round},
    engine,
    failure::Outcome,
    http::SLICE,
    sample::Numbers,
    site::Site,
};
use sessionlog::{
    env::Clock,
    event::{Position, Range, SessionKey},
    store::{
        FillDirection, ReadRequest, Store, StoreResult,
        local::{LocalStore, StoreOptions},
    },
};

pub(super) const CELLS: &[Cell] = &[
    read("engine.slice.1", "1 reader, 100 events of sealed segments", 1, warm),
    read("engine.slice.1.keys", "the same, encrypted", 1, warm),
    read("engine.slice.64", "64 readers, 100 events of sealed segments", 64, warm),
    read("engine.slice.64.keys", "the same, encrypted", 64, warm),
    read("engine.slice.cold.1", "1 reader, 100 events, none kept in memory", 1, prepare_cold),
    read("engine.slice.cold.1.keys", "the same, encrypted", 1, prepare_cold),
];

const fn read(id: &'static str, what: &'static str, clients: usize, prepare: Prepare) -> Cell {
    Cell::reads(Group::Engine, id, what, clients, prepare)
}

/// Segment size from which on segments are sealed while the session is filled.
const SEGMENT_BYTES: u64 = 1 << 20;

fn warm(site: &mut Site, cell: &Cell) -> Prepared {
    prepare(site, cell, StoreOptions::default().warm_bytes_max)
}

fn prepare_cold(site: &mut Site, cell: &Cell) -> Prepared {
    prepare(site, cell, 0)
}

fn prepare(site: &mut Site, cell: &Cell, warm_bytes_max: usize) -> Prepared {
    let env = cell.env(site)?;
    let events = site.settings.events.max(SLICE + 1);
    let options = StoreOptions {
        segment_bytes_max: SEGMENT_BYTES,
        warm_bytes_max,
        ..StoreOptions::default()
    };
    let open = || LocalStore::open_local(&env, options).map_err(io::Error::other);
    let key = site.runtime.block_on(async {
        let local = Arc::new(open()?);
        let keys = engine::keys(1);
        engine::create(&*local, &keys).await.map_err(io::Error::other)?;
        let key = keys.first().cloned().ok_or_else(|| io::Error::other("no session"))?;
        engine::fill(&local, &key, &mut site.samples.clone(), events, true).await?;
        local.close().await;
        Outcome::Ok(key)
    })?;
    let store: Arc<dyn Store> = Arc::new(open()?);
    let reader = |number| Reader {
        store: Arc::clone(&store),
        key: key.clone(),
        numbers: Numbers::from(number),
        clock: Arc::clone(&site.clock),
        events: events as u64,
    };
    let readers = (0..cell.clients).map(reader).collect();
    let (runtime, clock) = (site.runtime.handle().clone(), Arc::clone(&site.clock));
    Ok(Some(Box::new(Slices { readers, runtime, clock })))
}

struct Slices {
    readers: Vec<Reader>,
    runtime: tokio::runtime::Handle,
    clock: Arc<dyn Clock>,
}

#[derive(Clone)]
struct Reader {
    store: Arc<dyn Store>,
    key: SessionKey,
    numbers: Numbers,
    clock: Arc<dyn Clock>,
    /// Number of events of the session.
    events: u64,
}

impl Reader {
    /// Reads one slice after the other, each from a random position.
    async fn read(mut self, limits: Limits) -> StoreResult<Round> {
        let mut round = Round::default();
        let began = self.clock.monotonic();
        let mut asked = began;
        loop {
            let from = Position(self.numbers.below(self.events - SLICE as u64));
            let read = ReadRequest {
                range: Range::new(from, from.plus(SLICE as u64)),
                events_max: SLICE,
                bytes_max: usize::MAX,
                fill: FillDirection::Forward,
                allow_gaps: false,
            };
            let events = self.store.read(&self.key, read).await?.events.len() as u64;
            let now = self.clock.monotonic();
            round.add(events, now.saturating_sub(asked));
            round.elapsed = now.saturating_sub(began);
            if limits.over(round.elapsed) {
                return Ok(round);
            }
            // A read never waits for I/O events: the other tasks get their turn.
            tokio::task::yield_now().await;
            asked = self.clock.monotonic();
        }
    }
}

impl Load for Slices {
    fn round(&mut self, limits: &Limits) -> Outcome<Round> {
        let mut all = Round::default();
        let began = self.clock.monotonic();
        let _inside = self.runtime.enter();
        let read = |reader: &Reader| tokio::spawn(reader.clone().read(limits.clone()));
        let started: Vec<_> = self.readers.iter().map(read).collect();
        for task in started {
            let done = self.runtime.block_on(task).map_err(io::Error::other)?;
            all.join(done.map_err(io::Error::other)?);
        }
        all.elapsed = self.clock.monotonic().saturating_sub(began);
        Ok(all)
    }
}
