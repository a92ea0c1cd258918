//! A flow of batches: those of one session in order, those of different sessions concurrently.
//! While batches of a session are being written, later ones queue and are then written together in
//! one frame, as the journal does for sessions. It must not encode or decode a wire format.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    sync::Arc,
};

use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};

use super::{Caller, Code, Service, ServiceError, ServiceResult};
use crate::{
    event::{Batch, Fence, Position, SessionId, limits},
    store::{AppendResult, PlacedEvent},
};

/// Bytes counted for an event in addition to its body.
const EVENT_WEIGHT: usize = 256;
/// Maximum number of sessions whose client count is tracked; in others the client reads the
/// positions of its batches from the responses.
const COUNTING_MAX: usize = 100_000;

/// A batch or an error, with the caller's tag.
#[derive(Debug)]
pub struct FlowRequest<T> {
    /// Caller's tag for the batch.
    pub tag: T,
    /// Session it belongs to.
    pub session: SessionId,
    /// Batch to append, or an error, which is returned in the order of the session's batches.
    pub batch: ServiceResult<Batch>,
}

/// Result of a batch.
#[derive(Debug)]
pub struct FlowAnswer<T> {
    /// Caller's tag for the batch.
    pub tag: T,
    /// Session it belongs to.
    pub session: SessionId,
    /// Positions of the batch, once durable.
    pub result: ServiceResult<AppendResult>,
}

/// Service and caller for which all rounds of a flow append.
struct FlowTarget {
    service: Service,
    caller: Caller,
    create: bool,
}

/// Batches of one session that are written together.
struct FlowRound<T> {
    session: SessionId,
    weight: usize,
    answers: Vec<FlowAnswer<T>>,
    counting: EventCounting,
}

/// A pipelining client's count of a session's events, which excludes those that the server added
/// after its batches.
#[derive(Clone, Copy, Default)]
struct EventCounting {
    /// End of its last batch in the client's count.
    end: Position,
    /// Number of events that the server added before that end.
    added: u64,
}

impl EventCounting {
    /// Returns the actual position for an expected position in the client's count.
    fn actual_position(&mut self, expected: Option<Position>, events: usize) -> Option<Position> {
        let position = expected.map(|at| if at == self.end { at.plus(self.added) } else { at });
        self.end = expected.unwrap_or(self.end).plus(events as u64);
        position
    }

    /// Returns the count after batches that started at the expected position.
    fn with_appended(self, expected: Option<Position>, appended: &AppendResult) -> Self {
        let begun = Position(appended.first_position.0.saturating_sub(self.added));
        let end = expected.unwrap_or(begun).plus(appended.events.len() as u64);
        Self { end, added: appended.next_position.0.saturating_sub(end.0) }
    }
}

/// Batches in flight. Dropping it lets those already in the journal become durable.
pub struct BatchFlow<T> {
    target: Arc<FlowTarget>,
    /// Queued batches by session; a session stays here while a round of it is in progress.
    waiting: HashMap<SessionId, VecDeque<FlowRequest<T>>>,
    /// Sessions in which the server added events after a batch.
    counting: HashMap<SessionId, EventCounting>,
    /// Sessions with queued batches and none in flight.
    ready: Vec<SessionId>,
    in_flight: FuturesUnordered<BoxFuture<'static, FlowRound<T>>>,
    batches: usize,
    weight: usize,
}

impl Service {
    /// Creates a flow of the caller's batches; with `create`, unknown sessions are created.
    #[must_use]
    pub fn flow<T: Send + 'static>(&self, caller: &Caller, create: bool) -> BatchFlow<T> {
        let (service, caller) = (self.clone(), caller.clone());
        BatchFlow {
            target: Arc::new(FlowTarget { service, caller, create }),
            waiting: HashMap::new(),
            counting: HashMap::new(),
            ready: Vec::new(),
            in_flight: FuturesUnordered::new(),
            batches: 0,
            weight: 0,
        }
    }
}

impl<T: Send + 'static> BatchFlow<T> {
    /// Returns true if another batch may be pushed before a response arrives.
    #[must_use]
    pub fn has_capacity(&self) -> bool {
        self.batches < limits::FLOW_BATCHES_MAX && self.weight < limits::FLOW_BYTES_MAX
    }

    /// Returns true if no batch is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.batches == 0
    }

    /// Queues a batch. It is written during [`Self::next`].
    pub fn push(&mut self, request: FlowRequest<T>) {
        self.batches += 1;
        self.weight += request_bytes(&request);
        match self.waiting.entry(request.session.clone()) {
            Entry::Occupied(mut lane) => lane.get_mut().push_back(request),
            Entry::Vacant(lane) => {
                self.ready.push(request.session.clone());
                lane.insert(VecDeque::from([request]));
            }
        }
    }

    /// Returns the next results, in order for each session; `None` if the flow is idle.
    /// Cancel-safe: no result is lost.
    pub async fn next(&mut self) -> Option<Vec<FlowAnswer<T>>> {
        for session in std::mem::take(&mut self.ready) {
            let Some(lane) = self.waiting.get_mut(&session) else { continue };
            let (group, weight) = take_next_group(lane);
            let target = Arc::clone(&self.target);
            let mut counting = self.counting.remove(&session).unwrap_or_default();
            self.in_flight.push(Box::pin(async move {
                let answers = target.append(group, &mut counting).await;
                FlowRound { session, weight, answers, counting }
            }));
        }
        let round = self.in_flight.next().await?;
        self.batches = self.batches.saturating_sub(round.answers.len());
        self.weight = self.weight.saturating_sub(round.weight);
        if round.counting.added > 0 && self.counting.len() < COUNTING_MAX {
            self.counting.insert(round.session.clone(), round.counting);
        }
        match self.waiting.get(&round.session) {
            Some(lane) if !lane.is_empty() => self.ready.push(round.session),
            _ => drop(self.waiting.remove(&round.session)),
        }
        Some(round.answers)
    }
}

