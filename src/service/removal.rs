//! Permanent removal: the body of one event with its copies, or a whole session. A started removal
//! completes even if its caller stops waiting. It must not return before the content is removed.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{
    Caller, Code, Service, ServiceError, ServiceResult, facts::ANCESTORS_MAX,
    store_error::write_error,
};
use crate::{
    api::events::{CopyOf, ItemOf, RedactionEffects},
    event::{Event, EventId, Position, SessionId},
    store::{Family, StoreError, StoreResult},
};

/// Pause before the search index is asked again to drop removed passages.
const FOLLOW_AGAIN: Duration = Duration::from_millis(100);

impl Service {
    /// Erases a session: on return no caller can read it, nor a text that a model of its workspace
    /// received since the session started. Returns the listed items of memory that were written
    /// from it and stay in the notebook of its workspace; with `with_memory` they are redacted
    /// first.
    ///
    /// # Errors
    /// `session_not_found`, `session_held`, `outcome_unknown` while it is in progress; after
    /// another error a retry completes it.
    pub async fn erase_session(
        &self,
        caller: &Caller,
        session: &SessionId,
        with_memory: bool,
    ) -> ServiceResult<Vec<ItemOf>> {
        let (service, caller, session) = (self.clone(), caller.clone(), session.clone());
        let erasure = async move { service.erase(&caller, &session, with_memory).await };
        self.run_to_completion(erasure).await
    }

    async fn erase(
        &self,
        caller: &Caller,
        session: &SessionId,
        with_memory: bool,
    ) -> ServiceResult<Vec<ItemOf>> {
        let mut items = match self.list_items_from(caller, session, |_| true).await {
            Ok(items) => items,
            // The session is erased even if its notebook cannot be read.
            Err(_) if !with_memory => Vec::new(),
            Err(error) => return Err(error),
        };
        self.redact_items(caller, &mut items, with_memory).await?;
        // Before the erasure, because a retry after an error needs the session's creation time.
        if let Ok(info) = self.store.info(&caller.key(session)).await {
            for (of, given, _) in self.list_injected_since(caller, session, info.created_at).await?
            {
                if of != *session {
                    self.remove_body(caller, &of, &given).await?;
                }
            }
        }
        let erased = self.store.erase(&caller.key(session)).await;
        // Facts of its forks contain its events.
        self.evict_derived_data(caller, &erased, Some(std::slice::from_ref(session))).await;
        erased.map_err(write_error)?;
        Ok(items)
    }

    /// Removes the body of an event, its copies in the session made by recorders and the server,
    /// and the texts given to models after it. Returns the event as read from now on, and the items
    /// of memory that may repeat it; with `with_memory` those are redacted as well. A retry
    /// completes the work after an error.
    ///
    /// # Errors
    /// `session_not_found`, `event_not_found`, `session_held`, `session_damaged`,
    /// `outcome_unknown` while it is in progress.
    pub async fn redact_event(
        &self,
        caller: &Caller,
        session: &SessionId,
        event: &EventId,
        with_memory: bool,
    ) -> ServiceResult<(Event, RedactionEffects)> {
        let (service, caller) = (self.clone(), caller.clone());
        let (session, event) = (session.clone(), event.clone());
        let redaction = async move { service.redact(&caller, &session, &event, with_memory).await };
        self.run_to_completion(redaction).await
    }

