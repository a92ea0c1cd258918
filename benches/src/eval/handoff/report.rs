//! Prints the figures of the runs as a table with bars for a terminal, as Markdown and as JSON. It
//! must not count facts.

use std::{collections::BTreeMap, io::Write};

use serde_json::{Map, Value, json};

use super::{
    count::Counts,
    planted::Kind,
    real::{Miss, Real, Stated},
};
use crate::{failure::Outcome, report::drawn};

/// Version of the JSON report; a member is never removed within one.
const VERSION: u32 = 1;
/// Maximum characters of a bar.
const BAR: usize = 20;
/// Number of misses in the table's notes; the JSON report has all.
const MISSES_NAMED: usize = 5;

/// Result of one way to restore one session.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Run {
    pub(super) size: &'static str,
    pub(super) of: &'static str,
    pub(super) compress: bool,
    pub(super) algorithm: &'static str,
    pub(super) seed: u64,
    pub(super) events: usize,
    pub(super) planted: Counts,
    pub(super) restored: Counts,
    pub(super) window: Counts,
    /// Number of retracted values, and of those that the restore still states.
    pub(super) taken_back: usize,
    pub(super) stale: Vec<String>,
    /// Tokens of the session, of the budget and of the answer.
    pub(super) whole: u64,
    pub(super) tokens_max: u64,
    pub(super) tokens: u64,
    /// Number of items of the session chosen, of all classes.
    pub(super) items: usize,
    pub(super) millis: f64,
    pub(super) preserved: f64,
}

fn sum(counts: &Counts) -> usize {
    counts.values().sum()
}

/// Runs of several seeds that share size, type and way to restore.
#[derive(Debug, Default)]
struct Row<'a> {
    runs: Vec<&'a Run>,
}

impl Row<'_> {
    fn total(&self, of: impl Fn(&Run) -> usize) -> usize {
        self.runs.iter().map(|run| of(run)).sum()
    }

    fn mean(&self, of: impl Fn(&Run) -> f64) -> f64 {
        self.runs.iter().map(|run| of(run)).sum::<f64>() / self.runs.len().max(1) as f64
    }

    fn share(&self, of: impl Fn(&Run) -> &Counts) -> f64 {
        share(self.total(|run| sum(of(run))), self.total(|run| sum(&run.planted)))
    }
}

fn share(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Formats a share as a bar and a number.
fn format_bar(share: f64) -> String {
    let filled = (0..BAR).filter(|at| (*at as f64 + 0.5) / BAR as f64 <= share).count();
    format!("{}{} {share:.2}", "█".repeat(filled), "·".repeat(BAR - filled))
}

/// Results of all runs.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) runs: Vec<Run>,
    pub(super) real: Option<Real>,
    /// Notes for a reader of the figures.
    pub(super) notes: Vec<String>,
}

const HEADS: [&str; 10] = [
    "session",
    "restored by",
    "facts",
    "restore",
    "window",
    "taken back",
    "tokens",
    "items",
    "ms",
    "preserved",
];
const HEADS_REAL: [&str; 4] = ["tokens", "calls", "restore", "window"];

