//! Redaction: the body of one event is removed for good. It must not return before it is.

use super::{Caller, Code, Service, ServiceError, ServiceResult, store_error::unwritten};
use crate::{
    event::{Event, EventId, Range, SessionId},
    store::{Fill, Read},
};

impl Service {
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
