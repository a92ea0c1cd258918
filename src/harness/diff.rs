//! The difference between two points of a session, from the facts before and after. No fact is
//! removed, so the later facts contain the earlier ones; a window may drop what an earlier one
//! showed. It must not read events.

use std::collections::BTreeSet;

use super::{
    budget::{Purse, fit},
    lists::{index_line, rejected_line, source_line, whole_gap},
    select::Form,
    window::Window,
};
use crate::{
    api::{
        overview::{OpenGap, RejectedLine, SourceOfView},
        step::StepLine,
    },
    event::{Position, Range, pace},
    projection::{Facts, Research},
};

/// Bytes of a goal or a summary.
const TEXT_BYTES: usize = 1_000;

/// A text that may have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The earlier value.
    pub from: Option<String>,
    /// The later value.
    pub to: Option<String>,
}

/// New items of a list, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News<T> {
    /// What fits.
    pub shown: Vec<T>,
    /// How many there are.
    pub total: u64,
}

/// What the facts of a later point have that those of an earlier one have not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactsDiff {
    /// The earlier point.
    pub from: Position,
    /// The later one.
    pub to: Position,
    /// What the session is for, when that changed.
    pub goal: Option<Changed>,
    /// The caller's summary, when that changed.
    pub summary: Option<Changed>,
    /// Whether its latest step is marked as the last, when that changed.
    pub complete: Option<bool>,
    /// Steps recorded.
    pub steps: News<StepLine>,
    /// Steps that were there and that a later one revised.
    pub superseded: News<StepLine>,
    /// Gaps opened.
    pub gaps_opened: News<OpenGap>,
    /// Gaps closed, whenever they were opened.
    pub gaps_closed: News<OpenGap>,
    /// Sources met for the first time.
    pub sources: News<SourceOfView>,
    /// Approaches ruled out.
    pub rejected: News<RejectedLine>,
}

/// What the window of one point shows and that of another does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowDiff {
    /// Events shown at the earlier point and at the later one.
    pub shown: [u64; 2],
    /// What the later window shows and the earlier does not.
    pub entered: Vec<Range>,
    /// What the earlier window shows and the later does not.
    pub left: Vec<Range>,
    /// What the earlier shows in full and the later in part.
    pub shortened: Vec<Range>,
}

/// Compares the windows of two points, each with its point, the earlier first.
#[must_use]
pub fn window_diff(before: (&Window, Position), after: (&Window, Position)) -> WindowDiff {
    let (old, new) = (shown(before), shown(after));
    let cut = |window: &Window| window.shortened.iter().copied().collect::<BTreeSet<_>>();
    let newly_cut: BTreeSet<Position> = &cut(after.0) - &cut(before.0);
    WindowDiff {
        shown: [old.len() as u64, new.len() as u64],
        entered: ranges(new.difference(&old)),
        left: ranges(old.difference(&new)),
        shortened: ranges(newly_cut.intersection(&old)),
    }
}

/// The positions before a point that its window shows: those it does not leave out.
fn shown((window, at): (&Window, Position)) -> BTreeSet<Position> {
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

/// Positions in order, as ranges.
fn ranges<'a>(positions: impl Iterator<Item = &'a Position>) -> Vec<Range> {
    let mut made: Vec<Range> = Vec::new();
    for position in positions {
        match made.last_mut() {
            Some(last) if last.to == *position => last.to = position.plus(1),
            _ => made.push(Range::new(*position, position.plus(1))),
        }
    }
    made
}

/// Compares the facts of two points; lists share `bytes_max` bytes.
#[must_use]
pub fn diff(before: &Facts, after: &Facts, bytes_max: usize) -> FactsDiff {
    let (old, new) = (&before.research, &after.research);
    let mut purse = Purse::new(bytes_max);
    let complete = new.completed_at().is_some();
    let goal = |research: &Research| research.goal().map(|text| fit(text, TEXT_BYTES).text);
    let summary =
        |research: &Research| research.summary().map(|said| fit(&said.text, TEXT_BYTES).text);
    let known = old.steps().len();
    let step = |at: usize| index_line(new, at, Form::Whole).map(|line| (line.bytes(), line));
    let revised = (0..known).filter(|at| {
        let by =
            |research: &Research| research.steps().get(*at).and_then(|step| step.superseded_by);
        by(old) != by(new)
    });
    let gap = |at: usize| {
        let line = whole_gap(new.gaps().get(at)?);
        Some((line.bytes(), line))
    };
    let closed = (0..new.gaps().len()).filter(|at| {
        let is =
            |research: &Research| research.gaps().get(*at).is_some_and(|gap| gap.closed.is_some());
        is(new) && !is(old)
    });
    FactsDiff {
        from: before.position,
        to: after.position,
        goal: changed(goal(old), goal(new)),
        summary: changed(summary(old), summary(new)),
        complete: Some(complete).filter(|now| *now != old.completed_at().is_some()),
        steps: news(known..new.steps().len(), &mut purse, step),
        superseded: news(revised, &mut purse, step),
        gaps_opened: news(old.gaps().len()..new.gaps().len(), &mut purse, gap),
        gaps_closed: news(closed, &mut purse, gap),
        sources: news(old.sources().len()..new.sources().len(), &mut purse, |at| {
            let line = source_line(new.sources().get(at)?, Form::Whole);
            Some((line.bytes(), line))
        }),
        rejected: news(old.rejected().len()..new.rejected().len(), &mut purse, |at| {
            rejected_line(new, at).map(|line| (line.bytes(), line))
        }),
    }
}

fn changed(from: Option<String>, to: Option<String>) -> Option<Changed> {
    (from != to).then_some(Changed { from, to })
}

/// What of a list fits the purse, from its beginning on.
fn news<T>(
    ordinals: impl Iterator<Item = usize>,
    purse: &mut Purse,
    line: impl Fn(usize) -> Option<(usize, T)>,
) -> News<T> {
    let (mut shown, mut total, mut full) = (Vec::new(), 0, false);
    for ordinal in ordinals {
        total += 1;
        if full {
            continue;
        }
        match line(ordinal) {
            Some((price, line)) if purse.pay(price) => shown.push(line),
            _ => full = true,
        }
    }
    News { shown, total }
}
