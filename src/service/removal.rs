//! Removing for good: the body of one event, or a whole session. It must not return before it is
//! removed.

use std::sync::Arc;

use super::{
    Caller, Code, Service, ServiceError, ServiceResult, is_notebook, store_error::unwritten,
};
use crate::{
    event::{Event, EventId, Position, Range, SessionId, limits},
    projection::MemoryItem,
    store::{Fill, Listing, Only, Read, SessionInfo},
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
    /// were written from it and stay in notebooks, as far as those list them; with `with_memory`
    /// they are redacted first.
    ///
    /// # Errors
    /// `session_not_found`, `session_held`; after another error a retry completes it.
    pub async fn erase_session(
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
            self.redact_event(caller, &item.notebook, &item.id).await?;
        }
        let erased = self.durable(self.store.erase(&caller.key(session))).await;
        // Facts of its forks contain its events.
        self.forget_facts();
        self.forget_indexed().await;
        erased.map_err(unwritten)?;
        Ok(items)
    }

    /// The items of the caller's notebooks that were written from a session.
    async fn written_from(
        &self,
        caller: &Caller,
        session: &SessionId,
    ) -> ServiceResult<Vec<ItemOf>> {
        let is_notebook = |info: &SessionInfo| is_notebook(&info.key.session);
        let mut listing = Listing {
            limit: limits::PAGE_SESSIONS_MAX,
            include_archived: true,
            only: Some(Only(Arc::new(is_notebook))),
            ..Listing::default()
        };
        let mut items = Vec::new();
        loop {
            let page = self.store.list(&caller.scope, listing.clone()).await?;
            for info in page.sessions {
                let written = self.peek_facts(&info.key, |info, facts| {
                    let is_of = |item: &&MemoryItem| {
                        item.from.as_ref().is_some_and(|from| from.session == session.as_str())
                    };
                    let item = |item: &MemoryItem| ItemOf {
                        notebook: info.key.session.clone(),
                        id: item.id.clone(),
                        position: item.position,
                    };
                    facts.memory.all().filter(is_of).map(item).collect::<Vec<_>>()
                });
                items.extend(written.await?);
            }
            listing.after = page.next;
            if listing.after.is_none() {
                return Ok(items);
            }
            tokio::task::yield_now().await;
        }
    }

    /// Removes the body of an event; returns the event as served from now on. A retry returns the
    /// same.
    ///
    /// # Errors
    /// `session_not_found`, `event_not_found`, `session_held`, `session_damaged`; after another
    /// error a retry completes the removal.
    pub async fn redact_event(
        &self,
        caller: &Caller,
        session: &SessionId,
        event: &EventId,
    ) -> ServiceResult<Event> {
        let key = caller.key(session);
        let redacted = self.durable(self.store.redact(&key, event)).await;
        // Facts folded from the body are dropped even after an error, those of forks too.
        self.forget_facts();
        self.forget_indexed().await;
        let not_found = || {
            let message = format!("session {session} has no event {event}");
            ServiceError::new(Code::EventNotFound, message)
                .action("look for its id among the session's events; it is not a position")
        };
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
}
