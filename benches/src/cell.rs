//! What is measured, as data: a cell has an id, a sentence and a setup; a load runs one round of
//! it. A new row of the table is a new line here or in its own file. It must not run anything.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::failure::Outcome;
use super::site::Site;
use sessionlog::env::{
    Env, MasterKeys,
    secrets::{KEY_BYTES, Secret},
};

/// What kind of thing a cell measures, and the word that selects it on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// Plain files without a server: the limit of the disk.
    Floor,
    /// The engine in this process.
    Engine,
    /// Appends over HTTP to a server of our own.
    Http,
    /// Slices over HTTP from the same server.
    Slice,
    /// Other stores that this program starts.
    Peers,
    /// How soon a server answers, and what an idle session costs.
    Start,
    /// Research sessions: overviews, and steps through MCP.
    Research,
    /// Searching all sessions.
    Search,
    /// Forks of sessions.
    Fork,
    /// What an agent waits for at its events.
    Hook,
    /// Bytes on disk.
    Disk,
}

impl Group {
    pub(super) const ALL: [Self; 11] = [
        Self::Floor,
        Self::Engine,
        Self::Http,
        Self::Slice,
        Self::Peers,
        Self::Start,
        Self::Research,
        Self::Search,
        Self::Fork,
        Self::Hook,
        Self::Disk,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Engine => "engine",
            Self::Http => "http",
            Self::Slice => "slice",
            Self::Peers => "peers",
            Self::Start => "start",
            Self::Research => "research",
            Self::Search => "search",
            Self::Fork => "fork",
            Self::Hook => "hook",
            Self::Disk => "disk",
        }
    }
}

/// Whether a cell's work must reach the disk before it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Every operation is acknowledged once it is durable; so many may share one flush.
    Durable {
        /// Operations that can be under way at once.
        in_flight: u64,
    },
    /// Nothing is written.
    Reads,
}

/// A row of the table that is measured in rounds.
pub(super) struct Cell {
    /// Its name; groups and beginnings of names select rows.
    pub(super) id: &'static str,
    pub(super) group: Group,
    /// What one operation is, for a person.
    pub(super) what: &'static str,
    /// Writers, readers or connections.
    pub(super) clients: usize,
    pub(super) effect: Effect,
    /// Sets it up; `None` when what it needs is not on this machine, which the site has noted.
    pub(super) prepare: Prepare,
}

impl Cell {
    /// Operations that count once they are durable; so many may be under way at once.
    pub(super) const fn durable(
        group: Group,
        id: &'static str,
        what: &'static str,
        clients: usize,
        in_flight: u64,
        prepare: Prepare,
    ) -> Self {
        Self { id, group, what, clients, effect: Effect::Durable { in_flight }, prepare }
    }

    /// An environment with a data directory of its own; it encrypts where the cell's name says so.
    pub(super) fn env(&self, site: &Site) -> Outcome<Env> {
        let env = site.env(self.id)?;
        let mut key = [0; KEY_BYTES];
        env.entropy.fill(&mut key);
        let keys = MasterKeys { current: Secret::new(key), previous: None };
        let encrypted = self.id.ends_with(".keys");
        Ok(env.with_keys(encrypted.then(|| Arc::new(keys))))
    }

    /// Operations that write nothing.
    pub(super) const fn reads(
        group: Group,
        id: &'static str,
        what: &'static str,
        clients: usize,
        prepare: Prepare,
    ) -> Self {
        Self { id, group, what, clients, effect: Effect::Reads, prepare }
    }
}

/// Sets a cell up.
pub(super) type Prepare = fn(&mut Site, &Cell) -> Prepared;
/// A cell that is set up, unless what it needs is not here.
pub(super) type Prepared = Outcome<Option<Box<dyn Load>>>;

/// A cell that is set up.
pub(super) trait Load {
    /// Runs one round.
    fn round(&mut self, limits: &Limits) -> Outcome<Round>;

