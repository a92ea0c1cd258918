//! `sessionlog-bench eval recall`: conversations with questions whose evidence is known, recorded
//! in a separate server and searched over HTTP. It must not rank, or know a question's answer.

mod asked;
mod draw;
mod figures;
mod report;
mod set;
mod when;

use std::{
    io,
    path::{Path, PathBuf},
};

use clap::Args;
use tokio::runtime::Runtime;

use self::{
    asked::{Asker, HITS_MAX},
    report::Report,
    set::Conversation,
};
use super::{of_file, write};
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
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog-bench eval recall benches/data/recall             the set of this project
  sessionlog-bench eval recall locomo --k 5,10,20,50 --json    a public set in a directory

DIR holds .json files in LoCoMo's shape, a list of conversations or one in each file, and .jsonl
files of our own (docs/search.md); other files are left alone. Each conversation becomes a
workspace, its sessions become sessions, and each question is asked as plain words within that
workspace. Recall at K is strict: the share of a question's evidence turns among the first K hits,
the mean over the questions that have evidence.
Times are of this machine and build; everything else repeats exactly. Exit code 0 whatever the
figures are.")]
pub(crate) struct Recall {
    /// Directory with the conversations
    #[arg(value_name = "DIR")]
    data: PathBuf,
    /// Numbers of hits among which evidence is looked for
    #[arg(long, value_name = "K,...", value_delimiter = ',', default_values_t = [5, 10, 20],
          value_parser = hits)]
    k: Vec<usize>,
    /// Write report.md and report.json into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the report as one line of JSON
    #[arg(long)]
    json: bool,
}

fn hits(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=HITS_MAX).contains(number));
    number.ok_or_else(|| format!("a number from 1 to {HITS_MAX} is expected"))
}

pub(super) fn run(wanted: &Recall) -> Outcome {
    let all = set::read(&wanted.data)?;
    if let Some(directory) = &wanted.out {
        // Checked before minutes of work rather than after.
        files::create_dir(directory).map_err(|source| of_file(directory, source))?;
    }
    let runtime = Runtime::new()?;
    let mut site = Site::new(&std::env::temp_dir(), Settings::default(), runtime)?;
    stop_on_signals(&site.runtime, &site)?;
    site.bar = progress_bar(all.len() as u64 * 2, wanted.json);
    let server = Server::start(&site, &site.path("data"))?;
    let url = format!("http://{}", server.address).parse().map_err(io::Error::other)?;
    let client = Client::new(ClientTarget::Server(url), "eval")?;
    let mut at = wanted.k.clone();
    at.sort_unstable();
    at.dedup();
    let report = evaluate(&Asker { site: &site, client }, &all, at)?;
    site.bar.finish_and_clear();
    if let Some(directory) = &wanted.out {
        write_reports(directory, &report)?;
    }
    report.print(wanted.json, &mut io::stdout().lock())
}

fn evaluate(asker: &Asker<'_>, all: &[Conversation], at: Vec<usize>) -> Outcome<Report> {
    let mut report = Report { at, ..Report::default() };
    for (number, said) in all.iter().enumerate() {
        asker.site.bar.set_message(format!("{}: recording", said.name));
        asker.record(number, said)?;
        asker.site.bar.inc(1);
        report.conversations.push(said.name.clone());
        report.sessions += said.sessions.len();
        report.turns += said.sessions.iter().map(|session| session.turns.len()).sum::<usize>();
    }
    asker.wait_until_indexed()?;
    let mut twice = 0;
    for (number, said) in all.iter().enumerate() {
        asker.site.bar.set_message(format!("{}: asking", said.name));
        let counted = said.questions.iter().filter(|asked| !asked.evidence.is_empty());
        for question in counted {
            report.answers.push(asker.ask(number, question)?);
        }
        let (draws, left_out) = draw::draws(said);
        twice += left_out;
        for drawn in &draws {
            report.first += usize::from(asker.finds_first(number, drawn)?);
        }
        report.drawn += draws.len();
        asker.site.bar.inc(1);
    }
    report.notes = notes(all, twice);
    Ok(report)
}

/// Returns notes on what was left out, and why.
fn notes(all: &[Conversation], twice: usize) -> Vec<String> {
    let mut notes = Vec::new();
    let questions = all.iter().flat_map(|said| &said.questions);
    let without = questions.filter(|asked| asked.evidence.is_empty()).count();
    if without > 0 {
        notes.push(format!("{without} questions without evidence are not counted"));
    }
    let misfits: Vec<&String> = all.iter().flat_map(|said| &said.misfits).collect();
    if let Some(first) = misfits.first() {
        let count = misfits.len();
        notes.push(format!("{count} names of turns do not fit and are left out, first {first}"));
    }
    if twice > 0 {
        notes.push(format!("{twice} draws of four words are of two turns and not counted"));
    }
    notes
}

fn write_reports(directory: &Path, report: &Report) -> Outcome {
    write(directory, "report.md", &report.to_markdown())?;
    let json = serde_json::to_string_pretty(&report.to_json()).unwrap_or_default();
    write(directory, "report.json", &(json + "\n"))
}
