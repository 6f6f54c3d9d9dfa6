//! Upstream calls whose client went away. `on_disconnect = "cancel"` drops them at once; `"drain"` lets them come to
//! their end without a client, because some providers bill the whole answer anyway and tell only then how long it was.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::attempts::{Answer, Call};
use crate::call::CallLog;
use crate::error::Kind;
use crate::live::Live;
use crate::stream::Opening;

/// The longest that a call goes on without a client.
const LONGEST: Duration = Duration::from_secs(30);
/// Calls that go on at one time; one more is dropped at once.
const MOST: usize = 256;

/// Takes over calls whose client went away.
#[derive(Clone, Debug)]
pub(crate) struct Leavers(Arc<Semaphore>);

impl Default for Leavers {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST)))
    }
}

impl Leavers {
    /// A stream under way.
    pub(crate) fn take_live(&self, call: Box<Call>, live: Box<Live>) {
        self.spawn(to_its_end(call, live));
    }

    /// A stream that waits for its first token.
    pub(crate) fn take_opening(&self, opening: Opening, log: &CallLog) {
        left(log);
        self.spawn(async move {
            if let (call, Ok((_, Answer::Stream(live)))) = opening.await {
                to_its_end(call, live).await;
            }
        });
    }

    /// Dropped with the future, a call gives the account what is known by then.
    fn spawn(&self, going_on: impl Future<Output = ()> + Send + 'static) {
        let Ok(place) = Arc::clone(&self.0).try_acquire_owned() else { return };
        tokio::spawn(async move {
            let _ = tokio::time::timeout(LONGEST, going_on).await;
            drop(place);
        });
    }
}

/// Why the call ended, whatever its upstream will say.
fn left(log: &CallLog) {
    log.note(|record| record.status = record.status.or(Some(Kind::ClientClosedRequest.code())));
}

/// Settles the account of a stream when it is over or dropped.
struct Going {
    call: Box<Call>,
    live: Box<Live>,
}

impl Drop for Going {
    fn drop(&mut self) {
        let Self { call, live } = self;
        let usage = live.normaliser.usage(call.job.ask.prompt_bytes());
        let cost = live.candidate.model.cost(&usage);
        let code = Kind::ClientClosedRequest.code();
        call.record(&live.candidate, code, live.started);
        call.tally.account.cut(&live.candidate, &usage, cost, code);
    }
}

async fn to_its_end(call: Box<Call>, live: Box<Live>) {
    let mut going = Going { call, live };
    loop {
        let live = &mut going.live;
        live.out.clear();
        if live.normaliser.is_complete() || live.normaliser.has_failed() {
            return;
        }
        poll_fn(|cx| live.poll_step(cx)).await;
    }
}

/// A call that goes on when it is dropped before it is over.
pub(crate) struct Staying<T: Send + 'static> {
    call: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    leavers: Leavers,
    log: Arc<CallLog>,
}

impl<T: Send + 'static> Staying<T> {
    pub(crate) fn new(
        call: Pin<Box<dyn Future<Output = T> + Send>>,
        leavers: Leavers,
        log: Arc<CallLog>,
    ) -> Self {
        Self { call: Some(call), leavers, log }
    }
}

impl<T: Send + 'static> Future for Staying<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<T> {
        let Some(call) = &mut self.call else { return Poll::Pending };
        let polled = call.as_mut().poll(cx);
        if polled.is_ready() {
            self.call = None;
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Staying<T> {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            left(&self.log);
            self.leavers.spawn(async move {
                let _ = call.await;
            });
        }
    }
}
