//! `sessionlog-bench eval handoff`: sessions with planted facts, recorded in a separate server and
//! restored over HTTP within a quarter of their tokens, next to a window of the same tokens; and
//! real conversations before each changing call. It must not choose the content of a restore.

mod clerk;
mod count;
mod planted;
mod real;
mod report;

use std::{
    io,
    path::{Path, PathBuf},
};

use clap::{Args, builder::PossibleValuesParser};
use serde_json::Value;
use tokio::runtime::Runtime;

use self::{
    clerk::{Clerk, How},
    count::{by_kind, given, stale},
    planted::{Made, SIZES, Size, Type, made},
    report::{Report, Run, behind},
};
use super::{arguments::scalars, of_file, write};
use crate::{
    failure::Outcome,
    progress_bar,
    server::Server,
    site::{Settings, Site},
    stop_on_signals,
};
use ::sessionlog::{
    client::{Client, ClientTarget},
    env::files,
    event::SessionId,
    harness::{Counter as _, ItemOrder, RESTORE_TOKENS_MAX, RESTORE_TOKENS_MIN, Tokenizer},
};

/// Name that selects all values of an option.
const ALL: &str = "all";
/// Divisor of a session's tokens that gives the budget of its restore.
const PART: u64 = 4;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog-bench eval handoff                              medium sessions of each type, hybrid
  sessionlog-bench eval handoff --size all --algorithm all --compression all
  sessionlog-bench eval handoff --size huge --tokens 4000    how long 10 000 events take
  sessionlog-bench eval handoff --conversations tau-airline.jsonl

For each seed it generates sessions with planted facts: instructions, decisions in messages, saved
items, failing tests, changed files; and values that are taken back. It restores each within a
quarter of its tokens and counts the facts that one line of the answer states, beside a window of
the same tokens. A value that was taken back must not be stated.
FILE has a conversation a line, in OpenAI's chat format, as {\"messages\": [...]}. Before each call
that changes something it looks whether a restore, and a window of the same tokens, has every value
of the call's arguments. Milliseconds are of this machine and build. An answer has the time of
the last event, by which its tokens, and with them what fits, may differ a little between runs. Exit
code 0 whatever the figures are.")]
pub(crate) struct Handoff {
    /// Length of the sessions: small (120 events), medium (500), large (2000), huge (10000) or all;
    /// may be given several times
    #[arg(long, value_name = "SIZE", default_value = "medium",
          value_parser = one_of(SIZES.map(|size| size.name)))]
    size: Vec<String>,
    /// What they are made of: code, conversation, mixed or all; may be given several times
    #[arg(long = "type", value_name = "TYPE", default_value = ALL,
          value_parser = one_of(Type::ALL.map(Type::name)))]
    of: Vec<String>,
    /// Whether texts may be shortened: on, off or all; may be given several times
    #[arg(long, value_name = "WHICH", default_value = "on",
          value_parser = one_of(COMPRESSION.map(|(name, _)| name)))]
    compression: Vec<String>,
    /// By what items are chosen: recency, importance, hybrid, vector or all; may be given several
    /// times
    #[arg(long, value_name = "NAME", default_value = "hybrid",
          value_parser = one_of(ItemOrder::ALL.map(ItemOrder::as_str)))]
    algorithm: Vec<String>,
    /// Generate from this seed; may be given several times
    #[arg(long, value_name = "N", default_values_t = [11, 13, 17])]
    seed: Vec<u64>,
    /// Restore within so many tokens; left out: a quarter of the session's
    #[arg(long, value_name = "N", value_parser = tokens_max())]
    tokens: Option<u64>,
    /// File of real conversations
    #[arg(long, value_name = "FILE")]
    conversations: Option<PathBuf>,
    /// Write report.md and report.json into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the report as one line of JSON
    #[arg(long)]
    json: bool,
}

const COMPRESSION: [(&str, bool); 2] = [("on", true), ("off", false)];

