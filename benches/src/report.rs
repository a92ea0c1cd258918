//! Prints the figures as a table and as JSON; docs/performance.md describes both. It must not
//! measure, nor leave out a row that missed its target.

use serde_json::{Map, Value, json};

use std::io::Write;

use super::{
    cell::Bound,
    failure::Outcome,
    machine,
    runner::Row,
    site::Site,
    targets::{self, Verdict},
};

/// Version of the JSON report; a member is never removed within one.
const VERSION: u32 = 1;

/// Results of a run.
pub(super) struct Report<'a> {
    pub(super) site: &'a Site,
    pub(super) rows: Vec<Row>,
    /// Load average before the first round.
    pub(super) load_before: Option<f64>,
}

impl Report<'_> {
    /// Returns true if every measured target is met.
    pub(super) fn is_good(&self) -> bool {
        targets::verdicts(&self.rows).iter().all(|verdict| verdict.met != Some(false))
    }

    /// Prints the figures: a table, or one line of JSON.
    pub(super) fn print(&self, json: bool, out: &mut dyn Write) -> Outcome {
        let verdicts = targets::verdicts(&self.rows);
        if json {
            return Ok(writeln!(out, "{}", self.to_json(&verdicts))?);
        }
        let mut rows: Vec<Vec<String>> = Vec::new();
        for (before, row) in std::iter::once(None).chain(self.rows.iter().map(Some)).zip(&self.rows)
        {
            if before.is_some_and(|before| before.group != row.group) {
                rows.push(vec![String::new()]);
            }
            rows.push(line(row, &verdicts));
        }
        writeln!(out, "{}", drawn(&HEADS, rows))?;
        writeln!(out, "{LEGEND}\n")?;
        for line in self.machine_lines() {
            writeln!(out, "{line}")?;
        }
        writeln!(out)?;
        for verdict in verdicts {
            let word = match (verdict.met, verdict.unjudged) {
                (Some(true), _) => "met   ",
                (Some(false), _) => "missed",
                (None, Some(_)) => "open  ",
                (None, None) => "beside",
            };
            writeln!(out, "{word} {}", verdict_sentence(&verdict))?;
        }
        for note in &self.site.notes {
            writeln!(out, "note   {note}")?;
        }
        Ok(())
    }

    fn machine_lines(&self) -> [String; 2] {
        let disk = &self.site.disk;
        let device = disk.device.as_deref().unwrap_or("no block device of its own");
        let load = |load: Option<f64>| load.map_or("?".to_owned(), |load| format!("{load:.1}"));
        let settings = &self.site.settings;
        [
            format!(
                "{} processors, Linux {}, {} on {device}",
                std::thread::available_parallelism().map_or(0, usize::from),
                machine::kernel().unwrap_or_default(),
                disk.file_system,
            ),
            format!(
                "load {} before and {} after; interleaved rounds: {} of {} s",
                load(self.load_before),
                load(machine::load()),
                settings.rounds,
                settings.seconds,
            ),
        ]
    }

    fn to_json(&self, verdicts: &[Verdict<'_>]) -> Value {
        let settings = &self.site.settings;
        json!({
            "version": VERSION,
            "sessionlog": env!("CARGO_PKG_VERSION"),
            "debug_build": cfg!(debug_assertions),
            "machine": {
                "processors": std::thread::available_parallelism().map_or(0, usize::from),
                "kernel": machine::kernel(),
                "file_system": self.site.disk.file_system,
                "device": self.site.disk.device,
                "counts_flushes": self.site.counts_flushes,
                "load_before": self.load_before,
                "load_after": machine::load(),
            },
            "settings": {
                "rounds": settings.rounds,
                "seconds": settings.seconds,
                "sessions": settings.sessions,
                "lasting_bytes": settings.lasting_bytes,
                "start_sessions": settings.start_sessions,
                "start_bytes": settings.start_bytes,
                "events": settings.events,
            },
            "rows": self.rows.iter().map(row_json).collect::<Vec<_>>(),
            "targets": verdicts.iter().map(verdict_json).collect::<Vec<_>>(),
            "notes": self.site.notes,
        })
    }
}

const HEADS: [&str; 10] = [
    "ROW", "MEDIAN", "SPREAD", "P50 µs", "P99 µs", "FLUSHES", "BYTES", "SERVER", "BEHIND", "TARGET",
];
const LEGEND: &str = " FLUSHES, BYTES: of the device, an event. SERVER: processor µs of the server \
                      an event; BEHIND: those for what was put off";

/// Formats rows below their headings.
pub(super) fn drawn(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(heads.to_vec());
    table.add_rows(rows);
    table.to_string()
}

