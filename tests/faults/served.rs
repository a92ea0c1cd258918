//! The program under test as a process: started under a wrapper (a tracer, a limit, another user),
//! used over HTTP, killed. It must not depend on a fault.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{
    http::Wire,
    machine::{Dice, eventually, pause},
};

/// Maximum wait for a server to report that it listens.
const START: Duration = Duration::from_secs(60);

/// Command that starts a server.
#[derive(Clone)]
pub struct Setup {
    pub data: PathBuf,
    before: Vec<String>,
    variables: Vec<(String, String)>,
    home: PathBuf,
}

/// A server that ended before it was ready.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub err: String,
}

/// A running server.
pub struct Server {
    /// The process of the server, or of its wrapper.
    child: Child,
    pub pid: u32,
    pub address: SocketAddr,
    err: PathBuf,
}

/// Returns the path of the binary under test.
pub fn binary() -> String {
    let own = || env!("CARGO_BIN_EXE_sessionlog").to_owned();
    std::env::var("SESSIONLOG_BINARY").unwrap_or_else(|_| own())
}

impl Setup {
    /// Configures a server of `data`; `home` is its directory for other files.
    pub fn new(home: &Path, data: &Path) -> Self {
        Self {
            data: data.to_owned(),
            before: Vec::new(),
            variables: Vec::new(),
            home: home.to_owned(),
        }
    }

    /// Sets file sizes so small that files rotate, flush and seal constantly.
    pub fn small(self) -> Self {
        self.with("SESSIONLOG_JOURNAL_FILE_BYTES", "64KiB")
            .with("SESSIONLOG_JOURNAL_RETAINED_BYTES", "128KiB")
            .with("SESSIONLOG_SEGMENT_BYTES_MAX", "16KiB")
    }

    pub fn with(mut self, variable: &str, value: &str) -> Self {
        self.variables.push((variable.to_owned(), value.to_owned()));
        self
    }

    /// Sets the wrapper's command line.
    pub fn before(mut self, words: &[&str]) -> Self {
        self.before = words.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Returns a command of the program on the same data directory.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command
            .args(words)
            .env_clear()
            .env("HOME", &self.home)
            .env("SESSIONLOG_DATA_DIR", &self.data)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.home)
            .stdin(Stdio::null());
        command
    }

    pub fn start(&self) -> Result<Server, Ended> {
        let err = self.home.join(format!("stderr-{}", Dice(self.unique_number()).roll(u64::MAX)));
        let program = binary();
        let mut words: Vec<&str> = self.before.iter().map(String::as_str).collect();
        words.extend([&*program, "serve", "--listen", "127.0.0.1:0", "--json"]);
        let mut child = Command::new(words[0])
            .args(&words[1..])
            .env_clear()
            .env("PATH", std::env::var("PATH").unwrap_or_default())
            .env("HOME", &self.home)
            .env("SESSIONLOG_DATA_DIR", &self.data)
            .env("SESSIONLOG_LOG", "warn")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.home)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&err).unwrap())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || tell.send(first_line(out)));
        let line = told.recv_timeout(START).unwrap_or_else(|_| {
            let _ = child.kill();
            "silent for too long".to_owned()
        });
        let said: Value = serde_json::from_str(&line).unwrap_or_default();
        let address = said["listening"].as_str().and_then(|url| url.strip_prefix("http://"));
        let pid = said["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        let Some((address, pid)) = address.zip(pid) else {
            // A program that prints anything else failed to start, and ends.
            let code = child.wait().unwrap().code();
            let ended = Ended { code, err: read(&err) + &line };
            let _ = fs::remove_file(&err);
            return Err(ended);
        };
        Ok(Server { child, pid, address: address.parse().unwrap(), err })
    }

    /// Starts a server; panics if it does not start.
    #[track_caller]
    pub fn up(&self) -> Server {
        self.start().unwrap_or_else(|ended| panic!("no start: {ended:?}"))
    }

    fn unique_number(&self) -> u64 {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0x9e37_79b9);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }
}

fn first_line(mut out: BufReader<impl std::io::Read>) -> String {
    let mut line = String::new();
    let _ = out.read_line(&mut line);
    line
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

impl Server {
    pub fn wire(&self) -> Wire {
        Wire::new(self.address)
    }

    /// Returns its standard error.
    pub fn said(&self) -> String {
        read(&self.err)
    }

    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Returns true if it ends soon: a tracer outlives its program for a moment.
    pub fn ends_soon(&mut self) -> bool {
        (0..200).any(|_| {
            let gone = !self.is_alive();
            if !gone {
                pause(Duration::from_millis(10));
            }
            gone
        })
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).unwrap();
        // It may have ended already.
        let _ = kill_process(pid, signal);
    }

    /// Sends SIGKILL, and waits for its end.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.child.wait().unwrap();
    }

    /// Sends SIGTERM, and returns the exit code.
    pub fn stop(&mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.ended()
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> Option<i32> {
        eventually("the server's end", || self.child.try_wait().unwrap()).code()
    }

    /// Counts its open descriptors.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid)).map_or(0, Iterator::count)
    }

    /// Returns a number of `/proc/PID/status`, in KiB for a size.
    pub fn status(&self, field: &str) -> u64 {
        let text = read(Path::new(&format!("/proc/{}/status", self.pid)));
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
        line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.is_alive() {
            self.kill();
        }
        if std::thread::panicking() {
            eprintln!("the server said:\n{}", self.said());
        }
        let _ = fs::remove_file(&self.err);
    }
}
