//! Vectors by context, in bounded memory. The least recently used one is dropped first.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::vector::UnitVector;
use crate::key::Key;

/// The approximate overhead of a vector, and of a context, in bytes.
const OVERHEAD_BYTES: usize = 128;

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) vector: UnitVector,
    pub(super) key: Key,
}

impl Entry {
    fn size_bytes(&self) -> usize {
        self.vector.size_bytes() + OVERHEAD_BYTES
    }
}

/// The vectors of one context, the least recently used first.
#[derive(Debug, Default)]
struct Group {
    entries: Vec<Arc<Entry>>,
    /// The number of its last lookup, which is its key in `by_last_lookup`.
    last_lookup: u64,
}

#[derive(Debug)]
pub(super) struct Contexts {
    groups: HashMap<Key, Group>,
    by_last_lookup: BTreeMap<u64, Key>,
    /// The number of lookups and additions so far.
    lookups: u64,
    bytes: usize,
    max_vectors_per_context: usize,
    max_bytes: usize,
}

impl Contexts {
    pub(super) fn new(max_vectors_per_context: usize, max_bytes: usize) -> Self {
        Self {
            groups: HashMap::new(),
            by_last_lookup: BTreeMap::new(),
            lookups: 0,
            bytes: 0,
            max_vectors_per_context,
            max_bytes,
        }
    }

    /// The vectors of a context. Marks the context as used.
    pub(super) fn entries(&mut self, context: &Key) -> Vec<Arc<Entry>> {
        self.touch(context);
        self.groups.get(context).map(|group| group.entries.clone()).unwrap_or_default()
    }

    fn touch(&mut self, context: &Key) {
        let Some(group) = self.groups.get_mut(context) else { return };
        self.by_last_lookup.remove(&group.last_lookup);
        self.lookups += 1;
        group.last_lookup = self.lookups;
        self.by_last_lookup.insert(group.last_lookup, *context);
    }

    /// Marks the vector of an answer as used.
    pub(super) fn mark_used(&mut self, context: &Key, key: &Key) {
        let Some(group) = self.groups.get_mut(context) else { return };
        if let Some(at) = group.entries.iter().position(|entry| entry.key == *key) {
            let entry = group.entries.remove(at);
            group.entries.push(entry);
        }
    }

    pub(super) fn add(&mut self, context: Key, vector: UnitVector, key: Key) {
        let entry = Entry { vector, key };
        let bytes = entry.size_bytes();
        if self.max_vectors_per_context == 0 || bytes + OVERHEAD_BYTES > self.max_bytes {
            return;
        }
        self.remove(&context, &key);
        if !self.groups.contains_key(&context) {
            self.bytes += OVERHEAD_BYTES;
            self.groups.insert(context, Group::default());
        }
        if let Some(group) = self.groups.get_mut(&context) {
            group.entries.push(Arc::new(entry));
            self.bytes += bytes;
            if group.entries.len() > self.max_vectors_per_context {
                self.bytes -= group.entries.remove(0).size_bytes();
            }
        }
        self.touch(&context);
        self.shrink(&context);
    }

    /// Drops contexts until the index fits, then vectors of the newest context.
    fn shrink(&mut self, newest: &Key) {
        while self.bytes > self.max_bytes
            && let Some((_, oldest)) = self.by_last_lookup.first_key_value()
        {
            let oldest = *oldest;
            if oldest != *newest {
                self.drop_context(&oldest);
            } else if let Some(group) = self.groups.get_mut(&oldest)
                && group.entries.len() > 1
            {
                self.bytes -= group.entries.remove(0).size_bytes();
            } else {
                return;
            }
        }
    }

    fn drop_context(&mut self, context: &Key) {
        if let Some(group) = self.groups.remove(context) {
            self.by_last_lookup.remove(&group.last_lookup);
            self.bytes -=
                OVERHEAD_BYTES + group.entries.iter().map(|entry| entry.size_bytes()).sum::<usize>();
        }
    }

    /// Removes the vector of an answer.
    pub(super) fn remove(&mut self, context: &Key, key: &Key) {
        let Some(group) = self.groups.get_mut(context) else { return };
        if let Some(at) = group.entries.iter().position(|entry| entry.key == *key) {
            self.bytes -= group.entries.remove(at).size_bytes();
        }
        if group.entries.is_empty() {
            self.drop_context(context);
        }
    }

    /// The number of vectors, and the memory of the index in bytes.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.groups.values().map(|group| group.entries.len()).sum(), self.bytes)
    }
}
