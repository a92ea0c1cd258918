//! All of a session at a glance: counts of its events in cells whose width doubles as the session
//! grows, and the places that stand out. Constant memory and constant time for each event. It must
//! not decide how wide a bucket is shown.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    EventTimes, ReportedRequest, SessionFold, body, extract_typed_text, parse_withdrawn,
    read_compaction,
};
use crate::{
    api::rows::{RowKind, StripBucket, StripMark, StripMarkKind},
    event::{Event, Position, Range, Timestamp, kinds, pace, push_bounded, text::one_line},
    traces::{CallOutcome, OpenCalls, ToolEvent, content_texts},
};

/// Most cells of a strip.
pub const CELLS_MAX: usize = 4_096;
/// Positions within which a result belongs to its call.
pub const PAIR_REACH: u64 = 500;
/// Most marks kept: of compactions and the like, and of gaps.
const MARKS_MAX: usize = 1_000;
/// Most characters of a mark's label.
const LABEL_CHARS_MAX: usize = 80;

/// Counts of the events of some positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cell {
    at: Option<Timestamp>,
    user: u32,
    agent: u32,
    calls: u32,
    failed: u32,
    other: u32,
    tokens: Option<u64>,
    output_tokens: Option<u64>,
}

impl Cell {
    /// Adds a later cell.
    fn add(&mut self, later: &Self) {
        self.at = self.at.or(later.at);
        self.user += later.user;
        self.agent += later.agent;
        self.calls += later.calls;
        self.failed += later.failed;
        self.other += later.other;
        self.tokens = self.tokens.max(later.tokens);
        let written = [self.output_tokens, later.output_tokens].into_iter().flatten();
        self.output_tokens = written.reduce(u64::saturating_add);
    }

    fn to_bucket(self, from: Position) -> StripBucket {
        let Self { at, user, agent, calls, failed, other, tokens, output_tokens } = self;
        StripBucket {
            from,
            at,
            user: user.into(),
            agent: agent.into(),
            calls: calls.into(),
            failed: failed.into(),
            other: other.into(),
            tokens,
            output_tokens,
        }
    }
}

/// Fold of all events of a session, gaps included.
#[derive(Clone, Debug)]
pub struct Strip {
    /// First position that is not folded yet.
    position: Position,
    /// Positions of a cell, a power of two.
    width: u64,
    cells: Vec<Cell>,
    marks: VecDeque<StripMark>,
    gaps: VecDeque<StripMark>,
    /// True if a mark was dropped because of the bound.
    has_dropped_marks: bool,
    calls: OpenCalls,
    times: EventTimes,
    window: Option<u64>,
}

impl SessionFold for Strip {
    const READS_AT_ONCE: usize = 1;

    fn new(workspace: Option<&str>) -> Self {
        Self {
            position: Position::ZERO,
            width: 1,
            cells: Vec::new(),
            marks: VecDeque::new(),
            gaps: VecDeque::new(),
            has_dropped_marks: false,
            calls: OpenCalls::within_reach(workspace, None, PAIR_REACH),
            times: EventTimes::default(),
            window: None,
        }
    }

    fn position(&self) -> Position {
        self.position
    }

    fn fold(&mut self, event: &Event) {
        let event = &*event.with_paired_surrogates();
        pace::steps(2 + event.body.len() / 256);
        self.position = event.position.plus(1);
        self.add_mark(event);
        let failed = match self.calls.fold(event) {
            Some(ToolEvent::Result(call, answer)) => CallOutcome::judge(&call, &answer).failed,
            _ => event.kind.as_str() == kinds::SESSION_ERROR,
        };
        let report = ReportedRequest::from_event(event);
        self.window = report.as_ref().and_then(ReportedRequest::own_window).or(self.window);
        let kind = row_kind(event);
        let count = |counts: bool| u32::from(counts);
        let is_agent = matches!(kind, RowKind::Agent | RowKind::Thinking);
        let (is_user, is_call) = (kind == RowKind::User, kind == RowKind::Call);
        let own = Cell {
            at: Some(self.times.fold(event)),
            user: count(is_user),
            agent: count(is_agent),
            calls: count(is_call),
            failed: count(failed),
            other: count(!is_user && !is_agent && !is_call),
            tokens: report
                .as_ref()
                .filter(|report| report.row.thread.is_none())
                .map(|report| report.tokens),
            output_tokens: report.map(|report| report.row.totals.output_tokens),
        };
        if let Some(cell) = self.cell_mut(event.position) {
            cell.add(&own);
        }
    }

