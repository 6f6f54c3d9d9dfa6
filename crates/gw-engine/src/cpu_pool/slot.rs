//! The shared state of a hosted future whose step waits for a pool thread or runs on one.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::queue::Step;
use super::{Seat, WaitingParts, poll_seated};

/// The place of the future.
enum FuturePlace<F: Future> {
    /// The step of the future waits for a thread, and the worker still polls the future.
    Queued(Pin<Box<F>>, WaitingParts),
    /// A pool thread polls it.
    Running,
    /// The poll is over, and the worker has not looked yet.
    Polled(Pin<Box<F>>, Poll<F::Output>, WaitingParts),
    /// The poll panicked.
    Panicked(Box<dyn Any + Send>),
    /// The worker has taken it back, or has gone.
    Left,
}

struct Inner<F: Future> {
    place: FuturePlace<F>,
    /// The worker's task.
    waker: Waker,
}

pub(super) struct Slot<F: Future> {
    inner: Mutex<Inner<F>>,
    /// The worker's runtime.
    runtime: Option<Handle>,
}

/// The worker's part of a slot's content.
pub(super) enum Taken<F: Future> {
    Output(F::Output),
    Future(Pin<Box<F>>, WaitingParts),
    Nothing,
}

impl<F: Future> Slot<F> {
    pub(super) fn new(future: Pin<Box<F>>, waiting: WaitingParts, waker: Waker) -> Self {
        let inner = Inner { place: FuturePlace::Queued(future, waiting), waker };
        Self { inner: Mutex::new(inner), runtime: Handle::try_current().ok() }
    }

    /// Polls the future on the worker while no thread has it, or takes it back.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Taken<F> {
        let mut inner = self.inner.lock();
        inner.waker.clone_from(cx.waker());
        match std::mem::replace(&mut inner.place, FuturePlace::Left) {
            FuturePlace::Queued(mut future, waiting) => {
                let (polled, waiting) = poll_seated(future.as_mut(), cx, Seat::Worker, waiting);
                if let Poll::Ready(output) = polled {
                    return Taken::Output(output);
                }
                inner.place = FuturePlace::Queued(future, waiting);
                Taken::Nothing
            }
            FuturePlace::Polled(_, Poll::Ready(output), _) => Taken::Output(output),
            FuturePlace::Polled(future, Poll::Pending, waiting) => Taken::Future(future, waiting),
            FuturePlace::Panicked(panic) => {
                drop(inner);
                resume_unwind(panic)
            }
            place @ (FuturePlace::Running | FuturePlace::Left) => {
                inner.place = place;
                Taken::Nothing
            }
        }
    }

    /// The worker waits no longer. It gets back a future that no thread has, to drop it.
    pub(super) fn leave(&self) -> impl Sized + use<F> {
        std::mem::replace(&mut self.inner.lock().place, FuturePlace::Left)
    }
}

impl<F> Step for Slot<F>
where
    F: Future + Send,
    F::Output: Send,
{
    /// Polls the future once, inside the worker's runtime.
    fn run(&self) {
        let _inside = self.runtime.as_ref().map(|runtime| runtime.enter());
        let mut inner = self.inner.lock();
        let (mut future, waiting) = match std::mem::replace(&mut inner.place, FuturePlace::Running) {
            FuturePlace::Queued(future, waiting) => (future, waiting),
            place => {
                inner.place = place;
                return;
            }
        };
        let waker = inner.waker.clone();
        drop(inner);
        let polled = catch_unwind(AssertUnwindSafe(move || {
            let mut cx = Context::from_waker(&waker);
            let (polled, waiting) = poll_seated(future.as_mut(), &mut cx, Seat::Pool, waiting);
            (future, polled, waiting)
        }));
        let place = match polled {
            Ok((future, polled, waiting)) => FuturePlace::Polled(future, polled, waiting),
            Err(panic) => FuturePlace::Panicked(panic),
        };
        let mut inner = self.inner.lock();
        if matches!(inner.place, FuturePlace::Left) {
            drop(inner);
            // The request was dropped during its step. It ends here, inside its runtime.
            drop(place);
            return;
        }
        inner.place = place;
        let waker = inner.waker.clone();
        drop(inner);
        waker.wake();
    }
}
