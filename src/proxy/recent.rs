//! A bounded table: when it is full the oldest entry is removed. For state that a peer can make
//! grow. It must not drop an entry silently: a removed one is returned.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, HashMap},
    hash::Hash,
};

/// The latest entries.
pub(super) struct Recent<K, V> {
    entries: HashMap<K, (u64, V)>,
    /// Keys by age. Every key of `entries` is here once.
    order: BTreeMap<u64, K>,
    next: u64,
    max: usize,
}

impl<K: Clone + Eq + Hash, V> Recent<K, V> {
    pub(super) fn new(max: usize) -> Self {
        Self { entries: HashMap::new(), order: BTreeMap::new(), next: 0, max }
    }

    /// Puts an entry in as the newest; what had to go for it: what the key held, or the oldest.
    pub(super) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let replaced = self.remove(&key);
        self.order.insert(self.next, key.clone());
        self.entries.insert(key, (self.next, value));
        self.next += 1;
        if self.entries.len() <= self.max {
            return replaced;
        }
        let (_, oldest) = self.order.pop_first()?;
        self.entries.remove(&oldest).map(|(_, value)| value)
    }

    pub(super) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key).map(|(_, value)| value)
    }

    pub(super) fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.entries.get_mut(key).map(|(_, value)| value)
    }

    pub(super) fn contains<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.entries.contains_key(key)
    }

    pub(super) fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (at, value) = self.entries.remove(key)?;
        self.order.remove(&at);
        Some(value)
    }

    /// Removes and returns the entries whose keys match, the oldest first.
    pub(super) fn take(&mut self, wanted: impl Fn(&K) -> bool) -> Vec<V> {
        let keys: Vec<K> = self.order.values().filter(|key| wanted(key)).cloned().collect();
        keys.iter().filter_map(|key| self.remove(key)).collect()
    }

    /// The values, the newest first.
    pub(super) fn newest(&self) -> impl Iterator<Item = &V> {
        self.order.values().rev().filter_map(|key| self.get(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_when_there_is_no_room_and_is_handed_out() {
        let mut recent = Recent::new(2);
        assert_eq!(recent.insert("a", 1), None);
        assert_eq!(recent.insert("b", 2), None);
        assert_eq!(recent.insert("a", 3), Some(1), "the same key has one place, a new one");
        assert_eq!(recent.insert("c", 4), Some(2), "the oldest");
        assert_eq!(recent.newest().copied().collect::<Vec<_>>(), [4, 3]);
        assert_eq!(
            (recent.get("b"), recent.get("a"), recent.contains("c")),
            (None, Some(&3), true)
        );
        assert_eq!(recent.take(|key| *key != "c"), [3]);
        assert_eq!(recent.remove("c"), Some(4));
        assert_eq!(recent.newest().count(), 0);
    }
}
