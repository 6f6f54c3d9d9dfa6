//! Stored responses in the memory of this process. They are gone when it ends, and the oldest ones leave when there is no
//! room.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::{StoredResponse, entry_name};
use crate::clock::unix_seconds;

/// The bytes that the cache itself needs for an entry.
const BYTES_PER_ENTRY: u64 = 256;
/// The number of responses for which the cache reserves its tables.
const EXPECTED_ENTRIES: usize = 1024;

/// Responses by the id of their key's owner and their own id.
#[derive(Debug)]
pub(super) struct MemoryResponses(Cache<String, Arc<StoredResponse>, ByBytes>);

#[derive(Clone, Debug)]
struct ByBytes;

impl Weighter<String, Arc<StoredResponse>> for ByBytes {
    fn weight(&self, name: &String, response: &Arc<StoredResponse>) -> u64 {
        BYTES_PER_ENTRY + (name.len() + response.bytes()) as u64
    }
}

impl MemoryResponses {
    /// An empty store of at most this many bytes.
    pub(super) fn new(max_bytes: u64) -> Self {
        Self(Cache::with_weighter(EXPECTED_ENTRIES, max_bytes, ByBytes))
    }

    /// The response, unless it is expired.
    pub(super) fn get(&self, owner: &str, id: &str) -> Option<Arc<StoredResponse>> {
        let name = entry_name(owner, id);
        let found = self.0.get(&name)?;
        if found.expires_at > unix_seconds() {
            return Some(found);
        }
        self.0.remove(&name);
        None
    }

    pub(super) fn put(&self, owner: &str, id: &str, response: Arc<StoredResponse>) {
        self.0.insert(entry_name(owner, id), response);
    }

    /// Whether the response was there.
    pub(super) fn remove(&self, owner: &str, id: &str) -> bool {
        let was_there = self.get(owner, id).is_some();
        self.0.remove(&entry_name(owner, id));
        was_there
    }
}
