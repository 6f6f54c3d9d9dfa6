//! A gate that lets a bounded number of bytes pass at the same time.

use tokio::sync::{Semaphore, SemaphorePermit};

/// The KiB that pass at the same time. A larger response passes alone.
const KIB: u32 = 64 << 10;
/// Responses below this size pass at once: they are many, and take little memory.
const SMALL_BYTES: usize = 256 << 10;

/// A gate for the responses that are sealed and written, or read and opened.
#[derive(Debug)]
pub(super) struct ByteGate(Semaphore);

impl Default for ByteGate {
    fn default() -> Self {
        Self(Semaphore::new(KIB as usize))
    }
}

impl ByteGate {
    /// Waits until a response of this size may pass, in the order of arrival. It passes until the permit is dropped.
    pub(super) async fn pass(&self, bytes: usize) -> Option<SemaphorePermit<'_>> {
        if bytes < SMALL_BYTES {
            return None;
        }
        let kib = u32::try_from(bytes / 1024).unwrap_or(u32::MAX).min(KIB);
        self.0.acquire_many(kib).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn large_responses_wait_for_each_other_and_small_ones_do_not() {
        let gate = ByteGate::default();
        let pass = |bytes: usize| gate.pass(bytes).now_or_never();
        let first = pass(40 << 20).unwrap();
        assert!(pass(30 << 20).is_none(), "it waits");
        assert!(pass(1000).unwrap().is_none());
        let second = pass(20 << 20).unwrap();
        drop((first, second));
        let alone = pass(500 << 20).unwrap();
        assert!(alone.is_some() && pass(1 << 20).is_none());
        drop(alone);
        assert!(pass(1 << 20).is_some());
    }
}
