//! Removing for good: the body of one event with what was made of it, or a whole session. It must
//! not return before it is removed.

use std::sync::Arc;

use super::{
    Caller, Code, Service, ServiceError, ServiceResult, is_notebook, store_error::unwritten,
};
use crate::{
    event::{Event, EventId, Position, SessionId, SessionKey, limits},
    projection::MemoryItem,
    store::{Listing, Only, SessionInfo},
};

/// An item of memory that may repeat what is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemOf {
    /// The session that keeps it, which is a notebook for most.
    pub notebook: SessionId,
    /// Its id.
    pub id: EventId,
    /// Its position in the notebook.
    pub position: Position,
}

impl ItemOf {
    /// An item that a session keeps.
    pub(super) fn of(session: &SessionId) -> impl Fn(&MemoryItem) -> Self {
        move |item: &MemoryItem| Self {
            notebook: session.clone(),
            id: item.id.clone(),
            position: item.position,
        }
    }
}

/// A redacted event, and what became of what was made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedactedEvent {
    /// The event as served from now on.
    pub event: Event,
    /// The events of its session that had words of it and were redacted with it.
    pub copies: Vec<(EventId, Position)>,
    /// The items of memory that may repeat it.
    pub memory: Vec<ItemOf>,
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
        let items = match self.written_from(caller, session, |_| true).await {
            Ok(items) => items,
            // The session is erased whatever is wrong with a notebook.
            Err(_) if !with_memory => Vec::new(),
            Err(error) => return Err(error),
        };
        for item in items.iter().filter(|_| with_memory) {
            self.take_away(&caller.key(&item.notebook), &item.id).await?;
        }
        let erased = self.durable(self.store.erase(&caller.key(session))).await;
        // Facts of its forks contain its events.
        self.forget_facts();
        self.forget_titles();
        self.forget_indexed().await;
        erased.map_err(unwritten)?;
        Ok(items)
    }

    /// Those items of the caller's notebooks that were written from a session and are wanted.
    pub(super) async fn written_from(
        &self,
        caller: &Caller,
        session: &SessionId,
        wanted: impl Fn(&MemoryItem) -> bool + Send + Sync,
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
                            && wanted(item)
                    };
                    let item = ItemOf::of(&info.key.session);
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

    /// Removes the body of an event, and the events of its session that recorders and the server
    /// made of it; returns it as served from now on, and the items of memory that may repeat it.
    /// With `with_memory` those are redacted, too. A retry completes what an error left.
    ///
    /// # Errors
    /// `session_not_found`, `event_not_found`, `session_held`, `session_damaged`.
    pub async fn redact_event(
        &self,
        caller: &Caller,
        session: &SessionId,
        event: &EventId,
        with_memory: bool,
    ) -> ServiceResult<RedactedEvent> {
        let key = caller.key(session);
        let not_found = || {
            let message = format!("session {session} has no event {event}");
            ServiceError::new(Code::EventNotFound, message)
                .action("look for its id among the session's events; it is not a position")
        };
        let position = self.take_away(&key, event).await?.ok_or_else(not_found)?;
        // Behind the event: none is made of it any more, and a retry finds them by its place.
        let copies = self.copies_of(&key, (event, position)).await?;
        // The last first: a copy of a copy is found by that one's body.
        for (copy, _) in copies.iter().rev() {
            self.take_away(&key, copy).await?;
        }
        let memory = match self.written_of(caller, session, position).await {
            Ok(items) => items,
            // The event is redacted whatever is wrong with a notebook.
            Err(_) if !with_memory => Vec::new(),
            Err(error) => return Err(error),
        };
        for item in memory.iter().filter(|_| with_memory) {
            self.take_away(&caller.key(&item.notebook), &item.id).await?;
        }
        let event = self.event_at(&key, position).await?.ok_or_else(not_found)?;
        Ok(RedactedEvent { event, copies, memory })
    }

    /// Removes the body of one event; returns its position.
    async fn take_away(
        &self,
        key: &SessionKey,
        event: &EventId,
    ) -> ServiceResult<Option<Position>> {
        let redacted = self.durable(self.store.redact(key, event)).await;
        // Facts folded from the body are dropped even after an error, those of forks too.
        self.forget_facts();
        self.forget_titles();
        self.forget_indexed().await;
        redacted.map_err(unwritten)
    }
}
