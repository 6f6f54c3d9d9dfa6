//! A table of a bounded number of entries, which belong to keys. Where it is full, the key with the most entries loses its oldest one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The age at which an entry is forgotten.
const MAX_AGE: Duration = Duration::from_secs(86_400);

#[derive(Debug)]
struct TableSlot<V> {
    value: V,
    at: Instant,
}

/// The table.
#[derive(Debug)]
pub(super) struct BoundedTable<V> {
    keys: HashMap<Arc<str>, HashMap<Arc<str>, TableSlot<V>>>,
    len: usize,
    capacity: usize,
    capacity_of_key: usize,
}

impl<V> BoundedTable<V> {
    pub(super) fn new(capacity: usize, capacity_of_key: usize) -> Self {
        Self { keys: HashMap::new(), len: 0, capacity, capacity_of_key }
    }

    /// The entry of this name.
    pub(super) fn get(&self, key: &str, name: &str, now: Instant) -> Option<&V> {
        let slot = self.keys.get(key)?.get(name)?;
        is_fresh(slot, now).then_some(&slot.value)
    }

    /// Takes the entry of this name out.
    pub(super) fn remove(&mut self, key: &str, name: &str, now: Instant) -> Option<V> {
        let names = self.keys.get_mut(key)?;
        let slot = names.remove(name)?;
        self.len -= 1;
        if names.is_empty() {
            self.keys.remove(key);
        }
        is_fresh(&slot, now).then_some(slot.value)
    }

    /// Puts an entry in.
    pub(super) fn insert(&mut self, key: &Arc<str>, name: &Arc<str>, value: V, now: Instant) {
        let of_key = self.keys.get(key).map_or(0, HashMap::len);
        if of_key >= self.capacity_of_key {
            self.forget_oldest(&Arc::clone(key));
        } else if self.len >= self.capacity
            && let Some((largest, _)) = self.keys.iter().max_by_key(|(_, names)| names.len())
        {
            self.forget_oldest(&Arc::clone(largest));
        }
        let names = self.keys.entry(Arc::clone(key)).or_default();
        if names.insert(Arc::clone(name), TableSlot { value, at: now }).is_none() {
            self.len += 1;
        }
    }

    fn forget_oldest(&mut self, key: &str) {
        let Some(names) = self.keys.get_mut(key) else { return };
        let oldest = names.iter().min_by_key(|(_, slot)| slot.at).map(|(name, _)| Arc::clone(name));
        if oldest.and_then(|name| names.remove(&name)).is_some() {
            self.len -= 1;
        }
        if names.is_empty() {
            self.keys.remove(key);
        }
    }
}

fn is_fresh<V>(slot: &TableSlot<V>, now: Instant) -> bool {
    now.saturating_duration_since(slot.at) < MAX_AGE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_with_many_entries_cannot_push_out_those_of_others() {
        let mut table = BoundedTable::new(10, 8);
        let (small, large): (Arc<str>, Arc<str>) = ("small".into(), "large".into());
        let now = Instant::now();
        let name = |number: u64| -> Arc<str> { number.to_string().into() };
        table.insert(&small, &name(0), 0, now);
        table.insert(&small, &name(1), 1, now);
        for number in 0..1_000 {
            let at = now + Duration::from_millis(number);
            table.insert(&large, &name(number), number, at);
            assert!(table.len <= 10);
        }
        assert_eq!(table.get(&small, "0", now), Some(&0));
        assert_eq!(table.get(&large, "999", now), Some(&999));
        assert_eq!(table.get(&large, "991", now), None);
        let third: Arc<str> = "third".into();
        table.insert(&third, &name(7), 7, now);
        assert_eq!((table.len, table.get(&third, "7", now)), (10, Some(&7)));
        assert_eq!(table.get(&third, "7", now + MAX_AGE), None);
        assert_eq!(table.remove(&third, "7", now + MAX_AGE), None);
        assert_eq!((table.len, table.keys.contains_key(&third)), (9, false));
    }
}
