//! Ranges that a client's compactions removed from its context, and those still missing. A
//! compaction without a list of dropped ranges dropped everything before it except its kept ranges.
//! It must not judge a summary.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{WithdrawnRanges, body};
use crate::{
    api::views::CompactionOut,
    event::{
        Event, Position, Range, kinds, push_bounded,
        text::{clip, one_line},
    },
};

/// First words of the paragraph by which Codex introduces a summary to the next model.
pub const SUMMARY_FRAME: &str = "Another language model started to solve this problem";
/// Most compactions kept.
const COMPACTIONS_MAX: usize = 100;
/// Most ranges read of one compaction.
const RANGES_MAX: usize = 1_000;
/// Most ranges out of the context that are kept with their compactions.
const DROPPED_RANGES_MAX: usize = 4_096;
/// Most characters kept of a trigger, and of a summary.
const TRIGGER_CHARS_MAX: usize = 40;
const SUMMARY_CHARS_MAX: usize = 8_000;

/// Compactions of a session.
#[derive(Clone, Debug, Default)]
pub struct Compactions {
    count: u64,
    latest: VecDeque<CompactionOut>,
    out: Vec<Range>,
}

#[derive(Deserialize)]
struct CompactionBody<'a> {
    trigger: Option<String>,
    #[serde(borrow)]
    kept: Option<&'a RawValue>,
    #[serde(borrow)]
    dropped: Option<&'a RawValue>,
    summary: Option<String>,
}

impl Compactions {
    /// Returns the number of compactions.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the latest compactions, oldest first.
    pub fn latest(&self) -> impl DoubleEndedIterator<Item = &CompactionOut> {
        self.latest.iter()
    }

    /// Returns the dropped positions that no later compaction kept, as ascending ranges that do not
    /// touch.
    #[must_use]
    pub fn dropped_ranges(&self) -> &[Range] {
        &self.out
    }

    pub(super) fn fold(&mut self, event: &Event) {
        let Some(made) = read_compaction(event) else { return };
        self.count += 1;
        self.out = subtract(&union(&self.out, &made.dropped), &made.kept);
        push_bounded(&mut self.latest, made, COMPACTIONS_MAX);
    }

    pub(super) fn weight(&self) -> usize {
        let texts = self.latest.iter().map(|one| {
            let ranges = one.kept.len() + one.dropped.len();
            200 + one.summary.as_ref().map_or(0, String::len) + ranges * size_of::<Range>()
        });
        texts.sum::<usize>() + self.out.len() * size_of::<Range>()
    }
}

/// Positions out of a client's context, each with the compaction that took it out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DroppedRanges(Vec<(Range, Position)>);

impl DroppedRanges {
    /// Returns the compaction that took a position out of the context.
    #[must_use]
    pub fn dropped_by(&self, position: Position) -> Option<Position> {
        let index = self.0.partition_point(|(range, _)| range.to <= position);
        self.0.get(index).filter(|(range, _)| range.contains(position)).map(|(_, by)| *by)
    }
}

/// Fold of the positions out of a client's context, as of its latest rewind.
#[derive(Clone, Debug, Default)]
pub(super) struct DroppedFold {
    /// Ranges, ascending and apart, each with the position of its compaction.
    out: DroppedRanges,
    /// The latest compactions, oldest first, without their texts: a rewind may withdraw some.
    latest: VecDeque<CompactionOut>,
    /// Ranges that the compactions before those took out.
    before: Vec<(Range, Position)>,
    withdrawn: WithdrawnRanges,
}

impl DroppedFold {
    pub(super) fn out(&self) -> &DroppedRanges {
        &self.out
    }

    pub(super) fn withdrawn(&self) -> &WithdrawnRanges {
        &self.withdrawn
    }

    /// Leaves out the compactions in the ranges that the latest rewind withdraws.
    pub(super) fn withdraw(&mut self, withdrawn: WithdrawnRanges) {
        let before = std::mem::replace(&mut self.withdrawn, withdrawn);
        let is_left = |made: &&CompactionOut| !self.withdrawn.contains(made.position);
        let is_same = |made| is_left(&made) != before.contains(made.position);
        if !self.latest.iter().all(is_same) {
            let left = self.latest.iter().filter(is_left);
            self.out.0 = left.fold(self.before.clone(), |out, made| drop_ranges(&out, made));
        }
    }

    /// Folds an event; ignores all but compactions.
    pub(super) fn fold(&mut self, event: &Event) {
        let Some(mut made) = read_compaction(event) else { return };
        (made.trigger, made.summary) = (None, None);
        self.out.0 = drop_ranges(&self.out.0, &made);
        self.latest.push_back(made);
        if self.latest.len() > COMPACTIONS_MAX
            && let Some(oldest) = self.latest.pop_front()
            && !self.withdrawn.contains(oldest.position)
        {
            self.before = drop_ranges(&self.before, &oldest);
        }
    }