impl Report {
    /// Returns the rows of the table: a session's size and type, and the way of restoring.
    fn rows(&self) -> Vec<Row<'_>> {
        let mut rows: Vec<Row<'_>> = Vec::new();
        for run in &self.runs {
            let name = |run: &Run| (run.size, run.of, run.compress, run.algorithm);
            let is_same = |row: &&mut Row<'_>| row.runs.iter().any(|one| name(one) == name(run));
            match rows.iter_mut().find(is_same) {
                Some(row) => row.runs.push(run),
                None => rows.push(Row { runs: vec![run] }),
            }
        }
        rows
    }

    fn cells(&self) -> Vec<Vec<String>> {
        let cells = |row: Row<'_>| {
            let run = row.runs.first().copied().cloned().unwrap_or_default();
            let tokens = |of: fn(&Run) -> u64| row.mean(|run| of(run) as f64);
            vec![
                format!("{} {}", run.size, run.of),
                format!("{}{}", run.algorithm, if run.compress { "" } else { ", whole texts" }),
                row.total(|run| sum(&run.planted)).to_string(),
                format_bar(row.share(|run| &run.restored)),
                format_bar(row.share(|run| &run.window)),
                format!(
                    "{} of {}",
                    row.total(|run| run.stale.len()),
                    row.total(|run| run.taken_back)
                ),
                format!("{:.0} of {:.0}", tokens(|run| run.tokens), tokens(|run| run.tokens_max)),
                format!("{:.0}", row.mean(|run| run.items as f64)),
                format!("{:.1}", row.mean(|run| run.millis)),
                format!("{:.2}", row.mean(|run| run.preserved)),
            ]
        };
        self.rows().into_iter().map(cells).collect()
    }

    /// Returns the distinct pairs of algorithm and compression, in the order of the runs.
    fn ways(&self) -> Vec<(&'static str, bool)> {
        let mut ways = Vec::new();
        for run in &self.runs {
            let way = (run.algorithm, run.compress);
            if !ways.contains(&way) {
                ways.push(way);
            }
        }
        ways
    }

    /// Returns a row for each kind of fact: its count, and the share that each way restores.
    fn kinds(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let ways = self.ways();
        let name = |(algorithm, compress): &(&'static str, bool)| {
            format!("{algorithm}{}", if *compress { "" } else { ", whole texts" })
        };
        let heads = ["kind of fact", "facts"].map(str::to_owned).into_iter();
        let heads = heads.chain(ways.iter().map(name)).chain(["window".to_owned()]).collect();
        let of_way = |way: &(&'static str, bool)| {
            let is_its = move |run: &&Run| (run.algorithm, run.compress) == *way;
            self.runs.iter().filter(is_its).collect::<Vec<&Run>>()
        };
        let count = |runs: &[&Run], kind: Kind, of: fn(&Run) -> &Counts| {
            runs.iter().filter_map(|run| of(run).get(&kind)).sum::<usize>()
        };
        let row = |kind: Kind| {
            let all = of_way(ways.first()?);
            let planted = count(&all, kind, |run| &run.planted);
            let shares = ways.iter().map(|way| {
                format!("{:.2}", share(count(&of_way(way), kind, |run| &run.restored), planted))
            });
            let window = format!("{:.2}", share(count(&all, kind, |run| &run.window), planted));
            let first = [kind.name().to_owned(), planted.to_string()].into_iter();
            (planted > 0).then(|| first.chain(shares).chain([window]).collect())
        };
        (heads, Kind::ALL.into_iter().filter_map(row).collect())
    }

    fn real_cells(&self) -> Vec<Vec<String>> {
        let cells = |stated: &Stated| {
            let of = |count: usize| format!("{} ({count})", format_bar(share(count, stated.calls)));
            let tokens = stated.tokens_max.to_string();
            vec![tokens, stated.calls.to_string(), of(stated.restore), of(stated.window)]
        };
        self.real.iter().flat_map(|real| &real.stated).map(cells).collect()
    }

    fn sentences(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for run in self.runs.iter().filter(|run| !run.stale.is_empty()) {
            let Run { size, of, algorithm, seed, .. } = run;
            let values = run.stale.join(", ");
            lines.push(format!("{size} {of}, {algorithm}, seed {seed} states {values}"));
        }
        if let Some(real) = &self.real {
            lines.push(format!("{} real conversations", real.conversations));
            for Miss { line, at, tokens_max, values } in real.misses.iter().take(MISSES_NAMED) {
                let values = values.join(", ");
                lines.push(format!(
                    "line {line}, call at {at}, {tokens_max} tokens: the window has {values}, the \
                     restore has not"
                ));
            }
        }
        lines.extend(self.notes.iter().map(|note| format!("note: {note}")));
        lines
    }

    /// Prints the tables, or the JSON report.
    pub(super) fn print(&self, json: bool, out: &mut dyn Write) -> Outcome {
        if json {
            return Ok(writeln!(out, "{}", self.to_json())?);
        }
        let (heads, kinds) = self.kinds();
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        writeln!(out, "{}\n\n{}\n", drawn(&HEADS, self.cells()), drawn(&heads, kinds))?;
        if self.real.is_some() {
            writeln!(out, "{}\n", drawn(&HEADS_REAL, self.real_cells()))?;
        }
        for line in self.sentences() {
            writeln!(out, "{line}")?;
        }
        Ok(())
    }

    /// Formats the tables in Markdown.
    pub(super) fn to_markdown(&self) -> String {
        let mut text = format!(
            "# What a restore hands on\n\nsessionlog {}. Sessions with planted facts, restored \
             within a quarter of their tokens; the share of the facts that the answer states, \
             beside a window of the same tokens. Tokens, items, milliseconds (of a restore whose \
             session was read before), and preserved (the share that the answer itself says) are means of the seeds.\n\n",
            env!("CARGO_PKG_VERSION"),
        );
        text.push_str(&markdown_table(&HEADS, &self.cells()));
        let (heads, kinds) = self.kinds();
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        text.push_str("\nThe same by the kind of the fact, all sessions together:\n\n");
        text.push_str(&markdown_table(&heads, &kinds));
        if self.real.is_some() {
            text.push_str(
                "\nReal conversations before each call that changes something: whether the answer \
                 has every value of the call's arguments.\n\n",
            );
            text.push_str(&markdown_table(&HEADS_REAL, &self.real_cells()));
        }
        text.push('\n');
        for line in self.sentences() {
            text.push_str(&format!("- {line}\n"));
        }
        text
    }

    /// Returns the report as JSON, with every run.
    pub(super) fn to_json(&self) -> Value {
        let row = |row: Row<'_>| {
            let run = row.runs.first().copied().cloned().unwrap_or_default();
            json!({
                "size": run.size, "type": run.of, "compression": run.compress,
                "algorithm": run.algorithm,
                "facts": row.total(|run| sum(&run.planted)),
                "restore": row.share(|run| &run.restored),
                "window": row.share(|run| &run.window),
                "taken_back": row.total(|run| run.taken_back),
                "stated": row.total(|run| run.stale.len()),
                "ms": row.mean(|run| run.millis),
                "preserved": row.mean(|run| run.preserved),
            })
        };
        json!({
            "version": VERSION,
            "sessionlog": env!("CARGO_PKG_VERSION"),
            "rows": self.rows().into_iter().map(row).collect::<Vec<_>>(),
            "runs": self.runs.iter().map(run_json).collect::<Vec<_>>(),
            "real": self.real.as_ref().map(real_json),
            "notes": self.notes,
        })
    }
}

