//! Events that the server appends after a batch by itself: sources named in results of tools, a
//! crossed level of usage. They are appended before the batch is answered where the facts are in
//! memory, and later where much of the session would have to be read first. They are no other
//! writer's: a precondition on the tail stays valid across them. It must not fail the batch that it
//! follows.

use bytes::Bytes;

use super::{Caller, Code, Service, ServiceResult, agent, given, line::SAVED, status};
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

/// Whether events may be due after a batch; nothing is added to an imported transcript.
pub(super) fn adds(batch: &Batch) -> bool {
    let says = |kind: &str| kind == kinds::SPAN_MODEL_REQUEST_END || kinds::is_result(kind);
    let adds = |event: &NewEvent| event.origin != Origin::Import && says(event.kind.as_str());
    batch.events.iter().any(adds)
}

/// Whether the server added an event by itself.
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
    /// Appends a batch for a client, and the events that are due after it.
    pub(super) async fn append_and_add(
        &self,
        caller: &Caller,
        session: &SessionId,
        mut batch: Batch,
        create: bool,
    ) -> ServiceResult<Appended> {
        let adds = adds(&batch);
        status::keep(&mut batch);
        given::keep(&mut batch);
        let starts = agent::keep(&mut batch);
        if starts {
            self.agents.storing(&caller.scope);
        }
        // A lease shown with the batch also covers the events after it.
        let holder = Caller { fence: batch.fence.or(caller.fence), ..caller.clone() };
        let appended = match batch.if_position {
            None => self.append(caller, session, batch, create).await,
            Some(at) => self.append_at(caller, session, batch, create, at).await,
        };
        if starts {
            self.agents.stored(&caller.scope, &appended);
        }
        let mut appended = appended?;
        if adds {
            self.add_behind(&holder, session, &mut appended).await;
        }
        Ok(appended)
    }

    /// Appends a batch at a position, or after events that only the server added there since.
    async fn append_at(
        &self,
        caller: &Caller,
        session: &SessionId,
        batch: Batch,
        create: bool,
        mut at: Position,
    ) -> ServiceResult<Appended> {
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
        let told = match self.reach(&key, &mut reads).await {
            Ok(true) => self.append_due(caller, session).await,
            Ok(false) => {
                self.add_later(caller, session);
                Ok(false)
            }
            Err(error) => Err(error),
        };
        let told = told.unwrap_or_else(|error| {
            tracing::warn!(%session, code = error.code.as_str(), "what follows a batch was not returned");
            false
        });
        if told || appended.repeated {
            appended.next_position = self.behind_added(&key, appended.next_position).await;
        }
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
            let told = match read {
                Ok(()) => service.append_due(&caller, &session).await,
                Err(error) => Err(error),
            };
            if let Err(error) = told {
                tracing::warn!(%session, code = error.code.as_str(), "what follows a batch was not returned");
            }
        });
    }

    /// Appends what the facts of a session show as due; whether there was anything.
    async fn append_due(&self, caller: &Caller, session: &SessionId) -> ServiceResult<bool> {
        let key = caller.key(session);
        for _ in 0..ATTEMPTS_MAX {
            let look = |info: &SessionInfo, facts: &Facts| {
                let (events, crossed) = self.due_events(info, facts);
                // Where the context fills up, what is there is saved.
                let note = crossed.then(|| self.labelled_note(info, None, Trigger::Limit, SAVED));
                (events, note, facts.position)
            };
            let (events, note, position) = self.peek_facts(&key, look).await?;
            if events.is_empty() {
                return Ok(false);
            }
            let if_position = Some(position);
            let batch = Batch { events: events.into(), note, if_position, ..Batch::default() };
            match self.append(caller, session, batch, false).await {
                Ok(_) => return Ok(true),
                // Another writer appended in between, and may have added it.
                Err(error) if error.code == Code::PositionConflict => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// The events that the facts of a session show as due, and whether a level was crossed.
    fn due_events(&self, info: &SessionInfo, facts: &Facts) -> (Vec<NewEvent>, bool) {
        let monitor = self.monitor.of(&info.metadata);
        let crossed = monitor.crossed(&facts.usage).map(|(level, tokens)| {
            let (level, limit) = (level.as_str().to_owned(), monitor.limit);
            event(
                kinds::CONTEXT_THRESHOLD,
                Origin::Harness,
                body::write(&ThresholdBody { tokens, limit, level }),
            )
        });
        let found = facts.findable.waiting().map(|found| &found.source);
        let found = found.filter(|source| facts.research.wants_source(source));
        let found =
            found.map(|source| event(kinds::SOURCE_FOUND, Origin::Harness, body::write(source)));
        let is_crossed = crossed.is_some();
        (crossed.into_iter().chain(found).collect(), is_crossed)
    }
}
