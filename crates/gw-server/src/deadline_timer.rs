//! A timer for a deadline that moves.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;

use tokio::time::{Instant, Sleep, sleep_until};

/// A timer that is created at its first use, so that a socket or a stream that never waits has none.
#[derive(Debug, Default)]
pub(crate) struct DeadlineTimer(Option<Pin<Box<Sleep>>>);

impl DeadlineTimer {
    /// Whether the deadline is over. If it is not, the task is woken at the deadline.
    pub(crate) fn poll_is_over(&mut self, cx: &mut Context<'_>, deadline: Instant) -> bool {
        let timer = self.0.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if deadline < timer.deadline() {
            timer.as_mut().reset(deadline);
        }
        // Deadlines move often and moving a timer costs something, so a timer that is set too early is moved only when it
        // fires. A timer shares tokio's cooperative budget with its task, so a busy task may never see it fire. The time
        // itself decides.
        loop {
            let has_fired = timer.as_mut().poll(cx).is_ready();
            if Instant::now() >= deadline {
                return true;
            }
            if !has_fired {
                return false;
            }
            timer.as_mut().reset(deadline);
        }
    }
}
