//! The site of a run: a new directory on the disk that is measured, the programs started in it, and
//! notes about the machine. Dropping it ends the programs and removes the directory. It must not
//! touch the user's sessions.

use std::{
    collections::BTreeMap,
    io::Write as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use indicatif::ProgressBar;
use tokio::runtime::Runtime;

use super::{
    cell::Cell,
    failure::Outcome,
    machine::Disk,
    postgres::Postgres,
    redis::Redis,
    runner::{interrupted, stop_here},
    sample::Samples,
    server::{SETTLE_AFTER, Server},
};
use sessionlog::env::{
    Clock, Env, MasterKeys,
    clock::SystemClock,
    files,
    host::Scratch,
    secrets::{KEY_BYTES, Secret},
};

/// How often something that lasts is asked whether the user wants to leave.
const STOP_LOOK: Duration = Duration::from_millis(20);

/// How much a run does.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    /// Rounds of every cell.
    pub(super) rounds: u32,
    /// Seconds of one round.
    pub(super) seconds: f64,
    /// Sessions of the rows with many sessions.
    pub(super) sessions: usize,
    /// Bytes of events that a round of the lasting rows with many writers writes.
    pub(super) lasting_bytes: u64,
    /// Sessions of the directory that a server is started on, and bytes of their events at least.
    pub(super) start_sessions: usize,
    pub(super) start_bytes: u64,
    /// Events of a session that slices are read from.
    pub(super) events: usize,
    /// Whether other stores are started.
    pub(super) peers: bool,
    /// Conversations for the row of disk bytes; the built-in one when there is none.
    pub(super) transcripts: Vec<PathBuf>,
    /// web-researcher-mcp, when it is not to be looked for in PATH.
    pub(super) reference: Option<PathBuf>,
}

/// A program that is started when it is first wanted.
enum Wanted<T> {
    NotYet,
    /// It is not on this machine, or does not start.
    Missing,
    Running(T),
}

/// The place of one run. Fields are dropped in this order: programs before their directory.
pub(super) struct Site {
    server: Wanted<Server>,
    /// Servers that run in another way than the first, by what it is called.
    others: BTreeMap<&'static str, Server>,
    postgres: Wanted<Postgres>,
    redis: Wanted<Redis>,
    /// Programs are waited for with its help.
    pub(super) runtime: Runtime,
    scratch: Scratch,
    pub(super) settings: Settings,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) samples: Samples,
    /// Set when the user wants to leave.
    pub(super) stop: Arc<AtomicBool>,
    /// Where a person sees how far it is.
    pub(super) bar: ProgressBar,
    pub(super) disk: Disk,
    /// Whether the device counts flushes: without it nothing can be said about durability.
    pub(super) counts_flushes: bool,
    /// Notes that change how the figures are read.
    pub(super) notes: Vec<String>,
}

impl Site {
    /// A new directory below `parent`, and nothing running.
    pub(super) fn new(parent: &Path, settings: Settings, runtime: Runtime) -> Outcome<Self> {
        let scratch = Scratch::new_in(parent, "sessionlog-bench")?;
        // A peer may run as a user of its own, who must get to its directory and no further.
        files::make_passable(scratch.path())?;
        let mut site = Self {
            server: Wanted::NotYet,
            others: BTreeMap::new(),
            postgres: Wanted::NotYet,
            redis: Wanted::NotYet,
            disk: Disk::under(&files::canonical(scratch.path())?),
            runtime,
            scratch,
            settings,
            clock: Arc::new(SystemClock::new()),
            samples: Samples::new(),
            stop: Arc::default(),
            bar: ProgressBar::hidden(),
            counts_flushes: false,
            notes: Vec::new(),
        };
        let mut settings = files::create(&site.configuration())?;
        writeln!(settings, "settle_after = \"{SETTLE_AFTER}\"")?;
        settings.finish()?;
        site.counts_flushes = site.sees_a_flush()?;
        Ok(site)
    }

    /// Waits for what may last, but not longer than the user wants to.
    pub(super) fn wait<T>(&self, work: impl Future<Output = T>) -> Outcome<T> {
        stop_here(self)?;
        let wants_to_leave = async {
            while !self.stop.load(Ordering::Relaxed) {
                tokio::time::sleep(STOP_LOOK).await;
            }
        };
        let done = self.runtime.block_on(async {
            tokio::select! {
                done = work => Some(done),
                () = wants_to_leave => None,
            }
        });
        done.map_or_else(|| Err(interrupted()), Ok)
    }

