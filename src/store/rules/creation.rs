//! The creation of a session: its record, its name when the caller gave none, and what its first
//! events must keep to. It must not know which names are taken.

use std::collections::HashSet;

use crate::{
    event::{Batch, BatchKey, Scope, SessionId},
    log::{Create, Lineage},
    store::{NewSession, StoreError, StoreResult},
};

/// A name of 128 random bits: a caller without a credential needs one that cannot be guessed (MCP,
/// SEP-2567).
pub(crate) fn minted(random: [u8; 16]) -> SessionId {
    let name = format!("ses_{:032x}", u128::from_le_bytes(random));
    SessionId::new(&name).expect("minted ids keep to the alphabet")
}

/// The record of a creation.
pub(crate) fn create(
    scope: &Scope,
    session: &SessionId,
    incarnation: [u8; 16],
    new: &NewSession,
    lineage: Option<Lineage>,
) -> Create {
    Create {
        tenant: scope.tenant.as_str().to_owned(),
        user: scope.user.as_str().to_owned(),
        session: session.as_str().to_owned(),
        incarnation,
        title: new.title.clone(),
        metadata: new.metadata.clone(),
        workspace: new.workspace.clone(),
        ttl_seconds: new.ttl_seconds,
        key: new.key.as_ref().map(BatchKey::stored),
        lineage,
    }
}

/// Refuses first events of which two have the same id.
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
