//! Upstream calls whose client went away. `on_disconnect = "cancel"` drops them at once; `"drain"` lets them come to
//! their end without a client, because some providers bill the whole answer anyway and tell only then how long it was.
//!
//! A call that requests share runs in a task of its own already: that goes on within the same bounds ([`patience`]).

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::call::Call;
use crate::call::progress::OK;
use crate::call::upstream_call::AttemptOutcome;
use crate::cpu_pool::offload;
use crate::error::Kind;
use crate::request::context::CallLog;
use crate::response::event_stream::state::{PendingDigest, PendingFirstToken};
use crate::upstream::merge::ReadStep;
use crate::upstream::outcome::Answer;
use crate::upstream::stream::UpstreamStream;

/// The longest that a call goes on without a client.
const LONGEST: Duration = Duration::from_secs(30);
/// Calls that go on at one time; one more is dropped at once.
const MOST: usize = 256;

/// Takes over calls whose client went away.
#[derive(Clone, Debug)]
pub(crate) struct DisconnectDrain(Arc<Semaphore>);

impl Default for DisconnectDrain {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST)))
    }
}

impl DisconnectDrain {
    /// A stream under way.
    pub(crate) fn take_live(&self, call: Box<Call>, stream: Box<UpstreamStream>) {
        left(&call.context.client.log);
        self.spawn(call.context.cpu.clone().host(to_its_end(DrainingStream { call, stream })));
    }

    /// A stream of which a piece is being read.
    pub(crate) fn take_digesting(&self, digesting: PendingDigest, log: &CallLog) {
        left(log);
        self.spawn(async move {
            let (call, stream) = digesting.await;
            call.context.cpu.clone().host(to_its_end(DrainingStream { call, stream })).await;
        });
    }

    /// A stream that waits for its first token.
    pub(crate) fn take_opening(&self, opening: PendingFirstToken, log: &CallLog) {
        left(log);
        self.spawn(async move {
            if let (call, Ok((_, Answer::Stream(stream)))) = opening.await {
                call.context.cpu.clone().host(to_its_end(DrainingStream { call, stream })).await;
            }
        });
    }

    /// Dropped with the future, a call gives the settlement what is known by then.
    fn spawn(&self, going_on: impl Future<Output = ()> + Send + 'static) {
        let Ok(place) = Arc::clone(&self.0).try_acquire_owned() else { return };
        tokio::spawn(async move {
            let _ = tokio::time::timeout(LONGEST, going_on).await;
            drop(place);
        });
    }
}

/// Lasts as long as a shared call may go on that nobody waits for any more: no time at all where such a call is dropped, or
/// where too many go on.
pub(crate) async fn patience(leavers: Option<DisconnectDrain>) {
    let Some(DisconnectDrain(places)) = leavers else { return };
    let Ok(_place) = places.try_acquire_owned() else { return };
    tokio::time::sleep(LONGEST).await;
}

/// Why the call ended, whatever its upstream will say.
fn left(log: &CallLog) {
    log.ended(Kind::ClientClosedRequest.code());
}

/// Settles the settlement of a stream when it is over or dropped.
struct DrainingStream {
    call: Box<Call>,
    stream: Box<UpstreamStream>,
}

impl Drop for DrainingStream {
    fn drop(&mut self) {
        let Self { call, stream } = self;
        stream.observe(&call.context.upstream_calls);
        if stream.normaliser.is_complete() {
            let billed =
                call.progress.end_attempt(&stream.candidate, stream.attempt, AttemptOutcome::Served, OK);
            call.finish_served(&stream.candidate, &billed);
        } else {
            call.interrupt(&stream.candidate, stream.attempt, Kind::ClientClosedRequest.code());
        }
    }
}

async fn to_its_end(mut going: DrainingStream) {
    // Nobody sets more aside for it.
    if going.stream.reservation.is_some() {
        return;
    }
    loop {
        let DrainingStream { call, stream } = &mut going;
        stream.discard_output();
        stream.note_progress(call);
        if stream.normaliser.is_complete() || stream.normaliser.has_failed() {
            return;
        }
        if poll_fn(|cx| stream.poll_step(cx)).await == ReadStep::Heavy {
            offload(|| stream.digest()).await;
        }
    }
}

/// A call that goes on when it is dropped before it is over.
pub(crate) struct DetachOnDrop<T: Send + 'static> {
    call: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    leavers: DisconnectDrain,
    log: Arc<CallLog>,
}

impl<T: Send + 'static> DetachOnDrop<T> {
    pub(crate) fn new(
        call: Pin<Box<dyn Future<Output = T> + Send>>,
        leavers: DisconnectDrain,
        log: Arc<CallLog>,
    ) -> Self {
        Self { call: Some(call), leavers, log }
    }
}

impl<T: Send + 'static> Future for DetachOnDrop<T> {
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

impl<T: Send + 'static> Drop for DetachOnDrop<T> {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            left(&self.log);
            self.leavers.spawn(async move {
                let _ = call.await;
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::time::Instant;

    use super::*;

    async fn lasts(leavers: Option<&DisconnectDrain>) -> Duration {
        let begun = Instant::now();
        patience(leavers.cloned()).await;
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_shared_call_goes_on_for_nobody_within_the_bounds_of_all_calls() {
        let leavers = DisconnectDrain::default();
        assert_eq!(lasts(None).await, Duration::ZERO, "where calls are dropped");
        assert!(lasts(Some(&leavers)).await >= LONGEST);
        leavers.spawn(std::future::pending());
        let mut others: Vec<_> = (1..MOST).map(|_| Box::pin(patience(Some(leavers.clone())))).collect();
        for other in &mut others {
            assert!(other.now_or_never().is_none());
        }
        assert_eq!(lasts(Some(&leavers)).await, Duration::ZERO, "too many go on");
        // One of them has come to its end.
        others.pop();
        assert!(lasts(Some(&leavers)).await >= LONGEST);
    }
}
