//! Texts that hooks gave to models (`context.injected`), which may repeat any event of the session
//! or of others of its workspace: hidden metadata names the events, so that a redaction and an
//! erasure find them without reading a session. It must not look at what a text says.

use super::{Caller, RESERVED_METADATA, Service, ServiceResult};
use crate::{
    event::{Batch, EventId, Position, SessionId, Timestamp, kinds, limits},
    store::{Criterion, Listing, SessionInfo},
};

/// Before the id of the event, in the name of its metadata.
fn name() -> String {
    format!("{RESERVED_METADATA}given.")
}

/// Has the session note the texts of a batch that were given to a model.
pub(super) fn keep(batch: &mut Batch) {
    let given = batch.events.iter().filter(|event| event.kind.as_str() == kinds::CONTEXT_INJECTED);
    let ids = given.filter_map(|event| event.id.as_ref());
    let notes: Vec<_> = ids.map(|id| (format!("{}{id}", name()), Some("yes".to_owned()))).collect();
    batch.metadata.extend(notes);
}

impl Service {
    /// The texts that models were given since a time, in a session and the others of its workspace:
    /// they may repeat whatever was recorded before.
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

    /// The sessions of a workspace whose models were given a text, written to since a time.
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
