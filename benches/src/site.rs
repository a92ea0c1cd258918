//! The site of a run: a new directory on the disk that is measured, the programs started in it, and
//! notes about the machine. Dropping it ends the programs and removes the directory. It must not
//! touch the user's sessions.

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
use sessionlog::env::{Clock, Env, clock::SystemClock, files, host::Scratch};

/// Time without an append after which the benchmark's server flushes, in the configuration's
/// spelling: shorter than by default, so that a row is not waited for longer than it ran. Under
/// load the size decides, as always.
const SETTLE_AFTER: &str = "200ms";

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

/// The place of one run. Fields are dropped in this order: programs before their directory.
pub(super) struct Site {
    /// Programs that were wanted, by name; `None` of one that is not on this machine.
    programs: BTreeMap<&'static str, Option<Box<dyn Any>>>,
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
        fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o711))?;
        let mut site = Self {
            programs: BTreeMap::new(),
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

    /// A program, started when it is first wanted; `None` when it is not on this machine.
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

    /// Another store; where it cannot be started, the notes say why.
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
        // It is not a failure of the run that a peer does not start.
        let is_there = self.program(name, wanted).is_ok_and(|peer| peer.is_some());
        self.notes.extend(problem.map(|why| format!("{name} was not compared: {why}")));
        let known = self.programs.get(name).filter(|_| is_there)?;
        known.as_ref()?.downcast_ref()
    }
}

/// Leaves when the user wants to.
pub(super) fn stop_here(site: &Site) -> Outcome {
    if site.stop.load(Ordering::Relaxed) { Err(interrupted()) } else { Ok(()) }
}

fn interrupted() -> Failure {
    Failure::Ended(
        "the benchmark was interrupted; its processes and its directory are gone".to_owned(),
        "run it again; --quick takes half a minute",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_never_ends_is_left_when_the_user_interrupts_it() {
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
