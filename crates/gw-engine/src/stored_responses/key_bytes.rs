//! The bytes that each key stores in the database, as this process knows them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::clock;

/// The bytes that keys store in the database, as this process knows them.
#[derive(Debug, Default)]
pub(super) struct KeyBytes(Mutex<HashMap<String, (u64, Instant)>>);

/// The time after which a number is read again, because other replicas also write.
const BELIEVED: Duration = Duration::from_secs(30);
/// The keys whose numbers are kept.
const MAX_KEYS: usize = 10_000;

impl KeyBytes {
    pub(super) fn get(&self, owner: &str) -> Option<u64> {
        let known = self.0.lock();
        known.get(owner).filter(|(_, at)| clock::since(*at) < BELIEVED).map(|(bytes, _)| *bytes)
    }

    pub(super) fn set(&self, owner: &str, bytes: u64) {
        let mut known = self.0.lock();
        if known.len() >= MAX_KEYS {
            known.clear();
        }
        known.insert(owner.to_owned(), (bytes, clock::now()));
    }

    pub(super) fn add(&self, owner: &str, more: u64) {
        if let Some((bytes, _)) = self.0.lock().get_mut(owner) {
            *bytes = bytes.saturating_add(more);
        }
    }

    /// Forgets the number after a deletion, so that it is read again.
    pub(super) fn forget(&self, owner: &str) {
        self.0.lock().remove(owner);
    }
}
