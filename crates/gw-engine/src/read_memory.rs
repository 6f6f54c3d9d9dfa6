//! One bound for the whole process over the memory in which stored responses are read: copies that were opened, readers
//! that take one slowly, and conversations that a request continues. Each key has a share of it.

use std::sync::Arc;

use prometheus_client::metrics::gauge::Gauge;

use crate::error::{Error, Result};
use crate::shared_pool::{PoolHolding, PoolRefusal, SharedPool};

/// The bytes that all keys may hold together.
const LIMIT_BYTES: u64 = 256 << 20;
/// The bytes that are counted for a reader: the pieces that wait in its connection.
pub(crate) const READER_BYTES: u64 = 128 << 10;

/// The memory for reading stored responses.
#[derive(Clone, Debug)]
pub(crate) struct ReadMemory(Arc<SharedPool>);

/// Bytes that are counted until this permit is dropped.
#[derive(Debug)]
pub(crate) struct ReadPermit(PoolHolding);

impl ReadPermit {
    /// Counts another number of bytes. Less is always granted.
    ///
    /// # Errors
    /// As [`ReadMemory::hold`].
    pub(crate) fn change(&mut self, bytes: u64) -> Result<()> {
        self.0.set(bytes.min(LIMIT_BYTES)).map_err(refused)
    }
}

impl Default for ReadMemory {
    fn default() -> Self {
        Self(SharedPool::new(LIMIT_BYTES))
    }
}

impl ReadMemory {
    /// The bytes in use, for the metrics.
    pub(crate) fn gauge(&self) -> Gauge {
        self.0.gauge()
    }

    /// Counts bytes for a key. A response that is larger than the limit counts as the limit, so it is read alone.
    ///
    /// # Errors
    /// `rate_limit_exceeded`: the key holds its share. `no_available_provider`: all keys together hold as much as they may.
    pub(crate) fn hold(&self, key: &str, bytes: u64) -> Result<ReadPermit> {
        let mut permit = ReadPermit(self.0.holding(&Arc::from(key)));
        permit.change(bytes)?;
        Ok(permit)
    }
}

fn refused(refusal: PoolRefusal) -> Error {
    refusal.error(
        "This key is reading or continuing as many stored responses as one key may at the same time.",
        "The gateway is holding as many stored responses as it can.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn a_key_holds_its_share_and_all_keys_hold_the_limit() {
        let memory = ReadMemory::default();
        let refused = |key: &str, bytes: u64| memory.hold(key, bytes).map(drop).unwrap_err().kind;
        let first = memory.hold("a", LIMIT_BYTES / 2).unwrap();
        assert_eq!(refused("a", 1), Kind::RateLimitExceeded);
        let second = memory.hold("b", LIMIT_BYTES / 2).unwrap();
        assert_eq!(refused("c", 1), Kind::NoAvailableProvider);
        assert_eq!(memory.gauge().get(), 256 << 20);
        drop(first);
        let third = memory.hold("c", 1).unwrap();
        assert_eq!(refused("c", LIMIT_BYTES), Kind::RateLimitExceeded);
        drop((second, third));
        assert_eq!(memory.gauge().get(), 0);
        let alone = memory.hold("a", 2 * LIMIT_BYTES).unwrap();
        assert_eq!(memory.gauge().get(), 256 << 20, "one response larger than the limit is read alone");
        assert_eq!(refused("b", 1), Kind::NoAvailableProvider);
        drop(alone);
        assert_eq!(memory.gauge().get(), 0);
    }
}
