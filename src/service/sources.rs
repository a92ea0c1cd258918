//! Records sources that a caller reports, without duplicates. It must not fetch anything.

use super::{
    BoundBy, Caller, ClientIdentity, Service, ServiceError, ServiceResult, added::new_event,
};
use crate::{
    event::{Batch, BatchKey, NewEvent, SessionId, kinds},
    projection::{
        Facts,
        body::{self, SourceBody},
        normalize_url,
    },
};

/// Result of reporting sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcesAdded {
    /// Session with the sources.
    pub session: SessionId,
    /// How the session was found.
    pub bound_by: BoundBy,
    /// Number of new sources.
    pub added: u64,
    /// Total number of sources of the session.
    pub total: u64,
}

impl Service {
    /// Records sources that a caller reports; known sources stay unchanged.
    ///
    /// # Errors
    /// `session_required`, `invalid_request`, and those of the engine.
    pub async fn add_sources(
        &self,
        caller: &Caller,
        via: &ClientIdentity,
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
        let (session, bound_by) = self.resolve_session(caller, via, session).await?;
        let count = |facts: &Facts| facts.research.sources().len() as u64;
        let session_key = caller.key(&session);
        // A source without new members is not written: a repeated call changes nothing.
        let news = |facts: &Facts| {
            let new = |source: &&SourceBody| facts.research.would_add_source(source);
            (count(facts), merge_by_page(sources.iter().filter(new)))
        };
        let (before, sources) = self.with_facts(&session_key, |_, facts| news(facts)).await?;
        let events: Vec<NewEvent> = sources
            .iter()
            .map(|source| new_event(kinds::SOURCE_FOUND, caller.origin, body::write(source)))
            .collect();
        if !events.is_empty() {
            self.emit(
                caller,
                &session,
                Batch { events: events.into(), key, ..Batch::default() },
                false,
            )
            .await?;
        }
        self.bind(caller, via, &session);
        let total = self.with_facts(&session_key, |_, facts| count(facts)).await?;
        Ok(SourcesAdded { session, bound_by, added: total.saturating_sub(before), total })
    }
}

/// Merges the sources of one call by page, with the members of all reports.
fn merge_by_page<'a>(sources: impl Iterator<Item = &'a SourceBody>) -> Vec<SourceBody> {
    let mut pages: Vec<(Option<String>, SourceBody)> = Vec::new();
    for source in sources {
        let name = normalize_url(&source.url);
        let Some((_, page)) = pages.iter_mut().find(|(known, _)| *known == name) else {
            pages.push((name, source.clone()));
            continue;
        };
        page.title = page.title.take().or_else(|| source.title.clone());
        page.kind = page.kind.take().or_else(|| source.kind.clone());
    }
    pages.into_iter().map(|(_, page)| page).collect()
}
