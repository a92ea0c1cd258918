//! Every session of the store by name, in memory, so that listing opens none. It must not hold
//! anything that `settled/` and the journal do not say.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound,
    sync::Arc,
};

use super::session::Session;
use crate::{
    event::{Scope, SessionHash, SessionId, SessionKey},
    store::{Listing, SessionInfo},
};

/// The sessions of a store.
#[derive(Default)]
pub(super) struct Catalogue {
    by_key: BTreeMap<SessionKey, Arc<Session>>,
    by_hash: HashMap<SessionHash, Arc<Session>>,
    by_create_key: HashMap<(Scope, String), SessionId>,
}

impl Catalogue {
    pub(super) fn insert(&mut self, session: Arc<Session>, create_key: Option<String>) {
        if let Some(key) = create_key {
            let age = |session: &Session| session.state().entry.created_at;
            let known = self.created_by(&session.key.scope, &key);
            if known.is_none_or(|known| age(&known) <= age(&session)) {
                let name = session.key.session.clone();
                self.by_create_key.insert((session.key.scope.clone(), key), name);
            }
        }
        self.by_hash.insert(session.hash, Arc::clone(&session));
        self.by_key.insert(session.key.clone(), session);
    }

    /// Forgets a session whose creation failed.
    pub(super) fn remove(&mut self, session: &Session) {
        self.by_hash.remove(&session.hash);
        self.by_key.remove(&session.key);
        self.by_create_key.retain(|(scope, _), name| {
            (scope, &*name) != (&session.key.scope, &session.key.session)
        });
    }

    pub(super) fn get(&self, key: &SessionKey) -> Option<Arc<Session>> {
        self.by_key.get(key).map(Arc::clone)
    }

    pub(super) fn by_hash(&self, hash: SessionHash) -> Option<Arc<Session>> {
        self.by_hash.get(&hash).map(Arc::clone)
    }

    /// The session that this `Idempotency-Key` created.
    pub(super) fn created_by(&self, scope: &Scope, key: &str) -> Option<Arc<Session>> {
        let name = self.by_create_key.get(&(scope.clone(), key.to_owned()))?;
        self.get(&SessionKey { scope: scope.clone(), session: name.clone() })
    }

    pub(super) fn all(&self) -> Vec<Arc<Session>> {
        self.by_key.values().map(Arc::clone).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// The sessions of a scope.
    pub(super) fn of_scope(&self, scope: &Scope) -> Vec<Arc<Session>> {
        let first = SessionId::new("0").expect("a digit is an id, and no id sorts before it");
        let first = SessionKey { scope: scope.clone(), session: first };
        let range = self.by_key.range((Bound::Included(first), Bound::Unbounded));
        range.take_while(|(key, _)| key.scope == *scope).map(|(_, one)| Arc::clone(one)).collect()
    }

    /// A page of a scope's sessions.
    pub(super) fn list(&self, scope: &Scope, listing: &Listing) -> Vec<SessionInfo> {
        let mut found: Vec<SessionInfo> = self
            .of_scope(scope)
            .iter()
            .filter_map(|session| session.visible().ok().map(|state| session.info(&state)))
            .filter(|info| listing.admits(info))
            .collect();
        found.sort_by(|a, b| (a.created_at, &a.key.session).cmp(&(b.created_at, &b.key.session)));
        if !listing.ascending {
            found.reverse();
        }
        found.truncate(listing.limit);
        found
    }
}
