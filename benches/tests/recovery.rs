//! The evaluation of recovery on fixed seeds: no view shows less than before, limited figures stay
//! below their limits, and figures repeat. It must not be what views are tuned on.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

use std::{
    io::Write as _,
    ops::RangeInclusive,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

/// An odd and an even seed: research in the varied and in the short style.
const SEEDS: [&str; 2] = ["11", "16"];

/// Bounds of each row for every seed: at least the figure at the last change. Raise the minimums,
/// and lower the limits, when the views improve.
const BOUNDS: &[(&str, RangeInclusive<u64>)] = &[
    ("shape.12.lines", 12..=12),
    ("shape.12.gaps", 2..=2),
    // Fewer sources fit since each is shown with its title.
    ("shape.12.sources", 3..=3),
    ("shape.12.last", 3..=3),
    ("shape.30.lines", 30..=30),
    ("shape.30.gaps", 6..=6),
    ("shape.30.sources", 5..=7),
    ("shape.30.last", 3..=3),
    ("shape.60.lines", 40..=60),
    ("shape.60.gaps", 12..=12),
    ("shape.60.sources", 5..=15),
    ("shape.60.last", 3..=3),
    ("shape.150.lines", 40..=150),
    ("shape.150.gaps", 12..=30),
    ("shape.150.sources", 5..=37),
    ("shape.150.last", 3..=3),
    ("shape.step.lines", 15..=150),
    ("shape.step.gaps", 12..=30),
    ("shape.step.sources", 3..=37),
    ("overview.facts", 28..=40),
    ("overview.last", 3..=3),
    ("overview.stale", 0..=0),
    ("overview.bytes", 0..=10_000),
    ("lookups.facts", 35..=40),
    ("continuation.2000.facts", 25..=40),
    ("continuation.2000.stale", 0..=0),
    ("continuation.2000.tokens", 0..=2_000),
    ("continuation.8000.facts", 36..=40),
    ("continuation.8000.stale", 0..=0),
    ("continuation.8000.tokens", 0..=8_000),
    ("short.facts", 10..=11),
    ("short.tokens", 0..=2_000),
    ("step.bytes", 0..=5_000),
    ("step.bytes.30", 0..=152_000),
    ("claude.instructions", 9..=9),
    ("claude.failing", 3..=3),
    ("claude.mended", 0..=0),
    ("claude.files", 16..=20),
    ("claude.plan", 4..=4),
    ("claude.chars", 0..=10_000),
    ("codex.instructions", 9..=9),
    ("codex.failing", 3..=3),
    ("codex.mended", 0..=0),
    ("codex.files", 16..=20),
    ("codex.plan", 4..=4),
    ("codex.chars", 0..=10_000),
    ("mixed.instructions", 9..=9),
    ("mixed.failing", 3..=3),
    ("mixed.mended", 0..=0),
    ("mixed.files", 16..=20),
    ("mixed.plan", 4..=4),
    ("mixed.facts", 4..=11),
    ("talk.2000.request", 1..=1),
    ("talk.2000.changes", 6..=6),
    ("talk.8000.request", 1..=1),
    ("talk.8000.changes", 6..=6),
    ("talk.index.request", 1..=1),
    ("talk.index.changes", 6..=6),
    ("real.2000.request", 1..=1),
    ("real.2000.ids", 3..=4),
    ("real.2000.amounts", 4..=4),
    ("real.8000.request", 1..=1),
    ("real.8000.ids", 4..=4),
    ("real.8000.amounts", 4..=4),
    ("real.index.request", 1..=1),
    ("real.index.ids", 4..=4),
    ("real.index.amounts", 4..=4),
    ("arguments.2000.told", 88..=134),
    ("arguments.2000.short", 0..=0),
    ("arguments.2000.recalled", 80..=134),
    ("arguments.4000.told", 115..=134),
    ("arguments.4000.short", 0..=0),
    ("arguments.4000.recalled", 115..=134),
    ("arguments.8000.told", 121..=134),
    ("arguments.8000.short", 0..=0),
    ("arguments.8000.recalled", 120..=134),
];

/// Returns true if a row is counted on real conversations only.
fn is_of_data(id: &str) -> bool {
    id.starts_with("real.") || id.starts_with("arguments.")
}

/// Runs `sessionlog-bench eval recovery` with these arguments.
fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessionlog-bench"));
    command.args(["eval", "recovery"]).args(arguments).output().unwrap()
}

