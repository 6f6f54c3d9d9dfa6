//! Stored responses in the memory of this process. They are gone when it ends. When there is no room, the key that holds the
//! most loses its oldest conversation first.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use gw_limits::fair_share;
use parking_lot::Mutex;

use super::stored_response::{Kept, ResponseWrite, StoredResponse, entry_name};
use crate::clock::unix_seconds;

/// The bytes that the store itself needs for a response, and for an item that it finds by its id.
const BYTES_PER_ENTRY: u64 = 512;
const BYTES_PER_ITEM: u64 = 128;
/// The room that a running response holds beside its own bytes, so that its failure always finds room.
const BYTES_FOR_FAILURE: u64 = 2 << 10;

/// Responses by the id of their key's owner and their own id.
#[derive(Debug)]
pub(super) struct MemoryResponses {
    max_bytes: u64,
    max_bytes_per_key: u64,
    state: Mutex<MemoryState>,
}

#[derive(Debug, Default)]
struct MemoryState {
    entries: HashMap<String, MemoryEntry>,
    owners: HashMap<Arc<str>, OwnerEntries>,
    /// The owners in the order of the bytes that they hold.
    by_bytes: BTreeSet<(u64, Arc<str>)>,
    bytes: u64,
    /// The bytes of the responses that run.
    running_bytes: u64,
    /// The number of responses that were stored.
    stored: u64,
}

#[derive(Debug)]
struct MemoryEntry {
    owner: Arc<str>,
    response: Arc<StoredResponse>,
    /// The entry's name in the order of the owner's entries.
    number: u64,
    bytes: u64,
    /// The name of the entry that this one continues.
    parent: Option<String>,
    /// The number of entries that continue this one.
    children: usize,
    /// The response is deleted or has expired, and is kept for those that continue it.
    is_hidden: bool,
    /// The response runs in the background.
    is_running: bool,
    items: Vec<String>,
}

#[derive(Debug, Default)]
struct OwnerEntries {
    bytes: u64,
    /// The bytes of the entries that run.
    running_bytes: u64,
    /// The entries that none continues, the oldest first.
    leaves: BTreeSet<(u64, String)>,
    /// The entry of each item whose id does not name its response.
    items: HashMap<String, String>,
}

impl MemoryResponses {
    /// An empty store of at most this many bytes, for all keys and for one key.
    pub(super) fn new(max_bytes: u64, max_bytes_per_key: u64) -> Self {
        let max_bytes_per_key = max_bytes_per_key.min(max_bytes);
        Self { max_bytes, max_bytes_per_key, state: Mutex::default() }
    }

    /// The most bytes of one key.
    pub(super) fn max_bytes_per_key(&self) -> u64 {
        self.max_bytes_per_key
    }

    /// The response, unless it is deleted or expired.
    pub(super) fn get(&self, owner: &str, id: &str) -> Option<Arc<StoredResponse>> {
        let mut state = self.state.lock();
        let name = entry_name(owner, id);
        let found = state.entries.get(&name).filter(|found| !found.is_hidden)?;
        if found.response.expires_at > unix_seconds() {
            return Some(Arc::clone(&found.response));
        }
        state.hide(&name);
        None
    }

    /// The response and the ones that it continues, the newest first.
    pub(super) fn chain(&self, owner: &str, id: &str, at_most: usize) -> Vec<Arc<StoredResponse>> {
        let mut chain = Vec::new();
        if self.get(owner, id).is_none() {
            return chain;
        }
        let state = self.state.lock();
        let mut next = Some(entry_name(owner, id));
        while let Some(entry) = next.take().and_then(|name| state.entries.get(&name)) {
            chain.push(Arc::clone(&entry.response));
            next = entry.parent.clone().filter(|_| chain.len() < at_most);
        }
        chain
    }

    /// The ids of the responses that hold these items.
    pub(super) fn responses_of_items(&self, owner: &str, items: &[String]) -> Vec<String> {
        let state = self.state.lock();
        let Some(own) = state.owners.get(owner) else { return Vec::new() };
        let names = items.iter().filter_map(|item| own.items.get(item));
        names.filter_map(|name| Some(name.split_once('\n')?.1.to_owned())).collect()
    }

