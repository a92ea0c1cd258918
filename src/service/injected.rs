//! Texts that hooks gave to models (`context.injected`) may repeat any event of the session or its
//! workspace. Hidden metadata names these events, so that a redaction or an erasure finds them
//! without reading a session. It must not read the text itself.

use super::{Caller, RESERVED_METADATA, Service, ServiceResult};
use crate::{
    event::{Batch, EventId, Position, SessionId, Timestamp, kinds, limits},
    store::{Criterion, Listing, SessionInfo},
};

/// Returns the prefix of the metadata name, which the event id follows.
fn name_prefix() -> String {
    format!("{RESERVED_METADATA}given.")
}

/// Adds the ids of the batch's texts given to a model to the session's metadata.
pub(super) fn record_injected(batch: &mut Batch) {
    let injected =
        batch.events.iter().filter(|event| event.kind.as_str() == kinds::CONTEXT_INJECTED);
    let ids = injected.filter_map(|event| event.id.as_ref());
    let notes: Vec<_> =
        ids.map(|id| (format!("{}{id}", name_prefix()), Some("yes".to_owned()))).collect();
    batch.metadata.extend(notes);
}

impl Service {
    /// Returns the texts given to models since a time in a session and its workspace, which may
    /// repeat anything recorded before.
    pub(super) async fn list_injected_since(
        &self,
        caller: &Caller,
        session: &SessionId,
        since: Timestamp,
    ) -> ServiceResult<Vec<(SessionId, EventId, Position)>> {
        let key = caller.key(session);
        let workspace = self.store.workspace(&key).await?;
        let sessions = match workspace {
            Some(workspace) => self.list_injected_sessions(caller, workspace, since).await?,
            None => vec![self.store.info(&key).await?],
        };
        let mut injected = Vec::new();
        for info in sessions {
            let names = info.metadata.keys().filter_map(|key| key.strip_prefix(&name_prefix()));
            for id in names.filter_map(|id| EventId::new(id).ok()) {
                let Some(position) = self.store.find(&info.key, &id).await? else { continue };
                let event = self.read_event(&info.key, position).await?;
                if event.is_some_and(|event| event.processed_at >= since) {
                    injected.push((info.key.session.clone(), id, position));
                }
            }
        }
        Ok(injected)
    }

    /// Returns the sessions of a workspace whose models were given a text, written to since a time.
    async fn list_injected_sessions(
        &self,
        caller: &Caller,
        workspace: String,
        since: Timestamp,
    ) -> ServiceResult<Vec<SessionInfo>> {
        let listing = Listing {
            limit: limits::LIST_EXAMINED_MAX,
            workspace: Some(workspace),
            include_archived: true,
            only: Some(Criterion::All(vec![
                Criterion::NameBegins(name_prefix()),
                Criterion::UpdatedFrom(since),
            ])),
            ..Listing::default()
        };
        self.list_all_pages(caller, listing, usize::MAX).await
    }
}
