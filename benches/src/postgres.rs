//! PostgreSQL, started by the benchmark in a new directory, as a peer: one table, one row an event,
//! one prepared statement a connection, one transaction an append. It must not use a running
//! PostgreSQL, nor weaken its durability.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
};

use rustix::process::Signal;
use tokio::process::Command;

use super::{
    cell::{Cell, Group, Prepare, Prepared},
    failure::{Failure, Outcome},
    http::{SLICE, session_of},
    network::{self, Manner, Network, Talk},
    process::{Process, find, free_port, loopback},
    protocol::{Protocol, postgres_message},
    sample::Numbers,
    site::Site,
};
use sessionlog::env::files;

pub(super) const CELLS: &[Cell] = &[
    append("postgres.append.1", "1 connection, INSERT, a transaction each", 1),
    append("postgres.append.64", "64 connections, INSERT", 64),
    Cell::durable(
        Group::Peers,
        "postgres.replicated.64",
        "64 connections, INSERT, a synchronous standby",
        64,
        64,
        prepare_replicated_appends,
    ),
    read_cell("postgres.slice.1", "1 connection, SELECT of 100 by primary key", 1, prepare_slice),
    read_cell("postgres.slice.64", "64 connections, SELECT of 100", 64, prepare_slice),
    read_cell("postgres.latest.1", "1 connection, SELECT of the latest", 1, prepare_latest),
    read_cell("postgres.latest.64", "64 connections, SELECT of the latest", 64, prepare_latest),
];

const fn append(id: &'static str, what: &'static str, clients: usize) -> Cell {
    Cell::durable(Group::Peers, id, what, clients, clients as u64, prepare_appends)
}

const fn read_cell(id: &'static str, what: &'static str, clients: usize, prepare: Prepare) -> Cell {
    Cell::reads(Group::Peers, id, what, clients, prepare)
}

/// Session that slices are read from.
const FILLED: &str = "filled";
const USER: &str = "bench";
const INSERT: &str = "INSERT INTO events (session, position, body) VALUES ($1, $2, $3)";
const SELECT: &str = "SELECT position, body FROM events WHERE session = $1 AND position >= $2 \
                      AND position < $3 ORDER BY position";
const LATEST: &str =
    "SELECT position, body FROM events WHERE session = $1 ORDER BY position DESC LIMIT 1";
const COUNT: &str = "SELECT count(*) FROM events WHERE session = $1";
const TABLE: &str = "CREATE TABLE events (session text NOT NULL, position bigint NOT NULL, \
                     body text NOT NULL, PRIMARY KEY (session, position))";

/// A running PostgreSQL.
pub(super) struct Postgres {
    pub(super) process: Process,
    address: SocketAddr,
    /// Dropped after the primary.
    _standby: Option<Process>,
}

/// Name of the server with a standby.
pub(super) const REPLICATED: &str = "PostgreSQL with a standby";

/// A user of this machine.
#[derive(Clone, Copy)]
struct User {
    id: u32,
    group: u32,
}

impl Postgres {
    /// Starts it with the table and the session for slices; else returns the reason.
    pub(super) fn start(site: &Site) -> Result<Self, String> {
        let run = |programs: &Programs| programs.serve_filled(site, "postgres");
        run(&Programs::find()?).map_err(|error| error.to_string())
    }

    /// Starts it with a synchronous standby.
    pub(super) fn start_replicated(site: &Site) -> Result<Self, String> {
        let run = |programs: &Programs| {
            let primary = programs.serve_filled(site, "postgres-primary")?;
            let standby = programs.replicate(site, &primary, "postgres-standby")?;
            Ok::<_, Failure>(Self { _standby: Some(standby), ..primary })
        };
        run(&Programs::find()?).map_err(|error| error.to_string())
    }

    /// Returns the address of a store in it.
    pub(super) fn store(&self) -> String {
        format!("postgres://{USER}@{}/postgres", self.address)
    }

    /// Returns the number that a query returns.
    pub(super) fn number(&self, query: &str) -> Outcome<u64> {
        let words = [startup_message(), query_message(query)];
        let answer = network::once(manner(self.address, 1), &words)?;
        let row = parse_messages(&answer).find(|(kind, _)| *kind == b'D');
        // Two bytes for the number of columns, four for the length of the first.
        let text = row.and_then(|(_, row)| std::str::from_utf8(row.get(6..)?).ok()?.parse().ok());
        Ok(text.ok_or_else(|| io::Error::other(format!("no number: {query}")))?)
    }
}

