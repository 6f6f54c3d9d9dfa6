//! The large whole answers that no upstream made: a list of models, a report, an export. They share the memory of the answers
//! of upstreams, which the engine counts. A client that does not read holds its answer until the write stall.

use std::sync::Arc;
use std::time::Duration;

use gw_engine::error::{Error, Kind, Result};
use gw_engine::shared_pool::{PoolHolding, PoolRefusal, SharedPool};

/// Smaller answers do not count, because the number of requests in flight bounds them.
const FREE_BYTES: usize = 64 << 10;
/// The time after which a refused client may try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Counts the bytes of large answers.
#[derive(Debug)]
pub(crate) struct WaitingAnswers(Arc<SharedPool>);

impl WaitingAnswers {
    /// The answers take their memory from this pool.
    pub(crate) fn new(pool: Arc<SharedPool>) -> Self {
        Self(pool)
    }

    /// Counts an answer of this key until the holding is dropped. A small answer needs none.
    ///
    /// # Errors
    /// `rate_limit_exceeded`: the key holds its share. `no_available_provider`: all keys together hold as much as they may.
    pub(crate) fn hold(&self, key: &Arc<str>, bytes: usize) -> Result<Option<PoolHolding>> {
        if bytes <= FREE_BYTES {
            return Ok(None);
        }
        let mut holding = self.0.holding(key);
        // An answer that is larger than the pool takes all of it.
        match holding.set((bytes as u64).min(self.0.capacity())) {
            Ok(()) => Ok(Some(holding)),
            Err(refusal) => Err(refused(refusal)),
        }
    }
}

fn refused(refusal: PoolRefusal) -> Error {
    let (kind, message) = match refusal {
        PoolRefusal::OverShare => (
            Kind::RateLimitExceeded,
            "The clients of this key have not read as many large answers as one key may leave unread.",
        ),
        PoolRefusal::UsedUp => {
            (Kind::NoAvailableProvider, "The gateway is holding as many unread large answers as it can.")
        }
    };
    Error::new(kind, message).retry_after(RETRY_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_holds_its_share_and_another_key_finds_room() {
        let pool = SharedPool::new(256 << 20);
        let (answers, key, other) = (WaitingAnswers::new(Arc::clone(&pool)), Arc::from("a"), Arc::from("b"));
        let share = 128 << 20;
        assert!(answers.hold(&key, FREE_BYTES).unwrap().is_none());
        let most = answers.hold(&key, share - 100_000).unwrap();
        let refusal = answers.hold(&key, 100_001).unwrap_err();
        assert_eq!((refusal.kind, refusal.retry_after), (Kind::RateLimitExceeded, Some(RETRY_AFTER)));
        let theirs = answers.hold(&other, share).unwrap();
        assert_eq!(answers.hold(&Arc::from("c"), share).unwrap_err().kind, Kind::NoAvailableProvider);
        assert_eq!(pool.gauge().get(), i64::try_from(2 * share - 100_000).unwrap());
        drop((most, theirs));
        assert_eq!(pool.gauge().get(), 0);
    }
}
