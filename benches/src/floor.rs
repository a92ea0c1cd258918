//! The baseline: appends of 1 KiB to plain files on the same disk, each durable before the next,
//! through the traits of `env` that the engine uses. No store of events on this disk can be faster.
//! It must not have an optimisation that a store could not have.

use std::{io, sync::Arc};

use tokio::sync::oneshot;

use super::{
    cell::{Cell, Group, Limits, Load, Prepare, Prepared, Round},
    failure::Outcome,
    sample::{EVENT_BYTES, Samples},
    site::Site,
};
use sessionlog::env::{
    Clock, Env, File,
    sync::{Condvar, Mutex, MutexGuard},
};

pub(super) const CELLS: &[Cell] = &[
    cell("floor.append.1", "1 writer, zeroed file: write, sync", 1, 1, zeroed),
    cell("floor.append.1.once", "1 writer, zeroed file: both in one call", 1, 1, once),
    cell("floor.append.1.growing", "1 writer, growing file: write, sync", 1, 1, prepare_growing),
    cell("floor.append.64", "64 threads, one file, group commit by a leader", 64, 64, group),
    cell(
        "floor.append.64.once",
        "the same, write and sync in one call",
        64,
        64,
        prepare_group_once,
    ),
    cell("floor.append.64.tasks", "64 tasks, one file, a committing thread", 64, 64, tasks),
    cell("floor.append.64.tasks.once", "the same, in one call", 64, 64, prepare_tasks_once),
    cell("floor.flush", "sync with nothing written", 1, 1, flush),
    // This row claims one shared flush for each in-flight operation but makes none: the check of
    // flushes must detect it.
    cell(
        "floor.unsynced",
        "write without sync: not durable, here to be told so",
        1,
        1,
        prepare_unsynced,
    ),
];

const fn cell(
    id: &'static str,
    what: &'static str,
    clients: usize,
    in_flight: u64,
    prepare: Prepare,
) -> Cell {
    Cell::durable(Group::Floor, id, what, clients, in_flight, prepare)
}

/// Size of the zeroed file; a writer at its end continues at the start.
pub(super) const FILE_BYTES: u64 = 64 << 20;
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];
const FILE: &str = "file";

pub(super) fn zeroed_file(env: &Env) -> io::Result<Box<dyn File>> {
    let file = env.storage.create(FILE)?;
    for at in (0..FILE_BYTES).step_by(ZEROS.len()) {
        file.write_at(at, &ZEROS)?;
    }
    file.sync()?;
    env.storage.sync_dir("")?;
    Ok(file)
}

/// Way in which bytes reach the device.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// A write followed by a sync.
    Twice,
    /// A single call that writes and syncs.
    Once,
    /// A write without a sync.
    Never,
    /// A sync without a write.
    Nothing,
}

impl Manner {
    fn write(self, file: &dyn File, at: u64, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Twice => file.write_at(at, bytes).and_then(|()| file.sync()),
            Self::Once => file.write_durably(at, bytes),
            Self::Never => file.write_at(at, bytes),
            Self::Nothing => file.sync(),
        }
    }
}

fn zeroed(site: &mut Site, cell: &Cell) -> Prepared {
    prepare_single(site, cell, Manner::Twice, false)
}

fn once(site: &mut Site, cell: &Cell) -> Prepared {
    prepare_single(site, cell, Manner::Once, false)
}

fn prepare_growing(site: &mut Site, cell: &Cell) -> Prepared {
    prepare_single(site, cell, Manner::Twice, true)
}

fn flush(site: &mut Site, cell: &Cell) -> Prepared {
    prepare_single(site, cell, Manner::Nothing, false)
}

fn prepare_unsynced(site: &mut Site, cell: &Cell) -> Prepared {
    prepare_single(site, cell, Manner::Never, false)
}

fn prepare_single(site: &mut Site, cell: &Cell, manner: Manner, grow: bool) -> Prepared {
    let env = site.env(cell.id)?;
    let file = if grow { env.storage.create(FILE)? } else { zeroed_file(&env)? };
    let samples = site.samples.clone();
    Ok(Some(Box::new(Single { env, file, manner, grow, samples, at: 0 })))
}

