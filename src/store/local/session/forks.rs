//! Sessions that forks read from, which stay until the last of their forks is gone. It must not
//! look up events; `ancestry` does.

use std::collections::{BTreeMap, HashSet, btree_map};

use super::ForkOrigin;
use crate::{
    event::{Incarnation, SessionHash, SessionId, SessionKey},
    log::Entry,
};

/// Forks that may still be read, by their parent.
#[derive(Default)]
pub(crate) struct Forks {
    children: BTreeMap<SessionHash, BTreeMap<SessionHash, SessionId>>,
}

/// Fork found by a start.
pub(crate) struct FoundFork {
    parent: SessionHash,
    session: SessionId,
    /// True if it cannot be restored: it was discarded, or its grace period has ended.
    gone: bool,
}

/// Every fork of a store, collected during a start.
pub(crate) type Births = BTreeMap<SessionHash, FoundFork>;

impl FoundFork {
    /// Returns the birth of a session, if it is a fork.
    pub(crate) fn from_entry(key: &SessionKey, entry: &Entry) -> Option<(SessionHash, Self)> {
        let origin = ForkOrigin::from_lineage(&key.scope, entry.lineage.as_ref()?);
        let hash = SessionHash::new(key, Incarnation(entry.incarnation));
        let gone = entry.stage.is_discarded() || entry.stage.is_reclaimed();
        Some((hash, Self { parent: origin.hash, session: key.session.clone(), gone }))
    }
}

/// Returns a fork that is its own ancestor, directly or through others: following its parents would
/// not end.
pub(crate) fn find_cycle(births: &Births) -> Option<&SessionId> {
    let mut known = HashSet::new();
    for start in births.keys() {
        let (mut at, mut way) = (*start, HashSet::new());
        while let Some(birth) = births.get(&at).filter(|_| !known.contains(&at)) {
            if !way.insert(at) {
                return Some(&birth.session);
            }
            at = birth.parent;
        }
        known.extend(way);
    }
    None
}

impl Forks {
    /// Collects the sessions that forks need; a fork that is gone needs its parent only for its own
    /// forks.
    pub(crate) fn from_births(births: &Births) -> Self {
        let mut forks = Self::default();
        for (child, birth) in births.iter().filter(|(_, birth)| !birth.gone) {
            let (mut child, mut birth) = (child, birth);
            // A parent with an earlier fork was already visited.
            while forks.add(birth.parent, *child, &birth.session) {
                match births.get_key_value(&birth.parent) {
                    Some((hash, up)) if up.gone => (child, birth) = (hash, up),
                    _ => break,
                }
            }
        }
        forks
    }

    /// Adds a fork; returns whether it is the first of its parent.
    pub(crate) fn add(&mut self, parent: SessionHash, child: SessionHash, id: &SessionId) -> bool {
        assert_ne!(parent, child, "no session is a fork of itself");
        let children = self.children.entry(parent).or_default();
        children.insert(child, id.clone());
        children.len() == 1
    }

    /// Removes a fork; returns whether it was the last of its parent.
    pub(crate) fn release(&mut self, parent: SessionHash, child: SessionHash) -> bool {
        let btree_map::Entry::Occupied(mut children) = self.children.entry(parent) else {
            return false;
        };
        let last = children.get_mut().remove(&child).is_some() && children.get().is_empty();
        if children.get().is_empty() {
            children.remove();
        }
        last
    }

    pub(crate) fn children(&self, parent: SessionHash) -> impl Iterator<Item = &SessionId> {
        self.children.get(&parent).into_iter().flat_map(BTreeMap::values)
    }

    /// Returns true if no session is a fork.
    pub(crate) fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// Returns true if forks of a session may still be read.
    pub(crate) fn has_forks(&self, session: SessionHash) -> bool {
        self.children.contains_key(&session)
    }
}
