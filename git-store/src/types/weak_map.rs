//! A map whose values live as long as someone uses them.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

/// Below this number of keys, unused ones stay.
const MIN_PRUNE_LEN: usize = 1024;

/// A map that drops each value with its last `Arc`.
#[derive(Debug)]
pub struct WeakMap<K, V>(Mutex<Entries<K, V>>);

#[derive(Debug)]
struct Entries<K, V> {
    by_key: HashMap<K, Weak<V>>,
    /// Number of keys at which unused ones are removed: twice as many as the last removal left.
    prune_len: usize,
}

impl<K, V> Default for WeakMap<K, V> {
    fn default() -> Self {
        Self(Mutex::new(Entries { by_key: HashMap::new(), prune_len: MIN_PRUNE_LEN }))
    }
}

impl<K: Eq + Hash, V> WeakMap<K, V> {
    /// Returns the value of `key`; calls `make` if none is in use.
    pub fn get_or_insert_with(&self, key: K, make: impl FnOnce() -> V) -> Arc<V> {
        let mut entries = self.0.lock();
        if let Some(value) = entries.by_key.get(&key).and_then(Weak::upgrade) {
            return value;
        }
        if entries.by_key.len() >= entries.prune_len {
            entries.by_key.retain(|_, value| value.strong_count() > 0);
            entries.prune_len = MIN_PRUNE_LEN.max(2 * entries.by_key.len());
        }
        let value = Arc::new(make());
        entries.by_key.insert(key, Arc::downgrade(&value));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn len(map: &WeakMap<usize, usize>) -> usize {
        map.0.lock().by_key.len()
    }

    #[test]
    fn users_of_a_key_share_its_value() {
        let map = WeakMap::default();
        let one = map.get_or_insert_with(1, || 10);
        assert!(Arc::ptr_eq(&one, &map.get_or_insert_with(1, || 11)));
        assert_eq!(*map.get_or_insert_with(2, || 20), 20);
        drop(one);
        assert_eq!(*map.get_or_insert_with(1, || 12), 12, "it went with its last user");
    }

    #[test]
    fn unused_keys_are_pruned_and_used_ones_are_not_looked_through_each_time() {
        let map = WeakMap::default();
        for key in 0..10 * MIN_PRUNE_LEN {
            map.get_or_insert_with(key, || key);
            assert!(len(&map) <= MIN_PRUNE_LEN);
        }
        let used: Vec<_> = (0..MIN_PRUNE_LEN).map(|key| map.get_or_insert_with(key, || key)).collect();
        for key in MIN_PRUNE_LEN..2 * MIN_PRUNE_LEN {
            map.get_or_insert_with(key, || key);
        }
        assert!(len(&map) > MIN_PRUNE_LEN + 1, "unused keys stay until there are as many as used ones");
        drop(used);
        for key in 0..4 * MIN_PRUNE_LEN {
            map.get_or_insert_with(key, || key);
        }
        assert!(len(&map) <= MIN_PRUNE_LEN);
    }
}