struct Single {
    env: Env,
    file: Box<dyn File>,
    manner: Manner,
    /// True for a new file in every round, without zeroed space.
    grow: bool,
    samples: Samples,
    at: u64,
}

impl Load for Single {
    fn round(&mut self, limits: &Limits) -> Outcome<Round> {
        if self.grow {
            self.env.storage.remove(FILE)?;
            self.file = self.env.storage.create(FILE)?;
            self.env.storage.sync_dir("")?;
            self.at = 0;
        }
        let mut round = Round::default();
        let began = self.env.clock.monotonic();
        let mut asked = began;
        loop {
            if !self.grow {
                self.at %= FILE_BYTES;
            }
            self.manner.write(&*self.file, self.at, &self.samples.next().json)?;
            self.at += EVENT_BYTES as u64;
            let now = self.env.clock.monotonic();
            round.add(1, now.saturating_sub(asked));
            round.elapsed = now.saturating_sub(began);
            if limits.over(round.elapsed) {
                break;
            }
            asked = now;
        }
        if self.manner == Manner::Never {
            // Otherwise the written bytes would reach the device within the next round.
            self.file.sync()?;
        }
        Ok(round)
    }
}

// -- group commit: the first caller writes and syncs for all waiting callers ----------------------

/// A file that many callers append to.
struct Shared {
    file: Box<dyn File>,
    manner: Manner,
    state: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    at: u64,
    /// Number of the group being filled.
    group: u64,
    /// Groups below this number are durable.
    durable: u64,
    /// True while a thread writes and syncs.
    leading: bool,
    /// True after a failed sync: no later event is acknowledged.
    failed: bool,
    /// Callers waiting for the group being filled, where a committer thread commits.
    done: Vec<oneshot::Sender<()>>,
    closed: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock()
    }

    fn wait<'a>(&self, state: MutexGuard<'a, Waiting>) -> MutexGuard<'a, Waiting> {
        self.changed.wait(state)
    }

    /// Writes and syncs a group at the byte offset after the last one.
    fn write(&self, at: &mut u64, bytes: &[u8]) -> io::Result<()> {
        if *at + bytes.len() as u64 > FILE_BYTES {
            *at = 0;
        }
        self.manner.write(&*self.file, *at, bytes)?;
        *at += bytes.len() as u64;
        Ok(())
    }

    /// Returns once `event` is durable; the first waiting caller writes and syncs.
    fn append(&self, event: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        state.bytes.extend_from_slice(event);
        let mine = state.group;
        loop {
            if state.failed {
                return Err(io::Error::other("a write or sync of the floor failed"));
            }
            if state.durable > mine {
                return Ok(());
            }
            if state.leading {
                state = self.wait(state);
                continue;
            }
            state.leading = true;
            let (bytes, mut at) = (std::mem::take(&mut state.bytes), state.at);
            state.group += 1;
            drop(state);
            let written = self.write(&mut at, &bytes);
            state = self.state();
            (state.at, state.leading, state.failed) = (at, false, written.is_err());
            state.durable = mine + 1;
            self.changed.notify_all();
            drop(state);
            return written;
        }
    }

    /// Commits the events that tasks hand over, until the round is over.
    fn commit(&self) -> io::Result<()> {
        let mut at = 0;
        loop {
            let mut state = self.state();
            while state.done.is_empty() && !state.closed {
                state = self.wait(state);
            }
            if state.done.is_empty() {
                return Ok(());
            }
            let (bytes, done) = (std::mem::take(&mut state.bytes), std::mem::take(&mut state.done));
            drop(state);
            // Waiting callers see a failure as a closed channel.
            self.write(&mut at, &bytes)?;
            for waiting in done {
                let _ = waiting.send(());
            }
        }
    }
}

struct Many {
    shared: Arc<Shared>,
    samples: Samples,
    clients: usize,
    clock: Arc<dyn Clock>,
    runtime: tokio::runtime::Handle,
    /// True for tasks with a committer thread, instead of threads with a leader among them.
    tasks: bool,
}

fn group(site: &mut Site, cell: &Cell) -> Prepared {
    prepare_many(site, cell, Manner::Twice, false)
}

