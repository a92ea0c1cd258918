//! Difference between two points of a session, from the facts at both. Facts are never removed, so
//! the later ones contain the earlier ones; a window may drop what an earlier window showed. It
//! must not read events.

use std::collections::BTreeSet;

use super::{
    budget::{Budget, fit},
    lists::{
        full_gap_line, gap_bytes, index_line, line_bytes, rejected_bytes, rejected_line,
        source_bytes, source_line,
    },
    select::ItemForm,
    tokens::Tokenizer,
    window::Window,
};
use crate::{
    api::{
        fork::{
            DiffGap, DiffRejected, DiffSource, DiffStep, FactsChange, Places, TextChange,
            WindowChange, WindowSize,
        },
        overview::{OpenGap, RejectedLine, SourceOfView},
        step::StepLine,
    },
    event::{Position, Range, pace},
    projection::{Facts, Research},
};

/// Most bytes of a goal or a summary.
const TEXT_BYTES: usize = 1_000;
/// Most ranges of a list.
const RANGES_MAX: usize = 1_000;

/// Compares the windows of two points, the earlier first; both were counted with one tokenizer.
#[must_use]
pub fn diff_windows(
    before: (&Window, Position),
    after: (&Window, Position),
    tokenizer: Tokenizer,
) -> WindowChange {
    let (old, new) = (shown_positions(before), shown_positions(after));
    let cut = |window: &Window| window.shortened.iter().copied().collect::<BTreeSet<_>>();
    let newly_cut: BTreeSet<Position> = &cut(after.0) - &cut(before.0);
    let size = |shown: &BTreeSet<Position>, window: &Window| WindowSize {
        events: shown.len() as u64,
        tokens: window.tokens,
    };
    WindowChange {
        tokens_max: after.0.tokens_max,
        tokenizer: tokenizer.as_str().to_owned(),
        from: size(&old, before.0),
        to: size(&new, after.0),
        entered: to_ranges(new.difference(&old)),
        left: to_ranges(old.difference(&new)),
        shortened: to_ranges(newly_cut.intersection(&old)),
    }
}

/// Returns the positions before a point that its window shows: those that it does not drop.
fn shown_positions((window, at): (&Window, Position)) -> BTreeSet<Position> {
    let mut next = Position::ZERO;
    let end = Range::new(at, at);
    let holes = window.dropped.iter().map(|(range, _)| *range).chain([end]);
    let between = holes.flat_map(|hole| {
        let range = next.0..hole.from.0;
        next = next.max(hole.to);
        range.inspect(|_| pace::step()).map(Position)
    });
    between.collect()
}

/// Joins ascending positions into ranges.
fn to_ranges<'a>(positions: impl Iterator<Item = &'a Position>) -> Places {
    let (mut made, mut events) = (Vec::<Range>::new(), 0);
    for position in positions {
        events += 1;
        match made.last_mut() {
            Some(last) if last.to == *position => last.to = position.plus(1),
            _ => made.push(Range::new(*position, position.plus(1))),
        }
    }
    made.truncate(RANGES_MAX);
    Places { data: made, events }
}

/// Compares the facts of two points; the lists share `bytes_max` bytes.
#[must_use]
pub fn diff(before: &Facts, after: &Facts, bytes_max: usize) -> FactsChange {
    let (old, new) = (&before.research, &after.research);
    let mut budget = Budget::new(bytes_max);
    let complete = new.completed_at().is_some();
    let goal = |research: &Research| research.goal().map(|text| fit(text, TEXT_BYTES).text);
    let summary =
        |research: &Research| research.summary().map(|said| fit(&said.text, TEXT_BYTES).text);
    let known = old.steps().len();
    let step = |at: usize| {
        let line = index_line(new, at, ItemForm::Whole)?;
        let price = line_bytes(&line);
        let StepLine { number, branch_id, line, superseded_by, .. } = line;
        Some((price, DiffStep { step: number, branch: branch_id, line, superseded_by }))
    };
    let revised = (0..known).filter(|at| {
        let by =
            |research: &Research| research.steps().get(*at).and_then(|step| step.superseded_by);
        by(old) != by(new)
    });
    let gap = |at: usize| {
        let line = full_gap_line(new.gaps().get(at)?);
        let price = gap_bytes(&line);
        let OpenGap { id, description, step } = line;
        Some((price, DiffGap { id, description, step }))
    };
    let source = |at: usize| {
        let line = source_line(new.sources().get(at)?, ItemForm::Whole);
        let price = source_bytes(&line);
        let SourceOfView { url, title, step, .. } = line;
        Some((price, DiffSource { url, title, step }))
    };
    let rejected = |at: usize| {
        let line = rejected_line(new, at)?;
        let price = rejected_bytes(&line);
        let RejectedLine { text, step } = line;
        Some((price, DiffRejected { text, step }))
    };
    let closed = (0..new.gaps().len()).filter(|at| {
        let is =
            |research: &Research| research.gaps().get(*at).is_some_and(|gap| gap.closed.is_some());
        is(new) && !is(old)
    });
    FactsChange {
        goal: text_change(goal(old), goal(new)),
        summary: text_change(summary(old), summary(new)),
        complete: Some(complete).filter(|now| *now != old.completed_at().is_some()),
        steps: collect_fitting(known..new.steps().len(), &mut budget, step).into(),
        superseded: collect_fitting(revised, &mut budget, step).into(),
        gaps_opened: collect_fitting(old.gaps().len()..new.gaps().len(), &mut budget, gap).into(),
        gaps_closed: collect_fitting(closed, &mut budget, gap).into(),
        sources: collect_fitting(old.sources().len()..new.sources().len(), &mut budget, source)
            .into(),
        rejected: collect_fitting(
            old.rejected_approaches().len()..new.rejected_approaches().len(),
            &mut budget,
            rejected,
        )
        .into(),
    }
}

fn text_change(from: Option<String>, to: Option<String>) -> Option<TextChange> {
    (from != to).then_some(TextChange { from, to })
}

/// Returns the first lines of a list that fit the budget, and the number of all lines.
fn collect_fitting<T>(
    ordinals: impl Iterator<Item = usize>,
    budget: &mut Budget,
    line: impl Fn(usize) -> Option<(usize, T)>,
) -> (Vec<T>, u64) {
    let (mut shown, mut total, mut full) = (Vec::new(), 0, false);
    for ordinal in ordinals {
        total += 1;
        if full {
            continue;
        }
        match line(ordinal) {
            Some((price, line)) if budget.spend(price) => shown.push(line),
            _ => full = true,
        }
    }
    (shown, total)
}
