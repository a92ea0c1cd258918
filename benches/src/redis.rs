//! Redis, started by the benchmark with `appendfsync always`, as a peer: a stream for each session,
//! XADD and XRANGE. It must not use a running Redis.

use std::{net::SocketAddr, path::PathBuf, process::Stdio};

use rustix::process::Signal;
use tokio::process::Command;

use super::{
    cell::{Cell, Group, Prepare, Prepared},
    failure::Outcome,
    http::{SLICE, session_of},
    network::{self, Manner, Network, Number, Talk},
    process::{Process, find, free_port, loopback},
    protocol::Protocol,
    sample::Numbers,
    site::Site,
};
use sessionlog::env::files;

pub(super) const CELLS: &[Cell] = &[
    append_cell("redis.append.1", "1 connection, XADD, appendfsync always", 1, 1, prepare_append_1),
    append_cell("redis.append.64", "64 connections, XADD", 64, 64, prepare_append_1),
    append_cell(
        "redis.pipeline.64",
        "64 connections, 16 XADD under way on each",
        64,
        1024,
        prepare_append_16,
    ),
    read_cell("redis.slice.1", "1 connection, XRANGE COUNT 100", 1, prepare_slice),
    read_cell("redis.slice.64", "64 connections, XRANGE COUNT 100", 64, prepare_slice),
    read_cell("redis.latest.1", "1 connection, XREVRANGE COUNT 1", 1, prepare_latest),
    read_cell("redis.latest.64", "64 connections, XREVRANGE COUNT 1", 64, prepare_latest),
];

const fn append_cell(
    id: &'static str,
    what: &'static str,
    clients: usize,
    in_flight: u64,
    prepare: Prepare,
) -> Cell {
    Cell::durable(Group::Peers, id, what, clients, in_flight, prepare)
}

const fn read_cell(id: &'static str, what: &'static str, clients: usize, prepare: Prepare) -> Cell {
    Cell::reads(Group::Peers, id, what, clients, prepare)
}

/// Number of XADDs that a pipelining connection sends before it waits.
const PIPELINE: usize = 16;
/// Stream that slices are read from.
const FILLED: &str = "filled";
/// A running Redis.
pub(super) struct Redis {
    process: Process,
    address: SocketAddr,
}

impl Redis {
    /// Starts it and fills the stream for slices; else returns the reason.
    pub(super) fn start(site: &Site) -> Result<Self, String> {
        let program = find("redis-server", &["/usr/bin", "/usr/local/bin"].map(PathBuf::from))
            .ok_or("redis-server is not in PATH")?;
        Self::run(site, &program).map_err(|error| error.to_string())
    }

    fn run(site: &Site, program: &std::path::Path) -> Outcome<Self> {
        let directory = site.path("redis");
        files::create_dir(&directory)?;
        let port = free_port()?;
        let mut command = Command::new(program);
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--daemonize", "no"]);
        command.args(["--appendonly", "yes", "--appendfsync", "always"]);
        // A rewrite of the file during a round would be counted against it.
        command.args(["--auto-aof-rewrite-percentage", "0", "--save", ""]);
        command.arg("--dir").arg(&directory);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = Process::start(&mut command, Signal::TERM, site.runtime.handle())?;
        let address = loopback(port);
        process.wait_until(|| {
            network::once(manner(address, 1), &[encode_command(&[b"PING"])]).map(drop)
        })?;
        fill_stream(site, address)?;
        Ok(Self { process, address })
    }
}

fn manner(address: SocketAddr, events: u64) -> Manner {
    let number: Number = |answer| first_line(answer)?.strip_prefix(':')?.parse().ok();
    Manner { events, ..Manner::new(address, Protocol::Resp, number) }
}

fn first_line(answer: &[u8]) -> Option<&str> {
    std::str::from_utf8(answer.split(|byte| *byte == b'\r').next()?).ok()
}

/// Encodes a command of Redis.
fn encode_command(words: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    write_command(words, &mut out);
    out
}

fn write_command(words: &[&[u8]], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// Fills the stream, a slice at a time.
fn fill_stream(site: &Site, address: SocketAddr) -> Outcome {
    let mut samples = site.samples.clone();
    let mut requests = vec![Vec::new(); site.settings.events / SLICE];
    for (part, request) in requests.iter_mut().enumerate() {
        for position in part * SLICE..(part + 1) * SLICE {
            let id = format!("{}-1", position + 1);
            let words = [b"XADD", FILLED.as_bytes(), id.as_bytes(), b"e", &samples.next().json];
            write_command(&words, request);
        }
    }
    network::once(Manner { answers: SLICE, ..manner(address, 1) }, &requests)?;
    Ok(())
}

fn prepare_append_1(site: &mut Site, cell: &Cell) -> Prepared {
    prepare_appends(site, cell, 1)
}

fn prepare_append_16(site: &mut Site, cell: &Cell) -> Prepared {
    prepare_appends(site, cell, PIPELINE)
}

fn prepare_appends(site: &mut Site, cell: &Cell, under_way: usize) -> Prepared {
    let Some(redis) = site.peer("Redis", Redis::start) else { return Ok(None) };
    let server = Some(redis.process.pid());
    let manner = Manner { answers: under_way, server, ..manner(redis.address, under_way as u64) };
    let talk = |connection: usize| {
        let session = session_of(cell, connection);
        let count = encode_command(&[b"XLEN", session.as_bytes()]);
        let mut samples = site.samples.starting_at(connection);
        let next = move |out: &mut Vec<u8>| {
            for _ in 0..under_way {
                let event = &samples.next().json;
                write_command(&[b"XADD", session.as_bytes(), b"*", b"e", event], out);
            }
        };
        Talk { hello: Vec::new(), next: Box::new(next), count: vec![count] }
    };
    let talks = (0..cell.clients).map(talk).collect();
    Ok(Some(Box::new(Network::new(manner, talks, &site.clock))))
}

fn prepare_slice(site: &mut Site, cell: &Cell) -> Prepared {
    let places = (site.settings.events - SLICE) as u64;
    reads(site, cell, SLICE as u64, move |numbers, out| {
        let from = format!("{}-1", numbers.below(places + 1) + 1);
        let words = [b"XRANGE", FILLED.as_bytes(), from.as_bytes(), b"+", b"COUNT", b"100"];
        write_command(&words, out);
    })
}

fn prepare_latest(site: &mut Site, cell: &Cell) -> Prepared {
    reads(site, cell, 1, |_, out| {
        write_command(&[b"XREVRANGE", FILLED.as_bytes(), b"+", b"-", b"COUNT", b"1"], out);
    })
}

fn reads(
    site: &mut Site,
    cell: &Cell,
    events: u64,
    request: impl Fn(&mut Numbers, &mut Vec<u8>) + Clone + Send + 'static,
) -> Prepared {
    let Some(redis) = site.peer("Redis", Redis::start) else { return Ok(None) };
    let carried: Number = |answer| first_line(answer)?.strip_prefix('*')?.parse().ok();
    let server = Some(redis.process.pid());
    let manner = Manner { carried: Some(carried), server, ..manner(redis.address, events) };
    let talk = |connection: usize| {
        let (request, mut numbers) = (request.clone(), Numbers::from(connection));
        let next = move |out: &mut Vec<u8>| request(&mut numbers, out);
        Talk { hello: Vec::new(), next: Box::new(next), count: Vec::new() }
    };
    let talks = (0..cell.clients).map(talk).collect();
    Ok(Some(Box::new(Network::new(manner, talks, &site.clock))))
}
