//! Rows of a session for a person, a page at a time: events read in slices, calls paired with their
//! results around the page. It must not decide how an event reads: `harness` does.

use std::collections::HashSet;

use super::{
    Caller, Service, ServiceError, ServiceResult,
    compute::ComputeSlot,
    error::{check_chars, check_count},
    folds::SLICE_EVENTS,
    memory_budget::HELD_FOR_A_BYTE,
};
use crate::{
    api::{
        events::Gap,
        rows::{Row, RowKind, RowsAnswer},
    },
    event::{Event, EventType, Point, Position, Range, SessionId, SessionKey, kinds},
    harness::{CallPairs, build_row, is_bookkeeping, readable_text, thread_of},
    projection::{DroppedRanges, Outline, PAIR_REACH, row_kind},
    store::SessionInfo,
    traces::thread_name,
};

/// Default and maximum number of rows of a response.
const ROWS_DEFAULT: usize = 200;
const ROWS_MAX: usize = 500;
/// Maximum number of events that one filtered request examines.
const EXAMINED_MAX: usize = 20_000;
/// Maximum body bytes of the rows of a page.
const PAGE_BYTES: usize = 8 << 20;
/// Maximum bytes of the body of a message whose row has its content.
const CONTENT_BYTES: usize = 64_000;
/// Maximum bytes of the bodies of all such messages of a response.
pub const CONTENT_PAGE_BYTES: usize = 400_000;
/// Positions before a page whose calls and results are read where a result names no call: it
/// answers the oldest of its tool, so that the pairs depend on those before.
const UNNAMED_REACH: u64 = 8 * PAIR_REACH;
/// Number of events read at once behind a page, for the results of its calls.
const AHEAD_EVENTS: usize = 100;
/// Filter of the events that failed: calls at their results, and errors.
const FAILED: &str = "failed";

/// Parameters of a page of rows.
#[derive(Clone, Debug, Default)]
pub struct RowsCall {
    /// First position; the session's first when absent.
    pub from: Option<Point>,
    /// First position after the range; the tail when absent.
    pub to: Option<Point>,
    /// Maximum number of rows; 200 by default, 500 at most.
    pub limit: Option<usize>,
    /// Types of the events; empty for all.
    pub types: Vec<EventType>,
    /// Kinds of the rows, and `failed`; empty for all.
    pub kinds: Vec<String>,
    /// Thread of a subagent.
    pub thread: Option<String>,
    /// Text that the events contain, whatever its case.
    pub text: Option<String>,
    /// True if the rows of messages have their content.
    pub with_content: bool,
}

/// Selection among the events of a range.
#[derive(Clone, Debug, Default)]
pub(super) struct WantedRows {
    types: Vec<EventType>,
    kinds: Vec<RowKind>,
    only_failed: bool,
    thread: Option<String>,
    /// In lower case.
    text: Option<String>,
    /// Ranges of positions, ascending, each with the number of rows that are left to select of it;
    /// bookkeeping is left out of them.
    within: Option<Vec<(Range, usize)>>,
    /// True if the rows of messages have their content, which selects nothing.
    with_content: bool,
}

impl WantedRows {
    fn new(call: RowsCall) -> ServiceResult<Self> {
        check_count("types", call.types.len())?;
        check_count("kinds", call.kinds.len())?;
        check_chars("thread", call.thread.as_deref())?;
        check_chars("q", call.text.as_deref())?;
        let names = call.kinds.iter().filter(|name| *name != FAILED);
        let known = |name: &String| {
            let problem = || format!("{name} is no kind of row");
            RowKind::parse(name).ok_or_else(|| ServiceError::invalid("kinds", problem()))
        };
        Ok(Self {
            kinds: names.map(known).collect::<ServiceResult<_>>()?,
            only_failed: call.kinds.iter().any(|name| name == FAILED),
            types: call.types,
            thread: call.thread.as_deref().map(thread_name),
            text: call.text.map(|text| text.to_lowercase()).filter(|text| !text.is_empty()),
            within: None,
            with_content: call.with_content,
        })
    }

    /// Selects the first events of each of some ranges, without bookkeeping.
    pub(super) fn within(ranges: Vec<(Range, usize)>) -> Self {
        Self { within: Some(ranges), ..Self::default() }
    }