    /// Stores a response, and removes others if there is no room for it. Only a response that runs can be finished.
    pub(super) fn put(
        &self,
        owner: &str,
        id: &str,
        response: Arc<StoredResponse>,
        items: Vec<String>,
        write: ResponseWrite,
    ) -> Kept {
        let name = entry_name(owner, id);
        let for_failure = if write == ResponseWrite::Begin { BYTES_FOR_FAILURE } else { 0 };
        let held = response.bytes() as u64 + BYTES_PER_ENTRY + name.len() as u64 + for_failure;
        let bytes = held + items.iter().map(|item| item.len() as u64 + BYTES_PER_ITEM).sum::<u64>();
        if bytes > self.max_bytes_per_key {
            return Kept::TooLarge;
        }
        let mut state = self.state.lock();
        let runs = |entry: &MemoryEntry| entry.is_running && !entry.is_hidden;
        if write == ResponseWrite::Finish && !state.entries.get(&name).is_some_and(runs) {
            return Kept::Ended;
        }
        if write == ResponseWrite::Begin && bytes > state.running_room(owner, self.max_bytes) {
            return Kept::OverShare;
        }
        state.forget_expired(owner);
        let parent = response.turn.parent.as_deref().map(|parent| entry_name(owner, parent));
        if parent.as_ref().is_some_and(|parent| !state.may_continue(parent, &name)) {
            return Kept::ParentGone;
        }
        let entry = MemoryEntry {
            owner: owner.into(),
            response,
            number: 0,
            bytes,
            parent,
            children: 0,
            is_hidden: false,
            is_running: write == ResponseWrite::Begin,
            items,
        };
        // A response that runs stays as it is if its end finds no room.
        if !self.make_room(&mut state, &name, &entry) {
            return Kept::TooLarge;
        }
        state.insert(owner, &name, entry);
        Kept::Stored
    }

    /// Removes other responses until an entry has room. Returns false if there is still no room.
    fn make_room(&self, state: &mut MemoryState, name: &str, entry: &MemoryEntry) -> bool {
        let former = state.entries.get(name).map_or(0, |former| former.bytes);
        let more = entry.bytes.saturating_sub(former);
        let spared = [name, entry.parent.as_deref().unwrap_or(name)];
        // The entry counts as held, so that the order of the largest holders is the one that it leads to.
        state.count(&entry.owner, more, 0);
        let mut fits = true;
        while fits && state.bytes_of(&entry.owner) > self.max_bytes_per_key {
            fits = state.evict_from(&entry.owner, spared);
        }
        while fits && state.bytes > self.max_bytes {
            fits = state.evict(&entry.owner, spared);
        }
        state.count(&entry.owner, 0, more);
        fits
    }

    /// Whether the response was there.
    pub(super) fn remove(&self, owner: &str, id: &str) -> bool {
        let was_there = self.get(owner, id).is_some();
        self.state.lock().hide(&entry_name(owner, id));
        was_there
    }
}

impl MemoryState {
    /// Whether an entry of this name may continue `parent`: it is there, and the entry is not a part of its conversation, which
    /// would be a circle. An upstream that repeats its ids could make one.
    fn may_continue(&self, parent: &str, name: &str) -> bool {
        let Some(found) = self.entries.get(parent) else { return false };
        if !self.entries.contains_key(name) {
            return true;
        }
        let former = |entry: &&MemoryEntry| self.entries.get(entry.parent.as_ref()?);
        parent != name
            && !std::iter::successors(Some(found), former).any(|entry| entry.parent.as_deref() == Some(name))
    }

    /// The bytes that may be added to the running responses of an owner. Nothing makes room for those of others while they run.
    /// The only one of an owner may be larger than the share.
    fn running_room(&self, owner: &str, max_bytes: u64) -> u64 {
        let own = self.owners.get(owner).map_or(0, |own| own.running_bytes);
        let others = self.running_bytes.saturating_sub(own);
        match own {
            0 => max_bytes.saturating_sub(others),
            _ => fair_share(max_bytes, others).saturating_sub(own),
        }
    }

    fn bytes_of(&self, owner: &str) -> u64 {
        self.owners.get(owner).map_or(0, |own| own.bytes)
    }

    /// Changes the number of bytes that an owner holds.
    fn count(&mut self, owner: &Arc<str>, add: u64, subtract: u64) {
        let own = self.owners.entry(Arc::clone(owner)).or_default();
        self.by_bytes.remove(&(own.bytes, Arc::clone(owner)));
        own.bytes = (own.bytes + add).saturating_sub(subtract);
        self.bytes = (self.bytes + add).saturating_sub(subtract);
        match own.bytes {
            0 => drop(self.owners.remove(owner)),
            bytes => drop(self.by_bytes.insert((bytes, Arc::clone(owner)))),
        }
    }

