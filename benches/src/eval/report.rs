//! Prints the report of a run as a table for a terminal, as Markdown and as JSON. It must not count
//! facts, or leave out a missed row.

use std::io::Write;

use serde_json::{Value, json};

use super::rows::{Figures, ROWS, Row, Tally, Target};
use crate::{failure::Outcome, report::drawn};

/// Version of the JSON report; a member is never removed within one.
const VERSION: u32 = 1;

const HEADS: [&str; 6] = ["ROW", "WHAT", "WANTED", "EVEN SEEDS", "ODD SEEDS", ""];

/// Figures of a run, by seed.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) seeds: Vec<(u64, Tally)>,
    /// Figures of real sessions, which no seed generates.
    pub(super) real: Tally,
    /// Notes for a reader of the figures.
    pub(super) notes: Vec<String>,
}

/// A row with its figures.
struct Line {
    row: &'static Row,
    /// Figures of even seeds, on which views are tuned.
    even: Option<Figures>,
    /// Figures of odd seeds, which are reported.
    odd: Option<Figures>,
}

impl Line {
    /// Returns true if the odd seeds meet the target, or the even ones where none is odd.
    fn met(&self) -> Option<bool> {
        self.odd.or(self.even)?.meet(self.row.target)
    }
}

impl Report {
    fn lines(&self) -> Vec<Line> {
        let figures = |row: &Row, odd: bool| {
            let half = self.seeds.iter().filter(|(seed, _)| (seed % 2 == 1) == odd);
            let values: Vec<u64> = half.filter_map(|(_, found)| found.get(row.id)).collect();
            Figures::of(&values)
        };
        let real = |row: &Row| Figures::of(self.real.get(row.id).as_slice());
        let line = |row| Line {
            row,
            even: figures(row, false),
            odd: figures(row, true).or_else(|| real(row)),
        };
        // A skipped row has no figure; a note reports it.
        ROWS.iter().map(line).filter(|line| line.even.or(line.odd).is_some()).collect()
    }

    /// Prints the table, or the JSON report.
    pub(super) fn print(&self, json: bool, out: &mut dyn Write) -> Outcome {
        if json {
            return Ok(writeln!(out, "{}", self.to_json())?);
        }
        let lines = self.lines();
        let rows = lines.iter().map(|line| {
            let mut cells = vec![line.row.id.to_owned()];
            cells.extend(self::cells(line));
            cells
        });
        writeln!(out, "{}", drawn(&HEADS, rows.collect()))?;
        let missed = lines.iter().filter(|line| line.met() == Some(false)).count();
        let judged = lines.iter().filter(|line| line.met().is_some()).count();
        writeln!(out, "{} of {judged} targets met by the odd seeds", judged - missed)?;
        for note in &self.notes {
            writeln!(out, "note: {note}")?;
        }
        Ok(())
    }

    /// Formats the table in Markdown.
    pub(super) fn to_markdown(&self) -> String {
        let seeds: Vec<String> = self.seeds.iter().map(|(seed, _)| seed.to_string()).collect();
        let mut text = format!(
            "# What views tell after a loss of context\n\nsessionlog {}, seeds {}. Mean of the \
             seeds, least to most in brackets.\n\n| what is told | wanted | even seeds (tuned on) \
             | odd seeds (reported) | |\n|---|--:|--:|--:|---|\n",
            env!("CARGO_PKG_VERSION"),
            seeds.join(", "),
        );
        for line in self.lines() {
            text.push_str(&format!("| {} |\n", cells(&line).join(" | ")));
        }
        for note in &self.notes {
            text.push_str(&format!("\n{note}\n"));
        }
        text
    }

    /// Returns the report as JSON.
    pub(super) fn to_json(&self) -> Value {
        let row = |line: &Line| {
            let seeds = self.seeds.iter();
            let values = seeds.filter_map(|(seed, found)| {
                Some((seed.to_string(), Value::from(found.get(line.row.id)?)))
            });
            json!({
                "id": line.row.id,
                "what": line.row.what,
                "of": line.row.of,
                "wanted": target_json(line.row.target),
                "even": line.even.map(figures_to_json),
                "odd": line.odd.map(figures_to_json),
                "met": line.met(),
                "seeds": values.collect::<serde_json::Map<_, _>>(),
            })
        };
        json!({
            "version": VERSION,
            "sessionlog": env!("CARGO_PKG_VERSION"),
            "seeds": self.seeds.iter().map(|(seed, _)| seed).collect::<Vec<_>>(),
            "rows": self.lines().iter().map(row).collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}

/// Returns the cells: description, target, both halves, and the verdict.
fn cells(line: &Line) -> [String; 5] {
    let wanted = match line.row.target {
        Target::Mean(least) | Target::Least(least) => match line.row.of {
            Some(of) if of == least => format!("all {of}"),
            Some(of) => format!(">= {least} of {of}"),
            None => format!(">= {least}"),
        },
        Target::Most(most) => format!("<= {most}"),
        Target::Shown => String::new(),
    };
    let figures = |figures: Option<Figures>| figures.map_or_else(String::new, shown);
    let verdict = match line.met() {
        Some(true) => "met",
        Some(false) => "MISSED",
        None => "",
    };
    let what = line.row.what.to_owned();
    [what, wanted, figures(line.even), figures(line.odd), verdict.to_owned()]
}

/// Formats the mean, and the extremes where they differ from it.
fn shown(figures: Figures) -> String {
    let Figures { mean, min, max } = figures;
    if min == max { min.to_string() } else { format!("{mean:.1} ({min}..{max})") }
}

fn target_json(target: Target) -> Value {
    match target {
        Target::Mean(least) => json!({ "mean_min": least }),
        Target::Least(least) => json!({ "every_min": least }),
        Target::Most(most) => json!({ "every_max": most }),
        Target::Shown => Value::Null,
    }
}

fn figures_to_json(figures: Figures) -> Value {
    json!({ "mean": figures.mean, "min": figures.min, "max": figures.max })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_and_odd_seeds_are_separate_and_the_odd_ones_are_judged() {
        let seed = |seed, facts| {
            let mut found = Tally::default();
            found.put("overview.facts", facts);
            (seed, found)
        };
        let seeds = vec![seed(2, 30), seed(3, 20), seed(5, 23)];
        let report = Report { seeds, ..Report::default() };
        let rows = report.to_json()["rows"].take();
        assert_eq!(rows[0]["even"]["mean"], 30.0);
        assert_eq!((&rows[0]["odd"]["mean"], &rows[0]["met"]), (&json!(21.5), &json!(false)));
        assert_eq!(rows[0]["seeds"], json!({"2": 30, "3": 20, "5": 23}));
        assert_eq!(rows.as_array().map(Vec::len), Some(1), "a row without figures is left out");
        let text = report.to_markdown();
        let line =
            "| overview of 200 steps: facts told | >= 24 of 40 | 30 | 21.5 (20..23) | MISSED |";
        assert!(text.contains(line), "{text}");
    }
}