    fn is_everything(&self) -> bool {
        let Self { types, kinds, only_failed, thread, text, within, with_content: _ } = self;
        types.is_empty()
            && kinds.is_empty()
            && !only_failed
            && thread.is_none()
            && text.is_none()
            && within.is_none()
    }

    fn selects(&mut self, event: &Event, pairs: &CallPairs) -> bool {
        let kind = || row_kind(event);
        let is_failed =
            || event.kind.as_str() == kinds::SESSION_ERROR || pairs.is_failed_result(event);
        let takes = |ranges: &mut Vec<(Range, usize)>| {
            let index = ranges.partition_point(|(range, _)| range.to <= event.position);
            let (range, left) = ranges.get_mut(index)?;
            let is_taken =
                *left > 0 && range.contains(event.position) && !is_bookkeeping(event, kind());
            is_taken.then(|| *left -= 1)
        };
        let has_type = self.types.is_empty()
            || self.types.iter().any(|domain| event.kind.is_in_domain(domain));
        let has_kind = self.kinds.is_empty() && !self.only_failed
            || self.kinds.contains(&kind())
            || self.only_failed && is_failed();
        has_type
            && has_kind
            && self.thread.as_ref().is_none_or(|thread| thread_of(event).as_ref() == Some(thread))
            && self
                .text
                .as_ref()
                .is_none_or(|text| readable_text(event).to_lowercase().contains(text.as_str()))
            && self.within.as_mut().is_none_or(|ranges| takes(ranges).is_some())
    }
}

/// Events of a page while it is read.
struct PageFold {
    pairs: CallPairs,
    selection: WantedRows,
    selected: Vec<Event>,
    positions: HashSet<Position>,
    bytes: usize,
    examined: usize,
    limit: usize,
    /// Position at which the page ends before its range does.
    stop: Option<Position>,
}

impl PageFold {
    /// Folds the next events of the range, until the page is full.
    fn fold(&mut self, events: Vec<Event>) {
        for event in events {
            let is_full = self.selected.len() >= self.limit
                || self.bytes >= PAGE_BYTES
                || self.examined >= EXAMINED_MAX;
            if is_full {
                self.stop = Some(event.position);
                return;
            }
            self.examined += 1;
            self.pairs.fold(&event);
            if self.selection.selects(&event, &self.pairs) {
                self.bytes += event.body.len();
                self.positions.insert(event.position);
                self.selected.push(event);
            }
        }
    }

    fn rows(&self, dropped: &DroppedRanges) -> Vec<Row> {
        let mut spare = if self.selection.with_content { CONTENT_PAGE_BYTES } else { 0 };
        let build = |event| {
            let row = build_row(event, &self.pairs, dropped, spare.min(CONTENT_BYTES));
            spare -= row.content.as_ref().map_or(0, |_| event.body.len());
            row
        };
        self.selected.iter().map(build).collect()
    }
}

/// Rows of a range, and where their scan ended.
#[derive(Default)]
pub(super) struct ScannedRows {
    pub(super) rows: Vec<Row>,
    pub(super) next: Position,
    gaps: Vec<Gap>,
    has_unnamed_results: bool,
}

impl Service {
    /// Returns rows of a session.
    ///
    /// # Errors
    /// `invalid_request` for a limit or a filter out of bounds, `point_not_found`, and those of the
    /// session. Events that cannot be read are listed as gaps.
    pub async fn rows(
        &self,
        caller: &Caller,
        session: &SessionId,
        call: RowsCall,
    ) -> ServiceResult<RowsAnswer> {
        let limit = call.limit.unwrap_or(ROWS_DEFAULT);
        if limit == 0 || limit > ROWS_MAX {
            let problem = format!("from 1 to {ROWS_MAX}, not {limit}");
            return Err(ServiceError::invalid("limit", problem));
        }
        let key = caller.key(session);
        let tail = self.store.use_session(&key).await?.tail;
        let range = self.resolve_range(&key, (call.from.as_ref(), call.to.as_ref()), tail).await?;
        let scanned = self.scan_rows(&key, range, WantedRows::new(call)?, limit).await?;
        Ok(RowsAnswer {
            complete: scanned.next >= range.to,
            next_position: scanned.next,
            rows: scanned.rows,
            gaps: scanned.gaps,
            tail,
        })
    }

