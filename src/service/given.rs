//! Texts that hooks gave to models (`context.injected`) may repeat any event of the session or its
//! workspace. Hidden metadata names these events, so that a redaction or an erasure finds them
//! without reading a session. It must not read the text itself.

use super::{Caller, RESERVED_METADATA, Service, ServiceResult};
use crate::{
    event::{Batch, EventId, Position, SessionId, Timestamp, kinds, limits},
    store::{Criterion, Listing, SessionInfo},
};

/// Returns the prefix of the metadata name, which the event id follows.
fn name() -> String {
    format!("{RESERVED_METADATA}given.")
}

/// Adds the ids of the batch's texts given to a model to the session's metadata.
pub(super) fn keep(batch: &mut Batch) {
    let given = batch.events.iter().filter(|event| event.kind.as_str() == kinds::CONTEXT_INJECTED);
    let ids = given.filter_map(|event| event.id.as_ref());
    let notes: Vec<_> = ids.map(|id| (format!("{}{id}", name()), Some("yes".to_owned()))).collect();
    batch.metadata.extend(notes);
}

impl Service {
    /// Returns the texts given to models since a time in a session and its workspace, which may
    /// repeat anything recorded before.
    pub(super) async fn given_since(
        &self,
        caller: &Caller,
        session: &SessionId,
        since: Timestamp,
    ) -> ServiceResult<Vec<(SessionId, EventId, Position)>> {
        let key = caller.key(session);
        let workspace = self.store.workspace(&key).await?;
        let sessions = match workspace {
            Some(workspace) => self.sessions_given(caller, workspace, since).await?,
            None => vec![self.store.info(&key).await?],
        };
        let mut given = Vec::new();
        for info in sessions {
            let names = info.metadata.keys().filter_map(|key| key.strip_prefix(&name()));
            for id in names.filter_map(|id| EventId::new(id).ok()) {
                let Some(position) = self.store.find(&info.key, &id).await? else { continue };
                let event = self.event_at(&info.key, position).await?;
                if event.is_some_and(|event| event.processed_at >= since) {
                    given.push((info.key.session.clone(), id, position));
                }
            }
        }
        Ok(given)
    }

    /// Returns the sessions of a workspace whose models were given a text, written to since a time.
    async fn sessions_given(
        &self,
        caller: &Caller,
        workspace: String,
        since: Timestamp,
    ) -> ServiceResult<Vec<SessionInfo>> {
        let listing = Listing {
            limit: limits::LISTED_LOOKS_MAX,
            workspace: Some(workspace),
            include_archived: true,
            only: Some(Criterion::All(vec![
                Criterion::NameBegins(name()),
                Criterion::UpdatedFrom(since),
            ])),
            ..Listing::default()
        };
        self.all_listed(caller, listing, usize::MAX).await
    }
}