fn request_bytes<T>(request: &FlowRequest<T>) -> usize {
    let events = request.batch.as_ref().map(|batch| &batch.events[..]).unwrap_or_default();
    events.iter().map(|event| event.body.len() + EVENT_WEIGHT).sum()
}

/// Removes the batches of the next frame from the front of a lane.
fn take_next_group<T>(lane: &mut VecDeque<FlowRequest<T>>) -> (Vec<FlowRequest<T>>, usize) {
    let (mut count, mut events, mut bytes) = (0, 0, 0);
    for next in &*lane {
        let more = next.batch.as_ref().map_or(0, |batch| batch.events.len());
        let fits = events + more <= limits::BATCH_EVENTS_MAX
            && bytes + request_bytes(next) <= limits::BATCH_BYTES_MAX;
        let first = lane.front();
        let same = first
            .is_some_and(|first| may_share_frame(first) && batch_fence(first) == batch_fence(next));
        if count > 0 && !(fits && may_share_frame(next) && same) {
            break;
        }
        (count, events, bytes) = (count + 1, events + more, bytes + request_bytes(next));
    }
    (lane.drain(..count).collect(), bytes)
}

fn batch_fence<T>(request: &FlowRequest<T>) -> Option<Fence> {
    request.batch.as_ref().ok()?.fence
}

/// Returns true if a batch may share a frame: it has events, no key, and at most one precondition
/// on the position.
fn may_share_frame<T>(request: &FlowRequest<T>) -> bool {
    let Ok(batch) = &request.batch else { return false };
    let first = batch.events.first();
    let once =
        |event: &crate::event::NewEvent| batch.if_position.is_none() || event.position.is_none();
    batch.key.is_none() && batch.note.is_none() && first.is_some_and(once)
}

impl FlowTarget {
    /// Appends batches of one session in order, joined into one if there are several.
    async fn append<T>(
        &self,
        group: Vec<FlowRequest<T>>,
        counting: &mut EventCounting,
    ) -> Vec<FlowAnswer<T>> {
        if let [first, _, ..] = &group[..] {
            let expected = first.batch.as_ref().ok().and_then(|batch| batch.if_position);
            match self.append_batch(&first.session, Ok(join_batches(&group, *counting))).await {
                Ok(appended) => {
                    *counting = counting.with_appended(expected, &appended);
                    return split_result(group, appended);
                }
                // Nothing was written; appending each batch alone shows which one was rejected.
                Err(error) if is_about_content(&error) => {}
                Err(error) => {
                    let refused = |FlowRequest { tag, session, .. }| FlowAnswer {
                        tag,
                        session,
                        result: Err(error.clone()),
                    };
                    return group.into_iter().map(refused).collect();
                }
            }
        }
        let mut answers = Vec::with_capacity(group.len());
        for FlowRequest { tag, session, mut batch } in group {
            let expected = batch.as_ref().ok().and_then(|batch| batch.if_position);
            if let Ok(batch) = &mut batch {
                batch.if_position =
                    EventCounting::clone(counting).actual_position(expected, batch.events.len());
            }
            let result = self.append_batch(&session, batch).await;
            if let Ok(appended) = &result {
                *counting = counting.with_appended(expected, appended);
            }
            answers.push(FlowAnswer { tag, session, result });
        }
        answers
    }

    async fn append_batch(
        &self,
        session: &SessionId,
        batch: ServiceResult<Batch>,
    ) -> ServiceResult<AppendResult> {
        let emitted = self.service.emit(&self.caller, session, batch?, self.create).await?;
        Ok(emitted.appended)
    }
}

/// Joins batches into one; the precondition of each is moved to its first event.
fn join_batches<T>(group: &[FlowRequest<T>], mut counting: EventCounting) -> Batch {
    let mut events = Vec::new();
    for batch in group.iter().filter_map(|request| request.batch.as_ref().ok()) {
        let first = events.len();
        events.extend(batch.events.iter().cloned());
        let position = counting.actual_position(batch.if_position, batch.events.len());
        if let (Some(position), Some(event)) = (position, events.get_mut(first)) {
            event.position = Some(position);
        }
    }
    let fence = group.first().and_then(batch_fence);
    Batch { events: events.into(), fence, ..Batch::default() }
}

/// Splits the common result into one for each batch.
fn split_result<T>(group: Vec<FlowRequest<T>>, appended: AppendResult) -> Vec<FlowAnswer<T>> {
    let AppendResult { events, mut first_position, next_position: end, receipt, repeated } =
        appended;
    let mut placed = events.into_iter();
    let share = |FlowRequest { tag, session, batch }| {
        let count = batch.map_or(0, |batch: Batch| batch.events.len());
        let events: Vec<PlacedEvent> = placed.by_ref().take(count).collect();
        first_position = events.first().map_or(first_position, |event| event.position);
        let next_position = events.last().map_or(first_position, |event| event.position.plus(1));
        // The events that the server added come after the last batch.
        let next_position = if placed.len() == 0 { end } else { next_position };
        let share = AppendResult { events, first_position, next_position, receipt, repeated };
        FlowAnswer { tag, session, result: Ok(share) }
    };
    group.into_iter().map(share).collect()
}

/// Returns true if one batch may have caused the rejection of all; nothing was written.
fn is_about_content(error: &ServiceError) -> bool {
    use Code::{BodyTooLarge, IdempotencyConflict, InvalidRequest, PositionConflict};
    matches!(error.code, BodyTooLarge | IdempotencyConflict | InvalidRequest | PositionConflict)
}
