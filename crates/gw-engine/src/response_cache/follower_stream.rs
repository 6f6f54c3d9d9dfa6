//! The body of a streamed answer that requests share. Each reader, the leader too, reads the events of the shared call
//! and writes its own client's stream, with its own id and its own `gateway` object.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use gw_cache::{End, Follower, Next, Outcome};
use gw_wire::dialects::{AnswerEncoder, StreamError};
use gw_wire::money::Money;
use gw_wire::stream::{Closing, close_with_error};
use tokio::task::coop;

use crate::call::Call;
use crate::error::{Error, Kind};
use crate::response::followed_stream::FollowedStream;
use crate::response_cache::caching::ResponseCache;
use crate::response_cache::rendered;
use crate::response_cache::reply_context::ReplyContext;
use crate::response_cache::shared_answer::{
    FlightError, FlightResult, LogOnDisconnect, SharedAnswer, SharedFailure, gone,
};
use crate::response_cache::stream_reader::{ReadFault, StreamReader};

fn too_slow() -> Error {
    let message = "The stream was read too slowly to go on sharing its call; it was cut.";
    Error::new(Kind::UpstreamStreamError, message)
}

/// A stream that follows a shared call.
pub(crate) struct FollowerStream {
    caching: Arc<ResponseCache>,
    reply_context: ReplyContext,
    follower: Follower<FlightResult, FlightError>,
    role: ReaderRole,
    reader: StreamReader,
    first: Option<Bytes>,
    /// A part of the answer has been sent.
    begun: bool,
    /// An event was too large before a part of the answer was sent. The reader gets the whole answer at the end.
    skips: bool,
    over: bool,
}

enum ReaderRole {
    /// The request that started the call. A drop before the end counts as a disconnect.
    Leader(LogOnDisconnect),
    /// A request that joined, with its own call, which is settled as answered by another one.
    Joined(Box<Call>),
}

impl FollowerStream {
    pub(crate) fn new(
        caching: Arc<ResponseCache>,
        reply_context: ReplyContext,
        follower: Follower<FlightResult, FlightError>,
        call: Option<Box<Call>>,
        first: Option<Bytes>,
    ) -> Self {
        let (role, max_event_bytes) = match call {
            None => (ReaderRole::Leader(LogOnDisconnect(Some(Arc::clone(&reply_context.log)))), usize::MAX),
            // An event larger than the flight's log is not written for each follower.
            Some(call) => (ReaderRole::Joined(call), caching.flights.bounds().max_log_bytes),
        };
        let reader = reply_context.reader(max_event_bytes);
        Self {
            caching,
            reply_context,
            follower,
            role,
            reader,
            first,
            begun: false,
            skips: false,
            over: false,
        }
    }

