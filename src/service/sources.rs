//! Sources: those a caller reports, and those the server reads from what tools answered, once each.
//! It must not fetch anything.

use super::{BoundBy, Caller, Service, ServiceError, ServiceResult, Via};
use crate::{
    event::{Batch, BatchKey, EventType, NewEvent, Origin, Position, SessionId},
    projection::{
        Facts,
        body::{self, SourceBody, kind},
    },
};

/// What became of reported sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcesAdded {
    /// The session.
    pub session: SessionId,
    /// By what it was found.
    pub bound_by: BoundBy,
    /// How many were not known before.
    pub added: u64,
    /// How many the session has now.
    pub total: u64,
}

/// Times the telling is tried again because somebody wrote in between.
const ATTEMPTS_MAX: usize = 5;

/// Whether a batch holds results of tools as they come; a transcript is kept as it was.
pub(super) fn may_name(batch: &Batch) -> bool {
    let names =
        |event: &NewEvent| event.origin != Origin::Import && body::is_result(event.kind.as_str());
    batch.events.iter().any(names)
}

fn event(origin: Origin, source: &SourceBody) -> NewEvent {
    NewEvent {
        id: None,
        kind: EventType::new(kind::SOURCE).expect("it keeps to the alphabet"),
        origin,
        created_at: None,
        position: None,
        body: body::write(source),
    }
}

impl Service {
    /// Tells by events which sources the results of a batch name, after the batch; answers the tail
    /// after them. What it costs to tell is nothing that the batch can fail by: what could not be
    /// told is told after the next result.
    pub(super) async fn tell_sources(
        &self,
        caller: &Caller,
        session: &SessionId,
        tail: Position,
    ) -> Position {
        let untold = |facts: &Facts| {
            let wanted = facts.findable.waiting().map(|found| &found.source);
            let wanted = wanted.filter(|source| facts.research.wants_source(source));
            wanted.map(|source| event(Origin::Harness, source)).collect()
        };
        self.tell(caller, session, tail, ATTEMPTS_MAX, untold).await.unwrap_or_else(|error| {
            tracing::warn!(%session, code = error.code.as_str(), "sources were not told");
            tail
        })
    }

    /// Records sources a caller reports; known ones stay as they are.
    ///
    /// # Errors
    /// `session_required`, `invalid_request`, and those of the disk.
    pub async fn add_sources(
        &self,
        caller: &Caller,
        via: &Via,
        session: Option<&SessionId>,
        sources: Vec<SourceBody>,
        key: Option<BatchKey>,
    ) -> ServiceResult<SourcesAdded> {
        if sources.is_empty() {
            return Err(ServiceError::invalid("sources", "send at least one"));
        }
        if sources.iter().any(|source| source.url.trim().is_empty()) {
            return Err(ServiceError::invalid("sources", "a source needs a url"));
        }
        let (session, bound_by) = self.bound(caller, via, session).await?;
        let count = |facts: &Facts| facts.research.sources().len() as u64;
        let session_key = caller.key(&session);
        // What says nothing new is not written: the same call again changes nothing.
        let news = |facts: &Facts| {
            let new = |source: &&SourceBody| facts.research.wants_source(source);
            (count(facts), sources.iter().filter(new).cloned().collect::<Vec<_>>())
        };
        let (before, sources) = self.with_facts(&session_key, |_, facts| news(facts)).await?;
        let events: Vec<NewEvent> =
            sources.iter().map(|source| event(caller.origin, source)).collect();
        if !events.is_empty() {
            self.emit(caller, &session, Batch { events, key, ..Batch::default() }, false).await?;
        }
        self.bind(caller, via, &session);
        let total = self.with_facts(&session_key, |_, facts| count(facts)).await?;
        Ok(SourcesAdded { session, bound_by, added: total.saturating_sub(before), total })
    }
}
