//! The verb that marks an event as important, wrong or done. It must not change the event.

use super::{
    Caller, Code, Service, ServiceError, ServiceResult, added::new_event, memory::check_importance,
};
use crate::{
    api::memory::{EventMarked, MarkKind, MarkRequest},
    event::{Batch, BatchKey, EventId, SessionId, kinds},
    projection::{
        Facts,
        body::{self, MarkBody},
    },
};

/// Maximum number of characters of a note.
const NOTE_CHARS_MAX: usize = 400;

impl Service {
    /// Marks an event; durable on return. Returns the latest mark of each kind on the event. A
    /// retry with the same key writes nothing more.
    ///
    /// # Errors
    /// `invalid_request`, `event_not_found`, and those of the session and the engine.
    pub async fn mark_event(
        &self,
        caller: &Caller,
        session: &SessionId,
        of: &EventId,
        asked: MarkRequest,
        key: Option<BatchKey>,
    ) -> ServiceResult<EventMarked> {
        let MarkRequest { mark, importance, note } = asked;
        if MarkKind::parse(&mark).is_none() {
            return Err(ServiceError::invalid("mark", "important, wrong or done is expected"));
        }
        check_importance(importance)?;
        if note.as_ref().is_some_and(|note| note.chars().count() > NOTE_CHARS_MAX) {
            let problem = format!("at most {NOTE_CHARS_MAX} characters");
            return Err(ServiceError::invalid("note", problem));
        }
        let at = caller.key(session);
        let info = self.store.info(&at).await?;
        let Some(position) = self.store.find(&at, of).await? else {
            let message = format!("session {session} has no event {of}");
            return Err(ServiceError::new(Code::EventNotFound, message)
                .action("look for its id among the session's events; it is not a position"));
        };
        let position = Some(position.0);
        let of_event = of.to_string();
        let body = body::write(&MarkBody { of: of_event, mark, position, importance, note });
        let events = [new_event(kinds::EVENT_MARKED, caller.origin, body)];
        // A mark is no work in the session.
        let metadata = info.kept_work_time(1);
        let batch = Batch { events: events.into(), key, metadata, ..Batch::default() };
        self.append(caller, session, batch, false).await?;
        let look = |facts: &Facts| facts.marks.of_event(of).to_vec();
        let marks = self.peek_facts(&at, |_, facts| look(facts)).await?;
        Ok(EventMarked { session: session.clone(), event: of.clone(), marks })
    }
}