/// Programs of the server, and the user that runs them.
struct Programs {
    server: PathBuf,
    make: PathBuf,
    user: Option<User>,
}

impl Programs {
    fn find() -> Result<Self, String> {
        let others = version_directories();
        let (server, make) = find("postgres", &others)
            .zip(find("initdb", &others))
            .ok_or("neither PATH nor /usr/lib/postgresql has postgres and initdb")?;
        // PostgreSQL refuses to run as root.
        let user = match rustix::process::geteuid().is_root() {
            true => Some(
                find_unprivileged_user().ok_or("it does not run as root, and no user is there")?,
            ),
            false => None,
        };
        Ok(Self { server, make, user })
    }

    /// Returns the command of a program, run as that user.
    fn command(&self, program: &Path, directory: &Path) -> Command {
        let mut command = Command::new(program);
        command.arg("-D").arg(directory).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        if let Some(user) = self.user {
            command.uid(user.id).gid(user.group);
        }
        command
    }

    /// Creates the directory of a server.
    fn create_directory(&self, site: &Site, name: &str) -> Outcome<PathBuf> {
        let directory = site.path(name);
        files::create_dir(&directory)?;
        if let Some(user) = self.user {
            std::os::unix::fs::chown(&directory, Some(user.id), Some(user.group))?;
        }
        Ok(directory)
    }

    /// Starts a server on a directory.
    fn serve(&self, site: &Site, directory: &Path) -> Outcome<Postgres> {
        let port = free_port()?;
        let mut serving = self.command(&self.server, directory);
        for setting in [
            "listen_addresses=127.0.0.1",
            &format!("port={port}"),
            "unix_socket_directories=",
            "max_connections=200",
            "fsync=on",
            "synchronous_commit=on",
            // A checkpoint during a round would be counted against it.
            "max_wal_size=8GB",
            "checkpoint_timeout=1h",
        ] {
            serving.args(["-c", setting]);
        }
        serving.stderr(Stdio::null());
        let mut process = Process::start(&mut serving, Signal::INT, site.runtime.handle())?;
        let address = loopback(port);
        process.wait_until(|| network::once(manner(address, 1), &[startup_message()]).map(drop))?;
        Ok(Postgres { process, address, _standby: None })
    }

    /// Starts a server with the table and the session for slices.
    fn serve_filled(&self, site: &Site, name: &str) -> Outcome<Postgres> {
        let directory = self.create_directory(site, name)?;
        let mut making = self.command(&self.make, &directory);
        making.args(["-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]);
        run_to_end(site, making, "initdb")?;
        let postgres = self.serve(site, &directory)?;
        let words: Vec<Vec<u8>> = [startup_message(), query_message(TABLE), parse(INSERT)]
            .into_iter()
            .chain(fill_requests(site))
            .collect();
        let manner = manner(postgres.address, 1);
        network::once(manner, &words)?;
        network::once(manner, &[startup_message(), query_message("VACUUM ANALYZE events")])?;
        Ok(postgres)
    }

    /// Starts a standby, which every commit of the primary waits for from then on.
    fn replicate(&self, site: &Site, primary: &Postgres, name: &str) -> Outcome<Process> {
        let directory = self.create_directory(site, name)?;
        let missing = || io::Error::other("there is no pg_basebackup");
        let copier = find("pg_basebackup", &version_directories()).ok_or_else(missing)?;
        let mut copying = self.command(&copier, &directory);
        let port = primary.address.port().to_string();
        copying.args(["-h", "127.0.0.1", "-p", &port, "-U", USER, "-R", "-c", "fast"]);
        run_to_end(site, copying, "pg_basebackup")?;
        let standby = self.serve(site, &directory)?;
        for setting in
            ["ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"]
        {
            let words = [startup_message(), query_message(setting)];
            network::once(manner(primary.address, 1), &words)?;
        }
        let mut standby = standby.process;
        let sync = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        let follows = || match primary.number(sync) {
            Ok(1) => Ok(()),
            _ => Err(io::Error::other("the standby does not follow")),
        };
        standby.wait_until(follows)?;
        Ok(standby)
    }
}

/// Runs a program that must succeed.
fn run_to_end(site: &Site, mut program: Command, name: &str) -> Outcome {
    let ran = site.runtime.block_on(async { program.kill_on_drop(true).output().await })?;
    if ran.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ran.stderr).trim().replace('\n', "; ");
    Err(io::Error::other(format!("{name}: {said}")).into())
}

/// Returns the directories in which distributions install versions, the newest first.
fn version_directories() -> Vec<PathBuf> {
    let mut found = files::list(Path::new("/usr/lib/postgresql")).unwrap_or_default();
    found.sort_by_key(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        std::cmp::Reverse(name.and_then(|name| name.parse::<u32>().ok()))
    });
    found.into_iter().map(|version| version.join("bin")).collect()
}

