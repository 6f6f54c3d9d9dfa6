//! One bound for the whole process over the memory in which stored responses are read: copies that were opened, readers
//! that take one slowly, and conversations that a request continues. Each key has a share of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;

use crate::error::{Error, Kind, Result};

/// The bytes that all keys may hold together.
const LIMIT_BYTES: u64 = 256 << 20;
/// The bytes that one key may hold.
const KEY_LIMIT_BYTES: u64 = 128 << 20;
/// The bytes that are counted for a reader: the pieces that wait in its connection.
pub(crate) const READER_BYTES: u64 = 128 << 10;
/// The time after which a refused reader may try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// ReadCounts the bytes that are held.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadMemory(Arc<ReadCounts>);

#[derive(Debug, Default)]
struct ReadCounts {
    used: Gauge,
    by_key: Mutex<HashMap<Arc<str>, u64>>,
}

/// Bytes that are counted until this permit is dropped.
#[derive(Debug)]
pub(crate) struct ReadPermit {
    memory: ReadMemory,
    key: Arc<str>,
    bytes: u64,
}

impl ReadMemory {
    /// The bytes in use, for the metrics.
    pub(crate) fn gauge(&self) -> Gauge {
        self.0.used.clone()
    }

    /// ReadCounts bytes for a key. A key that holds nothing gets what it asks for if there is room at all.
    ///
    /// # Errors
    /// `rate_limit_exceeded`: the key holds its share. `no_available_provider`: all keys together hold as much as they may.
    pub(crate) fn hold(&self, key: &str, bytes: u64) -> Result<ReadPermit> {
        let mut by_key = self.0.by_key.lock();
        let own = by_key.get(key).copied().unwrap_or_default();
        // The gauge changes under the same lock.
        let all = u64::try_from(self.0.used.get()).unwrap_or_default();
        if own > 0 && own.saturating_add(bytes) > KEY_LIMIT_BYTES {
            let message =
                "This key is reading or continuing as many stored responses as one key may at the same time.";
            return Err(Error::new(Kind::RateLimitExceeded, message).retry_after(RETRY_AFTER));
        }
        if all > 0 && all.saturating_add(bytes) > LIMIT_BYTES {
            let message = "The gateway is holding as many stored responses as it can.";
            return Err(Error::new(Kind::NoAvailableProvider, message).retry_after(RETRY_AFTER));
        }
        let key: Arc<str> = key.into();
        *by_key.entry(Arc::clone(&key)).or_default() += bytes;
        self.0.used.inc_by(i64::try_from(bytes).unwrap_or(i64::MAX));
        Ok(ReadPermit { memory: self.clone(), key, bytes })
    }
}

impl Drop for ReadPermit {
    fn drop(&mut self) {
        let ReadCounts { used, by_key } = &*self.memory.0;
        let mut by_key = by_key.lock();
        if let Some(own) = by_key.get_mut(&self.key) {
            *own = own.saturating_sub(self.bytes);
            if *own == 0 {
                by_key.remove(&self.key);
            }
        }
        used.dec_by(i64::try_from(self.bytes).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_holds_its_share_and_all_keys_hold_the_limit() {
        let memory = ReadMemory::default();
        let refused = |key: &str, bytes: u64| memory.hold(key, bytes).map(drop).unwrap_err().kind;
        let first = memory.hold("a", KEY_LIMIT_BYTES).unwrap();
        assert_eq!(refused("a", 1), Kind::RateLimitExceeded);
        let second = memory.hold("b", KEY_LIMIT_BYTES).unwrap();
        assert_eq!(refused("c", 1), Kind::NoAvailableProvider);
        assert_eq!(memory.gauge().get(), 256 << 20);
        drop(first);
        let third = memory.hold("c", 1).unwrap();
        assert_eq!(refused("c", LIMIT_BYTES), Kind::RateLimitExceeded);
        drop((second, third));
        assert_eq!(memory.gauge().get(), 0);
        let alone = memory.hold("a", 2 * LIMIT_BYTES).unwrap();
        assert_eq!(memory.gauge().get(), 512 << 20, "one response larger than the limit is read alone");
        drop(alone);
        assert!(memory.0.by_key.lock().is_empty());
    }
}
