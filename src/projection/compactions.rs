//! What a client's compactions removed from its context, and what of it is still missing. A
//! compaction without a list of dropped ranges dropped everything before it except what it kept. It
//! must not judge a summary.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    body,
    text::{clip, one_line},
};
use crate::event::{Event, Position, Range, Timestamp, kinds};

/// Latest compactions kept.
const COMPACTIONS_MAX: usize = 100;
/// Ranges read of one.
const RANGES_MAX: usize = 1_000;
/// Characters kept of a trigger and of a summary.
const TRIGGER_CHARS_MAX: usize = 40;
const SUMMARY_CHARS_MAX: usize = 2_000;

/// A compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// Where it was recorded.
    pub position: Position,
    /// When.
    pub at: Timestamp,
    /// Its cause, in the client's word.
    pub trigger: Option<String>,
    /// What stayed in the context.
    pub kept: Vec<Range>,
    /// What left it.
    pub dropped: Vec<Range>,
    /// Whether the client reported what it dropped; else it is computed.
    pub is_told: bool,
    /// What the client put in its place.
    pub summary: Option<String>,
}

/// The compactions of a session.
#[derive(Clone, Debug, Default)]
pub struct Compactions {
    count: u64,
    latest: VecDeque<Compaction>,
    out: Vec<Range>,
}

#[derive(Deserialize)]
struct Body<'a> {
    trigger: Option<String>,
    #[serde(borrow)]
    kept: Option<&'a RawValue>,
    #[serde(borrow)]
    dropped: Option<&'a RawValue>,
    summary: Option<String>,
}

impl Compactions {
    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The latest ones, oldest first.
    pub fn latest(&self) -> impl DoubleEndedIterator<Item = &Compaction> {
        self.latest.iter()
    }

    /// Positions that were dropped and not kept by a later compaction: ranges in order, none
    /// touching another.
    #[must_use]
    pub fn out(&self) -> &[Range] {
        &self.out
    }

    pub(super) fn fold(&mut self, event: &Event) {
        let made = match event.kind.as_str() {
            kinds::CONTEXT_COMPACTED => read(event),
            // The hosted wire only reports that there was one.
            kinds::AGENT_THREAD_CONTEXT_COMPACTED => Some(everything(event)),
            _ => return,
        };
        let Some(made) = made else { return };
        self.count += 1;
        self.out = without(&union(&self.out, &made.dropped), &made.kept);
        if self.latest.len() == COMPACTIONS_MAX {
            self.latest.pop_front();
        }
        self.latest.push_back(made);
    }

    pub(super) fn weight(&self) -> usize {
        let texts = self.latest.iter().map(|one| {
            let ranges = one.kept.len() + one.dropped.len();
            200 + one.summary.as_ref().map_or(0, String::len) + ranges * size_of::<Range>()
        });
        texts.sum::<usize>() + self.out.len() * size_of::<Range>()
    }
}

fn everything(event: &Event) -> Compaction {
    Compaction {
        position: event.position,
        at: event.processed_at,
        trigger: None,
        kept: Vec::new(),
        dropped: union(&[], &[Range::new(Position::ZERO, event.position)]),
        is_told: false,
        summary: None,
    }
}

fn read(event: &Event) -> Option<Compaction> {
    let body: Body<'_> = body::read(&event.body)?;
    let before = Range::new(Position::ZERO, event.position);
    let ranges = |raw: Option<&RawValue>| {
        let read = raw.map(|raw| body::ranges(raw.get())).unwrap_or_default();
        let cut = |range: Range| Range::new(range.from, range.to.min(before.to));
        let cut: Vec<Range> = read.into_iter().take(RANGES_MAX).map(cut).collect();
        union(&[], &cut)
    };
    let kept = ranges(body.kept);
    let is_told = body.dropped.is_some();
    let dropped = if is_told { ranges(body.dropped) } else { without(&[before], &kept) };
    let trigger = body.trigger.map(|text| one_line(&text, TRIGGER_CHARS_MAX));
    let summary = body.summary.map(|text| clip(text.trim(), SUMMARY_CHARS_MAX));
    Some(Compaction {
        trigger,
        dropped: without(&dropped, &kept),
        kept,
        is_told,
        summary: summary.filter(|text| !text.is_empty()),
        ..everything(event)
    })
}

