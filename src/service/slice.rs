//! getEvents and following: slices by position, filtered, paged, and with a wait. Limits bound the
//! memory of a response; a filtered read continues until the page is full or the range ends. It
//! must not read a body.

use std::{collections::BTreeSet, time::Duration};

use super::{Caller, Service, ServiceError, ServiceResult, error::check_count, page};
use crate::{
    event::{Event, EventType, Point, Position, Range, SessionId, SessionKey, Timestamp, limits},
    store::{FillDirection, ReadRequest, SessionGap, Watch},
};

/// Number of events read in one step of a filtered read.
const SCAN_EVENTS: usize = 1_000;
/// Maximum body bytes read in one step of a filtered read.
const SCAN_BYTES: usize = 4 << 20;
/// Maximum body bytes a follower reads in one step, which bounds the memory of a slow reader.
const FOLLOW_BYTES: usize = 256 << 10;
/// Number of last events whose types are reported if a type filter matched none.
const TYPES_OF_EVENTS: usize = 200;
/// Pause before a watch that the store closed is opened again.
const REWATCH: Duration = Duration::from_millis(20);

/// Events around a point: `before` events, the event there, `after` events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AroundPoint {
    /// Point in the middle.
    pub point: Point,
    /// Number of events before it.
    pub before: u64,
    /// Number of events after it.
    pub after: u64,
}

/// Half-open time window by the store's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeWindow {
    /// Earliest processing time, inclusive.
    pub from: Option<Timestamp>,
    /// Latest processing time, exclusive.
    pub to: Option<Timestamp>,
}

impl TimeWindow {
    fn contains(self, time: Timestamp) -> bool {
        self.from.is_none_or(|from| time >= from) && self.to.is_none_or(|to| time < to)
    }
}

/// Parameters of a read of events.
#[derive(Clone, Debug, Default)]
pub struct EventQuery {
    /// First position; the session's first when absent.
    pub from: Option<Point>,
    /// First position after the range; the live tail when absent.
    pub to: Option<Point>,
    /// Point whose surroundings are read, instead of `from` and `to`.
    pub around: Option<AroundPoint>,
    /// Page size in events; 1 000 by default, 10 000 at most.
    pub limit: Option<usize>,
    /// True for the newest first.
    pub descending: bool,
    /// Types of the events; empty for all.
    pub types: Vec<EventType>,
    /// Time window of the events.
    pub window: TimeWindow,
    /// `next_page` of the previous response; replaces the range.
    pub page: Option<String>,
    /// True to return the intact events of a damaged range and report the gaps.
    pub allow_gaps: bool,
    /// Time that an empty response may wait for the first event; 60 s at most.
    pub wait: Duration,
}

/// Response to getEvents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSlice {
    /// Events in the requested order.
    pub events: Vec<Event>,
    /// Cursor of the next page, if there is more.
    pub next_page: Option<String>,
    /// The next `from`, or, newest first, the next `to`.
    pub next_position: Position,
    /// Position that the session's next event will get.
    pub tail: Position,
    /// Gaps among the positions of the page.
    pub gaps: Vec<SessionGap>,
    /// Types of the session's last 200 events, sorted, if a type filter matched no event of the
    /// range; empty otherwise.
    pub types_seen: Vec<EventType>,
}

/// A query with its points resolved.
struct ReadPlan {
    from: Position,
    /// End of the range; `None` follows the tail.
    to: Option<Position>,
    /// Time window, checked in addition to the positions: a later event may be outside it.
    window: TimeWindow,
    limit: usize,
    bytes_max: usize,
    descending: bool,
}

fn body_bytes(events: &[Event]) -> usize {
    events.iter().map(|event| event.body.len()).sum()
}

fn matches_query(types: &[EventType], window: TimeWindow, event: &Event) -> bool {
    window.contains(event.processed_at)
        && (types.is_empty() || types.iter().any(|of| event.kind.is_in_domain(of)))
}