fn line(row: &Row, verdicts: &[Verdict<'_>]) -> Vec<String> {
    let verdict = verdicts.iter().find(|verdict| verdict.target.row == row.id);
    let timing = |of: f64| row.timing.map_or(String::new(), |_| format_figure(of));
    let device = |of: f64| row.device.map_or(String::new(), |_| format_figure(of));
    let durable = row.device.and_then(|device| device.durable);
    let verdict = match durable {
        Some(false) => "NOT DURABLE".to_owned(),
        _ => verdict.map_or(String::new(), format_judgement),
    };
    vec![
        row.id.to_owned(),
        format!("{}{}", format_figure(row.median()), short_unit(row.unit)),
        format_spread(row),
        timing(row.timing.unwrap_or_default().p50_micros),
        timing(row.timing.unwrap_or_default().p99_micros),
        device(row.device.map_or(0.0, |device| device.flushes_per_event)),
        device(row.device.map_or(0.0, |device| device.bytes_per_event)),
        row.timing.and_then(|timing| timing.server_micros).map_or(String::new(), format_figure),
        row.left.map_or(String::new(), |left| format_figure(left.micros_per_event)),
        verdict,
    ]
}

/// Shortens a unit for use next to its figure.
fn short_unit(unit: &'static str) -> &'static str {
    match unit {
        "events/s" | "answers/s" => "/s",
        "s" => " s",
        "bytes" => " B",
        _ => "",
    }
}

/// Formats the distance of the least and the largest round from the median, for several rounds.
fn format_spread(row: &Row) -> String {
    let ((min, max), median) = (min_and_max(&row.values), row.median());
    if row.values.len() < 2 || median <= 0.0 {
        return String::new();
    }
    let away = |value: f64| (value / median - 1.0) * 100.0;
    format!("{:.0}..+{:.0} %", away(min), away(max))
}

fn format_judgement(verdict: &Verdict<'_>) -> String {
    let word = match verdict.met {
        Some(true) => " met",
        Some(false) => " MISSED",
        None => "",
    };
    format!("{} {}{word}", verdict.target.id, format_figure(verdict.value))
}

fn verdict_sentence(verdict: &Verdict<'_>) -> String {
    let (id, row, value) = (verdict.target.id, verdict.target.row, format_figure(verdict.value));
    let said = match verdict.against {
        Some(other) if matches!(verdict.target.bound, Bound::CostTimesMax(_)) => {
            format!("{id:<3} {row} costs {value} times {other}")
        }
        Some(other) => format!("{id:<3} {row} is {value} times {other}"),
        None => format!("{id:<3} {row} is {value}"),
    };
    match (verdict.target.bound, verdict.unjudged) {
        (_, Some(why)) => format!("{said}, {why}"),
        (Bound::TimesMin(least), None) => format!("{said}; at least {least} is wanted"),
        (Bound::ValueMax(most) | Bound::CostTimesMax(most), None) => {
            format!("{said}; at most {most} is wanted")
        }
        (Bound::Shown, None) => said,
    }
}

fn min_and_max(values: &[f64]) -> (f64, f64) {
    let min = values.iter().copied().fold(f64::INFINITY, f64::min);
    let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if values.is_empty() { (0.0, 0.0) } else { (min, max) }
}

/// Formats three significant digits, with thousands separated.
fn format_figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => group_thousands(&format!("{value:.0}")),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        size if size >= 0.001 => format!("{value:.3}"),
        size if size > 0.0 => format!("{value:.1e}"),
        _ => "0".to_owned(),
    }
}

fn group_thousands(digits: &str) -> String {
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

fn row_json(row: &Row) -> Value {
    let (min, max) = min_and_max(&row.values);
    let mut about = Map::new();
    let mut put = |name: &str, value: Value| about.insert(name.to_owned(), value);
    put("id", json!(row.id));
    put("group", json!(row.group));
    put("what", json!(row.what));
    put("unit", json!(row.unit));
    put("clients", json!(row.clients));
    put("rounds", json!(row.values));
    put("median", json!(row.median()));
    put("min", json!(min));
    put("max", json!(max));
    if let Some(timing) = row.timing {
        put("p50_us", json!(timing.p50_micros));
        put("p99_us", json!(timing.p99_micros));
        put("client_processors", json!(timing.client_processors));
        put("machine_processors", json!(timing.machine_processors));
        if let Some(micros) = timing.server_micros {
            put("server_us_per_event", json!(micros));
        }
    }
    if let Some(device) = row.device {
        put("flushes_per_event", json!(device.flushes_per_event));
        put("device_bytes_per_event", json!(device.bytes_per_event));
        put("durable", json!(device.durable));
    }
    if let Some(left) = row.left {
        put("behind_us_per_event", json!(left.micros_per_event));
        put("behind_bytes_per_event", json!(left.bytes_per_event));
    }
    if let Some(kept) = row.kept {
        put("acknowledged", json!(kept.acknowledged));
        put("kept", json!(kept.found));
    }
    Value::Object(about)
}

fn verdict_json(verdict: &Verdict<'_>) -> Value {
    let mut about = Map::new();
    let mut put = |name: &str, value: Value| about.insert(name.to_owned(), value);
    put("id", json!(verdict.target.id));
    put("row", json!(verdict.target.row));
    put("against", json!(verdict.against));
    match verdict.target.bound {
        Bound::TimesMin(least) => drop(put("times_min", json!(least))),
        Bound::ValueMax(most) => drop(put("value_max", json!(most))),
        Bound::CostTimesMax(most) => drop(put("cost_times_max", json!(most))),
        Bound::Shown => {}
    }
    put("value", json!(verdict.value));
    put("met", json!(verdict.met));
    if let Some(why) = verdict.unjudged {
        put("unjudged", json!(why));
    }
    Value::Object(about)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_three_significant_digits() {
        for (value, expected) in [
            (0.0, "0"),
            (0.000_12, "1.2e-4"),
            (0.034_56, "0.035"),
            (1.234, "1.23"),
            (12.34, "12.3"),
            (123.4, "123"),
            (1_234.0, "1 234"),
            (1_234_567.0, "1 234 567"),
        ] {
            assert_eq!(format_figure(value), expected);
        }
    }
}
