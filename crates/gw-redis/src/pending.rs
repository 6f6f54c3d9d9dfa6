//! A count of work that a background task has yet to do, and a way to wait until none is left.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The number of pending pieces of work.
#[derive(Debug, Default)]
pub struct PendingCount {
    count: AtomicUsize,
    finished: Notify,
}

impl PendingCount {
    /// Adds pieces of work. Call it before the work is handed over, so that it is not finished before it is counted.
    pub fn add(&self, count: usize) {
        self.count.fetch_add(count, Ordering::AcqRel);
    }

    /// Notes that pieces of work are done, or will never be.
    pub fn finish(&self, count: usize) {
        if self.count.fetch_sub(count, Ordering::AcqRel) == count {
            self.finished.notify_waiters();
        }
    }

    /// The number of pending pieces.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Waits until the count is zero.
    pub async fn wait_until_zero(&self) {
        loop {
            // Created before the count is read, so that no notification falls in between.
            let finished = self.finished.notified();
            if self.count() == 0 {
                return;
            }
            finished.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiting_ends_when_the_last_piece_of_work_is_finished() {
        let pending = PendingCount::default();
        pending.wait_until_zero().await;
        pending.add(3);
        pending.finish(1);
        let mut waiting = Box::pin(pending.wait_until_zero());
        assert!(poll_once(waiting.as_mut()).is_pending());
        pending.finish(2);
        waiting.await;
        assert_eq!(pending.count(), 0);
    }

    fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> std::task::Poll<F::Output> {
        future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    }
}