impl Service {
    /// Returns a slice of a session.
    ///
    /// # Errors
    /// `invalid_request`, `point_not_found`, `session_damaged`, and those of the session.
    pub async fn get_events(
        &self,
        caller: &Caller,
        session: &SessionId,
        query: &EventQuery,
    ) -> ServiceResult<EventSlice> {
        if query.wait > Duration::from_millis(limits::WAIT_MS_MAX) {
            let problem = format!("at most {}", limits::WAIT_MS_MAX);
            return Err(ServiceError::invalid("wait_ms", problem));
        }
        check_count("types", query.types.len())?;
        let key = caller.key(session);
        if query.wait.is_zero() {
            let plan = self.plan_read(&key, query).await?;
            let mut slice = self.read_page(&key, &plan, query).await?;
            if !query.types.is_empty() && slice.events.is_empty() && slice.next_page.is_none() {
                slice.types_seen = self.list_recent_types(&key, slice.tail).await;
            }
            return Ok(slice);
        }
        // The watch starts before the read, so that no event is missed.
        let mut watch = self.store.watch(&key).await?;
        let mut plan = self.plan_read(&key, query).await?;
        let mut answer = self.read_page(&key, &plan, query).await?;
        let live = plan.to.is_none_or(|to| to > answer.tail) && !plan.descending;
        if !answer.events.is_empty() || !live {
            return Ok(answer);
        }
        // Many waiting requests may read new events at once, so each read is smaller.
        plan.bytes_max = FOLLOW_BYTES;
        let waiting = async {
            while answer.events.is_empty() {
                let seen = answer.tail.max(plan.from);
                self.wait_for_events(&key, &mut watch, seen).await?;
                plan.from = answer.next_position;
                self.close_range(&key, &mut plan).await?;
                answer = self.read_page(&key, &plan, query).await?;
                if plan.to.is_some_and(|to| answer.next_position >= to) {
                    break;
                }
            }
            Ok(())
        };
        match tokio::time::timeout(query.wait, waiting).await {
            Ok(Err(error)) => Err(error),
            Ok(Ok(())) | Err(_) => Ok(answer),
        }
    }

    /// Returns the types of the last events of a session; empty if they are damaged.
    async fn list_recent_types(&self, key: &SessionKey, tail: Position) -> Vec<EventType> {
        let read = ReadRequest {
            range: Range::new(tail.minus(TYPES_OF_EVENTS as u64), tail),
            events_max: TYPES_OF_EVENTS,
            bytes_max: SCAN_BYTES,
            fill: FillDirection::Backward,
            allow_gaps: true,
        };
        let events = self.store.read(key, read).await.map(|slice| slice.events);
        let types = events.unwrap_or_default().into_iter().map(|event| event.kind);
        types.collect::<BTreeSet<_>>().into_iter().collect()
    }

