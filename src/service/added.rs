//! Events that the server appends after a batch by itself: sources named in results of tools, a
//! crossed level of usage. They are appended before the batch is answered where the facts are in
//! memory, and later where much of the session would have to be read first. They are no other
//! writer's: a precondition on the tail stays valid across them. It must not fail the batch that it
//! follows.

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
    store::{Appended, Fill, Read, SessionInfo},
};

/// Reads of the session that an answer waits for at most.
const READS_MAX: usize = 2;
/// Retries after another writer appended in between.
const ATTEMPTS_MAX: usize = 10;

/// An event of the store's own making.
pub(super) fn event(kind: &str, origin: Origin, body: Bytes) -> NewEvent {
    NewEvent {
        id: None,
        kind: EventType::new(kind).expect("it keeps to the alphabet"),
        origin,
        created_at: None,
        position: None,
        body,
    }
}

/// True if events may be due after a batch; nothing is added to an imported transcript.
pub(super) fn adds(events: &[NewEvent]) -> bool {
    let says = |kind: &str| kind == kinds::SPAN_MODEL_REQUEST_END || kinds::is_result(kind);
    events.iter().any(|event| event.origin != Origin::Import && says(event.kind.as_str()))
}

/// True if the server added an event by itself.
fn is_added(event: &Event) -> bool {
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
    /// Appends a batch; where it expects a position, also behind events that only the server added
    /// there since.
    pub(super) async fn append_behind_added(
        &self,
        caller: &Caller,
        session: &SessionId,
        batch: Batch,
        create: bool,
    ) -> ServiceResult<Appended> {
        let Some(mut at) = batch.if_position else {
            return self.append(caller, session, batch, create).await;
        };
        let key = caller.key(session);
        let mut conflict = None;
        for _ in 0..ATTEMPTS_MAX {
            let again = Batch { if_position: Some(at), ..batch.clone() };
            match self.append(caller, session, again, create).await {
                Err(error) if error.code == Code::PositionConflict => {
                    let end = self.behind_added(&key, at).await;
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

    /// The position after the server's own events from a position on.
    async fn behind_added(&self, key: &SessionKey, from: Position) -> Position {
        let read = Read {
            range: Range::new(from, Position(u64::MAX)),
            events_max: limits::BATCH_EVENTS_MAX,
            bytes_max: limits::EVENT_BYTES_MAX,
            fill: Fill::Forward,
            allow_gaps: false,
        };
        let events = self.store.read(key, read).await.map(|slice| slice.events);
        let added = events.unwrap_or_default().iter().take_while(|event| is_added(event)).count();
        from.plus(added as u64)
    }

    /// Appends what is due after a batch; the answer then counts it.
    pub(super) async fn add_behind(
        &self,
        caller: &Caller,
        session: &SessionId,
        appended: &mut Appended,
    ) {
        let key = caller.key(session);
        let mut reads = READS_MAX;
        let due = self.reach(&key, &mut reads, |info, facts| self.due_behind(info, facts)).await;
        let added = match due {
            Ok(Some(due)) => self.append_due(caller, session, Some(due)).await,
            Ok(None) => {
                self.add_later(caller, session);
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
            _ => self.behind_added(&key, end).await,
        };
    }

    /// The same once the session is read, one at a time for each session.
    fn add_later(&self, caller: &Caller, session: &SessionId) {
        let key = caller.key(session);
        if !self.facts.begin_adding(&key) {
            return;
        }
        let (service, caller, session) = (self.clone(), caller.clone(), session.clone());
        tokio::spawn(async move {
            let read = service.peek_facts(&key, |_, _| ()).await;
            // Later appends find the facts in memory, and add what is due themselves.
            service.facts.end_adding(&key);
            let added = match read {
                Ok(()) => service.append_due(&caller, &session, None).await,
                Err(error) => Err(error),
            };
            if let Err(error) = added {
                tracing::warn!(%session, code = error.code.as_str(), "what follows a batch was not returned");
            }
        });
    }

    /// Appends what is due behind the events of a session, at first what was `seen` as due; nothing
    /// where no event is.
    async fn append_due(
        &self,
        caller: &Caller,
        session: &SessionId,
        mut seen: Option<Batch>,
    ) -> ServiceResult<Option<Appended>> {
        let key = caller.key(session);
        for _ in 0..ATTEMPTS_MAX {
            let due = match seen.take() {
                Some(due) => due,
                None => self.peek_facts(&key, |info, facts| self.due_behind(info, facts)).await?,
            };
            if due.events.is_empty() {
                break;
            }
            match self.append(caller, session, due, false).await {
                Ok(appended) => return Ok(Some(appended)),
                // Another writer appended in between, and may have added it.
                Err(error) if error.code == Code::PositionConflict => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The batch of the events that the facts of a session show as due.
    fn due_behind(&self, info: &SessionInfo, facts: &Facts) -> Batch {
        let monitor = self.monitor.with_metadata(&info.metadata);
        let crossed = monitor.crossed(&facts.usage).map(|(level, tokens)| {
            let (level, limit) = (level.as_str().to_owned(), monitor.limit);
            let body = body::write(&ThresholdBody { tokens, limit, level });
            event(kinds::CONTEXT_THRESHOLD, Origin::Harness, body)
        });
        // Where the context fills up, what is there is saved.
        let note = crossed.as_ref().map(|_| self.labelled_note(info, None, Trigger::Limit, SAVED));
        let found = facts.findable.waiting().map(|found| &found.source);
        let found = found.filter(|source| facts.research.wants_source(source));
        let found =
            found.map(|source| event(kinds::SOURCE_FOUND, Origin::Harness, body::write(source)));
        let events = crossed.into_iter().chain(found).collect();
        Batch { events, note, if_position: Some(facts.position), ..Batch::default() }
    }
}