/// Returns PostgreSQL's own user, or an unprivileged one.
fn find_unprivileged_user() -> Option<User> {
    let users = files::read_text(Path::new("/etc/passwd"), 1 << 20).ok()?;
    let numbers = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2).map(str::parse);
        Some(User { id: fields.next()?.ok()?, group: fields.next()?.ok()? })
    };
    numbers("postgres").or_else(|| numbers("nobody"))
}

fn manner(address: SocketAddr, events: u64) -> Manner {
    Manner { events, ..Manner::new(address, Protocol::Postgres, count_in) }
}

/// Returns the single number in a response's row.
fn count_in(answer: &[u8]) -> Option<u64> {
    let row = parse_messages(answer).find(|(kind, _)| *kind == b'D')?.1;
    // Two bytes for the number of columns, four for the length of the first.
    let number: [u8; 8] = row.get(6..14)?.try_into().ok()?;
    Some(u64::from_be_bytes(number))
}

/// Returns the number of rows in a response.
fn rows(answer: &[u8]) -> Option<u64> {
    Some(parse_messages(answer).filter(|(kind, _)| *kind == b'D').count() as u64)
}

fn parse_messages(answer: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (kind, body, next) = postgres_message(answer, at)?;
        at = next;
        Some((kind, body))
    })
}

// -- messages: docs of PostgreSQL, "Message Formats" ----------------------------------------------

fn write_message(kind: u8, parts: &[&[u8]], out: &mut Vec<u8>) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    out.push(kind);
    out.extend_from_slice(&be32(length + 4));
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

fn be32(value: usize) -> [u8; 4] {
    u32::try_from(value).unwrap_or(u32::MAX).to_be_bytes()
}

fn startup_message() -> Vec<u8> {
    let parameters = format!("user\0{USER}\0database\0postgres\0\0");
    let version = [0, 3, 0, 0];
    [be32(8 + parameters.len()).as_slice(), &version, parameters.as_bytes()].concat()
}

fn query_message(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write_message(b'Q', &[text.as_bytes(), b"\0"], &mut out);
    out
}

/// Encodes a request that prepares the statement of a connection.
fn parse(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write_message(b'P', &[b"s\0", text.as_bytes(), b"\0\0\0"], &mut out);
    write_message(b'S', &[], &mut out);
    out
}

/// Encodes a run of the prepared statement; parameters and columns are binary.
fn write_execute(parameters: &[&[u8]], out: &mut Vec<u8>) {
    let count = u16::try_from(parameters.len()).unwrap_or_default().to_be_bytes();
    let lengths: Vec<[u8; 4]> = parameters.iter().map(|value| be32(value.len())).collect();
    let mut parts: Vec<&[u8]> = vec![b"\0s\0", &[0, 1, 0, 1], &count];
    for (length, value) in lengths.iter().zip(parameters) {
        parts.extend([length.as_slice(), value]);
    }
    parts.push(&[0, 1, 0, 1]);
    write_message(b'B', &parts, out);
    write_message(b'E', &[b"\0\0\0\0\0"], out);
}

fn write_sync(out: &mut Vec<u8>) {
    write_message(b'S', &[], out);
}