    async fn plan_read(&self, key: &SessionKey, query: &EventQuery) -> ServiceResult<ReadPlan> {
        let limit = query.limit.unwrap_or(limits::PAGE_EVENTS_DEFAULT);
        if limit == 0 || limit > limits::PAGE_EVENTS_MAX {
            let problem = format!("from 1 to {}, not {limit}", limits::PAGE_EVENTS_MAX);
            return Err(ServiceError::invalid("limit", problem));
        }
        if let Some(page) = &query.page {
            return parse_page(page, limit);
        }
        let tail = self.store.use_session(key).await?.tail;
        let (now, mut window) = (self.now(), query.window);
        let (mut from, to) = match &query.around {
            Some(_) if query.from.is_some() || query.to.is_some() => {
                return Err(ServiceError::invalid("around", "it takes the place of from and to"));
            }
            Some(AroundPoint { point, before, after }) => {
                let middle = self.resolve_position(key, point, tail).await?;
                (middle.minus(*before), Some(middle.plus(1).plus(*after)))
            }
            None => {
                let from = match &query.from {
                    // Until that time has passed, an event at or after it may still come.
                    Some(Point::Time(time)) if *time > now => {
                        window.from = window.from.max(Some(*time));
                        Position::ZERO
                    }
                    Some(point) => self.resolve_position(key, point, tail).await?,
                    None => Position::ZERO,
                };
                let to = match &query.to {
                    Some(Point::End) if !query.wait.is_zero() => None,
                    Some(Point::Time(time)) if *time > now => {
                        window.to = window.to.into_iter().chain([*time]).min();
                        None
                    }
                    Some(point) => Some(self.resolve_position(key, point, tail).await?),
                    None => None,
                };
                (from, to)
            }
        };
        if let Some(time) = window.from {
            from = from.max(self.store.find_time(key, time).await?);
        }
        let mut plan = ReadPlan {
            from,
            to,
            window,
            limit,
            bytes_max: limits::PAGE_BYTES_MAX,
            descending: query.descending,
        };
        self.close_range(key, &mut plan).await?;
        Ok(plan)
    }

    /// Sets the end of the range to the end of the time window, once that time has passed: until
    /// then a new event may still be inside.
    async fn close_range(&self, key: &SessionKey, plan: &mut ReadPlan) -> ServiceResult<()> {
        if let Some(time) = plan.window.to.filter(|time| *time <= self.now()) {
            let end = self.store.find_time(key, time).await?;
            plan.to = Some(plan.to.map_or(end, |to| to.min(end)));
        }
        Ok(())
    }

    async fn read_page(
        &self,
        key: &SessionKey,
        plan: &ReadPlan,
        query: &EventQuery,
    ) -> ServiceResult<EventSlice> {
        let end = plan.to.unwrap_or(Position(u64::MAX)).max(plan.from);
        let mut left = Range::new(plan.from, end);
        let mut page = EventSlice {
            events: Vec::new(),
            next_page: None,
            next_position: if plan.descending { end } else { plan.from },
            tail: Position::ZERO,
            gaps: Vec::new(),
            types_seen: Vec::new(),
        };
        let (mut full, mut slot) = (false, None);
        let filtered = !query.types.is_empty();
        loop {
            let bytes_left = plan.bytes_max.saturating_sub(body_bytes(&page.events));
            let read = ReadRequest {
                range: left,
                events_max: if filtered { SCAN_EVENTS } else { plan.limit - page.events.len() },
                bytes_max: if filtered { SCAN_BYTES } else { bytes_left },
                fill: if plan.descending {
                    FillDirection::Backward
                } else {
                    FillDirection::Forward
                },
                allow_gaps: query.allow_gaps,
            };
            let slice = self.store.read(key, read).await?;
            page.tail = slice.tail;
            if plan.descending {
                page.next_position = page.next_position.min(slice.tail).max(plan.from);
            }
            if slice.covered.is_empty() {
                break;
            }
            let done = if plan.descending { slice.covered.from } else { slice.covered.to };
            page.gaps.extend(slice.gaps);
            match fill_page(&mut page.events, slice.events, plan, &query.types) {
                Some(stop) => (page.next_position, full) = (stop, true),
                None => page.next_position = done,
            }
            full |= page.events.len() >= plan.limit;
            left = if plan.descending {
                Range::new(left.from, page.next_position)
            } else {
                Range::new(page.next_position, left.to)
            };
            if full || left.is_empty() {
                break;
            }
            // A filter may skip the whole session: after the first read it needs a compute slot.
            if filtered {
                slot = Some(self.compute.yield_or_acquire(&key.scope.tenant, slot).await?);
            }
            tokio::task::yield_now().await;
        }
        set_next_page(&mut page, plan, end);
        Ok(page)
    }

