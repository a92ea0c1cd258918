//! Events that the server itself appends after a batch: sources named in tool results, and a
//! crossed usage level. They are appended before the batch is acknowledged if the facts are in
//! memory, and later if much of the session must be read first. A precondition on the tail ignores
//! them. It must not fail the batch that it follows.

use bytes::Bytes;

use super::{Caller, Code, Service, ServiceResult, links::SAVED};
use crate::{
    event::{
        Batch, Event, EventType, NewEvent, Origin, Position, Range, SessionId, SessionKey, kinds,
        limits,
    },
    projection::{
        Facts,
        body::{self, SourceBody, ThresholdBody},
        checkpoints::Trigger,
    },
    store::{AppendResult, FillDirection, ReadRequest, SessionInfo},
};

/// Maximum number of session reads that delay a response.
const READS_MAX: usize = 2;
/// Maximum number of retries after another writer appended concurrently.
const ATTEMPTS_MAX: usize = 10;

/// Builds an event that the server itself appends.
pub(super) fn new_event(kind: &str, origin: Origin, body: Bytes) -> NewEvent {
    NewEvent {
        id: None,
        kind: EventType::new(kind).expect("it keeps to the alphabet"),
        origin,
        created_at: None,
        position: None,
        body,
    }
}

/// Returns true if events may be due after a batch; imported transcripts get none.
pub(super) fn may_have_due_events(events: &[NewEvent]) -> bool {
    let may_cause = |kind: &str| kind == kinds::SPAN_MODEL_REQUEST_END || kinds::is_result(kind);
    events.iter().any(|event| event.origin != Origin::Import && may_cause(event.kind.as_str()))
}

fn is_server_added(event: &Event) -> bool {
    event.origin == Origin::Harness
        && match event.kind.as_str() {
            kinds::CONTEXT_THRESHOLD => true,
            kinds::SOURCE_FOUND => {
                body::read::<SourceBody>(&event.body).is_some_and(|source| source.is_by_server())
            }
            _ => false,
        }
}

impl Service {
    /// Appends a batch. If it expects a position, it is also appended after events that only the
    /// server added since that position.
    pub(super) async fn append_after_added(
        &self,
        caller: &Caller,
        session: &SessionId,
        batch: Batch,
        create: bool,
    ) -> ServiceResult<AppendResult> {
        let Some(mut at) = batch.if_position else {
            return self.append(caller, session, batch, create).await;
        };
        let key = caller.key(session);
        let mut conflict = None;
        for _ in 0..ATTEMPTS_MAX {
            let again = Batch { if_position: Some(at), ..batch.clone() };
            match self.append(caller, session, again, create).await {
                Err(error) if error.code == Code::PositionConflict => {
                    let end = self.position_after_added(&key, at).await;
                    let error = conflict.get_or_insert(error);
                    if end == at {
                        return Err(error.clone());
                    }
                    at = end;
                }
                answer => return answer,
            }
        }
        Err(conflict.expect("every attempt ended in one"))
    }

    /// Returns the position after the server's own events that start at a position.
    async fn position_after_added(&self, key: &SessionKey, from: Position) -> Position {
        let read = ReadRequest {
            range: Range::new(from, Position(u64::MAX)),
            events_max: limits::BATCH_EVENTS_MAX,
            bytes_max: limits::EVENT_BYTES_MAX,
            fill: FillDirection::Forward,
            allow_gaps: false,
        };
        let events = self.store.read(key, read).await.map(|slice| slice.events);
        let added =
            events.unwrap_or_default().iter().take_while(|event| is_server_added(event)).count();
        from.plus(added as u64)
    }

    /// Appends the events due after a batch and includes them in its response.
    pub(super) async fn add_due_events(
        &self,
        caller: &Caller,
        session: &SessionId,
        appended: &mut AppendResult,
    ) {
        let key = caller.key(session);
        let mut reads = READS_MAX;
        let due =
            self.try_with_facts(&key, &mut reads, |info, facts| self.due_events(info, facts)).await;
        let added = match due {
            Ok(Some(due)) => self.append_due(caller, session, Some(due)).await,
            Ok(None) => {
                self.spawn_append_due(caller, session);
                Ok(None)
            }
            Err(error) => Err(error),
        };
        let added = added.unwrap_or_else(|error| {
            tracing::warn!(%session, code = error.code.as_str(), "what follows a batch was not returned");
            None
        });
        let end = appended.next_position;
        appended.next_position = match added {
            Some(added) if added.first_position == end => added.next_position,
            None if !appended.repeated => end,
            _ => self.position_after_added(&key, end).await,
        };
    }

    /// Appends the due events in a background task after reading the session; one task per session.
    fn spawn_append_due(&self, caller: &Caller, session: &SessionId) {
        let key = caller.key(session);
        if !self.facts.begin_adding(&key) {
            return;
        }
        let (service, caller, session) = (self.clone(), caller.clone(), session.clone());
        tokio::spawn(async move {
            let read = service.peek_facts(&key, |_, _| ()).await;
            // Later appends find the facts in memory and append the due events themselves.
            service.facts.finish_adding(&key);
            let added = match read {
                Ok(()) => service.append_due(&caller, &session, None).await,
                Err(error) => Err(error),
            };
            if let Err(error) = added {
                tracing::warn!(%session, code = error.code.as_str(), "what follows a batch was not returned");
            }
        });
    }

    /// Appends the events due for a session, starting with those in `seen`; appends nothing if none
    /// is due.
    async fn append_due(
        &self,
        caller: &Caller,
        session: &SessionId,
        mut seen: Option<Batch>,
    ) -> ServiceResult<Option<AppendResult>> {
        let key = caller.key(session);
        for _ in 0..ATTEMPTS_MAX {
            let due = match seen.take() {
                Some(due) => due,
                None => self.peek_facts(&key, |info, facts| self.due_events(info, facts)).await?,
            };
            if due.events.is_empty() {
                break;
            }
            match self.append(caller, session, due, false).await {
                Ok(appended) => return Ok(Some(appended)),
                // Another writer appended concurrently and may have added the event.
                Err(error) if error.code == Code::PositionConflict => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Returns the batch of events that are due according to the session's facts.
    fn due_events(&self, info: &SessionInfo, facts: &Facts) -> Batch {
        let monitor = self.monitor.of_session(&info.metadata, facts.usage.window);
        let crossed = monitor.crossed_level(&facts.usage).map(|(level, tokens)| {
            let (level, limit) = (level.as_str().to_owned(), monitor.limit);
            let body = body::write(&ThresholdBody { tokens, limit, level });
            new_event(kinds::CONTEXT_THRESHOLD, Origin::Harness, body)
        });
        // When the context fills up, the current state is saved.
        let note = crossed.as_ref().map(|_| self.labelled_note(info, None, Trigger::Limit, SAVED));
        let found = facts.findable.pending_sources().map(|found| &found.source);
        let found = found.filter(|source| facts.research.would_add_source(source));
        let found = found
            .map(|source| new_event(kinds::SOURCE_FOUND, Origin::Harness, body::write(source)));
        let events = crossed.into_iter().chain(found).collect();
        Batch { events, note, if_position: Some(facts.position), ..Batch::default() }
    }
}