/// Returns requests that insert the events of the filled session, a slice in one transaction each.
fn fill_requests(site: &Site) -> impl Iterator<Item = Vec<u8>> {
    let mut samples = site.samples.clone();
    (0..site.settings.events / SLICE).map(move |part| {
        let mut out = Vec::new();
        for position in part * SLICE..(part + 1) * SLICE {
            let position = (position as u64).to_be_bytes();
            write_execute(&[FILLED.as_bytes(), &position, &samples.next().json], &mut out);
        }
        write_sync(&mut out);
        out
    })
}

fn prepare_appends(site: &mut Site, cell: &Cell) -> Prepared {
    let Some(postgres) = site.peer("PostgreSQL", Postgres::start) else { return Ok(None) };
    let to = (postgres.address, Some(postgres.process.pid()));
    append_to(site, cell, to)
}

fn prepare_replicated_appends(site: &mut Site, cell: &Cell) -> Prepared {
    let Some(postgres) = site.peer(REPLICATED, Postgres::start_replicated) else {
        return Ok(None);
    };
    let to = (postgres.address, Some(postgres.process.pid()));
    append_to(site, cell, to)
}

fn append_to(site: &Site, cell: &Cell, (address, server): (SocketAddr, Option<u32>)) -> Prepared {
    let talk = |connection: usize| {
        let session = session_of(cell, connection);
        let mut count = unnamed_parse_message(COUNT);
        count.extend(unnamed_execute_message(&session));
        let mut samples = site.samples.starting_at(connection);
        let mut position = 0_u64;
        let next = move |out: &mut Vec<u8>| {
            let place = position.to_be_bytes();
            write_execute(&[session.as_bytes(), &place, &samples.next().json], out);
            write_sync(out);
            position += 1;
        };
        let hello = vec![startup_message(), parse(INSERT)];
        Talk { hello, next: Box::new(next), count: vec![count] }
    };
    let talks = (0..cell.clients).map(talk).collect();
    let manner = Manner { server, ..manner(address, 1) };
    Ok(Some(Box::new(Network::new(manner, talks, &site.clock))))
}

/// Encodes a request that prepares an unnamed statement, in addition to the named one.
fn unnamed_parse_message(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write_message(b'P', &[b"\0", text.as_bytes(), b"\0\0\0"], &mut out);
    out
}

/// Encodes a run of the unnamed statement with one parameter.
fn unnamed_execute_message(parameter: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let length = be32(parameter.len());
    let parts =
        [b"\0\0\0\x01\0\x01\0\x01".as_slice(), &length, parameter.as_bytes(), &[0, 1, 0, 1]];
    write_message(b'B', &parts, &mut out);
    write_message(b'E', &[b"\0\0\0\0\0"], &mut out);
    write_sync(&mut out);
    out
}

fn prepare_slice(site: &mut Site, cell: &Cell) -> Prepared {
    let places = (site.settings.events - SLICE) as u64;
    reads(site, cell, SELECT, SLICE as u64, move |numbers, out| {
        let from = numbers.below(places + 1);
        let to = (from + SLICE as u64).to_be_bytes();
        write_execute(&[FILLED.as_bytes(), &from.to_be_bytes(), &to], out);
    })
}

fn prepare_latest(site: &mut Site, cell: &Cell) -> Prepared {
    reads(site, cell, LATEST, 1, |_, out| write_execute(&[FILLED.as_bytes()], out))
}

fn reads(
    site: &mut Site,
    cell: &Cell,
    statement: &str,
    events: u64,
    request: impl Fn(&mut Numbers, &mut Vec<u8>) + Clone + Send + 'static,
) -> Prepared {
    let Some(postgres) = site.peer("PostgreSQL", Postgres::start) else { return Ok(None) };
    let server = Some(postgres.process.pid());
    let manner = Manner { carried: Some(rows), server, ..manner(postgres.address, events) };
    let talk = |connection: usize| {
        let (request, mut numbers) = (request.clone(), Numbers::from(connection));
        let next = move |out: &mut Vec<u8>| {
            request(&mut numbers, out);
            write_sync(out);
        };
        Talk {
            hello: vec![startup_message(), parse(statement)],
            next: Box::new(next),
            count: Vec::new(),
        }
    };
    let talks = (0..cell.clients).map(talk).collect();
    Ok(Some(Box::new(Network::new(manner, talks, &site.clock))))
}