fn one_of<const N: usize>(names: [&'static str; N]) -> PossibleValuesParser {
    PossibleValuesParser::new(names.into_iter().chain([ALL]))
}

fn tokens_max() -> clap::builder::RangedU64ValueParser {
    let least = RESTORE_TOKENS_MIN as u64;
    clap::value_parser!(u64).range(least..=RESTORE_TOKENS_MAX as u64)
}

/// Returns the requested values of an option, each once.
fn requested_values<T: Copy>(
    asked: &[String],
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Vec<T> {
    let is_asked = |one: &T| asked.iter().any(|asked| asked == ALL || asked == name(*one));
    all.iter().copied().filter(is_asked).collect()
}

/// Sessions to generate, and ways to restore them.
struct Matrix {
    sizes: Vec<Size>,
    types: Vec<Type>,
    /// Algorithms, each with true if texts may be shortened.
    ways: Vec<(ItemOrder, bool)>,
    seeds: Vec<u64>,
    /// Token budget of a restore; `None` for a part of the session's tokens.
    tokens_max: Option<u64>,
}

impl Matrix {
    fn of(asked: &Handoff) -> Self {
        let by = requested_values(&asked.algorithm, &ItemOrder::ALL, ItemOrder::as_str);
        let compression = requested_values(&asked.compression, &COMPRESSION, |(name, _)| name);
        let ways = compression.iter().flat_map(|(_, on)| by.iter().map(|by| (*by, *on)));
        let mut seeds = asked.seed.clone();
        seeds.sort_unstable();
        seeds.dedup();
        Self {
            sizes: requested_values(&asked.size, &SIZES, |size| size.name),
            types: requested_values(&asked.of, &Type::ALL, Type::name),
            ways: ways.collect(),
            seeds,
            tokens_max: asked.tokens,
        }
    }

    fn sessions(&self) -> impl Iterator<Item = (Size, Type, u64)> {
        let of_size = move |size: &Size| {
            let size = *size;
            let of_type = move |of: &Type| {
                let of = *of;
                self.seeds.iter().map(move |seed| (size, of, *seed))
            };
            self.types.iter().flat_map(of_type)
        };
        self.sizes.iter().flat_map(of_size)
    }
}

pub(super) fn run(asked: &Handoff) -> Outcome {
    let talks = asked.conversations.as_deref().map(real::read).transpose()?;
    if let Some(directory) = &asked.out {
        // Checked before minutes of work rather than after.
        files::create_dir(directory).map_err(|source| of_file(directory, source))?;
    }
    let matrix = Matrix::of(asked);
    let runtime = Runtime::new()?;
    let mut site = Site::new(&std::env::temp_dir(), Settings::default(), runtime)?;
    stop_on_signals(&site.runtime, &site)?;
    let steps = matrix.sessions().count() + talks.as_ref().map_or(0, Vec::len);
    site.bar = progress_bar(steps as u64, asked.json);
    let server = Server::start(&site, &site.path("data"))?;
    let url = format!("http://{}", server.address).parse().map_err(io::Error::other)?;
    let client = Client::new(ClientTarget::Server(url), "eval")?;
    let clerk = Clerk { site: &site, client };
    let mut report = Report::default();
    for (size, of, seed) in matrix.sessions() {
        site.bar.set_message(format!("{} {}, seed {seed}", size.name, of.name()));
        report.runs.extend(session(&clerk, &matrix, size, of, seed)?);
        site.bar.inc(1);
    }
    report.real = talks.as_deref().map(|talks| real::measure(&clerk, talks)).transpose()?;
    site.bar.finish_and_clear();
    report.notes = notes(&report.runs);
    if let Some(directory) = &asked.out {
        write_reports(directory, &report)?;
    }
    report.print(asked.json, &mut io::stdout().lock())
}

/// Records one session and restores it in each way.
fn session(
    clerk: &Clerk<'_>,
    matrix: &Matrix,
    size: Size,
    of: Type,
    seed: u64,
) -> Outcome<Vec<Run>> {
    let made = made(seed, size, of);
    let session = clerk.record(&format!("{}-{}-{seed}", size.name, of.name()), &made)?;
    let whole = tokens(&made);
    let part = (whole / PART).clamp(RESTORE_TOKENS_MIN as u64, RESTORE_TOKENS_MAX as u64);
    let tokens_max = matrix.tokens_max.unwrap_or(part);
    let window = given(&clerk.window(&session, tokens_max)?, &made.facts);
    let base = Run {
        size: size.name,
        of: of.name(),
        seed,
        events: made.events.len(),
        planted: by_kind(made.facts.iter()),
        window,
        taken_back: made.stale.len() + made.reverted.len(),
        whole,
        tokens_max,
        ..Run::default()
    };
    matrix.ways.iter().map(|way| restored(clerk, &session, &made, &base, *way)).collect()
}

fn restored(
    clerk: &Clerk<'_>,
    session: &SessionId,
    made: &Made,
    base: &Run,
    (by, compress): (ItemOrder, bool),
) -> Outcome<Run> {
    let algorithm = by.as_str();
    let how = How { tokens_max: base.tokens_max, algorithm: Some(algorithm), compress };
    let (answer, took) = clerk.restore_timed(session, how)?;
    let number = |path: &str| answer.pointer(path).and_then(Value::as_f64).unwrap_or_default();
    let list = |name: &str| answer.get(name).and_then(Value::as_array).map_or(0, Vec::len);
    let context = answer.get("context").and_then(Value::as_str).unwrap_or_default();
    let lines = context.lines().filter(|line| line.starts_with("- ")).count();
    Ok(Run {
        compress,
        algorithm,
        restored: given(&answer, &made.facts),
        stale: stale(&answer, made).into_iter().map(str::to_owned).collect(),
        tokens: answer.get("tokens").and_then(Value::as_u64).unwrap_or_default(),
        items: lines + list("context_items") + list("file_references"),
        millis: took.as_secs_f64() * 1e3,
        preserved: number("/preservation/share"),
        ..base.clone()
    })
}

/// Counts the tokens of a session's content: messages, inputs and outputs of calls, saved items.
fn tokens(made: &Made) -> u64 {
    let said = made.events.iter().flat_map(|event| [event.get("content"), event.get("input")]);
    let said = said.flatten().chain(made.items.iter().filter_map(|item| item.get("content")));
    let tokens = |said: &Value| Tokenizer::Claude.count(&scalars(said).join("\n"));
    said.map(tokens).sum::<usize>() as u64
}

fn notes(runs: &[Run]) -> Vec<String> {
    let mut notes = Vec::new();
    if cfg!(debug_assertions) {
        notes.push("this is a debug build: milliseconds say nothing".to_owned());
    }
    for (algorithm, count) in behind(runs) {
        notes.push(format!("{count} runs by {algorithm} state fewer facts than the window"));
    }
    notes
}

fn write_reports(directory: &Path, report: &Report) -> Outcome {
    write(directory, "report.md", &report.to_markdown())?;
    let json = serde_json::to_string_pretty(&report.to_json()).unwrap_or_default();
    write(directory, "report.json", &(json + "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_selects_every_value_and_a_repeated_value_counts_once() {
        let names = |asked: &[&str]| {
            let asked: Vec<String> = asked.iter().map(|name| (*name).to_owned()).collect();
            let sizes = requested_values(&asked, &SIZES, |size| size.name);
            sizes.iter().map(|size| size.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&["large", "small", "large"]), ["small", "large"]);
        assert_eq!(names(&["all", "small"]), ["small", "medium", "large", "huge"]);
    }
}