    pub(super) fn weight(&self) -> usize {
        let latest = self.latest.iter().map(|made| {
            size_of::<CompactionOut>() + (made.kept.len() + made.dropped.len()) * size_of::<Range>()
        });
        (self.out.0.len() + self.before.len()) * size_of::<(Range, Position)>()
            + latest.sum::<usize>()
            + size_of_val(self.withdrawn.ranges())
    }
}

/// Returns the ranges that are out after a compaction, ascending and apart.
fn drop_ranges(out: &[(Range, Position)], made: &CompactionOut) -> Vec<(Range, Position)> {
    let known: Vec<Range> = out.iter().map(|(range, _)| *range).collect();
    let new = subtract(&made.dropped, &known).into_iter().map(|range| (range, made.position));
    let kept = |(range, by): (Range, Position)| {
        subtract(&[range], &made.kept).into_iter().map(move |range| (range, by))
    };
    let mut out: Vec<(Range, Position)> = out.iter().copied().chain(new).flat_map(kept).collect();
    out.sort_by_key(|(range, _)| range.from);
    // Of a session with so many, the earliest ranges are forgotten.
    out.drain(..out.len().saturating_sub(DROPPED_RANGES_MAX));
    out
}

/// Parses a compaction; `None` for any other event.
#[must_use]
pub fn read_compaction(event: &Event) -> Option<CompactionOut> {
    match event.kind.as_str() {
        kinds::CONTEXT_COMPACTED => parse_compaction(event),
        // The hosted API reports the compaction without ranges.
        kinds::AGENT_THREAD_CONTEXT_COMPACTED => Some(compaction_of_all(event)),
        _ => None,
    }
}

fn compaction_of_all(event: &Event) -> CompactionOut {
    CompactionOut {
        position: event.position,
        at: event.happened_at(),
        trigger: None,
        kept: Vec::new(),
        dropped: union(&[], &[Range::new(Position::ZERO, event.position)]),
        is_reported: false,
        summary: None,
    }
}

fn parse_compaction(event: &Event) -> Option<CompactionOut> {
    let body: CompactionBody<'_> = body::read(&event.body)?;
    let before = Range::new(Position::ZERO, event.position);
    let ranges = |raw: Option<&RawValue>| {
        let read = raw.map(|raw| body::parse_ranges(raw.get())).unwrap_or_default();
        let cut = |range: Range| Range::new(range.from, range.to.min(before.to));
        let cut: Vec<Range> = read.into_iter().take(RANGES_MAX).map(cut).collect();
        union(&[], &cut)
    };
    let kept = ranges(body.kept);
    let is_reported = body.dropped.is_some();
    let dropped = if is_reported { ranges(body.dropped) } else { subtract(&[before], &kept) };
    let trigger = body.trigger.map(|text| one_line(&text, TRIGGER_CHARS_MAX));
    let summary = body.summary.map(|text| clip(text.trim(), SUMMARY_CHARS_MAX));
    Some(CompactionOut {
        trigger,
        dropped: subtract(&dropped, &kept),
        kept,
        is_reported,
        summary: summary.filter(|text| !text.is_empty()),
        ..compaction_of_all(event)
    })
}

/// Returns a summary without the paragraph by which Codex introduces it to the next model, and
/// without the tags and the analysis of Claude Code.
#[must_use]
pub fn introduced_summary(summary: &str) -> &str {
    let summary = summary.trim();
    let own = summary.strip_prefix(SUMMARY_FRAME).and_then(|rest| rest.split_once('\n'));
    let own = own.map_or(summary, |(_, own)| own.trim_start());
    let analysed = own.strip_prefix("<analysis>").and_then(|rest| rest.split_once("</analysis>"));
    let own = analysed.map_or(own, |(_, own)| own.trim_start());
    let own = own.strip_prefix("<summary>").unwrap_or(own);
    own.strip_suffix("</summary>").unwrap_or(own).trim()
}

/// Returns the union of both, as ascending ranges that do not touch.
fn union(one: &[Range], other: &[Range]) -> Vec<Range> {
    let mut all: Vec<Range> = one.iter().chain(other).copied().filter(|r| !r.is_empty()).collect();
    all.sort_by_key(|range| range.from);
    let mut made: Vec<Range> = Vec::new();
    for range in all {
        match made.last_mut() {
            Some(last) if last.to >= range.from => last.to = last.to.max(range.to),
            _ => made.push(range),
        }
    }
    made
}

/// Returns the positions of `all` that are not in `less`, whose ranges are ascending and apart.
fn subtract(all: &[Range], less: &[Range]) -> Vec<Range> {
    let mut made = Vec::new();
    for range in all {
        let mut from = range.from;
        let first = less.partition_point(|hole| hole.to <= range.from);
        let holes = less.iter().skip(first).take_while(|hole| hole.from < range.to);
        for hole in holes {
            made.push(Range::new(from, hole.from));
            from = hole.to.max(from);
        }
        made.push(Range::new(from, range.to));
    }
    made.retain(|range| !range.is_empty());
    made
}