fn run_json(run: &Run) -> Value {
    let counts = |counts: &Counts| {
        let counts = counts.iter().map(|(kind, count)| (kind.name().to_owned(), json!(count)));
        Value::Object(counts.collect::<Map<String, Value>>())
    };
    json!({
        "size": run.size, "type": run.of, "compression": run.compress,
        "algorithm": run.algorithm, "seed": run.seed, "events": run.events,
        "facts": counts(&run.planted), "restore": counts(&run.restored),
        "window": counts(&run.window),
        "taken_back": run.taken_back, "stated": run.stale,
        "tokens_of_session": run.whole, "tokens_max": run.tokens_max, "tokens": run.tokens,
        "items": run.items, "ms": run.millis, "preserved": run.preserved,
    })
}

fn real_json(real: &Real) -> Value {
    let stated = |stated: &Stated| {
        json!({ "tokens": stated.tokens_max, "calls": stated.calls, "restore": stated.restore,
            "window": stated.window, "missed": stated.missed })
    };
    let miss = |one: &Miss| json!({ "line": one.line, "at": one.at, "tokens": one.tokens_max, "values": one.values });
    json!({
        "conversations": real.conversations,
        "stated": real.stated.iter().map(stated).collect::<Vec<_>>(),
        "misses": real.misses.iter().map(miss).collect::<Vec<_>>(),
    })
}

fn markdown_table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: String| format!("| {cells} |\n");
    let rows: String = rows.iter().map(|cells| line(cells.join(" | "))).collect();
    format!("{}|{}\n{rows}", line(heads.join(" | ")), "---|".repeat(heads.len()))
}

/// Counts, by algorithm, the runs in which a restore states fewer facts than the window.
pub(super) fn behind(runs: &[Run]) -> BTreeMap<&'static str, usize> {
    let behind = runs.iter().filter(|run| sum(&run.restored) < sum(&run.window));
    let mut counts = BTreeMap::new();
    behind.for_each(|run| *counts.entry(run.algorithm).or_default() += 1);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_bar_is_proportional_to_its_share() {
        assert_eq!(format_bar(0.0), format!("{} 0.00", "·".repeat(20)));
        assert_eq!(format_bar(1.0), format!("{} 1.00", "█".repeat(20)));
        assert_eq!(format_bar(0.5), format!("{}{} 0.50", "█".repeat(10), "·".repeat(10)));
    }

    #[test]
    fn seeds_of_one_way_share_a_row_and_stale_statements_are_reported() {
        let run = |seed, restored, stale: &[&str]| Run {
            size: "small",
            of: "code",
            compress: true,
            algorithm: "hybrid",
            seed,
            planted: [(Kind::Failure, 4)].into(),
            restored: [(Kind::Failure, restored)].into(),
            window: [(Kind::Failure, 2)].into(),
            taken_back: 1,
            stale: stale.iter().map(|value| (*value).to_owned()).collect(),
            ..Run::default()
        };
        let runs = vec![run(1, 4, &[]), run(2, 2, &["91234"])];
        assert!(behind(&runs).is_empty());
        let report = Report { runs, ..Report::default() };
        let text = report.to_markdown();
        for words in [
            "| small code | hybrid | 8 | ███████████████····· 0.75 | ██████████·········· 0.50 | 1 of 2 |",
            "| failing test | 8 | 0.75 | 0.50 |",
            "small code, hybrid, seed 2 states 91234",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let json = report.to_json();
        assert_eq!(json["rows"][0]["restore"], 0.75);
        assert_eq!(json["runs"][1]["stated"], json!(["91234"]));
    }
}
