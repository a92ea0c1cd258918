//! `eval`: how much of a session its views show, counted on sessions that are generated from seeds
//! with known facts in them. It works on a server and a data directory of its own, must not
//! touch the user's sessions, and measures no time: the same seeds give the same report.

mod agent;
mod arguments;
mod coding;
mod conversation;
mod desk;
mod dice;
mod grammar;
mod measure;
mod report;
mod research;
mod rows;
mod shape;
mod shown;
mod topics;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use self::{desk::Desk, measure::KINDS, report::Report, rows::Tally};
use super::{
    failure::{Failure, Outcome},
    screen::Screen,
    signals::asked_to_end,
    stage::Stage,
};
use crate::env::files;

/// Exit code of a program that was asked to end.
const INTERRUPTED: u8 = 130;
#[derive(Debug, Args)]
pub(super) struct Eval {
    #[command(subcommand)]
    verb: EvalVerb,
}

#[derive(Debug, Subcommand)]
enum EvalVerb {
    /// Count what views tell of generated sessions after a client lost its context
    Recovery(Recovery),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog eval recovery                         ten seeds, a table
  sessionlog eval recovery --seed 7 --json         one session of each kind
  sessionlog eval recovery --seeds 40 --out out    recovery.md and recovery.json in out/

For each seed it generates sessions with facts planted among filler that looks like them, records
them through the interfaces that agents use, on a server and a data directory of its own, asks for
each view at several budgets, and counts the facts that the answers hold. A fact is told when one
string of an answer holds its subject and its value. The same seed gives the same sessions and the
same figures on every machine; no time is measured.
Even seeds are for tuning views, odd seeds for reporting: the table shows both apart, and targets
are judged by the odd ones. Exit code 0, targets met or not.")]
struct Recovery {
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

pub(super) fn run(wanted: &Eval, screen: &mut Screen) -> Outcome {
    let EvalVerb::Recovery(wanted) = &wanted.verb;
    if let Some(directory) = &wanted.out {
        // Found out before minutes of work rather than after.
        files::create_dir(directory).map_err(|source| of_file(directory, source))?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(async {
        let stage = Stage::new("sessionlog-eval")?;
        let asked = asked_to_end()?;
        tokio::select! {
            report = evaluate(&stage, wanted, screen) => report,
            () = asked => Err(Failure::Silent(INTERRUPTED)),
        }
    })?;
    if let Some(directory) = &wanted.out {
        write(directory, "recovery.md", &report.to_markdown())?;
        let json = serde_json::to_string_pretty(&report.to_json()).unwrap_or_default();
        write(directory, "recovery.json", &(json + "\n"))?;
    }
    report.print(screen)
}

async fn evaluate(stage: &Stage, wanted: &Recovery, screen: &Screen) -> Outcome<Report> {
    let seeds = wanted.seeds();
    let real = match &wanted.data {
        Some(directory) => Some((directory, conversation::real(directory)?)),
        None => None,
    };
    let bar = progress_bar((seeds.len() * KINDS.len()) as u64, screen);
    let mut server = stage.serve().await?;
    let desk = Desk::new(server.url.clone(), stage)?;
    let mut report = Report::default();
    for seed in seeds {
        let mut found = Tally::default();
        for kind in KINDS {
            bar.set_message(format!("seed {seed}: {}", kind.name));
            (kind.measure)(&desk, seed, &mut found).await?;
            bar.inc(1);
        }
        report.seeds.push((seed, found));
    }
    bar.set_message("shape of overviews");
    match &real {
        Some((directory, real)) => {
            measure::shapes(&desk, &real.said, &mut report.real).await?;
            bar.set_message("real conversations");
            measure::joined(&desk, real, &mut report.real).await?;
            arguments::measure(&desk, directory, &mut report.real).await?;
        }
        None => {
            measure::shapes(&desk, &research::texts(), &mut report.real).await?;
            report.notes.push("real conversations: skipped, no --data is given".to_owned());
            report.notes.push("shape of overviews: over generated texts".to_owned());
        }
    }
    server.stop().await?;
    bar.finish_and_clear();
    Ok(report)
}

fn write(directory: &Path, name: &str, text: &str) -> Outcome {
    let path = directory.join(name);
    files::replace(&path, text.as_bytes(), 0o644).map_err(|source| of_file(&path, source))
}

fn of_file(path: &Path, source: std::io::Error) -> Failure {
    Failure::File { path: path.to_path_buf(), source }
}

fn progress_bar(steps: u64, screen: &Screen) -> ProgressBar {
    let target = match screen.terminal_errors && !screen.json {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(Some(steps), target);
    match ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg:28}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
