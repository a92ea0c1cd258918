//! Programs started by this benchmark: each is asked to stop and awaited when its owner is dropped.
//! It must not outlive the benchmark, nor touch a process that it did not start.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
    process::ExitStatus,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::{Child, Command},
    runtime::Handle,
};

/// Time for a program to stop before it is killed, where its exit code is not read.
const STOP: Duration = Duration::from_secs(20);
/// Time limit for a program to stop, where its exit code is read.
const CLEAN_STOP: Duration = Duration::from_secs(600);

const START_TRIES: usize = 400;
const START_PAUSE: Duration = Duration::from_millis(25);

/// A running program.
pub(super) struct Process {
    child: Child,
    runtime: Handle,
    /// Signal that asks it to stop.
    polite: Signal,
}

impl Process {
    /// Starts it unaffected by the terminal's Ctrl-C: the benchmark stops it itself.
    pub(super) fn start(
        command: &mut Command,
        polite: Signal,
        runtime: &Handle,
    ) -> io::Result<Self> {
        let _inside = runtime.enter();
        let child = command.process_group(0).kill_on_drop(true).spawn()?;
        Ok(Self { child, runtime: runtime.clone(), polite })
    }

    pub(super) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// Asks it to stop and waits for a clean end.
    ///
    /// # Errors
    /// Fails if it ended with an error, or not within ten minutes.
    pub(super) fn stop(mut self) -> io::Result<()> {
        match self.ended(CLEAN_STOP) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(io::Error::other(format!("a server did not stop well: {status}"))),
            None => Err(io::Error::other("a server does not stop")),
        }
    }

    /// Asks it to stop and waits; returns its exit status, if it ended.
    fn ended(&mut self, patience: Duration) -> Option<ExitStatus> {
        // Without an id it was already awaited: the number may belong to another process.
        let pid = Pid::from_raw(i32::try_from(self.child.id()?).ok()?)?;
        kill_process(pid, self.polite).ok()?;
        let wait = async { tokio::time::timeout(patience, self.child.wait()).await };
        self.runtime.clone().block_on(wait).ok()?.ok()
    }

    /// Retries until the program responds, ends, or exceeds the time limit.
    pub(super) fn wait_until(&mut self, answers: impl Fn() -> io::Result<()>) -> io::Result<()> {
        let mut last = Ok(());
        for _ in 0..START_TRIES {
            last = answers();
            if last.is_ok() || !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            self.runtime.block_on(async { tokio::time::sleep(START_PAUSE).await });
        }
        last
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.child.id().is_some() && self.ended(STOP).is_none() {
            // A destructor cannot report an error; the runtime kills the remaining process.
            let _ = self.runtime.clone().block_on(self.child.kill());
        }
    }
}

/// Returns a free port of the loopback address. Another process may take it first: then the started
/// program fails and reports that.
pub(super) fn free_port() -> io::Result<u16> {
    let listener = TcpListener::bind(loopback(0))?;
    Ok(listener.local_addr()?.port())
}

/// Returns an address reachable from this machine only.
pub(super) fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Finds a program in PATH, then in `others`.
pub(super) fn find(program: &str, others: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(others.iter().cloned());
    directories.map(|directory| directory.join(program)).find(|file| file.is_file())
}

/// Returns the command line of sessionlog: this program under its other name, see `main`.
pub(super) fn sessionlog() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(super::SESSIONLOG);
    command
}