/// Returns the printed report.
fn report(arguments: &[&str]) -> Value {
    let ran = run(&[arguments, &["--json"]].concat());
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// Returns the row of an id.
fn row<'a>(report: &'a Value, id: &str) -> &'a Value {
    let rows = report["rows"].as_array().unwrap();
    rows.iter().find(|row| row["id"] == id).unwrap_or_else(|| panic!("no row {id}"))
}

/// Returns the figures of a row, of each seed or of the half that has some.
fn figures(report: &Value, id: &str) -> Vec<u64> {
    let row = row(report, id);
    let seeds = row["seeds"].as_object().unwrap();
    let values = seeds.values().chain(row["odd"].get("min")).chain(row["odd"].get("max"));
    values.map(|value| value.as_u64().unwrap()).collect()
}

#[test]
fn no_view_shows_less_than_its_recorded_minimum_for_fixed_seeds() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let has_data = data.join("tau-airline.jsonl").exists();
    let mut arguments = vec!["--seed", SEEDS[0], "--seed", SEEDS[1]];
    if has_data {
        arguments.extend(["--data", data.to_str().unwrap()]);
    }
    let found = report(&arguments);
    let mut failures = Vec::new();
    for (id, bounds) in BOUNDS.iter().filter(|(id, _)| has_data || !is_of_data(id)) {
        let told = figures(&found, id);
        if told.is_empty() || !told.iter().all(|told| bounds.contains(told)) {
            failures.push(format!("{id}: {told:?} is not in {bounds:?}"));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
    if !has_data {
        // Written directly to standard error: the harness hides the output of passing tests.
        let missing = "SKIPPED: real conversations: ../shared/data/tau-airline.jsonl is not there";
        writeln!(std::io::stderr(), "{missing}").unwrap();
        assert!(found["notes"][0].as_str().unwrap().contains("skipped"), "{}", found["notes"]);
    }
}

#[test]
fn a_seed_repeats_its_figures_and_the_files_contain_the_report() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    let first = report(&["--seed", "5", "--out", out.to_str().unwrap()]);
    let here = place.path().join("here");
    std::fs::create_dir(&here).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessionlog-bench"));
    command.args(["eval", "recovery", "--seed", "5", "--json"]).current_dir(&here);
    let again = command.output().unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&again.stdout).unwrap(), first, "{again:?}");
    let left = std::fs::read_dir(&here).unwrap().count();
    assert_eq!(left, 0, "without --out nothing is left in the working directory");
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&read("recovery.json")).unwrap(), first);
    let text = read("recovery.md");
    for row in first["rows"].as_array().unwrap() {
        assert!(text.contains(row["what"].as_str().unwrap()), "{row}");
        // A figure of real sessions has a single value.
        let of_seed = row["seeds"].get("5").unwrap_or(&row["odd"]["min"]);
        assert!(row["even"].is_null() && row["odd"]["min"] == *of_seed, "{row}");
    }
}

#[test]
fn invalid_arguments_are_rejected_before_any_work() {
    let nowhere = run(&["--data", "nowhere"]);
    assert_eq!(nowhere.status.code(), Some(1), "{nowhere:?}");
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("tau-airline.jsonl"), "{nowhere:?}");
    assert_eq!(run(&["--seeds", "0"]).status.code(), Some(2));
    assert_eq!(run(&["--seed", "1", "--seeds", "2"]).status.code(), Some(2));
    assert_eq!(run(&["--out", "/dev/null/x"]).status.code(), Some(1));
}
