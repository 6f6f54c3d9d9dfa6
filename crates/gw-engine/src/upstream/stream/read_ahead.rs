//! Opens the streams of a divided request. The streams that are open are read while others are not: their usage is known then, even if
//! the request ends before all of them are open. The client gets nothing of them before that, so a fallback stays silent.

use std::future::poll_fn;
use std::task::{Context as TaskContext, Poll};
use std::time::Instant;

use futures_util::stream::{FuturesUnordered, StreamExt};
use gw_providers::adapter::Encoded;
use gw_wire::failure::Failure;

use super::{MAX_STEPS_PER_POLL, UpstreamStream};
use crate::call::attempt_context::AttemptContext;
use crate::cpu_pool::offload;
use crate::event_memory::SMALL_EVENT;
use crate::request::fan_out::SubRequest;
use crate::upstream::merge::{ReadStep, SubStream, UpstreamSource};
use crate::upstream::opening::{OpenedCall, one_of_several};

/// The most bytes of output that wait for the streams that are not open.
const MOST_BYTES: usize = 4 << 20;

/// The next event while the streams are opened.
enum PartsStep {
    Opened(Box<OpenedCall>),
    /// A piece takes long to read.
    Heavy,
    AllOpen,
}

impl UpstreamStream {
    /// Opens the streams of all parts. Returns when the last of their calls began.
    ///
    /// # Errors
    /// A stream cannot be opened, or one that is open has failed.
    pub(super) async fn open_parts(
        &mut self,
        context: &AttemptContext,
        parts: &[(SubRequest, Encoded)],
    ) -> Result<Instant, Failure> {
        let (candidate, attempt) = (self.candidate.clone(), self.attempt);
        self.source = UpstreamSource::many(parts.len());
        let open = |part| one_of_several(context, &candidate, attempt, part);
        let mut opening: FuturesUnordered<_> = parts.iter().map(open).collect();
        let mut began = attempt.at;
        loop {
            let step = poll_fn(|cx| match opening.poll_next_unpin(cx) {
                Poll::Ready(Some(opened)) => {
                    Poll::Ready(opened.map(|opened| PartsStep::Opened(Box::new(opened))))
                }
                Poll::Ready(None) => Poll::Ready(Ok(PartsStep::AllOpen)),
                Poll::Pending => self.poll_ahead(cx, context).map_ok(|()| PartsStep::Heavy),
            });
            match step.await {
                Ok(PartsStep::Opened(opened)) => {
                    began = began.max(opened.began);
                    self.add_part(context, *opened);
                }
                Ok(PartsStep::Heavy) => offload(|| self.digest()).await,
                Ok(PartsStep::AllOpen) => return Ok(began),
                Err(failure) => {
                    // The other streams may have brought their usage at the same moment.
                    let _ = poll_fn(|cx| Poll::Ready(self.poll_ahead(cx, context))).await;
                    self.observe(&context.upstream_calls);
                    return Err(failure);
                }
            }
        }
    }

    fn add_part(&mut self, context: &AttemptContext, mut opened: OpenedCall) {
        if context.granted.is_some() {
            opened.response.body.read_by_chunk();
        }
        // All parts are the same request, so the warnings of one are those of all.
        self.warnings = opened.warnings;
        self.source.add(SubStream {
            call: opened.call,
            decoder: self.candidate.provider.adapter().stream(&opened.reading),
            body: opened.response.body,
            first: opened.first,
        });
    }

    /// Reads the streams that are open. Ready: a piece takes long to read, or a stream has failed.
    fn poll_ahead(
        &mut self,
        cx: &mut TaskContext<'_>,
        context: &AttemptContext,
    ) -> Poll<Result<(), Failure>> {
        for _ in 0..MAX_STEPS_PER_POLL {
            if let Some(failure) = self.normaliser.take_failure() {
                return Poll::Ready(Err(failure));
            }
            if !self.may_read_ahead(context) {
                self.observe_early(&context.upstream_calls);
                return Poll::Pending;
            }
            match self.poll_step(cx) {
                Poll::Pending => {
                    self.observe_early(&context.upstream_calls);
                    return Poll::Pending;
                }
                Poll::Ready(ReadStep::Heavy) => return Poll::Ready(Ok(())),
                Poll::Ready(ReadStep::Progress | ReadStep::Over) => {}
            }
        }
        self.observe_early(&context.upstream_calls);
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Whether there is room for more output, and money for more tokens: the reservation grows only when all streams are open.
    fn may_read_ahead(&mut self, context: &AttemptContext) -> bool {
        let held = self.output.capacity().saturating_add(self.source.held_bytes());
        if held > MOST_BYTES {
            return false;
        }
        if held > SMALL_EVENT {
            // A buffer that grows doubles.
            let has_room = self.half_event.set(held.saturating_mul(2).saturating_add(SMALL_EVENT)).is_ok();
            self.count_large();
            if !has_room {
                return false;
            }
        }
        context.granted.is_none_or(|granted| {
            self.observe(&context.upstream_calls);
            context.upstream_calls.all().cost < granted
        })
    }
}
