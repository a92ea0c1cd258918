//! A PostgreSQL server for the tests of one binary: it is started from what the machine has, in a
//! temporary directory, reached by a socket there, and ends with the binary. Each store gets its
//! own schema. It must not use a port. Without a server installed, a test says SKIPPED; with
//! `REQUIRE_SERVERS` set, it fails.

use std::{
    ffi::OsString,
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
    _running: Running,
}

static SERVER: OnceLock<Option<Server>> = OnceLock::new();
static SCHEMAS: AtomicU64 = AtomicU64::new(0);

/// Returns the server of this binary; `None` if none is installed.
pub fn postgres() -> Option<&'static Server> {
    let server = SERVER.get_or_init(|| Server::start(&["-c", "fsync=off"]));
    if server.is_none() {
        report_missing("postgresql");
    }
    server.as_ref()
}

/// Reports that a test is skipped because a package is not installed.
///
/// # Panics
/// If the servers are required.
pub fn report_missing(package: &str) {
    let missing = format!("no {package} is installed: apt-get install {package}");
    assert!(std::env::var_os("REQUIRE_SERVERS").is_none(), "{missing}");
    eprintln!("SKIPPED: {missing}");
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
        give_to_server_user(home.path());
        let data = home.path().join("data");
        run(command(&programs.join("initdb"))
            .args(["--no-sync", "--auth=trust", "--username=sl", "--encoding=UTF8", "--locale=C"])
            .arg("-D")
            .arg(&data)
            .current_dir(home.path()));
        let mut postgres = vec![programs.join("postgres").into_os_string(), "-D".into()];
        postgres.extend([data.into_os_string(), "-k".into(), home.path().into()]);
        let usual = ["-c", "listen_addresses=", "-c", "max_connections=500"];
        let quiet = ["-c", "shared_buffers=32MB", "-c", "log_min_messages=fatal"];
        postgres.extend(usual.iter().chain(&quiet).chain(options).map(Into::into));
        let running = Running::start(&postgres, home.path(), "INT");
        let server = Self { home, _running: running };
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
        let mut psql = Command::new(programs.join("psql"));
        psql.args(["-X", "-A", "-t", "-q", "-U", "sl", "-d", "postgres", "-c", sql, "-h"]);
        run(psql.arg(self.home.path()))
    }
}

/// A primary and a standby that replicates it, in two directories, one for each socket.
pub struct Pair {
    homes: [tempfile::TempDir; 2],
    servers: [Option<Running>; 2],
    primary: usize,
    synchronous: bool,
    programs: PathBuf,
}

/// A program that ends with the tests, however they end.
pub struct Running {
    child: Child,
    /// The program ends when this is closed.
    _end: ChildStdin,
}

impl Running {
    /// Starts a program as a user that a server accepts, with its log in `home`; it gets this
    /// signal at the end.
    pub fn start(program: &[OsString], home: &Path, signal: &str) -> Self {
        let mut child = command(Path::new("/bin/sh"))
            // The program ends when the standard input of the shell does.
            .args(["-c", "s=$1; shift; \"$@\" <&- & p=$!; read _; kill -$s $p; wait $p", "sh"])
            .arg(signal)
            .args(program)
            .current_dir(home)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(server_log(home))
            .spawn()
            .unwrap();
        let end = child.stdin.take().unwrap();
        Self { child, _end: end }
    }

    /// Ends the program and waits until it has ended.
    fn end(self) {
        let Self { mut child, _end } = self;
        drop(_end);
        child.wait().unwrap();
    }
}

impl Pair {
    /// Starts both; `None` if no server is installed.
    pub fn start(synchronous: bool) -> Option<Self> {
        let programs = programs()?;
        let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let mut pair = Self { homes, servers: [None, None], primary: 0, synchronous, programs };
        for home in &pair.homes {
            give_to_server_user(home.path());
        }
        let home = pair.homes[0].path().to_owned();
        let data = home.join("data");
        run(command(&pair.programs.join("initdb"))
            .args(["--no-sync", "--auth=trust", "--username=sl", "--encoding=UTF8", "--locale=C"])
            .arg("-D")
            .arg(&data)
            .current_dir(&home));
        pair.launch(0);
        pair.add_standby();
        Some(pair)
    }

    /// Returns the address of a store with both servers.
    pub fn address(&self) -> String {
        let [one, other] = self.homes.each_ref().map(|home| home.path().display().to_string());
        format!("postgres://sl@/postgres?host={one},{other}&durability=single")
    }