    /// Waits until the session's tail is past `seen`, or the session ends.
    async fn wait_for_events(
        &self,
        key: &SessionKey,
        watch: &mut Watch,
        seen: Position,
    ) -> ServiceResult<()> {
        loop {
            if *watch.borrow_and_update() > seen {
                return Ok(());
            }
            if watch.changed().await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(REWATCH).await;
            *watch = self.store.watch(key).await?;
        }
    }

    /// Returns a follower of the session: from `from`, or from the current tail, up to `until` or
    /// without end.
    ///
    /// # Errors
    /// `point_not_found`, and those of the session.
    pub async fn follow(
        &self,
        caller: &Caller,
        session: &SessionId,
        from: Option<&Point>,
        until: Option<Position>,
    ) -> ServiceResult<Follower> {
        let key = caller.key(session);
        let watch = self.store.watch(&key).await?;
        let tail = self.store.use_session(&key).await?.tail;
        let next = match from {
            Some(point) => self.resolve_position(&key, point, tail).await?,
            None => tail,
        };
        // Until that time has passed, a future event may still be older.
        let since = match from {
            Some(Point::Time(time)) if *time > self.now() => Some(*time),
            _ => None,
        };
        let window = TimeWindow { from: since, to: None };
        let (service, types, current) = (self.clone(), Vec::new(), false);
        Ok(Follower { service, key, watch, next, tail, until, types, window, current })
    }
}

/// Adds events up to the limit of the page; returns the position where a full page ends.
fn fill_page(
    page: &mut Vec<Event>,
    events: Vec<Event>,
    plan: &ReadPlan,
    types: &[EventType],
) -> Option<Position> {
    let mut bytes = body_bytes(page);
    let mut take = |event: Event| {
        if !matches_query(types, plan.window, &event) {
            return None;
        }
        bytes += event.body.len();
        let fits = page.is_empty() || bytes <= plan.bytes_max;
        if page.len() < plan.limit && fits {
            page.push(event);
            return None;
        }
        Some(if plan.descending { event.position.plus(1) } else { event.position })
    };
    if plan.descending {
        events.into_iter().rev().find_map(&mut take)
    } else {
        events.into_iter().find_map(&mut take)
    }
}

/// Sets the cursor of the next page; merges the gaps of the page.
fn set_next_page(page: &mut EventSlice, plan: &ReadPlan, end: Position) {
    let next = page.next_position;
    page.gaps.sort_by_key(|gap| gap.range.from);
    page.gaps.dedup_by(|later, gap| {
        let same = later.range.from <= gap.range.to && later.reason == gap.reason;
        if same {
            gap.range.to = gap.range.to.max(later.range.to);
        }
        same
    });
    // The start of the window has passed; its end may be in the future.
    let until = plan.window.to.map(|time| time.0.to_string()).unwrap_or_default();
    if plan.descending {
        page.gaps.retain(|gap| gap.range.to > next);
        if next > plan.from && !page.events.is_empty() {
            let (from, to) = (plan.from.to_string(), next.to_string());
            page.next_page = Some(page::encode("e", &["desc", &from, &to, &until]));
        }
    } else {
        page.gaps.retain(|gap| gap.range.from < next);
        if next < end.min(page.tail) && !page.events.is_empty() {
            let to = plan.to.map(|to| to.to_string()).unwrap_or_default();
            page.next_page = Some(page::encode("e", &["asc", &next.to_string(), &to, &until]));
        }
    }
}

fn parse_page(page: &str, limit: usize) -> ServiceResult<ReadPlan> {
    let [order, from, to, until] = page::decode::<4>("e", page)?;
    let foreign = || ServiceError::invalid("page", "this is no page of this listing");
    let number = |text: &str| text.parse().map(Position).map_err(|_| foreign());
    let to = if to.is_empty() { None } else { Some(number(&to)?) };
    let until = if until.is_empty() { None } else { Some(until.parse().map_err(|_| foreign())?) };
    let window = TimeWindow { from: None, to: until.map(Timestamp) };
    let (from, descending) = (number(&from)?, order == "desc");
    Ok(ReadPlan { from, to, window, limit, bytes_max: limits::PAGE_BYTES_MAX, descending })
}

