//! The end of a graceful shutdown: every stream that is still open ends with an error event.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Context;

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// Ends all open streams at once.
#[derive(Debug, Default)]
pub(crate) struct StreamCutoff {
    is_triggered: AtomicBool,
    notify: Arc<Notify>,
}

impl StreamCutoff {
    /// Ends every watching stream.
    pub(crate) fn trigger(&self) {
        self.is_triggered.store(true, Ordering::Release);
        self.notify.notify_waiters();
    }
}

/// A stream's view of the cutoff.
#[derive(Debug, Default)]
pub(crate) struct CutoffWatch {
    switch: Arc<StreamCutoff>,
    watching: Option<Pin<Box<OwnedNotified>>>,
}

impl CutoffWatch {
    pub(crate) fn new(switch: Arc<StreamCutoff>) -> Self {
        Self { switch, watching: None }
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.switch.is_triggered.load(Ordering::Acquire)
    }

    /// Wakes the stream's task when the cutoff is triggered.
    pub(crate) fn watch(&mut self, cx: &mut Context<'_>) {
        let notify = &self.switch.notify;
        let watching = self.watching.get_or_insert_with(|| Box::pin(Arc::clone(notify).notified_owned()));
        if watching.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }
}