/// All positions of both, as ranges in order that do not touch.
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

/// The positions of `all` that are not in `less`, which is in order.
fn without(all: &[Range], less: &[Range]) -> Vec<Range> {
    let mut made = Vec::new();
    for range in all {
        let mut from = range.from;
        for hole in less.iter().filter(|hole| hole.to > range.from && hole.from < range.to) {
            made.push(Range::new(from, hole.from));
            from = hole.to.max(from);
        }
        made.push(Range::new(from, range.to));
    }
    made.retain(|range| !range.is_empty());
    made
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::projection::tests::event;

    fn folded(events: &[(u64, &str, &str)]) -> Compactions {
        let mut made = Compactions::default();
        for (position, kind, body) in events {
            made.fold(&event(*position, kind, *body));
        }
        made
    }

    fn pairs(ranges: &[Range]) -> Vec<(u64, u64)> {
        ranges.iter().map(|range| (range.from.0, range.to.0)).collect()
    }

    #[test]
    fn what_was_dropped_is_out_until_it_is_kept_again() {
        let told =
            r#"{"trigger":"auto","kept":[[0,2]],"dropped":[{"from":2,"to":9}],"summary":"s"}"#;
        let later = r#"{"dropped":[[0,1],[9,20]],"kept":[[3,5]]}"#;
        let made = folded(&[
            (10, "context.compacted", told),
            (11, "user.message", told),
            (20, "context.compacted", later),
            (21, "context.compacted", "not JSON"),
        ]);
        assert_eq!((made.count(), pairs(made.out())), (2, vec![(0, 1), (2, 3), (5, 20)]));
        let first = made.latest().next().expect("the first");
        assert_eq!((first.trigger.as_deref(), first.is_told), (Some("auto"), true));
        assert_eq!(first.summary.as_deref(), Some("s"));
        // Events that have not happened yet cannot be dropped.
        let beyond = folded(&[(5, "context.compacted", r#"{"dropped":[[3,900]]}"#)]);
        assert_eq!(pairs(beyond.out()), [(3, 5)]);
    }

    #[test]
    fn one_that_does_not_say_dropped_everything_but_what_it_kept() {
        for (kind, body, expected) in [
            ("context.compacted", r#"{"kept":[[4,6]]}"#, &[(0, 4), (6, 10)][..]),
            ("context.compacted", "{}", &[(0, 10)]),
            ("agent.thread_context_compacted", "{}", &[(0, 10)]),
            ("context.compacted", r#"{"dropped":[]}"#, &[]),
        ] {
            let made = folded(&[(10, kind, body)]);
            assert_eq!(pairs(made.out()), expected, "{kind} {body}");
            let told = made.latest().next().expect("one").is_told;
            assert_eq!(told, body.contains("dropped"));
        }
    }

    proptest! {
        #[test]
        fn ranges_are_sets_of_positions(
            one in prop::collection::vec((0_u64..40, 0_u64..12), 0..6),
            other in prop::collection::vec((0_u64..40, 0_u64..12), 0..6),
        ) {
            let range = |(from, length): &(u64, u64)| {
                Range::new(Position(*from), Position(from + length))
            };
            let one: Vec<Range> = one.iter().map(range).collect();
            let other = union(&[], &other.iter().map(range).collect::<Vec<_>>());
            let has = |ranges: &[Range], n: u64| ranges.iter().any(|r| r.contains(Position(n)));
            let (both, left) = (union(&one, &other), without(&union(&[], &one), &other));
            for n in 0..60 {
                prop_assert_eq!(has(&both, n), has(&one, n) || has(&other, n));
                prop_assert_eq!(has(&left, n), has(&one, n) && !has(&other, n));
            }
            prop_assert!(both.windows(2).all(|pair| pair[0].to < pair[1].from));
        }
    }
}
