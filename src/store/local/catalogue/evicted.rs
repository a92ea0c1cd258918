//! The packed entries of a scope's evicted sessions, by name and by workspace. It must not hold or
//! look up loaded sessions.

use std::{
    borrow::Borrow,
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use crate::{event::SessionId, log::PackedEntry};

/// Evicted sessions, by name and by workspace. Both indexes share the bytes of an entry.
#[derive(Default)]
pub(super) struct EvictedSessions {
    by_name: BTreeSet<PackedByName>,
    by_workspace: BTreeMap<Box<str>, BTreeSet<PackedByName>>,
}

/// Packed entry, ordered by its session's id.
#[derive(Clone)]
struct PackedByName(PackedEntry);

impl Borrow<str> for PackedByName {
    fn borrow(&self) -> &str {
        self.0.session_id()
    }
}

impl PartialEq for PackedByName {
    fn eq(&self, other: &Self) -> bool {
        self.0.session_id() == other.0.session_id()
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
        self.0.session_id().cmp(other.0.session_id())
    }
}

impl EvictedSessions {
    /// Builds the index of all sessions of a scope; of two with the same name the later one is
    /// kept.
    pub(super) fn from_entries(entries: Vec<PackedEntry>) -> Self {
        let by_name: BTreeSet<PackedByName> = entries.into_iter().map(PackedByName).collect();
        let mut of_workspaces: BTreeMap<Box<str>, Vec<PackedByName>> = BTreeMap::new();
        for one in &by_name {
            let Some(workspace) = one.0.listing_fields().workspace else { continue };
            match of_workspaces.get_mut(workspace) {
                Some(known) => known.push(one.clone()),
                None => drop(of_workspaces.insert(workspace.into(), vec![one.clone()])),
            }
        }
        let sets = of_workspaces.into_iter().map(|(name, all)| (name, all.into_iter().collect()));
        Self { by_name, by_workspace: sets.collect() }
    }

    /// Inserts a session; replaces one of the same name.
    pub(super) fn insert(&mut self, packed: PackedEntry) {
        self.take(packed.session_id());
        if let Some(workspace) = packed.listing_fields().workspace {
            let named = PackedByName(packed.clone());
            match self.by_workspace.get_mut(workspace) {
                Some(known) => drop(known.insert(named)),
                None => drop(self.by_workspace.insert(workspace.into(), [named].into())),
            }
        }
        self.by_name.insert(PackedByName(packed));
    }

    /// Removes and returns a session.
    pub(super) fn take(&mut self, session: &str) -> Option<PackedEntry> {
        let PackedByName(packed) = self.by_name.take(session)?;
        if let Some(workspace) = packed.listing_fields().workspace
            && let Some(known) = self.by_workspace.get_mut(workspace)
        {
            known.remove(session);
            if known.is_empty() {
                self.by_workspace.remove(workspace);
            }
        }
        Some(packed)
    }

    pub(super) fn get(&self, session: &str) -> Option<&PackedEntry> {
        self.by_name.get(session).map(|named| &named.0)
    }

    /// Returns all sessions in order of name.
    pub(super) fn iter(&self) -> impl Iterator<Item = &PackedEntry> {
        self.by_name.iter().map(|named| &named.0)
    }

    /// Returns the sessions after a name, in order of name: all, or those of a workspace.
    pub(super) fn iter_after<'a>(
        &'a self,
        after: Option<&SessionId>,
        workspace: Option<&str>,
    ) -> impl Iterator<Item = &'a PackedEntry> + use<'a> {
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
        log::{CreateRecord, Entry},
    };

    fn packed_session(session: &str, workspace: Option<&str>) -> PackedEntry {
        let scope = Scope::local();
        let create = CreateRecord {
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
        let entry = Entry::from_create(&create, hash, Timestamp(0));
        PackedEntry::from_entry(&entry, &entry.encode())
    }

    fn ids(evicted: &EvictedSessions, after: Option<&str>, workspace: Option<&str>) -> Vec<String> {
        let after = after.map(|after| SessionId::new(after).unwrap());
        let found = evicted.iter_after(after.as_ref(), workspace);
        found.map(|packed| packed.session_id().to_owned()).collect()
    }

    #[test]
    fn an_iteration_over_a_workspace_returns_only_its_sessions_in_order() {
        let others = (0..1_000).map(|n| packed_session(&format!("s{n:04}"), Some("/other")));
        let own = ["s0500b", "s0900b"].map(|name| packed_session(name, Some("/w")));
        let without = [packed_session("s0000b", None)];
        let read = EvictedSessions::from_entries(others.chain(own).chain(without).collect());
        assert_eq!(ids(&read, None, Some("/w")), ["s0500b", "s0900b"]);
        assert_eq!(ids(&read, Some("s0500b"), Some("/w")), ["s0900b"]);
        assert_eq!(ids(&read, None, Some("/none")), [""; 0]);
        assert_eq!(ids(&read, None, None).len(), 1_003);
        assert_eq!(read.len(), 1_003);
    }

    #[test]
    fn a_removed_or_moved_session_is_not_in_its_former_workspace() {
        let mut evicted = EvictedSessions::default();
        evicted.insert(packed_session("a", Some("/w")));
        evicted.insert(packed_session("b", Some("/w")));
        evicted.insert(packed_session("b", Some("/x")));
        assert_eq!(ids(&evicted, None, Some("/w")), ["a"]);
        assert_eq!(ids(&evicted, None, Some("/x")), ["b"]);
        assert_eq!(evicted.take("a").as_ref().map(PackedEntry::session_id), Some("a"));
        assert_eq!(ids(&evicted, None, Some("/w")), [""; 0]);
        assert_eq!(evicted.by_workspace.len(), 1, "an empty workspace keeps no bytes");
        assert_eq!(evicted.take("a"), None);
    }

    #[test]
    fn of_two_entries_with_the_same_name_the_later_is_kept() {
        let entries = vec![packed_session("a", Some("/w")), packed_session("a", Some("/x"))];
        let read = EvictedSessions::from_entries(entries);
        assert_eq!((ids(&read, None, Some("/w")), read.len()), (vec![], 1));
        assert_eq!(ids(&read, None, Some("/x")), ["a"]);
    }
}
