//! A reusable timer. A pooled connection keeps its own, so requests rarely touch the timer wheel.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep};

/// A timer that is created at its first use and then kept.
#[derive(Default)]
pub(crate) struct Clock {
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Clock {
    /// Sets the time. Moving a running timer to a later time takes no lock.
    pub(crate) fn arm(&mut self, deadline: Instant) {
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().reset(deadline),
            None => self.sleep = Some(Box::pin(tokio::time::sleep_until(deadline))),
        }
    }

    /// Ready when the time has come.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.sleep {
            // A timer also uses its task's budget. A task without budget would never see the timer fire.
            Some(sleep) if Instant::now() >= sleep.deadline() => Poll::Ready(()),
            Some(sleep) => sleep.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}
