//! Bounds the memory of answers that are made of cached vectors. A short request can have a long answer that no
//! upstream sends and no budget pays. So each answer has the size limit of an upstream's answer, and all of them share
//! one memory limit until they are sent. Each key has a share of it.

use std::sync::Arc;

use bytes::Bytes;

use crate::call::attempt_context::MAX_ANSWER_BYTES;
use crate::shared_pool::{PoolHolding, SharedPool};

/// Bytes of all such answers together.
const MAX_TOTAL_BYTES: usize = 8 * MAX_ANSWER_BYTES;
/// Smaller answers do not count, because the number of requests bounds them.
const MAX_UNCOUNTED_BYTES: usize = 64 << 10;

/// The memory for answers made of kept vectors.
#[derive(Debug)]
pub(in crate::response_cache) struct AnswerMemory(Arc<SharedPool>);

impl Default for AnswerMemory {
    fn default() -> Self {
        Self(SharedPool::new(MAX_TOTAL_BYTES as u64))
    }
}

impl AnswerMemory {
    /// Takes memory for an answer of this key; None if the answer is too large, the key holds its share or the limit is
    /// reached.
    pub(crate) fn take(&self, key: &Arc<str>, bytes: usize) -> Option<MemoryPermit> {
        if bytes <= MAX_UNCOUNTED_BYTES {
            return Some(MemoryPermit(None));
        }
        if bytes > MAX_ANSWER_BYTES {
            return None;
        }
        let mut holding = self.0.holding(key);
        holding.set(bytes as u64).ok()?;
        Some(MemoryPermit(Some(holding)))
    }
}

/// A part of the memory, released when it is dropped.
#[derive(Debug)]
pub(crate) struct MemoryPermit(Option<PoolHolding>);

impl MemoryPermit {
    /// The body, which holds the part until its last reference is dropped.
    pub(crate) fn of(self, body: Vec<u8>) -> Bytes {
        match self.0 {
            Some(_) => Bytes::from_owner(CountedBody { body, _permit: self }),
            None => body.into(),
        }
    }
}

struct CountedBody {
    body: Vec<u8>,
    _permit: MemoryPermit,
}

impl AsRef<[u8]> for CountedBody {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c36_answers_of_one_key_leave_room_for_those_of_another() {
        let (memory, key, other) = (AnswerMemory::default(), Arc::from("a"), Arc::from("b"));
        // Four of the largest answers are a key's half.
        let held: Vec<_> = (0..4).map(|_| memory.take(&key, MAX_ANSWER_BYTES).unwrap().of(vec![0])).collect();
        assert!(memory.take(&key, MAX_ANSWER_BYTES).is_none());
        let theirs = memory.take(&other, MAX_ANSWER_BYTES);
        assert!(theirs.is_some() && memory.take(&key, MAX_UNCOUNTED_BYTES).is_some());
        assert!(memory.take(&other, MAX_ANSWER_BYTES + 1).is_none());
        drop(held);
        assert!(memory.take(&key, MAX_ANSWER_BYTES).is_some());
    }
}
