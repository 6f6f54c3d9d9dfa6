//! Stored responses in the memory of this process. They are gone when it ends, and the oldest ones leave when there is no
//! room.

use std::sync::Arc;

use parking_lot::Mutex;
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
pub(super) struct MemoryResponses {
    responses: Cache<String, Arc<StoredResponse>, ByBytes>,
    /// Held by every change, so that none comes between the two steps of another one.
    changing: Mutex<()>,
}

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
        let responses = Cache::with_weighter(EXPECTED_ENTRIES, max_bytes, ByBytes);
        Self { responses, changing: Mutex::default() }
    }

    /// The response, unless it is expired.
    pub(super) fn get(&self, owner: &str, id: &str) -> Option<Arc<StoredResponse>> {
        let name = entry_name(owner, id);
        let found = self.responses.get(&name)?;
        if found.expires_at > unix_seconds() {
            return Some(found);
        }
        self.responses.remove(&name);
        None
    }

    pub(super) fn put(&self, owner: &str, id: &str, response: Arc<StoredResponse>) {
        let _changing = self.changing.lock();
        self.responses.insert(entry_name(owner, id), response);
    }

    /// Replaces a response that runs by its end; gives false, and changes nothing, if it does not run any more.
    pub(super) fn finish(&self, owner: &str, id: &str, response: Arc<StoredResponse>) -> bool {
        let _changing = self.changing.lock();
        let is_running = self.get(owner, id).is_some_and(|found| found.running_until.is_some());
        if is_running {
            self.responses.insert(entry_name(owner, id), response);
        }
        is_running
    }

    /// Whether the response was there.
    pub(super) fn remove(&self, owner: &str, id: &str) -> bool {
        let _changing = self.changing.lock();
        let was_there = self.get(owner, id).is_some();
        self.responses.remove(&entry_name(owner, id));
        was_there
    }
}
