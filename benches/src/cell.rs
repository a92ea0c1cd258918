//! The measurements as data: a cell has an id, a description and a setup; a load runs one round of
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

/// Group of a cell, and its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// Plain files without a server: the baseline of the disk.
    Floor,
    /// The engine in this process.
    Engine,
    /// Appends over HTTP to a server of our own.
    Http,
    /// Slices over HTTP from the same server.
    Slice,
    /// Other stores, started by this program.
    Peers,
    /// Several nodes over PostgreSQL.
    Nodes,
    /// Start time of a server, and the memory of an idle session.
    Start,
    /// Research sessions: overviews, and steps through MCP.
    Research,
    /// Searching all sessions.
    Search,
    /// Forks of sessions.
    Fork,
    /// Time that an agent waits for its hook.
    Hook,
    /// Bytes on disk.
    Disk,
}

impl Group {
    pub(super) const ALL: [Self; 12] = [
        Self::Floor,
        Self::Engine,
        Self::Http,
        Self::Slice,
        Self::Peers,
        Self::Nodes,
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
            Self::Nodes => "nodes",
            Self::Start => "start",
            Self::Research => "research",
            Self::Search => "search",
            Self::Fork => "fork",
            Self::Hook => "hook",
            Self::Disk => "disk",
        }
    }
}

/// Durability required before an operation of a cell counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Every operation is acknowledged once it is durable; several may share one flush.
    Durable {
        /// Maximum number of concurrent operations.
        in_flight: u64,
    },
    /// Nothing is written.
    Reads,
}

/// A row of the table that is measured in rounds.
pub(super) struct Cell {
    /// Id of the row; groups and prefixes of ids select rows.
    pub(super) id: &'static str,
    pub(super) group: Group,
    /// Description of one operation for the report.
    pub(super) what: &'static str,
    /// Number of writers, readers or connections.
    pub(super) clients: usize,
    pub(super) effect: Effect,
    /// Setup; `None` when a required program is missing, which the site has noted.
    pub(super) prepare: Prepare,
}

impl Cell {
    /// Creates a cell whose operations count once they are durable, up to `in_flight` at once.
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

    /// Creates an environment with a separate data directory, encrypted for a cell so named.
    pub(super) fn env(&self, site: &Site) -> Outcome<Env> {
        let env = site.env(self.id)?;
        let mut key = [0; KEY_BYTES];
        env.entropy.fill(&mut key);
        let keys = MasterKeys { current: Secret::new(key), previous: None };
        let encrypted = self.id.ends_with(".keys");
        Ok(env.with_keys(encrypted.then(|| Arc::new(keys))))
    }

    /// Creates a cell whose operations write nothing.
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

/// Function that sets a cell up.
pub(super) type Prepare = fn(&mut Site, &Cell) -> Prepared;
/// A load, or `None` if a required program is missing.
pub(super) type Prepared = Outcome<Option<Box<dyn Load>>>;

/// A cell that is set up and can run rounds.
pub(super) trait Load {
    /// Runs one round.
    fn round(&mut self, limits: &Limits) -> Outcome<Round>;

    /// Creates once, before the rounds, the files that a store has after running for a while.
    fn warm(&mut self, _limits: &Limits) -> Outcome<()> {
        Ok(())
    }

    /// Waits for the deferred work of the store, so that it does not run within the next round;
    /// returns its processor seconds. `None` where no work is deferred.
    fn finish(&mut self) -> Outcome<Option<f64>> {
        Ok(None)
    }

    /// Returns why no target may be judged by its rounds; `None` when one may.
    fn unjudged(&self) -> Option<String> {
        None
    }

    /// Counts events acknowledged so far and events found in the store; `None` for readers.
    fn kept(&mut self) -> Outcome<Option<Kept>> {
        Ok(None)
    }
}

/// Numbers of acknowledged and of stored events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// Number of events acknowledged.
    pub(super) acknowledged: u64,
    /// Number of events found.
    pub(super) found: u64,
}

/// Limits of a round.
#[derive(Clone)]
pub(super) struct Limits {
    /// Duration of the round.
    pub(super) duration: Duration,
    /// Set when the user interrupts the run.
    pub(super) stop: Arc<AtomicBool>,
}

impl Limits {
    /// Returns true if a round that has run for `elapsed` is over.
    pub(super) fn over(&self, elapsed: Duration) -> bool {
        elapsed >= self.duration || self.stopped()
    }

    /// Returns true if the user has interrupted the run.
    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Measurements of one round.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// Number of operations completed.
    pub(super) operations: u64,
    /// Number of events appended or read.
    pub(super) events: u64,
    /// Time from the first operation's start to the last one's end.
    pub(super) elapsed: Duration,
    /// Nanoseconds of each operation, unordered.
    pub(super) latencies: Vec<u32>,
    /// Processor seconds of the server in the round; `None` without a server.
    pub(super) server: Option<f64>,
}

impl Round {
    /// Adds one operation.
    pub(super) fn add(&mut self, events: u64, took: Duration) {
        self.operations += 1;
        self.events += events;
        self.latencies.push(u32::try_from(took.as_nanos()).unwrap_or(u32::MAX));
    }

    /// Adds another client's part of the same round.
    pub(super) fn join(&mut self, other: Self) {
        self.operations += other.operations;
        self.events += other.events;
        self.elapsed = self.elapsed.max(other.elapsed);
        self.latencies.extend(other.latencies);
        // Each part measured the whole server.
        self.server = self.server.into_iter().chain(other.server).reduce(f64::max);
    }
}

/// A row of the table that has a single figure.
pub(super) struct Figure {
    pub(super) id: &'static str,
    pub(super) what: &'static str,
    pub(super) unit: &'static str,
}

/// Creates a [`Figure`].
pub(super) const fn figure(id: &'static str, what: &'static str, unit: &'static str) -> Figure {
    Figure { id, what, unit }
}

/// Figures measured together, after the rounds.
pub(super) struct Probe {
    pub(super) group: Group,
    pub(super) figures: &'static [Figure],
    /// Function that measures them.
    pub(super) run: fn(&mut Site) -> Outcome<ProbeResult>,
}

/// Result of a probe.
pub(super) struct ProbeResult {
    /// Values of each figure, in the figures' order.
    pub(super) values: Vec<Vec<f64>>,
    /// Why targets may not be judged by the values; `None` when they may.
    pub(super) unjudged: Option<String>,
}

/// Criterion of a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bound {
    /// At least this multiple of the best of the rows compared.
    TimesMin(f64),
    /// At most this value, in the row's unit.
    ValueMax(f64),
    /// Processor time of the server for an event, deferred work included, at most this multiple of
    /// the least of the rows compared.
    CostTimesMax(f64),
    /// Shown but not judged: context for a reader of another target.
    Shown,
}

/// A target of docs/performance.md for one row.
pub(super) struct Target {
    /// Number of the target in that document.
    pub(super) id: &'static str,
    pub(super) row: &'static str,
    /// Rows compared with; those that were not measured are skipped.
    pub(super) against: &'static [&'static str],
    pub(super) bound: Bound,
}
