//! The rows of the report: what each counts, its target, and the comparison of both. It must not
//! count facts.

use std::collections::BTreeMap;

/// Target of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The mean of the seeds is at least this value.
    Mean(u64),
    /// Every seed has at least this value.
    Least(u64),
    /// No seed has more than this value.
    Most(u64),
    /// No target: the figure is shown for comparison.
    Shown,
}

/// A row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// Name in JSON and in the table.
    pub(super) id: &'static str,
    /// Description of the count.
    pub(super) what: &'static str,
    /// Maximum of the count, where it is fixed.
    pub(super) of: Option<u64>,
    /// Target of the count.
    pub(super) target: Target,
}

const fn row(id: &'static str, what: &'static str, of: Option<u64>, target: Target) -> Row {
    Row { id, what, of, target }
}

use Target::{Least, Mean, Most, Shown};

/// All rows, in the order of the report.
pub(super) const ROWS: &[Row] = &[
    row("shape.12.lines", "overview of 12 steps: lines of the index", Some(12), Least(12)),
    row("shape.12.gaps", "… open gaps, worded alike", Some(2), Least(2)),
    row("shape.12.sources", "… sources", Some(3), Least(3)),
    row("shape.12.last", "… last steps, whole or 600 bytes of them", Some(3), Least(3)),
    row("shape.30.lines", "overview of 30 steps: lines of the index", Some(30), Least(30)),
    row("shape.30.gaps", "… open gaps, worded alike", Some(6), Least(6)),
    row("shape.30.sources", "… sources", Some(7), Least(7)),
    row("shape.30.last", "… last steps, whole or 600 bytes of them", Some(3), Least(3)),
    row("shape.60.lines", "overview of 60 steps: lines of the index", Some(60), Least(40)),
    row("shape.60.gaps", "… open gaps, worded alike", Some(12), Least(12)),
    row("shape.60.sources", "… sources", Some(15), Least(12)),
    row("shape.60.last", "… last steps, whole or 600 bytes of them", Some(3), Least(3)),
    row("shape.150.lines", "overview of 150 steps: lines of the index", Some(150), Least(40)),
    row("shape.150.gaps", "… open gaps, worded alike", Some(30), Least(12)),
    row("shape.150.sources", "… sources", Some(37), Least(12)),
    row("shape.150.last", "… last steps, whole or 600 bytes of them", Some(3), Least(3)),
    row("shape.step.lines", "answer to step 150: lines of the index", Some(150), Least(15)),
    row("shape.step.gaps", "… open gaps, worded alike", Some(30), Least(12)),
    row("shape.step.sources", "… sources", Some(37), Least(5)),
    row("overview.facts", "overview of 200 steps: facts told", Some(40), Mean(24)),
    row("overview.last", "… last three steps whole", Some(3), Shown),
    row("overview.stale", "… values told that were taken back", None, Most(0)),
    row("overview.bytes", "… bytes", None, Most(10_000)),
    row("lookups.facts", "overview and three look-ups: facts told", Some(40), Mean(37)),
    row("lookups.words", "… look-ups by words; the others are pages of lists", Some(3), Shown),
    row("continuation.2000.facts", "continuation, 2 000 tokens: facts told", Some(40), Mean(24)),
    row("continuation.2000.stale", "… values told that were taken back", None, Most(0)),
    row("continuation.2000.tokens", "… tokens spent", None, Most(2_000)),
    row("continuation.2000.bytes", "… bytes", None, Shown),
    row("continuation.8000.facts", "continuation, 8 000 tokens: facts told", Some(40), Mean(34)),
    row("continuation.8000.stale", "… values told that were taken back", None, Most(0)),
    row("continuation.8000.tokens", "… tokens spent", None, Most(8_000)),
    row("continuation.8000.bytes", "… bytes", None, Shown),
    row(
        "short.facts",
        "continuation of 12 short steps, 2 000 tokens: facts told",
        Some(11),
        Mean(10),
    ),
    row("short.tokens", "… tokens spent", None, Most(2_000)),
    row("step.bytes", "largest answer to a step: bytes", None, Most(5_000)),
    row("step.bytes.30", "first 30 answers to steps: bytes", None, Most(152_000)),
    row(
        "claude.instructions",
        "Claude Code after a compaction: the user's instructions",
        Some(9),
        Least(9),
    ),
    row("claude.failing", "… tests that still fail", Some(3), Least(3)),
    row("claude.mended", "… mended tests told as failing", None, Most(0)),
    row("claude.files", "… files it edited", Some(20), Mean(16)),
    row("claude.plan", "… open items of its plan", Some(4), Least(4)),
    row("claude.chars", "… characters", None, Most(10_000)),
    row(
        "codex.instructions",
        "Codex after a compaction: the user's instructions",
        Some(9),
        Least(9),
    ),
    row("codex.failing", "… tests that still fail", Some(3), Least(3)),
    row("codex.mended", "… mended tests told as failing", None, Most(0)),
    row("codex.files", "… files it edited", Some(20), Mean(16)),
    row("codex.plan", "… open items of its plan", Some(4), Least(4)),
    row("codex.chars", "… characters", None, Most(10_000)),
    row(
        "mixed.instructions",
        "coding with research, after a compaction: instructions",
        Some(9),
        Least(9),
    ),
    row("mixed.failing", "… tests that still fail", Some(3), Least(3)),
    row("mixed.mended", "… mended tests told as failing", None, Most(0)),
    row("mixed.files", "… files it edited", Some(20), Shown),
    row("mixed.plan", "… open items of its plan", Some(4), Least(4)),
    row("mixed.facts", "… facts of the research told", Some(11), Shown),
    row(
        "talk.2000.request",
        "conversation, continuation of 2 000 tokens: the request",
        Some(1),
        Least(1),
    ),
    row("talk.2000.changes", "… what was changed before", Some(6), Least(6)),
    row(
        "talk.8000.request",
        "conversation, continuation of 8 000 tokens: the request",
        Some(1),
        Least(1),
    ),
    row("talk.8000.changes", "… what was changed before", Some(6), Least(6)),
    row("talk.index.request", "conversation, index: the request", Some(1), Least(1)),
    row("talk.index.changes", "… what was changed before", Some(6), Least(6)),
    row(
        "real.2000.request",
        "seven real conversations, 2 000 tokens: the request",
        Some(1),
        Least(1),
    ),
    row("real.2000.ids", "… reservations that were changed", Some(4), Least(4)),
    row("real.2000.amounts", "… amounts that were paid", Some(4), Least(4)),
    row(
        "real.8000.request",
        "seven real conversations, 8 000 tokens: the request",
        Some(1),
        Least(1),
    ),
    row("real.8000.ids", "… reservations that were changed", Some(4), Least(4)),
    row("real.8000.amounts", "… amounts that were paid", Some(4), Least(4)),
    row("real.index.request", "seven real conversations, index: the request", Some(1), Least(1)),
    row("real.index.ids", "… reservations that were changed", Some(4), Least(4)),
    row("real.index.amounts", "… amounts that were paid", Some(4), Least(4)),
    row("arguments.calls", "real conversations: calls that change something", None, Shown),
    row("arguments.2000.told", "… continuation, 2 000 tokens: all values told", None, Shown),
    row("arguments.2000.window", "… window of 2 000 tokens, recalls nothing", None, Shown),
    row("arguments.2000.recalled", "… window of 2 000 tokens", None, Shown),
    row("arguments.2000.short", "… by which the first window tells more", None, Most(0)),
    row("arguments.4000.told", "… continuation, 4 000 tokens: all values told", None, Shown),
    row("arguments.4000.window", "… window of 4 000 tokens, recalls nothing", None, Shown),
    row("arguments.4000.recalled", "… window of 4 000 tokens", None, Shown),
    row("arguments.4000.short", "… by which the first window tells more", None, Most(0)),
    row("arguments.8000.told", "… continuation, 8 000 tokens: all values told", None, Shown),
    row("arguments.8000.window", "… window of 8 000 tokens, recalls nothing", None, Shown),
    row("arguments.8000.recalled", "… window of 8 000 tokens", None, Shown),
    row("arguments.8000.short", "… by which the first window tells more", None, Most(0)),
];

