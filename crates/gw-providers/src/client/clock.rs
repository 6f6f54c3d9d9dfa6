//! One timer, armed again and again: a pooled connection brings its own, so a request seldom touches the timer wheel.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep};

/// A timer that is made when first needed and kept.
#[derive(Default)]
pub(crate) struct Clock {
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Clock {
    /// Sets the moment. Moving a running timer to a later moment takes no lock.
    pub(crate) fn arm(&mut self, deadline: Instant) {
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().reset(deadline),
            None => self.sleep = Some(Box::pin(tokio::time::sleep_until(deadline))),
        }
    }

    /// Ready when the moment has come.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.sleep {
            // A timer takes part in the budget of its task: a task that uses its budget up never sees the timer fire.
            Some(sleep) if Instant::now() >= sleep.deadline() => Poll::Ready(()),
            Some(sleep) => sleep.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}