    /// Returns the rows of the selected events of a range, at most `limit`.
    pub(super) async fn scan_rows(
        &self,
        key: &SessionKey,
        range: Range,
        selection: WantedRows,
        limit: usize,
    ) -> ServiceResult<ScannedRows> {
        let near = self.scan_rows_from(key, range, selection.clone(), (limit, PAIR_REACH)).await?;
        if near.has_unnamed_results && range.from.0 > PAIR_REACH {
            return self.scan_rows_from(key, range, selection, (limit, UNNAMED_REACH)).await;
        }
        Ok(near)
    }

    /// Returns the rows of a range, with the calls of up to `reach` positions before it.
    async fn scan_rows_from(
        &self,
        key: &SessionKey,
        range: Range,
        selection: WantedRows,
        (limit, reach): (usize, u64),
    ) -> ServiceResult<ScannedRows> {
        if range.is_empty() {
            return Ok(ScannedRows { next: range.from, ..ScannedRows::default() });
        }
        let look = |info: &SessionInfo, outline: &Outline| {
            let pairs = CallPairs::new(info.workspace.as_deref(), outline.directory());
            (pairs, outline.dropped().clone(), info.tail)
        };
        let outlined = self.with_fold(key, |cached| &mut cached.outline, look).await?;
        let (pairs, dropped, tail) = outlined;
        let tenant = &key.scope.tenant;
        let _memory = self.reserve_memory(tenant, HELD_FOR_A_BYTE * PAGE_BYTES).await?;
        let slice_events = if selection.is_everything() { limit } else { SLICE_EVENTS };
        let fold = PageFold {
            pairs,
            selection,
            selected: Vec::new(),
            positions: HashSet::new(),
            bytes: 0,
            examined: 0,
            limit,
            stop: None,
        };
        let slot = self.compute.acquire(tenant).await?;
        // The calls of the page's first results are before it.
        let before = Range::new(range.from.minus(reach), range.from);
        let page = (slot, fold);
        let (mut slot, mut fold) =
            self.fold_beside(key, before, SLICE_EVENTS, page, |_| true).await?;
        let (mut next, mut gaps) = (range.from, Vec::new());
        while next < range.to && fold.stop.is_none() && fold.selected.len() < limit {
            let slice = self.read_slice(key, Range::new(next, range.to), slice_events).await?;
            if slice.covered.is_empty() {
                break;
            }
            next = slice.covered.to;
            let (gaps_here, events) = (slice.gaps, slice.events);
            let add = move || {
                fold.fold(events);
                fold
            };
            (slot, fold) = slot.run(add).await?;
            next = fold.stop.unwrap_or(next);
            gaps.extend(gaps_here.iter().filter(|gap| gap.range.from < next).map(Gap::from));
            slot = slot.yield_if_due().await?;
        }
        // A page that is full at the last event of a slice ends behind it.
        let last = fold.selected.last().map_or(Position::ZERO, |event| event.position);
        let behind = Range::new(next, tail.min(last.plus(PAIR_REACH)).max(next));
        let awaits_result = |fold: &PageFold| fold.pairs.awaits_result(&fold.positions);
        (slot, fold) =
            self.fold_beside(key, behind, AHEAD_EVENTS, (slot, fold), awaits_result).await?;
        let has_unnamed_results = fold.pairs.has_unnamed_results();
        let (_, rows) = slot.run(move || fold.rows(&dropped)).await?;
        Ok(ScannedRows { rows, next, gaps, has_unnamed_results })
    }

    /// Folds the events of a range beside a page, for its pairs of calls and results, while the
    /// page wants more of them.
    async fn fold_beside(
        &self,
        key: &SessionKey,
        mut range: Range,
        slice_events: usize,
        (mut slot, mut fold): (ComputeSlot, PageFold),
        wants_more: impl Fn(&PageFold) -> bool,
    ) -> ServiceResult<(ComputeSlot, PageFold)> {
        while range.from < range.to && wants_more(&fold) {
            let slice = self.read_slice(key, range, slice_events).await?;
            if slice.covered.is_empty() {
                break;
            }
            range.from = slice.covered.to;
            let add = move || {
                slice.events.iter().for_each(|event| fold.pairs.fold(event));
                fold
            };
            (slot, fold) = slot.run(add).await?;
        }
        Ok((slot, fold))
    }
}