    /// The next piece of the log, or the end.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Next<FlightResult, FlightError>> {
        if let Some(piece) = self.first.take() {
            return Poll::Ready(Next::Chunk(piece));
        }
        let step = std::task::ready!(coop::poll_proceed(cx));
        let next = std::task::ready!(self.follower.poll_next(cx));
        step.made_progress();
        Poll::Ready(next)
    }

    /// The output of a piece that was read.
    fn take_read(&mut self, read: Result<Bytes, ReadFault>) -> Bytes {
        match read {
            Ok(output) => {
                self.begun |= !output.is_empty();
                output
            }
            // A reader that has a part of the answer cannot skip the event.
            Err(ReadFault::TooLarge) if !self.begun => {
                self.skips = true;
                self.reader = self.reply_context.reader(0);
                Bytes::new()
            }
            Err(fault) => {
                self.over = true;
                self.broken(&fault.error())
            }
        }
    }

    fn end(&mut self, end: End<FlightResult, FlightError>) -> Bytes {
        if let ReaderRole::Leader(leaving) = &mut self.role {
            leaving.0 = None;
        }
        match end {
            End::Complete(done) => self.complete(&done),
            End::Failed(fault) if self.is_leader() => self.failed_for_leader(&fault),
            // The leader's limits do not concern its followers.
            End::Failed(fault) if fault.is_the_leaders => self.broken(&gone()),
            End::Failed(fault) => self.broken(&fault.error),
            End::WorkLost => self.broken(&gone()),
            End::TooSlow => self.broken(&too_slow()),
        }
    }

    fn complete(&mut self, done: &SharedAnswer) -> Bytes {
        let reply_context = self.reply_context.of(done);
        let warnings = done.warnings();
        let answer = &done.answer;
        if !self.reader.is_complete() {
            // The answer came from the cache or from a call without a stream, or an event was too large to be shared.
            if self.begun || !done.is_whole {
                return self.broken(&gone());
            }
            self.finish_joined(done, warnings);
            return rendered::replayed(&reply_context, answer, warnings)
                .map_or_else(|error| self.broken(&error), Bytes::from);
        }
        let end = match (&self.role, &done.closing) {
            (ReaderRole::Leader(_), Some(closing)) => self.reader.finish(&closing.borrowed()),
            (ReaderRole::Leader(_), None) => return self.broken(&gone()),
            (ReaderRole::Joined(_), _) => {
                let gateway = reply_context.meta(answer, warnings);
                let closing = Closing { usage: answer.usage, cost: Some(Money::ZERO), gateway: &gateway };
                self.reader.finish(&closing)
            }
        };
        match end {
            Ok(end) => {
                self.finish_joined(done, warnings);
                end
            }
            Err(fault) => self.broken(&fault.error()),
        }
    }

    /// Settles the call of a request that got another request's answer.
    fn finish_joined(&mut self, done: &SharedAnswer, warnings: &[&'static str]) {
        if let ReaderRole::Joined(call) = &mut self.role {
            self.caching.cache.count(Outcome::Coalesced(&done.answer));
            call.finish_cached(&done.answer, done.fallback_used, warnings);
        }
    }

    /// Ends the leader's stream with the error of its call.
    fn failed_for_leader(&mut self, fault: &SharedFailure) -> Bytes {
        let Some(closing) = &fault.closing else { return self.broken(&fault.error) };
        // A limit of the leader ended the answer. The client gets the usage and the reason.
        let mut out = Vec::new();
        self.reader.write_usage(&closing.borrowed(), &mut out);
        let (_, class, code) = fault.error.kind.row();
        let error = StreamError {
            gateway: Some(&closing.gateway),
            ..StreamError::new(&fault.error.message, class, code)
        };
        self.write_error(&error, out)
    }

    /// Ends the stream with an error event.
    fn broken(&mut self, error: &Error) -> Bytes {
        let kind = if error.kind == Kind::UpstreamTimeout { error.kind } else { Kind::UpstreamStreamError };
        if let ReaderRole::Joined(call) = &mut self.role {
            call.fail(error);
        }
        let error = StreamError {
            cause: error.cause_code(),
            ..StreamError::new(&error.message, "upstream_error", kind.code())
        };
        self.write_error(&error, Vec::new())
    }

    fn write_error(&mut self, error: &StreamError<'_>, mut out: Vec<u8>) -> Bytes {
        close_with_error(self.take_encoder(), &mut out, error);
        self.reader.hand_out_end(out)
    }
}

impl FollowedStream for FollowerStream {
    fn has_content(&self) -> bool {
        self.first.is_some()
    }

    fn deadline(&self) -> Instant {
        self.reply_context.deadline
    }

    fn is_leader(&self) -> bool {
        matches!(self.role, ReaderRole::Leader(_))
    }

    fn cut(&mut self, kind: Kind, code: &'static str) {
        self.over = true;
        self.reply_context.log.ended(code);
        match &mut self.role {
            ReaderRole::Leader(leaving) => leaving.0 = None,
            ReaderRole::Joined(call) => {
                let error = Error { code: Some(code.into()), ..Error::new(kind, "The stream was cut.") };
                call.fail(&error);
            }
        }
    }

    fn take_encoder(&mut self) -> Option<Box<dyn AnswerEncoder>> {
        self.reader.take_encoder()
    }

    fn keepalive(&mut self, out: &mut Vec<u8>) {
        self.reader.keepalive(out);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if self.over {
                return Poll::Ready(None);
            }
            let out = match std::task::ready!(self.reader.poll_reading(cx)) {
                Some(read) => self.take_read(read),
                None => match std::task::ready!(self.poll_next(cx)) {
                    Next::Chunk(_) if self.skips => continue,
                    Next::Chunk(piece) => match self.reader.read(piece) {
                        Some(read) => self.take_read(read),
                        None => continue,
                    },
                    Next::End(end) => {
                        self.over = true;
                        self.end(end)
                    }
                },
            };
            if !out.is_empty() {
                return Poll::Ready(Some(out));
            }
        }
    }
}
