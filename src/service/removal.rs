//! Removing for good: the body of one event, or a whole session. What was begun is finished,
//! though its caller may not wait. It must not return before it is removed.

use super::{
    Caller, Code, Service, ServiceError, ServiceResult, facts::ANCESTORS_MAX,
    store_error::unwritten,
};
use crate::{
    event::{Event, EventId, Position, Range, SessionId},
    projection::MemoryItem,
    store::{Family, Fill, Read, StoreError, StoreResult},
};

/// An item of memory in a notebook that was written from another session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemOf {
    /// The notebook.
    pub notebook: SessionId,
    /// Its id.
    pub id: EventId,
    /// Its position in the notebook.
    pub position: Position,
}

impl Service {
    /// Erases a session: once this returns, no caller can read it. Returns the items of memory that
    /// were written from it and stay in the notebook of its workspace, as far as that lists them;
    /// with `with_memory` they are redacted first.
    ///
    /// # Errors
    /// `session_not_found`, `session_held`, `outcome_unknown` while it is under way; after another
    /// error a retry completes it.
    pub async fn erase_session(
        &self,
        caller: &Caller,
        session: &SessionId,
        with_memory: bool,
    ) -> ServiceResult<Vec<ItemOf>> {
        let (service, caller, session) = (self.clone(), caller.clone(), session.clone());
        let erasure = async move { service.erase(&caller, &session, with_memory).await };
        self.carried_out(erasure).await
    }

    async fn erase(
        &self,
        caller: &Caller,
        session: &SessionId,
        with_memory: bool,
    ) -> ServiceResult<Vec<ItemOf>> {
        let items = match self.written_from(caller, session).await {
            Ok(items) => items,
            // The session is erased whatever is wrong with a notebook.
            Err(_) if !with_memory => Vec::new(),
            Err(error) => return Err(error),
        };
        for item in items.iter().filter(|_| with_memory) {
            self.redact(caller, &item.notebook, &item.id).await?;
        }
        let erased = self.store.erase(&caller.key(session)).await;
        // Facts of its forks contain its events.
        self.forget_events_of(caller, &erased, Some(&[session.clone()])).await;
        erased.map_err(unwritten)?;
        Ok(items)
    }

    /// The items of memory that were written from a session. They are in the notebook of its
    /// workspace, which a session does not change.
    async fn written_from(
        &self,
        caller: &Caller,
        session: &SessionId,
    ) -> ServiceResult<Vec<ItemOf>> {
        let mut items = Vec::new();
        let Some(workspace) = self.store.workspace(&caller.key(session)).await? else {
            return Ok(items);
        };
        for notebook in self.notebooks(caller, &workspace).await? {
            let is_of = |item: &&MemoryItem| {
                item.from.as_ref().is_some_and(|from| from.session == session.as_str())
            };
            let item = |item: &MemoryItem| ItemOf {
                notebook: notebook.clone(),
                id: item.id.clone(),
                position: item.position,
            };
            let key = caller.key(&notebook);
            let found = self.peek_facts(&key, |_, facts| {
                facts.memory.all().filter(is_of).map(item).collect::<Vec<_>>()
            });
            items.extend(found.await?);
        }
        Ok(items)
    }

    /// Removes the body of an event; returns the event as served from now on. A retry returns the
    /// same.
    ///
    /// # Errors
    /// `session_not_found`, `event_not_found`, `session_held`, `session_damaged`,
    /// `outcome_unknown` while it is under way; after another error a retry completes the removal.
    pub async fn redact_event(
        &self,
        caller: &Caller,
        session: &SessionId,
        event: &EventId,
    ) -> ServiceResult<Event> {
        let (service, caller) = (self.clone(), caller.clone());
        let (session, event) = (session.clone(), event.clone());
        let redaction = async move { service.redact(&caller, &session, &event).await };
        self.carried_out(redaction).await
    }

    async fn redact(
        &self,
        caller: &Caller,
        session: &SessionId,
        event: &EventId,
    ) -> ServiceResult<Event> {
        let key = caller.key(session);
        let family = self.store.family(&key, ANCESTORS_MAX).await.ok();
        let redacted = self.store.redact(&key, event).await;
        let not_found = || {
            let message = format!("session {session} has no event {event}");
            ServiceError::new(Code::EventNotFound, message)
                .action("look for its id among the session's events; it is not a position")
        };
        if matches!(redacted, Ok(None)) {
            return Err(not_found());
        }
        // Facts folded from the body are dropped even after an error, those of forks too.
        let at = redacted.as_ref().ok().copied().flatten();
        let writers = family.and_then(|family| writers(session, &family, at));
        self.forget_events_of(caller, &redacted, writers.as_deref()).await;
        let position = redacted.map_err(unwritten)?.ok_or_else(not_found)?;
        let read = Read {
            range: Range::new(position, position.plus(1)),
            events_max: 1,
            bytes_max: usize::MAX,
            fill: Fill::Forward,
            allow_gaps: false,
        };
        self.store.read(&key, read).await?.events.pop().ok_or_else(not_found)
    }

    /// Forgets what was made from events of these sessions, unless nothing of them can have gone.
    async fn forget_events_of<T>(
        &self,
        caller: &Caller,
        outcome: &StoreResult<T>,
        writers: Option<&[SessionId]>,
    ) {
        let is_refused = matches!(
            outcome,
            Err(StoreError::SessionNotFound { .. }
                | StoreError::SessionDeleted { .. }
                | StoreError::SessionExpired { .. }
                | StoreError::SessionHeld { .. }
                | StoreError::SessionDamaged { .. })
        );
        if !is_refused {
            self.facts.forget_events_of(&caller.scope, writers);
            self.forget_indexed().await;
        }
    }
}

/// The sessions that may have written an event of one, which is at that position if that is known;
/// `None` where they are too many to name.
fn writers(session: &SessionId, family: &Family, at: Option<Position>) -> Option<Vec<SessionId>> {
    let ancestors = &family.ancestors;
    // Each begins where the next further up ends.
    let bases = ancestors.iter().map(|one| one.at).chain([Position::ZERO]);
    let all = [session].into_iter().chain(ancestors.iter().map(|one| &one.session)).zip(bases);
    let writer = at.and_then(|at| all.clone().find(|(_, base)| *base <= at));
    let is_whole = family.depth <= ancestors.len() as u64;
    match writer {
        Some((writer, base)) if is_whole || base > Position::ZERO => Some(vec![writer.clone()]),
        _ => is_whole.then(|| all.map(|(writer, _)| writer.clone()).collect()),
    }
}