    async fn redact(
        &self,
        caller: &Caller,
        session: &SessionId,
        event: &EventId,
        with_memory: bool,
    ) -> ServiceResult<(Event, RedactionEffects)> {
        let not_found = || {
            let message = format!("session {session} has no event {event}");
            ServiceError::new(Code::EventNotFound, message)
                .action("look for its id among the session's events; it is not a position")
        };
        let key = caller.key(session);
        let position = self.remove_body(caller, session, event).await?.ok_or_else(not_found)?;
        // After the event: no further copies are made of it, and a retry finds them by position.
        let copies = self.find_copies(&key, (event, position)).await?;
        // The last first: a copy of a copy is found through the body of its source.
        for (copy, _) in copies.iter().rev() {
            self.remove_body(caller, session, copy).await?;
        }
        let removed = self.read_event(&key, position).await?.ok_or_else(not_found)?;
        let mut given = self.list_injected_since(caller, session, removed.processed_at).await?;
        given.retain(|(of, _, at)| of != session || *at > position);
        for (of, text, _) in &given {
            self.remove_body(caller, of, text).await?;
        }
        let mut memory = match self.list_items_about(caller, session, position).await {
            Ok(items) => items,
            // The event is redacted even if a notebook cannot be read.
            Err(_) if !with_memory => Vec::new(),
            Err(error) => return Err(error),
        };
        self.redact_items(caller, &mut memory, with_memory).await?;
        let copy = |(id, position)| CopyOf { id, position, session: None };
        let given = given.into_iter().map(|(of, id, position)| CopyOf {
            session: (of != *session).then_some(of),
            ..copy((id, position))
        });
        let copies = copies.into_iter().map(copy).chain(given).collect();
        Ok((removed, RedactionEffects { copies, memory }))
    }

    async fn redact_items(
        &self,
        caller: &Caller,
        items: &mut [ItemOf],
        with_memory: bool,
    ) -> ServiceResult<()> {
        for item in items.iter_mut().filter(|_| with_memory) {
            self.remove_body(caller, &item.notebook, &item.memory_id).await?;
            item.redacted = true;
        }
        Ok(())
    }

    /// Removes the body of one event; returns its position, `None` if it does not exist.
    async fn remove_body(
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
        // Facts folded from the body are evicted even after an error, including those of forks.
        let at = redacted.as_ref().ok().copied().flatten();
        let writers = family.and_then(|family| possible_writers(session, &family, at));
        self.evict_derived_data(caller, &redacted, writers.as_deref()).await;
        redacted.map_err(write_error)
    }

    /// Follows removals at all nodes of the store until it is stopped: drops the removed content
    /// that this process keeps, and confirms that. A node without it holds up the removals of
    /// others.
    pub async fn follow_removals(self, stop: CancellationToken) {
        let mut removals = self.store.follow_removals();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                changed = removals.changed() => if changed.is_err() { return },
            }
            let count = *removals.borrow_and_update();
            self.facts.clear();
            self.evict_all_titles();
            if self.drop_removed_passages().await {
                self.store.confirm_removals(count);
            } else {
                // The index may hold a removed passage: try again.
                tokio::time::sleep(FOLLOW_AGAIN).await;
                removals.mark_changed();
            }
        }
    }

    /// Drops data derived from events of these sessions, unless nothing can have been removed.
    async fn evict_derived_data<T>(
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
            self.facts.evict_writers(&caller.scope, writers);
            self.evict_titles(&caller.scope);
            // What fails is dropped with the next search, before its answer.
            let _ = self.drop_removed_passages().await;
        }
    }
}

/// Returns the sessions that may have written an event of a session, at a known or unknown
/// position; `None` if there are too many to name.
fn possible_writers(
    session: &SessionId,
    family: &Family,
    at: Option<Position>,
) -> Option<Vec<SessionId>> {
    let ancestors = &family.ancestors;
    // Each ancestor's part starts where the next older one's ends.
    let bases = ancestors.iter().map(|one| one.at).chain([Position::ZERO]);
    let all = [session].into_iter().chain(ancestors.iter().map(|one| &one.session)).zip(bases);
    let writer = at.and_then(|at| all.clone().find(|(_, base)| *base <= at));
    let is_whole = family.depth <= ancestors.len() as u64;
    match writer {
        Some((writer, base)) if is_whole || base > Position::ZERO => Some(vec![writer.clone()]),
        _ => is_whole.then(|| all.map(|(writer, _)| writer.clone()).collect()),
    }
}
