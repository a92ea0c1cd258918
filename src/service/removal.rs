//! Removing for good: the body of one event with what was made of it, or a whole session. What was
//! begun is finished, though its caller may not wait. It must not return before it is removed.

use super::{
    Caller, Code, Service, ServiceError, ServiceResult, facts::ANCESTORS_MAX,
    store_error::unwritten,
};
use crate::{
    api::events::{CopyOf, ItemOf, RedactedBeside},
    event::{Event, EventId, Position, SessionId},
    store::{Family, StoreError, StoreResult},
};

impl Service {
    /// Erases a session: once this returns, no caller can read it, nor a text that a model of its
    /// workspace was given since the session began. Returns the items of memory that
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
        let mut items = match self.written_from(caller, session, |_| true).await {
            Ok(items) => items,
            // The session is erased whatever is wrong with a notebook.
            Err(_) if !with_memory => Vec::new(),
            Err(error) => return Err(error),
        };
        self.take_items(caller, &mut items, with_memory).await?;
        // While it is there: a retry of what an error left needs to know when it began.
        if let Ok(info) = self.store.info(&caller.key(session)).await {
            for (of, given, _) in self.given_since(caller, session, info.created_at).await? {
                if of != *session {
                    self.take_away(caller, &of, &given).await?;
                }
            }
        }
        let erased = self.store.erase(&caller.key(session)).await;
        // Facts of its forks contain its events.
        self.forget_events_of(caller, &erased, Some(std::slice::from_ref(session))).await;
        erased.map_err(unwritten)?;
        Ok(items)
    }

    /// Removes the body of an event, the events of its session that recorders and the server made
    /// of it, and the texts that models were given after it; returns it as served from now on, and
    /// the items of memory that may repeat it. With `with_memory` those are redacted, too. A retry
    /// completes what an error left.
    ///
    /// # Errors
    /// `session_not_found`, `event_not_found`, `session_held`, `session_damaged`,
    /// `outcome_unknown` while it is under way.
    pub async fn redact_event(
        &self,
        caller: &Caller,
        session: &SessionId,
        event: &EventId,
        with_memory: bool,
    ) -> ServiceResult<(Event, RedactedBeside)> {
        let (service, caller) = (self.clone(), caller.clone());
        let (session, event) = (session.clone(), event.clone());
        let redaction = async move { service.redact(&caller, &session, &event, with_memory).await };
        self.carried_out(redaction).await
    }

    async fn redact(
        &self,
        caller: &Caller,
        session: &SessionId,
        event: &EventId,
        with_memory: bool,
    ) -> ServiceResult<(Event, RedactedBeside)> {
        let not_found = || {
            let message = format!("session {session} has no event {event}");
            ServiceError::new(Code::EventNotFound, message)
                .action("look for its id among the session's events; it is not a position")
        };
        let key = caller.key(session);
        let position = self.take_away(caller, session, event).await?.ok_or_else(not_found)?;
        // Behind the event: none is made of it any more, and a retry finds them by its place.
        let copies = self.copies_of(&key, (event, position)).await?;
        // The last first: a copy of a copy is found by that one's body.
        for (copy, _) in copies.iter().rev() {
            self.take_away(caller, session, copy).await?;
        }
        let removed = self.event_at(&key, position).await?.ok_or_else(not_found)?;
        let mut given = self.given_since(caller, session, removed.processed_at).await?;
        given.retain(|(of, _, at)| of != session || *at > position);
        for (of, text, _) in &given {
            self.take_away(caller, of, text).await?;
        }
        let mut memory = match self.written_of(caller, session, position).await {
            Ok(items) => items,
            // The event is redacted whatever is wrong with a notebook.
            Err(_) if !with_memory => Vec::new(),
            Err(error) => return Err(error),
        };
        self.take_items(caller, &mut memory, with_memory).await?;
        let copy = |(id, position)| CopyOf { id, position, session: None };
        let given = given.into_iter().map(|(of, id, position)| CopyOf {
            session: (of != *session).then_some(of),
            ..copy((id, position))
        });
        let copies = copies.into_iter().map(copy).chain(given).collect();
        Ok((removed, RedactedBeside { copies, memory }))
    }

    /// Redacts items of memory, where that is asked for.
    async fn take_items(
        &self,
        caller: &Caller,
        items: &mut [ItemOf],
        with_memory: bool,
    ) -> ServiceResult<()> {
        for item in items.iter_mut().filter(|_| with_memory) {
            self.take_away(caller, &item.notebook, &item.memory_id).await?;
            item.redacted = true;
        }
        Ok(())
    }

    /// Removes the body of one event; returns its position, `None` for one that is not there.
    async fn take_away(
        &self,
        caller: &Caller,
        session: &SessionId,
        event: &EventId,
    ) -> ServiceResult<Option<Position>> {
        let key = caller.key(session);
        let family = self.store.family(&key, ANCESTORS_MAX).await.ok();
        let redacted = self.store.redact(&key, event).await;
        if matches!(redacted, Ok(None)) {
            return Ok(None);
        }
        // Facts folded from the body are dropped even after an error, those of forks too.
        let at = redacted.as_ref().ok().copied().flatten();
        let writers = family.and_then(|family| writers(session, &family, at));
        self.forget_events_of(caller, &redacted, writers.as_deref()).await;
        redacted.map_err(unwritten)
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
            self.forget_titles(&caller.scope);
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
