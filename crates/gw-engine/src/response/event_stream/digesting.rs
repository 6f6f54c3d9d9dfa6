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
                self.closer = stream.normaliser.closer();
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
            Poll::Ready((mut call, mut stream)) => {
                let is_content = !stream.output.is_empty();
                let is_alive = stream.is_alive();
                if is_alive && !is_content {
                    stream.note_progress(&mut call);
                }
                self.state = StreamState::Streaming(call, stream);
                self.heard(is_content, is_alive)
            }
            Poll::Pending => self.poll_clocks(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::pin::Pin;
    use std::time::{Duration, Instant};

    use http_body::Body;

    use super::*;
    use crate::request::context::CallLog;
    use crate::shutdown::CutoffWatch;

    /// A stream with a piece that is never read to its end.
    fn digesting(log: &Arc<CallLog>, keepalive: Option<Duration>, due: Duration) -> Pin<Box<EventStream>> {
        let state = StreamState::Digesting(Box::pin(pending()), Arc::clone(log));
        let stream = EventStream::new(state, keepalive, CutoffWatch::default(), None);
        Box::pin(stream.due_by(Instant::now() + due))
    }

    async fn frame(stream: &mut Pin<Box<EventStream>>) -> String {
        let frame = poll_fn(|cx| stream.as_mut().poll_frame(cx)).await.unwrap().unwrap();
        String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn the_clocks_run_while_a_piece_is_read() {
        let log = Arc::new(CallLog::default());
        let keepalive = Some(Duration::from_millis(5));
        let mut stream = digesting(&log, keepalive, Duration::from_secs(600));
        assert_eq!(frame(&mut stream).await, ": keepalive\n\n");
        assert_eq!(frame(&mut stream).await, ": keepalive\n\n");
        drop(stream);
        assert_eq!(log.record().status, None, "its client disconnected");

        let mut stream = digesting(&log, None, Duration::ZERO);
        let last = frame(&mut stream).await;
        assert!(last.contains("upstream_timeout") && last.ends_with("data: [DONE]\n\n"), "{last}");
        assert_eq!(log.record().status, Some("upstream_timeout"), "the row has the reason of its end");
    }
}
