//! A live stream of which a piece takes long to read: the CPU pool reads it, and other connections go on meanwhile.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Instant;

use super::{EventStream, Polled, State};
use crate::attempts::Call;
use crate::cpu_pool::offload;
use crate::live::Live;

/// Reads the piece; gives call and stream back.
pub(crate) type Digesting = Pin<Box<dyn Future<Output = (Box<Call>, Box<Live>)> + Send>>;

impl EventStream {
    /// Has the piece read that takes long.
    pub(super) fn digest(&mut self) {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Live(call, mut live) => {
                // Should the client go away meanwhile, the meter knows what has been seen: before the step, and at its end.
                live.meter(&call.job.meter);
                let (cpu, log) = (call.job.cpu.clone(), Arc::clone(&call.job.context.log));
                let reading = cpu.host(async move {
                    offload(|| {
                        live.digest();
                        live.meter(&call.job.meter);
                    })
                    .await;
                    (call, live)
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
            Poll::Ready((call, live)) => {
                let (now, is_content) = (Instant::now(), !live.out.is_empty());
                if is_content || !self.is_waiting {
                    self.last_heard = now;
                }
                self.is_waiting = !is_content;
                self.state = State::Live(call, live);
                // As of every piece, only content is a sign of life.
                if is_content { None } else { self.overdue(now) }
            }
            Poll::Pending => self.poll_clocks(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::time::Duration;

    use http_body::Body;

    use super::*;
    use crate::call::CallLog;
    use crate::cut::Cut;

    /// A stream of which a piece is never read to its end.
    fn digesting(log: &Arc<CallLog>, keepalive: Option<Duration>, due: Duration) -> Pin<Box<EventStream>> {
        let state = State::Digesting(Box::pin(pending()), Arc::clone(log));
        let stream = EventStream::new(state, keepalive, Cut::default(), None);
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
        assert_eq!(log.record().status, None, "its client went away");

        let mut stream = digesting(&log, None, Duration::ZERO);
        let last = frame(&mut stream).await;
        assert!(last.contains("upstream_timeout") && last.ends_with("data: [DONE]\n\n"), "{last}");
        assert_eq!(log.record().status, Some("upstream_timeout"), "the row says why it ended");
    }
}
