//! Spares a connection the wake-up after the last piece of a request's body.
//!
//! hyper's HTTP/1 connection is woken whenever a request takes a piece of its body, to bring the next one. After the last piece there
//! is none, and the wake-up would poll the connection and its waiting request, through all layers, for nothing.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use http_body::{Body, Frame, SizeHint};

thread_local! {
    /// Set while this thread takes a piece of a body: whether the connection was woken meanwhile.
    static TAKING: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Ends the taking of a piece, even if it panics.
struct Taking;

impl Taking {
    fn begin() -> Self {
        TAKING.set(Some(false));
        Self
    }

    /// Whether the connection was woken since the begin.
    fn has_woken(self) -> bool {
        TAKING.get().unwrap_or(false)
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        TAKING.set(None);
    }
}

/// The waker of a connection's task, as the connection sees it.
struct TaskWaker {
    task: Waker,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if TAKING.get().is_none() {
            self.task.wake_by_ref();
        } else {
            TAKING.set(Some(true));
        }
    }
}

/// Gives a connection its waker, which a [`QuietBody`] can keep silent.
#[derive(Default)]
pub(crate) struct QuietWaker {
    /// The waker of the task, and the one made of it.
    known: Option<(Waker, Waker)>,
}

impl QuietWaker {
    /// The waker for a poll with this context.
    pub(crate) fn of(&mut self, cx: &Context<'_>) -> &Waker {
        let task = cx.waker();
        if self.known.as_ref().is_some_and(|(known, _)| !known.will_wake(task)) {
            self.known = None;
        }
        let made = || (task.clone(), Waker::from(Arc::new(TaskWaker { task: task.clone() })));
        &self.known.get_or_insert_with(made).1
    }
}

/// A request's body that does not wake its connection for a piece after the last one.
#[derive(Debug)]
pub(crate) struct QuietBody<B>(pub(crate) B);

impl<B: Body + Unpin> Body for QuietBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let taking = Taking::begin();
        let polled = Pin::new(&mut self.0).poll_frame(cx);
        if taking.has_woken() && !self.0.is_end_stream() {
            cx.waker().wake_by_ref();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// A body that wakes its connection for each piece, as hyper's does.
    struct Waking {
        left: usize,
        connection: Waker,
    }

    impl Body for Waking {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.left -= 1;
            self.connection.wake_by_ref();
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"{}")))))
        }

        fn is_end_stream(&self) -> bool {
            self.left == 0
        }
    }

    #[test]
    fn the_last_piece_of_a_body_does_not_wake_the_connection() {
        let woken = Arc::new(Count::default());
        let wakes = || woken.0.load(Ordering::Acquire);
        let task = Waker::from(Arc::clone(&woken));
        let mut quiet = QuietWaker::default();
        let connection = quiet.of(&Context::from_waker(&task)).clone();
        let again = quiet.of(&Context::from_waker(&task));
        assert!(again.will_wake(&connection), "one waker for all polls of a task");

        let mut cx = Context::from_waker(&connection);
        let mut body = QuietBody(Waking { left: 2, connection: connection.clone() });
        assert!(Pin::new(&mut body).poll_frame(&mut cx).is_ready());
        assert_eq!(wakes(), 1, "another piece comes");
        assert!(Pin::new(&mut body).poll_frame(&mut cx).is_ready());
        assert_eq!(wakes(), 1, "it was the last piece");
        connection.wake_by_ref();
        assert_eq!(wakes(), 2, "all other events wake the task");

        let other = Waker::from(Arc::new(Count::default()));
        quiet.of(&Context::from_waker(&other)).wake_by_ref();
        assert_eq!(wakes(), 2, "the task of the last poll is woken");
    }
}
