//! A stream that requests share. It writes a log of its events, and each request writes its own client's stream from it.

use gw_wire::stream::Normaliser;

use crate::call::answer_closing::AnswerClosing;
use crate::call::{Call, CallSummary};
use crate::error::{Error, Kind};
use crate::response::event_stream::EventStream;
use crate::response::event_stream::state::{StreamState, deadline_of};
use crate::shutdown::CutoffWatch;
use crate::upstream::stream::UpstreamStream;

impl EventStream {
    /// The stream of a call that requests share. It sends no keep-alives, because each reader has its own, and its task
    /// knows how long it runs without readers.
    pub(crate) fn for_sharing(call: Box<Call>, stream: Box<UpstreamStream>, cut: CutoffWatch) -> Self {
        let due = deadline_of(&call, &stream);
        let mut shared = Self::new(StreamState::Streaming(call, stream), None, cut, None).due_by(due);
        shared.is_recorded = true;
        shared
    }

    /// Takes the summary of a complete answer.
    pub(crate) fn take_summary(&mut self) -> Option<Box<CallSummary>> {
        self.summary.take()
    }

    /// Takes the error that the stream ended with.
    pub(crate) fn failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    /// Takes the end of the answer for the client that pays for it.
    pub(crate) fn take_closing(&mut self) -> Option<Box<AnswerClosing>> {
        self.closing.take()
    }

    /// Writes the end of a complete answer. A shared stream leaves it to its readers.
    pub(super) fn close(
        &mut self,
        call: &Call,
        normaliser: &mut Normaliser,
        closing: AnswerClosing,
        out: &mut Vec<u8>,
    ) {
        if self.is_recorded {
            if normaliser.is_unreadable_for_leader() {
                // The client that pays gets an error. Readers of other dialects get the answer.
                call.context.client.log.ended(Kind::UpstreamStreamError.code());
            }
            normaliser.finish_recording(out);
            self.closing = Some(Box::new(closing));
        } else {
            normaliser.finish(&closing.borrowed(), out);
        }
    }
}
