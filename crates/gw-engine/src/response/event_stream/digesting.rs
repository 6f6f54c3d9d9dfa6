//! A stream stream of which a piece takes long to read: the CPU pool reads it, and other connections go on meanwhile.

use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use crate::clock;
use crate::cpu_pool::offload;
use crate::response::event_stream::EventStream;
use crate::response::event_stream::state::{Polled, State};

impl EventStream {
    /// Has the piece read that takes long.
    pub(super) fn digest(&mut self) {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Streaming(call, mut stream) => {
                // Should the client go away meanwhile, the meter knows what has been seen: before the step, and at its end.
                stream.observe(&call.context.upstream_calls);
                let (cpu, log) = (call.context.cpu.clone(), Arc::clone(&call.context.client.log));
                let reading = cpu.host(async move {
                    offload(|| {
                        stream.digest();
                        stream.observe(&call.context.upstream_calls);
                    })
                    .await;
                    (call, stream)
                });
                self.state = State::Digesting(Box::pin(reading), log);
            }
            other => self.state = other,
        }
    }

    /// None = nothing is read there, or no longer.
    pub(super) fn poll_digesting(&mut self, cx: &mut TaskContext<'_>) -> Option<Polled> {
        let State::Digesting(reading, _) = &mut self.state else { return None };
        match reading.as_mut().poll(cx) {
            Poll::Ready((call, stream)) => {
                let (now, is_content) = (clock::now(), !stream.output.is_empty());
                if is_content || !self.is_waiting {
                    self.last_heard = now;
                }
                self.is_waiting = !is_content;
                self.state = State::Streaming(call, stream);
                // As of every piece, only content is a sign of life.
                if is_content { None } else { self.overdue(now) }
            }
            Poll::Pending => self.poll_clocks(cx),
        }
    }
}