    /// Inserts an entry, or replaces the one of its name. The entry that it continues is there.
    fn insert(&mut self, owner: &str, name: &str, mut entry: MemoryEntry) {
        if let Some(former) = self.entries.remove(name) {
            // The responses that continue the removed one still name it as their parent.
            entry.children = former.children;
            self.unlink(name, &former);
        }
        entry.owner = self.owners.get_key_value(owner).map_or(entry.owner, |(owner, _)| Arc::clone(owner));
        self.stored += 1;
        entry.number = self.stored;
        self.count(&Arc::clone(&entry.owner), entry.bytes, 0);
        if entry.is_running {
            self.running_bytes += entry.bytes;
            self.owners.entry(Arc::clone(&entry.owner)).or_default().running_bytes += entry.bytes;
        }
        if let Some(parent) = entry.parent.as_ref().and_then(|parent| self.entries.get_mut(parent)) {
            parent.children += 1;
            let leaf = (parent.number, entry.parent.clone().unwrap_or_default());
            self.owners.entry(Arc::clone(&entry.owner)).or_default().leaves.remove(&leaf);
        }
        let own = self.owners.entry(Arc::clone(&entry.owner)).or_default();
        if entry.children == 0 {
            own.leaves.insert((entry.number, name.to_owned()));
        }
        own.items.extend(entry.items.iter().map(|item| (item.clone(), name.to_owned())));
        self.entries.insert(name.to_owned(), entry);
    }

    /// Removes the traces of an entry that left the table. Returns the name of its parent if the parent is a leaf now.
    fn unlink(&mut self, name: &str, entry: &MemoryEntry) -> Option<String> {
        let running = if entry.is_running { entry.bytes } else { 0 };
        self.running_bytes = self.running_bytes.saturating_sub(running);
        if let Some(own) = self.owners.get_mut(&entry.owner) {
            own.running_bytes = own.running_bytes.saturating_sub(running);
            own.leaves.remove(&(entry.number, name.to_owned()));
            for item in &entry.items {
                if own.items.get(item).is_some_and(|known| known == name) {
                    own.items.remove(item);
                }
            }
        }
        let mut freed = None;
        if let Some(parent_name) = &entry.parent
            && let Some(parent) = self.entries.get_mut(parent_name)
        {
            parent.children = parent.children.saturating_sub(1);
            if parent.children == 0 {
                let leaf = (parent.number, parent_name.clone());
                self.owners.entry(Arc::clone(&entry.owner)).or_default().leaves.insert(leaf);
                freed = Some(parent_name.clone());
            }
        }
        self.count(&Arc::clone(&entry.owner), 0, entry.bytes);
        freed
    }

    /// Makes an entry unreachable. It stays as long as others continue it; entries that were kept only for it go, too.
    fn hide(&mut self, name: &str) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.is_hidden = true;
        }
        let mut next = Some(name.to_owned());
        while let Some(name) = next.take() {
            let is_gone = self.entries.get(&name).is_some_and(|entry| entry.is_hidden && entry.children == 0);
            if is_gone && let Some(entry) = self.entries.remove(&name) {
                next = self.unlink(&name, &entry);
            }
        }
    }

    /// Removes the last response of an owner's oldest conversation, but none of `spared`. Returns false if there is none.
    fn evict_from(&mut self, owner: &str, spared: [&str; 2]) -> bool {
        let Some(own) = self.owners.get(owner) else { return false };
        let may_go = |name: &&(u64, String)| {
            !spared.contains(&name.1.as_str())
                && self.entries.get(&name.1).is_some_and(|entry| !entry.is_running)
        };
        let Some((_, name)) = own.leaves.iter().find(may_go).cloned() else { return false };
        self.hide(&name);
        true
    }

    /// Removes a response of the owner that holds the most bytes, but none of `spared`. Returns false if no response may be removed.
    fn evict(&mut self, own: &str, spared: [&str; 2]) -> bool {
        let owners: Vec<Arc<str>> =
            self.by_bytes.iter().rev().take(MOST_OWNERS_ASKED).map(|(_, owner)| Arc::clone(owner)).collect();
        for owner in owners {
            if self.evict_from(&owner, spared) {
                return true;
            }
            // A key does not push out the responses of a key that holds less.
            if *owner == *own {
                return false;
            }
        }
        false
    }

    /// Removes the oldest responses of an owner that have expired.
    fn forget_expired(&mut self, owner: &str) {
        let now = unix_seconds();
        loop {
            let oldest = self.owners.get(owner).and_then(|own| own.leaves.first());
            let Some((_, name)) = oldest.cloned() else { return };
            if self.entries.get(&name).is_none_or(|entry| entry.response.expires_at > now) {
                return;
            }
            self.hide(&name);
        }
    }
}

/// The owners, the largest first, that may be asked for room when the responses of those before them all run.
const MOST_OWNERS_ASKED: usize = 16;

#[cfg(test)]
mod tests;