/// Figures of one seed, by row id.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    /// Stores a figure for a row of the table.
    pub(super) fn put(&mut self, id: &str, value: u64) {
        let row = ROWS.iter().find(|row| row.id == id);
        let row = row.unwrap_or_else(|| unreachable!("{id} is counted and has no row"));
        self.0.insert(row.id, value);
    }

    /// Returns the figure of a row.
    pub(super) fn get(&self, id: &str) -> Option<u64> {
        self.0.get(id).copied()
    }
}

/// Figures of some seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figures {
    pub(super) mean: f64,
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Figures {
    /// Computes mean and extremes; `None` without values.
    pub(super) fn of(values: &[u64]) -> Option<Self> {
        let (min, max) = (*values.iter().min()?, *values.iter().max()?);
        let sum: u64 = values.iter().sum();
        let float = |value: u64| f64::from(u32::try_from(value).unwrap_or(u32::MAX));
        Some(Self { mean: float(sum) / float(values.len() as u64), min, max })
    }

    /// Returns true if the figures meet the target; `None` without a target.
    pub(super) fn meet(self, target: Target) -> Option<bool> {
        let float = |value: u64| f64::from(u32::try_from(value).unwrap_or(u32::MAX));
        match target {
            Mean(least) => Some(self.mean >= float(least)),
            Least(least) => Some(self.min >= least),
            Most(most) => Some(self.max <= most),
            Shown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_compared_with_the_mean_or_with_every_seed() {
        let figures = Figures::of(&[3, 5, 4]).expect("three values");
        assert_eq!(figures, Figures { mean: 4.0, min: 3, max: 5 });
        for (target, met) in [
            (Mean(4), Some(true)),
            (Mean(5), Some(false)),
            (Least(3), Some(true)),
            (Least(4), Some(false)),
            (Most(5), Some(true)),
            (Most(4), Some(false)),
            (Shown, None),
        ] {
            assert_eq!(figures.meet(target), met, "{target:?}");
        }
        assert_eq!(Figures::of(&[]), None);
    }

    #[test]
    fn every_row_has_a_unique_name() {
        let mut ids: Vec<&str> = ROWS.iter().map(|row| row.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), ROWS.len());
    }
}
