//! The command line of the benchmark. It must not run a measurement.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use super::eval::Eval;

#[derive(Debug, Parser)]
#[command(
    name = "sessionlog-bench",
    version,
    args_conflicts_with_subcommands = true,
    about = "Benchmark this machine: disk, engine, HTTP and other stores",
    after_help = "\
Examples:
  sessionlog-bench --quick                         half a minute, a first look
  sessionlog-bench                                 every row, about six minutes
  sessionlog-bench floor engine --rounds 5         only disk and engine
  sessionlog-bench http.append redis --json        rows by prefix of their names
  sudo chrt -r 1 sessionlog-bench                  on a busy machine
  sessionlog-bench eval recovery                   how much views show, on generated sessions
  sessionlog-bench eval recall DIR                 how much a search finds of known evidence
  sessionlog-bench eval handoff                    how much of a session a restore hands on

Figures vary between machines and runs: quote ratios of one run. It uses a temporary directory and
starts PostgreSQL and Redis there if they are installed. Exit code 0 even if targets are missed,
unless --check is given."
)]
pub(super) struct Bench {
    #[command(subcommand)]
    pub(super) verb: Option<Verb>,
    /// Groups (floor, engine, http, slice, peers, start, research, search, fork, hook, disk) or
    /// prefixes of row names
    #[arg(value_name = "ROWS")]
    pub(super) rows: Vec<String>,
    /// Run one short round of each row
    #[arg(long)]
    pub(super) quick: bool,
    /// Rounds of each row, interleaved; the median counts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(super) rounds: Option<u32>,
    /// Seconds per round
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(super) seconds: Option<f64>,
    /// Sessions in rows with many; default: 10000, or 100000 where a server is started
    #[arg(long, value_name = "N", value_parser = sessions)]
    pub(super) sessions: Option<usize>,
    /// Bytes of events in the store that a server is started on, such as 10GiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(super) fill: Option<u64>,
    /// Directory on the disk to measure
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// Other stores to compare with: those installed, or none
    #[arg(long, value_enum, value_name = "WHICH", default_value = "auto")]
    pub(super) peers: Peers,
    /// Conversations for the row of disk bytes: files that `import` accepts, or directories of them
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub(super) transcripts: Vec<PathBuf>,
    /// Path of web-researcher-mcp, for the research rows; default: the one on PATH
    #[arg(long, value_name = "PROGRAM")]
    pub(super) reference: Option<PathBuf>,
    /// Exit with code 1 if a target is missed
    #[arg(long)]
    pub(super) check: bool,
    /// Print the report as one line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Measure views on sessions, and searches on questions, whose content is known
    #[command(subcommand)]
    Eval(Eval),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Peers {
    /// PostgreSQL and Redis, if installed
    Auto,
    /// None
    None,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=3_600.0).contains(&seconds) => Ok(seconds),
        _ => Err("it must be a number of seconds from 0.001 to 3600".to_owned()),
    }
}

fn sessions(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(count) if (1..=10_000_000).contains(&count) => Ok(count),
        _ => Err("it must be a whole number from 1 to 10000000".to_owned()),
    }
}

fn size(text: &str) -> Result<u64, String> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
    let unit = units.iter().find_map(|(unit, bits)| Some((text.strip_suffix(unit)?, *bits)));
    let (number, bits) = unit.unwrap_or((text, 0));
    let bytes = number.trim().parse::<u64>().ok().and_then(|n| n.checked_mul(1 << bits));
    bytes.ok_or_else(|| "it must be a size, such as 500MiB or 10GiB".to_owned())
}
