//! A PostgreSQL server for the tests of one binary: it is started from what the machine has, in a
//! temporary directory, reached by a socket there, and ends with the binary. Each store gets a schema
//! of its own. It must not use a port. Without a server installed, a test says SKIPPED; with
//! `SESSIONLOG_REQUIRE_SERVERS` set, it fails.

use std::{
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// User that the server runs as where the tests run as root, which it refuses.
const SERVER_USER: &str = "postgres";

/// A running server.
pub struct Server {
    home: tempfile::TempDir,
    _child: Child,
    /// The server ends when this is closed.
    _end: ChildStdin,
}

static SERVER: OnceLock<Option<Server>> = OnceLock::new();
static SCHEMAS: AtomicU64 = AtomicU64::new(0);

/// Returns the server of this binary; `None` if none is installed.
pub fn postgres() -> Option<&'static Server> {
    let server = SERVER.get_or_init(|| Server::start(&["-c", "fsync=off"]));
    if server.is_none() {
        assert!(
            std::env::var_os("SESSIONLOG_REQUIRE_SERVERS").is_none(),
            "no PostgreSQL is installed: apt-get install postgresql"
        );
        eprintln!("SKIPPED: no PostgreSQL is installed (apt-get install postgresql)");
    }
    server.as_ref()
}

/// Returns the directory of the programs of the newest server that is installed.
pub fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = versions
        .filter_map(|version| {
            let number = version.file_name().to_str()?.parse().ok()?;
            Some((number, version.path().join("bin")))
        })
        .filter(|(_, programs)| programs.join("initdb").exists())
        .collect();
    found.sort();
    let on_path = std::env::var_os("PATH").and_then(|path| {
        std::env::split_paths(&path).find(|directory| directory.join("initdb").exists())
    });
    found.pop().map(|(_, programs)| programs).or(on_path)
}

/// Returns a command that runs as a user that a server accepts.
fn command(program: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", SERVER_USER, "--regid", SERVER_USER, "--init-groups"]).arg(program);
    command
}

impl Server {
    /// Starts a server with these options; `None` if none is installed.
    pub fn start(options: &[&str]) -> Option<Self> {
        let programs = programs()?;
        let home = tempfile::tempdir().unwrap();
        if rustix::process::geteuid().is_root() {
            let owner = format!("{SERVER_USER}:{SERVER_USER}");
            let changed = Command::new("chown").arg(owner).arg(home.path()).status().unwrap();
            assert!(changed.success());
        }
        let data = home.path().join("data");
        let made = command(&programs.join("initdb"))
            .args(["--no-sync", "--auth=trust", "--username=sl", "--encoding=UTF8", "--locale=C"])
            .arg("-D")
            .arg(&data)
            .current_dir(home.path())
            .output()
            .unwrap();
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let log = std::fs::File::create(home.path().join("log")).unwrap();
        let mut child = command(Path::new("/bin/sh"))
            // The server ends when the standard input of the shell does, however the tests end.
            .args(["-c", "\"$@\" <&- & p=$!; read _; kill -INT $p; wait $p", "sh"])
            .arg(programs.join("postgres"))
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(home.path())
            .args(["-c", "listen_addresses=", "-c", "max_connections=500"])
            .args(["-c", "shared_buffers=32MB", "-c", "log_min_messages=fatal"])
            .args(options)
            .current_dir(home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let end = child.stdin.take().unwrap();
        let server = Self { home, _child: child, _end: end };
        server.wait_until_ready(&programs);
        Some(server)
    }

    fn wait_until_ready(&self, programs: &Path) {
        for _ in 0..600 {
            let ready = Command::new(programs.join("pg_isready"))
                .args(["-q", "-U", "sl", "-d", "postgres", "-t", "1", "-h"])
                .arg(self.home.path())
                .status()
                .unwrap();
            if ready.success() {
                return;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(50));
        }
        let log = std::fs::read_to_string(self.home.path().join("log")).unwrap_or_default();
        panic!("the server does not start: {log}");
    }

    /// Returns the address of a schema that no other call returns, with these options.
    pub fn address(&self, options: &str) -> String {
        let schema = SCHEMAS.fetch_add(1, Ordering::Relaxed);
        self.address_of(&format!("s{schema}"), options)
    }

    /// Returns the address of a schema.
    pub fn address_of(&self, schema: &str, options: &str) -> String {
        let home = self.home.path().display();
        format!("postgres://sl@/postgres?host={home}&schema={schema}&durability=weak{options}")
    }

    /// Returns the directory of its socket.
    pub fn socket_directory(&self) -> &Path {
        self.home.path()
    }

    /// Runs a statement in the server, as its superuser.
    pub fn run(&self, sql: &str) -> String {
        let programs = programs().expect("the server was started from it");
        let run = Command::new(programs.join("psql"))
            .args(["-X", "-A", "-t", "-q", "-U", "sl", "-d", "postgres", "-c", sql, "-h"])
            .arg(self.home.path())
            .output()
            .unwrap();
        assert!(run.status.success(), "{sql}: {}", String::from_utf8_lossy(&run.stderr));
        String::from_utf8(run.stdout).unwrap().trim().to_owned()
    }
}
