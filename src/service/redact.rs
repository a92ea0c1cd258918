//! Redaction: the body of one event is taken away for good. It must not answer before it is.

use super::{Caller, Code, Service, ServiceError, ServiceResult, store_error::unwritten};
use crate::{
    event::{Event, EventId, Range, SessionId},
    store::{Fill, Read},
};

impl Service {
    /// Takes the body of an event away; answers the event as it is served from now on. Asked again
    /// it answers the same.
    ///
    /// # Errors
    /// `session_not_found`, `event_not_found`, `session_held`, `session_damaged`; after another
    /// error, asked again, the body is gone.
    pub async fn redact_event(
        &self,
        caller: &Caller,
        session: &SessionId,
        event: &EventId,
    ) -> ServiceResult<Event> {
        let key = caller.key(session);
        let redacted = self.durable(self.store.redact(&key, event)).await;
        // What was folded from the body goes, whatever became of the rest; its forks had it, too.
        self.forget_facts();
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
