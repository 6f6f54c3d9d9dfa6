//! Ends HTTP/2 streams whose client reads nothing or too little. The socket's write clock does not see them, because flow
//! control holds their data back.
//!
//! Every stream is a task of its own. The response body notes, on the thread that polls it, whether it gave data or waits for
//! the upstream, and the deadline of the answer. The task around the stream ends it when its data has waited too long or its
//! deadline has passed.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::deadline_timer::DeadlineTimer;
use crate::timed_io::LAST_BYTES;

/// The outcome of the last poll of a response body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyPoll {
    /// The body gave data, which now waits for the client.
    Gave,
    /// The body waits, for example for its upstream.
    Waits,
}

thread_local! {
    static LAST_POLL: Cell<Option<BodyPoll>> = const { Cell::new(None) };
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Notes the outcome of a poll. Response bodies call this.
pub(crate) fn note(poll: BodyPoll) {
    LAST_POLL.set(Some(poll));
}

/// Notes the deadline of a response.
pub(crate) fn note_deadline(deadline: Instant) {
    DEADLINE.set(Some(deadline));
}

/// Spawns the streams of an HTTP/2 connection, each in a task that watches it.
#[derive(Clone, Debug)]
pub(crate) struct WatchdogExecutor {
    pub(crate) tracker: TaskTracker,
    pub(crate) limit: Duration,
}

impl<F> hyper::rt::Executor<F> for WatchdogExecutor
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        self.tracker.spawn(WatchedStream {
            stream,
            limit: self.limit,
            stalled: None,
            deadline: None,
            timer: DeadlineTimer::default(),
        });
    }
}

pin_project! {
    /// A stream, watched by the task that polls it.
    struct WatchedStream<F> {
        #[pin]
        stream: F,
        limit: Duration,
        stalled: Option<Instant>,
        deadline: Option<Instant>,
        timer: DeadlineTimer,
    }
}

impl<F: Future> Future for WatchedStream<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        LAST_POLL.set(None);
        DEADLINE.set(None);
        if this.stream.poll(cx).is_ready() {
            return Poll::Ready(());
        }
        match LAST_POLL.take() {
            Some(BodyPoll::Gave) => *this.stalled = Some(Instant::now() + *this.limit),
            Some(BodyPoll::Waits) => *this.stalled = None,
            None => {}
        }
        if let Some(deadline) = DEADLINE.take() {
            *this.deadline = Some(deadline + LAST_BYTES);
        }
        let Some(deadline) = [*this.stalled, *this.deadline].into_iter().flatten().min() else {
            return Poll::Pending;
        };
        if this.timer.poll_is_over(cx, deadline) { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::rt::Executor;
    use std::future::poll_fn;

    async fn lifetime(poll: Option<BodyPoll>) -> Option<u64> {
        let tracker = TaskTracker::new();
        let executor = WatchdogExecutor { tracker: tracker.clone(), limit: Duration::from_secs(60) };
        executor.execute(poll_fn(move |_| {
            if let Some(poll) = poll {
                LAST_POLL.set(Some(poll));
            }
            Poll::<()>::Pending
        }));
        tracker.close();
        let start = Instant::now();
        let ended = tokio::time::timeout(Duration::from_secs(600), tracker.wait()).await;
        ended.ok().map(|()| start.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_whose_data_is_taken_is_never_ended() {
        assert_eq!(lifetime(Some(BodyPoll::Waits)).await, None);
        assert_eq!(lifetime(None).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn data_that_nobody_takes_ends_the_stream() {
        let tracker = TaskTracker::new();
        let executor = WatchdogExecutor { tracker: tracker.clone(), limit: Duration::from_secs(60) };
        let mut polls = 0;
        executor.execute(poll_fn(move |_| {
            polls += 1;
            if polls == 1 {
                note(BodyPoll::Gave);
            }
            Poll::<()>::Pending
        }));
        tracker.close();
        let start = Instant::now();
        tracker.wait().await;
        assert_eq!(start.elapsed().as_secs(), 60);
    }
}
