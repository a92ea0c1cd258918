//! The master keys that a store needs and those it is given: chosen, or refused by name. It must
//! not read where an engine stores wrapped keys.

use std::sync::Arc;

use super::KeyReport;
use crate::{
    env::MasterKeys,
    event::KeyId,
    log::{
        StoreFile, StoreKeys,
        keyring::{MasterKey, OwnKey, StoredKey},
    },
};

/// Reason why a store does not open with the keys given. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyProblem {
    /// It is encrypted, and no key is set.
    #[error("the store is encrypted under the key {wanted}, and no key is set")]
    Missing {
        /// Id of the key it needs.
        wanted: KeyId,
    },
    /// It is encrypted under another key.
    #[error("the store is encrypted under the key {wanted}; the keys given are {given:?}")]
    Wrong {
        /// Id of the key it needs.
        wanted: KeyId,
        /// Ids of the keys given.
        given: Vec<KeyId>,
    },
    /// A rotation was interrupted: both keys are needed to end it.
    #[error("a rotation to the key {current} is under way: the key before, {previous}, is needed")]
    Rotating {
        /// Id of the new key of the rotation.
        current: KeyId,
        /// Id of the previous key of the rotation.
        previous: KeyId,
    },
    /// A key is set, but it is in plaintext.
    #[error("a key is set, and the store is in plaintext")]
    Plaintext,
}

/// Returns the master keys given, the current one first.
pub(crate) fn master_keys(given: &MasterKeys) -> Vec<MasterKey> {
    let given = [Some(&given.current), given.previous.as_ref()].into_iter().flatten();
    given.map(|key| MasterKey::new(key.bytes())).collect()
}

/// Returns the ids of master keys.
#[must_use]
pub fn key_ids(keys: &MasterKeys) -> Vec<KeyId> {
    master_keys(keys).iter().map(MasterKey::id).collect()
}

/// Selects the master keys that a store needs from those given, and unwraps its own key.
pub(crate) fn choose_masters(
    store: &StoreFile,
    stored: &StoreKeys,
    given: &MasterKeys,
) -> Result<(Vec<Arc<MasterKey>>, OwnKey), KeyProblem> {
    let given = master_keys(given);
    let ids: Vec<KeyId> = given.iter().map(MasterKey::id).collect();
    let wanted = stored.current.id;
    let wrong = || KeyProblem::Wrong { wanted, given: ids.clone() };
    let fits = |key: &StoredKey| given.iter().position(|master| master.has_wrapped(store.id, key));
    let first = fits(&stored.current).ok_or_else(wrong)?;
    let second = match &stored.previous {
        None => None,
        Some(previous) => Some(
            fits(previous)
                .ok_or(KeyProblem::Rotating { current: wanted, previous: previous.id })?,
        ),
    };
    let master = given.get(first).ok_or_else(wrong)?;
    let own =
        master.unwrap_own(store.id, store.created_at, &stored.current).map_err(|_| wrong())?;
    let chosen = |(at, master)| (Some(at) == Some(first) || Some(at) == second).then_some(master);
    let masters = given.into_iter().enumerate().filter_map(chosen).map(Arc::new);
    let mut masters: Vec<Arc<MasterKey>> = masters.collect();
    masters.sort_by_key(|master| master.id() != wanted);
    Ok((masters, own))
}

impl KeyReport {
    /// Creates the report of a store without keys of sessions.
    pub(crate) fn new(store: &StoreFile, stored: &StoreKeys, given: Option<&MasterKeys>) -> Self {
        let given = given.map(master_keys).unwrap_or_default();
        let has = |wanted| given.iter().any(|master| master.has_wrapped(store.id, wanted));
        Self {
            current: stored.current.id,
            previous: stored.previous.map(|previous| previous.id),
            given: given.iter().map(MasterKey::id).collect(),
            opens: has(&stored.current) && stored.previous.as_ref().is_none_or(has),
            keys: 0,
            behind: 0,
            destroyed: 0,
            unreadable: 0,
        }
    }
}
