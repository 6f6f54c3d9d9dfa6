//! Upstream calls whose client disconnected. `on_disconnect = "cancel"` cancels them. `"drain"` reads them to their
//! end, because some providers bill the whole answer anyway and report its length only at the end.
//!
//! A call that requests share runs in a task of its own, and drains within the same bounds ([`patience`]).

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use crate::call::Call;
use crate::call::progress::OK;
use crate::call::upstream_call::AttemptOutcome;
use crate::cpu_pool::offload;
use crate::error::Kind;
use crate::request::context::CallLog;
use crate::response::event_stream::state::{BreakOff, PendingDigest, PendingFirstToken};
use crate::shared_pool::{PoolHolding, SharedPool};
use crate::upstream::merge::ReadStep;
use crate::upstream::outcome::Answer;
use crate::upstream::resume::PendingContinuation;
use crate::upstream::stream::UpstreamStream;

/// The longest time that a call drains.
const MAX_DRAIN_TIME: Duration = Duration::from_secs(30);
/// Calls that drain at the same time. Further ones are cancelled. Each key has a share of the places.
const MAX_DRAINS: u64 = 256;

/// The places of the calls that drain.
#[derive(Debug)]
pub(crate) struct DrainPlaces(Arc<SharedPool>);

impl Default for DrainPlaces {
    fn default() -> Self {
        Self(SharedPool::new(MAX_DRAINS))
    }
}

impl DrainPlaces {
    /// Drains the calls of this key.
    pub(crate) fn of(&self, key_id: &Arc<str>) -> DisconnectDrain {
        DisconnectDrain { places: Arc::clone(&self.0), key_id: Arc::clone(key_id) }
    }
}

/// Drains calls of one key whose client disconnected.
#[derive(Clone, Debug)]
pub(crate) struct DisconnectDrain {
    places: Arc<SharedPool>,
    key_id: Arc<str>,
}

impl DisconnectDrain {
    /// A place for a call. None = the key has its share, or there is none.
    fn take_place(&self) -> Option<PoolHolding> {
        let mut place = self.places.holding(&self.key_id);
        place.set(1).is_ok().then_some(place)
    }

    /// Drains an open stream.
    pub(crate) fn drain_stream(&self, call: Box<Call>, stream: Box<UpstreamStream>) {
        note_disconnect(&call.context.client.log);
        self.spawn(call.context.cpu.clone().host(read_to_end(DrainingStream { call, stream })));
    }

    /// Drains a stream whose piece is being read on the CPU pool.
    pub(crate) fn drain_digesting(&self, digesting: PendingDigest, log: &CallLog) {
        note_disconnect(log);
        self.spawn(async move {
            let (call, stream) = digesting.await;
            call.context.cpu.clone().host(read_to_end(DrainingStream { call, stream })).await;
        });
    }

    /// Drains a stream without a first token.
    pub(crate) fn drain_waiting(&self, opening: PendingFirstToken, log: &CallLog) {
        note_disconnect(log);
        self.spawn(async move {
            if let (call, Ok((_, Answer::Stream(stream)))) = opening.await {
                call.context.cpu.clone().host(read_to_end(DrainingStream { call, stream })).await;
            }
        });
    }

    /// Drains the upstream that was asked to continue a stream. If none was asked yet, none is asked for a client that is gone.
    pub(crate) fn drain_continuing(&self, resuming: PendingContinuation, log: &CallLog, broken: &BreakOff) {
        if log.record().attempts <= broken.attempts {
            return;
        }
        note_disconnect(log);
        self.spawn(async move {
            if let (call, Ok(stream)) = resuming.await {
                call.context.cpu.clone().host(read_to_end(DrainingStream { call, stream })).await;
            }
        });
    }

    /// Runs the drain within its bounds. A cancelled drain settles the call with the usage so far.
    fn spawn(&self, draining: impl Future<Output = ()> + Send + 'static) {
        let Some(place) = self.take_place() else { return };
        tokio::spawn(async move {
            let _ = tokio::time::timeout(MAX_DRAIN_TIME, draining).await;
            drop(place);
        });
    }
}

/// Lasts as long as a shared call without readers may run: no time if such calls are cancelled, or if too many drain.
pub(crate) async fn patience(drain: Option<DisconnectDrain>) {
    let Some(_place) = drain.and_then(|drain| drain.take_place()) else { return };
    tokio::time::sleep(MAX_DRAIN_TIME).await;
}

/// Notes that the client disconnected, whatever the upstream reports later.
fn note_disconnect(log: &CallLog) {
    log.ended(Kind::ClientClosedRequest.code());
}

/// Settles a draining stream when it ends or is dropped.
struct DrainingStream {
    call: Box<Call>,
    stream: Box<UpstreamStream>,
}

impl Drop for DrainingStream {
    fn drop(&mut self) {
        let Self { call, stream } = self;
        stream.observe(&call.context.upstream_calls);
        if stream.normaliser.is_complete() {
            stream.trace_answer(call);
            let billed =
                call.progress.end_attempt(&stream.candidate, stream.attempt, AttemptOutcome::Served, OK);
            call.finish_served(&stream.candidate, &billed);
        } else {
            call.interrupt(&stream.candidate, stream.attempt, Kind::ClientClosedRequest.code());
        }
    }
}

async fn read_to_end(mut draining: DrainingStream) {
    // A drain does not reserve more money.
    if draining.stream.reservation.is_some() {
        return;
    }
    loop {
        let DrainingStream { call, stream } = &mut draining;
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

/// A call that drains if it is dropped before its end.
pub(crate) struct DetachOnDrop<T: Send + 'static> {
    call: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    drain: DisconnectDrain,
    log: Arc<CallLog>,
}

impl<T: Send + 'static> DetachOnDrop<T> {
    pub(crate) fn new(
        call: Pin<Box<dyn Future<Output = T> + Send>>,
        drain: DisconnectDrain,
        log: Arc<CallLog>,
    ) -> Self {
        Self { call: Some(call), drain, log }
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
            note_disconnect(&self.log);
            self.drain.spawn(async move {
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

    async fn patience_of(drain: Option<&DisconnectDrain>) -> Duration {
        let begun = Instant::now();
        patience(drain.cloned()).await;
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn c36_a_shared_call_goes_on_for_nobody_within_the_share_of_its_key() {
        let places = DrainPlaces::default();
        let drain = places.of(&Arc::from("key"));
        assert_eq!(patience_of(None).await, Duration::ZERO, "where calls are dropped");
        assert!(patience_of(Some(&drain)).await >= MAX_DRAIN_TIME);
        drain.spawn(std::future::pending());
        let mut others: Vec<_> =
            (1..MAX_DRAINS / 2).map(|_| Box::pin(patience(Some(drain.clone())))).collect();
        for other in &mut others {
            assert!(other.now_or_never().is_none());
        }
        assert_eq!(patience_of(Some(&drain)).await, Duration::ZERO, "the key has its share");
        assert!(patience_of(Some(&places.of(&Arc::from("other")))).await >= MAX_DRAIN_TIME);
        // One of the drains ends.
        others.pop();
        assert!(patience_of(Some(&drain)).await >= MAX_DRAIN_TIME);
    }
}