    /// Makes once what every later round finds made, as it is in a store that has run for a while.
    fn warm(&mut self, _limits: &Limits) -> Outcome<()> {
        Ok(())
    }

    /// Waits for the work that the store put off, so that it does not run within the next round;
    /// returns the processor seconds of it. `None` where nothing is put off.
    fn finish(&mut self) -> Outcome<Option<f64>> {
        Ok(None)
    }

    /// Why no target must be judged by its rounds; `None` when one may.
    fn unjudged(&self) -> Option<String> {
        None
    }

    /// Events acknowledged so far, and events found in the store; `None` where nothing is kept.
    fn kept(&mut self) -> Outcome<Option<Kept>> {
        Ok(None)
    }
}

/// What a store was asked to keep, and what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// Events acknowledged.
    pub(super) acknowledged: u64,
    /// Events found.
    pub(super) found: u64,
}

/// When a round ends.
#[derive(Clone)]
pub(super) struct Limits {
    /// How long it lasts.
    pub(super) duration: Duration,
    /// Set when the user wants to leave.
    pub(super) stop: Arc<AtomicBool>,
}

impl Limits {
    /// Whether a round that has run so long is over.
    pub(super) fn over(&self, elapsed: Duration) -> bool {
        elapsed >= self.duration || self.stopped()
    }

    /// Whether the user wants to leave.
    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// What one round did.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// Operations finished.
    pub(super) operations: u64,
    /// Events they appended or read.
    pub(super) events: u64,
    /// From the first operation's start to the last one's end.
    pub(super) elapsed: Duration,
    /// Each operation's nanoseconds, in no order.
    pub(super) latencies: Vec<u32>,
    /// Processor seconds of the server meanwhile; `None` where there is none.
    pub(super) server: Option<f64>,
}

impl Round {
    /// One operation more.
    pub(super) fn add(&mut self, events: u64, took: Duration) {
        self.operations += 1;
        self.events += events;
        self.latencies.push(u32::try_from(took.as_nanos()).unwrap_or(u32::MAX));
    }

    /// Another client's part of the same round.
    pub(super) fn join(&mut self, other: Self) {
        self.operations += other.operations;
        self.events += other.events;
        self.elapsed = self.elapsed.max(other.elapsed);
        self.latencies.extend(other.latencies);
        // Each part looked at the whole server.
        self.server = self.server.into_iter().chain(other.server).reduce(f64::max);
    }
}

/// A row of the table that is one figure.
pub(super) struct Figure {
    pub(super) id: &'static str,
    pub(super) what: &'static str,
    pub(super) unit: &'static str,
}

/// A [`Figure`] in a line.
pub(super) const fn figure(id: &'static str, what: &'static str, unit: &'static str) -> Figure {
    Figure { id, what, unit }
}

/// Figures that are found together, after the rounds.
pub(super) struct Probe {
    pub(super) group: Group,
    pub(super) figures: &'static [Figure],
    /// Finds them.
    pub(super) run: fn(&mut Site) -> Outcome<ProbeResult>,
}

/// What a probe found.
pub(super) struct ProbeResult {
    /// The values of each figure, in their order.
    pub(super) values: Vec<Vec<f64>>,
    /// Why targets must not be judged by them; `None` when they may.
    pub(super) unjudged: Option<String>,
}

/// How a target is met.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bound {
    /// At least so many times the best of the rows it is compared with.
    TimesMin(f64),
    /// At most this value, in the row's unit.
    ValueMax(f64),
    /// The server's processor time for an event, with what is put off, at most so many times the
    /// least of the rows it is compared with.
    CostTimesMax(f64),
    /// Shown and not judged: what a reader of another target should see beside it.
    Shown,
}

/// A promise of docs/performance.md about one row.
pub(super) struct Target {
    /// Its number there.
    pub(super) id: &'static str,
    pub(super) row: &'static str,
    /// The rows it is compared with; those that were not measured are left out.
    pub(super) against: &'static [&'static str],
    pub(super) bound: Bound,
}
