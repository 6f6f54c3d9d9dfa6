//! A bounded pool that keys share: places, or bytes of memory. [`fair_share`] is the share of a key.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use gw_limits::fair_share;
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::Notify;

use crate::error::{Error, Kind};

/// Smaller parts of the memory of answers do not count, because the number of requests bounds them.
pub const UNCOUNTED_BYTES: usize = 64 << 10;
/// The time after which a refused client may try again.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A pool of one process.
#[derive(Debug)]
pub struct SharedPool {
    capacity: u64,
    held: Mutex<HeldParts>,
    used: Gauge,
    /// Wakes those that wait for room.
    freed: Arc<Notify>,
}

/// The parts that are in use.
#[derive(Debug, Default)]
struct HeldParts {
    all: u64,
    /// The parts of each key that holds any.
    by_key: HashMap<Arc<str>, u64>,
}

/// The reason for which a pool refuses a request for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolRefusal {
    /// The key holds its share.
    OverShare,
    /// The pool is used up.
    UsedUp,
}

impl PoolRefusal {
    /// The error of the refused client: `rate_limit_exceeded` if its key holds its share, `no_available_provider` if all keys
    /// together hold as much as they may. Each has its message.
    #[must_use]
    pub fn error(self, over_share: &'static str, used_up: &'static str) -> Error {
        let (kind, message) = match self {
            Self::OverShare => (Kind::RateLimitExceeded, over_share),
            Self::UsedUp => (Kind::NoAvailableProvider, used_up),
        };
        Error::new(kind, message).retry_after(RETRY_AFTER)
    }
}

impl SharedPool {
    /// A pool of this size, with nothing in use.
    #[must_use]
    pub fn new(capacity: u64) -> Arc<Self> {
        Arc::new(Self { capacity, held: Mutex::default(), used: Gauge::default(), freed: Arc::default() })
    }

    /// The parts in use, for the metrics.
    #[must_use]
    pub fn gauge(&self) -> Gauge {
        self.used.clone()
    }

    /// A holding of nothing for this key.
    #[must_use]
    pub fn holding(self: &Arc<Self>, key: &Arc<str>) -> PoolHolding {
        PoolHolding { pool: Arc::clone(self), key: Arc::clone(key), amount: 0 }
    }

    /// Holds the bytes of an answer of this key until the holding is dropped. A small answer needs none, and one that is larger
    /// than the pool takes all of it.
    ///
    /// # Errors
    /// The key holds its share, or the pool is used up.
    pub fn hold_large(
        self: &Arc<Self>,
        key: &Arc<str>,
        bytes: usize,
    ) -> Result<Option<PoolHolding>, PoolRefusal> {
        if bytes <= UNCOUNTED_BYTES {
            return Ok(None);
        }
        let mut holding = self.holding(key);
        holding.set((bytes as u64).min(self.capacity))?;
        Ok(Some(holding))
    }

    /// Whether a key holds more than half of its share.
    pub(crate) fn is_half_used_by(&self, key: &str) -> bool {
        let held = self.held.lock();
        let own = held.by_key.get(key).copied().unwrap_or_default();
        own > fair_share(self.capacity, held.all.saturating_sub(own)) / 2
    }

    /// The largest possible holding.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Tells when a part is given back.
    pub(crate) fn freed(&self) -> Arc<Notify> {
        Arc::clone(&self.freed)
    }

    /// Changes a holding of this key from `before` to `after`. `may_exceed`: the limit is twice the size of the pool.
    fn change(&self, key: &Arc<str>, before: u64, after: u64, may_exceed: bool) -> Result<(), PoolRefusal> {
        let mut held = self.held.lock();
        let own = held.by_key.get(&**key).copied().unwrap_or_default();
        let (others, rest) = (held.all.saturating_sub(own), own.saturating_sub(before));
        let own = rest.saturating_add(after);
        if after > before {
            let capacity = if may_exceed { self.capacity.saturating_mul(2) } else { self.capacity };
            if others.saturating_add(own) > capacity {
                return Err(if rest > 0 { PoolRefusal::OverShare } else { PoolRefusal::UsedUp });
            }
            // A single holding of a key may be larger than its share: one request fits if there is room.
            if rest > 0 && !may_exceed && own > fair_share(self.capacity, others) {
                return Err(PoolRefusal::OverShare);
            }
        }
        held.all = others.saturating_add(own);
        self.used.set(i64::try_from(held.all).unwrap_or(i64::MAX));
        match (own, held.by_key.get_mut(&**key)) {
            (0, _) => drop(held.by_key.remove(&**key)),
            (_, Some(known)) => *known = own,
            (_, None) => drop(held.by_key.insert(Arc::clone(key), own)),
        }
        drop(held);
        if after < before {
            self.freed.notify_waiters();
        }
        Ok(())
    }
}

