//! The signal that begins a shutdown, and the one that ends its grace early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

/// Starts a shutdown, and ends its grace early.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    /// Cancelled when the shutdown begins.
    pub(crate) drain: CancellationToken,
    /// Cancelled when its grace ends early.
    pub(crate) now: CancellationToken,
    pub(crate) is_handed_over: Arc<AtomicBool>,
}

impl Shutdown {
    /// No shutdown has begun.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins the shutdown: running requests are finished.
    pub fn begin(&self) {
        self.drain.cancel();
    }

    /// Begins a shutdown that refuses nothing, because another process has the same sockets: no new connection is accepted,
    /// and the requests of the present connections are finished. Without effect after [`Shutdown::begin`].
    pub fn hand_over(&self) {
        if !self.drain.is_cancelled() {
            self.is_handed_over.store(true, Ordering::Release);
            self.drain.cancel();
        }
    }

    /// Waits until a shutdown begins.
    pub async fn begun(&self) {
        self.drain.cancelled().await;
    }

    /// Ends the grace: running requests are cut off now.
    pub fn now(&self) {
        self.drain.cancel();
        self.now.cancel();
    }
}
