//! The site of a run: a new directory on the measured disk, the programs started in it, and notes
//! about the machine. Dropping it ends the programs and removes the directory. It must not touch
//! the user's sessions.

use std::{
    any::Any,
    collections::BTreeMap,
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
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
    failure::{Failure, Outcome},
    machine::Disk,
    sample::Samples,
};
use sessionlog::env::{Clock, Env, clock::SystemClock, files, host::ScratchDir};

/// Time without an append after which the benchmark's server flushes, as a setting: shorter than
/// the default, so that waiting for a row does not take longer than running it. Under load the size
/// triggers a flush, as always.
const SETTLE_AFTER: &str = "200ms";

/// Interval at which a long wait checks for an interrupt of the user.
const STOP_LOOK: Duration = Duration::from_millis(20);

/// Size of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    /// Number of rounds of every cell.
    pub(super) rounds: u32,
    /// Seconds of one round.
    pub(super) seconds: f64,
    /// Number of sessions in the rows with many sessions.
    pub(super) sessions: usize,
    /// Bytes of events written in a round of the lasting rows with many writers.
    pub(super) lasting_bytes: u64,
    /// Sessions of the store that a server is started on, and minimum bytes of their events.
    pub(super) start_sessions: usize,
    pub(super) start_bytes: u64,
    /// Number of events of a session that slices are read from.
    pub(super) events: usize,
    /// True if other stores are started.
    pub(super) peers: bool,
    /// Conversations for the row of disk bytes; empty for the built-in one.
    pub(super) transcripts: Vec<PathBuf>,
    /// Path of web-researcher-mcp; `None` to search PATH.
    pub(super) reference: Option<PathBuf>,
}

/// The resources of one run. Fields are dropped in this order: programs before their directory.
pub(super) struct Site {
    /// Started programs by name; `None` for one that is missing on this machine.
    programs: BTreeMap<&'static str, Option<Box<dyn Any>>>,
    /// Runtime on which programs are awaited.
    pub(super) runtime: Runtime,
    scratch: ScratchDir,
    pub(super) settings: Settings,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) samples: Samples,
    /// Set when the user interrupts the run.
    pub(super) stop: Arc<AtomicBool>,
    /// Progress bar shown to the user.
    pub(super) bar: ProgressBar,
    pub(super) disk: Disk,
    /// True if the device counts flushes: otherwise durability cannot be checked.
    pub(super) counts_flushes: bool,
    /// Notes that affect how the figures are read.
    pub(super) notes: Vec<String>,
}

impl Site {
    /// Creates a new directory below `parent`; starts no program.
    pub(super) fn new(parent: &Path, settings: Settings, runtime: Runtime) -> Outcome<Self> {
        let scratch = ScratchDir::new_in(parent, "sessionlog-bench")?;
        // A peer may run as another user, who needs to traverse the directory but not to list it.
        fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o711))?;
        let mut site = Self {
            programs: BTreeMap::new(),
            disk: Disk::under(&files::canonicalize(scratch.path())?),
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

    /// Waits for long work, unless the user interrupts it.
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
        done.map_or_else(|| Err(interrupted_failure()), Ok)
    }

    /// Returns a path in the directory.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Returns a separate configuration: the user's must not affect the measurement. All but one of
    /// its settings are the defaults.
    pub(super) fn configuration(&self) -> PathBuf {
        self.path("sessionlog.toml")
    }

    /// Creates an environment with a data directory of that name.
    pub(super) fn env(&self, name: &str) -> Outcome<Env> {
        Ok(Env::open(&self.path(name))?)
    }

    /// Returns true if a sync of written bytes shows as a flush of the device.
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

    /// Returns a program, started at its first use; `None` when it is missing on this machine.
    pub(super) fn program<P: Any>(
        &mut self,
        name: &'static str,
        start: impl FnOnce(&Self) -> Outcome<Option<P>>,
    ) -> Outcome<Option<&mut P>> {
        let boxed = |program: P| Box::new(program) as Box<dyn Any>;
        let program = match self.programs.remove(name) {
            Some(known) => known,
            None => start(self)?.map(boxed),
        };
        let program = self.programs.entry(name).or_insert(program);
        Ok(program.as_mut().and_then(|program| program.downcast_mut()))
    }

    /// Returns another store; if it cannot be started, adds a note with the reason.
    pub(super) fn peer<P: Any>(
        &mut self,
        name: &'static str,
        start: fn(&Self) -> Result<P, String>,
    ) -> Option<&P> {
        let mut problem = None;
        let wanted = |site: &Self| {
            let started = site.settings.peers.then(|| start(site)).transpose();
            Ok(started.unwrap_or_else(|why| {
                problem = Some(why);
                None
            }))
        };
        // A peer that does not start is not a failure of the run.
        let is_there = self.program(name, wanted).is_ok_and(|peer| peer.is_some());
        self.notes.extend(problem.map(|why| format!("{name} was not compared: {why}")));
        let known = self.programs.get(name).filter(|_| is_there)?;
        known.as_ref()?.downcast_ref()
    }
}

/// Returns an error if the user has interrupted the run.
pub(super) fn stop_here(site: &Site) -> Outcome {
    if site.stop.load(Ordering::Relaxed) { Err(interrupted_failure()) } else { Ok(()) }
}

fn interrupted_failure() -> Failure {
    Failure::Ended(
        "the benchmark was interrupted; its processes and its directory are gone".to_owned(),
        "run it again; --quick takes half a minute",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endless_run_ends_when_the_user_interrupts_it() {
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
