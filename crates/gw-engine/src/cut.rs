//! The end of a drain: every stream that is still live ends with the error event.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Context;

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// Ends every live stream at once.
#[derive(Debug, Default)]
pub(crate) struct CutSwitch {
    thrown: AtomicBool,
    notify: Arc<Notify>,
}

impl CutSwitch {
    /// Ends every stream that watches.
    pub(crate) fn throw(&self) {
        self.thrown.store(true, Ordering::Release);
        self.notify.notify_waiters();
    }
}

/// A stream's view of the end of a drain.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    switch: Arc<CutSwitch>,
    watching: Option<Pin<Box<OwnedNotified>>>,
}

impl Cut {
    pub(crate) fn new(switch: Arc<CutSwitch>) -> Self {
        Self { switch, watching: None }
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.switch.thrown.load(Ordering::Acquire)
    }

    /// Wakes the stream's task when the switch is thrown.
    pub(crate) fn watch(&mut self, cx: &mut Context<'_>) {
        let notify = &self.switch.notify;
        let watching = self.watching.get_or_insert_with(|| Box::pin(Arc::clone(notify).notified_owned()));
        if watching.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }
}
