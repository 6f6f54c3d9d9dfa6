//! What answers made of kept vectors may take. A short request makes a long answer of them that no upstream has sent and nobody pays
//! for, so each is no longer than an upstream's may be, and all of them together have so much memory, until they are sent.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::job::MAX_ANSWER_BYTES;

/// For all of them together.
const ALL: usize = 8 * MAX_ANSWER_BYTES;
/// What is no longer than that does not count: there are never more of them than requests at one time.
const SMALL: usize = 64 << 10;

/// The memory for answers made of kept vectors.
#[derive(Debug)]
pub(in crate::cached) struct Room(Arc<Semaphore>);

impl Default for Room {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ALL)))
    }
}

impl Room {
    /// A place for so many bytes; None for more than one answer may have, and when there is no room now.
    pub(super) fn take(&self, bytes: usize) -> Option<Place> {
        if bytes <= SMALL {
            return Some(Place(None));
        }
        let bytes = u32::try_from(bytes).ok().filter(|_| bytes <= MAX_ANSWER_BYTES)?;
        Some(Place(Some(Arc::clone(&self.0).try_acquire_many_owned(bytes).ok()?)))
    }
}

/// A part of it, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place(Option<OwnedSemaphorePermit>);

impl Place {
    /// The body that the place was taken for: it has it for as long as anybody has the body.
    pub(super) fn of(self, body: Vec<u8>) -> Bytes {
        match self.0 {
            Some(_) => Bytes::from_owner(Placed { body, _place: self }),
            None => body.into(),
        }
    }
}

struct Placed {
    body: Vec<u8>,
    _place: Place,
}

impl AsRef<[u8]> for Placed {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}
