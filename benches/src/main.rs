//! The benchmark: measures the workload of docs/performance.md on this machine in one run: the raw
//! disk, the engine, HTTP, and other stores for comparison; `eval` counts the facts that views
//! show. It must not touch the user's sessions, nor leave a process or a directory behind.

mod args;
mod cell;
mod engine;
mod eval;
mod failure;
mod fair;
mod floor;
mod fork;
mod hook;
mod http;
mod lasting;
mod machine;
mod network;
mod nodes;
mod postgres;
mod process;
mod protocol;
mod redis;
mod report;
mod research;
mod room;
mod runner;
mod sample;
mod search;
mod server;
mod site;
mod slices;
mod start;
mod stdio;
mod stream;
mod targets;

use std::{
    io::{self, IsTerminal as _},
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, atomic::Ordering},
};

use clap::Parser as _;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::{
    runtime::Runtime,
    signal::unix::{SignalKind, signal},
};

use self::{
    args::{Bench, Peers, Verb},
    cell::{Cell, Group, Probe, ProbeResult},
    failure::{Failure, Outcome},
    report::Report,
    runner::Row,
    site::{Settings, Site, stop_here},
    start::SESSIONS,
};
/// Allocator of the measured servers, which are this program.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Name under which this program runs the command line of sessionlog: the measured servers and
/// hooks are built with the benchmark, so their version is the same.
const SESSIONLOG: &str = "sessionlog";

/// All cells measured in rounds, in the order of the table.
const CELLS: [&[Cell]; 9] = [
    floor::CELLS,
    lasting::CELLS,
    engine::CELLS,
    slices::CELLS,
    http::CELLS,
    stream::CELLS,
    postgres::CELLS,
    nodes::CELLS,
    redis::CELLS,
];
/// Probes, measured once after the rounds.
const PROBES: [Probe; 9] = [
    start::PROBE,
    research::PROBE,
    stdio::PROBE,
    search::PROBE,
    fair::PROBE,
    fork::PROBE,
    hook::PROBE,
    nodes::PROBE,
    room::PROBE,
];

/// Default size of a full run (three minutes) and a quick one (twenty seconds). A session of this
/// many events is smaller than the segments that are sealed.
const USUAL: (u32, f64, usize, usize) = (3, 1.0, 10_000, 4_000);
const QUICK: (u32, f64, usize, usize) = (1, 0.2, 1_000, 2_000);
/// Default parent directory: on a disk, unlike the directory for temporary files on many machines.
const DIRECTORY: &str = "/var/tmp";

fn main() -> ExitCode {
    if std::env::args_os().next().is_some_and(|name| name == SESSIONLOG) {
        return sessionlog::cli::run();
    }
    let wanted = Bench::parse();
    let done = match &wanted.verb {
        Some(Verb::Eval(wanted)) => eval::run(wanted),
        None => run(&wanted),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // The message is lost if standard error is closed.
            let _ = io::Write::write_fmt(&mut io::stderr(), format_args!("error: {failure}\n"));
            ExitCode::from(failure.exit())
        }
    }
}

fn run(wanted: &Bench) -> Outcome {
    let plan = Plan::of(&wanted.rows)?;
    raise_file_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let directory = wanted.dir.clone().unwrap_or_else(|| PathBuf::from(DIRECTORY));
    let mut site = Site::new(&directory, settings(wanted), runtime)
        .map_err(|why| Failure::Usage(format!("--dir {}: {why}", directory.display())))?;
    stop_on_signals(&site.runtime, &site)?;
    add_machine_notes(&mut site);
    let load_before = machine::load();
    add_load_note(&mut site, load_before);
    let bar = progress_bar(plan.steps(site.settings.rounds), wanted.json);
    site.bar = bar.clone();
    let rows = plan.run(&mut site, &mut |what| {
        bar.inc(1);
        bar.set_message(what.to_owned());
    });
    bar.finish_and_clear();
    let report = Report { site: &site, rows: rows?, load_before };
    report.print(wanted.json, &mut io::stdout())?;
    if wanted.check && !report.is_good() { Err(Failure::Missed) } else { Ok(()) }
}

/// Measurements of a run.
struct Plan<'a> {
    /// Groups, or prefixes of ids; empty for everything.
    wanted: &'a [String],
    cells: Vec<&'static Cell>,
    probes: Vec<&'static Probe>,
}

