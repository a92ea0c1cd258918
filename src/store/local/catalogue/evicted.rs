//! The packed entries of a scope's evicted sessions, by name and by workspace. It must not hold or
//! look up loaded sessions.

use std::{
    borrow::Borrow,
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use crate::{event::SessionId, log::Packed};

/// Evicted sessions, by name and by workspace. Both indexes share the bytes of an entry.
#[derive(Default)]
pub(super) struct Evicted {
    by_name: BTreeSet<PackedByName>,
    /// Sessions with a workspace, by workspace.
    by_workspace: BTreeMap<Box<str>, BTreeSet<PackedByName>>,
}

/// Packed entry, ordered by its session's id.
#[derive(Clone)]
struct PackedByName(Packed);

impl Borrow<str> for PackedByName {
    fn borrow(&self) -> &str {
        self.0.session()
    }
}

impl PartialEq for PackedByName {
    fn eq(&self, other: &Self) -> bool {
        self.0.session() == other.0.session()
    }
}

impl Eq for PackedByName {}

impl PartialOrd for PackedByName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PackedByName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.session().cmp(other.0.session())
    }
}

impl Evicted {
    /// Builds the index of all sessions of a scope; of two with the same name the later one is
    /// kept.
    pub(super) fn from_entries(entries: Vec<Packed>) -> Self {
        let by_name: BTreeSet<PackedByName> = entries.into_iter().map(PackedByName).collect();
        let mut of_workspaces: BTreeMap<Box<str>, Vec<PackedByName>> = BTreeMap::new();
        for one in &by_name {
            let Some(workspace) = one.0.listed().workspace else { continue };
            match of_workspaces.get_mut(workspace) {
                Some(known) => known.push(one.clone()),
                None => drop(of_workspaces.insert(workspace.into(), vec![one.clone()])),
            }
        }
        let sets = of_workspaces.into_iter().map(|(name, all)| (name, all.into_iter().collect()));
        Self { by_name, by_workspace: sets.collect() }
    }

    /// Inserts a session; replaces one of the same name.
    pub(super) fn insert(&mut self, packed: Packed) {
        self.take(packed.session());
        if let Some(workspace) = packed.listed().workspace {
            let named = PackedByName(packed.clone());
            match self.by_workspace.get_mut(workspace) {
                Some(known) => drop(known.insert(named)),
                None => drop(self.by_workspace.insert(workspace.into(), [named].into())),
            }
        }
        self.by_name.insert(PackedByName(packed));
    }

    /// Removes and returns a session.
    pub(super) fn take(&mut self, session: &str) -> Option<Packed> {
        let PackedByName(packed) = self.by_name.take(session)?;
        if let Some(workspace) = packed.listed().workspace
            && let Some(known) = self.by_workspace.get_mut(workspace)
        {
            known.remove(session);
            if known.is_empty() {
                self.by_workspace.remove(workspace);
            }
        }
        Some(packed)
    }

    pub(super) fn get(&self, session: &str) -> Option<&Packed> {
        self.by_name.get(session).map(|named| &named.0)
    }

    /// Returns all sessions in order of name.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Packed> {
        self.by_name.iter().map(|named| &named.0)
    }

    /// Returns the sessions after a name, in order of name: all, or those of a workspace.
    pub(super) fn behind<'a>(
        &'a self,
        after: Option<&SessionId>,
        workspace: Option<&str>,
    ) -> impl Iterator<Item = &'a Packed> + use<'a> {
        let from = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.as_str()));
        let all = match workspace {
            Some(workspace) => self.by_workspace.get(workspace),
            None => Some(&self.by_name),
        };
        let range = |all: &'a BTreeSet<PackedByName>| all.range::<str, _>((from, Bound::Unbounded));
        all.map(range).into_iter().flatten().map(|named| &named.0)
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::{Incarnation, Scope, SessionHash, SessionKey, Timestamp},
        log::{Create, Entry},
    };

    fn packed(session: &str, workspace: Option<&str>) -> Packed {
        let scope = Scope::local();
        let create = Create {
            tenant: scope.tenant.to_string(),
            user: scope.user.to_string(),
            session: session.to_owned(),
            incarnation: [7; 16],
            title: None,
            metadata: [].into(),
            workspace: workspace.map(str::to_owned),
            ttl_seconds: None,
            key: None,
            lineage: None,
        };
        let key = SessionKey { scope, session: SessionId::new(session).unwrap() };
        let hash = SessionHash::new(&key, Incarnation([7; 16]));
        let entry = Entry::begin(&create, hash, Timestamp(0));
        Packed::from_entry(&entry, &entry.encode())
    }

    fn names(evicted: &Evicted, after: Option<&str>, workspace: Option<&str>) -> Vec<String> {
        let after = after.map(|after| SessionId::new(after).unwrap());
        let found = evicted.behind(after.as_ref(), workspace);
        found.map(|packed| packed.session().to_owned()).collect()
    }

    #[test]
    fn a_walk_over_a_workspace_returns_exactly_its_sessions() {
        let others = (0..1_000).map(|n| packed(&format!("s{n:04}"), Some("/other")));
        let own = ["s0500b", "s0900b"].map(|name| packed(name, Some("/w")));
        let without = [packed("s0000b", None)];
        let read = Evicted::from_entries(others.chain(own).chain(without).collect());
        assert_eq!(names(&read, None, Some("/w")), ["s0500b", "s0900b"]);
        assert_eq!(names(&read, Some("s0500b"), Some("/w")), ["s0900b"]);
        assert_eq!(names(&read, None, Some("/none")), [""; 0]);
        assert_eq!(names(&read, None, None).len(), 1_003);
        assert_eq!(read.len(), 1_003);
    }

    #[test]
    fn a_removed_or_moved_session_is_not_in_its_former_workspace() {
        let mut evicted = Evicted::default();
        evicted.insert(packed("a", Some("/w")));
        evicted.insert(packed("b", Some("/w")));
        evicted.insert(packed("b", Some("/x")));
        assert_eq!(names(&evicted, None, Some("/w")), ["a"]);
        assert_eq!(names(&evicted, None, Some("/x")), ["b"]);
        assert_eq!(evicted.take("a").as_ref().map(Packed::session), Some("a"));
        assert_eq!(names(&evicted, None, Some("/w")), [""; 0]);
        assert_eq!(evicted.by_workspace.len(), 1, "an empty workspace keeps no bytes");
        assert_eq!(evicted.take("a"), None);
    }

    #[test]
    fn the_later_of_two_entries_of_a_session_is_kept() {
        let entries = vec![packed("a", Some("/w")), packed("a", Some("/x"))];
        let read = Evicted::from_entries(entries);
        assert_eq!((names(&read, None, Some("/w")), read.len()), (vec![], 1));
        assert_eq!(names(&read, None, Some("/x")), ["a"]);
    }
}