/// A part of a pool that a key holds. Dropping the holding returns the part.
#[derive(Debug)]
pub struct PoolHolding {
    pool: Arc<SharedPool>,
    key: Arc<str>,
    amount: u64,
}

impl PoolHolding {
    /// The amount that is held.
    #[must_use]
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// A holding of nothing for the key of this one.
    pub(crate) fn another(&self) -> Self {
        self.pool.holding(&self.key)
    }

    /// Moves the whole amount into a new holding.
    pub(crate) fn take(&mut self) -> Self {
        let amount = std::mem::take(&mut self.amount);
        Self { pool: Arc::clone(&self.pool), key: Arc::clone(&self.key), amount }
    }

    /// Sets the amount. Less is always granted.
    ///
    /// # Errors
    /// The key holds its share, or the pool is used up. The amount stays as it was.
    pub fn set(&mut self, amount: u64) -> Result<(), PoolRefusal> {
        self.change(amount, false)
    }

    /// Sets the amount, which may be more than the share of the key, and more than the pool has.
    ///
    /// # Errors
    /// All holdings together would be twice the pool. The amount stays as it was.
    pub(crate) fn set_beyond_share(&mut self, amount: u64) -> Result<(), PoolRefusal> {
        self.change(amount, true)
    }

    fn change(&mut self, amount: u64, may_exceed: bool) -> Result<(), PoolRefusal> {
        if amount != self.amount {
            self.pool.change(&self.key, self.amount, amount, may_exceed)?;
            self.amount = amount;
        }
        Ok(())
    }
}

impl Drop for PoolHolding {
    fn drop(&mut self) {
        let _ = self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(pool: &Arc<SharedPool>, key: &str, amount: u64) -> Result<PoolHolding, PoolRefusal> {
        let mut holding = pool.holding(&Arc::from(key));
        holding.set(amount).map(|()| holding)
    }

    #[test]
    fn a_key_fills_its_share_and_others_find_room() {
        let pool = SharedPool::new(128);
        let mut first: Vec<_> = (0..64).map(|_| hold(&pool, "a", 1).unwrap()).collect();
        assert_eq!(hold(&pool, "a", 1).unwrap_err(), PoolRefusal::OverShare);
        let second: Vec<_> = (0..32).map(|_| hold(&pool, "b", 1).unwrap()).collect();
        assert_eq!(hold(&pool, "b", 1).unwrap_err(), PoolRefusal::OverShare);
        // The largest holder is refused until it holds its share of what is left.
        first.truncate(48);
        assert_eq!(hold(&pool, "a", 1).unwrap_err(), PoolRefusal::OverShare);
        first.truncate(47);
        first.push(hold(&pool, "a", 1).unwrap());
        assert_eq!(pool.gauge().get(), 48 + 32);
        drop((first, second));
        assert_eq!((pool.gauge().get(), pool.held.lock().by_key.len()), (0, 0));
    }

    #[test]
    fn a_large_answer_is_refused_for_its_key_or_for_all() {
        let (pool, key, other) = (SharedPool::new(256 << 20), Arc::from("a"), Arc::from("b"));
        let share = 128 << 20;
        assert!(pool.hold_large(&key, UNCOUNTED_BYTES).unwrap().is_none());
        let most = pool.hold_large(&key, share - 100_000).unwrap();
        let refusal = pool.hold_large(&key, 100_001).unwrap_err().error("yours", "all");
        assert_eq!((refusal.kind, &*refusal.message), (Kind::RateLimitExceeded, "yours"));
        assert_eq!(refusal.retry_after, Some(RETRY_AFTER));
        let theirs = pool.hold_large(&other, share).unwrap();
        let refusal = pool.hold_large(&Arc::from("c"), share).unwrap_err().error("yours", "all");
        assert_eq!((refusal.kind, &*refusal.message), (Kind::NoAvailableProvider, "all"));
        assert_eq!(pool.gauge().get(), i64::try_from(2 * share - 100_000).unwrap());
        drop((most, theirs));
        assert_eq!(pool.gauge().get(), 0);
    }

    #[test]
    fn one_holding_may_be_the_whole_pool_and_a_refusal_changes_nothing() {
        let pool = SharedPool::new(100);
        let mut whole = hold(&pool, "a", 100).unwrap();
        assert_eq!(hold(&pool, "b", 1).unwrap_err(), PoolRefusal::UsedUp);
        assert_eq!(hold(&pool, "a", 1).unwrap_err(), PoolRefusal::OverShare);
        assert_eq!(whole.set(101), Err(PoolRefusal::UsedUp));
        assert_eq!((whole.amount(), pool.gauge().get()), (100, 100));
        whole.set(40).unwrap();
        assert!(pool.is_half_used_by("a") && !pool.is_half_used_by("b"));
        assert!(hold(&pool, "a", 10).is_ok());
        assert_eq!(hold(&pool, "a", 11).unwrap_err(), PoolRefusal::OverShare);
    }
}