impl<'a> Plan<'a> {
    fn of(wanted: &'a [String]) -> Outcome<Self> {
        let cells = || CELLS.iter().copied().flatten();
        let figures =
            PROBES.iter().flat_map(|probe| probe.figures.iter().map(|f| (probe.group, f.id)));
        let ids: Vec<_> = cells().map(|cell| (cell.group, cell.id)).chain(figures).collect();
        for word in wanted {
            if !ids.iter().any(|(group, id)| names(word, *group, id)) {
                let groups = Group::ALL.map(Group::name).join(", ");
                let message = format!("{word}: no row begins so; groups are {groups}");
                return Err(Failure::Usage(message));
            }
        }
        let mut plan = Self { wanted, cells: Vec::new(), probes: Vec::new() };
        plan.cells = cells().filter(|cell| plan.names(cell.group, cell.id)).collect();
        plan.probes = PROBES.iter().filter(|probe| plan.names_any(probe)).collect();
        Ok(plan)
    }

    fn names(&self, group: Group, id: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|word| names(word, group, id))
    }

    fn names_any(&self, probe: &Probe) -> bool {
        probe.figures.iter().any(|figure| self.names(probe.group, figure.id))
    }

    /// Returns the number of progress steps.
    fn steps(&self, rounds: u32) -> u64 {
        self.cells.len() as u64 * (1 + u64::from(rounds)) + self.probes.len() as u64
    }

    fn run(&self, site: &mut Site, progress: &mut dyn FnMut(&str)) -> Outcome<Vec<Row>> {
        let mut rows = runner::run(site, &self.cells, progress)?;
        for probe in &self.probes {
            stop_here(site)?;
            progress(probe.group.name());
            let found = (probe.run)(site);
            stop_here(site)?;
            let ProbeResult { values, unjudged } = found?;
            let figures = probe.figures.iter().zip(values);
            // A figure whose program is missing on this machine has no value.
            let wanted = figures.filter(|(figure, values)| {
                !values.is_empty() && self.names(probe.group, figure.id)
            });
            rows.extend(wanted.map(|(figure, values)| Row {
                id: figure.id,
                group: probe.group.name(),
                what: figure.what,
                unit: figure.unit,
                values,
                unjudged: unjudged.clone(),
                ..Row::default()
            }));
        }
        Ok(rows)
    }
}

fn settings(wanted: &Bench) -> Settings {
    let (rounds, seconds, sessions, events) = if wanted.quick { QUICK } else { USUAL };
    Settings {
        rounds: wanted.rounds.unwrap_or(rounds),
        seconds: wanted.seconds.unwrap_or(seconds),
        sessions: wanted.sessions.unwrap_or(sessions),
        lasting_bytes: if wanted.quick { engine::QUICK_BYTES } else { engine::lasting_bytes() },
        start_sessions: wanted.sessions.unwrap_or(if wanted.quick { sessions } else { SESSIONS }),
        start_bytes: wanted.fill.unwrap_or(0),
        events,
        peers: wanted.peers == Peers::Auto,
        transcripts: wanted.transcripts.clone(),
        reference: wanted.reference.clone(),
    }
}

fn names(word: &str, group: Group, id: &str) -> bool {
    word == group.name() || id.starts_with(word)
}

/// Adds notes on this machine that affect how the figures are read.
fn add_machine_notes(site: &mut Site) {
    let mut notes = Vec::new();
    if cfg!(debug_assertions) {
        notes.push("this is a debug build: the figures say nothing about speed".to_owned());
    }
    let disk = &site.disk;
    if matches!(disk.file_system.as_str(), "tmpfs" | "ramfs") {
        notes.push(format!("{} keeps nothing: name a disk with --dir", disk.file_system));
    } else if !site.counts_flushes {
        notes.push("this device counts no flushes: whether rows are durable is unknown".to_owned());
    }
    site.notes.extend(notes);
}

/// Adds a note if the load is high: rounds that wait for a processor measure other processes.
fn add_load_note(site: &mut Site, load: Option<f64>) {
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    if let Some(load) = load.filter(|load| *load > runner::float(processors)) {
        site.notes.push(format!(
            "other programs want the processors (load {load:.1}): figures are lower and less sure; \
             see docs/performance.md for real-time priority"
        ));
    }
}

/// Raises the limit of open files for thousands of sessions and connections.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If the limit cannot be raised, the rows that need more files fail.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Stops the current round at the first signal; cleanup then runs as after a failure.
fn stop_on_signals(runtime: &Runtime, site: &Site) -> Outcome {
    let _inside = runtime.enter();
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let (mut signals, stop) = (signal(kind)?, Arc::clone(&site.stop));
        runtime.spawn(async move {
            while signals.recv().await.is_some() {
                stop.store(true, Ordering::Relaxed);
            }
        });
    }
    Ok(())
}

fn progress_bar(steps: u64, json: bool) -> ProgressBar {
    let target = match io::stderr().is_terminal() && !json {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(Some(steps), target);
    match ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg:28} {elapsed}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
