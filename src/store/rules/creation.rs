//! The creation of a session: its record, its minted id, the checks of its first events, and the
//! effect of an earlier session of the same key or id. It must not look one up.

use std::collections::HashSet;

use crate::{
    event::{Batch, BatchKey, Scope, SessionId, Timestamp},
    log::{CreateRecord, Entry, ForkParent},
    store::{NewSession, StoreError, StoreResult},
};

/// Mints an id of 128 random bits: a caller without a credential needs one that cannot be guessed
/// (MCP, SEP-2567).
pub(crate) fn mint_session_id(random: [u8; 16]) -> SessionId {
    let name = format!("ses_{:032x}", u128::from_le_bytes(random));
    SessionId::new(&name).expect("minted ids keep to the alphabet")
}

/// Relation of an earlier creation to a new request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EarlierCreation {
    /// The earlier one is in flight: wait for its outcome.
    Wait,
    /// It is the same request: it is answered from the stored session.
    Repeated,
}

impl EarlierCreation {
    /// Returns the relation of the stored creation with the same key: `Wait` while it is in flight,
    /// `None` if it is older than `live_from`, when its key has expired.
    pub(crate) fn from_key(stored: Option<&Entry>, live_from: Timestamp) -> Option<Self> {
        match stored {
            None => Some(Self::Wait),
            Some(entry) => (entry.created_at >= live_from.0).then_some(Self::Repeated),
        }
    }
}

/// Rejects a creation whose id a stored session has; while the creation of that one is in flight,
/// the caller waits for its outcome.
///
/// # Errors
/// [`StoreError::SessionExists`], and those of a session hidden from readers.
pub(crate) fn check_id_is_free(stored: Option<&Entry>, session: &SessionId) -> StoreResult<()> {
    let Some(entry) = stored else { return Ok(()) };
    entry.check_visible(session)?;
    Err(StoreError::SessionExists { session: session.clone() })
}

/// Builds the record of a creation.
pub(crate) fn creation_record(
    scope: &Scope,
    session: &SessionId,
    incarnation: [u8; 16],
    new: &NewSession,
    lineage: Option<ForkParent>,
) -> CreateRecord {
    CreateRecord {
        tenant: scope.tenant.as_str().to_owned(),
        user: scope.user.as_str().to_owned(),
        session: session.as_str().to_owned(),
        incarnation,
        title: new.title.clone(),
        metadata: new.metadata.clone(),
        workspace: new.workspace.clone(),
        ttl_seconds: new.ttl_seconds,
        key: new.key.as_ref().map(BatchKey::to_stored),
        lineage,
    }
}

/// Rejects first events of which two have the same id.
///
/// # Errors
/// [`StoreError::DuplicateEventId`] with the id.
pub(crate) fn check_first_ids(batch: &Batch) -> StoreResult<()> {
    let mut seen = HashSet::new();
    let ids = batch.events.iter().filter_map(|event| event.id.as_ref());
    match ids.into_iter().find(|id| !seen.insert(*id)) {
        Some(id) => Err(StoreError::DuplicateEventId { id: id.clone() }),
        None => Ok(()),
    }
}
