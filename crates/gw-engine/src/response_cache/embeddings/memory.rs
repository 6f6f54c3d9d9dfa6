//! What answers made of kept vectors may take. A short request makes a long answer of them that no upstream has sent and nobody pays
//! for, so each is no longer than an upstream's may be, and all of them together have so much memory, until they are sent.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::call::attempt_context::MAX_ANSWER_BYTES;

/// For all of them together.
const ALL: usize = 8 * MAX_ANSWER_BYTES;
/// What is no longer than that does not count: there are never more of them than requests at one time.
const SMALL: usize = 64 << 10;

/// The memory for answers made of kept vectors.
#[derive(Debug)]
pub(in crate::response_cache) struct AnswerMemory(Arc<Semaphore>);

impl Default for AnswerMemory {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ALL)))
    }
}

impl AnswerMemory {
    /// A place for so many bytes; None for more than one answer may have, and when there is no room now.
    pub(crate) fn take(&self, bytes: usize) -> Option<MemoryPermit> {
        if bytes <= SMALL {
            return Some(MemoryPermit(None));
        }
        let bytes = u32::try_from(bytes).ok().filter(|_| bytes <= MAX_ANSWER_BYTES)?;
        Some(MemoryPermit(Some(Arc::clone(&self.0).try_acquire_many_owned(bytes).ok()?)))
    }
}

/// A part of it, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct MemoryPermit(Option<OwnedSemaphorePermit>);

impl MemoryPermit {
    /// The body that the place was taken for: it has it for as long as anybody has the body.
    pub(crate) fn of(self, body: Vec<u8>) -> Bytes {
        match self.0 {
            Some(_) => Bytes::from_owner(CountedBody { body, _place: self }),
            None => body.into(),
        }
    }
}

struct CountedBody {
    body: Vec<u8>,
    _place: MemoryPermit,
}

impl AsRef<[u8]> for CountedBody {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}