    fn fold_gap(&mut self, range: Range, reason: &str) {
        let label = match range.len() {
            1 => format!("1 event cannot be read: {reason}"),
            count => format!("{count} events cannot be read: {reason}"),
        };
        let label = one_line(&label, LABEL_CHARS_MAX);
        let mark = StripMark { position: range.from, kind: StripMarkKind::Gap, label };
        self.has_dropped_marks |= push_bounded(&mut self.gaps, mark, MARKS_MAX);
    }

    fn advance(&mut self, to: Position) {
        self.position = self.position.max(to);
    }
}

impl Strip {
    /// Returns the positions of a cell.
    #[must_use]
    pub fn width(&self) -> u64 {
        self.width
    }

    /// Returns the size of the model's context that the harness reported last.
    #[must_use]
    pub fn window(&self) -> Option<u64> {
        self.window
    }

    /// Returns the marks by position, gaps included, and false if some are not kept.
    #[must_use]
    pub fn marks(&self) -> (Vec<StripMark>, bool) {
        let mut marks: Vec<StripMark> = self.marks.iter().chain(&self.gaps).cloned().collect();
        marks.sort_by_key(|mark| mark.position);
        (marks, !self.has_dropped_marks)
    }

    fn cell_mut(&mut self, position: Position) -> Option<&mut Cell> {
        while position.0 / self.width >= CELLS_MAX as u64 {
            self.width *= 2;
            let halved = self.cells.chunks(2).map(|pair| {
                let mut cell = pair.first().copied().unwrap_or_default();
                pair.iter().skip(1).for_each(|later| cell.add(later));
                cell
            });
            self.cells = halved.collect();
        }
        let index = usize::try_from(position.0 / self.width).ok()?;
        if index >= self.cells.len() {
            self.cells.resize(index + 1, Cell::default());
        }
        self.cells.get_mut(index)
    }

    fn add_mark(&mut self, event: &Event) {
        #[derive(Deserialize)]
        struct MarkedBody {
            what: Option<String>,
        }
        let (kind, label) = match event.kind.as_str() {
            kinds::CONTEXT_COMPACTED | kinds::AGENT_THREAD_CONTEXT_COMPACTED => {
                let Some(made) = read_compaction(event) else { return };
                let trigger = made.trigger.map(|by| format!(" ({by})")).unwrap_or_default();
                let lost: u64 = made.dropped.iter().map(|range| range.len()).sum();
                (StripMarkKind::Compaction, format!("compaction{trigger}: {lost} events dropped"))
            }
            kinds::CONTEXT_CLEARED => (StripMarkKind::Clear, "context cleared".to_owned()),
            kinds::CONTEXT_REWOUND => {
                let withdrawn = parse_withdrawn(event).unwrap_or_default();
                let taken: u64 = withdrawn.ranges().iter().map(|range| range.len()).sum();
                (StripMarkKind::Clear, format!("went back: {taken} events withdrawn"))
            }
            kinds::CONTEXT_INJECTED => {
                let what = body::read::<MarkedBody>(&event.body).and_then(|body| body.what);
                (StripMarkKind::Injected, what.unwrap_or_else(|| "text".to_owned()))
            }
            _ => return,
        };
        let label = one_line(&label, LABEL_CHARS_MAX);
        let mark = StripMark { position: event.position, kind, label };
        self.has_dropped_marks |= push_bounded(&mut self.marks, mark, MARKS_MAX);
    }

