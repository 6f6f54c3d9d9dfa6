//! A stream with a piece that takes long to read. The CPU pool reads it, so that other connections are not held up.

use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use crate::cpu_pool::offload;
use crate::response::event_stream::EventStream;
use crate::response::event_stream::state::{Polled, StreamState};

impl EventStream {
    /// Has the CPU pool read the piece.
    pub(super) fn digest(&mut self) {
        match std::mem::replace(&mut self.state, StreamState::Over) {
            StreamState::Streaming(call, mut stream) => {
                // The usage is recorded before the step and at its end, so that it is known if the client disconnects
                // meanwhile.
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
                self.state = StreamState::Digesting(Box::pin(reading), log);
            }
            other => self.state = other,
        }
    }

    /// Waits for the CPU pool; None = it is done.
    pub(super) fn poll_digesting(&mut self, cx: &mut TaskContext<'_>) -> Option<Polled> {
        let StreamState::Digesting(reading, _) = &mut self.state else { return None };
        match reading.as_mut().poll(cx) {
            Poll::Ready((call, stream)) => {
                let is_content = !stream.output.is_empty();
                self.state = StreamState::Streaming(call, stream);
                self.heard(is_content)
            }
            Poll::Pending => self.poll_clocks(cx),
        }
    }
}
