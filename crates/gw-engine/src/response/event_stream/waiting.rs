//! A stream without a first token: before its head is sent, and after it.

use std::future::poll_fn;
use std::task::{Context as TaskContext, Poll};

use crate::error::{Error, Kind};
use crate::plan::candidate::Candidate;
use crate::response::event_stream::EventStream;
use crate::response::event_stream::state::{Polled, StreamState};
use crate::upstream::outcome::Answer;

impl EventStream {
    /// Waits for the first token before the head is sent. Returns the candidate that sent the token.
    ///
    /// # Errors
    /// No candidate answers.
    pub(crate) async fn opened(&mut self) -> Result<Option<Candidate>, Error> {
        let StreamState::Waiting(opening, _) = &mut self.state else { return Ok(None) };
        let (call, found) = poll_fn(|cx| opening.as_mut().poll(cx)).await;
        self.state = StreamState::Over;
        let (index, Answer::Stream(stream)) = found? else { return Err(no_stream()) };
        let served = call.plan.candidates.get(index).cloned();
        self.go_live(call, stream);
        self.last_sent = self.last_heard;
        Ok(served)
    }

    pub(super) fn poll_waiting(&mut self, cx: &mut TaskContext<'_>) -> Option<Polled> {
        let StreamState::Waiting(opening, _) = &mut self.state else { return None };
        let (mut call, found) = match opening.as_mut().poll(cx) {
            Poll::Ready(found) => found,
            Poll::Pending => return self.poll_clocks(cx),
        };
        match found {
            Ok((_, Answer::Stream(stream))) => {
                self.go_live(call, stream);
                None
            }
            Ok((_, Answer::Full(_) | Answer::Vectors(_) | Answer::Socket(_))) => {
                Some(self.fail(Vec::new(), &no_stream(), Kind::UpstreamStreamError, None))
            }
            Err(error) => {
                let kind = match error.kind {
                    Kind::UpstreamTimeout => Kind::UpstreamTimeout,
                    _ => Kind::UpstreamStreamError,
                };
                let gateway = call.meta_of_failure();
                Some(self.fail(Vec::new(), &error, kind, gateway.as_ref()))
            }
        }
    }
}

fn no_stream() -> Error {
    Error::new(Kind::InternalError, "The answer was not a stream.")
}