    fn launch(&mut self, which: usize) {
        let home = self.homes[which].path();
        let mut postgres = vec![self.programs.join("postgres").into_os_string(), "-D".into()];
        postgres.extend([home.join("data").into_os_string(), "-k".into(), home.into()]);
        let usual = ["-c", "listen_addresses=", "-c", "max_connections=100"];
        let quiet =
            ["-c", "shared_buffers=16MB", "-c", "hot_standby=on", "-c", "log_min_messages=log"];
        postgres.extend(usual.iter().chain(&quiet).map(Into::into));
        // SIGQUIT ends all processes at once, like a crash.
        self.servers[which] = Some(Running::start(&postgres, home, "QUIT"));
        self.poll(which, "SELECT true");
    }

    /// Makes the other directory a standby of the primary, and waits until it follows.
    pub fn add_standby(&mut self) {
        let (primary, standby) = (self.primary, 1 - self.primary);
        let data = self.homes[standby].path().join("data");
        if data.exists() {
            std::fs::remove_dir_all(&data).unwrap();
        }
        run(command(&self.programs.join("pg_basebackup"))
            .args(["-U", "sl", "-R", "-X", "stream", "-c", "fast", "--no-sync", "-h"])
            .arg(self.homes[primary].path())
            .arg("-D")
            .arg(&data)
            .current_dir(self.homes[standby].path()));
        self.launch(standby);
        self.poll(
            primary,
            "SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming'",
        );
        let names = if self.synchronous { "*" } else { "" };
        self.sql(primary, &format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'"));
        self.sql(primary, "SELECT pg_reload_conf()");
        self.poll(
            primary,
            &format!("SELECT current_setting('synchronous_standby_names') = '{names}'"),
        );
        if self.synchronous {
            self.poll(
                primary,
                "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state <> 'async'",
            );
        }
    }

    /// Waits until the standby has all that the primary has.
    pub fn wait_until_replayed(&self) {
        self.poll(
            self.primary,
            "SELECT replay_lsn >= pg_current_wal_lsn() FROM pg_stat_replication",
        );
    }

    /// Keeps the standby from receiving more.
    pub fn hold_standby_back(&self) {
        let standby = 1 - self.primary;
        self.sql(standby, "ALTER SYSTEM SET primary_conninfo = ''");
        self.sql(standby, "SELECT pg_reload_conf()");
        self.poll(self.primary, "SELECT count(*) = 0 FROM pg_stat_replication");
    }

    /// Lets a standby that was held back follow again.
    pub fn let_standby_follow(&self) {
        let (standby, primary) = (1 - self.primary, self.homes[self.primary].path().display());
        let follow = format!("user=sl host={primary}");
        self.sql(standby, &format!("ALTER SYSTEM SET primary_conninfo = '{follow}'"));
        self.sql(standby, "SELECT pg_reload_conf()");
    }

    /// Cancels the commits that wait for a standby; returns how many.
    pub fn cancel_waiting_commits(&self) -> usize {
        let cancelled = self.sql(
            self.primary,
            "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'",
        );
        cancelled.parse().unwrap()
    }

    /// Ends the primary like a crash, promotes the standby, and makes the old one its standby.
    pub fn fail_over(&mut self) {
        self.servers[self.primary].take().expect("the primary runs").end();
        self.primary = 1 - self.primary;
        // A new primary waits for no standby that it does not have yet.
        self.sql(self.primary, "SELECT pg_promote(true, 60)");
        if self.synchronous {
            self.add_standby();
        }
    }

    fn sql(&self, which: usize, sql: &str) -> String {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["-X", "-A", "-t", "-q", "-U", "sl", "-d", "postgres", "-c", sql, "-h"]);
        run(psql.arg(self.homes[which].path()))
    }

    /// Waits until a statement returns true.
    fn poll(&self, which: usize, sql: &str) {
        for _ in 0..1_200 {
            let mut psql = Command::new(self.programs.join("psql"));
            psql.args(["-X", "-A", "-t", "-q", "-U", "sl", "-d", "postgres", "-c", sql, "-h"]);
            let asked = psql.arg(self.homes[which].path()).output().unwrap();
            if asked.status.success() && String::from_utf8_lossy(&asked.stdout).trim() == "t" {
                return;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(50));
        }
        let log = std::fs::read_to_string(self.homes[which].path().join("log")).unwrap_or_default();
        panic!("waited in vain for {sql}: {log}");
    }
}

/// Creates the file that a server in `home` writes its messages into.
#[expect(clippy::disallowed_types, reason = "a program writes its log there")]
fn server_log(home: &Path) -> std::fs::File {
    std::fs::File::create(home.join("log")).unwrap()
}

/// Runs a command that must succeed; returns its output.
fn run(command: &mut Command) -> String {
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap().trim().to_owned()
}

/// Gives a directory to the user that the server runs as.
pub fn give_to_server_user(directory: &Path) {
    if rustix::process::geteuid().is_root() {
        let owner = format!("{SERVER_USER}:{SERVER_USER}");
        assert!(Command::new("chown").arg(owner).arg(directory).status().unwrap().success());
    }
}