/// Result of a follower's step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowStep {
    /// Events in ascending order, and the gaps among them.
    Slice {
        /// Events; at least one if there is no gap.
        events: Vec<Event>,
        /// Losses that a user accepted.
        gaps: Vec<SessionGap>,
    },
    /// No event within the time limit; the tail.
    Quiet(Position),
    /// End of a follower: `until` is reached.
    End,
}

/// A reader that follows a session as it grows.
pub struct Follower {
    service: Service,
    key: SessionKey,
    watch: Watch,
    next: Position,
    tail: Position,
    until: Option<Position>,
    types: Vec<EventType>,
    window: TimeWindow,
    /// True if everything before `next` was just read.
    current: bool,
}

impl Follower {
    /// Restricts the events to these types; empty for all.
    ///
    /// # Errors
    /// `invalid_request` for too many.
    pub fn with_types(mut self, types: Vec<EventType>) -> ServiceResult<Self> {
        check_count("types", types.len())?;
        self.types = types;
        Ok(self)
    }

    /// Returns the next position to read.
    #[must_use]
    pub fn next_position(&self) -> Position {
        self.next
    }

    /// Moves back to `position`: the next step reads from there again.
    pub fn rewind(&mut self, position: Position) {
        self.next = self.next.min(position);
        self.current = false;
    }

    /// Returns the wall-clock time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.service.now()
    }

    /// Returns the tail at the last read.
    #[must_use]
    pub fn tail(&self) -> Position {
        self.tail
    }

    /// Returns the next events; [`FollowStep::Quiet`] after `patience` without any.
    ///
    /// # Errors
    /// `session_damaged`, `session_deleted`, and those of the engine.
    pub async fn step(&mut self, patience: Duration) -> ServiceResult<FollowStep> {
        // The time limit covers the whole step: filtered events do not extend it.
        let quiet = tokio::time::sleep(patience);
        tokio::pin!(quiet);
        loop {
            if self.until.is_some_and(|until| self.next >= until) {
                return Ok(FollowStep::End);
            }
            // There is nothing new before the watched tail: wait without reading. After an idle
            // period it reads anyway, and so detects a deletion.
            if self.current && *self.watch.borrow() <= self.next {
                self.current = false;
                let wait = self.service.wait_for_events(&self.key, &mut self.watch, self.next);
                tokio::select! {
                    biased;
                    moved = wait => moved?,
                    () = &mut quiet => return Ok(FollowStep::Quiet(self.tail)),
                }
            }
            let read = ReadRequest {
                range: Range::new(self.next, self.until.unwrap_or(Position(u64::MAX))),
                events_max: SCAN_EVENTS,
                bytes_max: FOLLOW_BYTES,
                fill: FillDirection::Forward,
                allow_gaps: false,
            };
            let slice = self.service.store.read(&self.key, read).await?;
            self.tail = slice.tail;
            if slice.covered.is_empty() {
                let seen = slice.tail.max(self.next);
                let wait = self.service.wait_for_events(&self.key, &mut self.watch, seen);
                tokio::select! {
                    biased;
                    moved = wait => moved?,
                    () = &mut quiet => return Ok(FollowStep::Quiet(self.tail)),
                }
                continue;
            }
            self.next = slice.covered.to;
            self.current = true;
            let matches = |event: &Event| matches_query(&self.types, self.window, event);
            let events: Vec<Event> = slice.events.into_iter().filter(matches).collect();
            let gaps = slice.gaps;
            if !events.is_empty() || !gaps.is_empty() {
                return Ok(FollowStep::Slice { events, gaps });
            }
            if quiet.is_elapsed() && self.until.is_none() {
                return Ok(FollowStep::Quiet(self.tail));
            }
            tokio::task::yield_now().await;
        }
    }
}
