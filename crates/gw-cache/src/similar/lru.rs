//! Vectors by context, in bounded memory: who was of no use for longest goes first.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Unit;
use crate::key::Key;

/// Bytes beside its numbers that a vector takes, about; and a context.
const BESIDE: usize = 128;

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) vector: Unit,
    pub(super) key: Key,
}

impl Entry {
    fn bytes(&self) -> usize {
        self.vector.bytes() + BESIDE
    }
}

/// One context's vectors, the least recently useful first.
#[derive(Debug, Default)]
struct Group {
    entries: Vec<Arc<Entry>>,
    /// When it was last asked about: its place in `by_use`.
    used: u64,
}

#[derive(Debug)]
pub(super) struct Contexts {
    groups: HashMap<Key, Group>,
    by_use: BTreeMap<u64, Key>,
    uses: u64,
    bytes: usize,
    most_of_one: usize,
    most_bytes: usize,
}

impl Contexts {
    pub(super) fn new(most_of_one: usize, most_bytes: usize) -> Self {
        Self { groups: HashMap::new(), by_use: BTreeMap::new(), uses: 0, bytes: 0, most_of_one, most_bytes }
    }

    /// What is known of a context; it is one that is asked about now.
    pub(super) fn of(&mut self, context: &Key) -> Vec<Arc<Entry>> {
        self.touch(context);
        self.groups.get(context).map(|group| group.entries.clone()).unwrap_or_default()
    }

    fn touch(&mut self, context: &Key) {
        let Some(group) = self.groups.get_mut(context) else { return };
        self.by_use.remove(&group.used);
        self.uses += 1;
        group.used = self.uses;
        self.by_use.insert(group.used, *context);
    }

    pub(super) fn was_of_use(&mut self, context: &Key, key: &Key) {
        let Some(group) = self.groups.get_mut(context) else { return };
        if let Some(at) = group.entries.iter().position(|entry| entry.key == *key) {
            let entry = group.entries.remove(at);
            group.entries.push(entry);
        }
    }

    pub(super) fn add(&mut self, context: Key, vector: Unit, key: Key) {
        let entry = Entry { vector, key };
        let bytes = entry.bytes();
        if self.most_of_one == 0 || bytes + BESIDE > self.most_bytes {
            return;
        }
        self.forget(&context, &key);
        if !self.groups.contains_key(&context) {
            self.bytes += BESIDE;
            self.groups.insert(context, Group::default());
        }
        if let Some(group) = self.groups.get_mut(&context) {
            group.entries.push(Arc::new(entry));
            self.bytes += bytes;
            if group.entries.len() > self.most_of_one {
                self.bytes -= group.entries.remove(0).bytes();
            }
        }
        self.touch(&context);
        self.shrink(&context);
    }

    /// Lets contexts go until all is in bounds; of the one that is left last, its vectors.
    fn shrink(&mut self, newest: &Key) {
        while self.bytes > self.most_bytes
            && let Some((_, oldest)) = self.by_use.first_key_value()
        {
            let oldest = *oldest;
            if oldest != *newest {
                self.drop_context(&oldest);
            } else if let Some(group) = self.groups.get_mut(&oldest)
                && group.entries.len() > 1
            {
                self.bytes -= group.entries.remove(0).bytes();
            } else {
                return;
            }
        }
    }

    fn drop_context(&mut self, context: &Key) {
        if let Some(group) = self.groups.remove(context) {
            self.by_use.remove(&group.used);
            self.bytes -= BESIDE + group.entries.iter().map(|entry| entry.bytes()).sum::<usize>();
        }
    }

    pub(super) fn forget(&mut self, context: &Key, key: &Key) {
        let Some(group) = self.groups.get_mut(context) else { return };
        if let Some(at) = group.entries.iter().position(|entry| entry.key == *key) {
            self.bytes -= group.entries.remove(at).bytes();
        }
        if group.entries.is_empty() {
            self.drop_context(context);
        }
    }

    /// Vectors, and the bytes of all.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.groups.values().map(|group| group.entries.len()).sum(), self.bytes)
    }
}
