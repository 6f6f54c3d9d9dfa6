//! Bounds the memory of answers that are made of cached vectors. A short request can have a long answer that no
//! upstream sends and no budget pays. So each answer has the size limit of an upstream's answer, and all of them share
//! one memory limit until they are sent.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::call::attempt_context::MAX_ANSWER_BYTES;

/// Bytes of all such answers together.
const MAX_TOTAL_BYTES: usize = 8 * MAX_ANSWER_BYTES;
/// Smaller answers do not count, because the number of requests bounds them.
const MAX_UNCOUNTED_BYTES: usize = 64 << 10;

/// The memory for answers made of kept vectors.
#[derive(Debug)]
pub(in crate::response_cache) struct AnswerMemory(Arc<Semaphore>);

impl Default for AnswerMemory {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_TOTAL_BYTES)))
    }
}

impl AnswerMemory {
    /// Takes memory for an answer; None if the answer is too large or the limit is reached.
    pub(crate) fn take(&self, bytes: usize) -> Option<MemoryPermit> {
        if bytes <= MAX_UNCOUNTED_BYTES {
            return Some(MemoryPermit(None));
        }
        let bytes = u32::try_from(bytes).ok().filter(|_| bytes <= MAX_ANSWER_BYTES)?;
        Some(MemoryPermit(Some(Arc::clone(&self.0).try_acquire_many_owned(bytes).ok()?)))
    }
}

/// A share of the memory, released when it is dropped.
#[derive(Debug)]
pub(crate) struct MemoryPermit(Option<OwnedSemaphorePermit>);

impl MemoryPermit {
    /// The body, which holds the share until its last reference is dropped.
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