    /// Returns the buckets of a range, at most `most`: their range, which begins and ends where
    /// cells do, their width, and the buckets.
    #[must_use]
    pub fn buckets(&self, range: Range, most: usize) -> (Range, u64, Vec<StripBucket>) {
        let from = range.from.0 / self.width;
        let to = range.to.0.div_ceil(self.width).max(from);
        let cells_each = (to - from).div_ceil(most.max(1) as u64).max(1);
        let width = cells_each * self.width;
        let each = usize::try_from(cells_each).unwrap_or(usize::MAX);
        let shown = self.cells.get(usize::try_from(from).unwrap_or(usize::MAX)..);
        let shown = shown.unwrap_or_default();
        let mut buckets = Vec::new();
        for start in (from..to).step_by(each) {
            let skipped = usize::try_from(start - from).unwrap_or(usize::MAX);
            let left = usize::try_from(to - start).unwrap_or(usize::MAX).min(each);
            let mut sum = Cell::default();
            shown.iter().skip(skipped).take(left).for_each(|cell| sum.add(cell));
            buckets.push(sum.to_bucket(Position(start * self.width)));
        }
        (Range::new(Position(from * self.width), Position(to * self.width)), width, buckets)
    }

    /// Returns the approximate memory use in bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        let marks = self.marks.iter().chain(&self.gaps).map(|mark| 40 + mark.label.len());
        size_of::<Self>()
            + self.cells.len() * size_of::<Cell>()
            + marks.sum::<usize>()
            + self.calls.weight()
    }
}

/// Returns the kind of an event's row.
#[must_use]
pub fn row_kind(event: &Event) -> RowKind {
    match event.kind.as_str() {
        kinds::USER_MESSAGE if is_by_program(event) => RowKind::Injected,
        kinds::USER_MESSAGE => RowKind::User,
        kinds::AGENT_MESSAGE
        | kinds::AGENT_THREAD_MESSAGE_SENT
        | kinds::AGENT_THREAD_MESSAGE_RECEIVED => RowKind::Agent,
        kinds::AGENT_THINKING => RowKind::Thinking,
        kinds::SYSTEM_MESSAGE | kinds::CONTEXT_INJECTED => RowKind::Injected,
        kind if kinds::is_call(kind) => RowKind::Call,
        kind if kinds::is_result(kind) => RowKind::Result,
        kinds::CONTEXT_COMPACTED
        | kinds::AGENT_THREAD_CONTEXT_COMPACTED
        | kinds::CONTEXT_CLEARED
        | kinds::CONTEXT_REWOUND => RowKind::Compaction,
        kinds::SESSION_SAVED | kinds::SESSION_RESTORED => RowKind::Checkpoint,
        kinds::MEMORY_ITEM | kinds::MEMORY_FORGOTTEN | kinds::MEMORY_PAGED_IN => RowKind::Memory,
        kinds::TRANSCRIPT_ENTRY
        | kinds::CONTEXT_THRESHOLD
        | kinds::FILE_CHECKED
        | kinds::USER_INTERRUPT => RowKind::Status,
        kind => match kind.split('.').next() {
            Some("session" | "span" | "audit") => RowKind::Status,
            _ => RowKind::Change,
        },
    }
}

/// Returns true if a program wrote the whole text of a user message.
fn is_by_program(event: &Event) -> bool {
    #[derive(Deserialize)]
    struct ContentBody<'a> {
        #[serde(borrow)]
        content: Option<&'a RawValue>,
    }
    let content = body::read::<ContentBody<'_>>(&event.body).and_then(|body| body.content);
    content.is_some_and(|content| {
        let has_text = content_texts(content).iter().any(|text| !text.trim().is_empty());
        has_text && extract_typed_text(content).is_empty()
    })
}
