//! How many connections an overloaded worker accepts: one for each request that it has answered or refused.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The most connections that may be accepted at one time.
const MAX_PLACES: usize = 256;

/// The places for new connections while the worker refuses requests.
#[derive(Debug, Default)]
pub(super) struct Intake {
    is_refusing: AtomicBool,
    places: AtomicUsize,
    changed: Notify,
}

impl Intake {
    /// Waits while the worker refuses requests and no place is left. Takes a place.
    pub(super) async fn may_accept(&self) {
        while self.is_refusing.load(Ordering::Relaxed) && !self.take() {
            self.changed.notified().await;
        }
    }

    fn take(&self) -> bool {
        let places = self.places.load(Ordering::Relaxed);
        self.places.store(places.saturating_sub(1), Ordering::Relaxed);
        places > 0
    }

    /// Adds places for requests that were started or refused.
    pub(super) fn finished(&self, requests: usize) {
        if self.is_refusing.load(Ordering::Relaxed) && requests > 0 {
            let places = self.places.load(Ordering::Relaxed);
            self.places.store(places.saturating_add(requests).min(MAX_PLACES), Ordering::Relaxed);
            self.changed.notify_one();
        }
    }

    pub(super) fn set_refusing(&self, is_refusing: bool) {
        if self.is_refusing.swap(is_refusing, Ordering::Relaxed) != is_refusing {
            self.places.store(0, Ordering::Relaxed);
            // All who wait go on, not only the first one.
            self.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_worker_that_refuses_accepts_one_connection_for_each_request_that_it_finished() {
        let intake = Intake::default();
        let accepts = || intake.may_accept().now_or_never().is_some();
        assert!((0..1_000).all(|_| accepts()), "without overload there is no bound");
        intake.set_refusing(true);
        assert!(!accepts());
        intake.finished(2);
        assert_eq!([accepts(), accepts(), accepts()], [true, true, false]);
        intake.finished(usize::MAX);
        assert_eq!((0..1_000).filter(|_| accepts()).count(), MAX_PLACES);
        intake.set_refusing(false);
        assert!(accepts());
    }

    #[tokio::test]
    async fn the_end_of_the_overload_wakes_all_who_wait() {
        let intake = Intake::default();
        intake.set_refusing(true);
        tokio::join!(intake.may_accept(), intake.may_accept(), async { intake.set_refusing(false) });
    }
}