    /// A place in the directory.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// A configuration of its own: the user's must not change what is measured. All but one of its
    /// settings are the defaults.
    pub(super) fn configuration(&self) -> PathBuf {
        self.path("sessionlog.toml")
    }

    /// An environment with a data directory of that name.
    pub(super) fn env(&self, name: &str) -> Outcome<Env> {
        Ok(Env::real(&self.path(name))?)
    }

    /// The server for a cell; it encrypts where the cell's name says so.
    pub(super) fn env_of(&self, cell: &Cell) -> Outcome<Env> {
        let env = self.env(cell.id)?;
        let mut key = [0; KEY_BYTES];
        env.entropy.fill(&mut key);
        let keys = MasterKeys { current: Secret::new(key), previous: None };
        let encrypted = cell.id.ends_with(".keys");
        Ok(env.with_keys(encrypted.then(|| Arc::new(keys))))
    }

    /// Whether a sync of written bytes shows as a flush of the device.
    fn sees_a_flush(&self) -> Outcome<bool> {
        const SYNCS: u64 = 20;
        let env = self.env("probe")?;
        let file = env.storage.create("file")?;
        file.write_at(0, &[0; 4096])?;
        file.sync()?;
        let Some(before) = self.disk.counters() else { return Ok(false) };
        for byte in 0..SYNCS {
            file.write_at(byte, b"x")?;
            file.sync()?;
        }
        Ok(self.disk.counters().is_some_and(|now| now.since(before).flushes >= SYNCS))
    }

    /// Our server, on its own data directory.
    pub(super) fn server(&mut self) -> Outcome<&mut Server> {
        if !matches!(self.server, Wanted::Running(_)) {
            self.server = Wanted::Running(Server::prepared(self)?);
        }
        match &mut self.server {
            Wanted::Running(server) => Ok(server),
            _ => Err(std::io::Error::other("the server is not running").into()),
        }
    }

    /// The server for a cell: it requires a token, or encrypts, where the cell's name says so.
    pub(super) fn server_of(&mut self, cell: &Cell) -> Outcome<&mut Server> {
        let (other, start): (_, fn(&Self) -> Outcome<Server>) = match cell.id.rsplit('.').next() {
            Some("token") => ("token", Server::guarded),
            Some("keys") => ("keys", Server::encrypted),
            _ => return self.server(),
        };
        let started = match self.others.remove(other) {
            Some(server) => server,
            None => start(self)?,
        };
        Ok(self.others.entry(other).or_insert(started))
    }

    /// PostgreSQL; `None` when it is not on this machine.
    pub(super) fn postgres(&mut self) -> Option<&Postgres> {
        if let Wanted::NotYet = self.postgres {
            self.postgres = match self.settings.peers.then(|| Postgres::start(self)) {
                Some(Ok(started)) => Wanted::Running(started),
                Some(Err(why)) => self.missing("PostgreSQL", &why),
                None => Wanted::Missing,
            };
        }
        match &self.postgres {
            Wanted::Running(postgres) => Some(postgres),
            _ => None,
        }
    }

    /// Redis; `None` when it is not on this machine.
    pub(super) fn redis(&mut self) -> Option<&Redis> {
        if let Wanted::NotYet = self.redis {
            self.redis = match self.settings.peers.then(|| Redis::start(self)) {
                Some(Ok(started)) => Wanted::Running(started),
                Some(Err(why)) => self.missing("Redis", &why),
                None => Wanted::Missing,
            };
        }
        match &self.redis {
            Wanted::Running(redis) => Some(redis),
            _ => None,
        }
    }

    fn missing<T>(&mut self, peer: &str, why: &str) -> Wanted<T> {
        self.notes.push(format!("{peer} was not compared: {why}"));
        Wanted::Missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_left_when_the_user_wants_to() {
        let home = tempfile::tempdir().expect("a temporary directory");
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let site = Site::new(home.path(), Settings::default(), runtime.expect("a runtime"));
        let site = site.expect("a site");
        assert_eq!(site.wait(async { 7 }).expect("nobody wants to leave"), 7);
        let stop = Arc::clone(&site.stop);
        site.runtime.spawn(async move { stop.store(true, Ordering::Relaxed) });
        assert!(site.wait(std::future::pending::<()>()).is_err());
        assert!(site.wait(async { 7 }).is_err(), "nor is anything begun any more");
    }
}