fn prepare_group_once(site: &mut Site, cell: &Cell) -> Prepared {
    prepare_many(site, cell, Manner::Once, false)
}

fn tasks(site: &mut Site, cell: &Cell) -> Prepared {
    prepare_many(site, cell, Manner::Twice, true)
}

fn prepare_tasks_once(site: &mut Site, cell: &Cell) -> Prepared {
    prepare_many(site, cell, Manner::Once, true)
}

fn prepare_many(site: &mut Site, cell: &Cell, manner: Manner, tasks: bool) -> Prepared {
    let file = zeroed_file(&site.env(cell.id)?)?;
    let shared = Shared { file, manner, state: Mutex::default(), changed: Condvar::new() };
    Ok(Some(Box::new(Many {
        shared: Arc::new(shared),
        samples: site.samples.clone(),
        clients: cell.clients,
        clock: Arc::clone(&site.clock),
        runtime: site.runtime.handle().clone(),
        tasks,
    })))
}

impl Load for Many {
    fn round(&mut self, limits: &Limits) -> Outcome<Round> {
        let rounds = if self.tasks { self.run_tasks(limits) } else { self.run_threads(limits) };
        let mut all = Round::default();
        for round in rounds? {
            all.join(round?);
        }
        Ok(all)
    }
}

impl Many {
    fn run_threads(&self, limits: &Limits) -> io::Result<Vec<io::Result<Round>>> {
        let write = |number: usize| -> io::Result<Round> {
            let mut samples = self.samples.starting_at(number);
            let mut round = Round::default();
            let began = self.clock.monotonic();
            let mut asked = began;
            loop {
                self.shared.append(&samples.next().json)?;
                let now = self.clock.monotonic();
                round.add(1, now.saturating_sub(asked));
                round.elapsed = now.saturating_sub(began);
                if limits.over(round.elapsed) {
                    return Ok(round);
                }
                asked = now;
            }
        };
        let write = &write;
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..self.clients).map(|number| scope.spawn(move || write(number))).collect();
            let panicked = |_| io::Error::other("a writer of the floor panicked");
            threads.into_iter().map(|thread| thread.join().map_err(panicked)).collect()
        })
    }

    fn run_tasks(&self, limits: &Limits) -> io::Result<Vec<io::Result<Round>>> {
        self.shared.state().closed = false;
        let write = |number: usize| {
            let mut samples = self.samples.starting_at(number);
            let (shared, clock) = (Arc::clone(&self.shared), Arc::clone(&self.clock));
            let limits = limits.clone();
            async move {
                let mut round = Round::default();
                let began = clock.monotonic();
                let mut asked = began;
                loop {
                    let durable = hand_over(&shared, &samples.next().json);
                    durable.await.map_err(io::Error::other)?;
                    let now = clock.monotonic();
                    round.add(1, now.saturating_sub(asked));
                    round.elapsed = now.saturating_sub(began);
                    if limits.over(round.elapsed) {
                        return Ok(round);
                    }
                    asked = now;
                }
            }
        };
        let _inside = self.runtime.enter();
        std::thread::scope(|scope| {
            let committer = scope.spawn(|| self.shared.commit());
            let tasks: Vec<_> = (0..self.clients).map(|n| tokio::spawn(write(n))).collect();
            let joined = tasks.into_iter().map(|task| self.runtime.block_on(task));
            let rounds: Vec<_> = joined.map(|round| round.map_err(io::Error::other)).collect();
            self.shared.state().closed = true;
            self.shared.changed.notify_all();
            let panicked = |_| io::Error::other("the committer of the floor panicked");
            committer.join().map_err(panicked)??;
            rounds.into_iter().collect()
        })
    }
}

/// Adds an event to the next commit; the returned channel resolves once it is durable.
fn hand_over(shared: &Shared, event: &[u8]) -> oneshot::Receiver<()> {
    let (sender, receiver) = oneshot::channel();
    let mut state = shared.state();
    state.bytes.extend_from_slice(event);
    state.done.push(sender);
    if state.done.len() == 1 {
        shared.changed.notify_one();
    }
    receiver
}
