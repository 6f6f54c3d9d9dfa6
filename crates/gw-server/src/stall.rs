//! HTTP/2 streams whose client takes nothing, or too little: flow control hides them from the socket's write clock.
//!
//! Every stream is a task of its own. The response body notes, on the thread that polls it, whether it handed out data
//! or waits for the upstream, and by when the answer must be over; the task around it ends a stream that has held data for too
//! long, or that has outlived its time because nobody polls its body.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep};
use tokio_util::task::TaskTracker;

use crate::guarded::LAST_BYTES;

/// What a response body did when it was last polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyPoll {
    /// It gave data, which now waits for the client.
    Gave,
    /// It waits for something itself.
    Waits,
}

thread_local! {
    static LAST: Cell<Option<BodyPoll>> = const { Cell::new(None) };
    static DUE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Called by a response body.
pub(crate) fn note(poll: BodyPoll) {
    LAST.set(Some(poll));
}

/// Called for a response: it must be over by then.
pub(crate) fn note_due(due: Instant) {
    DUE.set(Some(due));
}

/// Spawns the streams of an HTTP/2 connection, each under its watch.
#[derive(Clone, Debug)]
pub(crate) struct Watching {
    pub(crate) tracker: TaskTracker,
    pub(crate) limit: Duration,
}

impl<F> hyper::rt::Executor<F> for Watching
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        self.tracker.spawn(Watched { stream, limit: self.limit, stalled: None, due: None, timer: None });
    }
}

pin_project! {
    /// A stream's task under its watch.
    struct Watched<F> {
        #[pin]
        stream: F,
        limit: Duration,
        stalled: Option<Instant>,
        due: Option<Instant>,
        timer: Option<Pin<Box<Sleep>>>,
    }
}

impl<F: Future> Future for Watched<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        LAST.set(None);
        DUE.set(None);
        if this.stream.poll(cx).is_ready() {
            return Poll::Ready(());
        }
        match LAST.take() {
            Some(BodyPoll::Gave) => *this.stalled = Some(Instant::now() + *this.limit),
            Some(BodyPoll::Waits) => *this.stalled = None,
            None => {}
        }
        if let Some(due) = DUE.take() {
            *this.due = Some(due + LAST_BYTES);
        }
        let Some(deadline) = [*this.stalled, *this.due].into_iter().flatten().min() else {
            return Poll::Pending;
        };
        let timer = this.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if deadline < timer.deadline() {
            timer.as_mut().reset(deadline);
        }
        // A timer takes part in the budget of its task, so that a busy task may never see it fire: the time counts, too.
        loop {
            let fired = timer.as_mut().poll(cx).is_ready();
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            if !fired {
                return Poll::Pending;
            }
            timer.as_mut().reset(deadline);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::rt::Executor;
    use std::future::poll_fn;

    async fn lifetime(poll: Option<BodyPoll>) -> Option<u64> {
        let tracker = TaskTracker::new();
        let watching = Watching { tracker: tracker.clone(), limit: Duration::from_secs(60) };
        watching.execute(poll_fn(move |_| {
            if let Some(poll) = poll {
                LAST.set(Some(poll));
            }
            Poll::<()>::Pending
        }));
        tracker.close();
        let start = Instant::now();
        let ended = tokio::time::timeout(Duration::from_secs(600), tracker.wait()).await;
        ended.ok().map(|()| start.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_client_that_takes_nothing_is_ended() {
        assert_eq!(lifetime(Some(BodyPoll::Waits)).await, None);
        assert_eq!(lifetime(None).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn data_that_nobody_takes_ends_the_stream() {
        let tracker = TaskTracker::new();
        let watching = Watching { tracker: tracker.clone(), limit: Duration::from_secs(60) };
        let mut polls = 0;
        watching.execute(poll_fn(move |_| {
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
