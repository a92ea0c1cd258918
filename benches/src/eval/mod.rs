//! `sessionlog-bench eval`: counts the known facts of generated sessions that views show, and the
//! evidence of questions that a search finds. It runs on a separate server and data directory and
//! must not touch the user's sessions.

mod agent;
mod arguments;
mod coding;
mod conversation;
mod desk;
mod dice;
mod grammar;
mod handoff;
mod measure;
mod recall;
mod report;
mod research;
mod rows;
mod shape;
mod shown;
mod topics;

use std::{
    io,
    path::{Path, PathBuf},
    process::Stdio,
};

use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use serde_json::Value;
use tokio::runtime::Runtime;

use self::{
    desk::Desk, handoff::Handoff, measure::KINDS, recall::Recall, report::Report, rows::Tally,
};
use super::{
    failure::{Failure, Outcome},
    process::sessionlog,
    progress_bar,
    server::{Server, without_settings},
    site::{Settings, Site},
    stop_on_signals,
};
use ::sessionlog::{client::ClientTarget, env::files};

/// What is evaluated.
#[derive(Debug, Subcommand)]
pub(super) enum Eval {
    /// Count how much views show of generated sessions after a client lost its context
    Recovery(Recovery),
    /// Measure how much of the evidence of questions a search in conversations finds
    Recall(Recall),
    /// Measure how much of a session a restore hands on, beside a window of the same tokens
    Handoff(Handoff),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog-bench eval recovery                       ten seeds, a table
  sessionlog-bench eval recovery --seed 7 --json       one session of each kind
  sessionlog-bench eval recovery --seeds 40 --out out  recovery.md and recovery.json in out/

For each seed it generates sessions with facts planted among filler that looks like them, records
them through the interfaces that agents use, on a server and a data directory of its own, asks for
each view at several budgets, and counts the facts that the answers hold. A fact is told when one
string of an answer holds its subject and its value. The same seed gives the same sessions and the
same figures on every machine; no time is measured.
Even seeds are for tuning views, odd seeds for reporting: the table shows both apart, and targets
are judged by the odd ones. Exit code 0, targets met or not.")]
pub(super) struct Recovery {
    /// Generate from this seed; may be given several times
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    seed: Vec<u64>,
    /// Generate from the seeds 1 to K
    #[arg(long, value_name = "K", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    seeds: u64,
    /// Directory that holds tau-airline.jsonl: its conversations are measured too
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Write recovery.md and recovery.json into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the report as one line of JSON
    #[arg(long)]
    json: bool,
}

impl Recovery {
    fn seeds(&self) -> Vec<u64> {
        let mut seeds = match self.seed.is_empty() {
            true => (1..=self.seeds).collect(),
            false => self.seed.clone(),
        };
        seeds.sort_unstable();
        seeds.dedup();
        seeds
    }
}

pub(super) fn run(wanted: &Eval) -> Outcome {
    match wanted {
        Eval::Recovery(wanted) => recovery(wanted),
        Eval::Recall(wanted) => recall::run(wanted),
        Eval::Handoff(wanted) => handoff::run(wanted),
    }
}

fn recovery(wanted: &Recovery) -> Outcome {
    if let Some(directory) = &wanted.out {
        // Checked before minutes of work rather than after.
        files::create_dir(directory).map_err(|source| of_file(directory, source))?;
    }
    let real = match &wanted.data {
        Some(directory) => Some((directory.as_path(), conversation::real(directory)?)),
        None => None,
    };
    let runtime = Runtime::new()?;
    let mut site = Site::new(&std::env::temp_dir(), Settings::default(), runtime)?;
    stop_on_signals(&site.runtime, &site)?;
    let seeds = wanted.seeds();
    site.bar = progress_bar((seeds.len() * KINDS.len()) as u64, wanted.json);
    let server = Server::start(&site, &site.path("data"))?;
    let url = format!("http://{}", server.address).parse().map_err(io::Error::other)?;
    let desk = Desk::new(ClientTarget::Server(url), site.path("spool"), hook_tokens(&site)?)?;
    let report = site.wait(evaluate(&desk, &seeds, real.as_ref(), &site.bar))??;
    site.bar.finish_and_clear();
    if let Some(directory) = &wanted.out {
        write(directory, "recovery.md", &report.to_markdown())?;
        let json = serde_json::to_string_pretty(&report.to_json()).unwrap_or_default();
        write(directory, "recovery.json", &(json + "\n"))?;
    }
    report.print(wanted.json, &mut io::stdout().lock())
}

async fn evaluate(
    desk: &Desk,
    seeds: &[u64],
    real: Option<&(&Path, conversation::Real)>,
    bar: &ProgressBar,
) -> Outcome<Report> {
    let mut report = Report::default();
    for &seed in seeds {
        let mut found = Tally::default();
        for kind in KINDS {
            bar.set_message(format!("seed {seed}: {}", kind.name));
            (kind.measure)(desk, seed, &mut found).await?;
            bar.inc(1);
        }
        report.seeds.push((seed, found));
    }
    bar.set_message("shape of overviews");
    match real {
        Some((directory, real)) => {
            measure::shapes(desk, &real.said, &mut report.real).await?;
            bar.set_message("real conversations");
            measure::joined(desk, real, &mut report.real).await?;
            arguments::measure(desk, directory, &mut report.real).await?;
        }
        None => {
            measure::shapes(desk, &research::texts(), &mut report.real).await?;
            report.notes.push("real conversations: skipped, no --data is given".to_owned());
            report.notes.push("shape of overviews: over generated texts".to_owned());
        }
    }
    Ok(report)
}

/// Returns the default token budget of a hook's response, as the command line reports it.
fn hook_tokens(site: &Site) -> Outcome<usize> {
    let mut command = sessionlog();
    without_settings(&mut command);
    command.args(["config", "--json", "--config"]).arg(site.configuration());
    command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let printed = site.runtime.block_on(async { command.output().await })?;
    let settings: Value = serde_json::from_slice(&printed.stdout).map_err(io::Error::other)?;
    let tokens = settings.pointer("/settings/hook_tokens/value").and_then(Value::as_str);
    let tokens = tokens.and_then(|text| text.parse().ok());
    tokens.ok_or_else(|| io::Error::other("there is no setting hook_tokens").into())
}

fn write(directory: &Path, name: &str, text: &str) -> Outcome {
    let path = directory.join(name);
    let written = files::replace(&path, text.as_bytes(), 0o644);
    written.map_err(|source| of_file(&path, source))
}

fn of_file(path: &Path, source: io::Error) -> Failure {
    Failure::File { path: path.to_path_buf(), source }
}
